"""How time and memory grow, part by part: CPU seconds and the memory that a part took.

    python -m benchmarks.growth                     # minutes; build/growth.csv and build/growth.png
    python -m benchmarks.growth --quick             # every part at its two smallest sizes: seconds

Questions are decoded by a tiny model of random weights, which shows what the engine itself costs; M
and prompt lengths by SmolLM2, which carries the products and the attention of a real one.
Everything else is made up. Each size runs in a process of its own, so that no memory of a smaller
one is counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import Beam, Greedy, Sample, checked, compose_batches, decode, stop_tokens
from beamuq.explorer.explorer_page import Question, Section, page
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq_study.exhibits import figure_style
from benchmarks import card, evaluation
from benchmarks.common import MODEL, NEW_TOKENS, measured, questions, random_prompts, resident

Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """What grows, by what, through which sizes."""

    name: str
    by: str
    sizes: Sequence[int]
    run: Callable[[int], Any]


def decoded(model: Any, prompts: Sequence[Any], stops: frozenset[int], m: int = 10) -> None:
    """Greedy, samples and beams of all prompts, twelve questions at once."""
    for batch in compose_batches(prompts, 12):
        decode(
            model,
            batch,
            [Greedy(), Sample(m), Beam(m)],
            stop_ids=stops,
            seed=0,
            max_new_tokens=NEW_TOKENS,
        )


def compared(scorer: Any, pairs: int) -> None:
    """Similarities of distinct pairs of two texts each."""
    draw = random.Random(0)
    words = [f"{draw.choice('bcdfgl')}{draw.choice('aeiou')}{number}" for number in range(300)]
    texts = [" ".join(draw.choices(words, k=5)) for _ in range(2 * pairs)]
    scorer.score([*zip(texts[::2], texts[1::2], strict=True)])


def explored(count: int) -> None:
    """The explorer's page of questions with ten samples and ten beams, 16 methods."""
    draw = random.Random(0)
    made_up = []
    for number in range(count):
        rows = [made_up_candidate(draw) for _ in range(20)]
        pairs = {
            (first["text"], second["text"]): (draw.random(), None)
            for first in rows
            for second in rows
        }
        question = Question(
            f"q{number}", f"Question {number}?", rows[0], rows[:10], rows[10:], pairs=pairs
        )
        made_up.append(question)
    keys = [(f"q{number}", f"method {k}") for k in range(16) for number in range(count)]
    scores = pd.DataFrame(keys, columns=["id", "method"]).assign(variant="", setting="", value=0.5)
    page("made up", [], [Section("made up", "made up", made_up, scores)])


def made_up_candidate(draw: random.Random) -> Row:
    """An answer of four tokens."""
    ids = [draw.randrange(5000) for _ in range(4)]
    logprobs = [-draw.random() for _ in range(4)]
    texts = [f"w{token}" for token in ids]
    return {
        "text": " ".join(texts),
        "logprob": sum(logprobs),
        "token_ids": ids,
        "token_texts": texts,
        "token_logprobs": logprobs,
    }


def parts() -> list[Part]:
    """Every part, with what it runs."""
    torch.set_num_threads(1)
    tiny = card.random_model(card.TINY, "cpu")
    few = frozenset(range(0, card.TINY.shape[0], 4))
    loader: Any = AutoModelForCausalLM
    # copied: weights mapped from a file would count as memory of the first size that reads them
    model = deepcopy(loader.from_pretrained(MODEL, dtype=torch.float32).eval())
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    newline = stop_tokens(tokenizer, model)
    checked(model)  # not in the cost of any size
    checked(tiny)
    counts = (500, 1000, 2000)
    embedding = load_scorer(
        "embedding", MODEL.parent / "all-minilm-l6-v2", dtype=torch.float32, device=model.device
    )
    embedding.model = deepcopy(embedding.model)
    prompts = random_prompts(random.Random(0), counts[-1], 40, 20, len(few) * 4)
    by_length = {length: questions(tokenizer, length, 4) for length in (125, 250, 500, 1000)}
    lexical = load_scorer("lexical")
    return [
        Part("decoding", "questions", counts, lambda n: decoded(tiny, prompts[:n], few)),
        Part(
            "decoding", "M", (5, 10, 20, 40), lambda m: decoded(model, by_length[125], newline, m)
        ),
        Part(
            "decoding",
            "prompt tokens",
            (*by_length,),
            lambda length: decoded(model, by_length[length], newline),
        ),
        Part(
            "similarity, ROUGE-L", "distinct pairs", (1000, 2000, 4000), partial(compared, lexical)
        ),
        Part(
            "similarity, MiniLM", "distinct pairs", (250, 500, 1000), partial(compared, embedding)
        ),
        Part("evaluation", "questions", counts, lambda n: evaluation.cell(0, n, 16)),
        Part("evaluation", "methods", (6, 12, 24), lambda count: evaluation.cell(0, 1000, count)),
        Part("explorer", "questions", counts, explored),
    ]


def apart(run: Callable[[], Any]) -> dict[str, float]:
    """The cost of ``run`` in a process of its own; its peak without what this process holds."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def work() -> None:
        before = resident() / 1e6
        cost = measured(run)[1]
        send.send(
            {"cpu_seconds": cost.cpu, "wall_seconds": cost.wall, "peak_mb": cost.peak - before}
        )

    process = context.Process(target=work)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"a size failed with {process.exitcode}")
    return receive.recv()


def draw(table: pd.DataFrame, path: Path) -> None:
    """One panel for each part: costs and sizes per the smallest's; grey: linear."""
    with figure_style.settings():
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(
            2, 4, figsize=(10, 5), sharex=True, sharey=True, layout="constrained"
        )
        panels = list(axes.flat)
        for (part, by), sizes in table.groupby(["part", "by"], sort=False):
            draw_panel(panels.pop(0), f"{part},\nby {by}", sizes)
        for empty in panels:
            empty.set_axis_off()
        axes[0, 0].legend()
        figure.supxlabel("size per smallest size")
        figure.supylabel("cost per that of the smallest size")
        figure.savefig(path, dpi=130)


def draw_panel(ax: Any, title: str, sizes: pd.DataFrame) -> None:
    """Costs of one part; the title tells the power of CPU time."""
    looks = {
        "cpu_seconds": (figure_style.SAMPLES, "o-", "CPU time"),
        "peak_mb": (figure_style.BEAMS, "s--", "peak memory"),
    }
    ax.plot([1, 8], [1, 8], color=figure_style.GREY, linewidth=0.8, label="linear")
    for column, (colour, line, name) in looks.items():
        cost = sizes[column] / sizes[column].iloc[0]
        ax.plot(sizes["size"] / sizes["size"].iloc[0], cost, line, color=colour, label=name)
    power = np.polyfit(np.log(sizes["size"]), np.log(sizes["cpu_seconds"]), 1)[0]
    ax.set(xscale="log", yscale="log", title=f"{title}: power {power:.2f}")
    ax.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    ax.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    ax.minorticks_off()


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every part and size; write the table and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--out", type=Path, default=Path("build/growth"), help="without .csv and .png"
    )
    arguments = parser.parse_args(argv)
    rows = []
    for part in parts():
        for size in part.sizes[:2] if arguments.quick else part.sizes:
            cost = apart(partial(part.run, size))
            rows.append({"part": part.name, "by": part.by, "size": size} | cost)
            print(rows[-1], flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows)
    table.round(3).to_csv(arguments.out.with_suffix(".csv"), index=False)
    draw(table, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()

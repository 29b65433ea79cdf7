"""Tune a causal model on the right answers of a dataset: a short run, on one core if need be.

``studies/tuned.yaml`` names the commands that make its models. A row of the data becomes one text:
the base prompt of its last question, without examples, the answer and a newline. A dialogue's
earlier turns are in that prompt, so one text trains all of its answers. The loss is the mean over
the tokens of a step's answers and of the newlines behind them; no other token counts.

AdamW, a linear warm-up, then a linear decay to 0 over all epochs, so that the models of fewer
epochs are of the same run. Same settings on the same machine: same weights, also where a run ended
early and the same command goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from beamuq.decoding.context_window import context_window
from beamuq.errors import BeamUQError
from beamuq.io import atomic, file_sha256, write_text
from beamuq.models.load_model import load_causal
from beamuq.models.model_folder import model_identity
from beamuq.models.prompt_tokens import plain_prompt_ids
from beamuq.prompts.prompt_template import PROMPTS, Template, load, render
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.question import Question
from beamuq_study.data.question_and_example_choice import permutation
from beamuq_study.data.read_dataset_file import read_rows


class Text(NamedTuple):
    """Token ids of one text (T,), and whether each is trained (T,)."""

    ids: list[int]
    trained: list[bool]


def texts_of(adapter: str, path: Path, tokenizer: Any, window: int | None = None) -> list[Text]:
    """One text a row of a split's file, in its order.

    Raises BeamUQError if the file or a row is unusable, a text has more tokens than the model's
    ``window``, or as :func:`text_of`.
    """
    template = load(PROMPTS / "base" / f"{adapter}.txt")
    kind = ADAPTERS[adapter]
    rows = read_rows(path, kind.columns, kind.unread)
    texts = []
    for place, row in rows:
        text = text_of(list(kind.read(row, path.stem)), template, tokenizer, place)
        if window is not None and len(text.ids) > window:
            raise BeamUQError(
                f"{place}: {len(text.ids)} tokens exceed the model's context of {window}; drop the "
                "row or use a model with a longer context"
            )
        texts.append(text)
    return texts


def text_of(turns: Sequence[Question], template: Template, tokenizer: Any, place: str) -> Text:
    """The text of a dialogue's turns, or of one question.

    Raises BeamUQError if a prompt's tokens are not those that the text begins with.
    """
    ids: list[int] = []
    trained: list[bool] = []
    for turn in turns:
        prompt = render(template, turn, [], where=place)
        answered = f"{prompt} {turn['references'][0]}\n"
        prompt_ids = plain_prompt_ids(tokenizer, prompt)
        answered_ids = plain_prompt_ids(tokenizer, answered)
        begins_alike = prompt_ids[: len(ids)] == ids
        if not begins_alike or answered_ids[: len(prompt_ids)] != prompt_ids:
            raise BeamUQError(
                f"{place}: the tokens of a prompt change with what follows; use another tokenizer"
            )
        trained += [False] * (len(prompt_ids) - len(ids))
        trained += [True] * (len(answered_ids) - len(prompt_ids))
        ids = answered_ids
    return Text(ids, trained)


def summed_loss(model: Any, text: Text) -> torch.Tensor:
    """Minus the sum of the log-probabilities of a text's trained tokens, a scalar in nats."""
    places = [place for place, is_trained in enumerate(text.trained) if is_trained]
    before = torch.tensor(places) - 1
    targets = torch.tensor([text.ids[place] for place in places])
    logits = model(
        input_ids=torch.tensor([text.ids]), logits_to_keep=before, use_cache=False
    ).logits
    return torch.nn.functional.cross_entropy(logits[0].float(), targets, reduction="sum")


def rate_factor(step: int, steps: int, warm_up: int) -> float:
    """By what the learning rate of a step, from 0 to ``steps`` − 1, is multiplied, in (0, 1]."""
    if step < warm_up:
        return (step + 1) / warm_up
    return (steps - step) / (steps - warm_up)


def steps_of(count: int, settings: dict[str, Any]) -> list[list[int]]:
    """The numbers of the texts of each step, all epochs one after another, each in a new order."""
    size = settings["batch"]
    steps = []
    for epoch in range(1, settings["epochs"] + 1):
        order = permutation(count, settings["seed"], "tune_model", f"epoch {epoch}").tolist()
        steps += [order[start : start + size] for start in range(0, count, size)]
    return steps


def train(settings: dict[str, Any], out: Path, *, checkpoint_every: int) -> None:
    """Train to the last step. The folders ``epoch-N`` of ``out`` become models.

    Raises BeamUQError if ``out`` holds a run of other settings, or what is read is unusable.
    """
    identity = described(settings)
    torch.use_deterministic_algorithms(True)
    cpu = torch.device("cpu")
    model, tokenizer = load_causal(Path(settings["model"]), dtype=torch.float32, device=cpu)
    texts = _texts_of_files(settings["data"], tokenizer, context_window(model))
    steps = steps_of(len(texts), settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["rate"])
    first = _resume(out, identity, model, optimizer)
    model.train()
    for step in range(first, len(steps)):
        torch.manual_seed(settings["seed"] + step)  # dropout, where a model has it
        rate = settings["rate"] * rate_factor(step, len(steps), settings["warm_up"])
        loss = _take_step(model, optimizer, [texts[number] for number in steps[step]], rate)
        print(f"step {step + 1} of {len(steps)}: loss {loss:.4f}, rate {rate:.2e}", flush=True)
        epoch, rest = divmod(step + 1, len(steps) // settings["epochs"])
        if rest == 0 and epoch in settings["keep"]:
            _write_model(out / f"epoch-{epoch}", model, tokenizer)
        if rest == 0 or (step + 1) % checkpoint_every == 0:
            _write_checkpoint(out, identity, step + 1, model, optimizer)


def _texts_of_files(files: Sequence[str], tokenizer: Any, window: int | None) -> list[Text]:
    """The texts of all files, each written ADAPTER=FILE."""
    texts = []
    for data in files:
        texts += texts_of(*_named(data), tokenizer, window)
    return texts


def _take_step(model: Any, optimizer: Any, batch: Sequence[Text], rate: float) -> float:
    """One step of the optimizer at a learning rate; returns the loss before it, in nats a token."""
    count = sum(sum(text.trained) for text in batch)
    loss = 0.0
    for text in batch:
        part = summed_loss(model, text) / count
        part.backward()
        loss += part.item()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
    return loss


def described(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with files by their content: where they lie changes nothing."""
    data = [_named(data) for data in settings["data"]]
    return settings | {
        "model": model_identity(Path(settings["model"]))["content"],
        "data": [f"{adapter} {path.stem} {file_sha256(path)}" for adapter, path in data],
    }


def _named(data: str) -> tuple[str, Path]:
    adapter, _, path = data.partition("=")
    if adapter not in ADAPTERS or not path:
        raise BeamUQError(f"--data {data!r}: write ADAPTER=FILE; known: {', '.join(ADAPTERS)}")
    return adapter, Path(path)


def _resume(out: Path, settings: dict[str, Any], model: Any, optimizer: Any) -> int:
    """Load the last checkpoint, if there is one; returns how many steps it has taken."""
    path = out / "checkpoint.pt"
    if not path.is_file():
        write_text(out / "settings.json", json.dumps(settings, indent=1, sort_keys=True) + "\n")
        return 0
    saved = torch.load(path, weights_only=True)
    if saved["settings"] != settings:
        raise BeamUQError(f"{path}: is of a run with other settings; choose another --out")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def _write_checkpoint(
    out: Path, settings: dict[str, Any], step: int, model: Any, optimizer: Any
) -> None:
    state = {"settings": settings, "step": step}
    state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with atomic(out / "checkpoint.pt") as temporary:
        torch.save(state, temporary)


def _write_model(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write a model whole or not at all."""
    partial = folder.with_name(f".{folder.name}.partial")
    for place in (partial, folder):
        shutil.rmtree(place, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)


def positive(word: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError for any other word."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from 1 on")
    return int(word)


def parser_of_options() -> argparse.ArgumentParser:
    usual = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=usual)
    parser.add_argument("--model", required=True, help="a folder in the layout of transformers")
    parser.add_argument("--data", required=True, nargs="+", help="ADAPTER=FILE in the hub's schema")
    parser.add_argument("--out", required=True, type=Path, help="where models and checkpoint go")
    parser.add_argument("--epochs", type=positive, default=4)
    parser.add_argument("--keep", type=positive, nargs="+", default=[1, 2, 4], help="epochs")
    parser.add_argument("--rate", type=float, default=5e-5, help="the largest learning rate")
    parser.add_argument("--warm-up", type=positive, default=6, help="steps of warm-up")
    parser.add_argument("--batch", type=positive, default=4, help="texts a step")
    parser.add_argument("--seed", type=positive, default=1)
    parser.add_argument("--checkpoint-every", type=positive, default=15, help="steps")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    settings = vars(parser_of_options().parse_args(words))
    out = settings.pop("out")
    checkpoint_every = settings.pop("checkpoint_every")
    try:
        train(settings, out, checkpoint_every=checkpoint_every)
    except BeamUQError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

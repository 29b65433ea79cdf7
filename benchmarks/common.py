"""What the benchmarks share: prompts, ``generate`` calls, costs, and the JSON that they write."""

from __future__ import annotations

import copy
import json
import os
import platform
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
import transformers

from beamuq.decoding import Beam, Greedy, Policy, Prompt, Sample

MODEL = Path(__file__).resolve().parents[1] / "resources" / "models" / "smollm2-135m-instruct"
NEW_TOKENS = 20
Results = dict[str, Any]  # what is measured, by name, as JSON has it
M = 10
POLICIES: list[Policy] = [Greedy(), Sample(M), Beam(M)]
COUNTRIES = """
France,Paris,Europe Italy,Rome,Europe Spain,Madrid,Europe Portugal,Lisbon,Europe
Germany,Berlin,Europe Austria,Vienna,Europe Poland,Warsaw,Europe Greece,Athens,Europe
Norway,Oslo,Europe Sweden,Stockholm,Europe Finland,Helsinki,Europe Denmark,Copenhagen,Europe
Ireland,Dublin,Europe Hungary,Budapest,Europe Egypt,Cairo,Africa Kenya,Nairobi,Africa
Ghana,Accra,Africa Senegal,Dakar,Africa Tunisia,Tunis,Africa Morocco,Rabat,Africa
Ethiopia,Addis_Ababa,Africa Japan,Tokyo,Asia China,Beijing,Asia India,New_Delhi,Asia
Thailand,Bangkok,Asia Vietnam,Hanoi,Asia Iran,Tehran,Asia Iraq,Baghdad,Asia Nepal,Kathmandu,Asia
Mongolia,Ulaanbaatar,Asia Peru,Lima,South_America Chile,Santiago,South_America
Ecuador,Quito,South_America Colombia,Bogota,South_America Canada,Ottawa,North_America
Cuba,Havana,North_America Mexico,Mexico_City,North_America Kuwait,Kuwait_City,Asia
"""


@dataclass
class Cost:
    """What one way of decoding took."""

    cpu: float  # seconds
    wall: float  # seconds
    peak: float  # the most memory resident meanwhile, in MB


def questions(tokenizer: Any, length: int, count: int) -> list[Prompt]:
    """Few-shot prompts of about ``length`` tokens.

    Shots differ in order, so that questions share no prefix.
    """
    facts = questions_and_answers()
    prompts = []
    for number in range(count):
        shots = random.Random(number).sample(facts, len(facts))
        question, _ = shots.pop()
        examples = fitting_examples(tokenizer, shots, length - 12)
        tokens = tokenizer(f"{examples}Question: {question}\nAnswer:")["input_ids"]
        prompts.append(Prompt(f"q{number}", tuple(tokens)))
    return prompts


def questions_and_answers() -> list[tuple[str, str]]:
    """Three of each country."""
    facts = []
    for line in COUNTRIES.split():
        country, capital, continent = (word.replace("_", " ") for word in line.split(","))
        facts.append((f"What is the capital of {country}?", capital))
        facts.append((f"On which continent is {country}?", continent))
        facts.append((f"Of which country is {capital} the capital?", country))
    return facts


def fitting_examples(tokenizer: Any, shots: Sequence[tuple[str, str]], most: int) -> str:
    """As many answered questions as ``most`` tokens hold, the first shot last."""
    text = ""
    for question, answer in shots:
        longer = f"Question: {question}\nAnswer: {answer}\n\n{text}"
        if len(tokenizer(longer)["input_ids"]) > most:
            break
        text = longer
    return text


def resident() -> int:
    """The bytes of this process that are resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def resident_peak() -> Iterator[Callable[[], float]]:
    """The most memory resident in the block, in MB, looked at fifty times a second."""
    highest = resident()
    over = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not over.wait(0.02):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: highest / 1e6
    finally:
        over.set()
        watcher.join()


def measured(run: Callable[[], Any]) -> tuple[Any, Cost]:
    """The result of ``run`` and its cost."""
    with resident_peak() as peak:
        cpu = time.process_time()
        wall = time.perf_counter()
        result = run()
        cost = Cost(time.process_time() - cpu, time.perf_counter() - wall, 0.0)
    cost.peak = peak()
    return result, cost


def median(costs: Sequence[Cost]) -> Cost:
    """Medians of CPU and wall time, and the highest peak."""
    return Cost(
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.wall for cost in costs),
        max(cost.peak for cost in costs),
    )


def random_prompts(
    draw: random.Random, count: int, length: int, shared: int, vocabulary: int
) -> list[Prompt]:
    """Prompts of about ``length`` random tokens, of which they share the first ``shared``."""
    own = length - shared
    start = [draw.randrange(vocabulary // 2, vocabulary) for _ in range(shared)]
    lengths = [draw.randint(own - own // 4, own + own // 4) for _ in range(count)]
    ends = [
        [draw.randrange(vocabulary // 2, vocabulary) for _ in range(tokens)] for tokens in lengths
    ]
    return [Prompt(f"q{number}", (*start, *end)) for number, end in enumerate(ends)]


def left_padded(rows: Sequence[Sequence[int]], width: int) -> torch.Tensor:
    """The rows, with zeros in front: (rows, width)."""
    return torch.tensor([[0] * (width - len(row)) + [*row] for row in rows])


make_config: Any = transformers.GenerationConfig


class Generate:
    """Calls of ``generate``, left-padded, with the engine's stop tokens and no other setting."""

    def __init__(self, model: Any, stops: frozenset[int]) -> None:
        self._model: Any = model
        self._stops = stops
        model.generation_config = self._config(make_config())

    def _config(self, call: Any) -> Any:
        """A call's own options, and those that all calls have."""
        config = copy.deepcopy(call)
        config.max_new_tokens = NEW_TOKENS
        config.pad_token_id = 0
        config.eos_token_id = sorted(self._stops) or None
        return config

    def call(
        self, prompts: Sequence[Prompt], batch: int, call: Any
    ) -> dict[str, list[tuple[int, ...]]]:
        """Generated tokens by prompt id, each cut after its first stop; ``call``: of `CALLS`."""
        config = self._config(call)
        answers: dict[str, list[tuple[int, ...]]] = {}
        for first in range(0, len(prompts), batch):
            chunk = prompts[first : first + batch]
            rows = self._generated(chunk, config)
            per_prompt = len(rows) // len(chunk)
            for index, prompt in enumerate(chunk):
                own_rows = rows[index * per_prompt : (index + 1) * per_prompt]
                answers[prompt.id] = [self._cut(row) for row in own_rows]
        return answers

    def _generated(self, prompts: Sequence[Prompt], config: Any) -> list[list[int]]:
        """The tokens behind the prompts, some rows of each prompt one after another."""
        longest = max(len(prompt.token_ids) for prompt in prompts)
        ids = left_padded([prompt.token_ids for prompt in prompts], longest)
        mask = left_padded([[1] * len(prompt.token_ids) for prompt in prompts], longest)
        with torch.inference_mode():
            sequences = self._model.generate(
                ids.to(self._model.device),
                attention_mask=mask.to(self._model.device),
                generation_config=config,
            )
        rows: list[list[int]] = sequences[:, longest:].tolist()
        return rows

    def _cut(self, row: list[int]) -> tuple[int, ...]:
        ends = (place + 1 for place, token in enumerate(row) if token in self._stops)
        return tuple(row[: next(ends, NEW_TOKENS)])


CALLS = {
    "greedy": make_config(do_sample=False),
    "samples": make_config(
        do_sample=True, num_return_sequences=M, top_k=0, top_p=1.0, temperature=1.0
    ),
    "beams": make_config(
        do_sample=False,
        num_beams=M,
        num_return_sequences=M,
        length_penalty=0.0,
        early_stopping="never",
    ),
}


def versions(machine: str = platform.processor() or platform.machine()) -> dict[str, str]:
    """The date, the machine and the packages that every result tells."""
    return {
        "date": date.today().isoformat(),
        "machine": machine,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def write_json(path: Path, results: Results) -> None:
    """Write what was measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {path}")

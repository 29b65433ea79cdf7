"""What the benchmarks share: prompts, ``generate`` calls, costs in seconds and memory, and the JSON
that they write.
"""

from __future__ import annotations

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
    """What one way of decoding took: CPU and wall seconds, and the most memory resident meanwhile,
    in MB.
    """

    cpu: float
    wall: float
    peak: float


def questions(tokenizer: Any, length: int, count: int) -> list[Prompt]:
    """Few-shot prompts of about ``length`` tokens; shots differ in order, so that questions share
    no prefix.
    """
    facts = []
    for line in COUNTRIES.split():
        country, capital, continent = (word.replace("_", " ") for word in line.split(","))
        facts.append((f"What is the capital of {country}?", capital))
        facts.append((f"On which continent is {country}?", continent))
        facts.append((f"Of which country is {capital} the capital?", country))
    prompts = []
    for number in range(count):
        shuffled = random.Random(number).sample(facts, len(facts))
        asked, text = shuffled.pop()[0], ""
        for question, answer in shuffled:
            shot = f"Question: {question}\nAnswer: {answer}\n\n"
            if len(tokenizer(shot + text)["input_ids"]) > length - 12:
                break
            text = shot + text
        prompts.append(
            Prompt(f"q{number}", tuple(tokenizer(f"{text}Question: {asked}\nAnswer:")["input_ids"]))
        )
    return prompts


def resident() -> int:
    """The bytes of this process that are resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def resident_peak() -> Iterator[Callable[[], float]]:
    """The most memory resident in the block, in MB, looked at fifty times a second."""
    highest, over = resident(), threading.Event()

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
        cpu, wall = time.process_time(), time.perf_counter()
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
    """Three calls of transformers' ``generate``, left-padded, with the engine's stop tokens and no
    other setting.
    """

    def __init__(self, model: Any, stops: frozenset[int]) -> None:
        self._model: Any = model
        self._stops = stops
        self._common: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "pad_token_id": 0}
        self._common["eos_token_id"] = sorted(stops) or None
        model.generation_config = make_config(**self._common)

    def call(
        self, prompts: Sequence[Prompt], batch: int, **options: Any
    ) -> dict[str, list[tuple[int, ...]]]:
        """Generated tokens by prompt id, each cut after its first stop."""
        config = make_config(**self._common, **options)
        found: dict[str, list[tuple[int, ...]]] = {}
        for first in range(0, len(prompts), batch):
            chunk = prompts[first : first + batch]
            longest = max(len(prompt.token_ids) for prompt in chunk)
            ids = left_padded([prompt.token_ids for prompt in chunk], longest)
            mask = left_padded([[1] * len(prompt.token_ids) for prompt in chunk], longest)
            with torch.inference_mode():
                made = self._model.generate(
                    ids.to(self._model.device),
                    attention_mask=mask.to(self._model.device),
                    generation_config=config,
                )
            rows = made[:, longest:].tolist()
            each = len(rows) // len(chunk)
            for index, prompt in enumerate(chunk):
                found[prompt.id] = [
                    self._cut(row) for row in rows[index * each : (index + 1) * each]
                ]
        return found

    def _cut(self, row: list[int]) -> tuple[int, ...]:
        ends = (i + 1 for i, token in enumerate(row) if token in self._stops)
        return tuple(row[: next(ends, NEW_TOKENS)])


CALLS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "samples": {
        "do_sample": True,
        "num_return_sequences": M,
        "top_k": 0,
        "top_p": 1.0,
        "temperature": 1.0,
    },
    "beams": {
        "do_sample": False,
        "num_beams": M,
        "num_return_sequences": M,
        "length_penalty": 0.0,
        "early_stopping": "never",
    },
}


def versions(machine: str = platform.processor() or platform.machine()) -> dict[str, str]:
    """The date, the machine and the packages that every result tells."""
    return {
        "date": date.today().isoformat(),
        "machine": machine,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def write_json(path: Path, told: dict[str, Any]) -> None:
    """Write what was measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")
    print(f"written to {path}")

"""Write the logs beside, by Inspect itself and its mock model.

``python tests/inspect_logs/make_logs.py`` in an environment with inspect-ai (0.3.285 wrote those
here). Questions are sums; how often the model errs grows with their numbers.

``drawn.json`` (temperature 1, five epochs, log-probabilities), ``greedy.json`` (temperature 0) and
``drawn.eval`` hold three questions. ``many_drawn.json`` and ``many_greedy.json`` hold sixty, of
which Inspect's record of every step (events) is left out. Line breaks are left out of all.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import Logprob, Logprobs, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

FOLDER = Path(__file__).parent
NAME = "mockllm/model"
ENDING = "<|im_end|>"


def questions(count: int) -> list[Sample]:
    """Sums of growing numbers."""
    generator = random.Random(1)
    samples = []
    for number in range(count):
        largest = 5 + 10 * number
        first, second = generator.randint(1, largest), generator.randint(1, largest)
        text = f"What is {first} + {second}? Answer with the number alone."
        samples.append(Sample(id=f"sum-{number}", input=text, target=str(first + second)))
    return samples


def model(samples: Sequence[Sample], epochs: int, *, drawn: bool) -> Model:
    """A mock model that answers in the order in which Inspect asks: epoch by epoch."""
    generator = random.Random(2 if drawn else 3)
    outputs = []
    for _ in range(epochs):
        for number, sample in enumerate(samples):
            p = 0.98 - 0.75 * number / len(samples)
            is_right = generator.random() < p if drawn else p > 0.45
            error = 0 if is_right else generator.choice((1, -1, 10))
            outputs.append(output(str(int(str(sample.target)) + error), p))
    return get_model(NAME, custom_outputs=_one_after_another(outputs))


def output(text: str, p: float) -> ModelOutput:
    """An answer of one token and its ending, with log-probabilities."""
    answer = ModelOutput.from_content(NAME, text)
    tokens = ((text, math.log(p)), (ENDING, math.log(0.999)))
    content = [Logprob(token=token, logprob=round(logprob, 6)) for token, logprob in tokens]
    answer.choices[0].logprobs = Logprobs(content=content)
    answer.usage = ModelUsage(input_tokens=12, output_tokens=2, total_tokens=14)
    return answer


def _one_after_another(outputs: Sequence[ModelOutput]) -> Callable[..., ModelOutput]:
    remaining = iter(outputs)
    return lambda *_: next(remaining)


def evaluated(count: int, epochs: int, folder: Path, log_format: Any) -> EvalLog:
    """A log of an evaluation: of one epoch at temperature 0, of several at 1."""
    samples = questions(count)
    drawn = epochs > 1
    (log,) = eval(
        Task(dataset=samples, solver=generate(), scorer=match(location="exact"), name="sums"),
        model=model(samples, epochs, drawn=drawn),
        epochs=epochs,
        temperature=1.0 if drawn else 0.0,
        top_p=1.0,
        max_tokens=8,
        logprobs=True,
        log_dir=str(folder),
        log_format=log_format,
        display="none",
        max_samples=1,
        log_model_api=False,
    )
    assert log.status == "success", log.error
    return read_eval_log(log.location)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for size, count in (("", 3), ("many_", 60)):
            for kind, epochs in (("drawn", 5), ("greedy", 1)):
                log = evaluated(count, epochs, Path(folder), "json")
                log.eval.revision = None  # of this repository
                if size:
                    for sample in log.samples or ():
                        sample.events = []
                write(log, FOLDER / f"{size}{kind}.json")
        write_eval_log(read_eval_log(str(FOLDER / "drawn.json")), str(FOLDER / "drawn.eval"))


def write(log: EvalLog, path: Path) -> None:
    """As Inspect does, without line breaks."""
    write_eval_log(log, str(path))
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

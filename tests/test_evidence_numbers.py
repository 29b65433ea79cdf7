"""Every value with an interval that a page of evidence tells is in a published file, or follows from published scores.

It is looked for among all rows of all CSVs, so a number set beside the wrong name is not found out. Percentages,
one-sided bounds and numbers without an interval are not looked for.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pytest

from beamuq.evaluation import bootstrap
from beamuq.parquet_tables import Artifact
from test_evidence import EVIDENCE, Scored, recomputed

ROOT = EVIDENCE.parent
PAGES = tuple(ROOT / f"docs/{name}.md" for name in ("evidence", "why_beams_win"))
BLOCKS = re.compile(r"<!-- (?:claims|outcomes|table) .*?<!-- end -->", re.DOTALL)
NUMBER = r"([+−]?\d*\.\d+)"
INTERVAL = re.compile(rf"{NUMBER},? \[{NUMBER}, {NUMBER}\]")
MODEL = "smollm2-135m-plain"
D, ECC, EIGVEC = "Dissimilarity", "Eccentricity", "EigVecDissimilarity"
TRIVIAQA, COQA = ("triviaqa",), ("coqa",)
WEBQUESTIONS, COMMONSENSEQA = ("webquestions",), ("commonsenseqa",)
BOTH, LATER = TRIVIAQA + COQA, WEBQUESTIONS + COMMONSENSEQA
Form = tuple[str, str, str, str]  # recipe, method, variant, setting
Difference = tuple[tuple[str, ...], tuple[Form, ...], tuple[Form, ...]]  # the mean over datasets of some less others

ALIKE: Form = ("main", D, "uniform", "beam M=10")
ALIKE_OF_500: Form = ("strategies", D, "beamsearch", "epsilon=1.0")
DRAWS = "mean of draws"
FIVE: Form = ("truth", D, "unnormalised", "beam M=5")


def beams(recipe: str, method: str = D, setting: str = "") -> Form:
    return (recipe, method, "beamsearch", setting)


def samples(recipe: str, method: str = D, setting: str = "") -> Form:
    return (recipe, method, "multinomial", setting)


def falls(method: str, M: int) -> Difference:
    """What beams gain with M candidates less what they gain with fifteen."""
    few, many = f"M={M}", "M=15"
    return (
        BOTH,
        (beams("widths", method, few), samples("widths", method, many)),
        (samples("widths", method, few), beams("widths", method, many)),
    )


DIFFERENCES: Mapping[str, Difference] = {
    # beams weighted alike, on all questions of main
    "+.007 [−.073, .088]": (TRIVIAQA, (ALIKE,), (samples("main"),)),
    "+.079 [.022, .133]": (COQA, (ALIKE,), (samples("main"),)),
    "−.049 [−.139, .043]": (WEBQUESTIONS, (ALIKE,), (samples("main"),)),
    "+.003 [−.127, .135]": (COMMONSENSEQA, (ALIKE,), (samples("main"),)),
    "+.010 [−.037, .057]": (BOTH + LATER, (ALIKE,), (samples("main"),)),
    "+.060 [−.013, .134]": (TRIVIAQA, (ALIKE,), (beams("main"),)),
    "+.090 [.039, .142]": (COQA, (ALIKE,), (beams("main"),)),
    "−.054 [−.130, .016]": (WEBQUESTIONS, (ALIKE,), (beams("main"),)),
    "+.004 [−.105, .113]": (COMMONSENSEQA, (ALIKE,), (beams("main"),)),
    "+.025 [−.015, .065]": (BOTH + LATER, (ALIKE,), (beams("main"),)),
    # beams as generate ranks them, on 1,000 questions
    "+.087 [−.105, .288]": (TRIVIAQA, (beams("released"),), (beams("strategies"),)),
    "+.193 [.050, .326]": (COQA, (beams("released"),), (beams("strategies"),)),
    "+.140 [.020, .260]": (BOTH, (beams("released"),), (beams("strategies"),)),
    "+.104 [−.116, .338]": (TRIVIAQA, (beams("released"),), (samples("released"),)),
    "+.115 [−.019, .247]": (COQA, (beams("released"),), (samples("released"),)),
    "+.109 [−.019, .242]": (BOTH, (beams("released"),), (samples("released"),)),
    "+.047 [−.157, .253]": (TRIVIAQA, (beams("released", ECC),), (beams("strategies", ECC),)),
    "+.143 [.001, .278]": (COQA, (beams("released", ECC),), (beams("strategies", ECC),)),
    "+.095 [−.031, .217]": (BOTH, (beams("released", ECC),), (beams("strategies", ECC),)),
    "+.140 [−.058, .333]": (TRIVIAQA, (beams("released", EIGVEC),), (beams("strategies", EIGVEC),)),
    "+.122 [−.021, .260]": (COQA, (beams("released", EIGVEC),), (beams("strategies", EIGVEC),)),
    "+.131 [.008, .250]": (BOTH, (beams("released", EIGVEC),), (beams("strategies", EIGVEC),)),
    "+.099 [−.038, .252]": (TRIVIAQA, (beams("released", "CocoaMSP"),), (samples("released", "CocoaMSP"),)),
    "+.164 [.061, .269]": (COQA, (beams("released", "CocoaMSP"),), (samples("released", "CocoaMSP"),)),
    "+.132 [.045, .224]": (BOTH, (beams("released", "CocoaMSP"),), (samples("released", "CocoaMSP"),)),
    "−.013 [−.086, .058]": (TRIVIAQA, (beams("released", "CocoaPPL"),), (samples("released", "CocoaPPL"),)),
    "+.007 [−.070, .085]": (COQA, (beams("released", "CocoaPPL"),), (samples("released", "CocoaPPL"),)),
    "−.003 [−.055, .049]": (BOTH, (beams("released", "CocoaPPL"),), (samples("released", "CocoaPPL"),)),
    "+.019 [−.091, .126]": (BOTH, (beams("released"),), (ALIKE_OF_500,)),
    # the same where it was tested
    "−.156 [−.272, −.044]": (WEBQUESTIONS, (beams("released"),), (beams("main"),)),
    "−.151 [−.256, −.050]": (WEBQUESTIONS, (beams("released"),), (samples("main"),)),
    "−.006 [−.066, .055]": (COMMONSENSEQA, (beams("released"),), (beams("main"),)),
    "−.007 [−.134, .118]": (COMMONSENSEQA, (beams("released"),), (samples("main"),)),
    "−.081 [−.146, −.017]": (LATER, (beams("released"),), (beams("main"),)),
    "−.079 [−.161, .002]": (LATER, (beams("released"),), (samples("main"),)),
    "−.087 [−.156, −.020]": (LATER, (beams("released", ECC),), (beams("main", ECC),)),
    "−.078 [−.150, −.008]": (LATER, (beams("released", EIGVEC),), (beams("main", EIGVEC),)),
    # gains by the number of candidates
    ".078 [−.075, .235]": falls(D, 2),
    ".147 [−.015, .300]": falls(ECC, 2),
    ".187 [.014, .350]": falls(EIGVEC, 2),
    ".156 [.015, .299]": falls(D, 3),
    "−.021 [−.118, .076]": falls(D, 5),
    # one embedding less another
    "+.137 [.010, .260]": (BOTH, (beams("strategies", ECC, "alpha=0.9"),), (beams("strategies", ECC, "K=2"),)),
    "+.139 [.005, .274]": (BOTH, (beams("strategies", EIGVEC, "alpha=0.9"),), (beams("strategies", EIGVEC, "K=2"),)),
    # the first claim of our own
    "−.091 [−.178, −.008]": (COQA, (FIVE,), (("truth", D, "uniform", DRAWS),)),
    "−.075 [−.173, .010]": (COQA, (FIVE,), (("truth", D, "normalised", "beam M=5"),)),
}
NOT_COMPUTED = {
    "under ROUGE-L, of which no scores are published": (
        *("−.074 [−.132, −.016]", "−.205 [−.352, −.059]"),
        *("−.212 [−.350, −.074]", "−.027 [−.052, −.004]"),
    ),
    "of long answers; lengths are not published": ("−.093 [−.173, −.014]", "−.100 [−.192, −.005]"),
    "of the questions of main that are not in truth": ("+.070 [.004, .132]", "+.067 [.006, .128]"),
}


def told() -> Iterator[str]:
    """The intervals of both pages, as printed, but for those in blocks that are written from the evidence."""
    for page in PAGES:
        text = BLOCKS.sub("", page.read_text(encoding="utf-8")).replace("**", "")
        for found in INTERVAL.finditer(" ".join(text.split())):
            yield found[0].replace(",", "", found[0].startswith(f"{found[1]},"))


def rounded(numbers: tuple[float, ...], digits: int) -> tuple[str, ...]:
    return tuple(f"{number:.{digits}f}".replace("-0." + "0" * digits, "0." + "0" * digits) for number in numbers)


@cache
def published(digits: int) -> frozenset[tuple[str, ...]]:
    """Value, low and high of every row of every CSV of the evidence."""
    found = set()
    for path in EVIDENCE.rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                cells = [
                    row.get(name) or "" for name in ("difference" if "difference" in row else "value", "low", "high")
                ]
                if all(re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", cell) for cell in cells):
                    found.add(rounded(tuple(map(float, cells)), digits))
    return frozenset(found)


def is_published(text: str) -> bool:
    """Whether a row has these numbers, or those of the difference the other way round."""
    numbers = [number.replace("−", "-") for number in re.findall(NUMBER, text)]
    digits = max(len(number.partition(".")[2]) for number in numbers)
    value, low, high = map(float, numbers)
    return bool({rounded((value, low, high), digits), rounded((-value, -high, -low), digits)} & published(digits))


def test_every_interval_told_is_published_or_said_to_be_computed() -> None:
    found = set(told())
    others = set(DIFFERENCES) | {text for texts in NOT_COMPUTED.values() for text in texts}
    assert {text for text in found - others if not is_published(text)} == set()
    assert others - found == set(), "no page tells these any more"


@cache
def replicates(dataset: str, recipe: str) -> dict[tuple[str, str, str], tuple[float, np.ndarray]]:  # type: ignore[type-arg]
    cell = Artifact("evaluation", dataset, MODEL, recipe, "embedding")
    needed = {of[1:] for _, plus, minus in DIFFERENCES.values() for of in plus + minus if of[0] == recipe}
    averaged = (D, "uniform", DRAWS) in needed

    def is_draw(method: str, variant: str, setting: str) -> bool:
        return (method, variant) == (D, "uniform") and setting.startswith("sample T=1.0 M=10 draw=")

    def chosen(forms: list[Scored]) -> list[Scored]:
        return [of for of in forms if of[0] == "greedy" and (of[1:] in needed or (averaged and is_draw(*of[1:])))]

    rows = recomputed(EVIDENCE / "small", cell, chosen, "PRR", main_quality_of_all=True)
    found = {
        (row["method"], row["variant"], row["setting"]): (row["value"], np.asarray(drawn["values"], np.float64))
        for row, drawn in zip(*rows, strict=True)
    }
    if averaged:
        draws = [of for key, of in found.items() if is_draw(*key)]
        found[D, "uniform", DRAWS] = sum(value for value, _ in draws) / len(draws), np.mean([of for _, of in draws], 0)
    return found


def computed(datasets: tuple[str, ...], plus: tuple[Form, ...], minus: tuple[Form, ...]) -> str:
    value, drawn = 0.0, np.zeros(10_000)
    for dataset in datasets:
        for sign, forms in ((1, plus), (-1, minus)):
            for recipe, *form in forms:
                of, resampled = replicates(dataset, recipe)[tuple(form)]  # type: ignore[index]
                value, drawn = value + sign * of / len(datasets), drawn + sign * resampled / len(datasets)
    found = bootstrap.interval(drawn, 0.95)
    assert found.low is not None
    assert found.high is not None
    return f"{value:+.3f} [{found.low:.3f}, {found.high:.3f}]".replace("0.", ".").replace("-", "−")


@pytest.mark.slow
def test_the_computed_intervals_follow_from_the_published_scores() -> None:
    """Together, as most are of the same resampled cells, each of which takes seconds."""
    found = {printed: computed(*of) for printed, of in DIFFERENCES.items()}
    assert {printed: now for printed, now in found.items() if now.lstrip("+") != printed.lstrip("+")} == {}

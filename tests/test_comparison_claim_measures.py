"""Every measurement of a claim on a small case made up for it: what it finds, and how that is judged."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beamuq import beam_mass_theorem, parquet_tables
from beamuq.comparison import beam_minus_multinomial, claims
from beamuq.comparison.claim_measures import (
    AblationSettings,
    AheadAtBudgets,
    BeamCoverage,
    BeamGains,
    Counterexample,
    CurvesAhead,
    GainByLength,
    GapOutsideBeams,
    MeanByLength,
    Measure,
    Plateau,
    Ranking,
    VarianceAcrossRuns,
    negligible,
    scored_as,
)
from beamuq.comparison.claim_verdicts import ClaimEvidence, NotRunError, above, all_as, selected_lead
from beamuq.comparison.measured_results import MeasuredCell, MeasuredResults
from beamuq.comparison.printed_numbers import PrintedNumber, measured_place
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.evaluation.bootstrap import Difference
from beamuq.evaluation.estimates import ALL_EMPTY
from beamuq.exhibits.empty_answers import Empty
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.read_evaluation import Key, Measured, stored
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study
from simulated_paper_run import PRINTED, RULES, candidate, study

N, RESAMPLES = 40, 2000
GEMMA, LLAMA, TRIVIA = "gemma-3-4b-base", "llama-3.1-8b-base", "triviaqa"
DATASETS = tuple(RULES.paper.datasets)
BEAM, SAMPLES = "beamsearch", "multinomial"
SHARED = np.random.default_rng(0).normal(size=RESAMPLES)


def rules() -> ComparisonRules:
    """The declared ones, of a paper with 40 questions a cell, and 20 in the ablations that have 500."""
    datasets = {name: dataset.model_copy(update={"questions": N}) for name, dataset in RULES.paper.datasets.items()}
    small = {k: t.model_copy(update={"questions": t.questions and N // 2}) for k, t in RULES.tables.items()}
    return RULES.model_copy(update={"paper": RULES.paper.model_copy(update={"datasets": datasets}), "tables": small})


def of_paper(resamples: int = RESAMPLES) -> Study:
    content = study().model_dump(mode="json")["evaluation"]
    return study(evaluation=content | {"resamples": resamples})


class Made(MeasuredCell):
    """A cell with these values; replicates share most of their spread, so that differences scatter by ``spread``."""

    def __init__(self, need: Artifact, values: Mapping[Key, float], spread: float = 0.0, n: int = N) -> None:
        self.artifact, self.path = need, need.path
        self._rows = {stored(key): Measured(v, v - 0.1, v + 0.1, 0.05, n) for key, v in values.items()}
        self._paired = True
        self._empty: dict[str, Empty] = {}
        self._replicates = {
            stored(key): (v + 0.05 * SHARED + spread * noise(need, key)).astype(np.float32) for key, v in values.items()
        }


def noise(*key: object) -> Any:
    return np.random.default_rng(zlib.crc32(repr(key).encode())).normal(size=RESAMPLES)


class Stored(MeasuredResults):
    """MeasuredResults made in memory."""

    def __init__(self, of: Study, cells: Sequence[MeasuredCell], inputs: Inputs, present: Sequence[Artifact]) -> None:
        super().__init__(of, inputs, present)
        self._in_memory = {cell.artifact: cell for cell in cells}

    def cell(self, evaluation: Artifact) -> MeasuredCell | None:
        return self._in_memory.get(evaluation)


def evidence(
    *cells: MeasuredCell,
    values: Sequence[PrintedNumber] = PRINTED,
    files: Mapping[Artifact, list[dict[str, Any]]] | None = None,
    folder: Path = Path(),
    resamples: int = RESAMPLES,
) -> ClaimEvidence:
    written = files or {}
    for need, rows in written.items():
        parquet_tables.write(folder / need.path, need.kind, rows, cell=need.cell)
    inputs = Inputs.read(folder, written)
    return ClaimEvidence(Stored(of_paper(resamples), cells, inputs, list(written)), values, rules())


def at(model: str, dataset: str, recipe: str = "main") -> Artifact:
    return Artifact("evaluation", dataset, model, recipe, "nli")


def mains(model: str, values: Mapping[Key, float], spread: float = 0.0) -> list[MeasuredCell]:
    return [Made(at(model, dataset), values, spread) for dataset in DATASETS]


def prr(method: str, variant: str = "", setting: str = "") -> Key:
    return Key("PRR", method, variant, setting)


def judged(measure: Measure, of: ClaimEvidence, status: str, *found: str) -> None:
    verdict = measure.verdict(of)
    assert verdict.status == status, verdict
    for text in found:
        assert text in verdict.found, verdict.found


# -- candidates ------------------------------------------------------------------------------------------------------

QUESTIONS = Artifact("questions", TRIVIA)
MAIN = Artifact("candidates", TRIVIA, GEMMA, "main")


def questions(n: int = N) -> list[dict[str, Any]]:
    empty: dict[str, Any] = {"context": [], "history": [], "options": [], "references": []}
    return [{"id": f"{TRIVIA}-{i}", "question": "?", "group": str(i), **empty} for i in range(n)]


def decoded(
    lengths: Sequence[int],
    masses: Sequence[float],
    repeats: Sequence[int] = (),
    sampled: Sequence[float] = (),
    first: float = 1.0,
) -> dict[Artifact, list[dict[str, Any]]]:
    """Two beams of each question with this mass, a share ``first`` of it the leading three's; ten samples of it.

    ``repeats``: how many of the samples repeat another; ``sampled``: the mass of one of them, the others' is tiny.
    """
    rows = []
    for i, (length, mass) in enumerate(zip(lengths, masses, strict=True)):
        rows.append(candidate(MAIN, i, "greedy", 0, "answer 0", length, -0.5))
        for rank, p in ((0, mass * first), (5, mass * (1 - first) + 1e-9)):
            rows.append(candidate(MAIN, i, "beam M=10", rank, f"answer {rank}", length, float(np.log(p))))
        again = repeats[i] if repeats else 0
        for rank in range(10):
            p = sampled[i] if sampled and rank == 0 else 1e-9
            code = max(rank - again, 0)
            rows.append(candidate(MAIN, i, "sample T=1.0", rank, f"answer {code}", length, float(np.log(p))))
    return {MAIN: rows, QUESTIONS: questions(len(lengths))}


def mean_by_length(quantity: str, **options: Any) -> MeanByLength:
    like = {"kind": "mean by length", "model": GEMMA, "dataset": TRIVIA, "quantity": quantity}
    return MeanByLength.model_validate(like | options)


FALLS = mean_by_length("repeated samples", lengths=[2, 4], other_lengths=[8, None])


def test_mass_above_the_printed_threshold(tmp_path: Path) -> None:
    of = evidence(files=decoded([2] * N, [0.88] * 9 + [0.80] * 31), folder=tmp_path)  # .842 is between, .909 above
    found = "printed condition met: 22.5% ± 6.7%, 40 questions; 0.0% meet the corrected one"
    judged(mean_by_length("printed condition met", printed=[0.227, 0.227]), of, "supported", found)
    judged(mean_by_length("printed condition met", printed=[0.6, 0.7]), of, "not supported", found)


def test_redundancy_of_answers_of_some_lengths(tmp_path: Path) -> None:
    files = decoded([1] * 10 + [2, 4] * 10 + [5] * 10, [0.5] * N, [9] * 10 + [4] * 20 + [0] * 10)
    of = evidence(files=files, folder=tmp_path)
    found = "repeated samples: 40.0% ± 0.0%, 20 questions"
    judged(mean_by_length("repeated samples", lengths=[2, 4], printed=[0.3, 0.5]), of, "supported", found)
    judged(mean_by_length("repeated samples", lengths=[2, 4], printed=[0.1, 0.2]), of, "not supported", found)
    to_the_end = mean_by_length("repeated samples", lengths=[5, None], printed=[0.0, 0.0])
    judged(to_the_end, of, "supported", "repeated samples: 0.0% ± 0.0%, 10 questions")
    with pytest.raises(NotRunError, match="too few answers of 6 or more tokens: 0"):
        to_the_end.model_copy(update={"lengths": [6, None]}).verdict(of)


@pytest.mark.parametrize(
    ("short", "long", "status", "found"),
    [
        ((4, 5), (1, 2), "supported", "45.0% ± 1.1%, 20 questions, against 15.0%"),
        ((1, 2), (4, 5), "not supported", "15.0% ± 1.1%, 20 questions, against 45.0%"),
        ((2, 3), (2, 3), "not supported", "25.0% ± 1.1%, 20 questions, against 25.0%"),
        ((2, 5), (2, 4), "supported", "35.0% ± 3.4%, 20 questions, against 30.0%"),  # .05 < 2 · .041: within noise
    ],
)
def test_redundancy_falls_with_length(
    tmp_path: Path, short: tuple[int, int], long: tuple[int, int], status: str, found: str
) -> None:
    of = evidence(files=decoded([2, 4] * 10 + [8] * 20, [0.5] * N, [*short * 10, *long * 10]), folder=tmp_path)
    judged(FALLS, of, status, found)


@pytest.mark.parametrize(
    ("beams", "samples", "first", "status", "found"),
    [
        (0.8, 0.5, 0.9, "supported", "+0.300 more, more in 2 of 2 length bins; the first 3 beams hold 90% of"),
        (0.5, 0.8, 0.9, "not supported", "-0.300 more, more in 0 of 2 length bins; the first 3 beams hold 90% of"),
        (0.8, 0.5, 0.3, "partly", "the first 3 beams hold 30% of"),
    ],
)
def test_covered_mass(tmp_path: Path, beams: float, samples: float, first: float, status: str, found: str) -> None:
    files = decoded([2, 3] * 20, [beams] * N, sampled=[samples] * N, first=first)
    measure = BeamCoverage(kind="covered mass", model=GEMMA, dataset=TRIVIA, first=3, share=0.5)
    judged(measure, evidence(files=files, folder=tmp_path), status, found)


# -- the main table --------------------------------------------------------------------------------------------------


def gains_of(
    values: Mapping[str, tuple[float, float]], spread: float, **options: Any
) -> tuple[BeamGains, ClaimEvidence]:
    """Beams and samples of some methods, Gemma base."""
    of = {prr(m, v): x for m, pair in values.items() for v, x in zip((BEAM, SAMPLES), pair, strict=True)}
    measure = BeamGains(kind="gains", table="tab:abl_other_methods", methods=list(values), models=[GEMMA], **options)
    return measure, evidence(*mains(GEMMA, of, spread))


ENTROPY, DEGREE = (0.472, 0.401), (0.467, 0.469)  # as printed


@pytest.mark.parametrize(
    ("pair", "spread", "status", "found"),
    [
        (
            ENTROPY,
            0.01,
            "supported",
            "1 of 1 rise; significantly rise 100%, fall 0%; mean +0.071 ± 0.006, printed +0.071",
        ),
        (ENTROPY[::-1], 0.01, "not supported", "0 of 1 rise; significantly rise 0%, fall 100%; mean -0.071"),
        ((0.472, 0.465), 0.1, "partly", "1 of 1 rise; significantly rise 0%, fall 0%; mean +0.007"),
    ],
)
def test_gains_of_all_that_are_claimed_to_be_significant(
    pair: tuple[float, float], spread: float, status: str, found: str
) -> None:
    judged(*gains_of({"SemanticEntropy": pair}, spread, expect="all", significant=True), status, found)


def test_a_mean_leaves_out_cells_of_empty_answers_and_stands_for_none_of_print() -> None:
    measure, of = gains_of({"SemanticEntropy": ENTROPY}, 0.01, expect="all")
    datasets = list(of.rules.paper.datasets)
    of.main(GEMMA, datasets[0])._empty["greedy"] = Empty(5, 24)
    with pytest.raises(NotRunError, match=f"more than a fifth of the answers of {GEMMA} are empty on {datasets[0]}"):
        measure.verdict(of)
    own = replace(of, of_paper=False)
    assert [cell.artifact.dataset for cell in own.mains(GEMMA, datasets)] == datasets[1:]
    assert f"of 5 datasets (without {datasets[0]}, where more than a fifth" in measure.verdict(own).found


@pytest.mark.parametrize("left_out", [1, 6])
def test_a_paired_mean_leaves_out_cells_of_empty_answers_though_undefined_and_says_so(left_out: int) -> None:
    keys = [prr("Dissimilarity", variant) for variant in (BEAM, SAMPLES)]
    cells = mains(GEMMA, dict.fromkeys(keys, 0.4))
    for cell in cells[:left_out]:
        cell._empty["greedy"] = Empty(5, 24)
        cell._rows[stored(keys[0])] = Measured(None, None, None, None, N, "undefined")
    of = evidence(*cells)
    found = beam_minus_multinomial.differences(of.results, of.rules)
    found = found[(found["method"] == "Dissimilarity") & (found["model"] == GEMMA)]
    mean = found[found["family"] == beam_minus_multinomial.HEADLINE].iloc[0]
    if left_out == 6:
        assert (mean["n"], mean["note"]) == (0, ALL_EMPTY)
    else:
        assert (mean["n"], mean["difference"]) == (5 * N, 0.0)
        assert mean["note"] == f"without {DATASETS[0]}, where more than a fifth of the answers are empty"
    alone = found[(found["family"] == beam_minus_multinomial.CELLS) & (found["dataset"] == DATASETS[0])].iloc[0]
    assert alone["note"].startswith("undefined in ")


def test_gains_of_most_need_more_than_half() -> None:
    methods = {"SemanticEntropy": ENTROPY, "Dissimilarity": (0.65, 0.63), "DegreeMatrix": (0.4, 0.42)}
    found = "2 of 3 rise; significantly rise 67%, fall 33%; mean +0.024 ± 0.003, printed +0.030"
    judged(*gains_of(methods, 0.01, expect="most"), "supported", found)
    judged(*gains_of(methods, 0.01, expect="all"), "partly", found)
    others = {"SemanticEntropy": ENTROPY[::-1], "Dissimilarity": (0.63, 0.65), "DegreeMatrix": (0.4, 0.31)}
    judged(*gains_of(others, 0.01, expect="most"), "not supported", "1 of 3 rise")


@pytest.mark.parametrize(
    ("pair", "spread", "status"),
    [
        (DEGREE, 0.01, "supported"),
        (DEGREE, 0.1, "undecided"),  # a wide interval that holds 0 shows nothing
        ((0.6, 0.469), 0.01, "not supported"),
        ((0.4, 0.469), 0.01, "not supported"),
    ],
)
def test_no_gain_is_a_negligible_one(pair: tuple[float, float], spread: float, status: str) -> None:
    measure, of = gains_of({"DegreeMatrix": pair}, spread, expect="none")
    verdict = measure.verdict(of)
    assert (verdict.sign, verdict.significance) == (
        {"supported": "yes", "undecided": "undecided", "not supported": "no"}[status],
        "-",
    )
    assert verdict.status == ("partly" if status == "supported" and verdict.size == "no" else status)
    assert ("undecidable with n = 240" in verdict.found) == (status == "undecided")


def test_the_last_bit_of_a_sum_is_no_rise() -> None:
    measure, of = gains_of({"DegreeMatrix": (0.1 + 0.2, 0.3)}, 0.0, expect="all")
    assert 0.1 + 0.2 > 0.3
    judged(measure, of, "not supported", "0 of 1 rise; significantly rise 0%, fall 0%")


def table_of(*methods: tuple[str, str]) -> list[PrintedNumber]:
    """The main table cut to some rows of each model."""
    rows = [
        row for row in PRINTED if row.key.table == "tab:qa_mean_prr" and (row.key.method, row.key.variant) in methods
    ]
    assert {(row.key.method, row.key.variant) for row in rows} == set(methods)
    return rows


RANKED = [("Dissimilarity", BEAM), ("Dissimilarity", SAMPLES), ("CocoaMSP", BEAM), ("Prob", "")]


def ranking(*values: float, spread: float = 0.01, models: Sequence[str] = (GEMMA,)) -> ClaimEvidence:
    """The PRR of ``RANKED`` in each model."""
    of = {prr(*name): value for name, value in zip(RANKED, values, strict=True)}
    cells = [cell for model in models for cell in mains(model, of, spread)]
    return evidence(*cells, values=table_of(*RANKED))


@pytest.mark.parametrize(
    ("values", "spread", "first", "second"),
    [
        ((0.6, 0.5, 0.4, 0.3), 0.01, "supported", "not supported"),
        ((0.5, 0.6, 0.4, 0.3), 0.01, "not supported", "supported"),
        ((0.4, 0.6, 0.5, 0.3), 0.01, "not supported", "not supported"),
        ((0.501, 0.5, 0.4, 0.3), 0.1, "supported", "not supported"),
    ],
)
def test_a_rank(values: tuple[float, ...], spread: float, first: str, second: str) -> None:
    of, place = ranking(*values, spread=spread), 1 + sum(other > values[0] for other in values)
    best, behind = (ranked(place=claimed, method="Dissimilarity", models=[GEMMA]) for claimed in ("best", "second"))
    judged(best, of, first, f"Dissimilarity {place} of 4 in {GEMMA}, ", "; significantly ahead in")
    judged(behind, of, second, f"Dissimilarity {place} of 4 in {GEMMA}")


def ranked(**options: Any) -> Ranking:
    return Ranking.model_validate({"kind": "ranking", **options})


def test_the_best_two() -> None:
    models = list(RULES.paper.models)
    measure = ranked(place="best two")
    judged(measure, ranking(0.6, 0.4, 0.5, 0.3, models=models), "supported", "12 of 12 best and second-best")
    judged(measure, ranking(0.4, 0.6, 0.3, 0.5, models=models), "not supported", "0 of 12 best and second-best")
    judged(measure, ranking(0.6, 0.5, 0.4, 0.3, models=models), "not supported", "6 of 12 best and second-best")


def test_the_best_beam_form() -> None:
    models, measure = list(RULES.paper.models), ranked(place="best")
    found = f"Dissimilarity 1 of 4 in {GEMMA}, +0.100 against Dissimilarity multinomial"
    judged(measure, ranking(0.6, 0.5, 0.4, 0.3, models=models), "supported", found, "significantly ahead in 100%")
    found = f"CocoaMSP 2 of 4 in {GEMMA}, -0.100 against Prob"
    judged(measure, ranking(0.4, 0.3, 0.5, 0.6, models=models), "not supported", found)


# -- budgets ---------------------------------------------------------------------------------------------------------


def widths(beams: Sequence[float], samples: Sequence[float], spread: float = 0.01, n: int = N) -> MeasuredCell:
    """PRR of Dissimilarity at M = 1, 2, …, the last value for all further M."""
    values = {
        prr("Dissimilarity", variant, f"M={M}"): curve[min(M, len(curve)) - 1]
        for variant, curve in ((BEAM, beams), (SAMPLES, samples))
        for M in range(1, 16)
    }
    return Made(at(GEMMA, TRIVIA, "widths"), values, spread, n)


AHEAD = AheadAtBudgets(
    kind="ahead at every budget",
    cells=[(GEMMA, TRIVIA)],
    better=[("Dissimilarity", BEAM)],
    worse=[("Dissimilarity", SAMPLES)],
)


@pytest.mark.parametrize(
    ("beams", "samples", "resamples", "status", "found"),
    [
        ([0.3, 0.6], [0.5], RESAMPLES, "supported", "ahead at 100% of 14 points, significantly at 100%"),
        ([0.6, 0.3], [0.5], RESAMPLES, "not supported", "ahead at 0% of 14 points, significantly at 0%"),
        ([0.3, 0.4, 0.6], [0.5], RESAMPLES, "partly", "ahead at 93% of 14 points, significantly at 93%"),
        # 2 · 14 / 501 > .05: no p could be small enough
        ([0.3, 0.6], [0.5], 500, "supported", "too few resamples (500) for 14 tests at 5%"),
    ],
)
def test_ahead_at_every_budget(
    beams: list[float], samples: list[float], resamples: int, status: str, found: str
) -> None:
    judged(AHEAD, evidence(widths(beams, samples), resamples=resamples), status, found)


def test_ahead_at_one_budget() -> None:
    at_one = AHEAD.model_copy(update={"better": AHEAD.worse, "worse": AHEAD.better, "first": 1, "last": 1})
    judged(at_one, evidence(widths([0.3, 0.6], [0.5])), "supported", "ahead at 100% of 1 points")
    judged(at_one, evidence(widths([0.6], [0.5])), "not supported", "ahead at 0% of 1 points")


RISE = [0.3, 0.4, 0.5, 0.6, 0.7]  # at its end's height from M = 5 on
DIP = [0.3, 0.7, *[0.6] * 6, 0.7]


@pytest.mark.parametrize(
    ("claimed", "curve", "spread", "status", "found"),
    [
        (5, RISE, 0.002, "supported", f"M = 5 in {GEMMA} {TRIVIA}; significantly rising in 100%"),
        (6, RISE, 0.002, "supported", "M = 5 in"),  # a slack of a quarter
        (4, RISE, 0.002, "supported", "M = 5 in"),
        (7, RISE, 0.002, "partly", "M = 5 in"),
        (3, RISE, 0.002, "partly", "M = 5 in"),
        # "at M = 2" is neither at 1 nor at 3 or 4
        (2, [0.69, 0.7], 0.002, "partly", "M = 1 in"),
        (2, [0.3, 0.7], 0.002, "supported", "M = 2 in"),
        (2, [0.3, 0.5, 0.7], 0.002, "partly", "M = 3 in"),
        (2, [0.3, 0.5, 0.6, 0.7], 0.002, "partly", "M = 4 in"),
        # M = 11 is by chance .021 from the end, which the whole curve from 5 on is within
        (5, [*RISE, *[0.7] * 5, 0.679, 0.7], 0.002, "supported", "M = 5 in"),
        # no interval is inside ± .02, and none outside from M = 5 on
        (5, RISE, 0.02, "undecided", "from M = 5 on, or later, in"),
        (2, RISE, 0.02, "partly", "from M = 5 on, or later, in"),
        (5, RISE[::-1], 0.002, "not supported", "M = 5 in"),
        # at its end's height at M = 2 already, and then shown to be off until M = 8
        (2, DIP, 0.002, "partly", "M = 9 in"),
        (9, DIP, 0.002, "supported", "M = 9 in"),
        (2, DIP, 0.02, "partly", "from M = 9 on, or later, in"),
    ],
)
def test_a_plateau(claimed: int, curve: list[float], spread: float, status: str, found: str) -> None:
    judged(plateau(claimed), evidence(widths(curve, [0.5], spread)), status, found)


def plateau(claimed: int) -> Plateau:
    return Plateau(kind="plateau", cells=[(GEMMA, TRIVIA)], method="Dissimilarity", variant=BEAM, at=claimed)


# -- scores ----------------------------------------------------------------------------------------------------------

RIGHT = [float(i % 2) for i in range(N)]


def scored(model: str, beams: Sequence[float], samples: Sequence[float]) -> dict[Artifact, list[dict[str, Any]]]:
    """Scores of Dissimilarity; every other answer is right."""
    ids = [row["id"] for row in questions()]
    like = {"answer_source": "greedy", "method": "Dissimilarity", "setting": ""}
    scores = [
        like | {"id": key, "variant": variant, "value": value}
        for variant, values in ((BEAM, beams), (SAMPLES, samples))
        for key, value in zip(ids, values, strict=True)
    ]
    quality = [{"id": key, "answer_source": "greedy", "value": right} for key, right in zip(ids, RIGHT, strict=True)]
    return {
        Artifact("scores", TRIVIA, model, "main", "nli"): scores,
        Artifact("quality", TRIVIA, model, "main", metric="alignscore"): quality,
        QUESTIONS: questions(),
    }


PERFECT, WORST, NOTHING = [-right for right in RIGHT], RIGHT, [0.0] * N
SHORT = [6] * 20 + [7] * 20  # the first half is below seven tokens
GUESS = [-right if i % 7 else right for i, right in enumerate(RIGHT)]


@pytest.mark.parametrize(
    ("beams", "samples", "status", "found"),
    [
        (PERFECT[:20] + NOTHING[20:], NOTHING, "supported", "+1.000 [+1.000, +1.000] below 7 tokens on triviaqa"),
        (PERFECT, NOTHING, "partly", "+1.000 [+1.000, +1.000] from 7 tokens on triviaqa"),
        (WORST[:20] + PERFECT[20:], NOTHING, "not supported", "significantly rising below in 0%"),
        # an interval that holds 0 and is wide does not show that there is no gain
        (PERFECT[:20] + GUESS[20:], NOTHING[:20] + GUESS[:19:-1], "undecided", "; undecidable with n = 20 unless"),
    ],
)
def test_the_gain_on_short_answers(
    tmp_path: Path, beams: list[float], samples: list[float], status: str, found: str
) -> None:
    files = scored(GEMMA, beams, samples) | decoded(SHORT, [0.5] * N)
    measure = GainByLength(kind="gain by length", model=GEMMA, datasets=[TRIVIA], method="Dissimilarity", short_below=7)
    judged(measure, evidence(files=files, folder=tmp_path, resamples=500), status, found)


@pytest.mark.parametrize(
    ("beams", "samples", "gain", "status", "found"),
    [
        (PERFECT, WORST, 0.1, "supported", "100% of the range for Dissimilarity; significantly ahead in 100%"),
        (WORST, PERFECT, 0.1, "not supported", "for Dissimilarity; significantly ahead in 100%"),
        (PERFECT, WORST, -0.1, "supported", "100% of the range for Dissimilarity; significantly ahead in 0%"),
    ],
)
def test_rejection_curves(
    tmp_path: Path, beams: list[float], samples: list[float], gain: float, status: str, found: str
) -> None:
    cell = Made(at(LLAMA, TRIVIA), {prr("Dissimilarity", BEAM): 0.5 + gain, prr("Dissimilarity", SAMPLES): 0.5}, 0.01)
    measure = CurvesAhead(kind="rejection curves", model=LLAMA, dataset=TRIVIA, methods=["Dissimilarity"])
    judged(measure, evidence(cell, files=scored(LLAMA, beams, samples), folder=tmp_path), status, found)


# -- settings --------------------------------------------------------------------------------------------------------


def settings(
    table: str, columns: Sequence[tuple[float, ...]], names: Sequence[str], spread: float = 0.01, n: int = N
) -> ClaimEvidence:
    """Values of some printed settings of Dissimilarity, a column a cell."""
    at_cells = [(m, d) for m in (GEMMA, LLAMA) for d in (TRIVIA, "coqa")][: len(columns)]
    method = "Eccentricity" if table == "tab:abl_ecc_params" else "Dissimilarity"
    rows = [
        row
        for row in PRINTED
        if row.key.table == table
        and (row.key.model, row.key.dataset) in at_cells
        and (row.key.method, row.key.setting in names) == (method, True)
    ]
    assert len(rows) == len(columns) * len(names)
    cells = []
    for (model, dataset), column in zip(at_cells, columns, strict=True):
        values = dict(zip(names, column, strict=True))
        keys = {
            measured_place(study(), row.key, RULES).key: values[row.key.setting]  # type: ignore[union-attr]
            for row in rows
            if (row.key.model, row.key.dataset) == (model, dataset)
        }
        cells.append(Made(at(model, dataset, "strategies"), keys, spread, n))
    return evidence(*cells, values=rows)


def ablation(table: str, expect: str, **options: Any) -> AblationSettings:
    content = {"kind": "ablation settings", "table": f"tab:abl_{table}", "expect": expect, **options}
    return AblationSettings.model_validate(content)


SAMPLING = ["beam", "multinomial T=0.7", "diverse G=2 lambda=0.5", "hybrid B=3"]
FLOORS = ["epsilon=0", "epsilon=0.1", "epsilon=1.0"]
ALPHAS = ["alpha=0.7", "alpha=0.9", "K=1", "K=3"]
FLOOR = ablation("normalization", "none dominates")
YIELD_OF = ablation("sampling", "ahead", settings=["beam"], worse=["multinomial", "diverse"]), SAMPLING
FLOOR_OF = FLOOR, FLOORS
ROBUST_OF = ablation("ecc_params", "robust", settings=["alpha=0.7", "alpha=0.9"], worse=["K="], margin=0.03), ALPHAS


@pytest.mark.parametrize(
    ("of", "columns", "spread", "status", "found"),
    [
        (YIELD_OF, [(0.6, 0.5, 0.4, 0.7)] * 2, 0.01, "supported", "100% of 4 comparisons, significantly in 100%"),
        (YIELD_OF, [(0.3, 0.5, 0.4, 0.2)] * 2, 0.01, "not supported", "0% of 4 comparisons, significantly in 0%"),
        (YIELD_OF, [(0.6, 0.5, 0.4, 0.7), (0.6, 0.5, 0.7, 0.7)], 0.01, "partly", "below beam in 75% of 4"),
        (FLOOR_OF, [(0.6, 0.5, 0.4), (0.4, 0.5, 0.6)], 0.01, "supported", "2 of 3 settings are best in some of 2"),
        (FLOOR_OF, [(0.6, 0.5, 0.4), (0.6, 0.5, 0.4)], 0.01, "not supported", "1 of 3 settings are best in some"),
        # the best changes, but within noise
        (FLOOR_OF, [(0.6, 0.59, 0.58), (0.58, 0.59, 0.6)], 0.1, "undecided", "; 0 are significantly behind"),
        (FLOOR_OF, [(0.6, 0.595, 0.4), (0.595, 0.6, 0.4)], 0.05, "undecided", "; 1 are significantly behind"),
        (
            ROBUST_OF,
            [(0.6, 0.59, 0.5, 0.4)] * 2,
            0.01,
            "supported",
            "100% within 0.03 of the best; alpha=0.9 ahead of the best K",
        ),
        (ROBUST_OF, [(0.5, 0.5, 0.6, 0.4)] * 2, 0.01, "not supported", "0% within 0.03 of the best; alpha=0.9"),
        (ROBUST_OF, [(0.7, 0.66, 0.5, 0.6)] * 2, 0.01, "partly", "50% within 0.03 of the best; alpha=0.9 ahead"),
    ],
)
def test_settings_of_an_ablation(
    of: tuple[AblationSettings, list[str]], columns: list[Any], spread: float, status: str, found: str
) -> None:
    measure, names = of
    judged(measure, settings(measure.table, columns, names, spread), status, found)


def test_untempered_samples_are_none_that_yield() -> None:
    by_id = {claim.id: claim.decided_by for claim in claims.read_claims()}
    names = ["beam", "multinomial T=0.7", "multinomial T=1.0", "multinomial T=1.5", "diverse G=5 lambda=2.0"]
    of = settings("tab:abl_sampling", [(0.6, 0.5, 0.7, 0.5, 0.4)] * 2, names)
    judged(by_id["strategies-yield"], of, "supported", "below beam in 100% of 6 comparisons")


def test_the_best_of_many_equal_settings_is_not_significantly_ahead() -> None:
    """Naively, the lead of the largest of seven over the smallest is nearly always significant."""
    names = [f"epsilon={e}" for e in ("0", "0.00001", "0.001", "0.01", "0.05", "0.1", "1.0")]
    rejected, naive = 0, 0
    random = np.random.default_rng(5)
    keys = [prr("Dissimilarity", BEAM, name) for name in names]
    for trial in range(60):
        values = dict(zip(keys, 0.5 + 0.05 * random.normal(size=7), strict=True))
        cell = Made(at(GEMMA, TRIVIA, f"strategies-{trial}"), values, 0.05)
        behind = [selected_lead([cell], [other for other in keys if other != key], [key])[1] for key in keys]
        rejected += min(behind) < 0.05 / 7
        order = sorted(values, key=lambda key: values[key])
        lead = cell.replicates(order[-1]).astype(float) - cell.replicates(order[0])
        naive += 2 * (1 + (lead <= 0).sum()) / (RESAMPLES + 1) < 0.05
    assert naive >= 15
    assert rejected <= 6


def test_the_lead_of_the_best_beam_form_is_tested_as_the_best_of_many() -> None:
    forms = [(method, BEAM) for method in RULES.families.methods]
    values = {prr(*form): 0.64 for form in forms} | {prr(*forms[2]): 0.66, prr("Prob"): 0.5}
    cells = mains(GEMMA, values, 0.05 * len(DATASETS) ** 0.5)  # the lead, .16, spreads by .05 · √2
    of = evidence(*cells, values=table_of(*forms, ("Prob", "")))
    assert of.tested([of.difference(cells, prr(*forms[2]), prr("Prob"))]).part() == "yes"
    verdict = ranked(place="best", models=[GEMMA]).verdict(of)
    assert (verdict.significance, verdict.status) == ("no", "supported")


@pytest.mark.parametrize(
    ("ahead", "others", "p"),
    [
        (["a"], ["c"], 2 / 5),  # .2 ahead, as one of four resamples has it
        (["a", "b"], ["c"], 3 / 5),  # another resample has b as far ahead
        (["a", "b"], ["c", "d"], 4 / 5),  # d is farther behind, but by chance .6 off: it has to be beaten too
    ],
)
def test_the_p_of_a_lead_is_that_of_the_best_of_many_over_each_other(
    ahead: list[str], others: list[str], p: float
) -> None:
    keys = {name: prr("Dissimilarity", BEAM, name) for name in "abcd"}
    values = dict(zip(keys.values(), (0.6, 0.5, 0.4, 0.1), strict=True))
    off = [0, 0, 0.3, 0], [0.25, 0, 0, -0.1], [0, 0, 0, 0], [-0.6, -0.6, -0.6, 0]
    cell = Made(at(GEMMA, TRIVIA), values)
    cell._replicates = {stored(key): values[key] + np.array(of) for key, of in zip(values, off, strict=True)}
    lead = selected_lead([cell], [keys[name] for name in ahead], [keys[name] for name in others])
    assert lead == (pytest.approx(0.2), pytest.approx(p))


# -- runs ------------------------------------------------------------------------------------------------------------


def pool(beams: Sequence[float], *, vary: bool, outside: int = 0) -> dict[Artifact, list[dict[str, Any]]]:
    """Ten draws of ten samples: all like the answer in every other draw (``vary``), or like nothing in all draws.

    ``beams``: probabilities; the first beam is like the answer, no other is. ``outside``: how many of every ten samples
    are no beam's sequence; they are like nothing.
    """
    candidates = Artifact("candidates", TRIVIA, GEMMA, "pool")
    rows = []
    for i in range(N):
        rows.append(candidate(candidates, i, "greedy", 0, "answer 0", 3, -0.5))
        for rank in range(100):
            text = "answer 0" if vary and (rank // 10) % 2 else "answer 1"
            text = "answer 10" if rank % 10 < outside else text
            rows.append(candidate(candidates, i, "sample T=1.0", rank, text, 3, -1.0))
        rows += [
            candidate(candidates, i, "beam M=10", rank, f"answer {rank}", 3, float(np.log(p)))
            for rank, p in enumerate(beams)
        ]
    nothing = {"neutral": None, "contradict": None}
    pairs = [
        nothing | {"id": f"{TRIVIA}-{i}", "premise": "answer 0", "hypothesis": f"answer {k}", "entail": float(k == 0)}
        for i in range(N)
        for k in range(11)
    ]
    quality = [{"id": f"{TRIVIA}-{i}", "answer_source": "greedy", "value": right} for i, right in enumerate(RIGHT)]
    return {
        candidates: rows,
        Artifact("similarity", TRIVIA, GEMMA, "pool", "nli"): pairs,
        Artifact("quality", TRIVIA, GEMMA, "pool", metric="alignscore"): quality,
        QUESTIONS: questions(),
    }


VARIANCE = VarianceAcrossRuns(kind="variance across runs", model=GEMMA, datasets=[TRIVIA], questions=N)


@pytest.mark.parametrize(
    ("vary", "status", "found"),
    [
        # draws of 0 and 1: variance 10/36; beams weigh to .5 exactly, the mean's own error is a tenth of the variance
        (True, "supported", "one draw 0.2778, beams -0.0278, the former minus the latter +0.3056 ± 0.0000"),
        (False, "not supported", "one draw 0.0000, beams 0.2500, the former minus the latter -0.2500"),
    ],
)
def test_beams_are_judged_by_their_error_beside_that_of_a_draw(
    vary: bool, status: str, found: str, tmp_path: Path
) -> None:
    of = evidence(files=pool([0.45, *[0.05] * 9], vary=vary), folder=tmp_path)
    told = f"varies by {0.527 * vary:.3f} and PRR by 0.0000; beams, being deterministic, by nothing"
    judged(VARIANCE, of, status, told, found)


GAP = GapOutsideBeams(kind="gap outside beams", model=GEMMA, datasets=[TRIVIA], questions=N)


LEAST_MASS = [0.18, *[0.02] * 9]  # together .36; μ_B = .5, as of [0.45, *[0.05] * 9] with .9


@pytest.mark.parametrize(
    ("beams", "vary", "outside", "status", "found"),
    [
        # μ_out = 1 and σ² = .7 · .3 · 100/99 = .212: enough is a mass of 1 − √(.0212 / .25) = .709
        (
            [0.45, *[0.05] * 9],
            True,
            4,
            "supported",
            "minus inside +0.500 ± 0.000, root mean square 0.500; a mass below",
        ),
        (LEAST_MASS, True, 4, "partly", "enough at 100.0% ± 0.0%. Mean squared error: one draw 0.0212, beams 0.1024,"),
        (LEAST_MASS, False, 4, "not supported", "enough at 0.0% ± 0.0%. Mean squared error: one draw 0.0000, beams"),
    ],
)
def test_the_gap_outside_the_beams(
    tmp_path: Path, beams: list[float], vary: bool, outside: int, status: str, found: str
) -> None:
    of = evidence(files=pool(beams, vary=vary, outside=outside), folder=tmp_path)
    judged(GAP, of, status, f"40 of 40 questions, {N * outside * 10:,} samples outside the beams", found)


OWN, FLOWERS = "own-model", "flowers"


def own_study(*recipes: str) -> Study:
    """A study of one's own model on TriviaQA, on CoQA and on a dataset that is not the paper's, in these recipes."""
    content = of_paper().model_dump(mode="json")
    models, datasets = content["models"], content["datasets"]
    trivia = datasets[TRIVIA]
    entry = {"models": [OWN], "datasets": [TRIVIA, "coqa", FLOWERS], "scorers": ["nli"]}
    return study(
        models={OWN: models[GEMMA] | {"label": "own"}},
        datasets={TRIVIA: trivia, "coqa": datasets["coqa"], FLOWERS: trivia},
        grid=[entry | {"recipe": recipe} for recipe in recipes],
        evaluation=content["evaluation"],
    )


@pytest.mark.parametrize(
    ("claim", "of"),
    [
        ("redundancy-falls", {f"{OWN} {TRIVIA}", f"{OWN} {FLOWERS}"}),  # the claim is about TriviaQA, not about CoQA
        ("consistently-improves", {OWN}),
        ("short-answers", {OWN}),
        ("every-budget", {OWN}),
        ("plateau-choice", {OWN}),
        ("strategies-yield", {OWN}),
        ("theorem", set()),
    ],
)
def test_a_claim_is_asked_of_the_study_s_own_cells(claim: str, of: set[str]) -> None:
    measure = {claim.id: claim.decided_by for claim in claims.read_claims()}[claim]
    assert measure is not None
    own = own_study("main", "widths", "strategies")
    assert set(measure.asked_of(own, RULES.paper)) == of
    assert measure.asked_of(own_study("pool"), RULES.paper) == {}


def with_a_second_model(*datasets: str) -> Study:
    """The study, with a second model on these datasets alone."""
    own = own_study("main")
    entry = own.grid[0].model_copy(update={"models": ["second"], "datasets": list(datasets)})
    models = own.models | {"second": own.models[OWN].model_copy(update={"label": "second"})}
    return own.model_copy(update={"models": models, "grid": [*own.grid, entry]})


def test_a_claim_is_not_asked_of_another_dataset_of_a_model_where_the_study_has_the_claimed_one() -> None:
    measure = {claim.id: claim.decided_by for claim in claims.read_claims()}["redundancy-falls"]
    assert measure is not None  # about TriviaQA
    own = {f"{OWN} {TRIVIA}", f"{OWN} {FLOWERS}"}
    assert set(measure.asked_of(with_a_second_model("coqa"), RULES.paper)) == own
    assert set(measure.asked_of(with_a_second_model("coqa", TRIVIA), RULES.paper)) == own | {f"second {TRIVIA}"}


def test_the_family_of_a_study_s_own_models_has_the_cells_of_its_grid() -> None:
    of, methods = with_a_second_model("coqa"), RULES.families.methods
    values = {prr(method, variant): 0.5 for method in methods for variant in (BEAM, SAMPLES)}
    better = values | {prr(methods[0], BEAM): 0.6}
    cells = [Made(at(OWN, dataset), values, 0.01) for dataset in of.datasets]
    cells.append(Made(at("second", "coqa"), better, 0.01))
    found = beam_minus_multinomial.differences(Stored(of, cells, Inputs({}), []), rules())
    assert len(found) == len(methods) * (2 + 4)  # two means, four cells
    assert found["difference"].notna().all()
    for family, tests in ((beam_minus_multinomial.HEADLINE, 2), (beam_minus_multinomial.CELLS, 4)):
        smallest = found[found["family"] == family].nsmallest(1, "p").iloc[0]
        assert smallest["adjusted"] == pytest.approx(smallest["p"] * tests * len(methods))
    means = found[found["family"] == beam_minus_multinomial.HEADLINE].groupby("model")["note"].unique()
    assert {model: list(notes) for model, notes in means.items()} == {OWN: [""], "second": ["of coqa alone"]}


@pytest.mark.parametrize(
    ("beams", "spread", "answer"),
    [(0.6, 0.001, "yes"), (0.4, 0.001, "no"), (0.5001, 0.1, "undecided"), (0.4999, 0.1, "undecided")],
)
@pytest.mark.parametrize("claim", ["consistently-improves", "state-of-the-art", "top-beam"])
def test_an_answer_about_the_study_itself_has_to_be_shown(claim: str, beams: float, spread: float, answer: str) -> None:
    own, methods = own_study("main"), RULES.families.methods
    values = {
        Key("PRR", method, variant, "", source): value
        for method in methods
        for source in ("greedy", "top_beam")
        for variant, value in ((BEAM, beams), (SAMPLES, 0.5))
    }
    cells = [Made(at(OWN, dataset), values, spread) for dataset in own.datasets]
    asked = claims.ask(claims.read_claims(), ClaimEvidence(Stored(own, cells, Inputs({}), []), PRINTED, rules()))
    row = asked.set_index("id").loc[claim]
    assert (row["of"], row["answer"]) == (OWN, answer), row["found"]
    assert "120 questions of 3 datasets" in row["found"]
    assert "printed" not in row["found"]


@pytest.mark.parametrize(
    ("repeats", "answer"),
    [
        ([4, 4, 4, 4, 3] * 8, "yes"),
        ([1, 1, 1, 1, 2] * 8, "no"),
        ([0, 6] * 20, "undecided"),
        ([3] * 40, "yes"),  # 40 of 40 at .4: between .37 and .44
        ([4] * 40, "undecided"),  # at .5, the range's end
        ([0] * 40, "no"),  # none: at most .07
    ],
)
def test_a_share_about_the_study_itself_has_its_interval_inside_the_printed_range(
    tmp_path: Path, repeats: list[int], answer: str
) -> None:
    """Equal values have one too: none of 40 is not nothing known."""
    of = evidence(files=decoded([3] * N, [0.5] * N, [again + (again > 0) for again in repeats]), folder=tmp_path)
    measure = mean_by_length("repeated samples", lengths=[2, 4], printed=[0.3, 0.5])
    assert measure.verdict(replace(of, of_paper=False)).answer == answer


def test_samples_that_are_all_beams_tell_nothing_of_what_is_outside(tmp_path: Path) -> None:
    of = evidence(files=pool(LEAST_MASS, vary=True), folder=tmp_path)
    with pytest.raises(NotRunError, match="0 questions of triviaqa have two samples that are none of the beams"):
        GAP.verdict(of)


@pytest.mark.parametrize(("value", "part"), [(0.21, "yes"), (-0.21, "no"), (0.19, "undecided"), (-0.19, "undecided")])
def test_above_means_with_the_whole_interval(value: float, part: str) -> None:
    assert above(value, 0.1, 2.0) == part


# -- without a run ---------------------------------------------------------------------------------------------------


def test_the_theorem_s_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Counterexample(kind="counterexample")
    found = "mass 0.86 > 0.842 and squared error 0.0196 of beams against 0.0120"
    judged(measure, evidence(), "not supported", found)
    harmless = beam_mass_theorem.Outcomes(np.array([0.95, 0.05]), np.array([0.0, 1.0]), np.array([True, False]))
    monkeypatch.setattr(beam_mass_theorem, "COUNTEREXAMPLE", harmless)
    judged(measure, evidence(), "supported", "mass 0.95 > 0.842 and squared error 0.0025 of beams against 0.0047")


# -- the rules -------------------------------------------------------------------------------------------------------


def differences(*of: tuple[float, float]) -> list[Difference]:
    return [Difference(value, value - 0.1, value + 0.1, 0.05, "", p) for value, p in of]


def test_tests_of_one_claim_are_corrected_by_holm() -> None:
    # .03 alone is below .05; among three, .03 · 3 and .03 · 2 are not
    tested = evidence().tested(differences((0.1, 0.03), (0.1, 0.03), (0.1, 0.001)))
    assert tested.rising == pytest.approx(1 / 3)
    assert tested.falling == 0
    assert evidence().tested(differences((-0.1, 0.03))).falling == 1
    assert (tested.part(), tested.part(0.3)) == ("partly", "yes")


def test_a_tie_is_significant_in_no_direction() -> None:
    tested = evidence().tested(differences((1e-17, 0.001), (-1e-17, 0.001)))
    assert (tested.rising, tested.falling) == (0, 0)


def test_too_few_resamples_decide_nothing() -> None:
    # 2 · 25 / 1001 < .05 ≤ 2 · 26 / 1001
    few = evidence(resamples=1000)
    assert few.tested(differences((0.1, 2 / 1001)) * 25).part() == "yes"
    tested = few.tested(differences((0.1, 2 / 1001)) * 26)
    assert (tested.part(), tested.rising, tested.falling) == ("undecided", None, None)
    assert tested.text("in") == "too few resamples (1,000) for 26 tests at 5%"


@pytest.mark.parametrize(
    ("low", "high", "part"),
    [
        (-0.02, 0.02, "yes"),
        (-0.021, 0.02, "undecided"),
        (-0.5, 0.5, "undecided"),
        (0.01, 0.03, "undecided"),
        (0.021, 0.03, "no"),
        (-0.03, -0.021, "no"),
        (None, None, "undecided"),
    ],
)
def test_negligible_means_inside_a_margin(low: float | None, high: float | None, part: str) -> None:
    assert negligible(Difference(0.0, low, high, 0.01, "", 0.5), 0.02) == part


@pytest.mark.parametrize(
    ("parts", "together"),
    [
        (["yes", "yes"], "yes"),
        (["yes", "yes", "no"], "partly"),
        (["no", "no", "yes"], "no"),
        (["yes", "undecided"], "undecided"),
        (["no", "no", "undecided"], "no"),
    ],
)
def test_parts_of_several_cells(parts: list[Any], together: str) -> None:
    assert all_as(parts) == together


@pytest.mark.parametrize(("n", "enough"), [(35, False), (36, True)])
def test_a_claim_needs_the_paper_s_questions(tmp_path: Path, n: int, enough: bool) -> None:
    """Nine tenths of them, in a cell's measurements, in candidates, and in scores."""
    mass = mean_by_length("printed condition met", printed=[0.1, 0.2])
    cases = [
        (AHEAD, evidence(widths([0.3, 0.6], [0.5], n=n))),
        (mass, evidence(files=decoded([2] * n, [0.5] * n), folder=tmp_path)),
    ]
    for measure, of in cases:
        if enough:
            assert measure.verdict(of).found
        else:
            with pytest.raises(NotRunError, match=f"not comparable: 35 questions of {TRIVIA}, the paper has 40"):
                measure.verdict(of)


def test_scores_and_draws_of_too_few_questions_decide_nothing(tmp_path: Path) -> None:
    files = {
        need: [row for row in rows if need == QUESTIONS or int(row["id"].split("-")[-1]) < 35]
        for need, rows in scored(LLAMA, PERFECT, WORST).items()
    }
    curves = CurvesAhead(kind="rejection curves", model=LLAMA, dataset=TRIVIA, methods=["Dissimilarity"])
    with pytest.raises(NotRunError, match="35 questions of triviaqa, the paper has 40"):
        curves.verdict(evidence(files=files, folder=tmp_path / "scores"))
    of = evidence(files=pool([0.1] * 10, vary=True), folder=tmp_path / "pool")
    with pytest.raises(NotRunError, match="40 questions of triviaqa, the paper has 45"):
        VARIANCE.model_copy(update={"questions": 45}).verdict(of)


def test_a_claim_may_be_about_fewer_questions() -> None:
    of = evidence(widths([0.3, 0.6], [0.5], n=20))
    with pytest.raises(NotRunError, match="20 questions of triviaqa, the paper has 40"):
        AHEAD.verdict(of)
    assert AHEAD.model_copy(update={"questions": 22}).verdict(of).status == "supported"
    assert FLOOR.verdict(settings("tab:abl_normalization", [(0.6, 0.5, 0.4)], FLOORS, n=18)).found
    with pytest.raises(NotRunError, match="17 questions of triviaqa, the paper has 20"):
        FLOOR.verdict(settings("tab:abl_normalization", [(0.6, 0.5, 0.4)], FLOORS, n=17))


def test_a_claim_that_reads_sar_needs_its_relevance() -> None:
    """The other methods of the main table do not."""
    content = study().model_dump(mode="json")
    of = ranking(0.6, 0.5, 0.4, 0.3)
    changed = study(main=content["main"] | {"relevance": "nli"}, evaluation=content["evaluation"])
    results = Stored(changed, list(of.results._in_memory.values()), Inputs({}), [])  # type: ignore[attr-defined]
    rank = ranked(place="second", method="Dissimilarity", models=[GEMMA])
    without = ClaimEvidence(results, of.values, of.rules)
    assert rank.verdict(without).status == "not supported"
    with pytest.raises(NotRunError, match="not comparable: SAR's relevance"):
        rank.verdict(ClaimEvidence(results, [*of.values, *table_of(("SAR", ""))], of.rules))


# -- ours ------------------------------------------------------------------------------------------------------------

FIVE, NORMALISED = "unnormalised beam M=5", "normalised beam M=5"
SAMPLED = "uniform sample T=1.0 M=10"


def estimated(name: str) -> Key:
    variant, _, setting = name.partition(" ")
    return Key("PRR", "Dissimilarity", variant, setting)


def of_estimators(
    values: Mapping[str, float], *, spread: float = 0.001, last: Mapping[str, float] | None = None
) -> Any:
    """The paper's six cells of recipe truth, with these values; on the last dataset, others."""
    made = [
        Made(
            at(GEMMA, dataset, "truth"),
            {
                estimated(name): value
                for name, value in {**values, **((last or {}) if dataset == DATASETS[-1] else {})}.items()
            },
            spread,
        )
        for dataset in DATASETS
    ]
    return evidence(*made)


def our_claim(name: str) -> Measure:
    found = {claim.id: claim for claim in claims.read_claims()}[name]
    assert found.where.startswith("ours")
    assert found.decided_by is not None
    return found.decided_by


@pytest.mark.parametrize(
    ("five", "normalised", "sampled", "status"),
    [
        (0.60, 0.55, 0.61, "supported"),  # behind ten samples, by less than .02
        (0.60, 0.55, 0.63, "not supported"),  # by more
        (0.60, 0.60, 0.50, "undecided"),  # as good as normalised ones is not better
        (0.60, 0.65, 0.50, "not supported"),
    ],
)
def test_five_unnormalised_beams_have_to_be_no_worse_by_the_margin_and_better(
    five: float, normalised: float, sampled: float, status: str
) -> None:
    of = of_estimators({FIVE: five, NORMALISED: normalised, SAMPLED: sampled})
    judged(our_claim("five-unnormalised-beams"), of, status, "of 12 shown", f"on {DATASETS[0]}, n = 40")


def test_one_dataset_decides_against_all_and_one_that_is_open_leaves_them_open() -> None:
    values = {FIVE: 0.60, NORMALISED: 0.55, SAMPLED: 0.50}
    measure = our_claim("five-unnormalised-beams")
    judged(measure, of_estimators(values, last={SAMPLED: 0.70}), "not supported")
    judged(measure, of_estimators(values, last={NORMALISED: 0.60}), "undecided", "11 of 12 shown")
    judged(measure, of_estimators(values, spread=0.2), "undecided")  # nothing can be shown with such a spread


def test_estimators_are_not_compared_on_cells_of_empty_answers() -> None:
    measure = our_claim("five-unnormalised-beams")
    of = of_estimators({FIVE: 0.60, NORMALISED: 0.55, SAMPLED: 0.61}, last={SAMPLED: 0.90})
    of.cell(GEMMA, DATASETS[-1], "truth")._empty["greedy"] = Empty(5, 24)
    with pytest.raises(NotRunError, match=f"of {GEMMA} are empty on {DATASETS[-1]}"):
        measure.verdict(of)
    without = f"5 of the paper's 6 datasets (without {DATASETS[-1]}, where more than a fifth"
    judged(measure, replace(of, of_paper=False), "supported", "10 of 10 shown", without)


def test_samples_are_the_mean_over_their_disjoint_draws() -> None:
    """The first draw alone would be ahead: .70; the mean of both draws is .55."""
    values = {FIVE: 0.60, NORMALISED: 0.55, SAMPLED: 0.70, f"{SAMPLED} draw=1": 0.70, f"{SAMPLED} draw=2": 0.40}
    judged(our_claim("five-unnormalised-beams"), of_estimators(values), "supported", "+0.050 (at least")


def test_our_claims_are_asked_of_the_cells_that_score_them_and_of_no_others() -> None:
    measure, own = our_claim("five-unnormalised-beams"), own_study("main", "truth")
    assert set(measure.asked_of(own, RULES.paper)) == {OWN}
    assert measure.asked_of(own_study("main"), RULES.paper) == {}
    values = {estimated(name): value for name, value in {FIVE: 0.60, NORMALISED: 0.55, SAMPLED: 0.61}.items()}
    cells = [Made(at(OWN, dataset, "truth"), values, 0.001) for dataset in own.datasets]
    asked = claims.ask(claims.read_claims(), ClaimEvidence(Stored(own, cells, Inputs({}), []), PRINTED, rules()))
    row = asked.set_index("id").loc["five-unnormalised-beams"]
    assert (row["of"], row["answer"]) == (OWN, "yes"), row["found"]
    assert f"on {FLOWERS}, n = 40" in row["found"]
    assert f"{len(own.datasets)} of the paper's 6 datasets" in row["found"]


def test_what_estimators_of_a_claim_a_recipe_scores() -> None:
    of = of_paper()
    assert scored_as(of, "truth", "stratified above") == "stratified above p=0.002 draws=100 lattices=10"
    assert scored_as(of, "truth", "stratified neverworse M=10") == "stratified neverworse M=10"
    assert scored_as(of, "truth", "uniform sample T=1.0 M=10") == "uniform sample T=1.0 M=10"
    assert scored_as(of, "truth", "uniform sample T=1.0 M=101") is None  # of a hundred
    assert scored_as(of, "truth", "unnormalised beam M=99") is None
    assert scored_as(of, "main", "normalised beam M=10") is None

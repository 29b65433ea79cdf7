"""Every function that judges a claim, on a small case made up for it; and the outcome of what was
found.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores
from beamuq.evaluation.significance import selected_lead
from beamuq_study.comparison.claims import (
    asked_claims,
    claims_of_ablations,
    claims_of_budgets,
    claims_of_candidates,
    claims_of_errors,
    claims_of_estimators,
    claims_of_methods,
    judged_claims,
)
from beamuq_study.comparison.claims.case import Case, NotAskedError, TooFewError
from beamuq_study.comparison.claims.judges import JUDGES
from beamuq_study.comparison.claims.verdict import Verdict, combined_part
from beamuq_study.comparison.comparison_inputs import Claim, ComparisonInputs, read_claims
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from beamuq_study.result_files import Empty, Inputs
from beamuq_study.study_config import Study
from simulated_paper_run import NUMBERS, RULES, candidate, study

N, RESAMPLES = 60, 2000
GEMMA, LLAMA, TRIVIA = "gemma-3-4b-base", "llama-3.1-8b-base", "triviaqa"
DATASETS = tuple(RULES.paper.datasets)
BEAM, SAMPLES, D = "beamsearch", "multinomial", "Dissimilarity"
SHARED = np.random.default_rng(0).normal(size=RESAMPLES)
Form = tuple[str, str, str]  # method, variant, setting
MAIN = Cell(GEMMA, TRIVIA, "main", "nli")


def noise(*key: object) -> Any:
    return np.random.default_rng(zlib.crc32(repr(key).encode())).normal(size=RESAMPLES)


def measured(
    cell: Cell, values: Mapping[Form, float], spread: float = 0.01, n: int = N
) -> Estimates:
    """PRR of a cell; replicates share most of their spread, so that differences scatter by
    ``spread`` · √2.
    """
    keys = {
        "recipe": cell.recipe,
        "scorer": cell.scorer,
        "answer_source": "greedy",
        "subset": "all",
        "metric": "PRR",
    }
    rows = [
        cell.place
        | keys
        | {"method": method, "variant": variant, "setting": setting, "value": value, "n": n}
        for (method, variant, setting), value in values.items()
    ]
    return Estimates.from_rows(
        rows, [v + 0.05 * SHARED + spread * noise(cell, key) for key, v in values.items()]
    )


class FakeInputs:
    """Results in memory, read as :class:`~beamuq_study.result_files.Inputs` are."""

    def __init__(self, *parts: Estimates, empty: Sequence[Cell] = (), **files: Any) -> None:
        self.parts, self.resampling = parts, {"resamples": 400}
        self.candidates, self.scores, self.frame = (
            lambda _, name=name: files[name] for name in ("candidates", "scores", "pairs")
        )
        self.empty = lambda cell: {"greedy": Empty(20, N)} if cell in empty else {}

    def __contains__(self, file: Artifact) -> bool:
        return True

    def estimates(
        self, cells: Sequence[Cell], quality: str = "", /, **keys: str | Collection[str]
    ) -> Estimates:
        if quality:
            keys["quality"] = quality
        all_parts = joined([part.rows(range(len(part))) for part in self.parts])
        places = [(cell.model, cell.dataset, cell.recipe) for cell in cells]
        cells_of_rows = pd.MultiIndex.from_frame(all_parts.frame[["model", "dataset", "recipe"]])
        return all_parts.rows(cells_of_rows.isin(places)).where(**keys)


def in_memory(*estimates: Estimates, of: Study | None = None, **files: Any) -> ComparisonInputs:
    """Results that hold ``candidates``, ``scores`` or ``pairs``; the answers of the cells ``empty``
    are.
    """
    return ComparisonInputs(
        of or study(), cast(Inputs, FakeInputs(*estimates, **files)), NUMBERS.copy(), RULES
    )


def judged(
    judge: Callable[..., Verdict], results: ComparisonInputs, *cells: Cell, **options: Any
) -> Verdict:
    return judge(Case(results, cells), **options)


def mains(values: Mapping[Form, float], spread: float = 0.01) -> tuple[list[Cell], list[Estimates]]:
    cells = [Cell(GEMMA, dataset, "main", "nli") for dataset in DATASETS]
    return cells, [measured(cell, values, spread) for cell in cells]


def decoded(
    lengths: Sequence[int],
    masses: Sequence[float],
    repeats: Sequence[int] = (),
    sampled: Sequence[float] = (),
    first: float = 1.0,
    samples: Sequence[Sequence[int]] = (),
) -> CandidateSets:
    """Two beams of each question with this mass, a share ``first`` of it the leading three's; ten
    samples of it.

    ``repeats``: how many of the samples repeat another; ``sampled``: the mass of one of them, the
    others' is tiny; ``samples``: what each is a sample of, in place of these.
    """
    rows = []
    for i, (length, mass) in enumerate(zip(lengths, masses, strict=True)):
        key = f"{i}"
        rows.append(candidate(key, "greedy", 0, 0, length, -0.5))
        for rank, p in ((0, mass * first), (5, mass * (1 - first) + 1e-9)):
            rows.append(candidate(key, "beam M=10", rank, rank, length, float(np.log(p))))
        codes = (
            samples[i]
            if samples
            else [max(rank - (repeats[i] if repeats else 0), 0) for rank in range(10)]
        )
        for rank, code in enumerate(codes):
            p = sampled[i] if sampled and rank == 0 else 1e-9
            rows.append(candidate(key, "sample T=1.0", rank, code, length, float(np.log(p))))
    ids = [str(i) for i in range(len(lengths))]
    return CandidateSets(pd.DataFrame(rows), pd.DataFrame({"id": ids, "group": ids}))


@pytest.mark.parametrize(
    ("share", "outcome"), [((0.2, 0.3), "undecided"), ((0.6, 0.7), "no"), ((0.1, 0.4), "yes")]
)
def test_a_share_in_the_paper_is_met_by_the_whole_interval_where_questions_are_few(
    share: tuple[float, float], outcome: str
) -> None:
    made = in_memory(
        candidates=decoded([2] * N, [0.88] * 15 + [0.80] * 45)
    )  # .842 is between: .25 meet the condition
    verdict = judged(
        claims_of_candidates.mean_of_questions, made, MAIN, of="condition", paper_range=share
    )
    assert (verdict.value, verdict.n, verdict.outcome) == (0.25, N, outcome)


def test_the_share_of_repeats_is_that_of_answers_of_some_lengths() -> None:
    made = in_memory(
        candidates=decoded(
            [1] * 50 + [2, 4] * 30 + [5] * 60, [0.5] * 170, [9] * 50 + [4] * 60 + [0] * 60
        )
    )
    judge = partial(judged, claims_of_candidates.mean_of_questions, made, MAIN, of="repeat")
    assert judge(paper_range=(0.3, 0.5), lengths=(2, 4)).value == pytest.approx(0.4)
    assert judge(paper_range=(0.1, 0.2), lengths=(2, 4)).outcome == "no"
    assert (
        judge(paper_range=(0.1, 0.2), lengths=(5, np.inf)).value,
        judge(paper_range=(0, 1)).n,
    ) == (0.0, 170)
    with pytest.raises(
        TooFewError, match="0 questions with answers of 6 to inf tokens; 50 are asked for"
    ):
        judge(paper_range=(0.1, 0.2), lengths=(6, np.inf))


@pytest.mark.parametrize(
    ("short", "long", "outcome"),
    [
        ((4, 5), (1, 2), "yes"),
        ((1, 2), (4, 5), "no"),
        ((2, 3), (2, 3), "undecided"),
        ((1, 6), (2, 4), "undecided"),
    ],
)
def test_redundancy_falls_with_length(
    short: tuple[int, int], long: tuple[int, int], outcome: str
) -> None:
    made = in_memory(
        candidates=decoded([2, 4] * 30 + [8] * 60, [0.5] * 120, [*short * 30, *long * 30])
    )
    verdict = judged(
        claims_of_candidates.mean_of_questions,
        made,
        MAIN,
        of="repeat",
        lengths=(2, 4),
        above=(8, np.inf),
    )
    assert verdict.outcome == outcome
    assert verdict.value == pytest.approx((sum(short) - sum(long)) / 20)


@pytest.mark.parametrize(
    ("beams", "samples", "first", "outcome"),
    [(0.8, 0.5, 0.9, "yes"), (0.5, 0.8, 0.9, "no"), (0.8, 0.5, 0.3, "undecided")],
)
def test_covered_mass(beams: float, samples: float, first: float, outcome: str) -> None:
    masses = [beams + 0.01 * (i % 3) for i in range(N)]
    made = in_memory(candidates=decoded([2, 3] * 30, masses, sampled=[samples] * N, first=first))
    assert (
        judged(claims_of_candidates.covered_mass, made, MAIN, first=3, share=0.5).outcome == outcome
    )


@pytest.mark.parametrize(
    ("gain", "spread", "outcome"),
    [(0.07, 0.01, "yes"), (-0.07, 0.01, "no"), (0.007, 0.1, "undecided")],
)
def test_a_rise_has_to_be_shown(gain: float, spread: float, outcome: str) -> None:
    cells, parts = mains(
        {("SemanticEntropy", BEAM, ""): 0.4 + gain, ("SemanticEntropy", SAMPLES, ""): 0.4}, spread
    )
    verdict = judged(
        claims_of_methods.beams_rise, in_memory(*parts), *cells, methods=["SemanticEntropy"]
    )
    assert (verdict.outcome, verdict.n) == (outcome, 6 * N)
    assert verdict.value == pytest.approx(gain)
    assert verdict.low < verdict.value < verdict.high


PRO_AHEAD = partial(
    claims_of_methods.method_ahead,
    better=("PRO", ""),
    worse=("Perplexity", ""),
    qualities=["answer_f1", "exact_match"],
)


def judged_twice(by_f1: float, by_exact_match: float, spread: float = 0.01) -> ComparisonInputs:
    """PRO's lead over Perplexity by each of two qualities, on six datasets."""
    parts = []
    for quality, lead in (("answer_f1", by_f1), ("exact_match", by_exact_match)):
        values = {("PRO", "", ""): 0.4 + lead, ("Perplexity", "", ""): 0.4}
        _, of_quality = mains(values, spread)
        parts += [estimates.assign(quality=quality) for estimates in of_quality]
    return in_memory(*parts)


@pytest.mark.parametrize(
    ("by_f1", "by_exact_match", "spread", "outcome"),
    [
        (0.05, 0.03, 0.01, "yes"),
        (0.05, 0.002, 0.01, "undecided"),  # shown by one quality alone
        (0.05, -0.03, 0.01, "no"),  # the opposite is shown by one
        (-0.05, -0.03, 0.01, "no"),
        (0.05, 0.03, 0.2, "undecided"),
    ],
)
def test_a_method_is_ahead_only_where_each_quality_shows_it(
    by_f1: float, by_exact_match: float, spread: float, outcome: str
) -> None:
    cells, _ = mains({})
    case = Case(judged_twice(by_f1, by_exact_match, spread), cells)
    verdict = PRO_AHEAD(case)
    assert (verdict.outcome, verdict.n) == (outcome, 6 * N)
    assert verdict.value == pytest.approx((by_f1 + by_exact_match) / 2)
    assert [note.split()[:2] for note in case.notes[:2]] == [
        ["answer_f1", f"{by_f1:+.3f}"],
        ["exact_match", f"{by_exact_match:+.3f}"],
    ]


def test_a_quality_that_was_not_measured_is_not_asked() -> None:
    cells, parts = mains({("PRO", "", ""): 0.5, ("Perplexity", "", ""): 0.4})
    by_f1_alone = [estimates.assign(quality="answer_f1") for estimates in parts]
    with pytest.raises(NotAskedError):
        judged(PRO_AHEAD, in_memory(*by_f1_alone), *cells)


def test_a_rise_of_most_needs_more_than_half() -> None:
    for rising, outcome in ((2, "yes"), (1, "no")):
        gains = {
            method: 0.05 if n < rising else -0.05
            for n, method in enumerate(("Dissimilarity", "CCP", "SAR"))
        }
        values = {(m, BEAM, ""): 0.4 + gain for m, gain in gains.items()} | {
            (m, SAMPLES, ""): 0.4 for m in gains
        }
        cells, parts = mains(values)
        assert (
            judged(
                claims_of_methods.beams_rise,
                in_memory(*parts),
                *cells,
                methods=list(gains),
                most=True,
            ).outcome
            == outcome
        )
        assert judged(
            claims_of_methods.beams_rise, in_memory(*parts), *cells, methods=list(gains)
        ).outcome in ("partly", "no")


@pytest.mark.parametrize(
    ("fall", "spread", "outcome"),
    [(0.01, 0.002, "yes"), (0.05, 0.002, "no"), (0.011, 0.1, "undecided")],
)
def test_a_loss_within_what_is_negligible_is_a_match(
    fall: float, spread: float, outcome: str
) -> None:
    cells, parts = mains(
        {("SemanticEntropy", BEAM, ""): 0.4 - fall, ("SemanticEntropy", SAMPLES, ""): 0.4}, spread
    )
    verdict = judged(
        claims_of_methods.beams_rise,
        in_memory(*parts),
        *cells,
        methods=["SemanticEntropy"],
        match=True,
    )
    assert (verdict.outcome, verdict.value) == (outcome, pytest.approx(-fall))


@pytest.mark.parametrize(
    ("match", "above", "tested"),
    [
        (
            True,
            "1 of 1 above -0.02, the margin",
            "100% significantly above that, 0% significantly below that",
        ),
        (False, "0 of 1 above 0", "0% significantly above, 100% significantly below"),
    ],
)
def test_what_is_judged_with_a_margin_says_so(match: bool, above: str, tested: str) -> None:
    values = {("SemanticEntropy", BEAM, ""): 0.39, ("SemanticEntropy", SAMPLES, ""): 0.4}
    cells, parts = mains(values, 0.002)
    case = Case(in_memory(*parts), cells)
    claims_of_methods.beams_rise(case, methods=["SemanticEntropy"], match=match)
    assert case.notes == [above, tested]


def test_what_is_undecided_has_a_smallest_detectable_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {("SemanticEntropy", BEAM, ""): 0.4, ("SemanticEntropy", SAMPLES, ""): 0.4}
    _, parts = mains(values, 0.1)
    kept = [claim for claim in read_claims() if claim.id in ("entropy-gains", "theorem")]
    monkeypatch.setattr(judged_claims, "read_claims", lambda: kept)
    monkeypatch.setattr(ComparisonInputs, "differences", lambda *_: [])
    rows = judged_claims.judge_claims(in_memory(*parts)).set_index("id")
    beams, samples = (joined(parts).where(variant=of) for of in (BEAM, SAMPLES))
    std = float(beams.minus(samples).replicates.mean(axis=0).std(ddof=1))
    assert rows["detectable"]["entropy-gains"] == pytest.approx(2.8016 * std, rel=1e-4)
    assert np.isnan(rows["detectable"]["theorem"])


def test_a_mean_leaves_out_cells_of_empty_answers_and_says_so() -> None:
    values = {(D, BEAM, ""): 0.6, (D, SAMPLES, ""): 0.5}
    cells, parts = mains(values)
    case = Case(in_memory(*parts, empty=cells[:1]), cells)
    assert claims_of_methods.beams_rise(case, methods=[D]).n == 5 * N
    assert f"without {DATASETS[0]}" in case.notes[0]
    with pytest.raises(NotAskedError, match="are empty on every dataset"):
        judged(claims_of_methods.beams_rise, in_memory(*parts, empty=cells), *cells, methods=[D])


@pytest.mark.parametrize(
    ("change", "spread", "outcome"),
    [(0.0, 0.005, "yes"), (0.0, 0.1, "undecided"), (0.13, 0.01, "no"), (-0.07, 0.01, "no")],
)
def test_no_change_is_a_negligible_one(change: float, spread: float, outcome: str) -> None:
    cells, parts = mains(
        {("DegreeMatrix", BEAM, ""): 0.4 + change, ("DegreeMatrix", SAMPLES, ""): 0.4}, spread
    )
    assert (
        judged(
            claims_of_methods.beams_change_nothing, in_memory(*parts), *cells, method="DegreeMatrix"
        ).outcome
        == outcome
    )


RANKED = [(D, BEAM, ""), (D, SAMPLES, ""), ("CocoaMSP", BEAM, ""), ("Prob", "", "")]


@pytest.mark.parametrize(
    ("values", "spread", "of_dissimilarity", "of_any"),
    [
        ((0.6, 0.5, 0.4, 0.3), 0.01, "yes", "yes"),
        ((0.4, 0.5, 0.6, 0.3), 0.01, "no", "yes"),
        ((0.4, 0.6, 0.5, 0.3), 0.01, "no", "no"),
        ((0.501, 0.5, 0.4, 0.3), 0.1, "undecided", "undecided"),  # first by chance
    ],
)
def test_the_best_has_to_lead_beyond_chance(
    values: tuple[float, ...], spread: float, of_dissimilarity: str, of_any: str
) -> None:
    cells, parts = mains(dict(zip(RANKED, values, strict=True)), spread)
    rank = partial(judged, claims_of_methods.ranking, in_memory(*parts), *cells)
    assert rank(place="best", method=D).outcome == of_dissimilarity
    assert rank(place="best").outcome == of_any
    assert (
        rank(place="second", method=D).outcome == "undecided"
    )  # no test says how far off another rank is


WIDTHS = Cell(GEMMA, TRIVIA, "beam_widths", "nli")


def widths(
    beams: Sequence[float], samples: Sequence[float], spread: float = 0.01, n: int = N
) -> Estimates:
    """PRR of Dissimilarity at M = 1, 2, …, the last value for all further M."""
    values = {
        (D, variant, f"M={M}"): curve[min(M, len(curve)) - 1]
        for variant, curve in ((BEAM, beams), (SAMPLES, samples))
        for M in range(1, 16)
    }
    return measured(WIDTHS, values, spread, n)


AHEAD = partial(claims_of_budgets.ahead_at_budgets, better=((D, BEAM),), worse=((D, SAMPLES),))


@pytest.mark.parametrize(
    ("beams", "resamples", "outcome"),
    [
        ([0.3, 0.6], RESAMPLES, "yes"),
        ([0.6, 0.3], RESAMPLES, "no"),
        ([0.3, 0.4, 0.6], RESAMPLES, "partly"),
        ([0.3, 0.6], 500, "undecided"),  # 2 · 14 / 501 > .05: no p could be small enough
    ],
)
def test_ahead_at_every_budget_from_two_on(
    beams: list[float], resamples: int, outcome: str
) -> None:
    every = widths(beams, [0.5])
    made = in_memory(replace(every, replicates=every.replicates[:, :resamples]))
    assert judged(AHEAD, made, WIDTHS).outcome == outcome
    assert judged(AHEAD, made, WIDTHS, first=1, last=1).outcome == (
        "yes" if beams[0] > 0.5 else "no"
    )


RISE = [0.3, 0.4, 0.5, 0.6, 0.7]  # at its end's height from M = 5 on
DIP = [0.3, 0.7, *[0.6] * 6, 0.7]


@pytest.mark.parametrize(
    ("near", "curve", "spread", "outcome", "start"),
    [
        (5, RISE, 0.002, "yes", 5),
        (6, RISE, 0.002, "yes", 5),  # a slack of a quarter
        (7, RISE, 0.002, "partly", 5),
        (3, RISE, 0.002, "partly", 5),
        (2, [0.69, 0.7], 0.002, "partly", 1),  # "at M = 2" is neither at 1 nor at 3
        (2, [0.3, 0.5, 0.7], 0.002, "partly", 3),
        # M = 11 is by chance .021 from the end, which the whole curve from 5 on is within
        (5, [*RISE, *[0.7] * 5, 0.679, 0.7], 0.002, "yes", 5),
        # no interval is inside ± .02, and none outside from M = 5 on
        (5, RISE, 0.02, "undecided", np.nan),
        (5, RISE[::-1], 0.002, "no", 5),
        # at its end's height at M = 2 already, and then shown to be off until M = 8
        (2, DIP, 0.002, "partly", 9),
        (9, DIP, 0.002, "yes", 9),
    ],
)
def test_a_plateau_has_to_stay(
    near: int, curve: list[float], spread: float, outcome: str, start: float
) -> None:
    verdict = judged(
        claims_of_budgets.plateau, in_memory(widths(curve, [0.5], spread)), WIDTHS, near=near
    )
    assert verdict.outcome == outcome, verdict
    assert verdict.value == pytest.approx(start, nan_ok=True)


MANY = 120
RIGHT = [float(i % 2) for i in range(MANY)]
PERFECT, WORST, NOTHING = [-right for right in RIGHT], RIGHT, [0.0] * MANY
GUESS, OTHER, GOOD = (
    [-right if i % wrong else right for i, right in enumerate(RIGHT)] for wrong in (7, 9, 13)
)


def scored(
    beams: Sequence[float], samples: Sequence[float], right: Sequence[float] = RIGHT
) -> QuestionScores:
    """Scores of Dissimilarity, of answers of which every other is ``right``."""
    ids = [str(i) for i in range(MANY)]
    scores = pd.concat(
        [
            pd.DataFrame(
                {
                    "id": ids,
                    "answer_source": "greedy",
                    "method": D,
                    "variant": v,
                    "setting": "",
                    "value": of,
                }
            )
            for v, of in ((BEAM, beams), (SAMPLES, samples))
        ]
    )
    quality = pd.DataFrame({"id": ids, "answer_source": "greedy", "value": right})
    return QuestionScores(scores, quality, pd.DataFrame({"id": ids, "group": ids}), "scores")


@pytest.mark.parametrize(
    ("beams", "samples", "outcome"),
    [
        (GOOD, NOTHING, "partly"),  # long answers gain as well
        (WORST[:60] + GOOD[60:], NOTHING, "no"),
        # an interval that holds 0 and is wide does not show that there is no gain
        (GOOD[:60] + GUESS[60:], NOTHING[:60] + OTHER[60:], "undecided"),
    ],
)
def test_the_gain_on_short_answers(beams: list[float], samples: list[float], outcome: str) -> None:
    made = in_memory(
        scores=scored(beams, samples), candidates=decoded([6] * 60 + [7] * 60, [0.5] * MANY)
    )
    verdict = judged(claims_of_methods.gain_on_short_answers, made, MAIN, below=7)
    assert (verdict.outcome, verdict.n) == (outcome, MANY), verdict


@pytest.mark.parametrize(
    ("beams", "samples", "gain", "outcome"),
    [
        (PERFECT, WORST, 0.1, "yes"),
        (WORST, PERFECT, -0.1, "no"),
        (PERFECT, WORST, -0.1, "undecided"),
    ],
)
def test_rejection_curves_are_ahead_over_the_range(
    beams: list[float], samples: list[float], gain: float, outcome: str
) -> None:
    estimates = measured(MAIN, {(D, BEAM, ""): 0.5 + gain, (D, SAMPLES, ""): 0.5})
    verdict = judged(
        claims_of_methods.curves_ahead,
        in_memory(estimates, scores=scored(beams, samples)),
        MAIN,
        methods=[D],
    )
    assert verdict.outcome == outcome, verdict


def test_curves_of_the_same_answers_in_another_order_are_on_each_other() -> None:
    """The sums .3 + .2 + .1 and .1 + .2 + .3 differ by rounding, and so do those of all that is
    retained later.
    """
    quality, order = [0.1, 0.2, 0.3, *[0.0] * (MANY - 3)], [float(place) for place in range(MANY)]
    gains = measured(MAIN, {(D, BEAM, ""): 0.6, (D, SAMPLES, ""): 0.5})
    made = in_memory(gains, scores=scored([*order[2::-1], *order[3:]], order, quality))
    assert judged(claims_of_methods.curves_ahead, made, MAIN, methods=[D]).outcome == "yes"


SAMPLING = ["beam", "multinomial T=0.7", "diverse G=2 lambda=0.5", "hybrid B=3"]
FLOORS = ["epsilon=0", "epsilon=0.1", "epsilon=1.0"]
ALPHAS = ["alpha=0.7", "alpha=0.9", "K=1", "K=3"]
YIELD = partial(claims_of_ablations.beams_ahead_of_others, worse=("multinomial", "diverse"))
ROBUST = partial(
    claims_of_ablations.settings_robust, strong=("alpha=0.7", "alpha=0.9"), worse="K=", margin=0.03
)


@pytest.mark.parametrize(
    ("judge", "names", "columns", "spread", "outcome"),
    [
        (YIELD, SAMPLING, [(0.6, 0.5, 0.4, 0.7)] * 2, 0.01, "yes"),
        (YIELD, SAMPLING, [(0.3, 0.5, 0.4, 0.2)] * 2, 0.01, "no"),
        (YIELD, SAMPLING, [(0.6, 0.5, 0.4, 0.7), (0.6, 0.5, 0.7, 0.7)], 0.01, "partly"),
        (
            claims_of_ablations.none_dominates,
            FLOORS,
            [(0.6, 0.5, 0.4), (0.4, 0.5, 0.6)],
            0.01,
            "yes",
        ),
        (
            claims_of_ablations.none_dominates,
            FLOORS,
            [(0.6, 0.5, 0.4), (0.6, 0.5, 0.4)],
            0.01,
            "no",
        ),
        (
            claims_of_ablations.none_dominates,
            FLOORS,
            [(0.5, 0.5, 0.4), (0.4, 0.5, 0.3)],
            0.01,
            "no",
        ),
        (
            claims_of_ablations.none_dominates,
            FLOORS,
            [(0.6, 0.59, 0.58), (0.58, 0.59, 0.6)],
            0.1,
            "undecided",
        ),  # within noise
        (ROBUST, ALPHAS, [(0.6, 0.59, 0.5, 0.4)] * 2, 0.01, "yes"),
        (ROBUST, ALPHAS, [(0.5, 0.5, 0.6, 0.4)] * 2, 0.01, "no"),
        (ROBUST, ALPHAS, [(0.7, 0.66, 0.5, 0.6)] * 2, 0.01, "undecided"),
    ],
)
def test_settings_of_an_ablation(
    judge: Callable[..., Verdict],
    names: list[str],
    columns: list[tuple[float, ...]],
    spread: float,
    outcome: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells, keys = (
        [Cell(GEMMA, of, "strategies", "nli") for of in (TRIVIA, "coqa")],
        [(D, BEAM, n) for n in names],
    )
    values = [dict(zip(keys, column, strict=True)) for column in columns]
    results = in_memory(
        *(measured(cell, of, spread) for cell, of in zip(cells, values, strict=True))
    )
    results.paper_numbers = pd.DataFrame(keys, columns=["method", "variant", "setting"]).assign(
        table="t", metric="PRR"
    )
    monkeypatch.setattr(claims_of_ablations, "as_stored", lambda _, rows: rows)
    verdict = judged(judge, results, *cells, table="t")
    assert verdict.outcome == outcome, verdict


def test_the_best_of_many_equal_settings_is_not_significantly_ahead() -> None:
    """Naively, the lead of the largest of seven over the smallest is nearly always significant."""
    rejected, naive, random = 0, 0, np.random.default_rng(5)
    for trial in range(60):
        values = {(D, BEAM, str(name)): 0.5 + 0.05 * random.normal() for name in range(7)}
        found = measured(Cell(GEMMA, TRIVIA, str(trial)), values, 0.05)
        behind = [selected_lead(found, np.arange(7) != place)[1] for place in range(7)]
        rejected += min(behind) < 0.05 / 7
        order = found.frame["value"].to_numpy().argsort()
        lead = found.replicates[order[-1]] - found.replicates[order[0]]
        naive += 2 * (1 + (lead <= 0).sum()) / (RESAMPLES + 1) < 0.05
    assert naive >= 15
    assert rejected <= 6


@pytest.mark.parametrize(
    ("ahead", "others", "p"),
    [
        ("a", "c", 2 / 5),  # .2 ahead, as one of four resamples has it
        ("ab", "c", 3 / 5),  # another resample has b as far ahead
        ("ab", "cd", 4 / 5),  # d is farther behind, but by chance .6 off: it has to be beaten too
    ],
)
def test_the_p_of_a_lead_is_that_of_the_best_of_many_over_each_other(
    ahead: str, others: str, p: float
) -> None:
    values = dict(zip("abcd", (0.6, 0.5, 0.4, 0.1), strict=True))
    off = dict(
        zip(
            "abcd",
            ([0, 0, 0.3, 0], [0.25, 0, 0, -0.1], [0, 0, 0, 0], [-0.6, -0.6, -0.6, 0]),
            strict=True,
        )
    )
    names = [*ahead, *others]
    rows = [{"setting": name, "value": values[name], "n": N} for name in names]
    found = Estimates.from_rows(rows, [values[name] + np.array(off[name]) for name in names])
    lead = selected_lead(found, np.array([name in ahead for name in names]))
    assert lead == (pytest.approx(0.2), pytest.approx(p))


POOL = Cell(GEMMA, TRIVIA, "repeated_draws", "nli")


def pool(
    masses: list[float], codes: Callable[[int, int], int], dissimilar: Mapping[int, float]
) -> ComparisonInputs:
    """Twenty samples of each question, of answers of a known dissimilarity; beams are answers 0 and
    5.
    """
    samples = [[codes(i, rank) for rank in range(20)] for i in range(N)]
    found = decoded([3] * N, masses, samples=samples, first=0.5)
    ids = [str(i) for i in range(N)]
    pairs = [
        (key, "answer 0", f"answer {code}", 1 - d) for key in ids for code, d in dissimilar.items()
    ]
    columns = ["id", "premise", "hypothesis", "entail"]
    return in_memory(candidates=found, pairs=pd.DataFrame(pairs, columns=columns))


@pytest.mark.parametrize(("beams", "outcome"), [(0.5, "yes"), (0.0, "no")])
def test_the_error_of_beams_is_judged_and_not_that_they_do_not_vary(
    beams: float, outcome: str
) -> None:
    dissimilar = {0: beams, 5: beams, 1: 0.0, 2: 1.0}
    made = pool(
        [0.9] * N, lambda _, rank: 2 if rank % 10 < (4 if rank < 10 else 6) else 1, dissimilar
    )
    verdict = judged(claims_of_errors.smaller_error, made, POOL)
    assert (verdict.outcome, verdict.n) == (outcome, N), verdict
    # two draws, of .4 and .6: their variance is .02, of which half is the error of their mean and
    # none of the beams'
    assert verdict.value == pytest.approx(0.02 - ((beams - 0.5) ** 2 - 0.01))


@pytest.mark.parametrize(("beams", "bias"), [(0.5, "yes"), (0.54, "yes"), (0.0, "no"), (1.0, "no")])
def test_samples_vary_and_beams_do_not_whatever_their_bias(beams: float, bias: str) -> None:
    made = pool(
        [0.9] * N,
        lambda _, rank: 2 if rank % 10 < (4 if rank < 10 else 6) else 1,
        {0: beams, 5: beams, 1: 0.0, 2: 1.0},
    )
    verdict = judged(claims_of_errors.no_variance, made, POOL)
    assert (verdict.outcome, verdict.value) == ("yes", pytest.approx(0.02))
    verdict = judged(claims_of_errors.small_bias, made, POOL, most=0.05)
    assert (verdict.outcome, verdict.value) == (bias, pytest.approx(beams - 0.5))


@pytest.mark.parametrize(
    ("mass", "every", "outcome"), [(0.9, 4, "yes"), (0.1, 4, "partly"), (0.1, 20, "no")]
)
def test_a_gap_is_small_where_less_mass_than_printed_is_enough(
    mass: float, every: int, outcome: str
) -> None:
    """Two of ``every`` samples are none of the beams."""
    dissimilar = {0: 0.0, 5: 0.0, 1: 1.0, 2: 0.99}
    made = pool(
        [mass] * N, lambda i, rank: {0: 1, every // 2: 2}.get((rank + i) % every, 0), dissimilar
    )
    verdict = judged(claims_of_errors.small_gap, made, POOL)
    assert verdict.outcome == outcome, verdict


def test_samples_that_are_all_beams_tell_nothing_of_what_is_outside() -> None:
    with pytest.raises(
        TooFewError, match="0 questions of triviaqa with two samples that are none of the beams"
    ):
        judged(claims_of_errors.small_gap, pool([0.9] * N, lambda *_: 0, {0: 0.1, 5: 0.1}), POOL)


def test_a_similarity_without_pairs_of_the_greedy_answer_is_not_asked() -> None:
    with pytest.raises(NotAskedError, match="lacks pairs, or questions differ"):
        judged(claims_of_errors.small_gap, pool([0.9] * N, lambda *_: 3, {0: 0.1, 5: 0.1}), POOL)


def test_questions_with_unequal_numbers_of_candidates_are_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, every = pool([0.9] * N, lambda *_: 0, {0: 0.1, 5: 0.1}), CandidateSets.rows
    monkeypatch.setattr(CandidateSets, "rows", lambda sets, of: every(sets, of).iloc[2:])
    with pytest.raises(NotAskedError, match="differ in their number of candidates"):
        judged(claims_of_errors.no_variance, made, POOL)


FIVE, NORMALISED, SAMPLED = (
    "unnormalised beam M=5",
    "normalised beam M=5",
    "uniform sample T=1.0 M=10",
)
OURS = partial(
    claims_of_estimators.estimators, comparisons=((FIVE, SAMPLED, 0.02), (FIVE, NORMALISED, 0.0))
)
TRUTH = [Cell(GEMMA, dataset, "reference", "nli") for dataset in DATASETS]


def of_estimators(
    values: Mapping[str, float],
    spread: float = 0.001,
    last: Mapping[str, float] | None = None,
    **options: Any,
) -> ComparisonInputs:
    """Recipe reference on six datasets; on the last of them, other values."""
    parts = []
    for cell in TRUTH:
        here = {**values, **((last or {}) if cell == TRUTH[-1] else {})}
        keys = {
            (D, name.partition(" ")[0], name.partition(" ")[2]): value
            for name, value in here.items()
        }
        parts.append(measured(cell, keys, spread))
    return in_memory(*parts, **options)


@pytest.mark.parametrize(
    ("five", "normalised", "sampled", "outcome"),
    [
        (0.60, 0.55, 0.61, "yes"),  # behind ten samples, by less than .02
        (0.60, 0.55, 0.63, "no"),  # by more
        (0.60, 0.60, 0.50, "undecided"),  # as good as normalised ones is not better
        (0.60, 0.65, 0.50, "no"),
    ],
)
def test_estimators_are_no_worse_by_a_margin_and_better(
    five: float, normalised: float, sampled: float, outcome: str
) -> None:
    made = of_estimators({FIVE: five, NORMALISED: normalised, SAMPLED: sampled})
    assert judged(OURS, made, *TRUTH).outcome == outcome


def test_one_dataset_decides_against_all_and_one_that_is_open_leaves_them_open() -> None:
    values = {FIVE: 0.60, NORMALISED: 0.55, SAMPLED: 0.50}
    assert judged(OURS, of_estimators(values, last={SAMPLED: 0.70}), *TRUTH).outcome == "no"
    assert (
        judged(OURS, of_estimators(values, last={NORMALISED: 0.60}), *TRUTH).outcome == "undecided"
    )
    assert judged(OURS, of_estimators(values, spread=0.2), *TRUTH).outcome == "undecided"
    without = judged(OURS, of_estimators(values, last={SAMPLED: 0.70}, empty=TRUTH[-1:]), *TRUTH)
    assert (without.outcome, without.n) == ("yes", 5 * N)


@pytest.mark.parametrize("M", [5, 10, 20])
def test_samples_are_the_mean_over_their_disjoint_draws(M: int) -> None:
    """The first draw alone would be ahead: .70; the mean of both draws is .55."""
    sampled = f"uniform sample T=1.0 M={M}"
    values = {FIVE: 0.60, sampled: 0.70, f"{sampled} draw=1": 0.70, f"{sampled} draw=2": 0.40}
    assert (
        judged(OURS, of_estimators(values), *TRUTH, comparisons=[(FIVE, sampled, 0.02)]).outcome
        == "yes"
    )


def test_the_theorem_s_counterexample() -> None:
    assert judged(claims_of_errors.theorem, in_memory()).outcome == "no"


@pytest.mark.parametrize(
    ("parts", "opposite", "outcome"),
    [
        (("yes", "yes", "yes"), False, "yes"),
        (("yes", "-", "-"), False, "yes"),
        (("yes", "-", "partly"), False, "undecided"),  # a sign that may be chance
        (("yes", "no", "yes"), False, "undecided"),
        (("yes", "no", "yes"), True, "partly"),
        (("no", "-", "no"), True, "no"),
        (("no", "-", "no"), False, "undecided"),
        (("-", "no", "-"), False, "no"),
        (("-", "undecided", "-"), False, "undecided"),
    ],
)
def test_any_answer_has_to_be_shown(
    parts: tuple[Any, Any, Any], opposite: bool, outcome: str
) -> None:
    assert Verdict(N, *parts, opposite).outcome == outcome


def test_tests_of_one_claim_are_corrected_by_holm_and_a_tie_is_no_rise() -> None:
    # .03 alone is below .05; among three, .03 · 3 and .03 · 2 are not
    above = partial(Case(in_memory(), []).above_zero, resamples=10_000, n=N)
    verdict = above(np.array([0.1, 0.1, 0.1]), np.array([0.03, 0.03, 0.001]))
    assert (verdict.sign, verdict.significance) == ("yes", "partly")
    assert above(np.array([-0.1]), np.array([0.03])).opposite
    tie = above(np.array([1e-17, -1e-17]), np.array([0.001, 0.001]))
    assert (tie.sign, tie.significance, tie.opposite) == ("no", "no", False)


@pytest.mark.parametrize(
    ("low", "high", "part"),
    [
        (-0.02, 0.02, "yes"),
        (-0.021, 0.02, "undecided"),
        (0.01, 0.03, "undecided"),
        (0.021, 0.03, "no"),
        (-0.03, -0.021, "no"),
        (np.nan, np.nan, "undecided"),
    ],
)
def test_negligible_means_inside_a_margin(low: float, high: float, part: str) -> None:
    difference = Estimates.from_rows([{"value": 0.0, "n": N, "low": low, "high": high}], [0.0])
    assert Case(in_memory(), []).negligible(difference)[0] == [part]


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
    assert combined_part(parts) == together


OWN = "mine"


def own_study(*datasets: str) -> Study:
    """A study of a model of one's own, and a second one on these datasets alone."""
    content = study().model_dump(mode="json")
    models = {OWN: content["models"][GEMMA] | {"source": "folder:mine", "label": "mine"}}
    models["second"] = models[OWN] | {"label": "second"}
    kept = {name: content["datasets"][name] for name in (TRIVIA, "coqa")}
    entry = {"recipe": "main", "models": [OWN], "datasets": list(kept), "scorers": ["nli"]}
    grid = [
        entry,
        *([entry | {"models": ["second"], "datasets": list(datasets)}] if datasets else []),
    ]
    models = models if datasets else {OWN: models[OWN]}
    return study(models=models, datasets=kept, grid=grid)


def cells_asked(name: str, of: Study) -> dict[str, list[str]]:
    claim = {claim.id: claim for claim in read_claims()}[name]
    return {
        asked_of.model: [cell.dataset for cell in asked_of.cells]
        for asked_of in asked_claims.models_asked(of, RULES, claim)
        if not asked_of.why_not
    }


@pytest.mark.parametrize(
    "claim", [claim for claim in read_claims() if claim.models], ids=lambda claim: claim.id
)
def test_the_paper_s_study_has_the_cells_of_every_claim(claim: Claim) -> None:
    assert set(cells_asked(claim.id, RULES.paper)) == set(claim.models)
    inspect.signature(JUDGES[claim.judge].function).bind(None, **claim.settings)


def test_a_claim_is_asked_of_one_s_own_model_on_the_claimed_dataset() -> None:
    assert cells_asked("redundancy-falls", own_study()) == {OWN: [TRIVIA]}
    assert cells_asked("redundancy-falls", own_study("coqa", TRIVIA)) == {
        OWN: [TRIVIA],
        "second": [TRIVIA],
    }
    assert set(cells_asked("redundancy-falls", study())) == {GEMMA}
    assert cells_asked("five-unnormalised-beams", own_study()) == {}
    assert cells_asked("every-budget", own_study()) == {}


def test_a_size_of_another_model_is_no_verdict_and_settings_of_one_s_own_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of, found = own_study(), decoded([2] * N, [0.88] * 45 + [0.80] * 15, [4] * N)
    made = in_memory(of=of, candidates=found)
    monkeypatch.setattr(
        ComparisonInputs, "differences", lambda *_: [("models", "mine is none of the paper's")]
    )
    kept = [
        claim
        for claim in read_claims()
        if claim.id in ("mass-condition", "gpu-days", "every-budget")
    ]
    monkeypatch.setattr(judged_claims, "read_claims", lambda: kept)
    rows = judged_claims.judge_claims(made).set_index("id")
    assert rows.loc["mass-condition", ["model", "outcome", "value", "n"]].tolist() == [
        OWN,
        "another model",
        0.75,
        N,
    ]
    assert rows["paper_settings"]["mass-condition"] == "mine is none of the paper's"
    assert set(rows["outcome"][["gpu-days", "every-budget"]]) == {"not asked"}


def test_of_tests_asked_together_a_larger_difference_is_the_smallest_detectable() -> None:
    case = Case(cast(ComparisonInputs, SimpleNamespace(rules=RULES)), ())
    alone = Verdict(100, significance="undecided", sign="yes", std=0.01)
    assert case.detectable(alone) == pytest.approx(0.0280, abs=1e-4)
    assert case.detectable(replace(alone, families=6)) == pytest.approx(0.0348, abs=1e-4)
    assert np.isnan(case.detectable(replace(alone, significance="yes")))

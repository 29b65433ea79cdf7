"""What is declared of the map of when beams win is judged as it is declared, from maps made by
hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from beamuq_study.comparison.claims import claims_of_beams_map
from beamuq_study.comparison.claims.case import Case, NotAskedError, TooFewError
from beamuq_study.comparison.claims.verdict import Verdict
from beamuq_study.comparison.comparison_inputs import ComparisonInputs, read_rules
from beamuq_study.exhibits.figure_of_beams_map import MIXED
from beamuq_study.grid import Cell
from beamuq_study.result_files import Estimates, on_map
from beamuq_study.stages.beams_map import (
    BEAMS,
    DISSIMILARITY,
    EXACT_TEXT,
    SAMPLES,
    SIMILARITY,
    TRUE,
    setting,
)

POWERS, KAPPAS, MASSES = (1.0, 2.0, 3.0), (0.5, 1.0), {1.0: 0.2, 2.0: 0.6, 3.0: 0.9}
PLAIN, WARM, COLD = "plain", "warm", "cold"
MIXTURE = next(iter(MIXED))
Gain = Callable[[str, float, float], float]  # of quality, power and κ


def made(
    cell: Cell,
    gain: Gain,
    *,
    mixture: float = 0.0,
    noise: float = 0.002,
    mass: Any = MASSES,
    n: int = 300,
) -> Any:
    """A map on which beams gain so much at M = 10, with a spread of replicates."""
    random, rows, drawn = np.random.default_rng(0), [], []
    for power in POWERS:
        rows.append({"metric": "mass", "setting": setting(power, M=10), "value": mass[power]})
        drawn.append(mass[power] + 0.001 * random.normal(size=400))
    for quality, power, kappa in itertools.product((SIMILARITY, EXACT_TEXT), POWERS, KAPPAS):
        values = {
            SAMPLES: 0.5,
            BEAMS: 0.5 + gain(quality, power, kappa),
            **dict.fromkeys(MIXED, 0.5 + mixture),
        }
        for variant, value in (values | {TRUE: 0.6}).items():
            place = setting(power, kappa, None if variant == TRUE else 10)
            keys = {
                "quality": quality,
                "metric": "PRR",
                "method": DISSIMILARITY,
                "variant": variant,
            }
            rows.append(keys | {"setting": place, "value": value})
            drawn.append(value + noise * random.normal(size=400))
    return on_map(Estimates.from_rows([vars(cell) | {"n": n} | row for row in rows], drawn))


def judged(
    judge: Callable[..., Verdict], maps: dict[Cell, Estimates], *cells: Cell, **options: Any
) -> Verdict:
    models = {
        name: SimpleNamespace(source="s", style="base", temperature=T) for name, T in MODELS.items()
    }
    study = SimpleNamespace(models=models, main=SimpleNamespace(num_candidates=10, scorer="s"))
    study.evaluation = SimpleNamespace(confidence=0.95)
    results = SimpleNamespace(
        study=study, inputs=SimpleNamespace(beams_map=maps.__getitem__), rules=read_rules()
    )
    return judge(Case(cast(ComparisonInputs, results), cells or tuple(maps)), **options)


MODELS: dict[str, float | None] = {PLAIN: None, WARM: 0.7, COLD: 0.5}
CELL, OTHER = Cell(PLAIN, "triviaqa", "map", "s"), Cell(PLAIN, "coqa", "map", "s")


@pytest.mark.parametrize(
    ("weakest", "outcome"),
    [(0.02, "yes"), (0.001, "undecided"), (-0.0065, "undecided"), (-0.02, "no")],
)
def test_beams_win_everywhere_only_where_each_place_is_shown(weakest: float, outcome: str) -> None:
    maps = {
        CELL: made(CELL, lambda *_: 0.05),
        OTHER: made(OTHER, lambda _, g, __: weakest if g == 3 else 0.05),
    }
    assert judged(claims_of_beams_map.beams_win_everywhere, maps, kappas=KAPPAS).outcome == outcome


def test_similarity_and_another_kappa_do_not_count_for_exact_text() -> None:
    maps = {
        CELL: made(CELL, lambda q, _, kappa: 0.05 if (q, kappa) == (EXACT_TEXT, 1.0) else -0.05)
    }
    verdict = judged(claims_of_beams_map.beams_win_everywhere, maps, kappas=[1.0])
    assert (verdict.outcome, verdict.value) == ("yes", pytest.approx(0.05))


@pytest.mark.parametrize(("gain", "outcome"), [(0.0, "undecided"), (0.01, "yes"), (-0.02, "no")])
def test_mixtures_may_be_behind_by_the_margin_and_no_more(gain: float, outcome: str) -> None:
    maps = {CELL: made(CELL, lambda *_: 0.0, mixture=gain, noise=0.003)}
    judge = claims_of_beams_map.mixtures_not_behind
    assert judged(judge, maps, variant=MIXTURE, margin=0.005).outcome == outcome
    equal = {
        CELL: made(CELL, lambda *_: 0.0, mixture=0.0, noise=0.0)
    }  # as where it is samples alone
    assert judged(judge, equal, variant=MIXTURE, margin=0.005).outcome == "yes"


@pytest.mark.parametrize(("cost", "outcome"), [(0.02, "yes"), (0.0, "undecided"), (-0.02, "no")])
def test_overconfidence_costs_where_the_lower_kappa_gains_less(cost: float, outcome: str) -> None:
    maps = {CELL: made(CELL, lambda _, __, kappa: 0.05 - cost * (kappa == 0.5))}
    assert judged(claims_of_beams_map.overconfidence_costs, maps, kappas=KAPPAS).outcome == outcome


@pytest.mark.parametrize(
    ("gains", "value", "outcome"),
    [
        ((-0.02, 0.02, 0.02), 0.4, "yes"),
        ((-0.02, -0.02, 0.02), 0.75, "no"),
        ((0.02, 0.02, 0.02), 0.2, "undecided"),
    ],
)
def test_the_crossing_is_interpolated_between_masses(
    gains: Any, value: float, outcome: str
) -> None:
    maps = {CELL: made(CELL, lambda _, power, __: gains[POWERS.index(power)])}
    verdict = judged(claims_of_beams_map.crossing_between, maps, kappa=1.0, ends=(0.15, 0.6))
    assert (verdict.outcome, verdict.value) == (outcome, pytest.approx(value, abs=0.01))


def test_a_claim_about_similarity_is_not_asked_of_options_which_have_no_such_map() -> None:
    whole = made(CELL, lambda *_: 0.05)
    maps = {CELL: whole.rows(whole.frame["quality"] != SIMILARITY)}
    with pytest.raises(NotAskedError, match="no map of triviaqa has quality similarity"):
        judged(claims_of_beams_map.crossing_between, maps, kappa=1.0, ends=(0.15, 0.6))
    with pytest.raises(NotAskedError):
        judged(claims_of_beams_map.overconfidence_costs, maps, kappas=KAPPAS)


def test_a_crossing_below_every_mass_of_the_map_may_be_anywhere_below() -> None:
    maps = {CELL: made(CELL, lambda *_: 0.05, mass={1.0: 0.65, 2.0: 0.75, 3.0: 0.9})}
    verdict = judged(claims_of_beams_map.crossing_between, maps, kappa=1.0, ends=(0.15, 0.6))
    assert (verdict.outcome, verdict.low) == ("undecided", 0)


def test_a_crossing_that_does_not_come_is_outside() -> None:
    maps = {CELL: made(CELL, lambda *_: -0.02)}
    assert (
        judged(claims_of_beams_map.crossing_between, maps, kappa=1.0, ends=(0.15, 0.6)).outcome
        == "no"
    )


@pytest.mark.parametrize(("shift", "outcome"), [(0.0, "yes"), (0.02, "undecided"), (0.06, "no")])
def test_a_temperature_is_compared_at_equal_mass(
    shift: float, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_of_beams_map, "with_map", lambda _: [CELL, warm])
    warm = Cell(WARM, "triviaqa", "map", "s")
    plain = made(CELL, lambda _, power, __: MASSES[power] / 10)
    tempered = made(
        warm,
        lambda _, power, __: 0.04 + shift if power == 1 else 1.0,
        mass={1.0: 0.4, 2.0: 0.7, 3.0: 0.9},
    )
    verdict = judged(
        claims_of_beams_map.tempered_as_sharpened,
        {CELL: plain, warm: tempered},
        warm,
        kappas=KAPPAS,
    )
    assert verdict.outcome == outcome


def test_fewer_than_fifty_questions_are_too_few() -> None:
    with pytest.raises(TooFewError):
        judged(
            claims_of_beams_map.beams_win_everywhere,
            {CELL: made(CELL, lambda *_: 0.05, n=49)},
            kappas=KAPPAS,
        )

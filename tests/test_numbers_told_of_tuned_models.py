"""Numbers in sentences about tuned models, computed from ``evidence/tuned``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pandas as pd
import pyarrow.parquet as pq
import pytest

from beamuq.evaluation.significance import smallest_detectable
from beamuq_study.exhibits.table_formats import decimal, signed
from evidence_differences import EVIDENCE, POWER
from test_numbers_told import README, assert_told, page

FOLDER = EVIDENCE / "tuned"
TUNED = "docs/tuned_models.md"
UNTUNED = "smollm2-135m-plain"
CHECKPOINTS = [f"smollm2-135m-coqa-{epochs}" for epochs in (1, 2, 4)]
F1 = "answer_f1"
EXACT = "exact_match"
TESTS = 6  # three checkpoints by two qualities
CLAIMS_OF_BOTH = ("pro-ahead-of-perplexity", "dissimilarity-ahead-of-pro")


@cache
def csv(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv")


def row_of(name: str, **where: object) -> pd.Series[float]:
    frame = csv(name)
    for key, value in where.items():
        frame = frame[frame[key] == value]
    (row,) = frame.to_dict("records")
    return pd.Series(row)


def gain(model: str, quality: str, method: str = "Dissimilarity") -> pd.Series[float]:
    where = {"metric": "beams - samples", "method": method, "setting": quality, "model": model}
    return row_of("tables/gains_over_draws", **where)


def prr(model: str, quality: str) -> pd.Series[float]:
    """PRR of every form on the first draw, the best first."""
    file = FOLDER / f"evaluation/embedding/{model}/coqa/main.parquet"
    table = pq.read_table(file).to_pandas()
    of_forms = table[
        (table["metric"] == "PRR")
        & (table["answer_source"] == "greedy")
        & (table["subset"] == "all")
        & (table["setting"] == "")
        & (table["quality"] == quality)
    ]
    values = of_forms.set_index(["method", "variant"])["value"]
    return values.sort_values(ascending=False)


def number(value: float, low: float, high: float) -> str:
    return f"{signed(value)} [{decimal(low)}, {decimal(high)}]"


def numbers(rows: Sequence[pd.Series[float]]) -> list[str]:
    return [number(row["value"], row["low"], row["high"]) for row in rows]


def asked_of(claim: str) -> pd.DataFrame:
    claims = csv("comparison_claims")
    return claims[(claims["id"] == claim) & (claims["outcome"] != "not asked")]


def outcomes(claim: str) -> dict[str, str]:
    claims = asked_of(claim)
    return dict(zip(claims["model"], claims["outcome"], strict=True))


def found(claim: str, quality: str) -> list[str]:
    """What a claim saw by one quality: of the untuned model and of each checkpoint."""
    claims = asked_of(claim).set_index("model")["found"]
    pattern = rf"{quality} ([+-]\d\.\d+) \[([+-]\d\.\d+), ([+-]\d\.\d+)\]"
    seen = []
    for model in (UNTUNED, *CHECKPOINTS):
        match = re.search(pattern, str(claims[model]))
        assert match is not None
        seen.append(number(*map(float, match.groups())))
    return seen


def minus(text: str) -> str:
    return text.replace("-", "−")


def test_how_sure_the_tuned_models_are() -> None:
    above = [
        row_of("tables/sharpness", model=model, metric="share above the threshold")["value"]
        for model in CHECKPOINTS
    ]
    assert above[0] == pytest.approx(0.23, abs=0.005)
    assert [round(100 * share) for share in above] == [23, 34, 38]
    (repeats,) = (row_of("tables/sharpness", model=CHECKPOINTS[0], metric="repeats")["value"],)
    assert round(100 * repeats) == 29
    assert_told(TUNED, "29 % of the samples are repeats")
    assert_told(README, "on 23 to 38 % of the questions:")


def test_what_the_tuned_models_gain_and_that_nothing_is_shown() -> None:
    by_f1 = [gain(model, F1) for model in CHECKPOINTS]
    by_exact_match = [gain(model, EXACT) for model in CHECKPOINTS]
    assert [round(row["value"], 2) for row in by_f1] == [0.02, 0.03, 0.04]
    assert [round(row["value"], 2) for row in by_exact_match] == [0.02, 0.03, 0.03]
    five = gain(CHECKPOINTS[2], F1, "the five")
    assert by_f1[2]["low"] > 0
    assert five["low"] > 0
    assert max(row["low"] for row in [*by_f1[:2], *by_exact_match]) < 0
    for claim in ("dissimilarity-gains", "five-gain", "dissimilarity-gains-by-rouge-and"):
        ending = "" if claim.endswith("and") else "-by"
        for quality in ("f1", "exact-match"):
            asked = outcomes(f"tuned-{claim}{ending}-{quality}")
            assert asked == dict.fromkeys(CHECKPOINTS, "undecided")
    first, _, last = numbers(by_f1)
    assert_told(README, f"{minus(first)} to {minus(last)}")


def test_what_would_have_been_shown_with_power() -> None:
    spreads = [gain(model, quality)["std"] for model in CHECKPOINTS for quality in (F1, EXACT)]
    z = 2.638  # of a two-sided test at 5 % over six
    least = [float(smallest_detectable(spread, 0.0, z, POWER)) for spread in spreads]
    assert (round(min(least), 2), round(max(least), 2)) == (0.06, 0.10)
    assert_told(TUNED, "a true gain of .06 to .10, by checkpoint and quality")


def test_what_is_told_of_growth_and_of_rouge() -> None:
    untuned = gain(UNTUNED, EXACT)
    assert_told(TUNED, *numbers([untuned]))
    changes = [gain(model, F1)["value"] - gain(UNTUNED, F1)["value"] for model in CHECKPOINTS]
    assert (round(min(changes), 2), round(max(changes), 2)) == (-0.01, 0.02)
    losses = [untuned["value"] - gain(model, EXACT)["value"] for model in CHECKPOINTS]
    assert (round(min(losses), 2), round(max(losses), 2)) == (0.07, 0.09)
    for quality in ("f1", "exact-match"):
        asked = asked_of(f"tuned-gain-grows-by-{quality}")
        assert list(asked["model"]) == CHECKPOINTS
        assert set(asked["outcome"]) == {"undecided"}
        assert (asked["high"] < 0).all() == (quality == "exact-match")
        gains = asked_of(f"tuned-dissimilarity-gains-by-rouge-and-{quality}")["value"]
        assert (gains.round(2) == 0.02).all() == (quality == "f1")
        assert (gains < 0).all() == (quality == "exact-match")


def test_gains_by_covered_mass() -> None:
    bins = csv("tables/gains_over_draws_by_mass").query("model in @CHECKPOINTS")
    bins = bins[bins["metric"] == "beams - samples"]
    assert len(bins) == 12
    assert (bins["value"] > 0).sum() == 10
    shown = bins[bins["low"] > 0]
    assert list(shown["model"]) == [CHECKPOINTS[2]] * 2
    of_four_epochs = bins[bins["model"] == CHECKPOINTS[2]]
    _, second, third, last = numbers([pd.Series(row) for row in of_four_epochs.to_dict("records")])
    assert_told(TUNED, f"{second} on the quarter", f"{third} with .74", f"{minus(last)} above")


def test_which_score_ranks_best() -> None:
    best = [prr(model, F1) for model in CHECKPOINTS]
    assert [ranked.index[0] for ranked in best] == [("CocoaPPL", "beamsearch")] * 3
    assert_told(TUNED, f"({', '.join(decimal(ranked.iloc[0]) for ranked in best)})")
    untuned = prr(UNTUNED, F1)
    assert untuned.index[0] == ("MTE", "")
    assert_told(TUNED, f"MTE does ({decimal(untuned.iloc[0])})")
    form = ("Dissimilarity", "beamsearch")
    falls = [decimal(ranked["Perplexity", ""]) for ranked in (untuned, best[2])]
    rises = [decimal(ranked[form]) for ranked in (untuned, best[2])]
    assert_told(TUNED, f"from {falls[0]} to {falls[1]}", f"from {rises[0]} to {rises[1]}")
    for model in (UNTUNED, *CHECKPOINTS):
        ranked = prr(model, EXACT)
        for own in (("Prob", ""), ("CocoaMSP", "beamsearch"), ("CocoaMSP", "multinomial")):
            assert ranked.iloc[0] - ranked[own] < 0.05


def test_what_is_told_of_pro() -> None:
    undecided = dict.fromkeys(CHECKPOINTS, "undecided")
    ahead_of_perplexity, ahead_of_pro = map(outcomes, CLAIMS_OF_BOTH)
    assert ahead_of_perplexity == {UNTUNED: "no", **undecided}
    assert ahead_of_pro == {UNTUNED: "undecided", **undecided}
    assert found(CLAIMS_OF_BOTH[0], F1)[0] == "-.172 [-.270, -.074]"
    assert_told(TUNED, "untuned it is behind by .172 [.074, .270]")
    by_exact_match = [float(seen.split()[0]) for seen in found(CLAIMS_OF_BOTH[0], EXACT)[1:]]
    assert (round(min(by_exact_match), 2), round(max(by_exact_match), 2)) == (0.15, 0.24)
    one, two, four = found(CLAIMS_OF_BOTH[1], F1)[1:]
    assert_told(TUNED, f"{one}, {two} and {four}")


def test_which_claims_wait_for_the_rest_of_the_study() -> None:
    assert "four claims" in page(TUNED)
    asked = csv("comparison_claims").query("outcome != 'not asked'")["id"]
    assert not asked.str.startswith("tuned-choice").any()

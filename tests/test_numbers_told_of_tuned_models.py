"""Numbers in sentences about tuned models, computed from ``evidence/tuned``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pandas as pd
import pyarrow.parquet as pq
import pytest

from beamuq.evaluation.significance import smallest_detectable
from beamuq_study.comparison.comparison_inputs import read_claims
from beamuq_study.exhibits.table_formats import decimal, signed
from beamuq_study.study_config import STUDIES
from evidence_differences import ALL, EVIDENCE, FIVE, POWER, paper_gains
from test_numbers_told import MAP, PAGE, README, assert_told

FOLDER = EVIDENCE / "tuned"
TUNED = "docs/tuned_models.md"
UNTUNED = "smollm2-135m-plain"
CHECKPOINTS = [f"smollm2-135m-coqa-{epochs}" for epochs in (1, 2, 4)]
CHOICE = "smollm2-135m-choice"
CHOICE_SETS = ("commonsenseqa", "arc-challenge")
F1 = "answer_f1"
EXACT = "exact_match"
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
    where["dataset"] = "coqa"
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
        row_of("tables/sharpness", model=model, dataset="coqa", metric="share above the threshold")[
            "value"
        ]
        for model in (UNTUNED, *CHECKPOINTS)
    ]
    assert [round(100 * share) for share in above] == [6, 23, 34, 38]
    repeats = asked_of("redundancy-short").set_index("model")["value"]
    shares = [f"{100 * repeats[model]:.0f} %" for model in CHECKPOINTS]
    assert_told(TUNED, f"After one epoch {100 * above[1]:.0f} % meet the condition")
    told = f"{shares[0]}, {shares[1]} and {shares[2]} of the samples are repeats (untuned"
    assert_told(TUNED, told, f"(untuned {100 * repeats[UNTUNED]:.0f} %; paper: 30 to 50 %")
    assert_told(README, "on 23 to 38 %; Gemma: 22.7 % of TriviaQA)")
    assert_told(PAGE, "covered on 23 % of CoQA's questions", "for four (38 %)")
    study = (STUDIES / "tuned.yaml").read_text(encoding="utf-8")
    assert "on 6 % of these questions" in study
    assert "23, 34 and 38 %" in study


def test_what_the_tuned_models_gain_and_that_nothing_is_shown() -> None:
    by_f1 = [gain(model, F1) for model in CHECKPOINTS]
    by_exact_match = [gain(model, EXACT) for model in CHECKPOINTS]
    first, _, last = numbers(by_f1)
    least, most = (signed(row["value"]) for row in (by_exact_match[0], by_exact_match[2]))
    assert_told(
        README,
        f"{minus(first)} to {minus(last)}, uncorrected",
        f"by exact match {least} to {most}.",
    )
    for claim in ("dissimilarity-gains", "five-gain", "dissimilarity-gains-by-rouge-and"):
        ending = "" if claim.endswith("and") else "-by"
        for quality in ("f1", "exact-match"):
            asked = outcomes(f"tuned-{claim}{ending}-{quality}")
            assert asked == dict.fromkeys(CHECKPOINTS, "undecided")


def test_the_five_beside_the_paper_s() -> None:
    by_f1 = [gain(model, F1, "the five") for model in CHECKPOINTS]
    one, two, four = (signed(row["value"]) for row in by_f1)
    in_the_mean = paper_gains(ALL).set_index("method").loc[FIVE, "paper"]
    by_paper = paper_gains(["coqa"]).set_index("method").loc[FIVE]
    on_coqa = by_paper["paper"]
    assert_told(
        TUNED,
        f"the five gain {one}, {two} and {four}; the paper's {signed(in_the_mean)} in the mean, "
        f"{signed(on_coqa)} on CoQA (base models: {signed(by_paper['paper_base'])}).",
    )
    for row in by_f1:
        assert row["low"] < in_the_mean < on_coqa < row["high"]


def test_gains_by_rouge() -> None:
    for quality in ("f1", "exact-match"):
        claims = asked_of(f"tuned-dissimilarity-gains-by-rouge-and-{quality}").set_index("model")
        one, two, four = (minus(signed(claims["value"][model])) for model in CHECKPOINTS)
        assert_told(
            TUNED, f"{one}, {two} and {four} by {quality.replace('-', ' ').replace('f1', 'F1')}"
        )


def test_what_would_have_been_shown_with_power() -> None:
    z = 2.638  # of a two-sided test at 5 % over six
    spreads = [
        gain(model, quality, method)["std"]
        for model in CHECKPOINTS
        for quality in (F1, EXACT)
        for method in ("Dissimilarity", "the five")
    ]
    gains = [float(smallest_detectable(spread, 0.0, z, POWER)) for spread in spreads]
    of_six = [
        asked_of(f"tuned-gain-grows-by-{quality}")["detectable"].to_numpy()
        for quality in ("f1", "exact-match")
    ]
    growth = [value for values in of_six for value in values]
    assert_told(
        TUNED,
        f"a gain of {decimal(min(gains), 2)} to {decimal(max(gains), 2)}, and a growth of "
        f"{decimal(min(growth), 2)} to {decimal(max(growth), 2)}",
    )


def repeated_tests(rows: pd.DataFrame) -> int:
    """How many rows repeat another's test: the gold option is right where the text is."""
    names = ["model", "dataset", "method", "value", "low", "high"]
    return int(rows.duplicated(names).sum())


def test_what_is_told_of_growth() -> None:
    untuned = gain(UNTUNED, EXACT)
    assert_told(TUNED, f"{numbers([untuned])[0]} (p = {decimal(untuned['p_holm'], 2)} after Holm")
    gains = csv("tables/gains_over_draws").query("metric == 'beams - samples'")
    of_table = gains[gains["p_holm"].notna()]
    parts = csv("tables/gains_over_draws").query("metric in ['noise', 'target']")
    family = len(of_table) + parts["p_holm"].notna().sum()
    told = {2: "two", 4: "four"}[repeated_tests(of_table)]
    assert_told(TUNED, f"after Holm over {family}, {told} repeated;")
    assert not (of_table.query("dataset != 'coqa-pilot'")["p_holm"] < 0.05).any()
    changes = [gain(model, F1)["value"] - gain(UNTUNED, F1)["value"] for model in CHECKPOINTS]
    assert (round(min(changes), 2), round(max(changes), 2)) == (-0.01, 0.02)
    losses = [untuned["value"] - gain(model, EXACT)["value"] for model in CHECKPOINTS]
    assert (round(min(losses), 2), round(max(losses), 2)) == (0.07, 0.09)
    for quality in ("f1", "exact-match"):
        asked = outcomes(f"tuned-gain-grows-by-{quality}")
        assert asked == dict.fromkeys(CHECKPOINTS, "undecided")


def test_what_the_map_s_page_says_of_noise() -> None:
    table = csv("tables/gains_over_draws")
    noise = table[(table["metric"] == "noise") & table["model"].isin(CHECKPOINTS)]
    assert (noise["low"] > 0).all()
    (after_holm,) = noise["p_holm"].unique()
    least = 2 / 1001  # two-sided, of the map's 1,000 resamples
    assert after_holm / least == pytest.approx(round(after_holm / least), abs=1e-3)
    family = table["p_holm"].notna().sum()
    assert_told(
        MAP,
        f"(p = {decimal(least)}, the least that 1,000 resamples give; {decimal(after_holm, 2)} "
        f"after Holm over the {family} tests of",
    )


def test_gains_by_covered_mass() -> None:
    bins = csv("tables/gains_over_draws_by_mass").query("metric == 'beams - samples'")
    is_asked = bins["model"].isin(CHECKPOINTS) & (bins["dataset"] == "coqa")
    shown = bins[(bins["low"] > 0) & is_asked]
    assert list(shown["model"]) == [CHECKPOINTS[2]] * 2
    of_four_epochs = bins[(bins["model"] == CHECKPOINTS[2]) & (bins["dataset"] == "coqa")]
    _, second, _, last = (pd.Series(row) for row in of_four_epochs.to_dict("records"))
    assert_told(
        TUNED,
        f"{numbers([second])[0]} on the quarter of questions with .48 to .74 covered (p = "
        f"{decimal(second['p_holm'], 2)} after Holm over {len(bins)}), {minus(numbers([last])[0])} "
        "on that with .92 and more",
    )


def test_which_score_ranks_best() -> None:
    best = [prr(model, F1) for model in CHECKPOINTS]
    assert [ranked.index[0] for ranked in best] == [("CocoaPPL", "beamsearch")] * 3
    assert_told(TUNED, f"({', '.join(decimal(ranked.iloc[0]) for ranked in best)})")
    untuned = prr(UNTUNED, F1)
    assert untuned.index[0] == ("MTE", "")
    assert_told(TUNED, f"untuned MTE ({decimal(untuned.iloc[0])})")
    by_f1 = [decimal(answer_alone_behind(model, F1, best[0].index[0]), 2) for model in CHECKPOINTS]
    cocoa_msp = ("CocoaMSP", "beamsearch")
    by_exact_match = [
        decimal(answer_alone_behind(model, EXACT, cocoa_msp), 2) for model in CHECKPOINTS
    ]
    assert_told(
        TUNED,
        f"{by_f1[0]}, {by_f1[1]} and {by_f1[2]} behind (uncorrected)",
        f"by exact match, behind CocoaMSP over beams, {minus(by_exact_match[0])}, "
        f"{by_exact_match[1]} (both undecided) and {by_exact_match[2]}.",
    )


def test_no_score_over_beams_ranks_better_by_exact_match_than_cocoa_msp() -> None:
    for model in CHECKPOINTS:
        over_beams = prr(model, EXACT).xs("beamsearch", level="variant")
        assert over_beams.index[0] == "CocoaMSP"


def answer_alone_behind(model: str, quality: str, form: tuple[str, str]) -> float:
    """How far the best score of the answer alone is behind a form in PRR; negative: ahead."""
    values = prr(model, quality)
    alone = max(values[name, ""] for name in ("Prob", "Perplexity", "MTE"))
    return float(values[form] - alone)


def test_what_is_told_of_pro() -> None:
    undecided = dict.fromkeys([*CHECKPOINTS, CHOICE], "undecided")
    ahead_of_perplexity, ahead_of_pro = map(outcomes, CLAIMS_OF_BOTH)
    assert ahead_of_perplexity == {UNTUNED: "no", **undecided}
    assert ahead_of_pro == {UNTUNED: "undecided", **undecided}
    assert found(CLAIMS_OF_BOTH[0], F1)[0] == "-.172 [-.270, -.074]"
    assert_told(TUNED, "behind Perplexity untuned, by .172 [.074, .270]")
    by_exact_match = [float(seen.split()[0]) for seen in found(CLAIMS_OF_BOTH[0], EXACT)[1:]]
    assert (round(min(by_exact_match), 2), round(max(by_exact_match), 2)) == (0.15, 0.24)
    for model in (UNTUNED, *CHECKPOINTS):
        ranked = prr(model, EXACT)
        assert ranked["PRO", ""] < ranked["Prob", ""]
    one, two, four = found(CLAIMS_OF_BOTH[1], F1)[1:]
    assert_told(TUNED, f"{one} (not times six), {two} and {four}")


def test_how_sure_the_model_of_multiple_choice_is_and_how_often_right() -> None:
    def shares(metric: str) -> list[float]:
        rows = [
            row_of("tables/sharpness", model=CHOICE, dataset=dataset, metric=metric)
            for dataset in CHOICE_SETS
        ]
        assert [row["n"] for row in rows] == [1221, 447]
        return [row["value"] for row in rows]

    right = [decimal(share, 2) for share in shares("right")]
    assert_told(
        TUNED, f"right on {right[0]} of CommonsenseQA (n = 1,221;", f"{right[1]} of ARC (447;"
    )
    covered = [f"{100 * share:.0f}" for share in shares("share above the threshold")]
    assert_told(TUNED, f".842 covered on {covered[0]} and {covered[1]} % of the questions")


def test_what_came_of_the_claims_about_multiple_choice() -> None:
    rows = {
        name: asked_of(f"tuned-choice-{name}").iloc[0]
        for name in (
            *("dissimilarity-gains", "five-gain"),
            *("pro-ahead-of-perplexity", "dissimilarity-ahead-of-pro"),
        )
    }
    assert {row["outcome"] for row in rows.values()} == {"undecided"}
    told = [minus(text) for text in numbers(list(rows.values()))]
    assert_told(
        TUNED,
        f"Dissimilarity gains {told[0]}, the five {told[1]}; PRO minus Perplexity is {told[2]}, "
        f"Dissimilarity minus PRO {told[3]}.",
    )
    least = [decimal(row["detectable"], 2) for row in rows.values()]
    assert_told(
        TUNED, f"gains of {least[0]} and {least[1]}, leads of {least[2]} and {least[3]}, would have"
    )


def test_what_the_pilot_s_turns_gain() -> None:
    def gains(quality: str) -> list[pd.Series[float]]:
        where = {"metric": "beams - samples", "method": "Dissimilarity", "setting": quality}
        return [
            row_of("tables/gains_over_draws", model=model, dataset="coqa-pilot", **where)
            for model in (*CHECKPOINTS, UNTUNED)
        ]

    one, two, four, untuned = (signed(row["value"]) for row in gains(F1))
    assert_told(TUNED, f"gains by F1 {one}, {two} and {four} (untuned {untuned})")
    _, two, four, untuned = (signed(row["value"]) for row in gains(EXACT))
    one = minus(numbers(gains(EXACT))[0])
    (p,) = (decimal(row["p_holm"], 2) for row in gains(EXACT)[:1])
    assert_told(
        TUNED, f"exact match {one} (p = {p} after Holm over 52), {two} and {four} ({untuned})"
    )


def test_every_declared_claim_about_tuned_models_is_judged() -> None:
    declared = {claim.id for claim in read_claims() if claim.id.startswith("tuned-")}
    asked = csv("comparison_claims").query("outcome != 'not asked'")["id"]
    assert declared <= set(asked)


def test_what_is_told_of_the_error_of_beams_of_tuned_models() -> None:
    denied = asked_of("smaller-error").set_index("model").loc[CHECKPOINTS]
    assert set(denied["outcome"]) == {"no"}
    assert set(denied["datasets"]) == {"coqa, coqa-pilot"}
    errors = denied["found"].str.extract(r"one draw (0\.\d+), of beams (0\.\d+);").astype(float)
    larger = errors[1] - errors[0]  # of the first dataset alone: the pilot's turns decide nothing
    least, most = signed(larger.min()), signed(larger.max())
    assert_told(README, f"tuned (n = 805) {least} to {most}.")
    assert_told(PAGE, f"on [tuned models](tuned_models.md) too (error {least} to {most}, n = 805)")


def test_what_is_told_of_mixtures_on_tuned_models() -> None:
    table = csv("tables/beams_map")
    name = "stratified optimal_stratified"
    place = "answer_f1 power=1.0 M=10"
    of_mixture = table[(table["variant"] == name) & (table["setting"] == place)]
    is_gain = of_mixture["metric"] == "beams - samples"
    of_dissimilarity = of_mixture["method"] == "Dissimilarity"
    gains = of_mixture[is_gain & of_dissimilarity & of_mixture["model"].isin(CHECKPOINTS)]
    assert len(gains) == len(CHECKPOINTS)
    assert (gains["low"] > 0).all()
    least, most = signed(gains["value"].min()), signed(gains["value"].max())
    assert_told(MAP, f"(tuned on CoQA, n = 500: {least} to {most}, shown)")


def test_what_is_told_of_the_choice_model_s_place_on_the_map() -> None:
    numbers_of_place = csv("choice_on_map").set_index(["dataset", "number"])
    kappas = [numbers_of_place.loc[(name, "kappa"), "value"] for name in CHOICE_SETS]
    first, second = (decimal(kappa, 2) for kappa in kappas)
    assert_told(TUNED, f"Its κ is {first} and {second}; [its map]")
    for name in CHOICE_SETS:
        gain_by_label = numbers_of_place.loc[(name, "beams - samples")]
        assert gain_by_label["low"] < 0 < gain_by_label["high"]
        assert gain_by_label["high"] < numbers_of_place.loc[(name, "own map, exact text"), "low"]
        assert numbers_of_place.loc[(name, "right among the ten"), "value"] > 0.97
    counts = [int(numbers_of_place.loc[(name, "kappa"), "n"]) for name in CHOICE_SETS]
    assert_told(MAP, f"All {counts[0]:,} and {counts[1]} questions")

"""Tables of cells whose samples are scored draw by draw, on made-up results."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhibits_study
from beamuq.array_types import Floats
from beamuq.beam_mass_theorem import printed_threshold
from beamuq.evaluation.candidate_sets import equal_bins
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.exhibits.method_groups import CONSISTENCY
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from beamuq_study.stages import beams_map
from exhibits_study import BASE, CONTENT, Results

D = "Dissimilarity"
DRAWS = [f"sample T=1.0 M=10 draw={draw}" for draw in (1, 2, 3)]


def with_draws() -> Any:
    """The synthetic study with a recipe of three draws, beside the maps of the same questions."""
    content = copy.deepcopy(CONTENT)
    content["recipes"]["draws"] = {"sample": {"size": 30}, "beam": {"widths": [10]}}
    content["scoring"]["draws"] = {"methods": list(CONSISTENCY), "every_draw": True}
    datasets = ["triviaqa", "coqa", "arc-challenge"]
    entry = {"recipe": "draws", "models": [BASE], "datasets": datasets, "scorers": ["cosine"]}
    content["grid"].append(entry)
    return exhibits_study.study(**content)


class Mapped(Results):
    """Results whose maps have the real quality too, as those of a run do."""

    def _beams_map(self, need: Artifact) -> list[dict[str, Any]]:
        rows = super()._beams_map(need)
        of_truth = {beams_map.setting(1.0): None} | {
            beams_map.setting(1.0, M=M): M for M in (5, 10)
        }
        model = rows[-1]
        values = {beams_map.TRUE: 0.5, beams_map.SAMPLES: 0.3, beams_map.BEAMS: 0.4}
        values |= dict.fromkeys(exhibits_study.MIXED, 0.3)
        spread = {beams_map.BEAMS: 0.5}  # of target, which is beams less the true value
        generator = np.random.default_rng(0)
        for setting, M in of_truth.items():
            for variant, value in values.items():
                if (variant == beams_map.TRUE) != (M is None):
                    continue
                keys = {"quality": "answer_f1", "method": D, "metric": "PRR"}
                number = {"value": value, "low": value, "high": value, "std": 0.0}
                noise = generator.normal(scale=spread.get(variant, 0.01), size=len(model["values"]))
                drawn = {"values": (value + noise).astype(np.float32)}
                rows.append(
                    model | keys | number | drawn | {"variant": variant, "setting": setting}
                )
        return rows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapped:
    return Mapped(tmp_path_factory.mktemp("draws"), with_draws())


def prr(results: Results, dataset: str, quality: str) -> dict[tuple[str, str, str], float]:
    """PRR of the greedy answers of a cell by method, variant and setting."""
    need = Artifact("evaluation", dataset, BASE, "draws", "cosine")
    rows = results.inputs([need]).frame(need)
    keys = {"metric": "PRR", "answer_source": "greedy", "quality": quality, "subset": "all"}
    chosen = rows[(rows[list(keys)] == list(keys.values())).all(axis=1)]
    return dict(chosen.set_index(["method", "variant", "setting"])["value"])


def gain(values: dict[tuple[str, str, str], float], method: str) -> float:
    samples = [values[method, "multinomial", draw] for draw in DRAWS]
    return values[method, "beamsearch", ""] - float(np.mean(samples))


def test_gains_are_over_the_mean_of_draws_by_each_quality(results: Mapped) -> None:
    frame = results.built("gains_over_draws").frame
    gains = frame[frame["metric"] == "beams - samples"].set_index(["dataset", "method", "setting"])
    for dataset in ("triviaqa", "coqa"):
        for quality in ("answer_f1", "exact_match"):
            by_hand = prr(results, dataset, quality)
            of_methods = [gain(by_hand, method) for method in CONSISTENCY]
            found = gains["value"]
            assert found[dataset, D, quality] == pytest.approx(of_methods[0])
            assert found[dataset, "the five", quality] == pytest.approx(np.mean(of_methods))
    assert ("arc-challenge", D, "gold_label") in gains.index
    assert ("coqa", D, "gold_label") not in gains.index


def test_the_parts_of_the_gain_are_of_the_map_and_the_spread_of_the_draws(
    results: Mapped,
) -> None:
    built = results.built("gains_over_draws")
    values = built.frame.set_index(["dataset", "metric", "method"])["value"]
    assert values["coqa", "noise", D] == pytest.approx(0.2)
    assert values["coqa", "target", D] == pytest.approx(-0.1)
    samples = [prr(results, "coqa", "answer_f1")[D, "multinomial", draw] for draw in DRAWS]
    assert values["coqa", "sd of draws", D] == pytest.approx(np.std(samples, ddof=1))
    last = [row for row in built.shown.rows if row.group == "ARC-Challenge"]
    assert [cell.text for cell in last[0].cells[-3:-1]] == ["–", "–"]  # no map


def test_the_parts_of_the_gain_have_the_p_of_the_map_s_resamples(results: Mapped) -> None:
    frame = results.built("gains_over_draws").frame.set_index(["dataset", "metric", "method"])
    assert frame.loc[("coqa", "noise", D), "p_holm"] < 0.5
    assert frame.loc[("coqa", "target", D), "p_holm"] == 1


def test_sharpness_counts_what_the_candidates_hold(results: Mapped) -> None:
    frame = results.built("sharpness").frame.set_index(["dataset", "metric"])
    need = Artifact("candidates", "coqa", BASE, "draws")
    rows = results.inputs([need]).frame(need)
    texts = rows[(rows["strategy"] == "sample T=1.0") & (rows["rank"] < 10)].groupby("id")["text"]
    repeats = 1 - texts.nunique() / 10
    assert frame.loc[("coqa", "repeats"), "value"] == pytest.approx(repeats.mean())
    mass = covered_mass(results, "coqa")
    assert frame.loc[("coqa", "covered mass"), "value"] == pytest.approx(mass.mean())
    above = np.mean(mass > printed_threshold(10))
    assert frame.loc[("coqa", "share above the threshold"), "value"] == pytest.approx(above)
    assert frame.loc[("coqa", "right"), "value"] == 0  # none says "Lighthouse"
    quality = exhibits_study.quality_values(BASE, "coqa", 24)
    assert frame.loc[("coqa", "quality"), "value"] == pytest.approx(quality.mean())
    assert {("coqa", "kappa"), ("triviaqa", "kappa")} <= set(frame.index)
    assert ("arc-challenge", "kappa") not in frame.index


def test_bins_of_mass_hold_every_question_of_a_cell_once(results: Mapped) -> None:
    built = results.built("gains_over_draws_by_mass")
    counts = [int(row.titles[1]) for row in built.shown.rows if "CoQA" in row.group]
    assert sum(counts) == 24
    assert len(counts) == 4
    frame = built.frame
    assert set(frame["metric"]) == {"beams - samples"}


def test_the_gain_in_a_bin_is_of_its_questions_alone(results: Mapped) -> None:
    found = results.built("gains_over_draws_by_mass").frame
    gains = found[found["dataset"] == "coqa"].set_index("setting")["value"]
    cell = Cell(BASE, "coqa", "draws", "cosine")
    item = list_of_exhibits.exhibit("gains_over_draws_by_mass", results.study)
    scored = results.inputs(item.artifacts(results.study)).scores(cell)
    forms = [(D, "beamsearch", ""), *((D, "multinomial", draw) for draw in DRAWS)]
    for number, part in enumerate(equal_bins(covered_mass(results, "coqa"), 4), 1):
        prr_of_bin = scored.prr(part.members, "any", forms, resamples=1).frame["value"]
        beams, *samples = prr_of_bin
        assert gains[str(number)] == pytest.approx(beams - np.mean(samples), nan_ok=True)
    assert gains.notna().any()


def covered_mass(results: Results, dataset: str) -> Floats:
    """The probability of ten beams, by question in the order of the questions."""
    needs = [Artifact("candidates", dataset, BASE, "draws"), Artifact("questions", dataset)]
    candidates, questions = map(results.inputs(needs).frame, needs)
    beams = candidates[candidates["strategy"] == "beam M=10"]
    mass = np.exp(beams["logprob"]).groupby(beams["id"]).sum()
    asked = [key for key in questions["id"] if key in mass.index]
    return np.asarray(mass.loc[asked], dtype=np.float64)


def test_a_study_without_draws_is_told_what_these_tables_need(tmp_path: Path) -> None:
    without = Results(tmp_path, exhibits_study.study())
    with pytest.raises(Exception, match="every_draw"):
        without.built("gains_over_draws")

"""PRR, ROC-AUC and PR-AUC against the outputs of LM-Polygraph's own classes (the golden folder)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beamuq.evaluation.prr_and_auc import Evaluator, prediction_rejection_ratio
from one_metric import measure
from test_golden_methods import golden

pytestmark = pytest.mark.golden


def compared(case: dict[str, Any]) -> list[tuple[str, float, float]]:
    """(what, ours, theirs) of every finite output of a case."""
    quality = np.array([float(q) for q in case["quality"]])
    kept = ~np.isnan(quality)
    quality = quality[kept]
    # the reference's manager: a NaN score counts −10⁷, an infinite one ±10⁷
    uncertainty = np.nan_to_num(
        np.array(case["ue"], dtype=float), nan=-1e7, posinf=1e7, neginf=-1e7
    )[kept]
    spread = np.ptp(quality)
    scaled = (quality - quality.min()) / spread if spread > 0 else np.full(len(quality), 0.5)
    pairs: list[tuple[str, float, float]] = []
    for max_rejection in (1.0, 0.5):
        theirs = case["outputs"][f"prr_{max_rejection}"]
        if not all(isinstance(theirs[key], int | float) for key in ("raw", "oracle")):
            continue
        evaluator = Evaluator(
            scaled, np.ones((len(scaled), 1), dtype=np.int64), max_rejection=max_rejection
        )
        area, oracle = evaluator.area(uncertainty)[0], evaluator.area(-scaled)[0]
        pairs += [
            ("oracle", oracle, theirs["oracle"]),
            ("tie-averaged area", area, theirs["x_ref_tie_averaged_raw"]),
            ("random", scaled.mean(), theirs["x_ref_random_exact"]),
        ]
        if case["outputs"]["has_ue_ties"]:  # the reference's raw area depends on an unstable sort
            continue
        pairs.append(("area", area, theirs["raw"]))
        if theirs["oracle"] == theirs["random_mc1000_seed42"]:
            # the reference returns the raw area, ours is undefined
            assert np.isnan(measure("PRR", uncertainty, quality, max_rejection=max_rejection)[0]), (
                case["id"]
            )
        else:  # their random baseline is a Monte Carlo one: the ratio is compared on it
            ours = prediction_rejection_ratio(area, oracle, theirs["random_mc1000_seed42"])
            pairs.append(("PRR", ours, theirs["normalized"]))
    for metric, key in (
        ("ROC-AUC", "roc_auc_incorrect_q_le_0.5"),
        ("PR-AUC", "pr_auc_incorrect_q_le_0.5"),
    ):
        theirs = case["outputs"][key]
        # PR-AUC without an incorrect answer is 0 there and undefined here; under ties it is one
        # threshold a score there and an expectation over the orders here
        alike = metric == "ROC-AUC" or not ((quality > 0.5).all() or case["outputs"]["has_ue_ties"])
        if alike and isinstance(theirs, int | float):
            pairs.append((metric, measure(metric, uncertainty, quality)[0], theirs))
    return pairs


def test_every_finite_measurement_of_the_reference_is_ours() -> None:
    cases = golden("lm_polygraph_prr.json")
    pairs = [(case["id"], *pair) for case in cases for pair in compared(case)]
    differing = [pair for pair in pairs if not np.isclose(pair[2], pair[3], rtol=1e-8, atol=1e-10)]
    assert not differing, differing[:5]
    assert len(pairs) >= 8 * len(cases), f"only {len(pairs)} measurements compared"

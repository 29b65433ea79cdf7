"""The place of the model of multiple choice is read from its run's table and figure."""

from __future__ import annotations

import pandas as pd
import pytest

from choice_on_map import choice_on_map

CELL = {"what": "cell of the study", "dataset": "arc", "mass": 0.9, "kappa": 0.6, "held": 0.97}
POINT = CELL | {
    f"{name}_{end}": 0.5 for name in ("mass", "kappa", "held") for end in ("low", "high")
}


def row(metric: str, setting: str, value: float) -> dict[str, object]:
    ends = {"value": value, "low": value - 0.1, "high": value + 0.1}
    keys = {"method": "Dissimilarity", "variant": "normalised beam", "dataset": "arc"}
    return keys | {"metric": metric, "setting": setting} | ends


def test_a_gain_on_the_model_s_own_map_is_interpolated_at_its_kappa() -> None:
    table = pd.DataFrame(
        [
            *(
                row(part, "gold_label power=1.0 M=10", 0.02)
                for part in ("beams - samples", "noise")
            ),
            row("target", "gold_label power=1.0 M=10", 0.03),
            row("beams - samples", "exact text power=1.0 kappa=0.5 M=10", 0.1),
            row("beams - samples", "exact text power=1.0 kappa=1.0 M=10", 0.2),
            row("beams - samples", "exact text power=2.0 kappa=1.0 M=10", 0.9),
        ]
    )
    points = pd.DataFrame([POINT | {"n": 447}, POINT | {"n": 447, "what": "beams - samples"}])
    numbers = choice_on_map(points, table).set_index("number")
    assert numbers.loc["own map, exact text", "value"] == pytest.approx(0.12)
    assert numbers.loc["target", "value"] == 0.03
    assert numbers.loc["right among the ten", "value"] == 0.97
    assert set(numbers["n"]) == {447}

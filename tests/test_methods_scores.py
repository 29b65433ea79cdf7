"""The scores of a cell: which rows they are, and the step that writes them."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthetic
from beamuq import tables
from beamuq.errors import BeamUQError
from beamuq.methods import METHODS, Method
from beamuq.methods.cell import Cell
from beamuq.methods.scoring import Settings, score
from beamuq.steps import scores

STRATEGIES = (
    "greedy", "sample T=1.0", "sample T=0.7", "beam M=5", "beam M=10", "diverse G=2 lambda=0.5", "hybrid B=3",
)  # fmt: skip
KEY = ["produced", "method", "variant", "setting"]
MADE = synthetic.cell(5, STRATEGIES)


def scored(**settings: Any) -> pd.DataFrame:
    chosen = Settings.model_validate({"produced": ["greedy"], "main": MAIN} | settings)
    cell = Cell(
        *(MADE[kind] for kind in ("questions", "candidates", "similarity", "statistics")),
        main_beam=chosen.main.beam,
        sar_similarity=chosen.sar_similarity,
    )
    return score(cell, chosen).to_pandas()


MAIN = {"sample": "sample T=1.0", "beam": "beam M=10"}


def keys(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    return list(frame[KEY[1:]].drop_duplicates().itertuples(index=False, name=None))


def values(frame: pd.DataFrame, method: str, variant: str, setting: str = "") -> list[float]:
    rows = frame[(frame["method"] == method) & (frame["variant"] == variant) & (frame["setting"] == setting)]
    return rows["value"].tolist()


def test_the_main_line_has_every_method_in_every_form_once() -> None:
    frame = scored(methods=list(METHODS), produced=["greedy", "top_beam"], sar_similarity="scorer")
    assert not frame.duplicated(["id", *KEY]).any()
    readings = [("SemanticEntropy", "multinomial", reading) for reading in ("printed", "likelihood-summed")]
    expected = [(name, variant, "") for name, method in METHODS.items() for variant in method.variants]
    for _, part in frame.groupby("produced"):
        assert sorted(keys(part)) == sorted(expected + readings)
        assert len(part) == 5 * len(expected + readings)


def test_settings_are_rows_of_the_forms_they_are_about() -> None:
    ablations = {"epsilon": [0, 0.1], "alpha": [0.5], "K": [3], "budgets": [5]}
    found = keys(scored(methods=["Prob", "EigValLaplacian", "Dissimilarity", "Eccentricity"], ablations=ablations))
    beam = [("Dissimilarity", "beamsearch"), ("Eccentricity", "beamsearch")]
    multinomial = [("Dissimilarity", "multinomial"), ("Eccentricity", "multinomial")]
    expected = [
        *((*form, "") for form in [("Prob", ""), ("EigValLaplacian", ""), *multinomial, *beam]),
        *((*form, setting) for form in beam for setting in ("epsilon=0", "epsilon=0.1")),
        ("Eccentricity", "beamsearch", "alpha=0.5"),
        ("Eccentricity", "beamsearch", "K=3"),
        *((*form, "M=5") for form in [("EigValLaplacian", ""), *multinomial, *beam]),
    ]
    assert sorted(found) == sorted(expected)


def test_settings_equal_to_the_main_ones_give_the_main_scores() -> None:
    frame = scored(
        methods=["Eccentricity"],
        ablations={"epsilon": [0], "alpha": [0.9], "K": [11], "strategies": ["beam M=10", "sample T=1.0"]},
    )
    main = values(frame, "Eccentricity", "beamsearch")
    for setting in ("epsilon=0", "alpha=0.9", "beam M=10"):
        assert values(frame, "Eccentricity", "beamsearch", setting) == main
    assert values(frame, "Eccentricity", "multinomial", "sample T=1.0") == values(frame, "Eccentricity", "multinomial")
    assert values(frame, "Eccentricity", "beamsearch", "K=11") != main


def test_a_beam_budget_is_a_search_of_that_width() -> None:
    narrow = scored(methods=["Dissimilarity"], main={"beam": "beam M=5"})
    frame = scored(methods=["Dissimilarity"], ablations={"budgets": [5]})
    assert values(frame, "Dissimilarity", "beamsearch", "M=5") == values(narrow, "Dissimilarity", "beamsearch")


def test_a_sample_budget_is_the_first_samples() -> None:
    frame = scored(methods=["Dissimilarity"], size=5, ablations={"budgets": [5]})
    assert values(frame, "Dissimilarity", "multinomial", "M=5") == values(frame, "Dissimilarity", "multinomial")


def test_strategies_are_scored_with_printed_and_exact_weights() -> None:
    frame = scored(methods=["Dissimilarity", "Prob"], ablations={"strategies": list(STRATEGIES[2:])})
    assert [key[1:] for key in keys(frame) if key[2]] == [
        ("multinomial", "sample T=0.7"),
        ("multinomial", "sample T=0.7 exact"),
        ("beamsearch", "beam M=5"),
        ("beamsearch", "beam M=10"),
        ("beamsearch", "diverse G=2 lambda=0.5"),
        ("beamsearch", "hybrid B=3"),
    ]
    assert values(frame, "Dissimilarity", "multinomial", "sample T=0.7 exact") != values(
        frame, "Dissimilarity", "multinomial", "sample T=0.7"
    )


def test_without_samples_only_the_beam_forms_are_scored() -> None:
    assert keys(scored(methods=["Prob", "Dissimilarity"], main={"beam": "beam M=10"})) == [
        ("Prob", "", ""),
        ("Dissimilarity", "beamsearch", ""),
    ]


def test_a_method_from_outside_is_scored_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("their_methods")
    module.farthest = Method("Farthest", lambda e: 1 - e.to_produced.min(axis=1), "candidates")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_methods", module)
    monkeypatch.delitem(METHODS, "Farthest", raising=False)
    frame = scored(methods=["their_methods:farthest"], ablations={"budgets": [5]})
    assert keys(frame) == [
        ("Farthest", "multinomial", ""),
        ("Farthest", "multinomial", "M=5"),
        ("Farthest", "beamsearch", ""),
        ("Farthest", "beamsearch", "M=5"),
    ]
    METHODS.pop("Farthest")


def files(folder: Path) -> list[str]:
    for kind, table in MADE.items():
        tables.write(folder / f"{kind}.parquet", kind, table, cell={"model": "m", "dataset": "d", "recipe": "main"})
    kinds = ("questions", "candidates", "similarity", "statistics")
    return [word for kind in kinds for word in (f"--{kind}", str(folder / f"{kind}.parquet"))]


def test_the_step_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    inputs = files(tmp_path)
    settings = json.dumps({"methods": ["Prob", "CCP", "Dissimilarity"], "produced": ["greedy"], "main": MAIN})
    for name in ("one", "other"):
        scores.main([*inputs, "--settings", settings, "--scores", str(tmp_path / name)])
    written = tables.read(tmp_path / "one", "scores")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert written.cell == {"model": "m", "dataset": "d", "recipe": "main"}
    assert set(written.provenance["inputs"]) == {"questions", "candidates", "similarity", "statistics"}
    assert np.isfinite(written.table.column("value").to_numpy()).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"methods": ["Prob"], "produced": ["greedy"], "main": MAIN, "alhpa": 0.9}, r"--settings: alhpa: 0\.9"),
        ({"methods": ["Prob"], "produced": ["greedy"], "main": MAIN, "ablations": {"K": [0]}}, r"ablations\.K\.0: 0"),
        ({"methods": ["Prob"], "produced": ["best"], "main": MAIN}, "produced: 'best'"),
        ({"methods": ["SAR"], "produced": ["greedy"], "main": MAIN}, "'SAR' needs sentence_similarity"),
        ({"methods": ["SAR"], "produced": ["greedy"], "main": MAIN, "sar_similarity": "file"}, "sar_similarity 'file'"),
    ],
)
def test_bad_settings_are_refused_in_one_line(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    inputs = files(tmp_path)
    with pytest.raises(BeamUQError, match=message) as caught:
        scores.main([*inputs, "--settings", json.dumps(settings), "--scores", str(tmp_path / "out")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()

"""The printed numbers as data, where a study measures them, and the declared files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beamuq.errors import BeamUQError
from beamuq.published import claims, declared, values
from beamuq.published.values import RowKey, incomparable, place
from published_study import PRINTED, RULES, study


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of the declared files with one text replaced once."""
    folder = tmp_path / "published"
    shutil.copytree(declared.FOLDER, folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


def row(**changes: str) -> RowKey:
    key = RowKey("tab:qa_gemma4b", "gemma-3-4b-base", "coqa", "PRR", "Dissimilarity", "beamsearch", "")
    return key._replace(**changes)


def test_all_printed_numbers_are_there() -> None:
    assert len(PRINTED) == 1958
    assert sum(table.rows for table in RULES.tables.values()) == 1958
    assert sum(printed.std is not None for printed in PRINTED) == 840


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.41,0.019", "nan,0.019", "is not a number of the paper"),
        ("0.41,0.019", "1.41,0.019", "is not a number of the paper"),
        ("0.41,0.019", "0.41,0", "is not a number of the paper"),
        ("0.41,0.019", "x,0.019", "line 2"),
        ("PRR,Prob,", "PRR,Probe,", "is not a number of the paper"),
        ("value,std", "number,std", "columns are"),
    ],
)
def test_a_damaged_file_of_values_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(BeamUQError, match=message):
        values.read_values(RULES, changed(tmp_path, "paper_values.csv", old, new))


def test_a_missing_and_a_repeated_row_are_refused(tmp_path: Path) -> None:
    first = (declared.FOLDER / "paper_values.csv").read_text(encoding="utf-8").splitlines()[1]
    with pytest.raises(BeamUQError, match="119 rows, expected 120"):
        values.read_values(RULES, changed(tmp_path / "a", "paper_values.csv", first + "\n", ""))
    second = (declared.FOLDER / "paper_values.csv").read_text(encoding="utf-8").splitlines()[2]
    with pytest.raises(BeamUQError, match="stands twice"):
        values.read_values(RULES, changed(tmp_path / "b", "paper_values.csv", second, first))


@pytest.mark.parametrize("name", ["comparison.yaml", "errata.yaml", "claims.yaml"])
def test_an_unknown_key_of_a_declared_file_is_named(tmp_path: Path, name: str) -> None:
    word = {"comparison.yaml": "power:", "errata.yaml": "mean_columns:", "claims.yaml": "where:"}[name]
    folder = changed(tmp_path, name, word, "tolerance:")
    readers = {"comparison.yaml": declared.read, "errata.yaml": _ledger, "claims.yaml": claims.read_claims}
    with pytest.raises(BeamUQError, match=name):
        readers[name](folder)


def _ledger(folder: Path) -> object:
    from beamuq.published.selfcheck import read_ledger

    return read_ledger(folder)


def test_every_printed_number_has_a_place_in_the_papers_study() -> None:
    of = study()
    assert not [found for r in PRINTED if isinstance(found := place(of, r.key, RULES), str)]


@pytest.mark.parametrize(
    ("key", "recipe", "scorer", "stored"),
    [
        (row(), "main", "nli", ("PRR", "Dissimilarity", "beamsearch", "", "greedy")),
        (row(table="tab:abl_rocauc", metric="ROC-AUC"), "main", "nli", ("ROC-AUC", *row()[4:6], "", "greedy")),
        (row(table="tab:abl_crossencoder"), "main", "crossencoder", ("PRR", *row()[4:6], "", "greedy")),
        (row(table="tab:abl_sampling", setting="beam"), "strategies", "nli", ("PRR", *row()[4:6], "", "greedy")),
        (
            row(table="tab:abl_sampling", variant="multinomial", setting="multinomial T=0.7"),
            "strategies",
            "nli",
            ("PRR", "Dissimilarity", "multinomial", "sample T=0.7", "greedy"),
        ),
        (
            row(table="tab:abl_sampling", variant="multinomial", setting="multinomial T=1.0"),
            "strategies",
            "nli",
            ("PRR", "Dissimilarity", "multinomial", "", "greedy"),
        ),
        (
            row(table="tab:abl_ecc_params", method="Eccentricity", setting="K=3"),
            "strategies",
            "nli",
            ("PRR", "Eccentricity", "beamsearch", "K=3", "greedy"),
        ),
    ],
)
def test_a_printed_row_is_looked_up_where_it_was_measured(
    key: RowKey, recipe: str, scorer: str, stored: tuple[str, ...]
) -> None:
    found = place(study(), key, RULES)
    assert not isinstance(found, str)
    assert [(need.recipe, need.scorer) for need in found.needs] == [(recipe, scorer)]
    assert tuple(found.key) == stored


def test_a_mean_needs_every_dataset_and_the_top_beams_table_the_top_beam() -> None:
    found = place(study(), row(table="tab:topbeam_scoring", dataset="mean"), RULES)
    assert not isinstance(found, str)
    assert len(found.needs) == 6
    assert found.key.produced == "top_beam"


def test_a_study_like_the_papers_is_comparable() -> None:
    assert not incomparable(study(), RULES, "gemma-3-4b-base", RULES.protocol.datasets, scorer="nli")


def test_a_folder_of_the_same_name_is_the_same_model() -> None:
    content = study().model_dump(mode="json")["models"]
    content["gemma-3-4b-base"]["source"] = "folder:/models/gemma-3-4b-pt"
    assert not incomparable(study(models=content), RULES, "gemma-3-4b-base", ["coqa"])


@pytest.mark.parametrize(
    ("part", "path", "value", "reason"),
    [
        ("models", ("gemma-3-4b-base", "source"), "hub:google/gemma-3-1b-pt", "other model"),
        ("models", ("gemma-3-4b-base", "style"), "instruct", "other prompts"),
        ("quality", (), {"metric": "answer_f1", "title": "F1"}, "other quality metric"),
        ("evaluation", ("max_rejection",), 1.0, "other largest rejection"),
        ("datasets", ("coqa", "max_new_tokens"), 30, "other max new tokens on coqa"),
        ("main", ("epsilon",), 0.1, "other epsilon"),
        ("scorers", ("nli", "source"), "hub:other/nli", "other similarity"),
        ("scorers", ("nli", "stand_in_for"), "DeBERTa", "other similarity"),
    ],
)
def test_what_differs_from_the_papers_protocol_is_named(
    part: str, path: tuple[str, ...], value: object, reason: str
) -> None:
    content = study().model_dump(mode="json")[part]
    node = content
    for name in path[:-1]:
        node = node[name]
    if path:
        node[path[-1]] = value
    found = incomparable(study(**{part: content if path else value}), RULES, "gemma-3-4b-base", ["coqa"], scorer="nli")
    assert found.startswith(reason)

"""Which similarity ``auto`` took is said: once in a warning, and wherever scores are read."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import beamuq
from beamuq.api import open_models
from beamuq.api.open_models import open_similarity
from beamuq.api.score_candidates import Scores
from beamuq.cli import main

ROWS = [
    {
        "answer": {"text": "Rome", "token_logprobs": [-0.5]},
        "samples": ["Rome", "Milan"],
        "beams": [{"text": "Rome", "logprob": -0.5}],
    }
]


@pytest.fixture(autouse=True)
def empty_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models that has none, in a process that was told of nothing."""
    folder = tmp_path / "models"
    monkeypatch.setenv("BEAMUQ_MODELS", str(folder))
    monkeypatch.setattr(open_models, "_REASONS_TOLD", set())
    return folder


def scored(methods: str = "Dissimilarity,Prob") -> Scores:
    return beamuq.score(ROWS, similarity="lexical", methods=methods)


def test_where_minilm_is_not_there_the_fall_is_told_once_with_the_fix(empty_models: Path) -> None:
    with pytest.warns(UserWarning, match="similarity auto") as told:
        names = [open_similarity("auto").name for _ in range(2)]
    assert names == ["lexical", "lexical"]
    (message,) = [str(warning.message) for warning in told]
    assert "ROUGE-L" in message
    assert str(empty_models / "all-minilm-l6-v2") in message
    assert "--similarity minilm" in message


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_another_reason_is_told_too(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="is not there"):
        open_similarity("auto")
    installed = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == missing else installed(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.warns(UserWarning, match=f"{missing} is not installed .*pip install"):
        assert open_similarity("auto").name == "lexical"


def test_a_similarity_that_was_named_is_told_of_in_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_similarity("lexical").name == "lexical"


def test_the_command_tells_it_and_prints_the_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"answer": "Rome", "samples": ["Rome", "Milan"]}\n')
    with pytest.warns(UserWarning, match="similarity auto: ROUGE-L"):
        main(["score", str(file)])
    assert "similarity: lexical" in capsys.readouterr().out


def test_one_methods_scores_show_their_form_and_what_texts_were_compared_by() -> None:
    scores = scored()
    forms = {
        "multinomial": "over 2 samples (multinomial); similarity: lexical",
        "beamsearch": "over 1 beam (beamsearch); similarity: lexical",
    }
    for form, footer in forms.items():
        series = scores.scores_of("Dissimilarity", form)
        assert repr(series).splitlines()[-1] == footer
        assert repr(series[:1]).splitlines()[-1] == footer
    assert repr(scores["Dissimilarity"]).splitlines()[-1] == forms["beamsearch"]
    assert repr(scores["Prob"]).splitlines()[-1] == "of the answer alone"


def test_scores_without_their_rows_show_no_form() -> None:
    series = scored()["Dissimilarity"]
    assert "over" not in repr(series.to_frame()["Dissimilarity"])
    assert "over" not in repr(pd.concat([series, pd.Series([0.1], index=["x"])]))


def test_a_wide_frame_keeps_the_similarity_and_its_file_too(tmp_path: Path) -> None:
    wide = scored().wide()
    assert wide.attrs["similarity"] == "lexical"
    wide.to_parquet(tmp_path / "wide.parquet")
    assert pd.read_parquet(tmp_path / "wide.parquet").attrs["similarity"] == "lexical"

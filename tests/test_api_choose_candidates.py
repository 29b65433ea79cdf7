"""The candidate that the others resemble most."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

import beamuq
from beamuq.api import choose_candidates
from beamuq.errors import BeamUQError

BEAMS = [
    {"text": "Milan", "logprob": math.log(0.2)},
    {"text": "Rome", "logprob": math.log(0.5)},
]
ROW = {"id": "a", "answer": "Bari", "samples": ["Milan", "Milan", "Rome"], "beams": BEAMS}


def test_the_beam_that_has_most_weight_around_it_is_chosen() -> None:
    (row,) = beamuq.choose([ROW], similarity="lexical").to_dict("records")
    assert (row["text"], row["candidate"], row["form"]) == ("Rome", "beams[1]", "beamsearch")
    assert row["value"] == pytest.approx(0.2 / 0.7)
    assert (row["answer"], row["answer_value"]) == ("Bari", 1)


def test_over_samples_the_most_frequent_text_is_chosen() -> None:
    (row,) = beamuq.choose([ROW], similarity="lexical", form="multinomial").to_dict("records")
    assert (row["text"], row["candidate"], row["candidates"]) == ("Milan", "samples[0]", 3)
    assert row["value"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("word", "form"), [("samples", "multinomial"), ("beams", "beamsearch")])
def test_a_form_may_be_named_as_its_candidates_are(word: str, form: str) -> None:
    by_word = beamuq.choose([ROW], similarity="lexical", form=word)
    pd.testing.assert_frame_equal(by_word, beamuq.choose([ROW], similarity="lexical", form=form))
    assert by_word["form"].tolist() == [form]


def test_the_value_is_what_score_gives_the_chosen_text_as_an_answer() -> None:
    chosen = beamuq.choose([ROW], similarity="lexical")
    as_answer = [ROW | {"answer": chosen["text"].item()}]
    scores = beamuq.score(as_answer, similarity="lexical", methods="Dissimilarity")
    assert chosen["value"].tolist() == scores["Dissimilarity"].tolist()


def test_of_equals_the_answer_is_chosen() -> None:
    rows = [{"answer": "Rome", "samples": ["Milan", "Rome"]}]
    assert beamuq.choose(rows, similarity="lexical")["candidate"].tolist() == ["answer"]


def test_a_warning_of_endings_names_the_question_s_own_id() -> None:
    beam = {"text": "Rome", "token_logprobs": [-0.1]}
    row = {"id": "capital", "answer": "Rome", "beams": [beam]}
    with pytest.warns(UserWarning, match=r"^id 'capital': beams: token_logprobs: believed"):
        beamuq.choose([row], similarity="lexical")


def test_values_that_differ_by_rounding_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    score = choose_candidates.score_records

    def rounded(*arguments: Any, **options: Any) -> Any:
        scores = score(*arguments, **options)
        scores.loc[scores["variant"] == "multinomial", "value"] = [0.1 + 0.2, 0.3]
        return scores

    monkeypatch.setattr(choose_candidates, "score_records", rounded)
    rows = [{"answer": "Rome", "samples": ["Milan", "Rome"]}]
    assert beamuq.choose(rows, similarity="lexical")["candidate"].tolist() == ["answer"]


def test_rows_keep_their_order_and_ids() -> None:
    rows = [ROW | {"id": name} for name in ("z", 3, "a")]
    assert beamuq.choose(rows, similarity="lexical")["id"].tolist() == ["z", "3", "a"]


def test_a_row_without_candidates_of_the_form_is_named() -> None:
    rows = [ROW, {"id": "b", "answer": "Rome", "samples": ["Milan"]}]
    with pytest.raises(BeamUQError, match=r"id 'b': no Dissimilarity over beams: needs beams"):
        beamuq.choose(rows, similarity="lexical")
    with pytest.raises(BeamUQError, match="form 'beam': unknown; did you mean 'beams'"):
        beamuq.choose(rows, similarity="lexical", form="beam")

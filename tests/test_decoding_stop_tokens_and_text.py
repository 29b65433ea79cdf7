"""Which tokens end an answer, and the text of its tokens."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from beamuq.decoding import answer_text, bare_stops, candidate_text, stop_tokens, token_texts
from beamuq.errors import BeamUQError
from tiny import tiny_model
from tiny_scorers import roberta_tokenizer

MODEL, TOKENIZER = tiny_model("llama")
STOPS = stop_tokens(TOKENIZER, MODEL)
DOTTED = TOKENIZER.convert_tokens_to_ids(".\n")
PARIS, NEWLINE = TOKENIZER("Paris")["input_ids"], TOKENIZER("\n")["input_ids"]


def test_stop_tokens_hold_every_end_and_every_newline() -> None:
    texts = token_texts(TOKENIZER, range(len(TOKENIZER)))
    assert {token for token, text in enumerate(texts) if "\n" in text} | {1, 3} == STOPS
    assert DOTTED in STOPS
    assert stop_tokens(TOKENIZER, MODEL, newline=False) == {1, 3}


def test_the_unknown_token_that_a_turns_end_becomes_is_no_stop() -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 40, "Paris": 41}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    assert 40 not in stop_tokens(tokenizer, MODEL, newline=False)


class Shouting(PreTrainedTokenizerFast):  # type: ignore[misc]
    """Decodes otherwise than its backend, as some of transformers' do."""

    def _decode(self, *arguments: Any, **options: Any) -> str:
        return str(super()._decode(*arguments, **options)).upper()


@pytest.mark.parametrize(
    "tokenizer",
    [
        TOKENIZER,
        roberta_tokenizer(),
        ByT5Tokenizer(),
        Shouting(tokenizer_object=roberta_tokenizer().backend_tokenizer),
    ],
)
def test_token_texts_are_those_of_the_tokenizers_own_decoding(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    ids = [[token] for token in range(len(tokenizer))]
    expected = tokenizer.batch_decode(
        ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    assert token_texts(tokenizer, range(len(tokenizer))) == expected


@pytest.mark.parametrize("declared", ["x", [1, "x"], 1.5, -1, True, [[1]]])
def test_an_end_that_is_no_token_is_refused(
    declared: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODEL.generation_config, "eos_token_id", declared)
    with pytest.raises(BeamUQError, match=r"eos_token_id: .*: must be the number of a token"):
        stop_tokens(TOKENIZER, MODEL)


def test_bare_stops_add_nothing_to_the_text() -> None:
    assert STOPS - bare_stops(TOKENIZER, STOPS) == {DOTTED}


@pytest.mark.parametrize(
    ("tokens", "stops", "text"),
    [
        ([*PARIS, DOTTED], STOPS, "Paris."),
        ([*PARIS, *NEWLINE], STOPS, "Paris"),
        ([*PARIS, 1], STOPS, "Paris"),
        ([*PARIS, 3], STOPS, "Paris"),
        (PARIS, STOPS, "Paris"),
        ([4, *PARIS, 0], STOPS, "Paris"),
        ([*PARIS, *NEWLINE, *PARIS], frozenset(), "Paris"),
        ([*PARIS, 40], frozenset({40}), "Paris"),
    ],
)
def test_the_text_ends_at_the_newline_or_the_stop(
    tokens: list[int], stops: frozenset[int], text: str
) -> None:
    assert candidate_text(TOKENIZER, tokens, stops) == text


WRITTEN = "<b>Red</b>\nAnswer: blue</think>\n\ngreen"


def test_without_newline_an_answer_has_all_its_lines_less_special_tokens_and_outer_space() -> None:
    ids = [*TOKENIZER(f"\n {WRITTEN} \n")["input_ids"], 3]
    assert answer_text(TOKENIZER, ids, frozenset({1, 3}), newline=False) == WRITTEN
    assert answer_text(TOKENIZER, [4, *ids, 3], frozenset({1, 3}), newline=False) == WRITTEN
    assert answer_text(TOKENIZER, [*PARIS, DOTTED], frozenset({DOTTED}), newline=False) == "Paris."


def test_with_newline_an_answer_is_its_first_line_cleaned() -> None:
    ids = TOKENIZER(f"{WRITTEN}")["input_ids"]
    assert answer_text(TOKENIZER, ids, STOPS) == "Red"
    assert answer_text(TOKENIZER, [*NEWLINE, *PARIS], STOPS) == ""

"""Of every way to split a short text into tokens, no verdict on its ending is wrong; at most it is
unclear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import pytest

from beamuq.api.server_forms.tokens_along_text import LOST, Token, Verdict, token, verdict

CHARACTERS = ("a", " ", "é", "€", "😊", "\u0301", LOST, "\n")
MOST_BYTES = 6
ENDINGS: tuple[str | None, ...] = (None, "", "<|im_end|>", "</s>", "\n")
Parts = tuple[bytes, ...]


def splits(content: bytes) -> Iterator[Parts]:
    """Every way to part the bytes of a text into tokens."""
    for cuts in product((False, True), repeat=max(0, len(content) - 1)):
        parts = [content[:1]]
        for cut, byte in zip(cuts, content[1:], strict=True):
            if cut:
                parts.append(bytes([byte]))
            else:
                parts[-1] += bytes([byte])
        yield tuple(part for part in parts if part)


def each_alone(parts: Parts) -> list[Token]:
    """Each token decoded by itself, without its bytes, or with those of what was decoded, as vLLM
    gives them.
    """
    return [token(part.decode(errors="replace")) for part in parts]


def with_bytes(parts: Parts) -> list[Token]:
    return [token(part.decode(errors="replace"), list(part)) for part in parts]


def cut_to_whole_characters(parts: Parts) -> list[Token]:
    """As llama.cpp shows a token: up to its last whole character, with its bytes."""
    return [token(part.decode(errors="ignore"), list(part)) for part in parts]


def one_mark_a_token(parts: Parts) -> list[Token]:
    """One U+FFFD for all broken bytes beside each other."""
    shown = [part.decode(errors="replace") for part in parts]
    for _ in range(3):
        shown = [text.replace(LOST * 2, LOST) for text in shown]
    return [token(text) for text in shown]


def grown(parts: Parts) -> list[Token]:
    """Nothing for a part of a character, and all of it where it is whole."""
    shown: list[str] = []
    held = b""
    for part in parts:
        held += part
        text = held.decode(errors="replace")
        if text.endswith(LOST):
            shown.append("")
        else:
            shown.append(text)
            held = b""
    return [token(text) for text in shown]


def differences(parts: Parts) -> list[Token]:
    """What each token adds to the length of the decoded text."""
    shown: list[str] = []
    before = ""
    for number in range(1, len(parts) + 1):
        after = b"".join(parts[:number]).decode(errors="replace")
        shown.append(after[len(before) :])
        before = after
    return [token(text) for text in shown]


SHOWN: dict[str, Callable[[Parts], list[Token]]] = {
    each.__name__: each
    for each in (
        each_alone,
        with_bytes,
        cut_to_whole_characters,
        one_mark_a_token,
        grown,
        differences,
    )
}


def texts() -> Iterator[str]:
    for length in range(4):
        for characters in product(CHARACTERS, repeat=length):
            text = "".join(characters)
            if len(text.encode()) <= (MOST_BYTES if length < 3 else MOST_BYTES - 1):
                yield text


def wrong_verdicts(text: str, given: str, shown: str) -> Iterator[tuple[str, list[str], Verdict]]:
    """Where a text, which a server gives as ``given``, is said to end and does not, or not to end
    and does.
    """
    for parts in splits(text.encode()):
        spelled = SHOWN[shown](parts)
        for ending in ENDINGS:
            tokens = spelled if ending is None else [*spelled, token(ending)]
            said = verdict(given, tokens, cut=False)
            if said is (Verdict.WHOLE if ending is None else Verdict.NO_ENDING):
                yield given, [each.text for each in tokens], said


@pytest.mark.parametrize("shown", SHOWN)
def test_no_split_of_a_text_gives_a_wrong_verdict(shown: str) -> None:
    wrong = [each for text in texts() for each in wrong_verdicts(text, text, shown)]
    assert not wrong[:5], len(wrong)


@pytest.mark.parametrize("shown", SHOWN)
def test_no_split_of_a_text_that_was_stripped_gives_a_wrong_verdict(shown: str) -> None:
    # a line break behind an answer of one line is its ending (D1)
    stripped = (
        text for text in texts() if text != text.strip() and not text.rstrip(" ").endswith("\n")
    )
    wrong = [each for text in stripped for each in wrong_verdicts(text, text.strip(), shown)]
    assert not wrong[:5], len(wrong)


def test_a_tokens_own_bytes_leave_nothing_unclear_in_a_text_of_one_line() -> None:
    for text in texts():
        if text.strip() != text or LOST in text or "\n" in text or not text:
            continue
        for parts in splits(text.encode()):
            spelled = with_bytes(parts)
            assert verdict(text, spelled, cut=False) is Verdict.NO_ENDING
            for ending in ENDINGS[1:]:
                assert verdict(text, [*spelled, token(str(ending))], cut=False) is Verdict.WHOLE


def tokens_of(*shown: str) -> list[Token]:
    return [token(each) for each in shown]


HELD: dict[str, tuple[str, Sequence[str], Sequence[str], Verdict]] = {
    "four parts of an emoji and no ending": ("😊 ok", [LOST] * 4 + [" ok"], (), Verdict.NO_ENDING),
    "four parts of an emoji and an ending": (
        "😊 ok",
        [LOST] * 4 + [" ok", "</s>"],
        (),
        Verdict.WHOLE,
    ),
    "a character of two bytes has no third part": ("é", [LOST] * 3, (), Verdict.NO_ENDING),
    "a part beyond the text, then the ending": ("é", [LOST, LOST, LOST, "</s>"], (), Verdict.WHOLE),
    "halves of a pair of UTF-16": ("😊", ["\ud83d", "\ude0a", "</s>"], (), Verdict.WHOLE),
    "two endings": ("Rome", ["Rome", "<|im_end|>", "<|endoftext|>"], (), Verdict.WHOLE),
    "several tokens that no stop string explains": (
        "Rome",
        ["Rome", "\n", "Q", ":"],
        (),
        Verdict.UNCLEAR,
    ),
    "a stop string of several tokens": ("Rome", ["Rome", "\n", "Q", ":"], ("\nQ:",), Verdict.WHOLE),
    "tokens behind a stop string": ("Rome", ["Rome", "\n", "Q", ":"], ("\n",), Verdict.UNCLEAR),
    "a thought that begins as the answer": (
        "Rome",
        ["Rome", "?", "</think>", "Rome", "</s>"],
        (),
        Verdict.UNCLEAR,
    ),
    "a thought's tokens beside an empty answer": ("", ["So", " what"], (), Verdict.UNCLEAR),
    "the end of a thought is no ending": ("Rome", ["Rome", "</think>"], (), Verdict.UNCLEAR),
    "a space that was stripped": ("Rome", ["Rome", " "], (), Verdict.NO_ENDING),
    "a space inside the last token": ("Rome", ["Rome "], (), Verdict.NO_ENDING),
    "a space, then the ending": ("Rome", ["Rome", " ", "</s>"], (), Verdict.WHOLE),
    "a line break behind several lines": ("a\nb", ["a", "\n", "b", "\n"], (), Verdict.UNCLEAR),
    "a stop string that is one token's end": ("Rome.", [" Rome", ".\n"], (), Verdict.WHOLE),
    "a line break that was asked for": ("Rome", ["Rome", "\n"], ("\n",), Verdict.WHOLE),
    "a line break": ("Rome", ["Rome", "\n"], (), Verdict.WHOLE),
    "another text": ("Rome", ["Paris", "</s>"], (), Verdict.NO_SPELLING),
    "fewer tokens than text": ("Rome", ["Ro"], (), Verdict.NO_SPELLING),
}


@pytest.mark.parametrize("name", HELD)
def test_what_stands_behind_a_text_is_its_ending_only_where_it_can_be_nothing_else(
    name: str,
) -> None:
    text, shown, stops, wanted = HELD[name]
    assert verdict(text, tokens_of(*shown), cut=False, stops=stops) is wanted


CUT: dict[str, tuple[str, Sequence[str], Verdict]] = {
    "all of it": ("Rome is", ["Rome", " is"], Verdict.WHOLE),
    "a character cut in half": ("Rome", ["Rome", LOST], Verdict.WHOLE),
    "a thought that was cut": ("", ["So", " what"], Verdict.UNCLEAR),
    "another text": ("Rome", ["So", " what"], Verdict.NO_SPELLING),
}


@pytest.mark.parametrize("name", CUT)
def test_a_text_that_was_cut_is_whole_where_its_tokens_spell_it_and_no_more(name: str) -> None:
    text, shown, wanted = CUT[name]
    assert verdict(text, tokens_of(*shown), cut=True) is wanted


def test_a_long_text_of_lost_characters_takes_no_long_time() -> None:
    text = "日本語" * 500
    shown = [LOST] * (2 * len(text))
    assert verdict(text, tokens_of(*shown, "</s>"), cut=False) is Verdict.WHOLE

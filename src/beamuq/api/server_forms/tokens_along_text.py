"""Lay a response's tokens along its text: do they spell it, and does what stands behind it end it?

A server shows each token as a text of its own, and may show its bytes. A token that holds a part of
a character shows U+FFFD in its place: one to three bytes of a character that is not ASCII, never
all of its bytes, unless the character is U+FFFD itself. So tokens may fit a text in several ways.
What a verdict says holds in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

LOST = "\ufffd"
_LOST_BYTES = LOST.encode()
_LONGEST_PART = 3  # bytes of a character that one U+FFFD may stand for
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile(r"\s*(?:<[^<>\s]{1,60}>|\[/?[A-Z_]{2,30}\])?\s*")
_NO_END = re.compile(r"think|thought|reason|tool|call|function|channel|python_tag", re.IGNORECASE)


class Verdict(Enum):
    """What the tokens say of the text's ending."""

    WHOLE = "the ending is among the tokens, or the text was cut where they end"
    NO_ENDING = "the tokens spell the text, and none of them ends it"
    UNCLEAR = "the tokens fit the text both with and without an ending"
    NO_SPELLING = "the tokens do not spell the text"


@dataclass(frozen=True)
class Token:
    """``text``: as the server shows it; ``spelled``: its bytes, with U+FFFD for what was lost."""

    text: str
    spelled: bytes


def token(text: str, byte_values: Sequence[int] | None = None) -> Token:
    """A token by its text and, where the server gives them, its bytes."""
    shown = _HALF_OF_A_PAIR.sub(LOST, text)
    if not byte_values:
        return Token(shown, shown.encode())
    spelled = bytes(byte_values)
    return Token(shown or spelled.decode(errors="replace"), spelled)


def verdict(text: str, tokens: Sequence[Token], *, cut: bool, stops: Sequence[str] = ()) -> Verdict:
    """What tokens say of a text that ended by itself, or was ``cut`` at the most tokens allowed.

    ``stops``: stop strings that were asked for, or that are known to have ended the text. Space may
    differ between text and tokens: some tokenizers lose it, and servers strip it.
    """
    text = _HALF_OF_A_PAIR.sub(LOST, text)
    tails = [tail for _, tail in _covers(text, tokens)]
    if not tails:
        tails = list(_tails_but_for_space(text, tokens))
    if not tails:
        return Verdict.NO_SPELLING
    verdicts = {_of_cut(tail) if cut else _of_ended(text, tail, stops) for tail in tails}
    return verdicts.pop() if len(verdicts) == 1 else Verdict.UNCLEAR


Tail = tuple[str, ...]
"""What stands behind the text: the rest of the token that reaches beyond it, and further tokens."""


class _TextBytes:
    """A text as bytes, and sets of places in it: numbers whose bits are the places."""

    def __init__(self, text: str) -> None:
        self.content = text.encode()
        self.end = len(self.content)
        self.starts = 1 << self.end  # where a character may begin
        self.parts = 0  # the bytes of characters that are not ASCII
        self.lost = 0  # where a U+FFFD of the text itself begins
        place = 0
        for character in text:
            size = len(character.encode())
            self.starts |= 1 << place
            if size > 1:
                self.parts |= ((1 << size) - 1) << place
            if character == LOST:
                self.lost |= 1 << place
            place += size

    def behind(self, places: int, piece: bytes) -> int:
        """The places reached from ``places`` by a piece of a token."""
        if piece == _LOST_BYTES:
            return self._behind_lost(places)
        reached = 0
        for place in _members(places):
            if self.content.startswith(piece, place):
                reached |= 1 << (place + len(piece))
        return reached

    def _behind_lost(self, places: int) -> int:
        """The places reached by one U+FFFD, which stands for a part of a character, or itself."""
        fresh = places & self.starts
        begun = places & ~self.starts
        first_part = self._behind_bytes(fresh) & ~self.starts
        further_part = self._behind_bytes(begun)
        itself = (fresh & self.lost) << len(_LOST_BYTES)
        return first_part | further_part | itself

    def _behind_bytes(self, places: int) -> int:
        """The places reached by one to three bytes of the same character."""
        reached = 0
        for _ in range(_LONGEST_PART):
            places = (places & self.parts) << 1
            reached |= places
            places &= ~self.starts
        return reached

    def excess(self, places: int, piece: bytes) -> Iterator[bytes]:
        """What of a piece reaches beyond the end, for each of the places from which it does."""
        if piece == _LOST_BYTES:
            if places >> self.end & 1:
                yield piece
            return
        for place in _members(places):
            rest = self.content[place:]
            if len(piece) > len(rest) and piece.startswith(rest):
                yield piece[len(rest) :]


def _members(places: int) -> Iterator[int]:
    """The places of a set, in order."""
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


def _pieces(spelled: bytes) -> list[bytes]:
    """The parts of a token between lost characters, and these."""
    return [piece for piece in re.split(b"(" + _LOST_BYTES + b")", spelled) if piece]


def _covers(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, Tail]]:
    """The ways in which the first tokens spell the text: how many they are, and the tail."""
    if LOST in text:  # any broken bytes may be shown by the text's own U+FFFD
        tokens = [_with_lost_bytes_shown(current) for current in tokens]
    text_bytes = _TextBytes(text)
    if text_bytes.end == 0:
        yield 0, _texts(tokens)
        return
    places = 1
    for number, current in enumerate(tokens, start=1):
        further = _texts(tokens[number:])
        pieces = _pieces(current.spelled)
        for number_of_piece, piece in enumerate(pieces):
            # a token that begins where the text ends belongs to the tail
            inside = places if number_of_piece else places & ~(1 << text_bytes.end)
            rest_of_token = b"".join(pieces[number_of_piece + 1 :])
            for excess in text_bytes.excess(inside, piece):
                rest = excess + rest_of_token
                yield number, (rest.decode(errors="replace"), *further)
            places = text_bytes.behind(places, piece)
        if pieces and places >> text_bytes.end & 1:
            yield number, further
        if not places:
            return


def _with_lost_bytes_shown(current: Token) -> Token:
    return Token(current.text, current.spelled.decode(errors="replace").encode())


def _texts(tokens: Sequence[Token]) -> Tail:
    return tuple(current.text for current in tokens)


def _tails_but_for_space(text: str, tokens: Sequence[Token]) -> Iterator[Tail]:
    """The tails of the text, whatever space stands in it and in the tokens."""
    squeezed = "".join(text.split())
    shown = [Token(current.text, _without_space(current.spelled)) for current in tokens]
    ends_in_space = text != text.rstrip()
    for used, tail in _covers(squeezed, shown):
        space = _space_at_end(tokens[used - 1].text) if used else ""
        if space and len(tail) == len(tokens) - used and not ends_in_space:
            yield (space, *tail)
            continue
        yield tail
        # space at the beginning of a tail may be that which the text ends in
        while ends_in_space and tail and not tail[0].strip():
            tail = tail[1:]
            yield tail


def _without_space(spelled: bytes) -> bytes:
    try:
        return "".join(spelled.decode().split()).encode()
    except UnicodeDecodeError:  # it holds a part of a character
        return spelled.translate(None, b" \t\r\n")


def _space_at_end(text: str) -> str:
    return text[len(text.rstrip()) :]


def _of_cut(tail: Tail) -> Verdict:
    """Of a text that was cut: only space, or a part of a cut character, may stand behind it."""
    if all(not part.replace(LOST, "").strip() for part in tail):
        return Verdict.WHOLE
    return Verdict.UNCLEAR


def _of_ended(text: str, tail: Tail, stops: Sequence[str]) -> Verdict:
    """Of a text that ended by itself: whether what stands behind it is its ending."""
    while tail and tail[0] and not tail[0].strip(LOST):  # bytes that a server dropped from the text
        tail = tail[1:]
    if not tail:
        return Verdict.NO_ENDING
    joined = "".join(tail)
    if LOST in joined:
        return Verdict.UNCLEAR
    if _is_stop_string(tail, stops):
        return Verdict.WHOLE
    if not joined.strip():
        return _of_space(text, tail)
    special = [part for part in tail if _SPECIAL.fullmatch(part)]
    if any(_NO_END.search(part) for part in special):
        return Verdict.UNCLEAR
    if len(special) == len(tail):
        return Verdict.WHOLE
    # of what is no special token, a server leaves out of the text one token: that which stopped it
    may_be_stop = bool(text.strip()) or "\n" in joined
    return Verdict.WHOLE if len(tail) == 1 and may_be_stop else Verdict.UNCLEAR


def _is_stop_string(tail: Tail, stops: Sequence[str]) -> bool:
    """Whether a known stop string stands behind the text, completed by the tail's last token."""
    behind = "".join(tail).lstrip(" ")
    before_last = "".join(tail[:-1])
    for stop in stops:
        for spelling in (stop, stop.strip()):
            if spelling and behind.startswith(spelling) and spelling not in before_last:
                return True
    return False


def _of_space(text: str, tail: Tail) -> Verdict:
    """Of a text behind which there is space alone, or tokens that show nothing.

    A line break ends an answer of one line (D1). Other space may be what the server stripped.
    """
    joined = "".join(tail)
    if not joined:
        # of a broken character at the end of the text the last token may show nothing
        return Verdict.WHOLE if len(tail) == 1 and not text.endswith(LOST) else Verdict.UNCLEAR
    if "\n" not in joined:
        return Verdict.NO_ENDING if "" not in tail else Verdict.UNCLEAR
    is_one_line = "\n" not in text.strip() and not text.endswith("\n")
    only_last_breaks = "\n" in tail[-1] and "\n" not in "".join(tail[:-1])
    return Verdict.WHOLE if is_one_line and only_last_breaks else Verdict.UNCLEAR

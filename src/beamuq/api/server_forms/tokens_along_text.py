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
_START = 1  # the set of positions that holds position 0 alone
_LONGEST_PART = 3  # bytes of a character that one U+FFFD may stand for
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_SPECIAL_TOKEN = re.compile(r"\s*(?:<[^<>\s]{1,60}>|\[/?[A-Z_]{2,30}\])?\s*")
_NOT_AN_ENDING = re.compile(
    r"think|thought|reason|tool|call|function|channel|python_tag", re.IGNORECASE
)
"""In special tokens that begin or end a thought or a tool's call, and not the answer."""


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
    tails = [tail for _, tail in _spellings(text, tokens)]
    if not tails:
        tails = list(_tails_but_for_space(text, tokens))
    if not tails:
        return Verdict.NO_SPELLING
    if cut:
        verdicts = {_verdict_on_cut(tail) for tail in tails}
    else:
        verdicts = {_verdict_on_ended(text, tail, stops) for tail in tails}
    return verdicts.pop() if len(verdicts) == 1 else Verdict.UNCLEAR


Tail = tuple[str, ...]
"""What stands behind the text: the rest of the token that reaches beyond it, and further tokens."""


class _TextBytes:
    """A text as bytes, and where the tokens laid along it may stand.

    A position counts bytes from the text's beginning. A set of positions is a number: bit i is set
    if position i is in the set.
    """

    def __init__(self, text: str) -> None:
        self.content = text.encode()
        self.end = len(self.content)
        self.starts = 1 << self.end  # where a character may begin
        self.parts = 0  # the bytes of characters that are not ASCII
        self.lost = 0  # where a U+FFFD of the text itself begins
        position = 0
        for character in text:
            size = len(character.encode())
            self.starts |= 1 << position
            if size > 1:
                self.parts |= ((1 << size) - 1) << position
            if character == LOST:
                self.lost |= 1 << position
            position += size

    def reaches_end(self, positions: int) -> bool:
        """Whether the text's end is among the positions."""
        return bool(positions & (1 << self.end))

    def without_end(self, positions: int) -> int:
        """The positions but for the text's end."""
        return positions & ~(1 << self.end)

    def after(self, positions: int, piece: bytes) -> int:
        """The positions reached from ``positions`` by a piece of a token."""
        if piece == _LOST_BYTES:
            return self._after_lost(positions)
        reached = 0
        for position in _members(positions):
            if self.content.startswith(piece, position):
                reached |= 1 << (position + len(piece))
        return reached

    def _after_lost(self, positions: int) -> int:
        """The positions reached by one U+FFFD: it stands for a part of a character, or itself."""
        fresh = positions & self.starts
        begun = positions & ~self.starts
        first_part = self._after_bytes(fresh) & ~self.starts
        further_part = self._after_bytes(begun)
        itself = (fresh & self.lost) << len(_LOST_BYTES)
        return first_part | further_part | itself

    def _after_bytes(self, positions: int) -> int:
        """The positions reached by one to three bytes of the same character."""
        reached = 0
        for _ in range(_LONGEST_PART):
            positions = (positions & self.parts) << 1
            reached |= positions
            positions &= ~self.starts
        return reached

    def beyond_end(self, positions: int, piece: bytes) -> Iterator[bytes]:
        """The bytes of a piece beyond the text's end, for each position from which it crosses."""
        if piece == _LOST_BYTES:
            if self.reaches_end(positions):
                yield piece
            return
        for position in _members(positions):
            rest_of_text = self.content[position:]
            if len(piece) > len(rest_of_text) and piece.startswith(rest_of_text):
                yield piece[len(rest_of_text) :]


def _members(positions: int) -> Iterator[int]:
    """The positions of a set, in order."""
    while positions:
        lowest = positions & -positions
        yield lowest.bit_length() - 1
        positions ^= lowest


def _pieces(spelled: bytes) -> list[bytes]:
    """A token's bytes, cut before and behind each U+FFFD, which may stand for various bytes."""
    return [piece for piece in re.split(b"(" + _LOST_BYTES + b")", spelled) if piece]


def _spellings(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, Tail]]:
    """The ways in which the first tokens spell the whole text: how many they are, and the tail.

    There may be several ways, because a U+FFFD of a token may stand for one to three bytes. All are
    followed at once: ``reached`` is the set of positions in the text at which the tokens so far may
    end. A way is found where a token ends at the text's end, or crosses it.
    """
    if LOST in text:  # any broken bytes may be shown by the text's own U+FFFD
        tokens = [_with_lost_bytes_shown(current) for current in tokens]
    text_bytes = _TextBytes(text)
    if text_bytes.end == 0:
        yield 0, _texts(tokens)
        return
    reached = _START
    for count, current in enumerate(tokens, start=1):
        further_tokens = _texts(tokens[count:])
        pieces = _pieces(current.spelled)
        for index, piece in enumerate(pieces):
            # a token that begins where the text ends crosses nothing: it belongs to the tail
            begins = reached if index > 0 else text_bytes.without_end(reached)
            rest_of_token = b"".join(pieces[index + 1 :])
            for beyond in text_bytes.beyond_end(begins, piece):
                rest = beyond + rest_of_token
                yield count, (rest.decode(errors="replace"), *further_tokens)
            reached = text_bytes.after(reached, piece)
        if pieces and text_bytes.reaches_end(reached):
            yield count, further_tokens
        if not reached:
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
    for used, tail in _spellings(squeezed, shown):
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


def _verdict_on_cut(tail: Tail) -> Verdict:
    """On a text that was cut: only space, or a part of a cut character, may stand behind it."""
    if all(not part.replace(LOST, "").strip() for part in tail):
        return Verdict.WHOLE
    return Verdict.UNCLEAR


def _verdict_on_ended(text: str, tail: Tail, stops: Sequence[str]) -> Verdict:
    """On a text that ended by itself: whether the tail behind it is its ending.

    WHOLE: the tail is the ending. NO_ENDING: no token of an ending is there. UNCLEAR: the tail may
    as well be text that the server cut away.
    """
    tail = _without_lost_beginning(tail)
    if not tail:
        return Verdict.NO_ENDING
    joined = "".join(tail)
    if LOST in joined:
        return Verdict.UNCLEAR
    if _is_stop_string(tail, stops):
        return Verdict.WHOLE
    if not joined.strip():
        return _verdict_on_space(text, tail)
    special_tokens = [part for part in tail if _SPECIAL_TOKEN.fullmatch(part)]
    if any(_NOT_AN_ENDING.search(part) for part in special_tokens):
        return Verdict.UNCLEAR
    if len(special_tokens) == len(tail):
        return Verdict.WHOLE
    # An ordinary token ends an answer if it stopped it: servers leave that one token out of the
    # text. An empty text has to be stopped by a line break: another token may be the lost answer.
    may_be_stop = bool(text.strip()) or "\n" in joined
    return Verdict.WHOLE if len(tail) == 1 and may_be_stop else Verdict.UNCLEAR


def _without_lost_beginning(tail: Tail) -> Tail:
    """A tail without the U+FFFD tokens that it begins with: a server drops broken bytes of text."""
    count = 0
    while count < len(tail) and tail[count] and not tail[count].strip(LOST):
        count += 1
    return tail[count:]


def _is_stop_string(tail: Tail, stops: Sequence[str]) -> bool:
    """Whether a known stop string stands behind the text, completed by the tail's last token."""
    behind = "".join(tail).lstrip(" ")
    before_last = "".join(tail[:-1])
    for stop in stops:
        for spelling in (stop, stop.strip()):
            if spelling and behind.startswith(spelling) and spelling not in before_last:
                return True
    return False


def _verdict_on_space(text: str, tail: Tail) -> Verdict:
    """On a text behind which there is space alone, or tokens that show nothing.

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

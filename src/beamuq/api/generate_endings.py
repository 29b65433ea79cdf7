"""Where the answers in the output of transformers' ``generate`` end, and where padding begins.

Beams say it: ``beam_indices`` is −1 behind an ending. Samples do not. There ``stop_ids`` and
``stop_strings`` are the caller's word, and what the sequences hold has to agree with it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from beamuq.api.generate_logprobs import NO_BEAM, TokenLogprobs
from beamuq.array_types import Bools, Ints
from beamuq.errors import BeamUQError

IMPROBABLE = math.log(1e-6)  # a draw of one given token, of so little probability, is no draw
USUAL = math.log(0.1)  # an ending of at least this probability is nothing strange
EXPECTED = 1e-2  # so many draws of a padding token have to be expected for one to be believed
TOO_MANY = math.log(1e-3)  # of right calls at most one in a thousand has such a number of endings
TOO_MANY_SAID = math.log(1e-6)  # if the caller says that there were no other endings
ALL_ENDS = "give all ends of the call: its eos_token_id as stop_ids, its stop_strings"
PADDED = "or call generate with a pad_token_id that ends no answer"


class Ends(NamedTuple):
    """What ended the answers of a call, as its caller says.

    ``complete`` [rows, steps]: where a stop string is complete; all False without stop strings.
    ``strings_said``: whether the caller said which stop strings there were, none included.
    """

    stop_ids: frozenset[int]
    complete: Bools
    strings_said: bool


class Answers(NamedTuple):
    """[rows]: tokens of each answer, its ending included, and whether it ended or was cut."""

    lengths: list[int]
    ended: list[bool]


def read_stop_ids(stop_ids: Any) -> frozenset[int]:
    """The tokens that ended an answer; raises BeamUQError for what are no numbers of tokens."""
    fix = "give the call's eos_token_id: a token's number, or a list of them; [] if it had none"
    if stop_ids is None:
        raise BeamUQError(f"stop_ids: None: {fix}")
    members = stop_ids.tolist() if hasattr(stop_ids, "tolist") else list(_many(stop_ids))
    numbers = np.ravel(np.asarray(members))
    are_whole = numbers.size == 0 or np.issubdtype(numbers.dtype, np.integer)
    if not are_whole or bool((numbers < 0).any()):
        raise BeamUQError(f"stop_ids: {stop_ids!r:.80}: {fix}")
    return frozenset(int(number) for number in numbers)


def read_ends(
    stop_ids: frozenset[int],
    stop_strings: str | Sequence[str] | None,
    tokenizer: Any,
    sequences: Any,
    steps: int,
) -> Ends:
    """What ended the answers; a stop string is complete where transformers' criterion says so."""
    rows = int(sequences.shape[0])
    complete = np.zeros((rows, steps), dtype=bool)
    strings = () if stop_strings is None else tuple(_many(stop_strings))
    if not all(isinstance(string, str) and string for string in strings):
        raise BeamUQError(
            f"stop_strings: {stop_strings!r:.80}: give texts, or [] if there were none",
        )
    if strings:
        from transformers.generation.stopping_criteria import StopStringCriteria

        criterion = StopStringCriteria(tokenizer, list(strings))
        ids = sequences.cpu()
        start = int(ids.shape[1]) - steps
        for step in range(steps):
            complete[:, step] = criterion(ids[:, : start + step + 1], None).numpy()
    return Ends(stop_ids, complete, stop_strings is not None)


def check_all_beams_found(output: Any, beam_indices: Ints) -> None:
    """Refuse rows without an answer, which a search of fewer answers than beams gives."""
    scores = getattr(output, "sequences_scores", None)
    empty = beam_indices[:, 0] < 0
    if scores is not None:
        empty |= scores.cpu().numpy() < NO_BEAM
    if empty.any():
        row = int(np.flatnonzero(empty)[0])
        raise BeamUQError(
            f"output: sequences[{row}]: no answer: the search found fewer than the call's "
            "num_return_sequences; ask for fewer"
        )


def beam_answers(
    tokens: Ints,
    lengths: Sequence[int],
    steps: int,
    ends: Ends,
    spell: Callable[[int], str],
) -> Answers:
    """Of beams, whose lengths are known: whether each ended, in a search of so many ``steps``.

    Raises BeamUQError where that is not what ``ends`` says.
    """
    stops = np.isin(tokens, list(ends.stop_ids)) | ends.complete
    ended = []
    for row, length in enumerate(lengths):
        early = np.flatnonzero(stops[row, : length - 1])
        if early.size:
            raise _goes_on(row, int(early[0]), tokens[row], ends, spell)
        has_ended = bool(stops[row, length - 1])
        if not has_ended and length < steps:
            raise _unknown_end(row, length, tokens[row], spell)
        ended.append(has_ended)
    return Answers(list(lengths), ended)


def sample_answers(
    tokens: Ints,
    logprobs: TokenLogprobs,
    ends: Ends,
    tokenizer: Any,
    *,
    one_each: bool,
) -> Answers:
    """Of samples: each up to its first ending, as ``ends`` says.

    ``one_each``: a row for each prompt, so that the answers may be greedy ones.

    Raises BeamUQError where what stands behind an ending is no padding, where padding stands behind
    no ending, and where endings are so improbable that they are padding. Warns where padding and
    ending cannot be told apart.
    """
    stops = np.isin(tokens, list(ends.stop_ids)) | ends.complete
    ended: Bools = np.asarray(stops.any(axis=1))
    samples = _Samples(
        tokens=tokens,
        logprobs=logprobs,
        ends=ends,
        ended=ended,
        lengths=np.where(ended, stops.argmax(axis=1) + 1, tokens.shape[1]),
        special=_special_tokens(tokenizer),
        spell=partial(spelled, tokenizer),
    )
    padding = samples.padding()
    if len(tokens) > 1:  # else nothing else ran on, so that nothing was padded
        samples.check_cut_answers({tokenizer.pad_token_id, padding})
        samples.check_endings(padding, one_each=one_each)
    return Answers(samples.lengths.tolist(), ended.tolist())


@dataclass(frozen=True)
class _Samples:
    """The generated tokens [rows, steps] of samples, and where their answers end [rows]."""

    tokens: Ints
    logprobs: TokenLogprobs
    ends: Ends
    ended: Bools
    lengths: Ints
    special: frozenset[int]
    spell: Callable[[int], str]

    def padding(self) -> int | None:
        """The token behind the ends; None where nothing shows it.

        Raises BeamUQError where other tokens than padding stand there.
        """
        tails = [row[end:] for row, end in zip(self.tokens, self.lengths, strict=True)]
        behind = np.concatenate(tails)
        # without a stop token generate pads nothing: behind a stop string a sequence goes on
        if not self.ends.stop_ids or not behind.size:
            return None
        values, counts = np.unique(behind, return_counts=True)
        padding = int(values[counts.argmax()])
        # one ordinary token behind one ending may be the answer that goes on
        shown = behind.size > 1 or padding in self.special | self.ends.stop_ids
        for row, tail in enumerate(tails):
            if bool((tail != padding).any()) or (tail.size and not shown):
                end = int(self.lengths[row]) - 1
                raise _goes_on(row, end, self.tokens[row], self.ends, self.spell)
        return padding

    def check_cut_answers(self, padding: set[int | None]) -> None:
        """Refuse answers without an ending that end in padding: they had one that nobody named."""
        likely = padding - self.ends.stop_ids
        for row in np.flatnonzero(~self.ended).tolist():
            start = _run_start(self.tokens[row])
            if self._ends_in_padding(row, start, likely):
                before = self.spell(int(self.tokens[row, start - 1])) if start else "the prompt"
                last = self.spell(int(self.tokens[row, -1]))
                raise BeamUQError(
                    f"stop_ids, stop_strings: sequence {row + 1} holds {last} alone behind token "
                    f"{start} ({before}): padding behind an ending that is none of these; "
                    f"{ALL_ENDS}"
                )

    def _ends_in_padding(self, row: int, start: int, likely: set[int | None]) -> bool:
        """Whether the run of one token that begins at ``start`` is padding, by its probability."""
        last = int(self.tokens[row, -1])
        is_repeated = start < self.tokens.shape[1] - 1
        # of a longer run every token is improbable together, however sure each is of the next
        is_improbable = float(self.logprobs.drawn[row, start : start + 2].sum()) < IMPROBABLE
        if is_improbable and (is_repeated or last in self.special | likely):
            return True
        return is_repeated and last in likely and not self._is_drawn(row, start)

    def _is_drawn(self, row: int, start: int) -> bool:
        """Whether what looks like padding was drawn again and again, by a model that does so.

        It was not if so few draws of the first are expected that none is believed; nor if the token
        before it, or it itself, never stands before anything else: an ending that nobody named.
        """
        last = int(self.tokens[row, -1])
        if math.exp(self.logprobs.drawn[row, start]) * len(self.tokens) < EXPECTED:
            return False
        if start and not self._goes_on_elsewhere(int(self.tokens[row, start - 1]), last):
            return False
        return self._goes_on_elsewhere(last, last)

    def _goes_on_elsewhere(self, token: int, padding: int) -> bool:
        """Whether, in any answer, a token stands before another one than padding."""
        before = self.tokens[:, :-1]
        behind = self.tokens[:, 1:]
        inside = np.arange(1, self.tokens.shape[1])[None] < self.lengths[:, None]
        return bool(((before == token) & (behind != padding) & inside).any())

    def check_endings(self, padding: int | None, *, one_each: bool) -> None:
        """Of endings that are the padding token too: refuse padding, warn of what may be."""
        doubtful = self._doubtful_rows(padding)
        for row in doubtful:
            self._check_ending(row)
        if not doubtful:
            return
        if one_each:
            self._check_greedy(doubtful)
        self._check_number(len(doubtful), self._expected_endings(padding))
        if not self.ends.strings_said:
            warnings.warn(
                f"stop_strings: not said: {len(doubtful)} of {len(self.tokens)} answers end in the "
                "padding token; that no stop string and no criterion ended an answer is believed; "
                f"give stop_strings=[], those of the call, {PADDED}",
                stacklevel=5,
            )

    def _expected_endings(self, padding: int | None) -> float:
        """How many draws of the padding token, or else of any ending, all steps let expect."""
        probabilities = self.logprobs.ending
        if padding is not None:
            probabilities = probabilities[:, :, self.logprobs.stops == padding]
        are_drawn = np.arange(self.tokens.shape[1])[None] < self.lengths[:, None]
        return float(probabilities.sum(axis=2)[are_drawn].sum())

    def _doubtful_rows(self, padding: int | None) -> list[int]:
        """Where the ending is also what ``generate`` pads with: perhaps behind another ending."""
        rows = []
        for row in np.flatnonzero(self.ended).tolist():
            end = int(self.lengths[row]) - 1
            by_token = not self.ends.complete[row, end]
            if by_token and padding in (None, int(self.tokens[row, end])):
                rows.append(row)
        return rows

    def _check_ending(self, row: int) -> None:
        """Refuse an ending that nobody can have drawn, or behind what looks like another one."""
        end = int(self.lengths[row]) - 1
        last = int(self.tokens[row, end])
        before = int(self.tokens[row, max(end - 1, 0)])
        logprob = float(self.logprobs.drawn[row, end])
        # as the end of a turn is followed by nothing; but models learn to end behind a mark too
        unnamed = before in self.special - self.ends.stop_ids and logprob < USUAL
        if logprob < IMPROBABLE or (unnamed and not self._goes_on_elsewhere(before, last)):
            raise self._padded_end(row, f"with log p {logprob:.4g}")

    def _check_greedy(self, doubtful: Sequence[int]) -> None:
        """Refuse an ending that greedy decoding had not chosen, if all else is its choice."""
        steps = np.arange(self.tokens.shape[1])[None]
        all_else = steps < self.lengths[:, None]
        for row in doubtful:
            all_else[row, self.lengths[row] - 1] = False
        if not self.logprobs.best[all_else].all():
            return
        for row in doubtful:
            if not self.logprobs.best[row, self.lengths[row] - 1]:
                raise self._padded_end(row, "where the most probable token is another one")

    def _padded_end(self, row: int, why: str) -> BeamUQError:
        end = int(self.lengths[row]) - 1
        last = self.spell(int(self.tokens[row, end]))
        before = self.spell(int(self.tokens[row, max(end - 1, 0)]))
        return BeamUQError(
            f"stop_ids, stop_strings: sequence {row + 1} ends in {last}, which stands behind "
            f"{before} {why}: no ending but padding behind another one; {ALL_ENDS}, {PADDED}"
        )

    def _check_number(self, endings: int, expected: float) -> None:
        """Refuse more endings than their probabilities let expect.

        Λ, the sum of the probabilities of ending over all steps, is the compensator of their
        number: n or more at so small a Λ have at most the probability exp(n − Λ) · (Λ / n)ⁿ.
        """
        if endings <= expected:
            return
        chance = endings - expected + endings * math.log(max(expected, 1e-300) / endings)
        if chance < (TOO_MANY_SAID if self.ends.strings_said else TOO_MANY):
            raise BeamUQError(
                f"stop_ids, stop_strings: {endings} answers end in the padding token, where "
                f"{expected:.3g} are expected by its probability: padding behind other endings; "
                f"{ALL_ENDS}, {PADDED}"
            )


def spelled(tokenizer: Any, token: int) -> str:
    """A token's text, quoted."""
    return repr(tokenizer.decode([token]))


def _many(value: Any) -> Any:
    """The members of what may be one."""
    return value if isinstance(value, list | tuple | set | frozenset | range) else [value]


def _special_tokens(tokenizer: Any) -> frozenset[int]:
    """All that a tokenizer holds as special: those with a role, and those without."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    without_role = {token for token, content in added.items() if content.special}
    return frozenset(tokenizer.all_special_ids) | without_role


def _run_start(row: Ints) -> int:
    """Where the last token's unbroken repetition up to the end of a row begins."""
    different = np.flatnonzero(row != row[-1])
    return int(different[-1]) + 1 if different.size else 0


def _goes_on(
    row: int,
    step: int,
    tokens: Ints,
    ends: Ends,
    spell: Callable[[int], str],
) -> BeamUQError:
    last = int(tokens[step])
    name = "stop_strings"
    ending = spell(last)
    if last in ends.stop_ids:
        name = "stop_ids"
        ending = f"{last}, {ending}"
    return BeamUQError(
        f"{name}: {ending}: sequence {row + 1} goes on behind it, with "
        f"{spell(int(tokens[step + 1]))}; give the ends of the call alone: its eos_token_id and "
        "stop_strings"
    )


def _unknown_end(row: int, length: int, tokens: Ints, spell: Callable[[int], str]) -> BeamUQError:
    last = int(tokens[max(length - 1, 0)])
    return BeamUQError(
        f"stop_ids, stop_strings: sequence {row + 1} ends at token {length} ({last}, "
        f"{spell(last)}), which is none of stop_ids and completes none of stop_strings; {ALL_ENDS}"
    )

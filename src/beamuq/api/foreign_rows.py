"""Rows of other tools' files as they are: where their answer, samples, ids and labels stand.

Log-probabilities stand beside their texts: a number is of a whole text, a list has one a token.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from beamuq.api.key_paths import ABSENT, empty_list_at, hint_of_path, value_at
from beamuq.api.log_probability import NO_LOG_PROBABILITY, is_log_probability
from beamuq.api.rows_left_out import SampleSkipping
from beamuq.errors import BeamUQError

LOGPROB_FIELDS = ("logprob", "token_logprobs")
KINDS = ("answer", "samples", "beams")
SAYING = ("ended", "without_ending")
"""Keys of a candidate that say whether its log-probabilities hold the ending's."""
NEEDED = {
    "id_key": "a text or a whole number",
    "answer_key": "a text, or a response of a server",
    "samples_key": "a list of texts, or a response of a server",
}
"""What must stand at a key, by the option that names it."""
MAY_BE_UNKNOWN = {
    "question": "question_key",
    "correct": "correct_key",
    "answer_logprobs": "answer_logprobs_key",
    "samples_logprobs": "samples_logprobs_key",
}
"""The options whose paths need lead somewhere in some row only, by their key."""
NO_SKIPPING = SampleSkipping()
GIVE_WHOLE = (
    f"{NO_LOG_PROBABILITY}; give each text's log p, or a list of one a token, or leave such rows "
    "out with skip_invalid (--skip-invalid)"
)


@dataclass(frozen=True)
class Keys:
    """Under which keys a row has its answer, samples, their log-probabilities, id and label.

    "": under our own. A path leads into objects and lists: ``output.text``; ``choices.0.text``, the
    first choice's; ``choices.text``, all choices' texts. A key that is itself written with points
    goes first.

    ``id``, ``correct``, ``question``: as a row of our own has them. Null, or nothing, in the place
    of a label, a question or log-probabilities: it is not known.
    """

    answer: str = ""
    samples: str = ""
    answer_logprobs: str = ""
    samples_logprobs: str = ""
    id: str = ""
    correct: str = ""
    question: str = ""

    @property
    def are_foreign(self) -> bool:
        """Whether rows are another tool's."""
        return any(getattr(self, key.name) for key in fields(self))

    def names(self, row: Mapping[str, Any]) -> dict[str, str]:
        """What messages call keys of our own, ``answer.text``: the row's own keys, ``output.text``.

        Behind a text that stands alone there is no further key.
        """
        ours = ("answer", "samples", "id", "correct", "question")
        names = {name: getattr(self, name) for name in ours}
        if isinstance(value_at(row, self.answer), str):
            names["answer.text"] = self.answer
        samples = value_at(row, self.samples)
        if isinstance(samples, str) or _are_texts(samples):
            names["samples.text"] = self.samples
        for field in LOGPROB_FIELDS:
            names[f"answer.{field}"] = self.answer_logprobs
            names[f"samples.{field}"] = self.samples_logprobs
        return {name: path for name, path in names.items() if path}

    def our_row(
        self,
        row: Mapping[str, Any],
        place: str,
        *,
        without_ending: bool = False,
        base: Mapping[str, Any] | None = None,
        skipping: SampleSkipping = NO_SKIPPING,
    ) -> dict[str, Any]:
        """The row with what the keys lead to under our own keys.

        ``without_ending``: the log-probabilities lack the ending's, and their texts are marked.
        ``base``: what the row says without these keys; default: what it has under our own.
        ``skipping``: whether a sample without a text is left out beside its log-probability.

        Raises BeamUQError naming the place, the key and the value: one that is missing or null, no
        log-probability, not one for each text, or no label.
        """
        ours = dict(row if base is None else base)
        if self.id:
            ours["id"] = _value(row, self.id, place, "id_key")
        if self.correct:
            ours["correct"] = _label(row, self.correct, place)
        if self.answer:
            ours["answer"] = _value(row, self.answer, place, "answer_key")
        if self.samples:
            ours["samples"] = _value(row, self.samples, place, "samples_key")
        if self.question:
            ours["question"] = _question(_known(row, self.question), f"{place}: {self.question}")
        if (logprobs := _known(row, self.answer_logprobs)) is not None:
            where = f"{place}: {self.answer_logprobs}"
            ours["answer"] = _joined(ours.get("answer"), logprobs, where, without_ending)
        if (logprobs := _known(row, self.samples_logprobs)) is not None:
            where = f"{place}: {self.samples_logprobs}"
            samples = ours.get("samples")
            ours["samples"] = _joined_each(samples, logprobs, where, without_ending, skipping)
        if self.samples and isinstance(ours["samples"], str):
            ours["samples"] = [ours["samples"]]
        return ours


def _are_texts(samples: Any) -> bool:
    return isinstance(samples, list) and all(isinstance(sample, str) for sample in samples)


def _label(row: Mapping[str, Any], path: str, place: str) -> Any:
    """0 or 1, true or false; None: null or not there, not known.

    Raises BeamUQError of any other value.

    Whether any row has the path: :func:`check_paths_of_what_may_be_unknown`.
    """
    value = value_at(row, path)
    if value is ABSENT:
        return None
    if value is not None and value not in (0, 1, "0", "1"):
        raise BeamUQError(
            f"{place}: {path}: {value!r:.80}: must be 0 or 1, true or false, or null where it is "
            "not known; a quality stands under 'quality'"
        )
    return value


def check_paths_of_what_may_be_unknown(placed: Iterable[tuple[str, Any]], keys: Keys) -> None:
    """Raises BeamUQError where a path to labels or log-probabilities leads nowhere in every row.

    ``placed``: rows with their places; one that is no mapping has none.
    """
    unseen = {key: path for key in MAY_BE_UNKNOWN if (path := getattr(keys, key))}
    if not unseen:
        return
    first: tuple[str, Mapping[str, Any]] | None = None
    for place, row in placed:
        if not isinstance(row, Mapping):
            continue
        first = first or (place, row)
        unseen = {key: path for key, path in unseen.items() if not _leads_somewhere(row, path)}
        if not unseen:
            return
    if first is not None:
        place, row = first
        key, path = next(iter(unseen.items()))
        raise _no_such_key(row, path, place, MAY_BE_UNKNOWN[key], "; no row has this one")


def _leads_somewhere(row: Mapping[str, Any], path: str) -> bool:
    return value_at(row, path) is not ABSENT or bool(empty_list_at(row, path))


def _question(value: Any, where: str) -> Any:
    """A question's text; of a list of chat messages the user's last one.

    A content is a text, or a list of parts with texts, which are joined by a space.

    Raises BeamUQError of a list without a message of the user, and of one of other things.
    """
    if not isinstance(value, list):
        return value
    are_messages = all(isinstance(part, Mapping) and "role" in part for part in value)
    asked = [part.get("content") for part in value if are_messages and part["role"] == "user"]
    if not asked:
        raise BeamUQError(
            f"{where}: a list, and no message of role user in it; give question_key "
            "(--question-key) the path of a text, such as questions.0 of a list questions"
        )
    content = asked[-1]
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return " ".join(text for text in texts if isinstance(text, str))


def _known(row: Mapping[str, Any], path: str) -> Any:
    """What stands at a path; None: nothing, or there is none."""
    value = value_at(row, path) if path else None
    return None if value is ABSENT else value


def _joined_each(
    texts: Any, logprobs: Any, where: str, without_ending: bool, skipping: SampleSkipping
) -> list[Any]:
    """Each sample with its log-probabilities; raises BeamUQError unless there are as many."""
    if isinstance(texts, str):
        return [_joined(texts, logprobs, where, without_ending)]
    if not isinstance(texts, list):
        raise BeamUQError(f"{where}: no list of samples beside it; say samples_key")
    if not isinstance(logprobs, list):
        raise BeamUQError(
            f"{where}: {logprobs!r:.80}: must be a list of one entry a sample, of {len(texts)}"
        )
    if len(logprobs) != len(texts):
        raise BeamUQError(
            f"{where}: {len(logprobs)} entries for {len(texts)} samples; give one a sample"
        )

    def joined(number: int, pair: tuple[Any, Any]) -> Any:
        text, logprob = pair
        if text is None:
            raise BeamUQError(f"{where}[{number}]: null beside it in place of a text")
        if logprob is None:
            return text
        return _joined(text, logprob, f"{where}[{number}]", without_ending)

    pairs = zip(texts, logprobs, strict=True)
    return [sample for _, sample in skipping.readable(pairs, joined)]


def _joined(text: Any, logprobs: Any, where: str, without_ending: bool) -> dict[str, Any]:
    """A text, or our own object with one, and its log-probabilities."""
    record = {"text": text} if isinstance(text, str) else text
    if not isinstance(record, Mapping) or not isinstance(record.get("text"), str):
        raise BeamUQError(
            f"{where}: no text beside it; say by answer_key or samples_key where the texts stand"
        )
    for name in LOGPROB_FIELDS:
        if record.get(name) is not None:
            raise BeamUQError(f"{where}: its text has {name} already; give one of both")
    joined = {**record, **_checked(logprobs, where)}
    return joined | {"without_ending": True} if without_ending else joined


def _checked(logprobs: Any, where: str) -> dict[str, Any]:
    """The field of log-probabilities: of a whole text, or of its tokens."""
    if not isinstance(logprobs, list):
        return {"logprob": _checked_number(logprobs, where)}
    if not logprobs:
        raise BeamUQError(f"{where}: []: no token; {GIVE_WHOLE}")
    numbers = [
        _checked_number(value, f"{where}[{number}]") for number, value in enumerate(logprobs)
    ]
    return {"token_logprobs": numbers}


def _checked_number(value: Any, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and is_log_probability(value):
        return float(value)
    shown = "null" if value is None else f"{value!r:.80}"
    raise BeamUQError(f"{where}: {shown}: {GIVE_WHOLE}")


def _value(row: Mapping[str, Any], path: str, place: str, option: str) -> Any:
    """What stands at a path; of samples none, where it leads behind an empty list."""
    value = value_at(row, path)
    empty = empty_list_at(row, path) if value is ABSENT else ""
    if empty and option == "samples_key":
        return []
    if empty:
        raise BeamUQError(
            f"{place}: {empty}: an empty list, so there is no {path}; leave such rows out with "
            "skip_invalid (--skip-invalid)"
        )
    if value is ABSENT:
        raise _no_such_key(row, path, place, option)
    if value is None:
        raise BeamUQError(
            f"{place}: {path}: null; give {NEEDED[option]}, or leave such rows out with "
            "skip_invalid (--skip-invalid)"
        )
    return value


def check_are_texts(
    fields: Mapping[str, Any], keys: Keys, place: str, known: Container[str]
) -> None:
    """Refuse an object with a text and further keys, as a choice is, where a text is needed.

    ``known``: keys of our own of a candidate, which may stand beside the text.

    Raises BeamUQError naming the key and the path of the text.
    """
    for kind, path in (("answer", keys.answer), ("samples", keys.samples)):
        values = fields.get(kind)
        first = values[0] if isinstance(values, list) and values else values
        if not path or not isinstance(first, Mapping) or not isinstance(first.get("text"), str):
            continue
        others = [str(name) for name in first if name not in known]
        if others:
            raise BeamUQError(
                f"{place}: {path}: an object with {others[0]!r} beside its text; did you mean "
                f"--{kind}-key {path}.text?"
            )


def marked_without_ending(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose own candidates lack their ending's log-probability, unless they say otherwise."""
    marked = dict(row)
    for kind in KINDS:
        value = row.get(kind)
        if isinstance(value, list):
            marked[kind] = [_marked(candidate) for candidate in value]
        elif value is not None:
            marked[kind] = _marked(value)
    return marked


def _marked(candidate: Any) -> Any:
    if not isinstance(candidate, Mapping):
        return candidate
    stated = {name for name, value in candidate.items() if value is not None}
    if stated.isdisjoint(LOGPROB_FIELDS) or not stated.isdisjoint(SAYING):
        return candidate
    return {**candidate, "without_ending": True}


def _no_such_key(
    row: Mapping[str, Any], path: str, place: str, option: str, beyond: str = ""
) -> BeamUQError:
    """The error of a path that leads nowhere, with the nearest paths that the row has."""
    flag = f"--{option.replace('_', '-')}"
    return BeamUQError(
        f"{place}: {path}: no such key; {hint_of_path(row, path)} Give {option} ({flag}) a path of "
        f"the row{beyond}"
    )

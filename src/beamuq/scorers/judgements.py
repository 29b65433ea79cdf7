"""What models judge of answers beside similarity: P(True), CCP's labels, SAR's token relevances.

P(True) is the probability that the model calls its own answer true when asked (appendix of the
paper). The wording is ``beamuq/prompts/p_true.txt``, one file for every dataset, in the format of
the datasets' templates (:mod:`beamuq.prompts.prompt_template`): ``{passages}`` is a story or titled
paragraphs, ``{history}`` the earlier turns of a dialogue (both a blank line between), ``{options}``
one option a line.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beamuq.errors import BeamUQError
from beamuq.methods.answer_probability import combined_label
from beamuq.models.prompt_tokens import chat_prompt_ids, plain_prompt_ids
from beamuq.progress import progress_bar
from beamuq.prompts.prompt_template import fill_part, lettered, read_template, split_parts
from beamuq.scorers.scorer_protocol import (
    Pair,
    PairScores,
    SimilarityScorer,
    scored,
    warn_of_cut_questions,
)

BATCH_PROMPTS = 16  # prompts held at once; part of the bytes, so not a machine's setting
_PROBE: Mapping[str, Any] = {"question": "Is it?", "context": [], "history": [], "options": []}
_AROUND = string.punctuation + " \n"
# of equal probabilities the first: a tie claims nothing
_BY_PREFERENCE = ("neutral", "contradict", "entail")


def load_template(path: Path) -> dict[str, str]:
    """The parts of P(True)'s template by name."""
    return dict(split_parts(read_template(path)))


def render_prompt(parts: Mapping[str, str], question: Mapping[str, Any], answer: str) -> str:
    """The prompt about one answer to a question (a row of ``questions``).

    For an instruct model it is the user's message.
    """
    passages = [
        fill_part(parts["passage" if passage["title"] else "story"], passage)
        for passage in question["context"]
    ]
    turns = [fill_part(parts["turn"], turn) for turn in question["history"]]
    options = [fill_part(parts["option"], option) for option in lettered(question["options"])]
    values = {
        "passages": "\n\n".join(passages),
        "history": "\n\n".join(turns),
        "question": question["question"],
        "options": "\n".join(options),
        "answer": answer,
    }
    return fill_part(parts["prompt"], values)


@dataclass(frozen=True)
class PTrueQuery:
    """How to ask a model: its tokenizer, the template's parts, with or without a chat template."""

    tokenizer: Any
    template: Mapping[str, str]
    style: str
    enable_thinking: bool | None = None

    def prompt_ids(self, question: Mapping[str, Any], answer: str) -> tuple[int, ...]:
        """Token ids of the prompt about one answer."""
        text = render_prompt(self.template, question, answer)
        if self.style == "instruct":
            return tuple(chat_prompt_ids(self.tokenizer, text, self.enable_thinking))
        return tuple(plain_prompt_ids(self.tokenizer, text))

    def true_token(self) -> int:
        """The token that is scored behind every prompt: all end alike, so one shows which it is."""
        return true_token(self.tokenizer, self.prompt_ids(_PROBE, "yes"))


def true_token(tokenizer: Any, prompt_ids: Sequence[int]) -> int:
    """The token with which "True" begins right behind a prompt, as the tokenizer would write it.

    Behind white space or a special token, where a chat template hands over to the model, that is
    ``True``; behind anything else, such as the colon of a plain prompt, it is ``␣True`` with its
    space. Scoring the spelling that the place does not call for would measure noise.

    Raises BeamUQError if the tokenizer writes prompt and "True" together otherwise than one behind
    the other.
    """
    text = tokenizer.decode(
        list(prompt_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    opens = text[-1:].isspace() or not tokenizer.decode([prompt_ids[-1]], skip_special_tokens=True)
    follows = "True" if opens else " True"
    whole = list(tokenizer(text + follows, add_special_tokens=False).input_ids)
    if whole[: len(prompt_ids)] != list(prompt_ids) or len(whole) == len(prompt_ids):
        raise BeamUQError(
            f"{tokenizer.name_or_path}: its tokenizer joins {follows!r} to the prompt's end; "
            "let p_true.txt end in another way, or drop PTrue"
        )
    return int(whole[len(prompt_ids)])


def p_true_logprobs(
    model: Any,
    query: PTrueQuery,
    rows: Sequence[tuple[str, Mapping[str, Any], str]],
    *,
    batch: int = BATCH_PROMPTS,
) -> list[float]:
    """log P("True") of each answer, in nats, ≤ 0; higher = the model holds it for true.

    ``rows``: (name for messages, row of ``questions``, answer); equal prompts are run once, and
    what they share too. ``batch`` prompts are held at once; a result moves with it by no more than
    rounding.

    Raises BeamUQError if a prompt is longer than the model's context, or the model gives "True" a
    probability of 0.
    """
    from beamuq.decoding import Prompt, compose_batches, next_token_logprobs

    token_ids: list[tuple[int, ...]] = []
    prompts: dict[tuple[int, ...], Prompt] = {}
    for name, question, answer in rows:
        ids = query.prompt_ids(question, answer)
        token_ids.append(ids)
        prompts.setdefault(ids, Prompt(name, ids))
    true = query.true_token()
    log_p: dict[tuple[int, ...], float] = {}
    with progress_bar(len(prompts), "P(True)", "prompt") as progress:
        for members in compose_batches(list(prompts.values()), batch):
            logprobs = next_token_logprobs(model, members, [true])[:, 0]
            for prompt, logprob in zip(members, logprobs, strict=True):
                log_p[prompt.token_ids] = float(logprob)
            progress.update(len(members))
    for ids, prompt in prompts.items():
        if not math.isfinite(log_p[ids]):
            raise BeamUQError(
                f"P(True) of {prompt.id}: the model gives 'True' a probability of 0, whose "
                "logarithm is no score; drop PTrue"
            )
    return [log_p[ids] for ids in token_ids]


class _Step(NamedTuple):
    """The words of one step's alternatives, and which of them was chosen."""

    words: list[str]
    chosen: int

    def pairs(self) -> list[tuple[str, str]]:
        """(chosen, alternative) and its reverse, for every alternative but the chosen one."""
        word = self.words[self.chosen]
        alternatives = self.words[: self.chosen] + self.words[self.chosen + 1 :]
        pairs: list[tuple[str, str]] = []
        for alternative in alternatives:
            pairs += [(word, alternative), (alternative, word)]
        return pairs

    def labels(self, label: Mapping[tuple[str, str], str]) -> list[str]:
        """One label a word, from those of the pairs."""
        directions = [label[pair] for pair in self.pairs()]
        combined = list(map(combined_label, directions[::2], directions[1::2]))
        return [*combined[: self.chosen], "entail", *combined[self.chosen :]]


def word_of(token_text: str) -> str:
    """A token's text without the punctuation, spaces and newlines around it.

    As the official code has it. The end-of-text token ``<|im_end|>`` becomes ``im_end``, a comma
    nothing: both are compared as what they are.
    """
    return token_text.strip(_AROUND)


def ccp_labels(
    answers: Sequence[Mapping[str, Any]],
    scorer: SimilarityScorer,
    equivalence_threshold: float | None,
) -> list[list[list[str]]]:
    """Per answer, step and alternative: ``entail``, ``neutral`` or ``contradict``.

    The chosen token's is ``entail``. ``answers`` are rows of ``candidates`` with their
    alternatives; every step counts, the terminator's too. The scorer is asked once for each
    distinct pair of words, in both directions, which
    :func:`~beamuq.methods.answer_probability.combined_label` combines. One without classes needs an
    ``equivalence_threshold``: entail iff s ≥ it, else contradict; one with classes has None.

    Raises BeamUQError if an answer has no alternatives, or equivalence_threshold and scorer do not
    go together.
    """
    steps_of_answers = [_steps(answer) for answer in answers]
    pairs_of_answers = [
        list(chain.from_iterable(step.pairs() for step in steps)) for steps in steps_of_answers
    ]
    pairs = list(dict.fromkeys(chain.from_iterable(pairs_of_answers)))
    scores = scored(scorer, pairs)
    warn_of_cut_questions("CCP's model", pairs, scores, _compared(answers, pairs_of_answers))
    label = dict(zip(pairs, pair_labels(scores, equivalence_threshold), strict=True))
    return [[step.labels(label) for step in steps] for steps in steps_of_answers]


def _compared(
    answers: Sequence[Mapping[str, Any]], pairs_of_answers: Sequence[Sequence[Pair]]
) -> list[tuple[str, Pair]]:
    """The question's id beside each pair of each of its answers."""
    return [
        (str(answer["id"]), pair)
        for answer, its_pairs in zip(answers, pairs_of_answers, strict=True)
        for pair in its_pairs
    ]


def pair_labels(scores: PairScores, equivalence_threshold: float | None) -> list[str]:
    """The label of each scored pair: its most probable class; without classes, by a threshold.

    Raises BeamUQError if there are classes and a threshold, or neither.
    """
    if scores.neutral is None or scores.contradict is None:
        if equivalence_threshold is None:
            raise BeamUQError(
                "ccp: a scorer without classes needs equivalence_threshold; give it, for example "
                "0.8"
            )
        entails = scores.entail >= equivalence_threshold
        return ["entail" if is_so else "contradict" for is_so in entails.tolist()]
    if equivalence_threshold is not None:
        raise BeamUQError(
            "ccp: equivalence_threshold is for a scorer without classes, and this one has them; "
            "set it to null"
        )
    classes = np.stack([getattr(scores, name) for name in _BY_PREFERENCE])
    return [_BY_PREFERENCE[row] for row in classes.argmax(axis=0).tolist()]


def _steps(answer: Mapping[str, Any]) -> list[_Step]:
    if answer["top_ids"] is None or answer["top_texts"] is None:
        raise BeamUQError(
            f"candidates: {answer['strategy']!r} of {answer['id']!r} has no alternatives; decode "
            "it again (over a server: one that lists ten tokens or more), or drop CCP"
        )
    steps = []
    alternatives = zip(answer["token_ids"], answer["top_ids"], answer["top_texts"], strict=True)
    for token, ids, texts in alternatives:
        steps.append(_Step(list(map(word_of, texts)), ids.index(token)))
    return steps


def token_relevances(
    candidates: Sequence[Mapping[str, Any]],
    questions: Mapping[str, str],
    tokenizer: Any,
    scorer: SimilarityScorer,
    *,
    newline: bool = True,
) -> list[list[float]]:
    """R_l = 1 − s(question answer, question answer without token l) of candidates' tokens.

    In [0, 1]. A terminator, which adds no meaning, gets 0; an answer in which no token matters has
    nothing but zeros, which TokenSAR reads as all alike. Higher = more relevant.

    ``questions`` are the bare ones by id: no passage, no examples. An answer without a token is
    what its other tokens decode to by the language model's ``tokenizer``, a text as any answer's:
    ``newline`` says whether a newline ended answers (:func:`beamuq.decoding.answer_text`). The
    scorer is asked once for each distinct pair, over all candidates; premise is the whole answer.
    """
    cropped = _CroppedTexts(tokenizer, newline)
    pairs_of_candidates: list[list[Pair]] = []
    for candidate in candidates:
        question = questions[candidate["id"]]
        pairs_of_candidates.append(
            _cropped_pairs(question, candidate["text"], cropped.of(candidate))
        )
    pairs = list(dict.fromkeys(chain.from_iterable(pairs_of_candidates)))
    scores = scored(scorer, pairs)
    compared = _compared(candidates, pairs_of_candidates)
    warn_of_cut_questions("SAR's model", pairs, scores, compared)
    relevance = dict(zip(pairs, (1.0 - scores.entail).tolist(), strict=True))
    relevances = []
    for candidate, its_pairs in zip(candidates, pairs_of_candidates, strict=True):
        of_terminator = [0.0] if candidate["terminated"] else []
        relevances.append([relevance[pair] for pair in its_pairs] + of_terminator)
    return relevances


def _cropped_pairs(question: str, answer: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """The whole answer beside each of its texts without a token, all behind the question."""
    whole = _sentence(question, answer)
    return [(whole, _sentence(question, text)) for text in texts]


class _CroppedTexts:
    """:func:`without_each_token` of candidates, once for equal token sequences."""

    def __init__(self, tokenizer: Any, newline: bool) -> None:
        self._tokenizer = tokenizer
        self._newline = newline
        self._texts: dict[tuple[tuple[int, ...], bool], list[str]] = {}

    def of(self, candidate: Mapping[str, Any]) -> list[str]:
        """The texts of a candidate, a row of ``candidates``."""
        key = tuple(candidate["token_ids"]), candidate["terminated"]
        if key not in self._texts:
            self._texts[key] = without_each_token(self._tokenizer, *key, newline=self._newline)
        return self._texts[key]


def without_each_token(
    tokenizer: Any, token_ids: Sequence[int], terminated: bool, *, newline: bool = True
) -> list[str]:
    """The answer's text without its first token, its second, …; the terminator always stays."""
    from beamuq.decoding import answer_text

    stops = frozenset(token_ids[-1:]) if terminated else frozenset()
    texts = []
    for left_out in range(len(token_ids) - terminated):
        rest = [*token_ids[:left_out], *token_ids[left_out + 1 :]]
        texts.append(answer_text(tokenizer, rest, stops, newline=newline))
    return texts


def _sentence(question: str, answer: str) -> str:
    return f"{question} {answer}".rstrip()

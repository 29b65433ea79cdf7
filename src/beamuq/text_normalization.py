"""Clean and normalise texts before comparing them.

``clean`` makes an answer out of what a model wrote; the ``normalize_*`` functions, applied to
answers and references alike, forget what a quality metric should not punish.
"""

from __future__ import annotations

import re
import string

_OPENING = re.compile(r"<b>|<strong>")
_ENDING = re.compile(
    r"\n|</b>|</strong>|</think>|<eos>|<end_of_turn>|<\|(?:eot_id|end_of_text|im_end|endoftext)\|>"
)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DELETED = str.maketrans("", "", string.punctuation)
_SPACED = {ord(mark): " " for mark in string.punctuation + "‘’´`"}


def on_one_line(text: str) -> str:
    """A text that a newline did not end, as metrics of texts read it: its lines joined."""
    return " ".join(text.split())


def clean(text: str) -> str:
    """The answer in a generated text, without markup, stop tokens and a repeated "Answer: ".

    Keeps what follows the last ``<b>`` or ``<strong>``, up to the first newline, closing tag or
    stop token, and of that what follows the last ``Answer: ``; without surrounding space. Applied
    to every text, the produced answer's too, so that equal answers are equal. Idempotent.
    """
    answer = _OPENING.split(text)[-1]
    answer = _ENDING.split(answer, maxsplit=1)[0]
    return answer.split("Answer: ")[-1].strip()


def normalize_squad(text: str) -> str:
    """SQuAD's rule, and CoQA's: lower case, no punctuation, no articles, single spaces."""
    return _squeezed(text.lower().translate(_DELETED))


def normalize_triviaqa(text: str) -> str:
    """TriviaQA's rule: as SQuAD's, but punctuation and typographic quotes become spaces."""
    return _squeezed(text.lower().translate(_SPACED))


def _squeezed(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text).split())

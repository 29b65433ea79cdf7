"""The marks between which a model thinks, open at a prompt's end or at an answer's beginning.

A model that thinks first writes its thought between two marks and its answer behind them. Models
spell the marks in many ways: ``<think>``, ``[THINK]``, ``◁think▷``, ``<|begin_of_thought|>``,
``<|START_THINKING|>``, ``<seed:think>``, ``<reasoning>``, or as a channel of its own. They are
known by their words, not by a list of models.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_THOUGHT = {
    "think",
    "thinks",
    "thinking",
    "thought",
    "thoughts",
    "reason",
    "reasoning",
    "reflect",
    "reflection",
    "rationale",
    "monologue",
    "deliberate",
    "deliberation",
    "contemplate",
    "contemplation",
    "ponder",
    "brainstorm",
    "scratchpad",
    "scratch",
    "cot",
}
_END = {"end", "close", "stop"}
# Tags with these words set something up, such as <think_budget> or <no_think>; they open nothing.
_SETTINGS = {
    "no",
    "not",
    "without",
    "skip",
    "on",
    "off",
    "enable",
    "enabled",
    "disable",
    "disabled",
    "budget",
    "effort",
    "level",
    "mode",
    "tokens",
    "tool",
}
_CHANNEL = re.compile(r"<[|｜]channel[|｜]?>\s*(?P<name>\w+)(?:\s*<[|｜]message[|｜]>)?")
_TAG = re.compile(
    r"(?:<[|｜]?|\[|◁)\s*(?P<slash>/?)\s*(?:\w+:)?(?P<name>[A-Za-z][\w.▁-]{0,40})"
    r"(?:\s+\w+=[^<>]{0,80})?\s*(?:[|｜]?>|\]|▷)"
)
# Reserved tokens, whose names do not say what they are for, and ends that are no thought's alone.
_OTHER_OPENING = re.compile(r"<unused94>(?:thought)?|<\|inner_prefix\|>")
_OTHER_CLOSING = re.compile(r"<unused95>|<\|inner_suffix\|>|<channel\|>|<\|end\|>")
_THINKING_CHANNELS = ("analysis", "commentary", "thought", "thinking")
_SPELLED_END = {"begin": "end", "start": "end", "BEGIN": "END", "START": "END", "prefix": "suffix"}


@dataclass(frozen=True)
class Mark:
    """A mark in a text: its spelling, its place, and whether it opens or closes a thought."""

    spelling: str
    start: int
    end: int
    opens: bool


def marks(text: str) -> list[Mark]:
    """All marks of thoughts in a text, in their order."""
    in_text = []
    for match in _TAG.finditer(text):
        opens = _opens(match["name"], slash=bool(match["slash"]))
        if opens is not None:
            in_text.append(Mark(match[0], match.start(), match.end(), opens))
    for match in _CHANNEL.finditer(text):
        thinks = match["name"].lower() in _THINKING_CHANNELS
        in_text.append(Mark(match[0], match.start(), match.end(), thinks))
    for match in _OTHER_OPENING.finditer(text):
        in_text.append(Mark(match[0], match.start(), match.end(), opens=True))
    for match in _OTHER_CLOSING.finditer(text):
        in_text.append(Mark(match[0], match.start(), match.end(), opens=False))
    return sorted(in_text, key=lambda mark: mark.start)


def _opens(name: str, *, slash: bool) -> bool | None:
    """Whether a tag of this name opens a thought or closes one; None: it is no thought's."""
    words = {word for word in re.split(r"[^a-z]+", name.lower()) if word}
    if not words & _THOUGHT or words & _SETTINGS:
        return None
    return not slash and not words & _END


def closing(mark: str) -> str:
    """How the thought is closed that ``mark`` opens, to be read by a person."""
    if mark.startswith("<|channel|>"):
        return "<|end|><|start|>assistant<|channel|>final<|message|>"
    if mark.startswith("<|channel>"):
        return "<channel|>"
    if mark.startswith("<unused94>"):
        return "<unused95>"
    for opening, end in _SPELLED_END.items():
        if opening in mark:
            return mark.replace(opening, end, 1)
    return "its closing mark" if mark[1] in "|｜" else f"{mark[0]}/{mark[1:]}"


def open_thought(text: str, structure: Collection[str] = (), *, mentions: bool = True) -> str:
    """The mark of the thought that a prompt leaves open at its end; "": it leaves none open.

    Parameters
    ----------
    structure
        Tokens of the vocabulary that part turns: behind one of them another turn has begun, and the
        mark was spoken of.
    mentions
        Whether the text may speak of a mark within a line of words, as a question can. What a chat
        template writes behind the last message does not.
    """
    in_text = marks(text)
    if not in_text or not in_text[-1].opens:
        return ""
    mark = in_text[-1]
    before = text[: mark.start].rstrip(" \t")
    behind = text[mark.end :]
    if not behind.strip():
        return mark.spelling
    if any(token in behind for token in structure if token.strip() and not marks(token)):
        return ""
    opens_a_line = not before or before[-1] in "\n>]▷:"
    return mark.spelling if opens_a_line or not mentions else ""


def thought_at_start(text: str) -> str:
    """The mark of a thought with which a text begins; "": it begins with none."""
    in_text = marks(text.lstrip())
    if not in_text or in_text[0].start > 0 or not in_text[0].opens:
        return ""
    return in_text[0].spelling

"""P(True): the probability that the model calls its own answer true when asked (appendix of the paper).

The wording is ``beamuq/prompts/p_true.txt``, one file for every dataset, in the format of the datasets' templates
(:mod:`beamuq.prompts.prompt_template`) with the parts and placeholders of :data:`PARTS`: ``{passages}`` is a story or
titled paragraphs, ``{history}`` the earlier turns of a dialogue (both a blank line between), ``{options}`` one option a
line. Where one of them stands alone on a line and the question has none, the line goes, and the blank line after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models.prompt_tokens import chat_prompt_ids, plain_prompt_ids
from beamuq.progress import progress_bar
from beamuq.prompts.prompt_template import fill_part, lettered, placeholders, read_template, split_parts

BATCH_PROMPTS = 16  # prompts held at once; part of the bytes, so not a machine's setting
PARTS: Mapping[str, frozenset[str]] = {
    "story": frozenset({"text"}),
    "passage": frozenset({"title", "text"}),
    "turn": frozenset({"question", "answer"}),
    "option": frozenset({"letter", "text"}),
    "prompt": frozenset({"passages", "history", "question", "options", "answer"}),
}
_PROBE: Mapping[str, Any] = {"question": "Is it?", "context": [], "history": [], "options": []}


def load_template(path: Path) -> dict[str, str]:
    """The parts of P(True)'s template by name.

    Raises BeamUQError if it is missing, lacks a part or has one more, or a part's placeholders are not those of
    :data:`PARTS`.
    """
    listed = split_parts(read_template(path))
    parts = dict(listed)
    if sorted(name for name, _ in listed) != sorted(PARTS):
        raise BeamUQError(f"{path}: has the parts {', '.join(parts)}; it needs each of {', '.join(PARTS)} once")
    for name, body in parts.items():
        if set(placeholders(body)) != PARTS[name]:
            needed = ", ".join(f"{{{placeholder}}}" for placeholder in sorted(PARTS[name]))
            raise BeamUQError(f"{path}: part '{name}' must use exactly {needed}; correct its placeholders")
    if parts["prompt"] != parts["prompt"].rstrip():
        raise BeamUQError(f"{path}: part 'prompt' ends with a space; remove it")
    return parts


def render_prompt(parts: Mapping[str, str], question: Mapping[str, Any], answer: str) -> str:
    """The prompt about one answer to a question (a row of ``questions``); for an instruct model the user's message."""
    passages = (fill_part(parts["passage" if part["title"] else "story"], part) for part in question["context"])
    values = {
        "passages": "\n\n".join(passages),
        "history": "\n\n".join(fill_part(parts["turn"], turn) for turn in question["history"]),
        "question": question["question"],
        "options": "\n".join(fill_part(parts["option"], option) for option in lettered(question["options"])),
        "answer": answer,
    }
    return fill_part(parts["prompt"], values)


@dataclass(frozen=True)
class PTrueQuery:
    """How to ask a model: its tokenizer, the template's parts, and whether to use its chat template."""

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
        """The token that is scored behind every prompt: they all end alike, so one shows which it is."""
        return true_token(self.tokenizer, self.prompt_ids(_PROBE, "yes"))


def true_token(tokenizer: Any, prompt_ids: Sequence[int]) -> int:
    """The token with which "True" begins right behind a prompt, as the tokenizer itself would write it there.

    Behind white space or a special token, where a chat template hands over to the model, that is ``True``; behind
    anything else, such as the colon of a plain prompt, it is ``␣True`` with its space. Scoring the spelling that the
    place does not call for would measure noise.

    Raises BeamUQError if the tokenizer writes prompt and "True" together otherwise than one behind the other.
    """
    text = tokenizer.decode(list(prompt_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
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
    model: Any, query: PTrueQuery, rows: Sequence[tuple[str, Mapping[str, Any], str]], *, batch: int = BATCH_PROMPTS
) -> list[float]:
    """log P("True") of each answer, in nats, ≤ 0; higher = the model holds it for true.

    ``rows``: (name for messages, row of ``questions``, answer); equal prompts are run once, and what they share too.
    ``batch`` prompts are held at once; a result moves with it by no more than rounding.

    Raises BeamUQError if a prompt is longer than the model's context, or a log-probability is not finite.
    """
    from beamuq.decoding import Prompt, compose_batches, next_token_logprobs

    prompts = [query.prompt_ids(question, answer) for _, question, answer in rows]
    names: dict[tuple[int, ...], str] = {}
    for ids, (name, _, _) in zip(prompts, rows, strict=True):
        names.setdefault(ids, name)
    true = query.true_token()
    log_p: dict[tuple[int, ...], float] = {}
    with progress_bar(len(names), "P(True)", "prompt") as progress:
        for members in compose_batches([Prompt(name, ids) for ids, name in names.items()], batch):
            logprobs = next_token_logprobs(model, members, [true])[:, 0]
            log_p |= {prompt.token_ids: float(logprob) for prompt, logprob in zip(members, logprobs, strict=True)}
            progress.update(len(members))
    for ids, name in names.items():
        if not math.isfinite(log_p[ids]):
            raise BeamUQError(f"P(True) of {name}: log-probability {log_p[ids]}; use dtype float32")
    return [log_p[ids] for ids in prompts]

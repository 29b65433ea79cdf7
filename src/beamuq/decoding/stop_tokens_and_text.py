"""Find the tokens that end an answer, and turn tokens into its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from beamuq.errors import BeamUQError
from beamuq.text_normalization import clean

CHAT_TURN_ENDS = (
    "<|im_end|>",
    "<end_of_turn>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
)

_vocabularies: WeakKeyDictionary[PreTrainedTokenizerBase, list[str]] = WeakKeyDictionary()


def token_strings(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text of every token on its own, by id; kept until tokens are added."""
    if len(_vocabularies.get(tokenizer, ())) != len(tokenizer):
        decode = _decoder(tokenizer)
        _vocabularies[tokenizer] = [
            decode([token], skip_special_tokens=False) for token in range(len(tokenizer))
        ]
    return _vocabularies[tokenizer]


def _decoder(tokenizer: PreTrainedTokenizerBase) -> Callable[..., Any]:
    """What decodes single tokens: in a sixth of the time where transformers adds nothing to it."""
    through_transformers = partial(tokenizer.decode, clean_up_tokenization_spaces=False)
    usual = PreTrainedTokenizerFast
    if not isinstance(tokenizer, usual):
        return through_transformers
    kind = type(tokenizer)
    if (kind.decode, kind._decode) != (usual.decode, usual._decode):
        return through_transformers
    return tokenizer.backend_tokenizer.decode


def token_texts(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> list[str]:
    """The text of each token on its own; "" for the ids of a padded output layer."""
    strings = token_strings(tokenizer)
    return [strings[token] if token < len(strings) else "" for token in token_ids]


def stop_tokens(
    tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, *, newline: bool = True
) -> frozenset[int]:
    """The tokens that end an answer.

    Every end-of-sequence id of the generation config, the model's config and the tokenizer; the
    chat-turn ends that the vocabulary has; with ``newline``, every token whose text holds a
    newline.

    Raises BeamUQError if a config names what is no token's number.
    """
    stops: set[int] = set()
    configs: list[Any] = [
        model.generation_config,
        model.config,
        model.config.get_text_config(),
        tokenizer,
    ]
    for config in configs:
        stops |= _declared_ends(config, tokenizer.name_or_path)
    for turn_end in CHAT_TURN_ENDS:
        token: Any = tokenizer.convert_tokens_to_ids(turn_end)
        is_unknown = token is None or tokenizer.convert_ids_to_tokens(token) != turn_end
        if not is_unknown:
            stops.add(token)
    if newline:
        stops.update(token for token, text in enumerate(token_strings(tokenizer)) if "\n" in text)
    return frozenset(stops)


def _declared_ends(config: Any, name: str) -> set[int]:
    """The end-of-sequence ids of a config; ``name`` is the model's in errors."""
    declared = getattr(config, "eos_token_id", None)
    if declared is None:
        return set()
    ends = declared if isinstance(declared, list | tuple) else [declared]
    if not all(type(end) is int and end >= 0 for end in ends):
        raise BeamUQError(
            f"{name}: eos_token_id: {declared!r}: must be the number of a token, or a list; "
            "correct config.json or generation_config.json"
        )
    return set(ends)


def bare_stops(tokenizer: PreTrainedTokenizerBase, stop_ids: frozenset[int]) -> frozenset[int]:
    """The stop tokens that add nothing to the text: they end a sequence or begin with a newline.

    After the same tokens before them they give the same text, so that they may be merged.
    """
    texts = zip(stop_ids, token_texts(tokenizer, [*stop_ids]), strict=True)
    return frozenset(token for token, text in texts if text.startswith("\n") or "\n" not in text)


def candidate_text(
    tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int], stop_ids: frozenset[int]
) -> str:
    """The text of an answer up to its first newline or stop, not cleaned.

    A stop token that ends in a newline contributes the text before it; any other stop and every
    special token contribute nothing.
    """
    return _decoded(tokenizer, token_ids, stop_ids).split("\n", 1)[0]


def answer_text(
    tokenizer: PreTrainedTokenizerBase,
    token_ids: Sequence[int],
    stop_ids: frozenset[int],
    *,
    newline: bool = True,
) -> str:
    """The text of an answer as it is compared (D1, ending; D9, texts).

    With ``newline``, where a newline ends an answer: :func:`candidate_text`, cleaned. Without: all
    lines, of which only special tokens and outer space are taken off.
    """
    if newline:
        return clean(candidate_text(tokenizer, token_ids, stop_ids))
    return _decoded(tokenizer, token_ids, stop_ids).strip()


def _decoded(
    tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int], stop_ids: frozenset[int]
) -> str:
    """The text of an answer, all lines of it, without a stop token that is no newline."""
    shown = list(token_ids)
    if shown and shown[-1] in stop_ids and "\n" not in token_texts(tokenizer, shown[-1:])[0]:
        shown.pop()
    text = tokenizer.decode(shown, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return str(text)

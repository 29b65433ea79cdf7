"""Prompts as token ids, plain or through a model's chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.models.conversations import Message
from beamuq.models.thoughts import closing, open_thought, thought_at_start
from beamuq.written_texts import check_whole

DATE = "26 Jul 2024"
"""The date that Llama's templates write where they are given none."""
USUAL = ("user", "assistant", "model")
"""Roles that are what they are called; Gemma calls the assistant model."""
# What no message says and no template writes: it shows where a message ends in the prompt.
_SENTINEL = "qZ7endOfMessage7Zq"


def plain_prompt_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a plain prompt, with the tokenizer's BOS, if it adds one, and never an EOS.

    A text that begins with that BOS, as one that a chat template has rendered, gets no second one.

    Raises BeamUQError if the prompt holds half a surrogate pair.
    """
    check_whole(text, "prompt")
    ids = list(tokenizer(text).input_ids)
    bare = list(tokenizer(text, add_special_tokens=False).input_ids)
    for end in range(len(ids), len(bare) - 1, -1):
        start = end - len(bare)
        if ids[start:end] == bare:
            added = ids[:start]
            return bare if added and bare[:start] == added else ids[:end]
    return ids


def chat_prompt_ids(
    tokenizer: Any,
    message: str | Sequence[Message],
    enable_thinking: bool | None = None,
    *,
    place: str = "",
) -> list[int]:
    """Token ids of a user's message, or of a conversation, in the model's chat template.

    They end where the answer begins. The template writes its own BOS; the tokenizer adds no second
    one. ``enable_thinking`` goes to a template that knows it, and a template that writes the date
    gets a fixed one, so that an answer does not depend on the day. A conversation is a list of
    messages as :func:`beamuq.models.conversations.read_conversation` gives it. ``place`` names the
    prompt in errors.

    Raises BeamUQError if the tokenizer has no chat template, thinking is set for a template that
    does not know it or not set for one that does, or the template writes a date that cannot be
    fixed, fails, writes nothing, leaves out what a message says, or leaves a thought open.
    """
    messages = [{"role": "user", "content": message}] if isinstance(message, str) else list(message)
    options = _template_options(tokenizer, enable_thinking)
    rendering = _Rendering(tokenizer, options, f"{place}: " if place else "")
    text = rendering.of(messages)
    rendering.check_nothing_is_left_out(messages, text)
    behind = rendering.behind_the_last(messages, text)
    check_whole(text, "prompt")
    written = text if behind is None else behind
    mark = open_thought(written, turn_tokens(tokenizer), mentions=behind is None)
    if mark:
        raise BeamUQError(
            f"{rendering.what} leaves a thought open ({mark}){_way_out(mark, enable_thinking)}"
        )
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def _template_options(tokenizer: Any, enable_thinking: bool | None) -> dict[str, object]:
    """What to hand to a chat template beside the messages: whether to think, and a fixed date."""
    template = str(tokenizer.chat_template or "")
    model = tokenizer.name_or_path
    if not template:
        raise BeamUQError(f"{model}: has no chat template; use style: base for this model")
    options: dict[str, object] = {}
    if enable_thinking is not None:
        if not can_think(tokenizer):
            raise BeamUQError(
                f"{model}: its chat template knows no enable_thinking; remove the key"
            )
        options["enable_thinking"] = enable_thinking
    elif can_think(tokenizer):
        # Left unset such a template lets the model think first: its answer would be the opening
        # mark of a thought.
        raise BeamUQError(f"{model}: its chat template can think first; set enable_thinking: false")
    if "date_string" in template:
        options["date_string"] = DATE
    elif "strftime_now" in template:
        raise BeamUQError(
            f"{model}: its chat template writes today's date, so answers would change with the "
            "day; put a fixed date into the template of a copy of the model"
        )
    return options


class _Rendering:
    """What a chat template writes of messages, with fixed options."""

    def __init__(self, tokenizer: Any, options: Mapping[str, Any], place: str) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self.what = f"{place}{tokenizer.name_or_path}: its chat template"

    def of(self, messages: Sequence[Message]) -> str:
        """The prompt of these messages, up to where the answer begins."""
        text: object = plugins.call(
            self.what,
            self._tokenizer.apply_chat_template,
            list(messages),
            tokenize=False,
            add_generation_prompt=True,
            **self._options,
        )
        if not isinstance(text, str) or not text:
            raise BeamUQError(f"{self.what}: gave {text!r:.60}, not the text of a prompt; mend it")
        return text

    def check_nothing_is_left_out(self, messages: Sequence[Message], text: str) -> None:
        """Refuse what a template passes over: it makes no difference to what it writes.

        That may be a message, a role that it takes for another, or a key that it does not read.
        """
        for number, message in enumerate(messages):
            self._check_message(messages, text, number)
            self._check_role(messages, text, number)
            for key in message.keys() - {"role", "content"}:
                shorter = {name: value for name, value in message.items() if name != key}
                if self._writes(messages, number, shorter) == text:
                    raise BeamUQError(
                        f"{self.what}: does not read messages[{number}].{key}; leave the key out"
                    )

    def _check_message(self, messages: Sequence[Message], text: str, number: int) -> None:
        """Refuse a message whose content may be longer and the prompt is the same."""
        message = messages[number]
        longer = message | {"content": f"{message['content']}{_SENTINEL}"}
        if self._writes(messages, number, longer) == text:
            raise BeamUQError(
                f"{self.what}: leaves out messages[{number}], whose role is "
                f"{message['role']!r:.40}; put it into the user's message, or leave it out"
            )

    def _check_role(self, messages: Sequence[Message], text: str, number: int) -> None:
        """Refuse a message of an unusual role that the template takes for a usual one."""
        message = messages[number]
        role = message["role"]
        if role in USUAL:
            return
        for usual in ("user", "assistant"):
            if self._writes(messages, number, message | {"role": usual}) == text:
                raise BeamUQError(
                    f"{self.what}: takes messages[{number}], whose role is {role!r:.40}, for the "
                    f"{usual}'s; put it into the user's message, or leave it out"
                )

    def _writes(self, messages: Sequence[Message], number: int, changed: Message) -> str | None:
        """The prompt with one message changed; None where the template rejects it."""
        try:
            return self.of([*messages[:number], changed, *messages[number + 1 :]])
        except BeamUQError:
            return None

    def behind_the_last(self, messages: Sequence[Message], text: str) -> str | None:
        """What the template writes behind the last message; None where that cannot be told."""
        last = messages[-1]
        longer = last | {"content": f"{last['content']}{_SENTINEL}"}
        written = self._writes(messages, len(messages) - 1, longer) or ""
        _, sentinel, behind = written.rpartition(_SENTINEL)
        return behind if sentinel and text.endswith(behind) else None


def _way_out(mark: str, enable_thinking: bool | None) -> str:
    """What an open thought would do, and the fix, to follow an error."""
    if enable_thinking:
        return ", and the answer would be the thought; set enable_thinking: false"
    return (
        f", and the answer would be the thought; close it ({closing(mark)}) in the template of a "
        "copy of the model, or render the prompt, write a thought and its end behind it, and give "
        "decode that text"
    )


def check_no_open_thought(tokenizer: Any, text: str, place: str) -> None:
    """Refuse a prompt that ends within a thought: what the model writes next is no answer.

    Raises BeamUQError naming the ``place``, the mark and the fix.
    """
    mark = open_thought(text, turn_tokens(tokenizer))
    if mark:
        raise BeamUQError(
            f"{place}: the prompt leaves a thought open ({mark}), and the answer would be the "
            f"thought; write the thought and its end ({closing(mark)}) into the prompt"
        )


def turn_tokens(tokenizer: Any) -> list[str]:
    """Tokens that were added to the vocabulary, with those that part the turns of a chat."""
    added = getattr(tokenizer, "get_added_vocab", None)
    return list(added()) if added else []


def mark_of_thought(tokenizer: Any, token_ids: Sequence[int]) -> str:
    """The mark of a thought with which an answer begins, as text or special token; "": none."""
    text = tokenizer.decode(
        list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return thought_at_start(str(text))


def can_think(tokenizer: Any) -> bool:
    """Whether the chat template has a switch for thinking first (``enable_thinking``)."""
    return "enable_thinking" in str(tokenizer.chat_template)

"""What is found out about a model server before it decodes: nothing is believed that it only says.

The lists of eight fixed probes are the server's identity, as far as there is one: another
quantisation changes them, but they are no hash of weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamuq.decoding.served.listed_reader import UNNAMED
from beamuq.decoding.served.served_model import TokenList
from beamuq.errors import BeamUQError
from beamuq.models.prompt_tokens import plain_prompt_ids
from beamuq.models.served.http_requests import ServerRequests
from beamuq.models.served.llama_cpp_protocol import LlamaCppProtocol
from beamuq.models.served.probe_distance import distance
from beamuq.models.served.server_protocol import OTHER, ServerProtocol
from beamuq.models.served.vllm_protocol import VLLMProtocol

PROBES = (
    "The capital of France is",
    "Question: Who wrote the play about a prince of Denmark?\nAnswer:",
    "1, 2, 3, 4,",
    "In the year 1969 the first people",
    "def area(radius):\n    return",
    "Die Hauptstadt von Österreich heißt",
    "Water boils at a temperature of",
    "Once upon a time there was a",
)
"""Texts whose lists are compared; four of them are asked alone and at once."""
AT_ONCE = 4
LISTED = 3
"""Most probable tokens of each probe in a server's identity."""
USUAL = 20
"""Listed tokens that are compared of two answers."""
LENGTHS = (1000, 100, 20, 5)
"""Tried as lengths of lists where the server does not say how many it allows."""
NAMED = 128
UNNAMED_ENDINGS = f"no named ones (merged endings are known within {UNNAMED:g} nats)"
NOISY = 1e-3
"""nats between answers to one prefix from which a server is warned of."""
TEMPERED = 0.05
"""nats between lists at two temperatures from which they are not the raw softmax."""
_MOST = re.compile(r"(?:max(?:imum)? (?:allowed|of)|at most|up to)\D{0,3}(\d+)")


@dataclass(frozen=True)
class Handshake:
    """What was found.

    ``most_listed`` tokens are listed and ``most_named`` named in one request, of a ``vocabulary``
    of so many. ``noise``: the largest difference, in nats, between answers to one prefix, alone and
    beside others. ``probes``: the most probable tokens of each probe with their log p;
    ``first_probe``: the first one's token ids.
    """

    kind: str
    version: str
    model: str
    vocabulary: int
    most_listed: int
    most_named: int
    noise: float
    probes: tuple[tuple[tuple[int, float], ...], ...]
    first_probe: tuple[int, ...]

    @property
    def summary(self) -> str:
        """What was found and what can be had, in one line."""
        listed = "every token"
        can = "greedy, beams, samples by the race"
        if self.most_listed < self.vocabulary:
            listed = f"{self.most_listed} tokens"
            if self.most_listed < 2 * USUAL:
                can = f"greedy, up to about {self.most_listed // 2} beams, samples by the race"
            if not self.most_named:
                can += ", where lists alone suffice"
        named = f"up to {self.most_named} named ones" if self.most_named else UNNAMED_ENDINGS
        return (
            f"{self.kind} {self.version} serves {self.model!r}: lists {listed} and {named}; "
            f"noise {self.noise:.1g} nats; its weights are unknown; possible: {can}"
        )


def protocol_of(requests: ServerRequests, model: str) -> ServerProtocol:
    """The protocol that a server speaks, and which of its models is asked: ``model``, "": its one.

    Raises BeamUQError if it speaks none, or has several models or another.
    """
    properties = requests.get("/props")
    models = requests.get("/v1/models")
    is_llama = isinstance(properties.content, Mapping) and (
        "default_generation_settings" in properties.content
    )
    if models.status != 200 or not isinstance(models.content, Mapping):
        raise BeamUQError(f"the model server: status {models.status} for /v1/models; {OTHER}")
    entry = _entry(models.content.get("data"), model)
    if is_llama:
        return LlamaCppProtocol(requests, properties.content, entry)
    reply = requests.get("/version")
    version = reply.content.get("version") if isinstance(reply.content, Mapping) else None
    return VLLMProtocol(requests, entry, str(version or "of unknown version"))


def _entry(models: Any, wanted: str) -> Mapping[str, Any]:
    """The part of ``/v1/models`` of the model that is asked for."""
    entries = [entry for entry in models or () if isinstance(entry, Mapping) and entry.get("id")]
    ids = [str(entry["id"]) for entry in entries]
    if wanted and wanted not in ids:
        raise BeamUQError(
            f"the model server: has no model {wanted!r:.60}; it has {', '.join(map(shown_id, ids))}"
        )
    if not wanted and len(entries) != 1:
        raise BeamUQError(
            f"the model server: serves {len(entries)} models ({', '.join(map(shown_id, ids))}); "
            "choose one: server:http://HOST:PORT/v1#MODEL"
        )
    return entries[ids.index(wanted)] if wanted else entries[0]


def shown_id(model: str) -> str:
    """A model's id, without the folders before it, where it is a path of the server's machine."""
    is_path = model.startswith(("/", "~", ".")) or "\\" in model or model.endswith(".gguf")
    return re.split(r"[/\\]", model.rstrip("/\\"))[-1] if is_path else model


def shake_hands(protocol: ServerProtocol, tokenizer: Any, vocabulary: int) -> Handshake:
    """Check a server, with the tokenizer that is to be its model's.

    ``vocabulary``: how many tokens the model has by its config.

    Raises BeamUQError, with the reason, where ids change, a token is put before a prompt, the
    tokenizer is another, or lists are not of the raw softmax.
    """
    _check_tokenizer(protocol, tokenizer)
    prefixes = [tuple(plain_prompt_ids(tokenizer, text)) for text in PROBES]
    _check_ids_unchanged(protocol, prefixes)
    most_listed = _most_listed(protocol, prefixes[0], vocabulary)
    if most_listed == vocabulary:
        least = min(len(tokenizer), vocabulary)
        whole = protocol.complete_lists(prefixes[:1], vocabulary, least)[0]
        vocabulary = _checked_whole(whole)
        most_listed = vocabulary
    length = min(USUAL, most_listed)
    alone = _one_by_one(protocol, prefixes[:AT_ONCE], length)
    together = protocol.complete_lists(prefixes, length, length)
    again = _one_by_one(protocol, prefixes[:AT_ONCE], length)
    pairs = [*zip(alone, together, strict=False), *zip(alone, again, strict=True)]
    noise = max(difference(one, other) for one, other in pairs)
    _check_raw(protocol, prefixes, together, noise)
    return Handshake(
        kind=protocol.kind,
        version=protocol.version,
        model=shown_id(protocol.model),
        vocabulary=vocabulary,
        most_listed=most_listed,
        most_named=_most_named(protocol, prefixes[0], together[0], vocabulary, noise),
        noise=noise,
        probes=tuple(map(_shortened, together)),
        first_probe=prefixes[0],
    )


def _one_by_one(
    protocol: ServerProtocol, prefixes: Sequence[Sequence[int]], length: int
) -> list[TokenList]:
    """The lists of prefixes, each in a request of its own."""
    return [protocol.complete_lists([prefix], length, length)[0] for prefix in prefixes]


def _shortened(listed: TokenList) -> tuple[tuple[int, float], ...]:
    """The first tokens of a list with their log p, as an identity holds them."""
    tokens = listed.tokens[:LISTED].tolist()
    logprobs = [round(logprob, 5) for logprob in listed.logprobs[:LISTED].tolist()]
    pairs = zip(tokens, logprobs, strict=True)
    return tuple(pair for pair in pairs if pair[1] > -np.inf)


def difference(one: TokenList, other: TokenList) -> float:
    """The largest difference, in nats, of two lists of one distribution."""
    return distance(one.by_token(), other.by_token())


def _check_tokenizer(protocol: ServerProtocol, tokenizer: Any) -> None:
    """Refuse a tokenizer that gives other ids than the server's."""
    for text in PROBES:
        theirs = protocol.tokenized(text)
        if theirs is None:
            raise BeamUQError(
                "the model server: does not tell how it reads a text (/tokenize), so that nothing "
                f"says that the tokenizer is its model's; {OTHER}"
            )
        ours = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if theirs != ours:
            raise BeamUQError(
                f"tokenizer: {text!r:.40} has the ids {_few(ours)}, at the server {_few(theirs)}; "
                "give the tokenizer of the model that is served"
            )


def _few(ids: Sequence[int]) -> str:
    return f"{list(ids[:4])}{' …' if len(ids) > 4 else ''}"


def _check_ids_unchanged(protocol: ServerProtocol, prefixes: Sequence[Sequence[int]]) -> None:
    """Refuse a server that changes a prompt of token ids, or puts a token before it."""
    for prefix in prefixes[:2]:
        read = protocol.read_as([prefix])[0]
        length = read if isinstance(read, int) else len(read)
        if length != len(prefix) or (not isinstance(read, int) and list(read) != list(prefix)):
            raise BeamUQError(
                f"the model server: reads a prompt of {len(prefix)} token ids as {length}, or as "
                "others: it adds a start token or has another vocabulary; let it take ids as they "
                "are"
            )


def _most_listed(protocol: ServerProtocol, prefix: Sequence[int], vocabulary: int) -> int:
    """How many of the most probable tokens the server lists."""
    why_not = protocol.list_refused(prefix, vocabulary)
    if why_not is None:
        return vocabulary
    stated = _MOST.search(why_not)
    lengths = [int(stated[1])] if stated else []
    for length in (*lengths, *LENGTHS):
        if 0 < length < vocabulary and protocol.list_refused(prefix, length) is None:
            return length
    raise BeamUQError(
        f"the model server: lists no log-probabilities of next tokens ({why_not}); let it give them"
    )


def _checked_whole(whole: TokenList) -> int:
    """How many tokens a whole distribution has; raises BeamUQError if it does not sum to 1."""
    mass = float(np.exp(whole.logprobs).sum())
    if abs(mass - 1) > NOISY:
        raise BeamUQError(
            f"the model server: its probabilities sum to {mass:.4f}, not to 1; let it give raw "
            "log-probabilities (vLLM: --logprobs-mode raw_logprobs)"
        )
    return len(whole.tokens)


def _check_raw(
    protocol: ServerProtocol,
    prefixes: Sequence[Sequence[int]],
    plain: Sequence[TokenList],
    noise: float,
) -> None:
    """Refuse lists that depend on the temperature: they are not of the model's own distribution."""
    length = len(plain[0].tokens)
    for temperature in (0.5, 1.0):
        tempered = protocol.complete_lists(prefixes, length, length, temperature=temperature)
        pairs = zip(plain, tempered, strict=True)
        change = max(difference(one, other) for one, other in pairs)
        if change > max(TEMPERED, 10 * noise):
            raise BeamUQError(
                f"the model server: its log-probabilities change by {change:.2g} nats with the "
                "temperature, so they are not the model's own; let it give raw ones (vLLM: "
                "--logprobs-mode raw_logprobs)"
            )


def _most_named(
    protocol: ServerProtocol,
    prefix: Sequence[int],
    listed: TokenList,
    vocabulary: int,
    noise: float,
) -> int:
    """Of how many named tokens the server tells log p at once; 0: it tells them of none."""
    if not protocol.can_name:
        return 0
    count = min(NAMED, vocabulary)
    spread = np.linspace(0, vocabulary - 1, count - 1, dtype=np.int64).tolist()
    last = int(listed.tokens[-1])
    tokens = list(dict.fromkeys([last, *spread]))
    try:
        named = protocol.named([prefix], tokens)[0]
    except BeamUQError:
        return 0
    if not set(tokens) <= named.keys():
        return 0  # a field that it does not know is ignored
    change = abs(named[last] - float(listed.logprobs[-1]))
    return len(tokens) if change <= max(NOISY, 10 * noise) else 0

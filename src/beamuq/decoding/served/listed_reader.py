"""Answer the queries of searches from a server's lists, asking for more only where it is needed.

A list of the most probable tokens decides most steps. It does not where too few of them go on,
where the merged ending may belong to the list and some of its tokens are not listed, or where an
unlisted token could still win the race of a draw, whose Gumbel numbers are known for every token.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from beamuq.array_types import Bools, Floats, Ints
from beamuq.decoding.next_token_distributions import ALTERNATIVES, DistributionQuery
from beamuq.decoding.random_numbers import TokenRace
from beamuq.decoding.served.listed_distribution import EXACT, ListedDistribution
from beamuq.decoding.served.served_model import Prefix, ServedModel, TokenList
from beamuq.errors import BeamUQError

FIRST_LIST = 32
LONGER = 8
"""By how much a list grows that did not decide a step."""
NUMBERS_AT_ONCE = 1 << 18
"""Log-probabilities in one answer of the server, about 10 MB."""
FEW_REQUESTS = 4
"""So many requests for named tokens are preferred to one longer list."""
MOST_REQUESTS = 64
"""More requests for named tokens in one step are refused."""
UNNAMED = 1e-2
"""nats: how exact an ending is where the server names no tokens, and only a longer list helps."""


@dataclass
class _Missing:
    """What the server must be asked for before a step is decided, by node."""

    longer: set[int] = field(default_factory=set)
    endings: set[int] = field(default_factory=set)
    contenders: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def __bool__(self) -> bool:
        return bool(self.longer or self.endings or self.contenders)


class Nodes(Protocol):
    """What is asked of the nodes of a batch's trie."""

    def prefix(self, node: int) -> Prefix:
        """The tokens of the prompt and of the answer down to a node."""

    def place(self, node: int) -> str:
        """A node in words, for errors."""

    def question(self, node: int) -> int:
        """Which question it belongs to."""

    def total(self, node: int) -> float:
        """The log p of the answer so far."""


class ListedReader:
    """Answers the queries of a batch's searches; each prefix is asked about once."""

    def __init__(
        self,
        server: ServedModel,
        stop_ids: frozenset[int],
        merge_stop_tokens: frozenset[int],
        nodes: Nodes,
    ) -> None:
        self._server = server
        self._nodes = nodes
        if stop_ids and not 0 <= min(stop_ids) <= max(stop_ids) < server.vocabulary:
            raise BeamUQError(
                f"a stop token lies outside the model's 0 … {server.vocabulary - 1}: "
                f"{sorted(stop_ids)[-1]}"
            )
        self.stops: Bools = np.zeros(server.vocabulary, dtype=bool)
        self.stops[list(stop_ids)] = True
        self._merged: Ints = np.array(sorted(merge_stop_tokens), dtype=np.int64)
        self._exactness = EXACT if server.most_named else UNNAMED
        self._most_listed = min(server.most_listed, server.vocabulary)
        self._distributions: dict[int, ListedDistribution] = {}

    @property
    def prefixes(self) -> int:
        """How many prefixes were asked about."""
        return len(self._distributions)

    def read(
        self, nodes: Ints, queries: Sequence[DistributionQuery], are_beams: Sequence[bool]
    ) -> None:
        """Answer ``queries`` about ``nodes``; ``are_beams`` says which are of a beam search.

        A beam search compares the continuations of all nodes of a question by their whole log p, so
        that a short list may do where what it lacks cannot be among the best.

        Raises BeamUQError where a query needs a whole distribution, or the server lists or names
        too few tokens; or as the server's requests.
        """
        for query in queries:
            _check_query(query)
        longest = max(map(_length_of_list, queries), default=0)
        self._ask_lists(nodes.tolist(), max(2 * longest, FIRST_LIST))
        while True:
            missing = _Missing()
            for query, is_beams in zip(queries, are_beams, strict=True):
                self._note_what_lists_lack(query, missing, is_beams=is_beams)
            draws = [self._drawn(query, missing) for query in queries]
            if not missing:
                break
            self._ask(missing)
        for query, drawn in zip(queries, draws, strict=True):
            self._answer(query, drawn)

    # -- what a step needs -------------------------------------------------------------------------

    def _note_what_lists_lack(
        self, query: DistributionQuery, missing: _Missing, *, is_beams: bool
    ) -> None:
        """Note what the lists of a query's nodes lack."""
        length = _length_of_list(query)
        if not length:
            return
        for node in query.nodes.tolist():
            distribution = self._distributions[node]
            if distribution.needs_ending(length, self._exactness):
                self._note_ending(node, missing)
            elif distribution.length < self._most_listed:
                if self._is_too_short(node, length, query.top):
                    missing.longer.add(node)
            elif self._is_too_short(node, query.top, query.top):
                does_not_matter = is_beams and self._cannot_matter(query, node)
                if not does_not_matter:
                    raise self._too_few(node, query.top)

    def _is_too_short(self, node: int, length: int, top: int) -> bool:
        """Whether a list has not ``length`` tokens and ``top`` that go on, or may end in a tie."""
        distribution = self._distributions[node]
        if distribution.is_whole:
            return False
        listed = distribution.list_of(self._exactness).logprobs
        going = distribution.going_on(self.stops, self._exactness)
        if len(listed) < length or len(going) < top:
            return True
        # another token of the same log p may have a smaller id
        may_tie = length > 0 and not listed[length - 1] > distribution.edge
        if top:
            may_tie |= not going[top - 1] > distribution.edge
        return may_tie and distribution.length < self._most_listed

    def _cannot_matter(self, query: DistributionQuery, node: int) -> bool:
        """Whether no unlisted continuation of a node is among a question's best that go on.

        Then none is among all of the best either.
        """
        question = self._nodes.question(node)
        best: list[float] = []
        for member in query.nodes.tolist():
            if self._nodes.question(member) == question:
                going = self._distributions[member].going_on(self.stops, self._exactness)
                best += (self._nodes.total(member) + going).tolist()
        best.sort(reverse=True)
        most = self._nodes.total(node) + self._distributions[node].bound
        return len(best) >= query.top and best[query.top - 1] > most

    def _too_few(self, node: int, top: int) -> BeamUQError:
        return BeamUQError(
            f"{self._nodes.place(node)}: {self._server.name} lists "
            f"{self._distributions[node].length} tokens, too few for {top} beside those that end "
            "an answer; start the server with more log-probabilities (vLLM: --max-logprobs -1), or "
            "search with fewer beams"
        )

    def _note_ending(self, node: int, missing: _Missing) -> None:
        if self._server.most_named:
            missing.endings.add(node)
            return
        if self._distributions[node].length >= self._most_listed:
            raise BeamUQError(
                f"{self._nodes.place(node)}: {self._server.name} lists {self._most_listed} tokens "
                "and tells no named ones, so the probability of an ending is not known within "
                f"{UNNAMED:g} nats; start the server with more log-probabilities (vLLM: "
                "--max-logprobs -1)"
            )
        missing.longer.add(node)

    def _drawn(self, query: DistributionQuery, missing: _Missing) -> list[tuple[int, float]]:
        """The draws of a query, (token, log p), as far as they are decided."""
        if query.keys is None:
            return []
        drawn = []
        for node, key in zip(query.nodes.tolist(), query.keys.tolist(), strict=True):
            decided = self._winner(node, key, missing)
            if decided is not None:
                drawn.append(decided)
        return drawn

    def _winner(self, node: int, key: int, missing: _Missing) -> tuple[int, float] | None:
        """Who wins the race of a draw; None: what must be known for it is noted."""
        distribution = self._distributions[node]
        race = TokenRace(key, self._server.vocabulary)
        tokens, logprobs = distribution.known()
        if len(self._merged) and distribution.ending_bounds[1] > -math.inf:
            tokens = np.append(tokens, self._merged[0])
            logprobs = np.append(logprobs, distribution.ending_bounds[1])
        scores = race.scores(tokens, logprobs)
        best = int(scores.argmax())
        ending_leads = bool(len(self._merged)) and int(tokens[best]) == int(self._merged[0])
        if ending_leads and not distribution.knows_ending(self._exactness):
            self._note_ending(node, missing)
            return None
        if not distribution.is_whole:
            contenders = race.could_reach(float(scores[best]), distribution.bound)
            unknown = contenders[~np.isin(contenders, np.concatenate([tokens, self._merged]))]
            if len(unknown):
                missing.contenders[node].update(unknown.tolist())
                return None
        logprob = distribution.ending if ending_leads else float(logprobs[best])
        return int(tokens[best]), logprob

    # -- requests ----------------------------------------------------------------------------------

    def _ask(self, missing: _Missing) -> None:
        """Ask the server for all that is missing."""
        undecided = {node: missing.contenders[node] for node in missing.contenders}
        longer = set(missing.longer)
        if undecided and not self._are_few(undecided):
            longer |= {node for node in undecided if self._can_lengthen(node)}
        by_length: dict[int, list[int]] = defaultdict(list)
        for node in sorted(longer):
            by_length[LONGER * self._distributions[node].length].append(node)
        for length, nodes in by_length.items():
            self._ask_lists(nodes, length)
        if missing.endings:
            self._ask_named(sorted(missing.endings), self._merged.tolist())
        self._ask_contenders({node: undecided[node] for node in undecided if node not in longer})

    def _can_lengthen(self, node: int) -> bool:
        return self._distributions[node].length < self._most_listed

    def _are_few(self, undecided: dict[int, set[int]]) -> bool:
        """Whether named tokens decide draws in so few requests that no longer list is needed."""
        if not self._server.most_named:
            return False
        total = sum(map(len, undecided.values()))
        return total <= FEW_REQUESTS * self._server.most_named

    def _ask_lists(self, nodes: Sequence[int], length: int) -> None:
        """Bring the lists of ``nodes`` to at least ``length`` tokens, or as many as there are."""
        length = min(length, self._most_listed)
        fresh = [node for node in nodes if not self._has_list(node, length)]
        at_once = max(1, NUMBERS_AT_ONCE // length)
        for first in range(0, len(fresh), at_once):
            members = fresh[first : first + at_once]
            prefixes = [self._nodes.prefix(node) for node in members]
            lists = self._server.most_probable(prefixes, length)
            for node, listed in zip(members, lists, strict=True):
                self._take_up(node, listed)

    def _has_list(self, node: int, length: int) -> bool:
        distribution = self._distributions.get(node)
        return distribution is not None and (distribution.is_whole or distribution.length >= length)

    def _take_up(self, node: int, listed: TokenList) -> None:
        distribution = self._distributions.get(node)
        if distribution is None:
            vocabulary = self._server.vocabulary
            self._distributions[node] = ListedDistribution(listed, vocabulary, self._merged)
        else:
            distribution.lengthen(listed)

    def _ask_named(self, nodes: Sequence[int], tokens: Sequence[int]) -> None:
        """Learn the log-probabilities of the same ``tokens`` after all ``nodes``."""
        prefixes = [self._nodes.prefix(node) for node in nodes]
        for first in range(0, len(tokens), self._server.most_named):
            members = tokens[first : first + self._server.most_named]
            logprobs = self._server.named(prefixes, members)
            for node, row in zip(nodes, logprobs.tolist(), strict=True):
                self._distributions[node].name(dict(zip(members, row, strict=True)))

    def _ask_contenders(self, undecided: dict[int, set[int]]) -> None:
        """Learn the log-probabilities of tokens that could still win, of several nodes at once."""
        if not undecided:
            return
        groups = list(_groups(undecided, max(1, self._server.most_named)))
        if not self._server.most_named or len(groups) > MOST_REQUESTS:
            node = next(iter(undecided))
            raise BeamUQError(
                f"{self._nodes.place(node)}: {self._server.name} lists {self._most_listed} tokens, "
                "which do not decide the draws; start the server with more log-probabilities "
                "(vLLM: --max-logprobs -1), draw by draws='server', or take no samples"
            )
        for nodes, tokens in groups:
            self._ask_named(nodes, tokens)

    # -- answers -----------------------------------------------------------------------------------

    def _answer(self, query: DistributionQuery, drawn: Sequence[tuple[int, float]]) -> None:
        """Give a query its lists, statistics and draws."""
        if query.keys is not None:
            query.tokens = np.array([token for token, _ in drawn], dtype=np.int64)
            query.logprobs = np.array([logprob for _, logprob in drawn], dtype=np.float64)
            query.policy_logprobs = query.logprobs.copy()
            query.positions = np.zeros(len(drawn))
        if not _length_of_list(query):
            return
        distributions = [self._distributions[node] for node in query.nodes.tolist()]
        tokens, logprobs = _table([member.list_of(self._exactness) for member in distributions])
        if query.top:
            query.tokens = tokens
            query.logprobs = logprobs
        if query.statistics:
            query.entropies = np.full(len(distributions), np.nan)  # of a whole distribution alone
            query.top_tokens = tokens[:, :ALTERNATIVES]
            query.top_logprobs = logprobs[:, :ALTERNATIVES].copy()
            are_whole = np.array([member.is_whole for member in distributions], dtype=bool)
            are_enough = (logprobs > -np.inf).sum(axis=1) >= ALTERNATIVES
            query.top_logprobs[~are_whole & ~are_enough] = np.nan


def _check_query(query: DistributionQuery) -> None:
    """Refuse a query that lists cannot answer."""
    problems: Iterable[tuple[str, Any]] = (
        ("draws in the order of token ids", query.uniforms is not None),
        ("sums of edited probabilities", query.masses is not None),
        ("edited probabilities", query.edits is not None),
        ("draws at another temperature than 1", query.temperature != 1.0),
        ("draws cut to top-k or top-p", query.top_k > 0 or query.top_p < 1.0),
    )
    for what, is_asked in problems:
        if is_asked:
            raise BeamUQError(
                f"a served model: {what} need every token's probability, and a server lists the "
                "most probable ones; decode in process, or leave this strategy out"
            )


def _length_of_list(query: DistributionQuery) -> int:
    """How many tokens a query needs listed; 0: none."""
    return max(query.top, ALTERNATIVES if query.statistics else 0) if len(query.nodes) else 0


def _table(lists: Sequence[TokenList]) -> tuple[Ints, Floats]:
    """Lists of unequal lengths as arrays (nodes, width): -inf beyond the end of a short one."""
    width = max((len(listed.tokens) for listed in lists), default=0)
    tokens = np.zeros((len(lists), width), dtype=np.int64)
    logprobs = np.full((len(lists), width), -np.inf)
    for row, listed in enumerate(lists):
        tokens[row, : len(listed.tokens)] = listed.tokens
        logprobs[row, : len(listed.tokens)] = listed.logprobs
    return tokens, logprobs


def _groups(undecided: dict[int, set[int]], most: int) -> Iterable[tuple[list[int], list[int]]]:
    """Nodes whose tokens together are at most ``most``; of one node with more, parts of them."""
    nodes: list[int] = []
    together: set[int] = set()
    for node, tokens in undecided.items():
        if nodes and len(together | tokens) > most:
            yield nodes, sorted(together)
            nodes = []
            together = set()
        nodes.append(node)
        together |= tokens
        if len(together) > most:
            yield nodes, sorted(together)  # asked in parts
            nodes = []
            together = set()
    if nodes:
        yield nodes, sorted(together)

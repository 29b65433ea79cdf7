"""What a strategy from outside the package is held to: a search, whose candidates are weighed by their probability."""

from __future__ import annotations

from beamuq.decoding.beams_then_samples import Hybrid
from beamuq.decoding.greedy_and_samples import Sample, Shipped
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.search_state import Policy, SearchContext
from beamuq.errors import BeamUQError

_ONLY_SEARCHES = (
    "a strategy of your own must be a search, each outcome once (weights by probability would count a draw twice)"
)


def check_custom(name: str, policy: object) -> None:
    """Refuse what a study names as its own strategy and is no search; ``name`` is how the study calls it.

    Weights by probability are right for a search alone: a draw comes up as often as it is probable already.

    Raises
    ------
    BeamUQError
        If it draws, or has no ``strategy`` and ``start``.
    """
    if isinstance(policy, Sample | Hybrid | Shipped):
        raise BeamUQError(
            f"policy {name!r}: a {type(policy).__name__} draws; {_ONLY_SEARCHES}; use the recipe's sample or hybrid"
        )
    if not isinstance(policy, Policy):
        raise BeamUQError(f"policy {name!r}: a {type(policy).__name__} has no strategy and start(context); add both")


class CheckedSearch:
    """A search from outside the package under way.

    Raises
    ------
    BeamUQError
        If it draws, or finds the same tokens twice for a question.
    """

    def __init__(self, policy: Policy, context: SearchContext) -> None:
        self.policy = policy
        self._search = policy.start(context)
        self._prompts = context.prompts

    def query(self) -> DistributionQuery:
        query = self._search.query()
        if query.uniforms is not None:
            raise self._refused("asks for draws")
        return query

    def advance(self, query: DistributionQuery) -> None:
        self._search.advance(query)

    def found(self, question: int) -> list[tuple[int, float | None]]:
        found = self._search.found(question)
        if any(policy_logprob is not None for _, policy_logprob in found):
            raise self._refused("gives candidates a distribution that they were drawn from")
        if len({node for node, _ in found}) < len(found):
            raise self._refused(f"finds the same tokens twice for {self._prompts[question].id!r}")
        return found

    def _refused(self, what: str) -> BeamUQError:
        return BeamUQError(f"strategy {self.policy.strategy!r}: {what}; {_ONLY_SEARCHES}")

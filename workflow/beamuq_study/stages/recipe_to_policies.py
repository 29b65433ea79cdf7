"""A recipe as policies of the engine, and what they find as rows of candidates."""

from __future__ import annotations

from typing import Any

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq_study.study_config import CustomStrategy, Recipe


def policies_of(recipe: Recipe, shipped: Any) -> list[Any]:
    """A recipe's policies; ``shipped`` is the model's generation config."""
    from beamuq import decoding

    makers = vars(decoding) | {
        "custom": _custom,
        "Shipped": lambda: decoding.Shipped.from_config(shipped),
    }
    return [makers[chosen.policy](*chosen.arguments) for chosen in recipe.policies()]


def _custom(custom: CustomStrategy) -> Any:
    from beamuq.decoding.check_custom_strategy import check_custom

    what = f"policy {custom.policy!r} with options {custom.options}"
    make = plugins.load("policy", custom.policy)
    policy = plugins.call(what, lambda: make(**custom.options))
    plugins.call(what, check_custom, custom.policy, policy)
    if policy.strategy != custom.strategy:
        raise BeamUQError(
            f"policy {custom.policy!r}: calls itself {policy.strategy!r}, the study "
            f"{custom.strategy!r}"
        )
    return policy


def candidate_row(candidate: Any, text: str, tokenizer: Any) -> dict[str, Any]:
    """A decoded candidate as a row of the table of candidates; ``text``: what it says, cleaned."""
    from beamuq.decoding import token_texts

    effort = candidate.effort
    row = {
        "id": candidate.prompt_id,
        "strategy": candidate.strategy,
        "rank": candidate.rank,
        "text": text,
        "token_ids": list(candidate.token_ids),
        "token_texts": token_texts(tokenizer, candidate.token_ids),
        "token_logprobs": candidate.token_logprobs.tolist(),
        "logprob": candidate.logprob,
        "policy_logprob": candidate.policy_logprob,
        "terminated": candidate.terminated,
        "entropies": None if candidate.entropies is None else candidate.entropies.tolist(),
        "search_rows": None if effort is None else effort.rows,
        "search_passes": None if effort is None else effort.passes,
        "proven": None if effort is None else effort.proven,
        "missed_logprob": None if effort is None else effort.missed_logprob,
    }
    return row | _alternatives(candidate, tokenizer)


def _alternatives(candidate: Any, tokenizer: Any) -> dict[str, Any]:
    """The columns of the most probable tokens of each step."""
    from beamuq.decoding import token_texts

    if candidate.top_ids is None:
        return dict.fromkeys(("top_ids", "top_texts", "top_logprobs"))
    return {
        "top_ids": [list(step) for step in candidate.top_ids],
        "top_texts": [token_texts(tokenizer, step) for step in candidate.top_ids],
        "top_logprobs": [list(step) for step in candidate.top_logprobs],
    }

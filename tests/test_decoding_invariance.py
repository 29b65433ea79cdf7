"""The same tokens whatever the batch, its order, its cut into passes and the other policies; edges of the input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from beamuq.decoding import (
    Beam,
    Candidate,
    Greedy,
    Policy,
    Prompt,
    Sample,
    Work,
    bare_stops,
    candidate_text,
    decode,
    stop_tokens,
    token_texts,
)
from beamuq.decoding.forward_passes import StepStatistics
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.errors import BeamUQError
from tiny import CONTEXT, KINDS, tiny_model, toy_model

SHOTS = "Question: Which river runs through Paris?\nAnswer: the Seine.\n\n"
TEXTS = [
    SHOTS + "Question: Who\nAnswer:",
    SHOTS + "Question: What\nAnswer:",
    SHOTS,
    "Q",
    "Question: Who\nAnswer: a spider",
]
POLICIES: list[Policy] = [Greedy(), Sample(4), Beam(4), Beam(3, 1.0, False), Sample(3, 0.5)]
STEPS = 10


def _prompts(kind: str) -> list[Prompt]:
    _, tokenizer = tiny_model(kind)
    return [Prompt(f"q{i}", tuple(tokenizer(text)["input_ids"])) for i, text in enumerate(TEXTS)]


def _run(kind: str, prompts: list[Prompt], policies: list[Policy], **options: object) -> list[Candidate]:
    model, tokenizer = tiny_model(kind)
    stops = stop_tokens(tokenizer, model) | set(range(100, 120))
    return decode(model, prompts, policies, stop_ids=stops, seed=5, max_new_tokens=STEPS, **options)  # type: ignore[arg-type]


def _tokens(candidates: list[Candidate]) -> dict[tuple[str, str, int], tuple[int, ...]]:
    return {(c.prompt_id, c.strategy, c.rank): c.token_ids for c in candidates}


@pytest.mark.parametrize("kind", KINDS)
def test_batch_order_and_company_change_no_token(kind: str) -> None:
    prompts = _prompts(kind)
    together = _run(kind, prompts, POLICIES)
    reordered = _run(kind, prompts[::-1], POLICIES[::-1])
    alone = [c for prompt in prompts for policy in POLICIES for c in _run(kind, [prompt], [policy])]
    assert _tokens(reordered) == _tokens(together)
    assert _tokens(alone) == _tokens(together)
    assert [c.logprob for c in sorted(alone, key=_key)] == pytest.approx(
        [c.logprob for c in sorted(together, key=_key)], abs=1e-4
    )


@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_fewer_rows_at_once_change_no_token(kind: str, rows: int) -> None:
    prompts = _prompts(kind)
    assert _tokens(_run(kind, prompts, POLICIES, rows=rows)) == _tokens(_run(kind, prompts, POLICIES))


def test_the_same_call_gives_the_same_numbers() -> None:
    first, second = (_run("llama", _prompts("llama"), POLICIES) for _ in range(2))
    assert [(c.token_ids, c.logprob, c.policy_logprob) for c in first] == [
        (c.token_ids, c.logprob, c.policy_logprob) for c in second
    ]


def test_candidates_come_by_prompt_policy_and_rank() -> None:
    prompts = _prompts("llama")
    places = {prompt.id: i for i, prompt in enumerate(prompts)}
    order = [policy.strategy for policy in POLICIES]
    keys = [(places[c.prompt_id], order.index(c.strategy), c.rank) for c in _run("llama", prompts, POLICIES)]
    assert keys == sorted(keys)


def test_shared_prompt_tokens_and_equal_nodes_are_run_once() -> None:
    prompts, work = _prompts("llama"), Work()
    _run("llama", prompts, POLICIES, work=work)
    distinct = {prompt.token_ids[:end] for prompt in prompts for end in range(1, len(prompt.token_ids) + 1)}
    assert work.prompt_rows == len(distinct) < work.prompt_tokens == sum(len(prompt.token_ids) for prompt in prompts)
    assert 0 < work.decoded_rows < work.decoded_rows_unmerged


def test_statistics_of_a_node_are_read_once_and_hold_real_alternatives_only() -> None:
    def asked(nodes: list[int], entropy: float) -> DistributionQuery:
        ask = DistributionQuery(np.array(nodes))
        ask.entropies = np.full(len(nodes), entropy)
        ask.top_tokens = np.tile([7, 8, 9], (len(nodes), 1))
        ask.top_logprobs = np.tile([-0.5, -1.0, -np.inf], (len(nodes), 1)) - entropy
        return ask

    statistics = StepStatistics()
    statistics.add(asked([3, 5], 1.0))
    statistics.add(asked([5, 4], 2.0))
    assert statistics.of(5) == statistics.of(3) == (1.0, (7, 8), (-1.5, -2.0))
    assert statistics.of(4) == (2.0, (7, 8), (-2.5, -3.0))


def test_two_questions_with_one_prompt_share_beams_but_not_draws() -> None:
    prompt = _prompts("llama")[0]
    found = _tokens(_run("llama", [prompt, Prompt("twin", prompt.token_ids)], [Beam(4), Sample(4)]))
    assert all(found["q0", "beam M=4", rank] == found["twin", "beam M=4", rank] for rank in range(4))
    assert any(found["q0", "sample T=1.0", rank] != found["twin", "sample T=1.0", rank] for rank in range(4))


def test_an_answer_may_be_its_terminator_alone() -> None:
    model, tokenizer = tiny_model("llama")
    prompt = _prompts("llama")[0]
    (free,) = decode(model, [prompt], [Greedy()], stop_ids=frozenset(), seed=0, max_new_tokens=1)
    assert not free.terminated
    stops = frozenset(free.token_ids)
    greedy, *beams = decode(model, [prompt], [Greedy(), Beam(3)], stop_ids=stops, seed=0, max_new_tokens=4)
    assert greedy.token_ids == free.token_ids
    assert greedy.terminated
    assert candidate_text(tokenizer, greedy.token_ids, stops) == ""
    assert len(beams) == 3
    assert beams[0].logprob >= beams[1].logprob >= beams[2].logprob


def test_the_pad_token_is_a_token_like_any_other() -> None:
    outcomes = decode(toy_model(), [Prompt("q", (1,))], [Beam(6)], stop_ids=frozenset({2}), seed=0, max_new_tokens=1)
    assert sorted(c.token_ids[0] for c in outcomes) == [0, 1, 2, 3, 4, 5]


def test_ties_break_by_token_id() -> None:
    model = toy_model(seed=4)
    with torch.no_grad():
        model.lm_head.weight[[1, 3, 5]] = model.lm_head.weight[[0, 2, 4]]
    greedy, *beams = decode(
        model, [Prompt("q", (1,))], [Greedy(), Beam(3)], stop_ids=frozenset({0, 1}), seed=0, max_new_tokens=1
    )
    assert greedy.token_ids[0] % 2 == 0
    first, second, third = (beam.token_ids[0] for beam in beams)
    assert (first % 2, second, third % 2) == (0, first + 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_may_fill_the_context_but_not_exceed_it(kind: str) -> None:
    filled = Prompt("full", (10,) * (CONTEXT - STEPS))
    assert all(len(c.token_ids) <= STEPS for c in _run(kind, [filled], POLICIES))
    with pytest.raises(BeamUQError, match=f"'over'.*{CONTEXT - STEPS + 1} tokens.*{CONTEXT}"):
        _run(kind, [Prompt("over", (*filled.token_ids, 10))], POLICIES)


def test_empty_and_repeated_prompts_are_refused_by_id() -> None:
    with pytest.raises(BeamUQError, match="'void' is empty"):
        _run("llama", [Prompt("void", ())], [Greedy()])
    with pytest.raises(BeamUQError, match="'q0' stands twice"):
        _run("llama", [_prompts("llama")[0]] * 2, [Greedy()])


def test_repeated_strategies_and_impossible_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="strategies repeat"):
        _run("llama", _prompts("llama"), [Sample(3), Sample(5)])
    for make in (lambda: Sample(0), lambda: Sample(3, 0.0), lambda: Beam(0), lambda: Beam(2, 0.0, "maybe")):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="must be"):
            make()


def test_strategies_follow_the_grammar() -> None:
    policies = [Greedy(), Sample(10), Sample(10, 0.7), Beam(10), Beam(5, 1.0, False)]
    assert [policy.strategy for policy in policies] == [
        "greedy",
        "sample T=1.0",
        "sample T=0.7",
        "beam M=10",
        "beam M=5 length_penalty=1.0 early_stopping=False",
    ]


def test_stop_tokens_hold_every_end_and_every_newline() -> None:
    model, tokenizer = tiny_model("llama")
    stops = stop_tokens(tokenizer, model)
    texts = token_texts(tokenizer, range(len(tokenizer)))
    assert {1, 3} <= stops
    assert {token for token, text in enumerate(texts) if "\n" in text} | {1, 3} == stops
    assert ".\n" in {texts[token] for token in stops}
    assert stop_tokens(tokenizer, model, newline=False) == {1, 3}


def test_bare_stops_add_nothing_to_the_text() -> None:
    model, tokenizer = tiny_model("llama")
    stops = stop_tokens(tokenizer, model)
    dotted = tokenizer.convert_tokens_to_ids(".\n")
    assert stops - bare_stops(tokenizer, stops) == {dotted}


def test_the_text_ends_at_the_newline_or_the_stop() -> None:
    model, tokenizer = tiny_model("llama")
    stops = stop_tokens(tokenizer, model)
    paris = tokenizer("Paris")["input_ids"]
    dotted, newline = tokenizer.convert_tokens_to_ids(".\n"), tokenizer("\n")["input_ids"]
    for ending, text in [([dotted], "Paris."), (newline, "Paris"), ([1], "Paris"), ([3], "Paris"), ([], "Paris")]:
        assert candidate_text(tokenizer, [*paris, *ending], stops) == text
    assert candidate_text(tokenizer, [4, *paris, 0], stops) == "Paris"
    assert candidate_text(tokenizer, [*paris, *newline, *paris], frozenset()) == "Paris"
    assert candidate_text(tokenizer, [*paris, 40], frozenset({40})) == "Paris"


def _key(candidate: Candidate) -> tuple[str, str, int]:
    return candidate.prompt_id, candidate.strategy, candidate.rank

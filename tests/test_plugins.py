"""Code that is not ours: whatever it does is one line that names it, and no number of its passes
unchecked.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from beamuq.api.score_candidates import score
from beamuq.decoding.check_custom_strategy import CheckedSearch
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.next_token_distributions import DistributionQuery, ProbabilityEdits
from beamuq.decoding.search_state import Prompt, SearchContext
from beamuq.errors import BeamUQError
from beamuq.methods import Method
from beamuq.models.prompt_tokens import chat_prompt_ids
from beamuq.scorers.quality_metrics import quality_values
from beamuq.scorers.scorer_protocol import PairScores, scored
from beamuq_study.stages.recipe_to_policies import policies_of
from beamuq_study.study_config import Recipe

ROWS = [{"answer": "a", "samples": ["a", "b c", "c b"]}, {"answer": "b", "samples": ["a b"] * 3}]


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of someone else's, ``theirs``."""
    module = types.ModuleType("theirs")
    module.__spec__ = importlib.machinery.ModuleSpec("theirs", None, origin=sys.executable)
    monkeypatch.setitem(sys.modules, "theirs", module)
    return module


def fails(*_: Any, **__: Any) -> Any:
    raise KeyError("two\nlines")


NO_NUMBERS: list[Any] = [
    pytest.param(lambda _: None, "gave numbers of shape", id="nothing"),
    pytest.param(
        lambda n: np.full(n + 1, 0.5), r"gave numbers of shape \(\d+,\), not", id="longer"
    ),
    pytest.param(lambda n: np.full(n, np.nan), "gave nan, not finite", id="nan"),
    pytest.param(lambda n: np.full(n, -np.inf), "gave -inf, not finite", id="infinite"),
]
OUT_OF_RANGE: list[Any] = [
    pytest.param(lambda n: np.full(n, 40.0), "gave 40, not finite and from 0 to 1", id="percent"),
    pytest.param(lambda n: np.full(n, -0.1), r"gave -0\.1", id="below"),
]


def in_one_line(told: str) -> Any:
    return pytest.raises(BeamUQError, match=rf"\A[^\n]*{told}[^\n]*\Z")


def scored_by(theirs: types.ModuleType, method: Callable[..., Any], *others: str) -> Any:
    theirs.METHOD = Method("Mine", method, "samples", ("weights", "pairs.similarity"))  # type: ignore[attr-defined]
    return score(ROWS, methods=["theirs:METHOD", *others], similarity="lexical")


def compared_by(
    theirs: types.ModuleType, compare: Callable[..., Any], made: Callable[..., Any] = object
) -> Any:
    class Similarity:
        def __init__(self) -> None:
            made()

        def score(self, pairs: list[tuple[str, str]]) -> Any:
            return compare(pairs)

    theirs.Similarity = Similarity  # type: ignore[attr-defined]
    return score(ROWS, methods=["Dissimilarity"], similarity="theirs:Similarity")


def measured_by(theirs: types.ModuleType, metric: Callable[..., Any]) -> Any:
    theirs.metric = metric  # type: ignore[attr-defined]
    return quality_values("theirs:metric", ["a", "b"], [["a"], ["b"]], "squad")


def test_code_that_fails_is_named_with_its_line(theirs: types.ModuleType) -> None:
    told = r"KeyError: .*two.*, .*test_plugins\.py, line \d+"
    with in_one_line(f"method 'Mine': {told}"):
        scored_by(theirs, fails)
    with in_one_line(f"similarity .*Similarity: {told}"):
        compared_by(theirs, fails)
    with in_one_line(f"scorer kind 'theirs:Similarity': {told}"):
        compared_by(theirs, lambda _: None, made=fails)
    with in_one_line(f"quality metric 'theirs:metric': {told}"):
        measured_by(theirs, fails)
    tokenizer = SimpleNamespace(
        name_or_path="models/m", chat_template="{{ x }}", apply_chat_template=fails
    )
    with in_one_line(f"models/m: its chat template: {told}"):
        chat_prompt_ids(tokenizer, "Who?")
    theirs.Policy = fails  # type: ignore[attr-defined]
    recipe = {
        "custom": [{"strategy": "mine M=4", "policy": "theirs:Policy", "options": {"width": 4}}]
    }
    with in_one_line(rf"policy 'theirs:Policy' with options \{{'width': 4\}}: {told}"):
        policies_of(Recipe.model_validate(recipe), None)


@pytest.mark.parametrize(("numbers", "told"), NO_NUMBERS)
def test_what_is_not_one_finite_number_a_question_is_refused(
    numbers: Callable[[int], Any], told: str, theirs: types.ModuleType
) -> None:
    with in_one_line(f"method 'Mine': {told}"):
        scored_by(theirs, lambda e: numbers(len(e.mask)))


@pytest.mark.parametrize(("numbers", "told"), [*NO_NUMBERS[1:3], *OUT_OF_RANGE])
def test_a_similarity_or_quality_outside_0_to_1_is_refused(
    numbers: Callable[[int], Any], told: str, theirs: types.ModuleType
) -> None:
    with in_one_line(f"quality metric 'theirs:metric': {told}"):
        measured_by(theirs, lambda answers, *_: numbers(len(answers)))
    with in_one_line(f"similarity .*Similarity: entail: {told}"):
        compared_by(theirs, lambda pairs: PairScores(numbers(len(pairs))))
    with in_one_line("similarity builtins:object: has no method score"):
        scored(object(), [])  # type: ignore[arg-type]
    with in_one_line(f"similarity .*Similarity: classes: {told}"):
        compared_by(
            theirs, lambda pairs: PairScores(*np.zeros((2, len(pairs))), numbers(len(pairs)))
        )


class Search:
    """A search that does one thing wrong at a time; it asks for the two best tokens once and takes
    both.
    """

    strategy = "mine M=2"

    def __init__(self, **wrong: Any) -> None:
        self.wrong = wrong
        self.nodes = np.array([0])

    def start(self, context: SearchContext) -> Any:
        self.trie = context.trie
        return self.wrong.get("start", lambda: self)()

    def query(self) -> Any:
        return self.wrong.get("query", lambda: DistributionQuery(self.nodes, top=2))()

    def advance(self, query: DistributionQuery) -> None:
        tokens, logprobs = self.wrong.get("said", lambda *of: of)(
            query.tokens[0], query.logprobs[0]
        )
        self.nodes = self.trie.grow(np.array([0, 0]), tokens, logprobs)

    def answers(self, _: int) -> Any:
        return self.wrong.get("found", lambda nodes: [(node, None) for node in nodes])(self.nodes)

    def run(self) -> list[tuple[int, float | None]]:
        stops, steps = np.full(9, self.wrong.get("stops", False)), self.wrong.get("steps", 1)
        context = SearchContext(
            [Prompt("a1", (1,)), Prompt("a2", (1,))], stops, steps, 0, TokenTrie(2)
        )
        search = CheckedSearch(self, context)  # type: ignore[arg-type]
        query = search.query()
        query.tokens, query.logprobs = np.array([[3, 5]]), np.log([[0.5, 0.25]])
        search.advance(query)
        if "again" in self.wrong:
            search.query()
        return search.answers(0)


def queries(**asked: Any) -> dict[str, Any]:
    return {"query": lambda: DistributionQuery(np.array([0]), **asked)}


def edits(token: int, factor: float) -> dict[str, Any]:
    return queries(
        top=2, edits=ProbabilityEdits(np.array([0]), np.array([token]), np.array([factor]))
    )


@pytest.mark.parametrize(
    "asked", [{}, {"stops": True, "steps": 2}, queries(top=2, masses=np.zeros(1)), edits(3, 0.5)]
)
def test_a_search_that_grows_by_what_the_model_said_passes(asked: dict[str, Any]) -> None:
    assert Search(**asked).run() == [(2, None), (3, None)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"start": fails}, "KeyError"),
        ({"query": lambda: None}, "gave a NoneType"),
        ({"query": lambda: DistributionQuery(np.array([7]))}, "a node that the trie has not"),
        (
            {"said": lambda tokens, logprobs: (tokens, logprobs + 0.1)},
            "which the model did not say",
        ),
        (queries(uniforms=np.array([0.5])), "asks for draws; .*must be a search"),
        ({"found": lambda nodes: [(nodes[0], -0.5)]}, "a distribution that they were drawn from"),
        ({"found": lambda nodes: [(nodes[0], None)] * 2}, "finds the same tokens twice for 'a1'"),
        ({"found": lambda _: []}, "finds nothing for 'a1'"),
        ({"found": lambda _: [(0, None)]}, "finds a node of no whole answer for 'a1'"),
        ({"steps": 2, "stops": True, "again": True}, "goes on after a token that ends an answer"),
    ],
)
def test_a_search_that_goes_wrong_is_blamed(wrong: dict[str, Any], told: str) -> None:
    with in_one_line(f"strategy 'mine M=2': .*{told}"):
        Search(**wrong).run()


def test_a_search_cannot_write_to_the_trie_that_all_searches_read() -> None:
    search = Search(found=lambda _: search.trie.total.fill(0.0))
    with in_one_line("strategy 'mine M=2': ValueError: .*read-only"):
        search.run()

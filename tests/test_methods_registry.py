"""The registry: what it holds, how it is added to, what it refuses."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.methods import METHODS, Evidence, Method, compute, register, resolve, stored_variant
from beamuq.methods.evidence_from_tables import Cell


@pytest.fixture
def evidence() -> Evidence:
    tables = synthetic.cell(5)
    cell = Cell(
        tables["questions"], tables["candidates"], tables["similarity"], tables["statistics"], sar_similarity="scorer"
    )
    return cell.evidence("sample T=1.0", "greedy")


@pytest.fixture
def plug_in() -> Iterator[Method]:
    module = types.ModuleType("their_methods")
    module.agreement = Method("Agreement", lambda e: -e.to_produced.max(axis=1), "candidates")  # type: ignore[attr-defined]
    module.nothing = "a string"  # type: ignore[attr-defined]
    sys.modules["their_methods"] = module
    yield module.agreement
    del sys.modules["their_methods"]
    METHODS.pop("Agreement", None)


def test_a_method_from_outside_is_named_by_its_module(plug_in: Method, evidence: Evidence) -> None:
    found = resolve("their_methods:agreement")
    assert found is resolve("their_methods:agreement") is plug_in
    np.testing.assert_allclose(compute(found, evidence), -evidence.to_produced.max(axis=1), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dissimilarty", "unknown name 'Dissimilarty'; did you mean 'Dissimilarity'"),
        ("sar", "did you mean 'SAR'"),
        ("BLEU", "known: Prob, .*, or module:attribute"),
        ("no_such_module:method", "cannot be imported"),
        ("their_methods:absent", "their_methods has no 'absent'"),
        ("their_methods:agrement", "did you mean 'agreement'"),
        ("their_methods:nothing", "is a str"),
    ],
)
@pytest.mark.usefixtures("plug_in")
def test_a_name_that_is_no_method_is_refused(name: str, message: str) -> None:
    with pytest.raises(BeamUQError, match=message):
        resolve(name)


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(BeamUQError, match="'Prob' is registered already"):
        register(Method("Prob", lambda e: e.answer.logprob, "answer"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(bad: float, evidence: Evidence) -> None:
    with pytest.raises(BeamUQError, match="method 'Bad'"):
        compute(Method("Bad", lambda _: np.where(np.arange(5) == 3, bad, 0.0), "answer"), evidence)


def test_a_method_without_its_inputs_is_refused_by_name(evidence: Evidence) -> None:
    for name, lacking in (
        ("CCP", replace(evidence, answer=replace(evidence.answer, ccp=None))),
        ("PTrue", replace(evidence, answer=replace(evidence.answer, p_true_logprob=None))),
        ("MTE", replace(evidence, answer=replace(evidence.answer, mean_entropy=None))),
        ("SAR", replace(evidence, token_sar=None)),
        ("SAR", replace(evidence, sentence_similarity=None)),
        ("SemanticEntropy", replace(evidence, pairs=replace(evidence.pairs, same=None))),
        ("NumSemSets", replace(evidence, pairs=replace(evidence.pairs, contradiction=None))),
        ("LexicalSimilarity", replace(evidence, texts=None)),
    ):
        with pytest.raises(BeamUQError, match=f"method '{name}' needs"):
            compute(METHODS[name], lacking)


def test_scores_equal_up_to_the_order_of_summation_tie(evidence: Evidence) -> None:
    # 0.1 + 0.2 and 0.3 differ in the last bit
    scores = compute(Method("Sum", lambda _: np.array([0.1 + 0.2, 0.3, -0.0, 0.0, 1.0]), "answer"), evidence)
    assert scores[0] == scores[1]
    assert not np.signbit(scores[2])


def test_methods_printed_without_a_variant_are_stored_with_one() -> None:
    assert stored_variant("SemanticEntropy", "") == stored_variant("SAR", "") == "multinomial"
    assert stored_variant("SAR", "beamsearch") == "beamsearch"
    assert stored_variant("Prob", "") == ""

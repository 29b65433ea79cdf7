"""The registry: what it holds, how it is added to, what it refuses."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.log_space_sums import Array
from beamuq.methods import (
    METHODS,
    Evidence,
    Formulation,
    Method,
    compute,
    register,
    registry,
    resolve,
    stored_variant,
)
from beamuq.methods.method_inputs import DERIVED, PARTS, UNKNOWN
from docs_blocks import DOCS


@pytest.fixture
def evidence() -> Evidence:
    return synthetic.evidence("sample T=1.0", 5)


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Method:
    module = types.ModuleType("their_methods")
    module.agreement = Method(  # type: ignore[attr-defined]
        "Agreement", lambda e: -e.to_produced.max(axis=1), "candidates", ("pairs.similarity",)
    )
    module.nothing = "a string"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_methods", module)
    return module.agreement


def test_a_method_from_outside_is_named_by_its_module(plug_in: Method, evidence: Evidence) -> None:
    found = resolve("their_methods:agreement")
    assert found is resolve("their_methods:agreement") is plug_in
    np.testing.assert_allclose(
        compute(found, evidence), -evidence.to_produced.max(axis=1), atol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sar", "unknown name 'sar'; did you mean 'SAR'"),
        ("BLEU", "known: Prob, .*, or module:attribute"),
        ("no_such_module:method", "cannot be imported"),
        ("their_methods:absent", "their_methods has no 'absent'"),
        ("their_methods:agrement", "their_methods has no 'agrement'; did you mean 'agreement'"),
        ("their_methods:nothing", "is a str"),
    ],
)
@pytest.mark.usefixtures("plug_in")
def test_a_name_that_is_no_method_is_refused(name: str, message: str) -> None:
    with pytest.raises(BeamUQError, match=message):
        resolve(name)


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(BeamUQError, match="'Prob' is registered already"):
        register(Method("Prob", lambda e: e.answer.logprob, "answer", ("answer.logprob",)))


def every_formulation() -> list[Any]:
    return [
        pytest.param(
            replace(method, score=of.score, needs=of.needs, range=of.range, formulations={}),
            id=f"{name} {setting}".strip(),
        )
        for name, method in METHODS.items()
        for setting in ("", *method.formulations)
        for of in [method.formulation(setting)]
    ]


def without(evidence: Evidence, part: str) -> Evidence:
    """The same evidence, with one of its parts not known."""
    of, _, name = part.rpartition(".")
    if not of:
        return replace(evidence, **{name: UNKNOWN})
    return replace(evidence, **{of: replace(getattr(evidence, of), **{name: UNKNOWN})})


@pytest.mark.parametrize("method", every_formulation())
def test_a_method_reads_exactly_what_it_declares(method: Method, evidence: Evidence) -> None:
    """No more: it is scored although nothing else is known. No less: each part that it declares is
    read.
    """
    expected = compute(method, evidence)
    bare = evidence
    for part in (
        set(PARTS) - set(method.needs) - {"pairs.identical"}
    ):  # identical texts are part of clusters and linked
        bare = without(bare, part)
    np.testing.assert_array_equal(compute(method, bare), expected)
    for part in method.needs:
        fewer = without(evidence, part)
        with pytest.raises(BeamUQError, match=f"method '{method.name}' needs {re.escape(part)}"):
            compute(method, fewer)
        try:
            found: Any = method.score(fewer)
        except (TypeError, ValueError, AttributeError):
            continue
        assert found is None or not np.array_equal(found, expected)


def test_every_field_of_the_evidence_can_be_declared_or_is_always_known(evidence: Evidence) -> None:
    held = {"": evidence, "answer.": evidence.answer, "pairs.": evidence.pairs}
    names = {prefix + field.name for prefix, of in held.items() for field in fields(of)}
    assert names - {"answer", "pairs"} == {*PARTS, "mask", "alpha", "K", "pairs.mask"}


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        (("log_prob",), "unknown part 'log_prob'; did you mean 'logprob'"),
        (("pairs.clusters",), "'pairs.clusters'; declare pairs.same"),
        (("logits",), "unknown part 'logits'"),
        ("logprob", r"write needs=\('logprob',\)"),
    ],
)
def test_needs_that_are_no_parts_are_refused(needs: tuple[str, ...], message: str) -> None:
    for method in (
        lambda: Method("Mine", lambda e: e.logprob[:, 0], "samples", needs),
        lambda: Method(
            "Mine",
            lambda e: e.mask[:, 0],
            "samples",
            (),
            {"other": Formulation(lambda e: e, needs)},
        ),
    ):
        with pytest.raises(BeamUQError, match=f"method 'Mine': needs.*{message}"):
            method()


def test_an_entry_as_the_page_shows_it_is_all_that_a_method_of_the_package_takes(
    evidence: Evidence,
) -> None:
    page = (DOCS / "extend.md").read_text(encoding="utf-8")
    (entry,) = re.findall(r"<!-- entry -->\n```python\n(.*?)```", page, re.DOTALL)

    def disagreement(similarity: Array, weights: Array) -> Array:
        return np.asarray((weights * (similarity < 0.5)).sum(axis=1))

    exec(entry, {"_add": registry._add, "disagreement": disagreement})
    method = METHODS["Disagreement"]
    assert method.needs == ("pairs.similarity", "weights")
    assert method.variants == ("multinomial", "beamsearch")
    by_hand = [
        sum(w for w, s in zip(weights, similarity, strict=True) if s < 0.5)
        for weights, similarity in zip(evidence.weights, evidence.to_produced, strict=True)
    ]
    np.testing.assert_allclose(compute(method, evidence), by_hand, atol=1e-12)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_every_entry_says_what_it_computes_and_what_it_cannot_see(method: Method) -> None:
    assert method.equation
    assert not method.equation.endswith(".")
    assert method.limits.endswith(".")
    for setting in ("", *method.formulations):
        assert re.fullmatch(r"[\[(].+, .+[\])]", method.formulation(setting).range)


def test_no_method_can_change_what_the_next_one_sees(evidence: Evidence) -> None:
    """The arrays are shared: all are read-only, those made on the way too."""
    for path in {*PARTS, *DERIVED} - {"retained"}:
        found = attrgetter(path)(evidence)
        for array in found if isinstance(found, tuple) else (found,):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = array[0]
    greedy = Method(
        "Greedy", lambda e: e.weights.sort(axis=1) or e.weights[:, 0], "candidates", ("weights",)
    )
    with pytest.raises(BeamUQError, match=r"method 'Greedy': .*read-only"):
        compute(greedy, evidence)


def test_scores_equal_up_to_the_order_of_summation_tie(evidence: Evidence) -> None:
    # 0.1 + 0.2 and 0.3 differ in the last bit
    scores = compute(
        Method("Sum", lambda _: np.array([0.1 + 0.2, 0.3, -0.0, 0.0, 1.0]), "answer"), evidence
    )
    assert scores[0] == scores[1]
    assert not np.signbit(scores[2])


def test_methods_printed_without_a_variant_are_stored_with_one() -> None:
    assert stored_variant("SemanticEntropy", "") == stored_variant("SAR", "") == "multinomial"
    assert stored_variant("SAR", "beamsearch") == "beamsearch"
    assert stored_variant("Prob", "") == ""
    assert stored_variant("Dissimilarity", "unnormalised") == "unnormalised"  # an estimator's

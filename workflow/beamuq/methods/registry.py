"""Every uncertainty method, in one place, by the name that the paper's tables print.

A method is a :class:`Method`: a function of :class:`~beamuq.methods.method_inputs.Evidence` that returns one number a
question, higher where the answer is more uncertain. To add one from outside the package, make a ``Method`` in a module
of your own and name it ``your.module:attribute`` in a study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.methods import consistency, information, rouge, semantic, spectral
from beamuq.methods.array_math import Array
from beamuq.methods.method_inputs import Evidence

Score = Callable[[Evidence], Array]
T = TypeVar("T")
DECIMALS = 12


@dataclass(frozen=True)
class Method:
    """One uncertainty method.

    name
        As in the tables.
    score
        Evidence of N questions → [N], finite, higher = more uncertain.
    looks_at
        ``answer``: the produced answer only; ``samples``: the samples, in one form; ``candidates``: samples or beams,
        so that it has two variants, told apart by the candidates and weights in the evidence alone.
    needs
        What of the evidence may be absent and must not be: dotted names such as ``answer.ccp``.
    readings
        Other readings of the method over samples, by setting (D12).
    """

    name: str
    score: Score
    looks_at: Literal["answer", "samples", "candidates"]
    needs: tuple[str, ...] = ()
    readings: Mapping[str, Score] = field(default_factory=dict)

    @property
    def variants(self) -> tuple[str, ...]:
        return ("multinomial", "beamsearch") if self.looks_at == "candidates" else ("",)


METHODS: dict[str, Method] = {}
STATISTICS = ("answer.ccp", "answer.p_true_logprob", "token_sar")  # needs that the statistics file fills


def register(method: Method) -> Method:
    """Add a method under its name. Raises BeamUQError if the name is taken by another."""
    if METHODS.setdefault(method.name, method) is not method:
        raise BeamUQError(f"method {method.name!r} is registered already; choose another name")
    return method


def resolve(name: str) -> Method:
    """The method that a study names: a key of ``METHODS``, or ``module:attribute`` of a Method outside the package.

    Raises
    ------
    BeamUQError
        If there is no such method.
    """
    if name in METHODS:
        return METHODS[name]
    method: object = plugins.find("methods", name, METHODS)
    if not isinstance(method, Method):
        raise BeamUQError(f"methods: {name!r} is a {type(method).__name__}; make it a beamuq.methods.Method")
    return register(method)


def compute(method: Method, evidence: Evidence, reading: str = "") -> Array:
    """A method's scores [N], rounded to 12 decimals: equal uncertainty must tie whatever the order of summation.

    Raises
    ------
    BeamUQError
        If the evidence lacks what the method needs, or a score is not finite: nothing may rank by accident.
    """
    for need in method.needs:
        part: object = evidence
        for name in need.split("."):
            part = getattr(part, name)
        if part is None:
            raise BeamUQError(
                f"method {method.name!r} needs {need}, which this cell's files do not hold; drop the method"
            )
    scores = (method.readings[reading] if reading else method.score)(evidence)
    if scores.shape != evidence.answer.logprob.shape or not np.isfinite(scores).all():
        raise BeamUQError(f"method {method.name!r} gave {scores.shape} scores, not all finite; mend the method")
    return np.round(scores, DECIMALS) + 0.0


def stored_variant(method: str, printed: str) -> str:
    """The variant under which the tables here hold what the paper prints as ``printed``.

    The paper's main tables print the sampled SAR and Semantic Entropy without a variant; here they are ``multinomial``.
    """
    variants = resolve(method).variants
    return printed if printed in variants else variants[0]


def _given(part: T | None) -> T:
    """A part of the evidence that the method's ``needs`` vouch for."""
    assert part is not None
    return part


def _cocoa(answer_uncertainty: Score) -> Score:
    return lambda e: consistency.cocoa(answer_uncertainty(e), _dissimilarity(e))


def _prob(e: Evidence) -> Array:
    return information.prob(e.answer.logprob)


def _perplexity(e: Evidence) -> Array:
    return information.perplexity(e.answer.logprob, e.answer.length)


def _dissimilarity(e: Evidence) -> Array:
    return consistency.dissimilarity(e.to_produced, e.weights)


for _method in (
    Method("Prob", _prob, "answer"),
    Method("MTE", lambda e: _given(e.answer.mean_entropy), "answer", ("answer.mean_entropy",)),
    Method("Perplexity", _perplexity, "answer"),
    Method("CCP", lambda e: _given(e.answer.ccp), "answer", ("answer.ccp",)),
    Method(
        "PTrue", lambda e: information.p_true(_given(e.answer.p_true_logprob)), "answer", ("answer.p_true_logprob",)
    ),
    Method(
        "SemanticEntropy",
        lambda e: semantic.semantic_entropy(_given(e.pairs.clusters), e.weights),
        "candidates",
        ("pairs.clusters",),
        readings={
            "printed": lambda e: semantic.semantic_entropy_printed(_given(e.pairs.clusters), e.weights),
            "likelihood-summed": lambda e: semantic.semantic_entropy_likelihood(
                _given(e.pairs.clusters), e.logprob, e.mask
            ),
        },
    ),
    Method(
        "SAR",
        lambda e: semantic.sar(_given(e.token_sar), _given(e.sentence_similarity), e.weights, e.mask),
        "candidates",
        ("token_sar", "sentence_similarity"),
    ),
    Method(
        "LexicalSimilarity",
        lambda e: rouge.lexical_similarity(rouge.rouge_matrix(_given(e.texts)[:, 1:], e.mask), e.mask),
        "samples",
        ("texts",),
    ),
    Method("EigValLaplacian", lambda e: spectral.eigval_laplacian(e.among, e.mask), "samples"),
    Method("NumSemSets", lambda e: spectral.num_sem_sets(_given(e.pairs.linked), e.mask), "samples", ("pairs.linked",)),
    Method("Dissimilarity", _dissimilarity, "candidates"),
    Method(
        "Eccentricity",
        lambda e: spectral.eccentricity(e.pairs.spectrum[1], e.retained, e.weights),
        "candidates",
    ),
    Method(
        "EigVecDissimilarity",
        lambda e: spectral.eigvec_dissimilarity(e.pairs.spectrum[1], e.retained, e.weights),
        "candidates",
    ),
    Method("CocoaMSP", _cocoa(_prob), "candidates"),
    Method("CocoaPPL", _cocoa(_perplexity), "candidates"),
    Method("DegreeMatrix", lambda e: consistency.degree_matrix(e.among, e.weights), "candidates"),
):
    register(_method)

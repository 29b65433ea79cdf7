"""Every uncertainty method, in one place, by the name that the paper's tables print.

A method is a :class:`Method`: a function of :class:`~beamuq.methods.method_inputs.Evidence` that returns one number a
question, higher where the answer is more uncertain, and the parts of the evidence that it reads. To add one from
outside the package, make a ``Method`` in a module of your own and name it ``your.module:attribute`` in a study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from beamuq import plugins
from beamuq.errors import BeamUQError, hint
from beamuq.methods import answer_probability, dissimilarity_cocoa, rouge, semantic_entropy_sar, spectral
from beamuq.methods.log_space_sums import Array
from beamuq.methods.method_inputs import Answer, Evidence
from beamuq.methods.needs_of_methods import check_needs, missing_part

Score = Callable[[Evidence], Array]
Scope = Literal["answer", "samples", "candidates"]
DECIMALS = 12
DIRECTION = "higher = more uncertain"


FACTORS: dict[str, Callable[[Answer], Array]] = {
    "Dissimilarity": lambda answer: np.ones_like(answer.logprob),
    "CocoaMSP": lambda answer: answer_probability.prob(answer.logprob),
    "CocoaPPL": lambda answer: answer_probability.perplexity(answer.logprob, answer.length),
}
"""What each method that is linear in U multiplies it by: an estimator of U is one of theirs."""


@dataclass(frozen=True)
class Formulation:
    """One way to write a method down: a function of the evidence, the parts of it that it reads, its scores' range."""

    score: Score
    needs: tuple[str, ...]
    range: str = "not stated"


@dataclass(frozen=True)
class Method:
    """One uncertainty method.

    name
        As in the tables.
    score
        Evidence of N questions → [N], finite, higher = more uncertain.
    scope
        ``answer``: the produced answer only; ``samples``: the samples, in one form; ``candidates``: samples or beams,
        so that it has two variants, distinguished by the candidates and weights in the evidence alone.
    needs
        All parts of the evidence that the function reads, by the names of
        ``beamuq.methods.needs_of_methods.PARTS``, such as ``answer.logprob``; where one is not known there is no score.
    formulations
        Other formulations of the method over samples, by setting, such as three Semantic Entropies.
    range
        In which its scores lie, closed at square brackets, such as ``[0, log M]``; M is the number of candidates.
    limits
        Where its scores mislead, in a sentence or two.

    Raises BeamUQError if the scope is unknown or a name in ``needs`` is no part of the evidence.
    """

    name: str
    score: Score
    scope: Scope
    needs: tuple[str, ...] = ()
    formulations: Mapping[str, Formulation] = field(default_factory=dict)
    range: str = "not stated"
    limits: str = ""

    def __post_init__(self) -> None:
        if self.scope not in (scopes := get_args(Scope)):
            raise BeamUQError(f"method {self.name!r}: scope {self.scope!r}: unknown; {hint(str(self.scope), scopes)}")
        for setting in ("", *self.formulations):
            check_needs(self.name, self.formulation(setting).needs)

    @property
    def variants(self) -> tuple[str, ...]:
        """The forms under which its scores are stored."""
        return ("multinomial", "beamsearch") if self.scope == "candidates" else ("",)

    @property
    def all_needs(self) -> frozenset[str]:
        """The parts that any of its formulations reads."""
        return frozenset(need for name in ("", *self.formulations) for need in self.formulation(name).needs)

    def formulation(self, setting: str = "") -> Formulation:
        """The formulation under a setting; "" is the method as the paper uses it."""
        return self.formulations[setting] if setting else Formulation(self.score, self.needs, self.range)


METHODS: dict[str, Method] = {}
TITLES = {
    "PTrue": "P(True)",
    "SemanticEntropy": "Semantic Entropy",
    "LexicalSimilarity": "Lexical Similarity",
    "DegreeMatrix": "Degree Matrix",
}
"""What a reader sees of a method whose name is not that already."""
PRINTED_VARIANTS = ("", "multinomial", "beamsearch")
JUDGEMENTS = ("answer.ccp", "answer.p_true_logprob", "token_sar")  # needs that the judgements file fills


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


def compute(method: Method, evidence: Evidence, setting: str = "") -> Array:
    """A method's scores [N], rounded to 12 decimals: equal uncertainty must tie whatever the order of summation.

    ``setting`` names one of the method's further formulations.

    Raises
    ------
    BeamUQError
        If the evidence lacks what the method needs, if the method fails, or if it gives anything but one finite number
        a question: nothing may rank by accident.
    """
    formulation = method.formulation(setting)
    missing = missing_part(formulation.needs, evidence)
    if missing:
        raise BeamUQError(
            f"method {method.name!r} needs {missing}, which this cell's files do not hold; drop the method"
        )
    what = f"method {method.name!r}"
    values = plugins.call(what, formulation.score, evidence)
    return np.asarray(np.round(plugins.numbers(what, values, evidence.mask.shape[:1]), DECIMALS) + 0.0)


def stored_variant(method: str, printed: str) -> str:
    """The variant in this package's tables of the paper's variant ``printed``.

    The paper's main tables print the sampled SAR and Semantic Entropy without a variant; here they are ``multinomial``.
    A variant the paper lacks, an estimator's, is its own, and so is any of a method that is not registered: a
    plug-in's where nothing has loaded it.
    """
    variants = METHODS[method].variants if method in METHODS else (printed,)
    return variants[0] if printed in PRINTED_VARIANTS and printed not in variants else printed


def _of_the_paper(
    name: str,
    scope: Scope,
    score_range: str,
    *needs: str,
    formulations: Mapping[str, Formulation] | None = None,
) -> Callable[[Score], Score]:
    """Register the function below as a method of the paper; its docstring says where the scores mislead."""

    def registered(score: Score) -> Score:
        limits = " ".join((score.__doc__ or "").split())
        register(Method(name, score, scope, needs, formulations or {}, score_range, limits))
        return score

    return registered


@_of_the_paper("Prob", "answer", "[0, ∞)", "answer.logprob")
def _prob(e: Evidence) -> Array:
    """Grows with length: a long answer looks uncertain. Blind to other ways to say the same."""
    return answer_probability.prob(e.answer.logprob)


@_of_the_paper("MTE", "answer", "[0, ∞)", "answer.mean_entropy")
def _mean_token_entropy(e: Evidence) -> Array:
    """At most log of the vocabulary's size. Counts a choice between two wordings as uncertainty."""
    return e.answer.mean_entropy


@_of_the_paper("Perplexity", "answer", "[0, ∞)", "answer.logprob", "answer.length")
def _perplexity(e: Evidence) -> Array:
    """A mean over tokens: one doubtful token in a long answer is diluted."""
    return answer_probability.perplexity(e.answer.logprob, e.answer.length)


@_of_the_paper("CCP", "answer", "[0, 1]", "answer.ccp")
def _ccp(e: Evidence) -> Array:
    """Needs an NLI label of every alternative token: made by a study's judgements, not from texts."""
    return e.answer.ccp


@_of_the_paper("PTrue", "answer", "[0, ∞)", "answer.p_true_logprob")
def _p_true(e: Evidence) -> Array:
    """Asks the model about itself; in the paper its mean PRR is .013, near that of a random order."""
    return answer_probability.p_true(e.answer.p_true_logprob)


@_of_the_paper(
    "SemanticEntropy",
    "candidates",
    "[0, log M]",
    *("pairs.same", "weights"),
    formulations={
        "printed": Formulation(
            lambda e: semantic_entropy_sar.semantic_entropy_printed(e.pairs.clusters, e.weights),
            ("pairs.same", "weights"),
            "[0, ∞)",
        ),
        "likelihood-summed": Formulation(
            lambda e: semantic_entropy_sar.semantic_entropy_likelihood(e.pairs.clusters, e.logprob, e.mask),
            ("pairs.same", "logprob"),
            "(-∞, ∞)",
        ),
    },
)
def _semantic_entropy(e: Evidence) -> Array:
    """Says how uncertain the question is, not this answer. Rests on a yes-or-no judgement of same meaning: on the
    scorer's classes or its threshold.
    """
    return semantic_entropy_sar.semantic_entropy(e.pairs.clusters, e.weights)


@_of_the_paper("SAR", "candidates", "(-∞, ∞)", "token_sar", "sentence_similarity", "weights")
def _sar(e: Evidence) -> Array:
    """Needs the relevance of every token of every candidate, which a study's judgements hold."""
    return semantic_entropy_sar.sar(e.token_sar, e.sentence_similarity, e.weights, e.mask)


@_of_the_paper("LexicalSimilarity", "samples", "[0, 1]", "texts")
def _lexical_similarity(e: Evidence) -> Array:
    """Counts shared words: paraphrases look like disagreement, negations do not."""
    return rouge.lexical_similarity(rouge.rouge_matrix(e.texts[:, 1:], e.mask), e.mask)


@_of_the_paper("EigValLaplacian", "samples", "[1, M]", "pairs.similarity")
def _eigval_laplacian(e: Evidence) -> Array:
    """Of the question, not of this answer: it never looks at the produced answer."""
    return spectral.eigval_laplacian(e.among, e.mask)


@_of_the_paper("NumSemSets", "samples", "[1, M]", "pairs.similarity", "pairs.contradiction")
def _num_sem_sets(e: Evidence) -> Array:
    """Whole numbers, so many ties; one wrong entailment joins two sets."""
    return spectral.num_sem_sets(e.pairs.linked, e.mask)


@_of_the_paper("Dissimilarity", "candidates", "[0, 1]", "pairs.similarity", "weights")
def _dissimilarity(e: Evidence) -> Array:
    """As good as the similarity. With beams: blind to what lies outside the beam set."""
    return dissimilarity_cocoa.dissimilarity(e.to_produced, e.weights)


@_of_the_paper("Eccentricity", "candidates", "[0, 2]", "pairs.similarity", "weights")
def _eccentricity(e: Evidence) -> Array:
    """A jump where an eigenvalue crosses alpha; 0 where all similarities are equal."""
    return spectral.eccentricity(e.pairs.spectrum[1], e.retained, e.weights)


@_of_the_paper("EigVecDissimilarity", "candidates", "[0, 2]", "pairs.similarity", "weights")
def _eigvec_dissimilarity(e: Evidence) -> Array:
    """As Eccentricity; never less than it, since it adds the candidates' spread."""
    return spectral.eigvec_dissimilarity(e.pairs.spectrum[1], e.retained, e.weights)


@_of_the_paper("CocoaMSP", "candidates", "[0, ∞)", "answer.logprob", "pairs.similarity", "weights")
def _cocoa_msp(e: Evidence) -> Array:
    """A product: 0 where the candidates agree, however improbable the answer."""
    return dissimilarity_cocoa.cocoa(_prob(e), _dissimilarity(e))


@_of_the_paper("CocoaPPL", "candidates", "[0, ∞)", "answer.logprob", "answer.length", "pairs.similarity", "weights")
def _cocoa_ppl(e: Evidence) -> Array:
    """As CocoaMSP, with the log-probability per token."""
    return dissimilarity_cocoa.cocoa(_perplexity(e), _dissimilarity(e))


@_of_the_paper("DegreeMatrix", "candidates", "[0, 1]", "pairs.similarity", "weights")
def _degree_matrix(e: Evidence) -> Array:
    """Of the question, not of this answer: it never looks at the produced answer."""
    return dissimilarity_cocoa.degree_matrix(e.among, e.weights)

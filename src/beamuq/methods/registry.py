"""Every uncertainty method, in one place, by the name that the paper's tables print.

A method is a :class:`Method`: a function of :class:`~beamuq.methods.method_inputs.Evidence` that
returns one number a question, higher where the answer is more uncertain, and the parts of the
evidence that it reads. To add one from outside the package, make a ``Method`` in a module of your
own and name it ``your.module:attribute`` in a study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, get_args

import numpy as np

from beamuq import plugins
from beamuq.errors import BeamUQError, hint
from beamuq.methods import semantic_entropy_sar, spectral
from beamuq.methods.answer_probability import p_true, perplexity, prob
from beamuq.methods.dissimilarity_cocoa import cocoa, degree_matrix, dissimilarity
from beamuq.methods.log_space_sums import Array, Index
from beamuq.methods.method_inputs import DERIVED, PARTS, Answer, Evidence, check_needs, missing_part
from beamuq.methods.rouge import lexical_similarity_of_texts
from beamuq.methods.semantic_entropy_sar import sar, semantic_entropy

Score = Callable[[Evidence], Array]
Scope = Literal["answer", "samples", "candidates"]
DECIMALS = 12
DIRECTION = "higher = more uncertain"


FACTORS: dict[str, Callable[[Answer], Array]] = {
    "Dissimilarity": lambda answer: np.ones_like(answer.logprob),
    "CocoaMSP": lambda answer: prob(answer.logprob),
    "CocoaPPL": lambda answer: perplexity(answer.logprob, answer.length),
}
"""What each method that is linear in U multiplies it by: an estimator of U is one of theirs."""


@dataclass(frozen=True)
class Formulation:
    """One way to write a method down: a function of the evidence, the parts of it that it reads,
    its scores' range.
    """

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
        ``answer``: the produced answer only; ``samples``: the samples, in one form; ``candidates``:
        samples or beams, so that it has two variants, distinguished by the candidates and weights
        in the evidence alone.
    needs
        All parts of the evidence that the function reads, by the names of
        ``beamuq.methods.method_inputs.PARTS``, such as ``answer.logprob``; where one is not known
        there is no score.
    formulations
        Other formulations of the method over samples, by setting, such as three Semantic Entropies.
    range
        In which its scores lie, closed at square brackets, such as ``[0, log M]``; M is the number
        of candidates.
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
            raise BeamUQError(
                f"method {self.name!r}: scope {self.scope!r}: unknown; "
                f"{hint(str(self.scope), scopes)}"
            )
        for setting in ("", *self.formulations):
            check_needs(self.name, self.formulation(setting).needs)

    @property
    def variants(self) -> tuple[str, ...]:
        """The forms under which its scores are stored."""
        return ("multinomial", "beamsearch") if self.scope == "candidates" else ("",)

    @property
    def all_needs(self) -> frozenset[str]:
        """The parts that any of its formulations reads."""
        return frozenset(
            need for name in ("", *self.formulations) for need in self.formulation(name).needs
        )

    def formulation(self, setting: str = "") -> Formulation:
        """The formulation under a setting; "" is the method as the paper uses it."""
        return (
            self.formulations[setting]
            if setting
            else Formulation(self.score, self.needs, self.range)
        )


METHODS: dict[str, Method] = {}
TITLES = {
    "PTrue": "P(True)",
    "SemanticEntropy": "Semantic Entropy",
    "LexicalSimilarity": "Lexical Similarity",
    "DegreeMatrix": "Degree Matrix",
}
"""What a reader sees of a method whose name is not that already."""
PRINTED_VARIANTS = ("", "multinomial", "beamsearch")
JUDGEMENTS = (
    "answer.ccp",
    "answer.p_true_logprob",
    "token_sar",
)  # needs that the judgements file fills


def register(method: Method) -> Method:
    """Add a method under its name. Raises BeamUQError if the name is taken by another."""
    if METHODS.setdefault(method.name, method) is not method:
        raise BeamUQError(f"method {method.name!r} is registered already; choose another name")
    return method


def resolve(name: str) -> Method:
    """The method that a study names: a key of ``METHODS``, or ``module:attribute`` of a Method
    outside the package.

    Raises BeamUQError if there is no such method.
    """
    method: object = plugins.find("methods", name, METHODS)
    if not isinstance(method, Method):
        raise BeamUQError(
            f"methods: {name!r} is a {type(method).__name__}; make it a beamuq.methods.Method"
        )
    return method if name in METHODS else register(method)


def compute(method: Method, evidence: Evidence, setting: str = "") -> Array:
    """A method's scores [N], rounded to 12 decimals: equal uncertainty must tie whatever the order
    of summation.

    ``setting`` names one of the method's further formulations.

    Raises BeamUQError if the evidence lacks what the method needs, or the method fails or gives
    anything but one finite number a question: nothing may rank by accident.
    """
    formulation = method.formulation(setting)
    if missing := missing_part(formulation.needs, evidence):
        raise BeamUQError(
            f"method {method.name!r} needs {missing}, which this cell's files do not hold; drop "
            "the method"
        )
    what = f"method {method.name!r}"
    values = plugins.call(what, formulation.score, evidence)
    return np.asarray(
        np.round(plugins.numbers(what, values, evidence.mask.shape[:1]), DECIMALS) + 0.0
    )


def stored_variant(method: str, printed: str) -> str:
    """The variant in this package's tables of the paper's variant ``printed``.

    The paper's main tables print the sampled SAR and Semantic Entropy without a variant; here they
    are ``multinomial``. A variant the paper lacks, an estimator's, is its own, and so is any of a
    method that is not registered: a plug-in's where nothing has loaded it.
    """
    variants = METHODS[method].variants if method in METHODS else (printed,)
    return variants[0] if printed in PRINTED_VARIANTS and printed not in variants else printed


LIMITS = {
    "Prob": (
        "Grows with length: a long answer looks uncertain. Blind to other ways to say the same."
    ),
    "MTE": (
        "At most log of the vocabulary's size. Counts a choice between two wordings as uncertainty."
    ),
    "Perplexity": "A mean over tokens: one doubtful token in a long answer is diluted.",
    "CCP": (
        "Needs an NLI label of every alternative token: made by a study's judgements, not from "
        "texts."
    ),
    "PTrue": (
        "Asks the model about itself; in the paper its mean PRR is .013, near that of a random "
        "order."
    ),
    "SemanticEntropy": (
        "Says how uncertain the question is, not this answer. Rests on a yes-or-no judgement of "
        "same "
        "meaning: on the scorer's classes or its threshold."
    ),
    "SAR": (
        "Needs the relevance of every token of every candidate, which a study's judgements hold."
    ),
    "LexicalSimilarity": (
        "Counts shared words: paraphrases look like disagreement, negations do not."
    ),
    "EigValLaplacian": (
        "Of the question, not of this answer: it never looks at the produced answer."
    ),
    "NumSemSets": "Whole numbers, so many ties; one wrong entailment joins two sets.",
    "Dissimilarity": (
        "As good as the similarity. With beams: blind to what lies outside the beam set."
    ),
    "Eccentricity": (
        "A jump where an eigenvalue crosses alpha: equal similarities give 0 if high, 1 + 1/M if "
        "low."
    ),
    "EigVecDissimilarity": (
        "As Eccentricity; never less than it, since it adds the candidates' spread."
    ),
    "CocoaMSP": "A product: 0 where the candidates agree, however improbable the answer.",
    "CocoaPPL": "As CocoaMSP, with the log-probability per token.",
    "DegreeMatrix": "Of the question, not of this answer: it never looks at the produced answer.",
}


def _formulation(score_range: str, function: Callable[..., Array], *reads: str) -> Formulation:
    """A function of the parts of the evidence that it ``reads``, with the needs that follow from
    them.
    """
    needs = dict.fromkeys(
        part for name in reads for part in DERIVED.get(name, (name,)) if part in PARTS
    )

    def score(evidence: Evidence) -> Array:
        return function(*(attrgetter(name)(evidence) for name in reads))

    return Formulation(score, tuple(needs), score_range)


def _add(
    name: str,
    scope: Scope,
    score_range: str,
    function: Callable[..., Array],
    *reads: str,
    formulations: Mapping[str, Formulation] | None = None,
) -> None:
    """Register a method of the paper."""
    usual = _formulation(score_range, function, *reads)
    register(
        Method(name, usual.score, scope, usual.needs, formulations or {}, score_range, LIMITS[name])
    )


def _cocoa_msp(logprob: Array, similarity: Array, weights: Array) -> Array:
    return cocoa(prob(logprob), dissimilarity(similarity, weights))


def _cocoa_ppl(logprob: Array, length: Index, similarity: Array, weights: Array) -> Array:
    return cocoa(perplexity(logprob, length), dissimilarity(similarity, weights))


_CLUSTERED = ("pairs.clusters", "weights")
_TO_PRODUCED = ("to_produced", "weights")
_EMBEDDED = ("pairs.spectrum", "retained", "weights")
_OTHER_ENTROPIES = {
    "printed": _formulation("[0, ∞)", semantic_entropy_sar.semantic_entropy_printed, *_CLUSTERED),
    "likelihood-summed": _formulation(
        "(-∞, ∞)",
        semantic_entropy_sar.semantic_entropy_likelihood,
        "pairs.clusters",
        "logprob",
        "mask",
    ),
}

_add("Prob", "answer", "[0, ∞)", prob, "answer.logprob")
_add("MTE", "answer", "[0, ∞)", np.asarray, "answer.mean_entropy")
_add("Perplexity", "answer", "[0, ∞)", perplexity, "answer.logprob", "answer.length")
_add("CCP", "answer", "[0, 1]", np.asarray, "answer.ccp")
_add("PTrue", "answer", "[0, ∞)", p_true, "answer.p_true_logprob")
_add(
    "SemanticEntropy",
    "candidates",
    "[0, log M]",
    semantic_entropy,
    *_CLUSTERED,
    formulations=_OTHER_ENTROPIES,
)
_add("SAR", "candidates", "(-∞, ∞)", sar, "token_sar", "sentence_similarity", "weights", "mask")
_add("LexicalSimilarity", "samples", "[0, 1]", lexical_similarity_of_texts, "texts", "mask")
_add("EigValLaplacian", "samples", "[1, M]", spectral.eigval_laplacian, "among", "mask")
_add("NumSemSets", "samples", "[1, M]", spectral.num_sem_sets, "pairs.linked", "mask")
_add("Dissimilarity", "candidates", "[0, 1]", dissimilarity, *_TO_PRODUCED)
_add(
    "Eccentricity",
    "candidates",
    "[0, 2]",
    lambda s, *o: spectral.eccentricity(s[1], *o),
    *_EMBEDDED,
)
_add(
    "EigVecDissimilarity",
    "candidates",
    "[0, 2]",
    lambda s, *o: spectral.eigvec_dissimilarity(s[1], *o),
    *_EMBEDDED,
)
_add("CocoaMSP", "candidates", "[0, ∞)", _cocoa_msp, "answer.logprob", *_TO_PRODUCED)
_add(
    "CocoaPPL", "candidates", "[0, ∞)", _cocoa_ppl, "answer.logprob", "answer.length", *_TO_PRODUCED
)
_add("DegreeMatrix", "candidates", "[0, 1]", degree_matrix, "among", "weights")

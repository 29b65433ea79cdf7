"""Every uncertainty method, one entry each, by the name that the paper's tables print.

A method is a :class:`Method`: a function of :class:`~beamuq.methods.method_inputs.Evidence` that
returns one number a question, higher where the answer is more uncertain, and the parts of the
evidence that it reads. To add one from outside the package, make a ``Method`` in a module of your
own and name it ``your.module:attribute`` in a study. To add one to the package, write its function
of arrays in a module of this folder, and its entry by :func:`_add` below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, get_args

import numpy as np

from beamuq import plugins
from beamuq.errors import BeamUQError, hint
from beamuq.log_space_sums import Array
from beamuq.methods import spectral
from beamuq.methods.answer_probability import computed_before, p_true, perplexity, prob
from beamuq.methods.beam_probabilities import beam_entropy, g_nll, pro, probability_margin
from beamuq.methods.dissimilarity_cocoa import (
    cocoa_msp,
    cocoa_ppl,
    degree_matrix,
    dissimilarity,
)
from beamuq.methods.method_inputs import DERIVED, PARTS, Answer, Evidence, check_needs, missing_part
from beamuq.methods.rouge import lexical_similarity_of_texts
from beamuq.methods.semantic_entropy_sar import (
    sar,
    semantic_entropy,
    semantic_entropy_likelihood,
    semantic_entropy_printed,
)

Score = Callable[[Evidence], Array]
Scope = Literal["answer", "samples", "beams", "candidates"]
DECIMALS = 12
DIRECTION = "higher = more uncertain"
PRINTED_VARIANTS = ("", "multinomial", "beamsearch")
JUDGEMENTS = ("answer.ccp", "answer.p_true_logprob", "token_sar")
"""The needs that the judgements file fills."""


@dataclass(frozen=True)
class Formulation:
    """One way to write a method down: a function of the evidence, the parts that it reads, a range.

    The range is that of its scores.
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
        ``answer``: the produced answer only; ``samples``: the samples, in one form; ``beams``:
        distinct outcomes of a search, in one form, from their probabilities; ``candidates``:
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
    equation
        What it computes, as the page of methods prints it.
    title
        What a reader sees of a method whose name is not that already.
    least_candidates
        Fewer of them than this give no score, since one would say nothing.

    Raises BeamUQError if the scope is unknown or a name in ``needs`` is no part of the evidence.
    """

    name: str
    score: Score
    scope: Scope
    needs: tuple[str, ...] = ()
    formulations: Mapping[str, Formulation] = field(default_factory=dict)
    range: str = "not stated"
    limits: str = ""
    equation: str = ""
    title: str = ""
    least_candidates: int = 0

    def __post_init__(self) -> None:
        scopes = get_args(Scope)
        if self.scope not in scopes:
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
        if setting:
            return self.formulations[setting]
        return Formulation(self.score, self.needs, self.range)


METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method under its name. Raises BeamUQError if the name is taken by another."""
    if METHODS.setdefault(method.name, method) is not method:
        raise BeamUQError(f"method {method.name!r} is registered already; choose another name")
    return method


def resolve(name: str) -> Method:
    """The method that a study names: a key of ``METHODS``, or ``module:attribute`` of one's own.

    Raises BeamUQError if there is no such method.
    """
    method: object = plugins.find("methods", name, METHODS)
    if not isinstance(method, Method):
        raise BeamUQError(
            f"methods: {name!r} is a {type(method).__name__}; make it a beamuq.methods.Method"
        )
    return method if name in METHODS else register(method)


def compute(method: Method, evidence: Evidence, setting: str = "") -> Array:
    """A method's scores [N], rounded to 12 decimals.

    Equal uncertainty must tie whatever the order of summation. ``setting`` names one of the
    method's further formulations.

    Raises BeamUQError if the evidence lacks what the method needs, or the method fails or gives
    anything but one finite number a question: nothing may rank by accident.
    """
    formulation = method.formulation(setting)
    missing = missing_part(formulation.needs, evidence)
    if missing is not None:
        raise BeamUQError(
            f"method {method.name!r} needs {missing}, which this cell's files do not hold; drop "
            "the method"
        )
    what = f"method {method.name!r}"
    scores = plugins.call(what, formulation.score, evidence)
    values = plugins.numbers(what, scores, evidence.mask.shape[:1])
    return np.asarray(np.round(values, DECIMALS) + 0.0)  # no −0.0


def candidates_of(method: Method, variant: str) -> str:
    """What a method compares the answer with in a form: ``answer`` (itself), samples or beams."""
    if variant == "beamsearch" or method.scope == "beams":
        return "beams"
    return "answer" if method.scope == "answer" else "samples"


def stored_variant(method: str, printed: str) -> str:
    """The variant in this package's tables of the paper's variant ``printed``.

    The paper's main tables print the sampled SAR and Semantic Entropy without a variant; here they
    are ``multinomial``. A variant the paper lacks, an estimator's, is its own, and so is any of a
    method that is not registered: a plug-in's where nothing has loaded it.
    """
    if method not in METHODS or printed not in PRINTED_VARIANTS:
        return printed
    variants = METHODS[method].variants
    return printed if printed in variants else variants[0]


def _of_parts(function: Callable[..., Array], reads: tuple[str, ...], range: str) -> Formulation:
    """A function of the parts of the evidence that it ``reads``, in the order of its arguments.

    Its needs follow from them: those of a derived part, and nothing for what is always known.
    """
    needs: dict[str, None] = {}
    for name in reads:
        for part in DERIVED.get(name, (name,)):
            if part in PARTS:
                needs[part] = None

    def score(evidence: Evidence) -> Array:
        return function(*(attrgetter(name)(evidence) for name in reads))

    return Formulation(score, tuple(needs), range)


def _add(
    name: str,
    function: Callable[..., Array],
    *,
    reads: tuple[str, ...],
    scope: Scope,
    range: str,
    equation: str,
    limits: str,
    formulations: Mapping[str, Formulation] | None = None,
    title: str = "",
    least_candidates: int = 0,
) -> None:
    """Register a method: a ``function`` of the arrays that it ``reads`` from the evidence.

    The rest is as for :class:`Method`.
    """
    usual = _of_parts(function, reads, range)
    register(
        Method(
            name,
            usual.score,
            scope,
            usual.needs,
            formulations or {},
            range,
            limits,
            equation,
            title,
            least_candidates,
        )
    )


# -- of the answer alone ---------------------------------------------------------------------------

_add(
    "Prob",
    prob,
    reads=("answer.logprob",),
    scope="answer",
    range="[0, ∞)",
    equation="−log p(y*|x), in nats (eq. msp)",
    limits="Grows with length: a long answer looks uncertain. Blind to other ways to say the same.",
)
_add(
    "MTE",
    computed_before,
    reads=("answer.mean_entropy",),
    scope="answer",
    range="[0, ∞)",
    equation="The mean over tokens of the entropy of the next-token distribution (eq. entropy)",
    limits=(
        "At most log of the vocabulary's size. Counts a choice between two wordings as uncertainty."
    ),
)
_add(
    "Perplexity",
    perplexity,
    reads=("answer.logprob", "answer.length"),
    scope="answer",
    range="[0, ∞)",
    equation="−(1/L) log p(y*|x) (eq. ppl): the logarithm of what is usually called so",
    limits="A mean over tokens: one doubtful token in a long answer is diluted.",
)
_add(
    "CCP",
    computed_before,
    reads=("answer.ccp",),
    scope="answer",
    range="[0, 1]",
    equation=("1 − Π_l P(alternatives entailing token l) / P(those entailing or contradicting it)"),
    limits=(
        "Needs an NLI label of every alternative token: made by a study's judgements, not from "
        "texts."
    ),
)
_add(
    "PTrue",
    p_true,
    reads=("answer.p_true_logprob",),
    scope="answer",
    range="[0, ∞)",
    equation='−log p("True" | question, answer, "is it true?")',
    limits=(
        "Asks the model about itself; in the paper its mean PRR is .013, near that of a random "
        "order."
    ),
    title="P(True)",
)

# -- of the question, from candidates --------------------------------------------------------------

_add(
    "SemanticEntropy",
    semantic_entropy,
    reads=("pairs.clusters", "weights"),
    scope="candidates",
    range="[0, log M]",
    equation="−Σ_c p̂(c) log p̂(c) with p̂(c) = Σ_{i∈c} w_i (appendix)",
    limits=(
        "Says how uncertain the question is, not this answer. Rests on a yes-or-no judgement of "
        "same meaning: on the scorer's classes or its threshold."
    ),
    formulations={
        "printed": _of_parts(
            semantic_entropy_printed, ("pairs.clusters", "weights"), range="[0, ∞)"
        ),
        "likelihood-summed": _of_parts(
            semantic_entropy_likelihood, ("pairs.clusters", "logprob", "mask"), range="(-∞, ∞)"
        ),
    },
    title="Semantic Entropy",
)
_add(
    "SAR",
    sar,
    reads=("token_sar", "sentence_similarity", "weights", "mask"),
    scope="candidates",
    range="(-∞, ∞)",
    equation=(
        "−Σ_i w_i log(q_i + (1/t) Σ_{k≠i} s_ik q_k) with q_i = exp(−TokenSAR_i), the "
        "relevance-weighted probabilities, and t = 0.001 (appendix)"
    ),
    limits=(
        "Needs the relevance of every token of every candidate, which a study's judgements hold."
    ),
)
_add(
    "LexicalSimilarity",
    lexical_similarity_of_texts,
    reads=("texts", "mask"),
    scope="samples",
    range="[0, 1]",
    equation="1 − the mean similarity of the M(M−1)/2 pairs of candidates, by ROUGE-L (eq. lsrl)",
    limits=(
        "Counts shared words: paraphrases look like disagreement, negations do not. One sample has "
        "no pair, and no score; in a study it has 0."
    ),
    title="Lexical Similarity",
    least_candidates=2,
)
_add(
    "EigValLaplacian",
    spectral.eigval_laplacian,
    reads=("among", "mask"),
    scope="samples",
    range="[1, M]",
    equation=(
        'Σ_i max(0, 1 − λ_i) over the candidates\' own graph (appendix, "Sum of Eigenvalues")'
    ),
    limits="Of the question, not of this answer: it never looks at the produced answer.",
)
_add(
    "NumSemSets",
    spectral.num_sem_sets,
    reads=("pairs.linked", "mask"),
    scope="samples",
    range="[1, M]",
    equation="The number of connected components of the candidates' graph (appendix)",
    limits="Whole numbers, so many ties; one wrong entailment joins two sets.",
)

# -- of the question, from the probabilities of beams ----------------------------------------------

_add(
    "PRO",
    pro,
    reads=("logprob", "mask"),
    scope="beams",
    range="[0, ∞)",
    equation=(
        "−log p_K − Σ_i p_i log(p_i / p_K), p_i the unnormalised probabilities of the K beams, p_K "
        "the least (arXiv 2511.07694)"
    ),
    limits=(
        "Takes wordings for meanings: the same answer in two spellings looks uncertain. Grows with "
        "length, and with the number of beams. The paper drops beams below a threshold on p that "
        "its code chooses by the test labels; here none is dropped."
    ),
)
_add(
    "BeamEntropy",
    beam_entropy,
    reads=("logprob", "mask"),
    scope="beams",
    range="[0, log M]",
    equation="−Σ_i q_i log q_i with q_i = p_i / Σ_j p_j over the beams",
    limits="Blind to the mass outside the beams: ten improbable beams look like ten probable ones.",
    title="Entropy of beams",
    least_candidates=2,
)
_add(
    "ProbMargin",
    probability_margin,
    reads=("logprob", "mask"),
    scope="beams",
    range="[0, 1]",
    equation="1 − (p_1 − p_2), the unnormalised probabilities of the two most probable beams",
    limits=(
        "Two spellings of one answer have no margin. Near 1 for every long answer; margins below "
        "10⁻¹² tie."
    ),
    title="Probability margin",
    least_candidates=2,
)
_add(
    "GNLL",
    g_nll,
    reads=("logprob", "mask"),
    scope="beams",
    range="[0, ∞)",
    equation=(
        "−log max_i p(y_i|x), of the most probable beam; in a study with exact sets also of the "
        "proven most probable outcome (arXiv 2412.15176)"
    ),
    limits=(
        "As Prob, of the most probable answer found in place of the produced one. Proven only over "
        "an exact set whose search was not capped."
    ),
    title="G-NLL",
)

# -- of the answer beside the candidates -----------------------------------------------------------

_add(
    "Dissimilarity",
    dissimilarity,
    reads=("to_produced", "weights"),
    scope="candidates",
    range="[0, 1]",
    equation="Σ_i w_i (1 − s(y_i, y*)) (eqs. mc_estimator, beam-estimator)",
    limits="As good as the similarity. With beams: blind to what lies outside the beam set.",
)
_add(
    "Eccentricity",
    spectral.eccentricity,
    reads=("pairs.spectrum.eigenvectors", "retained", "weights"),
    scope="candidates",
    range="[0, 2]",
    equation="‖v* − Σ_i w_i v_i‖² in the Laplacian embedding (eq. eccentricity and its beam form)",
    limits=(
        "A jump where an eigenvalue crosses alpha: equal similarities give 0 if high, 1 + 1/M if "
        "low."
    ),
)
_add(
    "EigVecDissimilarity",
    spectral.eigvec_dissimilarity,
    reads=("pairs.spectrum.eigenvectors", "retained", "weights"),
    scope="candidates",
    range="[0, 2]",
    equation="Σ_i w_i ‖v* − v_i‖² in the Laplacian embedding (section 3.3)",
    limits="As Eccentricity; never less than it, since it adds the candidates' spread.",
)
_add(
    "CocoaMSP",
    cocoa_msp,
    reads=("answer.logprob", "to_produced", "weights"),
    scope="candidates",
    range="[0, ∞)",
    equation="u(y*|x) · U_D with u = −log p(y*|x) and U_D the Dissimilarity (section 3.3)",
    limits="A product: 0 where the candidates agree, however improbable the answer.",
)
_add(
    "CocoaPPL",
    cocoa_ppl,
    reads=("answer.logprob", "answer.length", "to_produced", "weights"),
    scope="candidates",
    range="[0, ∞)",
    equation="u(y*|x) · U_D with u = −(1/L) log p(y*|x) and U_D the Dissimilarity (section 3.3)",
    limits="As CocoaMSP, with the log-probability per token.",
)
# -- of the question, in both forms ----------------------------------------------------------------

_add(
    "DegreeMatrix",
    degree_matrix,
    reads=("among", "weights"),
    scope="candidates",
    range="[0, 1]",
    equation='Σ_i Σ_j w_i w_j (1 − s(y_i, y_j)), i = j included (appendix, "Degree Matrix")',
    limits="Of the question, not of this answer: it never looks at the produced answer.",
    title="Degree Matrix",
)

TITLES = {name: method.title for name, method in METHODS.items() if method.title}
"""What a reader sees of a method whose name is not that already."""


def _one(answer: Answer) -> Array:
    return np.ones_like(answer.logprob)


def _negative_logprob(answer: Answer) -> Array:
    return prob(answer.logprob)


def _negative_logprob_per_token(answer: Answer) -> Array:
    return perplexity(answer.logprob, answer.length)


FACTORS: dict[str, Callable[[Answer], Array]] = {
    "Dissimilarity": _one,
    "CocoaMSP": _negative_logprob,
    "CocoaPPL": _negative_logprob_per_token,
}
"""What each method that is linear in U multiplies it by: an estimator of U is one of theirs."""

"""What a reader of a score must know beside its value: the range it lies in, and where it misleads.

Equations and inputs stand in the docstrings of :mod:`beamuq.methods`.
"""

from __future__ import annotations

from dataclasses import dataclass

DIRECTION = "higher = more uncertain"


@dataclass(frozen=True)
class Fact:
    """A method's range, closed at square brackets, and its limits in a sentence or two."""

    range: str
    limits: str


FACTS: dict[str, Fact] = {
    "Prob": Fact("[0, ∞)", "Grows with length: a long answer looks uncertain. Blind to other ways to say the same."),
    "MTE": Fact("[0, ∞)", "At most log of the vocabulary's size. Counts a choice between two wordings as uncertainty."),
    "Perplexity": Fact("[0, ∞)", "A mean over tokens: one doubtful token in a long answer is diluted."),
    "CCP": Fact(
        "[0, 1]", "Needs an NLI label of every alternative token: made by a study's statistics, not from texts."
    ),
    "PTrue": Fact("[0, ∞)", "Asks the model about itself; a small model says 'True' to nearly anything."),
    "SemanticEntropy": Fact(
        "[0, log M]",
        "Says how uncertain the question is, not this answer. Rests on a yes-or-no judgement of same meaning: on the "
        "scorer's classes or its threshold.",
    ),
    "SAR": Fact("(-∞, ∞)", "Needs the relevance of every token of every candidate, which a study's statistics hold."),
    "LexicalSimilarity": Fact("[0, 1]", "Counts shared words: paraphrases look like disagreement, negations do not."),
    "EigValLaplacian": Fact("[1, M]", "Of the question, not of this answer. Noisy with few candidates."),
    "NumSemSets": Fact("[1, M]", "Whole numbers, so many ties; one wrong entailment joins two sets."),
    "Dissimilarity": Fact("[0, 1]", "As good as the similarity. With beams: blind to what lies outside the beam set."),
    "Eccentricity": Fact(
        "[0, 2]", "A jump where an eigenvalue crosses alpha; needs several distinct texts to say much."
    ),
    "EigVecDissimilarity": Fact("[0, 2]", "As Eccentricity; never less than it, since it adds the candidates' spread."),
    "CocoaMSP": Fact("[0, ∞)", "A product: 0 where the candidates agree, however improbable the answer."),
    "CocoaPPL": Fact("[0, ∞)", "As CocoaMSP, with the log-probability per token."),
    "DegreeMatrix": Fact("[0, 1]", "Of the question, not of this answer: it never looks at the produced answer."),
}

FORMULATION_RANGES: dict[tuple[str, str], str] = {
    ("SemanticEntropy", "printed"): "[0, ∞)",
    ("SemanticEntropy", "likelihood-summed"): "(-∞, ∞)",
}


def range_of(method: str, setting: str = "") -> str:
    """The range of a method's scores; "not stated" for a method from outside the package."""
    if setting:
        return FORMULATION_RANGES.get((method, setting), "not stated")
    return FACTS[method].range if method in FACTS else "not stated"

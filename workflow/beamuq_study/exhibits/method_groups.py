"""The methods that exhibits show together, and the stored words for their two forms."""

from __future__ import annotations

from dataclasses import dataclass

OVER_SAMPLES = "multinomial"
"""The stored variant of a method over samples, the paper's word."""
OVER_BEAMS = "beamsearch"
"""The stored variant of a method over beams."""

GRAPH = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity")
CONSISTENCY = (*GRAPH, "CocoaMSP", "CocoaPPL")


@dataclass(frozen=True)
class Baseline:
    """How the paper's table of baseline methods lists a method."""

    category: str
    title: str


BASELINES = {
    "Prob": Baseline("Information-based", "Sequence Probability (Prob)"),
    "MTE": Baseline("Information-based", "Mean Token Entropy (MTE)"),
    "Perplexity": Baseline("Information-based", "Perplexity"),
    "CCP": Baseline("Information-based", "Claim Conditioned Probability (CCP)"),
    "PTrue": Baseline("Reflexive", "P(True)"),
    "SemanticEntropy": Baseline("Sampling-based", "Semantic Entropy"),
    "SAR": Baseline("Sampling-based", "Shifting Attention to Relevance (SAR)"),
    "LexicalSimilarity": Baseline("Sampling-based", "Lexical Similarity"),
    "EigValLaplacian": Baseline(
        "Sampling-based", "Sum of Eigenvalues of the Laplacian (EigValLaplacian)"
    ),
    "NumSemSets": Baseline("Sampling-based", "Number of Semantic Sets (NumSemSets)"),
}

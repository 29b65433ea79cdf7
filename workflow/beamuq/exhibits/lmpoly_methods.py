"""``tab:lmpoly_methods``: the baseline methods by what they look at."""

from __future__ import annotations

import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.exhibits import wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import CSV_COLUMNS, Cell, Exhibit, Grid, Row, Rule, Table
from beamuq.methods.registry import resolve
from beamuq.study import Study

LABEL = "lmpoly_methods"
CATEGORIES = {
    "Information-based": {
        "Prob": "Sequence Probability (Prob)",
        "MTE": "Mean Token Entropy (MTE)",
        "Perplexity": "Perplexity",
        "CCP": "Claim Conditioned Probability (CCP)",
    },
    "Reflexive": {"PTrue": "P(True)"},
    "Sampling-based": {
        "SemanticEntropy": "Semantic Entropy",
        "SAR": "Shifting Attention to Relevance (SAR)",
        "LexicalSimilarity": "Lexical Similarity",
        "EigValLaplacian": "Sum of Eigenvalues of the Laplacian (EigValLaplacian)",
        "NumSemSets": "Number of Semantic Sets (NumSemSets)",
    },
}


def needs(study: Study) -> list[Artifact]:
    """None: it describes the methods, not results."""
    del study
    return []


def build(study: Study, inputs: Inputs) -> Table:
    """Each baseline, and whether this study scores it."""
    del inputs
    scored = {resolve(name).name for scoring in study.scoring.values() for name in scoring.methods}
    rows: list[tuple[object, ...]] = []
    body: list[Row | Rule] = []
    for category, methods in CATEGORIES.items():
        body += [Rule()] if body else []
        for position, (method, title) in enumerate(methods.items()):
            known = "yes" if method in scored else "no"
            body.append(Row(("" if position else category,), (Cell(title), Cell(known))))
            rows.append((f"tab:{LABEL}", "", "", "category", method, "", "", category, None, None, None, None))
    title = "Baseline uncertainty methods by category"
    caption = wording.caption(study, [f"{title}, and whether this study scores them."])
    grid = Grid(("Category",), (("Uncertainty quantification method", "In this study"),), tuple(body))
    values = pd.DataFrame(rows, columns=list(CSV_COLUMNS))
    return Table(LABEL, wording.titled(study, title), caption, values, grid)


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)

"""``fig:webq-gemma4b``: worked examples on webquestions, two of them."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.exhibits import examples
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Figure
from beamuq.study import Study

LABEL, DATASET, PANELS = "webq-gemma4b", "webquestions", 2


def needs(study: Study) -> list[Artifact]:
    """Candidates, scores, quality and questions of one model."""
    return examples.needs(study, DATASET)


def build(study: Study, inputs: Inputs) -> Figure:
    """Panels of questions chosen by a rule that the caption states."""
    return examples.build(LABEL, study, inputs, DATASET, PANELS)


EXHIBIT = Exhibit(LABEL, "figure", needs, build, __name__)

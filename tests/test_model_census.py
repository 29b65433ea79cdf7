"""docs/models.md: which path decodes each class of models, measured by `make census`; and that
page.
"""

from __future__ import annotations

import math

import pytest

from beamuq.decoding.self_check import TOLERANCE
from model_census import (
    LONGEST,
    PROMPTS,
    REAL,
    agrees,
    is_there,
    plain_logprobs,
    real_row,
    row,
    rows_of_page,
)
from model_classes import CLASSES, VOCABULARY, random_model
from tiny import NEWEST

PAGE_IS_OLD = "docs/models.md says otherwise; if that is meant, run python tools/sync_models.py"
REAL_WEIGHTS = [
    pytest.param("SmolLM2 135M Instruct", marks=pytest.mark.packaged),
    pytest.param("Gemma 3 270M", marks=pytest.mark.gemma),
]


@pytest.mark.census
@pytest.mark.newest
@pytest.mark.parametrize("kind", CLASSES)
def test_a_class_is_decoded_as_the_page_says_with_logits_that_tell_right_from_wrong(
    kind: str,
) -> None:
    assert agrees(*row(kind), rows_of_page()[kind], any_path=NEWEST), PAGE_IS_OLD
    model = random_model(kind)
    plain = plain_logprobs(model, LONGEST)
    assert float(-(plain.exp() * plain).sum(dim=-1).mean()) < 0.9 * math.log(VOCABULARY)
    other = plain_logprobs(model, [(LONGEST[0] + 1) % VOCABULARY, *LONGEST[1:]])
    assert float((plain - other)[len(PROMPTS[0].token_ids) - 1].abs().mean()) > 10 * TOLERANCE


@pytest.mark.census
@pytest.mark.parametrize("name", REAL_WEIGHTS)
def test_real_weights_are_decoded_as_the_page_says(name: str) -> None:
    if not is_there(name):
        pytest.skip(
            f"{REAL[name]} holds no model; run make models, or say where Gemma is by BEAMUQ_GEMMA"
        )
    assert agrees(*real_row(name), rows_of_page()[name]), PAGE_IS_OLD

"""A cell cut into shards of whole batches gives the bytes of the whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from beamuq.plan.study_on_machine import Plan
from micro import CANDIDATES, Workplace

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("count", "cards"), [(1, 1), (3, 0)])
def test_joining_shards_asks_for_no_card(count: int, cards: int) -> None:
    plan = Plan.load({"study": "demo", "device": "cuda", "shards": count})
    wildcards: Any = SimpleNamespace(model=next(iter(plan.study.models)))
    assert (plan.candidates_gpus(wildcards), plan.gpus) == (cards, 1)


def test_a_sharded_cell_is_the_whole_one_byte_for_byte(decoded: Workplace, prompted: Workplace) -> None:
    told = prompted.run(CANDIDATES, settings=("shards=2",))
    assert told.count("(Rule: candidates_shard)") == 2
    path = prompted.folder / CANDIDATES
    assert path.read_bytes() == (decoded.folder / CANDIDATES).read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # neither markers nor batches
    assert "Nothing to be done" in prompted.run(CANDIDATES, "--dry-run", settings=("shards=2",))

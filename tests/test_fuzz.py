"""Hostile files, configurations and rows for a minute: each gives a result or one line, never another error.

``make test-all`` runs it. BEAMUQ_FUZZ_SECONDS is the time for all but the 200 studies made from the schema,
BEAMUQ_FUZZ_SEED another seed.
"""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beamuq import parquet_tables
from beamuq.api.candidate_records import read_records
from beamuq.api.score_candidates import score
from beamuq.config_errors import read_mapping
from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.read_dataset_file import read_questions
from beamuq.errors import BeamUQError
from beamuq.machine_config import load_machine
from beamuq.plan.study_on_machine import Plan
from beamuq.study_config import ROOT, STUDIES
from test_api_server_responses import WHOLE

pytestmark = pytest.mark.fuzz

SECONDS = float(os.environ.get("BEAMUQ_FUZZ_SECONDS", "40"))
SEED = int(os.environ.get("BEAMUQ_FUZZ_SEED", "1"))
DEMO = yaml.safe_load((STUDIES / "demo.yaml").read_text())
ROW = {
    "id": "q",
    "answer": {"text": "Rome", "token_logprobs": [-0.5, -0.1], "token_entropies": [0.3, 0.1]},
    "samples": ["Rome", {"text": "Milan", "logprob": -1.5}],
    "beams": [{"text": "Rome", "logprob": -0.6}, {"text": "Milan", "logprob": -1.5}],
}
VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 1e308, -1e308, 10**400, float("nan"), float("inf"), "", " ", "\0", "\u200b", "\ud800"),
    *("x" * 100_000, "a\nb", "../..", "$(id)", [], {}, [[]], {"": 1}, {"text": "a"}, ["a", "a"], [None], "packaged:x"),
]


def attempts(share: float) -> Iterator[random.Random]:
    """A source of chance for each attempt, in this share of the time; the seed of each is printed if it fails."""
    end = time.monotonic() + share * SECONDS
    number = 0
    while time.monotonic() < end or number < 20:
        print(f"BEAMUQ_FUZZ_SEED={SEED} attempt {number}")
        yield random.Random(f"{SEED} {number}")
        number += 1


def result_or_line(work: Callable[[], object]) -> bool:
    """Whether the work gave a result; else it gave one short line."""
    told = ""
    try:
        work()
    except BeamUQError as error:
        told = str(error)
    assert not told or (told.isprintable() and len(told) < 1300)
    return not told


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A file with bits flipped, cut, or with a piece of it standing elsewhere."""
    found = bytearray(content)
    kind = chance.randrange(4)
    for _ in range(chance.choice((1, 1, 1, 2, 8)) if kind < 2 else 0):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    start, end = sorted(chance.choices(range(len(found)), k=2))
    if kind == 2:
        del found[start : chance.choice((end, start + 1, len(found)))]
    elif kind == 3:
        found[start:start] = found[end : end + 200] or bytes(8)
    return bytes(found)


def changed(content: Any, chance: random.Random) -> Any:
    """A copy with something hostile at one to three places: a value, a key, one more, one less."""
    content = copy.deepcopy(content)
    for _ in range(chance.randint(1, 3)):
        places = list(containers(content))
        place = chance.choice(places)
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = chance.choice(keys) if keys else None
        value = copy.deepcopy(chance.choice([*VALUES, *places]))
        if isinstance(place, list):
            place.insert(chance.randint(0, len(place)), value)
        elif key is None or chance.random() < 0.2:
            place[chance.choice(["zzz", "a\nb", "", "x" * 9000, "text", "id"])] = value
        if key is not None and chance.random() < 0.7:
            place[key] = value
        elif key is not None and chance.random() < 0.5:
            del place[key]
    return content


def containers(content: Any) -> Iterator[Any]:
    """All mappings and lists of a content."""
    if isinstance(content, dict | list):
        yield content
        for each in content.values() if isinstance(content, dict) else content:
            yield from containers(each)


def example(kind: pa.DataType, number: int) -> Any:
    """A value of an Arrow type."""
    if pa.types.is_struct(kind):
        return {field.name: example(field.type, number) for field in kind}
    if pa.types.is_list(kind):
        return [example(kind.value_type, number + item) for item in range(number % 3)]
    return f"text {number}" if pa.types.is_string(kind) else bool(number % 2) if pa.types.is_boolean(kind) else number


@pytest.mark.parametrize("kind", sorted(parquet_tables.SCHEMAS))
def test_damaged_tables(kind: str, tmp_path: Path) -> None:
    schema, path = parquet_tables.SCHEMAS[kind], tmp_path / "table.parquet"
    rows = [{field.name: example(field.type, number) for field in schema} for number in range(20)]
    parquet_tables.write(path, kind, rows, cell={"dataset": "d"}, provenance={"settings": {"seed": 1}})
    whole = path.read_bytes()
    read = [result_or_line(lambda: parquet_tables.read(path, kind))]
    for chance in attempts(0.3 / len(parquet_tables.SCHEMAS)):
        path.write_bytes(damaged(whole, chance))
        read.append(result_or_line(lambda: parquet_tables.read(path, kind)))
    assert read[0]
    assert not all(read)


@pytest.mark.parametrize("form", ["bytes", "values"])
def test_hostile_studies(form: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (STUDIES / "demo.yaml").read_bytes()
    for chance in attempts(0.1):
        content = yaml.safe_dump(changed(DEMO, chance), allow_unicode=False).encode() if form == "values" else None
        path.write_bytes(damaged(text, chance) if content is None else content)
        result_or_line(lambda: Plan.load({"study": str(path), "device": "cpu"}))


def test_hostile_machines(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = (ROOT / "config.yaml").read_bytes()
    for chance in attempts(0.1):
        path.write_bytes(damaged(text, chance))
        result_or_line(lambda: load_machine(read_mapping(path), path))
        content = changed(yaml.safe_load(text), chance)
        result_or_line(lambda content=content: load_machine(content))  # type: ignore[misc]


@pytest.mark.parametrize("form", ["bytes", "values"])
def test_hostile_rows(form: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    adapter = load_adapter("jsonl")
    for chance in attempts(0.15):
        row = json.dumps(ROW).encode()
        path.write_bytes(damaged(row, chance) if form == "bytes" else json.dumps(changed(ROW, chance)).encode())
        result_or_line(lambda: score(path, similarity="lexical"))
        result_or_line(lambda: read_questions(adapter, path))


def test_hostile_responses_of_servers() -> None:
    answers = [{"answer": held} for held in WHOLE.values()]
    samples = [{"answer": "x", "samples": [held, "y"]} for held in WHOLE.values()]
    for chance in attempts(0.1):
        row = changed(chance.choice([*answers, *samples]), chance)
        result_or_line(lambda row=row: read_records([row]))  # type: ignore[misc]


SCHEMA = json.loads((ROOT / "workflow/schemas/study.schema.json").read_text())


def of_schema(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a node of the JSON schema of a study allows, in small."""
    if "$ref" in node:
        return of_schema(SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    if "enum" in node or "const" in node:
        return st.sampled_from(node.get("enum") or [node["const"]])
    if "anyOf" in node:
        return st.one_of([of_schema(each) for each in node["anyOf"]])
    least, most = node.get("minimum", node.get("exclusiveMinimum", 0)), node.get("maximum", 5)
    match node.get("type"):
        case "integer":
            return st.integers(least, min(most, least + 5))
        case "number":
            return st.floats(
                least, most, exclude_min="exclusiveMinimum" in node, exclude_max="exclusiveMaximum" in node
            )
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            unique = {"unique_by": repr} if node.get("uniqueItems") else {}
            return st.lists(of_schema(node["items"]), min_size=node.get("minItems", 0), max_size=3, **unique)
        case "object" if "properties" in node:
            needed = set(node.get("required", ()))
            found = {key: of_schema(each) for key, each in node["properties"].items()}
            return st.fixed_dictionaries(
                {key: each for key, each in found.items() if key in needed},
                optional={key: each for key, each in found.items() if key not in needed},
            )
        case "object":
            return st.dictionaries(st.sampled_from("abc"), of_schema(next(iter(inner(node)))), min_size=1, max_size=3)
    return st.from_regex(node["pattern"], fullmatch=True) if "pattern" in node else st.text(max_size=5)


def inner(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the values of a mapping of any keys may be."""
    yield from node.get("patternProperties", {}).values()
    if isinstance(node.get("additionalProperties"), dict):
        yield node["additionalProperties"]


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    """The demo study with some keys as the schema has them, and some entries of its mappings left out."""
    study = copy.deepcopy(DEMO)
    keys = st.lists(st.sampled_from(sorted(SCHEMA["properties"])), max_size=3, unique=True)
    for key in draw(keys):
        study[key] = draw(of_schema(SCHEMA["properties"][key]))
    for key in draw(st.lists(st.sampled_from(["grid", "exhibits", "answer_source"]), max_size=2)):
        if study[key]:
            study[key] = study[key][: draw(st.integers(1, len(study[key])))]
    return study


def test_studies_of_the_schema_are_planned_or_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "generated.yaml"
    read = []

    @settings(max_examples=200, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(study=studies())
    def each(study: dict[str, Any]) -> None:
        path.write_text(yaml.safe_dump(study))
        read.append(result_or_line(lambda: planned(Plan.load({"study": str(path), "device": "cpu"}))))

    each()
    print(f"{sum(read)} of {len(read)} studies are valid")
    assert 10 < sum(read) < len(read)  # hypothesis draws other studies where other modules are loaded


def planned(plan: Plan) -> None:
    """The job texts of all cells, as a dry run asks for them."""
    rules = {"generations": "candidates", "evaluations": "evaluation", "questions": "questions", "prompts": "prompts"}
    for group, rule in rules.items():
        for artifact in getattr(plan.grid, group):
            assert json.loads(getattr(plan.jobs, rule)(SimpleNamespace(**artifact.cell)).text())
            if rule == "evaluation":
                for each in ("similarity", "scores"):
                    assert json.loads(getattr(plan.jobs, each)(SimpleNamespace(**artifact.cell)).text())
    for kind in ("table", "figure"):
        for name in plan.exhibits(kind):
            assert json.loads(getattr(plan.jobs, kind)(SimpleNamespace(name=name)).text())

"""A study whose model a server holds: the candidates of a model in memory, and no trace of where.

The server is the stand-in for one, over the same tiny model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from beamuq import decoding
from beamuq.decoding.served.decode_served import check_served_policy
from beamuq.errors import BeamUQError
from beamuq.models.load_model import load_tokenizer
from beamuq.models.served import http_requests
from beamuq.models.served.opened_server import OpenedServer
from beamuq.prompts.prompt_template import PROMPTS
from beamuq.served_strategies import lacking_over_server
from beamuq_study import parquet_tables, served_models
from beamuq_study.plan.paths import Artifact
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.provenance import check_one_run
from beamuq_study.served_models import ADDRESSES, check_same_servers
from beamuq_study.study_config import Recipe
from fake_model_server import FakeModelServer, Faults
from micro import micro_study
from run_job import run_job
from tiny import load_tiny_model

Row = dict[str, Any]
KEY = "key-that-stands-nowhere-9137"
CELL = {"model": "tiny", "dataset": "web", "recipe": "main"}
SETTINGS: Row = {
    "cell": CELL,
    "recipe": {"sample": {"size": 4, "temperatures": [1.0]}, "beam": {"widths": [4]}},
    "questions": 5,
    "max_new_tokens": 6,
    "newline_stops": True,
    "merge_stop_tokens": True,
    "seed": 1,
    "batch_questions": 2,
    "style": "base",
    "enable_thinking": None,
    "format": 1,
}
SERVED = SETTINGS | {"server": "near"}
JUDGED: Row = {
    "answer_source": ["greedy"],
    "beam": "beam M=4",
    "sample": "sample T=1.0",
    "style": "base",
    "enable_thinking": None,
    "p_true": True,
    "ccp": None,
    "relevance": None,
    "format": 1,
}
QUESTIONS = ("Who wrote it?", "Which river is it?", "How many legs?", "What is it?", "Where is it?")


@pytest.fixture(scope="module")
def folder(tiny_models: Path) -> Path:
    return tiny_models / "llama"


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeModelServer]:
    """The tiny model behind the stand-in, known as ``near``."""
    monkeypatch.setattr(
        http_requests, "PATIENCE", http_requests.Patience(retries=2, first=0.01, longest=0.05)
    )
    monkeypatch.setenv("BEAMUQ_API_KEY", KEY)
    model, _ = load_tiny_model(folder)
    with FakeModelServer(
        model, load_tokenizer(folder), max_logprobs=-1, api_key=KEY, faults=Faults()
    ) as fake:
        monkeypatch.setenv(ADDRESSES, json.dumps({"near": fake.url}))
        yield fake


def decode(place: Path, folder: Path, settings: Row, **job: Any) -> parquet_tables.Loaded:
    """The candidates of five questions, decoded in ``place``."""
    prompts = place / Artifact("prompts", "web", style="base").path
    rows = [
        {"id": f"q{number}", "prompt": f"Question: {text}\nAnswer:"}
        for number, text in enumerate(QUESTIONS)
    ]
    prompted = {"style": "base", "dataset": "web"}
    parquet_tables.write(
        prompts, "prompts", rows, cell=prompted, provenance={"template_sha256": "x"}
    )
    candidates = place / Artifact("candidates", "web", "tiny", "main").path
    files = {"prompts": prompts, "model": folder / "config.json", "candidates": candidates}
    loading: Row = {"loading": {"content": {}}} if "server" in settings else {}
    run_job("candidates", files | {"settings": settings} | loading | job)
    return parquet_tables.read(candidates, "candidates")


def judge(
    place: Path, folder: Path, candidates: parquet_tables.Loaded, served: bool
) -> parquet_tables.Loaded:
    """P(True) of their greedy answers."""
    blank: Row = {"context": [], "history": [], "options": [], "references": ["x"]}
    rows = [
        {"id": f"q{number}", "question": text, "group": f"q{number}"} | blank
        for number, text in enumerate(QUESTIONS)
    ]
    questions = place / "questions.parquet"
    parquet_tables.write(questions, "questions", rows, cell={"dataset": "web"})
    settings = JUDGED | ({"server": "near"} if served else {})
    loading: Row = {"loading": {"content": {}}} if served else {}
    files = {
        "questions": questions,
        "candidates": candidates.path,
        "template": PROMPTS / "p_true.txt",
        "language_model": folder / "config.json",
        "judgements": place / "judgements.parquet",
    }
    run_job("model_judgements", files | {"settings": settings} | loading)
    return parquet_tables.read(place / "judgements.parquet", "judgements")


# -- jobs --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("server")
def test_candidates_and_p_true_over_a_server_are_those_of_the_model_in_memory(
    folder: Path, tmp_path: Path
) -> None:
    served = decode(tmp_path / "served", folder, SERVED)
    own = decode(tmp_path / "own", folder, SETTINGS)
    places = ["id", "strategy", "rank", "token_ids", "text", "terminated", "top_ids"]
    for name in places:
        assert served.table.column(name).to_pylist() == own.table.column(name).to_pylist(), name
    logprobs = [np.array(table.table.column("logprob").to_pylist()) for table in (served, own)]
    assert np.abs(logprobs[0] - logprobs[1]).max() < 1e-5
    assert served.table.column("entropies").null_count == served.table.num_rows
    p_true = [
        judge(table.path.parent, folder, table, served=table is served)
        .table.column("p_true_logprob")
        .to_pylist()
        for table in (served, own)
    ]
    assert p_true[0] == pytest.approx(p_true[1], abs=1e-5)


def test_the_footer_tells_the_server_and_nothing_of_where_it_is(
    server: FakeModelServer, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    candidates = decode(tmp_path, folder, SERVED)
    judged = judge(tmp_path, folder, candidates, served=True)
    footer = candidates.provenance
    assert footer["models"]["model"]["content"] is None
    assert footer["models"]["model"]["source"] == "server:near"
    assert (footer["server"]["kind"], footer["server"]["model"]) == ("vllm", "tiny")
    assert len(footer["server"]["probes"]) == 8
    assert "dtype" not in footer
    assert "its weights are unknown" in footer["self_check"]["told"]
    check_one_run([candidates, judged])
    said = "".join(capfd.readouterr())
    check_no_trace(server, tmp_path, said)


def check_no_trace(server: FakeModelServer, place: Path, said: str = "") -> None:
    """Neither key nor address stands in what was said, or in a file but config.yaml."""
    files = [path for path in place.rglob("*") if path.is_file() and path.name != "config.yaml"]
    assert files
    traces = (KEY, server.root, server.root.removeprefix("http://"), "127.0.0.1")
    for trace in traces:
        assert trace not in said
        assert [path for path in files if trace.encode() in path.read_bytes()] == []


def test_a_server_that_dies_is_told_in_one_line_and_the_next_job_goes_on(
    server: FakeModelServer, folder: Path, tmp_path: Path
) -> None:
    whole = decode(tmp_path / "whole", folder, SERVED)
    requests = len(server.completions)
    place = tmp_path / "cut"
    server.faults.dies_after = requests + int(0.75 * requests)
    with pytest.raises(BeamUQError) as error:
        decode(place, folder, SERVED)
    assert str(error.value).startswith("the model server: ")
    assert "\n" not in str(error.value)
    kept = list(place.rglob("batch-*.parquet"))
    assert 0 < len(kept) < 3
    model, tokenizer = server.model, server.tokenizer
    with FakeModelServer(model, tokenizer, max_logprobs=-1, faults=Faults(noise=1e-6)) as other:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(ADDRESSES, json.dumps({"near": other.url}))
            again = decode(place, folder, SERVED)
        assert len(other.completions) < requests
    assert again.table.column("token_ids") == whole.table.column("token_ids")
    assert list(place.rglob("*.batches")) == []


def test_batches_of_another_server_are_not_taken_up(
    server: FakeModelServer, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    decode(tmp_path, folder, SERVED, shard="1-of-2")
    server.faults.temperature = 1.2
    server.logprobs_mode = "raw_logprobs"
    decode(tmp_path, folder, SERVED, shard="2-of-2")
    assert "begun with another server" in capfd.readouterr().err
    assert len(list(tmp_path.rglob("*.batches/*/"))) == 2


def test_shards_over_a_noisy_server_are_put_together(
    server: FakeModelServer, folder: Path, tmp_path: Path
) -> None:
    server.faults.noise = 1e-5
    whole = tmp_path / Artifact("candidates", "web", "tiny", "main").path
    shards = whole.with_suffix(".shards")
    for name in ("1-of-2", "2-of-2"):
        run_shard(tmp_path, folder, name, shards / f"{name}.parquet")
        server.faults.noise = 2e-5
    asked = len(server.requests)
    places = tuple(sorted(shards.glob("*.parquet")))
    loaded = decode(tmp_path, folder, SERVED, shards=places)
    assert len(server.requests) == asked
    assert loaded.table.num_rows > 5


def run_shard(place: Path, folder: Path, shard: str, candidates: Path) -> None:
    decode_files: Row = {"shard": shard, "candidates": candidates}
    prompts = place / Artifact("prompts", "web", style="base").path
    if not prompts.is_file():
        rows = [
            {"id": f"q{number}", "prompt": f"Question: {text}\nAnswer:"}
            for number, text in enumerate(QUESTIONS)
        ]
        parquet_tables.write(
            prompts,
            "prompts",
            rows,
            cell={"style": "base", "dataset": "web"},
            provenance={"template_sha256": "x"},
        )
    job = {"prompts": prompts, "model": folder / "config.json", "settings": SERVED}
    run_job("candidates", job | decode_files | {"loading": {"content": {}}})


def test_p_true_is_not_asked_of_another_server_than_gave_the_answers(
    server: FakeModelServer, folder: Path, tmp_path: Path
) -> None:
    candidates = decode(tmp_path, folder, SERVED)
    server.faults.temperature = 1.2
    with pytest.raises(BeamUQError, match=r"another server gave it .*nats off"):
        judge(tmp_path, folder, candidates, served=True)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("fact", ["source", "tokenizer"])
def test_answers_of_another_name_or_tokenizer_are_not_judged(
    fact: str, folder: Path, tmp_path: Path
) -> None:
    candidates = decode(tmp_path, folder, SERVED)
    footer = json.loads(json.dumps(candidates.provenance))
    footer["models"]["model"][fact] = "another"
    rows = candidates.table
    parquet_tables.write(candidates.path, "candidates", rows, cell=CELL, provenance=footer)
    with pytest.raises(BeamUQError, match=rf"was made with another {fact} \('another'\)"):
        judge(tmp_path, folder, candidates, served=True)


@pytest.mark.usefixtures("server")
def test_a_tokenizer_that_changed_since_the_plan_stops_the_job(
    folder: Path, tmp_path: Path
) -> None:
    planned_content = {"content": {"model": "as it was"}}
    with pytest.raises(BeamUQError, match="has changed since this run was planned"):
        decode(tmp_path, folder, SERVED, loading=planned_content)


def test_a_server_that_becomes_another_between_batches_stops_the_job(
    folder: Path,
    tmp_path: Path,
    server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(OpenedServer, "is_still_as_checked", lambda _: False)
    with pytest.raises(BeamUQError, match=r"is another than at the start of this job; run again"):
        decode(tmp_path, folder, SERVED)
    assert len(list(tmp_path.rglob("batch-*.parquet"))) == 1
    check_no_trace(server, tmp_path, "".join(capfd.readouterr()))


def test_cells_of_one_model_are_of_one_server(
    server: FakeModelServer, folder: Path, tmp_path: Path
) -> None:
    first = decode(tmp_path / "first", folder, SERVED)
    second = decode(tmp_path / "second", folder, SERVED)
    check_same_servers([first, second])
    server.faults.temperature = 1.2
    third = decode(tmp_path / "third", folder, SERVED)
    with pytest.raises(BeamUQError, match="another server gave it than"):
        check_same_servers([first, third])


def test_a_job_whose_server_has_no_address_says_where_it_belongs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESSES, json.dumps({"near": None}))
    with pytest.raises(BeamUQError, match=r"^config.yaml: servers.near: has no address"):
        decode(tmp_path, folder, SERVED)


# -- the plan ------------------------------------------------------------------------------------


def served_study(tiny_models: Path) -> Row:
    """The micro study with its model behind a server, asked for P(True) and SAR too."""
    study = micro_study(tiny_models)
    tokenizer = study["models"]["tiny"]["source"]
    study["models"]["tiny"] |= {"source": "server:near", "tokenizer": tokenizer}
    lexical = {"kind": "lexical", "title": "ROUGE-L", "equivalence_threshold": 0.5}
    study["scorers"]["lexical"] = lexical
    study["main"]["relevance"] = "lexical"
    study["scoring"]["main"]["methods"] += ["PTrue", "SAR"]
    return study


def planned(place: Path, study: Mapping[str, Any], **machine: Any) -> Plan:
    (place / "micro.yaml").write_text(yaml.safe_dump(dict(study)))
    address = {"servers": {"near": "http://node:8000/v1"}}
    usual = {"study": str(place / "micro.yaml"), "device": "cpu"}
    return Plan.load(usual | address | machine)


def test_a_server_is_planned_without_a_card_and_jobs_at_it_are_counted(
    tiny_models: Path, tmp_path: Path
) -> None:
    plan = planned(tmp_path, served_study(tiny_models), device="cuda")
    wildcards: Any = plan.grid.cells[0]
    assert plan.gpus("candidates")(wildcards) == 0
    assert plan.gpus("judgements")(wildcards) == 0
    assert plan.servers("candidates")(wildcards) == 1
    assert plan.servers("candidates_shard")(wildcards) == 1
    assert plan.servers("judgements")(wildcards) == 1
    own = planned(tmp_path, micro_study(tiny_models), device="cuda")
    assert own.servers("candidates")(wildcards) == 0
    assert own.gpus("candidates")(wildcards) == 1


def test_a_judge_beside_a_server_is_loaded_on_a_card_in_the_dtype_of_judges(
    tiny_models: Path, tmp_path: Path
) -> None:
    study = served_study(tiny_models)
    study["scoring"]["main"]["methods"] += ["CCP"]
    plan = planned(tmp_path, study, device="cuda")
    wildcards: Any = plan.grid.cells[0]
    assert plan.gpus("judgements")(wildcards) == 1
    judged = plan.settings.loading("judgements")(wildcards)
    assert (judged["device"], judged["dtype"]) == ("cuda", "float32")
    assert set(judged["content"]) == {"language_model", "nli"}
    assert set(plan.settings.loading("candidates")(wildcards)) == {"content"}


def test_settings_of_jobs_name_the_server_and_not_its_address(
    tiny_models: Path, tmp_path: Path
) -> None:
    study = served_study(tiny_models)
    plans = [
        planned(tmp_path, study, servers={"near": address})
        for address in ("http://a:1/v1", "http://b:2/v1", None)
    ]
    wildcards: Any = plans[0].grid.cells[0]
    settings = [
        (
            plan.settings.candidates(wildcards),
            plan.settings.loading("candidates")(wildcards),
            plan.settings.judgements(wildcards),
            plan.settings.expected("candidates", "judgements")(wildcards, None),
        )
        for plan in plans
    ]
    assert settings[0] == settings[1] == settings[2]
    assert settings[0][0]["server"] == "near"
    assert plans[0].environment()[ADDRESSES] == '{"near": "http://a:1/v1"}'
    assert "http" not in repr(settings) + repr(plans[0])


def test_weights_of_a_served_model_are_not_fetched_but_its_tokenizer_is(
    tiny_models: Path, tmp_path: Path
) -> None:
    study = served_study(tiny_models)
    study["models"]["tiny"]["tokenizer"] = "hub:org/llama"
    plan = planned(tmp_path, study)
    (manifest,) = [path for path in plan.files.fetched({}) if "llama" in str(path)]  # type: ignore[arg-type]
    wildcards: Any = type("Wildcards", (), {"folder": manifest.parent.name})
    assert plan.settings.fetch_model(wildcards) == {"source": "hub:org/llama", "weights": False}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "folder:x"}, "tokenizer: is for a source server:NAME"),
        ({"tokenizer": None}, "needs tokenizer: hub:ORG/NAME"),
        ({"temperature": 0.7}, "tempering needs all of them; remove temperature"),
        ({"cards": 2}, "the server holds the model; remove cards"),
        ({"source": "server:http://node:8000/v1"}, "source"),
    ],
)
def test_what_a_server_does_not_give_is_refused_of_a_model(
    change: Row, words: str, tiny_models: Path, tmp_path: Path
) -> None:
    study = served_study(tiny_models)
    study["models"]["tiny"] |= change
    with pytest.raises(BeamUQError, match=re.escape(words)) as error:
        planned(tmp_path, study)
    assert "models.tiny" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("recipe", "methods", "words"),
    [
        ({}, ["Prob", "MTE"], 'scoring.main.methods[1]: "MTE": needs the entropy at each token'),
        ({"shipped": True}, ["Prob"], 'recipes.main: "shipped": the shipped distribution'),
        ({"hybrid": {"size": 5, "beams": [2]}}, ["Prob"], '"hybrid B=2": draws outside a set'),
        ({"systematic": {"sizes": [5]}}, ["Prob"], '"systematic M=5": draws in the order'),
        ({"sample": {"size": 5, "temperatures": [1.0, 0.7]}}, ["Prob"], "a temperature of 0.7"),
    ],
)
def test_what_needs_whole_distributions_is_refused_by_the_plan_with_the_fix(
    recipe: Row, methods: list[str], words: str, tiny_models: Path, tmp_path: Path
) -> None:
    study = served_study(tiny_models)
    study["recipes"]["main"] |= recipe
    study["scoring"]["main"]["methods"] = methods
    with pytest.raises(BeamUQError, match=re.escape(words)) as error:
        planned(tmp_path, study)
    assert "models.tiny is served; leave it out, or give tiny a recipe" in str(error.value)


def test_the_plan_refuses_the_strategies_that_the_engine_refuses() -> None:
    everything: Row = {
        "sample": {"size": 4, "temperatures": [1.0, 0.5]},
        "beam": {"widths": [3]},
        "diverse": {"size": 4, "groups": [2], "penalties": [0.5]},
        "hybrid": {"size": 4, "beams": [2]},
        "exact": {"sizes": [3]},
        "systematic": {"sizes": [3]},
        "stochastic": {"sizes": [3]},
        "optimal_stratified": {"sizes": [3]},
        "adaptive": {"sizes": [3]},
    }
    recipe = Recipe.model_validate(everything, strict=False)
    makers = vars(decoding)
    policies = [makers[chosen.policy](*chosen.arguments) for chosen in recipe.policies()]
    policies += [decoding.AllAbove(0.1, 0, 0, 50), decoding.AllAbove(0.1, 4, 0, 50)]
    refused = set()
    for policy in policies:
        try:
            check_served_policy(policy)
        except BeamUQError:
            refused.add(policy.strategy)
    assert {name.partition(" ")[0] for name in refused} == {
        *("sample", "hybrid", "systematic", "stochastic", "optimal_stratified"),
        *("adaptive", "all_above"),
    }
    assert lacking_over_server("sample T=1.0") is None
    assert lacking_over_server("all_above p=0.1") is None
    assert lacking_over_server("shipped")


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({}, r"^config.yaml: servers: has none, and models.tiny of .* is served by near; write"),
        ({"far": "http://node:8000/v1"}, r"^config.yaml: servers: has far, and"),
        ({"near": "node:8000"}, r"^config.yaml: servers.near: no address of a server"),
        ({"near": "http://me:secret@node/v1"}, r"^config.yaml: servers.near: no address"),
        ({"near": "http://node/v1?key=secret"}, r"^config.yaml: servers.near: no address"),
    ],
)
def test_a_server_without_an_address_stops_the_plan_in_one_line(
    servers: Mapping[str, str], words: str, tiny_models: Path, tmp_path: Path
) -> None:
    with pytest.raises(BeamUQError, match=words) as error:
        planned(tmp_path, served_study(tiny_models), servers=servers)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_no_address_is_told_where_there_are_no_servers(tiny_models: Path, tmp_path: Path) -> None:
    plan = planned(tmp_path, micro_study(tiny_models), servers={})
    assert ADDRESSES not in plan.environment()
    assert served_models.environment({}) == {}

"""Files of another run for the same cell are refused, by what the footers say of how they were
made.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import synthetic
from beamuq import io
from beamuq.errors import BeamUQError
from beamuq.models.model_folder import content_of
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study import parquet_tables
from beamuq_study.data.question import question
from beamuq_study.parquet_tables import Artifact, Footer
from beamuq_study.provenance import check_one_run, check_weights, provenance, read_cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import STUDIES, load_study
from run_job import run_job

CELL = {"model": "smollm2-135m-plain", "dataset": "triviaqa", "recipe": "main"}
SCORER, METRIC = {"scorer": "embedding"}, {"metric": "answer_f1"}
OF = {
    "questions": {"dataset": CELL["dataset"]},
    "candidates": CELL,
    "similarity": CELL | SCORER,
    "quality": CELL | METRIC,
}
MAIN = {"sample": "sample T=1.0", "beam": "beam M=10"}
SCORING = {
    "methods": ["Prob", "Dissimilarity"],
    "answer_source": ["greedy", "top_beam"],
    "main": MAIN,
}
MEASURED = {"metrics": ["PRR"], "quality": "answer_f1", "resamples": 100}


def made(folder: Path, seed: int) -> dict[str, Path]:
    """The tables of one cell up to its evaluation, as a run with this seed leaves them."""
    found: dict[str, Path] = {}
    for kind, table in synthetic.cell(N=12, seed=seed).items():
        if kind in OF:
            found[kind] = folder / Artifact(kind, **OF[kind]).path
            settings = (
                {"seed": seed}
                if kind in ("questions", "candidates")
                else METRIC
                if kind == "quality"
                else {}
            )
            inputs = {
                name: io.file_sha256(found[name])
                for name in ("candidates", "questions")
                if kind in ("similarity", "quality") and name in found
            }
            facts = {"settings": settings, "inputs": inputs}
            parquet_tables.write(found[kind], kind, table, cell=OF[kind], provenance=facts)
    for kind in ("scores", "evaluation", "replicates"):
        found[kind] = folder / Artifact(kind, **CELL, **SCORER).path
    score(found, seed)
    evaluate(found, seed)
    return found


def score(files: dict[str, Path], seed: int) -> None:
    read = {name: files[name] for name in ("questions", "candidates", "similarity", "scores")}
    run_job("scores", read | {"settings": SCORING | {"seed": seed}})


def evaluate(files: dict[str, Path], seed: int) -> None:
    read = {
        name: files[name] for name in ("questions", "scores", "quality", "evaluation", "replicates")
    }
    run_job("evaluation", read | {"settings": MEASURED | {"seed": seed}})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], dict[str, Path]]:
    folder = tmp_path_factory.mktemp("runs")
    return made(folder / "own", 1), made(folder / "other", 77)


@pytest.fixture
def own(runs: tuple[dict[str, Path], dict[str, Path]], tmp_path: Path) -> dict[str, Path]:
    """A copy of seed 1's files, to put a file of seed 77's into."""
    root = runs[0]["questions"].parents[1]
    shutil.copytree(root, tmp_path / "own")
    return {kind: tmp_path / "own" / path.relative_to(root) for kind, path in runs[0].items()}


def swap(own: dict[str, Path], runs: tuple[dict[str, Path], dict[str, Path]], kind: str) -> None:
    shutil.copy(runs[1][kind], own[kind])


def test_the_files_of_one_run_are_read_again(own: dict[str, Path]) -> None:
    before = own["evaluation"].read_bytes()
    score(own, 1)
    evaluate(own, 1)
    assert own["evaluation"].read_bytes() == before
    check_one_run(map(parquet_tables.read_footer, own.values()))


@pytest.mark.parametrize("kind", ["scores", "evaluation"])
def test_scores_and_evaluations_name_the_models_behind_them(
    kind: str, own: dict[str, Path]
) -> None:
    table = parquet_tables.read(own["candidates"], "candidates")
    footer = table.provenance | {"models": {"model": {"content": "c1"}}, "dtype": "float32"}
    parquet_tables.write(
        own["candidates"], "candidates", table.table, cell=table.cell, provenance=footer
    )
    digest = io.file_sha256(own["candidates"])
    for made_of in ("similarity", "quality"):
        other = parquet_tables.read(own[made_of], made_of)
        inputs = other.provenance["inputs"] | {"candidates": digest}
        changed = other.provenance | {"inputs": inputs}
        parquet_tables.write(
            own[made_of], made_of, other.table, cell=other.cell, provenance=changed
        )
    score(own, 1)
    evaluate(own, 1)
    behind = parquet_tables.read_footer(own[kind]).provenance["models_behind"]
    assert behind == {
        f"candidates of {CELL['model']!r} (model)": {"content": "c1", "dtype": "float32"}
    }


def rewritten(path: Path, kind: str, **change: Any) -> None:
    """The table with a footer that says other things."""
    table = parquet_tables.read(path, kind)
    parquet_tables.write(
        path, kind, table.table, cell=table.cell, provenance=table.provenance | change
    )


def test_scores_and_evaluations_name_the_settings_behind_them(own: dict[str, Path]) -> None:
    behind = parquet_tables.read_footer(own["scores"]).provenance["settings_behind"]
    assert behind == {"questions": {"seed": 1}, "candidates": {"seed": 1}, "similarity": {}}
    further = parquet_tables.read_footer(own["evaluation"]).provenance["settings_behind"]
    assert further.pop("scores")["methods"] == SCORING["methods"]
    assert further == behind | {"quality": METRIC}


WEIGHTS = {"source": "hub:org/name", "revision": "r", "content": "c1", "tokenizer": "t"}


@pytest.mark.parametrize(
    ("kind", "made", "asked", "told"),
    [
        (
            "candidates",
            {"dtype": "bfloat16", "device": "cpu"},
            {"dtype": {"cpu": "float32"}},
            "dtype on cpu 'bfloat16'",
        ),
        (
            "candidates",
            {"dtype": "bfloat16", "device": "cuda"},
            {"dtype": {"cpu": "float32", "cuda": "float32"}},
            "dtype on cuda 'bfloat16', 'float32' is asked for; say --config dtype=bfloat16 if "
            "that is meant",
        ),
        (
            "similarity",
            {"models": {"model": WEIGHTS}},
            {"models": {"model": {"source": "hub:org/other"}}},
            "source of model 'hub:org/name', 'hub:org/other' is asked for",
        ),
        (
            "similarity",
            {"models": {"model": WEIGHTS}},
            {"models": {"model": {"source": "hub:org/name", "content": "c2"}}},
            "content of model 'c1', 'c2' is asked for",
        ),
    ],
)
def test_a_table_of_other_weights_or_dtype_is_not_scored_though_it_is_the_only_one(
    kind: str, made: dict[str, Any], asked: dict[str, Any], told: str, own: dict[str, Path]
) -> None:
    rewritten(own[kind], kind, **made)
    read = {name: own[name] for name in ("questions", "candidates", "similarity", "scores")}
    with pytest.raises(
        BeamUQError, match=f"{kind}.*: was made with {told}.*delete it and run again"
    ):
        run_job("scores", read | {"settings": SCORING | {"seed": 1}, "made_with": {kind: asked}})


@pytest.mark.parametrize(
    ("behind", "asked", "told"),
    [
        (
            {"candidates": {"max_new_tokens": 20}},
            {"candidates": {"max_new_tokens": 30}},
            "candidates with max_new_tok",
        ),
        (
            {"candidates": {"temperature": 0.7}},
            {"candidates": {"temperature": None}},
            "candidates with temperature 0.7",
        ),
        (
            {"similarity": {"kind": "a"}},
            {"similarity": {"kind": "b"}},
            "similarity with kind 'a', 'b'",
        ),
        (
            {"similarity": {"models": {"model": {"content": "c1"}}}},
            {"similarity": {"models": {"model": {"content": "c2"}}}},
            "similarity with content of model 'c1'",
        ),
        (
            {"cross_similarity": {"kind": "a"}},
            {"cross_similarity": {"kind": "b"}},
            "cross_similarity with kind",
        ),
        ({"candidates": {"seed": 2}}, {}, "candidates with seed 2, 1"),
    ],
)
def test_foreign_scores_are_not_evaluated_whatever_is_read_beside_them(
    behind: dict[str, Any], asked: dict[str, Any], told: str, own: dict[str, Path]
) -> None:
    rewritten(own["scores"], "scores", settings_behind=behind)
    read = {
        name: own[name] for name in ("questions", "scores", "quality", "evaluation", "replicates")
    }
    with pytest.raises(
        BeamUQError, match=rf"scores/.*: was made from {told}.*; delete it and run again"
    ):
        run_job("evaluation", read | {"settings": MEASURED | {"seed": 1}, "made_with": asked})


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        ({"candidates": {"max_new_tokens": 3}}, "candidates with max_new_tokens 3"),
        (
            {"candidates": {"models": {"model": {"source": "hub:org/other"}}}},
            "candidates with source of model",
        ),
        ({"similarity": {"kind": "nli"}}, "similarity with kind 'nli', 'embedding'"),
        (
            {"similarity": {"models": {"model": {"source": "hub:org/other"}}}},
            "similarity with source of model",
        ),
        (
            {"similarity": {"name": "nli_large", "kind": "embedding"}},
            None,
        ),  # of a scorer that the study does not have
        ({"scores": {"epsilon": 0.3}}, "scores with epsilon 0.3"),
        ({"quality exact_match": {"metric": "exact_match"}}, None),
    ],
)
def test_an_exhibit_reads_no_table_made_from_foreign_ones(
    behind: dict[str, Any], told: str | None, own: dict[str, Path]
) -> None:
    rewritten(own["evaluation"], "evaluation", settings_behind=behind, settings={"seed": 1})
    study = load_study(STUDIES / "demo.yaml").model_copy(update={"seed": 1})
    wanted = [Artifact("evaluation", **(CELL | SCORER))]
    if told is None:
        Inputs.read(own["questions"].parents[1], wanted, study)
        return
    with pytest.raises(
        BeamUQError, match=rf"evaluation/.*: was made from {told}.*; delete it and run again"
    ):
        Inputs.read(own["questions"].parents[1], wanted, study)


def test_tables_that_earlier_versions_wrote_are_read_and_it_is_said(
    own: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(own, 1)
    assert "earlier version" not in capsys.readouterr().err
    table = parquet_tables.read(own["scores"], "scores")
    before = {name: of for name, of in table.provenance.items() if name != "settings_behind"}
    parquet_tables.write(own["scores"], "scores", table.table, cell=table.cell, provenance=before)
    evaluate(own, 1)
    assert f"{own['scores']}: written by an earlier version" in capsys.readouterr().err


def test_models_of_one_run_have_one_dtype(tmp_path: Path) -> None:
    tables = []
    for model, dtype in (("one", "float32"), ("other", "bfloat16")):
        facts = {"dtype": dtype, "models": {"model": {"content": model}}}
        tables.append(
            Footer(tmp_path / f"{model}.parquet", "candidates", CELL | {"model": model}, facts)
        )
        tables[-1].path.write_bytes(b"")
    with pytest.raises(
        BeamUQError,
        match=r"other.parquet: was made with another dtype of candidates than .*one.parq",
    ):
        check_one_run(tables)


def test_weights_are_those_that_were_fetched(tmp_path: Path) -> None:
    fetched = {"hub:org/name": {"model.safetensors": "a"}}
    own = {"source": "hub:org/name", "content": content_of(fetched["hub:org/name"])}
    for identity in (own, {"source": "folder:own", "content": "c"}):
        check_weights(
            [Footer(tmp_path, "similarity", {}, {"models": {"model": identity}})], fetched
        )
    other = Footer(
        tmp_path / "s.parquet", "similarity", {}, {"models": {"model": own | {"content": "c" * 64}}}
    )
    with pytest.raises(
        BeamUQError, match=r"s\.parquet: was made with other weights .*hub:org/name"
    ):
        check_weights([other], fetched)


READ = {
    score: ("questions", "candidates", "similarity"),
    evaluate: ("questions", "scores", "quality"),
}


@pytest.mark.parametrize(
    ("step", "kind"), [(step, kind) for step, kinds in READ.items() for kind in kinds]
)
def test_another_runs_file_is_neither_scored_nor_evaluated(
    step: Callable[[Any, int], None], kind: str, own: dict[str, Path], runs: Any
) -> None:
    swap(own, runs, kind)
    with pytest.raises(
        BeamUQError, match=r"\.parquet: was made with .* (run: )?delete it and run again"
    ):
        step(own, 1)


@pytest.mark.parametrize(
    ("kind", "setting"), [("similarity", "kind"), ("candidates", "max_new_tokens")]
)
def test_a_table_that_was_made_with_other_settings_is_not_scored(
    kind: str, setting: str, own: dict[str, Path]
) -> None:
    """The similarity of another scorer behind the same name, or candidates that were decoded
    otherwise.
    """
    table = parquet_tables.read(own[kind], kind)
    footer = table.provenance | {"settings": table.provenance["settings"] | {setting: "of before"}}
    parquet_tables.write(own[kind], kind, table.table, cell=table.cell, provenance=footer)
    read = {name: own[name] for name in ("questions", "candidates", "similarity", "scores")}
    with pytest.raises(
        BeamUQError, match=rf"{kind}.*: was made with {setting} 'of before', 'of now' is asked for"
    ):
        run_job(
            "scores",
            read | {"settings": SCORING | {"seed": 1}, "made_with": {kind: {setting: "of now"}}},
        )


@pytest.mark.parametrize("kind", [*OF, "scores", "evaluation", "replicates"])
def test_the_overview_finds_every_file_of_another_run(
    kind: str, own: dict[str, Path], runs: Any
) -> None:
    swap(own, runs, kind)
    with pytest.raises(BeamUQError, match="one of the two is of another run"):
        check_one_run(map(parquet_tables.read_footer, own.values()))


@pytest.mark.parametrize("kind", ["evaluation", "candidates"])
def test_an_exhibit_does_not_read_another_runs_file(
    kind: str, own: dict[str, Path], runs: Any
) -> None:
    swap(own, runs, kind)
    study = load_study(STUDIES / "demo.yaml").model_copy(update={"seed": 1})
    evaluation = study.evaluation.model_copy(update={"resamples": 100, "metrics": ["PRR"]})
    study = study.model_copy(update={"evaluation": evaluation, "quality": study.quality[:1]})
    artifact = Artifact(kind, **(CELL if kind == "candidates" else CELL | SCORER))
    with pytest.raises(BeamUQError, match=r"was made with seed 77, 1 is asked for; delete it"):
        Inputs.read(own["questions"].parents[1], [artifact], study)


@pytest.mark.parametrize(("decoded", "asked"), [(0.7, None), (None, 0.7), (0.7, 0.5)])
def test_candidates_of_another_token_temperature_are_refused(
    decoded: float | None, asked: float | None, own: dict[str, Path]
) -> None:
    table = parquet_tables.read(own["candidates"], "candidates")
    named = {} if decoded is None else {"temperature": decoded}
    footer = table.provenance | {"settings": table.provenance["settings"] | named}
    parquet_tables.write(
        own["candidates"], "candidates", table.table, cell=table.cell, provenance=footer
    )
    study = load_study(STUDIES / "demo.yaml").model_copy(update={"seed": 1})
    model = study.models[CELL["model"]].model_copy(update={"temperature": asked})
    study = study.model_copy(update={"models": study.models | {CELL["model"]: model}})
    with pytest.raises(
        BeamUQError, match=rf"was made with temperature {decoded}, {asked} is asked for; delete it"
    ):
        Inputs.read(own["questions"].parents[1], [Artifact("candidates", **CELL)], study)


@pytest.mark.parametrize(
    ("kind", "fact"),
    [("candidates", "dtype"), ("similarity", "content"), ("judgements", "content")],
)
def test_tables_of_other_weights_or_dtypes_under_one_name_are_not_read_together(
    kind: str, fact: str, tmp_path: Path
) -> None:
    scores = []
    for dataset, value in (("triviaqa", "first"), ("coqa", "second")):
        facts = {"dtype": "float32", "models": {"model": {"content": "same"}}}
        if fact == "dtype":
            facts["dtype"] = value
        else:
            facts["models"] = {"model": {"content": value}}
        cell = CELL | SCORER | {"dataset": dataset}
        made = Footer(tmp_path / f"{dataset}.parquet", kind, cell, facts)
        footer = provenance({}, {}, tables={kind: made})
        scores.append(Footer(tmp_path / f"scores_{dataset}.parquet", "scores", cell, footer))
        scores[-1].path.write_bytes(b"")
    with pytest.raises(BeamUQError, match=rf"another model or dtype in {kind} of "):
        check_one_run(scores)


def test_a_file_in_another_cells_place_is_refused(own: dict[str, Path]) -> None:
    other = own["candidates"].with_name("beam_widths.parquet")
    own["candidates"].rename(other)
    with pytest.raises(
        BeamUQError,
        match=r"beam_widths\.parquet: holds .*'main'.*, another cell than its path says",
    ):
        read_cell({"candidates": other}, {})


@pytest.mark.parametrize("changed", ["questions", "shots"])
def test_prompts_of_another_run_are_not_decoded(changed: str, tmp_path: Path) -> None:
    files = {kind: tmp_path / Artifact(kind, "web").path for kind in ("questions", "shots")}
    prompts = tmp_path / Artifact("prompts", "web", style="base").path

    def write(kind: str, *names: str) -> None:
        rows = [dict(question(name, f"who is {name}?", ["x"])) for name in names]
        facts = {"settings": {"adapter": "trivia_qa", "seed": 1}}
        parquet_tables.write(files[kind], kind, rows, cell={"dataset": "web"}, provenance=facts)

    write("questions", "a", "b")
    write("shots", "s")
    template = PROMPTS / "base/trivia_qa.txt"
    job = {"template": template, "style": "base", "dataset": "web", "prompts": prompts}
    run_job("prompts", job | files)
    write(changed, *("ba" if changed == "questions" else "t"))
    settings = {"cell": {"dataset": "web"}, "questions": 2, "style": "base"}
    decode = {
        "prompts": prompts,
        "model": tmp_path / "none/config.json",
        "candidates": tmp_path / "out.parquet",
    }
    with pytest.raises(
        BeamUQError, match=rf"{prompts}: not the prompts that .* give, but another run's; delete it"
    ):
        run_job("candidates", decode | {"settings": settings, "device": "cpu", "dtype": "float32"})

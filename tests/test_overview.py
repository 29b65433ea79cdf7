"""The overview opens with what was found, then tells of missing, empty and cut answers and of what
made the tables.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import beamuq
from beamuq.errors import BeamUQError
from beamuq_study.overview import overview_tables
from beamuq_study.parquet_tables import Footer, Loaded
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.study_config import Study
from headless_chromium import chromium
from run_job import program

CELL = {"model": "smollm2-135m-plain", "dataset": "coqa", "recipe": "main"}
ASKED = {"coqa": ["q1", "q2", "q3", "q4", "q5", "never asked"]}


@pytest.fixture(scope="module")
def study() -> Study:
    return Plan.load({"study": "demo", "device": "cpu"}).study


def candidates(texts: dict[str, list[tuple[str, bool]]], strategy: str = "greedy") -> Loaded:
    """A cell of five questions: (text, terminated) by rank and question."""
    rows = [
        {"id": key, "strategy": strategy, "rank": rank, "text": text, "terminated": terminated}
        for key, ranked in texts.items()
        for rank, (text, terminated) in enumerate(ranked)
    ]
    return Loaded(
        Path(), "candidates", CELL, {"settings": {"questions": 5}}, pa.Table.from_pylist(rows)
    )


SOME = candidates(
    {"q1": [("Rome", True)], "q2": [("", True)], "q3": [("", False)], "q5": [("in the", False)]}
)


def test_each_produced_answer_is_counted(study: Study) -> None:
    found = overview_tables.counts(study, ASKED, [SOME]).set_index(["answer_source", "strategy"])
    columns = ["asked", "dropped", "texts", "empty", "cut"]
    assert found.loc[("greedy", "greedy"), columns].tolist() == [5, 1, 4, 2, 2]
    assert found.loc[("top_beam", "beam M=10"), columns].tolist() == [5, 5, 0, 0, 0]
    assert list(found.loc[""].index) == ["greedy", "sample T=1.0", "beam M=10"]


def test_only_the_first_beam_is_the_produced_answer(study: Study) -> None:
    beams = candidates(
        {key: [("Rome", True), ("", False)] for key in ASKED["coqa"][:5]}, "beam M=10"
    )
    found = overview_tables.counts(study, ASKED, [beams]).set_index(["answer_source", "strategy"])
    assert found.loc[("top_beam", "beam M=10"), ["empty", "cut"]].tolist() == [0, 0]
    assert found.loc[("", "beam M=10"), ["texts", "empty", "cut"]].tolist() == [10, 5, 5]
    listed = overview_tables.listed(study, ASKED, [beams])
    assert set(listed["answer_source"]) == {"greedy"}


def test_every_question_with_such_an_answer_is_listed(study: Study) -> None:
    found = overview_tables.listed(study, ASKED, [SOME])
    greedy = found[found["answer_source"] == "greedy"]
    assert (greedy["what"] + " " + greedy["id"]).tolist() == [
        "dropped q4",
        "empty q2",
        "empty q3",
        "cut q3",
        "cut q5",
    ]


def test_answers_that_name_no_option_or_several_are_told(study: Study) -> None:
    told = {"options_named": {"greedy": {"answers": 8, "none": 2, "several": 1}}}
    made = [Footer(Path(), "quality", CELL | {"metric": "gold_label"}, told), SOME]
    (row,) = overview_tables.options_named(study, made).to_dict("records")
    assert [row[name] for name in ("answers", "none", "none %", "several", "several %")] == [
        8,
        2,
        25.0,
        1,
        12.5,
    ]
    assert overview_tables.options_named(study, [SOME]).empty


def questions_of_coqa(count: int) -> Loaded:
    rows = [{"id": f"q{number}", "group": f"g{number}"} for number in range(count)]
    split = {"name": "validation.jsonl", "sha256": "0" * 64, "fetched": None}
    provenance = {
        "files": {"split": split},
        "read": {"questions": count, "repeated_rows": 0},
    }
    table = pa.Table.from_pylist(rows)
    return Loaded(Path(), "questions", {"dataset": "coqa"}, provenance, table)


def test_of_a_dataset_those_questions_count_that_a_cell_asks(study: Study) -> None:
    content = study.model_dump()
    for entry in content["grid"]:
        entry["questions"] = 4
    cut = Study.model_validate(content)
    (row,) = overview_tables.datasets(cut, [questions_of_coqa(9)]).to_dict("records")
    columns = ["questions in the split", "left out: not in the seeded subset", "asked"]
    assert [row[name] for name in (*columns, "groups (n)")] == [9, 5, 4, 4]


@pytest.mark.parametrize("path", ["questions", "/data/questions", "data/questions/"])
def test_a_folder_is_named_without_its_path(study: Study, path: str) -> None:
    content = study.model_dump()
    content["datasets"]["coqa"]["source"] = f"folder:{path}"
    moved = Study.model_validate(content)
    (row,) = overview_tables.datasets(moved, [questions_of_coqa(9)]).to_dict("records")
    assert row["source"] == "folder questions"


def test_the_page_opens_with_results_and_links_every_exhibit_there_is(
    study: Study, tmp_path: Path
) -> None:
    results, figures = tmp_path / "results/demo", tmp_path / "figures/demo"
    exhibits = [figures / f"{name}.pdf" for name in ("paired", "prr_curves")] + [
        results / "tables/qa_mean_prr.csv"
    ]
    for path in exhibits:
        path.parent.mkdir(parents=True, exist_ok=True)
        title = f"<title>[demo] {path.stem} &amp; more</title>"
        path.with_suffix(".svg").write_text(f"<svg>{title}</svg>")
        path.with_suffix(".txt").write_text(f"[demo] {path.stem} & more. What it shows.")
        path.with_suffix(".html").write_text(
            f"{title}\n<p>Best is bold.</p>\n<div>.669</div>\n<footer>of a table</footer>\n</body>"
        )
    claims = results / "claims.csv"
    rows = [
        ("a", "Beams win.", "no", "1"),
        ("a", "Beams win.", "no", "2"),
        ("b", "Samples win.", "not asked", ""),
    ]
    pd.DataFrame(rows, columns=["id", "claim", "outcome", "model"]).assign(where="here").to_csv(
        claims
    )
    made_of = {"Models": pd.DataFrame({"model": ["tiny"]}), "Options": pd.DataFrame()}
    page = program("overview").page(study, exhibits, claims, results, made_of)
    parts = [
        "This is a demo",
        "<div>.669</div>",
        "data:image/svg+xml",
        "no × 2",
        "1 of 2 claims",
        "<summary>Models",
    ]
    assert [page.index(part) for part in parts] == sorted(page.index(part) for part in parts)
    assert not re.search("Samples win|<summary>Options|of a table", page)
    assert "are asked of this study. <a" in page
    assert f"<footer>{study.title} · beamuq {beamuq.__version__}</footer>" in page
    linked = {
        "comparison.html",
        "explorer.html",
        "ledger.html",
        "answers.csv",
        "answers_listed.csv",
    }
    linked |= {
        "tables/qa_mean_prr.html",
        *(f"../../figures/demo/{name}.svg" for name in ("paired", "prr_curves")),
    }
    assert set(re.findall('href="(.*?)"', page)) == linked


def overview_of(study: Study, folder: Path, names: list[str], claims: list[tuple[str, str]]) -> str:
    """The page of a study with these tables, and these claims by id and outcome."""
    exhibits = tuple(folder / f"tables/{name}.csv" for name in names)
    (folder / "tables").mkdir()
    for path in exhibits:
        text = (
            f"<title>{path.stem}</title>\n<p>{path.stem}. What it shows.</p>\n<div>{path.stem} "
            "body</div>\n</body>"
        )
        path.with_suffix(".html").write_text(text)
    rows = [(key, f"claim {key}", outcome, "mine", "here") for key, outcome in claims]
    frame = pd.DataFrame(rows, columns=["id", "claim", "outcome", "model", "where"])
    frame.to_csv(folder / "claims.csv")
    return program("overview").page(study, exhibits, folder / "claims.csv", folder, {})


@pytest.mark.browser
@pytest.mark.parametrize("width", [420, 1400])
def test_a_page_is_no_wider_than_its_window_its_figures_shrink_and_its_tables_scroll(
    study: Study, tmp_path: Path, width: int
) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="300"><title>t</title></svg>'
    (tmp_path / "paired.svg").write_text(svg)
    (tmp_path / "paired.txt").write_text("t. What it shows.")
    made_of = {"Models": pd.DataFrame({f"a long column {n}": ["x" * 20] for n in range(30)})}
    pd.DataFrame({"id": [], "claim": [], "outcome": [], "model": [], "where": []}).to_csv(
        claims := tmp_path / "claims.csv"
    )
    text = program("overview").page(study, (tmp_path / "paired.pdf",), claims, tmp_path, made_of)
    (page := tmp_path / "overview.html").write_text(text.replace("<details>", "<details open>"))
    with chromium(tmp_path / "profile") as shown:
        shown.show(page.as_uri(), width)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate("document.images[0].getBoundingClientRect().width") <= width
        assert shown.evaluate(
            "[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth)"
        )


def test_a_study_of_one_s_own_opens_with_its_first_table(study: Study, tmp_path: Path) -> None:
    page = overview_of(study, tmp_path, ["base_accs", "augrc"], [])
    assert "base_accs body" in page
    assert "augrc body" not in page


def test_claims_about_datasets_that_a_study_does_not_have_are_not_listed(
    study: Study, tmp_path: Path
) -> None:
    own = study.model_copy(update={"datasets": {"mine": study.datasets["triviaqa"]}})
    page = overview_of(own, tmp_path, [], [("mass-condition", "too few"), ("theorem", "no")])
    assert "claim theorem" in page
    assert "claim mass-condition" not in page


def test_no_heading_promises_results_where_there_are_none(study: Study, tmp_path: Path) -> None:
    assert "What was found" not in overview_of(study, tmp_path, [], [("theorem", "not asked")])


def test_candidates_of_one_model_from_two_servers_make_no_page(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overview = program("overview")
    footers = []
    for name in ("one", "other"):
        server = {"kind": "vllm", "version": "1", "model": name, "tokenizer": "t", "noise": 0.0}
        made = {"server": server | {"probes": []}}
        footers.append(Footer(Path(name), "candidates", CELL, made))
    monkeypatch.setattr(overview, "load_study", lambda _: study)
    monkeypatch.setattr(overview, "check_study", lambda *_: None)
    monkeypatch.setattr(overview, "_read", lambda *_: overview._Read([], footers, []))
    with pytest.raises(BeamUQError, match="other: another server gave it than one"):
        overview.run(study=tmp_path / "study.json", manifests=(), exhibits=(), claims=tmp_path)


def test_claims_that_are_asked_and_not_listed_are_counted(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = tmp_path / "claims.csv"
    rows = [
        ("cocoamsp-best", "All datasets.", "too few"),
        ("of-another", "Of another dataset.", "too few"),
        ("other", "Not asked.", "not asked"),
    ]
    frame = pd.DataFrame(rows, columns=["id", "claim", "outcome"])
    frame.assign(where="here", model="tiny").to_csv(claims)
    overview = program("overview")
    monkeypatch.setattr(overview, "_claims_about_other_datasets", lambda _: ["of-another"])
    page = overview.page(study, [], claims, tmp_path, {})
    told = (
        "2 of 3 claims are asked of this study; listed are the 1 about all datasets or one of the"
    )
    assert told in " ".join(page.split())

"""The part of the paper's study that a claim needs: it loads, is cut to the cells, and the claim is decided on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import study_of_claim
from beamuq.comparison.claim_verdicts import ClaimEvidence
from beamuq.comparison.claims import ask, judge, read_claims
from beamuq.comparison.tolerances_and_families import PAPER_STUDY
from beamuq.plan.study_on_machine import Plan
from beamuq.study_config import load_study
from simulated_paper_run import PRINTED, RULES, results, study

PAPER = load_study(PAPER_STUDY)
CONTENT = yaml.safe_load(PAPER_STUDY.read_text(encoding="utf-8"))
CLAIMS = {claim.id: claim for claim in read_claims()}
CELLS = {name: study_of_claim.cells_of(claim, PAPER) for name, claim in CLAIMS.items()}


@pytest.mark.parametrize("name", {tuple(cells): name for name, cells in CELLS.items() if cells}.values())
def test_the_study_of_a_claim_loads_and_holds_its_cells_and_no_others(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(study_of_claim.cut(CONTENT, CELLS[name])))
    assert list(Plan.load({"study": str(file)}).grid.cells.values()) == CELLS[name]


@pytest.mark.parametrize("name", ["every-budget", "strategies-yield", "rejection-curves", "plateau-choice"])
def test_a_claim_is_decided_on_its_cells_alone(name: str, tmp_path: Path) -> None:
    of = study(grid=study_of_claim.cut({}, CELLS[name])["grid"])
    evidence = ClaimEvidence(results(of, tmp_path), PRINTED, RULES)
    claims = [CLAIMS[name], CLAIMS["consistently-improves"]]
    assert list(judge(claims, evidence, ask(claims, evidence))["status"] == "not run") == [False, True]


def test_only_claims_that_no_measurement_of_a_run_decides_have_no_study() -> None:
    assert {name for name, cells in CELLS.items() if not cells} == {"theorem", "no-additional-cost", "gpu-days"}


def test_the_command_writes_the_study_and_names_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["study_of_claim.py", "short-answers"])
    study_of_claim.main()
    assert (tmp_path / "short-answers.yaml").is_file()
    assert "results/short-answers/comparison.html" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "told"), [("short-answer", "short-answers"), ("theorem", "no run decides it")])
def test_a_claim_without_a_study_is_refused_in_one_line(name: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["study_of_claim.py", name])
    with pytest.raises(SystemExit, match=told):
        study_of_claim.main()

"""A job that is killed goes on from what it has, one in shards is joined: the bytes are those of a
clean run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beamuq_study import cost_records
from beamuq_study.plan.study_on_machine import Plan
from beamuq_study.study_config import ROOT
from micro import CANDIDATES, EVALUATION, SIMILARITY, Workplace, micro_study, wait_for
from run_snakemake import ENVIRONMENT

pytestmark = pytest.mark.slow

LOG = "logs/micro/candidates/tiny/triviaqa/main.log"


def test_each_stage_that_takes_long_may_be_killed_once_which_is_told_and_counted(
    decoded: Workplace, prompted: Workplace
) -> None:
    waiting = ["candidates", "similarity"]
    with ThreadPoolExecutor() as threads:
        run = threads.submit(prompted.run, SIMILARITY, "--retries", "1")
        while not run.done():
            for step in waiting[:1]:
                number = prompted.process_of(step)
                if number is not None and (step != "candidates" or prompted.parts()):
                    os.kill(number, signal.SIGKILL)
                    waiting.remove(step)
            time.sleep(0.005)
        said = run.result()
    assert waiting == []
    assert "Error in rule candidates" in said
    assert "SIGKILL" in said or "Killed" in said or "137" in said
    assert LOG in said
    assert "questions are there from an earlier run" in said
    assert prompted.hashes() == decoded.hashes()
    record = prompted.folder / "results/micro/costs/candidates/tiny/triviaqa/main.jsonl"
    killed, finished = cost_records.read(record)
    assert (killed["state"], finished["state"]) == (cost_records.RUNNING, cost_records.FINISHED)
    assert f"CPU: {finished['cpu_seconds']:.1f} s" in (prompted.folder / LOG).read_text()


def test_sigterm_keeps_the_batch_and_the_next_run_goes_on(
    decoded: Workplace, prompted: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prompted.folder)
    plan = Plan.load({"study": "micro.yaml", "device": "cpu"})
    of: Any = SimpleNamespace(model="tiny", dataset="triviaqa", recipe="main", style="base")
    read = {"prompts": plan.files.prompts(of), "model": plan.files.model("candidates")(of)[0]}
    settings = {
        "settings": plan.settings.candidates(of),
        "loading": plan.settings.loading("candidates")(of),
    }
    words = {
        name: str(value) for name, value in (read | settings | {"candidates": CANDIDATES}).items()
    }
    command = ["python", str(ROOT / "workflow/scripts/candidates.py")]
    command += [word for name, value in words.items() for word in (f"--{name}", value)]
    options: dict[str, Any] = {"env": ENVIRONMENT, "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    job = subprocess.Popen(command, **options)
    wait_for(lambda: len(prompted.parts()) > 1 or job.poll() is not None)
    job.send_signal(signal.SIGTERM)
    said = job.communicate(timeout=120)[0]
    assert job.returncode == 143, said
    kept = len(prompted.parts())
    assert 2 <= kept < 20
    assert not Path(CANDIDATES).exists()
    again = subprocess.run(command, check=True, **options)
    assert f"{kept} of 20 questions are there from an earlier run" in again.stdout
    assert Path(CANDIDATES).read_bytes() == (decoded.folder / CANDIDATES).read_bytes()


@pytest.mark.parametrize(("count", "cards"), [(1, 1), (3, 0)])
def test_joining_shards_asks_for_no_card(count: int, cards: int) -> None:
    plan = Plan.load({"study": "demo", "device": "cuda", "shards": count})
    wildcards: Any = SimpleNamespace(
        model=next(iter(plan.study.models)), scorer=plan.study.main.scorer
    )
    assert [plan.gpus(rule)(wildcards) for rule in ("candidates", "similarity")] == [cards, 1]


def test_a_sharded_cell_is_the_whole_one_byte_for_byte(
    decoded: Workplace, prompted: Workplace
) -> None:
    path = prompted.folder / CANDIDATES
    costs = prompted.folder / "results/micro/costs/candidates/tiny/triviaqa/main.shards"
    costs.mkdir(parents=True)
    (costs / "1-of-3.jsonl").touch()
    told = prompted.run(CANDIDATES, settings=("shards=2",))
    assert told.count("(Rule: candidates_shard)") == 2
    assert sorted(file.name for file in costs.iterdir()) == ["1-of-2.jsonl", "2-of-2.jsonl"]
    assert path.read_bytes() == (decoded.folder / CANDIDATES).read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [
        path.name
    ]  # neither markers nor batches
    assert "Nothing to be done" in prompted.run(CANDIDATES, "--dry-run", settings=("shards=2",))


@pytest.mark.parametrize(
    "history", [True, False], ids=["programs touched", "results copied without their history"]
)
def test_nothing_is_decoded_again_in_another_checkout_whose_programs_are_newer(
    history: bool, decoded: Workplace, tmp_path: Path
) -> None:
    checkout, place = tmp_path / "checkout", decoded.copy(tmp_path / "place")
    for name in ("src", "workflow", "studies", "profiles", "envs"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", checkout)
    of_checkout = ("--snakefile", str(checkout / "Snakefile"))
    place.run(
        "--touch", SIMILARITY, *of_checkout
    )  # as if made there: the demo's questions lie in a checkout
    for program in (checkout / "workflow/scripts").iterdir():
        program.touch()
    if not history:
        shutil.rmtree(place.folder / ".snakemake")
    plan = place.run("--dry-run", EVALUATION, *of_checkout)
    planned = set(re.findall(r"^(\w+) +\d+$", plan, re.MULTILINE)) - {"total"}
    assert planned == {"quality", "scores", "evaluation"}


def test_large_data_that_were_copied_anew_are_not_read_again(
    tiny_models: Path, tmp_path: Path
) -> None:
    split = tmp_path / "data/test.jsonl"
    split.parent.mkdir()
    row = {"url": "x" * 600_000, "question": "Who?", "answers": ["he"]}
    split.write_text(
        "".join(
            json.dumps(row | {"question": f"Who was {name}?"}) + "\n" for name in ("Ann", "Bob")
        )
    )
    study = micro_study(tiny_models)
    study["datasets"]["triviaqa"] |= {
        "adapter": (
            "web_questions"
        ), "source": f"folder:{split.parent}", "split": "test", "few_shot": 0, "questions": 2
    }  # fmt: skip
    place, questions = (
        Workplace(tmp_path / "place", study),
        "results/micro/questions/triviaqa.parquet",
    )
    place.run(questions)
    split.touch()
    assert "Nothing to be done" in place.run(questions, "--dry-run")

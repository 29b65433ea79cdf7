"""The marked blocks of a documentation page: files to write, commands to run, and what these print,
in order.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from beamuq_study.study_config import ROOT
from page_blocks import BLOCK, DOCS, blocks
from run_snakemake import ENVIRONMENT

MODELS = ROOT / "resources/models"
LIBRARY_PAGES = [
    "what_scores_mean.md",
    "decide.md",
    "when_beams_win.md",
    "where_you_evaluate.md",
    "reference/answers.md",
    "reference/candidates.md",
]
"""Pages of the library: each prints what it shows, in the environment of an installed wheel."""
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")


def unmarked(page: str) -> list[str]:
    """The blocks of ``docs/<page>`` that no mark stands above, so that nothing runs or compares
    them.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(
        r"^```(?:bash|python|json)$.*?^```$", BLOCK.sub("", text), re.DOTALL | re.MULTILINE
    )


def assert_prints(shown: str, printed: str) -> None:
    """``printed`` is what a page shows: ``…`` is any text, space may differ, a number by 2 % or
    .002.
    """
    pattern = re.escape(" ".join(_NUMBER.sub("\0", shown).split()))
    pattern = pattern.replace("\0", f"({_NUMBER.pattern})").replace("…", ".*?")
    match = re.fullmatch(pattern, " ".join(printed.split()))
    assert match, f"the page shows\n{shown}\nand this was printed:\n{printed}"
    wanted = [float(number) for number in _NUMBER.findall(shown)]
    assert [float(number) for number in match.groups()] == pytest.approx(
        wanted, rel=0.02, abs=0.002
    ), printed


def follow(page: str, folder: Path, server: str = "", programs: Path | None = None) -> list[str]:
    """Do in ``folder`` what the page says; what each command printed. A failing command fails the
    test.

    A block of output has to be what the command before it printed, with or without what it said on
    standard error. ``server``: an address that takes the place of any port of ``localhost``.
    ``programs``: the bin folder of another environment, whose packages alone can then be imported.
    """
    printed = []
    environment = {
        "BEAMUQ": str(ROOT),
        "BEAMUQ_MODELS": str(MODELS),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if programs is None:
        environment = os.environ | environment | {"PATH": ENVIRONMENT["PATH"]}
    else:
        environment |= {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder)}
        environment |= {"LANG": "C.UTF-8"}
    options: dict[str, Any] = {
        "cwd": folder,
        "env": environment,
        "text": True,
        "capture_output": True,
        "timeout": 300,
    }
    done = subprocess.CompletedProcess[str]("", 0, "", "")
    for block in blocks(page):
        if block.kind in ("file", "add"):
            (folder / block.path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / block.path).open(
                "w" if block.kind == "file" else "a", encoding="utf-8"
            ) as file:
                file.write(block.text)
            continue
        if block.kind == "prints":
            said = done.stderr and block.text.rstrip().endswith(
                done.stderr.rstrip().splitlines()[-1]
            )
            assert_prints(block.text, done.stdout + (done.stderr if said else ""))
            continue
        command = ["bash", "-euo", "pipefail"] if block.kind == "run" else ["python"]
        text = re.sub(r"localhost:\d+", server, block.text) if server else block.text
        done = subprocess.run([*command, "-c", text], check=False, **options)
        logs = (
            "\n".join(path.read_text() for path in folder.glob("logs/**/*.log"))
            if done.returncode
            else ""
        )
        assert done.returncode == 0, f"{page}: {block.text}\n{done.stdout}{done.stderr}{logs}"
        printed.append(done.stdout)
    return printed

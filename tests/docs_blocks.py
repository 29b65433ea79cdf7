"""The blocks of a documentation page that are marked: files to write and commands to run, in order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import forked_programs
from beamuq_study.study_config import ROOT

DOCS = ROOT / "docs"
_BLOCK = re.compile(r"<!-- (file|add|run|python)(?:: (\S+))? -->\n```\w+\n(.*?)```\n", re.DOTALL)


class Block(NamedTuple):
    """``file``: to be written at ``path``; ``add``: at its end; ``run``: shell commands; ``python``: statements."""

    kind: str
    path: str
    text: str


def blocks(page: str) -> list[Block]:
    """The marked blocks of ``docs/<page>``, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [Block(*match) for match in _BLOCK.findall(text)]
    assert len(found) == len(re.findall("<!-- (?:file|add|run|python)", text)), page
    return found


def follow(page: str, folder: Path) -> list[str]:
    """Do in ``folder`` what the page says; what each command printed. A failing command fails the test."""
    printed = []
    environment = os.environ | {"BEAMUQ": str(ROOT), "PATH": forked_programs.path()}
    environment |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    options: dict[str, Any] = {"cwd": folder, "env": environment, "text": True, "capture_output": True, "timeout": 120}
    for block in blocks(page):
        if block.kind in ("file", "add"):
            (folder / block.path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / block.path).open("w" if block.kind == "file" else "a", encoding="utf-8") as file:
                file.write(block.text)
            continue
        command = ["bash", "-euo", "pipefail"] if block.kind == "run" else ["python"]
        done = subprocess.run([*command, "-c", block.text], check=False, **options)
        logs = "\n".join(path.read_text() for path in folder.glob("logs/**/*.log")) if done.returncode else ""
        assert done.returncode == 0, f"{page}: {block.text}\n{done.stdout}{done.stderr}{logs}"
        printed.append(done.stdout)
    return printed

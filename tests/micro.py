"""A study of one tiny model on one dataset, in a folder of its own, to run, kill and break."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import yaml

from beamuq_study.study_config import ROOT, STUDIES
from run_snakemake import snakemake

HEAVY = ("torch", "transformers", "scipy", "sklearn", "matplotlib", "pandas", "jinja2", "snakemake")
"""Packages that each cost a job a tenth of a second to seconds to import."""
CANDIDATES = "results/micro/candidates/tiny/triviaqa/main.parquet"
SIMILARITY = "results/micro/similarity/nli/tiny/triviaqa/main.parquet"
SCORES = "results/micro/scores/nli/tiny/triviaqa/main.parquet"
EVALUATION = "results/micro/evaluation/nli/tiny/triviaqa/main.parquet"


def build_models(folder: Path) -> Path:
    """A tiny Llama with room for real prompts, and a tiny NLI classifier."""
    # conftest.py imports this module, and not every run of tests needs torch, which takes long to
    # import
    from tiny import build_tiny_model
    from tiny_scorers import build_nli

    build_tiny_model("llama", folder / "llama", context=8192)
    build_nli(folder / "nli")
    return folder


def micro_study(models: Path) -> dict[str, Any]:
    """The demo study cut to one cell: 20 questions in as many batches, 5 samples and 5 beams, two
    exhibits.
    """
    study: dict[str, Any] = yaml.safe_load((STUDIES / "demo.yaml").read_text())
    model = {
        "label": "tiny",
        "title": "Tiny",
        "source": f"folder:{models / 'llama'}",
        "style": "base",
    }
    return study | {
        "models": {"tiny": model},
        "datasets": {"triviaqa": study["datasets"]["triviaqa"] | {"questions": 20}},
        "recipes": {"main": {"sample": {"size": 5}, "beam": {"widths": [5]}}},
        "scorers": {
            "nli": {"kind": "nli", "title": "tiny NLI", "source": f"folder:{models / 'nli'}"}
        },
        "main": {"recipe": "main", "scorer": "nli", "beam": "beam M=5", "num_candidates": 5},
        "scoring": {"main": {"methods": ["Prob", "Dissimilarity", "CocoaMSP"]}},
        "quality": study["quality"][:2],  # the gold option asks for options
        "answer_source": ["greedy"],
        "batch_questions": 1,
        "evaluation": {"resamples": 100},
        "grid": [
            {"recipe": "main", "models": ["tiny"], "datasets": ["triviaqa"], "scorers": ["nli"]}
        ],
        "exhibits": ["qa_tiny", "redundancy"],
    }


def noting_imports(folder: Path) -> dict[str, str]:
    """Environment variables with which every program notes down the packages of ``HEAVY`` that it
    has imported: in the folder's ``imports``, in a file of the program's name.
    """
    imports = folder / "imports"
    first_on_path = folder / "noting"
    imports.mkdir(exist_ok=True)
    first_on_path.mkdir(exist_ok=True)
    (first_on_path / "sitecustomize.py").write_text(
        "import atexit, pathlib, sys\n"
        "def note():\n"
        f"    names = sorted(set({HEAVY!r}) & sys.modules.keys())\n"
        f"    file = pathlib.Path({str(imports)!r}, pathlib.Path(sys.orig_argv[1]).stem)\n"
        "    file.write_text(' '.join(names))\n"
        "if len(sys.orig_argv) > 1 and '/scripts/' in sys.orig_argv[1]:\n"
        "    atexit.register(note)\n"
    )
    return {"PYTHONPATH": str(first_on_path)}


class Workplace:
    """A folder with a study, ``micro.yaml``, and a config.yaml, as a user's own would be."""

    def __init__(self, folder: Path, study: dict[str, Any] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if study is not None:
            (folder / "micro.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
            shutil.copy(ROOT / "config.yaml", folder)

    def copy(self, folder: Path) -> Workplace:
        """Another folder with everything that this one holds, time stamps included."""
        shutil.copytree(self.folder, folder)
        return Workplace(folder)

    def run(
        self,
        *arguments: str,
        settings: tuple[str, ...] = (),
        fails: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """What Snakemake and the logs of its jobs say."""
        done = snakemake(self.folder, *self._words(arguments, settings), **environment)
        output = done.stdout + done.stderr + self.logs()
        assert (done.returncode != 0) == fails, output
        return output

    def _words(self, arguments: tuple[str, ...], settings: tuple[str, ...]) -> list[str]:
        profiled = any("profile" in argument for argument in arguments)
        usual = () if profiled else ("--cores", "2")
        return [*arguments, *usual, "--config", "study=micro.yaml", "device=cpu", *settings]

    def logs(self) -> str:
        """What the jobs said."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("logs/**/*.log")))

    def frame(self, path: str) -> pd.DataFrame:
        """A Parquet file of the study."""
        return pq.read_table(self.folder / path).to_pandas()

    def hashes(self) -> dict[str, str]:
        """Every result by its content; how long jobs took is none."""
        files = [*self.folder.glob("results/**/*"), *self.folder.glob("figures/**/*")]
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(files)
            if path.is_file() and "/costs/" not in str(path) and "/ledger." not in str(path)
        }

    def parts(self) -> list[Path]:
        """The finished batches of a candidates job."""
        return sorted(self.folder.glob("results/micro/candidates/**/batch-*.parquet"))

    def process_of(self, step: str) -> int | None:
        """The process of the program of a step that runs here."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                started = len(words) > 1 and words[1].endswith(f"/scripts/{step}.py".encode())
                if started and (folder / "cwd").resolve() == self.folder.resolve():
                    return int(folder.name)
        return None


def wait_for(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """The first true value of ``condition``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("waited in vain")

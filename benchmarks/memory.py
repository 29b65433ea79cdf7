"""How much memory exhibits and the comparison of ``studies/paper.yaml`` take, at its own size.

    python -m benchmarks.memory    # an hour; 10 GB of made-up results under build/memory
    python -m benchmarks.memory --only comparison qa_mean_prr
    python -m benchmarks.memory --questions 60 --resamples 200    # minutes; not the paper's size

Each runs in a process of its own, as its job does; its peak is the process's largest resident set,
the interpreter and the libraries among it. Results that are there already are read, not made again.
Ends with status 1 where one takes more than ``--most`` GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from beamuq import io
from beamuq_study.comparison import beams_minus_samples, comparison_page
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import figure_style, list_of_exhibits, table_formats
from beamuq_study.html_pages import Drawing
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import STUDIES, Study, load_study
from benchmarks.paper_results import COMPARISON, PaperResults, needed

ROOT = Path(__file__).resolve().parents[1]
ENDINGS = {"pdf": "pdf", "svg": "svg", "png": "png", "csv": "csv", "caption": "txt"}
MEASURE = "import sys; from benchmarks.memory import main; main(sys.argv[1:])"


def make(label: str, study: Study, folder: Path, out: Path) -> None:
    """Make one exhibit, or the comparison, of the results in ``folder``, and write its files."""
    if label == COMPARISON:
        make_comparison(study, folder, out)
        return
    exhibit = list_of_exhibits.exhibit(label, study)
    built = exhibit.built(study, Inputs.read(folder, exhibit.artifacts(study), study))
    if exhibit.kind == "figure":
        figure_style.save(built, **files_of_figure(out, label))
        return
    io.write_text(out / f"{label}.csv", csv_text(built.frame))
    io.write_text(out / f"{label}.tex", table_formats.latex_fragment(built))
    io.write_text(out / f"{label}.md", table_formats.markdown(built))
    io.write_text(out / f"{label}.html", table_formats.html(built))


def make_comparison(study: Study, folder: Path, out: Path) -> None:
    """Make the comparison with the paper, and its figure."""
    comparison = comparison_page.compare_with_paper(study, folder / "study.json", folder)
    figure = beams_minus_samples.figure(comparison.results, comparison.differences)
    figure_style.save(figure, **files_of_figure(out, "paired"))
    drawing = Drawing.read(out / "paired.svg")
    for name, text in comparison_page.contents(comparison, drawing).items():
        io.write_text(out / f"comparison.{name}", text)


def files_of_figure(out: Path, label: str) -> dict[str, Path]:
    """Where the formats of a figure go."""
    return {name: out / f"{label}.{ending}" for name, ending in ENDINGS.items()}


def measured(label: str, folder: Path, out: Path) -> dict[str, float]:
    """Peak memory in GB and CPU seconds of one exhibit, made in a process of its own."""
    out.mkdir(parents=True, exist_ok=True)
    options = ["--one", label, "--folder", str(folder), "--out", str(out)]
    command = [sys.executable, "-c", MEASURE, *options]
    packages = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "workflow")])}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | packages, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{label}: ended with status {done.returncode}\n{done.stderr[-2000:]}")
    cost: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return cost


def one(label: str, folder: Path, out: Path) -> None:
    """Make one exhibit in this process and print its cost as JSON."""
    make(label, load_study(folder / "study.json"), folder, out)
    print(json.dumps({"gb": peak_bytes() / 1e9, "cpu_seconds": time.process_time()}))


def peak_bytes() -> int:
    """The largest resident set of this process.

    What the kernel tells of resource usage counts the process that started this one too.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = status.read_text().splitlines()
    highest = next(line for line in lines if line.startswith("VmHWM:"))
    return int(highest.split()[1]) * 1024


def study_of_paper(resamples: int | None) -> Study:
    """The paper's study, with so many resamples instead of its own."""
    study = load_study(STUDIES / "paper.yaml")
    if resamples:
        evaluation = study.evaluation.model_copy(update={"resamples": resamples})
        study = study.model_copy(update={"evaluation": evaluation})
    return study


def prepare(folder: Path, study: Study, labels: Sequence[str], questions: int | None) -> None:
    """Write what these exhibits read, where it is not there yet."""
    io.write_text(folder / "study.json", json.dumps(study.as_run()))
    results = PaperResults(folder, study, questions)
    missing = [need for need in needed(study, labels) if not (folder / need.path).exists()]
    started = time.perf_counter()
    for need in missing:
        results.write(need)
    if missing:
        print(f"made {len(missing)} files in {time.perf_counter() - started:.0f} s", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every exhibit and the comparison, print a line each, the largest at the end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/memory"), help="of the made-up results"
    )
    parser.add_argument("--only", nargs="+", help="these exhibits; comparison is one of them")
    parser.add_argument("--questions", type=int, help="at most so many a cell (the study's own)")
    parser.add_argument("--resamples", type=int, help="the study's own if not given")
    parser.add_argument("--most", type=float, default=1.5, help="GB that none may exceed")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="where to keep what is made")
    arguments = parser.parse_args(argv)
    folder = arguments.folder.resolve()
    if arguments.one:
        one(arguments.one, folder, arguments.out)
        return
    study = study_of_paper(arguments.resamples)
    labels = arguments.only or [*study.exhibits, COMPARISON]
    prepare(folder, study, labels, arguments.questions)
    costs = {}
    with tempfile.TemporaryDirectory() as temporary:
        out = (arguments.out or Path(temporary)).resolve()
        for label in labels:
            costs[label] = measured(label, folder, out)
            print(
                f"{costs[label]['gb']:5.2f} GB {costs[label]['cpu_seconds']:6.1f} CPU s  {label}",
                flush=True,
            )
    largest = max(costs, key=lambda label: costs[label]["gb"])
    print(f"largest: {largest}, {costs[largest]['gb']:.2f} GB; allowed: {arguments.most:g} GB")
    if costs[largest]["gb"] > arguments.most:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

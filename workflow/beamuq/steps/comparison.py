"""A run held against print: every printed number, every claim, beam minus multinomial paired, print against itself."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from beamuq import __version__, artifacts
from beamuq.artifacts import Artifact
from beamuq.comparison import claims, compare, declared, forest, paired, render, results, selfcheck, values
from beamuq.comparison.evidence import Evidence
from beamuq.exhibits import core, style
from beamuq.exhibits.core import unique
from beamuq.steps.entry import run
from beamuq.study import Study

OUTPUTS = ("csv", "readings", "claims", "selfcheck", "summary", "markdown", "html")
FOREST = ("pdf", "svg", "png", "csv", "caption")


def needs(study: Study) -> list[Artifact]:
    """What the step reads, in the order of ``--inputs``; only what the study's grid has."""
    return unique([*results.needs(study), *claims.needs(study, claims.read_claims())])


def main(argv: Sequence[str] | None = None) -> None:
    """Read, compare, judge, write."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.comparison", description=__doc__)
    parser.add_argument("--study", required=True, type=Path, help="a study file, or one written as .json")
    parser.add_argument("--inputs", nargs="*", default=[], type=Path, help="in the order of needs(study)")
    parser.add_argument("--partial", action="store_true", help="inputs that do not exist yet are 'not run'")
    for name in OUTPUTS:
        parser.add_argument(f"--{name}", required=True, type=Path)
    for kind in FOREST:
        parser.add_argument(f"--forest-{kind}", required=True, type=Path)
    options = parser.parse_args(argv)

    study = core.study_given(options.study)
    wanted = needs(study)
    found = results.Results.read(study, wanted, options.inputs, partial=options.partial)
    comparison = compared(found, _provenance(options.study, wanted, options.inputs))
    figure = forest.figure(study, comparison.differences, comparison.declared)
    style.save(figure, **{kind: getattr(options, f"forest_{kind}") for kind in FOREST})
    contents = {
        "csv": render.csv(comparison.cells),
        "readings": render.csv(comparison.readings),
        "claims": render.csv(comparison.claims),
        "selfcheck": render.csv(comparison.selfcheck),
        "summary": render.summary(comparison),
        "markdown": render.markdown(comparison),
        "html": render.html(comparison, options.forest_svg.read_text(encoding="utf-8")),
    }
    for name, content in contents.items():
        with artifacts.atomic(getattr(options, name)) as temporary:
            temporary.write_text(content, encoding="utf-8")


def compared(found: results.Results, provenance: dict[str, object]) -> render.Comparison:
    """Everything, from a run's results and the declared files."""
    rules = declared.read()
    printed, ledger = values.read_values(rules), selfcheck.read_ledger()
    regenerated = selfcheck.regenerate(printed, values.read_arrows(), ledger.stated)
    return render.Comparison(
        study=found.study,
        declared=rules,
        cells=compare.compare(found, printed, ledger, rules),
        readings=compare.readings(found, printed, ledger, rules),
        nearer=compare.nearer(found, printed, rules),
        differences=paired.differences(found, rules),
        claims=claims.judge(claims.read_claims(), Evidence(found, printed, rules)),
        selfcheck=pd.DataFrame(selfcheck.rows_of(regenerated, ledger.errata)),
        provenance=provenance,
    )


def _provenance(study: Path, wanted: Sequence[Artifact], inputs: Sequence[Path]) -> dict[str, object]:
    """Hashes of the study, the declared files and the inputs; versions of what computed."""
    return {
        "study": _sha256(study),
        "declared": declared.hashes(),
        "inputs": {n.path: _sha256(path) for n, path in zip(wanted, inputs, strict=True) if path.is_file()},
        "versions": {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__},
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    run(main)

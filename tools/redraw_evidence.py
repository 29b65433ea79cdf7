"""Draw the published figures again, of their published points, without a model or a dataset.

``python tools/redraw_evidence.py [LABEL …]`` writes over ``evidence/*/figures/LABEL.png`` after a
change of how a figure looks, and prints each file. Captions and points stay as they are. Two
figures have more points than are published: they are drawn of the published scores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa

from beamuq_study import parquet_tables
from beamuq_study.exhibits import figure_of_beams_map as of_map
from beamuq_study.exhibits import figure_style, list_of_exhibits
from beamuq_study.exhibits import figures_of_candidates as of_candidates
from beamuq_study.exhibits import figures_of_scores as of_scores
from beamuq_study.exhibits import figures_of_true_dissimilarity as of_truth
from beamuq_study.exhibits.exhibit import Built, Exhibit, Figure
from beamuq_study.parquet_tables import Artifact, Loaded
from beamuq_study.result_files import Inputs
from beamuq_study.stages.decisions_of_scores import DecisionSettings, decisions
from beamuq_study.study_config import Study, load_study
from collect_evidence import picture

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"
DRAWN: dict[str, Callable[[Study, pd.DataFrame], Figure]] = {
    "redundancy": of_candidates.drawn_redundancy,
    "beam_mass_threshold": of_candidates.drawn_thresholds,
    "abl_prob_mass": of_candidates.drawn_mass,
    "abl_nsamples": of_scores.BY_CANDIDATES.drawn,
    "sement_different_nsamples": of_scores.WITH_ENTROPY.drawn,
    "rebuttal_nsamples_across_data": of_scores.drawn_across_cells,
    "abl_length": of_scores.drawn_by_length,
    "reliability": of_scores.drawn_reliability,
    "why_beams_win": of_truth.drawn_reasons,
    "gain_by_mass": of_truth.drawn_gains,
    "fair_share": of_truth.drawn_conditions,
    "matched_rows": of_truth.drawn_by_rows,
    "when_beams_win": partial(of_map.drawn_map, across=1),
    "when_beams_win_by_dataset": partial(of_map.drawn_map, across=2),
}
"""What draws each figure of its points."""
OF_SCORES = ("prr_curves", "risk_coverage")
"""The figures whose points are too many to be published."""
TEXTS = ["variant", "note"]  # columns of which "" in a CSV is a text, no missing value


def redraw(folder: Path, label: str) -> Path:
    """Write the picture of a figure of a folder of ``evidence/`` anew; the file written."""
    study = load_study(folder / "study.json")
    exhibit = list_of_exhibits.exhibit(label, study)
    caption = (folder / f"figures/{label}.txt").read_text(encoding="utf-8").strip()
    title, _, _ = caption.partition(". ")
    figure = _of_scores(folder, study, exhibit) if label in OF_SCORES else _of_points(folder, label)
    built = Built(label, title, caption, exhibit.footnote(study), figure)
    with tempfile.TemporaryDirectory() as scratch:
        names = {kind: Path(scratch, f"{label}.{kind}") for kind in ("csv", "png", "caption")}
        figure_style.save(built, **names)
        target = folder / f"figures/{label}.png"
        picture(names["png"], target)
    return target


def _of_points(folder: Path, label: str) -> Figure:
    study = load_study(folder / "study.json")
    points = pd.read_csv(folder / f"figures/{label}.csv")
    for name in points.columns.intersection(TEXTS):
        points[name] = points[name].astype(object).fillna("")
    return DRAWN[label](study, points)


def _of_scores(folder: Path, study: Study, exhibit: Exhibit) -> Figure:
    loaded = {file: _loaded(folder, study, file) for file in exhibit.artifacts(study)}
    figure = exhibit.built(study, Inputs(loaded, study)).shown
    assert isinstance(figure, Figure)
    return figure


def _loaded(folder: Path, study: Study, file: Artifact) -> Loaded:
    """A published table, or decisions, which published ones give again."""
    if file.kind != "decisions":
        return parquet_tables.read(folder / file.path, file.kind)
    metric = study.main_quality.metric
    scores = replace(file, kind="scores")
    quality = Artifact("quality", file.dataset, file.model, file.recipe, metric=metric)
    questions = Artifact("questions", file.dataset)
    tables = [parquet_tables.read(folder / of.path, of.kind) for of in (scores, quality, questions)]
    settings = DecisionSettings(
        quality=metric,
        risks=tuple(study.decisions.risks),
        guarantee=study.decisions.confidence,
        resamples=study.evaluation.resamples,
        confidence=study.evaluation.confidence,
        threshold=study.main_quality.threshold,
        seed=study.seed,
    )
    rows, _ = decisions(*(table.table for table in tables), settings, file.dataset)
    table = pa.Table.from_pylist(rows, schema=parquet_tables.SCHEMAS["decisions"])
    return Loaded(folder / file.path, "decisions", file.cell, {}, table)


def published() -> list[tuple[Path, str]]:
    """Every published figure: its folder and its label."""
    pictures = sorted(EVIDENCE.glob("*/figures/*.png"))
    return [(path.parents[1], path.stem) for path in pictures]


def main() -> None:
    """Redraw the figures that are named, or all."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n", maxsplit=1)[0],
        epilog="Writes over the published evidence/*/figures/LABEL.png of each folder that has it, "
        "and prints each file; git checkout -- 'evidence/*.png' brings the old ones back.",
    )
    labels = sorted({label for _, label in published()})
    parser.add_argument(
        "labels", nargs="*", metavar="LABEL", help=f"of {', '.join(labels)}; none: all"
    )
    asked = parser.parse_args().labels or labels
    unknown = [label for label in asked if label not in labels]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not published; there are {', '.join(labels)}")
    for folder, label in published():
        if label in asked:
            path = redraw(folder, label)
            print(f"wrote {path.relative_to(EVIDENCE.parent)}")


if __name__ == "__main__":
    main()

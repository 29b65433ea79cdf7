"""Where the tuned model of multiple choice is on the map: a run of ``studies/tuned_choice.yaml``.

``python tools/choice_on_map.py`` reads the run's table ``beams_map`` and the points of its figure
``when_beams_win``, and writes ``evidence/tuned/choice_on_map.csv``: a row a dataset and number,
each with its 95 % interval over questions. The run's scores are not published.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from evidence_differences import EVIDENCE
from evidence_map import ENDS, GAIN, gains_of_beams, on_own_map

ROOT = Path(__file__).resolve().parents[1]
STUDY = "tuned_choice"
FILE = EVIDENCE / "tuned/choice_on_map.csv"
PARTS = (GAIN, "noise", "target")
PLACES = {"covered mass": "mass", "kappa": "kappa", "right among the ten": "held"}
"""By number the column of a point of the figure."""
BY_GOLD_LABEL = "gold_label power=1.0 M=10"


def choice_on_map(points: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The numbers of each dataset: its place, gains by the gold label, and by the model's own map.

    The map is of κ = .5 and 1, and interpolated between. ``points``: of ``when_beams_win``;
    ``table``: ``beams_map``.
    """
    cells = points[points["what"] == "cell of the study"].drop_duplicates("dataset")
    gains = gains_of_beams(table)
    rows = []
    for cell in cells.to_dict("records"):
        own = gains[gains["dataset"] == cell["dataset"]]
        by_map = {"own map, exact text": on_own_map(own, "exact text", cell["kappa"])}
        of_dataset = _place(cell) | _by_label(own) | by_map
        for name, ends in of_dataset.items():
            rows.append({"dataset": cell["dataset"], "number": name} | ends | {"n": cell["n"]})
    return pd.DataFrame(rows)


def _place(cell: dict[str, float]) -> dict[str, dict[str, float]]:
    columns = {"value": "", "low": "_low", "high": "_high"}
    return {
        name: {end: cell[f"{column}{ending}"] for end, ending in columns.items()}
        for name, column in PLACES.items()
    }


def _by_label(gains: pd.DataFrame) -> dict[str, dict[str, float]]:
    by_label = gains[gains["setting"] == BY_GOLD_LABEL].set_index("metric")
    return {part: by_label.loc[part, list(ENDS)].to_dict() for part in PARTS}


def main() -> None:
    """Write the file. Raises FileNotFoundError where the study was not run."""
    points = pd.read_csv(ROOT / f"figures/{STUDY}/when_beams_win.csv")
    table = pd.read_csv(ROOT / f"results/{STUDY}/tables/beams_map.csv")
    choice_on_map(points, table).to_csv(FILE, index=False, float_format="%.7g")
    print(f"wrote {FILE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

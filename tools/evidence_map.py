"""Where the study's questions are on the map of when beams win, and what the map says of them.

``python tools/evidence_map.py`` makes three files of ``evidence/small`` from its published tables,
in a second: ``map_points.csv``, the covered mass and κ of each cell; ``crossings.csv``, the covered
mass from which beams are ahead, by κ; ``map_against_labels.csv``, what beams gain under real
labels beside the map's value at the same place. ``evidence/tuned/maps_compared.csv`` sets the map
of the untuned model beside each tuned model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Floats
from beamuq.evaluation.known_distribution import crossing
from evidence_differences import EVIDENCE, GAINS_FILE, MODEL, D

FOLDER = EVIDENCE / "small"
POINTS_FILE = FOLDER / "map_points.csv"
CROSSINGS_FILE = FOLDER / "crossings.csv"
LABELS_FILE = FOLDER / "map_against_labels.csv"
TUNED_FOLDER = EVIDENCE / "tuned"
MAPS_FILE = TUNED_FOLDER / "maps_compared.csv"
GAIN = "beams - samples"
OPEN = ("triviaqa", "webquestions", "coqa")
CHOICE = ("commonsenseqa", "arc-challenge")
TEMPERED = tuple(f"{MODEL}-t{hundredths}" for hundredths in (70, 50, 35))
ENDS = ("value", "low", "high")
QUALITY_OF_JUDGE = {
    "exact_match": "exact text",
    "gold_label": "exact text",
    "answer_f1": "similarity",
}

Row = dict[str, Any]
Curve = Callable[[Floats], Floats]  # κ by covered mass


def points() -> pd.DataFrame:
    """Each cell's covered mass and κ, with 95 % intervals over questions."""
    points = _figure("when_beams_win").query("what != @GAIN")
    columns = ["model", "dataset", "n"]
    columns += [name + end for name in ("mass", "kappa") for end in ("", "_low", "_high")]
    return points[columns].drop_duplicates(["model", "dataset"]).reset_index(drop=True)


def _figure(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    return pd.read_csv(folder / f"figures/{name}.csv")


@dataclass(frozen=True)
class Surface:
    """Beams − samples by covered mass and κ: ``value``, ``low`` and ``high`` [masses, κ]."""

    mass: Floats
    kappa: Floats
    ends: dict[str, Floats]
    n: int

    def along(self, end: str, kappas: Curve) -> Floats:
        """[masses] what the map says at each of its masses and the κ of that mass."""
        wanted = kappas(self.mass)
        rows = zip(wanted, self.ends[end], strict=True)
        return np.array([np.interp(kappa, self.kappa, row) for kappa, row in rows])

    def at(self, end: str, mass: float, kappa: float) -> float:
        """What the map says at one place; outside, at its edge."""
        return float(np.interp(mass, self.mass, self.along(end, always(kappa))))

    def crossing(self, end: str, kappas: Curve) -> float:
        """The mass from which beams stay ahead; 1 where they never are."""
        return float(np.nan_to_num(crossing(self.mass, self.along(end, kappas)), nan=1.0))


def always(kappa: float) -> Curve:
    """The same κ at every mass."""
    return lambda mass: np.full(len(mass), kappa)


def surface(dataset: str, quality: str) -> Surface:
    """The map of one dataset under one quality."""
    return _surface_of(_figure("when_beams_win_by_dataset"), dataset, quality)


def _surface_of(figure: pd.DataFrame, dataset: str, quality: str) -> Surface:
    grid = figure.query("what == @GAIN")
    grid = grid[(grid["dataset"] == dataset) & (grid["quality"] == quality)]
    wide = grid.pivot(index="mass", columns="kappa", values=list(ENDS))
    return Surface(
        mass=wide.index.to_numpy(np.float64),
        kappa=wide["value"].columns.to_numpy(np.float64),
        ends={end: wide[end].to_numpy(np.float64) for end in ENDS},
        n=int(grid["n"].max()),
    )


def crossings() -> pd.DataFrame:
    """Under similarity the mass from which beams stay ahead, by what κ is.

    ``of``: κ itself; "own", the dataset's κ; "falling", κ at each mass as the model has it at token
    temperatures of 1, .7, .5 and .35 on TriviaQA. The interval is of the map's values and, where κ
    is estimated, of κ: from where the upper end is above 0 at the upper κ, to where the lower end
    is at the lower κ.
    """
    of_cells = points().set_index(["model", "dataset"])
    tempered = of_cells.loc[[(model, "triviaqa") for model in (MODEL, *TEMPERED)]]
    rows = []
    for dataset in OPEN:
        on_map = surface(dataset, "similarity")
        curves: dict[str, list[Curve]] = {
            f"{kappa:g}": [always(kappa)] * 3 for kappa in (1, 0.75, 0.5)
        }
        own = of_cells.loc[(MODEL, dataset)]
        curves["own"] = [always(own[name]) for name in ("kappa", "kappa_low", "kappa_high")]
        curves["falling"] = [
            _through(tempered["mass"], tempered[name])
            for name in ("kappa", "kappa_low", "kappa_high")
        ]
        for name, (kappa, kappa_low, kappa_high) in curves.items():
            mass = on_map.crossing("value", kappa)
            row = {
                "dataset": dataset,
                "of": name,
                "kappa": kappa(np.array([mass]))[0],
                "value": mass,
                "low": on_map.crossing("high", kappa_high),
                "high": on_map.crossing("low", kappa_low),
                "n": on_map.n,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def _through(masses: pd.Series[float], kappas: pd.Series[float]) -> Curve:
    """κ by covered mass, interpolated between some cells; outside, that of the nearest."""
    return lambda mass: np.interp(mass, masses, kappas)


def map_against_labels() -> pd.DataFrame:
    """What beams gain by real labels, and by the map at the cell's covered mass and κ.

    Two rows a cell and judge, ``what`` "labels" and "map". By exact match labels are of the
    questions of recipe ``main``, one draw of ten samples; by F1 and gold label of those of the map,
    the mean of forty draws. The map's interval covers that of κ. ``excluded``: the map's value is
    outside the interval of the labels.
    """
    of_cells = points().set_index(["model", "dataset"])
    rows: list[Row] = []
    for labels in _gains_by_labels():
        cell = of_cells.loc[(labels["model"], labels["dataset"])]
        on_map = _on_map(labels, cell)
        is_inside = labels["low"] <= on_map["value"] <= labels["high"]
        place = {"mass": cell["mass"], "kappa": cell["kappa"], "excluded": not is_inside}
        rows.append(labels | {"what": "labels"} | place)
        rows.append(on_map | {"what": "map"} | place)
    columns = ["model", "dataset", "judge", "what", "value", "low", "high", "n"]
    return pd.DataFrame(rows)[[*columns, "mass", "kappa", "excluded"]]


def _on_map(labels: Row, cell: pd.Series[Any]) -> Row:
    """What the map says of a cell under the quality that stands for its judge."""
    on_map = surface(labels["dataset"], QUALITY_OF_JUDGE[labels["judge"]])
    kappas = [cell[name] for name in ("kappa", "kappa_low", "kappa_high")]
    return labels | {
        "value": on_map.at("value", cell["mass"], cell["kappa"]),
        "low": min(on_map.at("low", cell["mass"], kappa) for kappa in kappas),
        "high": max(on_map.at("high", cell["mass"], kappa) for kappa in kappas),
        "n": on_map.n,
    }


def _gains_by_labels() -> list[Row]:
    """By exact match on the three datasets, then every cell with a map by its own judge."""
    gains = pd.read_csv(GAINS_FILE).query("quality == 'exact_match' and method == @D")
    by_exact = gains[gains["dataset"].isin(OPEN)].assign(model=MODEL, judge="exact_match")
    on_map = pd.read_csv(FOLDER / "tables/beams_map.csv")
    on_map = on_map[(on_map["metric"] == GAIN) & (on_map["method"] == D)]
    on_map = on_map[(on_map["variant"] == "normalised beam") & (on_map["dataset"] != "mean")]
    judges = on_map["setting"].str.extract(r"^(answer_f1|gold_label) power=1\.0 M=10$")[0]
    by_own = on_map.assign(judge=judges).dropna(subset="judge")
    columns = ["model", "dataset", "judge", "value", "low", "high", "n"]
    return pd.concat([by_exact[columns], by_own[columns]]).to_dict("records")


def maps_compared() -> pd.DataFrame:
    """Beams − samples at the place of each model of study ``tuned``, by the map of the untuned one
    (``untuned_map``) and by its own (``value``, its interval), at the model's κ.

    A model's own map is of κ = .5 and 1, and interpolated between.
    """
    figure = _figure("when_beams_win", TUNED_FOLDER)
    sharpness = pd.read_csv(TUNED_FOLDER / "tables/sharpness.csv").query("dataset == 'coqa'")
    places = sharpness.pivot(index="model", columns="metric", values="value").dropna()
    gains = gains_of_beams(pd.read_csv(TUNED_FOLDER / "tables/beams_map.csv"))
    rows = []
    for quality in ("similarity", "exact text"):
        of_untuned = _surface_of(figure, "coqa", quality)
        for model, place in places.iterrows():
            mass = place["mass of the most probable"]
            kappa = place["kappa"]
            row = {"model": model, "quality": quality, "mass": mass, "kappa": kappa}
            row["untuned_map"] = of_untuned.at("value", mass, kappa)
            own = gains[(gains["model"] == model) & (gains["dataset"] == "coqa")]
            rows.append(row | on_own_map(own, quality, kappa) | {"n": int(own["n"].max())})
    return pd.DataFrame(rows)


def gains_of_beams(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of Dissimilarity over beams of a table ``beams_map``."""
    return table[(table["method"] == D) & (table["variant"] == "normalised beam")]


def on_own_map(gains: pd.DataFrame, quality: str, kappa: float) -> dict[str, float]:
    """What beams gain where a model's distribution is as it is, by its own map, at κ.

    ``gains``: of one model and dataset. The map is of some κ, and interpolated between.
    """
    of_beams = gains[gains["metric"] == GAIN]
    place = of_beams["setting"].str.extract(rf"^{quality} power=1\.0 kappa=([\d.]+) M=10$")[0]
    drawn = of_beams.assign(kappa=place.astype(float)).dropna(subset="kappa").sort_values("kappa")
    return {end: float(np.interp(kappa, drawn["kappa"], drawn[end])) for end in ENDS}


FILES = {
    POINTS_FILE: points,
    CROSSINGS_FILE: crossings,
    LABELS_FILE: map_against_labels,
    MAPS_FILE: maps_compared,
}

if __name__ == "__main__":
    for file, rows_of_file in FILES.items():
        rows_of_file().to_csv(file, index=False)

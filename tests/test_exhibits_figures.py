"""Every figure as drawn from a synthetic study: honest, legible, embedded, the same bytes each time."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import exhibits_study
from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.evaluation import bootstrap
from beamuq.exhibits import exhibit_cells, figure_style, list_of_exhibits
from beamuq.exhibits.exhibit_types import BuiltFigure
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study
from run_job import run_job

pytestmark = pytest.mark.slow

STUDY = exhibits_study.study()
FIGURES = exhibits_study.labels("figure")
Drawn = dict[str, matplotlib.figure.Figure]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    return exhibits_study.Results(tmp_path_factory.mktemp("results"), STUDY)


def build(name: str, results: exhibits_study.Results, study: Study = STUDY) -> BuiltFigure:
    figure: BuiltFigure = results.built(name, study)
    return figure


@pytest.fixture(scope="module")
def built(results: exhibits_study.Results) -> dict[str, BuiltFigure]:
    return {name: build(name, results) for name in FIGURES}


@pytest.fixture(scope="module")
def drawn(built: dict[str, BuiltFigure]) -> Drawn:
    figures = {}
    with figure_style.settings():
        for name, figure in built.items():
            figures[name] = figure_style.laid_out(figure)
    return figures


def texts(figure: matplotlib.figure.Figure) -> list[Text]:
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible() and text.get_text()]
    hidden = [
        label for axes in figure.axes if not axes.axison for label in (*axes.xaxis.findobj(), *axes.yaxis.findobj())
    ]
    return [text for text in found if text not in hidden and shown(text)]


def shown(text: Text) -> bool:
    """Tick labels outside the view, and those that sharing hides, are Text objects too."""
    axes = text.axes
    if axes is None:
        return True
    for axis, low_high in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if text in (tick.label1, tick.label2):
                low, high = sorted(low_high)
                return text.get_visible() and low <= tick.get_loc() <= high
    return True


# -- legible -----------------------------------------------------------------------------------------------------


def overlapping(figure: matplotlib.figure.Figure) -> list[tuple[str, str]]:
    """Pairs of texts of which one covers the other."""
    boxes = [(text.get_text(), text.get_window_extent().padded(-1.5)) for text in texts(figure)]
    return [(a, b) for (a, box), (b, other) in itertools.combinations(boxes, 2) if box.overlaps(other)]


def leaving(figure: matplotlib.figure.Figure) -> list[str]:
    """Texts that stand beyond the page."""
    page = figure.bbox.padded(1)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    return [text for text, box in boxes if not np.allclose(Bbox.union([page, box]).get_points(), page.get_points())]


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_texts_overlap_and_none_leaves_the_page(name: str, drawn: Drawn) -> None:
    assert overlapping(drawn[name]) == []
    assert leaving(drawn[name]) == []
    assert len(texts(drawn[name])) > 5


# -- honest ------------------------------------------------------------------------------------------------------


def test_worked_examples_are_chosen_by_the_stated_rule(built: dict[str, BuiltFigure]) -> None:
    quality = exhibits_study.quality_values(exhibits_study.BASE, "triviaqa", 24)
    first = [int(np.flatnonzero(quality <= 0.5)[0]), int(np.flatnonzero(quality > 0.5)[0])]
    assert list(dict.fromkeys(built["triviaqa-gemma4b"].data["id"])) == [f"triviaqa-{n:03d}" for n in first]


def test_schematic_shows_the_median_not_the_best_case(
    built: dict[str, BuiltFigure], results: exhibits_study.Results
) -> None:
    data = built["sampling_vs_beamsearch"].data
    need = Artifact("candidates", dataset="triviaqa", model=exhibits_study.BASE, recipe="main")
    frame = results.inputs([need]).frame(need)
    samples = frame[frame["strategy"] == "sample T=1.0"].groupby("id")["text"]
    redundancy = (10 - samples.nunique()) / 10
    repeated = redundancy[redundancy > 0].sort_values()
    assert redundancy[data["id"].iloc[0]] == repeated.iloc[(len(repeated) - 1) // 2]
    assert data[data["set"] == "samples"]["count"].sum() == 10


# -- right -------------------------------------------------------------------------------------------------------


def test_length_bins_without_a_value_are_kept_and_said(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    quality = Artifact("quality", dataset="triviaqa", model=exhibits_study.BASE, recipe="main", metric="answer_f1")
    exhibits_study.rewrite(results, quality, lambda row: row | {"value": 1.0})
    figure = build("abl_length", results)
    part = figure.data[figure.data["dataset"] == "triviaqa"]
    assert part["value"].isna().all()
    assert part["note"].str.contains("same quality").all()
    with figure_style.settings():
        assert "n/a" in {text.get_text() for text in figure.draw().findobj(Text) if isinstance(text, Text)}


def without_a_value(results: exhibits_study.Results, needs: list[Artifact]) -> None:
    """All answers are wrong, and what was evaluated of them is undefined."""
    none = {
        "value": None,
        "low": None,
        "high": None,
        "std": None,
        "note": "undefined: every answer has the same quality",
    }
    for need in needs:
        if need.kind in ("quality", "evaluation"):
            change = {"value": 0.0} if need.kind == "quality" else none
            exhibits_study.rewrite(results, need, lambda row, change=change: row | change)  # type: ignore[misc]


@pytest.mark.filterwarnings("error")  # a layout that collapses is a warning, and cannot be saved
@pytest.mark.parametrize("name", FIGURES)
def test_figure_without_any_value_is_drawn(name: str, tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    without_a_value(results, list_of_exhibits.exhibit(name, STUDY).artifacts(STUDY))
    with figure_style.settings():
        figure = figure_style.laid_out(build(name, results))
    assert len(texts(figure)) > 5


def test_bins_of_few_questions_have_no_interval(built: dict[str, BuiltFigure]) -> None:
    mass, redundancy = built["abl_prob_mass"].data, built["redundancy"].data
    samples = redundancy[redundancy["variant"] == "multinomial"]  # no two beams of this study have the same text
    for data in (samples, mass[mass["length"].notna()]):
        few = data["n"] < 5
        assert few.any()
        assert data[few][["low", "high"]].isna().all(axis=None)
        assert data[~few][["low", "high"]].notna().all(axis=None)


def test_rebuttal_uses_the_first_two_hundred_questions(
    results: exhibits_study.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beamuq.exhibits import candidate_count_curves

    monkeypatch.setattr(candidate_count_curves, "MOST_QUESTIONS", 10)
    data = build("rebuttal_nsamples_across_data", results).data
    assert set(data["n"]) == {10}
    assert data.groupby(["model", "dataset"], sort=False).size().tolist() == [30, 30, 30]


def test_scores_of_other_questions_are_refused(tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    needs = list_of_exhibits.exhibit("prr_curves", STUDY).artifacts(STUDY)
    exhibits_study.rewrite(results, needs[0], lambda row: row | {"id": row["id"].replace("023", "900")})
    with pytest.raises(BeamUQError, match="are not of the questions that have quality"):
        build("prr_curves", results)


# -- the frames, against plain loops over the files' rows ----------------------------------------------------------


def prr(uncertainty: list[float], quality: list[float]) -> float | None:
    """D13 as it reads, for scores without ties."""
    n, k = len(quality), len(quality) // 2
    if k < 2 or len(set(quality)) == 1:
        return None

    def area(keys: list[float]) -> float:
        kept = [q for _, q in sorted(zip(keys, quality, strict=True))]
        return sum(sum(kept[:size]) / size for size in range(n, n - k, -1)) / k

    mean = sum(quality) / n
    return (area(uncertainty) - mean) / (area([-q for q in quality]) - mean)


class Plain:
    """One cell's rows, by question, without the package's own readers."""

    def __init__(self, results: exhibits_study.Results, model: str, dataset: str, recipe: str = "main") -> None:
        cell = {"model": model, "dataset": dataset, "recipe": recipe}

        def rows(kind: str, **more: str) -> list[dict[str, Any]]:
            (path,) = results.paths([Artifact(kind, **cell, **more)])
            return parquet_tables.read(path, kind).table.to_pylist()

        self.texts: dict[tuple[str, str], list[str]] = {}
        self.sequences: dict[tuple[str, str], list[tuple[int, ...]]] = {}
        self.p: dict[tuple[str, str], list[float]] = {}
        for row in sorted(rows("candidates"), key=lambda row: row["rank"]):
            key = row["strategy"], row["id"]
            self.texts.setdefault(key, []).append(row["text"])
            self.sequences.setdefault(key, []).append(tuple(row["token_ids"]))
            self.p.setdefault(key, []).append(math.exp(row["logprob"]))
        self.quality = {row["id"]: row["value"] for row in rows("quality", metric="answer_f1") if greedy(row)}
        self.ids = sorted(self.quality)
        self.score: dict[tuple[str, str, str], dict[str, float]] = {}
        for row in filter(greedy, rows("scores", scorer="cosine")):
            key_of = row["method"], row["variant"], row["setting"]
            self.score.setdefault(key_of, {})[row["id"]] = row["value"]
        self.length = {key: len(self.sequences["greedy", key][0]) for key in self.ids}

    def mass(self, strategy: str, key: str) -> float:
        seen: dict[tuple[int, ...], float] = {}
        for sequence, p in zip(self.sequences[strategy, key], self.p[strategy, key], strict=True):
            seen.setdefault(sequence, p)
        return min(sum(seen.values()), 1.0)

    def redundancy(self, key: str, strategy: str) -> float:
        drawn = self.texts[strategy, key]
        return sum(text in drawn[:place] for place, text in enumerate(drawn)) / len(drawn)

    def prr(self, chosen: list[str], *key: str) -> float | None:
        return prr([self.score[key][k] for k in chosen], [self.quality[k] for k in chosen])  # type: ignore[index]

    def by_length(self, most: int) -> dict[str, list[str]]:
        """Ids of each length, those beyond the first ``most`` − 1 lengths together where there are more."""
        found = sorted(set(self.length.values()))
        single = found if len(found) <= most else found[: most - 1]
        bins = {str(length): [k for k in self.ids if self.length[k] == length] for length in single}
        rest = [k for k in self.ids if self.length[k] not in single]
        return bins | ({f"{found[most - 1]}+": rest} if rest else {})


SAMPLE, BEAM = "sample T=1.0", "beam M=10"
STRATEGY = {"multinomial": SAMPLE, "beamsearch": BEAM}


def greedy(row: dict[str, Any]) -> bool:
    return row["answer_source"] == "greedy" and row.get("subset", "all") == "all"


@pytest.fixture(scope="module")
def plain(results: exhibits_study.Results) -> Plain:
    return Plain(results, exhibits_study.BASE, "triviaqa")


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def holds(frame: pd.DataFrame, key: list[str], expected: dict[Any, tuple[float, ...]], columns: list[str]) -> None:
    """Whether a frame has exactly these rows, with these values."""
    found = frame.astype(dict.fromkeys(columns, float)).set_index(key)[columns]
    assert found.index.to_list() == list(expected)
    np.testing.assert_allclose(found.to_numpy(), np.array(list(expected.values()), dtype=np.float64), atol=1e-12)


def within(frame: pd.DataFrame, value: str) -> None:
    """Whether every interval holds its value."""
    drawn = frame.dropna(subset=["low"]).astype({"low": float, "high": float, value: float})
    assert len(drawn)
    assert ((drawn["low"] <= drawn[value] + 1e-12) & (drawn[value] <= drawn["high"] + 1e-12)).all()


def test_redundancy_is_the_mean_over_the_questions_of_a_length(built: dict[str, BuiltFigure], plain: Plain) -> None:
    bins = plain.by_length(10) | {"All": plain.ids}
    expected = {
        (title, variant): (mean([plain.redundancy(k, strategy) for k in ids]), len(ids))
        for title, ids in bins.items()
        for variant, strategy in (("multinomial", SAMPLE), ("beamsearch", BEAM))
    }
    data = built["redundancy"].data
    holds(data, ["length", "variant"], expected, ["redundancy", "n"])
    within(data, "redundancy")
    assert len({round(share, 9) for share, _ in expected.values()}) > 3  # lengths that differ can be told apart


def test_threshold_shares_are_of_the_questions_of_a_length(built: dict[str, BuiltFigure], plain: Plain) -> None:
    limits = {"printed": 1 - 1 / (2 * math.sqrt(10)), "corrected": 10 / 11}
    expected = {
        (title, name): (limit, mean([plain.mass(BEAM, k) > limit for k in ids]), len(ids))
        for title, ids in (plain.by_length(10) | {"All": plain.ids}).items()
        for name, limit in limits.items()
    }
    data = built["beam_mass_threshold"].data
    holds(data, ["length", "threshold"], expected, ["mass_above", "share", "n"])
    within(data, "share")
    for name in limits:
        assert f"{100 * expected['All', name][1]:.1f}%" in built["beam_mass_threshold"].caption


def test_covered_mass_is_of_its_candidates_and_lengths(built: dict[str, BuiltFigure], plain: Plain) -> None:
    data = built["abl_prob_mass"].data
    expected = {
        (variant, title): (mean([plain.mass(strategy, k) for k in ids]), len(ids))
        for variant, strategy in STRATEGY.items()
        for title, ids in plain.by_length(7).items()
    }
    left, right = data[data["panel"] == "mass by length"], data[data["panel"] == "p by rank"]
    holds(left, ["variant", "length"], expected, ["mean", "n"])
    within(left, "mean")
    ranks: dict[Any, tuple[float, ...]] = {}
    for place in range(10):
        p = sorted(plain.p[BEAM, k][place] for k in plain.ids)
        cuts = [np.interp(share * (len(p) - 1), range(len(p)), p) for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
        ranks[("beamsearch", place + 1)] = (mean(p), *(float(cut) for cut in cuts), len(p))
    holds(right, ["variant", "rank"], ranks, ["mean", "q05", "q25", "median", "q75", "q95", "n"])


def test_prr_by_length_is_of_each_form_on_the_questions_of_the_bin(
    built: dict[str, BuiltFigure], results: exhibits_study.Results
) -> None:
    expected: dict[Any, tuple[float, ...]] = {}
    for dataset in ("triviaqa", "coqa"):
        plain = Plain(results, exhibits_study.BASE, dataset)
        closed, inside, seen = 0, list[str](), 0
        for length in sorted(set(plain.length.values())):
            inside += [k for k in plain.ids if plain.length[k] == length]
            seen += sum(plain.length[k] == length for k in plain.ids)
            if seen * 5 // len(plain.ids) > closed:
                low, high = min(plain.length[k] for k in inside), length
                title = str(low) if low == high else f"{low}–{high}"
                for variant in STRATEGY:
                    value = plain.prr(sorted(inside), "Dissimilarity", variant, "")
                    expected[dataset, title, variant] = (math.nan if value is None else value, len(inside))
                closed, inside = seen * 5 // len(plain.ids), []
    data = built["abl_length"].data
    holds(data, ["dataset", "length", "variant"], expected, ["value", "n"])
    within(data, "value")
    assert sum(not math.isnan(value) for value, _ in expected.values()) > 10


@pytest.mark.parametrize("name", ["abl_nsamples", "sement_different_nsamples"])
def test_points_of_a_curve_are_the_measurements_of_their_series(
    name: str, built: dict[str, BuiltFigure], results: exhibits_study.Results
) -> None:
    both = [
        (method, variant) for method in ("Dissimilarity", "Eccentricity", "EigVecDissimilarity") for variant in STRATEGY
    ]
    series = both if name == "abl_nsamples" else [("SemanticEntropy", "multinomial"), *both[:2]]
    need = Artifact("evaluation", model=exhibits_study.BASE, dataset="triviaqa", recipe="widths", scorer="cosine")
    rows = parquet_tables.read(results.paths([need])[0], "evaluation").table.to_pylist()
    found = {
        (row["method"], row["variant"], row["setting"]): (row["value"], row["low"], row["high"], row["n"])
        for row in rows
        if greedy(row) and row["metric"] == "PRR"
    }
    expected = {(*of, M): found[(*of, f"M={M}")] for of in series for M in range(1, 16)}
    holds(built[name].data, ["method", "variant", "M"], expected, ["value", "low", "high", "n"])


def test_points_across_data_are_of_their_own_panel_and_form(
    built: dict[str, BuiltFigure], results: exhibits_study.Results
) -> None:
    expected: dict[Any, tuple[float, ...]] = {}
    panels = [(exhibits_study.BASE, "triviaqa"), (exhibits_study.CHAT, "triviaqa")]
    for model, dataset in [*panels, (exhibits_study.BASE, "arc-challenge")]:
        plain = Plain(results, model, dataset, "widths")
        for variant in STRATEGY:
            for M in range(1, 16):
                value = plain.prr(plain.ids, "Dissimilarity", variant, f"M={M}")
                assert value is not None
                expected[model, dataset, variant, M] = (value, len(plain.ids))
    data = built["rebuttal_nsamples_across_data"].data
    holds(data, ["model", "dataset", "variant", "M"], expected, ["value", "n"])
    within(data, "value")


def test_rejection_curves_keep_the_most_certain_answers(built: dict[str, BuiltFigure], plain: Plain) -> None:
    expected: dict[Any, tuple[float, ...]] = {}
    n = len(plain.ids)
    best = sorted(plain.quality.values(), reverse=True)
    for method in ("Dissimilarity", "Eccentricity", "EigVecDissimilarity"):
        for variant in STRATEGY:
            order = sorted(plain.ids, key=lambda k: plain.score[method, variant, ""][k])
            for gone in range(n):
                kept = [plain.quality[k] for k in order[: n - gone]]
                row = (gone / n, mean(kept), mean(best[: n - gone]), mean(best), n)
                expected[method, variant, gone] = row
    data = built["prr_curves"].data
    data = data.assign(gone=(data["rejected"] * n).round().astype(int))
    holds(data, ["method", "variant", "gone"], expected, ["rejected", "quality", "oracle", "random", "n"])


def test_bands_of_rejection_curves_are_of_the_resampled_questions(built: dict[str, BuiltFigure], plain: Plain) -> None:
    data, n = built["prr_curves"].data, len(plain.ids)
    counts = bootstrap.resample_counts(plain.ids, exhibits_study.RESAMPLES, 7, f"prr_curves {exhibits_study.BASE}")
    for (method, variant), part in data.groupby(["method", "variant"]):
        order = sorted(range(n), key=lambda i: plain.score[method, variant, ""][plain.ids[i]])
        quality = np.array([plain.quality[plain.ids[i]] for i in order])
        curves = []
        for column in counts.T:
            kept = np.repeat(quality, column[order])
            curves.append([mean(list(kept[: n - gone])) for gone in range(n)])
        low, high = np.quantile(curves, [0.025, 0.975], axis=0)
        np.testing.assert_allclose(part[["low", "high"]].to_numpy(), np.column_stack([low, high]), atol=1e-9)


EXAMPLES = {"triviaqa-gemma4b": "triviaqa", "webq-gemma4b": "webquestions", "coqa-gemma4b-one": "coqa"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_hold_the_candidates_and_scores_of_their_question(
    name: str, built: dict[str, BuiltFigure], drawn: Drawn, results: exhibits_study.Results
) -> None:
    plain, data = Plain(results, exhibits_study.BASE, EXAMPLES[name]), built[name].data
    titles = {"multinomial": "Dissimilarity", "beamsearch": "Dissimilarity + beamsearch"}
    assert data["id"].nunique() == (1 if name.endswith("one") else 2)
    for key, part in data.groupby("id"):
        shown_parts: Any = part.set_index("part")
        assert shown_parts.loc["sample", "text"].to_list() == plain.texts[SAMPLE, str(key)]
        assert shown_parts.loc["beam", "text"].to_list() == plain.texts[BEAM, str(key)]
        assert shown_parts.loc["beam", "value"].to_list() == pytest.approx(plain.p[BEAM, str(key)])
        assert shown_parts.loc["greedy", "text"] == plain.texts["greedy", str(key)][0]
        for variant, title in titles.items():
            value = plain.score["Dissimilarity", variant, ""][str(key)]
            assert shown_parts.loc[title, "value"] == pytest.approx(value)
            assert f"{value:.3f}" in [text.get_text() for text in texts(drawn[name])]


def test_schematic_shows_the_candidates_and_scores_of_its_question(
    built: dict[str, BuiltFigure], drawn: Drawn, plain: Plain
) -> None:
    data = built["sampling_vs_beamsearch"].data
    (key,) = set(data["id"])
    samples: dict[str, int] = {}
    for text in plain.texts[SAMPLE, key]:
        samples[text] = samples.get(text, 0) + 1
    left, right = data[data["set"] == "samples"], data[data["set"] == "beams"]
    assert dict(zip(left["text"], left["count"], strict=True)) == samples
    assert left["share"].to_list() == pytest.approx([count / 10 for count in sorted(samples.values(), reverse=True)])
    assert right["text"].to_list() == plain.texts[BEAM, key]
    assert right["share"].to_list() == pytest.approx(plain.p[BEAM, key])
    titles = [axes.get_title() for axes in drawn["sampling_vs_beamsearch"].axes]
    values = {variant: plain.score["Dissimilarity", variant, ""][key] for variant in STRATEGY}
    assert titles == [
        f"samples: Dissimilarity {values['multinomial']:.3f}",
        f"beams: Dissimilarity {values['beamsearch']:.3f}",
    ]
    assert key != plain.ids[0]  # else the first question's scores would do


# -- budgets -------------------------------------------------------------------------------------------------------


def test_first_recipe_that_scores_the_curves_is_drawn_and_judged() -> None:
    content = STUDY.model_dump(mode="json")
    widths, methods = content["recipes"]["widths"], content["scoring"]["widths"]
    penalised = widths | {"beam": widths["beam"] | {"length_penalty": 1.0}}  # other beams than the main ones
    study = exhibits_study.study(
        recipes=content["recipes"] | {"again": widths, "few": widths, "penalised": penalised},
        scoring=content["scoring"] | {"again": methods, "few": methods | {"methods": ["Prob"]}, "penalised": methods},
        grid=[
            {"recipe": recipe, "models": [exhibits_study.BASE], "datasets": ["triviaqa"], "scorers": ["cosine"]}
            for recipe in ("few", "penalised", "widths", "again", "main")
        ],
    )
    (need,) = list_of_exhibits.exhibit("abl_nsamples", study).artifacts(study)
    assert need.recipe == "widths"
    assert exhibit_cells.budget_recipe(study, exhibits_study.BASE, "triviaqa", ["Dissimilarity"]) == "widths"
    assert exhibit_cells.budget_recipe(study, exhibits_study.BASE, "triviaqa") == "few"
    assert exhibit_cells.budget_recipe(study, exhibits_study.BASE, "coqa") is None


# -- the files ---------------------------------------------------------------------------------------------------


def test_the_step_writes_every_file_and_the_same_results_give_the_same_bytes(
    built: dict[str, BuiltFigure], results: exhibits_study.Results, tmp_path: Path
) -> None:
    study = results.folder / "study.json"
    study.write_text(STUDY.model_dump_json(), encoding="utf-8")
    results.paths(list_of_exhibits.exhibit("redundancy", STUDY).artifacts(STUDY))
    here, there = ({kind: tmp_path / f"{i}.{kind}" for kind in ("pdf", "svg", "png", "csv", "caption")} for i in "ab")
    run_job("figure", {"name": "redundancy", "study": str(study)} | {kind: str(file) for kind, file in there.items()})
    figure_style.save(built["redundancy"], **here)
    for kind, file in here.items():
        assert file.read_bytes() == there[kind].read_bytes(), kind
    assert len(pd.read_csv(here["csv"])) == len(built["redundancy"].data)


# -- text of one width -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["triviaqa-gemma4b", "coqa-gemma4b-one", "sampling_vs_beamsearch"])
def test_long_questions_and_answers_stay_within_their_columns(name: str, tmp_path: Path) -> None:
    results = exhibits_study.Results(tmp_path, STUDY)
    for need in list_of_exhibits.exhibit(name, STUDY).artifacts(STUDY):
        if need.kind in ("candidates", "questions"):
            part = "text" if need.kind == "candidates" else "question"
            exhibits_study.rewrite(results, need, lambda row, part=part: row | {part: "W中" * 200})  # type: ignore[misc]
    with figure_style.settings():
        figure = figure_style.laid_out(build(name, results))
    assert overlapping(figure) == []
    assert leaving(figure) == []

"""Tables of what beams' probabilities say: alone, as weights, and of which beam is the better."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import MEAN, Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores, ScoreKey
from beamuq.scorers.named_options import GOLD_LABEL
from beamuq.scorers.quality_metrics import LEARNED, QUALITY, Learned, quality_values
from beamuq.strategy_names import ablation, number, of_kind
from beamuq.text_normalization import on_one_line
from beamuq_study import grid
from beamuq_study.data.dataset_adapters import normalizer_of
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES, Exhibit, Row, Table
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import (
    beam_gains,
    bins_of_mass,
    left_out,
    measured,
    with_mean,
)
from beamuq_study.exhibits.table_of_numbers import Column, Keys, table
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Quality, Study

DISSIMILARITY = "Dissimilarity"
DELTA = "ΔPRR"
ON_ANSWER = ("Prob", "Perplexity")
ON_BEAMS = ("PRO", "BeamEntropy", "ProbMargin", "GNLL")
BINS = 5

# -- probabilities alone ---------------------------------------------------------------------------


def _with_both_kinds(study: Study) -> Sequence[Cell]:
    return grid.with_methods(study, [DISSIMILARITY, *ON_ANSWER, *ON_BEAMS])


def probabilities_alone(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a score; by model and quality its mean PRR, and that minus Dissimilarity's over beams.

    The CSV has every dataset.
    """
    forms = _forms_of_scores(study)
    qualities = _qualities_of_all(study, chosen)
    of_cells = joined(
        [_prr_and_leads(study, chosen, inputs, forms, quality) for quality in qualities]
    )
    averaged = with_mean(study, of_cells)
    columns = []
    for model in grid.by_model(chosen):
        title = study.models[model].title + left_out(of_cells.where(model=model))
        place = {"model": model, "dataset": averaged.dataset}
        columns += _columns_of_model(place, title, qualities)
    body = [Row((_title_of_form(form),), _stored_form(form)) for form in forms]
    facts = {"datasets": _counts_of_datasets(chosen)}
    return table(
        study, averaged.estimates, ("Score",), body, columns, further=(of_cells,), facts=facts
    )


def _counts_of_datasets(chosen: Sequence[Cell]) -> str:
    """``4``, or ``2–6`` where models have different numbers of datasets."""
    counts = {len(of_model) for of_model in grid.by_model(chosen).values()}
    return "–".join(map(str, sorted(counts)))


def _columns_of_model(place: Keys, title: str, qualities: Sequence[Quality]) -> list[Column]:
    """PRR by each quality, and what it is above that of Dissimilarity over beams."""
    columns = []
    for quality in qualities:
        keys = {**place, "setting": quality.metric}
        prr = (title, quality.title, "PRR")
        lead = (title, quality.title, DELTA)
        columns.append(Column({**keys, "metric": "PRR"}, prr, "ranked", "std"))
        columns.append(Column({**keys, "metric": DELTA}, lead, "signed", "interval"))
    return columns


def _forms_of_scores(study: Study) -> list[Keys]:
    """Scores of the answer, of the beams, of the exact mode where decoded, then Dissimilarity."""
    exact = of_kind(study.recipes[study.main.recipe].strategies(), "exact")
    forms: list[Keys] = [{"method": name} for name in (*ON_ANSWER, *ON_BEAMS)]
    forms += [{"method": "GNLL", "setting": strategy} for strategy in exact[:1]]
    forms += [
        {"method": DISSIMILARITY, "variant": variant} for variant in (OVER_SAMPLES, OVER_BEAMS)
    ]
    return forms


def _stored_form(form: Keys) -> Keys:
    """The keys of a form in this table, whose setting is the quality."""
    return {"method": form["method"], "variant": form.get("setting", form.get("variant", ""))}


def _title_of_form(form: Keys) -> str:
    title = captions.method_title(form["method"], form.get("variant", ""))
    return f"{title}, {form['setting']}" if "setting" in form else title


def _qualities_of_all(study: Study, chosen: Sequence[Cell]) -> list[Quality]:
    """Those by which every cell is judged."""
    return [
        quality
        for quality in study.quality
        if all(quality in study.qualities(cell.dataset) for cell in chosen)
    ]


def _prr_and_leads(
    study: Study, chosen: Sequence[Cell], inputs: Inputs, forms: Sequence[Keys], quality: Quality
) -> Estimates:
    """PRR of each form in each cell by a quality, and what it leads Dissimilarity over beams by."""
    by_form = measured(study, inputs, chosen, forms, quality=quality.metric)
    variants = [_stored_form(form)["variant"] for form in forms for _ in chosen]
    prr = by_form.assign(variant=variants, setting=quality.metric)
    compared = prr.rows(~_is_beam_form(prr))
    places = compared.frame[["model", "dataset"]].assign(method=DISSIMILARITY, variant=OVER_BEAMS)
    leads = compared.combined(prr.at(places), np.subtract).assign(metric=DELTA)
    return joined([prr, leads])


def _is_beam_form(prr: Estimates) -> Bools:
    is_beam_form = (prr.frame["method"] == DISSIMILARITY) & (prr.frame["variant"] == OVER_BEAMS)
    return is_beam_form.to_numpy()


# -- powers of the weights -------------------------------------------------------------------------

CHOSEN = "chosen"
UNCHANGED = "power=1"
HALVES = ("half 1", "half 2")


def _with_powers(study: Study) -> Sequence[Cell]:
    return grid.with_methods(study, [DISSIMILARITY], scoring_keys=["powers"])


class _OfHalf(NamedTuple):
    power: float  # of the highest PRR
    prr: Estimates  # on the other half: of that power, of power 1 and of samples


class _OfCell(NamedTuple):
    powers: Estimates  # chosen on each half
    prr: Estimates  # in the mean of the other halves, and its differences


def weight_powers(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: the power of p that ranks best on each half, and its PRR on the other half."""
    by_cell = [_powers_of_cell(study, cell, inputs) for cell in chosen]
    averaged = with_mean(study, joined([cell.prr for cell in by_cell]))
    estimates = joined([averaged.estimates, *(cell.powers for cell in by_cell)])
    powers = ", ".join(number(power) for power in sorted(_powers(study)))
    return table(
        study,
        estimates,
        ("Dataset",),
        _rows_of_datasets(study, chosen, estimates),
        _columns_of_powers(),
        facts={"powers": powers},
    )


def _rows_of_datasets(study: Study, chosen: Sequence[Cell], estimates: Estimates) -> list[Row]:
    """A block a model: its datasets, then their mean."""
    body = []
    for model, cells in grid.by_model(chosen).items():
        title = study.models[model].title
        for cell in cells:
            mark = left_out(estimates.where(**cell.place))
            body.append(Row((study.datasets[cell.dataset].title + mark,), cell.place, title))
        if len(cells) > 1:
            body.append(Row(("Mean",), {"model": model, "dataset": MEAN}, title))
    return body


def _columns_of_powers() -> list[Column]:
    columns = [
        Column({"metric": "power", "setting": half}, ("γ from", half), digits=2) for half in HALVES
    ]
    titles = {CHOSEN: "γ chosen", UNCHANGED: "γ = 1"}
    for setting, title in titles.items():
        keys = {"metric": "PRR", "setting": setting}
        columns.append(Column(keys, ("PRR on the other half", title)))
    titles = {UNCHANGED: "chosen − 1", OVER_SAMPLES: "chosen − samples"}
    for setting, title in titles.items():
        keys = {"metric": "PRR", "setting": f"{CHOSEN} - {setting}"}
        columns.append(Column(keys, (DELTA, title), "signed", "interval"))
    return columns


def _powers(study: Study) -> dict[float, ScoreKey]:
    """By power the scores of beams weighted by p to it; the main line's is 1."""
    powers = study.scoring[study.main.recipe].powers
    keys = {power: (DISSIMILARITY, OVER_BEAMS, ablation("power", power)) for power in powers}
    return keys | {1.0: (DISSIMILARITY, OVER_BEAMS, "")}


def _powers_of_cell(study: Study, cell: Cell, inputs: Inputs) -> _OfCell:
    """The powers chosen on each half, and what they are worth on the other."""
    scored = inputs.scores(cell)
    n = len(scored.ids)
    first = _first_half(scored.groups, study.seed)
    halves = [_chosen_and_tested(study, scored, choosing, inputs) for choosing in (first, ~first)]
    powers = _chosen_powers(halves, n).assign(**cell.place)
    tested = _with_differences(_mean_of_halves(halves, n)).assign(method="", **cell.place)
    empty = inputs.empty(cell)["greedy"].share
    return _OfCell(powers, Estimates(tested.frame.assign(empty=empty), tested.replicates))


def _chosen_powers(halves: Sequence[_OfHalf], n: int) -> Estimates:
    """The power chosen on each half, without an error."""
    powers = [half.power for half in halves]
    rows = [
        {"metric": "power", "setting": name, "value": power, "n": n}
        for name, power in zip(HALVES, powers, strict=True)
    ]
    return Estimates.from_rows(rows, powers)


def _with_differences(mean: Estimates) -> Estimates:
    """The same, with the chosen power minus power 1 and minus samples."""
    chosen = mean.where(setting=CHOSEN)
    parts = [mean]
    for other in (UNCHANGED, OVER_SAMPLES):
        difference = chosen.combined(mean.where(setting=other), np.subtract)
        parts.append(difference.assign(setting=f"{CHOSEN} - {other}"))
    return joined(parts)


def _first_half(groups: Sequence[str], seed: int) -> Bools:
    """[N] by a hash of each question's group, so that no story is in both halves."""
    return np.array([zlib.crc32(f"{seed} {group}".encode()) % 2 == 0 for group in groups])


def _chosen_and_tested(
    study: Study, scored: QuestionScores, choosing: Bools, inputs: Inputs
) -> _OfHalf:
    """The power of the highest PRR among ``choosing`` [N], of equals that nearest 1; the others'
    PRR.
    """
    keys = _powers(study)
    few = inputs.resampling | {"resamples": 1}  # values alone decide
    values = scored.prr(choosing, "chosen on", list(keys.values()), **few).frame["value"]
    by_power = dict(zip(keys, values.fillna(-np.inf), strict=True))
    power = max(by_power, key=lambda power: (by_power[power], -abs(power - 1)))
    half = "first" if choosing[0] else "second"
    forms = [keys[power], keys[1.0], (DISSIMILARITY, OVER_SAMPLES, "")]
    tested = scored.prr(~choosing, f"not {half} half", forms, **inputs.resampling)
    settings = [CHOSEN, UNCHANGED, OVER_SAMPLES]
    return _OfHalf(power, tested.assign(setting=settings, variant=""))


def _mean_of_halves(halves: Sequence[_OfHalf], n: int) -> Estimates:
    """The mean over the two halves, which are resampled on their own, by ``setting``."""
    means = []
    for setting in (CHOSEN, UNCHANGED, OVER_SAMPLES):
        of_halves = joined([half.prr.where(setting=setting) for half in halves])
        means.append(of_halves.assign(setting=list(HALVES)).mean_over_draws(setting))
    mean = joined(means)
    return Estimates(mean.frame.assign(n=n), mean.replicates)


# -- gains by covered mass, by the gold label ------------------------------------------------------


def _with_gold_label(study: Study) -> Sequence[Cell]:
    """The main cells of multiple choice that are judged by the gold label."""
    return [
        cell
        for cell in grid.with_methods(study, [DISSIMILARITY])
        if GOLD_LABEL in [quality.metric for quality in study.qualities(cell.dataset)]
    ]


def gain_by_mass_gold(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a bin of covered mass: its questions, the share right, and what beams gain."""
    parts = []
    body = []
    for cell in chosen:
        scored = inputs.scores(cell, GOLD_LABEL)
        for place, part in enumerate(bins_of_mass(study, inputs, cell, BINS), 1):
            keys = {**cell.place, "setting": f"mass {place}"}
            parts.append(_gain_in_bin(scored, part.members, keys, inputs))
            titles = (part.title, str(int(part.members.sum())))
            body.append(Row(titles, keys, cell.title(study)))
    columns = [
        Column({"metric": "accuracy"}, ("Right",)),
        Column({"metric": "PRR", "variant": OVER_SAMPLES}, ("PRR of samples",)),
        Column({"metric": "PRR", "variant": OVER_BEAMS}, ("PRR of beams",)),
        Column({"metric": DELTA}, ("Beams − samples",), "signed", "interval"),
    ]
    return table(study, joined(parts), ("Covered mass", "n"), body, columns)


def _gain_in_bin(scored: QuestionScores, members: Bools, keys: Keys, inputs: Inputs) -> Estimates:
    forms = [(DISSIMILARITY, variant, "") for variant in (OVER_SAMPLES, OVER_BEAMS)]
    prr = scored.prr(members, keys["setting"], forms, **inputs.resampling)
    gain = beam_gains(prr).assign(metric=DELTA, variant="")
    n = int(members.sum())
    share = float(scored.quality[members].mean())
    right = Estimates.from_rows([{"metric": "accuracy", "value": share, "n": n}], [share])
    return joined([prr, gain, right]).assign(method="", **keys)


# -- which beam is the better one ------------------------------------------------------------------


def _judgeable(study: Study) -> Sequence[Cell]:
    """The main cells whose beams can be judged from their texts."""
    return [cell for cell in grid.main_cells(study) if _text_qualities(study, cell)]


def _text_qualities(study: Study, cell: Cell) -> list[Quality]:
    """The qualities that are read off texts, without a model."""
    return [
        quality
        for quality in study.qualities(cell.dataset)
        if quality.metric in QUALITY and quality.metric not in LEARNED
    ]


def beams_by_probability(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell and quality: how often the more probable of two beams is the better one."""
    parts = []
    body = []
    for cell in chosen:
        sets = inputs.candidates(cell)
        for quality in _text_qualities(study, cell):
            keys = {**cell.place, "setting": quality.metric}
            parts.append(_order_of_beams(study, inputs, cell, sets, quality))
            body.append(Row((cell.title(study), quality.title), keys))
    columns = [
        Column({"metric": "differing"}, ("Beams differ", "questions"), digits=2),
        Column({"metric": "concordance"}, ("Beams differ", "in order"), beside="interval"),
        Column({"metric": "first"}, ("Quality", "most probable"), beside="interval"),
        Column({"metric": "mean"}, ("Quality", "mean beam"), beside="interval"),
        Column({"metric": "best"}, ("Quality", "best beam"), beside="interval"),
    ]
    return table(study, joined(parts), ("Cell", "Quality"), body, columns)


def _order_of_beams(
    study: Study, inputs: Inputs, cell: Cell, sets: CandidateSets, quality: Quality
) -> Estimates:
    beams = sets.rows(study.main.beam, study.main.num_candidates)
    judged = beams.assign(quality=_quality_of_beams(study, cell, beams, sets.questions, quality))
    of_question = _order_within_questions(judged).loc[sets.ids]
    differing = of_question["concordance"].notna()
    ids = list(of_question.index[differing])
    keys = {"setting": quality.metric}
    columns = {name: of_question[name].to_numpy() for name in ("first", "mean", "best")}
    columns["differing"] = differing.to_numpy()
    parts = [inputs.means(cell, sets.ids, columns, **keys)]
    if ids:
        concordance = {"concordance": of_question.loc[ids, "concordance"].to_numpy()}
        parts.append(inputs.means(cell, ids, concordance, **keys))
    return joined(parts)


def _quality_of_beams(
    study: Study, cell: Cell, beams: pd.DataFrame, questions: pd.DataFrame, quality: Quality
) -> Floats:
    """[rows] the quality of each beam's text, judged as a produced answer is."""
    texts = beams["text"]
    if not study.newline_stops:
        texts = texts.map(on_one_line)
    question_rows = questions.loc[beams["id"]]
    learned = Learned(options=[list(options) for options in question_rows["options"]])
    return quality_values(
        quality.metric,
        list(texts),
        [list(references) for references in question_rows["references"]],
        normalizer_of(study.datasets[cell.dataset]),
        learned,
    )


def _order_within_questions(judged: pd.DataFrame) -> pd.DataFrame:
    """By question the quality of the most probable beam, the mean and the best; and concordance.

    ``concordance``: of the pairs of beams of unequal quality the share in which the more probable
    is the better, equally probable ones as half; NaN without such a pair.
    """
    rows = {}
    for key, beams in judged.groupby("id", sort=False):
        quality = beams["quality"].to_numpy(np.float64)
        logprob = beams["logprob"].to_numpy(np.float64)
        better = np.sign(quality[:, None] - quality)
        more_probable = np.sign(logprob[:, None] - logprob)
        pairs = better > 0
        agreement = (1 + more_probable[pairs]) / 2
        rows[key] = {
            "first": quality[logprob.argmax()],
            "mean": quality.mean(),
            "best": quality.max(),
            "concordance": agreement.mean() if pairs.any() else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def exhibits(_: Study) -> list[Exhibit]:
    drawn = partial(Exhibit, kind="table", beyond_paper=True)
    by_gold = partial(drawn, judged_by=GOLD_LABEL)
    return [
        drawn(
            "probabilities_alone",
            cells=_with_both_kinds,
            reads=EVALUATION,
            build=probabilities_alone,
        ),
        drawn(
            "weight_powers",
            cells=_with_powers,
            reads=(*SCORES, "evaluation"),
            build=weight_powers,
        ),
        by_gold(
            "gain_by_mass_gold",
            cells=_with_gold_label,
            reads=(*SCORES, *CANDIDATES),
            build=gain_by_mass_gold,
            quality=False,
        ),
        drawn(
            "beams_by_probability",
            cells=_judgeable,
            reads=CANDIDATES,
            build=beams_by_probability,
            quality=False,
            judges_texts=True,
        ),
    ]

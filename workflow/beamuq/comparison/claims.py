"""The functions that judge the claims of ``claims.yaml``, and what a study's own cells say to each claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem
from beamuq.comparison import judging
from beamuq.comparison.declared_files import Claim, ComparisonRules, read_claims, read_rules
from beamuq.comparison.judging import Case, Floats, Judge, NotAskedError, Part, Truths, Verdict, per_dataset
from beamuq.comparison.paper_settings import Kind
from beamuq.comparison.results import Results, stored_keys, table_cell
from beamuq.errors import BeamUQError
from beamuq.evaluation import prr_and_auc
from beamuq.evaluation.bootstrap import MOST_UNDEFINED
from beamuq.evaluation.candidate_sets import CandidateSets, groups_of, length_bins
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.exhibits import cells as grid
from beamuq.exhibits.captions import BEAMSEARCH, CONSISTENCY, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import ablation, kind_of, of_kind
from beamuq.study_config import Study

OF_VERDICT = ("outcome", "value", "low", "high", "n")
COLUMNS = ["id", "where", "claim", "model", "datasets", *OF_VERDICT, "found", "paper_settings"]
OUTCOMES = ("yes", "partly", "no", "undecided", "another model", "too few", "not asked")
NEEDS = "needs a recipe of the grid with what it is about, under the main scorer, as studies/paper.yaml has one"
Lengths = Sequence[float]  # tokens of the greedy answer, its terminator counted: from, to
Forms = Sequence[tuple[str, str]]  # method, variant
Cells = Callable[..., list[Cell]]
POOL = (*CANDIDATES, "similarity")


def _main(study: Study, **_: Any) -> list[Cell]:
    return grid.recipe_cells(study, study.main.recipe)


def _budgets(study: Study, better: Forms = (), worse: Forms = (), **_: Any) -> list[Cell]:
    return grid.with_budgets(study, list(dict.fromkeys(form[0] for form in (*better, *worse))) or ["Dissimilarity"])


def _table(study: Study, table: str, **_: Any) -> list[Cell]:
    """The cells that measure what a printed table shows."""
    places = ((model, dataset) for model in study.models for dataset in study.datasets)
    return [cell for place in places if (cell := table_cell(study, read_rules().tables[table], *place))]


def _estimators(study: Study, comparisons: Sequence[tuple[str, str, float]], **_: Any) -> list[Cell]:
    """The cells in whose recipe all the estimators are scored, each in the first such recipe."""
    names = {name for better, worse, _ in comparisons for name in (better, worse)}
    recipes = [e.recipe for e in study.grid if all(scored_as(study, e.recipe, name) for name in names)]
    every = [cell for recipe in dict.fromkeys(recipes) for cell in grid.recipe_cells(study, recipe)]
    return grid.in_order(study, list({(cell.model, cell.dataset): cell for cell in reversed(every)}.values()))


JUDGES: dict[str, tuple[Judge, Cells, tuple[str, ...]]] = {}


def judges(cells: Cells = _main, *reads: str) -> Callable[[Judge], Judge]:
    """Registers a function that judges claims.

    ``cells``: of a study and a claim's settings those that it can be asked of; ``reads``: what it reads beside
    evaluations.
    """

    def register(judge: Judge) -> Judge:
        JUDGES[judge.__name__] = judge, cells, reads
        return judge

    return register


# -- candidates --------------------------------------------------------------------------------------------------------


def _of_length(found: CandidateSets, lengths: Lengths) -> Truths:
    """[N] which questions have a greedy answer of these lengths."""
    members = (found.lengths() >= lengths[0]) & (found.lengths() <= lengths[1])
    judging.enough(int(members.sum()), f"with answers of {lengths[0]} to {lengths[1]:g} tokens")
    return np.asarray(members)


@judges(_main, *CANDIDATES)
@per_dataset
def printed_share(case: Case, of: str, printed: Sequence[float], lengths: Lengths = (1, np.inf)) -> Verdict:
    """Whether a share is as printed: of questions that meet the "condition", or of samples that "repeat" another."""
    found, main = case.candidates(), case.results.study.main
    threshold, members = beam_mass_theorem.printed_threshold(main.num_candidates), _of_length(found, lengths)
    every: Floats | Truths = found.redundancy(main.sample, main.num_candidates)
    if of == "condition":
        every = found.mass(main.beam, main.num_candidates) > threshold
    return case.as_printed(every[members], groups_of(found.groups, members), printed, len(found.ids))


@judges(_main, *CANDIDATES)
@per_dataset
def more_repeats(case: Case, short: Lengths, long: Lengths) -> Verdict:
    """Whether samples of short answers repeat more than those of long ones."""
    found, main = case.candidates(), case.results.study.main
    values = found.redundancy(main.sample, main.num_candidates)
    chosen = [_of_length(found, lengths) for lengths in (short, long)]
    (a, std), (b, other) = (judging.mean_and_std(values[of], groups_of(found.groups, of)) for of in chosen)
    return case.clear(a - b, float(np.hypot(std, other)), int(np.sum(chosen)))


@judges(_main, *CANDIDATES)
@per_dataset
def covered_mass(case: Case, first: int, share: float) -> Verdict:
    """Whether beams cover more probability than samples at every length, and the first hold more than a share of it."""
    found, main = case.candidates(), case.results.study.main
    gain = found.mass(main.beam, main.num_candidates) - found.mass(main.sample, main.num_candidates)
    more = float(np.mean([gain[of.members].mean() > 0 for of in length_bins(found.lengths(), 7)]))
    rows = found.of(main.beam, main.num_candidates)
    p = np.exp(rows["logprob"])
    leading = p[rows["rank"] < first].sum() / p.sum()
    case.notes.append(f"more in {more:.0%} of the length bins; the first {first} hold {leading:.0%} of the beams' mass")
    verdict = case.clear(*judging.mean_and_std(gain, found.groups), len(gain))
    parts: dict[str, Any] = {"sign": judging.share_as(more), "size": "yes" if leading > share else "no"}
    significance: Part = "yes" if verdict.sign == "yes" else "no"
    return replace(verdict, **parts, significance=significance, opposite=verdict.sign == "no")


# -- the main table ----------------------------------------------------------------------------------------------------


@judges()
def beams_rise(
    case: Case,
    methods: Sequence[str] = CONSISTENCY,
    metric: str = "PRR",
    answer_source: str = "greedy",
    most: bool = False,
) -> Verdict:
    """Whether beams raise the means over datasets of all methods, or of ``most``."""
    each = case.answered(answer_source).gains(methods, metric, answer_source)
    return case.rise(each.mean_over_datasets(), judging.questions(each), most=0.5 if most else 1.0)


@judges()
def beams_change_nothing(case: Case, method: str) -> Verdict:
    """Whether the change of a method's mean over datasets is negligible, with its whole interval."""
    each, margin = case.answered().gains([method]), case.results.rules.claims.negligible
    summary = each.mean_over_datasets().summary(case.results.study.evaluation.confidence)
    case.note_undecidable(summary, margin)
    value, low, high = summary[["value", "low", "high"]].iloc[0]
    return Verdict(judging.questions(each), judging.negligible(summary, margin)[0], value=value, low=low, high=high)


@judges()
def ranking(case: Case, place: str, method: str = "") -> Verdict:
    """Where the beam form of a method, or of any, stands among all of the main table by mean PRR.

    That it is "best" is tested; no test says how far another rank is one by chance, which leaves it undecided.
    """
    case = case.answered()
    means, n = _means_of_main_table(case)
    of_method = means.frame["method"] == method if method else True
    ahead = ((means.frame["variant"] == BEAMSEARCH) & of_method).to_numpy()
    if not ahead.any() or ahead.all():
        raise NotAskedError(f"no beam form of {method or 'any method'} beside other methods")
    ranks = means.frame["value"].rank(ascending=False, method="min")[ahead].sort_values()
    case.notes.append(f"rank {', '.join(f'{rank:.0f}' for rank in ranks)} of {len(means)}")
    if place != "best":
        return Verdict(n, "undecided")
    lead, p = judging.tested_lead(means, ahead)
    return case.above_zero(np.array([lead]), np.array([p]), means.replicates.shape[1], n)


def _means_of_main_table(case: Case) -> tuple[Estimates, int]:
    """The means of all that the main table ranks and that every cell has, and how many questions the cells have."""
    printed = case.results.printed
    methods = set(printed["method"][printed["table"] == "tab:qa_mean_prr"])
    found = case.estimates().where(metric="PRR", setting="", method=methods)
    everywhere = found.frame.groupby(["method", "variant"])["dataset"].transform("size") == len(case.cells)
    means = found.rows(everywhere).mean_over_datasets()
    return judging.at(means, means.frame[["method", "variant"]]), judging.questions(found)


# -- numbers of candidates ---------------------------------------------------------------------------------------------


@judges(_budgets)
def ahead_at_budgets(case: Case, better: Forms, worse: Forms, first: int = 2, last: float = np.inf) -> Verdict:
    """Whether some forms are ahead of others at every M from ``first`` to ``last``."""
    found, scoring, pairs = case.estimates(), case.results.study.scoring, list(zip(better, worse, strict=True))
    budgets = [(cell.dataset, M) for cell in case.cells for M in scoring[cell.recipe].budgets if first <= M <= last]
    if not budgets:
        raise NotAskedError(f"no budget is from M = {first} to {last:g}")
    names = ["dataset", "method", "variant", "setting"]
    places = ([(dataset, *pair[side], ablation("M", M)) for dataset, M in budgets for pair in pairs] for side in (0, 1))
    a, b = (judging.at(found.where(metric="PRR"), pd.DataFrame(of, columns=names)) for of in places)
    return case.rise(a.minus(b), judging.questions(found))


@judges(_budgets)
def plateau(case: Case, near: int) -> Verdict:
    """From which M on Dissimilarity over beams is, and stays, at its end's height; the value is that M.

    A later start than claimed denies the claim only where the curve is shown to be off before. The start may be off by
    a declared share of the claimed M. What has to be significant is the rise from the smallest M to the end.
    """
    every, slack = case.estimates(), case.results.rules.claims.plateau_slack * near
    parts, rises, starts = list[Part](), [], []
    for cell in case.cells:
        rise, start, earliest = _start_of_plateau(case, every, cell, near, slack)
        missed = earliest > near + slack or start < near - slack
        parts.append("no" if missed else "yes" if start <= near + slack else "undecided")
        rises.append(rise)
        starts.append(start)
    verdict = case.rise(joined(rises), judging.questions(every), size=judging.together(parts), opposite="no" in parts)
    return replace(verdict, value=float(np.mean(starts)), low=np.nan, high=np.nan)


def _start_of_plateau(
    case: Case, every: Estimates, cell: Cell, near: int, slack: float
) -> tuple[Estimates, float, float]:
    """The rise from the smallest M to the end; the first M from which on the paired interval to the end is negligible,
    NaN if none is; and the first behind the last M that is shown to be off, where the search starts."""
    sizes, margin = sorted(case.results.study.scoring[cell.recipe].budgets), case.results.rules.claims.plateau
    keys = {"dataset": cell.dataset, "metric": "PRR", "method": "Dissimilarity", "variant": BEAMSEARCH}
    curve = judging.at(every, pd.DataFrame([keys | {"setting": ablation("M", M)} for M in sizes]))
    last, before = len(sizes) - 1, list(range(len(sizes) - 1))
    to_end = curve.rows(before).minus(curve.rows([last] * last)).summary(case.results.study.evaluation.confidence)
    there = dict(zip(sizes, judging.negligible(to_end, margin), strict=False))
    off = max((M for M, part in there.items() if part == "no"), default=0)
    start = next((M for M, part in there.items() if off < M and part == "yes"), np.nan)
    earliest = next(M for M in sizes if off < M)
    case.notes.append(f"M = {start if start == start else f'{earliest} or later'} on {cell.dataset}")
    case.note_undecidable(to_end[[abs(M - near) <= slack for M in sizes[:-1]]], margin)
    return curve.rows([last]).minus(curve.rows([0])), start, earliest


# -- questions one by one ----------------------------------------------------------------------------------------------


@judges(lambda study, **_: grid.with_methods(study, ["Dissimilarity"]), *SCORES, *CANDIDATES)
def gain_on_short_answers(case: Case, below: int) -> Verdict:
    """Whether Dissimilarity gains on answers of fewer tokens than ``below``, and negligibly on the others."""
    case.require(*SCORES, *CANDIDATES)
    gains = [_gains_by_length(case, cell, below) for cell in case.cells]
    shorter, rest = (joined(of) for of in zip(*gains, strict=True))
    summary, margin = rest.summary(case.results.study.evaluation.confidence), case.results.rules.claims.negligible
    case.note_undecidable(summary, margin)
    part, n = (
        judging.together(judging.negligible(summary, margin)),
        judging.questions(shorter) + judging.questions(rest),
    )
    return case.rise(shorter, n, size=part, opposite=part == "no")


def _gains_by_length(case: Case, cell: Cell, below: int) -> list[Estimates]:
    """Beam minus multinomial Dissimilarity over the answers of fewer tokens, and over the others."""
    inputs, gains, found = case.results.inputs, list[Estimates](), replace(case, cells=[cell]).candidates()
    scored, forms = inputs.scores(cell), [("Dissimilarity", variant, "") for variant in (BEAMSEARCH, MULTINOMIAL)]
    short = pd.Series(found.lengths() < below, found.ids).loc[scored.ids].to_numpy()
    for where, members in (("below", short), ("rest", ~short)):
        judging.enough(int(members.sum()), f"of {cell.dataset}, {where} {below} tokens")
        pair = scored.prr(members, f"by length {where}", forms, **inputs.resampling).assign(**cell.place)
        pair = judging.at(pair, pair.frame[["variant"]])
        gains.append(pair.rows([0]).minus(pair.rows([1])))
    return gains


@judges(grid.with_methods, *SCORES)
@per_dataset
def curves_ahead(case: Case, methods: Sequence[str]) -> Verdict:
    """Whether beam forms' rejection curves lie on or above the sampled ones' over nearly all of the range."""
    case.require(*SCORES)
    scored, shares = case.results.inputs.scores(case.cells[0]), []
    for method in methods:
        forms = (scored.scores(method, variant) for variant in (BEAMSEARCH, MULTINOMIAL))
        a, b = (prr_and_auc.rejection_curves(form, scored.quality).uncertainty[1:] for form in forms)
        shares.append(float(np.mean(a >= b)))
    case.notes.append(f"ahead over {min(shares):.0%} of the range at least")
    sign = judging.share_as(min(shares), case.results.rules.claims.nearly_all)
    return case.rise(case.gains(methods), len(scored.ids), sign=sign)


# -- ablations ---------------------------------------------------------------------------------------------------------


def _columns(case: Case, table: str) -> list[Estimates]:
    """Of each cell and method the estimates of every setting that a table prints, under its printed setting."""
    printed = case.results.printed
    rows = printed[printed["table"] == table].drop_duplicates(["method", "variant", "setting"])
    keys, found = stored_keys(case.results.study, rows), []
    for cell in case.cells:
        each = judging.at(replace(case, cells=[cell]).estimates(), keys).assign(setting=list(rows["setting"]))
        found += [each.where(method=method) for method in dict.fromkeys(rows["method"])]
    return found


@judges(_table)
def beams_ahead_of_others(case: Case, table: str, worse: Sequence[str]) -> Verdict:
    """Whether plain beams are above nearly all settings that begin with one of ``worse``."""
    gaps = []
    for column in _columns(case, table):
        others = column.rows(column.frame["setting"].str.startswith(tuple(worse)))
        gaps.append(column.at(pd.DataFrame({"setting": ["beam"] * len(others)})).minus(others))
    share = float(np.mean(joined(gaps).frame["value"] > TIE))
    sign = judging.share_as(share, case.results.rules.claims.nearly_all)
    return case.rise(joined(gaps), judging.questions(joined(gaps)), sign=sign)


@judges(_table)
def none_dominates(case: Case, table: str) -> Verdict:
    """Whether every setting is significantly behind another one in some column. The value is the share that is.

    One that is the best of all in every column denies it; anything else leaves it open.
    """
    columns, level = _columns(case, table), case.results.rules.claims.level
    places = columns[0].frame[["setting"]]
    columns = [column.at(places) for column in columns]
    best = {int(column.frame["value"].to_numpy().argmax()) for column in columns}
    few, behind = case.too_few_resamples(columns[0].replicates.shape[1], len(columns), 1), []
    for place in range(len(places)):
        p = [judging.selected_lead(column, np.arange(len(places)) != place)[1] for column in columns]
        behind.append(bool(holm(p, len(p)).min() < level))
    case.notes.append(f"{len(best)} of {len(places)} are best in a column, {sum(behind)} significantly behind in one")
    sign: Part = "no" if len(best) == 1 else "yes" if not few and all(behind) else "undecided"
    return Verdict(judging.questions(joined(columns)), sign, value=float(np.mean(behind)))


@judges(_table)
def settings_robust(case: Case, table: str, strong: Sequence[str], worse: str, margin: float) -> Verdict:
    """Whether all ``strong`` settings come within a margin of the best in nearly every column, and the last of them is
    above the best that begins with ``worse``."""
    columns, close, leads = _columns(case, table), [], []
    for column in columns:
        setting, values = column.frame["setting"], column.frame.set_index("setting")["value"]
        close += list(values[list(strong)] >= values.max() - margin)
        rivals = column.rows(setting.str.startswith(worse) | (setting == strong[-1]))
        leads.append(judging.tested_lead(rivals, (rivals.frame["setting"] == strong[-1]).to_numpy()))
    case.notes.append(f"{np.mean(close):.0%} within {margin:g} of the best; {strong[-1]} against {worse.rstrip('=')}")
    size, (values, p) = judging.share_as(float(np.mean(close)), case.results.rules.claims.nearly_all), np.array(leads).T
    return case.above_zero(values, p, columns[0].replicates.shape[1], judging.questions(joined(columns)), size=size)


# -- several draws of samples beside the main beams --------------------------------------------------------------------


def _draws(case: Case) -> tuple[list[str], Floats, Truths, Floats, Floats]:
    """Of N questions: groups; Dissimilarity of each sample [N, S], and whether it is outside the beams; of beams [N]
    Dissimilarity and mass."""
    case.require("similarity")
    found, main, file = case.candidates(), case.results.study.main, case.cells[0].file("similarity")
    pairs = case.results.inputs.frame(file).set_index(["id", "premise", "hypothesis"])["entail"]

    def of(strategy: str) -> tuple[list[Any], Floats, Floats]:
        """Id and token sequence of each candidate; probability and dissimilarity, each [N, candidates]."""
        rows = found.of(strategy).set_index("id").loc[found.ids]
        keys = pd.MultiIndex.from_arrays([rows.index, found.greedy.loc[rows.index, "text"], rows["text"]])
        s = pairs.reindex(keys).to_numpy(np.float64).reshape(len(found.ids), -1)
        if np.isnan(s).any():
            raise NotAskedError(f"{file.path} lacks pairs of answers and candidates")
        sequences = [(key, *tokens) for key, tokens in zip(rows.index, rows["token_ids"], strict=True)]
        return sequences, np.exp(rows["logprob"].to_numpy(np.float64)).reshape(s.shape), 1.0 - s

    (drawn, _, samples), (beams, p, dissimilarity) = of(main.sample), of(main.beam)
    known, mass = set(beams), p.sum(axis=1)
    outside = np.array([sequence not in known for sequence in drawn]).reshape(samples.shape)
    return found.groups, samples, outside, (dissimilarity * p).sum(axis=1) / mass, np.minimum(mass, 1.0)


@judges(grid.with_pools, *POOL)
@per_dataset
def smaller_error(case: Case) -> Verdict:
    """The squared error of Dissimilarity of one draw of M samples minus that of beams, question by question.

    Beams are deterministic: that they do not vary says nothing of how far off they are. The Dissimilarity of the
    distribution itself is estimated by the mean of all draws, whose own error is taken off.
    """
    (groups, samples, _, inside, _), M = _draws(case), case.results.study.main.num_candidates
    scores = samples[:, : samples.shape[1] // M * M].reshape(len(groups), -1, M).mean(axis=2)
    variance = scores.var(axis=1, ddof=1)
    error = (inside - scores.mean(axis=1)) ** 2 - variance / scores.shape[1]
    case.notes.append(
        f"mean squared error: one of {scores.shape[1]} draws {variance.mean():.4f}, beams {error.mean():.4f}"
    )
    return case.clear(*judging.mean_and_std(variance - error, groups), len(groups))


@judges(grid.with_pools, *POOL)
@per_dataset
def small_gap(case: Case) -> Verdict:
    """Whether the gap |μ_B − μ_out| is so modest that beams need less mass than the printed condition asks for.

    Samples that are none of the beams are draws from outside them: their mean is μ_out, and from its squared distance
    to μ_B its own error is taken off. By the general condition (1 − m_B)|μ_B − μ_out| < σ/√M a question needs the mass
    1 − σ/(√M |μ_B − μ_out|). Sign: that is below the printed threshold at more than half of the questions (the value).
    Size: with the mass that the beams have, their mean squared error is below that of M samples. Either is undecided
    where its interval lies across. A question with under two samples outside tells nothing.
    """
    groups, samples, outside, inside, mass = _draws(case)
    M, known = case.results.study.main.num_candidates, outside.sum(axis=1) >= 2
    judging.enough(int(known.sum()), f"of {case.cells[0].dataset} with two samples that are none of the beams")
    groups, apart = groups_of(groups, known), np.where(outside, samples, np.nan)[known]
    gap = np.nanmean(apart, axis=1) - inside[known]
    squared = gap**2 - np.nanvar(apart, axis=1, ddof=1) / outside[known].sum(axis=1)
    of_samples, printed = samples[known].var(axis=1, ddof=1) / M, beam_mass_theorem.printed_threshold(M)
    share, std = judging.mean_and_std(((1 - printed) ** 2 * squared <= of_samples + TIE).astype(np.float64), groups)
    gain, n = judging.mean_and_std(of_samples - (1 - mass[known]) ** 2 * squared, groups), len(groups)
    case.notes.append(f"dissimilarity outside minus inside {gap.mean():+.3f}; one draw's error minus {gain[0]:+.4f}")
    sign, size = case.clear(share - 0.5, std, n).sign, case.clear(*gain, n).sign
    return replace(case.clear(share, std, n), sign=sign, size=size)


# -- ours --------------------------------------------------------------------------------------------------------------


@judges(_estimators)
def estimators(case: Case, comparisons: Sequence[tuple[str, str, float]]) -> Verdict:
    """Estimators of Dissimilarity against others in PRR on every dataset, by one-sided bounds.

    Each is a weighting and its candidates: ``unnormalised beam M=5``, ``uniform sample T=1.0 M=10`` (its mean over all
    disjoint draws of so many that are scored). Yes: every lower bound of better − worse at the declared level is above
    −margin; since all have to be, no correction is needed. No: some upper bound, corrected by Bonferroni over all, is
    below it. Undecided: anything else. The bounds are of a paired bootstrap over questions; the value is the weakest.
    """
    case, level = case.answered(), case.results.rules.claims.level
    found = case.estimates().where(metric="PRR")
    pairs = [[_estimator(case, found, cell, name) for name in pair] for *pair, _ in comparisons for cell in case.cells]
    gaps = joined([better.minus(worse) for better, worse in pairs])
    margin = np.repeat([margin for *_, margin in comparisons], len(case.cells))
    undefined = np.isnan(gaps.replicates).mean(axis=1) > MOST_UNDEFINED
    bounds = np.nanquantile(gaps.replicates, [level, 1 - level / len(gaps)], axis=1)
    low, high = np.where(undefined, np.nan, bounds)
    case.notes.append(f"{(low > -margin).sum()} of {len(gaps)} shown by one-sided {1 - level:.0%} bounds")
    denied, weakest = bool((high < -margin).any()), int((low + margin).argmin())
    sign: Part = "yes" if (low > -margin).all() else "no" if denied else "undecided"
    ends = (gaps.frame["value"].iloc[weakest], low[weakest], high[weakest])
    return Verdict(judging.questions(found), sign, "-", "-", denied, *ends)


def _estimator(case: Case, found: Estimates, cell: Cell, name: str) -> Estimates:
    """PRR of an estimator, the mean over the disjoint draws of samples where several are measured."""
    variant, _, setting = (scored_as(case.results.study, cell.recipe, name) or name).partition(" ")
    of = found.where(dataset=cell.dataset, method="Dissimilarity", variant=variant)
    draws = of.frame["setting"][of.frame["setting"].str.startswith(f"{setting} draw=")]
    names = list(draws) if kind_of(setting) == "sample" and len(draws) else [setting]
    return judging.at(of, pd.DataFrame({"setting": names})).mean_over_draws(setting)


def scored_as(study: Study, recipe: str, name: str) -> str | None:
    """``name`` with the strategy whose scores it is of, where the recipe's scoring has it, else None."""
    weighting, _, candidates = name.partition(" ")
    kind, strategies = kind_of(candidates), study.recipes[recipe].strategies()
    if f"{weighting} {kind}" not in study.scoring[recipe].estimators:
        return None
    if kind == "sample":
        strategy, _, size = candidates.rpartition(" M=")
        sample = study.recipes[recipe].sample
        return name if sample and strategy in strategies and int(size) <= sample.size else None
    found = [one for one in of_kind(strategies, kind) if candidates in (kind, one) and lacks(weighting, one) is None]
    return f"{weighting} {found[0]}" if found else None


@judges()
def theorem(case: Case) -> Verdict:
    """The theorem's distribution-free condition, by its stored counterexample; needs no run."""
    outcomes, M = beam_mass_theorem.COUNTEREXAMPLE, beam_mass_theorem.COUNTEREXAMPLE_M
    beam, sampled = beam_mass_theorem.squared_errors(outcomes, M)
    case.notes.append(f"mass {outcomes.mass:.2f}, squared error {beam:.4f} of beams, {sampled:.4f} of samples")
    return Verdict(0, "no" if outcomes.mass > beam_mass_theorem.printed_threshold(M) and beam > sampled else "yes")


# -- every claim -------------------------------------------------------------------------------------------------------


def judge(results: Results) -> pd.DataFrame:
    """One row a claim and model, ``COLUMNS``: what a study's own cells say, whatever their settings."""
    rows = []
    for claim in read_claims():
        for model, (cells, why) in asked(results.study, results.rules, claim).items():
            row = claim.model_dump(include={"id", "where", "claim"})
            row |= {"model": model, "datasets": ", ".join(cell.dataset for cell in cells), "paper_settings": ""}
            try:
                if why:
                    raise NotAskedError(why)
                row |= _judged(results, claim, model, cells)
            except NotAskedError as error:
                row |= {"outcome": error.outcome, "found": str(error)}
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS).astype({"n": "Int64"})


def _judged(results: Results, claim: Claim, model: str, cells: Sequence[Cell]) -> dict[str, Any]:
    (judge, _, reads), case, paper = JUDGES[claim.judge], Case(results, cells), results.rules.paper.datasets
    verdict = judge(case, **claim.settings)
    row = {name: getattr(verdict, name) for name in OF_VERDICT} | {"found": "; ".join(case.notes)}
    if claim.sized and model not in claim.models:
        row["outcome"] = "another model"
    kind = Kind("candidates" if reads == CANDIDATES else "scores", claim.settings.get("metric", "PRR"))
    differing = list[str]()
    for cell in cells:  # the first setting that is not the paper's, the number of questions among them
        n = grid.asked(results.study, cell) or 0
        size = claim.questions or (paper[cell.dataset].questions if cell.dataset in paper else n) or 0
        differing += [kind.first(results.differences(cell)), results.rules.too_few(n, cell.dataset, size)]
    return row | {"paper_settings": next(filter(None, differing), "yes") if cells else ""}


def asked(study: Study, rules: ComparisonRules, claim: Claim) -> dict[str, tuple[list[Cell], str]]:
    """Model → the cells that a claim is asked of, among those that have what it needs; where of none, "" → why.

    They are those of the claim's models and datasets (none: all of the paper's), and of every other that is not the
    paper's; where a study has none of these, all of its own.
    """

    def standing(own: Sequence[str], claimed: Sequence[str], printed: Collection[str]) -> list[str]:
        return [name for name in own if name in (claimed or printed) or name not in printed] or list(own)

    if study.demo or claim.missing:
        return {"": ([], "a demo" if study.demo else f"missing: {claim.missing}")}
    if claim.judge == theorem.__name__:
        return {"": ([], "")}
    try:
        cells = JUDGES[claim.judge][1](study, **claim.settings)
    except BeamUQError as error:
        return {"": ([], str(error))}
    chosen = standing(grid.datasets_of(study, cells), claim.datasets, rules.paper.datasets)
    of_model = grid.by_model([cell for cell in cells if cell.dataset in chosen])
    models = standing(list(of_model), claim.models, rules.paper.models)
    return {model: (of_model[model], "") for model in models} or {"": ([], NEEDS)}


def needed_files(study: Study) -> list[Artifact]:
    """Every file that the comparison reads, without repetitions; only what the study's grid has.

    Evaluation and replicates of the whole grid; quality and questions of the main recipe, for accuracies; and what
    claims read beside these.
    """
    found, rules, metric = list[Artifact](), read_rules(), study.main_quality.metric
    for entry in study.grid:
        every = [Cell(m, d, entry.recipe, s) for m in entry.models for d in entry.datasets for s in entry.scorers]
        kinds = (*EVALUATION, *(("quality", "questions") if entry.recipe == study.main.recipe else ()))
        found += [cell.file(kind, metric) for cell in every for kind in kinds]
    for claim in read_claims():
        for cells, _ in asked(study, rules, claim).values():
            found += [cell.file(kind, metric) for cell in cells for kind in JUDGES[claim.judge][2]]
    return list(dict.fromkeys(found))

"""The paper's claims, and ours: the function that judges each, and what a study's own cells say to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem
from beamuq.comparison import judging
from beamuq.comparison.declared_files import Claim, ComparisonRules, read_claims, read_rules
from beamuq.comparison.judging import Floats, Judge, NotAskedError, Part, TooFewError, Truths, Verdict, per_dataset
from beamuq.comparison.paper_settings import Kind
from beamuq.comparison.results import Results, stored_keys, table_cell
from beamuq.errors import BeamUQError
from beamuq.evaluation import prr_and_auc
from beamuq.evaluation.bootstrap import MOST_UNDEFINED
from beamuq.evaluation.candidate_sets import CandidateSets, groups_of, length_bins
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.exhibits import cells as grid
from beamuq.exhibits.captions import BEAMSEARCH, CONSISTENCY, GRAPH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import ablation, kind_of, of_kind
from beamuq.study_config import Study

OF_VERDICT = ("outcome", "value", "low", "high", "n", "found")
COLUMNS = ["id", "where", "claim", "model", "datasets", *OF_VERDICT, "paper_settings"]
OUTCOMES = ("yes", "partly", "no", "undecided", "another model", "too few", "not asked")
NEEDS = "needs a recipe of the grid with what it is about, under the main scorer, as studies/paper.yaml has one"
Lengths = tuple[int, float]  # tokens of the greedy answer, its terminator counted: from, to
Forms = Sequence[tuple[str, str]]  # method, variant
ANY_SCORE = Kind()
Versus = tuple[str, str, float]  # an estimator, another, and by how much it may be behind

# -- candidates --------------------------------------------------------------------------------------------------------


def _repeats(results: Results, found: CandidateSets) -> Floats:
    return found.redundancy(results.study.main.sample, results.study.main.num_candidates)


def _of_length(found: CandidateSets, lengths: Lengths) -> Truths:
    """[N] which questions have a greedy answer of these lengths."""
    members = (found.lengths() >= lengths[0]) & (found.lengths() <= lengths[1])
    judging.enough(int(members.sum()), f"with answers of {lengths[0]} to {lengths[1]:g} tokens")
    return np.asarray(members)


@per_dataset
def printed_share(
    results: Results, cell: Cell, of: str, printed: tuple[float, float], lengths: Lengths = (1, np.inf)
) -> Verdict:
    """Whether a share is as printed: of questions that meet the "condition", or of samples that "repeat" another."""
    found, main, paper = judging.candidates(results, cell), results.study.main, results.rules.paper.datasets
    threshold = beam_mass_theorem.printed_threshold(main.num_candidates)
    every = _repeats(results, found) if of == "repeat" else found.mass(main.beam, main.num_candidates) > threshold
    members = _of_length(found, lengths)
    values, groups = every[members], groups_of(found.groups, members)
    asked = paper[cell.dataset].questions if cell.dataset in paper else np.inf
    many = not results.rules.too_few(len(found.ids), cell.dataset, asked)  # type: ignore[arg-type]
    size, low, high = judging.as_printed(results, values, groups, printed, many)
    told = f"{values.mean():.1%}, printed {printed[0]:.1%} to {printed[1]:.1%}"
    return Verdict(told, len(values), size=size, value=float(values.mean()), low=low, high=high)


@per_dataset
def more_repeats(results: Results, cell: Cell, short: Lengths, long: Lengths) -> Verdict:
    """Whether samples of short answers repeat more than those of long ones."""
    found, z = judging.candidates(results, cell), results.rules.agreement.z
    values, chosen = _repeats(results, found), [_of_length(found, lengths) for lengths in (short, long)]
    means, stds = zip(*(judging.mean_and_std(values[of], groups_of(found.groups, of)) for of in chosen), strict=True)
    gap, std, sizes = means[0] - means[1], float(np.hypot(*stds)), [int(of.sum()) for of in chosen]
    told = f"{means[0]:.1%} of samples repeat another in {sizes[0]} questions, {means[1]:.1%} in {sizes[1]}"
    return Verdict(told, sum(sizes), judging.above(gap, std, z), value=gap, low=gap - z * std, high=gap + z * std)


@per_dataset
def covered_mass(results: Results, cell: Cell, first: int, share: float) -> Verdict:
    """Whether beams cover more probability than samples at every length, and the first hold more than a share of it."""
    found, main, z = judging.candidates(results, cell), results.study.main, results.rules.agreement.z
    gain = found.mass(main.beam, main.num_candidates) - found.mass(main.sample, main.num_candidates)
    more = [bool(gain[of.members].mean() > 0) for of in length_bins(found.lengths(), 7)]
    (mean, std), rows = judging.mean_and_std(gain, found.groups), found.of(main.beam, main.num_candidates)
    p = np.exp(rows["logprob"].to_numpy())
    leading = float(p[(rows["rank"] < first).to_numpy()].sum() / p.sum())
    told = f"more in {sum(more)} of {len(more)} length bins; the first {first} hold {leading:.0%} of the beams' mass"
    size, clear, less = "yes" if leading > share else "no", "yes" if mean > z * std else "no", mean < -z * std
    ends = (mean, mean - z * std, mean + z * std)
    return Verdict(told, len(gain), judging.share_as(float(np.mean(more))), size, clear, less, *ends)  # type: ignore[arg-type]


# -- the main table ----------------------------------------------------------------------------------------------------


def beams_rise(
    results: Results,
    cells: Sequence[Cell],
    methods: Sequence[str] = CONSISTENCY,
    metric: str = "PRR",
    answer_source: str = "greedy",
    most: bool = False,
) -> Verdict:
    """Whether beams raise the means over datasets of all methods, or of ``most``."""
    cells, without = judging.answered(results, cells, answer_source)
    each = judging.gains(judging.estimates(results, cells, answer_source), cells, methods, metric)
    means = each.mean_over_datasets()
    rising = float(np.mean(means.frame["value"] > TIE))
    sign = judging.share_as(rising, float(np.nextafter(0.5, 1)) if most else 1.0)
    return judging.rise(results, means, judging.questions(each), without, sign=sign, most=0.5 if most else 1.0)


def beams_change_nothing(results: Results, cells: Sequence[Cell], method: str) -> Verdict:
    """Whether the change of a method's mean over datasets is negligible, with its whole interval."""
    cells, without = judging.answered(results, cells)
    each, margin = judging.gains(judging.estimates(results, cells), cells, [method]), results.rules.claims.negligible
    summary, n = each.mean_over_datasets().summary(results.study.evaluation.confidence), judging.questions(each)
    told = "; ".join(filter(None, (without, *judging.undecidable(summary, margin, n))))
    value, low, high = summary[["value", "low", "high"]].iloc[0]
    return Verdict(told, n, judging.negligible(summary, margin)[0], value=value, low=low, high=high)


def ranking(results: Results, cells: Sequence[Cell], place: str, method: str = "") -> Verdict:
    """Where the beam form of a method, or of any, stands among all of the main table by mean PRR.

    That it is "best" is tested; no test says how far another rank is one by chance, which leaves it undecided.
    """
    cells, without = judging.answered(results, cells)
    printed = results.printed["method"][results.printed["table"] == "tab:qa_mean_prr"]
    found = judging.estimates(results, cells).where(metric="PRR", setting="", method=set(printed))
    measured = found.frame.groupby(["method", "variant"])["dataset"].transform("size") == len(cells)
    n, found = judging.questions(found), found.rows(measured).mean_over_datasets()
    found = judging.at(found, found.frame[["method", "variant"]])
    frame = found.frame.reset_index(drop=True)
    beams = frame["variant"] == BEAMSEARCH
    ahead = (beams & frame["method"].isin([method] if method else set(printed))).to_numpy()
    if not ahead.any() or ahead.all():
        raise NotAskedError(f"no beam form of {method or 'any method'} beside other methods")
    order = frame["value"].rank(ascending=False, method="min")
    best = int(np.flatnonzero(ahead)[order[ahead].argmin()])
    told = f"{frame['method'][best]} over beams is {order[best]:.0f} of {len(frame)}"
    if place != "best":
        two = f"{beams[order <= 2].sum()} of the best two are beam forms; {told}; no test of ranks; {without}"
        return Verdict(two.removesuffix("; "), n, "undecided")
    lead, p = judging.tested_lead(found, ahead)
    told = "; ".join(filter(None, (told, without)))
    return judging.above_zero(results, np.array([lead]), np.array([p]), found.replicates.shape[1], n, told)


# -- numbers of candidates ---------------------------------------------------------------------------------------------


def ahead_at_budgets(
    results: Results, cells: Sequence[Cell], better: Forms, worse: Forms, first: int = 2, last: float = np.inf
) -> Verdict:
    """Whether some forms are ahead of others at every M from ``first`` to ``last``."""
    found, names, pairs = judging.estimates(results, cells), ["dataset", "method", "variant", "setting"], []
    for cell in cells:
        for M in (M for M in results.study.scoring[cell.recipe].budgets if first <= M <= last):
            pairs += [
                [(cell.dataset, *form, ablation("M", M)) for form in pair] for pair in zip(better, worse, strict=True)
            ]
    if not pairs:
        raise NotAskedError(f"no budget is from M = {first} to {last:g}")
    a, b = (judging.at(found.where(metric="PRR"), pd.DataFrame(of, columns=names)) for of in zip(*pairs, strict=True))
    return judging.rise(results, a.minus(b), judging.questions(found))


def plateau(results: Results, cells: Sequence[Cell], near: int) -> Verdict:
    """From which M on Dissimilarity over beams is, and stays, at its end's height: the paired interval to the end is
    negligible. The value is that M.

    An M whose interval is shown to be off starts the search anew. A later start than claimed denies the claim only
    where the curve is shown to be off before. The start may be off by a declared share of the claimed M.
    """
    rules, parts, rises, texts, starts = results.rules.claims, list[Part](), [], [], []
    every, slack = judging.estimates(results, cells), rules.plateau_slack * near
    for cell in cells:
        sizes = sorted(results.study.scoring[cell.recipe].budgets)
        keys = {"dataset": cell.dataset, "metric": "PRR", "method": "Dissimilarity", "variant": BEAMSEARCH}
        curve = judging.at(every, pd.DataFrame([keys | {"setting": ablation("M", M)} for M in sizes]))
        end, before = curve.rows([len(sizes) - 1] * len(sizes)), list(range(len(sizes) - 1))
        rises.append(end.minus(curve).rows([0]))
        to_end = curve.minus(end).rows(before).summary(results.study.evaluation.confidence)
        there = dict(zip(sizes, judging.negligible(to_end, rules.plateau), strict=False))
        off = max((M for M, part in there.items() if part == "no"), default=0)
        start = next((M for M, part in there.items() if off < M and part == "yes"), None)
        earliest = next(M for M in sizes if off < M)
        missed = earliest > near + slack or (start is not None and start < near - slack)
        parts.append("no" if missed else "yes" if start and start <= near + slack else "undecided")
        starts.append(start or np.nan)
        claimed = to_end[[abs(M - near) <= slack for M in sizes[:-1]]]
        texts += [f"M = {start} on {cell.dataset}" if start else f"from M = {earliest} on, or later, on {cell.dataset}"]
        texts += judging.undecidable(claimed, rules.plateau, int(to_end["n"].iloc[0]))
    size, n = judging.together(parts), judging.questions(every)
    verdict = judging.rise(results, joined(rises), n, "; ".join(texts), size=size, opposite="no" in parts)
    return replace(verdict, value=float(np.mean(starts)), low=np.nan, high=np.nan)


# -- questions one by one ----------------------------------------------------------------------------------------------


def gain_on_short_answers(results: Results, cells: Sequence[Cell], below: int) -> Verdict:
    """Whether Dissimilarity gains on answers of fewer tokens than ``below``, and negligibly on the others."""
    judging.require(results, cells, *SCORES, *CANDIDATES)
    margin, gains, texts = results.rules.claims.negligible, dict[str, list[Estimates]](below=[], rest=[]), []
    forms = [("Dissimilarity", variant, "") for variant in (BEAMSEARCH, MULTINOMIAL)]
    for cell in cells:
        scored, found = results.inputs.scores(cell), judging.candidates(results, cell)
        short = pd.Series(found.lengths() < below, found.ids).loc[scored.ids].to_numpy()
        for where, members in (("below", short), ("rest", ~short)):
            judging.enough(int(members.sum()), f"of {cell.dataset}, {where} {below} tokens")
            pair = scored.prr(members, f"by length {where}", forms, **results.inputs.resampling)
            pair = judging.at(pair.assign(model=cell.model, dataset=cell.dataset), pair.frame[["variant"]])
            gains[where].append(pair.rows([0]).minus(pair.rows([1])))
            texts.append(f"{cell.dataset} {where} {gains[where][-1].frame['value'].iloc[0]:+.3f}, n = {members.sum()}")
    shorter, rest = (joined(gains[where]) for where in ("below", "rest"))
    summary = rest.summary(results.study.evaluation.confidence)
    for size, rows in summary.groupby(summary["n"].astype(str)):
        texts += judging.undecidable(rows, margin, int(str(size)))
    part, n = judging.together(judging.negligible(summary, margin)), sum(map(judging.questions, (shorter, rest)))
    return judging.rise(results, shorter, n, "; ".join(texts), size=part, opposite=part == "no")


@per_dataset
def curves_ahead(results: Results, cell: Cell, methods: Sequence[str]) -> Verdict:
    """Whether beam forms' rejection curves lie on or above the sampled ones' over nearly all of the range."""
    judging.require(results, [cell], *SCORES)
    scored, shares = results.inputs.scores(cell), []
    for method in methods:
        forms = (scored.scores(method, variant) for variant in (BEAMSEARCH, MULTINOMIAL))
        a, b = (prr_and_auc.rejection_curves(form, scored.quality).uncertainty[1:] for form in forms)
        shares.append(float(np.mean(a >= b)))
    told = "; ".join(f"{share:.0%} of the range for {m}" for m, share in zip(methods, shares, strict=True))
    sign = judging.share_as(min(shares), results.rules.claims.nearly_all)
    gains = judging.gains(judging.estimates(results, [cell]), [cell], methods)
    return judging.rise(results, gains, len(scored.ids), told, sign=sign)


# -- ablations ---------------------------------------------------------------------------------------------------------


def _columns(results: Results, cells: Sequence[Cell], table: str) -> list[Estimates]:
    """Of each cell and method the estimates of every setting that a table prints, under its printed setting."""
    rows = results.printed[results.printed["table"] == table].drop_duplicates(["method", "variant", "setting"])
    keys, found = stored_keys(results.study, rows), []
    for cell in cells:
        each = judging.at(judging.estimates(results, [cell]), keys).assign(setting=list(rows["setting"]))
        found += [each.where(method=method) for method in dict.fromkeys(rows["method"])]
    return found


def beams_ahead_of_others(results: Results, cells: Sequence[Cell], table: str, worse: tuple[str, ...]) -> Verdict:
    """Whether plain beams are above nearly all settings that begin with one of ``worse``."""
    gaps = []
    for column in _columns(results, cells, table):
        others = column.rows(column.frame["setting"].str.startswith(worse))
        gaps.append(column.at(pd.DataFrame({"setting": ["beam"] * len(others)})).minus(others))
    sign = judging.share_as(float(np.mean(joined(gaps).frame["value"] > TIE)), results.rules.claims.nearly_all)
    return judging.rise(results, joined(gaps), judging.questions(joined(gaps)), sign=sign)


def none_dominates(results: Results, cells: Sequence[Cell], table: str) -> Verdict:
    """Whether every setting is significantly behind another one in some column. The value is the share that is.

    One that is the best of all in every column denies it; anything else leaves it open.
    """
    columns, level = _columns(results, cells, table), results.rules.claims.level
    places = columns[0].frame[["setting"]]
    columns = [column.at(places) for column in columns]
    best = {int(column.frame["value"].to_numpy().argmax()) for column in columns}
    why, behind = judging.too_few_resamples(columns[0].replicates.shape[1], len(columns), 1, level), []
    for place in range(len(places)):
        p = [judging.selected_lead(column, np.arange(len(places)) != place)[1] for column in columns]
        behind.append(bool(holm(p, len(p)).min() < level))
    told = why or f"{sum(behind)} are significantly behind another in some column"
    told = f"{len(best)} of {len(places)} settings are best in some of {len(columns)} columns; {told}"
    sign: Part = "no" if len(best) == 1 else "yes" if not why and all(behind) else "undecided"
    return Verdict(told, judging.questions(joined(columns)), sign, value=float(np.mean(behind)))


def settings_robust(
    results: Results, cells: Sequence[Cell], table: str, strong: Sequence[str], worse: str, margin: float
) -> Verdict:
    """Whether all ``strong`` settings come within a margin of the best in nearly every column, and the last of them is
    above the best that begins with ``worse``."""
    columns, close, leads, default = _columns(results, cells, table), [], [], strong[-1]
    for column in columns:
        values = column.frame.set_index("setting")["value"]
        close += list(values[list(strong)] >= values.max() - margin)
        rivals = column.rows(column.frame["setting"].str.startswith(worse) | (column.frame["setting"] == default))
        leads.append(judging.tested_lead(rivals, (rivals.frame["setting"] == default).to_numpy()))
    (values, p), n = np.array(leads).T, judging.questions(joined(columns))
    size, told = (
        judging.share_as(float(np.mean(close)), results.rules.claims.nearly_all),
        f"{np.mean(close):.0%} within",
    )
    told = f"{told} {margin:g} of the best; {default} against {worse.rstrip('=')}"
    return judging.above_zero(results, values, p, columns[0].replicates.shape[1], n, told, size=size)


# -- several draws of samples beside the main beams --------------------------------------------------------------------


def _draws(results: Results, cell: Cell) -> tuple[list[str], Floats, Truths, Floats, Floats]:
    """Of N questions: groups; Dissimilarity of each sample [N, S], and whether it is outside the beams; of beams [N]
    Dissimilarity and mass."""
    judging.require(results, [cell], "similarity")
    found, main = judging.candidates(results, cell), results.study.main
    pairs = results.inputs.frame(cell.file("similarity")).set_index(["id", "premise", "hypothesis"])["entail"]

    def of(strategy: str) -> tuple[list[Any], Floats, Floats]:
        """Id and token sequence of each candidate; probability and dissimilarity, each [N, candidates]."""
        rows = found.of(strategy).set_index("id").loc[found.ids]
        keys = pd.MultiIndex.from_arrays([rows.index, found.greedy.loc[rows.index, "text"], rows["text"]])
        s = pairs.reindex(keys).to_numpy(np.float64).reshape(len(found.ids), -1)
        if np.isnan(s).any():
            raise NotAskedError(f"{cell.file('similarity').path} lacks pairs of answers and candidates")
        sequences = [(key, *tokens) for key, tokens in zip(rows.index, rows["token_ids"], strict=True)]
        return sequences, np.exp(rows["logprob"].to_numpy(np.float64)).reshape(s.shape), 1.0 - s

    (drawn, _, samples), (beams, p, dissimilarity) = of(main.sample), of(main.beam)
    known, mass = set(beams), p.sum(axis=1)
    outside = np.array([sequence not in known for sequence in drawn]).reshape(samples.shape)
    return found.groups, samples, outside, (dissimilarity * p).sum(axis=1) / mass, np.minimum(mass, 1.0)


@per_dataset
def smaller_error(results: Results, cell: Cell) -> Verdict:
    """The squared error of Dissimilarity of one draw of M samples minus that of beams, question by question.

    Beams are deterministic: that they do not vary says nothing of how far off they are. The Dissimilarity of the
    distribution itself is estimated by the mean of all draws, whose own error is taken off.
    """
    groups, samples, _, inside, _ = _draws(results, cell)
    M, z = results.study.main.num_candidates, results.rules.agreement.z
    scores = samples[:, : samples.shape[1] // M * M].reshape(len(groups), -1, M).mean(axis=2)
    variance = scores.var(axis=1, ddof=1)
    error = (inside - scores.mean(axis=1)) ** 2 - variance / scores.shape[1]
    gain, std = judging.mean_and_std(variance - error, groups)
    told = f"mean squared error: one of {scores.shape[1]} draws {variance.mean():.4f}, beams {error.mean():.4f}"
    sign, ends = judging.above(gain, std, z), (gain, gain - z * std, gain + z * std)
    return Verdict(told, len(groups), sign, "-", "-", False, *ends)


@per_dataset
def small_gap(results: Results, cell: Cell) -> Verdict:
    """Whether the gap |μ_B − μ_out| is so modest that beams need less mass than the printed condition asks for.

    Samples that are none of the beams are draws from outside them: their mean is μ_out, and from its squared distance
    to μ_B its own error is taken off. By the general condition (1 − m_B)|μ_B − μ_out| < σ/√M a question needs the mass
    1 − σ/(√M |μ_B − μ_out|). Sign: that is below the printed threshold at more than half of the questions (the value).
    Size: with the mass that the beams have, their mean squared error is below that of M samples. Either is undecided
    where its interval lies across. A question with under two samples outside tells nothing.
    """
    groups, samples, outside, inside, mass = _draws(results, cell)
    M, z, known = results.study.main.num_candidates, results.rules.agreement.z, outside.sum(axis=1) >= 2
    judging.enough(int(known.sum()), f"of {cell.dataset} with two samples that are none of the beams")
    groups, apart = groups_of(groups, known), np.where(outside, samples, np.nan)[known]
    gap = np.nanmean(apart, axis=1) - inside[known]
    squared = gap**2 - np.nanvar(apart, axis=1, ddof=1) / outside[known].sum(axis=1)
    of_samples, printed = samples[known].var(axis=1, ddof=1) / M, beam_mass_theorem.printed_threshold(M)
    below = ((1 - printed) ** 2 * squared <= of_samples + TIE).astype(np.float64)
    share, std = judging.mean_and_std(below, groups)
    gain, of_gain = judging.mean_and_std(of_samples - (1 - mass[known]) ** 2 * squared, groups)
    told = (
        f"dissimilarity outside minus inside {gap.mean():+.3f}; a mass below {printed:.3f} is enough at {share:.1%}; "
    )
    told += f"mean squared error of one draw minus that of beams {gain:+.4f} ± {of_gain:.4f}"
    sign, size = judging.above(share - 0.5, std, z), judging.above(gain, of_gain, z)
    return Verdict(told, len(below), sign, size, "-", False, share, share - z * std, share + z * std)


# -- ours --------------------------------------------------------------------------------------------------------------


def estimators(results: Results, cells: Sequence[Cell], comparisons: Sequence[Versus]) -> Verdict:
    """Estimators of Dissimilarity against others in PRR on every dataset, by one-sided bounds.

    Each is a weighting and its candidates: ``unnormalised beam M=5``, ``uniform sample T=1.0 M=10`` (its mean over all
    disjoint draws of so many that are scored). Yes: every lower bound of better − worse at the declared level is above
    −margin; since all have to be, no correction is needed. No: some upper bound, corrected by Bonferroni over all, is
    below it. Undecided: anything else. The bounds are of a paired bootstrap over questions; the value is the weakest.
    """
    cells, without = judging.answered(results, cells)
    level, found, rows = results.rules.claims.level, judging.estimates(results, cells).where(metric="PRR"), []
    for better, worse, margin in comparisons:
        for cell in cells:
            gap = _estimator(results, found, cell, better).minus(_estimator(results, found, cell, worse))
            drawn = gap.replicates[0][~np.isnan(gap.replicates[0])]
            told = len(drawn) >= (1 - MOST_UNDEFINED) * gap.replicates.shape[1]
            bounds = np.quantile(drawn, [level, 1 - level / (len(comparisons) * len(cells))]) if told else [np.nan] * 2
            rows.append((f"{better} minus {worse} on {cell.dataset}", margin, gap.frame["value"].iloc[0], *bounds))
    shown, denied = [low > -margin for _, margin, _, low, _ in rows], [high < -margin for _, margin, *_, high in rows]
    sign: Part = "yes" if all(shown) else "no" if any(denied) else "undecided"
    texts = [f"{sum(shown)} of {len(shown)} shown by one-sided {1 - level:.0%} bounds", *([without] if without else [])]
    texts += [f"{name} {value:+.3f}, at least {low:+.3f}" for name, _, value, low, _ in rows]
    weakest = min(rows, key=lambda row: row[3] + row[1])
    return Verdict("; ".join(texts), judging.questions(found), sign, "-", "-", any(denied), *weakest[2:])


def _estimator(results: Results, found: Estimates, cell: Cell, name: str) -> Estimates:
    """PRR of an estimator, the mean over the disjoint draws of samples where several are measured."""
    variant, _, setting = (scored_as(results.study, cell.recipe, name) or name).partition(" ")
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


def theorem(results: Results, cells: Sequence[Cell]) -> Verdict:  # noqa: ARG001  (as every claim's)
    """The theorem's distribution-free condition, by its stored counterexample; needs no run."""
    outcomes, M = beam_mass_theorem.COUNTEREXAMPLE, beam_mass_theorem.COUNTEREXAMPLE_M
    (beam, sampled), printed = beam_mass_theorem.squared_errors(outcomes, M), beam_mass_theorem.printed_threshold(M)
    told = (
        f"mass {outcomes.mass:.2f} against {printed:.3f}, squared error {beam:.4f} of beams, {sampled:.4f} of samples"
    )
    return Verdict(told, 0, "no" if outcomes.mass > printed and beam > sampled else "yes")


# -- every claim -------------------------------------------------------------------------------------------------------


def _main(study: Study) -> list[Cell]:
    return grid.recipe_cells(study, study.main.recipe)


def _scoring(methods: Sequence[str], study: Study) -> list[Cell]:
    return grid.with_methods(study, methods)


def _budgets(study: Study, methods: Sequence[str] = ("Dissimilarity",)) -> list[Cell]:
    return grid.with_budgets(study, methods)


def _table(name: str, study: Study) -> list[Cell]:
    """The cells that measure what a printed table shows."""
    places = ((model, dataset) for model in study.models for dataset in study.datasets)
    every = (table_cell(study, read_rules().tables[name], *place) for place in places)
    return [cell for cell in every if cell]


def _estimators(names: Sequence[str], study: Study) -> list[Cell]:
    """The cells in whose recipe all these estimators are scored, each in the first such recipe."""
    recipes = [e.recipe for e in study.grid if all(scored_as(study, e.recipe, name) for name in names)]
    every = [cell for recipe in dict.fromkeys(recipes) for cell in grid.recipe_cells(study, recipe)]
    return grid.in_order(study, list({(cell.model, cell.dataset): cell for cell in reversed(every)}.values()))


@dataclass(frozen=True)
class Decision:
    """What judges a claim, on which cells.

    ``models``, ``datasets``: those it is about, none for all of the paper's; ``reads``: kinds of files beside
    evaluations; ``sized``: print gives a size measured on its own models, which no other model can deny; ``kind``: what
    has to be measured as in the paper; ``questions``: the paper's, where not all of a dataset's.
    """

    judge: Judge
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    cells: Callable[[Study], list[Cell]] = _main
    reads: tuple[str, ...] = ()
    sized: bool = False
    kind: Kind = ANY_SCORE
    questions: int | None = None


def own_cells(study: Study, paper: Study, cells: Sequence[Cell], decision: Decision) -> dict[str, list[Cell]]:
    """Model → the cells of a study that stand for those of a claim, among the ones that have what it needs.

    The claim's models and datasets (none: all of the paper's), and every other that is not the paper's; where a study
    has none of these, all of its own.
    """

    def standing(own: Sequence[str], claimed: Sequence[str], printed: Sequence[str]) -> list[str]:
        return [name for name in own if name in (claimed or printed) or name not in printed] or list(own)

    chosen = standing(grid.datasets_of(study, cells), decision.datasets, list(paper.datasets))
    of_model = grid.by_model([cell for cell in cells if cell.dataset in chosen])
    return {model: of_model[model] for model in standing(list(of_model), decision.models, list(paper.models))}


LLAMA, GEMMA, QWEN = "llama-3.1-8b-base", "gemma-3-4b-base", "qwen-3-8b-base"
LLAMA_CHAT, GEMMA_CHAT, QWEN_CHAT = "llama-3.1-8b-instruct", "gemma-3-4b-instruct", "qwen-3-8b-instruct"
TRIVIA, COQA, ARC = "triviaqa", "coqa", "arc-challenge"
BASE, BOTH, POOL = (LLAMA, GEMMA, QWEN), (TRIVIA, COQA), (*CANDIDATES, "similarity")
SAMPLES, BEAMS = (tuple((method, variant) for method in GRAPH) for variant in (MULTINOMIAL, BEAMSEARCH))
ENTROPY = ("SemanticEntropy", MULTINOMIAL)
TEMPERED = tuple(f"multinomial T={T}" for T in (0.7, 0.9, 1.2, 1.5, 1.7))  # not T = 1
TEN_SAMPLES = "uniform sample T=1.0 M=10"

_gemma_trivia = partial(Decision, models=(GEMMA,), datasets=(TRIVIA,))
_of_candidates = partial(_gemma_trivia, reads=CANDIDATES, kind=Kind("candidates"))
_at_budgets = partial(_gemma_trivia, cells=_budgets)
_at_200 = partial(Decision, datasets=(TRIVIA,), cells=_budgets, questions=200)
_pooled = partial(Decision, models=(GEMMA,), datasets=BOTH, cells=grid.with_pools, reads=POOL, questions=500)


def _size(of: str, low: float, high: float, *lengths: float) -> Decision:
    more = {"lengths": lengths} if lengths else {}
    return _of_candidates(partial(printed_share, of=of, printed=(low, high), **more), sized=True)


def _varied(judge: Callable[..., Verdict], table: str, **options: Any) -> Decision:
    return Decision(partial(judge, table=table, **options), cells=partial(_table, table), questions=500)


def _ours(*comparisons: Versus, datasets: tuple[str, ...] = ()) -> Decision:
    names = [name for better, worse, _ in comparisons for name in (better, worse)]
    judge = partial(estimators, comparisons=comparisons)
    return Decision(judge, (GEMMA,), datasets, partial(_estimators, names))


DECISIONS: dict[str, Decision] = {
    "mass-condition": _size("condition", 0.227, 0.227),
    "mass-condition-short": _size("condition", 0.30, 0.40, 1, 3),
    "theorem": Decision(theorem),
    "redundancy-short": _size("repeat", 0.30, 0.50, 2, 4),
    "redundancy-long": _size("repeat", 0.165, 0.175, 8, np.inf),
    "redundancy-falls": _of_candidates(partial(more_repeats, short=(2, 4), long=(8, np.inf))),
    "covered-mass": _of_candidates(partial(covered_mass, first=3, share=0.5)),
    "consistently-improves": Decision(beams_rise),
    "best-or-second": Decision(partial(ranking, place="best two")),
    "state-of-the-art": Decision(partial(ranking, place="best")),
    "dissimilarity-best-on-base": Decision(partial(ranking, place="best", method="Dissimilarity"), BASE),
    "dissimilarity-second": Decision(partial(ranking, place="second", method="Dissimilarity"), (LLAMA_CHAT, QWEN_CHAT)),
    "cocoamsp-best": Decision(partial(ranking, place="best", method="CocoaMSP"), (LLAMA_CHAT, GEMMA_CHAT)),
    "cocoappl-second": Decision(partial(ranking, place="second", method="CocoaPPL"), (LLAMA, GEMMA, GEMMA_CHAT)),
    "every-budget": _gemma_trivia(
        partial(ahead_at_budgets, better=BEAMS, worse=SAMPLES), cells=partial(_budgets, methods=GRAPH)
    ),
    "single-candidate": _at_budgets(partial(ahead_at_budgets, better=SAMPLES[:1], worse=BEAMS[:1], first=1, last=1)),
    "saturation": _at_budgets(partial(plateau, near=4), sized=True),
    "every-budget-everywhere": _at_200(
        partial(ahead_at_budgets, better=BEAMS[:1], worse=SAMPLES[:1]), models=BASE, datasets=(TRIVIA, ARC)
    ),
    "plateau-open": _at_200(partial(plateau, near=5), models=BASE, sized=True),
    "plateau-choice": _at_200(partial(plateau, near=2), models=(GEMMA,), datasets=(ARC,), sized=True),
    "entropy-behind": _gemma_trivia(
        partial(ahead_at_budgets, better=(SAMPLES[0], BEAMS[0]), worse=(ENTROPY, ENTROPY)),
        cells=partial(_budgets, methods=("Dissimilarity", "SemanticEntropy")),
    ),
    "short-answers": Decision(
        partial(gain_on_short_answers, below=7), (GEMMA,), BOTH, partial(_scoring, GRAPH[:1]), (*SCORES, *CANDIDATES)
    ),
    "rejection-curves": Decision(
        partial(curves_ahead, methods=GRAPH), (LLAMA,), (TRIVIA,), partial(_scoring, GRAPH), SCORES
    ),
    "strategies-yield": _varied(beams_ahead_of_others, "tab:abl_sampling", worse=(*TEMPERED, "diverse")),
    "no-strategy-dominates": _varied(none_dominates, "tab:abl_sampling"),
    "no-best-floor": _varied(none_dominates, "tab:abl_normalization"),
    "threshold-robust": _varied(
        settings_robust, "tab:abl_ecc_params", strong=("alpha=0.7", "alpha=0.8", "alpha=0.9"), worse="K=", margin=0.03
    ),
    "entropy-gains": Decision(partial(beams_rise, methods=["SemanticEntropy"]), (GEMMA,)),
    "degree-matrix-unchanged": Decision(partial(beams_change_nothing, method="DegreeMatrix"), (GEMMA,)),
    "top-beam": Decision(partial(beams_rise, answer_source="top_beam", most=True)),
    "roc-auc": Decision(partial(beams_rise, metric="ROC-AUC", most=True), (GEMMA,), kind=Kind(metric="ROC-AUC")),
    "pr-auc": Decision(partial(beams_rise, metric="PR-AUC", most=True), (GEMMA,), kind=Kind(metric="PR-AUC")),
    "reduced-variance": _pooled(smaller_error),
    "small-gap": _pooled(small_gap),
    # ours, declared before any run
    "five-unnormalised-beams": _ours(
        ("unnormalised beam M=5", TEN_SAMPLES, 0.02), ("unnormalised beam M=5", "normalised beam M=5", 0.0)
    ),
    "less-noise-ranks-better": _ours(("stratified above", TEN_SAMPLES, 0.0)),
    "target-of-beams-ranks-worse": _ours(("stratified above", "normalised beam M=10", 0.0)),
    "never-worse-ranks-no-worse": _ours(("stratified neverworse M=10", TEN_SAMPLES, 0.02)),
    "beams-alike-rank-better": _ours(
        ("uniform beam M=10", "normalised beam M=10", 0.0),
        ("uniform beam M=10", TEN_SAMPLES, 0.0),
        datasets=("webquestions", "hotpotqa", "commonsenseqa", ARC),
    ),
}


def judge(results: Results) -> pd.DataFrame:
    """One row a claim and model, ``COLUMNS``: what a study's own cells say, whatever their settings."""
    rows = []
    for claim in read_claims():
        for model, (cells, why) in asked(results.study, results.rules, claim).items():
            row = claim.model_dump(include={"id", "where", "claim"})
            row |= {"model": model, "datasets": ", ".join(cell.dataset for cell in cells), "paper_settings": ""}
            try:
                rows.append(row | (_judged(results, claim, model, cells) if not why else {}))
                rows[-1] |= {"outcome": "not asked", "found": why} if why else {}
            except NotAskedError as error:
                outcome = "too few" if isinstance(error, TooFewError) else "not asked"
                rows.append(row | {"outcome": outcome, "found": str(error)})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"n": "Int64"})


def _judged(results: Results, claim: Claim, model: str, cells: Sequence[Cell]) -> dict[str, Any]:
    decision = DECISIONS[claim.id]
    verdict = decision.judge(results, cells)
    row = {name: getattr(verdict, name) for name in OF_VERDICT}
    if decision.sized and model not in decision.models:
        row["outcome"] = "another model"
    paper, differing = results.rules.paper, list[str]()
    for cell in cells:  # the first setting that is not the paper's, the number of questions among them
        entry = grid.entry(results.study, cell.recipe, cell.model, cell.dataset)
        n = (entry and entry.questions) or results.study.datasets[cell.dataset].questions
        size = decision.questions or (paper.datasets[cell.dataset].questions if cell.dataset in paper.datasets else n)
        differing += [decision.kind.first(results.differences(cell)), results.rules.too_few(n, cell.dataset, size)]
    return row | {"paper_settings": next(filter(None, differing), "yes") if cells else ""}


def asked(study: Study, rules: ComparisonRules, claim: Claim) -> dict[str, tuple[list[Cell], str]]:
    """Model → the cells that a claim is asked of; where it is asked of none, "" → why."""
    if study.demo or claim.missing:
        return {"": ([], "a demo" if study.demo else f"missing: {claim.missing}")}
    if claim.id == "theorem":
        return {"": ([], "")}
    try:
        found = own_cells(study, rules.paper, DECISIONS[claim.id].cells(study), DECISIONS[claim.id])
    except BeamUQError as error:
        return {"": ([], str(error))}
    return {model: (cells, "") for model, cells in found.items()} or {"": ([], NEEDS)}


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
            found += [cell.file(kind, metric) for cell in cells for kind in DECISIONS[claim.id].reads]
    return list(dict.fromkeys(found))

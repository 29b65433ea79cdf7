"""The functions that judge the claims of ``claims.yaml``, and what a study's own cells say to each
claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem
from beamuq.array_types import Bools, Floats
from beamuq.evaluation import prr_and_auc, significance
from beamuq.evaluation.candidate_sets import CandidateSets, groups_of, length_bins
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq.evaluation.intervals import mean_and_std
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq.strategy_names import ablation, kind_of, of_kind
from beamuq_study import grid
from beamuq_study.comparison import claims_of_map, comparison_inputs, judging
from beamuq_study.comparison.comparison_inputs import (
    Claim,
    ComparisonInputs,
    ComparisonRules,
    read_claims,
    read_rules,
)
from beamuq_study.comparison.judging import (
    Case,
    Judge,
    NotAskedError,
    Part,
    Verdict,
    at,
    per_dataset,
    share_as,
)
from beamuq_study.exhibits import estimators_of_u
from beamuq_study.exhibits.captions import BEAMSEARCH, CONSISTENCY, MULTINOMIAL
from beamuq_study.exhibits.estimates_table import beam_gains
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from beamuq_study.result_files import as_stored
from beamuq_study.study_config import Main, Study

OF_VERDICT = ("outcome", "value", "low", "high", "n")
COLUMNS = [
    "id",
    "where",
    "claim",
    "model",
    "datasets",
    *OF_VERDICT,
    "detectable",
    "found",
    "paper_settings",
]
NEEDS = (
    "needs a recipe of the grid with what it is about, under the main scorer, as "
    "studies/paper.yaml has one"
)
Lengths = Sequence[float]  # tokens of the greedy answer, its terminator counted: from, to
Forms = Sequence[tuple[str, str]]  # method, variant
Cells = Callable[..., list[Cell]]


def _quantity(name: str, sets: CandidateSets, main: Main) -> Floats | Bools:
    """[N] share of samples that "repeat" another; mass "gain" of beams over samples; who meets the
    "condition".
    """
    M = main.num_candidates
    if name == "repeat":
        return sets.redundancy(main.sample, M)
    mass = sets.mass(main.beam, M)
    return (
        mass > beam_mass_theorem.printed_threshold(M)
        if name == "condition"
        else mass - sets.mass(main.sample, M)
    )


def mean_of_questions(
    case: Case,
    of: str,
    lengths: Lengths = (1, np.inf),
    paper_range: Sequence[float] = (),
    above: Lengths = (),
) -> Verdict:
    """Whether the mean over answers of some ``lengths`` is in the ``paper_range``, or ``above``
    that of others.
    """
    sets = case.candidates()
    values, parts, tokens = _quantity(of, sets, case.results.study.main), [], sets.lengths()
    for low, high in filter(None, (lengths, above)):
        members = (tokens >= low) & (tokens <= high)
        judging.enough(int(members.sum()), f"with answers of {low} to {high:g} tokens")
        parts.append((values[members], groups_of(sets.groups, members)))
    if paper_range:
        return case.within_paper_range(*parts[0], paper_range, len(sets.ids))
    (a, std), (b, other) = (mean_and_std(*part) for part in parts)
    return case.clear(a - b, float(np.hypot(std, other)), sum(len(part) for part, _ in parts))


def covered_mass(case: Case, first: int, share: float) -> Verdict:
    """Whether beams cover more probability than samples at every length, and the first hold more
    than a share of it.
    """
    sets, main = case.candidates(), case.results.study.main
    gain = _quantity("gain", sets, main)
    more = float(np.mean([gain[of.members].mean() > 0 for of in length_bins(sets.lengths(), 7)]))
    rows = sets.rows(main.beam, main.num_candidates)
    p = np.exp(rows["logprob"])
    leading = p[rows["rank"] < first].sum() / p.sum()
    case.notes.append(
        f"more in {more:.0%} of the length bins; the first {first} hold {leading:.0%} of the "
        "beams' mass"
    )
    verdict = case.clear(*mean_and_std(gain, sets.groups), len(gain))
    size, clearly = (share_as(float(of)) for of in (leading > share, verdict.sign == "yes"))
    return replace(
        verdict, sign=share_as(more), size=size, significance=clearly, opposite=verdict.sign == "no"
    )


def beams_rise(
    case: Case,
    methods: Sequence[str] = CONSISTENCY,
    most: bool = False,
    match: bool = False,
    **of: str,
) -> Verdict:
    """Whether beams raise the means over datasets of all methods, or of ``most``, by
    :meth:`Case.gains` ``of``.

    ``match``: or lower them by less than what is negligible.
    """
    each = case.answered(of.get("answer_source", "greedy")).gains(methods, **of)
    margin = case.tolerances["negligible"] if match else 0.0
    return case.rise(
        each.mean_over_datasets(), judging.questions(each), margin, most=0.5 if most else 1.0
    )


def beams_change_nothing(case: Case, method: str) -> Verdict:
    each = case.answered().gains([method])
    parts, summary = case.negligible(each.mean_over_datasets())
    return Verdict(
        judging.questions(each), parts[0], **summary[["value", "low", "high", "std"]].iloc[0]
    )


def ranking(case: Case, place: str, method: str = "") -> Verdict:
    """Where the beam form of a method, or of any, stands among all of the main table by mean PRR in
    every cell.

    That it is "best" is tested; no test says how far another rank is one by chance, which leaves it
    undecided.
    """
    case = case.answered()
    numbers = case.results.paper_numbers
    methods = set(numbers["method"][numbers["table"] == "tab:qa_mean_prr"])
    listed = case.estimates(metric="PRR", setting="", method=methods)
    everywhere = listed.frame.groupby(["method", "variant"])["dataset"].transform("size") == len(
        case.cells
    )
    means = listed.rows(everywhere).mean_over_datasets()
    means = at(means, means.frame[["method", "variant"]])
    of_method = means.frame["method"] == method if method else True
    ahead = ((means.frame["variant"] == BEAMSEARCH) & of_method).to_numpy()
    if not ahead.any() or ahead.all():
        raise NotAskedError(f"no beam form of {method or 'any method'} beside other methods")
    ranks = means.frame["value"].rank(ascending=False, method="min")[ahead].sort_values()
    case.notes.append(f"rank {', '.join(f'{rank:.0f}' for rank in ranks)} of {len(means)}")
    if place != "best":
        return Verdict(judging.questions(means), "undecided")
    lead, p = significance.tested_lead(means, ahead)
    return case.above_zero(
        np.array([lead]), np.array([p]), means.replicates.shape[1], judging.questions(means)
    )


def ahead_at_budgets(
    case: Case, better: Forms, worse: Forms, first: int = 2, last: float = np.inf
) -> Verdict:
    scoring = case.results.study.scoring
    budgets = [
        (cell.dataset, M)
        for cell in case.cells
        for M in scoring[cell.recipe].budgets
        if first <= M <= last
    ]
    if not budgets:
        raise NotAskedError(f"no budget is from M = {first} to {last:g}")
    names = ["dataset", "method", "variant", "setting"]
    methods = {method for method, _ in (*better, *worse)}
    prr = case.estimates(metric="PRR", method=methods)
    places = [
        [(d, *form, ablation("M", M)) for d, M in budgets for form in forms]
        for forms in (better, worse)
    ]
    ahead, behind = (at(prr, pd.DataFrame(of, columns=names)) for of in places)
    return case.rise(ahead.minus(behind), judging.questions(prr))


def plateau(case: Case, near: int) -> Verdict:
    """From which M on Dissimilarity over beams is, and stays, at its end's height; the value is
    that M.

    It may miss the claimed M by a declared share of it. What has to be significant is the rise from
    the smallest M to the end.
    """
    every = case.estimates(metric="PRR", method="Dissimilarity", variant=BEAMSEARCH)
    study = case.results.study
    slack = case.tolerances["plateau_slack"] * near
    parts, rises, starts = list[Part](), list[Estimates](), list[float]()
    for cell in case.cells:
        sizes = sorted(study.scoring[cell.recipe].budgets)
        keys = {
            "dataset": cell.dataset,
            "metric": "PRR",
            "method": "Dissimilarity",
            "variant": BEAMSEARCH,
        }
        curve = at(every, pd.DataFrame([keys | {"setting": ablation("M", M)} for M in sizes]))
        start, earliest = significance.plateau(
            curve, sizes, case.tolerances["plateau"], study.evaluation.confidence
        )
        missed = earliest > near + slack or start < near - slack
        parts.append("no" if missed else "yes" if start <= near + slack else "undecided")
        rises.append(curve.rows([-1]).minus(curve.rows([0])))
        starts.append(start)
        case.notes.append(
            f"M = {start if start == start else f'{earliest} or later'} on {cell.dataset}"
        )
    verdict = case.rise(
        joined(rises),
        judging.questions(every),
        size=judging.together(parts),
        opposite="no" in parts,
    )
    return replace(verdict, value=float(np.mean(starts)), low=np.nan, high=np.nan, std=np.nan)


def gain_on_short_answers(case: Case, below: int) -> Verdict:
    """Whether Dissimilarity gains on answers of fewer tokens than ``below``, and negligibly on the
    others.
    """
    case.require(*SCORES, *CANDIDATES)
    shorter, rest = (
        joined([_gain_within(case, cell, below, of) for cell in case.cells])
        for of in ("below", "rest")
    )
    size = judging.together(case.negligible(rest)[0])
    return case.rise(
        shorter,
        judging.questions(shorter) + judging.questions(rest),
        size=size,
        opposite=size == "no",
    )


def _gain_within(case: Case, cell: Cell, below: int, where: str) -> Estimates:
    """What Dissimilarity gains on the answers of a cell ``below`` so many tokens, or on the
    "rest".
    """
    scored, sets = case.results.inputs.scores(cell), case.of(cell).candidates()
    members = (
        pd.Series((sets.lengths() < below) == (where == "below"), sets.ids)
        .loc[scored.ids]
        .to_numpy()
    )
    judging.enough(int(members.sum()), f"of {cell.dataset}, {where} {below} tokens")
    forms = [("Dissimilarity", variant, "") for variant in (BEAMSEARCH, MULTINOMIAL)]
    prr = scored.prr(members, f"by length {where}", forms, **case.results.inputs.resampling).assign(
        **cell.place
    )
    return beam_gains(at(prr, prr.frame[["variant"]]))


def curves_ahead(case: Case, methods: Sequence[str]) -> Verdict:
    """Whether beam forms' rejection curves lie on or above the sampled ones' over nearly all of the
    range.
    """
    case.require(*SCORES)
    scored, shares = case.results.inputs.scores(case.cells[0]), []
    for method in methods:
        forms = (scored.scores(method, variant) for variant in (BEAMSEARCH, MULTINOMIAL))
        a, b = (prr_and_auc.rejection_curves(form, scored.quality)["quality"][1:] for form in forms)
        shares.append(float(np.mean(a >= b - TIE)))
    case.notes.append(f"ahead over {min(shares):.0%} of the range at least")
    return case.rise(
        case.gains(methods),
        len(scored.ids),
        sign=share_as(min(shares), case.tolerances["nearly_all"]),
    )


def _columns(case: Case, table: str) -> list[Estimates]:
    """Of each cell and method the estimates of every setting that a table of the paper has, under
    its name there.
    """
    numbers = case.results.paper_numbers
    rows = numbers[numbers["table"] == table].drop_duplicates(["method", "variant", "setting"])
    keys, columns = as_stored(case.results.study, rows)[comparison_inputs.STORED], []
    for cell in case.cells:
        read = {name: set(keys[name]) for name in comparison_inputs.STORED}
        each = at(case.of(cell).estimates(**read), keys).assign(setting=list(rows["setting"]))
        columns += [each.where(method=method) for method in dict.fromkeys(rows["method"])]
    return columns


def beams_ahead_of_others(case: Case, table: str, worse: Sequence[str]) -> Verdict:
    """Whether plain beams are above nearly all settings that begin with one of ``worse``."""
    gaps = []
    for column in _columns(case, table):
        others = column.rows(column.frame["setting"].str.startswith(tuple(worse)))
        gaps.append(column.at(pd.DataFrame({"setting": ["beam"] * len(others)})).minus(others))
    every = joined(gaps)
    share = float(np.mean(every.frame["value"] > TIE))
    return case.rise(
        every, judging.questions(every), sign=share_as(share, case.tolerances["nearly_all"])
    )


def none_dominates(case: Case, table: str) -> Verdict:
    """Whether every setting is significantly behind another one in some column. The value is the
    share that is.

    One that is the best of all in every column denies it; anything else leaves it open.
    """
    columns = _columns(case, table)
    columns = [column.at(columns[0].frame[["setting"]]) for column in columns]
    best = np.array(
        [(values := column.frame["value"].to_numpy()) >= values.max() - TIE for column in columns]
    )
    few = case.too_few_resamples(columns[0].replicates.shape[1], len(columns), 1)
    behind = significance.behind_in_some(columns, case.tolerances["level"])
    case.notes.append(
        f"{best.any(0).sum()} of {len(behind)} are best in a column, {behind.sum()} significantly "
        "behind"
    )
    sign: Part = (
        "no" if best.all(axis=0).any() else "yes" if not few and behind.all() else "undecided"
    )
    return Verdict(judging.questions(joined(columns)), sign, value=float(behind.mean()))


def settings_robust(
    case: Case, table: str, strong: Sequence[str], worse: str, margin: float
) -> Verdict:
    """Whether all ``strong`` are within a margin of the best in nearly every column, the last above
    all ``worse``.
    """
    columns, close, leads = _columns(case, table), [], []
    for column in columns:
        setting, values = column.frame["setting"], column.frame.set_index("setting")["value"]
        close += list(values[list(strong)] >= values.max() - margin)
        rivals = column.rows(setting.str.startswith(worse) | (setting == strong[-1]))
        leads.append(
            significance.tested_lead(rivals, (rivals.frame["setting"] == strong[-1]).to_numpy())
        )
    case.notes.append(f"{np.mean(close):.0%} within {margin:g} of the best")
    size, (values, p) = (
        share_as(float(np.mean(close)), case.tolerances["nearly_all"]),
        np.array(leads).T,
    )
    return case.above_zero(
        values, p, columns[0].replicates.shape[1], judging.questions(joined(columns)), size=size
    )


def _draws(case: Case) -> tuple[list[str], Floats, Bools, Floats, Floats]:
    """Of N questions: groups; Dissimilarity of each sample [N, S], and whether it is outside the
    beams; of beams [N] Dissimilarity and mass."""
    case.require("similarity")
    sets, main, similarity = (
        case.candidates(),
        case.results.study.main,
        case.cells[0].file("similarity"),
    )
    pairs = case.results.inputs.frame(similarity).set_index(["id", "premise", "hypothesis"])[
        "entail"
    ]

    def of(strategy: str) -> tuple[list[Any], Floats, Floats]:
        """Id and token sequence of each candidate; probability and dissimilarity, each [N,
        candidates].
        """
        rows = sets.rows(strategy).set_index("id").loc[sets.ids]
        keys = pd.MultiIndex.from_arrays(
            [rows.index, sets.greedy.loc[rows.index, "text"], rows["text"]]
        )
        found = pairs.reindex(keys).to_numpy(np.float64)
        if np.isnan(found).any() or rows.index.value_counts().nunique() > 1:
            raise NotAskedError(
                f"{similarity.path} lacks pairs, or questions differ in their number of candidates"
            )
        s = found.reshape(len(sets.ids), -1)
        sequences = [
            (key, *tokens) for key, tokens in zip(rows.index, rows["token_ids"], strict=True)
        ]
        return sequences, np.exp(rows["logprob"].to_numpy(np.float64)).reshape(s.shape), 1.0 - s

    (drawn, _, samples), (beams, p, dissimilarity) = of(main.sample), of(main.beam)
    beam_texts, mass = set(beams), p.sum(axis=1)
    outside = np.array([sequence not in beam_texts for sequence in drawn]).reshape(samples.shape)
    return (
        sets.groups,
        samples,
        outside,
        (dissimilarity * p).sum(axis=1) / mass,
        np.minimum(mass, 1.0),
    )


def _errors(case: Case) -> tuple[list[str], Floats, Floats, Floats]:
    """Of N questions: groups; variance of Dissimilarity over draws of M samples; bias and squared
    error of beams.

    The distribution's own Dissimilarity is estimated by the mean of all draws, whose own error is
    taken off the square.
    """
    (groups, samples, _, inside, _), M = _draws(case), case.results.study.main.num_candidates
    scores = samples[:, : samples.shape[1] // M * M].reshape(len(groups), -1, M).mean(axis=2)
    variance, bias = scores.var(axis=1, ddof=1), inside - scores.mean(axis=1)
    return groups, variance, bias, bias**2 - variance / scores.shape[1]


def no_variance(case: Case) -> Verdict:
    """Whether the estimate varies over draws of samples: beams are searched and not drawn, so
    theirs cannot.
    """
    groups, variance, *_ = _errors(case)
    return case.clear(*mean_and_std(variance, groups), len(groups))


def small_bias(case: Case, most: float) -> Verdict:
    """Whether the interval of the beams' mean bias lies within ± ``most``; no: outside."""
    groups, _, bias, _ = _errors(case)
    found = case.clear(*mean_and_std(bias, groups), len(groups))
    return replace(found, sign="-", size=significance.within(pd.DataFrame([vars(found)]), most)[0])


def smaller_error(case: Case) -> Verdict:
    """The squared error of Dissimilarity of one draw of M samples minus that of beams, by
    question.
    """
    groups, variance, _, error = _errors(case)
    case.notes.append(
        f"mean squared error of one draw {variance.mean():.4f}, of beams {error.mean():.4f}"
    )
    return case.clear(*mean_and_std(variance - error, groups), len(groups))


def small_gap(case: Case) -> Verdict:
    """Whether the gap |μ_B − μ_out| is so modest that beams need less mass than the printed
    condition asks for.

    Samples that are none of the beams are draws from outside them: their mean is μ_out, whose own
    error is taken off the squared gap. By the condition (1 − m_B)|μ_B − μ_out| < σ/√M a question
    needs the mass 1 − σ/(√M |μ_B − μ_out|). Sign: that is below the printed threshold at more than
    half of the questions (the value). Size: with the beams' own mass their mean squared error is
    below that of M samples. Under two samples outside tell nothing of a question.
    """
    (every, samples, outside, inside, mass), M = (
        _draws(case),
        case.results.study.main.num_candidates,
    )
    count = outside.sum(axis=1)
    of = count >= 2
    judging.enough(
        int(of.sum()), f"of {case.cells[0].dataset} with two samples that are none of the beams"
    )
    groups, apart = groups_of(every, of), np.where(outside, samples, np.nan)[of]
    gap = np.nanmean(apart, axis=1) - inside[of]
    squared = gap**2 - np.nanvar(apart, axis=1, ddof=1) / count[of]
    of_samples = samples[of].var(axis=1, ddof=1) / M
    missing = 1 - beam_mass_theorem.printed_threshold(M)
    share, std = mean_and_std(missing**2 * squared <= of_samples + TIE, groups)
    gain, n = mean_and_std(of_samples - (1 - mass[of]) ** 2 * squared, groups), len(groups)
    case.notes.append(
        f"dissimilarity outside minus inside {gap.mean():+.3f}; one draw's error minus "
        f"{gain[0]:+.4f}"
    )
    sign, size = case.clear(share - 0.5, std, n).sign, case.clear(*gain, n).sign
    return replace(case.clear(share, std, n), sign=sign, size=size)


def estimators(case: Case, comparisons: Sequence[tuple[str, str, float]]) -> Verdict:
    """Estimators of Dissimilarity against others in PRR on every dataset, by one-sided bounds.

    Each is a weighting and its candidates; of samples the mean over all disjoint draws that are
    scored. Yes: every lower bound of better − worse at the declared level is above −margin; since
    all have to be, no correction is needed. No: some upper bound, corrected by Bonferroni over all,
    is below it. The value is the weakest.
    """
    case, level = case.answered(), case.tolerances["level"]
    prr = case.estimates(metric="PRR", method="Dissimilarity")
    pairs = [
        [_estimator(case, prr, cell, name) for name in pair]
        for *pair, _ in comparisons
        for cell in case.cells
    ]
    gaps = joined([better.minus(worse) for better, worse in pairs])
    margin = np.repeat([margin for *_, margin in comparisons], len(case.cells))
    low, high = significance.one_sided_bounds(gaps, level)
    case.notes.append(
        f"{(low > -margin).sum()} of {len(gaps)} shown by one-sided {1 - level:.0%} bounds"
    )
    denied, weakest = bool((high < -margin).any()), int((low + margin).argmin())
    sign: Part = "yes" if (low > -margin).all() else "no" if denied else "undecided"
    value, std = (
        gaps.frame["value"].iloc[weakest],
        float(np.nanstd(gaps.replicates[weakest], ddof=1)),
    )
    return Verdict(
        judging.questions(prr), sign, "-", "-", denied, value, low[weakest], high[weakest], std
    )


def _estimator(case: Case, prr: Estimates, cell: Cell, name: str) -> Estimates:
    """PRR of an estimator, the mean over the disjoint draws of samples where several are
    measured.
    """
    variant, _, setting = (scored_as(case.results.study, cell.recipe, name) or name).partition(" ")
    of = prr.where(dataset=cell.dataset, variant=variant)
    draws = of.frame["setting"][of.frame["setting"].str.startswith(f"{setting} draw=")]
    names = list(draws) if kind_of(setting) == "sample" and len(draws) else [setting]
    return at(of, pd.DataFrame({"setting": names})).mean_over_draws(setting)


def scored_as(study: Study, recipe: str, name: str) -> str | None:
    """``name`` with the strategy whose scores it is of, where the recipe's scoring has it, else
    None.
    """
    weighting, _, kind = name.partition(" ")
    if kind == "all_above":
        names = (
            of_kind(study.recipes[recipe].strategies(), kind)
            if name in study.scoring[recipe].estimators
            else []
        )
        return next((f"{weighting} {one}" for one in names if lacks(weighting, one) is None), None)
    every = estimators_of_u.estimators(study, recipe, range(1, 10**6))
    return name if name in {f"{of.weighting} {of.setting}" for of in every} else None


def theorem(case: Case) -> Verdict:
    """The theorem's distribution-free condition, by its stored counterexample; needs no run."""
    outcomes, M = beam_mass_theorem.COUNTEREXAMPLE, beam_mass_theorem.COUNTEREXAMPLE_M
    beam, sampled = beam_mass_theorem.squared_errors(outcomes, M)
    case.notes.append(
        f"mass {outcomes.mass:.2f}, squared error {beam:.4f} of beams, {sampled:.4f} of samples"
    )
    return Verdict(
        0,
        "no"
        if outcomes.mass > beam_mass_theorem.printed_threshold(M) and beam > sampled
        else "yes",
    )


def _main(study: Study, **_: Any) -> list[Cell]:
    return grid.recipe_cells(study, study.main.recipe)


def _with_methods(
    study: Study, methods: Sequence[str] = ("Dissimilarity",), **_: Any
) -> list[Cell]:
    return grid.with_methods(study, methods)


def _budgets(
    study: Study, better: Forms = (("Dissimilarity", ""),), worse: Forms = (), **_: Any
) -> list[Cell]:
    return grid.with_budgets(study, list(dict.fromkeys(form[0] for form in (*better, *worse))))


def _table(study: Study, table: str, **_: Any) -> list[Cell]:
    places = (
        (read_rules().tables[table], model, dataset)
        for model in study.models
        for dataset in study.datasets
    )
    return [cell for place in places if (cell := comparison_inputs.table_cell(study, *place))]


def _estimators(
    study: Study, comparisons: Sequence[tuple[str, str, float]], **_: Any
) -> list[Cell]:
    """The cells in whose recipe all the estimators are scored, each in the first such recipe."""
    names = {name for better, worse, _ in comparisons for name in (better, worse)}
    return grid.select(
        study, has=lambda recipe: all(scored_as(study, recipe, name) for name in names), take="each"
    )


def _pools(study: Study, **_: Any) -> list[Cell]:
    main = [study.main.sample, study.main.beam]
    return grid.select(
        study, strategies=main, has=lambda recipe: grid.draws(study, recipe) > 1, take="each"
    )


OF_DRAWS: tuple[Judge, ...] = (no_variance, small_bias, smaller_error, small_gap)
# Name → the judge, the cells that have what it needs, and what it reads beside evaluations.
JUDGES: dict[str, tuple[Judge, Cells, tuple[str, ...]]] = {
    judge.__name__: (judge, cells, reads)
    for cells, reads, judges in (
        (_main, (), (beams_rise, beams_change_nothing, ranking, theorem)),
        (_main, CANDIDATES, (per_dataset(mean_of_questions), per_dataset(covered_mass))),
        (_budgets, (), (ahead_at_budgets, plateau)),
        (_with_methods, (*SCORES, *CANDIDATES), (gain_on_short_answers,)),
        (_with_methods, SCORES, (per_dataset(curves_ahead),)),
        (_table, (), (beams_ahead_of_others, none_dominates, settings_robust)),
        (_pools, (*CANDIDATES, "similarity"), tuple(per_dataset(of) for of in OF_DRAWS)),
        (_estimators, (), (estimators,)),
        (claims_of_map.mapped, claims_of_map.MAP, claims_of_map.OF_MAPS),
        (claims_of_map.tempered, claims_of_map.MAP, (claims_of_map.tempered_as_sharpened,)),
    )
    for judge in judges
}


def judge(results: ComparisonInputs) -> pd.DataFrame:
    """One row a claim and model, ``COLUMNS``: what a study's own cells say, whatever their
    settings.
    """
    rows = []
    for claim in read_claims():
        for model, (cells, why) in asked(results.study, results.rules, claim).items():
            datasets = ", ".join(cell.dataset for cell in cells)
            row = {
                "model": model,
                "datasets": datasets,
                "outcome": "not asked",
                "found": why,
                "paper_settings": "",
            }
            try:
                row |= {} if why else _judged(results, claim, model, cells)
            except NotAskedError as error:
                row |= {"outcome": error.outcome, "found": str(error)}
            rows.append(vars(claim) | row)
    return pd.DataFrame(rows, columns=COLUMNS).astype({"n": "Int64"})


def _judged(
    results: ComparisonInputs, claim: Claim, model: str, cells: Sequence[Cell]
) -> dict[str, Any]:
    (judge, _, reads), case, paper = (
        JUDGES[claim.judge],
        Case(results, cells),
        results.rules.paper.datasets,
    )
    verdict = judge(case, **claim.settings)
    row = {name: getattr(verdict, name) for name in OF_VERDICT} | {"found": "; ".join(case.notes)}
    if verdict.outcome == "undecided":
        row["detectable"] = case.detectable(verdict.std)
    if claim.sized and model not in claim.models:
        row["outcome"] = "another model"
    metric = claim.settings.get("metric", "PRR")
    kinds = {"candidates"} if reads == CANDIDATES else {"scores", "any method", metric}
    differing = list[str]()
    for (
        cell
    ) in cells:  # the first setting that is not the paper's, the number of questions among them
        n = grid.questions_asked(results.study, cell)
        size = claim.questions or (paper[cell.dataset].questions if cell.dataset in paper else n)
        differing.append(comparison_inputs.first(results.differences(cell), kinds, results.rules))
        differing.append(results.rules.too_few(n, cell.dataset, size))
    return row | {"paper_settings": next(filter(None, differing), "yes") if cells else ""}


def asked(study: Study, rules: ComparisonRules, claim: Claim) -> dict[str, tuple[list[Cell], str]]:
    """Model → the cells that a claim is asked of, among those that have what it needs; where of
    none, "" → why.

    They are of the claim's models and datasets and of all that are not the paper's; without these,
    all of the study's.
    """

    def standing(
        own: Sequence[str], claimed: Sequence[str], of_paper: Collection[str]
    ) -> list[str]:
        return [
            name for name in own if name in (claimed or of_paper) or name not in of_paper
        ] or list(own)

    if study.demo or claim.missing:
        return {"": ([], "a demo" if study.demo else f"missing: {claim.missing}")}
    if claim.judge == "theorem":
        return {"": ([], "")}
    cells = JUDGES[claim.judge][1](study, **claim.settings)
    chosen = standing(grid.datasets_of(study, cells), claim.datasets, rules.paper.datasets)
    of_model = grid.by_model([cell for cell in cells if cell.dataset in chosen])
    models = standing(list(of_model), claim.models, rules.paper.models)
    return {model: (of_model[model], "") for model in models} or {"": ([], NEEDS)}


def needed_files(study: Study) -> list[Artifact]:
    """Every file that the comparison reads, once; only what the study's grid has."""
    read, rules = list[tuple[Cell, tuple[str, ...]]](), read_rules()
    for entry in study.grid:  # quality and questions of the main recipe are for accuracies
        kinds = (
            *EVALUATION,
            *(("quality", "questions") if entry.recipe == study.main.recipe else ()),
        )
        places = product(entry.models, entry.datasets, [entry.recipe], entry.scorers)
        read += [(Cell(*place), kinds) for place in places]
    for claim in read_claims():
        for cells, _ in asked(study, rules, claim).values():
            read += [(cell, JUDGES[claim.judge][2]) for cell in cells]
    return list(
        dict.fromkeys(
            cell.file(kind, study.main_quality.metric) for cell, kinds in read for kind in kinds
        )
    )

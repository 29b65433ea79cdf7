"""Print against itself: the errata of the paper, regenerated from its numbers and from stored counterexamples.

No model is needed. Each check gives an erratum's id, what it touches, the rows and the facts that show it, or nothing
where print is right; ``workflow/paper_numbers/errata.yaml`` is the ledger that people read.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem
from beamuq.comparison.declared_files import FOLDER, KEYS, StatedInPrint
from beamuq.evaluation.estimates import MEAN
from beamuq.methods.dissimilarity_cocoa import cocoa
from beamuq.methods.semantic_entropy_sar import semantic_entropy, semantic_entropy_printed


class RowKey(NamedTuple):
    """The columns that name a printed number."""

    table: str
    model: str
    dataset: str
    metric: str
    method: str
    variant: str
    setting: str


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number; ``std`` is what stands behind its ±."""

    key: RowKey
    value: float
    std: float | None


Rows = Mapping[RowKey, PrintedNumber]
MAIN, GEMMA, GEMMA_CHAT = "tab:qa_mean_prr", "tab:qa_gemma4b", "tab:qa_gemma4bit"
CONSISTENCY = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL")
ROUNDING = 0.001  # a mean of rounded numbers, rounded again, lies within this of the rounded mean
CLEAR = 2.0  # a fall is clear beyond this many of its unpaired standard deviations
HALF_WIDTH = 1.96  # a 95 % interval reaches this many standard deviations to either side
BEAM_SETS, SEED = 20_000, 1


@dataclass(frozen=True)
class Regenerated:
    """What a check found; ``facts`` with floats rounded to four digits."""

    id: str
    touches: str
    rows: frozenset[RowKey]
    facts: Mapping[str, Any]


def read_arrows() -> set[RowKey]:
    """The cells that carry an arrow in print: ``printed_gain_arrows.csv``."""
    metrics = {"tab:abl_rocauc": "ROC-AUC", "tab:abl_prauc": "PR-AUC"}
    with (FOLDER / "printed_gain_arrows.csv").open(encoding="utf-8", newline="") as file:
        return {
            RowKey(r["table"], r["model"], r["dataset"], metrics.get(r["table"], "PRR"), r["method"], "beamsearch", "")
            for r in csv.DictReader(file)
        }


def regenerate(printed: pd.DataFrame, arrows: set[RowKey], stated: StatedInPrint) -> dict[str, Regenerated]:
    """Every erratum by id, in the ledger's order; ``printed`` as ``declared_files.read_printed`` gives it."""
    columns = keys_of(printed), printed["printed"], printed["printed_std"]
    numbers = (PrintedNumber(*row) for row in zip(*columns, strict=True))
    rows = {row.key: row if row.std == row.std else PrintedNumber(row.key, row.value, None) for row in numbers}
    found = [*_condition(stated), *_other_methods(rows, stated), *_means(rows), *_spreads(rows)]
    found += [*_arrows(rows, arrows), *_mean_columns(rows, stated), *_gains(rows), *_runs(rows)]
    found += [*_eigenvalues(stated), *_entropy(), *_perplexity(), *_beam_texts(stated)]
    return {item.id: item for item in found}


def keys_of(printed: pd.DataFrame) -> list[RowKey]:
    """The key of each printed number."""
    return [RowKey(*row) for row in printed[KEYS].itertuples(index=False)]


def _found(name: str, touches: str, rows: Iterable[RowKey], /, **facts: Any) -> Regenerated:
    plain = {key: fact.item() if isinstance(fact, np.generic) else fact for key, fact in facts.items()}
    rounded = {key: round(fact, 4) if isinstance(fact, float) else fact for key, fact in plain.items()}
    return Regenerated(name, touches, frozenset(rows), rounded)


def _of(rows: Rows, table: str) -> list[PrintedNumber]:
    return [row for key, row in rows.items() if key.table == table]


def _condition(stated: StatedInPrint) -> Iterator[Regenerated]:
    """The printed sufficient condition holds at the counterexample, and yet the beam errs more."""
    beam_set, M = beam_mass_theorem.COUNTEREXAMPLE, beam_mass_theorem.COUNTEREXAMPLE_M
    beam, monte_carlo = beam_mass_theorem.squared_errors(beam_set, M)
    drawn, directed = (failures(draw(BEAM_SETS, SEED), M) for draw in (drawn_beam_sets, directed_beam_sets))
    if beam_set.mass > beam_mass_theorem.printed_threshold(M) and beam > monte_carlo:
        yield _found(
            "distribution-free-condition",
            "theorem",
            (),
            stated=stated.condition,
            M=M,
            mass=beam_set.mass,
            printed_threshold=beam_mass_theorem.printed_threshold(M),
            corrected_threshold=beam_mass_theorem.corrected_threshold(M),
            squared_error_of_beams=beam,
            squared_error_of_samples=monte_carlo,
            drawn=BEAM_SETS,
            drawn_meet_printed=drawn["printed"][0],
            drawn_meet_printed_and_lose=drawn["printed"][1],
            drawn_meet_corrected_and_lose=drawn["corrected"][1],
            directed=BEAM_SETS,
            directed_meet_printed=directed["printed"][0],
            directed_meet_printed_and_lose=directed["printed"][1],
            directed_meet_corrected=directed["corrected"][0],
            directed_meet_corrected_and_lose=directed["corrected"][1],
        )


def drawn_beam_sets(count: int, seed: int, M: int = 10) -> Iterator[beam_mass_theorem.Outcomes]:
    """M + 1 to 5M − 1 outcomes of a symmetric Dirichlet distribution; B: the M most probable, as in the theorem.

    Dissimilarities are uniform, or 0 or 1, whatever the probability of their outcome.
    """
    random = np.random.Generator(np.random.Philox(seed))
    for _ in range(count):
        size = int(random.integers(M + 1, 5 * M))
        p = np.sort(random.dirichlet(np.full(size, random.choice([0.05, 0.1, 0.5, 2.0]))))[::-1]
        dissimilarity = random.random(size) if random.random() < 0.5 else random.integers(0, 2, size).astype(float)
        yield beam_mass_theorem.Outcomes(p, dissimilarity, np.arange(size) < M)


def directed_beam_sets(count: int, seed: int, M: int = 10) -> Iterator[beam_mass_theorem.Outcomes]:
    """B: M outcomes of equal probability near the produced answer; outside, less probable ones, all far from it.

    The mass of B is uniform from just below the printed threshold to 1, and what is near, or far, lies within at most
    a half.
    """
    random = np.random.Generator(np.random.Philox(seed))
    for _ in range(count):
        mass = random.uniform(beam_mass_theorem.printed_threshold(M) - 0.02, 1.0)
        outside = int(random.integers(int((1 - mass) * M / mass) + 2, 5 * M))
        p = np.repeat([mass / M, (1 - mass) / outside], [M, outside])
        within = random.uniform(0.0, 0.5)
        dissimilarity = np.concatenate([within * random.random(M), 1 - within * random.random(outside)])
        yield beam_mass_theorem.Outcomes(p, dissimilarity, np.arange(M + outside) < M)


def failures(beam_sets: Iterable[beam_mass_theorem.Outcomes], M: int) -> dict[str, tuple[int, int]]:
    """For the printed and the corrected condition: how many beam sets meet it; at how many of these beams err more."""
    thresholds = {
        "printed": beam_mass_theorem.printed_threshold(M),
        "corrected": beam_mass_theorem.corrected_threshold(M),
    }
    met, lost = dict.fromkeys(thresholds, 0), dict.fromkeys(thresholds, 0)
    for beam_set in beam_sets:
        beam, monte_carlo = beam_mass_theorem.squared_errors(beam_set, M)
        for name, threshold in thresholds.items():
            met[name] += beam_set.mass > threshold
            lost[name] += beam_set.mass > threshold and beam > monte_carlo + 1e-12
    return {name: (met[name], lost[name]) for name in thresholds}


def _other_methods(rows: Rows, stated: StatedInPrint) -> Iterator[Regenerated]:
    """The table's values are those of the model's PRR table, and its methods are not those announced."""
    part = _of(rows, "tab:abl_other_methods")
    shared, equal = 0, {"PRR": 0, "PR-AUC": 0}
    for row in part:
        sources = {"PRR": GEMMA, "PR-AUC": "tab:abl_prauc"}
        others = {m: rows.get(row.key._replace(table=t, metric=m)) for m, t in sources.items()}
        if row.key.dataset != MEAN and others["PRR"] and others["PR-AUC"]:
            shared += 1
            for metric, other in others.items():
                equal[metric] += other is not None and other.value == row.value
    if equal[stated.other_methods_metric] < equal["PRR"]:
        facts = {"cells_shared": shared, "equal_to_prr": equal["PRR"], "equal_to_pr_auc": equal["PR-AUC"]}
        touched = (row.key for row in part)
        yield _found("other-methods-metric", "caption", touched, captioned=stated.other_methods_metric, **facts)
    methods = {row.key.method for row in part}
    lacking = sorted(set(stated.other_methods_named) - methods)
    added = sorted(methods - {*CONSISTENCY, *stated.other_methods_announced})
    if lacking or added:
        yield _found("other-methods-list", "caption", (), lacks=lacking, adds=added)


def _mean_rows(rows: Rows) -> list[tuple[PrintedNumber, list[PrintedNumber]]]:
    """Each printed mean that the paper also prints by dataset, with those rows."""
    details: dict[tuple[str, ...], list[PrintedNumber]] = defaultdict(list)
    for key, row in rows.items():
        if key.dataset != MEAN and key.method and not key.setting:
            table = MAIN if key.table.startswith("tab:qa_") else key.table
            details[table, key.model, key.metric, key.method, key.variant].append(row)
    named = ((row, (k.table, k.model, k.metric, k.method, k.variant)) for k, row in rows.items() if k.dataset == MEAN)
    return [(row, details[name]) for row, name in named if name in details]


def _means(rows: Rows) -> Iterator[Regenerated]:
    """Printed means that are not the mean of their own rows, rounding allowed for."""
    means = {mean.key: float(np.mean([p.value for p in parts])) for mean, parts in _mean_rows(rows)}
    wrong = {key: value for key, value in means.items() if abs(rows[key].value - value) > ROUNDING}
    if wrong:
        largest = max(abs(rows[key].value - value) for key, value in means.items() if key not in wrong)
        shown = {f"{k.table} {k.method} {k.variant}".strip(): f"{rows[k].value:.3f} for {wrong[k]:.3f}" for k in wrong}
        listed = [f"{name}: {text}" for name, text in sorted(shown.items())]
        facts = {"means_checked": len(means), "largest_other_difference": largest, "wrong": listed}
        yield _found("means", "value", wrong, **facts)


def _spreads(rows: Rows) -> Iterator[Regenerated]:
    """Two tables with the same ± everywhere; the ± of the means fits no formula of its rows'."""
    spreads = defaultdict(dict)
    for key, row in rows.items():
        if key.table.startswith("tab:qa_") and key.table != MAIN:
            spreads[key.table][key[2:]] = row.std
    first = spreads.pop(GEMMA)
    identical = {table: sum(first[key] == std for key, std in others.items()) for table, others in spreads.items()}
    copied = identical.pop(GEMMA_CHAT)
    if copied == len(first):
        touched = (key for key in rows if key.table in (GEMMA, GEMMA_CHAT))
        facts = {"identical": copied, "identical_to_another_table_at_most": max(identical.values())}
        yield _found("copied-spread", "std", touched, **facts)
    pairs = [(mean, parts) for mean, parts in _mean_rows(rows) if mean.key.table == MAIN and mean.std is not None]
    printed = np.array([mean.std for mean, _ in pairs], dtype=np.float64)
    parts = np.array([[part.std for part in parts] for _, parts in pairs], dtype=np.float64)
    average, propagated = parts.mean(axis=1), np.sqrt((parts**2).sum(axis=1)) / parts.shape[1]
    fits = [int((np.abs(printed - formula) <= ROUNDING).sum()) for formula in (average, propagated)]
    if max(fits) <= len(pairs) / 2:
        yield _found(
            "spread-of-means",
            "std",
            (mean.key for mean, _ in pairs),
            means=len(pairs),
            equal_to_average=fits[0],
            equal_to_propagated=fits[1],
            mean_ratio_to_average=(printed / average).mean(),
            mean_ratio_to_propagated=(printed / propagated).mean(),
        )


def _rises(rows: Rows) -> dict[RowKey, float]:
    """Beam minus multinomial wherever both are printed, by the beam row's key; exact to the printed digits."""
    found = {}
    for key, row in rows.items():
        for other in ("multinomial", ""):
            base = rows.get(key._replace(variant=other))
            if key.variant == "beamsearch" and base is not None:
                found[key] = round(row.value - base.value, 3)
    return found


def _arrows(rows: Rows, arrows: set[RowKey]) -> Iterator[Regenerated]:
    """Arrows at equal printed values: these may rise before rounding, so only an arrow at a fall would be false."""
    rise = _rises(rows)
    equal = [key for key in arrows if rise[key] == 0]
    if equal:
        falls = sum(rise[key] < 0 for key in arrows)
        yield _found("arrow-at-equal", "arrow", equal, arrows=len(arrows), at_equal=len(equal), at_a_fall=falls)


def _mean_columns(rows: Rows, stated: StatedInPrint) -> Iterator[Regenerated]:
    columns = {row.key.dataset for row in _of(rows, "tab:abl_rocauc")} - {row.key.dataset for row in _of(rows, GEMMA)}
    if len(columns) != stated.mean_columns:
        yield _found("mean-columns", "caption", (), announced=stated.mean_columns, columns=sorted(columns))


def _gains(rows: Rows) -> Iterator[Regenerated]:
    """How many of the means and cells of the PRR tables rise or fall, and which fall clearly, whatever ± may mean.

    The ± of both Gemma tables is doubted (copied-spread), and undefined in all: falls are held against each reading.
    """
    rise = {k: g for k, g in _rises(rows).items() if k.table.startswith("tab:qa_") and k.method in CONSISTENCY}
    means = [gain for key, gain in rise.items() if key.table == MAIN]
    cells = {key: gain for key, gain in rise.items() if key.table != MAIN}

    def printed(key: RowKey) -> float:
        return float(np.hypot(rows[key].std or 0.0, rows[key._replace(variant="multinomial")].std or 0.0))

    def borrowed(key: RowKey) -> float:
        """In the Gemma tables the largest that another model's table prints for the same dataset and method."""
        if key.table not in (GEMMA, GEMMA_CHAT):
            return printed(key)
        alike = (k for k in cells if k[2:] == key[2:] and k.table not in (GEMMA, GEMMA_CHAT))
        return max(printed(other) for other in alike)

    readings = {
        "standard deviation": printed,
        "95 % half-width": lambda key: printed(key) / HALF_WIDTH,
        "standard deviation, of other models for Gemma": borrowed,
        "95 % half-width, of other models for Gemma": lambda key: borrowed(key) / HALF_WIDTH,
    }
    clear = {name: {k for k, g in cells.items() if g < -CLEAR * std(k)} for name, std in readings.items()}
    if any(gain < 0 for gain in rise.values()):
        listed = [f"{name}: {len(of)} ({', '.join(sorted({k.model for k in of}))})" for name, of in clear.items()]
        yield _found(
            "consistently-improves",
            "text",
            frozenset.intersection(*map(frozenset, clear.values())),
            means=len(means),
            means_rising=sum(gain > 0 for gain in means),
            means_equal_in_print=sum(gain == 0 for gain in means),
            cells=len(cells),
            cells_rising=sum(gain > 0 for gain in cells.values()),
            cells_falling=sum(gain < 0 for gain in cells.values()),
            clear_falls_by_meaning_of_the_spread=listed,
            largest_fall_in_standard_deviations=max(-gain / printed(key) for key, gain in cells.items()),
        )


def _runs(rows: Rows) -> Iterator[Regenerated]:
    """No printed number measures a spread over runs."""
    metrics = sorted({key.metric for key in rows})
    if not any("variance" in key.metric.lower() or "run" in key.setting for key in rows):
        yield _found("variance-unmeasured", "text", (), metrics=metrics, rows_over_runs=0)


def _eigenvalues(stated: StatedInPrint) -> Iterator[Regenerated]:
    """Similarity that is not transitive, A ~ B ~ C without A ~ C: an eigenvalue of the normalised Laplacian above 1."""
    W = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    scale = 1 / np.sqrt(W.sum(axis=1))
    largest = np.linalg.eigvalsh(np.eye(3) - scale[:, None] * W * scale).max()
    if largest > stated.largest_eigenvalue:
        yield _found("laplacian-range", "text", (), stated=stated.largest_eigenvalue, found=largest)


def _entropy() -> Iterator[Regenerated]:
    """A split of ten samples 9 + 1 is more certain than 5 + 5; the printed form says otherwise."""
    clusters = np.array([[0] * 9 + [1], [0] * 5 + [1] * 5])
    weights = np.full(clusters.shape, 0.1)
    entropy, printed = semantic_entropy(clusters, weights), semantic_entropy_printed(clusters, weights)
    if entropy[0] < entropy[1] and printed[0] > printed[1]:
        facts = {"entropy_of_9_and_1": entropy[0], "entropy_of_5_and_5": entropy[1]}
        facts |= {"printed_of_9_and_1": printed[0], "printed_of_5_and_5": printed[1]}
        yield _found("semantic-entropy-form", "text", (), **facts)


def _perplexity() -> Iterator[Regenerated]:
    """The logarithm and the perplexity rank alike, but not once multiplied by a dissimilarity."""
    log_perplexity, dissimilarity = np.array([0.1, 1.0]), np.array([0.9, 0.2])
    as_logarithm, as_perplexity = cocoa(log_perplexity, dissimilarity), cocoa(np.exp(log_perplexity), dissimilarity)
    if as_logarithm[0] < as_logarithm[1] and as_perplexity[0] > as_perplexity[1]:
        facts = {"with_logarithm_first": as_logarithm[0], "with_logarithm_second": as_logarithm[1]}
        facts |= {"with_perplexity_first": as_perplexity[0], "with_perplexity_second": as_perplexity[1]}
        yield _found("perplexity-is-a-logarithm", "text", (), **facts)


def _beam_texts(stated: StatedInPrint) -> Iterator[Regenerated]:
    texts = stated.beam_example
    most = max(texts.count(text) for text in texts)
    if most > 1:
        yield _found("beams-not-distinct", "text", (), beams=len(texts), distinct_texts=len(set(texts)), one_text=most)

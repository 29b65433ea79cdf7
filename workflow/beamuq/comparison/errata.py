"""Print against itself: the errata of the paper, regenerated from its numbers and from stored counterexamples.

No model is needed. Each check returns what it found, an erratum's id with the rows it touches and the facts that show
it; ``workflow/paper_numbers/errata.yaml`` is the ledger that people read, and a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from beamuq import theorem
from beamuq.comparison.comparison_rules import FOLDER, Strict, read_yaml
from beamuq.comparison.printed_numbers import MEAN, PrintedNumber, RowKey
from beamuq.errors import BeamUQError
from beamuq.methods.consistency import cocoa
from beamuq.methods.semantic import semantic_entropy, semantic_entropy_printed

Touches = Literal["value", "std", "arrow", "caption", "text", "theorem"]
Fact = float | int | str | list[str]
Floats = NDArray[np.float64]
Keyed = dict[RowKey, PrintedNumber]

MAIN, GEMMA, GEMMA_CHAT = "tab:qa_mean_prr", "tab:qa_gemma4b", "tab:qa_gemma4bit"
PAIRED = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL")
ROUNDING = 0.001  # a mean of rounded numbers, rounded again, lies within this of the rounded mean
CLEAR = 2.0  # a fall is clear beyond this many times its unpaired ±
LAWS, LAWS_SEED = 20_000, 1


class Stated(Strict):
    """What the paper says in words, which its numbers are held against."""

    other_methods_metric: str
    other_methods_announced: list[str]
    other_methods_named: list[str]
    mean_columns: int
    largest_eigenvalue: float
    beam_example: list[str]
    condition: str


class Erratum(Strict):
    """An entry of the ledger. ``rows``: selectors, column to value or values; empty for what touches no number."""

    id: Annotated[str, Field(pattern=r"^[a-z-]+$")]
    erratum: str
    found: str
    touches: Touches
    rows: list[dict[str, str | list[str]]] = Field(default=[])
    facts: dict[str, Fact]

    def selected(self, values: Iterable[PrintedNumber]) -> frozenset[RowKey]:
        """The keys of the rows that the selectors choose; each selector must choose at least one."""
        keys = [row.key for row in values]
        found: set[RowKey] = set()
        for selector in self.rows:
            chosen = {key for key in keys if all(getattr(key, c) in _listed(v) for c, v in selector.items())}
            if not chosen:
                raise BeamUQError(f"errata.yaml: {self.id}: rows: {selector} selects nothing; mend the selector")
            found |= chosen
        return frozenset(found)


class Ledger(Strict):
    """``errata.yaml``."""

    stated: Stated
    errata: list[Erratum]


@dataclass(frozen=True)
class Found:
    """What a check found: the rows touched and the facts, floats rounded to four digits."""

    id: str
    touches: Touches
    rows: frozenset[RowKey]
    facts: Mapping[str, Fact]


def read_ledger(folder: Path = FOLDER) -> Ledger:
    """The ledger of errata."""
    found: Ledger = read_yaml(Ledger, folder / "errata.yaml")
    return found


def errata_of(ledger: Ledger, values: Iterable[PrintedNumber], touches: Touches) -> dict[RowKey, list[str]]:
    """Row → ids of the errata that touch it in this way."""
    values, found = list(values), dict[RowKey, list[str]]()
    for erratum in ledger.errata:
        if erratum.touches == touches:
            for key in erratum.selected(values):
                found.setdefault(key, []).append(erratum.id)
    return found


def regenerate(values: Iterable[PrintedNumber], arrows: set[RowKey], stated: Stated) -> list[Found]:
    """Every erratum, from the numbers alone and the counterexamples kept here; in the ledger's order."""
    rows: Keyed = {row.key: row for row in values}
    by_numbers: list[Callable[[Keyed], Found | None]] = [
        lambda rows: _metric_of_other_methods(rows, stated),
        lambda rows: _methods_of_other_methods(rows, stated),
        _means,
        _copied_spread,
        _spread_of_means,
        lambda rows: _equal_with_arrow(rows, arrows),
        lambda rows: _mean_columns(rows, stated),
        _consistency,
        _variance,
    ]
    found = [_condition(stated), *(check(rows) for check in by_numbers)]
    found += [_eigenvalues(stated), _entropy(), _perplexity(), _beam_texts(stated)]
    return [item for item in found if item is not None]


def _found(
    name: str, touches: Touches, rows: Iterable[RowKey], /, **facts: float | int | str | np.generic | list[str]
) -> Found:
    plain = {key: fact.item() if isinstance(fact, np.generic) else fact for key, fact in facts.items()}
    rounded = {key: round(fact, 4) if isinstance(fact, float) else fact for key, fact in plain.items()}
    return Found(name, touches, frozenset(rows), rounded)


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _of(rows: Keyed, table: str) -> list[PrintedNumber]:
    return [row for key, row in rows.items() if key.table == table]


def _detailed(rows: Keyed) -> dict[tuple[str, ...], list[PrintedNumber]]:
    """The rows of the per-dataset tables behind each printed mean: (table, model, metric, method, variant)."""
    found: dict[tuple[str, ...], list[PrintedNumber]] = {}
    for key, row in rows.items():
        if key.dataset != MEAN and key.method and not key.setting:
            table = MAIN if key.table.startswith("tab:qa_") else key.table
            found.setdefault((table, key.model, key.metric, key.method, key.variant), []).append(row)
    return found


def _mean_rows(rows: Keyed) -> list[tuple[PrintedNumber, list[PrintedNumber]]]:
    """Each printed mean that the paper also prints by dataset, with those rows."""
    details = _detailed(rows)
    pairs = []
    for key, row in rows.items():
        parts = details.get((key.table, key.model, key.metric, key.method, key.variant))
        if key.dataset == MEAN and parts:
            pairs.append((row, parts))
    return pairs


def _condition(stated: Stated) -> Found | None:
    """The printed sufficient condition holds at the counterexample, and yet the beam errs more."""
    law, M = theorem.COUNTEREXAMPLE, theorem.COUNTEREXAMPLE_M
    beam, monte_carlo = theorem.squared_errors(law, M)
    printed, corrected = random_failures(LAWS, LAWS_SEED)
    if not (law.mass > theorem.printed_threshold(M) and beam > monte_carlo):
        return None
    return _found(
        "distribution-free-condition",
        "theorem",
        (),
        stated=stated.condition,
        M=M,
        mass=law.mass,
        printed_threshold=theorem.printed_threshold(M),
        corrected_threshold=theorem.corrected_threshold(M),
        squared_error_of_beams=beam,
        squared_error_of_samples=monte_carlo,
        random_laws=LAWS,
        printed_fails="yes" if printed else "no",
        corrected_fails="yes" if corrected else "no",
    )


@cache
def random_failures(count: int, seed: int) -> tuple[int, int]:
    """Of ``count`` random laws, how many meet the printed, and the corrected, condition while the beam errs more.

    Two to eleven outcomes in descending probability from a symmetric Dirichlet law, dissimilarities 0 or 1 or uniform,
    M = 10, the beam set the most probable outcomes, at most M.
    """
    random, M = np.random.Generator(np.random.Philox(seed)), 10
    failures = [0, 0]
    for _ in range(count):
        size = int(random.integers(2, 12))
        p = np.sort(random.dirichlet(np.full(size, random.choice([0.1, 0.5, 2.0]))))[::-1]
        dissimilarity = random.random(size) if random.random() < 0.5 else random.integers(0, 2, size).astype(float)
        law = theorem.Law(p, dissimilarity, np.arange(size) < random.integers(1, size))
        beam, monte_carlo = theorem.squared_errors(law, M)
        if beam > monte_carlo + 1e-12:
            failures[0] += law.mass > theorem.printed_threshold(M)
            failures[1] += law.mass > theorem.corrected_threshold(M)
    return failures[0], failures[1]


def _metric_of_other_methods(rows: Keyed, stated: Stated) -> Found | None:
    """The table's values, method by method, are those of the model's PRR table, not of the PR-AUC table."""
    table = "tab:abl_other_methods"
    equal = {"PRR": 0, "PR-AUC": 0}
    shared = 0
    for row in _of(rows, table):
        sources = {"PRR": GEMMA, "PR-AUC": "tab:abl_prauc"}
        others = {m: rows.get(row.key._replace(table=t, metric=m)) for m, t in sources.items()}
        if row.key.dataset != MEAN and others["PRR"] and others["PR-AUC"]:
            shared += 1
            for metric, other in others.items():
                equal[metric] += other is not None and other.value == row.value
    if equal[stated.other_methods_metric] >= equal["PRR"]:
        return None
    return _found(
        "other-methods-metric",
        "caption",
        (row.key for row in _of(rows, table)),
        captioned=stated.other_methods_metric,
        cells_shared=shared,
        equal_to_prr=equal["PRR"],
        equal_to_pr_auc=equal["PR-AUC"],
    )


def _methods_of_other_methods(rows: Keyed, stated: Stated) -> Found | None:
    methods = {row.key.method for row in _of(rows, "tab:abl_other_methods")}
    lacking = sorted(set(stated.other_methods_named) - methods)
    added = sorted(methods - {*PAIRED, *stated.other_methods_announced})
    if not (lacking or added):
        return None
    return _found("other-methods-list", "caption", (), lacks=lacking, adds=added)


def _means(rows: Keyed) -> Found | None:
    """Printed means that are not the mean of their own rows, rounding allowed for."""
    checked = _mean_rows(rows)
    off = {mean.key: float(np.mean([p.value for p in parts])) for mean, parts in checked}
    wrong = {key: value for key, value in off.items() if abs(rows[key].value - value) > ROUNDING}
    if not wrong:
        return None
    largest = max(abs(rows[key].value - value) for key, value in off.items() if key not in wrong)
    means = {f"{k.table} {k.method} {k.variant}".strip(): f"{rows[k].value:.3f} for {v:.3f}" for k, v in wrong.items()}
    listed = [f"{name}: {shown}" for name, shown in sorted(means.items())]
    return _found("means", "value", wrong, means_checked=len(checked), largest_other_difference=largest, wrong=listed)


def _copied_spread(rows: Keyed) -> Found | None:
    """Two tables with the same ± everywhere; which of them is the copy, the numbers do not say."""
    first = {row.key[2:]: row.std for row in _of(rows, GEMMA)}
    second = {row.key[2:]: row.std for row in _of(rows, GEMMA_CHAT)}
    identical = sum(first[key] == second.get(key) for key in first)
    if identical < len(first):
        return None
    touched = (key for key in rows if key.table in (GEMMA, GEMMA_CHAT))
    others = [t for t in {key.table for key in rows} if t.startswith("tab:qa_") and t not in (MAIN, GEMMA, GEMMA_CHAT)]
    chance = max(
        sum(first[key] == std for key, std in ((row.key[2:], row.std) for row in _of(rows, other))) for other in others
    )
    return _found("copied-spread", "std", touched, identical=identical, identical_to_another_table_at_most=chance)


def _spread_of_means(rows: Keyed) -> Found | None:
    """The ± of the means is neither the average nor the propagated error of its rows'."""
    pairs = [(mean, parts) for mean, parts in _mean_rows(rows) if mean.key.table == MAIN and mean.std is not None]
    printed = np.array([mean.std for mean, _ in pairs], dtype=np.float64)
    spreads = np.array([[part.std for part in parts] for _, parts in pairs], dtype=np.float64)
    average, propagated = spreads.mean(axis=1), np.sqrt((spreads**2).sum(axis=1)) / spreads.shape[1]
    fits = {name: int((np.abs(printed - x) <= ROUNDING).sum()) for name, x in (("a", average), ("p", propagated))}
    if max(fits.values()) > len(pairs) / 2:
        return None
    return _found(
        "spread-of-means",
        "std",
        (mean.key for mean, _ in pairs),
        means=len(pairs),
        equal_to_average=fits["a"],
        equal_to_propagated=fits["p"],
        mean_ratio_to_average=float((printed / average).mean()),
        mean_ratio_to_propagated=float((printed / propagated).mean()),
    )


def gains(rows: Keyed) -> dict[RowKey, float]:
    """Beam minus multinomial wherever both are printed, by the beam row's key; exact to the printed digits."""
    found = {}
    for key, row in rows.items():
        for other in ("multinomial", ""):
            base = rows.get(key._replace(variant=other))
            if key.variant == "beamsearch" and base is not None:
                found[key] = round(row.value - base.value, 3)
    return found


def _equal_with_arrow(rows: Keyed, arrows: set[RowKey]) -> Found | None:
    rise = gains(rows)
    equal = [key for key in arrows if rise[key] == 0]
    if not equal:
        return None
    return _found(
        "arrow-at-equal",
        "arrow",
        equal,
        arrows=len(arrows),
        at_equal=len(equal),
        at_a_fall=sum(rise[key] < 0 for key in arrows),
    )


def _mean_columns(rows: Keyed, stated: Stated) -> Found | None:
    table = "tab:abl_rocauc"
    columns = {row.key.dataset for row in _of(rows, table)} - {row.key.dataset for row in _of(rows, GEMMA)}
    if len(columns) == stated.mean_columns:
        return None
    return _found("mean-columns", "caption", (), announced=stated.mean_columns, columns=sorted(columns))


def _consistency(rows: Keyed) -> Found | None:
    """How many of the means and cells of the PRR tables rise, and which fall clearly."""
    rise = {k: g for k, g in gains(rows).items() if k.table.startswith("tab:qa_") and k.method in PAIRED}
    means = {k: g for k, g in rise.items() if k.table == MAIN}
    cells = {k: g for k, g in rise.items() if k.table != MAIN}
    if all(gain > 0 for gain in rise.values()):
        return None

    def spread(key: RowKey) -> float:
        other = rows[key._replace(variant="multinomial")]
        return float(np.hypot(rows[key].std or 0.0, other.std or 0.0))

    clear = [key for key, gain in cells.items() if gain < -CLEAR * spread(key)]
    return _found(
        "consistently-improves",
        "text",
        clear,
        means_rising=sum(g > 0 for g in means.values()),
        means=len(means),
        cells_rising=sum(g > 0 for g in cells.values()),
        cells=len(cells),
        clear_falls=len(clear),
        clear_falls_in=sorted({key.model for key in clear}),
    )


def _variance(rows: Keyed) -> Found | None:
    """No printed number measures a spread over runs."""
    metrics = sorted({key.metric for key in rows})
    measured = [key for key in rows if "variance" in key.metric.lower() or "run" in key.setting]
    return None if measured else _found("variance-unmeasured", "text", (), metrics=metrics, rows_over_runs=0)


def _eigenvalues(stated: Stated) -> Found | None:
    """Similarity that is not transitive, A ~ B ~ C without A ~ C: an eigenvalue of the normalised Laplacian above 1."""
    W = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    scale = 1 / np.sqrt(W.sum(axis=1))
    largest = float(np.linalg.eigvalsh(np.eye(3) - scale[:, None] * W * scale).max())
    if largest <= stated.largest_eigenvalue:
        return None
    return _found("laplacian-range", "text", (), stated=stated.largest_eigenvalue, found=largest)


def _entropy() -> Found | None:
    """A split of ten samples 9 + 1 is more certain than 5 + 5; the printed form says otherwise."""
    clusters = np.array([[0] * 9 + [1], [0] * 5 + [1] * 5])
    weights = np.full(clusters.shape, 0.1)
    entropy, printed = semantic_entropy(clusters, weights), semantic_entropy_printed(clusters, weights)
    if not (entropy[0] < entropy[1] and printed[0] > printed[1]):
        return None
    return _found(
        "semantic-entropy-form",
        "text",
        (),
        entropy_of_9_and_1=entropy[0],
        entropy_of_5_and_5=entropy[1],
        printed_of_9_and_1=printed[0],
        printed_of_5_and_5=printed[1],
    )


def _perplexity() -> Found | None:
    """The logarithm and the perplexity rank alike, but not once multiplied by a dissimilarity."""
    log_perplexity, dissimilarity = np.array([0.1, 1.0]), np.array([0.9, 0.2])
    as_logarithm = cocoa(log_perplexity, dissimilarity)
    as_perplexity = cocoa(np.exp(log_perplexity), dissimilarity)
    if not (as_logarithm[0] < as_logarithm[1] and as_perplexity[0] > as_perplexity[1]):
        return None
    return _found(
        "perplexity-is-a-logarithm",
        "text",
        (),
        with_logarithm_first=as_logarithm[0],
        with_logarithm_second=as_logarithm[1],
        with_perplexity_first=as_perplexity[0],
        with_perplexity_second=as_perplexity[1],
    )


def _beam_texts(stated: Stated) -> Found | None:
    texts = stated.beam_example
    most = max(texts.count(text) for text in texts)
    if most == 1:
        return None
    return _found("beams-not-distinct", "text", (), beams=len(texts), distinct_texts=len(set(texts)), one_text=most)


def ledger_table(ledger: Ledger, values: Sequence[PrintedNumber]) -> pd.DataFrame:
    """The ledger for a page: id, erratum, how it was found, what it touches, how many printed numbers, the facts."""
    rows = [
        {
            "id": entry.id,
            "erratum": entry.erratum,
            "found": entry.found,
            "touches": entry.touches,
            "rows": len(entry.selected(values)),
            "facts": "; ".join(f"{k.replace('_', ' ')}: {_shown(v)}" for k, v in entry.facts.items()),
        }
        for entry in ledger.errata
    ]
    return pd.DataFrame(rows)


def _shown(fact: Fact) -> str:
    return (
        ", ".join(fact) or "none" if isinstance(fact, list) else f"{fact:g}" if isinstance(fact, float) else str(fact)
    )

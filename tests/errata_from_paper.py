"""The paper against itself: the errata of the paper, regenerated from its numbers and from stored
counterexamples.

No model is needed. Each check gives an erratum's id, what it touches, the rows and the facts that
show it, or nothing where the paper is right; ``workflow/paper_numbers/errata.yaml`` is the ledger
that people read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from beamuq.beam_mass_theorem import (
    COUNTEREXAMPLE,
    COUNTEREXAMPLE_M,
    Outcomes,
    corrected_threshold,
    printed_threshold,
    squared_errors,
)
from beamuq.evaluation.estimates import MEAN
from beamuq.methods.dissimilarity_cocoa import cocoa
from beamuq.methods.semantic_entropy_sar import semantic_entropy, semantic_entropy_printed
from beamuq_study.comparison.comparison_inputs import FOLDER, KEYS
from beamuq_study.exhibits.method_groups import CONSISTENCY

Key = tuple[str, ...]  # of a number of the paper: KEYS
MAIN, GEMMA, GEMMA_CHAT = "tab:qa_mean_prr", "tab:qa_gemma4b", "tab:qa_gemma4bit"
ROUNDING = 0.001  # a mean of rounded numbers, rounded again, lies within this of the rounded mean
CLEAR = 2.0  # a fall is clear beyond this many of its unpaired standard deviations
HALF_WIDTH = 1.96  # a 95 % interval reaches this many standard deviations to either side
BEAM_SETS, SEED = 20_000, 1
NO_ROWS = pd.DataFrame(columns=KEYS)


@dataclass(frozen=True)
class Regenerated:
    """What a check found; ``facts`` with floats rounded to four digits."""

    id: str
    touches: str
    rows: frozenset[Key]
    facts: Mapping[str, Any]


def read_arrows() -> set[Key]:
    """The cells that carry an arrow in the paper: ``gain_arrows.csv``."""
    frame = pd.read_csv(FOLDER / "gain_arrows.csv", dtype=str, keep_default_na=False)
    metrics = (
        frame["table"].map({"tab:abl_rocauc": "ROC-AUC", "tab:abl_prauc": "PR-AUC"}).fillna("PRR")
    )
    return set(keys_of(frame.assign(metric=metrics, variant="beamsearch", setting="")))


def regenerate(
    numbers: pd.DataFrame, arrows: set[Key], stated: Mapping[str, Any]
) -> dict[str, Regenerated]:
    """Every erratum by id, in the ledger's order; ``numbers`` as ``read_paper_numbers`` gives
    it.
    """
    found = [
        *_condition(stated),
        *_other_methods(numbers, stated),
        *_means(numbers),
        *_spreads(numbers),
    ]
    found += [
        *_arrows(numbers, arrows),
        *_mean_columns(numbers, stated),
        *_gains(numbers),
        *_runs(numbers),
    ]
    found += [*_eigenvalues(stated), *_entropy(), *_perplexity(), *_beam_texts(stated)]
    return {item.id: item for item in found}


def keys_of(numbers: pd.DataFrame) -> list[Key]:
    """The key of each number of the paper."""
    return list(numbers[KEYS].itertuples(index=False, name=None))


def _found(name: str, touches: str, rows: pd.DataFrame, /, **facts: Any) -> Regenerated:
    plain = {
        key: fact.item() if isinstance(fact, np.generic) else fact for key, fact in facts.items()
    }
    rounded = {
        key: round(fact, 4) if isinstance(fact, float) else fact for key, fact in plain.items()
    }
    return Regenerated(name, touches, frozenset(keys_of(rows)), rounded)


def _condition(stated: Mapping[str, Any]) -> Iterator[Regenerated]:
    """The printed sufficient condition holds at the counterexample, and yet the beam errs more."""
    beam_set, M = COUNTEREXAMPLE, COUNTEREXAMPLE_M
    beam, monte_carlo = squared_errors(beam_set, M)
    facts = {
        "stated": stated["condition"],
        "M": M,
        "mass": beam_set.mass,
        "printed_threshold": printed_threshold(M),
    }
    facts |= {"corrected_threshold": corrected_threshold(M), "squared_error_of_beams": beam}
    facts["squared_error_of_samples"] = monte_carlo
    for name, draw in (("drawn", drawn_beam_sets), ("directed", directed_beam_sets)):
        facts[name] = BEAM_SETS
        for condition, (met, lost) in failures(draw(BEAM_SETS, SEED), M).items():
            facts |= {f"{name}_meet_{condition}": met, f"{name}_meet_{condition}_and_lose": lost}
    facts.pop("drawn_meet_corrected")
    if beam_set.mass > printed_threshold(M) and beam > monte_carlo:
        yield _found("distribution-free-condition", "theorem", NO_ROWS, **facts)


def drawn_beam_sets(count: int, seed: int, M: int = 10) -> Iterator[Outcomes]:
    """M + 1 to 5M − 1 outcomes of a symmetric Dirichlet distribution; B: the M most probable, as in
    the theorem.

    Dissimilarities are uniform, or 0 or 1, whatever the probability of their outcome.
    """
    random = np.random.Generator(np.random.Philox(seed))
    for _ in range(count):
        size = int(random.integers(M + 1, 5 * M))
        p = np.sort(random.dirichlet(np.full(size, random.choice([0.05, 0.1, 0.5, 2.0]))))[::-1]
        dissimilarity = (
            random.random(size)
            if random.random() < 0.5
            else random.integers(0, 2, size).astype(float)
        )
        yield Outcomes(p, dissimilarity, np.arange(size) < M)


def directed_beam_sets(count: int, seed: int, M: int = 10) -> Iterator[Outcomes]:
    """B: M outcomes of equal probability near the produced answer; outside, less probable ones, all
    far from it.

    The mass of B is uniform from just below the printed threshold to 1, and what is near, or far,
    lies within at most a half.
    """
    random = np.random.Generator(np.random.Philox(seed))
    for _ in range(count):
        mass = random.uniform(printed_threshold(M) - 0.02, 1.0)
        outside = int(random.integers(int((1 - mass) * M / mass) + 2, 5 * M))
        p = np.repeat([mass / M, (1 - mass) / outside], [M, outside])
        within = random.uniform(0.0, 0.5)
        dissimilarity = np.concatenate(
            [within * random.random(M), 1 - within * random.random(outside)]
        )
        yield Outcomes(p, dissimilarity, np.arange(M + outside) < M)


def failures(beam_sets: Iterable[Outcomes], M: int) -> dict[str, tuple[int, int]]:
    """For the printed and the corrected condition: how many beam sets meet it; at how many of these
    beams err more.
    """
    thresholds = {"printed": printed_threshold(M), "corrected": corrected_threshold(M)}
    met, lost = dict.fromkeys(thresholds, 0), dict.fromkeys(thresholds, 0)
    for beam_set in beam_sets:
        beam, monte_carlo = squared_errors(beam_set, M)
        for name, threshold in thresholds.items():
            met[name] += beam_set.mass > threshold
            lost[name] += beam_set.mass > threshold and beam > monte_carlo + 1e-12
    return {name: (met[name], lost[name]) for name in thresholds}


def _other_methods(numbers: pd.DataFrame, stated: Mapping[str, Any]) -> Iterator[Regenerated]:
    """The table's values are those of the model's PRR table, and its methods are not those
    announced.
    """
    part, place = (
        numbers[numbers["table"] == "tab:abl_other_methods"],
        ["dataset", "method", "variant"],
    )
    shared = part[part["dataset"] != MEAN][[*place, "printed"]]
    for metric, table in (("PRR", GEMMA), ("PR-AUC", "tab:abl_prauc")):
        other = numbers[numbers["table"] == table].rename(columns={"printed": metric})
        shared = shared.merge(other[[*place, metric]], on=place)
    equal = {
        metric: int((shared["printed"] == shared[metric]).sum()) for metric in ("PRR", "PR-AUC")
    }
    captioned = stated["other_methods_metric"]
    if equal[captioned] < equal["PRR"]:
        facts = {
            "cells_shared": len(shared),
            "equal_to_prr": equal["PRR"],
            "equal_to_pr_auc": equal["PR-AUC"],
        }
        yield _found("other-methods-metric", "caption", part, captioned=captioned, **facts)
    methods = set(part["method"])
    lacking = sorted(set(stated["other_methods_named"]) - methods)
    added = sorted(methods - {*CONSISTENCY, *stated["other_methods_announced"]})
    if lacking or added:
        yield _found("other-methods-list", "caption", NO_ROWS, lacks=lacking, adds=added)


def _means_of_the_paper(numbers: pd.DataFrame) -> pd.DataFrame:
    """Each printed mean that the paper also prints by dataset: of those rows the ``mean``, and of
    their ± both ways.
    """
    place = ["table", "model", "metric", "method", "variant"]
    parts = numbers[
        (numbers["dataset"] != MEAN) & (numbers["method"] != "") & (numbers["setting"] == "")
    ]
    parts = parts.assign(table=parts["table"].mask(parts["table"].str.startswith("tab:qa_"), MAIN))
    of = parts.assign(square=parts["printed_std"] ** 2).groupby(place)
    behind = of.agg(
        mean=("printed", "mean"), average=("printed_std", "mean"), square=("square", "sum")
    )
    behind["propagated"] = np.sqrt(behind["square"]) / of.size()
    return numbers[numbers["dataset"] == MEAN].merge(behind.reset_index(), on=place)


def _means(numbers: pd.DataFrame) -> Iterator[Regenerated]:
    """Printed means that are not the mean of their own rows, rounding allowed for."""
    means = _means_of_the_paper(numbers)
    off = (means["printed"] - means["mean"]).abs()
    wrong = means[off > ROUNDING]
    names = (wrong["table"] + " " + wrong["method"] + " " + wrong["variant"]).str.strip()
    rows = zip(names, wrong["printed"], wrong["mean"], strict=True)
    listed = sorted(f"{name}: {value:.3f} for {mean:.3f}" for name, value, mean in rows)
    if listed:
        facts = {
            "means_checked": len(means),
            "largest_other_difference": off[off <= ROUNDING].max(),
            "wrong": listed,
        }
        yield _found("means", "value", wrong, **facts)


def _spreads(numbers: pd.DataFrame) -> Iterator[Regenerated]:
    """Two tables with the same ± everywhere; the ± of the means fits no formula of its rows'."""
    of_models = numbers[numbers["table"].str.startswith("tab:qa_") & (numbers["table"] != MAIN)]
    wide = of_models.pivot(index=KEYS[2:], columns="table", values="printed_std")
    identical = wide.eq(wide[GEMMA], axis=0).sum().drop(GEMMA)
    if identical[GEMMA_CHAT] == len(wide):
        facts = {
            "identical": len(wide),
            "identical_to_another_table_at_most": identical.drop(GEMMA_CHAT).max(),
        }
        yield _found(
            "copied-spread", "std", numbers[numbers["table"].isin([GEMMA, GEMMA_CHAT])], **facts
        )
    means = _means_of_the_paper(numbers[numbers["table"].str.startswith("tab:qa_")])
    formulas = ("average", "propagated")
    fits = {
        f"equal_to_{name}": ((means["printed_std"] - means[name]).abs() <= ROUNDING).sum()
        for name in formulas
    }
    if max(fits.values()) <= len(means) / 2:
        ratios = {
            f"mean_ratio_to_{name}": (means["printed_std"] / means[name]).mean()
            for name in formulas
        }
        yield _found("spread-of-means", "std", means, means=len(means), **fits, **ratios)


def _rises(numbers: pd.DataFrame) -> pd.DataFrame:
    """Every beam row with its ``rise`` over the sampled one, exact to the printed digits, and
    ``std`` of both ±.
    """
    place = [name for name in KEYS if name != "variant"]
    samples = numbers[numbers["variant"] != "beamsearch"].drop(columns="variant")
    pairs = numbers[numbers["variant"] == "beamsearch"].merge(
        samples, on=place, suffixes=("", "_sampled")
    )
    std = np.hypot(pairs["printed_std"].fillna(0.0), pairs["printed_std_sampled"].fillna(0.0))
    return pairs.assign(rise=(pairs["printed"] - pairs["printed_sampled"]).round(3), std=std)


def _arrows(numbers: pd.DataFrame, arrows: set[Key]) -> Iterator[Regenerated]:
    """Arrows at equal printed values: these may rise before rounding, so only an arrow at a fall
    would be false.
    """
    rises = _rises(numbers)
    marked = rises[[key in arrows for key in keys_of(rises)]]
    equal, falls = marked[marked["rise"] == 0], (marked["rise"] < 0).sum()
    if len(equal):
        yield _found(
            "arrow-at-equal",
            "arrow",
            equal,
            arrows=len(arrows),
            at_equal=len(equal),
            at_a_fall=falls,
        )


def _mean_columns(numbers: pd.DataFrame, stated: Mapping[str, Any]) -> Iterator[Regenerated]:
    columns, datasets = (
        set(numbers["dataset"][numbers["table"] == table]) for table in ("tab:abl_rocauc", GEMMA)
    )
    announced = stated["mean_columns"]
    if len(columns - datasets) != announced:
        yield _found(
            "mean-columns",
            "caption",
            NO_ROWS,
            announced=announced,
            columns=sorted(columns - datasets),
        )


def _gains(numbers: pd.DataFrame) -> Iterator[Regenerated]:
    """How many of the means and cells of the PRR tables rise or fall, and which fall clearly,
    whatever ± may mean.

    The ± of both Gemma tables is doubted (copied-spread), and undefined in all: falls are held
    against each reading.
    """
    rises = _rises(numbers)
    rises = rises[rises["table"].str.startswith("tab:qa_") & rises["method"].isin(CONSISTENCY)]
    means, cells = rises[rises["table"] == MAIN], rises[rises["table"] != MAIN]
    gemma = cells["table"].isin([GEMMA, GEMMA_CHAT])
    others = cells.assign(std=cells["std"].mask(gemma)).groupby(KEYS[2:])["std"].transform("max")
    borrowed = cells["std"].mask(
        gemma, others
    )  # the largest that another model's table prints for the same
    readings = {
        "standard deviation": cells["std"],
        "95 % half-width": cells["std"] / HALF_WIDTH,
        "standard deviation, of other models for Gemma": borrowed,
        "95 % half-width, of other models for Gemma": borrowed / HALF_WIDTH,
    }
    clear = {name: cells["rise"] < -CLEAR * std for name, std in readings.items()}
    if (rises["rise"] < 0).any():
        models = {
            name: ", ".join(sorted(cells["model"][of].unique())) for name, of in clear.items()
        }
        yield _found(
            "consistently-improves",
            "text",
            cells[np.logical_and.reduce(list(clear.values()))],
            means=len(means),
            means_rising=(means["rise"] > 0).sum(),
            means_equal_in_print=(means["rise"] == 0).sum(),
            cells=len(cells),
            cells_rising=(cells["rise"] > 0).sum(),
            cells_falling=(cells["rise"] < 0).sum(),
            clear_falls_by_meaning_of_the_spread=[
                f"{name}: {of.sum()} ({models[name]})" for name, of in clear.items()
            ],
            largest_fall_in_standard_deviations=(-cells["rise"] / cells["std"]).max(),
        )


def _runs(numbers: pd.DataFrame) -> Iterator[Regenerated]:
    """No number of the paper measures a spread over runs."""
    measured = numbers["metric"].str.lower().str.contains("variance") | numbers[
        "setting"
    ].str.contains("run")
    if not measured.any():
        metrics = sorted(numbers["metric"].unique())
        yield _found("variance-unmeasured", "text", NO_ROWS, metrics=metrics, rows_over_runs=0)


def _eigenvalues(stated: Mapping[str, Any]) -> Iterator[Regenerated]:
    """Similarity that is not transitive, A ~ B ~ C without A ~ C: an eigenvalue of the normalised
    Laplacian above 1.
    """
    W = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    scale = 1 / np.sqrt(W.sum(axis=1))
    largest = np.linalg.eigvalsh(np.eye(3) - scale[:, None] * W * scale).max()
    if largest > stated["largest_eigenvalue"]:
        yield _found(
            "laplacian-range", "text", NO_ROWS, stated=stated["largest_eigenvalue"], found=largest
        )


def _entropy() -> Iterator[Regenerated]:
    """A split of ten samples 9 + 1 is more certain than 5 + 5; the printed form says otherwise."""
    clusters = np.array([[0] * 9 + [1], [0] * 5 + [1] * 5])
    weights = np.full(clusters.shape, 0.1)
    entropy, printed = (
        semantic_entropy(clusters, weights),
        semantic_entropy_printed(clusters, weights),
    )
    if entropy[0] < entropy[1] and printed[0] > printed[1]:
        facts = {"entropy_of_9_and_1": entropy[0], "entropy_of_5_and_5": entropy[1]}
        facts |= {"printed_of_9_and_1": printed[0], "printed_of_5_and_5": printed[1]}
        yield _found("semantic-entropy-form", "text", NO_ROWS, **facts)


def _perplexity() -> Iterator[Regenerated]:
    """The logarithm and the perplexity rank alike, but not once multiplied by a dissimilarity."""
    log_perplexity, dissimilarity = np.array([0.1, 1.0]), np.array([0.9, 0.2])
    as_logarithm, as_perplexity = (
        cocoa(log_perplexity, dissimilarity),
        cocoa(np.exp(log_perplexity), dissimilarity),
    )
    if as_logarithm[0] < as_logarithm[1] and as_perplexity[0] > as_perplexity[1]:
        facts = {"with_logarithm_first": as_logarithm[0], "with_logarithm_second": as_logarithm[1]}
        facts |= {
            "with_perplexity_first": as_perplexity[0],
            "with_perplexity_second": as_perplexity[1],
        }
        yield _found("perplexity-is-a-logarithm", "text", NO_ROWS, **facts)


def _beam_texts(stated: Mapping[str, Any]) -> Iterator[Regenerated]:
    texts = stated["beam_example"]
    most = max(texts.count(text) for text in texts)
    if most > 1:
        yield _found(
            "beams-not-distinct",
            "text",
            NO_ROWS,
            beams=len(texts),
            distinct_texts=len(set(texts)),
            one_text=most,
        )

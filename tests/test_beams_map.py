"""The map of a cell: PRR of estimates where the distribution is known, from tables made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import synthetic
from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation import known_distribution as known
from beamuq_study import parquet_tables
from beamuq_study.errors_where_u_is_known import GAIN, NOISE, TARGET
from beamuq_study.exhibits.figure_of_beams_map import differences
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.result_files import KEYS, Estimates
from beamuq_study.stages.beams_map import (
    BEAMS,
    EXACT_TEXT,
    SIMILARITY,
    MapSettings,
    map_of_cell,
    setting,
)
from beamuq_study.stages.method_inputs_from_tables import CellTables
from one_metric import measure

N, OUTCOMES = 30, 12
EXACT, ABOVE = "exact M=5", "all_above p=0.05 draws=20"
SETTINGS = MapSettings(
    strategies=(EXACT, ABOVE),
    powers=(1.0, 1.5),
    kappas=(0.5, 1.0),
    sizes=(2, 5),
    draws=3,
    resamples=100,
    quality="answer_f1",
)


def drawn(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"policy_logprob": row["logprob"]}


@pytest.fixture(scope="module")
def cell() -> dict[str, pa.Table]:
    """Of each question: five outcomes that a search found, those above .05, and 20 draws from
    outside these.
    """
    rng = np.random.default_rng(0)
    rows: dict[str, list[dict[str, Any]]] = {
        "questions": [],
        "candidates": [],
        "similarity": [],
        "quality": [],
    }
    for n in range(N):
        key, texts = f"q{n:02d}", [f"text {y}" for y in range(OUTCOMES)]
        p = -np.sort(-rng.dirichlet(np.full(OUTCOMES, rng.choice([0.2, 2.0]))) - 1e-6)
        p /= p.sum() + 1e-9
        made = [
            synthetic.candidate(key, "", y, texts[y], [10 + y, 2], float(np.log(p[y])))
            for y in range(OUTCOMES)
        ]
        above = int((p >= 0.05).sum())
        rest = p[above:] / p[above:].sum()
        outside = [made[above + y] for y in rng.choice(len(rest), 20, p=rest)]
        found = [made[0] | {"strategy": "greedy"}]
        found += [row | {"strategy": EXACT, "rank": rank} for rank, row in enumerate(made[:5])]
        of_above = [*made[:above], *map(drawn, outside)]
        found += [row | {"strategy": ABOVE, "rank": rank} for rank, row in enumerate(of_above)]
        rows["candidates"] += found
        rows["questions"].append({"id": key, "question": "?", "group": key} | synthetic.EMPTY)
        rows["quality"].append({"id": key, "answer_source": "greedy", "value": float(rng.random())})
        alike = [1.0, *rng.random(OUTCOMES - 1)]
        rows["similarity"] += [
            {
                "id": key,
                "premise": texts[0],
                "hypothesis": text,
                "entail": s,
                "neutral": None,
                "contradict": None,
            }
            for text, s in zip(texts, alike, strict=True)
        ]
    return {kind: pa.Table.from_pylist(of, schema=SCHEMAS[kind]) for kind, of in rows.items()}


def mapped(cell: dict[str, pa.Table], **changes: Any) -> pd.DataFrame:
    """Its rows; the parts of a setting as columns."""
    settings = MapSettings.model_validate(SETTINGS.model_dump() | changes)
    rows = pd.DataFrame(map_of_cell(**cell, settings=settings, name="triviaqa"))
    parts = pd.DataFrame([strategy_names.parse(f"x {name}")[1] for name in rows["setting"]])
    return rows.join(parts.reindex(columns=["power", "kappa", "M"]).astype(float))


@pytest.fixture(scope="module")
def rows(cell: dict[str, pa.Table]) -> pd.DataFrame:
    return mapped(cell)


def test_the_true_dissimilarity_ranks_expected_similarity_perfectly_where_the_model_is_calibrated(
    rows: pd.DataFrame,
) -> None:
    true = rows[(rows["variant"] == "true") & (rows["method"] == "Dissimilarity")]
    at = true[(true["quality"] == SIMILARITY) & (true["kappa"] == 1)]
    assert at["value"].tolist() == pytest.approx([1, 1], abs=1e-6)
    assert (true.loc[true["kappa"] == 0.5, "value"] < 1 - 1e-6).all()


def test_beams_minus_samples_is_noise_plus_target_in_every_place(rows: pd.DataFrame) -> None:
    place = {"model": "m", "dataset": "triviaqa", "recipe": "r", "scorer": "s", "empty": np.nan}
    frame = rows[rows["metric"] == "PRR"].assign(**place)
    columns = [*KEYS, "power", "kappa", "M", "value", "n", "empty", "note"]
    every = Estimates(frame[columns], np.stack(frame["values"].to_list()))
    found = differences(every)
    beams = found.frame[found.frame["variant"] == BEAMS]
    wide = beams.pivot(index=["method", "quality", "setting"], columns="metric", values="value")
    assert len(wide) == 3 * 2 * 2 * (
        2 * 2 + 1
    )  # methods, powers, M; qualities × κ, and the real one
    np.testing.assert_allclose(wide[GAIN], wide[NOISE] + wide[TARGET], atol=1e-12)


def test_mass_is_that_of_the_most_probable_outcomes(
    rows: pd.DataFrame, cell: dict[str, pa.Table]
) -> None:
    found = rows[(rows["metric"] == "mass") & (rows["power"] == 1)].set_index("M")["value"]
    candidates = cell["candidates"].to_pandas()
    exact = candidates[candidates["strategy"] == EXACT]
    for M in (2, 5):
        mass = np.exp(exact.loc[exact["rank"] < M, "logprob"]).groupby(exact["id"]).sum().mean()
        assert found[M] == pytest.approx(mass)


def test_rows_are_written_with_how_many_questions_they_are_of(
    cell: dict[str, pa.Table], tmp_path: Path
) -> None:
    rows = list(map_of_cell(**cell, settings=SETTINGS, name="triviaqa"))
    written = tmp_path / "map.parquet"
    parquet_tables.write(written, "beams_map", rows)
    assert set(pd.read_parquet(written)["n"]) == {len(cell["questions"])}


def test_a_real_quality_has_no_kappa_and_an_expected_one_has(rows: pd.DataFrame) -> None:
    prr = rows[rows["metric"] == "PRR"]
    assert prr.loc[prr["quality"] == "answer_f1", "kappa"].isna().all()
    assert prr.loc[prr["quality"].isin([SIMILARITY, EXACT_TEXT]), "kappa"].notna().all()
    assert set(prr["quality"]) == {"answer_f1", SIMILARITY, EXACT_TEXT}


def test_skip_leaves_out_the_first_questions(cell: dict[str, pa.Table]) -> None:
    later = cell["questions"]["id"][10:]
    kept = {kind: table.filter(pc.is_in(table["id"], later)) for kind, table in cell.items()}
    pd.testing.assert_frame_equal(mapped(cell, skip=10), mapped(kept))


def test_skip_leaves_a_question() -> None:
    tables = synthetic.cell(3)
    tables.pop("judgements")
    with pytest.raises(BeamUQError, match=r"beams_map\.skip: 3 leaves no question of 3; lower it"):
        mapped(tables, skip=3)


@pytest.mark.parametrize("kind", ["candidates", "similarity", "quality"])
def test_the_order_of_rows_changes_nothing(
    kind: str, cell: dict[str, pa.Table], rows: pd.DataFrame
) -> None:
    order = np.random.default_rng(1).permutation(len(cell[kind]))
    pd.testing.assert_frame_equal(mapped(cell | {kind: cell[kind].take(order)}), rows)


def test_the_order_of_questions_changes_nothing_that_is_not_drawn(
    cell: dict[str, pa.Table], rows: pd.DataFrame
) -> None:
    order = np.random.default_rng(1).permutation(N)
    other = mapped(cell | {"questions": cell["questions"].take(order)})
    fixed = rows["variant"].isin(["true", "text", BEAMS]) | (rows["metric"] != "PRR")
    np.testing.assert_allclose(other.loc[fixed, "value"], rows.loc[fixed, "value"], atol=1e-9)


def test_an_outcome_that_two_searches_found_counts_once_and_a_draw_of_it_not_at_all(
    cell: dict[str, pa.Table],
) -> None:
    tables = CellTables(cell["questions"], cell["candidates"], cell["similarity"])
    known = tables.known_outcomes([EXACT, ABOVE], "greedy")
    frame = cell["candidates"].to_pandas().assign(tokens=lambda of: of["token_ids"].map(tuple))
    for n, key in enumerate(tables.ids):
        of = frame[(frame["id"] == key) & frame["strategy"].isin([EXACT, ABOVE])]
        searched = set(of.loc[of["policy_logprob"].isna(), "tokens"])
        outside = of[of["policy_logprob"].notna() & ~of["tokens"].isin(searched)]
        assert known.in_set[n].sum() == len(searched)
        assert known.drawn[n].sum() == len(outside)
    draws = frame["policy_logprob"].notna().groupby(frame["id"]).sum()
    assert known.drawn.sum() < draws.sum()  # some drew what the exact search had found
    assert (np.exp(np.where(known.in_set, known.logprob, -np.inf)).sum(axis=1) <= 1).all()


def test_a_place_is_named_as_a_setting_is() -> None:
    assert setting(1.5, 1, 10) == "power=1.5 kappa=1.0 M=10"
    assert setting(2) == "power=2.0"


def test_cocoa_multiplies_the_sharpened_answer_s_uncertainty(
    rows: pd.DataFrame, cell: dict[str, pa.Table]
) -> None:
    tables = CellTables(cell["questions"], cell["candidates"], cell["similarity"])
    of, logprob = tables.known_outcomes([EXACT, ABOVE], "greedy"), tables.answer("greedy").logprob
    p, log_total = known.sharpened(of.logprob, of.in_set, of.drawn, 1.5)
    score = -np.minimum(1.5 * logprob - log_total, 0) * (p * of.dissimilarity).sum(axis=1)
    (found,) = rows.query(
        "method == 'CocoaMSP' and variant == 'true' and quality == 'answer_f1' and power == 1.5"
    )["value"]
    assert found == pytest.approx(
        measure("PRR", score.round(12), cell["quality"]["value"].to_numpy())[0]
    )


def test_of_multiple_choice_texts_that_name_one_option_are_one_and_the_gold_one_is_right(
    cell: dict[str, pa.Table],
) -> None:
    frame = cell["candidates"].to_pandas()
    greedy = frame["strategy"] == "greedy"
    surest = frame[greedy].sort_values("logprob")["id"].tail(N // 2)
    frame.loc[greedy, "text"] = "The answer is text 0."  # the same option as the search's "text 0"
    asked = cell["questions"].to_pandas()
    asked["options"] = [[f"text {y}" for y in range(OUTCOMES)]] * N
    asked["references"] = [["text 0" if key in set(surest) else "text 1"] for key in asked["id"]]
    changed = {"candidates": frame, "questions": asked}
    tables = {kind: pa.Table.from_pandas(of, schema=SCHEMAS[kind]) for kind, of in changed.items()}
    prr = mapped(cell | tables).query("metric == 'PRR'")
    assert set(prr["quality"]) == {EXACT_TEXT, "gold_label"}
    by_text = prr[
        (prr["method"] == "Prob") & ((prr["quality"] == "gold_label") | (prr["kappa"] == 1))
    ]
    assert by_text["value"].tolist() == pytest.approx([1.0] * len(by_text))

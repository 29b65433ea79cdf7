"""Evidence out of the tables of a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.methods.method_inputs import UNKNOWN
from beamuq_study.stages.method_inputs_from_tables import CellTables

STRATEGIES = (
    "greedy", "sample T=1.0", "sample T=0.7", "beam M=5", "beam M=10", "diverse G=2 lambda=0.5",
    "hybrid B=3", "wide W=8",
)  # fmt: skip


def cell(tables: dict[str, pa.Table], **options: Any) -> CellTables:
    return CellTables(
        tables["questions"],
        tables["candidates"],
        tables["similarity"],
        tables["judgements"],
        main_beam="beam M=10",
        **options,
    )


def rows(tables: dict[str, pa.Table], kind: str, **equal: object) -> list[dict[str, Any]]:
    return [
        row
        for row in tables[kind].to_pylist()
        if all(row[key] == value for key, value in equal.items())
    ]


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(3).permutation(len(table)))


def without(table: pa.Table, column: str, value: object) -> pa.Table:
    return table.filter(pa.array([x != value for x in table.column(column).to_pylist()]))


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return synthetic.cell(4, STRATEGIES)


def test_the_kinds_that_estimators_read_have_weights_for_other_methods() -> None:
    """Draws of the model's own distribution 1/M, a set its masses, a set with draws both,
    stochastic beams p/q.
    """
    kinds = ("greedy", "systematic M=4", "exact M=4", "stochastic M=4", "optimal_stratified M=4")
    made = synthetic.cell(2, kinds)
    cell = CellTables(made["questions"], made["candidates"], made["similarity"])
    weights = {kind: cell.evidence(kind, "greedy") for kind in kinds}
    np.testing.assert_allclose(weights["systematic M=4"].weights, 0.25)
    np.testing.assert_allclose(weights["optimal_stratified M=4"].weights, 0.25)  # here all drawn
    found = cell.candidate_arrays("stochastic M=4", "greedy")
    ratio = np.exp(found.logprob - found.log_inclusion)
    np.testing.assert_allclose(
        weights["stochastic M=4"].weights, ratio / ratio.sum(axis=1, keepdims=True)
    )


def test_similarities_are_looked_up_by_premise_and_hypothesis(tables: dict[str, pa.Table]) -> None:
    evidence = cell(tables).evidence("sample T=1.0", "greedy")
    for n, key in enumerate(cell(tables).ids):
        answer = rows(tables, "candidates", id=key, strategy="greedy")[0]["text"]
        samples = rows(tables, "candidates", id=key, strategy="sample T=1.0")
        texts = [answer, *(row["text"] for row in samples)]
        entail = {
            (r["premise"], r["hypothesis"]): r["entail"] for r in rows(tables, "similarity", id=key)
        }
        expected = np.array(
            [[entail[premise, hypothesis] for hypothesis in texts] for premise in texts]
        )
        np.testing.assert_array_equal(evidence.pairs.similarity[n], expected)
        np.testing.assert_array_equal(
            evidence.to_produced[n], [entail[answer, text] for text in texts[1:]]
        )
        assert list(evidence.texts[n]) == texts


def test_the_order_of_rows_in_the_files_does_not_matter(tables: dict[str, pa.Table]) -> None:
    mixed = {
        kind: table if kind == "questions" else shuffled(table) for kind, table in tables.items()
    }
    for strategy in STRATEGIES[1:]:
        one, other = (
            cell(tables).evidence(strategy, "greedy"),
            cell(mixed).evidence(strategy, "greedy"),
        )
        np.testing.assert_array_equal(one.logprob, other.logprob)
        np.testing.assert_array_equal(one.pairs.similarity, other.pairs.similarity)
        np.testing.assert_array_equal(one.weights, other.weights)
        np.testing.assert_array_equal(one.token_sar, other.token_sar)
        np.testing.assert_array_equal(one.answer.ccp, other.answer.ccp)


def test_a_budget_takes_the_first_samples(tables: dict[str, pa.Table]) -> None:
    whole, part = (cell(tables).evidence("sample T=1.0", "greedy", budget=M) for M in (None, 3))
    np.testing.assert_array_equal(part.logprob, whole.logprob[:, :3])
    np.testing.assert_array_equal(part.pairs.similarity, whole.pairs.similarity[:, :4, :4])
    np.testing.assert_allclose(part.weights, 1 / 3)


def test_searched_candidates_come_by_descending_probability(tables: dict[str, pa.Table]) -> None:
    table = tables["candidates"]
    turned = table.set_column(
        2, table.schema.field("rank"), pa.array(9 - np.array(table.column("rank")), pa.int32())
    )
    turned = pa.concat_tables([turned, table.filter(pa.compute.equal(table["strategy"], "greedy"))])
    found = cell(tables | {"candidates": turned, "judgements": tables["judgements"].slice(0, 0)})
    for strategy in ("beam M=10", "diverse G=2 lambda=0.5", "wide W=8"):
        assert (np.diff(found.evidence(strategy, "greedy").logprob, axis=1) <= 0).all()
    for strategy in ("sample T=1.0", "hybrid B=3"):
        assert (np.diff(found.evidence(strategy, "greedy").logprob, axis=1) >= 0).all()


def test_equal_entailment_and_contradiction_do_not_link() -> None:
    made = synthetic.cell(3, classes=False)
    even = pa.array(np.full(len(made["similarity"]), 0.5))
    similarity = made["similarity"].set_column(3, made["similarity"].schema.field("entail"), even)
    evidence = cell(made | {"similarity": similarity}, equivalence_threshold=0.5).evidence(
        "sample T=1.0", "greedy"
    )
    np.testing.assert_array_equal(evidence.pairs.linked, evidence.pairs.identical[:, 1:, 1:])
    assert evidence.pairs.same.all()


def test_fewer_beams_than_the_width_are_padded(tables: dict[str, pa.Table]) -> None:
    short = tables | {
        "candidates": tables["candidates"].filter(
            pa.array(
                [r["id"] != "q0001" or r["rank"] < 2 for r in tables["candidates"].to_pylist()]
            )
        )
    }
    evidence = cell(short).evidence("beam M=10", "greedy")
    assert evidence.mask.sum(axis=1).tolist() == [10, 2, 10, 10]
    whole = cell(tables).evidence("beam M=10", "greedy")
    np.testing.assert_array_equal(
        evidence.pairs.similarity[1, :3, :3], whole.pairs.similarity[1, :3, :3]
    )
    np.testing.assert_allclose(evidence.weights.sum(axis=1), 1.0)


def test_the_produced_answer_is_greedy_or_the_first_beam(tables: dict[str, pa.Table]) -> None:
    for answer_source, strategy in (("greedy", "greedy"), ("top_beam", "beam M=10")):
        answer = cell(tables).evidence("sample T=1.0", answer_source).answer
        expected = [
            rows(tables, "candidates", id=k, strategy=strategy, rank=0)[0] for k in cell(tables).ids
        ]
        np.testing.assert_array_equal(answer.logprob, [row["logprob"] for row in expected])
        np.testing.assert_array_equal(answer.length, [len(row["token_ids"]) for row in expected])
        np.testing.assert_allclose(
            answer.mean_entropy, [np.mean(row["entropies"]) for row in expected]
        )
        p_true = [
            rows(tables, "judgements", id=k, answer_source=answer_source, candidate_strategy="")[0]
            for k in cell(tables).ids
        ]
        np.testing.assert_array_equal(
            answer.p_true_logprob, [row["p_true_logprob"] for row in p_true]
        )


def test_ccp_always_counts_the_chosen_token(tables: dict[str, pa.Table]) -> None:
    labels = [
        [["contradict"] * 10] * len(row["ccp_labels"]) for row in tables["judgements"].to_pylist()
    ]
    column = tables["judgements"].column_names.index("ccp_labels")
    field = tables["judgements"].schema.field("ccp_labels")
    changed = tables | {
        "judgements": tables["judgements"].set_column(column, field, pa.array(labels, field.type))
    }
    answer = cell(changed).evidence("sample T=1.0", "greedy").answer
    for n, key in enumerate(cell(tables).ids):
        row = rows(tables, "candidates", id=key, strategy="greedy")[0]
        shares = []
        for chosen, ids, logprobs in zip(
            row["token_ids"], row["top_ids"], row["top_logprobs"], strict=True
        ):
            p = dict(zip(ids, np.exp(logprobs), strict=True))
            shares.append(p[chosen] / sum(p.values()))
        np.testing.assert_allclose(answer.ccp[n], 1 - np.prod(shares))


def test_token_sar_pairs_each_candidate_with_its_own_relevances(
    tables: dict[str, pa.Table],
) -> None:
    evidence = cell(tables).evidence("sample T=0.7", "greedy")
    for n, key in enumerate(cell(tables).ids):
        for rank in range(10):
            row = rows(tables, "candidates", id=key, strategy="sample T=0.7", rank=rank)[0]
            of = {"candidate_strategy": "sample T=0.7", "candidate_rank": rank}
            R = np.array(rows(tables, "judgements", id=key, **of)[0]["token_relevances"])
            R = R if R.sum() else np.ones(len(R))
            np.testing.assert_allclose(
                evidence.token_sar[n, rank], -(R / R.sum()) @ np.array(row["token_logprobs"])
            )


def test_relevances_that_are_missing_are_not_made_up(tables: dict[str, pa.Table]) -> None:
    rank_nine = pa.array([row["candidate_rank"] != 9 for row in tables["judgements"].to_pylist()])
    found = cell(tables | {"judgements": tables["judgements"].filter(rank_nine)})
    assert found.evidence("sample T=1.0", "greedy", budget=9).token_sar is not None
    with pytest.raises(BeamUQError, match=r"relevances of 'sample T=1\.0' lack question 'q0000'"):
        found.evidence("sample T=1.0", "greedy")
    other = without(tables["judgements"], "candidate_strategy", "sample T=1.0")
    assert cell(tables | {"judgements": other}).evidence("sample T=1.0", "greedy").token_sar is None
    first = cell(tables | {"judgements": without(tables["judgements"], "id", "q0000")})
    with pytest.raises(BeamUQError, match="p_true_logprob of question 'q0000' is missing"):
        first.evidence("sample T=1.0", "greedy")


def test_weights_follow_the_strategy(tables: dict[str, pa.Table]) -> None:
    found = cell(tables)
    p = np.exp(found.evidence("sample T=0.7", "greedy").logprob)
    tempered = p ** (1 - 1 / 0.7)
    np.testing.assert_allclose(
        found.evidence("sample T=0.7", "greedy").weights,
        tempered / tempered.sum(axis=1, keepdims=True),
    )
    beams = found.evidence("diverse G=2 lambda=0.5", "greedy")
    p = np.exp(beams.logprob)
    np.testing.assert_allclose(beams.weights, p / p.sum(axis=1, keepdims=True))
    hybrid = found.evidence("hybrid B=3", "greedy")
    p = np.exp(hybrid.logprob)[:, :3]
    np.testing.assert_allclose(hybrid.weights[:, :3], p)
    np.testing.assert_allclose(
        hybrid.weights[:, 3:], np.repeat((1 - p.sum(axis=1, keepdims=True)) / 7, 7, axis=1)
    )


def test_exact_weights_use_the_law_of_the_draw(tables: dict[str, pa.Table]) -> None:
    evidence = cell(tables).evidence("sample T=0.7", "greedy", exact=True)
    for n, key in enumerate(cell(tables).ids):
        drawn = rows(tables, "candidates", id=key, strategy="sample T=0.7")
        ratio = np.exp([row["logprob"] - row["policy_logprob"] for row in drawn])
        np.testing.assert_allclose(evidence.weights[n], ratio / ratio.sum())


def test_equal_texts_share_a_cluster_whatever_the_scorer_says_of_them(
    tables: dict[str, pa.Table],
) -> None:
    evidence = cell(tables).evidence("sample T=1.0", "greedy")
    for texts, clusters in zip(evidence.texts[:, 1:], evidence.pairs.clusters, strict=True):
        for text in set(texts):
            assert len(set(clusters[texts == text])) == 1


def test_a_scorer_without_classes_means_the_same_from_its_threshold_on() -> None:
    made = synthetic.cell(3, classes=False)
    evidence = cell(made, equivalence_threshold=0.4).evidence("sample T=1.0", "greedy")
    S = evidence.pairs.similarity
    np.testing.assert_array_equal(evidence.pairs.same, (S >= 0.4) & (S.transpose(0, 2, 1) >= 0.4))
    np.testing.assert_array_equal(evidence.pairs.contradiction, 1 - S)


def test_the_sentence_similarity_of_sar_is_the_cross_encoders(tables: dict[str, pa.Table]) -> None:
    own = cell(tables).evidence("sample T=1.0", "greedy")
    assert own.sentence_similarity is UNKNOWN
    other = synthetic.cell(4, STRATEGIES)["similarity"]
    halved = other.set_column(
        3, other.schema.field("entail"), pa.array(np.array(other.column("entail")) / 2)
    )
    cross = cell(tables, cross_similarity=halved).evidence("sample T=1.0", "greedy")
    np.testing.assert_array_equal(cross.sentence_similarity, own.among / 2)


@pytest.mark.parametrize(
    ("kind", "column", "value", "message"),
    [
        ("questions", "id", "q0002", r"candidates: id 'q0002' is not in the questions file"),
        ("similarity", "premise", "rome", r"similarity: question 'q\d+' lacks the pair"),
        ("candidates", "strategy", "greedy", r"question 'q0000' has no first 'greedy'"),
        (
            "candidates",
            "strategy",
            "sample T=1.0",
            r"question 'q0000' has fewer than 1 of 'sample T=1.0'",
        ),
    ],
)
def test_tables_that_do_not_belong_together_are_refused_by_name(
    tables: dict[str, pa.Table], kind: str, column: str, value: str, message: str
) -> None:
    with pytest.raises(BeamUQError, match=message):
        cell(tables | {kind: without(tables[kind], column, value)}).evidence(
            "sample T=1.0", "greedy"
        )


def test_a_similarity_file_with_classes_of_some_pairs_is_refused(
    tables: dict[str, pa.Table],
) -> None:
    table = tables["similarity"]
    values = [None, *table.column("neutral").to_pylist()[1:]]
    table = table.set_column(
        table.schema.get_field_index("neutral"), table.schema.field("neutral"), [values]
    )
    with pytest.raises(BeamUQError, match="similarity: some pairs have classes and some have none"):
        cell(tables | {"similarity": table})


@pytest.mark.parametrize("column", ["entail", "neutral", "contradict"])
@pytest.mark.parametrize("bad", [40.0, -0.1, np.nan])
def test_a_similarity_file_with_numbers_outside_their_range_is_refused(
    tables: dict[str, pa.Table], column: str, bad: float
) -> None:
    table = tables["similarity"]
    values = [bad, *table.column(column).to_pylist()[1:]]
    table = table.set_column(
        table.schema.get_field_index(column), table.schema.field(column), [values]
    )
    with pytest.raises(
        BeamUQError, match=rf"similarity: {column}: gave {bad:g}, not finite and from 0 to 1"
    ):
        cell(tables | {"similarity": table})


def test_more_samples_than_were_drawn_or_a_threshold_for_classes_are_refused(
    tables: dict[str, pa.Table],
) -> None:
    with pytest.raises(BeamUQError, match=r"fewer than 11 of 'sample T=1.0'"):
        cell(tables).evidence("sample T=1.0", "greedy", budget=11)
    with pytest.raises(BeamUQError, match="equivalence_threshold"):
        cell(tables, equivalence_threshold=0.8)

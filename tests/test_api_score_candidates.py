"""Anyone's candidates get the workflow's own scores, and a reason wherever there is no score."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import synthetic
from beamuq.api import score_candidates
from beamuq.api import score_file as score_file_module
from beamuq.api.candidate_records import read_records
from beamuq.api.choose_candidates import choose
from beamuq.api.open_models import Similarity
from beamuq.api.score_candidates import COLUMNS, score
from beamuq.errors import BeamUQError
from beamuq.methods.registry import METHODS
from beamuq.scorers.scorer_protocol import PairScores
from beamuq.scorers.similarity_by_kind import FOLDED_WORDS, Lexical
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.produced_answers import needed_pairs
from beamuq_study.stages.method_inputs_from_tables import CellTables
from beamuq_study.stages.score_all_methods import ScoringSettings, score_cell
from tiny_scorers import build_nli

FULL: dict[str, Any] = {
    "id": "q1",
    "answer": {
        "text": "Paris",
        "token_logprobs": [-0.3, -0.1],
        "token_entropies": [1.0, 0.5],
        "p_true_logprob": -0.2,
        "ended": True,
    },
    "samples": [{"text": text, "logprob": -1.0} for text in ("Paris", "Paris", "Lyon", "Rome")],
    "beams": [
        {"text": "Paris", "logprob": math.log(0.6)},
        {"text": "Lyon", "logprob": math.log(0.2)},
    ],
}
BARE: dict[str, Any] = {"id": "q2", "answer": "Rome", "samples": ["Rome", "Milan"]}
NEVER = {"CCP", "SAR"}  # need what only a study's judgements step makes


def values(frame: pd.DataFrame, variant: str | None = None, setting: str = "") -> dict[str, float]:
    """Scores by method."""
    chosen = frame[(frame.setting == setting) & frame.value.notna()]
    if variant is not None:
        chosen = chosen[chosen.variant == variant]
    return dict(zip(chosen.method, chosen.value, strict=True))


def reason(frame: pd.DataFrame, method: str, variant: str = "", setting: str = "") -> str:
    row = frame[(frame.method == method) & (frame.variant == variant) & (frame.setting == setting)]
    assert len(row) == 1
    assert row.value.isna().item() == bool(row.reason.item())
    return str(row.reason.item())


def rows_of(candidates: pa.Table) -> list[dict[str, Any]]:
    """A candidates table as a practitioner's rows."""
    rows = []
    for key, mine in (
        candidates.to_pandas().sort_values("rank", kind="stable").groupby("id", sort=False)
    ):
        by = dict(list(mine.groupby("strategy")))
        (answer,) = by["greedy"].rename(columns={"entropies": "token_entropies"}).to_dict("records")
        told = {name: answer[name] for name in ("text", "token_logprobs", "token_entropies")}
        lists = {"samples": by["sample T=1.0"], "beams": by["beam M=10"]}
        lists = {name: of[["text", "logprob"]].to_dict("records") for name, of in lists.items()}
        rows.append({"id": key, "answer": told, **lists})
    return rows


def test_scores_are_those_of_the_workflow() -> None:
    tables = synthetic.cell(N=5, seed=3)
    candidates = tables["candidates"]
    logprob = (
        candidates.column("logprob").to_numpy() - 1.5
    )  # so that no ten beams hold more than all the mass
    shorter = [
        [p * (total / math.fsum(of)) for p in of]
        for total, of in zip(logprob, candidates.column("token_logprobs").to_pylist(), strict=True)
    ]
    for name, column in (("logprob", pa.array(logprob)), ("token_logprobs", pa.array(shorter))):
        candidates = candidates.set_column(candidates.schema.names.index(name), name, column)
    needed = needed_pairs(candidates, ["greedy"], "beam M=10")
    entail = Lexical().score([(a, b) for _, a, b in needed]).entail
    similarity = pa.Table.from_pylist(
        [
            {"id": q, "premise": a, "hypothesis": b, "entail": s}
            for (q, a, b), s in zip(needed, entail, strict=True)
        ],
        schema=SCHEMAS["similarity"],
    )
    methods = tuple(name for name in METHODS if name not in NEVER | {"PTrue"})
    settings = ScoringSettings(
        methods=methods,
        answer_source=("greedy",),
        main={"sample": "sample T=1.0", "beam": "beam M=10"},
    )
    cell = CellTables(tables["questions"], candidates, similarity, equivalence_threshold=0.8)
    expected = (
        score_cell(cell, settings)
        .to_pandas()
        .set_index(["id", "method", "variant", "setting"])["value"]
    )
    found = score(rows_of(candidates), similarity="lexical", methods=methods)
    found = found.set_index(["id", "method", "variant", "setting"])["value"]
    scored = expected.index.to_frame()
    assert set(scored["id"]) == set(tables["questions"].column("id").to_pylist())
    assert set(scored["method"]) == set(methods)
    pd.testing.assert_series_equal(found.sort_index(), expected.sort_index(), atol=1e-9, rtol=0)


def test_one_question_by_hand() -> None:
    frame = score([FULL], similarity="lexical")
    assert values(frame, "")["Prob"] == pytest.approx(0.4)
    assert values(frame, "")["Perplexity"] == pytest.approx(0.2)
    assert values(frame, "")["MTE"] == pytest.approx(0.75)
    assert values(frame, "")["PTrue"] == pytest.approx(0.2)
    assert values(frame, "multinomial")["Dissimilarity"] == pytest.approx(0.5)
    assert values(frame, "beamsearch")["Dissimilarity"] == pytest.approx(0.25)
    assert values(frame, "beamsearch")["CocoaMSP"] == pytest.approx(0.1)
    assert values(frame, "beamsearch")["CocoaPPL"] == pytest.approx(0.05)


def test_confidence_is_p_where_a_score_is_minus_log_p_and_one_minus_what_lies_in_0_to_1() -> None:
    frame = score([FULL], similarity="lexical").set_index(["method", "variant", "setting"])[
        "confidence"
    ]
    assert frame["Prob", "", ""] == pytest.approx(math.exp(-0.4))
    assert frame["PTrue", "", ""] == pytest.approx(math.exp(-0.2))
    assert frame["Dissimilarity", "beamsearch", ""] == pytest.approx(0.75)
    assert frame[["Perplexity", "Eccentricity", "CocoaPPL"]].isna().all()


def test_an_interval_never_ends_below_its_beginning() -> None:
    beams = [{"text": str(k), "logprob": math.log(p)} for k, p in enumerate((0.7005, 0.29, 0.01))]
    frame = score(
        [{"answer": {"text": "0", "token_logprobs": [-0.3]}, "beams": beams}], similarity="lexical"
    )
    assert (frame["low"] <= frame["high"])[frame["low"].notna()].all()


def interval(frame: pd.DataFrame, method: str, variant: str) -> tuple[float, float]:
    row = frame[(frame.method == method) & (frame.variant == variant) & (frame.setting == "")]
    return float(row.low.item()), float(row.high.item())


NONE = pytest.approx((math.nan, math.nan), nan_ok=True)


def test_the_certified_interval_by_hand() -> None:
    frame = score([FULL], similarity="lexical")
    # Paris 0.6 · 0, Lyon 0.2 · 1, and 0.2 not found; of pairs 2 · 0.6 · 0.2, and 1 − 0.64
    assert interval(frame, "Dissimilarity", "beamsearch") == pytest.approx((0.2, 0.4))
    assert interval(frame, "CocoaMSP", "beamsearch") == pytest.approx((0.08, 0.16))
    assert interval(frame, "DegreeMatrix", "beamsearch") == pytest.approx((0.24, 0.6))
    assert interval(frame, "Eccentricity", "beamsearch") == NONE
    assert interval(frame, "Prob", "") == NONE


def test_samples_have_an_interval_by_one_outcome_a_text() -> None:
    texts = {"Paris": [0.3, 0.5, 0.5], "Lyon": [0.2]}
    samples = [{"text": text, "logprob": math.log(p)} for text, of in texts.items() for p in of]
    frame = score([{"answer": "Paris", "samples": samples}], similarity="lexical")
    assert interval(frame, "Dissimilarity", "multinomial") == pytest.approx((0.2, 0.5))
    warm = score([FULL | {"samples": samples}], similarity="lexical", temperature=0.7)
    assert interval(warm, "Dissimilarity", "multinomial") == NONE
    assert interval(warm, "Dissimilarity", "beamsearch") == pytest.approx((0.2, 0.4))


def test_of_an_answer_without_its_ending_nothing_is_certified() -> None:
    answer = FULL["answer"] | {"without_ending": True}
    assert (
        interval(
            score([FULL | {"answer": answer}], similarity="lexical"), "Dissimilarity", "beamsearch"
        )
        == NONE
    )


def test_a_similarity_with_classes_is_scored_with_no_threshold() -> None:
    class Classes(Lexical):
        def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
            entail = super().score(pairs).entail
            return PairScores(entail, (1 - entail) / 2, (1 - entail) / 2)

    for similarity, threshold in ((Classes(), None), (Lexical(), 0.8)):
        settings = score([BARE], similarity=Similarity("own", similarity))["scored_with"][0]
        assert json.loads(settings)["equivalence_threshold"] == threshold


@pytest.mark.parametrize(("temperature", "noted"), [(1.0, False), (0.7, True)])
def test_samples_at_one_are_weighed_without_their_probability(
    temperature: float, noted: bool
) -> None:
    samples = [
        {"text": text, "logprob": -1.0, "without_ending": True} for text in ("Paris", "Lyon")
    ]
    frame = score(
        [{"answer": "Paris", "samples": samples}], similarity="lexical", temperature=temperature
    )
    (note,) = frame[(frame.method == "Dissimilarity") & (frame.variant == "multinomial")]["note"]
    assert bool(note) == noted


class OfFirstWord(Lexical):
    """Reads the first word of each text."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        beginnings = [(one.split()[0], other.split()[0]) for one, other in pairs]
        cut = np.array([" " in one + other for one, other in pairs])
        return PairScores(super().score(beginnings).entail, cut=cut, limit=1)


LONG_ROWS = [
    {"id": "whole", "answer": "Rome", "samples": [{"text": "Oslo", "logprob": -1.0}]},
    {"id": "one text", "answer": "So Rome", "samples": [{"text": "So Rome", "logprob": -1.0}]},
    {"id": "cut", "answer": "So Rome", "samples": [{"text": "So Oslo", "logprob": -1.0}]},
]


def test_texts_that_the_similarity_cuts_are_told_of_and_certify_nothing() -> None:
    rows = [row | {"answer": {"text": row["answer"], "logprob": -1.0}} for row in LONG_ROWS]
    similarity = Similarity("first", OfFirstWord())
    told = r"similarity first reads 1 tokens at a time: 1 of 3 questions \(first: id 'cut'\)"
    with pytest.warns(UserWarning, match=told) as warned:
        frame = score(rows, similarity=similarity, methods="Dissimilarity,DegreeMatrix")
    assert len(warned) == 1
    over_samples = frame[frame["variant"] == "multinomial"]
    assert over_samples["value"].notna().all()
    without_interval = over_samples.loc[over_samples["low"].isna(), "id"]
    assert without_interval.tolist() == ["cut", "cut"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(rows, similarity=similarity, methods="Prob,LexicalSimilarity")
        score(rows, similarity="lexical", methods="Dissimilarity")


def test_choose_tells_of_texts_that_the_similarity_cuts() -> None:
    told = r"1 of 3 questions \(first: id 'cut'\) have longer texts"
    with pytest.warns(UserWarning, match=told):
        choose(LONG_ROWS, similarity=Similarity("first", OfFirstWord()))


def test_a_file_is_told_of_once_where_its_texts_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_file_module, "BLOCK", 1)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in LONG_ROWS), encoding="utf-8")
    similarity = Similarity("first", OfFirstWord())
    with pytest.warns(UserWarning, match="1 of 3 questions") as warned:
        score_file_module.score_file(path, tmp_path / "scores.jsonl", similarity=similarity)
    assert len(warned) == 1


@pytest.mark.parametrize("second", ["Lyon", {"text": "Lyon", "logprob": math.log(0.9)}])
def test_there_is_no_interval_without_every_probability_or_with_impossible_ones(
    second: Any,
) -> None:
    samples = [{"text": "Paris", "logprob": math.log(0.5)}, second]
    frame = score([{"answer": "Paris", "samples": samples}], similarity="lexical")
    assert interval(frame, "Dissimilarity", "multinomial") == NONE
    assert values(frame, "multinomial")["Dissimilarity"] == pytest.approx(0.5)


def test_texts_alone_get_what_needs_no_log_probability_and_reasons_for_the_rest() -> None:
    frame = score([BARE], similarity="lexical")
    assert set(values(frame)) == {
        *("SemanticEntropy", "LexicalSimilarity", "EigValLaplacian", "NumSemSets", "Dissimilarity"),
        *("Eccentricity", "EigVecDissimilarity", "DegreeMatrix"),
    }
    assert "answer.logprob or answer.token_logprobs" in reason(frame, "Prob")
    assert "answer.logprob or answer.token_logprobs" in reason(frame, "CocoaPPL", "multinomial")
    assert "answer.token_entropies" in reason(frame, "MTE")
    assert "give them under 'beams'" in reason(frame, "Dissimilarity", "beamsearch")
    assert "logprob or token_logprobs with it" in reason(
        frame, "SemanticEntropy", "multinomial", "likelihood-summed"
    )


@pytest.mark.parametrize(
    ("method", "variant"), [("Prob", ""), ("Perplexity", ""), ("Dissimilarity", "beamsearch")]
)
def test_a_reason_that_asks_for_log_probabilities_says_that_the_ending_belongs_to_them(
    method: str, variant: str
) -> None:
    frame = score([BARE | {"beams": ["Rome", "Milan"]}], similarity="lexical")
    assert "ending token included, which a chat server's tokens may lack" in reason(
        frame, method, variant
    )


def test_methods_of_probabilities_read_the_beams_and_none_says_certain_of_one() -> None:
    beams = [{"text": "Paris", "logprob": math.log(0.5)}, {"text": "Rome", "logprob": -2.0}]
    row = {"answer": "Paris", "samples": ["Paris", "Rome"], "beams": beams}
    frame = score([row], similarity="lexical", methods="PRO,BeamEntropy,ProbMargin,GNLL")
    assert values(frame, "")["PRO"] == pytest.approx(2.0 - 0.5 * (2.0 - math.log(2)))
    assert values(frame, "")["GNLL"] == pytest.approx(math.log(2))
    assert set(frame["candidates"]) == {2}
    one_beam = score([row | {"beams": beams[:1]}], similarity="lexical")
    assert values(one_beam, "")["PRO"] == pytest.approx(math.log(2))
    for name in ("BeamEntropy", "ProbMargin"):
        assert reason(one_beam, name) == "needs 2 beams or more; give them under 'beams'"
    unweighed = score([row | {"beams": ["Paris", "Rome"]}], similarity="lexical")
    assert "logprob or token_logprobs with it" in reason(unweighed, "PRO")
    without = score([BARE], similarity="lexical")
    assert reason(without, "PRO") == "needs beams; give them under 'beams'"


def test_of_one_sample_there_is_no_lexical_similarity() -> None:
    row = {"answer": "Rome", "samples": ["Rome"]}
    frame = score([row], similarity="lexical", methods="LexicalSimilarity,Dissimilarity")
    assert reason(frame, "LexicalSimilarity") == (
        "needs 2 samples or more; give them under 'samples'"
    )
    assert values(frame) == {"Dissimilarity": 0}
    two = score([row | {"samples": ["Rome", "Oslo"]}], similarity="lexical")
    assert values(two)["LexicalSimilarity"] == 1


def test_samples_at_another_temperature_need_log_probabilities_for_their_weights() -> None:
    frame = score([BARE], similarity="lexical", temperature=0.5)
    assert "for its weight" in reason(frame, "Dissimilarity", "multinomial")
    weighed = BARE | {
        "samples": [{"text": "Rome", "logprob": -3.0}, {"text": "Milan", "logprob": -1.0}]
    }
    cold = values(score([weighed], similarity="lexical", temperature=0.5))["Dissimilarity"]
    assert cold == pytest.approx(
        math.exp(1.0) / (math.exp(1.0) + math.exp(3.0))
    )  # weights p^(1 - 1/T) = 1/p


def test_a_question_scores_the_same_in_any_company_and_in_blocks_of_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unweighed = FULL | {"id": "q3", "beams": ["Paris", "Lyon"]}
    undrawn = FULL | {"id": "q4", "samples": [{"text": "Paris", "logprob": -1.0}, "Lyon"]}
    rows, asked = [FULL, BARE, unweighed, undrawn], []

    class Counting(Lexical):
        def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
            asked.append(len(pairs))
            return super().score(pairs)

    together = score(rows, similarity="lexical")
    monkeypatch.setattr(score_candidates, "BLOCK_PAIRS", 1)
    pd.testing.assert_frame_equal(
        score(rows, similarity=Similarity("lexical", Counting(), FOLDED_WORDS)), together
    )
    assert len(asked) == len(rows)
    for item in rows:
        mine = together[together.id == item["id"]].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, score([item], similarity="lexical"))
    assert list(dict.fromkeys(together.id)) == ["q1", "q2", "q3", "q4"]


@pytest.mark.parametrize("seed", range(3))
def test_scores_lie_in_the_range_that_is_stated(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def some(probabilities: Any) -> list[dict[str, Any]]:
        return [
            {"text": str(rng.choice(synthetic.WORDS)), "logprob": math.log(p + 1e-9)}
            for p in probabilities
        ]

    rows: list[dict[str, Any]] = []
    for n, size in enumerate(rng.integers(1, 8, 8)):
        known = {
            "token_logprobs": (-rng.random(3) * 5).tolist(),
            "token_entropies": rng.random(3).tolist(),
        }
        answer = {"text": str(rng.choice(synthetic.WORDS))} | known
        samples, beams = some(rng.random(size)), some(rng.dirichlet(np.full(size + 1, 0.3))[:size])
        rows.append({"id": str(n), "answer": answer, "samples": samples, "beams": beams})
    frame = score(rows, similarity="lexical").dropna(subset="value")
    assert len(frame) > 100
    for row in frame.to_dict("records"):
        of = rows[int(row["id"])]
        M = len(of["beams"] if row["variant"] == "beamsearch" else of["samples"])
        low, high = row["range"][1:-1].split(", ")
        limits = {
            "0": 0,
            "1": 1,
            "2": 2,
            "M": M,
            "log M": math.log(M),
            "∞": math.inf,
            "-∞": -math.inf,
        }
        assert limits[low] - 1e-9 <= row["value"] <= limits[high] + 1e-9, row


def test_labels_groups_and_the_model_are_handed_on_and_only_those_that_a_row_has() -> None:
    answer = {"text": "Rome", "logprob": -1.0}
    row = {"answer": answer, "correct": True, "group": 7, "model": "m", "other": 1}
    found = score(
        [row | {"id": "a"}, {"id": "b", "answer": answer}], similarity="lexical", methods="Prob,CCP"
    )
    assert list(found.columns[-3:]) == ["correct", "group", "model"]
    assert (
        found.loc[found["id"] == "a", ["correct", "group", "model"]].to_numpy().tolist()
        == [[1.0, "7", "m"]] * 2
    )
    assert found.loc[found["id"] == "b", ["correct", "group", "model"]].isna().all(axis=None)
    assert list(score([{"answer": answer}], similarity="lexical", methods="Prob").columns) == list(
        COLUMNS
    )


def test_files_frames_and_arrays_say_the_same_as_mappings(tmp_path: Path) -> None:
    mappings = [FULL, BARE | {"id": "7"}]
    expected = read_records(mappings)
    assert [item.id for item in expected] == ["q1", "7"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mappings))
    (tmp_path / "a.json").write_text(json.dumps(mappings))
    assert read_records(tmp_path / "a.jsonl") == read_records(tmp_path / "a.json") == expected
    half = [beam | {"ended": True} for beam in FULL["beams"][:1]] + FULL["beams"][
        1:
    ]  # of the others null in Parquet
    assert read_records(pa.Table.from_pylist([FULL | {"beams": half}]).to_pandas())
    pq.write_table(
        pa.Table.from_pylist([FULL, FULL | {"id": "7", "beams": None}]), tmp_path / "a.parquet"
    )
    first, second = read_records(tmp_path / "a.parquet")
    assert (first, second.beams) == (expected[0], [])
    frame = pd.DataFrame([FULL, BARE | {"id": 7}])  # BARE has no beams: a hole
    frame["samples"] = [np.array(samples, dtype=object) for samples in frame["samples"]]
    told = FULL["answer"] | {
        "token_logprobs": np.array([-0.3, -0.1]),
        "p_true_logprob": np.float64(-0.2),
    }
    frame.at[0, "answer"] = told
    assert read_records(frame) == expected
    with pytest.raises(BeamUQError, match="row 1: a str; give a list of mappings"):
        read_records(FULL)  # type: ignore[arg-type]
    with pytest.raises(BeamUQError, match="rows: a NoneType; give a list of mappings"):
        read_records(None)  # type: ignore[arg-type]
    with pytest.raises(BeamUQError, match="no such file"):
        read_records("x\0.jsonl")
    (tmp_path / "a.json").write_text(json.dumps(mappings), encoding="utf-8-sig")
    assert read_records(tmp_path / "a.json") == expected


def test_nli_classes_decide_meaning_without_a_threshold(tmp_path: Path) -> None:
    frame = score([FULL], similarity=f"nli:{build_nli(tmp_path / 'nli')}", device="cpu")
    assert set(frame.similarity) == {f"nli:{tmp_path / 'nli'}"}
    assert (
        set(values(frame, "beamsearch"))
        == {n for n, m in METHODS.items() if "beamsearch" in m.variants} - NEVER
    )


LIKELY = {"text": "a", "logprob": -0.1}


@pytest.mark.parametrize("hole", [pd.NA, pd.NaT])
@pytest.mark.parametrize("key", ["server", "model", "samples", "group", "correct", "question"])
def test_na_of_pandas_in_a_mapping_is_null(key: str, hole: Any) -> None:
    row = {"id": "q", "answer": "a", "samples": ["a", "b"], "beams": [LIKELY]}
    with_null = score([row | {key: None}], similarity="lexical")
    pd.testing.assert_frame_equal(score([row | {key: hole}], similarity="lexical"), with_null)


@pytest.mark.parametrize("hole", [pd.NA, pd.NaT])
@pytest.mark.parametrize(
    "changed", [lambda hole: {"answer": hole}, lambda hole: {"samples": ["a", hole]}]
)
def test_a_row_with_na_of_pandas_in_the_place_of_a_text_is_left_out_where_asked(
    changed: Callable[[Any], dict[str, Any]], hole: Any
) -> None:
    rows = [{"id": str(number), "answer": "a", "samples": ["a", "b"]} for number in range(4)]
    rows[3] |= changed(hole)
    with pytest.raises(BeamUQError, match=r"row 4: .*null: give a text"):
        score(rows, similarity="lexical")
    with pytest.warns(UserWarning, match="1 of 4"):
        scores = score(rows, similarity="lexical", skip_invalid=True)
    assert scores["id"].nunique() == 3


def test_na_of_pandas_in_a_response_is_null() -> None:
    message = {"role": "assistant", "content": "a"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}

    def row(hole: Any) -> dict[str, Any]:
        response = {"id": hole, "object": "chat.completion", "model": hole, "choices": [choice]}
        line = {"custom_id": hole, "response": {"status_code": hole, "body": response}}
        return {"answer": line, "samples": ["a", "b"]}

    with_null = score([row(None)], similarity="lexical")
    pd.testing.assert_frame_equal(score([row(pd.NA)], similarity="lexical"), with_null)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"samples": ["a"]}, "answer: .*missing"),
        ({"answer": None}, "answer: null: give a text, or an object with 'text'"),
        ({"answer": "a", "samples": "b"}, 'samples: "b": .*list'),
        ({"answer": {"text": "a", "logprob": 0.7}}, "answer.logprob: 0.7: .*at most 0"),
        ({"answer": {"text": "a", "logprob": math.nan}}, "answer.logprob: NaN: must be a finite"),
        *[
            (
                {"answer": {"text": "a", "token_entropies": [0.1, entropy]}},
                r"answer.token_entropies\[1\]: .*nats from 0",
            )
            for entropy in (1e308, 16.2, -0.1, math.nan, math.inf)
        ],
        (
            {"answer": {"text": "a", "tokens": 10**400}},
            "answer.tokens: .*less than or equal to 1000000",
        ),
        (
            {"answer": LIKELY | {"token_logprobs": [-0.2, -0.2]}},
            "answer: .*is not the sum of token_logprobs",
        ),
        (
            {"answer": {"text": "a", "token_logprobs": [-0.2], "tokens": 3}},
            "answer: lengths disagree",
        ),
        (
            {"answer": {"text": "a", "log_prob": -0.2}},
            "answer.log_prob: .*unknown key; did you mean 'logprob'",
        ),
        ({"answer": "a", "beams": [LIKELY, LIKELY | {"logprob": -0.2}]}, "beams: .*sum to 1.72"),
        ({"answer": "a", "beams": [{"text": "b", "logprob": -2.5}] * 2}, "beams: 'b' stands twice"),
        (
            {"answer": "a", "beams": [{"text": t, "logprob": -2, "token_ids": [7]} for t in "bc"]},
            "beams: 'c' stands twice",
        ),
        ({"answer": "a", "samples": ["b"] * 501}, "samples: .*at most 500"),
        ({"answer": "word " * 100_000, "samples": ["b"]}, "answer.text: .*at most 100000"),
    ],
)
def test_a_bad_row_is_told_by_place_and_key_in_one_line(row: dict[str, Any], told: str) -> None:
    with pytest.raises(BeamUQError, match=f"row 1: {told}") as caught:
        score([row], similarity="lexical")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"similarity": "lexicon"}, "similarity: unknown name 'lexicon'; did you mean 'lexical'"),
        ({"similarity": "nli"}, "needs a model; write nli:FOLDER"),
        (
            {"methods": ["Disimilarity"]},
            "methods: unknown name 'Disimilarity'; did you mean 'Dissimilarity'",
        ),
        (
            {"temperature": 0.0},
            "temperature: 0.0: Input should be greater than or equal to 0.000001",
        ),
    ],
)
def test_a_bad_option_is_told_in_one_line(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        score([BARE], **({"similarity": "lexical"} | options))


def test_wide_has_a_row_a_question_in_order_and_a_column_a_score() -> None:
    rows = [FULL | {"id": "z"}, BARE | {"id": "a"}]
    scores = score(rows, similarity="lexical", methods="Dissimilarity,Prob,PTrue,MTE")
    wide = scores.wide()
    assert list(wide.index) == ["z", "a"]
    assert wide.index.name == "id"
    names = ["Dissimilarity + multinomial", "Dissimilarity + beamsearch", "Prob", "PTrue", "MTE"]
    assert list(wide.columns) == names
    assert wide["Prob"].isna().tolist() == [False, True]
    assert wide.loc["z", "Dissimilarity + beamsearch"] == scores["Dissimilarity"]["z"]
    assert type(wide) is pd.DataFrame


def test_wide_leaves_out_what_no_question_has_and_names_what_stands_twice() -> None:
    scores = score([BARE], similarity="lexical", methods="Dissimilarity,Prob")
    assert list(scores.wide().columns) == ["Dissimilarity + multinomial"]
    with pytest.raises(BeamUQError, match=r"id 'q2': Dissimilarity \+ multinomial stands twice"):
        pd.concat([scores, scores]).wide()


def test_a_frame_of_scores_shows_itself_a_row_a_question() -> None:
    scores = score([FULL, BARE], similarity="lexical", methods="Dissimilarity,Prob")
    heading = "3 scores of 2 questions, higher = more uncertain; similarity: lexical"
    assert repr(scores).splitlines()[0] == heading
    assert f"<p>{heading}</p>" in str(scores._repr_html_())
    one = score([BARE], similarity="lexical", methods="Dissimilarity,Prob")
    assert "2 more have no value (column reason)" in repr(one)
    forms = (
        "over samples (multinomial): Dissimilarity + multinomial; "
        "over beams (beamsearch): Dissimilarity + beamsearch; of the answer alone: Prob"
    )
    assert repr(scores).splitlines()[-1] == forms
    assert f"<p>{forms}</p>" in str(scores._repr_html_())
    in_one_form = score([FULL], similarity="lexical", methods="LexicalSimilarity,PRO")
    assert repr(in_one_form).endswith("over samples: LexicalSimilarity; over beams: PRO")
    two_columns = scores[["id", "value"]]
    assert repr(two_columns) == repr(pd.DataFrame(two_columns))
    assert "q2" in repr(pd.concat([scores, scores]))


def test_a_frame_counts_as_many_scores_as_it_lists_below() -> None:
    text = repr(score([FULL], similarity="lexical", methods="all"))
    count = int(text.split()[0])
    forms = text.splitlines()[-1].split("; ")
    listed = [name for form in forms for name in form.partition(": ")[2].split(", ")]
    assert len(listed) == len(set(listed)) == count
    assert "GNLL" in "".join(listed)


def test_a_frame_of_scores_over_draws_names_them_below_and_shows_no_column_of_one() -> None:
    rows = [BARE | {"samples": ["Rome", "Milan", "Rome", "Bari"]}]
    methods = "Dissimilarity,LexicalSimilarity"
    scores = score(rows, similarity="lexical", methods=methods, draw_size=2)
    text = repr(scores)
    assert text.startswith("2 scores of 1 questions")
    *table, footer = text.splitlines()
    assert "draw=" not in "".join(table)
    hidden = "M=2 draw=1 to M=2 draw=2, of Dissimilarity, LexicalSimilarity"
    assert f"not shown: each draw of samples, {hidden} (columns of scores.wide())" in footer
    html = str(scores._repr_html_())
    assert html.count("draw=") == 2
    one_draw = scores[scores["setting"] == "M=2 draw=1"]
    assert "Dissimilarity M=2 draw=1 + multinomial" in repr(one_draw)
    assert "not shown" not in repr(one_draw)
    assert len(scores.wide().columns) == 6


def test_one_right_answer_may_be_a_text() -> None:
    row = {"answer": "Oslo", "samples": ["Oslo", "Bergen"]}
    (record,) = read_records([row | {"answers": "Oslo"}])
    assert record.answers == ["Oslo"]


def test_a_score_is_had_by_the_name_that_is_printed_and_by_the_form_s_plain_word() -> None:
    beams = [{"text": "Rome", "logprob": -0.5}, {"text": "Bari", "logprob": -1.5}]
    rows = [{"answer": "Rome", "samples": ["Rome", "Bari"], "beams": beams}]
    scores = score(rows, similarity="lexical")
    over_samples = scores.scores_of("Dissimilarity", "multinomial")
    assert scores["Dissimilarity + multinomial"].equals(over_samples)
    assert scores.scores_of("Dissimilarity", "samples").equals(over_samples)
    over_beams = scores.scores_of("Dissimilarity", "beams")
    assert scores["Dissimilarity"].equals(over_beams)
    assert not over_beams.equals(over_samples)
    with pytest.raises(BeamUQError, match=r"did you mean .Dissimilarity \+ multinomial."):
        scores["Dissimilarity + multinomal"]

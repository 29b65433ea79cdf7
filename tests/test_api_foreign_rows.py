"""Rows of other tools are scored as they are; what cannot be read, or is compared with itself, is
told.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import beamuq
from beamuq.api.candidate_records import read_records
from beamuq.api.foreign_rows import Keys
from beamuq.api.key_paths import ABSENT, hint_of_path, value_at
from beamuq.api.rows import write
from beamuq.cli import main
from beamuq.errors import BeamUQError
from test_explorer_page import unpacked

THEIRS = [
    {
        "question_id": 7 + number,
        "answer": "gold",
        "response": text,
        "outputs": [{"text": text}, {"text": other}],
    }
    for number, (text, other) in enumerate((("Rome", "Oslo"), ("Bern", "Bern")))
]


def scored(rows: Any, **options: Any) -> dict[str, float]:
    scores = beamuq.score(rows, similarity="lexical", methods="Dissimilarity", **options)
    values: dict[str, float] = scores["Dissimilarity"].to_dict()
    return values


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", {"b": [1, 2]}),
        ("a.b", [1, 2]),
        ("a.b.1", 2),
        ("a.b.2", ABSENT),
        ("c.d", [3, 4]),
        ("c.0.d", 3),
        ("c.e", ABSENT),
        ("x.y", 5),
        ("a.b.z", ABSENT),
        ("z", ABSENT),
    ],
)
def test_a_path_leads_into_objects_and_lists(path: str, value: object) -> None:
    row = {"a": {"b": [1, 2]}, "c": [{"d": 3}, {"d": 4}], "x.y": 5}
    assert value_at(row, path) == value


def test_another_tools_answer_and_samples_are_read_where_they_stand() -> None:
    assert scored(THEIRS, answer_key="response", samples_key="outputs.text") == {"1": 0.5, "2": 0}
    assert scored(THEIRS, answer_key="outputs.1.text", samples_key="outputs.text") == {
        "1": 0.5,
        "2": 0,
    }


def test_without_keys_a_column_that_is_nearly_one_of_ours_is_still_refused() -> None:
    with pytest.raises(BeamUQError, match="question_id"):
        scored(THEIRS)


def test_a_key_that_a_row_lacks_is_refused_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path / "theirs.jsonl", [json.dumps(row) for row in THEIRS])
    with pytest.raises(BeamUQError, match=r"theirs\.jsonl: line 1: respons: .*'response'"):
        scored(file, answer_key="respons", samples_key="outputs.text")


NESTED = [
    {
        "meta": {"uid": uid},
        "output": {"text": text},
        "choices": [{"text": text}, {"text": "Oslo"}],
        "grade": {"ok": ok, "comment": None},
    }
    for uid, text, ok in (("a", "Rome", True), (7, "Bern", 0), ("c", "Kyiv", None))
]
NESTED_KEYS = {
    "answer_key": "output.text",
    "samples_key": "choices.text",
    "id_key": "meta.uid",
    "correct_key": "grade.ok",
}


def test_another_tools_ids_and_labels_are_read_where_they_stand() -> None:
    scores = beamuq.score(NESTED, similarity="lexical", methods="Dissimilarity", **NESTED_KEYS)
    labels = scores.drop_duplicates("id").set_index("id")["correct"]
    assert labels.index.tolist() == ["a", "7", "c"]
    assert labels.tolist()[:2] == [1.0, 0.0]
    assert math.isnan(labels["c"])


@pytest.mark.parametrize(
    "ungraded", [{"grade": None}, {"grade": {}}, {}], ids=["null", "empty", "absent"]
)
def test_a_label_that_is_not_there_in_one_row_is_not_known(ungraded: dict[str, Any]) -> None:
    rows = [
        THEIRS[0] | ungraded,
        THEIRS[1] | {"grade": {"correct": True}},
    ]
    scores = beamuq.score(
        iter(rows),
        similarity="lexical",
        methods="Dissimilarity",
        answer_key="response",
        samples_key="outputs.text",
        correct_key="grade.correct",
    )
    labels = scores.loc[scores["value"].notna(), "correct"].tolist()
    assert math.isnan(labels[0])
    assert labels[1] == 1


def test_a_path_of_labels_that_no_row_has_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"^row 1: grade\.right: no such key; .*no row has this"):
        scored(
            [THEIRS[0], THEIRS[1] | {"grade": {"correct": True}}],
            answer_key="response",
            samples_key="outputs.text",
            correct_key="grade.right",
        )


def test_an_empty_list_of_choices_is_no_samples() -> None:
    failed = THEIRS[0] | {"outputs": []}
    options = {"answer_key": "response", "samples_key": "outputs.text"}
    with pytest.raises(BeamUQError, match=r"row 1: outputs\.text: no samples"):
        scored([failed, THEIRS[1]], **options)
    with pytest.warns(UserWarning, match="1 of 3 rows left out"):
        values = scored([failed, *THEIRS], skip_invalid=True, **options)
    assert list(values) == ["2", "3"]
    with_logprob = [row | {"logprob": -0.1} for row in (failed, THEIRS[1])]
    scores = beamuq.score(
        with_logprob, similarity="lexical", answer_logprobs_key="logprob", **options
    )
    assert scores["Prob"].to_dict() == {"1": 0.1, "2": 0.1}


def test_an_answer_behind_an_empty_list_is_said_to_be_that() -> None:
    failed = THEIRS[0] | {"outputs": []}
    with pytest.raises(BeamUQError, match="row 1: outputs: an empty list, so there is no outputs"):
        scored([failed], answer_key="outputs.0.text", samples_key="outputs.text")


def test_objects_with_a_text_among_other_keys_are_refused_with_the_path_of_the_text() -> None:
    choices = [{"index": 0, "text": "Rome"}, {"index": 1, "text": "Oslo"}]
    row = {"response": "Rome", "choices": choices, "first": choices[0]}
    with pytest.raises(BeamUQError, match=r"did you mean --samples-key choices\.text\?"):
        scored([row], answer_key="response", samples_key="choices")
    with pytest.raises(BeamUQError, match=r"did you mean --answer-key first\.text\?"):
        scored([row], answer_key="first", samples_key="choices.text")


def test_what_was_taken_for_a_response_may_be_another_tools_log() -> None:
    choices = [{"index": 0, "text": "Rome"}, {"index": 1, "text": "Oslo"}]
    with pytest.raises(BeamUQError, match=r"another tool's log\? Say with answer_key"):
        scored([{"response": "Rome", "choices": choices}])


def test_scores_in_the_place_of_rows_are_said_to_be_that(tmp_path: Path) -> None:
    file = tmp_path / "rows.scored.jsonl"
    write(beamuq.score([OUR_ROW], similarity="lexical", with_ending=True), file)
    with pytest.raises(BeamUQError, match="a score, as score wrote it; give the rows that were"):
        beamuq.explore(file, similarity="lexical")


def test_the_id_of_a_line_that_is_a_response_is_at_its_key() -> None:
    choice = {"message": {"content": "Rome"}, "finish_reason": "stop"}
    response = {"id": "chatcmpl-1", "model": "m", "choices": [choice, choice], "our": {"id": 5}}
    batch = {"custom_id": "b-1", "response": {"body": response}, "our": {"id": 5}}
    assert list(scored([response], id_key="our.id")) == ["5"]
    assert list(scored([batch], id_key="our.id")) == ["5"]


def test_keys_of_a_line_of_lm_eval_are_those_that_it_has() -> None:
    log = Path(__file__).parent / "lm_eval_logs"
    (line, *_) = (row for path in sorted(log.glob("*.jsonl")) for row in path.open())
    row = json.loads(line) | {"judged": {"right": 1}, "name": "first"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = beamuq.score(
            [row], similarity="lexical", id_key="name", correct_key="judged.right"
        )
    assert set(scores["id"]) == {"first"}
    assert set(scores["correct"]) == {1.0}


@pytest.mark.parametrize("value", ["C", 0.5, 2, [1], "yes"])
def test_what_is_no_label_is_refused_with_row_path_and_value(value: object) -> None:
    row = NESTED[0] | {"grade": {"ok": value}}
    shown = re.escape(repr(value))
    with pytest.raises(BeamUQError, match=rf"row 1: grade\.ok: {shown}: must be 0 or 1"):
        scored([row], **NESTED_KEYS)


@pytest.mark.parametrize(
    ("option", "path", "suggestion"),
    [
        ("answer_key", "output.txt", "'output.text'"),
        ("answer_key", "outputs.text", "'output.text'"),
        ("answer_key", "Output.Text", "'output.text'"),
        ("answer_key", "choices.0.txt", "'choices.0.text'"),
        ("answer_key", "choices.5.text", "'choices.0.text' or 'choices.1.text'"),
        ("samples_key", "choice.text", "'choices.text'"),
        ("samples_key", "choices.txt", "'choices.text'"),
        ("id_key", "meta.id", "'meta.uid'"),
        ("id_key", "uid", "'meta.uid'"),
        ("correct_key", "grade.okay", "'grade.ok'"),
    ],
)
def test_a_path_that_leads_nowhere_is_named_with_the_nearest_whole_path(
    option: str, path: str, suggestion: str
) -> None:
    with pytest.raises(BeamUQError) as refused:
        scored(NESTED, **NESTED_KEYS | {option: path})
    message = str(refused.value)
    assert message.startswith(f"row 1: {path}: no such key; did you mean {suggestion}? ")
    assert f"{option} (--{option.replace('_', '-')})" in message


def test_where_no_path_is_near_all_are_listed() -> None:
    with pytest.raises(BeamUQError, match=r"there are: meta, meta\.uid, output, output\.text"):
        scored(NESTED, **NESTED_KEYS | {"answer_key": "zzz"})


def test_every_path_that_is_suggested_leads_somewhere() -> None:
    row: dict[str, Any] = {"a": [{"b": 1}, {"c": 2}], "d.e": {"f": [[{"g": 1}]]}, "h": []}
    for path in ("a.x", "a.b", "a.0.x", "a.1.b", "d.e.x", "d.x.f", "h.0", "x.0"):
        for name in re.findall(r"'([^']+)'", hint_of_path(row, path)):
            assert value_at(row, name) is not ABSENT, (path, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": {"text": 5}}, r"row 1: output\.text: 5: give a text"),
        ({"output": {"text": None}}, r"row 1: output\.text: null"),
        ({"output": {"text": "x" * 100_001}}, r"row 1: output\.text: "),
        (
            {"choices": [{"text": "Rome"}, {"text": 7}]},
            r"row 1: choices\.text\[1\]: 7: give a text",
        ),
        ({"choices": [{"text": "x" * 100_001}]}, r"row 1: choices\.text\[0\]: "),
        ({"output": {"text": {"txt": "Rome"}}}, r"output\.text\.txt: .*'output\.text\.text'"),
        ({"meta": {"uid": 1.5}}, r"row 1: meta\.uid: 1\.5"),
        ({"meta": {"uid": None}}, r"row 1: meta\.uid: null; give a text or a whole number"),
        ({"meta": {"uid": 7}}, r"row 2: meta\.uid '7' stands twice"),
    ],
)
def test_what_is_wrong_at_a_path_is_named_by_that_path(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BeamUQError, match=message):
        scored([NESTED[0] | change, *NESTED[1:]], **NESTED_KEYS)


def test_null_in_the_place_of_samples_is_told_with_what_is_due() -> None:
    row = {"said": "Rome", "sampled": None}
    with pytest.raises(BeamUQError, match="sampled: null; give a list of texts, or a response"):
        scored([row], answer_key="said", samples_key="sampled")


def test_explore_takes_what_is_said_of_endings(tmp_path: Path) -> None:
    row = {"answer": {"text": "Rome", "token_logprobs": [-0.1]}, "samples": ["Rome", "Oslo"]}
    file = written(tmp_path / "rows.jsonl", [json.dumps(row)])
    with pytest.warns(UserWarning, match="say with_ending"):
        beamuq.explore(file, similarity="lexical")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        main(["explore", str(file), "--similarity", "lexical", "--with-ending"])
        main(["explore", str(file), "--similarity", "lexical", "--without-ending"])
    with pytest.raises(BeamUQError, match="both"):
        beamuq.explore(file, similarity="lexical", with_ending=True, without_ending=True)


def test_explore_shows_the_question_and_leaves_out_what_cannot_be_read(tmp_path: Path) -> None:
    rows = [row | {"asked": {"text": f"Capital {k}?"}} for k, row in enumerate(NESTED)]
    rows[0]["choices"] = [{"text": "Rome"}, {"text": None}]
    file = written(tmp_path / "theirs.jsonl", ["null", *map(json.dumps, rows)])
    options = [f"--{name.replace('_', '-')}={path}" for name, path in NESTED_KEYS.items()]
    options += ["--question-key=asked.text", "--similarity=lexical"]
    with pytest.warns(UserWarning, match="left out") as caught:
        main(["explore", str(file), *options, "--skip-invalid", "--skip-invalid-samples"])
    told = [str(warning.message) for warning in caught]
    assert any("1 of 4 rows left out" in line for line in told)
    assert any("1 of 6 samples left out, in 1 rows" in line for line in told)
    page = str(unpacked(file.with_suffix(".explorer.html").read_text()))
    assert all(f"Capital {k}?" in page for k in range(3))


def test_rows_of_ones_own_keep_their_references_in_explore_beside_one_left_out(
    tmp_path: Path,
) -> None:
    rows = [
        json.dumps({"answer": text, "samples": [text, "Oslo"], "references": [f"{text}!"]})
        for text in ("Rome", "Bern")
    ]
    file = written(tmp_path / "rows.jsonl", [rows[0], "null", rows[1]])
    with pytest.warns(UserWarning, match="1 of 3 rows left out"):
        html = beamuq.explore(file, similarity="lexical", skip_invalid=True).read_text()
    page = str(unpacked(html))
    assert "Rome!" in page
    assert "Bern!" in page
    assert "Of 3 rows 1 cannot be read and are left out." in page


def test_explore_takes_the_same_keys(tmp_path: Path) -> None:
    file = written(tmp_path / "theirs.jsonl", [json.dumps(row) for row in NESTED])
    page = beamuq.explore(file, similarity="lexical", **NESTED_KEYS)
    assert page.stat().st_size > 1000
    options = [f"--{name.replace('_', '-')}={path}" for name, path in NESTED_KEYS.items()]
    main(["explore", str(file), "--similarity", "lexical", *options])
    (tmp_path / "study").mkdir()
    with pytest.raises(BeamUQError, match=r"study: answer_key, .* leave them out"):
        beamuq.explore(tmp_path / "study", answer_key="output.text")


SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "Capital of Italy?"}
TOLD = {"role": "assistant", "content": "Of which?"}
IN_PARTS = {"role": "user", "content": [{"type": "text", "text": "Capital of Norway?"}]}


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([SYSTEM, ASKED], "Capital of Italy?"),
        ([ASKED, TOLD, IN_PARTS], "Capital of Norway?"),
        ([SYSTEM, ASKED, TOLD], "Capital of Italy?"),
    ],
)
def test_of_chat_messages_the_users_last_is_the_question_that_is_shown(
    messages: list[dict[str, Any]], shown: str, tmp_path: Path
) -> None:
    row = {"messages": messages, "response": "Rome", "outputs": ["Rome", "Oslo"]}
    file = written(tmp_path / "theirs.jsonl", [json.dumps(row)])
    page = beamuq.explore(
        file,
        similarity="lexical",
        answer_key="response",
        samples_key="outputs",
        question_key="messages",
    )
    assert unpacked(page.read_text())["cells"][0]["questions"] == [shown]


@pytest.mark.parametrize("value", [["Capital?"], [SYSTEM], [], [TOLD, "Capital?"]])
def test_a_list_that_is_no_question_is_refused_with_key_and_fix(
    value: list[Any], tmp_path: Path
) -> None:
    row = {"asked": value, "response": "Rome", "outputs": ["Rome", "Oslo"]}
    file = written(tmp_path / "theirs.jsonl", [json.dumps(row)])
    with pytest.raises(BeamUQError, match=r"line 1: asked: a list, .*--question-key"):
        beamuq.explore(
            file,
            similarity="lexical",
            answer_key="response",
            samples_key="outputs",
            question_key="asked",
        )


WITH_LOGPROBS = {
    "response": "Rome",
    "outputs": [{"text": "Rome", "lp": -0.5}, {"text": "Oslo", "lp": -1.5}],
    "scores": {"tokens": [-0.3, -0.2], "each": [[-0.3, -0.2], [-1.5]]},
}
LOGPROB_KEYS = {
    "answer_key": "response",
    "samples_key": "outputs.text",
    "answer_logprobs_key": "scores.tokens",
    "samples_logprobs_key": "outputs.lp",
}
OUR_ROW = {
    "answer": {"text": "Rome", "token_logprobs": [-0.3, -0.2]},
    "samples": [{"text": "Rome", "logprob": -0.5}, {"text": "Oslo", "logprob": -1.5}],
}


@pytest.mark.parametrize("samples_logprobs_key", ["outputs.lp", "scores.each"])
def test_another_tools_log_probabilities_are_read_where_they_stand(
    samples_logprobs_key: str,
) -> None:
    keys = LOGPROB_KEYS | {"samples_logprobs_key": samples_logprobs_key}
    theirs = beamuq.score([WITH_LOGPROBS], similarity="lexical", **keys)
    ours = beamuq.score([OUR_ROW], similarity="lexical")
    assert theirs.equals(ours)
    assert theirs["Prob"].to_dict() == {"1": 0.5}
    assert theirs["Perplexity"].to_dict() == {"1": 0.25}


def test_log_probabilities_without_their_ending_are_marked_where_that_is_said() -> None:
    options = {"similarity": "lexical", "methods": "Prob,CocoaMSP", "without_ending": True}
    scores = beamuq.score([WITH_LOGPROBS], **options, **LOGPROB_KEYS)
    with_value = scores[scores["value"].notna()]
    assert set(with_value["method"]) == {"Prob", "CocoaMSP"}
    assert (with_value["note"] != "").all()
    assert with_value["low"].isna().all()


def test_a_single_samples_log_probabilities_may_stand_alone_as_it_does() -> None:
    row = {"answer": "Rome", "drawn": "Oslo", "lp": [-0.5, -0.5]}
    scores = beamuq.score(
        [row],
        similarity="lexical",
        temperature=0.5,
        samples_key="drawn",
        samples_logprobs_key="lp",
    )
    assert scores["Dissimilarity"].to_dict() == {"1": 1.0}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, r"scores\.tokens: 0\.5: must be a finite natural logarithm"),
        ([-0.3, float("nan")], r"scores\.tokens\[1\]: nan: must"),
        ([-0.3, float("-inf")], r"scores\.tokens\[1\]: -inf: must"),
        ([-0.3, None], r"scores\.tokens\[1\]: null: must"),
        (True, r"scores\.tokens: True: must"),
        ("-0.3", r"scores\.tokens: '-0\.3': must"),
        ([{"token": "Rome", "logprob": -0.3}], r"scores\.tokens\[0\]: \{'token'.*: must"),
        ([], r"scores\.tokens: \[\]: no token"),
    ],
)
def test_what_is_no_log_probability_of_an_answer_is_refused_with_row_key_and_value(
    value: object, message: str
) -> None:
    row = WITH_LOGPROBS | {"scores": {"tokens": value}}
    with pytest.raises(BeamUQError, match=f"row 2: {message}"):
        beamuq.score([WITH_LOGPROBS, row], similarity="lexical", **LOGPROB_KEYS)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([-0.5], r"lps: 1 entries for 2 samples"),
        ([[-0.5], [-0.1], [-0.2]], r"lps: 3 entries for 2 samples"),
        (-0.5, r"lps: -0\.5: must be a list of one entry a sample, of 2"),
        ([-0.5, 2.0], r"lps\[1\]: 2\.0: must be a finite"),
        ([[-0.5], [-0.1, 1]], r"lps\[1\]\[1\]: 1: must be a finite"),
    ],
)
def test_what_is_not_one_log_probability_a_sample_is_refused_too(
    value: object, message: str
) -> None:
    keys = LOGPROB_KEYS | {"samples_logprobs_key": "lps"}
    with pytest.raises(BeamUQError, match=f"row 1: {message}"):
        beamuq.score([WITH_LOGPROBS | {"lps": value}], similarity="lexical", **keys)


def test_log_probabilities_that_stand_twice_or_beside_no_text_are_refused() -> None:
    stated = {"answer": {"text": "Rome", "logprob": -1.0}, "samples": ["Rome"], "lp": -1.0}
    with pytest.raises(BeamUQError, match="row 1: lp: its text has logprob already"):
        beamuq.score([stated], similarity="lexical", answer_logprobs_key="lp")
    with pytest.raises(BeamUQError, match="row 1: lp: no text beside it; say by answer_key"):
        beamuq.score([{"a": "Rome", "lp": -1.0}], answer_logprobs_key="lp")
    with pytest.raises(BeamUQError, match="row 1: lp: no list of samples beside it"):
        beamuq.score([{"answer": "Rome", "lp": [-1.0]}], samples_logprobs_key="lp")


def test_a_row_of_a_bad_log_probability_can_be_left_out() -> None:
    bad = WITH_LOGPROBS | {"scores": {"tokens": [0.5]}}
    with pytest.warns(UserWarning, match=r"1 of 2 rows left out: row 2: scores\.tokens\[0\]: 0\.5"):
        scores = beamuq.score(
            [WITH_LOGPROBS, bad], similarity="lexical", skip_invalid=True, **LOGPROB_KEYS
        )
    assert scores["Prob"].to_dict() == {"1": 0.5}


UNKNOWN = [{"scores": None}, {"scores": {"tokens": None}}, {"scores": {}}]


@pytest.mark.parametrize("unknown", UNKNOWN, ids=["parent null", "null", "absent"])
def test_log_probabilities_that_are_not_there_in_one_row_are_not_known(
    unknown: dict[str, Any],
) -> None:
    keys = LOGPROB_KEYS | {"samples_logprobs_key": "scores.each"}
    rows = [WITH_LOGPROBS | unknown, WITH_LOGPROBS]
    scores = beamuq.score(rows, similarity="lexical", with_ending=True, **keys)
    assert scores["Dissimilarity"].to_dict() == {"1": 0.5, "2": 0.5}
    assert scores["Prob"].dropna().to_dict() == {"2": 0.5}


def test_a_sample_whose_log_probability_is_null_has_none() -> None:
    row = WITH_LOGPROBS | {"lps": [-0.5, None]}
    keys = LOGPROB_KEYS | {"samples_logprobs_key": "lps"}
    (record,) = read_records([row], keys=Keys(**without_suffix(keys)))
    assert [sample.total for sample in record.samples] == [-0.5, None]


@pytest.mark.parametrize("option", ["answer_logprobs_key", "samples_logprobs_key"])
def test_a_path_of_log_probabilities_that_no_row_has_is_refused(option: str) -> None:
    keys = LOGPROB_KEYS | {option: "scores.tokns"}
    with pytest.raises(BeamUQError, match=r"row 1: scores\.tokns: no such key; .*no row has this"):
        beamuq.score([WITH_LOGPROBS, WITH_LOGPROBS], **keys)


def without_suffix(keys: dict[str, str]) -> dict[str, str]:
    return {name.removesuffix("_key"): path for name, path in keys.items()}


NULLS = ['{"answer": "Rome", "samples": ["Rome", "Oslo"]}', "null", '{"answer": null}']


@pytest.mark.parametrize("number", [1, 2])
def test_a_null_row_is_refused_with_its_line(number: int, tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", [NULLS[0], NULLS[number]])
    with pytest.raises(BeamUQError, match=r"rows\.jsonl: line 2: .*(null|object)"):
        scored(file)


def test_skip_invalid_leaves_rows_out_and_tells_each(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", [*NULLS, NULLS[0]])
    with pytest.warns(UserWarning, match=r"2 of 4 rows left out: .*line 2: .*line 3: answer"):
        values = scored(file, skip_invalid=True)
    assert values == {"1": 0.5, "4": 0.5}  # a row keeps its number


def test_rows_left_out_are_counted_by_reason_and_the_file_is_named_once(tmp_path: Path) -> None:
    null_samples = '{"answer": "Rome", "samples": ["Rome", 1]}'
    lines = [*NULLS[1:], "null", null_samples, null_samples.replace('["Rome", 1]', "[1]")]
    file = written(tmp_path / "rows.jsonl", [*lines, *[NULLS[0]] * 5])
    with pytest.warns(UserWarning, match="5 of 10 rows left out") as caught:
        scored(file, skip_invalid=True)
    told = str(caught[0].message)
    assert told.count("rows.jsonl") == 1
    assert "2 as line 1: not a JSON object" in told
    assert "2 as line 4: samples[…]: " in told
    assert "| line 2: answer" in told


def test_advice_that_was_taken_is_not_repeated() -> None:
    rows = [{"out": text, "draws": ["Rome", "Oslo"]} for text in (None, "Rome")]
    keys = {"answer_key": "out", "samples_key": "draws", "similarity": "lexical"}
    with pytest.raises(BeamUQError, match=r"out: null; give .*\(--skip-invalid\)"):
        beamuq.score(rows, **keys)
    with pytest.warns(UserWarning, match="1 of 2 rows left out: row 1: out: null; give") as caught:
        beamuq.score(rows, skip_invalid=True, **keys)
    assert "--skip-invalid" not in str(caught[0].message)


def test_of_many_reasons_the_lines_of_the_rarest_are_named(tmp_path: Path) -> None:
    bad = [
        None,  # no JSON object, whose error names the option
        {"answer": "Rome", "samples": 1},
        {"answer": "Rome", "samples": ["Rome"], "id": ""},
        {"answer": {"text": "Rome", "logprob": 3.0}, "samples": ["Rome"]},
        {"answer": {"text": "Rome", "logprob": "high"}, "samples": ["Rome"]},
        {"answer": {"logprob": -1.0}, "samples": ["Rome"]},
        {"answer": "Rome", "samples": [1]},
    ]
    rows = [*map(json.dumps, bad), '{"answer": null, "samples": ["Rome"]}', *[NULLS[0]] * 9]
    file = written(tmp_path / "rows.jsonl", [rows[7], *rows[:7], *rows[8:]])
    with pytest.warns(UserWarning, match="8 of 17 rows left out") as caught:
        scored(file, skip_invalid=True)
    told = str(caught[0].message)
    assert "3 for other reasons: line 6, line 7, line 8" in told


def test_a_line_that_is_no_object_names_the_option_where_there_is_one(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", NULLS)
    for command in (beamuq.score, beamuq.explore):
        with pytest.raises(BeamUQError, match=r"line 2: not a JSON object.* \(--skip-invalid\)"):
            command(file)  # type: ignore[operator]
    with pytest.raises(BeamUQError, match="line 2: not a JSON object") as refused:
        beamuq.advise(file)
    assert "--skip-invalid" not in str(refused.value)


def test_where_no_row_can_be_read_skip_invalid_refuses_too(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", NULLS[1:])
    with pytest.raises(BeamUQError, match="line 1"):
        scored(file, skip_invalid=True)


def drawn(place: int, questions: int = 8) -> list[dict[str, Any]]:
    """Questions whose answer is their sample at a place, and has no other sample's text."""
    rows = []
    for number in range(questions):
        samples = [f"{number} {letter}" for letter in "abcdefghij"]
        rows.append({"answer": samples[place], "samples": samples})
    return rows


def test_answers_that_stand_at_one_place_among_their_samples_are_told_of() -> None:
    with pytest.warns(UserWarning, match=r"samples\[3\] in all 8 questions .*leave_one_out"):
        scored(drawn(3))


def test_answers_of_the_text_of_some_sample_are_not() -> None:
    rows = [row | {"answer": row["samples"][place]} for place, row in enumerate(drawn(0))]
    easy = [{"answer": "Rome", "samples": ["Rome"] * 10} for _ in range(9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored(rows)
        scored(easy)


def test_samples_that_differ_in_no_question_are_told_of() -> None:
    rows = [{"answer": "Rome", "samples": ["Rome"] * 3} for _ in range(10)]
    with pytest.warns(UserWarning, match="in all 10 questions the samples are one text each"):
        scored(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored([*rows, {"answer": "Rome", "samples": ["Rome", "Oslo"]}])


def test_leave_one_out_takes_the_answer_out_of_its_samples_once() -> None:
    rows = [{"answer": "Rome", "samples": ["Oslo", "Rome", "Rome"]}]
    scores = beamuq.score(rows, similarity="lexical", leave_one_out=True)
    assert scores["Dissimilarity"].to_dict() == {"1": 0.5}
    counted = scores[(scores["method"] == "Dissimilarity") & scores["value"].notna()]
    assert counted["candidates"].tolist() == [2]


def test_of_samples_of_one_text_the_one_of_the_answers_probability_is_left_out() -> None:
    samples = [{"text": "Rome", "logprob": -2.0}, {"text": "Rome", "logprob": -1.0}]
    rows = [{"answer": samples[1], "samples": [*samples, {"text": "Oslo", "logprob": -3.0}]}]
    scores = beamuq.score(rows, similarity="lexical", leave_one_out=True)
    kept = [{"answer": samples[1], "samples": [samples[0], {"text": "Oslo", "logprob": -3.0}]}]
    expected = beamuq.score(kept, similarity="lexical")
    assert scores["value"].equals(expected["value"])


def test_leave_one_out_refuses_an_answer_that_is_none_of_its_samples(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", ['{"id": "q", "answer": "Bern", "samples": ["Rome"]}'])
    with pytest.raises(BeamUQError, match=r"rows\.jsonl: id 'q': answer: 'Bern': none"):
        scored(file, leave_one_out=True)


def test_the_command_takes_all_of_these(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_logprobs = [
        row
        | {
            "judged": {"right": 1},
            "lp": -1.0,
            "outputs": [output | {"lp": -1.0} for output in row["outputs"]],
        }
        for row in THEIRS
    ]
    lines = [*(json.dumps(row) for row in with_logprobs), "null"]
    file = written(tmp_path / "theirs.jsonl", lines)
    options = ["--answer-key", "response", "--samples-key", "outputs.text"]
    options += ["--answer-logprobs-key", "lp", "--samples-logprobs-key", "outputs.lp"]
    options += ["--id-key", "question_id", "--correct-key", "judged.right"]
    options += ["--skip-invalid", "--leave-one-out", "--methods", "Dissimilarity,Prob"]
    with pytest.warns(UserWarning, match="1 of 3 rows left out"):
        main(["score", str(file), "--similarity", "lexical", "--format", "jsonl", *options])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    values = {row["id"]: row["value"] for row in rows if row["variant"] == "multinomial"}
    assert values == {"7": 1.0, "8": 0.0}
    assert {row["correct"] for row in rows} == {1.0}
    assert [row["value"] for row in rows if row["method"] == "Prob"] == [1.0, 1.0]

"""Logs that Inspect wrote (inspect_logs/make_logs.py) become rows; what is no sample is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import beamuq
from beamuq.api.candidate_records import QuestionRecord
from beamuq.cli import main
from beamuq.errors import BeamUQError

LOGS = Path(__file__).parent / "inspect_logs"
DRAWN = LOGS / "drawn.json"
GREEDY = LOGS / "greedy.json"
Log = dict[str, Any]
Edit = Callable[[Log], object]


def edited(path: Path, folder: Path, edit: Edit) -> Path:
    """A log in which something is changed."""
    log = json.loads(path.read_text())
    edit(log)
    changed = folder / path.name
    changed.write_text(json.dumps(log))
    return changed


def settings(log: Log) -> Iterator[dict[str, Any]]:
    """The settings of the run, and of each call of the model."""
    yield log["plan"]["config"]
    for sample in log["samples"]:
        yield from (event["config"] for event in sample["events"] if event["event"] == "model")


def stating(**values: Any) -> Edit:
    """Change settings everywhere; None: leave them out."""

    def edit(log: Log) -> None:
        for config in settings(log):
            config.update(values)
            for name in [name for name, value in config.items() if value is None]:
                del config[name]

    return edit


def of_first(**fields: Any) -> Edit:
    """Change fields of the first sample in its first epoch."""
    return lambda log: log["samples"][0].update(fields)


# -- what a row holds ------------------------------------------------------------------------------


def test_epochs_are_samples_and_the_shown_answer_is_the_greedy_one() -> None:
    rows = beamuq.from_inspect(DRAWN, shown=GREEDY)
    drawn = json.loads(DRAWN.read_text())["samples"]
    greedy = {sample["id"]: sample for sample in json.loads(GREEDY.read_text())["samples"]}
    assert [row["id"] for row in rows] == list(greedy)
    for row in rows:
        texts = [s["output"]["completion"] for s in drawn if s["id"] == row["id"]]
        assert [sample["text"] for sample in row["samples"]] == texts
        assert row["answer"]["text"] == greedy[row["id"]]["output"]["completion"]
        assert row["quality"] == float(greedy[row["id"]]["scores"]["match"]["value"] == "C")
        assert {sample["temperature"] for sample in row["samples"]} == {1.0}
        assert row["answers"] == [greedy[row["id"]]["target"]]
        assert row["question"] == greedy[row["id"]]["input"]
        assert row["model"] == "mockllm/model"
        assert json.loads(row["sampled_with"])["temperature"] == 1.0
        QuestionRecord.model_validate(row)


def test_without_another_log_the_first_epoch_is_shown_and_left_out() -> None:
    drawn = json.loads(DRAWN.read_text())["samples"]
    for row in beamuq.from_inspect(DRAWN):
        epochs = [sample for sample in drawn if sample["id"] == row["id"]]
        texts = [epoch["output"]["completion"] for epoch in epochs]
        assert [row["answer"]["text"], *(sample["text"] for sample in row["samples"])] == texts
        assert row["correct"] == (epochs[0]["scores"]["match"]["value"] == "C")


def test_log_probabilities_are_those_of_the_log_the_ending_included() -> None:
    (first, *_) = beamuq.from_inspect(DRAWN)
    tokens = json.loads(DRAWN.read_text())["samples"][0]["output"]["choices"][0]["logprobs"]
    expected = [token["logprob"] for token in tokens["content"]]
    assert first["answer"]["token_logprobs"] == expected
    scores = beamuq.score(DRAWN, similarity="lexical")
    assert scores["Prob"]["sum-0"] == pytest.approx(-sum(expected))


def test_an_answer_behind_several_calls_has_no_log_probability(tmp_path: Path) -> None:
    def edit(log: Log) -> None:
        for sample in log["samples"]:
            sample["messages"].append(sample["messages"][-1])

    row = beamuq.from_inspect(edited(DRAWN, tmp_path, edit))[0]
    assert "token_logprobs" not in row["answer"]
    assert "several calls" in row["answer"]["left_out"]


def test_partial_credit_is_a_quality_and_no_label(tmp_path: Path) -> None:
    edit = of_first(scores={"match": {"value": "P"}})
    rows = beamuq.from_inspect(DRAWN, shown=edited(GREEDY, tmp_path, edit))
    assert rows[0]["quality"] == 0.5
    assert not any("correct" in row for row in rows)


def test_a_log_without_scores_gives_rows_without_quality(tmp_path: Path) -> None:
    def edit(log: Log) -> None:
        for sample in log["samples"]:
            del sample["scores"]

    rows = beamuq.from_inspect(edited(DRAWN, tmp_path, edit))
    assert not any("quality" in row for row in rows)


def test_of_several_scorers_one_is_named(tmp_path: Path) -> None:
    def edit(log: Log) -> None:
        for sample in log["samples"]:
            sample["scores"]["other"] = {"value": 0.25}

    log = edited(DRAWN, tmp_path, edit)
    with pytest.raises(BeamUQError, match=r"drawn\.json: scorer: 2 in the log; .*match, other"):
        beamuq.from_inspect(log)
    with pytest.raises(BeamUQError, match="scorer: 'othr': none; did you mean 'other'"):
        beamuq.from_inspect(log, scorer="othr")
    assert {row["quality"] for row in beamuq.from_inspect(log, scorer="other")} == {0.25}


def test_further_choices_of_an_output_are_samples_too(tmp_path: Path) -> None:
    def edit(log: Log) -> None:
        log["samples"] = [sample for sample in log["samples"] if sample["epoch"] == 1]
        stating(seed=7)(log)  # of the one request
        for sample in log["samples"]:
            choice = sample["output"]["choices"][0]
            message = choice["message"] | {"id": sample["id"]}
            sample["output"]["choices"].append(choice | {"message": message})

    rows = beamuq.from_inspect(edited(DRAWN, tmp_path, edit))
    assert [len(row["samples"]) for row in rows] == [1, 1, 1]
    assert json.loads(rows[0]["sampled_with"])["seed"] == 7


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (stating(temperature=0.0), r"epoch 1: config: temperature: 0\.0: .*greedy"),
        (stating(top_p=0.9), r"epoch 1: config: top_p: 0\.9"),
        (stating(top_k=40), "config: top_k: 40"),
        (stating(frequency_penalty=0.5), r"config: frequency_penalty: 0\.5"),
        (stating(extra_body={"min_p": 0.1}), r"config: min_p: 0\.1"),
        (stating(best_of=3), "config: best_of: 3"),
        (stating(fallback_models=["x/y"]), "config: fallback_models"),
        (stating(seed=7), "several responses of seed 7"),
        (
            lambda log: next(reversed(list(settings(log)))).update(max_tokens=9),
            r"epoch 5: config\.max_tokens: 9, .*epoch 1 has 8",
        ),
        (
            lambda log: log["samples"][-1]["output"].update(model="mockllm/another"),
            r"epoch 5: output\.model: 'mockllm/another'",
        ),
        (
            lambda log: log["samples"][-1]["messages"][0].update(content="What?"),
            "epoch 5: messages: another prompt",
        ),
        (
            lambda log: log["samples"][3].update(output=log["samples"][0]["output"]),
            "sample 'sum-0': output: two epochs hold the same draw",
        ),
        (lambda log: log["samples"].pop(), "sample 'sum-2': 4 epochs, others have 5"),
        (of_first(error={"message": "lost"}), "sample 'sum-0': epoch 1: error: lost"),
        (of_first(limit={"type": "token", "limit": 9}), "epoch 1: limit: 'token'"),
        (of_first(output={"choices": []}), "epoch 1: output: no answer"),
        (of_first(scores={"match": {"value": None}}), r"scores\.match\.value: not scored"),
        (of_first(scores={"match": {"value": {"a": 1}}}), r"scores\.match\.value: .*no number"),
        (lambda log: log.update(status="cancelled"), "status: 'cancelled'"),
        (lambda log: log.update(samples=[]), "samples: none"),
        (lambda log: log.pop("plan"), "no log of Inspect"),
    ],
)
def test_what_is_no_sample_is_refused_by_log_sample_epoch_and_key(
    edit: Edit, message: str, tmp_path: Path
) -> None:
    log = edited(DRAWN, tmp_path, edit)
    with pytest.raises(BeamUQError, match=rf"drawn\.json: .*{message}"):
        beamuq.from_inspect(log)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (stating(temperature=0.5), r"epoch 1: temperature: 0\.5: no greedy answer"),
        (stating(temperature=None), "temperature: not said"),
        (stating(max_tokens=64), r"config\.max_tokens: 64, .*drawn\.json.*has 8"),
        (lambda log: log["eval"].update(model="mockllm/b"), "model: 'mockllm/b'"),
        (lambda log: log["samples"].pop(0), "no sample 'sum-0'"),
        (lambda log: log["samples"].append(log["samples"][0] | {"epoch": 2}), "epochs: 2"),
    ],
)
def test_a_shown_answer_that_is_not_the_greedy_one_is_refused(
    edit: Edit, message: str, tmp_path: Path
) -> None:
    shown = edited(GREEDY, tmp_path, edit)
    with pytest.raises(BeamUQError, match=rf"greedy\.json: .*{message}"):
        beamuq.from_inspect(DRAWN, shown=shown)


def test_one_epoch_alone_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    log = edited(GREEDY, tmp_path, stating(temperature=1.0))
    with pytest.raises(BeamUQError, match=r"greedy\.json: epochs: 1: no sample"):
        beamuq.from_inspect(log)


def test_skip_invalid_leaves_a_failed_question_out_and_says_so(tmp_path: Path) -> None:
    log = edited(DRAWN, tmp_path, of_first(error={"message": "lost"}))
    with pytest.warns(UserWarning, match="1 of 3 rows left out: .*sample 'sum-0': epoch 1"):
        rows = beamuq.from_inspect(log, skip_invalid=True)
    assert [row["id"] for row in rows] == ["sum-1", "sum-2"]


def test_skip_invalid_lets_no_wrong_setting_pass(tmp_path: Path) -> None:
    log = edited(DRAWN, tmp_path, stating(top_p=0.9))
    with pytest.raises(BeamUQError, match="top_p"):
        beamuq.from_inspect(log, skip_invalid=True)


def test_a_temperature_that_the_log_does_not_say_is_warned_of(tmp_path: Path) -> None:
    log = edited(DRAWN, tmp_path, stating(temperature=None))
    with pytest.warns(UserWarning, match=r"drawn\.json: .*does not say its temperature"):
        beamuq.from_inspect(log)


def test_a_provider_that_may_cut_by_itself_is_warned_of(tmp_path: Path) -> None:
    def edit(log: Log) -> None:
        log["eval"]["model"] = "vllm/model"
        stating(top_p=None)(log)

    with pytest.warns(UserWarning, match="top_p and top_k: not said, and vllm"):
        beamuq.from_inspect(edited(DRAWN, tmp_path, edit))


def test_samples_of_another_temperature_are_scored_at_that_one_alone(tmp_path: Path) -> None:
    log = edited(DRAWN, tmp_path, stating(temperature=0.7))
    row = beamuq.from_inspect(log)[0]
    assert "token_logprobs" not in row["answer"]  # at which temperature is not known
    with pytest.raises(BeamUQError, match=r"temperature: 0\.7: scored with 1"):
        beamuq.score(log, similarity="lexical")


# -- where a log stands in the place of rows -------------------------------------------------------


def test_score_reads_a_log_as_from_inspect_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "scored.jsonl"
    options = ["--shown", str(GREEDY), "--similarity", "lexical", "--output", str(output)]
    main(["score", str(DRAWN), *options])
    assert "sum-2" in capsys.readouterr().out
    written = [json.loads(line) for line in output.read_text().splitlines()]
    rows = beamuq.from_inspect(DRAWN, shown=GREEDY)
    expected = beamuq.score(rows, similarity="lexical")
    assert [row["value"] for row in written] == [
        None if value != value else value for value in expected["value"]
    ]
    assert {row["model"] for row in written} == {"mockllm/model"}


def test_explore_reads_a_log(tmp_path: Path) -> None:
    log = edited(DRAWN, tmp_path, lambda _: None)
    assert beamuq.explore(log, similarity="lexical").name == "drawn.explorer.html"


def test_shown_beside_rows_that_are_no_log_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text('[{"answer": "Rome", "samples": ["Rome"]}]')
    with pytest.raises(BeamUQError, match=r"rows\.json: no log of Inspect"):
        beamuq.score(file, shown=GREEDY, similarity="lexical")


def test_a_broken_file_of_rows_is_told_of_as_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text("[{")
    with pytest.raises(BeamUQError, match=r"rows\.json: .*array of objects"):
        beamuq.score(file, similarity="lexical")


def test_an_eval_file_without_inspect_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(BeamUQError, match=r"drawn\.eval: .*pip install '.*\[inspect\]'"):
        beamuq.from_inspect(LOGS / "drawn.eval")


@pytest.mark.inspect
def test_inspects_own_reader_gives_the_same_rows_of_both_forms() -> None:
    log = pytest.importorskip("inspect_ai.log")
    expected = beamuq.from_inspect(DRAWN)
    assert beamuq.from_inspect(LOGS / "drawn.eval") == expected
    assert beamuq.from_inspect(log.read_eval_log(str(DRAWN))) == expected

"""A model in memory: decoded in batches, asked, its ``generate`` output scored, and a calibration
fitted to scores.
"""

from __future__ import annotations

import doctest
import inspect
import itertools
import math
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import beamuq
from beamuq.api import candidates_of_model
from beamuq.api.open_models import open_model
from beamuq.decoding import Work
from beamuq.errors import BeamUQError
from beamuq.models.load_model import load_causal
from tiny import build_tiny_model, forced_logprobs, likes_newlines

LEXICAL = {"similarity": "lexical"}
INSPECT_LOGS = Path(__file__).parent / "inspect_logs"
SHOTS = "".join(f"Question: what is {n}?\nAnswer: {n}\n\n" for n in ("one", "two", "three"))
PROMPTS = [f"{SHOTS}Question: who is {n}?\nAnswer:" for n in range(16)]


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", beamuq.__all__)
def test_help_names_every_parameter_and_has_an_example_that_runs(
    name: str, loaded: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for log in INSPECT_LOGS.glob("*.json"):
        shutil.copy(log, tmp_path)
    (model, tokenizer), public = loaded, getattr(beamuq, name)
    told = inspect.getdoc(public) or ""
    section = told.partition("Parameters\n----------")[2].partition("Returns\n-------")[0]
    # generate passes the others to its hook
    asked = {"width": 0} if name == "beams" else dict.fromkeys(inspect.signature(public).parameters)
    assert {each for each in asked if each not in section} == set()
    inputs = tokenizer("a b c", return_tensors="pt")
    known = {
        "beamuq": beamuq,
        "Path": Path,
        "model": model,
        "tokenizer": tokenizer,
        "inputs": inputs,
    }
    (example,) = doctest.DocTestFinder(recurse=False).find(public, name, globs=known)
    report: list[str] = []
    done = doctest.DocTestRunner().run(example, out=report.append)
    assert done.attempted > 0
    assert done.failed == 0, "".join(report)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model("llama", tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def loaded(folder: Path) -> tuple[Any, Any]:
    return load_causal(folder, dtype=torch.float32, device=torch.device("cpu"))


def test_a_model_in_memory_of_other_weights_is_another_model(
    folder: Path, loaded: tuple[Any, Any]
) -> None:
    other = load_causal(folder, dtype=torch.float32, device=torch.device("cpu"))
    assert open_model(other).content == open_model(loaded).content
    next(iter(other[0].parameters())).mul_(1.01)
    assert open_model(other).content != open_model(loaded).content


@pytest.mark.parametrize("value", ["5", 5.0, True])
def test_a_number_of_another_type_is_refused_in_one_line(
    value: object, loaded: tuple[Any, Any]
) -> None:
    with pytest.raises(BeamUQError, match="beams: "):
        beamuq.decode(*loaded, ["a b c"], beams=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1.7, "7", None, "a", math.nan, True])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any, loaded: tuple[Any, Any]) -> None:
    with pytest.raises(BeamUQError, match=r"^seed: "):
        beamuq.decode(*loaded, ["a b c"], samples=1, beams=0, max_new_tokens=1, seed=seed)


def test_a_whole_number_of_numpy_is_the_same_seed(loaded: tuple[Any, Any]) -> None:
    options: dict[str, Any] = {"samples": 3, "beams": 0, "max_new_tokens": 2}
    rows = beamuq.decode(*loaded, ["a b c"], seed=7, **options)
    assert beamuq.decode(*loaded, ["a b c"], seed=np.int64(7), **options) == rows  # type: ignore[arg-type]


def test_decoded_rows_are_scored_and_their_probabilities_are_the_models_own(
    loaded: tuple[Any, Any],
) -> None:
    rows = beamuq.decode(*loaded, ["a b c", "d e"], samples=3, beams=4, max_new_tokens=5)
    assert [(row["id"], len(row["samples"]), len(row["beams"])) for row in rows] == [
        ("1", 3, 4),
        ("2", 3, 4),
    ]
    model, tokenizer = loaded
    prompt = tokenizer("a b c")["input_ids"]
    for beam in rows[0]["beams"]:
        own = forced_logprobs(model, prompt, beam["token_ids"])
        kept = (
            len(own) if not beam["ended"] else len(own) - 1
        )  # endings that add no text count as one
        assert own[:kept].tolist() == pytest.approx(beam["token_logprobs"][:kept], abs=2e-4)
    scores = beamuq.score(rows, methods=["Dissimilarity", "Prob"], **LEXICAL)
    assert scores["Dissimilarity"].between(0, 1).all()
    assert scores["Prob"]["1"] == pytest.approx(-math.fsum(rows[0]["answer"]["token_logprobs"]))
    with pytest.raises(BeamUQError, match="did you mean 'Dissimilarity'"):
        scores["Disimilarity"]


def test_two_threads_decode_one_model_as_one_does_and_leave_it_as_it_was(
    loaded: tuple[Any, Any],
) -> None:
    before = loaded[0].config._attn_implementation
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(
                lambda _: beamuq.decode(*loaded, PROMPTS[:2], beams=3, max_new_tokens=3), range(12)
            )
        )
    assert all(rows == found[0] for rows in found)
    assert loaded[0].config._attn_implementation == before


def test_a_model_in_training_mode_is_refused(loaded: tuple[Any, Any]) -> None:
    loaded[0].train()
    with pytest.raises(BeamUQError, match=r"call model\.eval\(\)"):
        beamuq.decode(*loaded, ["a b c"])
    loaded[0].eval()


def test_a_folder_of_other_weights_than_before_is_read_anew(folder: Path, tmp_path: Path) -> None:
    own = shutil.copytree(folder, tmp_path / "own")
    first, (weights,) = open_model(own, device="cpu"), own.glob("*.safetensors")
    save_file(
        {name: 1.1 * values for name, values in load_file(weights).items()},
        weights,
        {"format": "pt"},
    )
    assert open_model(own, device="cpu").content != first.content


def test_few_shot_questions_of_a_batch_run_what_they_share_once(loaded: tuple[Any, Any]) -> None:
    alone, together = Work(), Work()
    one = beamuq.decode(*loaded, PROMPTS[:1], beams=2, max_new_tokens=2, work=alone)
    rows = beamuq.decode(*loaded, PROMPTS, beams=2, max_new_tokens=2, work=together)
    assert together.prompt_rows < alone.prompt_rows + 16 * (alone.prompt_rows // 4)
    assert rows[0]["answer"]["token_ids"] == one[0]["answer"]["token_ids"]


def test_a_model_in_memory_answers_as_its_folder_does_to_the_digit(
    folder: Path, loaded: tuple[Any, Any]
) -> None:
    options: dict[str, Any] = {"width": 3, "max_new_tokens": 4, "device": "cpu"} | LEXICAL
    from_folder = beamuq.ask(["Who?", "What is two?"], str(folder), **options)
    in_memory = beamuq.ask(["Who?", "What is two?"], loaded, **options)
    for one, other in zip(from_folder, in_memory, strict=True):
        assert (one.answer, one.beams, one.low, one.high) == (
            other.answer,
            other.beams,
            other.low,
            other.high,
        )
        assert "plainly with 5 examples" in str(other)
    alone = beamuq.ask("Who?", loaded, **options)
    assert [beam.text for beam in alone.beams] == [beam.text for beam in in_memory[0].beams]
    with pytest.raises(
        BeamUQError, match=r"model: object: give a folder, .* or \(model, tokenizer\)"
    ):
        beamuq.ask("Who?", object())


def test_a_method_s_scores_are_those_over_beams_where_there_are_any() -> None:
    beams = [{"text": "Paris", "logprob": -0.1}, {"text": "Lyon", "logprob": -3.0}]
    rows = [{"id": "a", "answer": "Paris", "samples": ["Lyon"], "beams": beams}]
    scores = beamuq.score(rows, methods=["Dissimilarity"], **LEXICAL)
    assert scores["Dissimilarity"]["a"] < 0.1
    assert (
        beamuq.score([rows[0] | {"beams": []}], methods=["Dissimilarity"], **LEXICAL)[
            "Dissimilarity"
        ]["a"]
        == 1
    )


def test_prr_has_an_interval_and_says_where_it_is_undefined() -> None:
    rng = np.random.default_rng(0)
    quality = rng.integers(0, 2, 200)
    found = beamuq.prr(1 - quality + rng.normal(0, 1, 200), quality)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert beamuq.prr([0.9, 0.2, 0.7, 0.1], [0, 1, 0, 1]).value == 1
    assert "same quality" in beamuq.prr([1.0, 2.0, 3.0, 4.0], [1, 1, 1, 1]).note
    with pytest.raises(BeamUQError, match="one of each per answer"):
        beamuq.prr([1.0], [1, 0])


def test_a_calibration_is_fitted_saved_and_decides(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores, new = rng.random(600), rng.random(5)
    correct = rng.random(600) > scores
    with pytest.raises(BeamUQError, match="not fitted"):
        beamuq.Calibration().decide(new)
    calibration = beamuq.Calibration(risk=0.3, confidence=0.9, tried=2).fit(scores, correct)
    decisions = calibration.decide(new)
    assert calibration.threshold is not None
    assert f"{calibration.threshold:.6g}" in repr(calibration)
    assert (decisions["shown"] == (new <= calibration.threshold)).all()
    with pytest.warns(UserWarning, match="calibrated on"):
        calibration.decide(scores)
    calibration.save(tmp_path / "file.json")
    loaded = beamuq.Calibration.load(tmp_path / "file.json")
    assert loaded.decide(new).equals(decisions)
    assert loaded.fit(scores, correct).fitted == calibration.fitted


@pytest.mark.parametrize(
    ("scores", "correct"), [(0.2, [1]), ([0.1, 0.2], ["yes", "no"]), ([[0.1]], [1]), ([0.1], None)]
)
def test_what_is_no_column_of_numbers_is_told_in_one_line(scores: Any, correct: Any) -> None:
    with pytest.raises(BeamUQError, match=r"give a list of numbers.*, one an answer"):
        beamuq.Calibration().fit(scores, correct)


@pytest.mark.parametrize(
    "row",
    [
        {"answer": "Paris"},
        {"answer": "Paris", "samples": []},
        {"answer": "Paris", "sampled_responses": ["Lyon"]},
    ],
)
def test_an_answer_alone_is_told_what_it_lacks_instead_of_getting_no_score(
    row: dict[str, Any],
) -> None:
    unused = r" \(not used: sampled_responses\)" if "sampled_responses" in row else ""
    with pytest.raises(
        ValueError,
        match=rf"row 1: an answer alone cannot be scored; .*--samples-key.*{unused}$",
    ):
        beamuq.score([row], **LEXICAL)


TALK = [
    {"role": "system", "content": "Answer in one word."},
    {"role": "user", "content": "What is one?"},
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": "What is two?"},
]


def test_a_conversation_is_decoded_as_the_ids_that_the_tokenizer_renders(
    loaded: tuple[Any, Any],
) -> None:
    tokenizer = loaded[1]
    options: dict[str, Any] = {"samples": 2, "beams": 2, "max_new_tokens": 3}
    ids = tokenizer.apply_chat_template(TALK, add_generation_prompt=True, return_dict=False)
    text = tokenizer.apply_chat_template(TALK, add_generation_prompt=True, tokenize=False)
    (talked,) = beamuq.decode(*loaded, [TALK], chat=True, **options)
    for rendered in (ids, np.array(ids), torch.tensor(ids), text):
        (other,) = beamuq.decode(*loaded, [rendered], **options)
        assert [talked[name] for name in ("answer", "samples", "beams")] == [
            other[name] for name in ("answer", "samples", "beams")
        ]
    assert talked["question"] == "What is two?"
    (without,) = beamuq.decode(*loaded, [TALK[1:]], chat=True, **options)
    assert without["answer"]["token_logprobs"] != talked["answer"]["token_logprobs"]


def test_texts_ids_and_conversations_stand_in_one_list(loaded: tuple[Any, Any]) -> None:
    rows = beamuq.decode(
        *loaded, ["What is two?", TALK[3:], [5, 6]], chat=True, beams=2, max_new_tokens=2
    )
    assert [row.get("question") for row in rows] == ["What is two?", "What is two?", None]
    assert rows[0]["beams"] == rows[1]["beams"]


@pytest.mark.parametrize(
    ("prompts", "told"),
    [
        ([TALK[:3]], r'prompt 1: messages\[2\]: role: "assistant"'),
        (["a", [TALK[1], {"role": "user"}]], r"prompt 2: messages\[1\]: content: missing"),
        ([[TALK[1] | {"name": "Ann"}]], r"prompt 1: .*does not read messages\[0\]\.name"),
        (TALK, "prompts: a message stands where a conversation .* give a list of conversations"),
        (TALK[0], "prompts: a dict; give a list of prompts"),
        (pd.DataFrame({"question": ["Who?"]}), "prompts: a frame; give one column"),
        ({"a", "b"}, "prompts: a set, which has no order; give a list"),
        ([{"input_ids": [5]}], "prompts: what a tokenizer returned; give its input_ids"),
        (7, "prompts: a int; give a list of prompts"),
        ([[]], "prompt 1: empty; give a text"),
        ([["a", "b"]], "prompt 1: a list of texts; give"),
        ([[5, 6.5]], r"prompt 1: 6\.5: no token id; give"),
        ([[True]], "prompt 1: True: no token id; give"),
        ([[[5, 6]]], r"prompt 1: \[5, 6\]: no token id; give"),
        ([None], "prompt 1: a NoneType; give"),
        (["\ud800"], r"prompt 1: holds '\\ud800', half a surrogate"),
    ],
)
def test_a_prompt_that_is_none_is_refused_with_its_place(
    prompts: Any, told: str, loaded: tuple[Any, Any]
) -> None:
    with pytest.raises(BeamUQError, match=f"^{told}"):
        beamuq.decode(*loaded, prompts, chat=True)


def test_a_conversation_without_the_chat_template_is_refused(loaded: tuple[Any, Any]) -> None:
    with pytest.raises(BeamUQError, match=r"^prompt 1: messages: .*chat template; say chat=True"):
        beamuq.decode(*loaded, [TALK])


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_message_asks_nothing(prompt: str, loaded: tuple[Any, Any]) -> None:
    with pytest.raises(BeamUQError, match="prompt 1: empty; write the question"):
        beamuq.decode(*loaded, [prompt], chat=True)


@pytest.mark.parametrize("chat", ["no", 1, None])
def test_chat_is_true_or_false(chat: Any, loaded: tuple[Any, Any]) -> None:
    with pytest.raises(BeamUQError, match=f"chat: {chat!r}: neither True nor False; say which"):
        beamuq.decode(*loaded, ["Who?"], chat=chat)


@pytest.mark.parametrize("form", ["text", "ids"])
def test_a_prompt_that_ends_in_a_thought_is_refused_in_every_form(
    form: str, loaded: tuple[Any, Any]
) -> None:
    text = "Question: what is two?\nAnswer:\n<think>\n"
    prompt = text if form == "text" else loaded[1](text)["input_ids"]
    with pytest.raises(
        BeamUQError, match=r"^prompt 2: .*leaves a thought open \(<think>\).*</think>"
    ):
        beamuq.decode(*loaded, ["a b c", prompt])
    closed = f"{text}</think>\n"
    assert beamuq.decode(*loaded, [closed], beams=1, max_new_tokens=1)


class Spoken:
    """A tokenizer whose answers begin with a text."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self._tokenizer, self._text = tokenizer, text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._tokenizer(*arguments, **options)

    def __len__(self) -> int:
        return len(self._tokenizer)

    def decode(self, ids: list[int], **options: Any) -> str:
        return self._text + str(self._tokenizer.decode(ids, **options))


def test_answers_that_begin_with_a_thought_are_warned_of(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    with pytest.warns(
        UserWarning,
        match=r"^prompt 1: the answer begins with a thought \(<think>\), which is no answer",
    ):
        beamuq.decode(model, Spoken(tokenizer, "<think>"), ["a b c"], beams=2, max_new_tokens=2)


def test_an_answer_that_is_empty_as_where_it_begins_with_a_newline_is_warned_of(
    folder: Path,
) -> None:
    model, tokenizer = likes_newlines(folder, 3.0)
    with pytest.warns(
        UserWarning, match=r"^prompt 1: the answer is empty, .* newline, .* stop eos"
    ):
        (row,) = beamuq.decode(model, tokenizer, ["a b c"], beams=2, max_new_tokens=2)
    assert row["answer"]["text"] == ""
    assert row["answer"]["ended"]


def test_with_stop_eos_answers_have_all_their_lines(folder: Path) -> None:
    model, tokenizer = likes_newlines(folder)
    options: dict[str, Any] = {"samples": 30, "beams": 0, "max_new_tokens": 12, "seed": 3}
    (whole,) = beamuq.decode(model, tokenizer, ["a b c"], stop="eos", **options)
    (lines,) = beamuq.decode(model, tokenizer, ["a b c"], **options)
    assert any("\n" in sample["text"] for sample in whole["samples"])
    assert not any("\n" in sample["text"] for sample in lines["samples"])
    for sample in whole["samples"]:
        ids = sample["token_ids"]
        assert not set(ids[:-1]) & {1, 3}
        assert sample["text"] == tokenizer.decode(ids, skip_special_tokens=True).strip()
        own = forced_logprobs(model, tokenizer("a b c")["input_ids"], ids)
        assert own[:-1].tolist() == pytest.approx(sample["token_logprobs"][:-1], abs=2e-4)


def test_scores_compare_texts_of_several_lines_whole() -> None:
    lists = ["red\nblue", "red\ngreen", "red\nblack"]
    scores = beamuq.score(
        [{"answer": lists[0], "samples": lists}], methods=["Dissimilarity"], **LEXICAL
    )
    assert scores["Dissimilarity"]["1"] > 0.2


@pytest.mark.parametrize("stop", ["line", "\n", None, True])
def test_another_stop_is_refused(stop: Any, loaded: tuple[Any, Any]) -> None:
    with pytest.raises(BeamUQError, match=r"^stop: .*: choose from newline, eos"):
        beamuq.decode(*loaded, ["a b c"], stop=stop)


def test_threads_hold_while_a_call_decodes_and_are_as_before_afterwards(
    loaded: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    beamuq.decode(*loaded, ["a b c"], beams=1, max_new_tokens=1)
    assert chosen == [1, 3]
    beamuq.decode(*loaded, ["a b c"], beams=1, max_new_tokens=1, threads=2)
    beamuq.decode(*loaded, ["a b c"], beams=1, max_new_tokens=1, threads=None)
    assert chosen == [1, 3, 2, 3]
    for threads in (0, 10**6):
        with pytest.raises(BeamUQError, match="threads"):
            beamuq.decode(*loaded, ["a b c"], threads=threads)


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by 100 s whenever progress looks at it."""
    ticks = itertools.count(0, 100)
    monkeypatch.setattr("beamuq.progress.monotonic", lambda: next(ticks))


@pytest.mark.usefixtures("slow_clock")
def test_a_long_decode_writes_a_plain_line_in_a_log(
    loaded: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    beamuq.decode(*loaded, ["a b c", "d e", "f g"], beams=1, max_new_tokens=2, batch=1)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "prompts: 1 of 3 done, 01:40 elapsed, about 03:20 left"


@pytest.mark.usefixtures("slow_clock")
def test_many_questions_write_one_too(
    loaded: tuple[Any, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamuq.api.ask_model.BATCH", 2)
    rows = [{"question": f"What is {number}?"} for number in range(5)]
    beamuq.ask_all(rows, loaded, width=1, max_new_tokens=2, **LEXICAL)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "questions: 2 of 5 done, 01:40 elapsed, about 02:30 left"


def test_a_bar_counts_prompts_where_somebody_looks_on(
    loaded: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"beams": 1, "max_new_tokens": 1, "batch": 2}
    beamuq.decode(*loaded, ["a b c", "d e", "f g"], **options)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("beamuq.progress.is_watched", lambda: True)
    monkeypatch.setattr("beamuq.progress.SILENT_SECONDS", 0)
    beamuq.decode(*loaded, ["a b c", "d e", "f g"], **options)
    assert "prompts: 100%" in capsys.readouterr().err


def test_many_cut_answers_are_warned_of(loaded: tuple[Any, Any]) -> None:
    prompts = ["a b c", "d e", "f g"]
    with pytest.warns(UserWarning, match="3 of 3 answers had not ended after 1 tokens"):
        beamuq.decode(*loaded, prompts, beams=1, max_new_tokens=1)


def test_a_fifth_of_cut_answers_is_no_warning() -> None:
    rows: list[dict[str, Any]] = [{"answer": {"ended": number > 0}} for number in range(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        candidates_of_model._warn_of_cut_answers(rows, 20)

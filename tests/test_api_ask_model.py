"""One question to one model: what is shown is what the engine and the methods say."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import beamuq
from beamuq.api.ask_model import SHOWN_METHODS, ask
from beamuq.api.asked_answer import Asked, AskedBeam
from beamuq.api.asked_object import AskedObject
from beamuq.api.open_models import Similarity, fetched_models, model_folder
from beamuq.api.rows import visible
from beamuq.cli import main
from beamuq.errors import BeamUQError
from beamuq.scorers.scorer_protocol import PairScores
from beamuq.scorers.similarity_by_kind import Lexical
from beamuq_study.study_config import ROOT
from tiny import build_tiny_model, likes_newlines

QUESTION = "Which river runs through Paris?"
OPTIONS: dict[str, Any] = {
    "width": 4,
    "max_new_tokens": 5,
    "similarity": "lexical",
    "device": "cpu",
}
ON_THE_LINE = shlex.split("--width 4 --max-new-tokens 5 --similarity lexical --device cpu")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with room for the few-shot examples."""
    return build_tiny_model("llama", tmp_path_factory.mktemp("tiny"), context=4096)


@pytest.fixture(scope="module")
def asked(tiny: Path) -> Asked:
    return ask(QUESTION, str(tiny), **OPTIONS)


def test_weights_are_the_beams_probabilities_over_their_sum(asked: Asked) -> None:
    total = sum(beam.probability for beam in asked.beams)
    assert len(asked.beams) == 4
    assert asked.covered_mass == pytest.approx(total)
    assert [beam.weight for beam in asked.beams] == pytest.approx(
        [beam.probability / total for beam in asked.beams]
    )


def test_the_interval_is_as_wide_as_what_was_not_found(asked: Asked) -> None:
    assert asked.high - asked.low == pytest.approx(1 - asked.covered_mass)
    # the beams' weights are p over their sum: the estimate times the mass is their lower end
    assert asked.low == pytest.approx(asked.uncertainty() * asked.covered_mass)
    assert asked.decided is None
    for threshold, side in (
        ((asked.low + asked.high) / 2, "undecided"),
        (asked.low - 1e-6, "above"),
        (1.1, "below"),
    ):
        assert replace(asked, threshold=threshold).decided == side


def test_of_texts_that_the_similarity_cuts_the_interval_is_all_there_is(tiny: Path) -> None:
    class Cut(Lexical):
        def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
            return replace(super().score(pairs), cut=np.ones(len(pairs), dtype=bool), limit=1)

    options = OPTIONS | {"similarity": Similarity("cut", Cut())}
    with pytest.warns(UserWarning, match="similarity cut reads 1 tokens at a time"):
        asked = ask(QUESTION, str(tiny), threshold=0.5, **options)
    assert (asked.low, asked.high, asked.decided) == (0, 1, "undecided")


def test_beams_of_one_text_are_one_bar_as_long_as_their_probability(asked: Asked) -> None:
    def beam(text: str, p: float) -> AskedBeam:
        return AskedBeam(text, p, p, True)

    shown = replace(
        asked,
        answer="Paris",
        beams=(beam("Rome", 0.2), beam("Paris", 0.15), beam("", 0.1), beam("Paris", 0.05)),
    )
    shown = replace(shown, covered_mass=0.5)
    assert shown.texts == pytest.approx({"Rome": 0.2, "Paris": 0.2, "": 0.1})
    bars = [
        " ".join(line.split()) for line in str(shown).splitlines() if re.match(r" 0\.\d{3} ", line)
    ]
    rest = f"0.500 {'░' * 15} (not found)"
    assert sorted(bars) == [
        "0.100 ███ (empty)",
        "0.200 ██████ Paris ← the answer",
        "0.200 ██████ Rome",
        rest,
    ]


def test_every_uncertainty_is_there_in_its_beam_form(asked: Asked) -> None:
    assert tuple(asked.uncertainties["method"]) == SHOWN_METHODS
    assert asked.uncertainties["value"].notna().all()
    assert 0.0 <= asked.uncertainty() <= 1.0
    assert asked.uncertainty("CocoaMSP") == pytest.approx(
        asked.uncertainty("Prob") * asked.uncertainty()
    )
    with pytest.raises(BeamUQError, match="'Nothing': not scored here; known: Dissimilarity"):
        asked.uncertainty("Nothing")


def test_a_low_covered_mass_and_a_cut_answer_are_warned_of(asked: Asked, tiny: Path) -> None:
    assert asked.covered_mass < 0.5
    assert any(f"off by up to {1 - asked.covered_mass:.2f}" in told for told in asked.warnings)
    one = ask(QUESTION, str(tiny), **OPTIONS | {"max_new_tokens": 1})
    assert not one.ended
    assert any("was cut" in told for told in one.warnings)


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"tokens": 3}, "more width covers more"),
        ({"tokens": 15}, "a long answer has many wordings: ask for a short one"),
        ({"has_chat_template": True}, "--style chat"),
        ({"beams": (AskedBeam("a b", 0.1, 1, False),)}, "raise the largest number of tokens"),
    ],
)
def test_the_advice_where_most_was_not_found_fits_the_cause(
    asked: Asked, change: dict[str, Any], advice: str
) -> None:
    ended = (AskedBeam("a", 0.1, 1, True),)
    one = replace(
        asked,
        **{"covered_mass": 0.1, "tokens": 3, "beams": ended, "has_chat_template": False} | change,
    )
    assert advice in one.warnings[0]


def test_style_examples_and_template_change_the_prompt(
    tiny: Path, tmp_path: Path, asked: Asked
) -> None:
    shots = tmp_path / "shots.jsonl"
    shots.write_text('{"id": "1", "question": "Who?", "answers": ["Ann"]}\n')
    template = tmp_path / "mine.txt"
    template.write_text("== prompt ==\nQ: {question}\nA:\n")
    made = [
        asked,
        ask(QUESTION, str(tiny), style="chat", **OPTIONS),
        ask(QUESTION, str(tiny), shots=[], **OPTIONS),
        ask(QUESTION, str(tiny), shots=shots, **OPTIONS),
        ask(QUESTION, str(tiny), shots=[], prompt_template=template, **OPTIONS),
    ]
    assert len({each.covered_mass for each in made}) == len(made)
    same = ask(QUESTION, str(tiny), shots=[{"question": "Who?", "answers": ["Ann"]}], **OPTIONS)
    assert same.covered_mass == made[3].covered_mass


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"style": "base"}, "style 'base': choose from plain, chat"),
        ({"width": 0}, "width: 0: Input should be greater than or equal to 1"),
        ({"epsilon": math.nan}, "epsilon: NaN: Input should be"),
        (
            {"shots": [{"question": "Who?", "answers": "Ann"}]},
            'shots: row 1: answers: "Ann": .*list',
        ),
        ({"prompt_template": "no-such.txt"}, "no-such.txt: no such file"),
        ({"max_new_tokens": 100_000}, "exceed the model's context"),
    ],
)
def test_a_bad_option_is_told_in_one_line(
    tiny: Path, options: dict[str, object], told: str
) -> None:
    with pytest.raises(BeamUQError, match=told) as caught:
        ask(QUESTION, str(tiny), **OPTIONS | options)
    assert "\n" not in str(caught.value)


def test_fetched_models_lie_where_the_environment_says_or_here_or_in_the_checkout_or_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.delenv("BEAMUQ_MODELS", raising=False)
    checkout = tmp_path / "checkout"
    monkeypatch.setattr("beamuq.api.open_models.CHECKOUT", checkout)
    (checkout / "resources/models").mkdir(parents=True)
    assert fetched_models() == Path("cache/beamuq/models")
    (checkout / "Snakefile").touch()
    assert fetched_models() == checkout / "resources/models"
    (tmp_path / "resources/models").mkdir(parents=True)
    assert fetched_models() == Path("resources/models")
    monkeypatch.setenv("BEAMUQ_MODELS", "mine")
    assert fetched_models() == Path("mine")


def test_models_are_found_by_folder_and_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "beamuq.api.open_models.fetch_model", lambda *_, **__: pytest.fail("asked the hub")
    )
    assert model_folder(str(ROOT)) == model_folder(f"folder:{ROOT}") == ROOT
    with pytest.raises(
        BeamUQError, match="'some/folder': no such folder; give a folder, hub:some/folder"
    ):
        model_folder("some/folder")
    with pytest.raises(BeamUQError, match="did you mean 'smollm2-135m-instruct'"):
        model_folder("packaged:smollm2-135m")


def test_the_package_offers_the_function_and_the_command_prints_it_as_json(
    tiny: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(beamuq.ask(QUESTION, str(tiny), **OPTIONS)) == str(asked)
    main(["ask", QUESTION, "--model", str(tiny), "--verbose", *ON_THE_LINE])
    printed, _, last = capsys.readouterr().out.rstrip("\n").rpartition("\n")
    assert printed == visible(asked.as_text(verbose=True)).rstrip("\n")
    assert last.startswith("made ")
    main(["ask", QUESTION, "--model", str(tiny), "--threshold", "0.5", "--json", *ON_THE_LINE])
    told = json.loads(capsys.readouterr().out)
    AskedObject.model_validate(told)
    assert list(told) == list(AskedObject.model_fields)
    assert told["answer"] == asked.answer
    assert told["decided"] == replace(asked, threshold=0.5).decided
    assert told["covered_mass"] == asked.covered_mass
    assert [row["method"] for row in told["uncertainties"]] == list(SHOWN_METHODS)


def test_a_calibration_says_whether_the_answer_is_shown_and_another_model_is_refused(
    tiny: Path, asked: Asked
) -> None:
    score = asked.uncertainty("CocoaPPL")
    (known,) = asked.uncertainties[asked.uncertainties["method"] == "CocoaPPL"].to_dict("records")
    known |= {"model_hash": asked.model_hash, "prompt_hash": asked.prompt_hash}
    rows = [
        known | {"id": k, "value": score + (k - 150) / 100, "correct": k < 200} for k in range(300)
    ]
    made = beamuq.calibrate(rows, method="CocoaPPL")
    found = ask(QUESTION, str(tiny), calibration=made, **OPTIONS)
    assert found.decision is not None
    assert found.decision["shown"]
    assert found.warnings == asked.warnings
    assert "by CocoaPPL; shown" in str(found)
    with_decision = json.loads(found.as_json())
    assert AskedObject.model_validate(with_decision).decision is not None
    assert with_decision["decision"]["shown"] is True
    other = beamuq.calibrate([row | {"prompt_hash": "other"} for row in rows], method="CocoaPPL")
    with pytest.raises(BeamUQError, match=r"prompt_hash .* calibrated with 'other'; .*--force"):
        ask(QUESTION, str(tiny), calibration=other, **OPTIONS)
    for setting in ({"width": 3}, {"max_new_tokens": 4}, {"epsilon": 0.1}, {"alpha": 0.5}):
        with pytest.raises(
            BeamUQError, match=f"prompt_hash .* calibrated with '{asked.prompt_hash}'"
        ):
            ask(QUESTION, str(tiny), calibration=made, **OPTIONS | setting)
    forced = ask(QUESTION, str(tiny), calibration=other, force=True, **OPTIONS)
    assert any("'other'" in told for told in forced.warnings)


def test_many_questions_become_rows_for_calibrate_with_answer_model_and_prompt(
    tiny: Path, asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, scored = tmp_path / "questions.jsonl", tmp_path / "scored.jsonl"
    rows = [
        {"question": QUESTION, "answers": [asked.answer], "group": "s"},
        {"id": "b", "question": "Who?", "correct": 0},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(
        [
            "ask",
            "--questions",
            str(file),
            "--model",
            str(tiny),
            *ON_THE_LINE,
            "--output",
            str(scored),
        ]
    )
    assert "CocoaPPL" in capsys.readouterr().out
    found = [
        row
        for row in map(json.loads, scored.read_text().splitlines())
        if row["method"] == "CocoaPPL"
    ]
    assert [row["id"] for row in found] == ["1", "b"]
    assert [(row["quality"], row["correct"], row["group"]) for row in found] == [
        (1, None, "s"),
        (None, 0, None),
    ]
    assert found[0]["value"] == pytest.approx(asked.uncertainty("CocoaPPL"))
    told = {name: getattr(asked, name) for name in ("answer", "model", "model_hash", "prompt_hash")}
    assert {name: found[0][name] for name in told} == told
    with pytest.raises(BeamUQError, match="answer: unknown column; did you mean 'answers'"):
        beamuq.ask_all([{"question": "Who?", "answer": "x"}], str(tiny))
    with pytest.raises(BeamUQError, match="row 2: id '2' stands twice"):
        beamuq.ask_all([{"id": 2, "question": "Who?"}, {"question": "What?"}], str(tiny))


SYSTEM = {"role": "system", "content": "Answer in one word."}
USER = {"role": "user", "content": QUESTION}
CHAT = OPTIONS | {"style": "chat"}


def test_a_conversation_is_asked_as_it_is_and_a_list_of_them_gives_a_list(tiny: Path) -> None:
    one = ask([SYSTEM, USER], str(tiny), **CHAT)
    other, again = ask([[USER], [SYSTEM, USER]], str(tiny), **CHAT)
    assert (one.question, one.messages, one.examples) == (QUESTION, 2, 0)
    assert (again.answer, again.prompt_hash) == (one.answer, one.prompt_hash)
    assert list(again.texts.values()) == pytest.approx(list(one.texts.values()), rel=1e-4)
    assert list(other.texts.values()) != pytest.approx(list(one.texts.values()), rel=1e-2)
    assert [each.answer for each in ask(pd.Series([QUESTION]), str(tiny), **CHAT)]  # type: ignore[arg-type]
    assert "in the model's chat template, a conversation of 2 messages" in str(one)
    assert json.loads(one.as_json())["messages"] == 2


def test_the_hash_of_a_conversation_s_prompt_covers_the_system_prompt_and_no_turn(
    tiny: Path,
) -> None:
    turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ann"}]
    talks = [
        [SYSTEM, USER],
        [SYSTEM, *turns, USER],
        [USER],
        [SYSTEM | {"content": "Be short."}, USER],
    ]
    hashes = [each.prompt_hash for each in ask(talks, str(tiny), **CHAT)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    assert ask(QUESTION, str(tiny), shots=[], **CHAT).prompt_hash not in hashes


def test_a_calibration_of_another_system_prompt_is_refused_for_the_conversation_that_has_it(
    tiny: Path,
) -> None:
    asked = ask([SYSTEM, USER], str(tiny), **CHAT)
    (known,) = asked.uncertainties[asked.uncertainties["method"] == "CocoaPPL"].to_dict("records")
    known |= {"model_hash": asked.model_hash, "prompt_hash": asked.prompt_hash}
    rows = [known | {"id": k, "correct": k < 200} for k in range(300)]
    made = beamuq.calibrate(rows, method="CocoaPPL")
    assert ask([SYSTEM, USER], str(tiny), calibration=made, **CHAT).decision is not None
    with pytest.raises(BeamUQError, match=r"prompt_hash .* calibrated with"):
        ask([[SYSTEM, USER], [USER]], str(tiny), calibration=made, **CHAT)


@pytest.mark.parametrize(
    ("asked", "options", "told"),
    [
        (
            [USER],
            {"style": "plain"},
            r"question 1: messages: .*chat template, and style is 'plain'; give style chat",
        ),
        ([USER], {"shots": [{"question": "Who?", "answers": ["Ann"]}]}, "shots: .*as turns"),
        ([USER], {"prompt_template": "mine.txt"}, "prompt_template: .*leave the template out"),
        ([[USER], QUESTION], {}, "question 2: a question beside a conversation"),
        ([QUESTION, [USER]], {}, "question 1: a question beside a conversation"),
        ([QUESTION, USER], {}, "question 2: a dict; give a text, or a conversation"),
        ([[]], {}, "question 1: messages: empty"),
        (
            [USER, {"role": "assistant", "content": "x"}],
            {},
            r"question 1: messages\[1\]: role: .assistant.",
        ),
        (USER, {}, "question: a dict; give a question, a conversation"),
        (7, {}, "question: a int; give a question, a conversation"),
        ([QUESTION, " "], {}, "question 2: the question is empty; write one"),
        ([], {}, "no question; give one"),
    ],
)
def test_what_a_conversation_cannot_be_asked_with_is_refused(
    asked: Any, options: dict[str, Any], told: str, tiny: Path
) -> None:
    with pytest.raises(BeamUQError, match=f"^{told}"):
        ask(asked, str(tiny), **CHAT | options)


def test_conversations_of_a_file_are_asked_and_bad_ones_are_told_by_their_line(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "talks.jsonl"
    scored = tmp_path / "scored.jsonl"
    rows = [
        {"id": "a", "messages": [SYSTEM, USER]},
        {"id": "b", "messages": [USER], "answers": ["x"]},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    on_the_line = [*ON_THE_LINE, "--style", "chat", "--output", str(scored)]
    main(["ask", "--questions", str(file), "--model", str(tiny), *on_the_line])
    assert "CocoaPPL" in capsys.readouterr().out
    found = {row["id"]: row for row in map(json.loads, scored.read_text().splitlines())}
    first, second = ask([[SYSTEM, USER], [USER]], str(tiny), **CHAT)
    told = {key: (found[key]["answer"], found[key]["prompt_hash"]) for key in ("a", "b")}
    assert told == {
        "a": (first.answer, first.prompt_hash),
        "b": (second.answer, second.prompt_hash),
    }
    for row, problem in (
        ({"messages": [USER], "question": "Who?"}, "question and messages; give one of both"),
        ({"messages": []}, "messages: empty"),
        ({"messages": [USER, USER | {"content": None}]}, r"messages\[1\]: content: missing"),
        ({"messages": "Who?"}, "messages: .*valid list"),
        ({"question": "Who?"}, "a question beside a conversation"),
        ({"message": [USER]}, "message: unknown column; did you mean 'messages'"),
        ({"id": "c"}, "question: this key is missing; add it, or messages"),
    ):
        with pytest.raises(BeamUQError, match=f"^row 2: {problem}"):
            beamuq.ask_all([rows[0], row], str(tiny), **CHAT)


def test_whole_answers_are_asked_for_by_stop_which_is_part_of_the_prompt_s_hash(
    tiny: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    options = OPTIONS | {"max_new_tokens": 12, "width": 8}
    model = likes_newlines(tiny)
    whole = ask(QUESTION, model, stop="eos", **options)
    lines = ask(QUESTION, model, stop="newline", **options)
    assert any("\n" in beam.text for beam in whole.beams)
    assert not any("\n" in beam.text for beam in lines.beams)
    assert whole.prompt_hash != lines.prompt_hash
    shown = str(whole).splitlines()
    assert (
        sum(line.startswith(" 0.") for line in shown) == len(whole.texts) + 1
    )  # each text on one line
    assert any("\\n" in line for line in shown)
    main(["ask", QUESTION, "--model", str(tiny), "--stop", "eos", *ON_THE_LINE, "--json"])
    assert json.loads(capsys.readouterr().out)["stop"] == "eos"
    assert asked.stop == "newline"
    with pytest.raises(BeamUQError, match=r"^stop: 'x': choose from newline, eos"):
        ask(QUESTION, str(tiny), stop="x", **OPTIONS)


def test_doubts_about_texts_are_among_the_warnings(asked: Asked) -> None:
    doubtful = replace(asked, doubts=("the answer begins with a thought (<think>)",))
    assert doubtful.warnings == ("the answer begins with a thought (<think>)", *asked.warnings)
    assert json.loads(doubtful.as_json())["warnings"][0] == doubtful.doubts[0]
    assert "warning: the answer begins with a thought" in str(doubtful)

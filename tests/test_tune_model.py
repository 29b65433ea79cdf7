"""The short training run that makes the models of ``studies/tuned.yaml``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import tune_model
from beamuq.errors import BeamUQError
from beamuq.models.load_model import load_causal
from beamuq_study.study_config import STUDIES, load_study
from tiny import build_tiny_model, load_tiny_model, tiny_tokenizer
from tune_model import rate_factor, steps_of, texts_of, train

DIALOGUES = [
    {
        "story": "A spider lives by the Seine.\nIt has eight legs.",
        "questions": ["Where does it live?", "How many legs has it?"],
        "answers": {"input_text": ["by the Seine", "eight"]},
    },
    {
        "story": "William wrote a play in Paris.",
        "questions": ["Who wrote it?", "Where?", "What?"],
        "answers": {"input_text": ["William", "Paris", "a play"]},
    },
]
CHOICE = {
    "id": "q1",
    "question": "What is a spider made of?",
    "choices": {"text": ["water", "stone"], "label": ["A", "B"]},
    "answerKey": "B",
}


def _written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def dialogues(tmp_path: Path) -> Path:
    return _written(tmp_path / "validation.jsonl", DIALOGUES)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model("llama", tmp_path_factory.mktemp("tune") / "tiny")


@pytest.fixture
def settings(tiny_folder: Path, dialogues: Path) -> dict[str, Any]:
    return {
        "model": str(tiny_folder),
        "data": [f"coqa={dialogues}"],
        "epochs": 3,
        "keep": [1, 3],
        "rate": 1e-2,
        "warm_up": 2,
        "batch": 1,
        "seed": 1,
    }


def _trained_text(path: Path, adapter: str) -> list[str]:
    tokenizer = tiny_tokenizer()
    return [
        tokenizer.decode([i for i, kept in zip(text.ids, text.trained, strict=True) if kept])
        for text in texts_of(adapter, path, tokenizer)
    ]


def test_answers_and_their_newlines_alone_are_trained(dialogues: Path) -> None:
    assert _trained_text(dialogues, "coqa") == [
        " by the Seine\n eight\n",
        " William\n Paris\n a play\n",
    ]


def test_a_choice_is_trained_on_the_text_of_the_right_option(tmp_path: Path) -> None:
    path = _written(tmp_path / "train.jsonl", [CHOICE])
    assert _trained_text(path, "ai2_arc") == [" stone\n"]


def test_a_text_ends_with_the_prompt_that_the_study_asks_and_its_answer(dialogues: Path) -> None:
    tokenizer = tiny_tokenizer()
    text = texts_of("coqa", dialogues, tokenizer)[0]
    assert tokenizer.decode(text.ids) == (
        "Story: A spider lives by the Seine.\nIt has eight legs.\n\n"
        "Question: Where does it live?\nAnswer: by the Seine\n\n"
        "Question: How many legs has it?\nAnswer: eight\n"
    )


def test_the_loss_is_that_of_the_trained_tokens_in_their_context(
    tiny_folder: Path, dialogues: Path
) -> None:
    model, tokenizer = load_tiny_model(tiny_folder)
    text = texts_of("coqa", dialogues, tokenizer)[0]
    logprobs = model(input_ids=torch.tensor([text.ids])).logits[0].log_softmax(-1)
    by_hand = -sum(
        logprobs[place - 1, text.ids[place]] for place, kept in enumerate(text.trained) if kept
    )
    assert tune_model.summed_loss(model, text).item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_a_text_whose_tokens_do_not_end_with_its_prompt_is_refused(dialogues: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["Answer: eight"])
    with pytest.raises(BeamUQError, match=r"validation\.jsonl.*another tokenizer"):
        texts_of("coqa", dialogues, tokenizer)


def test_a_text_beyond_the_model_s_context_is_refused_not_cut(dialogues: Path) -> None:
    with pytest.raises(BeamUQError, match=r"validation\.jsonl.*exceed the model's context of 9;"):
        texts_of("coqa", dialogues, tiny_tokenizer(), 9)


def test_the_rate_rises_over_the_warm_up_and_falls_to_the_last_step() -> None:
    factors = [rate_factor(step, 12, 4) for step in range(12)]
    assert factors == [0.25, 0.5, 0.75, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]


def test_each_epoch_has_every_text_once_in_an_order_of_its_own() -> None:
    steps = steps_of(7, {"batch": 4, "epochs": 2, "seed": 1})
    assert [len(step) for step in steps] == [4, 3, 4, 3]
    first = [*steps[0], *steps[1]]
    second = [*steps[2], *steps[3]]
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second


def _ended_after(steps: int, real: Callable[..., float]) -> Callable[..., float]:
    """A step that ends the run once so many were taken."""
    taken = []

    def step(*arguments: Any) -> float:
        if len(taken) == steps:
            raise KeyboardInterrupt
        taken.append(1)
        return real(*arguments)

    return step


def test_a_resumed_run_equals_an_uninterrupted_one(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    train(settings, whole, checkpoint_every=100)
    with monkeypatch.context() as patch:
        patch.setattr(tune_model, "_take_step", _ended_after(4, tune_model._take_step))
        with pytest.raises(KeyboardInterrupt):
            train(settings, parts, checkpoint_every=3)
    train(settings, parts, checkpoint_every=3)
    for epoch in (1, 3):
        expected = load_file(whole / f"epoch-{epoch}/model.safetensors")
        weights = load_file(parts / f"epoch-{epoch}/model.safetensors")
        assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_run_lowers_its_loss_and_its_models_load(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(settings, tmp_path / "run", checkpoint_every=100)
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in _lines(capsys)]
    assert len(losses) == 6
    assert sum(losses[-2:]) < sum(losses[:2])
    cpu = torch.device("cpu")
    _, tokenizer = load_causal(tmp_path / "run/epoch-3", dtype=torch.float32, device=cpu)
    assert tokenizer("Where?").input_ids == tiny_tokenizer()("Where?").input_ids


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]


def test_a_finished_run_does_nothing(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(settings, tmp_path / "run", checkpoint_every=100)
    capsys.readouterr()
    train(settings, tmp_path / "run", checkpoint_every=100)
    assert _lines(capsys) == []


def test_a_checkpoint_of_other_settings_is_refused(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    train(settings, tmp_path / "run", checkpoint_every=100)
    with pytest.raises(BeamUQError, match=r"checkpoint\.pt.*other settings.*--out"):
        train(settings | {"rate": 1e-3}, tmp_path / "run", checkpoint_every=100)


def test_data_of_an_unknown_adapter_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"--data 'poems=x'.*coqa"):
        tune_model.main(["--model", "absent", "--data", "poems=x", "--out", "absent"])


def test_a_number_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("0", "-1", "1.5"):
        with pytest.raises(SystemExit):
            tune_model.main(["--model", "m", "--data", "coqa=x", "--out", "o", "--batch", word])
        assert f"--batch: {word!r} is no whole number" in capsys.readouterr().err


def test_the_study_s_commands_make_its_models_and_train_on_nothing_that_it_asks() -> None:
    text = (STUDIES / "tuned.yaml").read_text(encoding="utf-8")
    study = load_study(STUDIES / "tuned.yaml")
    commands = re.sub(r"\\\n#", " ", text).split("python tools/tune_model.py")[1:]
    made = set()
    trained = set()
    for command in commands:
        words = command.splitlines()[0].split()
        options = tune_model.parser_of_options().parse_args(words)
        made |= {f"folder:{options.out}/epoch-{epoch}" for epoch in options.keep}
        trained |= {data.rpartition("/")[2] for data in options.data if "coqa" in data}
        of_choice = [data for data in options.data if "ai2_arc" in data or "commonsense" in data]
        assert all("commonsense_qa/validation" not in data for data in of_choice)
        assert all("ai2_arc/test" not in data for data in of_choice)
    sources = {model.source for model in study.models.values()}
    assert sources - made == {"packaged:smollm2-135m-instruct"}
    assert made <= sources
    asked = {f"{study.datasets[name].split}.parquet" for name in ("coqa", "coqa-pilot")}
    assert trained == {"validation.parquet"}
    assert asked == {"test_bigbench.parquet"}


def test_the_pilot_s_turns_are_asked_apart_and_none_decides() -> None:
    study = load_study(STUDIES / "tuned.yaml")
    pilot = study.datasets["coqa-pilot"]
    assert study.datasets["coqa"].turns_left_out == pilot.only_turns
    recipes = {entry.recipe for entry in study.grid if "coqa-pilot" in entry.datasets}
    assert recipes == {"pilot"}
    assert study.main.recipe not in recipes

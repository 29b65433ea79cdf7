"""What the command remembers of the check of a model, and when it checks again."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import beamuq
from beamuq.decoding import self_check
from beamuq.decoding.self_check import SelfCheck, checked
from beamuq.models import earlier_checks
from beamuq.models.earlier_checks import FILE, MOST_KEPT, facts_of_process
from beamuq.models.load_model import load_causal
from beamuq.models.model_folder import Origin, fill_folder
from beamuq.own_program import PROGRAM
from tiny import build_tiny_model

CPU = torch.device("cpu")
Change = Callable[[Path, pytest.MonkeyPatch], None]


def fetched(folder: Path, *, factor: float = 1.0) -> Path:
    """A tiny model, its last norm times ``factor``, in a folder that a fetch has made."""

    def bring(partial: Path) -> Origin:
        build_tiny_model("llama", partial)
        weights = load_file(partial / "model.safetensors")
        weights["model.norm.weight"] *= factor
        save_file(weights, partial / "model.safetensors", {"format": "pt"})
        return Origin("", "")

    fill_folder(folder, "packaged:tiny", "1" * 40, bring, offline=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fetched(tmp_path / "tiny")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The models that were really checked, in a process of the command."""
    models: list[object] = []
    check = self_check._check

    def counted(model: object) -> SelfCheck:
        models.append(model)
        return check(model)  # type: ignore[arg-type]

    monkeypatch.setattr(self_check, "_check", counted)
    monkeypatch.setattr(PROGRAM, "is_command", True)
    return models


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> object:
    model, _ = load_causal(folder, dtype=dtype, device=CPU)
    return model


def test_a_second_run_takes_the_result_of_the_first(folder: Path, checks: list[object]) -> None:
    first = loaded(folder)
    second = loaded(folder)
    assert checks == [first]
    assert checked(second) == checked(first)  # type: ignore[arg-type]
    assert checks == [first]


def test_a_model_that_was_changed_after_it_was_loaded_is_checked(
    folder: Path, checks: list[object]
) -> None:
    loaded(folder)
    model = loaded(folder)
    model.register_forward_hook(lambda *_: None)  # type: ignore[attr-defined]
    checked(model)  # type: ignore[arg-type]
    assert checks[1:] == [model]


def other_variable(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")


def other_threads(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.__config__, "parallel_info", lambda: "at::get_num_threads() : 3")


def other_precision(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")


def other_processor(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_checks, "_processor", lambda: ["model name : another"])


def another_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "site" / "kernels-1.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(folder.parent / "site"))


def another_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "patches_of_transformers.py").write_text("")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setitem(
        sys.modules, "patches_of_transformers", importlib.import_module("patches_of_transformers")
    )


def other_weights(folder: Path, _: pytest.MonkeyPatch) -> None:
    results = (folder / FILE).read_text()
    folder.rename(folder.with_name("before"))
    fetched(folder, factor=1.5)
    (folder / FILE).write_text(results)


@pytest.mark.parametrize(
    "change",
    [
        *(other_variable, other_threads, other_precision, other_processor),
        *(another_package, another_module, other_weights),
    ],
)
def test_what_the_check_depends_on_has_changed_and_it_is_run_again(
    folder: Path, checks: list[object], monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    loaded(folder)
    change(folder, monkeypatch)
    second = loaded(folder)
    assert checks[1:] == [second]


def test_another_dtype_is_checked_on_its_own(folder: Path, checks: list[object]) -> None:
    loaded(folder)
    second = loaded(folder, torch.bfloat16)
    assert checks[1:] == [second]


def test_a_module_whose_file_was_written_anew_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kernels_of_mine.py"
    file.write_text("A = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("kernels_of_mine")
    monkeypatch.setitem(sys.modules, "kernels_of_mine", module)
    before = facts_of_process()
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_text("A = 2\n")
    os.utime(file, ns=times)
    assert facts_of_process()["code"] != before["code"]


def test_where_a_person_sits_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = facts_of_process()
    monkeypatch.setenv("SSH_TTY", "/dev/pts/7")
    monkeypatch.setenv("BEAMUQ_API_KEY", "secret")
    assert facts_of_process() == before


def test_the_code_that_counts_is_that_of_torch_transformers_and_ours() -> None:
    files = "\n".join(facts_of_process()["code"])  # type: ignore[arg-type]
    for name in ("transformers/models/llama/modeling_llama.py", "beamuq/decoding/self_check.py"):
        assert name in files
    assert "libtorch_cpu" in files or sys.platform != "linux"


def test_a_program_of_someone_else_checks_each_time(
    folder: Path, checks: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROGRAM, "is_command", False)
    models = [loaded(folder), loaded(folder)]
    assert checks == models
    assert not (folder / FILE).exists()


def test_a_folder_that_no_fetch_made_is_checked_each_time(
    tmp_path: Path, checks: list[object]
) -> None:
    build_tiny_model("llama", tmp_path)
    (tmp_path / FILE).write_text("{}")
    models = [loaded(tmp_path), loaded(tmp_path)]
    assert checks == models


@pytest.mark.parametrize("content", ["", "[]", '{"1": {"path": "tree"}}', "\0"])
def test_a_damaged_file_of_results_is_written_anew(
    folder: Path, checks: list[object], content: str
) -> None:
    (folder / FILE).write_text(content)
    first = loaded(folder)
    loaded(folder)
    assert checks == [first]


def test_a_path_that_there_is_not_is_not_taken(folder: Path, checks: list[object]) -> None:
    first = loaded(folder)
    results = json.loads((folder / FILE).read_text())
    for result in results.values():
        result["path"] = "a later one"
    (folder / FILE).write_text(json.dumps(results))
    second = loaded(folder)
    assert checks == [first, second]


def test_only_the_newest_results_are_kept(folder: Path, checks: list[object]) -> None:
    old = {"path": "tree", "difference": 1e-5, "lengths": "none", "reason": "", "unprobed": []}
    results = {str(number): old for number in range(MOST_KEPT)}
    (folder / FILE).write_text(json.dumps(results))
    loaded(folder)
    kept = json.loads((folder / FILE).read_text())
    assert len(kept) == MOST_KEPT
    assert "0" not in kept
    assert len(checks) == 1


def test_a_folder_that_may_not_be_written_is_checked_each_time(
    folder: Path, checks: list[object]
) -> None:
    (folder / FILE).mkdir()  # who is root may write everywhere
    models = [loaded(folder), loaded(folder)]
    assert checks == models


QUESTION = "Who wrote Hamlet?"
PACKAGES = {"torch", "transformers", "scipy", "sklearn", "matplotlib", "datasets", "snakemake"}
COMMAND = f"""\
import sys
from beamuq.cli import main
from beamuq.own_program import PROGRAM
PROGRAM.is_command = True
main(sys.argv[1:])
print(sorted({PACKAGES!r} & sys.modules.keys()), file=sys.stderr)
import scipy.special, transformers
"""


def printed(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def asked_by_command(model: str, similarity: str) -> subprocess.CompletedProcess[str]:
    options = ["--model", model, "--similarity", similarity, "--device", "cpu", "--json"]
    return printed(COMMAND, "ask", QUESTION, *options)


def asked_here(model: str, similarity: str) -> str:
    """What the command prints, from the library in this process, which has imported scipy."""
    answered = beamuq.ask(QUESTION, model, similarity=similarity, device="cpu")
    return f"{answered.as_json()}\n"


def test_the_command_answers_the_same_with_a_remembered_check_and_imports_what_it_needs(
    folder: Path,
) -> None:
    first = asked_by_command(str(folder), "lexical")
    written = (folder / FILE).stat().st_mtime_ns
    second = asked_by_command(str(folder), "lexical")
    assert (folder / FILE).stat().st_mtime_ns == written  # what was found is not written again
    assert first.stdout == second.stdout == asked_here(str(folder), "lexical")
    for done in (first, second):
        assert done.stderr.splitlines()[-1] == "['torch', 'transformers']"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_an_answer_that_cannot_be_written_is_told_in_one_line(folder: Path) -> None:
    command = [sys.executable, "-m", "beamuq", "ask", QUESTION, "--model", str(folder)]
    command += ["--similarity", "lexical", "--device", "cpu"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "No space left on device" in line


@pytest.mark.packaged
def test_the_packaged_model_is_asked_without_further_packages_and_answers_the_same() -> None:
    done = asked_by_command("packaged:smollm2-135m-instruct", "minilm")
    assert done.stderr.splitlines()[-1] == "['torch', 'transformers']"
    assert done.stdout == asked_here("packaged:smollm2-135m-instruct", "minilm")

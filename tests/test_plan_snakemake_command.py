"""What is read from Snakemake's command line and profiles, and what is refused of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamuq.errors import BeamUQError
from beamuq.machine_config import load_machine
from beamuq.plan import snakemake_command
from beamuq.study_config import ROOT

HERE = [ROOT]
AUTO, NAMED = load_machine({"device": "auto"}), load_machine({"device": "cuda"})


@pytest.mark.parametrize(
    ("words", "environment", "named"),
    [
        ("-n", {}, []),
        ("--workflow-profile profiles/slurm", {}, ["profiles/slurm"]),
        ("--workflow-profile=a --profile b", {"SNAKEMAKE_PROFILE": "c"}, ["a", "b"]),
        ("-n", {"SNAKEMAKE_PROFILE": "c"}, ["c"]),
    ],
)
def test_profiles_are_those_of_command_line_and_environment(
    words: str, environment: dict[str, str], named: list[str]
) -> None:
    assert snakemake_command.profiles(words.split(), environment) == named


@pytest.mark.parametrize("words", ["--configfile fine.yaml {}", "--configfiles={} -n", "--profile own -n", "-n"])
@pytest.mark.parametrize("name", ["twice.yaml", "twice.json"])
def test_no_key_stands_twice_in_any_file_of_configuration(
    words: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "config.yaml" if words == "-n" else name
    (tmp_path / "fine.yaml").write_text("study: demo")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.yaml").write_text(f"configfile: [fine.yaml, {name}]")
    (tmp_path / name).write_text('{"study": "demo", "device": "cpu"}')
    argv = words.format(name).split()
    snakemake_command.check_config_files(argv, {}, [tmp_path])
    (tmp_path / name).write_text('{"study": "demo", "study": "real"}')
    with pytest.raises(BeamUQError, match=f"{name}: .*'study' stands twice"):
        snakemake_command.check_config_files(argv, {}, [tmp_path])


@pytest.mark.parametrize(
    ("words", "dry"),
    [
        ("-n", True),
        ("-np table", True),
        ("--dry-run --cores 1", True),
        ("--cores 1", False),
        ("--config study=n", False),
        ("-n --lint", False),
        ("-n --dag", False),
        ("-n --quiet all", False),
        ("-n --quiet rules", True),
    ],
)
def test_a_dry_run_is_one_that_a_person_reads(words: str, dry: bool) -> None:
    assert snakemake_command.is_dry_run(["snakemake", *words.split()]) == dry


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("", "local"),
        ("--executor slurm", "slurm"),
        ("-e=slurm", "slurm"),
        ("--workflow-profile profiles/slurm", "slurm"),
        ("--workflow-profile slurm", "slurm"),
        ("--workflow-profile profiles/slurm --executor local", "local"),
        ("--workflow-profile profiles/workstation", "local"),
        ("--workflow-profile profiles/kubernetes", "local"),
    ],
)
def test_the_executor_is_that_of_the_command_line_or_the_profile(words: str, name: str) -> None:
    assert snakemake_command.executor(words.split(), {}, HERE) == name


def test_auto_is_refused_where_jobs_run_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "profile.yaml").write_text("executor: slurm\n")
    for words in (["--profile", str(tmp_path)], ["--executor", "slurm"], ["-n", "-e", "slurm"]):
        with pytest.raises(BeamUQError, match=r'config\.yaml: device: "auto": .*slurm.*device=cuda'):
            snakemake_command.check_command(words, {}, HERE, AUTO)
        snakemake_command.check_command(words, {}, HERE, NAMED)
    for words in ([], ["--workflow-profile", "profiles/workstation"], ["--mode", "remote", "--cores", "1"]):
        snakemake_command.check_command(words, {}, HERE, AUTO)


def test_a_profile_that_is_nowhere_is_refused_with_the_one_meant() -> None:
    with pytest.raises(BeamUQError, match=r"--workflow-profile profiles/slrum: .*'profiles/slurm'"):
        snakemake_command.check_command(["--workflow-profile", "profiles/slrum"], {}, HERE, NAMED)
    for name in (str(ROOT / "profiles/workstation"), "workstation", "none"):
        snakemake_command.check_command([f"--workflow-profile={name}"], {}, HERE, NAMED)


@pytest.mark.parametrize(
    ("words", "deploys"),
    [
        ("--cores 1", False),
        ("--sdm conda --cores 1", True),
        ("--software-deployment-method=apptainer", True),
        ("--use-conda", True),
        ("--workflow-profile with", True),
        ("--workflow-profile without", False),
    ],
)
def test_software_is_deployed_where_command_or_profile_say_so(words: str, deploys: bool, tmp_path: Path) -> None:
    for name, said in {"with": "software-deployment-method: conda", "without": "use-conda: false"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "profile.yaml").write_text(f"{said}\n")
    assert snakemake_command.deploys_software(words.split(), {}, [tmp_path]) == deploys

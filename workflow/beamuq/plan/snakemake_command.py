"""What the command line and the profiles of this Snakemake say: which profile, which executor.

Snakemake runs, without a word, without a workflow profile that it does not find, and tells a Snakefile its executor
too late to refuse one: both are read here from what the user wrote.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from beamuq.config_errors import parse_json, read_mapping, read_yaml
from beamuq.errors import BeamUQError, hint
from beamuq.machine_config import Machine
from beamuq.study_config import ROOT
from beamuq.yaml_field_types import for_snakemake

RUN_HERE = ("local", "dryrun", "touch")
DEPLOYMENT = {"--software-deployment-method", "--deployment-method", "--deployment", "--sdm"} | {
    f"--use-{what}" for what in ("conda", "apptainer", "singularity")
}


def values_of(argv: Sequence[str], *options: str) -> list[str]:
    """What a command line gives for any of these options, in order: ``--name value`` or ``--name=value``."""
    values = []
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in options and (equals or position + 1 < len(argv)):
            values.append(value if equals else argv[position + 1])
    return values


def is_dry_run(argv: Sequence[str]) -> bool:
    """Whether jobs are only listed, for a person to read."""
    short = re.compile("-[a-zA-Z]*n[a-zA-Z]*")  # -n, -np
    asked = any(word in ("--dry-run", "--dryrun") or short.fullmatch(word) for word in argv)
    quiet = any(word in ("all", "-qall") for word in [*values_of(argv, "--quiet", "-q"), *argv])
    return asked and not quiet and not {"--lint", "--dag", "--rulegraph", "--filegraph", "--summary"} & {*argv}


def profiles(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The profiles that a command line or the environment names."""
    named = values_of(argv, "--profile", "--workflow-profile")
    return named or [name for name in [environment.get("SNAKEMAKE_PROFILE", "")] if name]


def executor(argv: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path]) -> str:
    """The executor asked for: on the command line, else in a profile, else "local"."""
    if named := values_of(argv, "--executor", "-e"):
        return named[-1]
    said = (content["executor"] for content in _said_by_profiles(argv, environment, folders) if "executor" in content)
    return str(next(said, "local"))


def deploys_software(argv: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path]) -> bool:
    """Whether jobs run in conda environments or containers that Snakemake makes."""
    words = {word.partition("=")[0] for word in argv}
    said = {f"--{key}" for content in _said_by_profiles(argv, environment, folders) for key, v in content.items() if v}
    return bool(DEPLOYMENT & (words | said))


def _said_by_profiles(
    argv: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path]
) -> Iterator[dict[str, Any]]:
    """The content of each profile that a command uses, the first named first."""
    for name in [*profiles(argv, environment), "default"]:
        for file in _profile_files(name, folders):
            content = read_yaml(file)
            if isinstance(content, dict):
                yield content


def check_command(
    argv: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path], machine: Machine
) -> None:
    """Refuse a workflow profile that is nowhere, and ``device: auto`` where jobs run on other machines.

    ``folders``: where Snakemake looks for profiles, the working directory and the Snakefile's.

    Raises BeamUQError naming the profile and the one that was probably meant, or the executor and the fix.
    """
    for name in values_of(argv, "--workflow-profile"):
        if name != "none" and not any(place.exists() for place in _places(name, folders)):
            there = sorted({path.parent.name for folder in folders for path in folder.glob("profiles/*/profile.yaml")})
            known = [f"profiles/{folder}" for folder in there]
            raise BeamUQError(
                f"--workflow-profile {name}: no such profile; {hint(f'profiles/{Path(name).name}', known)}"
            )
    runs_on = executor(argv, environment, folders)
    if machine.device == "auto" and runs_on not in RUN_HERE:
        raise BeamUQError(
            f'config.yaml: device: "auto": with the executor {runs_on} each node would choose for itself; say '
            "--config device=cuda or device=cpu"
        )


def check_config_files(argv: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path]) -> None:
    """Refuse config.yaml, and files that a command line or a profile names beside it, where a key stands twice.

    Snakemake has read them already, and took the last; a date or a number that is none it tells with a traceback.

    Raises BeamUQError as :func:`~beamuq.config_errors.read_yaml`, or if one is no mapping.
    """
    named = ["config.yaml"]
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in ("--configfile", "--configfiles"):
            after = takewhile(lambda each: not each.startswith("-"), argv[position + 1 :])
            named += [value] if equals else after
    for said in _said_by_profiles(argv, environment, folders):
        for key in ("configfile", "configfiles"):
            named += said[key] if isinstance(said.get(key), list) else [said[key]] if key in said else []
    for file in filter(Path.is_file, map(Path, map(str, named))):
        if file.suffix == ".json":
            parse_json(file.read_bytes(), file, "correct the file")
        else:
            read_mapping(file)


def check_folders(working: Path, project: Path, deploys: bool) -> None:
    """Refuse folders whose names Snakemake itself would let a shell read as commands, or could not read.

    It puts both between double quotes, unescaped, in a job for a cluster and in one with a very long command; where it
    ``deploys`` software (conda, containers), the working directory between single ones; and it formats the project's.

    Raises BeamUQError naming the folder and the character.
    """
    for folder in (working, project):
        name = json.dumps(str(folder), ensure_ascii=False)
        if found := re.search("[`$\"']" if deploys else '[`$"]', str(folder)):
            raise BeamUQError(
                f"{name}: Snakemake gives this folder's name to shells, which would read its {found[0]} as a command; "
                "rename it (every character but ` $ \" is possible, and but ' with conda or containers)"
            )
    for folder in (project, ROOT):
        try:
            for_snakemake(str(folder))
        except ValueError as error:
            raise BeamUQError(f"{json.dumps(str(folder), ensure_ascii=False)}: {error}") from error


def _places(name: str, folders: Sequence[Path]) -> list[Path]:
    return [folder / base / name for folder in folders for base in ("", "profiles")]


def _profile_files(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """The profile's files: beside the workflow, or (``--profile``) in the user's own or the machine's folder."""
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "snakemake", name)
    for place in [*_places(name, folders), own, Path("/etc/xdg/snakemake", name)]:
        # a profile for one version of Snakemake is called config.v9+.yaml
        yield from sorted([*place.glob("profile.yaml"), *place.glob("config*.yaml")]) if place.is_dir() else ()

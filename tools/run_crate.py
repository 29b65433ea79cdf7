"""Pack a finished study as a Workflow Run RO-Crate: ``python tools/run_crate.py [STUDY]``.

``build/<study>.crate.zip`` holds the workflow, the study, ``config.yaml``, tables, figures and
pages with their hashes (https://w3id.org/ro/wfrun/workflow/0.5): of the project what git tracks, of
results the exhibits that the study declares. Questions and answers stay out of it: datasets have
licences of their own.
"""

from __future__ import annotations

import json
import mimetypes
import os
import subprocess
import sys
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from beamuq import __version__
from beamuq.config_errors import read_yaml
from beamuq.errors import BeamUQError, line_of
from beamuq.io import file_sha256, write_text
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.study_config import ROOT, Study, load_study, study_path

Entity = dict[str, Any]
CRATE = "https://w3id.org/ro/crate/1.1"
WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    WORKFLOW_CRATE: "Workflow RO-Crate",
}
CONTEXT = [f"{CRATE}/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}]
METADATA = "ro-crate-metadata.json"
ABOUT = "Uncertainty of answers of language models, from raw questions to tables and figures"
LICENCE = "https://spdx.org/licenses/Apache-2.0"
BIOSCHEMAS = "https://bioschemas.org/profiles"
PAGES = {
    "overview": "overview.html",
    "comparison": "comparison.html",
    "ledger": "ledger.html",
    "record": "study.json",
}
ENDINGS = {"table": ("csv", "tex", "md", "html"), "figure": ("pdf", "svg", "png", "csv", "txt")}
PROJECT = ("README.md", "CITATION.cff", "LICENSE", "envs/constraints.txt")
CODE = {"src/": "library, prompts", "workflow/": "rules, numbers"}


@dataclass(frozen=True)
class Run:
    """A study that ran in ``folder``. Paths in the crate are those from there; a folder's has a
    slash at its end.
    """

    name: str  # as in ``--config study=NAME``
    file: Path
    study: Study
    folder: Path

    @property
    def results(self) -> str:
        """Where its pages are."""
        return f"results/{self.file.stem}/"

    @property
    def exhibits(self) -> dict[str, str]:
        """The folder of each kind of exhibit."""
        return {"table": f"{self.results}tables/", "figure": f"figures/{self.file.stem}/"}

    @property
    def inputs(self) -> dict[str, str]:
        """The path of each parameter that it reads."""
        return {"study": f"studies/{self.file.name}", "config": "config.yaml"}

    @property
    def outputs(self) -> dict[str, str]:
        """The path of each parameter that it writes."""
        pages = {key: self.results + page for key, page in PAGES.items()}
        return pages | {f"{kind}s": folder for kind, folder in self.exhibits.items()}

    def files_read(self) -> dict[str, Path]:
        """The file of each path that it reads."""
        paths = self.inputs
        config = self.folder / paths["config"]
        return {paths["study"]: self.file, paths["config"]: _without_addresses(config)}

    def files_written(self) -> dict[str, Path]:
        """The file of each page and exhibit."""
        paths = [self.results + page for page in PAGES.values()]
        for label in self.study.exhibits:
            kind = list_of_exhibits.exhibit(label, self.study).kind
            paths += [f"{self.exhibits[kind]}{label}.{ending}" for ending in ENDINGS[kind]]
        return {path: self.folder / path for path in paths}


def _without_addresses(config: Path) -> Path:
    """``config.yaml``, or a copy in ``build`` where it has addresses of servers, without them."""
    content = read_yaml(config) or {}
    if not content.get("servers"):
        return config
    content["servers"] = dict.fromkeys(content["servers"])
    copy = config.parent / "build" / config.name
    write_text(copy, yaml.safe_dump(content, sort_keys=False))
    return copy


def crate(name: str, folder: Path) -> tuple[Entity, dict[str, Path]]:
    """The metadata of a study's crate, and its files by their path in it.

    ``folder``: where the study ran. Raises BeamUQError for a study that was changed after its run,
    a page or exhibit that is not there or is a link, and a project without git.
    """
    run = _run(name, folder)
    read = run.files_read()
    written = run.files_written()
    _check_files(run, [*read.values(), *written.values()])
    tracked = _tracked()
    described = {path: tracked[path] for path in PROJECT} | read | written
    folders = {path: ROOT / path for path in CODE}
    folders |= {path: folder / path for path in run.exhibits.values()}
    times = sorted(path.stat().st_mtime for path in written.values())
    graph = [
        _metadata_itself(),
        _crate_itself(run, described, folders, _moment(times[-1])),
        *_origin(),
        _workflow(run),
        _entity("#snakemake", "ComputerLanguage", "Snakemake")
        | {"url": _to("https://snakemake.github.io")},
        _action(run, _moment(times[0]), _moment(times[-1])),
        *(_parameter(key, path) for key, path in (run.inputs | run.outputs).items()),
        *_folders(run, described),
        *_files(run, described),
    ]
    return {"@context": CONTEXT, "@graph": graph}, tracked | described | folders


def _run(name: str, folder: Path) -> Run:
    """The study, which must be as it was when it ran."""
    file = study_path(name)
    run = Run(name, file, load_study(file), folder)
    record = folder / run.outputs["record"]
    if load_study(record).as_run() != run.study.as_run():
        raise BeamUQError(
            f"{file}: changed after the run that {record} tells of; run it again, or change it back"
        )
    return run


def _check_files(run: Run, files: Iterable[Path]) -> None:
    for path in files:
        if path.is_symlink() or not path.is_file():
            target = os.path.relpath(path, run.folder)
            make = f"snakemake --cores all --config study={run.name} -- {target}"
            raise BeamUQError(f"{path}: not there, or a link; make it: {make}")


def _tracked() -> dict[str, Path]:
    """What git tracks of the workflow, by path, without links."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "Snakefile", "src", "workflow", *PROJECT]
    paths = subprocess.check_output(command, text=True).split("\0")[:-1]
    if not paths:
        raise BeamUQError(f"{ROOT}: git tracks nothing here; a crate needs a clone")
    return {path: ROOT / path for path in paths if not (ROOT / path).is_symlink()}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _metadata_itself() -> Entity:
    return {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": _to("./"),
        "conformsTo": _all([CRATE, WORKFLOW_CRATE]),
    }


def _crate_itself(
    run: Run, described: Collection[str], folders: Collection[str], date: str
) -> Entity:
    alone = [path for path in described if not path.startswith(tuple(folders))]
    title = f"{run.study.title}: a run of beamuq {__version__}"
    return _entity("./", "Dataset", title) | {
        "description": ABOUT,
        "datePublished": date,
        "license": _to(LICENCE),
        "mainEntity": _to("Snakefile"),
        "mentions": _to("#run"),
        "conformsTo": _all(PROFILES),
        "hasPart": _all(["Snakefile", *folders, *alone]),
        "author": _to("#developers"),
    }


def _origin() -> list[Entity]:
    """Who wrote the workflow, what the crate conforms to, and the licence."""
    profiles = [
        _entity(address, "CreativeWork", title) | {"version": address.rpartition("/")[2]}
        for address, title in PROFILES.items()
    ]
    return [
        _entity("#developers", "Organization", "The beamuq developers"),
        *profiles,
        _entity(LICENCE, "CreativeWork", "Apache License 2.0"),
    ]


def _workflow(run: Run) -> Entity:
    kinds = ["File", "SoftwareSourceCode", "ComputationalWorkflow"]
    return _entity("Snakefile", kinds, "beamuq") | {
        "version": __version__,
        "conformsTo": _to(f"{BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"),
        "license": _to(LICENCE),
        "programmingLanguage": _to("#snakemake"),
        "encodingFormat": "text/plain",
        "input": _all(f"#{key}" for key in run.inputs),
        "output": _all(f"#{key}" for key in run.outputs),
    }


def _action(run: Run, started: str, ended: str) -> Entity:
    command = f"snakemake --cores all --config study={run.name}"
    return _entity("#run", "CreateAction", f"Run of study {run.file.stem}") | {
        "startTime": started,
        "endTime": ended,
        "description": f"{command}; times are those of what it wrote",
        "instrument": _to("Snakefile"),
        "object": _all(run.inputs.values()),
        "result": _all(run.outputs.values()),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }


def _parameter(key: str, path: str) -> Entity:
    return _entity(f"#{key}", "FormalParameter", key) | {
        "additionalType": "Dataset" if path.endswith("/") else "File",
        "workExample": _to(path),
        "conformsTo": _to(f"{BIOSCHEMAS}/FormalParameter/1.0-RELEASE"),
    }


def _folders(run: Run, described: Collection[str]) -> list[Entity]:
    titles = CODE | {path: f"{kind}s" for kind, path in run.exhibits.items()}
    examples = _examples(run)
    return [
        _entity(folder, "Dataset", title)
        | {"hasPart": _all(path for path in described if path.startswith(folder))}
        | examples.get(folder, {})
        for folder, title in titles.items()
    ]


def _files(run: Run, described: dict[str, Path]) -> list[Entity]:
    links = _examples(run) | {"README.md": {"about": _to("./")}}
    return [
        _entity(path, "File", file.name)
        | {
            "contentSize": str(file.stat().st_size),
            "sha256": file_sha256(file),
            "encodingFormat": mimetypes.guess_type(file.name)[0] or "text/plain",
        }
        | links.get(path, {})
        for path, file in described.items()
    ]


def _examples(run: Run) -> dict[str, Entity]:
    """By path the parameter that it is an example of."""
    parameters = run.inputs | run.outputs
    return {path: {"exampleOfWork": _to(f"#{key}")} for key, path in parameters.items()}


def _entity(identifier: str, kind: str | list[str], name: str) -> Entity:
    return {"@id": identifier, "@type": kind, "name": name}


def _to(target: str) -> Entity:
    return {"@id": target}


def _all(targets: Iterable[str]) -> list[Entity]:
    return [_to(target) for target in targets]


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "demo"
    try:
        metadata, files = crate(name, Path.cwd())
    except (BeamUQError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(line_of(error))
    target = Path("build") / f"{study_path(name).stem}.crate.zip"
    target.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, json.dumps(metadata, indent=1, ensure_ascii=False) + "\n")
        for path, file in sorted(files.items()):
            archive.write(file, path)
    print(f"{target}: {len(files)} files")


if __name__ == "__main__":
    main()

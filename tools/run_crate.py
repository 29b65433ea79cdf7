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
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beamuq import __version__
from beamuq.errors import BeamUQError, line_of
from beamuq.io import file_sha256
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.study_config import ROOT, load_study, study_path

Entity = dict[str, Any]
CRATE, OF_WORKFLOW = (
    "https://w3id.org/ro/crate/1.1",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0",
)
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    OF_WORKFLOW: "Workflow RO-Crate",
}
CONTEXT = [f"{CRATE}/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}]
ABOUT = "Uncertainty of answers of language models, from raw questions to tables and figures"
LICENCE, BIOSCHEMAS = "https://spdx.org/licenses/Apache-2.0", "https://bioschemas.org/profiles"
PAGES = ("overview.html", "comparison.html", "ledger.html", "study.json")
ENDINGS = {"table": ("csv", "tex", "md", "html"), "figure": ("pdf", "svg", "png", "csv", "txt")}
PROJECT = ("README.md", "CITATION.cff", "LICENSE", "envs/constraints.txt")


def crate(name: str, folder: Path) -> tuple[Entity, dict[str, Path]]:
    """The metadata of a study's crate, and its files by their path in it; ``folder``: where the
    study ran.

    Raises BeamUQError for a study that was changed after its run, a page or exhibit that is not
    there or is a link.
    """
    file = study_path(name)
    study, stem = load_study(file), file.stem
    if load_study(record := folder / f"results/{stem}/study.json").as_run() != study.as_run():
        raise BeamUQError(
            f"{file}: changed after the run that {record} tells of; run it again, or change it back"
        )
    tables, figures = f"results/{stem}/tables/", f"figures/{stem}/"
    asked = {"study": f"studies/{file.name}", "config": "config.yaml"}
    made = {Path(page).stem: f"results/{stem}/{page}" for page in PAGES} | {
        "tables": tables,
        "figures": figures,
    }
    kinds = {label: list_of_exhibits.exhibit(label, study).kind for label in study.exhibits}
    exhibits = [
        folder / made[f"{of}s"] / f"{label}.{end}"
        for label, of in kinds.items()
        for end in ENDINGS[of]
    ]
    given, written = (
        (file, folder / "config.yaml"),
        [*(folder / made[Path(page).stem] for page in PAGES), *exhibits],
    )
    for path in (*given, *written):
        if path.is_symlink() or not path.is_file():
            make = f"snakemake --cores all --config study={name} -- {os.path.relpath(path, folder)}"
            raise BeamUQError(f"{path}: not there, or a link; make it: {make}")
    times = sorted(
        datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        for path in written
    )
    command = ["git", "-C", ROOT, "ls-files", "-z", "Snakefile", "src", "workflow", *PROJECT]
    tracked = subprocess.check_output(command, text=True).split("\0")[:-1]
    if not tracked:
        raise BeamUQError(f"{ROOT}: git tracks nothing here; a crate needs a clone")
    files = {path: ROOT / path for path in tracked if not (ROOT / path).is_symlink()}
    shown = {path: files[path] for path in PROJECT} | dict(zip(asked.values(), given, strict=True))
    shown |= {path.relative_to(folder).as_posix(): path for path in written}
    files |= shown | {
        "src/": ROOT / "src",
        "workflow/": ROOT / "workflow",
        tables: folder / tables,
        figures: folder / figures,
    }
    folders = {
        "src/": "library, prompts",
        "workflow/": "rules, numbers",
        tables: "tables",
        figures: "figures",
    }
    inside = {of: [path for path in shown if path.startswith(of)] for of in folders}
    top = [
        "Snakefile",
        *folders,
        *(path for path in shown if not any(path in of for of in inside.values())),
    ]
    of_work = {path: {"exampleOfWork": _to(f"#{key}")} for key, path in (asked | made).items()}
    entities = [
        _entity("./", "Dataset", f"{study.title}: a run of beamuq {__version__}", description=ABOUT)
        | {
            "datePublished": times[-1],
            "license": _to(LICENCE),
            "mainEntity": _to("Snakefile"),
            "mentions": _to("#run"),
        }
        | {"conformsTo": _all(PROFILES), "hasPart": _all(top), "author": _to("#developers")},
        _entity("#developers", "Organization", "The beamuq developers"),
        *(
            _entity(at, "CreativeWork", told, version=at.rpartition("/")[2])
            for at, told in PROFILES.items()
        ),
        _entity(LICENCE, "CreativeWork", "Apache License 2.0"),
        _entity(
            "Snakefile",
            ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            "beamuq",
            version=__version__,
        )
        | {
            "conformsTo": _to(f"{BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"),
            "license": _to(LICENCE),
        }
        | {"programmingLanguage": _to("#snakemake"), "encodingFormat": "text/plain"}
        | {"input": _all(f"#{key}" for key in asked), "output": _all(f"#{key}" for key in made)},
        _entity(
            "#snakemake", "ComputerLanguage", "Snakemake", url=_to("https://snakemake.github.io")
        ),
        _entity(
            "#run", "CreateAction", f"Run of study {stem}", startTime=times[0], endTime=times[-1]
        )
        | {
            "description": (
                f"snakemake --cores all --config study={name}; times are those of what it wrote"
            )
        }
        | {
            "instrument": _to("Snakefile"),
            "object": _all(asked.values()),
            "result": _all(made.values()),
        }
        | {"actionStatus": "http://schema.org/CompletedActionStatus"},
        *(
            _entity(
                f"#{key}",
                "FormalParameter",
                key,
                additionalType="Dataset" if path.endswith("/") else "File",
            )
            | {
                "workExample": _to(path),
                "conformsTo": _to(f"{BIOSCHEMAS}/FormalParameter/1.0-RELEASE"),
            }
            for key, path in (asked | made).items()
        ),
        *(
            _entity(of, "Dataset", told, hasPart=_all(inside[of])) | of_work.get(of, {})
            for of, told in folders.items()
        ),
        *(
            _entity(
                path, "File", at.name, contentSize=str(at.stat().st_size), sha256=file_sha256(at)
            )
            | {"encodingFormat": mimetypes.guess_type(at.name)[0] or "text/plain"}
            | ({"about": _to("./")} if path == "README.md" else of_work.get(path, {}))
            for path, at in shown.items()
        ),
    ]
    descriptor = {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": _to("./")}
    return {
        "@context": CONTEXT,
        "@graph": [descriptor | {"conformsTo": _all([CRATE, OF_WORKFLOW])}, *entities],
    }, files


def _entity(at: str, kind: str | list[str], name: str, **told: Any) -> Entity:
    return {"@id": at, "@type": kind, "name": name, **told}


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
        archive.writestr(
            "ro-crate-metadata.json", json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"
        )
        for path, at in sorted(files.items()):
            archive.write(at, path)
    print(f"{target}: {len(files)} files")


if __name__ == "__main__":
    main()

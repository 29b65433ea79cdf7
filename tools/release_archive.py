"""A study's candidates as one archive, from which anyone makes its exhibits again without a model.

``python tools/release_archive.py pack results/small small.tar`` writes the model's texts, their
probabilities and similarities, judgements, qualities, and the CSVs of tables and figures, each file
with its sha256. Of a dataset it holds ids and groups; in place of references those of the model's
texts that match one, and of options those that a text of the model names in words.

``python tools/release_archive.py exhibits small.tar`` unpacks it into ``results/small``, makes
every exhibit that prints no question, and compares their CSVs with those of the archive.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from archive_members import MANIFEST, STUDY, TAKE_ANOTHER, Manifest, unpacked
from beamuq import io
from beamuq.errors import BeamUQError, line_of, reading
from beamuq.scorers.named_options import named_options
from beamuq.scorers.quality_metrics import exact_match
from beamuq_study import parquet_tables
from beamuq_study.data.dataset_adapters import normalizer_of
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.exhibits.exhibit import Exhibit
from beamuq_study.grid import Grid
from beamuq_study.parquet_tables import NAMED_BY, Loaded
from beamuq_study.study_config import Study, load_study

ROOT = Path(__file__).resolve().parents[1]
NO_TEXT = {"question": "", "context": [], "history": [], "prompt": ""}
# in the order in which they are made from one another
KINDS = ("questions", "shots", "prompts", "candidates", "similarity", "quality", "judgements")
TOLERANCE = 1e-9


def pack(results: Path, archive: Path) -> None:
    """Write the archive of a study's results."""
    study = load_study(ROOT / f"studies/{results.name}.yaml")
    if load_study(results / STUDY).as_run() != study.as_run():
        raise BeamUQError(
            f"studies/{results.name}.yaml: changed after the run; run it again, or change it back"
        )
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder, results.name)
        _write_members(results, study, into)
        members = {
            str(file.relative_to(into)): io.file_sha256(file)
            for file in sorted(into.rglob("*.*"))
            if file.is_file()
        }
        manifest = {"study": results.name, "sha256": members}
        io.write_text(into / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        with tarfile.open(archive, "w") as tar:
            for name in (MANIFEST, *members):
                tar.add(into / name, f"{results.name}/{name}", filter=_anonymous)


def _write_members(results: Path, study: Study, into: Path) -> None:
    """Everything that an archive holds but its manifest."""
    for name, text in _csvs(results, study).items():
        io.write_text(into / name, text)
    _place(into / STUDY).write_bytes((results / STUDY).read_bytes())
    # in the order of kinds: a footer has the hashes of tables that are written already
    for table in _tables(results, study, *KINDS):
        path = _place(into / table.path.relative_to(results))
        released = _of_archive(into, _without_text(study, results, table))
        parquet_tables.write(
            path,
            released.kind,
            released.table,
            cell=released.cell,
            provenance=released.provenance,
        )


def exhibits(archive: Path) -> None:
    """Make every exhibit that prints no question from an archive, and compare their CSVs with it.

    The archive is unpacked into this clone. Raises BeamUQError as :func:`unpack`, or if a CSV
    differs.
    """
    results, published = unpack(archive, ROOT / "results")
    folders = {"tables": results / "tables", "figures": ROOT / "figures" / results.name}
    files = {}
    for name in published:
        folder, _, file = name.partition("/")
        files[name] = folders[folder] / file
    targets = [str(path.relative_to(ROOT)) for path in files.values()]
    options = ["--cores", "all", "--rerun-triggers", "mtime", "--config", f"study={results.name}"]
    options += [f"{name}={dtype}" for name, dtype in dtypes_of(results).items()]
    options += _no_servers(results.name)
    command = [sys.executable, "-m", "snakemake", *targets, *options]
    subprocess.run(command, cwd=ROOT, check=True)
    different = [
        name for name, path in files.items() if not _alike(published[name], path.read_text("utf-8"))
    ]
    if different:
        raise BeamUQError(
            f"{', '.join(different)}: differ from the archive's by more than {TOLERANCE:g}"
        )
    print(f"{len(files)} exhibits made from {archive.name}: their CSVs agree within {TOLERANCE:g}")


def _no_servers(name: str) -> list[str]:
    """What says on the command line that a study's servers are not here: candidates are."""
    servers = Grid(load_study(ROOT / f"studies/{name}.yaml")).served_by
    none_here = ", ".join(f"{server}: null" for server in servers)
    return [f"servers={{{none_here}}}"] if servers else []


def dtypes_of(results: Path) -> dict[str, str]:
    """The settings ``dtype`` and ``scorer_dtype`` of an archive's tables, where they say so."""
    dtypes: dict[str, str] = {}
    for setting, kind in (("dtype", "candidates"), ("scorer_dtype", "similarity")):
        for file in sorted(results.glob(f"{kind}/**/*.parquet")):
            dtype = parquet_tables.read_footer(file).provenance.get("dtype")
            if dtype:
                dtypes[setting] = str(dtype)
    return dtypes


def unpack(archive: Path, into: Path) -> tuple[Path, dict[str, str]]:
    """The results folder that the archive was unpacked to, and its exhibits' CSVs by name.

    Raises BeamUQError as :func:`~archive_members.unpacked`; or if the archive is of another study
    than this clone's, or there are results already. Nothing is left behind then.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".archive.") as folder:
        partial = Path(folder, "results")
        partial.mkdir()
        manifest = unpacked(archive, partial)
        results = into / manifest.study
        if results.exists() or results.is_symlink():
            raise BeamUQError(f"{results}: exists; move it away, or unpack in another clone")
        own = ROOT / f"studies/{manifest.study}.yaml"
        study = load_study(own)
        with reading(f"{archive}: {STUDY}", "a study in JSON", TAKE_ANOTHER):
            is_own = json.loads((partial / STUDY).read_bytes()) == study.as_run()
        if not is_own:
            raise BeamUQError(
                f"{own}: is not the archive's study; take the version that the archive was made "
                "with"
            )
        published = _taken_out(archive, partial, manifest, study)
        (partial / STUDY).unlink()
        partial.rename(results)
    return results, published


def _taken_out(archive: Path, folder: Path, manifest: Manifest, study: Study) -> dict[str, str]:
    """The CSVs of exhibits by name, removed from the folder, where tables alone are left.

    Raises BeamUQError if there is a file that is neither a table nor an exhibit of the study.
    """
    published: dict[str, str] = {}
    exhibits = _exhibits(study)
    for name in manifest.sha256:
        path = folder / name
        if name in exhibits:
            with reading(f"{archive}: {name}", "text in UTF-8", TAKE_ANOTHER):
                published[name] = path.read_bytes().decode()
            path.unlink()
        elif name.endswith(".parquet") and name.partition("/")[0] in KINDS:
            os.utime(path, (0, 0))  # older than whatever is made from it
        elif name != STUDY:
            raise BeamUQError(
                f"{archive}: {name}: neither a table nor an exhibit of this study; {TAKE_ANOTHER}"
            )
    for kind in ("tables", "figures"):
        with suppress(FileNotFoundError):
            (folder / kind).rmdir()
    return published


def _exhibits(study: Study) -> dict[str, Exhibit]:
    """The study's exhibits that an archive can make, by the path of their CSV in it.

    Neither those that print questions nor those that judge texts by whole references.
    """
    declared = [list_of_exhibits.exhibit(label, study) for label in study.exhibits]
    return {
        f"{exhibit.kind}s/{exhibit.label}.csv": exhibit
        for exhibit in declared
        if not (exhibit.shows_questions or exhibit.judges_texts)
    }


def _csvs(results: Path, study: Study) -> dict[str, str]:
    """The CSVs of the study's exhibits that an archive can make, by their names in the archive."""
    folder = {"table": results / "tables", "figure": results.parents[1] / "figures" / results.name}
    return {
        name: (folder[exhibit.kind] / f"{exhibit.label}.csv").read_text("utf-8")
        for name, exhibit in _exhibits(study).items()
    }


def _tables(results: Path, study: Study, *kinds: str) -> Iterator[Loaded]:
    """The tables of these kinds of the study's cells, whatever else is in the folder."""
    cells = set(study.entries)
    cells |= {("", dataset, "") for _, dataset, _ in cells}  # tables of a dataset alone
    for kind in kinds:
        for file in sorted(results.glob(f"{kind}/**/*.parquet")):
            table = parquet_tables.read(file, kind)
            cell = table.cell
            if (cell.get("model", ""), cell["dataset"], cell.get("recipe", "")) in cells:
                yield table


def _without_text(study: Study, results: Path, whole: Loaded) -> Loaded:
    """A table without a dataset's texts: prompts and examples by id, questions by id and group.

    A question's references are those of the model's texts that match one, its options as
    :func:`_as_named`.
    """
    if whole.kind not in ("questions", "shots", "prompts"):
        return whole
    dataset = whole.cell["dataset"]
    texts = _texts_of_model(results, study, dataset) if whole.kind == "questions" else {}
    normalizer = normalizer_of(study.datasets[dataset])
    rows = []
    for row in whole.table.to_pylist():
        key = {name: row[name] for name in ("id", "group") if name in row}
        answers = _answers_without_text(row, texts.get(row["id"], []), normalizer)
        rows.append(NO_TEXT | key | answers)
    table = pa.Table.from_pylist(rows, schema=parquet_tables.SCHEMAS[whole.kind])
    provenance = {**whole.provenance, "without_text_of": io.file_sha256(whole.path)}
    return replace(whole, table=table, provenance=provenance)


def _answers_without_text(
    row: dict[str, Any], texts: list[str], normalizer: str
) -> dict[str, list[str]]:
    """References and options of a question, in words that a text of the model has."""
    options: list[str] = row.get("options", [])
    references: list[str] = row.get("references", [])
    named = _as_named(options, texts)
    right = [name for option, name in zip(options, named, strict=True) if option in references]
    if not right:
        right = sorted(text for text in texts if exact_match(text, references, normalizer))
    return {"references": right, "options": named}


def _texts_of_model(results: Path, study: Study, dataset: str) -> dict[str, list[str]]:
    """By question the distinct texts of all candidates."""
    decoded = [
        loaded.table.select(["id", "text"]).to_pandas()
        for loaded in _tables(results, study, "candidates")
        if loaded.cell["dataset"] == dataset
    ]
    texts = pd.concat(decoded).drop_duplicates()
    return {str(question): list(group) for question, group in texts.groupby("id")["text"]}


def _as_named(options: list[str], texts: list[str]) -> list[str]:
    """Options, with numbers in brackets for those that no text of the model names in words."""
    choices = [named_options(text, options) for text in texts]
    named = list(options)
    for place in range(len(options)):
        without = [*named[:place], f"[[{place}]]", *named[place + 1 :]]
        if [named_options(text, without) for text in texts] == choices:
            named = without
    return named


def _of_archive(into: Path, table: Loaded) -> Loaded:
    """A table whose footer has no hashes of inputs but those of files in the archive."""
    settings = table.provenance.get("settings", {})
    facts = {"metric": settings.get("quality", ""), "style": settings.get("style", "")} | table.cell
    inputs = {}
    for kind in table.provenance.get("inputs", {}):
        names = [parquet_tables.file_name(facts.get(part, "")) for part in NAMED_BY.get(kind, ())]
        path = into / ("/".join((kind, *names)) + ".parquet")
        if path.is_file():
            inputs[kind] = io.file_sha256(path)
    return replace(table, provenance={**table.provenance, "inputs": inputs})


def _alike(published: str, remade: str) -> bool:
    """Whether two CSVs have the same cells, numbers within the tolerance."""
    try:
        pd.testing.assert_frame_equal(_frame(published), _frame(remade), rtol=0, atol=TOLERANCE)
    except AssertionError:
        return False
    return True


def _frame(csv: str) -> pd.DataFrame:
    return pd.read_csv(StringIO(csv), keep_default_na=False, na_values=[""])


def _place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without time and owner: the same results give the same bytes."""
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Pack a study, or make exhibits from an archive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(required=True)
    packing = verbs.add_parser("pack", help="write an archive of finished results")
    packing.add_argument("results", type=Path, help="such as results/small")
    packing.add_argument("archive", type=Path)
    packing.set_defaults(run=pack)
    making = verbs.add_parser("exhibits", help="make the exhibits from an archive and compare them")
    making.add_argument("archive", type=Path)
    making.set_defaults(run=exhibits)
    options = vars(parser.parse_args())
    try:
        options.pop("run")(**options)
    except (BeamUQError, OSError, tarfile.TarError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {line_of(error)}")


if __name__ == "__main__":
    main()

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
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

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
        for name, text in _csvs(results, study).items():
            io.write_text(into / name, text)
        _place(into / STUDY).write_bytes((results / STUDY).read_bytes())
        for table in _tables(results, study, *KINDS):
            path = _place(into / table.path.relative_to(results))
            kept = _of_archive(into, _without_text(study, results, table))
            parquet_tables.write(
                path, kept.kind, kept.table, cell=kept.cell, provenance=kept.provenance
            )
        files = {
            str(file.relative_to(into)): io.file_sha256(file)
            for file in sorted(into.rglob("*.*"))
            if file.is_file()
        }
        io.write_text(
            into / MANIFEST, json.dumps({"study": results.name, "sha256": files}, indent=1) + "\n"
        )
        with tarfile.open(archive, "w") as tar:
            for name in (MANIFEST, *files):
                tar.add(into / name, f"{results.name}/{name}", filter=_anonymous)


def exhibits(archive: Path) -> None:
    """Unpack an archive into this clone, make every exhibit that prints no question, compare their
    CSVs.

    Raises BeamUQError as :func:`unpack`, or if a CSV differs.
    """
    results, published = unpack(archive, ROOT / "results")
    folder = {"tables": results / "tables", "figures": ROOT / "figures" / results.name}
    made = {name: folder[name.partition("/")[0]] / name.partition("/")[2] for name in published}
    targets = [str(path.relative_to(ROOT)) for path in made.values()]
    options = ["--cores", "all", "--rerun-triggers", "mtime", "--config", f"study={results.name}"]
    options += [f"{name}={dtype}" for name, dtype in dtypes_of(results).items()]
    command = [sys.executable, "-m", "snakemake", *targets, *options]
    subprocess.run(command, cwd=ROOT, check=True)
    if different := [
        name for name, path in made.items() if not _alike(published[name], path.read_text("utf-8"))
    ]:
        raise BeamUQError(
            f"{', '.join(different)}: differ from the archive's by more than {TOLERANCE:g}"
        )
    print(f"{len(made)} exhibits made from {archive.name}: their CSVs agree within {TOLERANCE:g}")


def dtypes_of(results: Path) -> dict[str, str]:
    """The settings ``dtype`` and ``scorer_dtype`` that the archive's tables were made with, where
    they say so.
    """
    found: dict[str, str] = {}
    for name, kind in (("dtype", "candidates"), ("scorer_dtype", "similarity")):
        for file in sorted(results.glob(f"{kind}/**/*.parquet")):
            dtype = parquet_tables.read_footer(file).provenance.get("dtype")
            if dtype:
                found[name] = str(dtype)
    return found


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
    """The study's exhibits that print no question, by ``tables/LABEL.csv`` or
    ``figures/LABEL.csv``.
    """
    shown = (list_of_exhibits.exhibit(label, study) for label in study.exhibits)
    return {
        f"{exhibit.kind}s/{exhibit.label}.csv": exhibit
        for exhibit in shown
        if not exhibit.shows_questions
    }


def _csvs(results: Path, study: Study) -> dict[str, str]:
    """The CSVs of the study's exhibits that print no question, by their names in the archive."""
    folder = {"table": results / "tables", "figure": results.parents[1] / "figures" / results.name}
    return {
        name: (folder[exhibit.kind] / f"{exhibit.label}.csv").read_text("utf-8")
        for name, exhibit in _exhibits(study).items()
    }


def _tables(results: Path, study: Study, *kinds: str) -> list[Loaded]:
    """The tables of these kinds of the study's cells, whatever else is in the folder."""
    cells = set(study.entries)
    cells |= {("", dataset, "") for _, dataset, _ in cells}
    files = (
        (kind, file) for kind in kinds for file in sorted(results.glob(f"{kind}/**/*.parquet"))
    )
    tables = (parquet_tables.read(file, kind) for kind, file in files)
    return [
        of
        for of in tables
        if (of.cell.get("model", ""), of.cell["dataset"], of.cell.get("recipe", "")) in cells
    ]


def _without_text(study: Study, results: Path, whole: Loaded) -> Loaded:
    """A table without a dataset's texts: prompts and examples by id, questions by id and group.

    A question's references are those of the model's texts that match one, its options as
    :func:`_as_named`.
    """
    if whole.kind not in ("questions", "shots", "prompts"):
        return whole
    without, dataset = [], whole.cell["dataset"]
    said = _texts_of_model(results, study, dataset) if whole.kind == "questions" else {}
    normalizer = normalizer_of(study.datasets[dataset])
    for row in whole.table.to_pylist():
        texts, given, accepted = (
            said.get(row["id"], []),
            row.get("options", []),
            row.get("references", []),
        )
        options = _as_named(given, texts)
        right = [named for option, named in zip(given, options, strict=True) if option in accepted]
        right = right or sorted(text for text in texts if exact_match(text, accepted, normalizer))
        kept = {key: row[key] for key in ("id", "group") if key in row}
        without.append(NO_TEXT | kept | {"references": right, "options": options})
    table = pa.Table.from_pylist(without, schema=parquet_tables.SCHEMAS[whole.kind])
    return replace(
        whole,
        table=table,
        provenance={**whole.provenance, "without_text_of": io.file_sha256(whole.path)},
    )


def _texts_of_model(results: Path, study: Study, dataset: str) -> dict[str, list[str]]:
    """By question the distinct texts of all candidates."""
    decoded = (
        of.table for of in _tables(results, study, "candidates") if of.cell["dataset"] == dataset
    )
    texts = pd.concat(
        [table.select(["id", "text"]).to_pandas() for table in decoded]
    ).drop_duplicates()
    return {str(key): list(of_question) for key, of_question in texts.groupby("id")["text"]}


def _as_named(options: list[str], texts: list[str]) -> list[str]:
    """Options, where those that no text of the model names in words are numbers between
    brackets.
    """
    shown, named = list(options), [named_options(text, options) for text in texts]
    for place in range(len(options)):
        without = [*shown[:place], f"[[{place}]]", *shown[place + 1 :]]
        if [named_options(text, without) for text in texts] == named:
            shown = without
    return shown


def _of_archive(into: Path, table: Loaded) -> Loaded:
    """A table whose footer names, of what it was made from, the files in the archive; hashes of
    others go.
    """
    inputs, settings = {}, table.provenance.get("settings", {})
    for kind in table.provenance.get("inputs", {}):
        facts = {
            "metric": settings.get("quality", ""),
            "style": settings.get("style", ""),
        } | table.cell
        names = (parquet_tables.file_name(facts.get(part, "")) for part in NAMED_BY.get(kind, ()))
        path = into / ("/".join((kind, *names)) + ".parquet")
        if path.is_file():
            inputs[kind] = io.file_sha256(path)
    return replace(table, provenance={**table.provenance, "inputs": inputs})


def _alike(published: str, made: str) -> bool:
    """Whether two CSVs have the same cells, numbers within the tolerance."""
    try:
        frames = (
            pd.read_csv(StringIO(text), keep_default_na=False, na_values=[""])
            for text in (published, made)
        )
        pd.testing.assert_frame_equal(*frames, rtol=0, atol=TOLERANCE)
    except AssertionError:
        return False
    return True


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

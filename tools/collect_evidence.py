"""What a study that ran publishes: numbers, scores and hashes, and no text of a dataset.

``python tools/collect_evidence.py results/small`` writes ``evidence/small`` from whatever is
finished: CSVs and captions of tables and figures, what came of the claims, the ledger, the lock
file; of each evaluated cell its evaluation, scores, quality and the ids of its empty answers; of
each dataset the questions' ids and groups. It is laid out like the results folder, so the package's
own readers read it. Left out: exhibits that print questions; replicates and the points of curves,
which scores, quality and groups give again; scores under other similarities than the main; of
recipes of which no exhibit judges the top beam, what is of it; digits of scores that no order hangs
on. ``CONTENTS.md`` says which cells are in and which are not.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import Grid
from beamuq_study.parquet_tables import Artifact, Loaded
from beamuq_study.produced_answers import produced_texts
from beamuq_study.result_files import MARK, empty_answers
from beamuq_study.study_config import Study, load_study

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("comparison_claims.csv", "ledger.csv", "study.json")
LARGEST = 400_000  # bytes of the points of a figure: those of curves are more
NO_TEXT = {"question": "", "context": [], "history": [], "options": [], "references": []}


def cells(study: Study) -> list[Artifact]:
    """The evaluation of every cell of the grid."""
    return Grid(study).evaluations


def collect(results: Path, into: Path) -> None:
    """Write ``into`` anew from a results folder. Raises BeamUQError if it has no ``study.json``."""
    study, name = load_study(results / "study.json"), results.name
    if into.exists() and not (into / "CONTENTS.md").is_file():
        raise BeamUQError(f"{into}: is no evidence, and would be deleted; name a new folder")
    shutil.rmtree(into, ignore_errors=True)
    figures = results.parents[1] / "figures" / name
    for page in PAGES:
        _copy(results / page, into / page)
    _copy(ROOT / f"studies/{name}.lock.json", into / "lock.json")
    large = []
    for label in list_of_exhibits.labels(study):
        if not list_of_exhibits.exhibit(label, study).shows_questions:
            _copy(results / f"tables/{label}.csv", into / f"tables/{label}.csv")
            _copy(results / f"tables/{label}.md", into / f"tables/{label}.md")
            for ending in ("csv", "txt"):
                _copy(figures / f"{label}.{ending}", into / f"figures/{label}.{ending}")
            _picture(figures / f"{label}.png", into / f"figures/{label}.png")
            points = into / f"figures/{label}.csv"
            if points.is_file() and points.stat().st_size > LARGEST:
                points.unlink()
                large.append(f"`{label}`")
    found = [cell for cell in cells(study) if (results / cell.path).is_file()]
    for cell in found:
        place = (cell.dataset, cell.model, cell.recipe)
        qualities = [
            Artifact("quality", *place, metric=of.metric) for of in study.qualities(cell.dataset)
        ]
        scores = (
            [Artifact("scores", *place, cell.scorer)] if cell.scorer == study.main.scorer else []
        )
        for file in (cell, *scores, *qualities):
            _write(
                into / file.path,
                _judged(study, parquet_tables.read(results / file.path, file.kind)),
            )
    (into / "empty_answers.json").write_text(
        json.dumps(_empty(study, results, found), indent=1) + "\n", "utf-8"
    )
    hashes = {}
    for dataset in dict.fromkeys(cell.dataset for cell in found):
        file = Artifact("questions", dataset)
        whole = parquet_tables.read(results / file.path, "questions")
        hashes[dataset] = io.file_sha256(results / file.path)
        rows = [row | NO_TEXT for row in whole.table.select(["id", "group"]).to_pylist()]
        without = pa.Table.from_pylist(rows, schema=parquet_tables.SCHEMAS["questions"])
        made = {"without_text_of": hashes[dataset]}
        _write(into / file.path, Loaded(whole.path, "questions", whole.cell, made, without))
    (into / "CONTENTS.md").write_text(contents(study, into, found, hashes, large), encoding="utf-8")


def contents(
    study: Study, into: Path, found: list[Artifact], hashes: dict[str, str], large: list[str]
) -> str:
    """The page that says what is in the folder; ``large``: figures whose points are not."""
    lines = [
        f"# {study.title}",
        "",
        "Written by `tools/collect_evidence.py`; `docs/evidence.md` says what it shows.",
        "",
        f"{len(found)} of {len(cells(study))} cells are in.",
        "",
        "| cell | questions | empty greedy answers |",
        "| --- | ---: | ---: |",
    ]
    for cell in found:
        empty = empty_answers(parquet_tables.read(into / cell.path, "evaluation").table).get(
            "greedy"
        )
        told = (
            f"{empty.n:,} | {empty.empty:,}{MARK * empty.too_many}"
            if empty
            else "not recorded | not recorded"
        )
        lines.append(f"| {cell.model} {cell.dataset} {cell.recipe} {cell.scorer} | {told} |")
    missing = [
        f"{of.model} {of.dataset} {of.recipe} {of.scorer}" for of in cells(study) if of not in found
    ]
    lines += [
        "",
        "†: more than a fifth; left out of means.",
        "",
        f"Not run: {'; '.join(missing) or 'nothing'}.",
        "",
    ]
    lines += (
        [f"Not published, as the scores give them again: the points of {', '.join(large)}.", ""]
        if large
        else []
    )
    lines += [f"Questions of {dataset}: sha256 `{digest}`." for dataset, digest in hashes.items()]
    return "\n".join(lines) + "\n"


def _empty(study: Study, results: Path, found: list[Artifact]) -> dict[str, dict[str, list[str]]]:
    """By candidates file and answer source the ids of questions whose produced answer is empty."""
    told = {}
    for cell in found:
        file = Artifact("candidates", cell.dataset, cell.model, cell.recipe)
        scored = (
            parquet_tables.read(results / cell.path, "evaluation")
            .table.column("answer_source")
            .unique()
            .to_pylist()
        )
        table = parquet_tables.read(results / file.path, "candidates").table
        beam = study.recipes[cell.recipe].decoded(study.main.beam) if study.main.beam else None
        produced = produced_texts(table, scored, beam)
        told[file.path] = {
            name: [key for key, text in of.items() if not text] for name, of in produced.items()
        }
    return told


def _judged(study: Study, loaded: Loaded) -> Loaded:
    """Without the top beam in recipes in which no exhibit and no claim judges it."""
    if loaded.cell["recipe"] == study.main.recipe:
        return loaded
    return replace(loaded, table=loaded.table.filter(pc.field("answer_source") != "top_beam"))


def shortened(values: pd.Series[float]) -> pd.Series[float]:
    """In single precision, but for those of which that would change the order or tie what is not
    equal.
    """
    exact = np.unique(values)
    short = exact.astype(np.float32).astype(np.float64)
    while len(wrong := np.flatnonzero(np.diff(short) <= 0)):
        short[wrong], short[wrong + 1] = exact[wrong], exact[wrong + 1]
    return pd.Series(short[np.searchsorted(exact, values)], values.index)


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _picture(source: Path, target: Path) -> None:
    """A figure in 256 colours that keep those of its legend, and a third of the bytes."""
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.open(source).convert("RGB").quantize(
            256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        ).save(target, optimize=True)


def _write(path: Path, loaded: Loaded) -> None:
    """A table of the workflow, packed as small as it goes."""
    parquet_tables.write(
        path, loaded.kind, loaded.table, cell=loaded.cell, provenance=loaded.provenance
    )
    metadata = pq.read_schema(path).metadata
    table = parquet_tables.read(path, loaded.kind).table.replace_schema_metadata(
        {b"beamuq": metadata[b"beamuq"]}
    )
    packed: dict[str, object] = {}
    if loaded.kind == "scores":  # in the order of ids the rows of a score are the same rows
        keys = [name for name in table.column_names if name != "value"]
        table = table.sort_by([(name, "ascending") for name in (*keys[1:], "id")])
        of_each_score = table.to_pandas().groupby(keys[1:], sort=False, dropna=False)["value"]
        place, values = (
            table.schema.get_field_index("value"),
            of_each_score.transform(shortened).to_numpy(),
        )
        table = table.set_column(
            place, table.schema.field(place), pa.array(values, from_pandas=True)
        )
        packed = {"use_dictionary": keys, "use_byte_stream_split": ["value"]}
    pq.write_table(
        table, path, compression="zstd", compression_level=19, write_page_checksum=True, **packed
    )


def main() -> None:
    """Collect one study's evidence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument(
        "results", type=lambda text: Path(text).absolute(), help="such as results/small"
    )
    parser.add_argument("into", type=Path, nargs="?", help="default: evidence/NAME")
    options = parser.parse_args()
    try:
        collect(options.results, options.into or ROOT / "evidence" / options.results.name)
    except (BeamUQError, OSError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()

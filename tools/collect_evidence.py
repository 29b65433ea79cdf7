"""What a study that ran publishes: numbers, scores and hashes, and no text of a dataset.

``python tools/collect_evidence.py results/small`` writes ``evidence/small`` from whatever is
finished: CSVs and captions of tables and figures, what came of the claims, the ledger, the lock
file; of each evaluated cell its evaluation, scores, quality and the ids of its empty answers; of
each dataset the questions' ids and groups. It is laid out like the results folder, so the package's
own readers read it. Left out: exhibits that print questions; replicates and the points of curves,
which scores, quality and groups give again; digits of tables after the seventh; scores under other
similarities than the main; of recipes of which no exhibit judges the top beam, what is of it;
digits of scores that no order hangs on. ``CONTENTS.md`` says which cells are in and which are not.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image, ImageChops

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
LONG_NUMBER = re.compile(r"-?\d+\.\d{7,}(e-\d+)?|-?\d\.\d+e-\d+")
LARGEST_SHIFT = 14  # of 255, that a colour of a picture in few colours may be off
NO_TEXT = {"question": "", "context": [], "history": [], "options": [], "references": []}


def cells(study: Study) -> list[Artifact]:
    """The evaluation of every cell of the grid."""
    return Grid(study).evaluations


def collect(results: Path, into: Path) -> None:
    """Write ``into`` anew from a results folder. Raises BeamUQError if it has no ``study.json``."""
    study = load_study(results / "study.json")
    if into.exists() and not (into / "CONTENTS.md").is_file():
        raise BeamUQError(f"{into}: is no evidence, and would be deleted; name a new folder")
    shutil.rmtree(into, ignore_errors=True)
    for page in PAGES:
        _copy(results / page, into / page)
    _copy(ROOT / f"studies/{results.name}.lock.json", into / "lock.json")
    large = _collect_exhibits(study, results, into)
    finished = [cell for cell in cells(study) if (results / cell.path).is_file()]
    for cell in finished:
        _collect_cell(study, results, into, cell)
    empty = _empty(study, results, finished)
    (into / "empty_answers.json").write_text(json.dumps(empty, indent=1) + "\n", "utf-8")
    hashes = {
        dataset: _collect_questions(results, into, dataset)
        for dataset in dict.fromkeys(cell.dataset for cell in finished)
    }
    page = contents(study, into, finished, hashes, large)
    (into / "CONTENTS.md").write_text(page, encoding="utf-8")


def _collect_exhibits(study: Study, results: Path, into: Path) -> list[str]:
    """Copy the exhibits that print no question; of figures, those whose points are too many."""
    figures = results.parents[1] / "figures" / results.name
    large = []
    for label in list_of_exhibits.labels(study):
        if list_of_exhibits.exhibit(label, study).shows_questions:
            continue
        _copy(results / f"tables/{label}.md", into / f"tables/{label}.md")
        _copy(figures / f"{label}.txt", into / f"figures/{label}.txt")
        _copy_csv(results / f"tables/{label}.csv", into / f"tables/{label}.csv")
        _copy_csv(figures / f"{label}.csv", into / f"figures/{label}.csv")
        picture(figures / f"{label}.png", into / f"figures/{label}.png")
        points = into / f"figures/{label}.csv"
        if points.is_file() and points.stat().st_size > LARGEST:
            points.unlink()
            large.append(label)
    return large


def _collect_cell(study: Study, results: Path, into: Path, cell: Artifact) -> None:
    """Write a cell's evaluation, its qualities, and its scores under the main similarity."""
    place = (cell.dataset, cell.model, cell.recipe)
    files = [cell]
    if cell.scorer == study.main.scorer:
        files.append(Artifact("scores", *place, cell.scorer))
    files += [
        Artifact("quality", *place, metric=quality.metric)
        for quality in study.qualities(cell.dataset)
    ]
    for file in files:
        whole = parquet_tables.read(results / file.path, file.kind)
        _write(into / file.path, _judged(study, whole))


def _collect_questions(results: Path, into: Path, dataset: str) -> str:
    """Write the ids and groups of a dataset's questions; the sha256 of the table with all texts."""
    file = Artifact("questions", dataset)
    whole = parquet_tables.read(results / file.path, "questions")
    digest = io.file_sha256(results / file.path)
    rows = [row | NO_TEXT for row in whole.table.select(["id", "group"]).to_pylist()]
    without_text = pa.Table.from_pylist(rows, schema=parquet_tables.SCHEMAS["questions"])
    provenance = {"without_text_of": digest}
    _write(into / file.path, Loaded(whole.path, "questions", whole.cell, provenance, without_text))
    return digest


def contents(
    study: Study, into: Path, finished: list[Artifact], hashes: dict[str, str], large: list[str]
) -> str:
    """The page that says what is in the folder; ``large``: figures whose points are not."""
    every_cell = cells(study)
    missing = [_named(cell) for cell in every_cell if cell not in finished]
    lines = [
        f"# {study.title}",
        "",
        "Written by `tools/collect_evidence.py`; `docs/evidence.md` says what it shows.",
        "",
        f"{len(finished)} of {len(every_cell)} cells are in.",
        "",
        "| cell | questions | empty greedy answers |",
        "| --- | ---: | ---: |",
        *(f"| {_named(cell)} | {_counts(into, cell)} |" for cell in finished),
        "",
        "†: more than a fifth; left out of means.",
        "",
        f"Not run: {'; '.join(missing) or 'nothing'}.",
        "",
    ]
    if large:
        figures = ", ".join(f"`{label}`" for label in large)
        lines += [f"Not published, as the scores give them again: the points of {figures}.", ""]
    lines += [f"Questions of {dataset}: sha256 `{digest}`." for dataset, digest in hashes.items()]
    return "\n".join(lines) + "\n"


def _named(cell: Artifact) -> str:
    return f"{cell.model} {cell.dataset} {cell.recipe} {cell.scorer}"


def _counts(into: Path, cell: Artifact) -> str:
    """How many questions a cell has, and how many empty greedy answers."""
    evaluation = parquet_tables.read(into / cell.path, "evaluation").table
    greedy = empty_answers(evaluation).get("greedy")
    if greedy is None:
        return "not recorded | not recorded"
    return f"{greedy.n:,} | {greedy.empty:,}{MARK * greedy.too_many}"


def _empty(
    study: Study, results: Path, finished: list[Artifact]
) -> dict[str, dict[str, list[str]]]:
    """By candidates file and answer source the ids of questions whose produced answer is empty."""
    empty = {}
    for cell in finished:
        file = Artifact("candidates", cell.dataset, cell.model, cell.recipe)
        evaluation = parquet_tables.read(results / cell.path, "evaluation").table
        sources = evaluation.column("answer_source").unique().to_pylist()
        candidates = parquet_tables.read(results / file.path, "candidates").table
        beam = study.recipes[cell.recipe].decoded(study.main.beam) if study.main.beam else None
        produced = produced_texts(candidates, sources, beam)
        empty[file.path] = {
            source: [question for question, text in texts.items() if not text]
            for source, texts in produced.items()
        }
    return empty


def _judged(study: Study, loaded: Loaded) -> Loaded:
    """Without the top beam in recipes in which no exhibit and no claim judges it."""
    if loaded.cell["recipe"] == study.main.recipe:
        return loaded
    return replace(loaded, table=loaded.table.filter(pc.field("answer_source") != "top_beam"))


def shortened(values: pd.Series[float]) -> pd.Series[float]:
    """In single precision, but for those whose order that would change, or make equal."""
    exact = np.unique(values)
    short = exact.astype(np.float32).astype(np.float64)
    while len(wrong := np.flatnonzero(np.diff(short) <= 0)):
        both = np.union1d(wrong, wrong + 1)
        short[both] = exact[both]
    return pd.Series(short[np.searchsorted(exact, values)], values.index)


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _copy_csv(source: Path, target: Path) -> None:
    """Copy a table, its numbers in seven digits: they are of samples of thousands."""
    if not source.is_file():
        return
    with source.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="") as short:
        writer = csv.writer(short, lineterminator="\n")
        writer.writerows([[in_seven_digits(cell) for cell in row] for row in rows])


def in_seven_digits(cell: str) -> str:
    """A decimal number of a table in seven significant digits; other cells as they are."""
    return f"{float(cell):.7g}" if LONG_NUMBER.fullmatch(cell) else cell


def picture(source: Path, target: Path) -> None:
    """Copy a figure, in few bytes."""
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        in_few_colours(Image.open(source).convert("RGB")).save(target, optimize=True)


def in_few_colours(picture: Image.Image) -> Image.Image:
    """A picture in 256 colours, a third of the bytes; whole where these would change its colours.

    A colour is changed where a pixel's differs by more than ``LARGEST_SHIFT``: then a thin line may
    come to have the hue of another series.
    """
    coverage = Image.Quantize.MAXCOVERAGE
    few = picture.quantize(256, coverage, dither=Image.Dither.NONE)
    shift = ImageChops.difference(picture, few.convert("RGB"))
    largest = max(high for _, high in shift.getextrema())
    return few if largest <= LARGEST_SHIFT else picture


def _write(path: Path, loaded: Loaded) -> None:
    """A table of the workflow, packed as small as it goes."""
    parquet_tables.write(
        path, loaded.kind, loaded.table, cell=loaded.cell, provenance=loaded.provenance
    )
    metadata = pq.read_schema(path).metadata
    table = parquet_tables.read(path, loaded.kind).table.replace_schema_metadata(
        {b"beamuq": metadata[b"beamuq"]}
    )
    if loaded.kind == "scores":
        table = _in_order_of_scores(table)
    numbers = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    pq.write_table(
        table,
        path,
        compression="brotli",
        compression_level=11,
        use_dictionary=[name for name in table.column_names if name not in numbers],
        use_byte_stream_split=numbers,
        write_page_checksum=True,
    )


def _in_order_of_scores(table: pa.Table) -> pa.Table:
    """Scores, each with its questions in the order of their ids and as few digits as it needs."""
    forms = [name for name in table.column_names if name not in ("id", "value")]
    table = table.sort_by([(name, "ascending") for name in (*forms, "id")])
    of_each_score = table.to_pandas().groupby(forms, sort=False, dropna=False)["value"]
    values = pa.array(of_each_score.transform(shortened).to_numpy(), from_pandas=True)
    column = table.schema.get_field_index("value")
    return table.set_column(column, table.schema.field(column), values)


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

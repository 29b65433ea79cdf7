"""Candidates whose distribution is known to the map of when beams win: PRR of every estimate,
sharpened, by truth.
"""

from pathlib import Path
from typing import Any

from beamuq_study import parquet_tables
from beamuq_study.provenance import provenance, read_cell
from beamuq_study.rule_programs import run_program
from beamuq_study.stages.beams_map import MapSettings, map_of_cell


def run(
    *, settings: MapSettings, made_with: dict[str, Any], beams_map: Path, **tables: Path | None
) -> None:
    """Read the tables of a cell, measure every estimate at every place of the map, write the
    rows.
    """
    read = read_cell(tables, made_with, seed=settings.seed)
    place = read["similarity"].cell
    of_cell = {
        name: read[name].table for name in ("questions", "candidates", "similarity", "quality")
    }
    rows = list(map_of_cell(**of_cell, settings=settings, name=place["dataset"]))
    footer = provenance(settings, tables, tables=read)
    parquet_tables.write(beams_map, "beams_map", rows, cell=place, provenance=footer)


if __name__ == "__main__":
    run_program(run, output="beams_map")

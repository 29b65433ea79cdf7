"""What a rule reads, named by cell rather than by path."""

from __future__ import annotations

from dataclasses import dataclass

_FIELDS = {
    "questions": ("dataset",),
    "shots": ("dataset",),
    "prompts": ("style", "dataset"),
    "candidates": ("model", "dataset", "recipe"),
    "statistics": ("model", "dataset", "recipe"),
    "similarity": ("scorer", "model", "dataset", "recipe"),
    "quality": ("metric", "model", "dataset", "recipe"),
    "scores": ("scorer", "model", "dataset", "recipe"),
    "evaluation": ("scorer", "model", "dataset", "recipe"),
    "replicates": ("scorer", "model", "dataset", "recipe"),
}


@dataclass(frozen=True, order=True)
class Need:
    """One file of an earlier room: its kind (a key of ``beamuq.tables.SCHEMAS``) and its cell.

    Raises
    ------
    ValueError
        If the fields given are not exactly those that a file of this kind is named by.
    """

    kind: str
    dataset: str = ""
    model: str = ""
    recipe: str = ""
    scorer: str = ""
    metric: str = ""
    style: str = ""

    def __post_init__(self) -> None:
        given = {name for name in ("dataset", "model", "recipe", "scorer", "metric", "style") if getattr(self, name)}
        if given != set(_FIELDS[self.kind]):
            raise ValueError(f"a {self.kind} file is named by {_FIELDS[self.kind]}, not by {sorted(given)}")

    @property
    def cell(self) -> dict[str, str]:
        """As the file's footer says it."""
        return {name: getattr(self, name) for name in _FIELDS[self.kind]}

    @property
    def path(self) -> str:
        """Under ``results/<study>/``."""
        return "/".join((self.kind, *(file_name(value) for value in self.cell.values()))) + ".parquet"


def file_name(name: str) -> str:
    """A name as part of a path: a plug-in's colon becomes a dot."""
    return name.replace(":", ".")

"""``tab:abl_rocauc``: ROC-AUC of every method, dataset by dataset, one model; incorrect answers are the positives."""

from __future__ import annotations

from functools import partial

from beamuq.exhibits import auc_tables
from beamuq.exhibits.exhibit_types import Exhibit

LABEL, METRIC = "abl_rocauc", "ROC-AUC"

EXHIBIT = Exhibit(
    LABEL,
    "table",
    partial(auc_tables.needs, metric=METRIC),
    partial(auc_tables.build, label=LABEL, metric=METRIC),
    __name__,
)

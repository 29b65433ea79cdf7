"""The warning of rows that cannot be read and are left out, because the caller asked for that."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from beamuq.errors import BeamUQError

TOLD_ROWS = 3  # of those left out, with their reason


def tell_of_rows_left_out(errors: Sequence[BeamUQError], valid: int, where: str) -> None:
    """Warn of rows that are left out, the first three with their reason.

    Raises the first error where no row is left, and BeamUQError where more are left out than stay:
    what is wrong is then not a row.
    """
    if not errors:
        return
    if not valid:
        raise errors[0]
    if len(errors) > valid:
        raise BeamUQError(
            f"{where}: {len(errors)} of {len(errors) + valid} rows cannot be read, more than half; "
            f"mend them, as none is left out then. The first: {errors[0]}"
        )
    reasons = " | ".join(str(error) for error in errors[:TOLD_ROWS])
    more = " | …" if len(errors) > TOLD_ROWS else ""
    warnings.warn(
        f"{where}: {len(errors)} of {len(errors) + valid} rows left out: {reasons}{more}",
        stacklevel=3,
    )

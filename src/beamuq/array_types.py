"""Types of numpy arrays: floats, integers, counts of any width and truth values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.signedinteger]
Bools = NDArray[np.bool_]

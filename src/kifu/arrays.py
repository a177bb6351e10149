"""The types of arrays, named by what they hold. Other shapes and axes stand in docstrings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Points = npt.NDArray[np.uint16]
Ints = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

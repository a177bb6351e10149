"""The types of arrays, named by what they hold (other shapes and axes stand in docstrings), and the arrays of games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Points = npt.NDArray[np.uint16]
Ints = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

PLAYED: dict[str, type] = {
    "width": np.uint8, "height": np.uint8, "moves": np.uint16, "move_offset": np.int64, "setup": np.uint16,
    "setup_ply": np.uint16, "setup_offset": np.int64, "root_setup": np.uint16,
}  # fmt: skip
"""The arrays of `MoveArrays` and their types."""


@dataclass(frozen=True, slots=True)
class MoveArrays:
    """The moves and setup of G games, as a replay needs them; see `kifu.records.games.GameArrays`.

    Kernels index memory by these arrays without checking them, so they are checked here, once. Points of moves and
    setup may have any value: a replay stops at the first one that is not on the board.
    """

    width: npt.NDArray[np.uint8]
    height: npt.NDArray[np.uint8]
    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]
    root_setup: npt.NDArray[np.uint16]

    def __post_init__(self) -> None:
        games = len(self.width)
        lengths = {"height": games, "root_setup": games, "setup_ply": len(self.setup)}
        lengths |= {"move_offset": games + 1, "setup_offset": games + 1}
        for name, dtype in PLAYED.items():
            array = getattr(self, name)
            shape = (lengths.get(name, len(array)),)
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
                actual = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise GameError(f"{name} must be {np.dtype(dtype)} {shape}, got {actual}")
        for name, offset, values in (("moves", self.move_offset, self.moves), ("setup", self.setup_offset, self.setup)):
            if offset[0] < 0 or offset[-1] > len(values) or np.any(offset[1:] < offset[:-1]):
                raise GameError(f"the offsets of {name} must ascend within 0 to {len(values)}, got {str(offset)[:80]}")
        moves = np.diff(self.move_offset)
        most = np.iinfo(self.setup_ply.dtype).max
        if moves.max(initial=0) > most + 1:  # predictions add a pass of the side to move
            raise GameError(f"a game must have at most {most:,} moves, got {moves.max():,}")
        stones = np.diff(self.setup_offset)
        if np.any(wrong := self.root_setup > stones):
            g = int(np.argmax(wrong))
            raise GameError(f"root_setup of game {g} must be <= {stones[g]}, got {self.root_setup[g]}")
        falls = np.flatnonzero(self.setup_ply[1:] < self.setup_ply[:-1]) + 1
        if len(falls) and len(within := falls[~np.isin(falls, self.setup_offset)]):
            before, after = self.setup_ply[within[0] - 1 : within[0] + 1].tolist()
            raise GameError(f"setup_ply of a game must not decrease, got {after} after {before}")

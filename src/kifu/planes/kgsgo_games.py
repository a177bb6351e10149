"""Which games the program of 2015 could use, and what it took for a handicap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.errors import Drop
from kifu.records.games import NO_HANDICAP, Note

# What made it raise, and so lose the game. Later ones win.
_REFUSED = (
    (Note.HANDICAP_TEXT | Note.HANDICAP_ONE, Drop.BAD_HANDICAP),
    (Note.SIZE_PAIR, Drop.BAD_SIZE),
    (Note.BAD_CHARSET, Drop.BAD_CHARSET),
    (Note.TRUNCATED, Drop.TRUNCATED),
)


def has_handicap(handicap: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """[G] bool: HA is there and not 0; only then did the program put up setup stones, and write the first move.

    handicap: [G] int16, as in `kifu.records.games.Games`.
    """
    told: npt.NDArray[np.bool_] = np.logical_and(handicap != NO_HANDICAP, handicap != 0)
    return told


def refuse(
    width: npt.NDArray[np.uint8],
    height: npt.NDArray[np.uint8],
    handicap: npt.NDArray[np.int16],
    notes: npt.NDArray[np.uint32],
    drop: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint8]:
    """[G] uint8 of `Drop`: what the program would not have read. Whether the moves can be played is not looked at.

    All are [G], columns of `kifu.records.games.Games`.
    """
    why = np.where((width == 19) & (height == 19), Drop.KEPT, Drop.WRONG_SIZE).astype(np.uint8)
    why[has_handicap(handicap) & (notes & Note.BAD_SETUP_POINT != 0)] = Drop.OFF_BOARD
    for forgiven, reason in _REFUSED:
        why[notes & forgiven != 0] = reason
    return np.where(drop != Drop.KEPT, drop, why)

"""Which games the program of 2015 could use, and what it took for a handicap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.records.games import NO_HANDICAP, ParseWarning

# What made it raise, and so lose the game. Later ones win.
_REFUSED = (
    (ParseWarning.HANDICAP_TEXT | ParseWarning.HANDICAP_ONE, DropReason.BAD_HANDICAP),
    (ParseWarning.SIZE_PAIR, DropReason.BAD_SIZE),
    (ParseWarning.BAD_CHARSET, DropReason.BAD_CHARSET),
    (ParseWarning.TRUNCATED, DropReason.TRUNCATED),
)


def has_handicap(handicap: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """[G] bool: HA is there and not 0; only then did the program put up setup stones, and write the first move.

    handicap: [G] int16, as in `kifu.records.games.GameArrays`.
    """
    told: npt.NDArray[np.bool_] = np.logical_and(handicap != NO_HANDICAP, handicap != 0)
    return told


def refuse(
    width: npt.NDArray[np.uint8],
    height: npt.NDArray[np.uint8],
    handicap: npt.NDArray[np.int16],
    warnings: npt.NDArray[np.uint32],
    drop: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint8]:
    """[G] uint8 of `DropReason`: what the program would not have read. Whether the moves can be played is not looked at.

    All are [G], columns of `kifu.records.games.GameArrays`.
    """
    why = np.where((width == 19) & (height == 19), DropReason.KEPT, DropReason.WRONG_SIZE).astype(np.uint8)
    why[has_handicap(handicap) & (warnings & ParseWarning.BAD_SETUP_POINT != 0)] = DropReason.OFF_BOARD
    for warning, reason in _REFUSED:
        why[warnings & warning != 0] = reason
    return np.where(drop != DropReason.KEPT, drop, why)

"""Hashes of the positions in data sets, as `kifu.corpus.positions` defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.corpus.hashes import Hashes, lowest
from kifu.corpus.positions import Workspace, new_workspace
from kifu.go.state import bit, popcount
from kifu.kernel import inline_kernel, kernel
from kifu.planes.packing import DAT2, Records

_POINTS = 361
_WORDS = 6
ZERO = np.uint64(0)
ONE = np.uint64(1)


@inline_kernel
def _record_hash(ws: Workspace, words: Any) -> Any:
    """Return the hash and the number of stones of a position: own and other stones as bit sets, words [2, 6] uint64."""
    for k in range(8):
        ws.hashes[0, k] = ws.empty[k]
    count = 0
    for side in range(2):
        for w in range(_WORDS):
            word = words[side, w]
            while word != ZERO:
                low = word & (~word + ONE)
                word ^= low
                p = 64 * w + 63 - popcount(low - ONE)
                count += 1
                for k in range(8):
                    ws.hashes[0, k] ^= ws.keys[side, p, k]
    return lowest(ws.hashes[0]), count


@inline_kernel
def _word_at(data: Any, i: Any) -> Any:
    """Return 64 bits of a row of bytes from bit i on; bit 0 is the highest bit of byte 0."""
    at, shift = i >> 3, np.uint64(i & 7)
    word = ZERO
    for k in range(8):
        word = word << np.uint64(8) | np.uint64(data[at + k])
    return word << shift | np.uint64(data[at + 8]) >> (np.uint64(8) - shift)


@kernel
def _hash_dat1(ws: Workspace, words: Any, data: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of dat1 records, data [n, 365] uint8."""
    for row in range(data.shape[0]):
        for w in range(_WORDS):
            own, other = ZERO, ZERO
            for p in range(64 * w, min(64 * w + 64, _POINTS)):
                point = data[row, 4 + p]
                if point & 7:
                    own |= bit(p)
                elif point & 56:
                    other |= bit(p)
            words[0, w], words[1, w] = own, other
        hashes[row], stones[row] = _record_hash(ws, words)


@kernel
def _hash_dat2(ws: Workspace, words: Any, data: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of dat2 records, data [n, 322] uint8."""
    for row in range(data.shape[0]):
        bits = data[row, 6:]
        for w in range(_WORDS):
            seen = ZERO
            for side in range(2):
                word = ZERO
                for plane in range(3 * side, 3 * side + 3):
                    word |= _word_at(bits, _POINTS * plane + 64 * w)
                if w == _WORDS - 1:
                    word &= ~ZERO << np.uint64(64 * _WORDS - _POINTS)
                words[side, w] = word & ~seen
                seen = word
        hashes[row], stones[row] = _record_hash(ws, words)


@kernel
def _hash_stones(ws: Workspace, sides: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of boards, sides [n, points] uint8: 1 own stones, 2 others."""
    for row in range(sides.shape[0]):
        for k in range(8):
            ws.hashes[0, k] = ws.empty[k]
        count = 0
        for p in range(sides.shape[1]):
            side = sides[row, p]
            if side != 0:
                count += 1
                for k in range(8):
                    ws.hashes[0, k] ^= ws.keys[side - 1, p, k]
        hashes[row], stones[row] = lowest(ws.hashes[0]), count


def hash_records(records: Records) -> tuple[Hashes, npt.NDArray[np.uint16]]:
    """Hash the positions of dat1 or dat2 records [n].

    Own stones are those in planes 0 to 2, other stones those in planes 3 to 5; a point in both is own.

    Returns:
        hashes [n] uint64 and stones [n] uint16.
    """
    hashes, stones = np.empty(len(records), np.uint64), np.empty(len(records), np.uint16)
    words = np.empty((2, _WORDS), np.uint64)
    data = records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
    (_hash_dat2 if records.dtype == DAT2 else _hash_dat1)(new_workspace(19, 19), words, data, hashes, stones)
    return hashes, stones


def hash_boards(own: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> tuple[Hashes, npt.NDArray[np.uint16]]:
    """Hash positions by their stones, [n, H, W] each; a point in both is own.

    Returns:
        hashes [n] uint64 and stones [n] uint16.
    """
    n, height, width = own.shape
    hashes, stones = np.empty(n, np.uint64), np.empty(n, np.uint16)
    sides = np.where(own, np.uint8(1), other.astype(np.uint8) << 1).reshape(n, height * width)
    _hash_stones(new_workspace(width, height), sides, hashes, stones)
    return hashes, stones

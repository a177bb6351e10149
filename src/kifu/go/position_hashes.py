"""Hashes of the stones on a board under its eight symmetries, updated stone by stone."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.state import EMPTY, State, zobrist_keys
from kifu.kernel import inline_kernel, writable_view
from kifu.point import symmetries

Hashes = npt.NDArray[np.uint64]

_BOARD = 0x9E3779B97F4A7C15


class PositionTables(NamedTuple):
    """Tables of a board of n points, and scratch memory of one thread.

    Attributes:
        keys: [2, n, 8] uint64, the key of a black or white stone on each point under each symmetry.
        empty: [8] uint64, the hashes of the empty board.
        images: [8, n + 1] int16, `kifu.point.symmetries`.
        colour: [n] uint8, the board.
        hashes: [8] uint64, its hashes.
    """

    keys: Hashes
    empty: Hashes
    images: npt.NDArray[np.int16]
    colour: npt.NDArray[np.uint8]
    hashes: Hashes


def position_tables(width: int, height: int) -> PositionTables:
    """Return tables with new scratch memory."""
    images = writable_view(symmetries(width, height))
    return PositionTables(
        *symmetry_keys(width, height), images, np.empty(width * height, np.uint8), np.empty(8, np.uint64)
    )


@functools.lru_cache(maxsize=64)
def symmetry_keys(width: int, height: int) -> tuple[Hashes, Hashes]:
    """Return the key of a stone of the first (0) or second (1) kind on each point under each symmetry: [2, n, 8].

    And the hashes of the empty board: [8]. All are uint64 and never change.
    """
    n = width * height
    keys = zobrist_keys(n)[:, symmetries(width, height)[:, :n]]  # [2, 8, n]
    sizes = [256 * width + height] * 4 + [256 * height + width] * 4
    empty = np.array([size * _BOARD % 2**64 for size in sizes], np.uint64)
    return np.ascontiguousarray(keys.transpose(0, 2, 1)), empty


@inline_kernel
def clear_stones(s: PositionTables) -> None:
    """Start from the empty board."""
    for p in range(s.colour.shape[0]):
        s.colour[p] = EMPTY
    for k in range(8):
        s.hashes[k] = s.empty[k]


@inline_kernel
def set_stone(s: PositionTables, p: Any, c: Any) -> None:
    """Put a stone of colour c on point p in place of what is there, or empty it."""
    before = np.int64(s.colour[p])
    if before != EMPTY:
        for k in range(8):
            s.hashes[k] ^= s.keys[before - 1, p, k]
    if c != EMPTY:
        for k in range(8):
            s.hashes[k] ^= s.keys[c - 1, p, k]
    s.colour[p] = c


@inline_kernel
def set_stones(s: PositionTables, board: State) -> None:
    """Put the stones of a board in place of what is there."""
    for p in range(s.colour.shape[0]):
        if s.colour[p] != board.colour[p]:
            set_stone(s, p, np.int64(board.colour[p]))


@inline_kernel
def lowest_hash(hashes: Any) -> Any:
    """Return the index of the lowest of eight hashes, of equal ones the first."""
    low = 0
    for k in range(1, 8):
        if hashes[k] < hashes[low]:
            low = k
    return low

"""Hash games: the canonical hash of the moves, which is invariant to symmetry, and the id of all recorded content.

`canonical@1`, the hash of a game's stones, is defined here and never changes; arithmetic is modulo 2**64:

    mix(x):      x += 0x9E3779B97F4A7C15
                 x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9
                 x = (x ^ x >> 27) * 0x94D049BB133111EB
                 return x ^ x >> 31                                     (SplitMix64, Steele, Lea and Flood 2014)
    step(h, v):  h = (h ^ v) * 0xBF58476D1CE4E5B9
                 return h ^ h >> 32

    Passes after the last stone, played or set up, are removed first.
    The first move's colour is 0, the other is 1. Without a move, both are tried and the lower hash counts.
    Under each of the 8 symmetries of the board (`kifu.point.symmetries`; four of them map a w x h board to h x w):
        h = mix(0x20000 + 256 * width + height)                         of the board after the symmetry
        before each move, and after the last, all stones set up at that ply are hashed as one value:
            h = step(h, v), v = the exclusive or of mix(0x10000 + 0x8000 * colour + point) over points given a stone
                              and mix(0x10000 + 0x4000 + point) over points emptied; the last entry per point counts
        each move:
            h = step(h, mix(0x8000 * colour + point))
    canonical = mix(the lowest h of the eight)

A pass is point width * height. Passes and points beyond the board are mapped to themselves by all symmetries; on boards
outside 1 to 25, all points are. Setup whose ply exceeds the number of moves comes last.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus import _hashes
from kifu.corpus._hashes import HashState
from kifu.go.replay import GamesLike
from kifu.kernel import writable_view
from kifu.point import ERASE_BIT, MAX_SIZE, POINT_MASK, WHITE_BIT, symmetries
from kifu.records.games import GameArrays

Hashes = npt.NDArray[np.uint64]

OPENING_PLIES = 30
"""The number of moves that the hash of a game's opening covers.

Of 64,842 KGS games, 3,066 pairs of different games share this many moves: few enough to keep the sets of a split even
(20 moves: 11,699 pairs; 50 moves: 196). 15 games are the beginning of another and have at least 20 moves. Of the five
with at least 30, three are one game recorded twice and two were played by programs that repeat themselves; most of
those with 20 to 29 moves are coincidences.
"""


def hash_games(games: GamesLike) -> tuple[Hashes, Hashes]:
    """Return the canonical and opening hashes of G games.

    Legality is not checked; any values of moves and setup are allowed.

    Returns:
        canonical: [G] uint64, equal for games that are equal up to symmetry, exchange of colours and final passes.
        opening: [G] uint64, the same hash of the first OPENING_PLIES moves and the setup before them, or of all of a
            shorter game. A game and any of its beginnings with that many moves up to the last stone share it.
    """
    state = make_hash_state(games)
    canonical, opening = np.empty(len(games.width), np.uint64), np.empty(len(games.width), np.uint64)
    with np.errstate(over="ignore"):
        _hashes.hash_all(state, OPENING_PLIES, canonical, opening)
    return canonical, opening


def make_hash_state(games: GamesLike) -> HashState:
    """Return the games and the work arrays that the hash kernels need."""
    width, height = games.width.astype(np.int64), games.height.astype(np.int64)
    sizes, size_index = np.unique(width * 256 + height, return_inverse=True)
    tables = [_table(*divmod(int(size), 256)) for size in sizes]
    rows = np.array([len(table) for table in tables], np.int64)
    base = np.cumsum(rows) - rows
    return HashState(
        width=width,
        height=height,
        moves=games.moves,
        move_offset=games.move_offset,
        setup=games.setup,
        setup_ply=games.setup_ply,
        setup_offset=games.setup_offset,
        table=np.concatenate([np.empty((0, 8), np.uint64), *tables]),
        base=base[size_index],
        points=rows[size_index] // _hashes.VARIANTS,
        symmetry_hashes=np.empty(8, np.uint64),
        group=np.empty(8, np.uint64),
        stamp=np.zeros(POINT_MASK + 1, np.int64),
        group_number=np.zeros(1, np.int64),
    )


@functools.lru_cache(maxsize=64)
def _table(width: int, height: int) -> Hashes:
    """Return the value of each variant of each point under each symmetry: [VARIANTS * points, 8] uint64.

    Boards outside 1 to 25 have no points here.
    """
    if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
        return np.empty((0, 8), np.uint64)
    setup = _hashes.SETUP_TOKEN
    bits = np.array([0, WHITE_BIT, setup, setup | WHITE_BIT, setup | ERASE_BIT], np.uint64)
    points = symmetries(width, height)[:, :-1].T.astype(np.uint64)  # [points, 8]
    table: Hashes = _hashes.mix_words(bits[:, None, None] | points).reshape(-1, 8)
    return table


def hash_rows(games: GameArrays, texts: Sequence[pa.StringArray]) -> Hashes:
    """Return the catalogue's column `id`: [G] uint64, equal for rows with equal content.

    The hash is not cryptographic. It is fixed for one version of the catalogue.

    Args:
        games: Board, moves, setup, to_play and handicap are hashed.
        texts: Text columns of [G] each, in a fixed order. Null differs from the empty text.
    """
    states = np.zeros(len(games), np.uint64)
    setup_offset = games.setup_offset
    with np.errstate(over="ignore"):
        for numbers in (games.width, games.height, games.to_play, games.handicap):
            _hashes.hash_numbers(states, numbers.astype(np.int64))
        _hashes.hash_lists(states, games.setup, setup_offset)
        _hashes.hash_lists(states, games.setup_ply, setup_offset)
        _hashes.hash_lists(states, games.moves, games.move_offset)
        for column in texts:
            _hash_texts(states, column)
    return states


def text_hashes(column: pa.StringArray) -> Hashes:
    """Return a hash of each text, with one value for all nulls: [G] uint64."""
    states = np.zeros(len(column), np.uint64)
    with np.errstate(over="ignore"):
        _hash_texts(states, column)
    return states


def _hash_texts(states: Hashes, column: pa.StringArray) -> None:
    _, offsets, data = column.buffers()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    offset = np.zeros(1, np.int32)
    if len(column):
        offset = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    _hashes.hash_texts(states, _bytes(data), offset.astype(np.int64), valid)


def _bytes(data: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    """Return an Arrow buffer as an array."""
    return np.empty(0, np.uint8) if data is None else writable_view(np.frombuffer(data, np.uint8))

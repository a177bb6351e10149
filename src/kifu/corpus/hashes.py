"""Which games are the same: hashes of what was played, blind to how it is turned, and of all that a record says.

`canonical@1`, the hash of a game's stones, is defined here once for ever; numbers are taken modulo 2**64:

    mix(x):      x += 0x9E3779B97F4A7C15
                 x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9
                 x = (x ^ x >> 27) * 0x94D049BB133111EB
                 return x ^ x >> 31                                     (SplitMix64, Steele, Lea and Flood 2014)
    step(h, v):  h = (h ^ v) * 0xBF58476D1CE4E5B9
                 return h ^ h >> 32

    Passes after the last stone, played or set up, are taken off first; a move then has a number, from 0.
    Colours are 0 for the first move's, 1 for the other. Without a move, both ways are tried and the lower hash counts.
    Under each of the 8 symmetries of the board (`kifu.point.symmetries`; four of them lay a w x h board on h x w):
        h = mix(0x20000 + 256 * width + height)                         of the board that is landed on
        before each move, and after the last: the stones that are set up then, if any, are hashed as one value:
            h = step(h, v), v = the exclusive or of mix(0x10000 + 0x8000 * colour + point) over points given a stone
                              and mix(0x10000 + 0x4000 + point) over points emptied; the last word on a point counts
        each move:
            h = step(h, mix(0x8000 * colour + point))
    canonical = mix(the lowest h of the eight)

A pass is point width * height. It, and whatever else is no point of its board, stays the same under all symmetries; on
a board that is not within 1 to 25, everything does. Setup said to come after more moves than there are, comes last.
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
"""How many moves count for the hash of a game's opening.

Of the 64,842 games of KGS that we measure on, this many moves are shared by 3,066 pairs of different games: too few to
make the shares of a split uneven (20 moves: 11,699 pairs; 50 moves: 196). 15 games are the beginning of another and
have 20 moves or more. Of the five with 30 or more, three are one game recorded twice, and two were played by programs
that repeat themselves; of those with 20 to 29 most are so by chance.
"""


def hash_games(games: GamesLike) -> tuple[Hashes, Hashes]:
    """Returns canonical and opening: [G] uint64 each.

    canonical: equal for games that are equal but for mirror, rotation, exchange of colours and passes at the end.
    opening: the same hash of the first OPENING_PLIES moves and what is set up before them; of a shorter game, all of
    it. So a game and any beginning of it that has as many moves up to its last stone share it.
    Takes any words for moves and setup; that games are legal is not checked.
    """
    walk = make_hash_state(games)
    canonical, opening = np.empty(len(games.width), np.uint64), np.empty(len(games.width), np.uint64)
    with np.errstate(over="ignore"):
        _hashes.hash_all(walk, OPENING_PLIES, canonical, opening)
    return canonical, opening


def make_hash_state(games: GamesLike) -> HashState:
    """What kernels need to hash these games."""
    width, height = games.width.astype(np.int64), games.height.astype(np.int64)
    boards, board = np.unique(width * 256 + height, return_inverse=True)
    tables = [_table(*divmod(int(key), 256)) for key in boards]
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
        base=base[board],
        points=rows[board] // _hashes.VARIANTS,
        lanes=np.empty(8, np.uint64),
        group=np.empty(8, np.uint64),
        stamp=np.zeros(POINT_MASK + 1, np.int64),
        mark=np.zeros(1, np.int64),
    )


@functools.lru_cache(maxsize=64)
def _table(width: int, height: int) -> Hashes:
    """[VARIANTS * n, 8] uint64: the value of each variant of each point under each symmetry; n = 0 if not 1 to 25."""
    if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
        return np.empty((0, 8), np.uint64)
    setup = _hashes.SETUP_TOKEN
    bits = np.array([0, WHITE_BIT, setup, setup | WHITE_BIT, setup | ERASE_BIT], np.uint64)
    points = symmetries(width, height)[:, :-1].T.astype(np.uint64)  # [n, 8]
    table: Hashes = _hashes.mix_words(bits[:, None, None] | points).reshape(-1, 8)
    return table


def hash_rows(games: GameArrays, words: Sequence[pa.StringArray]) -> Hashes:
    """The catalogue's `id`, [G] uint64: equal for rows that say the same in all that is hashed.

    games: their board, moves, setup, to_play and handicap count. words: columns of [G] texts, in a fixed order; a null
    is told from an empty text. Not made against forgers. Fixed for one version of the catalogue.
    """
    states = np.zeros(len(games), np.uint64)
    setup_offset = games.setup_offset
    with np.errstate(over="ignore"):
        for numbers in (games.width, games.height, games.to_play, games.handicap):
            _hashes.hash_numbers(states, numbers.astype(np.int64))
        _hashes.hash_lists(states, games.setup, setup_offset)
        _hashes.hash_lists(states, games.setup_ply, setup_offset)
        _hashes.hash_lists(states, games.moves, games.move_offset)
        for column in words:
            _hash_texts(states, column)
    return states


def text_hashes(column: pa.StringArray) -> Hashes:
    """[G] uint64: a hash of each text; the same one for all nulls."""
    states = np.zeros(len(column), np.uint64)
    with np.errstate(over="ignore"):
        _hash_texts(states, column)
    return states


def _hash_texts(states: Hashes, column: pa.StringArray) -> None:
    _, offsets, data = column.buffers()
    told = column.is_valid().to_numpy(zero_copy_only=False)
    offset = np.zeros(1, np.int32)
    if len(column):
        offset = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    _hashes.hash_texts(states, _bytes(data), offset.astype(np.int64), told)


def _bytes(data: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    """Return an Arrow buffer as an array."""
    return np.empty(0, np.uint8) if data is None else writable_view(np.frombuffer(data, np.uint8))

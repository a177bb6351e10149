"""One game, encoded: the friendly face of the plane kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, GameError
from kifu.go.state import new_state
from kifu.planes import kgsgo
from kifu.planes.encoder import check_kept, make_encoder
from kifu.planes.kgsgo_games import has_handicap, refuse
from kifu.planes.packed import DAT1, DAT2, Labels, Planes, unpack_dat1, unpack_dat2
from kifu.planes.registry import find_plane_set
from kifu.records.game import Game
from kifu.records.games import NO_HANDICAP


def encode(game: Game, planes: str) -> tuple[npt.NDArray[Any], Labels]:
    """The examples of a game in a plane set (`kifu planes` lists them), or in a composition: "own+opp+liberties4+ko".

    Returns planes: [T, C, H, W] uint8 of 0 and 1, or float32 if the set has real values, and labels: [T] int32, the
    next move as row * width + column; the set says whether row 0 is the top or the bottom of the board, of planes and
    labels alike. Passes give no example. Which other moves do, and whether setup counts, is the set's to say: all but
    the kgsgo sets take all moves and all setup; the kgsgo sets take what the program of 2015 took, and only 19 x 19.
    A set with a rim has larger planes than the board; its labels are points of the board even so.
    `kifu.katago.encoder.encode_katago` gives KataGo's planes with the numbers that belong to them.

    Raises RecipeError for a name that is no plane set, GameError for a game that was set aside or a board too large for
    the set, and IllegalMove at the first move that cannot be played; the kgsgo sets a GameError for any game that the
    program of 2015 could not use.

    >>> import kifu
    >>> game = kifu.read_sgf(b"(;SZ[19];B[pd];W[dp];B[])")
    >>> planes, labels = kifu.encode(game, "seven")
    >>> planes.shape, labels.tolist()
    ((2, 7, 19, 19), [72, 288])
    """
    plane_set = find_plane_set(planes)
    check_kept(game)
    if not plane_set.encoder:
        return _encode_kgsgo(game, plane_set.name == "kgsgo8@1")
    return make_encoder(plane_set, game.width, game.height).encode_game(game)


def _encode_kgsgo(game: Game, v1: bool) -> tuple[Planes, Labels]:
    if (game.width, game.height) != (kgsgo.SIZE, kgsgo.SIZE):
        raise GameError(f"the kgsgo planes are for 19 x 19, not for {game.width} x {game.height}")
    size = np.array([kgsgo.SIZE], np.uint8)
    handicap = np.array([NO_HANDICAP if game.handicap is None else game.handicap], np.int16)
    warnings = np.array([int(game.warnings)], np.uint32)
    _check_kgsgo(refuse(size, size, handicap, warnings, np.zeros(1, np.uint8)))
    plies = len(game.moves)
    layout, record, unpack = (kgsgo.V1, DAT1, unpack_dat1) if v1 else (kgsgo.V2, DAT2, unpack_dat2)
    records = np.empty(plies * record.itemsize, np.uint8)
    drop, made = np.empty(1, np.uint8), np.empty(1, np.int32)
    total = kgsgo.write_records(
        new_state(kgsgo.SIZE, kgsgo.SIZE),
        game.moves,
        np.array([0, plies]),
        game.setup,
        np.array([0, len(game.setup)]),
        np.array([game.root_setup], np.uint16),
        has_handicap(handicap),
        np.zeros(1, np.int64),
        layout,
        kgsgo.new_tables(),
        records,
        np.empty(plies, np.uint16),
        drop,
        made,
    )
    _check_kgsgo(drop)
    planes = np.empty((total, 8 if v1 else 7, kgsgo.SIZE, kgsgo.SIZE), np.uint8)
    labels = np.empty(total, np.int32)
    unpack(records[: total * record.itemsize].view(record), planes, labels)
    return planes, labels


def _check_kgsgo(drop: npt.NDArray[np.uint8]) -> None:
    if drop[0]:
        raise GameError(f"the kgsgo program could not use this game: {DropReason(drop[0]).reason}")

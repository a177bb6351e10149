"""Encoding a single game."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, GameError
from kifu.go.state import new_state
from kifu.planes import kgsgo
from kifu.planes.encoder import check_kept, make_encoder, single_game
from kifu.planes.packing import DAT1, DAT2, Labels, Planes, unpack_dat1, unpack_dat2
from kifu.planes.registry import find_plane_set
from kifu.records.game import Game
from kifu.records.games import NO_HANDICAP


def encode(game: Game, planes: str) -> tuple[npt.NDArray[Any], Labels]:
    """Encode the positions of a game as feature planes, with the moves played in them.

    Positions before a pass are omitted. The kgsgo sets encode only the positions that the program of 2015 used; all
    others encode all moves and apply all setup. For KataGo's planes with their numbers, see
    `kifu.katago.encoder.encode_katago`.

    Args:
        planes: The name of a plane set (`kifu planes` lists them), or a composition such as "own+opp+liberties4+ko".

    Returns:
        planes [T, C, H, W] uint8 of 0 and 1, or float32 for a real plane set, larger than the board if the set has
        padding; and labels [T] int32, the next move as row * width + column of the board. The plane set defines whether
        row 0 of both is the top or the bottom of the board.

    Raises:
        RecipeError: If there is no such plane set.
        GameError: If the game has a drop reason, the board is too large for the plane set, or, for the kgsgo sets, the
            program of 2015 could not use the game.
        IllegalMove: At the first move that cannot be played.

    Examples:
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
    _check_kgsgo(kgsgo.unreadable_reason(size, size, handicap, warnings, np.zeros(1, np.uint8)))
    plies = len(game.moves)
    layout, record, unpack = (kgsgo.V1, DAT1, unpack_dat1) if v1 else (kgsgo.V2, DAT2, unpack_dat2)
    records, drop = np.empty(plies * record.itemsize, np.uint8), np.empty(1, np.uint8)
    buffers = kgsgo.RecordBuffers(records, np.empty(plies, np.uint16), drop, np.empty(1, np.int32))
    request, _ = single_game(game)
    games = kgsgo.kgsgo_games(request.games, kgsgo.has_handicap(handicap))
    state = new_state(kgsgo.SIZE, kgsgo.SIZE)
    total = kgsgo.write_records(state, games, np.zeros(1, np.int64), layout, kgsgo.new_tables(), buffers)
    _check_kgsgo(drop)
    planes = np.empty((total, 8 if v1 else 7, kgsgo.SIZE, kgsgo.SIZE), np.uint8)
    labels = np.empty(total, np.int32)
    unpack(records[: total * record.itemsize].view(record), planes, labels)
    return planes, labels


def _check_kgsgo(drop: npt.NDArray[np.uint8]) -> None:
    if drop[0]:
        raise GameError(f"the kgsgo program could not use this game: {DropReason(drop[0]).reason}")

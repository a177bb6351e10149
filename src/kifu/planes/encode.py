"""One game, encoded: the friendly face of the plane kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go.state import new_state
from kifu.katago.encoder import KataEncoder
from kifu.katago.rules import usual_terms
from kifu.planes import kgsgo
from kifu.planes.encoder import find_encoder
from kifu.planes.kgsgo_games import has_handicap, refuse
from kifu.planes.packed import DAT1, DAT2, Labels, Planes, unpack_dat1, unpack_dat2
from kifu.planes.registry import KATAGO22, find_plane_set
from kifu.planes.unpack import unpack
from kifu.point import POINT_MASK
from kifu.records.game import Game
from kifu.records.games import NO_HANDICAP, MoveArrays

_OF_MOVES = (DropReason.OCCUPIED, DropReason.SUICIDE, DropReason.KO, DropReason.SUPERKO)

_ONE_ROW, _STRAIGHT = np.zeros(1, np.int64), np.zeros(1, np.uint8)


def encode(game: Game, planes: str) -> tuple[npt.NDArray[Any], Labels]:
    """The examples of a game in a plane set (`kifu planes` lists them), or in a composition: "own+opp+liberties4+ko".

    Returns planes: [T, C, H, W] uint8 of 0 and 1, or float32 if the set has real values, and labels: [T] int32, the
    next move as row * width + column; the set says whether row 0 is the top or the bottom of the board, of planes and
    labels alike. Passes give no example. Which other moves do, and whether setup counts, is the set's to say: all but
    the kgsgo sets take all moves and all setup; the kgsgo sets take what the program of 2015 took, and only 19 x 19.
    A set with a rim has larger planes than the board; its labels are points of the board even so.
    `encode_katago` gives KataGo's planes with the numbers that belong to them.

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
    _check(game)
    if plane_set.inputs:
        drawn, _, labels = encode_katago(game)
        return drawn, labels
    if not plane_set.features:
        return _encode_kgsgo(game, plane_set.name == "kgsgo8@1")
    return _encode_features(game, planes)


def _check(game: Game) -> None:
    if game.drop:
        raise GameError(f"a game that was set aside cannot be encoded: {game.drop.reason}")


def _alone(game: Game) -> tuple[MoveArrays, npt.NDArray[np.int64]]:
    """The game as the only one, and `take` (see `Encoder.encode`): a slot for each move that is no pass."""
    width, height = np.array([[game.width], [game.height]], np.uint8)
    ends = np.array([[0, len(game.moves)], [0, len(game.setup)]])
    root = np.array([game.root_setup], np.uint16)
    alone = MoveArrays(width, height, game.moves, ends[0], game.setup, game.setup_ply, ends[1], root)
    wanted = game.moves & POINT_MASK != game.width * game.height
    return alone, np.where(wanted, np.cumsum(wanted) - 1, -1)


def _check_played(game: Game, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]) -> None:
    if drop[0]:
        raise IllegalMove(int(ply[0]), int(game.moves[ply[0]] & POINT_MASK), DropReason(drop[0]))


def _encode_features(game: Game, planes: str) -> tuple[npt.NDArray[Any], Labels]:
    encoder = find_encoder(planes, game.width, game.height)
    alone, take = _alone(game)
    examples = take.max(initial=-1) + 1
    drawn, label = encoder.new_out(examples), np.empty(examples, np.int16)
    rating = np.array([[rank.rating if rank else 0 for rank in game.ranks]], np.float32)
    drop, ply = encoder.encode(encoder.new_desk(), alone, _ONE_ROW, _STRAIGHT, take, drawn, label, rating)
    _check_played(game, drop, ply)
    if encoder.plane_set.real:
        return drawn.reshape(examples, *encoder.shape), label.astype(np.int32)
    out = np.empty((examples, *encoder.shape), np.uint8)
    unpack(drawn, out)
    return out, label.astype(np.int32)


def encode_katago(game: Game) -> tuple[Planes, npt.NDArray[np.float32], Labels]:
    """The examples of a game in KataGo's planes, with the numbers that its nets are given beside them.

    Returns planes: [T, 22, H, W] uint8 of 0 and 1, globals: [T, 19] float32 (`KATAGO22.inputs` of
    `kifu.planes.registry`), and labels: [T] int32, the next move as row * width + column. Passes give no example. Rules
    and komi are those of the record, or else the usual ones (`kifu.katago.rules.usual_terms`); see `encode` for
    the rest.

    Raises GameError for a game that was set aside, whose board, setup, rules or komi KataGo would not take, that goes
    on after its end, or has setup after the root; and IllegalMove at the first move that its rules do not allow.

    >>> import kifu
    >>> planes, told, labels = encode_katago(kifu.read_sgf(b"(;SZ[9]RU[Chinese]KM[7];B[cc];W[gg])"))
    >>> planes.shape, labels.tolist(), told[:, 5].tolist()  # komi of the side to move / 20
    ((2, 22, 9, 9), [20, 60], [-0.3499999940395355, 0.3499999940395355])
    """
    _check(game)
    encoder = KataEncoder(KATAGO22, game.width, game.height, False)
    alone, take = _alone(game)
    examples = take.max(initial=-1) + 1
    drawn, label = encoder.new_out(examples), np.empty(examples, np.int16)
    told = encoder.new_inputs(examples)
    drop, ply = encoder.encode(encoder.new_desk(), alone, _ONE_ROW, _STRAIGHT, take, drawn, label, _terms(game), told)
    if DropReason(drop[0]) not in (DropReason.KEPT, *_OF_MOVES):
        raise GameError(f"KataGo follows the game for {ply[0]} of {len(game)} moves: {DropReason(drop[0]).reason}")
    _check_played(game, drop, ply)
    out = np.empty((examples, *encoder.shape), np.uint8)
    unpack(drawn, out)
    return out, told, label.astype(np.int32)


def _terms(game: Game) -> npt.NDArray[Any]:
    """[1] of `TERMS`. Raises GameError."""
    komi = game.komi if game.komi is not None or not game.text("KM") else np.nan
    terms, drop = usual_terms(
        pa.array([game.rules or None], pa.string()),
        pa.array([komi], pa.float32()),
        pa.array([game.handicap], pa.int16()),
    )
    if drop[0]:
        told = game.rules if drop[0] == DropReason.RULES_UNKNOWN else game.text("KM")
        raise GameError(
            f"KataGo's planes need terms that it understands, not {told[:80]!r}: {DropReason(drop[0]).reason}"
        )
    return terms


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

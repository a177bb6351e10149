"""The inputs of KataGo's networks for positions of games, also beyond the point to which KataGo follows a game."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kifu.arrays import MoveArrays
from kifu.datasets.global_inputs import Conditions, Imitated, encode_inputs
from kifu.errors import DropReason
from kifu.go.board import EMPTY, Board
from kifu.go.replay import GameMoves
from kifu.go.rules import RECORD_RULES, Rules
from kifu.katago.inputs import ILLEGAL_MOVES
from kifu.katago.metadata import BOARD_INPUT
from kifu.katago.rules import GAME_RULES, UNKNOWN_HANDICAP, KataRules, resolve_rules_or_default
from kifu.learn.positions import NetPositions, Words
from kifu.planes import packing
from kifu.planes.encoder import FrameEncoder, GameContext
from kifu.point import WHITE, WHITE_BIT

_MAX_KOMI = 150

Floats = npt.NDArray[np.float32]


def encode_positions(encoder: FrameEncoder, positions: NetPositions, rules: Rules) -> tuple[Floats, Floats]:
    """Return planes [B, 22, H, W] and numbers [B, 19] of positions.

    KataGo does not follow games beyond their end, or beyond moves that its rules forbid, or setup after the root. Later
    positions begin anew from the stones on the board.
    """
    games = positions.games
    known = np.zeros(len(games.width), np.uint8)
    encoded = encoder.encode(positions, lambda rows: GameContext(_game_rules(positions, rows, rules), known[rows]))
    planes, inputs = np.empty((len(positions), *encoder.shape), np.float32), encoded.labels["globals"]
    packing.unpack(encoded.planes, planes)
    last = encoded.ply - ~np.isin(encoded.drop, ILLEGAL_MOVES)  # before an illegal move, a position is still encoded
    lost = np.flatnonzero((encoded.drop != DropReason.KEPT) & (positions.ply > last))
    if positions.rows is None and len(games.moves) == len(games.width):
        positions.check_playable(encoded.drop, encoded.ply)  # positions without a move cannot begin anew
        return planes, inputs
    for k in lost.tolist():
        game, size = game_at(games, int(positions.game[k]))
        anew = NetPositions.from_moves(
            [np.empty(0, np.uint16)], *size, setup=stones_before(game, *size, int(positions.ply[k]), rules),
            to_play=[int(positions.to_play[k])], conditions=positions.conditions.take(positions.game[k : k + 1]),
        )  # fmt: skip
        planes[k : k + 1], inputs[k : k + 1] = encode_positions(encoder, anew, rules)
    return planes, inputs


def encode_profile(names: tuple[str, ...], positions: NetPositions, server: Imitated | None) -> Floats:
    """Return the metadata of a human-style net, [B, 192]; `server` as for `kifu.learn.inference.Net`."""
    conditions, game, white = positions.inputs
    if server is not None:
        conditions = conditions.at_server(None if server == "profile" else server)
    profile = encode_inputs(names, conditions, game, white)
    profile[:, BOARD_INPUT] = 0.5 * np.log(positions.points / 361)
    return profile


def _game_rules(positions: NetPositions, games: npt.NDArray[np.int64], rules: Rules) -> npt.NDArray[np.void]:
    """Return [G] of `GAME_RULES`: those of the record where it names rules and komi, or else by `rules_and_komi`."""
    values = []
    for game in games.tolist():
        kata_rules, komi = rules_and_komi(positions.conditions, game, rules)
        handicap = positions.conditions.handicap[game]
        if rules == RECORD_RULES:  # which allow suicide because some records have it
            kata_rules = replace(kata_rules, suicide=False)
        known = handicap > 0  # otherwise KataGo counts the stones on the board
        values.append((*kata_rules.codes, komi, int(handicap) if known else UNKNOWN_HANDICAP))
    resolved = np.array(values, GAME_RULES)
    if positions.rows is not None:
        rows = positions.rows.take(games)
        recorded, drop = resolve_rules_or_default(rows["rules"], rows["komi"], rows["handicap"])
        stated = (drop == DropReason.KEPT) & rows["rules"].is_valid().to_numpy(zero_copy_only=False)
        resolved[stated] = recorded[stated]
    return resolved


def rules_and_komi(conditions: Conditions, game: int, rules: Rules) -> tuple[KataRules, float]:
    """Return rules and komi of a game; unknown rules are area rules, an unknown komi is the usual one."""
    territory, komi = bool(conditions.area[game] == 0), float(conditions.komi[game])
    ko = "simple" if rules.ko == "none" else rules.ko
    if territory:
        kata_rules, usual = KataRules(ko, "territory", "seki", rules.suicide), 6.5
    else:
        kata_rules, usual = KataRules(ko, "area", suicide=rules.suicide, handicap_bonus="n"), 7.5
    return kata_rules, float(np.clip(round(2 * (usual if np.isnan(komi) else komi)) / 2, -_MAX_KOMI, _MAX_KOMI))


def game_at(games: MoveArrays, g: int) -> tuple[GameMoves, tuple[int, int]]:
    """Return the moves and setup of a game, and the size of its board."""
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]]
    setup = slice(int(games.setup_offset[g]), int(games.setup_offset[g + 1]))
    return GameMoves(moves, games.setup[setup], games.setup_ply[setup]), (int(games.width[g]), int(games.height[g]))


def stones_before(game: GameMoves, width: int, height: int, ply: int, rules: Rules) -> Words:
    """Return the stones on the board before a move, as point | WHITE_BIT."""
    if not (ply or len(game.setup)):
        return np.empty(0, np.uint16)
    stones = Board.after(width, height, *game, ply, rules=rules).stones.ravel()
    points = np.flatnonzero(stones != EMPTY).astype(np.uint16)
    return np.where(stones[points] == WHITE, points | WHITE_BIT, points).astype(np.uint16)

"""KataGo's network files as predictors of moves, and the rules that KataGo is given."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kifu.datasets.global_inputs import InputPositions
from kifu.errors import DropReason, RecipeError
from kifu.go.board import EMPTY, Board
from kifu.go.replay import GameMoves, GamesLike, check_playable
from kifu.go.rules import RECORD_RULES, Rules
from kifu.katago.encoder import ILLEGAL_MOVES, MAX_SIZE, MIN_SIZE, KataEncoder
from kifu.katago.metadata import profile_rows
from kifu.katago.net import KataNet
from kifu.katago.net_file import read_kata_net
from kifu.katago.rules import GAME_RULES, UNKNOWN_HANDICAP, KataRules, resolve_rules_or_default
from kifu.learn import Precision
from kifu.learn.net import Net, NetMetadata
from kifu.learn.nets import NetworkOutput
from kifu.learn.positions import EvalPositions, PredictPositions, Words, assign_slots, legal_masks
from kifu.learn.predict import BatchEvaluator, BatchOutput, Predictions, default_device
from kifu.planes import packing
from kifu.planes.board_embedding import PositionRequest
from kifu.planes.registry import KATAGO22
from kifu.point import WHITE, WHITE_BIT

_BATCH_SIZE = 64
"""Number of positions that are evaluated at once."""

_MAX_KOMI = 150


def check_kata_board(width: int, height: int) -> None:
    """Raise RecipeError for a board size that KataGo does not support unless it is compiled for larger ones."""
    if not MIN_SIZE <= min(width, height) <= max(width, height) <= MAX_SIZE:
        raise RecipeError(f"KataGo supports boards of {MIN_SIZE} to {MAX_SIZE} lines, got {width} x {height}")


class _Adapter(nn.Module):  # type: ignore[misc]
    """A network of KataGo with the interface of `kifu.learn.nets.Network`; globals are [B, 19] or [B, 19 + 192]."""

    any_size = True

    def __init__(self, net: KataNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, planes: Tensor, globals: Tensor) -> NetworkOutput:
        """Evaluate positions."""
        inputs = len(KATAGO22.inputs)
        output = self.net(planes, globals[:, :inputs], globals[:, inputs:] if self.net.is_human else None)
        score = torch.stack((output.lead, output.score_stdev), 1)
        return NetworkOutput(output.policy[:, 0], output.result[:, 0] - output.result[:, 1], output.ownership, score)


class KataPredictor:
    """Predicts moves with a network file of KataGo, without KataGo. The attributes are those of `MovePredictor`."""

    board = 19, 19
    passes = has_value = has_ownership = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rules: Rules = RECORD_RULES,
        symmetries: bool = False,
        precision: Precision = "float32",
    ) -> None:
        """Open a network file; arguments as for `Predictor`. Raises FormatError."""
        file = read_kata_net(path)
        self.name, self.takes_ranks, self.rules = file.name, file.is_human, rules
        self.description = f"KataGo's net {file.name}" + (" with ranks" if file.is_human else "")
        self.games = np.empty(0, np.uint64)
        about = NetMetadata(net="katago", planes=KATAGO22.name, passes=True, heads=("value", "ownership"))
        net = Net(_Adapter(KataNet(file).eval()), about, self.games, file.name)
        self._evaluator = BatchEvaluator(net, device=default_device(), symmetries=symmetries, precision=precision)

    def __repr__(self) -> str:
        return f"<KataPredictor {self.name}>"

    def check_board(self, width: int, height: int) -> None:
        """Raise RecipeError for a board size that KataGo does not support."""
        check_kata_board(width, height)

    def predict(self, positions: PredictPositions, legal: bool = True) -> Predictions:
        """Evaluate positions, see `Predictor.predict`."""
        if not len(positions):
            none = np.empty((0, 1), np.float32)
            return Predictions(none, none.astype(np.bool_), none[:, 0], none, none)
        outputs = list(self._outputs(positions, self.rules, legal))
        log_probs, *others = (torch.cat(parts).cpu().numpy() for parts in zip(*(output for output, _ in outputs)))
        return Predictions(np.exp(log_probs), np.concatenate([mask for _, mask in outputs]), *others)

    @contextmanager
    def stream(self, positions: EvalPositions, *, legal: bool, jobs: int) -> Generator[Iterator[BatchOutput]]:
        """Evaluate many positions of catalogue games, see `Predictor.stream`. `jobs` has no effect."""
        self.check_board(positions.width, positions.height)
        yield (output for output, _ in self._outputs(positions, RECORD_RULES, legal))

    def _outputs(
        self, positions: PredictPositions | EvalPositions, rules: Rules, legal: bool
    ) -> Iterator[tuple[BatchOutput, npt.NDArray[np.bool_]]]:
        """Yield the outputs of consecutive positions, and their legal moves [B, points + 1]."""
        game = positions.game[0]
        width, height = int(positions.games.width[game]), int(positions.games.height[game])
        self.check_board(width, height)
        encoder = KataEncoder(KATAGO22, width, height, False)
        for start in range(0, len(positions), _BATCH_SIZE):
            part = positions.slice(start, start + _BATCH_SIZE)
            allowed = np.ones((len(part), width * height + 1), np.bool_)
            if legal:
                allowed = legal_masks(part.games, assign_slots(part.games, part.game, part.ply), width * height, rules)
            planes, inputs = _encode(encoder, part, rules)
            if self.takes_ranks:
                inputs = np.concatenate([inputs, _profiles(part.input_positions, width * height)], 1)
            mask = torch.from_numpy(allowed).to(self._evaluator.device) if legal else None
            tensors = torch.from_numpy(planes), torch.from_numpy(inputs)
            yield self._evaluator.evaluate(*tensors, width, height, mask), allowed


def _profiles(positions: InputPositions, points: int) -> npt.NDArray[np.float32]:
    """Return the metadata [B, 192] of positions, from the ranks and years of their games."""
    conditions = positions.conditions.take(positions.game)
    rows = profile_rows(conditions.rating, conditions.year, points)
    return rows[np.arange(len(rows)), positions.white.astype(np.int64)]


def _encode(
    encoder: KataEncoder, positions: PredictPositions | EvalPositions, rules: Rules
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return planes [B, 22, H, W] and numbers [B, 19] of positions.

    KataGo does not follow games beyond their end, or beyond moves that its rules forbid, or setup after the root. Later
    positions begin anew from the stones on the board.
    """
    games = positions.games
    rows, take, slot, count = assign_slots(games, positions.game, positions.ply)
    packed, labels = encoder.new_out(count), encoder.new_labels(count)
    request = PositionRequest(games, rows, np.zeros(len(rows), np.uint8), take)
    drop, end = encoder.draw(encoder.new_scratch(), request, packed, labels, _game_rules(positions, rows, rules))
    planes = np.empty((count, *encoder.shape), np.float32)
    packing.unpack(packed, planes)
    planes, inputs = planes[slot], labels["globals"][slot]
    row = np.searchsorted(rows, positions.game)
    last = end[row] - ~np.isin(drop[row], ILLEGAL_MOVES)  # before an illegal move, a position is still encoded
    lost = np.flatnonzero((drop[row] != DropReason.KEPT) & (positions.ply > last))
    if isinstance(positions, PredictPositions) and len(games.moves) == len(games.width):
        check_playable(games, rows, take, drop, end)  # positions without a move cannot begin anew
        return planes, inputs
    for k in lost.tolist():
        game, size = game_at(games, int(positions.game[k]))
        anew = PredictPositions.from_moves(
            [np.empty(0, np.uint16)], *size, setup=stones_before(game, *size, int(positions.ply[k]), rules),
            to_play=[int(positions.to_play[k])], conditions=positions.conditions.take(positions.game[k : k + 1]),
        )  # fmt: skip
        planes[k : k + 1], inputs[k : k + 1] = _encode(encoder, anew, rules)
    return planes, inputs


def _game_rules(
    positions: PredictPositions | EvalPositions, games: npt.NDArray[np.int64], rules: Rules
) -> npt.NDArray[np.void]:
    """Return [G] of `GAME_RULES`: those of the record where it names rules and komi, or else by `rules_and_komi`."""
    inputs, values = InputPositions(positions.conditions, games, np.zeros(len(games), np.bool_)), []
    for k, handicap in enumerate(positions.conditions.handicap[games].tolist()):
        kata_rules, komi = rules_and_komi(inputs, k, rules)
        if rules == RECORD_RULES:  # which allow suicide because some records have it
            kata_rules = replace(kata_rules, suicide=False)
        known = handicap > 0  # otherwise KataGo counts the stones on the board
        values.append((*kata_rules.codes, komi, int(handicap) if known else UNKNOWN_HANDICAP))
    resolved = np.array(values, GAME_RULES)
    if isinstance(positions, EvalPositions):
        rows = positions.rows.take(games)
        recorded, drop = resolve_rules_or_default(rows["rules"], rows["komi"], rows["handicap"])
        stated = (drop == DropReason.KEPT) & rows["rules"].is_valid().to_numpy(zero_copy_only=False)
        resolved[stated] = recorded[stated]
    return resolved


def rules_and_komi(positions: InputPositions, k: int, rules: Rules) -> tuple[KataRules, float]:
    """Return rules and komi of a position; unknown rules are area rules, an unknown komi is the usual one."""
    conditions, game = positions.conditions, positions.game[k]
    territory, komi = bool(conditions.area[game] == 0), float(conditions.komi[game])
    ko = "simple" if rules.ko == "none" else rules.ko
    if territory:
        kata_rules, usual = KataRules(ko, "territory", "seki", rules.suicide), 6.5
    else:
        kata_rules, usual = KataRules(ko, "area", suicide=rules.suicide, handicap_bonus="n"), 7.5
    return kata_rules, float(np.clip(round(2 * (usual if np.isnan(komi) else komi)) / 2, -_MAX_KOMI, _MAX_KOMI))


def game_at(games: GamesLike, g: int) -> tuple[GameMoves, tuple[int, int]]:
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

"""What a net says of positions: probabilities, the best moves, moves drawn by chance; whole batches, or one at a time.

    predictor = Predictor(open_net("run"))
    moves, chances = predictor.top(Positions.of_games([game], [120]), 5)

A batch of one costs little more than the network itself, so that a search or a player may ask for each position as it
comes: with `b6c64` about 6 ms on one core. Networks are asked in float32, the weights as they are; bfloat16 halves the
time of large batches on CPUs that have it, and gives two to three digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kifu.errors import GameError, RecipeError
from kifu.go.replay import GamesLike, check_playable, legal_moves
from kifu.go.rules import RECORD_RULES, Rules
from kifu.learn.net import Net
from kifu.learn.nets import NetworkOutput
from kifu.planes.encoder import Desk, Encoder
from kifu.planes.unpack import unpack
from kifu.point import BLACK, WHITE, WHITE_BIT, check_size, symmetries
from kifu.records.game import Game
from kifu.records.games import MoveArrays

Words = npt.NDArray[np.uint16]
Rows = npt.NDArray[np.int64]

_CHUNK = 256
"""Positions that are drawn and asked for at one go, at most."""


@dataclass(frozen=True, slots=True)
class PredictPositions:
    """B positions, each the one before a move of a game.

    games: arrays of games, all of one size (`kifu.go.replay.GamesLike`).  game: [B] int64, which of them.
    ply: [B] int64, how many moves come before; below the number of the game's moves, since the colour of the next one
        says who is to move. `of_games` and `of_moves` see to that.
    rating: [G, 2] float32, the ranks of Black and White (`kifu.Rank.rating`), 0 where unknown, for plane sets that ask.
    Raises GameError if sizes differ, or there is no such move.
    """

    games: GamesLike
    game: Rows
    ply: Rows
    rating: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        sizes = np.unique(np.stack([self.games.width, self.games.height], 1)[self.game], axis=0)
        if len(sizes) > 1:
            told = " and ".join(f"{w} x {h}" for w, h in sizes[:2].tolist())
            raise GameError(f"positions that are asked for at once have boards of one size, not of {told}")
        plies = self.games.move_offset[self.game + 1] - self.games.move_offset[self.game]
        for k in np.flatnonzero((self.ply < 0) | (self.ply >= plies))[:1].tolist():
            raise GameError(f"game {self.game[k]} has {plies[k]} moves, none of number {self.ply[k]}")

    def __len__(self) -> int:
        return len(self.game)

    @property
    def to_play(self) -> npt.NDArray[np.uint8]:
        """[B] uint8 of BLACK and WHITE, who is asked for a move."""
        words = self.games.moves[self.games.move_offset[self.game] + self.ply]
        return np.where(words & WHITE_BIT, np.uint8(WHITE), np.uint8(BLACK))

    @classmethod
    def of_games(
        cls, games: Sequence[Game], plies: Sequence[int], *, to_play: Sequence[int] | None = None
    ) -> PredictPositions:
        """The position before move `plies[k]`, from 0 to the number of moves, of games[k].

        to_play: [B] of BLACK and WHITE, who is asked for a move. By default the player of the game's next move; after
        the last one who did not play it, and in a game without moves who is to begin.
        Raises GameError if there is no such move, and for a game that was set aside.
        """
        for game, ply in zip(games, plies, strict=True):
            if game.drop:
                raise GameError(f"a game that was set aside has no position: {game.drop.reason}")
            if not 0 <= ply <= len(game):
                raise GameError(f"the game has {len(game)} moves, none of number {ply}")
        turns = [_turn(game, ply) for game, ply in zip(games, plies)] if to_play is None else to_play
        setups = [(game.setup, game.setup_ply) for game in games]
        ratings = [[rank.rating if rank else 0 for rank in game.ranks] for game in games]
        return cls._of(
            [game.moves[:ply] for game, ply in zip(games, plies)],
            [(game.width, game.height) for game in games],
            [(stones[due <= ply], due[due <= ply]) for (stones, due), ply in zip(setups, plies)],
            turns,
            ratings,
        )

    @classmethod
    def of_moves(
        cls,
        moves: Sequence[npt.ArrayLike],
        width: int,
        height: int | None = None,
        *,
        setup: npt.ArrayLike = (),
        setup_ply: npt.ArrayLike | None = None,
        to_play: Sequence[int] | None = None,
    ) -> PredictPositions:
        """The position after each sequence of moves, on a board that is square if no height is given.

        moves: [B] of uint16 arrays, point | WHITE_BIT; a pass is width * height.  setup: uint16, point | WHITE_BIT, the
        stones that are set up before the first move of each sequence, or before move setup_ply of it, rising.  to_play:
        [B] of BLACK and WHITE; by default who did not play the last move, and Black if there is none.
        Raises GameError for a board that is not within 1 to 25.
        """
        check_size(width, height or width)
        words = [np.asarray(each, np.uint16) for each in moves]
        stones = np.asarray(setup, np.uint16)
        turns = [_other(each) for each in words] if to_play is None else to_play
        due = np.zeros(len(stones), np.uint16) if setup_ply is None else np.asarray(setup_ply, np.uint16)
        return cls._of(
            words, [(width, height or width)] * len(words), [(stones, due)] * len(words), turns, [[0, 0]] * len(words)
        )

    @classmethod
    def _of(
        cls, moves: Sequence[Words], sizes: Sequence[tuple[int, int]], setups: Sequence[tuple[Words, Words]],
        turns: Sequence[int], ratings: Sequence[Sequence[float]],
    ) -> PredictPositions:  # fmt: skip
        """A game for each position, which ends with a pass by who is to move: encoders draw what is before a move."""
        ends = []
        for (width, height), turn in zip(sizes, turns, strict=True):
            if turn not in (BLACK, WHITE):
                raise GameError(f"to_play {turn!r} is neither {BLACK} (Black) nor {WHITE} (White)")
            ends.append(np.array([width * height | (WHITE_BIT if turn == WHITE else 0)], np.uint16))
        words = [part for each, end in zip(moves, ends) for part in (each, end)]
        board = np.array(sizes, np.uint8).reshape(-1, 2)
        games = MoveArrays(
            board[:, 0].copy(), board[:, 1].copy(), _joined(words), _offsets([len(each) + 1 for each in moves]),
            _joined([stones for stones, _ in setups]), _joined([due for _, due in setups]),
            _offsets([len(stones) for stones, _ in setups]),
            np.array([np.count_nonzero(due == 0) for _, due in setups], np.uint16),
        )  # fmt: skip
        plies = np.array([len(each) for each in moves], np.int64)
        return cls(games, np.arange(len(moves)), plies, np.array(ratings, np.float32).reshape(-1, 2))

    def _part(self, first: int, last: int) -> PredictPositions:
        return PredictPositions(self.games, self.game[first:last], self.ply[first:last], self.rating)

    def _take(self) -> tuple[Rows, Rows, Rows]:
        """(rows, take, slot): each game once, what is wanted of it (`Encoder.encode`), and [B] where each position is.

        Positions that are asked for twice share a slot.
        """
        rows, which = np.unique(self.game, return_inverse=True)
        first = _offsets(self.games.move_offset[rows + 1] - self.games.move_offset[rows])
        wanted, slot = np.unique(first[which] + self.ply, return_inverse=True)
        take = np.full(first[-1], -1, np.int64)
        take[wanted] = np.arange(len(wanted))
        return rows, take, slot


def _joined(parts: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, np.uint16), *parts])


def _offsets(counts: npt.ArrayLike) -> Rows:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _other(moves: Words) -> int:
    """Who did not play the last move; Black if there is none."""
    return WHITE if len(moves) and not moves[-1] & WHITE_BIT else BLACK


def _turn(game: Game, ply: int) -> int:
    if ply < len(game):
        return WHITE if game.moves[ply] & WHITE_BIT else BLACK
    if ply:
        return _other(game.moves)
    return game.to_play or (WHITE if (game.handicap or 0) > 1 else BLACK)


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a net says of B positions.

    policy: [B, moves] float32, probabilities that sum to 1; a move is row * width + column, and a pass is the last one,
        width * height, if the net knows passes.
    legal: [B, moves] bool: which moves were admitted; policy is 0 at the others, and all 0 where there is none.
    value: [B] float32 from -1, the side to move loses, to 1, it wins; ownership: [B, points] float32 from -1, the
        opponent's, to 1. None if the net has no such head.
    """

    policy: npt.NDArray[np.float32]
    legal: npt.NDArray[np.bool_]
    value: npt.NDArray[np.float32] | None
    ownership: npt.NDArray[np.float32] | None

    def top(self, n: int) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.float32]]:
        """The n likeliest moves (or all, if there are fewer), the likeliest first, of equals the one of lower number.

        Returns moves [B, n] int16, -1 where there are no more legal ones, and probabilities [B, n] float32.
        """
        chances = np.where(self.legal, self.policy, -1)
        order = np.argsort(-chances, axis=1, kind="stable")[:, :n]
        best = np.take_along_axis(chances, order, 1)
        return np.where(best < 0, -1, order).astype(np.int16), np.maximum(best, 0)

    def sample(self, rng: np.random.Generator, temperature: float = 1.0, epsilon: float = 0.0) -> npt.NDArray[np.int16]:
        """[B] int16: a move of each position, drawn by chance; -1 where there is none.

        temperature: probabilities are taken to the power of 1 / temperature; 0 is the likeliest move, any of equals.
        epsilon: with this chance the move is drawn from all legal ones instead, each as likely as the other, to find
        moves that the games learned from do not suggest. Raises RecipeError for values out of range.
        """
        if not temperature >= 0:
            raise RecipeError(f"temperature {temperature} is not 0 or more")
        if not 0 <= epsilon <= 1:
            raise RecipeError(f"epsilon {epsilon} is not within 0 to 1")
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            weight = np.log(self.policy, dtype=np.float64)
            weight -= weight.max(1, keepdims=True)
            weight = np.where(
                weight == 0, 0, weight / temperature
            )  # a difference, so that a tiny one overflows to none
        explore = rng.random(len(weight)) < epsilon
        weight = np.where(self.legal, np.where(explore[:, None], 0, weight), -np.inf)
        # The largest of log-weights with Gumbel noise is a draw by the weights: no sum, so nothing to be rounded.
        drawn = np.argmax(weight + rng.gumbel(size=weight.shape), 1)
        return np.where(self.legal.any(1), drawn, -1).astype(np.int16)


class Predictor:
    """Asks a net for moves. One thread at a time may use it."""

    def __init__(self, net: Net, *, rules: Rules = RECORD_RULES, symmetries: bool = False) -> None:
        """rules: what is legal; they also have to allow the moves before.

        symmetries: whether answers are the mean over the eight symmetries of the board; four, if it is not square.
        """
        self.net, self.rules, self.symmetries = net, rules, symmetries
        self._desks: dict[tuple[int, int], tuple[Encoder, Desk]] = {}
        self._device = next(net.module.parameters()).device

    def ask(self, positions: PredictPositions, legal: bool = True) -> Predictions:
        """All that the net says of some positions.

        legal: whether only legal moves are admitted, to which the probabilities are confined. Answers do not depend on
        what else is in the batch, but for float32's last digits.
        Raises IllegalMove if a move before one of the positions is not legal under the predictor's rules (without
        `legal`: under `RECORD_RULES`, as it must be in any case), RecipeError for a board that the net cannot take.
        """
        parts = [self._ask(positions._part(at, at + _CHUNK), legal) for at in range(0, max(len(positions), 1), _CHUNK)]
        if len(parts) == 1:
            return parts[0]
        policy, masks, value, ownership = (
            [getattr(part, name) for part in parts] for name in ("policy", "legal", "value", "ownership")
        )
        return Predictions(
            np.concatenate(policy),
            np.concatenate(masks),
            None if value[0] is None else np.concatenate(value),
            None if ownership[0] is None else np.concatenate(ownership),
        )

    def probabilities(self, positions: PredictPositions, legal: bool = True) -> npt.NDArray[np.float32]:
        """[B, moves] float32: `Predictions.policy`."""
        return self.ask(positions, legal).policy

    def top(self, positions: PredictPositions, n: int) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.float32]]:
        """The n likeliest legal moves [B, n], and their probabilities: `Predictions.top`."""
        return self.ask(positions).top(n)

    def sample(
        self, positions: PredictPositions, rng: np.random.Generator, temperature: float = 1.0, epsilon: float = 0.0
    ) -> npt.NDArray[np.int16]:
        """[B] legal moves drawn by chance: `Predictions.sample`."""
        return self.ask(positions).sample(rng, temperature, epsilon)

    def _ask(self, positions: PredictPositions, legal: bool) -> Predictions:
        about = self.net.about
        width, height = about.width, about.height
        if len(positions):
            first = positions.game[0]
            width, height = int(positions.games.width[first]), int(positions.games.height[first])
        moves = width * height + about.passes
        rows, take, slot = positions._take()
        admitted = np.ones((len(positions), moves), np.bool_)
        if legal:
            masks = np.empty((int(take.max(initial=-1)) + 1, width * height + 1), np.bool_)
            legal_moves(positions.games, rows, take, masks, self.rules)
            admitted = masks[slot, :moves]
        encoder, desk = self._desk(width, height)
        turns = (range(8) if width == height else range(4)) if self.symmetries else range(1)
        policy, value, ownership = np.zeros((len(positions), moves)), [], []
        for k in turns:
            told = self._forward(encoder, desk, positions, rows, take, slot, k)
            policy += _softmax(_turned_back(told.policy, width, height, k), admitted)
            if told.value is not None:
                value.append(told.value.float().cpu().numpy())
            if told.ownership is not None:
                ownership.append(_turned_back(told.ownership, width, height, k))
        return Predictions(
            (policy / len(turns)).astype(np.float32),
            admitted,
            np.mean(value, 0) if value else None,
            np.mean(ownership, 0) if ownership else None,
        )

    def _desk(self, width: int, height: int) -> tuple[Encoder, Desk]:
        if (width, height) not in self._desks:
            encoder = self.net.encoder_for(width, height)
            self._desks[width, height] = encoder, encoder.new_desk()
        return self._desks[width, height]

    def _forward(
        self,
        encoder: Encoder,
        desk: Desk,
        positions: PredictPositions,
        rows: Rows,
        take: Rows,
        slot: Rows,
        symmetry: int,
    ) -> NetworkOutput:
        """What the network tells of the positions as they look under a symmetry."""
        slots = int(take.max(initial=-1)) + 1
        drawn = encoder.new_out(slots)
        drop, ply = encoder.encode(
            desk, positions.games, rows, np.full(len(rows), symmetry, np.uint8), take, drawn,
            np.empty(slots, np.int16), positions.rating[rows],
        )  # fmt: skip
        check_playable(positions.games, rows, take, drop, ply)
        planes: npt.NDArray[Any] = np.empty((slots, *encoder.shape), np.float32)
        if encoder.plane_set.real:
            planes = drawn.reshape(planes.shape)
        else:
            unpack(drawn, planes)
        with torch.inference_mode():
            told: NetworkOutput = self.net.module(torch.from_numpy(planes[slot]).to(self._device))
        return told


def _turned_back(values: Tensor, width: int, height: int, symmetry: int) -> npt.NDArray[np.float32]:
    """Values [B, points or moves] of boards under a symmetry, as they are on the boards themselves."""
    table = symmetries(width, height)[symmetry, : values.shape[1]].astype(np.int64)
    turned: npt.NDArray[np.float32] = values.float().cpu().numpy()[:, table]
    return turned


def _softmax(logits: npt.NDArray[np.float32], admitted: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """[B, moves]: probabilities of the admitted moves, 0 at the others; all 0 where none is admitted."""
    masked = np.where(admitted, logits, -np.inf).astype(np.float64)
    top = masked.max(1, keepdims=True, initial=-np.inf)
    weights = np.exp(masked - np.where(np.isfinite(top), top, 0))
    shares: npt.NDArray[np.float64] = weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)
    return shares

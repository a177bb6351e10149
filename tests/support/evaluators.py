"""Oracles that are no nets, and engines that ask them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import kifu
from kifu.go.rules import Rules
from kifu.learn import review
from kifu.learn.evaluation import Evaluation
from kifu.learn.positions import NetPositions
from kifu.play.player import GameSession
from kifu.point import BLACK, POINT_MASK, WHITE_BIT
from lazy import lazy_import

play = lazy_import("kifu.play")


def evaluation_of(policy: npt.NDArray[np.floating], colour: int = BLACK, **heads: Any) -> Evaluation:
    with np.errstate(divide="ignore"):
        return Evaluation(np.log(policy.astype(np.float32)), np.uint8(colour), **heads)


Weigh = Callable[[GameSession, int], npt.NDArray[np.floating]]


def top_left_first(game: GameSession, colour: int) -> npt.NDArray[np.floating]:
    """The earlier in the alphabet of SGF, the better; a pass is no move."""
    weights = 1 / np.arange(1, game.board.pass_move + 2)
    weights[-1] = 0
    return weights


@dataclass
class Scripted:
    """The policy is what `weigh` gives each legal move. lead: the value for Black, or None. Black owns the top half."""

    weigh: Weigh = top_left_first
    lead: float | None = None
    has_points: bool = False
    name: str = "scripted"

    @property
    def has_value(self) -> bool:
        return self.lead is not None

    def supports(self, width: int, height: int) -> bool:
        return max(width, height) <= 19

    def set_rules(self, rules: Rules, scoring: str) -> None:
        self.name = scoring

    def evaluate(self, game: GameSession, colour: int) -> Evaluation:
        policy = np.where(game.board.legal(colour), self.weigh(game, colour), 0)
        policy = (policy / max(policy.sum(), 1e-300)).astype(np.float32)
        sign = 1 if colour == 1 else -1
        value = None if self.lead is None else sign * self.lead
        return evaluation_of(
            policy, colour, value=value, ownership=sign * self._owners(game) if self.has_points else None
        )

    def judge_dead(self, game: GameSession) -> npt.NDArray[np.bool_] | None:
        return play.player.dead_stones(game.board, self._owners(game)) if self.has_points else None

    def _owners(self, game: GameSession) -> npt.NDArray[np.float32]:
        n = game.board.pass_move
        return np.where(np.arange(n) < n // 2, 1, -1).astype(np.float32)


def chance(seed: int) -> Weigh:
    rng = np.random.default_rng(seed)

    def weigh(game: GameSession, colour: int) -> npt.NDArray[np.floating]:
        weights = rng.random(game.board.pass_move + 1)
        weights[-1] = 0
        return weights

    return weigh


def scripted_engine(evaluator: Scripted | None = None, *, size: int = 5, rules: str = "chinese") -> play.engine.Engine:
    engine = play.engine.Engine(play.player.Player(evaluator or Scripted()), rules=rules, width=size, height=size)
    engine.patience = math.inf
    return engine


def reported(engine: play.engine.Engine, sent: bytes, *, cut: int = 1 << 20) -> str:
    """All that an engine answers to these bytes, which come in pieces of `cut` bytes."""
    pieces = iter([sent[at : at + cut] for at in range(0, len(sent), cut)])
    answers: list[str] = []
    play.gtp.serve(engine, play.gtp.LineReader(lambda size: next(pieces, b"")), answers.append)
    return "".join(answers)


class RankedScript:
    """A net of which a move on column x is worth x points. Its likely moves, in row 1, depend on rating and ply."""

    name, board, has_points, parts = "ranked", (19, 19), True, (SimpleNamespace(_is_kata=True),)

    def check_board(self, width: int, height: int) -> None: ...

    def check_ranks(self, *ranks: float | None) -> None: ...

    def policy(self, rating: float | None, ply: int) -> dict[int, float]:
        """Return chances by column, none near a limit of the rules; without a rating, of the best or the worst move."""
        if rating is None:
            return {18 * (ply % 2): 1.0}
        rng = np.random.default_rng([int(rating), ply])
        columns = rng.choice(np.arange(12, 19) if rating > 31 else np.arange(8, 19), 4, replace=False)
        chances = ((0.71, 0.14, 0.08, 0.07), (0.53, 0.23, 0.15, 0.09), (0.34, 0.31, 0.21, 0.14))[rng.integers(3)]
        return dict(zip(columns.tolist(), chances, strict=True))

    def evaluate(self, positions: NetPositions) -> Evaluation:
        policy, score = np.zeros((len(positions), 362)), np.zeros((len(positions), 2), np.float32)
        for k, (game, ply) in enumerate(zip(positions.game.tolist(), positions.ply.tolist(), strict=True)):
            start = positions.games.move_offset[game]
            words = positions.games.moves[start : start + ply]
            moves, signs = (words & POINT_MASK).astype(int), np.where(words & WHITE_BIT, -1, 1)
            for column, share in self.policy(positions.ranks[0], ply).items():
                policy[k, 19 + column] = share * (19 + column not in moves)
            score[k, 0] = (signs * (moves % 19)).sum() * (1 if positions.to_play[k] == BLACK else -1)
        with np.errstate(divide="ignore"):
            return Evaluation(np.log(policy).astype(np.float32), positions.to_play, score=score)

    def stream(self, positions: NetPositions) -> Iterator[Evaluation]:
        for start in range(0, len(positions), 50):
            yield self.evaluate(positions.take(slice(start, start + 50)))


def people_catalogue(folder: Path, games: int = 30) -> Path:
    """Return a catalogue of games without moves in row 1, and one of a program."""
    letters = "abcdefghijklmnopqrs"
    points = [x + y for y in letters[2:8] for x in letters[1::2]]
    for k in range(games + 1):
        order = np.random.default_rng(k).permutation(len(points))
        moves = "".join(f";{'BW'[n % 2]}[{points[at]}]" for n, at in enumerate(order))
        (folder / f"{k:02}.sgf").write_text(f"(;SZ[19]PB[{'GNU Go' if k == games else f'b{k}'}]PW[w]KM[6.5]{moves})")
    kifu.ingest(folder, folder / "people.parquet")
    return folder / "people.parquet"


def script_problems(monkeypatch: Any) -> RankedScript:
    """Let problems be searched with a `RankedScript`, whatever nets are named."""
    net = RankedScript()
    monkeypatch.setattr(review, "open_net", lambda name: net)
    monkeypatch.setattr(review, "net_hash", str)
    return net

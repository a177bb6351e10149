"""Oracles that are no nets, and engines that ask them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.go.rules import Rules
from kifu.learn.evaluation import Evaluation
from kifu.play.player import GameSession
from kifu.point import BLACK
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

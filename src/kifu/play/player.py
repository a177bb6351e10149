"""A player: what a net says of a position becomes a move, a pass, or a resignation."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kifu.errors import KifuError, RecipeError
from kifu.learn.predict import Predictor, PredictPositions
from kifu.play.ending import contested_points, own_eyes
from kifu.play.ongoing import GameSession

RESIGN = -1
"""What `Player.choose` returns instead of a move."""

_LONG, _LONGEST = 2, 3
"""Moves, as multiples of the board's points: from the first on only those that matter, from the other on none."""

_MATTERS = 0.5
"""A player whose opponent has passed plays on if the net puts that much of its trust in points that are open."""


class PolicyValue(NamedTuple):
    """What an oracle says of a position.

    policy: [n + 1] float32, probabilities of the legal moves, which sum to 1 (or are all 0 where there is none); the
        last one is the pass, and 0 if the oracle does not know passes.
    value: from -1, the player asked for loses, to 1, it wins; ownership: [n] float32 from -1, the opponent's, to 1.
        None if the oracle does not tell.
    """

    policy: npt.NDArray[np.float32]
    value: float | None = None
    ownership: npt.NDArray[np.float32] | None = None


class Evaluator(Protocol):
    """What a player asks."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def has_value(self) -> bool:
        """Whether it tells who wins."""
        ...

    @property
    def has_ownership(self) -> bool:
        """Whether it tells whose each point is in the end."""
        ...

    def takes(self, width: int, height: int) -> bool:
        """Whether it can be asked for boards of that size."""
        ...

    def outlook(self, game: GameSession, colour: int) -> PolicyValue:
        """What it says of the position, with the player of that colour to move."""
        ...


class NetEvaluator:
    """A trained net as an oracle."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        net = predictor.net
        self.name = net.name
        self.has_value, self.has_ownership = ("value" in net.about.heads), ("ownership" in net.about.heads)

    def takes(self, width: int, height: int) -> bool:
        try:
            self._predictor.net.encoder_for(width, height)
        except KifuError:
            return False
        return True

    def outlook(self, game: GameSession, colour: int) -> PolicyValue:
        board = game.board
        setup, setup_ply = game.setup
        positions = PredictPositions.of_moves(
            [game.moves], board.width, board.height, setup=setup, setup_ply=setup_ply, to_play=[colour]
        )
        told = self._predictor.ask(positions)
        policy = np.zeros(board.pass_move + 1, np.float32)
        policy[: told.policy.shape[1]] = told.policy[0]
        value = None if told.value is None else float(told.value[0])
        return PolicyValue(policy, value, None if told.ownership is None else told.ownership[0])


class Player:
    """Plays what an oracle says, passes when the game is over, and never fills an eye of its own."""

    def __init__(
        self, oracle: Evaluator, *, temperature: float = 0.0, resign: float | None = None, seed: int | None = None
    ) -> None:
        """temperature: probabilities are taken to the power of 1 / temperature and drawn from; 0 is the likeliest move.

        resign: below which chance to win, from 0 to 1, the player resigns; None: never. seed: of the draws.
        Raises RecipeError for values out of range, or for a net that would have to resign and knows no chances.
        """
        if not 0 <= temperature <= 100:
            raise RecipeError(f"temperature {temperature} is not within 0 to 100")
        if resign is not None and not 0 <= resign <= 1:
            raise RecipeError(f"resign {resign} is not within 0 to 1")
        if resign is not None and not oracle.has_value:
            raise RecipeError(f"net {oracle.name} has no value head, so it does not know when to resign")
        self.oracle = oracle
        self._temperature, self._resign = temperature, resign
        self._rng = np.random.default_rng(seed)

    def choose(self, game: GameSession, colour: int, outlook: PolicyValue) -> int:
        """A legal move (a pass is one), or RESIGN. outlook: what the oracle says of the position."""
        if self._resign is not None and outlook.value is not None and (outlook.value + 1) / 2 < self._resign:
            return RESIGN
        points = worth_playing(game, colour, outlook.policy)
        chances = outlook.policy[points]
        if not len(points) or outlook.policy[-1] > chances.max():
            return game.board.pass_move
        return int(points[self._draw(chances)])

    def _draw(self, chances: npt.NDArray[np.float32]) -> int:
        """Which of these; chances: not all 0."""
        if self._temperature == 0:
            return int(chances.argmax())
        with np.errstate(divide="ignore"):
            weights = np.log(chances.astype(np.float64)) / self._temperature
        weights = np.exp(weights - weights.max())
        return int(self._rng.choice(len(weights), p=weights / weights.sum()))


def worth_playing(game: GameSession, colour: int, policy: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The points that a player of that colour may play on before it should rather pass; none if it should.

    policy: as `PolicyValue` has it. The points are legal, have a probability, and are no own eyes. There are none once all
    is settled (`open_points`), or in a game that is longer than games are. After a pass of the opponent, and in a long
    game, they are open, and there are some only if the net puts most of its trust in them.
    """
    n = game.board.pass_move
    fair = (policy[:-1] > 0) & ~own_eyes(game.board, colour)
    opened = fair & contested_points(game.board, colour)
    if not opened.any() or len(game.moves) >= _LONGEST * n:
        return np.empty(0, np.int64)
    if game.passes or len(game.moves) >= _LONG * n:
        fair = opened if policy[:-1][opened].sum() >= _MATTERS else np.zeros(n, np.bool_)
    return np.flatnonzero(fair)

"""Players: an evaluator's policy and value become a move, a pass or a resignation.

Networks learn moves from games that are rarely played out, and many have no pass at all, so the player decides from the
board when a game is over: eyes, settled regions and the moves that can still matter. There is no lookahead. Stones are
judged dead by ownership only.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.datasets.global_inputs import Conditions
from kifu.errors import GameError, KifuError, RecipeError
from kifu.go.board import EMPTY, Board
from kifu.go.rules import Rules
from kifu.go.state import WALL
from kifu.learn.evaluation import Evaluation
from kifu.learn.positions import NetPositions
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.records.game import Game, count_handicap, make_game

if TYPE_CHECKING:
    from kifu.learn.inference import Net

CHINESE = Rules.named("chinese")

DEFAULT_KOMI = 7.5


class GameSession:
    """A game in progress.

    Attributes:
        board: Current position under the session's rules. Change it through the methods of this class only.
        moves: Moves as point | WHITE_BIT; a pass is width * height. Consecutive moves by one colour are allowed.
        komi: Points for White.
    """

    def __init__(
        self, width: int = 19, height: int | None = None, *, rules: Rules = CHINESE, komi: float = DEFAULT_KOMI
    ) -> None:
        """Start with an empty board, square if `height` is None. Raises GameError if a side is not within 1 to 25."""
        self.board = Board(width, height, rules=rules)
        self.moves: list[int] = []
        self.komi, self._stated_handicap = komi, 0
        self._setup = np.empty(0, np.uint16)
        self._setup_ply = np.empty(0, np.uint16)
        self._first = BLACK

    @classmethod
    def from_game(
        cls, game: Game, ply: int, *, rules: Rules = CHINESE, default_komi: float = DEFAULT_KOMI
    ) -> GameSession:
        """Return a session at the position before move `ply` of a game, with `default_komi` if it has none.

        Raises IllegalMove if an earlier move is illegal under these rules; GameError if the game was dropped by the
        reader.
        """
        if game.drop:
            raise GameError(f"a dropped game has no positions: {game.drop.reason}")
        komi, placed = game.komi, game.setup_ply <= ply
        session = cls(game.width, game.height, rules=rules, komi=default_komi if komi is None else komi)
        session._stated_handicap = game.handicap or 0
        session._setup, session._setup_ply = game.setup[placed], game.setup_ply[placed]
        session._first = game.to_play or (WHITE if session.handicap > 1 else BLACK)
        session.moves = game.moves[:ply].tolist()
        session._replay(rules)
        return session

    def with_rules(self, rules: Rules) -> GameSession:
        """Return the same game under other rules. Raises IllegalMove if a move is illegal under them."""
        game = copy(self)
        game.moves = self.moves.copy()
        game._replay(rules)
        return game

    def to_game(self, rules: str | None = None) -> Game:
        """Return the game as a record with these RU, with its handicap as HA and handicap moves as setup."""
        board, moves, first = self.board, np.array(self.moves, np.uint16), self._first
        setup, setup_ply = self._setup, self._setup_ply
        stones, plies = count_handicap(board.pass_move, moves, setup, setup_ply)
        if len(plies) and self._stated_handicap in (0, stones):
            at, after = int((setup_ply == 0).sum()), int(plies[-1]) + 1
            setup = np.insert(setup, at, moves[plies])
            setup_ply = np.insert(np.where(setup_ply, setup_ply - after, 0).astype(np.uint16), at, np.zeros_like(plies))
            moves, first = moves[after:], WHITE
        if len(moves):
            first = WHITE if moves[0] & WHITE_BIT else BLACK
        return make_game(
            board.width, board.height, moves, setup, setup_ply, to_play=first if len(setup) else 0,
            handicap=self._stated_handicap or stones or None, KM=f"{self.komi:g}", RU=rules,
        )  # fmt: skip

    @property
    def handicap(self) -> int:
        """Number of handicap stones: HA of the loaded record, or else by `kifu.records.game.count_handicap`."""
        return self.to_game().handicap or 0

    def turned(self, symmetry: int) -> GameSession:
        """Return the game under a symmetry, see `kifu.point.symmetries`."""
        board, game = self.board, self.to_game()
        table = symmetries(board.width, board.height)[symmetry].astype(np.uint16)
        sides = (board.height, board.width) if symmetry >= 4 else (board.width, board.height)
        moves, setup = (
            table[words & POINT_MASK] | words & ~np.uint16(POINT_MASK) for words in (game.moves, game.setup)
        )
        game = replace(game, width=sides[0], height=sides[1], moves=moves, setup=setup)
        turned = GameSession.from_game(game, len(moves), rules=board.rules)
        turned.komi = self.komi
        return turned

    @property
    def is_empty(self) -> bool:
        """True before the first move or setup stone."""
        return not self.moves and not len(self._setup)

    @property
    def trailing_passes(self) -> int:
        """Number of consecutive passes at the end of the game, at most 2."""
        last = [word & POINT_MASK == self.board.pass_move for word in self.moves[-2:]]
        return 2 if last == [True, True] else int(last[-1:] == [True])

    def play(self, move: int, colour: int) -> None:
        """Play a move of that colour. Raises IllegalMove if the move is illegal; the session is unchanged."""
        self.board.play(move, colour)
        self.moves.append(move | (WHITE_BIT if colour == WHITE else 0))

    def undo(self) -> None:
        """Take back the last move. Raises GameError if no move has been played."""
        if not self.moves:
            raise GameError("no move to take back")
        self.moves.pop()
        placed = self._setup_ply <= len(self.moves)
        self._setup, self._setup_ply = self._setup[placed], self._setup_ply[placed]
        self._replay(self.board.rules)

    def place_handicap(self, points: Sequence[int]) -> None:
        """Place black handicap stones; White moves first. Raises GameError if the board is not empty."""
        if not self.is_empty:
            raise GameError("handicap stones must be placed before the first move")
        self.set_up(points, [], WHITE)

    def set_up(self, black: Sequence[int], white: Sequence[int], to_play: int) -> None:
        """Place stones on the empty board of a new session. Raises GameError if a chain would have no liberties."""
        self.board.setup(black=black, white=white)
        self._setup = np.array([*black, *(point | WHITE_BIT for point in white)], np.uint16)
        self._setup_ply = np.zeros(len(self._setup), np.uint16)
        self._first = self.board.to_play = to_play

    def _replay(self, rules: Rules) -> None:
        width, height, moves = self.board.width, self.board.height, np.array(self.moves, np.uint16)
        self.board = Board.after(width, height, moves, self._setup, self._setup_ply, len(moves), rules=rules)
        if not self.moves:
            self.board.to_play = self._first


Mask = npt.NDArray[np.bool_]

RESIGN = -1
"""Returned by `Player.choose` to resign."""

_RESIGN_AFTER = 3
"""Number of own moves in a row whose evaluation is below the threshold before the player resigns."""

_LONG, _LONGEST = 2, 3
"""Game lengths in multiples of the board's points: beyond the first only contested points are played, beyond the second
none."""

_MIN_CONTESTED_POLICY = 0.5
"""After an opponent's pass, a net without passes goes on only if contested points have at least this share of the
policy."""

_MIN_PASS = 0.1
"""A net with passes answers a pass with a pass only if, without the opponent's pass, a pass has this share of the best
move's probability."""

_OWN_SHARE, _OTHER_SHARE = 1 / 2, 1 / 6
"""A region that borders own stones only, or the opponent's only, is still contested if it covers more than this share
of the board: stones can live in it."""


_MAX_DEAD = -0.5
"""A chain whose mean ownership, from its own view, is lower counts as dead."""


class NetEvaluator:
    """A net that evaluates a player's positions: with a value if `has_value`, ownership and score if `has_points`."""

    def __init__(
        self, net: Net, *, rules: str = "", rating: float | None = None, opponent: float | None = None
    ) -> None:
        """Prepare a net. Raises RecipeError if a rank is given for a net that does not take ranks.

        Args:
            rules: Name of the rules, as in records; their scoring is an input of some nets. "" is unknown.
            rating: Rating (`kifu.Rank.rating`) of the side to move; None is unknown.
            opponent: Rating of its opponent; None is unknown.
        """
        net.check_ranks(rating, opponent)
        self._net, self._rules, self._ranks = net, rules, (rating, opponent)
        self.name, self.has_value, self.has_points = net.name, net.has_value, net.has_points

    def set_rules(self, rules: Rules, scoring: str) -> None:
        """Evaluate by other rules from now on. scoring: "area" or "territory"."""
        self._net, self._rules = self._net.using(rules=rules), scoring

    def supports(self, width: int, height: int) -> bool:
        """Return True if boards of that size can be evaluated."""
        try:
            self._net.check_board(width, height)
        except KifuError:
            return False
        return True

    def evaluate(self, game: GameSession, colour: int) -> Evaluation:
        """Return the evaluation of the current position with that colour to move, among all legal moves, pass last."""
        return self._evaluate(game, colour).restrict(game.board.legal(colour))

    def judge_dead(self, game: GameSession) -> Mask | None:
        """Return the dead stones of a finished game by ownership, which holds then; None without an ownership head."""
        ownership = self._evaluate(game, game.board.to_play, unverified=True).seen_from(BLACK).ownership
        return None if ownership is None else dead_stones(game.board, ownership)

    def _evaluate(self, game: GameSession, colour: int, unverified: bool = False) -> Evaluation:
        board, record = game.board, game.to_game()
        conditions = Conditions.of_game(komi=game.komi, handicap=record.handicap, rules=self._rules)
        positions = NetPositions.from_moves(
            [record.moves], board.width, board.height, setup=record.setup, setup_ply=record.setup_ply,
            to_play=[colour], conditions=conditions,
        )  # fmt: skip
        rating, opponent = self._ranks
        return self._net.evaluate(positions, rank=rating, opponent=opponent, unverified=unverified)[0]


class Player:
    """Plays an evaluator's moves, passes when the game is over, and never fills its own eyes."""

    def __init__(
        self, evaluator: NetEvaluator, *, temperature: float = 0.0, resign: float | None = None, seed: int | None = None
    ) -> None:
        """Create a player.

        Raises RecipeError if an option is out of range, or `resign` is given for an evaluator without a value.

        Args:
            temperature: 0 plays the most probable move; otherwise moves are sampled from policy ** (1 / temperature).
            resign: Winning probability, from 0 to 1; the player resigns at its third move in a row with less. None
                never resigns.
        """
        if not 0 <= temperature <= 100:
            raise RecipeError(f"temperature must be within 0 to 100, got {temperature}")
        if resign is not None and not 0 <= resign <= 1:
            raise RecipeError(f"resign must be within 0 to 1, got {resign}")
        if resign is not None and not evaluator.has_value:
            raise RecipeError(f"resign needs a value head, which net {evaluator.name} does not have")
        self.evaluator = evaluator
        self._temperature, self._resign = temperature, resign
        self._rng = np.random.default_rng(seed)
        self._hopeless: dict[int, list[list[int]]] = {}

    def choose(self, game: GameSession, colour: int, evaluation: Evaluation) -> int:
        """Return a legal move (a pass is one) for that colour, or RESIGN.

        A net expects a pass after any pass, as in the records that it was trained with. So after an opponent's pass the
        position without it counts.
        """
        if self._is_hopeless(game, colour, evaluation):
            return RESIGN
        points = candidate_points(game, colour, evaluation.policy)
        probabilities = evaluation.policy[points]
        if not len(points):
            return game.board.pass_move
        if evaluation.policy[-1] > probabilities.max():
            before = self._evaluate_before_pass(game, colour) if game.trailing_passes else evaluation.policy
            if before[-1] > _MIN_PASS * before[:-1].max():
                return game.board.pass_move
        return int(points[self._sample(probabilities)])

    def clean_up(self, game: GameSession, colour: int, policy: npt.NDArray[np.float32]) -> int:
        """Return the most probable move of that colour where stones of both colours meet, or a pass.

        All dead stones are captured before it passes.
        """
        wanted = (policy[:-1] > 0) & ~own_eyes(game.board, colour) & contested_points(game.board, colour)
        return int(np.where(wanted, policy[:-1], 0).argmax()) if wanted.any() else game.board.pass_move

    def _evaluate_before_pass(self, game: GameSession, colour: int) -> npt.NDArray[np.float32]:
        word = game.moves[-1]
        game.undo()
        try:
            return self.evaluator.evaluate(game, colour).policy
        finally:
            game.play(game.board.pass_move, WHITE if word & WHITE_BIT else BLACK)

    def _is_hopeless(self, game: GameSession, colour: int, evaluation: Evaluation) -> bool:
        """Return True at the third evaluation in a row below the threshold, of positions of one game.

        The moves before each are kept, so that a new game, a move taken back or a position evaluated again does not
        count, and a game that is set up again before each move does.
        """
        if self._resign is None or evaluation.value is None or (float(evaluation.value) + 1) / 2 >= self._resign:
            self._hopeless.pop(colour, None)
            return False
        moves = game.moves
        earlier = [
            each for each in self._hopeless.get(colour, ()) if len(each) < len(moves) and moves[: len(each)] == each
        ]
        self._hopeless[colour] = [*earlier, moves.copy()][-_RESIGN_AFTER:]
        return len(self._hopeless[colour]) == _RESIGN_AFTER

    def _sample(self, probabilities: npt.NDArray[np.float32]) -> int:
        """Return an index into `probabilities`, which are not all 0."""
        if self._temperature == 0:
            return int(probabilities.argmax())
        with np.errstate(divide="ignore"):
            weights = np.log(probabilities.astype(np.float64)) / self._temperature
        weights = np.exp(weights - weights.max())
        return int(self._rng.choice(len(weights), p=weights / weights.sum()))


def candidate_points(game: GameSession, colour: int, policy: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the points that colour may play instead of passing; empty if it should pass.

    The points have a positive probability and are not own eyes. None are left once no point is contested, or in an
    overlong game. In a long game, and after an opponent's pass if the policy has no passes, only contested points
    count, and only if most of the policy is on them.

    Args:
        policy: [n + 1] float32, pass last.

    Returns:
        [K] int64 points in ascending order.
    """
    n = game.board.pass_move
    candidates = (policy[:-1] > 0) & ~own_eyes(game.board, colour)
    contested = candidates & contested_points(game.board, colour)
    if not contested.any() or len(game.moves) >= _LONGEST * n:
        return np.empty(0, np.int64)
    if (game.trailing_passes and not policy[-1]) or len(game.moves) >= _LONG * n:
        wanted = policy[:-1][contested].sum() >= _MIN_CONTESTED_POLICY
        candidates = contested if wanted else np.zeros(n, np.bool_)
    return np.flatnonzero(candidates)


def own_eyes(board: Board, colour: int) -> Mask:
    """Return a mask, [n] bool, of the empty points that are real eyes of that colour.

    All neighbours of an eye are own stones, and the opponent holds none of its diagonals at the edge, at most one
    elsewhere.
    """
    stones = np.pad(board.stones, 1, constant_values=WALL)
    own, other, wall = (stones == c for c in (colour, BLACK + WHITE - colour, WALL))

    def count_at(mask: Mask, steps: list[tuple[int, int]]) -> npt.NDArray[np.int64]:
        """Return [h, w] int64: for each point, the number of these steps that lead into the mask."""
        count = np.zeros((board.height, board.width), np.int64)
        for dy, dx in steps:
            count += mask[1 + dy : 1 + dy + board.height, 1 + dx : 1 + dx + board.width]
        return count

    orthogonal, diagonal = [(-1, 0), (1, 0), (0, -1), (0, 1)], [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    surrounded = count_at(own | wall, orthogonal) == 4
    false_eye = count_at(other, diagonal) > np.where(count_at(wall, orthogonal) > 0, 0, 1)
    eyes: Mask = ((board.stones == EMPTY) & surrounded & ~false_eye).ravel()
    return eyes


def contested_points(board: Board, colour: int) -> Mask:
    """Return a mask, [n] bool, of the empty points where a move of that colour may still matter.

    These are the points of regions that border stones of both colours or of none, or that are large, and the last
    liberties of own chains.
    """
    n = board.pass_move
    contested = np.zeros(n, np.bool_)
    for region, owners in board.empty_regions():
        min_share = 0.0 if len(owners) != 1 else _OWN_SHARE if colour in owners else _OTHER_SHARE
        contested[region] = len(region) > min_share * n
    in_atari = np.pad((board.stones == colour) & (board.liberties == 1), 1)
    adjacent = in_atari[:-2, 1:-1] | in_atari[2:, 1:-1] | in_atari[1:-1, :-2] | in_atari[1:-1, 2:]
    contested |= (adjacent & (board.stones == EMPTY)).ravel()
    return contested


def dead_stones(board: Board, ownership: npt.NDArray[np.floating]) -> Mask:
    """Return a mask, [n] bool, of the stones of chains that are expected to become the opponent's points.

    Args:
        ownership: [n], from -1 (White's) to 1 (Black's).
    """
    dead = np.zeros(board.pass_move, np.bool_)
    stones = board.stones.ravel()
    for chain in board.chains():
        dead[chain] = ownership[chain].mean() * (1 if stones[chain[0]] == BLACK else -1) < _MAX_DEAD
    return dead


def score_points(board: Board, dead: Mask, *, territory: bool = False) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return the owner of each point ([n], 0 for neither) and the points of Black and White without komi.

    Args:
        dead: [n], the stones that are removed as prisoners.
        territory: Count empty points and prisoners instead of empty points and stones.
    """
    stones = board.stones.ravel().astype(np.int64)
    removed = np.bincount(stones[dead], minlength=3)
    cleared = Board(board.width, board.height)
    black, white = (np.flatnonzero((stones == colour) & ~dead).tolist() for colour in (BLACK, WHITE))
    cleared.setup(black=black, white=white)
    owners = cleared.stones.ravel().astype(np.int64)
    for region, touched in cleared.empty_regions():
        if len(touched) == 1:
            owners[region] = next(iter(touched))
    points = np.bincount(owners[cleared.stones.ravel() == EMPTY] if territory else owners, minlength=3)
    if territory:
        points[BLACK] += removed[WHITE] + board.captures[BLACK]
        points[WHITE] += removed[BLACK] + board.captures[WHITE]
    return owners, int(points[BLACK]), int(points[WHITE])

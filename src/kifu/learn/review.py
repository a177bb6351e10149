"""Review of games by a net: evaluations of positions, mistakes in points, and problems.

A `Reviewer` evaluates positions once and keeps the results, for one visit each: no search is involved. A
`ProblemSearch` returns the same for the web application as for the command line.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.corpus.rows import rows_to_games
from kifu.datasets.global_inputs import Conditions
from kifu.errors import RecipeError
from kifu.learn.positions import PredictPositions, Words
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, to_sgf
from kifu.records.game import Game
from kifu.records.text import escape
from kifu.search.searcher import Searcher

if TYPE_CHECKING:
    from kifu.learn.predict import MovePredictor

_MAX_KEPT = 4096
"""Number of evaluations that are kept, of some 3 kB each."""

Ranks = tuple[float | None, float | None]
"""Ratings (`kifu.Rank.rating`) of Black and White; None for the recorded ones."""


class PositionReview(NamedTuple):
    """A net's evaluation of a position.

    Attributes:
        to_play: BLACK or WHITE.
        policy: [moves] float32, probabilities of the legal moves.
        win: Probability that Black wins, or None.
        lead: Points by which Black leads, or None.
        ownership: [points] float32 from -1 (White's) to 1 (Black's), or None.
    """

    to_play: int
    policy: npt.NDArray[np.float32]
    win: float | None
    lead: float | None
    ownership: npt.NDArray[np.float32] | None

    def best(self, count: int) -> list[int]:
        """Return the most probable moves in descending order; of equally probable ones the lower comes first."""
        order = np.argsort(-self.policy, kind="stable")[:count].tolist()
        return [move for move in order if self.policy[move] > 0]

    def chance(self, move: int) -> float | None:
        """Return the probability of a move; None for one that the net does not predict."""
        return float(self.policy[move]) if move < len(self.policy) and self.policy[move] > 0 else None

    def choice(self, move: int) -> int:
        """Return the place of a move among the choices, from 1."""
        return 1 + int((self.policy > self.policy[move]).sum())


class Reviewer:
    """Evaluates positions of games with a net, and keeps the latest results. Threads may share it."""

    def __init__(self, predictor: MovePredictor) -> None:
        """Review with an open net."""
        self.predictor = predictor
        self._kept: OrderedDict[bytes, PositionReview] = OrderedDict()
        self._lock = threading.Lock()

    def evaluate(self, game: Game, lines: Sequence[Words], ranks: Ranks = (None, None)) -> list[PositionReview]:
        """Evaluate the position before the last move of each line, which defines the side to move.

        Args:
            game: Board, setup and conditions.
        """
        conditions = Conditions.from_games([game])
        conditions.rating[0] = [
            given if given is not None else known for given, known in zip(ranks, conditions.rating[0])
        ]
        stated = [getattr(conditions, each.name).tobytes() for each in fields(conditions)]
        root = b"".join([*stated, game.setup.tobytes(), game.setup_ply.tobytes(), bytes((game.width, game.height))])
        keys = [root + b"".join((line[:-1].tobytes(), bytes([bool(line[-1] & WHITE_BIT)]))) for line in lines]
        with self._lock:
            missing = {key: line for key, line in zip(keys, lines) if key not in self._kept}
            if missing:
                found = self._predict(game, list(missing.values()), conditions)
                self._kept.update(zip(missing, found))
            for key in keys:
                self._kept.move_to_end(key)
            answer = [self._kept[key] for key in keys]
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return answer

    def _predict(self, game: Game, lines: list[Words], conditions: Conditions) -> list[PositionReview]:
        to_play = [WHITE if line[-1] & WHITE_BIT else BLACK for line in lines]
        positions = PredictPositions.from_moves(
            [line[:-1] for line in lines],
            game.width,
            game.height,
            setup=game.setup,
            setup_ply=game.setup_ply,
            to_play=to_play,
            conditions=conditions.take(np.zeros(len(lines), np.int64)),
        )
        predicted = self.predictor.predict(positions)
        value, score, ownership = predicted.value, predicted.score, predicted.ownership
        found = []
        for k, colour in enumerate(to_play):
            sign = 1 if colour == BLACK else -1
            found.append(
                PositionReview(
                    colour,
                    predicted.policy[k],
                    None if value is None else (1 + sign * float(value[k])) / 2,
                    None if score is None else sign * float(score[k, 0]),
                    None if ownership is None else sign * ownership[k],
                )
            )
        return found


def line_of(game: Game, ply: int, to_play: int | None = None) -> Words:
    """Return the moves before a position and a last word of the side to move, as `Reviewer.evaluate` takes them.

    Args:
        to_play: BLACK or WHITE; by default the player of the next move, else the opponent of the last one.
    """
    words = game.moves[: ply + 1]
    if to_play is None and len(words) > ply:
        return words
    if to_play is None and ply:
        to_play = BLACK if words[-1] & WHITE_BIT else WHITE
    to_play = to_play or game.to_play or (WHITE if (game.handicap or 0) > 1 else BLACK)
    return np.append(words[:ply], np.uint16(WHITE_BIT if to_play == WHITE else 0))


def after_moves(line: Words, moves: Sequence[int]) -> list[Words]:
    """Return the lines to the positions after each of some moves in the position of a line."""
    colour, other = line[-1] & WHITE_BIT, ~line[-1] & WHITE_BIT
    return [np.concatenate([line[:-1], np.array([move | colour, other], np.uint16)]) for move in moves]


def find_losses(
    reviewer: Reviewer, game: Game, plies: Sequence[int], ranks: Ranks = (None, None)
) -> list[float | None]:
    """Return the points, at least 0, that moves of a game lose against the most probable ones; None without points.

    The leads after both moves are compared, so that the same player is to move in both positions.
    """
    lines = [line_of(game, ply) for ply in plies]
    before = reviewer.evaluate(game, lines, ranks)
    played = [int(game.moves[ply] & POINT_MASK) for ply in plies]
    pairs = [[*(each.best(1) or [move]), move] for each, move in zip(before, played)]
    after = reviewer.evaluate(
        game, [each for line, pair in zip(lines, pairs) for each in after_moves(line, pair)], ranks
    )
    leads = [each.lead for each in after]
    return [
        None if one is None or two is None else max(0.0, one - two if each.to_play == BLACK else two - one)
        for each, one, two in zip(before, leads[::2], leads[1::2])
    ]


class Problem(NamedTuple):
    """A position in which one move is right.

    Attributes:
        game: The game; its moves end before the position.
        to_play: BLACK or WHITE.
        answer: The right move.
        mistake: The move that weaker players prefer, or the second-best one.
        chances: Probabilities of the answer among strong and weak players; None where points decide.
        loss: Points that `mistake` loses; None where ranks decide.
    """

    game: Game
    to_play: int
    answer: int
    mistake: int
    chances: tuple[float, float] | None
    loss: float | None


_SURE, _RATIO = 0.15, 0.75
"""Smallest probability of an answer among strong players, and largest part of it among weak ones."""

_CHOICES, _POINTS = 4, 5.0
"""Number of the most probable moves that are compared, and points by which the answer is better than all others."""

_FIRST_PLY, _LAST_PLY = 20, 220


_STRONG, _WEAK = 38.0, 22.0
"""Ratings of players who find a problem's answer and of those who do not, unless others are given: 7d and 10k."""


def default_ranks(predictor: MovePredictor, strong: float | None, weak: float | None) -> Ranks:
    """Return the ratings for problems: those given, or the usual ones if the net takes ranks; None for points."""
    if strong is None and weak is None and not predictor.takes_ranks:
        return None, None
    return _STRONG if strong is None else strong, _WEAK if weak is None else weak


def find_problem(reviewer: Reviewer, game: Game, strong: float | None, weak: float | None, seed: int) -> Problem | None:
    """Return the problem of a random position of a game; None if it is none, or the game too short.

    Raises RecipeError for a net that gives no points, if no ranks are given.

    Args:
        strong: Rating of players who find the answer; None to compare points, which requires a net that gives them.
        weak: Rating of players who do not.
    """
    last = min(len(game), _LAST_PLY)
    if game.drop or last <= _FIRST_PLY:
        return None
    ply = int(np.random.default_rng([seed, len(game), *game.moves[:8].tolist()]).integers(_FIRST_PLY, last))
    shown, line = replace(game, moves=game.moves[:ply]), line_of(game, ply)
    points = game.width * game.height
    if strong is not None:
        able, unable = (reviewer.evaluate(game, [line], (rank, rank))[0] for rank in (strong, weak))
        answer, mistake = able.best(1)[0], unable.best(1)[0]
        chances = float(able.policy[answer]), float(unable.policy[answer])
        if answer == mistake or points in (answer, mistake) or chances[0] < _SURE or chances[1] > _RATIO * chances[0]:
            return None
        return Problem(shown, able.to_play, answer, mistake, chances, None)
    (before,) = reviewer.evaluate(game, [line])
    choices = [move for move in before.best(_CHOICES) if move != points]
    if before.lead is None:
        raise RecipeError(
            f"problems require a net that gives points or takes ranks; {reviewer.predictor.name} does not"
        )
    if len(choices) < 2:
        return None
    side = 1 if before.to_play == BLACK else -1
    leads = [side * (each.lead or 0.0) for each in reviewer.evaluate(game, after_moves(line, choices))]
    first, second = np.argsort(-np.array(leads), kind="stable")[:2].tolist()
    loss = leads[first] - leads[second]
    return Problem(shown, before.to_play, choices[first], choices[second], None, loss) if loss >= _POINTS else None


class ProblemSearch(NamedTuple):
    """A search for problems in games of a catalogue, in a random order.

    Attributes:
        games: [rows] bool, the games to search; None for all.
        strong: See `find_problem`, also for `weak`.
    """

    reviewer: Reviewer
    searcher: Searcher
    games: npt.NDArray[np.bool_] | None
    strong: float | None
    weak: float | None
    seed: int = 0

    def run(self, first: int = 0) -> Iterator[tuple[int, Problem | None]]:
        """Yield row and problem of one game after another, from place `first` of the order on.

        Raises:
            RecipeError: The net takes no ranks, or none are given and it gives no points.
        """
        from kifu.learn.predictors import check_ranks  # imports torch, which takes seconds

        check_ranks(self.reviewer.predictor, self.strong, self.weak)
        rows = np.arange(len(self.searcher.catalogue)) if self.games is None else np.flatnonzero(self.games)
        for row in np.random.default_rng(self.seed).permutation(rows)[first:].tolist():
            (game,) = rows_to_games(self.searcher.record(row))
            yield row, find_problem(self.reviewer, game, self.strong, self.weak, self.seed)


def write_problems(problems: Sequence[Problem]) -> bytes:
    """Return problems as a collection of SGF records: the position, then the answer (TE) and the mistake (BM)."""
    records = []
    for game, to_play, answer, mistake, chances, loss in problems:
        size = game.width, game.height
        stones = game.board().stones.ravel()
        players = " - ".join(f"{name or '?'} {rank or ''}".strip() for name, rank in zip(game.players, game.ranks))
        head = [f"SZ[{size[0]}]" if size[0] == size[1] else f"SZ[{size[0]}:{size[1]}]"]
        for name, owner in (("AB", BLACK), ("AW", WHITE)):
            own = np.flatnonzero(stones == owner)
            head.append(name + "".join(f"[{to_sgf(point, *size)}]" for point in own.tolist()) if len(own) else "")
        colour, side = ("B", "Black") if to_play == BLACK else ("W", "White")
        comment = f"{side} to play. {players}, {game.date}, move {len(game) + 1}"
        if chances is None:
            why = ["Right.", f"{loss or 0:.1f} points worse."]
        else:
            why = [
                "Right: chance {:.0%} for strong players, {:.0%} for weak ones.".format(*chances),
                "Weak players' move.",
            ]
        records.append(
            f"(;GM[1]FF[4]CA[UTF-8]AP[kifu]{''.join(head)}PL[{colour}]C[{escape(comment)}]\n"
            f"(;{colour}[{to_sgf(answer, *size)}]TE[1]C[{why[0]}])\n"
            f"(;{colour}[{to_sgf(mistake, *size)}]BM[1]C[{why[1]}]))\n"
        )
    return "".join(records).encode()

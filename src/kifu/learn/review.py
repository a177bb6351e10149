"""Review of games by a net: evaluations of positions, mistakes in points, and problems.

A `Reviewer` evaluates positions once and keeps the results, for one visit each: no search is involved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.corpus.export import rows_to_games
from kifu.datasets.global_inputs import Conditions
from kifu.errors import RecipeError
from kifu.learn.evaluation import Evaluation
from kifu.learn.positions import NetPositions, Words, side_to_move
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, to_sgf
from kifu.records.game import Game
from kifu.records.text import escape
from kifu.search.searcher import Searcher

if TYPE_CHECKING:
    from kifu.learn.inference import Net

_MAX_KEPT = 4096
"""Number of evaluations that are kept, of some 3 kB each."""

MAX_COMPARED, _LIKELY = 6, 0.05
"""Maximum number of likely moves that are compared, and the probability from which on a move is likely."""

Ranks = tuple[float | None, float | None]
"""Ratings (`kifu.Rank.rating`) of Black and White; None for the recorded ones."""


def likely_moves(found: Evaluation, count: int) -> list[int]:
    """Return the most probable move and at most `count` - 1 others of at least `_LIKELY`, in descending order."""
    moves, chances = found.top(count)
    first = int(moves[:1].max(initial=-1) >= 0)
    likely: list[int] = moves[: max(first, int((chances >= _LIKELY).sum()))].tolist()
    return likely


def gain(before: Evaluation, after: Evaluation) -> float:
    """Return the lead of the side to move in a position after a later one; 0 from a net without points."""
    score = after.seen_from(int(before.side)).score
    return 0.0 if score is None else float(score[0])


class Reviewer:
    """Evaluates positions of games with a net, and keeps the latest results. Threads may share it."""

    def __init__(self, net: Net, name: str = "") -> None:
        """Review with a net, which has another name if two have the same."""
        self.net, self.name = net, name or net.name
        self._kept: OrderedDict[bytes, Evaluation] = OrderedDict()
        self._lock = threading.Lock()

    def evaluate(self, game: Game, lines: Sequence[Words], ranks: Ranks = (None, None)) -> list[Evaluation]:
        """Evaluate the position before the last move of each line, which defines the side to move."""
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
                positions = NetPositions.from_moves(
                    [line[:-1] for line in missing.values()], game.width, game.height, setup=game.setup,
                    setup_ply=game.setup_ply, conditions=conditions.take(np.zeros(len(missing), np.int64)),
                    to_play=[WHITE if line[-1] & WHITE_BIT else BLACK for line in missing.values()],
                )  # fmt: skip
                self._kept.update(zip(missing, self.net.evaluate(positions)))
            for key in keys:
                self._kept.move_to_end(key)
            answer = [self._kept[key] for key in keys]
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return answer


def line_of(game: Game, ply: int) -> Words:
    """Return the moves before a position and a last word of the side to move, as `Reviewer.evaluate` takes them."""
    return np.append(game.moves[:ply], np.uint16(WHITE_BIT if side_to_move(game, ply) == WHITE else 0))


def after_moves(line: Words, moves: Sequence[int]) -> list[Words]:
    """Return the lines to the positions after each of some moves in the position of a line."""
    colour, other = line[-1] & WHITE_BIT, ~line[-1] & WHITE_BIT
    return [np.concatenate([line[:-1], np.array([move | colour, other], np.uint16)]) for move in moves]


class ComparedMoves(NamedTuple):
    """The likely moves of a position and the one played.

    Attributes:
        after: By move, that of the position after it. The best is the first: the move with the largest lead for its
            player or, from a net without points, the likeliest.
    """

    before: Evaluation
    after: dict[int, Evaluation]
    played: int | None

    @property
    def best(self) -> Evaluation:
        """The evaluation after the best move, whose value and score are those of the position."""
        return next(iter(self.after.values()), self.before)  # there may be no legal move

    def loss(self, move: int | None) -> float | None:
        """Return the points that a move loses against the best, each after the move; None without points."""
        if move is None or self.best.score is None:
            return None
        return gain(self.before, self.best) - gain(self.before, self.after[move])


def compare_moves(
    reviewer: Reviewer, game: Game, plies: Sequence[int], ranks: Ranks = (None, None), count: int = MAX_COMPARED
) -> list[ComparedMoves]:
    """Compare the move played in positions of a game with at most `count` likely ones."""
    lines = [line_of(game, ply) for ply in plies]
    before = reviewer.evaluate(game, lines, ranks)
    played = [int(game.moves[ply] & POINT_MASK) if ply < len(game) else None for ply in plies]
    likely = [likely_moves(each, count) for each in before]
    moves = [own if move is None or move in own else [*own, move] for own, move in zip(likely, played)]
    after = reviewer.evaluate(game, [each for pair in zip(lines, moves) for each in after_moves(*pair)], ranks)
    found = iter(after)
    return [
        ComparedMoves(each, dict(sorted(zip(own, found), key=lambda item: -gain(each, item[1]))), move)
        for each, own, move in zip(before, moves, played)
    ]


class Problem(NamedTuple):
    """A position of a game in which the move played was a mistake.

    Attributes:
        game: The game; its moves end before the position.
        answers: The right moves: the best one, then others that lose at most `_EQUAL` points.
    """

    game: Game
    to_play: int
    answers: list[int]
    mistake: int
    loss: float


_EQUAL, _MISTAKE = 1.0, 2.0
"""Points that a right move loses at most, and that a mistake loses at least."""

_FIRST_PLY, _LAST_PLY = 20, 220


def find_problem(reviewer: Reviewer, game: Game, seed: int) -> Problem | None:
    """Return the problem of a random position of a game; None if it is none, or the game too short."""
    last = min(len(game), _LAST_PLY)
    if game.drop or last <= _FIRST_PLY:
        return None
    ply = int(np.random.default_rng([seed, len(game), *game.moves[:8].tolist()]).integers(_FIRST_PLY, last))
    (compared,) = compare_moves(reviewer, game, [ply])
    losses = {move: compared.loss(move) or 0.0 for move in compared.after}
    played, answers = int(game.moves[ply] & POINT_MASK), [move for move, loss in losses.items() if loss <= _EQUAL]
    if game.width * game.height in (played, *answers) or losses[played] < _MISTAKE:
        return None
    return Problem(replace(game, moves=game.moves[:ply]), int(compared.before.side), answers, played, losses[played])


def search_problems(
    reviewer: Reviewer, searcher: Searcher, games: npt.NDArray[np.bool_] | None, seed: int = 0, first: int = 0
) -> Iterator[tuple[int, Problem | None]]:
    """Return an iterator over row and problem of one game of a catalogue after another, in a random order.

    `games`, [rows] bool, are those to search, None for all; `first` is the place of the order to start at. Raises
    RecipeError if the net has no points.
    """
    net = reviewer.net
    if not net.has_points:
        raise RecipeError(
            f"the points of net {net.name} do not hold: problems require --net KATAGO.bin.gz, a network file"
            " of KataGo, as in the wheel of katrain or at https://katagotraining.org/networks/"
        )
    rows = np.arange(len(searcher.catalogue)) if games is None else np.flatnonzero(games)
    order = np.random.default_rng(seed).permutation(rows)[first:].tolist()
    drawn = ((row, next(iter(rows_to_games(searcher.record(row))))) for row in order)
    return ((row, find_problem(reviewer, game, seed)) for row, game in drawn)


def write_problems(problems: Sequence[Problem]) -> bytes:
    """Return problems as a collection of SGF records: the position, then the answers (TE) and the mistake (BM)."""
    records = []
    for game, to_play, answers, mistake, loss in problems:
        size = game.width, game.height
        stones = game.board().stones.ravel()
        players = " - ".join(f"{name or '?'} {rank or ''}".strip() for name, rank in zip(game.players, game.ranks))
        head = [f"SZ[{size[0]}]" if size[0] == size[1] else f"SZ[{size[0]}:{size[1]}]"]
        for name, owner in (("AB", BLACK), ("AW", WHITE)):
            own = np.flatnonzero(stones == owner)
            head.append(name + "".join(f"[{to_sgf(point, *size)}]" for point in own.tolist()) if len(own) else "")
        colour, side = ("B", "Black") if to_play == BLACK else ("W", "White")
        comment = f"{side} to play. {players}, {game.date}, move {len(game) + 1}"
        right = "\n".join(f"(;{colour}[{to_sgf(answer, *size)}]TE[1]C[Right.])" for answer in answers)
        records.append(
            f"(;GM[1]FF[4]CA[UTF-8]AP[kifu]{''.join(head)}PL[{colour}]C[{escape(comment)}]\n"
            f"{right}\n(;{colour}[{to_sgf(mistake, *size)}]BM[1]C[Played: {loss:.1f} points worse.]))\n"
        )
    return "".join(records).encode()

"""Review of games by a net: evaluations of positions, mistakes in points, and problems.

A `Reviewer` evaluates positions once and keeps the results, for one visit each: no search is involved.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kifu.arrays import Bools, Floats, Indices
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.parquet import TableWriter, keep_table, open_parquet, reading
from kifu.corpus.schema import POINTS, to_numpy
from kifu.datasets.filter import PositionFilter
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.sources import PROGRAM_COLUMNS, CatalogueSource, ExampleSpec
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.learn.evaluation import Evaluation, join
from kifu.learn.inference import Net, common_board, replay_planes
from kifu.learn.net import net_hash, open_net
from kifu.learn.positions import NetPositions, Words, side_to_move
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT
from kifu.progress import ProgressFactory, silent
from kifu.records.game import Game
from kifu.records.ranks import Rank

_MAX_KEPT = 4096
"""Number of evaluations that are kept, of some 3 kB each."""

MAX_COMPARED, LIKELY = 6, 0.05
"""Maximum number of likely moves that are compared, and the probability from which on a move is likely."""

Ranks = tuple[float | None, float | None]
"""Ratings (`kifu.Rank.rating`) of Black and White; None for the recorded ones."""


def likely_moves(found: Evaluation, count: int) -> list[int]:
    """Return the most probable move and at most `count` - 1 others of at least `LIKELY`, in descending order."""
    moves, chances = found.top(count)
    first = int(moves[:1].max(initial=-1) >= 0)
    likely: list[int] = moves[: max(first, int((chances >= LIKELY).sum()))].tolist()
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


_PROBLEMS = pa.schema([
    ("game", pa.uint64()), ("ply", pa.int32()), ("ranks", pa.string()), ("strong", pa.float32()),
    ("weak", pa.float32()), ("answers", POINTS), ("line", POINTS), ("mistake", pa.uint16()), ("loss", pa.float32()),
])  # fmt: skip
"""Columns of problems: the `id` of the game; two ranks such as "7d/10k"; the chance of a right move at each; the right
moves, the best one first; this one and the likely moves of the stronger rank after it; the likeliest move of the weaker
rank, and the points that it loses.
"""

_RIGHT, _MISTAKE, _STRONG, _WEAK = 1.0, 2.0, 0.6, 0.25
"""Points that a right move loses at most and a mistake at least; the chance of a right move at the stronger rank at
least, and at the weaker one at most.
"""

_FIRST_PLY, _LAST_PLY, _PER_GAME, _FOLLOWING, _PART = 20, 220, 8, 4, 256
"""Plies of problems; positions that are drawn from each game; moves after the answer; positions between two writes."""


def problems_path(catalogue: Path) -> Path:
    """Return the path of the problems of a catalogue, a Parquet file beside it."""
    return catalogue.with_name(catalogue.name + ".problems")


def read_problems(catalogue: Path) -> list[dict[str, Any]]:
    """Return the problems of a catalogue as `_PROBLEMS`, the easiest of each two ranks first; none without a file."""
    path = problems_path(catalogue)
    if not path.exists():
        return []
    with reading(path), open_parquet(path) as file:
        if file.schema_arrow.names != _PROBLEMS.names:
            raise FormatError(f"{path} has no problems as this version of kifu keeps them; remove it")
        return list(file.read().to_pylist())


def find_problems(
    catalogue: Path, values: str, ranks: str, pairs: Sequence[str], *, count: int = 100, where: str | None = None,
    overwrite: bool = False, progress: ProgressFactory = silent,
) -> tuple[Counter[str], int]:  # fmt: skip
    """Search games of people for positions in which strong players find the right moves and weak ones do not.

    The points of one net decide which moves are right, whatever the ranks. The problems that are found are written to
    `problems_path` from time to time; the same call, also with a larger `count`, continues an interrupted search.

    Args:
        values: The net whose points decide, as for `open_net`.
        ranks: A net that takes ranks, for the chance of each move; it may be the same one.
        pairs: Two ranks each, such as "7d/10k", the stronger one first.
        count: Number of problems for each pair with which the search ends.
        where: A condition in SQL that selects games; None for all.

    Returns:
        The number of problems by pair, and of positions searched.

    Raises:
        RecipeError: The net has no points or takes no ranks, or a pair or condition is invalid.
        SourceError: There are no such games.
    """
    ratings, nets = {pair: _ratings(pair) for pair in pairs}, (open_net(values), open_net(ranks))
    if not nets[0].has_points:
        raise RecipeError(
            f"the points of net {nets[0].name} do not hold: problems require --net KATAGO.bin.gz, a network file"
            " of KataGo, as in the wheel of katrain or at https://katagotraining.org/networks/"
        )
    nets[1].check_ranks(0)
    path, digest = problems_path(catalogue), open_catalogue(catalogue).digest()
    made_from = {"catalogue": digest, "nets": [net_hash(values), net_hash(ranks)], "ranks": [*pairs], "where": where}
    about = keep_table(path, overwrite, **made_from) or {"positions": 0}
    found, searched = read_problems(catalogue) if about["positions"] else [], about["positions"]
    positions = _people(catalogue, nets, where)
    order, counts = np.random.default_rng(0).permutation(len(positions)), Counter(dict.fromkeys(pairs, 0))
    counts.update(each["ranks"] for each in found)
    with progress("searching problems", count, "problems") as bar:
        while (least := min(counts.values())) < count and searched < len(order):
            part = positions.take(np.sort(order[searched : searched + _PART]))
            new = _find_problems(*nets, part, ratings)
            found, searched = found + new, searched + len(part)
            counts.update(each["ranks"] for each in new)
            found.sort(key=lambda each: (each["ranks"], -each["weak"], each["game"], each["ply"]))
            with TableWriter(path, _PROBLEMS.with_metadata({"kifu.version": version("kifu")})) as writer:
                writer.write(pa.RecordBatch.from_pylist(found, _PROBLEMS))
                writer.commit({"kifu.about": made_from | {"positions": searched}})
            bar.advance(min(counts.values()) - least)
            bar.set_note(f"{searched:,} of {len(order):,} positions")
    return counts, searched


def _ratings(pair: str) -> tuple[float, float]:
    strong, weak = map(Rank.parse_rating, (pair + "/").split("/")[:2])
    if strong <= weak:
        raise RecipeError(f"ranks must be two such as 7d/10k, the stronger one first, got {pair!r}")
    return strong, weak


def _people(catalogue: Path, nets: tuple[Net, Net], where: str | None) -> NetPositions:
    """Return some positions of each game of people."""
    rules = PositionFilter(min_ply=_FIRST_PLY, max_ply=_LAST_PLY, per_game=_PER_GAME, where=where)
    board, columns = common_board(nets, None), tuple(dict.fromkeys((*COLUMNS, *CONDITION_COLUMNS, *PROGRAM_COLUMNS)))
    rows = read_games([catalogue], board, False, None, columns, _are_of_people, rules)
    if not len(rows):
        raise SourceError(f"the games on a {board[0]} x {board[1]} board in {catalogue} are games of programs")
    source = CatalogueSource(rows, ExampleSpec(replay_planes(nets), board, labels=("move",), filter=rules))
    return NetPositions.from_source(source, rows)


def _are_of_people(rows: pa.RecordBatch) -> Bools:
    people: Bools = ~np.any([to_numpy(rows[name]) for name in PROGRAM_COLUMNS], 0)
    return people


def _policy(net: Net, positions: NetPositions, rating: float | None = None) -> Floats:
    """Return the probabilities of points, [B, points], for both players of a rating if it is given."""
    return join(list(net.stream(positions.with_ranks(rating, rating)))).policy[:, : positions.points]


def _may_differ(strong: Floats, weak: Floats) -> Bools:
    """Return where there may be right moves, judging by the policies of two ranks, [B]."""
    others = np.where(np.maximum(strong, weak) >= LIKELY, strong, 0)
    np.put_along_axis(others, weak.argmax(1)[:, None], 0, 1)
    surplus = np.maximum(others - weak, 0).sum(1)
    may_differ: Bools = (others.sum(1) >= _STRONG) & (surplus >= _STRONG - _WEAK)
    return may_differ


def _find_problems(
    values: Net, ranks: Net, positions: NetPositions, ratings: dict[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    """Return the problems among positions. Points are computed only where the policies differ enough."""
    policies = {rating: _policy(ranks, positions, rating) for pair in ratings.values() for rating in pair}
    which = np.flatnonzero(np.any([_may_differ(policies[a], policies[b]) for a, b in ratings.values()], 0))
    if not len(which):
        return []
    some, policies = positions.take(which), {rating: policy[which] for rating, policy in policies.items()}
    loss = _losses(values, some, [*policies.values(), _policy(values, some)])
    right, best, found = loss <= _RIGHT, loss.argsort(1, kind="stable"), []
    assert some.rows is not None
    game = to_numpy(some.rows["id"])[some.game]
    for text, pair in ratings.items():
        strong, weak = ((policies[rating] * right).sum(1) for rating in pair)
        mistake = policies[pair[1]].argmax(1)
        lost = loss[np.arange(len(loss)), mistake]
        kept = np.flatnonzero((strong >= _STRONG) & (weak <= _WEAK) & (lost >= _MISTAKE))
        for k, line in zip(kept, _follow(ranks, some.take(kept), best[kept, :1], pair[0])):
            row = game[k], some.ply[k], text, strong[k], weak[k], best[k, : right[k].sum()], line, mistake[k], lost[k]
            found.append(dict(zip(_PROBLEMS.names, row)))
    return found


def _losses(values: Net, positions: NetPositions, policies: Sequence[Floats]) -> Floats:
    """Return the points that moves lose against the best, [B, points]; inf for those that no policy holds likely."""
    likely = [policy >= np.minimum(policy.max(1, keepdims=True), LIKELY) for policy in policies]
    position, move = np.nonzero(np.any(likely, 0))
    after = join(list(values.stream(positions.take(position).after(move[:, None]))))
    assert after.score is not None
    lead = np.full_like(policies[0], -np.inf)
    lead[position, move] = -after.score[:, 0]  # of the opponent
    loss: Floats = lead.max(1, keepdims=True) - lead
    return loss


def _follow(net: Net, positions: NetPositions, lines: Indices, rating: float) -> list[list[int]]:
    """Return lines [B, N] with up to `_FOLLOWING` more moves, the likeliest ones of a rating; a pass ends a line."""
    for _ in range(_FOLLOWING if len(lines) else 0):
        move = net.evaluate(positions.after(lines).with_ranks(rating, rating)).top(1)[0].astype(np.int64)
        lines = np.concatenate([lines, np.where(move < 0, positions.points, move)], 1)
    return [list(takewhile(positions.points.__gt__, line)) for line in lines.tolist()]

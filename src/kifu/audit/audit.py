"""Whether games or positions stand in two sets. docs/audit.md tells how to read the answer.

Three things say that a game of one set is in another: its late positions are there (see `kifu.audit.overlap`); both
are of one cluster of `kifu.corpus.duplicates`, if both sets are catalogues; both were drawn from the same entry of the
same archive, if both have manifests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from kifu.audit.overlap import BANDS, LATE, ROWS, Numbers, Overlap, compare, pair_key, split_key
from kifu.audit.sets import AuditSet, CatalogueSet, SetPlace, open_set
from kifu.corpus.duplicates import find_clusters
from kifu.errors import RecipeError
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.progress import ProgressFactory, silent

_LISTED = 10


@dataclass(frozen=True, slots=True)
class AuditedSet:
    """One of the sets. games: None if it does not tell."""

    path: str
    kind: str
    games: int | None
    positions: int


@dataclass(frozen=True, slots=True)
class SharedGame:
    """A game of one set and what it is in the other; None where that set does not tell its games.

    positions: how many late positions of the one are in the other, or the reverse if that is more. cluster: they are
    the same game, or one is the beginning of the other, or they belong together by way of such games. record: they are
    the same entry of the same archive.
    """

    first: SetPlace | None
    second: SetPlace | None
    positions: int
    cluster: bool
    record: bool

    def __str__(self) -> str:
        why = [
            *(["the same record"] if self.record else []),
            *(["the same game, or its beginning"] if self.cluster else []),
            *([f"{self.positions:,} late positions"] if self.positions else []),
        ]
        return f"{self.first or 'unknown'} = {self.second or 'unknown'}: {', '.join(why)}"


@dataclass(frozen=True, slots=True)
class Pair:
    """What two of the sets have in common.

    distinct, first_rows, second_rows: by BANDS of stones: how many different positions are in both, and how many
    positions of the first and of the second set are in the other one.
    first_games, second_games: how many games of the one set are in the other. games: which, in the order of the first.
    """

    first: str
    second: str
    distinct: tuple[int, ...]
    first_rows: tuple[int, ...]
    second_rows: tuple[int, ...]
    first_games: int
    second_games: int
    games: tuple[SharedGame, ...]

    @property
    def leaks(self) -> bool:
        """Whether a game, or a position with so many stones that it tells of one, stands in both."""
        return bool(self.games) or sum(self.distinct[LATE:]) > 0


@dataclass(frozen=True, slots=True)
class Audit:
    """What `audit` found. pairs: each two of the sets, in order."""

    sets: tuple[AuditedSet, ...]
    pairs: tuple[Pair, ...]

    @property
    def leaks(self) -> bool:
        return any(pair.leaks for pair in self.pairs)

    def __str__(self) -> str:
        lines = []
        for each in self.sets:
            games = "games not told" if each.games is None else f"{each.games:,} games"
            lines.append(f"{each.path}: {each.kind}, {games}, {each.positions:,} positions")
        for pair in self.pairs:
            lines += ["", *_pair_lines(pair)]
        if len(self.pairs) > 1:
            leaks = sum(pair.leaks for pair in self.pairs)
            lines += ["", f"{leaks} of {len(self.pairs)} pairs of sets have games in common" if leaks else _CLEAN]
        return "\n".join(lines)

    def to_json(self) -> str:
        """All of it; docs/audit.md tells the keys."""
        stones = [[lowest, after - 1] for lowest, after in pairwise(BANDS)] + [[BANDS[-1], None]]
        table = {"leaks": self.leaks, "stones": stones, **asdict(self)}
        return json.dumps(table, indent=1) + "\n"


_CLEAN = "no game in two sets"


def _pair_lines(pair: Pair) -> list[str]:
    heads = [f"{lowest}-{after - 1}" for lowest, after in pairwise(BANDS)] + [f"{BANDS[-1]}+", "all"]
    rows = {
        "stones on the board": heads,
        "positions in both": _counts(pair.distinct),
        "rows of the first": _counts(pair.first_rows),
        "rows of the second": _counts(pair.second_rows),
    }
    lines = [f"{pair.first} and {pair.second}"]
    lines += [f"  {name:<20}" + "".join(f"{cell:>11}" for cell in cells) for name, cells in rows.items()]
    if not pair.leaks:
        return [*lines, f"  {_CLEAN}"]
    lines.append(f"  games in both: {pair.first_games:,} of the first, {pair.second_games:,} of the second")
    lines += [f"    {game}" for game in pair.games[:_LISTED]]
    if len(pair.games) > _LISTED:
        lines.append(f"    and {len(pair.games) - _LISTED:,} more pairs of games")
    if not pair.games:
        lines.append("    which, neither file tells; their late positions are in both")
    return lines


def _counts(bands: Sequence[int]) -> list[str]:
    return [f"{n:,}" for n in (*bands, sum(bands))]


def audit(
    paths: Sequence[str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
    rows: int = ROWS,
) -> Audit:
    """Compares each two of these files, catalogues and data sets in any mix.

    jobs, engine: see `kifu.execution.executor.open_crew`. rows: see `kifu.audit.overlap.compare`. Raises RecipeError for fewer
    than two files; SourceError, FormatError for one that cannot be read, or is not what it says.
    """
    if len(paths) < 2:
        raise RecipeError(f"an audit compares two files or more, not {len(paths)}")
    sets = [open_set(path) for path in paths]
    with make_executor(engine, jobs) as crew:
        with progress("comparing positions", None, "positions") as bar:
            positions, overlaps = compare(sets, crew, bar, rows)
        clusters = _cluster_pairs(sets, crew)
    return Audit(
        tuple(AuditedSet(str(each.path), each.kind, each.games, n) for each, n in zip(sets, positions)),
        tuple(
            _pair(sets[a], sets[b], overlap, clusters.get((a, b), _NONE), _record_pairs(sets[a], sets[b]))
            for (a, b), overlap in overlaps.items()
        ),
    )


_NONE = np.empty(0, np.int64)


def _pair(first: AuditSet, second: AuditSet, overlap: Overlap, clusters: Numbers, records: Numbers) -> Pair:
    """clusters, records: more pairs of games, as `pair_key` writes them."""
    keys = np.unique(np.concatenate([overlap.pairs, clusters, records]))
    keys = keys[keys != 0]  # positions of games that neither set tells
    late = np.zeros(len(keys), np.int64)
    late[np.searchsorted(keys, overlap.pairs[overlap.pairs != 0])] = overlap.shared.max(0)[overlap.pairs != 0]
    games = split_key(keys)
    places = []
    for each, numbers in zip((first, second), games):
        known = np.unique(numbers[numbers >= 0])
        places.append({-1: None} | dict(zip(known.tolist(), each.places(known))))
    told = zip(*(numbers.tolist() for numbers in games), late.tolist(), np.isin(keys, clusters), np.isin(keys, records))
    return Pair(
        first=str(first.path),
        second=str(second.path),
        distinct=tuple(overlap.distinct.tolist()),
        first_rows=tuple(overlap.rows[0].tolist()),
        second_rows=tuple(overlap.rows[1].tolist()),
        first_games=len(places[0]) - 1,
        second_games=len(places[1]) - 1,
        games=tuple(SharedGame(places[0][a], places[1][b], n, bool(c), bool(r)) for a, b, n, c, r in told),
    )


def _cluster_pairs(sets: Sequence[AuditSet], crew: Executor) -> dict[tuple[int, int], Numbers]:
    """Games of two catalogues that are of one cluster: each with the first such game of the other."""
    numbers = [number for number, each in enumerate(sets) if isinstance(each, CatalogueSet)]
    if len(numbers) < 2:
        return {}
    found = find_clusters([sets[number].path for number in numbers], crew)
    of = [np.flatnonzero(found.source == k) for k in range(len(numbers))]
    pairs = {}
    for b in range(len(numbers)):
        for a in range(b):
            ones, others = of[a], of[b]
            there = pair_key(found.row[ones], _first_partner(found.cluster, found.row, ones, others))
            back = pair_key(_first_partner(found.cluster, found.row, others, ones), found.row[others])
            keys = np.unique(np.concatenate([there, back]))
            a_game, b_game = split_key(keys)
            pairs[numbers[a], numbers[b]] = keys[(a_game >= 0) & (b_game >= 0)]
    return pairs


def _first_partner(cluster: Numbers, row: Numbers, ones: Numbers, others: Numbers) -> Numbers:
    """The row of the first of `others` in the cluster of each of `ones`, -1 if there is none."""
    first = np.full(int(cluster.max(initial=-1)) + 1, -1, np.int64)
    first[cluster[others][::-1]] = row[others][::-1]
    return first[cluster[ones]]


def _record_pairs(first: AuditSet, second: AuditSet) -> Numbers:
    """Games that two manifests tell to be of the same entry of the same archive."""
    theirs = second.records
    pairs = [_NONE]
    for archive, (entry, game) in first.records.items():
        if archive in theirs:
            other_entry, other_game = theirs[archive]
            _, at, other_at = np.intersect1d(entry, other_entry, return_indices=True)
            pairs.append(pair_key(game[at], other_game[other_at]))
    return np.concatenate(pairs)

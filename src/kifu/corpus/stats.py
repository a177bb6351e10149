"""What a corpus consists of: its games counted by rank, year, result, length, handicap, komi and more.

All but the table of what was dropped is about the games that were kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import RowShard, open_catalogue, read_shard
from kifu.corpus.fields import PARSED_COLUMNS, is_parsed
from kifu.corpus.schema import to_numpy
from kifu.execution.executor import THREADS, Job, make_executor
from kifu.records.games import FormatName

Counts: TypeAlias = dict[str, int]
"""Games by some value of theirs."""

UNKNOWN = "not told"
OTHERS = "others"

_FROM_RATING = {
    "30-21k": None, "20-11k": 12, "10-6k": 22, "5-1k": 27, "1d": 32, "2d": 33, "3d": 34, "4d": 35, "5d": 36, "6d": 37,
    "7d": 38, "8d": 39, "9d": 40, "pro": 41,
}  # fmt: skip
BANDS = (*_FROM_RATING, "none")
"""Ranks in classes, weak to strong; "none" is for players whose rank is not known."""

WINNERS = ("black", "white", "draw", "none")
ENDINGS = ("score", "resign", "time", "forfeit", "void", "unknown")
LENGTH_STEP = 50
_LONGEST = 500  # moves; all games from here on are one class
_LENGTHS = (*(f"{low}-{low + LENGTH_STEP - 1}" for low in range(0, _LONGEST, LENGTH_STEP)), f"{_LONGEST}+")

_COMMON = 12
"""Of komi, boards and archives, as many are named; the rest is summed up."""

_EXAMPLES = 5
_DISTINCT = 20_000
"""Of the distinct values of a column so many, the most frequent, are looked at."""

_EXACT = 1 << 18
"""Counts are exact as long as no column has more distinct values. Of one that has more, some of the rarest may be
counted among the others: only twice as many are held at a time."""


@dataclass(frozen=True, slots=True)
class UnparsedColumn:
    """Games with words that are not understood. texts: the most frequent of these words."""

    games: int
    texts: Counts


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of games. read == kept + the sum of dropped; each of the others but `unclear` adds up to kept."""

    catalogues: tuple[str, ...]
    read: int
    kept: int
    dropped: Counts
    """By reason, most frequent first."""
    ranks: list[list[int]]
    """[len(BANDS), len(BANDS)]: Black's band down, White's across."""
    years: Counts
    results: dict[str, Counts]
    """Winner -> ending -> games, as in WINNERS and ENDINGS."""
    lengths: dict[str, Counts]
    """Moves, in classes of LENGTH_STEP ("0-49", ..., "500+") -> ending -> games."""
    handicaps: Counts
    """As told."""
    komi: Counts
    boards: Counts
    formats: Counts
    archives: Counts
    unparsed: dict[str, UnparsedColumn]
    """By column, where there are any."""

    def to_json(self) -> str:
        """The same as one JSON object, in which `ranks` also names the bands."""
        values = asdict(self) | {"ranks": {"bands": BANDS, "games": self.ranks}}
        values["unclear"] = values.pop("unparsed")
        return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def count_games(
    catalogues: Sequence[str | os.PathLike[str]], *, jobs: int | None = None, engine: str = THREADS
) -> Stats:
    """Counts the games of all catalogues. Raises FormatError if a file is none, or damaged.

    jobs, engine: see `kifu.execution.executor.make_executor`. Memory does not grow with the games.
    """
    opened = [open_catalogue(path) for path in catalogues]
    tallies = {name: _Tally(keys) for name, keys in _KEYS.items()}
    with make_executor(engine, jobs) as executor:
        for counted in executor.run(_CountJob(), [unit for catalogue in opened for unit in catalogue.shards()]):
            for name, counts in counted.items():
                tallies[name].add(counts)
    told = {name: tally.rows() for name, tally in tallies.items()}
    return _stats(tuple(os.fspath(path) for path in catalogues), sum(catalogue.rows for catalogue in opened), told)


_WORDS = {column: made[-1] for column, (_, made) in PARSED_COLUMNS.items()}
"""Columns of words, and one that is null where they are not understood."""

_KEYS: Mapping[str, tuple[str, ...]] = {
    "dropped": ("drop",),
    "ranks": ("black_band", "white_band"),
    "years": ("year",),
    "results": ("winner", "ending"),
    "lengths": ("length", "ending"),
    "handicaps": ("handicap",),
    "komi": ("komi",),
    "boards": ("board",),
    "formats": ("format",),
    "archives": ("archive",),
    **{column: (column, "format") for column in _WORDS},
}
"""What is counted: by name, the columns whose values are counted together."""

_COLUMNS = tuple(
    dict.fromkeys(
        [
            "drop", "black_rating", "black_pro", "white_rating", "white_pro", "year", "winner", "ending", "n_legal",
            "handicap", "komi", "width", "height", "format", "archive", *_WORDS, *_WORDS.values(),
        ]
    )
)  # fmt: skip

_ROWS = 1 << 17
"""Looked at together; all of a unit, but of one that is a row group of more rows."""

_COUNT = "count"

_Counted: TypeAlias = dict[str, pa.RecordBatch]
"""By name (see _KEYS) the keys that are there, and in column _COUNT how many games have them."""


class _CountJob(Job[RowShard, pa.RecordBatch, _Counted]):
    """Counts the games of catalogues, unit by unit."""

    def read(self, shard: RowShard) -> Iterator[pa.RecordBatch]:
        yield from read_shard(shard, _COLUMNS, _ROWS)

    def process(self, item: pa.RecordBatch) -> _Counted:
        rows = pa.Table.from_batches([item])
        kept = _described(rows.filter(rows["drop"].is_null()))
        of = dict.fromkeys(_KEYS, kept) | {"dropped": rows.filter(rows["drop"].is_valid())}
        for words, made in _WORDS.items():
            # All but results are understood as a whole or not at all: then what they make is null.
            told = kept[words].is_valid()
            of[words] = kept.select(_KEYS[words]).filter(
                told if words == "result_text" else pc.and_(told, kept[made].is_null())
            )
        counted = {}
        for name, keys in _KEYS.items():
            table = _grouped(of[name], keys, ([], "count_all"))
            if len(table):
                (counted[name],) = table.combine_chunks().to_batches()
        return counted


def _described(kept: pa.Table) -> pa.Table:
    """With the columns of _KEYS that a catalogue has not, or not so."""
    length = np.clip(to_numpy(kept["n_legal"]), 0, _LONGEST) // LENGTH_STEP
    size = [kept[name].cast(pa.string()) for name in ("width", "height")]
    made = {
        "black_band": rank_bands(kept["black_rating"], kept["black_pro"]),
        "white_band": rank_bands(kept["white_rating"], kept["white_pro"]),
        "length": length,
        "board": pc.binary_join_element_wise(*size, "x"),
        "komi": pc.round(kept["komi"], 2, "half_towards_infinity"),
        "winner": kept["winner"].fill_null("none"),
    }
    for name, column in made.items():
        kept = kept.drop_columns(name) if name in kept.column_names else kept
        kept = kept.append_column(name, column if isinstance(column, pa.ChunkedArray) else [column])
    return kept


def _grouped(table: pa.Table, keys: Sequence[str], count: tuple[list[str] | str, str]) -> pa.Table:
    """How many games have each of the different keys, in a last column."""
    found = table.group_by(list(keys), use_threads=False).aggregate([count])
    return found.rename_columns([*keys, _COUNT])


class _Tally:
    """How many games have each key of some columns, summed up over units."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._parts: list[pa.Table] = []

    def add(self, counts: pa.RecordBatch) -> None:
        """Adds the counts of a unit."""
        self._parts.append(pa.Table.from_batches([counts]))
        if sum(map(len, self._parts)) > 2 * _EXACT:
            self._parts = [self._sorted().slice(0, _EXACT)]

    def _sorted(self) -> pa.Table:
        """The most frequent keys first; of equally frequent ones the lowest first, and null last."""
        found = _grouped(pa.concat_tables(self._parts), self._keys, (_COUNT, "sum"))
        return found.sort_by([(_COUNT, "descending"), *((key, "ascending") for key in self._keys)])

    def rows(self) -> list[tuple[Any, ...]]:
        """The most frequent keys in that order, each with its count."""
        columns = self._sorted().slice(0, _DISTINCT).columns if self._parts else []
        return list(zip(*(column.to_pylist() for column in columns)))


def _stats(catalogues: tuple[str, ...], read: int, told: Mapping[str, Sequence[tuple[Any, ...]]]) -> Stats:
    """told: by name, the rows of its tally."""
    ranks = [[0] * len(BANDS) for _ in BANDS]
    for black, white, count in told["ranks"]:
        ranks[black][white] = count
    kept = sum(map(sum, ranks))
    lengths = [(_LENGTHS[k], ending, count) for k, ending, count in told["lengths"]]
    return Stats(
        catalogues=catalogues,
        read=read,
        kept=kept,
        dropped=_counts(told["dropped"], read - kept),
        ranks=ranks,
        years=_counts(_by_value(told["years"]), kept),
        results=_by_ending(told["results"], WINNERS, kept),
        lengths={name: {} for name in _LENGTHS} | _by_ending(lengths, _LENGTHS, kept),
        handicaps=_counts(_by_value(told["handicaps"]), kept),
        komi=_counts(told["komi"][:_COMMON], kept),
        boards=_counts(told["boards"][:_COMMON], kept),
        formats=_counts(told["formats"], kept),
        archives=_counts(told["archives"][:_COMMON], kept),
        unparsed={column: found for column in _WORDS if (found := _unclear(column, told[column])).games},
    )


def _by_value(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (row[0] is None, row[0] or 0))


def _counts(rows: Iterable[tuple[Any, ...]], total: int) -> Counts:
    """The values of these rows, and how many of the games have others."""
    counts: Counts = {}
    for value, count in rows:
        name = UNKNOWN if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        counts[name] = counts.get(name, 0) + count
    others = total - sum(counts.values())
    return counts | ({OTHERS: others} if others else {})


def _by_ending(rows: Iterable[tuple[Any, ...]], names: Sequence[str], total: int) -> dict[str, Counts]:
    """Of rows (name, ending, games): name -> ending -> games, in the order of `names` and ENDINGS, then of letters."""
    found: dict[str, Counts] = {}
    for name, ending, count in sorted(rows, key=lambda row: (_place(row[0], names), _place(row[1], ENDINGS))):
        found.setdefault(name, {})[ending] = count
    others = total - sum(sum(counts.values()) for counts in found.values())
    return found | ({OTHERS: {OTHERS: others}} if others else {})


def _place(name: str, known: Sequence[str]) -> tuple[int, str]:
    return known.index(name) if name in known else len(known), name


def _unclear(column: str, rows: Iterable[tuple[Any, ...]]) -> UnparsedColumn:
    texts: Counts = {}
    for text, form, count in rows:
        if form in get_args(FormatName) and not is_parsed(form, column, text):
            texts[text] = texts.get(text, 0) + count
    return UnparsedColumn(sum(texts.values()), dict(list(texts.items())[:_EXAMPLES]))


def rank_bands(rating: pa.ChunkedArray | pa.Array, pro: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """[K] int64: places in BANDS of some players, by a catalogue's columns of the rating and of who is professional.

    10 dan is no professional, but has the rating of one.
    """
    strength, master = (to_numpy(pc.fill_null(each.cast(pa.float32()), float("nan"))) for each in (rating, pro))
    lowest = [low for low in _FROM_RATING.values() if low]
    band = np.searchsorted(lowest, strength, side="right")
    band = np.where(master == 1, len(BANDS) - 2, np.where(master == 0, np.minimum(band, len(BANDS) - 3), band))
    return np.where(np.isnan(strength), len(BANDS) - 1, band)

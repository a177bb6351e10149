"""Counts of the games of a corpus by rank, year, result, length, handicap, komi and more, and charts of them.

All counts but that of dropped games are of kept games.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import RowShard, open_catalogue, read_shard
from kifu.corpus.rows import PARSED_COLUMNS, is_parsed
from kifu.corpus.schema import count_repairs, map_distinct, to_numpy
from kifu.errors import printable
from kifu.execution.executor import THREADS, make_executor
from kifu.progress import ProgressFactory, silent
from kifu.records.detect import RECORD_FORMATS
from kifu.records.paths import Paths, as_list
from kifu.text import counted, json_text, short_count
from kifu.viz.boards import (
    HEAT,
    INK,
    LINE,
    MINUS,
    PAPER,
    PAPER_LINE,
    PLUS,
    RING,
    WOOD,
    matplotlib_style,
    notebook_svg,
    style_chart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Counts: TypeAlias = dict[str, int]
"""Number of games by some value."""

UNKNOWN = "unknown"
"""The label of missing values, a key of the JSON output, which must not change."""
OTHERS = "others"
PEOPLE = "people"
"""The label of games without a program."""

_MIN_RATING = {
    "30-21k": None, "20-11k": 12, "10-6k": 22, "5-1k": 27, "1d": 32, "2d": 33, "3d": 34, "4d": 35, "5d": 36, "6d": 37,
    "7d": 38, "8d": 39, "9d": 40, "pro": 41,
}  # fmt: skip
BANDS = (*_MIN_RATING, UNKNOWN)
"""Rank bands from weak to strong, and that of players of unknown rank."""

WINNERS = ("black", "white", "draw", UNKNOWN)
ENDINGS = ("score", "resign", "time", "forfeit", "void", "unknown")
LENGTH_STEP = 50
_LONGEST = 500  # moves; all longer games form one class
_LENGTHS = (*(f"{low}-{low + LENGTH_STEP - 1}" for low in range(0, _LONGEST, LENGTH_STEP)), f"{_LONGEST}+")

_COMMON = 12
"""Number of komi values, boards and archives that are listed; the others are summed up."""

_EXAMPLES = 5
_MAX_DISTINCT = 20_000
"""Number of distinct values of a column, the most frequent ones, that are evaluated."""

_EXACT = 1 << 18
"""Number of distinct values of a column up to which counts are exact.

Beyond it, some of the rarest values may be counted as others, since at most twice as many are kept in memory.
"""


@dataclass(frozen=True, slots=True)
class UnparsedColumn:
    """Games with a text that could not be parsed."""

    games: int
    texts: Counts


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of games; `read` == `kept` + the sum of `dropped`. All others down to `archives` add up to `kept`.

    Attributes:
        ranks: [len(BANDS), len(BANDS)], Black's band by White's band.
        results: By winner, then ending, in the order of WINNERS and ENDINGS.
        lengths: By number of moves, in classes of LENGTH_STEP ("0-49", ..., "500+"), then ending.
        programs: By why a player is a program: PEOPLE, "list", "pattern", "behaviour", or several joined by "+".
        program_names: By "list", "pattern" and "behaviour", the names of programs with most games.
    """

    catalogues: tuple[str, ...]
    read: int
    kept: int
    dropped: Counts
    ranks: list[list[int]]
    years: Counts
    results: dict[str, Counts]
    lengths: dict[str, Counts]
    handicaps: Counts
    komi: Counts
    boards: Counts
    formats: Counts
    programs: Counts
    archives: Counts
    program_names: dict[str, Counts]
    repairs: Counts
    unparsed: dict[str, UnparsedColumn]

    def __repr__(self) -> str:
        return printable(f"<Stats of {', '.join(self.catalogues)}: {self.read:,} games, {self.kept:,} kept>")

    def _repr_svg_(self) -> str | None:
        return notebook_svg(lambda: draw_charts(self))

    def to_json(self) -> str:
        """Return the counts as one JSON object, in which `ranks` also lists the bands."""
        values = asdict(self) | {"ranks": {"bands": BANDS, "games": self.ranks}}
        values["unclear"] = values.pop("unparsed")
        return json_text(values)


def stats(
    catalogues: Paths, *, jobs: int | None = None, engine: str = THREADS, progress: ProgressFactory = silent
) -> Stats:
    """Count the games of several catalogues, in memory that does not grow with the games.

    `jobs` and `engine` are those of `kifu.ingest`; `progress` reports batches of games.

    Raises FormatError if a file is not a catalogue, or damaged.
    """
    paths = as_list(catalogues)
    opened = [open_catalogue(path) for path in paths]
    parts: dict[str, list[pa.Table]] = {name: [] for name in _KEYS}
    with make_executor(engine, jobs) as executor, progress("counting", None, "batches") as bar:
        for shard_counts in executor.run(_count, [shard for each in opened for shard in each.shards()], _read):
            for name, counts in shard_counts.items():
                parts[name].append(pa.Table.from_batches([counts]))
                if sum(map(len, parts[name])) > 2 * _EXACT:
                    parts[name] = [_most_frequent(parts[name], _KEYS[name], _EXACT)]
            bar.advance()
    columns = {name: _most_frequent(parts[name], keys, _MAX_DISTINCT).columns for name, keys in _KEYS.items()}
    rows = {name: list(zip(*(column.to_pylist() for column in parsed))) for name, parsed in columns.items()}
    return _stats(tuple(os.fspath(path) for path in paths), sum(catalogue.rows for catalogue in opened), rows)


_TEXTS = {column: parsed[-1] for column, (_, parsed) in PARSED_COLUMNS.items()}
"""By text column, a parsed column that is null where the text could not be parsed."""

_KEYS: Mapping[str, tuple[str, ...]] = {
    "dropped": ("drop",), "ranks": ("black_band", "white_band"), "years": ("year",), "results": ("winner", "ending"),
    "lengths": ("length", "ending"), "handicaps": ("handicap",), "komi": ("komi",), "boards": ("board",),
    "formats": ("format",), "programs": ("programs",), "archives": ("archive",), "program_names": ("kind", "name"),
    "repairs": ("repairs",), **{column: (column, "format") for column in _TEXTS},
}  # fmt: skip
"""By name of a count, the columns whose values are counted together."""

_COLUMNS = tuple(
    dict.fromkeys(
        [
            "drop", "black_rating", "black_pro", "white_rating", "white_pro", "year", "winner", "ending", "n_legal",
            "handicap", "komi", "width", "height", "format", "program", "archive", "black", "white", "repairs", *_TEXTS,
            *_TEXTS.values(),
        ]
    )
)  # fmt: skip

_BATCH_ROWS = 1 << 17
"""Rows counted together: a whole shard, unless a row group is larger."""

_COUNT = "count"

_Counted: TypeAlias = dict[str, pa.RecordBatch]
"""By name (see _KEYS), the keys that occur, and in column _COUNT their numbers of games."""


def _read(shard: RowShard) -> Iterator[pa.RecordBatch]:
    return read_shard(shard, _COLUMNS, _BATCH_ROWS)


def _count(item: pa.RecordBatch) -> _Counted:
    rows = pa.Table.from_batches([item])
    kept = _with_classes(rows.filter(rows["drop"].is_null()))
    tables = dict.fromkeys(_KEYS, kept) | {"dropped": rows.filter(rows["drop"].is_valid())}
    tables["program_names"] = _program_names(kept)
    for text, parsed in _TEXTS.items():
        # Except for results, a text is parsed completely or the parsed column is null.
        recorded = kept[text].is_valid()
        tables[text] = kept.select(_KEYS[text]).filter(
            recorded if text == "result_text" else pc.and_(recorded, kept[parsed].is_null())
        )
    by_name = {}
    for name, keys in _KEYS.items():
        table = _grouped(tables[name], keys, ([], "count_all"))
        if len(table):
            (by_name[name],) = table.combine_chunks().to_batches()
    return by_name


def _with_classes(kept: pa.Table) -> pa.Table:
    length = np.clip(to_numpy(kept["n_legal"]), 0, _LONGEST) // LENGTH_STEP
    size = [kept[name].cast(pa.string()) for name in ("width", "height")]
    columns = {
        "black_band": rank_bands(kept["black_rating"], kept["black_pro"]),
        "white_band": rank_bands(kept["white_rating"], kept["white_pro"]),
        "length": length,
        "board": pc.binary_join_element_wise(*size, "x"),
        "komi": pc.round(kept["komi"], 2, "half_towards_infinity"),
        "winner": kept["winner"].fill_null(UNKNOWN),
        "programs": map_distinct(kept["program"].combine_chunks(), program_kinds, np.str_),
    }
    for name, column in columns.items():
        kept = kept.drop_columns(name) if name in kept.column_names else kept
        kept = kept.append_column(name, column if isinstance(column, pa.ChunkedArray) else [column])
    return kept


def _program_names(kept: pa.Table) -> pa.Table:
    """Return kind and name of each program of each game; once if both sides have the same."""
    played = kept.filter(kept["program"].is_valid()).combine_chunks()
    sides = []
    for side, other in (("black", None), ("white", "black")):
        kind = map_distinct(played["program"].combine_chunks(), partial(_kind_of, side), np.str_)
        found = kind != ""
        if other:
            found &= ~to_numpy(pc.equal(played[side], played[other]).fill_null(False))
        sides.append(pa.table({"kind": kind, "name": played[side]}).filter(pa.array(found)))
    return pa.concat_tables(sides)


def _kind_of(side: str, program: str | None) -> str:
    kinds: dict[str, str] = dict(re.findall(r"(black|white): (\w+)", program or ""))
    return kinds.get(side, "")


def _grouped(table: pa.Table, keys: Sequence[str], count: tuple[list[str] | str, str]) -> pa.Table:
    """Return the distinct keys, and their numbers of games in a last column."""
    return table.group_by(list(keys), use_threads=False).aggregate([count]).rename_columns([*keys, _COUNT])


def _most_frequent(parts: Sequence[pa.Table], keys: Sequence[str], limit: int) -> pa.Table:
    """Sum the counts of keys over shards; return the first keys by descending count, then ascending, null last."""
    if not parts:
        return pa.table({})
    groups = _grouped(pa.concat_tables(parts), keys, (_COUNT, "sum"))
    return groups.sort_by([(_COUNT, "descending"), *((key, "ascending") for key in keys)]).slice(0, limit)


def _stats(catalogues: tuple[str, ...], read: int, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> Stats:
    ranks = [[0] * len(BANDS) for _ in BANDS]
    for black, white, count in rows["ranks"]:
        ranks[black][white] = count
    kept = sum(map(sum, ranks))
    lengths = [(_LENGTHS[k], ending, count) for k, ending, count in rows["lengths"]]
    return Stats(
        catalogues=catalogues,
        read=read,
        kept=kept,
        dropped=_counts(rows["dropped"], read - kept),
        ranks=ranks,
        years=_counts(_by_value(rows["years"]), kept),
        results=_by_ending(rows["results"], WINNERS),
        lengths={name: {} for name in _LENGTHS} | _by_ending(lengths, _LENGTHS),
        handicaps=_counts(_by_value(rows["handicaps"]), kept),
        komi=_counts(rows["komi"][:_COMMON], kept),
        boards=_counts(rows["boards"][:_COMMON], kept),
        formats=_counts(rows["formats"], kept),
        programs=_counts(rows["programs"], kept),
        archives=_counts(rows["archives"][:_COMMON], kept),
        program_names=_names_by_kind(rows["program_names"]),
        repairs=dict(count_repairs(rows["repairs"]).most_common()),
        unparsed={column: found for column in _TEXTS if (found := _unparsed(column, rows[column])).games},
    )


def _by_value(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (row[0] is None, row[0] or 0))


def _counts(rows: Iterable[tuple[Any, ...]], total: int) -> Counts:
    """Return the counts by value, and the rest of the total as OTHERS."""
    counts: Counts = {}
    for value, count in rows:
        name = UNKNOWN if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        counts[name] = counts.get(name, 0) + count
    others = total - sum(counts.values())
    return counts | ({OTHERS: others} if others else {})


def _by_ending(rows: Iterable[tuple[Any, ...]], names: Sequence[str]) -> dict[str, Counts]:
    """Return rows (name, ending, games) as nested counts, ordered by `names` and ENDINGS."""
    nested: dict[str, Counts] = {}
    for name, ending, count in sorted(rows, key=lambda row: (names.index(row[0]), ENDINGS.index(row[1]))):
        nested.setdefault(name, {})[ending] = count
    return nested


def _names_by_kind(rows: Iterable[tuple[Any, ...]]) -> dict[str, Counts]:
    names: dict[str, Counts] = {}
    for kind, name, count in rows:
        counts = names.setdefault(kind, {})
        if len(counts) < _COMMON:
            counts[UNKNOWN if name is None else name] = count
    return names


def _unparsed(column: str, rows: Iterable[tuple[Any, ...]]) -> UnparsedColumn:
    texts: Counts = {}
    for text, record_format, count in rows:
        if record_format in RECORD_FORMATS and not is_parsed(record_format, column, text):
            texts[text] = texts.get(text, 0) + count
    return UnparsedColumn(sum(texts.values()), dict(list(texts.items())[:_EXAMPLES]))


def program_kinds(program: str | None) -> str:
    """Return the key in `Stats.programs` of a value of column `program`."""
    if program is None:
        return PEOPLE
    return "+".join(sorted(set(re.findall(r"(?:black|white): (\w+)", program)))) or UNKNOWN


def rank_bands(rating: pa.ChunkedArray | pa.Array, pro: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """Return the indices into BANDS of ratings, [K] int64. pro: marks professionals, whose rating 10 dan shares."""
    strength, professional = (to_numpy(pc.fill_null(each.cast(pa.float32()), float("nan"))) for each in (rating, pro))
    lowest = [low for low in _MIN_RATING.values() if low]
    band = np.searchsorted(lowest, strength, side="right")
    amateur = np.where(professional == 0, np.minimum(band, len(BANDS) - 3), band)
    band = np.where(professional == 1, len(BANDS) - 2, amateur)
    return np.where(np.isnan(strength), len(BANDS) - 1, band)


# Inches: the width of the page, the height of its parts from the top, and of a row of small and of large panels.
_WIDTH, _HEAD, _GAP, _FOOT, _LOW, _HIGH = 12.0, 1.35, 0.95, 0.4, 2.1, 5.2
_GREY = "#aaa196"
_FEW = "#f5e7c9"  # a single game
_ENDING = dict(zip(ENDINGS, (PLUS, MINUS, HEAT, RING, LINE, _GREY)))
_MAX_BARS = 12  # bars of one chart
_MIN_ROWS = 6  # rows of space, so that few bars are not thicker
_MIN_YEARS = 8  # years of space, so that few bars are not wider
_MAX_LABEL = 16  # characters of a bar's label


_Draw: TypeAlias = "Callable[[Axes, Stats], None]"


def draw_charts(stats: Stats) -> Figure:
    """Draw the page, without empty panels and names of files. Equal counts give equal bytes, see `boards.save`."""
    ranks = _ranks if _ranked_bands(stats) else None
    upper: list[_Draw] = [panel for panel, shown in ((_years, _known_years(stats)), (_lengths, stats.kept)) if shown]
    lower: list[_Draw] = [_results] if stats.kept else []
    for title, counts, colour in (
        ("handicap", stats.handicaps, PLUS),
        ("komi", stats.komi, PLUS),
        ("dropped", stats.dropped, RING),
    ):
        lower += [partial(_bars, title=title, counts=counts, colour=colour)] if counts else []
    upper_height = 0.0 if not upper else _LOW if ranks is None else _HIGH
    height = _HEAD + upper_height + (_GAP if upper and lower else 0) + (_LOW if lower else 0) + _FOOT
    with matplotlib_style() as new_figure:
        figure = new_figure(figsize=(_WIDTH, height), facecolor="white")
        figure.text(0.02, 1 - 0.45 / height, counted(stats.kept, "game"), size=20, color=INK, weight="bold")
        figure.text(0.02, 1 - 0.75 / height, _subtitle(stats), size=11, color=LINE)
        sides = {"left": 0.075, "right": 0.975}
        if upper:
            frame = {"top": 1 - _HEAD / height, "bottom": 1 - (_HEAD + upper_height) / height, **sides}
            if ranks is None:
                grid = figure.add_gridspec(1, len(upper), wspace=0.115, **frame)
                slots = [grid[0, k] for k in range(len(upper))]
            else:
                grid = figure.add_gridspec(len(upper), 2, hspace=0.42, wspace=0.115, **frame)
                slots = [grid[k, 1] for k in range(len(upper))]
                ranks(figure.add_subplot(grid[:, 0]), stats)
            for panel, slot in zip(upper, slots):
                panel(figure.add_subplot(slot), stats)
        if lower:
            grid = figure.add_gridspec(
                1, max(len(lower), 3), top=(_FOOT + _LOW) / height, bottom=_FOOT / height, wspace=0.5, **sides
            )
            for k, panel in enumerate(lower):
                panel(figure.add_subplot(grid[k]), stats)
    return figure


def _known_years(stats: Stats) -> Counts:
    return {year: count for year, count in stats.years.items() if year not in (UNKNOWN, OTHERS)}


def _subtitle(stats: Stats) -> str:
    years = list(_known_years(stats))
    parts = [f"{stats.read:,} read, {stats.read - stats.kept:,} dropped"]
    parts += [years[0] if len(years) == 1 else f"{years[0]} to {years[-1]}"] if years else []
    parts += [", ".join(list(stats.boards)[:3])] if stats.kept else []
    return printable("   ·   ".join(parts))


def _add_grid(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=PAPER_LINE, linewidth=0.7)
    axes.set_axisbelow(True)


def _label_bars(axes: Axes, names: Sequence[str], counts: Sequence[int]) -> None:
    padding = max(counts) * 0.02
    for k, count in enumerate(counts):
        axes.text(count + padding, k, f"{count:,}", va="center", fontsize=7.5, color=INK)
    axes.set_yticks(range(len(names)), [printable(name.replace("_", " "))[:_MAX_LABEL] for name in names])
    axes.set_ylim(max(len(names), _MIN_ROWS) - 0.5, -0.5)
    axes.set_xlim(0, max(counts) * 1.2)
    axes.set_xticks([])


def _ranked_bands(stats: Stats) -> list[int]:
    """Return the bands to show, none if no rank is known: those with games, and neighbours up to _MIN_ROWS."""
    games = np.array(stats.ranks)
    used = np.flatnonzero(games.any(0) | games.any(1)).tolist()
    ranked = [band for band in used if BANDS[band] != UNKNOWN]
    if not ranked:
        return []
    low, high = ranked[0], ranked[-1]
    while high - low < _MIN_ROWS - 1:
        low, high = max(low - 1, 0), min(high + 1, len(BANDS) - 2)
    return sorted({*used, *(range(low, high + 1) if len(ranked) < _MIN_ROWS else [])})


def _ranks(axes: Axes, stats: Stats) -> None:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    style_chart(axes, "ranks")
    used = _ranked_bands(stats)
    games = np.array(stats.ranks)[np.ix_(used, used)]
    colours = LinearSegmentedColormap.from_list("games", (_FEW, WOOD, MINUS, RING))
    norm = LogNorm(1, max(games.max(), 2))
    axes.imshow(np.ma.masked_equal(games, 0), cmap=colours, norm=norm, aspect="equal")
    names = [BANDS[k] for k in used]
    axes.set_xticks(range(len(used)), names, rotation=45 if len(used) > 8 else 0)
    axes.set_yticks(range(len(used)), names)
    for gap in range(1, len(used)):
        axes.axhline(gap - 0.5, color="white", linewidth=1)
        axes.axvline(gap - 0.5, color="white", linewidth=1)
    axes.set_facecolor(PAPER)
    axes.set_anchor("NW")
    axes.set_xlabel("White", color=INK, fontsize=9)
    axes.set_ylabel("Black", color=INK, fontsize=9)
    for (row, column), count in np.ndenumerate(games):
        if count:
            ink = "white" if norm(count) > 0.75 else INK
            axes.text(column, row, short_count(count), ha="center", va="center", fontsize=6.5, color=ink)


def _years(axes: Axes, stats: Stats) -> None:
    from matplotlib.ticker import MaxNLocator

    years = {int(year): count for year, count in _known_years(stats).items()}
    rest = stats.kept - sum(years.values())
    style_chart(axes, "years" + (f" ({rest:,} unknown)" if rest else ""))
    axes.bar(list(years), list(years.values()), width=0.8, color=PLUS)
    first, last = min(years), max(years)
    margin = max(0, _MIN_YEARS - 1 - last + first) / 2 + 0.6
    axes.set_xlim(first - margin, last + margin)
    if last - first < _MIN_YEARS:
        axes.set_xticks(range(first, last + 1))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    _add_grid(axes)


def _lengths(axes: Axes, stats: Stats) -> None:
    style_chart(axes, "moves")
    classes = [name.partition("-")[0] for name in stats.lengths]
    base = np.zeros(len(classes))
    for ending in known_endings(stats.results):
        counts = np.array([counts.get(ending, 0) for counts in stats.lengths.values()])
        axes.bar(np.arange(len(classes)) + 0.5, counts, bottom=base, width=0.92, color=_colour(ending), label=ending)
        base += counts
    axes.set_xticks(range(len(classes)), classes)
    _add_grid(axes)
    axes.legend(fontsize=8, facecolor="white", edgecolor="none", framealpha=1, labelcolor=INK)


def _results(axes: Axes, stats: Stats) -> None:
    style_chart(axes, "winner")
    base = np.zeros(len(stats.results))
    for ending in known_endings(stats.results):
        counts = np.array([counts.get(ending, 0) for counts in stats.results.values()])
        axes.barh(range(len(counts)), counts, left=base, height=0.75, color=_colour(ending))
        base += counts
    _label_bars(axes, list(stats.results), [sum(counts.values()) for counts in stats.results.values()])


def known_endings(rows: Mapping[str, Counts]) -> list[str]:
    """Return the endings that occur in counts by ending, in the order of ENDINGS, then alphabetically."""
    known = {ending for counts in rows.values() for ending in counts}
    return [ending for ending in ENDINGS if ending in known] + sorted(known - {*ENDINGS})


def _colour(ending: str) -> str:
    return _ENDING.get(ending, _GREY)


def _bars(axes: Axes, stats: Stats, title: str, counts: Counts, colour: str) -> None:
    style_chart(axes, title)
    first = dict(list(counts.items())[:_MAX_BARS])
    rest = sum(counts.values()) - sum(first.values())
    first |= {OTHERS: first.get(OTHERS, 0) + rest} if rest else {}
    axes.barh(range(len(first)), list(first.values()), height=0.75, color=colour)
    _label_bars(axes, list(first), list(first.values()))

"""Convert parsed records to rows of the catalogue, and rows to OLF lines, SGF records and `Game` objects.

Text of rows that came from SGF is written unchanged; text of other formats is converted to SGF's conventions. Ranks,
results, komi, dates and times are parsed into typed columns, each distinct text once.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kifu.corpus import schema
from kifu.corpus.hashes import handicap_as_setup, hash_games, hash_rows
from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import Rules
from kifu.point import BLACK, NO_POINT, POINT_MASK, WHITE, to_gtp
from kifu.records import olf, tygem
from kifu.records.decode import decode, translate_fox
from kifu.records.games import NO_HANDICAP, GameArrays, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.meta import (
    Result,
    is_recognized,
    parse_date,
    parse_komi,
    parse_main_before,
    parse_minutes,
    parse_overtime,
)
from kifu.records.ranks import Rank
from kifu.records.sgf import root_properties
from kifu.records.text import Programs

if TYPE_CHECKING:
    from kifu.corpus.cleaning import CleaningRules

TEXT_COLUMNS = {
    "black": "black", "white": "white", "black_rank": "black_rank", "white_rank": "white_rank",
    "result": "result_text", "komi": "komi_text", "date": "date_text", "time": "time_text", "overtime": "overtime",
    "rules": "rules", "event": "event", "round": "round", "place": "place", "title": "title",
}  # fmt: skip
"""The text column of each of `kifu.records.games.FIELDS` that has one."""

UnparsedTexts: TypeAlias = dict[str, Counter[str]]
"""By text column, the texts that could not be parsed, with their counts."""

_SIDES = ("black", "white")

Parser = Callable[[str], tuple[Any, ...]]
"""Maps a text to the values of several columns and, last, True if all of the text was understood."""

_CACHE_SIZE = 1 << 16
"""Texts per parser that are cached between blocks."""

_cached = lru_cache(_CACHE_SIZE)


@_cached
def _sgf_rank(text: str) -> tuple[float | None, bool | None, bool | None, bool]:
    rank = Rank.parse(text)
    if rank is None:
        return None, None, None, is_recognized("rank", text)
    return rank.rating, rank.confirmed, rank.professional, True


@_cached
def _olf_rank(text: str) -> tuple[float | None, bool | None, bool | None, bool]:
    rating, confirmed = olf.parse_rating(text)
    return rating, confirmed, None if rating is None else rating >= 41, rating is not None or text == "0"


def _result_columns(result: Result) -> tuple[str | None, float | None, str]:
    winner = "draw" if result.how == "draw" else {BLACK: "black", WHITE: "white", None: None}[result.winner]
    return winner, result.margin, result.ending


@_cached
def _sgf_result(text: str) -> tuple[str | None, float | None, str, bool]:
    return *_result_columns(Result.parse(text)), is_recognized("result", text)


@_cached
def _olf_result(text: str) -> tuple[str | None, float | None, str, bool]:
    result = olf.parse_result(text)
    return *_result_columns(result), result != Result()


@_cached
def _sgf_komi(text: str) -> tuple[float | None, bool]:
    return parse_komi(text), is_recognized("komi", text)


@_cached
def _olf_komi(text: str) -> tuple[float | None, bool]:
    komi = olf.parse_komi(text)
    return komi, komi is not None or text == "?"


@_cached
def _sgf_date(text: str) -> tuple[datetime.date | None, int | None, bool]:
    date = parse_date(text)
    return (None, None, is_recognized("date", text)) if date is None else (date.first, date.year, True)


@_cached
def _olf_date(text: str) -> tuple[datetime.date | None, int | None, bool]:
    date = olf.parse_date(text)
    return _sgf_date(date) if date is not None else (None, None, is_recognized("date", text))


OvertimeValues: TypeAlias = tuple[str | None, int | None, float | None]
"""The values of OVERTIME_COLUMNS."""


def _overtime_values(text: str) -> OvertimeValues:
    overtime = parse_overtime(text)
    return (None, None, None) if overtime is None else (overtime.kind, overtime.count, overtime.seconds)


@_cached
def _sgf_time(text: str) -> tuple[float | None, str | None, int | None, float | None, bool]:
    return parse_minutes(text), *_overtime_values(text), is_recognized("time", text)


@_cached
def _olf_time(text: str) -> tuple[float | None, None, None, None, bool]:
    minutes = olf.parse_time(text)
    return minutes, None, None, None, minutes is not None or text == "0"


@_cached
def _tygem_time(text: str) -> tuple[float | None, None, None, None, bool]:
    minutes = tygem.parse_time(text)
    return minutes, None, None, None, minutes is not None


@_cached
def _sgf_overtime(text: str) -> tuple[float | None, str | None, int | None, float | None, bool]:
    return parse_main_before(text), *_overtime_values(text), is_recognized("overtime", text)


def _tygem_overtime(text: str) -> tuple[float | None, str | None, int | None, float | None, bool]:
    return _sgf_overtime(tygem.parse_overtime(text) or text)


_RANK, _RESULT, _KOMI, _DATE, _TIME, _OVERTIME = range(6)
# By format; those that are not listed spell their text fields as SGF does.
_PARSERS: Mapping[str, tuple[Parser, ...]] = {
    "sgf": (_sgf_rank, _sgf_result, _sgf_komi, _sgf_date, _sgf_time, _sgf_overtime),
    "olf": (_olf_rank, _olf_result, _olf_komi, _olf_date, _olf_time, _sgf_overtime),
    "tygem": (_sgf_rank, _sgf_result, _sgf_komi, _sgf_date, _tygem_time, _tygem_overtime),
}

PARSED_COLUMNS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "black_rank": (_RANK, ("black_rating", "black_confirmed", "black_pro")),
    "white_rank": (_RANK, ("white_rating", "white_confirmed", "white_pro")),
    "result_text": (_RESULT, ("winner", "margin", "ending")),
    "komi_text": (_KOMI, ("komi",)),
    "date_text": (_DATE, ("date", "year")),
    "time_text": (_TIME, ("main_minutes", *schema.OVERTIME_COLUMNS)),
    "overtime": (_OVERTIME, ("main_minutes", *schema.OVERTIME_COLUMNS)),
}
"""By text column, the kind of parser and the typed columns that it fills, where an earlier one has no value."""


def _parsers(record_format: str) -> tuple[Parser, ...]:
    return _PARSERS.get(record_format, _PARSERS["sgf"])


def is_parsed(record_format: str, column: str, text: str) -> bool:
    """Return True if a text can be parsed completely."""
    return bool(_parsers(record_format)[PARSED_COLUMNS[column][0]](text)[-1])


def parse_fields(
    record_format: str, text: Mapping[str, pa.StringArray], programs: Programs
) -> tuple[dict[str, pa.Array], UnparsedTexts]:
    """Parse the text columns (values of TEXT_COLUMNS) of G games of one format, null where missing.

    Players that columns of programs mark already stay marked. Returns the typed columns and the texts that could not be
    parsed.
    """
    columns: dict[str, pa.Array] = {}
    unparsed: UnparsedTexts = {}
    for name, (kind, targets) in PARSED_COLUMNS.items():
        _parse_column(name, text[name], _parsers(record_format)[kind], targets, columns, unparsed)
    columns["ending"] = pc.fill_null(columns["ending"], "unknown")
    return columns | _program_columns(text, programs), unparsed


def _program_columns(columns: Mapping[str, pa.Array], programs: Programs) -> dict[str, pa.Array]:
    """Return the columns on programs by the names of players. Players that are marked in these columns stay marked."""
    marked = {"program": columns.get("program", pa.nulls(len(columns["black"]), pa.string()))}
    for side in _SIDES:
        encoded = columns[side].dictionary_encode()
        reasons = map(programs.reason, encoded.dictionary.to_pylist())
        texts = pa.array([reason and f"{side}: {reason}" for reason in reasons], pa.string())
        found, name = texts.take(encoded.indices), f"{side}_program"
        if name in columns:
            found = pc.if_else(columns[name], None, found)
        marked[name] = pc.or_(columns[name], found.is_valid()) if name in columns else found.is_valid()
        marked["program"] = pc.coalesce(
            pc.binary_join_element_wise(marked["program"], found, "; "), marked["program"], found
        )
    return marked


_programs_of = lru_cache(16)(Programs)


def _parse_column(
    name: str,
    texts: pa.StringArray,
    parser: Parser,
    targets: Sequence[str],
    columns: dict[str, pa.Array],
    unparsed: UnparsedTexts,
) -> None:
    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    *values, complete = zip(*map(parser, distinct)) if distinct else [()] * (len(targets) + 1)
    for column, value in zip(targets, values):
        parsed = pa.array(value, schema.SCHEMA.field(column).type).take(encoded.indices)
        columns[column] = pc.coalesce(columns[column], parsed) if column in columns else parsed
    if not all(complete):
        counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(encoded.indices).to_pylist()}
        unparsed[name] = Counter({distinct[k]: counts[k] for k, parsed in enumerate(complete) if not parsed})


@dataclass(frozen=True, slots=True)
class Rows:
    """G rows of the catalogue whose drop reasons are not final: duplicates are found later."""

    columns: dict[str, pa.Array]  # all but `drop` and `drop_detail`
    drop: npt.NDArray[np.uint8]  # [G] of `DropReason`
    detail: dict[int, str]  # by row, the value of `drop_detail` for that reason
    unparsed: UnparsedTexts

    def batch(self, drop: npt.NDArray[np.uint8]) -> pa.RecordBatch:
        """Return the rows in the catalogue's schema, with the final `DropReason` values: [G]."""
        detail = pa.nulls(len(drop), pa.string())
        if self.detail:
            texts = [self.detail.get(g) if drop[g] == self.drop[g] else None for g in range(len(drop))]
            detail = pa.array(texts, pa.string())
        return schema.with_drop(self.columns, drop, detail)


def rows_from_parsed(parsed: ParsedBlock, archive: str, rules: CleaningRules, programs: Programs) -> Rows:
    """Return the rows of a parsed block of an archive."""
    games, block = parsed.games, parsed.block
    columns, unparsed = _recorded_columns(parsed, archive, programs)
    if handicaps := _unparsed_handicaps(parsed):
        unparsed["handicap"] = handicaps
    unreadable = {
        int(g): block.data[games.start[g] : games.stop[g]].data
        for g in np.flatnonzero(np.isin(games.drop, schema.READER_REASONS))
    }
    moves = pa.array(np.diff(games.move_offset).astype(np.int32))
    return _rows(games, columns, moves, unreadable, rules, unparsed)


def _unparsed_handicaps(parsed: ParsedBlock) -> Counter[str]:
    """Count the texts of HA that are no handicap; "?" stands for those of other formats."""
    games, counts = parsed.games, Counter[str]()
    for g in np.flatnonzero(games.warnings & ParseWarning.HANDICAP_TEXT).tolist():
        record = parsed.block.data[games.start[g] : games.stop[g]].tobytes() if parsed.format == "sgf" else b""
        counts[root_properties(record).get("HA", (b"?",))[0].decode("ascii", "replace").strip()[:80]] += 1
    del counts[""]
    return counts


def recorded_rows(parsed: ParsedBlock, archive: str, programs: Programs) -> pa.RecordBatch:
    """Return the rows of a parsed block, `drop` included, without the columns that need replay or hashes."""
    columns, _ = _recorded_columns(parsed, archive, programs)
    columns |= _game_columns(parsed.games) | {"drop": schema.drop_names(parsed.games.drop)}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.SCHEMA.names if name in columns})


def _recorded_columns(
    parsed: ParsedBlock, archive: str, programs: Programs
) -> tuple[dict[str, pa.Array], UnparsedTexts]:
    """Return location, text, parsed text, territory and figures of moves, and the texts that could not be parsed."""
    games, block = parsed.games, parsed.block
    decoded = decode(parsed)
    fields = translate_fox(decoded.text) if parsed.format == "sgf" else decoded.text
    text = {column: fields[field] for field, column in TEXT_COLUMNS.items()}
    marked = decoded.text["programs"]
    marks = {f"{side}_program": pc.fill_null(pc.match_substring(marked, f"{side}:"), False) for side in _SIDES}
    typed, unparsed = parse_fields(parsed.format, text | marks | {"program": marked}, programs)
    offsets = pa.array(parsed.territory_offset.astype(np.int32))
    size, missing = len(games), pa.array(np.diff(parsed.territory_offset) <= 0)
    location = {
        "archive": pa.repeat(archive, size),
        "member": _member_names(block).take(pa.array(games.block_index)),
        "entry": pa.array(games.member),
        "index": pa.array(parsed.index),
        "format": pa.repeat(parsed.format, size),
        "encoding": decoded.encoding,
        "game_type": decoded.text["game_type"],
        "territory": pa.ListArray.from_arrays(offsets, pa.array(parsed.territory), type=schema.POINTS, mask=missing),
        "move_seconds": _move_seconds(parsed),
        "evaluations": _evaluations(parsed),
    }
    return location | text | typed, unparsed


def rows_from_catalogue(batch: pa.RecordBatch, rules: CleaningRules) -> Rows:
    """Return rows of a catalogue with the rules applied anew; only a reader's drop reasons stay."""
    columns = {name: batch.column(name) for name in schema.SCHEMA.names if name not in ("drop", "drop_detail")}
    if rules.program_names:
        columns |= _program_columns(columns, _programs_of(rules.program_names))
    return _rows(recorded_games(batch), columns, columns["n_moves"], None, rules, {})


def _rows(
    games: GameArrays,
    columns: dict[str, pa.Array],
    recorded_moves: pa.Array,
    unreadable: Mapping[int, memoryview] | None,
    rules: CleaningRules,
    unparsed: UnparsedTexts,
) -> Rows:
    from kifu.corpus.cleaning import apply_rules  # loads pydantic

    illegal, legal = replay_all(games, Rules.named(rules.rules))
    illegal[games.drop != DropReason.KEPT] = DropReason.KEPT
    if rules.illegal == "cut":
        recorded, games = games, _cut(games, illegal, legal)
        if games is not recorded:
            columns = columns | {name: _cut_lists(columns[name], recorded, games) for name in schema.MOVE_COLUMNS}
        detail = {}
        illegal[:] = DropReason.KEPT
    else:
        stuck = np.flatnonzero(~np.isin(illegal, (DropReason.KEPT, *schema.READER_REASONS)))
        detail = {g: _illegal_move(games, g, int(legal[g])) for g in stuck.tolist()}
    canonical, opening = hash_games(handicap_as_setup(games))
    columns = (
        columns
        | _game_columns(games)
        | {
            "id": pa.array(_ids(games, columns, unreadable)),
            "canonical": pa.array(canonical),
            "opening": pa.array(opening),
            "n_moves": recorded_moves,
            "n_legal": pa.array(legal),
        }
    )
    drop = np.where(games.drop != DropReason.KEPT, games.drop, illegal)
    batch = pa.RecordBatch.from_pydict({name: columns[name] for name in schema.SCHEMA.names if name in columns})
    drop = np.where(drop != DropReason.KEPT, drop, apply_rules(rules, games, batch))
    for reason, column in ((DropReason.PROGRAM, "program"), (DropReason.REPAIRED, "repairs")):
        dropped = np.flatnonzero(drop == reason)
        detail |= dict(zip(dropped.tolist(), batch[column].take(pa.array(dropped)).to_pylist()))
    return Rows(columns, drop, detail, unparsed)


def _game_columns(games: GameArrays) -> dict[str, pa.Array]:
    distinct, codes = np.unique(games.warnings, return_inverse=True)
    return {
        "width": pa.array(games.width),
        "height": pa.array(games.height),
        "handicap": pa.array(games.handicap, mask=games.handicap == NO_HANDICAP),
        "to_play": pa.array(games.to_play),
        "setup": _points(games.setup, games.setup_offset),
        "setup_ply": _points(games.setup_ply, games.setup_offset),
        "root_setup": pa.array(games.root_setup),
        "moves": _points(games.moves, games.move_offset),
        "repairs": pa.array(map(schema.warnings_to_text, distinct.tolist()), pa.string()).take(pa.array(codes)),
    }


def _cut(games: GameArrays, illegal: npt.NDArray[np.uint8], legal: npt.NDArray[np.int32]) -> GameArrays:
    if not illegal.any():
        return games
    moves, setup = np.diff(games.move_offset), np.diff(games.setup_offset)
    length = np.where(illegal != DropReason.KEPT, legal, moves)
    keep_move = np.arange(len(games.moves)) - np.repeat(games.move_offset[:-1], moves) < np.repeat(length, moves)
    # A setup stone beyond the board makes its ply illegal, and is cut with the moves after it.
    keep_stone = games.setup_ply < np.repeat(length + (illegal == DropReason.KEPT), setup)
    setup_offset = np.append(0, np.cumsum(keep_stone))[games.setup_offset]
    return replace(
        games, moves=games.moves[keep_move], move_offset=np.append(0, np.cumsum(length)),
        setup=games.setup[keep_stone], setup_ply=games.setup_ply[keep_stone], setup_offset=setup_offset,
        root_setup=np.minimum(games.root_setup, np.diff(setup_offset)).astype(np.uint16),
        warnings=games.warnings | np.where(illegal != DropReason.KEPT, np.uint32(ParseWarning.CUT), np.uint32(0)),
    )  # fmt: skip


def _cut_lists(column: pa.ListArray, recorded: GameArrays, cut: GameArrays) -> pa.ListArray:
    if column.null_count == len(column):
        return column
    has_list = column.is_valid().to_numpy(zero_copy_only=False)
    before, after = (np.where(has_list, np.diff(games.move_offset), 0) for games in (recorded, cut))
    starts = np.cumsum(before) - before
    keep = np.arange(before.sum()) - np.repeat(starts, before) < np.repeat(after, before)
    return schema.move_lists(column.flatten().filter(pa.array(keep)), np.append(0, np.cumsum(after)), column.type)


def _illegal_move(games: GameArrays, g: int, ply: int) -> str:
    width, height = int(games.width[g]), int(games.height[g])
    at = games.move_offset[g] + ply
    point = int(games.moves[at] & POINT_MASK) if at < games.move_offset[g + 1] else NO_POINT
    return f"move {ply + 1}" + (f" at {to_gtp(point, width, height)}" if point <= width * height else "")


def _ids(
    games: GameArrays, columns: Mapping[str, pa.Array], unreadable: Mapping[int, memoryview] | None
) -> npt.NDArray[np.uint64]:
    """Return the ids: hashes of the rows' content, or of the bytes of unreadable records."""
    ids = hash_rows(games, [columns[name] for name in TEXT_COLUMNS.values()])
    if unreadable is None:
        return np.where(games.drop != DropReason.KEPT, columns["id"].to_numpy(), ids)
    for g, record in unreadable.items():
        ids[g] = int.from_bytes(blake3(record).digest(8), "little")
    return ids


def _member_names(block: RecordBlock) -> pa.StringArray:
    offsets = pa.py_buffer(block.name_offset.astype(np.int32))
    names = pa.StringArray.from_buffers(len(block), offsets, pa.py_buffer(block.names))
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([block.name(k) for k in range(len(block))], pa.string())
    return names


def _points(values: npt.NDArray[np.uint16], offsets: npt.NDArray[np.int64]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values), type=schema.POINTS)


def _move_seconds(parsed: ParsedBlock) -> pa.ListArray:
    """Return column `move_seconds`; times that are negative or not finite are unknown."""
    if parsed.seconds is None:
        return pa.nulls(len(parsed.games), schema.SECONDS)
    unknown = ~(np.isfinite(parsed.seconds) & (parsed.seconds >= 0))
    return schema.move_lists(pa.array(parsed.seconds, mask=unknown), parsed.games.move_offset, schema.SECONDS)


def _evaluations(parsed: ParsedBlock) -> pa.ListArray:
    if parsed.evaluations is None:
        return pa.nulls(len(parsed.games), schema.EVALUATIONS)
    unknown = np.isnan(parsed.evaluations.sum(axis=1))
    values = np.where(unknown[:, None], np.float32(0), parsed.evaluations)
    fields = [pa.array(values[:, k].astype(field.type.to_pandas_dtype())) for k, field in enumerate(schema.EVALUATION)]
    elements = pa.StructArray.from_arrays(fields, fields=list(schema.EVALUATION), mask=pa.array(unknown))
    return schema.move_lists(elements, parsed.games.move_offset, schema.EVALUATIONS)


def recorded_games(batch: pa.RecordBatch) -> GameArrays:
    """Return the games of some rows as recorded, with only a reader's drop reasons."""
    games = schema.game_arrays(batch)
    return replace(
        games, drop=np.where(np.isin(games.drop, schema.READER_REASONS), games.drop, np.uint8(DropReason.KEPT))
    )

"""Parse the text of records (ranks, results, komi, dates, times) into typed columns, each distinct text once."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import OVERTIME_COLUMNS, SCHEMA
from kifu.point import BLACK, WHITE
from kifu.records import olf, tygem
from kifu.records.meta import (
    Rank,
    Result,
    is_recognized,
    parse_date,
    parse_komi,
    parse_main_before,
    parse_minutes,
    parse_overtime,
)
from kifu.records.text import Programs

TEXT_COLUMNS = {
    "black": "black", "white": "white", "black_rank": "black_rank", "white_rank": "white_rank",
    "result": "result_text", "komi": "komi_text", "date": "date_text", "time": "time_text", "overtime": "overtime",
    "rules": "rules", "event": "event", "round": "round", "place": "place", "title": "title",
}  # fmt: skip
"""The text column of each of `kifu.records.games.FIELDS` that has one."""

UnparsedTexts: TypeAlias = dict[str, Counter[str]]
"""By text column, the texts that could not be parsed, with their counts."""

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


@_cached
def _sgf_time(text: str) -> tuple[float | None, bool]:
    return parse_minutes(text), is_recognized("time", text)


@_cached
def _olf_time(text: str) -> tuple[float | None, bool]:
    minutes = olf.parse_time(text)
    return minutes, minutes is not None or text == "0"


@_cached
def _tygem_time(text: str) -> tuple[float | None, bool]:
    minutes = tygem.parse_time(text)
    return minutes, minutes is not None


@_cached
def _sgf_overtime(text: str) -> tuple[float | None, str | None, int | None, float | None, bool]:
    overtime, minutes = parse_overtime(text), parse_main_before(text)
    if overtime is None:
        return minutes, None, None, None, is_recognized("overtime", text)
    return minutes, overtime.kind, overtime.count, overtime.seconds, True


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
    "time_text": (_TIME, ("main_minutes",)),
    "overtime": (_OVERTIME, ("main_minutes", *OVERTIME_COLUMNS)),
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
    """Parse the text of G games of one format.

    Args:
        text: The text columns (values of TEXT_COLUMNS), [G] each, null where missing.

    Returns:
        The typed columns, [G] each, and the texts that could not be parsed.
    """
    columns: dict[str, pa.Array] = {}
    unparsed: UnparsedTexts = {}
    for name, (kind, targets) in PARSED_COLUMNS.items():
        _parse_column(name, text[name], _parsers(record_format)[kind], targets, columns, unparsed)
    columns["ending"] = pc.fill_null(columns["ending"], "unknown")
    for side in ("black", "white"):
        encoded = text[side].dictionary_encode()
        is_program = pa.array([programs.is_program(name) for name in encoded.dictionary.to_pylist()], pa.bool_())
        columns[f"{side}_program"] = pc.fill_null(is_program.take(encoded.indices), False)
    return columns, unparsed


def _parse_column(
    name: str,
    texts: pa.StringArray,
    parser: Parser,
    targets: Sequence[str],
    columns: dict[str, pa.Array],
    unparsed: UnparsedTexts,
) -> None:
    """Fill the columns `targets` from the text column `name`."""
    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    *values, complete = zip(*map(parser, distinct)) if distinct else [()] * (len(targets) + 1)
    for column, value in zip(targets, values):
        parsed = pa.array(value, SCHEMA.field(column).type).take(encoded.indices)
        columns[column] = pc.coalesce(columns[column], parsed) if column in columns else parsed
    if not all(complete):
        counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(encoded.indices).to_pylist()}
        unparsed[name] = Counter({distinct[k]: counts[k] for k, parsed in enumerate(complete) if not parsed})

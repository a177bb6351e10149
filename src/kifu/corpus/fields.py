"""From what games say in words to typed columns of the catalogue: whole columns, each distinct text read once."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import SCHEMA
from kifu.point import BLACK, WHITE
from kifu.records import olf, tygem
from kifu.records.games import FormatName
from kifu.records.meta import Rank, Result, is_recognized, parse_komi
from kifu.records.programs import Programs
from kifu.records.times import parse_date, parse_minutes

TEXT_COLUMNS = {
    "black": "black", "white": "white", "black_rank": "black_rank", "white_rank": "white_rank",
    "result": "result_text", "komi": "komi_text", "date": "date_text", "time": "time_text", "overtime": "overtime",
    "rules": "rules", "event": "event", "round": "round", "place": "place", "title": "title",
}  # fmt: skip
"""The catalogue's column for each of `kifu.records.games.FIELDS` that has one of its own."""

UnparsedTexts: TypeAlias = dict[str, Counter[str]]
"""By column, texts that were not understood, with their counts."""

Read = Callable[[str], tuple[Any, ...]]
"""A text -> the values of several columns, and at last whether all of the text was understood."""

_MEMORY = 1 << 16
"""Texts of each kind that are remembered from one block to the next."""

_remembered = lru_cache(_MEMORY)


@_remembered
def _sgf_rank(text: str) -> tuple[float | None, bool | None, bool | None, bool]:
    rank = Rank.parse(text)
    if rank is None:
        return None, None, None, is_recognized("rank", text)
    return rank.rating, rank.confirmed, rank.professional, True


@_remembered
def _olf_rank(text: str) -> tuple[float | None, bool | None, bool | None, bool]:
    rating, confirmed = olf.parse_rating(text)
    return rating, confirmed, None if rating is None else rating >= 41, rating is not None or text == "0"


def _ended(result: Result) -> tuple[str | None, float | None, str]:
    winner = "draw" if result.how == "draw" else {BLACK: "black", WHITE: "white", None: None}[result.winner]
    return winner, result.margin, result.ending


@_remembered
def _sgf_result(text: str) -> tuple[str | None, float | None, str, bool]:
    return *_ended(Result.parse(text)), is_recognized("result", text)


@_remembered
def _olf_result(text: str) -> tuple[str | None, float | None, str, bool]:
    result = olf.parse_result(text)
    return *_ended(result), result != Result()


@_remembered
def _sgf_komi(text: str) -> tuple[float | None, bool]:
    return parse_komi(text), is_recognized("komi", text)


@_remembered
def _olf_komi(text: str) -> tuple[float | None, bool]:
    komi = olf.parse_komi(text)
    return komi, komi is not None or text == "?"


@_remembered
def _sgf_date(text: str) -> tuple[datetime.date | None, int | None, bool]:
    date = parse_date(text)
    return (None, None, is_recognized("date", text)) if date is None else (date.first, date.year, True)


@_remembered
def _olf_date(text: str) -> tuple[datetime.date | None, int | None, bool]:
    date = olf.parse_date(text)
    return _sgf_date(date) if date is not None else (None, None, is_recognized("date", text))


@_remembered
def _sgf_time(text: str) -> tuple[float | None, bool]:
    return parse_minutes(text), is_recognized("time", text)


@_remembered
def _olf_time(text: str) -> tuple[float | None, bool]:
    minutes = olf.parse_time(text)
    return minutes, minutes is not None or text == "0"


@_remembered
def _tygem_time(text: str) -> tuple[float | None, bool]:
    minutes = tygem.parse_time(text)
    return minutes, minutes is not None


_RANK, _RESULT, _KOMI, _DATE, _TIME = range(5)
_SPELLING: Mapping[FormatName, tuple[Read, ...]] = {
    "sgf": (_sgf_rank, _sgf_result, _sgf_komi, _sgf_date, _sgf_time),
    "olf": (_olf_rank, _olf_result, _olf_komi, _olf_date, _olf_time),
    "tygem": (_sgf_rank, _sgf_result, _sgf_komi, _sgf_date, _tygem_time),
}

PARSED_COLUMNS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "black_rank": (_RANK, ("black_rating", "black_confirmed", "black_pro")),
    "white_rank": (_RANK, ("white_rating", "white_confirmed", "white_pro")),
    "result_text": (_RESULT, ("winner", "margin", "ending")),
    "komi_text": (_KOMI, ("komi",)),
    "date_text": (_DATE, ("date", "year")),
    "time_text": (_TIME, ("main_minutes",)),
}
"""Columns of words: the kind of reader, and the columns that it makes."""


def is_parsed(spelling: FormatName, column: str, text: str) -> bool:
    """Whether all that a text of such a column says is understood. column: one of MADE_OF."""
    return bool(_SPELLING[spelling][PARSED_COLUMNS[column][0]](text)[-1])


def parse_fields(
    spelling: FormatName, text: Mapping[str, pa.StringArray], programs: Programs
) -> tuple[dict[str, pa.Array], UnparsedTexts]:
    """The typed columns of G games of one format, and what of their words was not understood.

    text: the catalogue's columns of words (`TEXT_COLUMNS`), [G] each, null where nothing is told.
    """
    columns: dict[str, pa.Array] = {}
    unclear: UnparsedTexts = {}
    for name, (kind, made) in PARSED_COLUMNS.items():
        _read(name, text[name], _SPELLING[spelling][kind], made, columns, unclear)
    columns["ending"] = pc.fill_null(columns["ending"], "unknown")
    for side in ("black", "white"):
        coded = text[side].dictionary_encode()
        known = pa.array([programs.is_program(name) for name in coded.dictionary.to_pylist()], pa.bool_())
        columns[f"{side}_program"] = pc.fill_null(known.take(coded.indices), False)
    return columns, unclear


def _read(
    name: str,
    texts: pa.StringArray,
    read: Read,
    made: Sequence[str],
    columns: dict[str, pa.Array],
    unclear: UnparsedTexts,
) -> None:
    """Fills the columns `made` from the texts of column `name`."""
    coded = texts.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    *values, clear = zip(*map(read, distinct)) if distinct else [()] * (len(made) + 1)
    for column, value in zip(made, values):
        columns[column] = pa.array(value, SCHEMA.field(column).type).take(coded.indices)
    if not all(clear):
        counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(coded.indices).to_pylist()}
        unclear[name] = Counter({distinct[k]: counts[k] for k, known in enumerate(clear) if not known})

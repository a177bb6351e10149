"""Cleaning rules: named TOML tables that decide which games of a corpus are dropped.

cleaning/schraudolph.toml holds the rules of Schraudolph's archive, with their source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import nan
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field, field_validator

from kifu.config import Line, NamedConfig, check_config, load_config
from kifu.corpus.hashes import handicap_as_setup
from kifu.corpus.schema import OVERTIME_COLUMNS, warnings_from_text
from kifu.errors import DropReason
from kifu.go.rules import Rules
from kifu.point import POINT_MASK, WHITE_BIT, parse_board
from kifu.records.games import GameArrays, ParseWarning
from kifu.records.meta import Overtime, OvertimeKind, thinking_seconds
from kifu.records.ranks import Rank
from kifu.registry import check_choice

_FOLDER, _KIND = "cleaning", "set of cleaning rules"

Count = Annotated[int, Field(ge=0, le=10**6)]
Amount = Annotated[float, Field(ge=0, le=10**6)]


def _read_rank(value: object) -> object:
    return Rank.parse_rating(value) if isinstance(value, str) else value


class CleaningRules(NamedConfig):
    """A set of cleaning rules. A game that violates several is counted under the first, in the order of the fields."""

    name: Line
    title: Line
    rules: Line = "records"
    """The rules of Go for replaying the games (`kifu.go.rules.NAMED`)."""
    illegal: Literal["drop", "cut"] = "drop"
    """Drop a game with an illegal move, or cut it before that move."""
    repairs: tuple[Line, ...] = Field((), strict=False)
    """Names in column `repairs` (`kifu.records.games.ParseWarning`): games with any of them are dropped."""
    sizes: tuple[Line, ...] | None = Field(None, strict=False)
    """Allowed boards, like "19x19"; None allows all."""
    known_size: bool = False
    """Require the record to state its board size; otherwise the default is 19 x 19."""
    alternating: bool = False
    """Require the colours to alternate after the handicap stones."""
    min_moves: Count = 0
    """Minimum number of moves, passes included. Games without any move have a drop reason of their own."""
    max_moves: Count | None = None
    """Maximum number of moves, passes included."""
    min_stones: Count = 0
    """Minimum number of moves that are not passes, with the handicap stones."""
    self_play: Amount | None = None
    """Minimum number of moves of a game between equal names, in multiples of the board's larger side."""
    max_score: Amount | None = None
    """Maximum winning margin, in multiples of the points of the board."""
    whole_score: bool = False
    """Require score and komi to add up to a whole number, where both are known."""
    finished: bool = False
    """Require a known result that is not void."""
    ranked: bool = False
    """Require both ranks to be known."""
    min_rating: Annotated[Amount, BeforeValidator(_read_rank)] | None = None
    """Minimum rank of both players, where known: "6d", or its rating: 30 kyu 2, 1 kyu 31, 1 dan 32, 9 dan 40, 1 dan
    professional 41."""
    programs: bool = True
    """Keep the games of programs."""
    program_names: tuple[Line, ...] = Field((), strict=False)
    """Additional names of programs; * matches any letters."""
    min_seconds: Amount | None = None
    """Minimum thinking time per player (`kifu.records.meta.thinking_seconds`), where known."""
    duplicates: Literal["keep", "fields", "games"] = "keep"
    """fields: keep the first of several games that are equal in all fields. games: also keep only the longest of games
    that are equal up to symmetry, colours or final passes, or of which one is the beginning of the other."""

    @field_validator("rules")
    @classmethod
    def _check_rules(cls, name: str) -> str:
        Rules.named(name)
        return name

    @field_validator("repairs")
    @classmethod
    def _check_repairs(cls, repairs: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(str(warning.name).lower() for warning in ParseWarning)
        for name in repairs:
            check_choice("repair", name, names)
        return repairs

    @field_validator("sizes")
    @classmethod
    def _check_sizes(cls, sizes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for size in sizes or ():
            parse_board(size)
        return sizes


def load_cleaning_rules(name: str | os.PathLike[str], overrides: Iterable[str] = ()) -> CleaningRules:
    """Load a built-in set of rules, or a TOML file.

    Raises RecipeError if the rules do not exist or are invalid.

    Args:
        name: A built-in name, or a path that ends in .toml.
    """
    return check_cleaning_rules(load_config(_FOLDER, _KIND, name, overrides), name)


def check_cleaning_rules(table: Mapping[str, object], name: str | os.PathLike[str]) -> CleaningRules:
    """Validate rules by field of `CleaningRules`. Raises RecipeError, which names the first invalid value."""
    return check_config(CleaningRules, table, _KIND, name)


def apply_rules(rules: CleaningRules, games: GameArrays, batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """Return the first `DropReason` that applies to each game, else `DropReason.KEPT`: [G] uint8.

    Illegal moves and duplicates are not checked here: the former require a replay, the latter the other games.

    Args:
        batch: Rows with all columns of the catalogue but `drop` and `drop_detail`.
    """
    drop = np.full(len(games), DropReason.KEPT, np.uint8)
    for reason, applies in _violations(rules, games, batch):
        drop[(drop == DropReason.KEPT) & applies] = reason
    return drop


def _violations(
    rules: CleaningRules, games: GameArrays, batch: pa.RecordBatch
) -> Iterator[tuple[DropReason, npt.NDArray[np.bool_]]]:
    """Yield each active rule's reason and a mask of the games that violate it."""
    width, height = games.width.astype(np.int64), games.height.astype(np.int64)
    points = width * height
    moves = np.diff(games.move_offset)
    plain = handicap_as_setup(games, stated_only=True)
    if rules.repairs:
        yield DropReason.REPAIRED, games.warnings & warnings_from_text(",".join(rules.repairs)) != 0
    if rules.known_size:
        yield DropReason.BAD_SIZE, games.warnings & ParseWarning.SIZE_MISSING != 0
    if rules.sizes is not None:
        allowed = [w * 256 + h for w, h in map(parse_board, rules.sizes)]
        yield DropReason.WRONG_SIZE, ~np.isin(width * 256 + height, allowed)
    if rules.alternating:
        same_colour = (plain.moves[1:] ^ plain.moves[:-1]) & WHITE_BIT == 0
        # The last move of one game and the first of the next do not count.
        same_colour[np.isin(np.arange(1, len(plain.moves)), plain.move_offset[1:-1])] = False
        marked = np.append(False, same_colour)[: len(plain.moves)]
        yield DropReason.NOT_ALTERNATING, _count_per_game(marked, plain) > 0
    if rules.min_moves or rules.min_stones:
        yield DropReason.NO_MOVES, moves == 0
    if rules.min_stones:
        passes = games.moves & POINT_MASK == np.repeat(points, moves)
        placed = np.where(games.handicap == games.root_setup, games.root_setup, 0)  # moves in Schraudolph's archive
        yield DropReason.FEW_STONES, moves - _count_per_game(passes, games) + placed < rules.min_stones
    if rules.min_moves:
        yield DropReason.TOO_SHORT, moves < rules.min_moves
    if rules.max_moves is not None:
        yield DropReason.TOO_LONG, moves > rules.max_moves
    if rules.self_play is not None:
        named = pc.match_substring_regex(batch["black"], r"[\pL\pN]")  # "?" and "-" are no names
        one_player = _mask(pc.and_(pc.equal(batch["black"], batch["white"]), named))
        few_moves = np.diff(plain.move_offset) < rules.self_play * np.maximum(width, height)
        yield DropReason.SELF_PLAY, one_player & few_moves
    scored = batch["ending"].to_numpy(zero_copy_only=False) == "score"
    margin = _floats(batch["margin"])
    if rules.max_score is not None:
        yield DropReason.HUGE_SCORE, scored & (margin > rules.max_score * points)
    if rules.whole_score:
        signed = np.where(_mask(pc.equal(batch["winner"], "white")), -margin, margin)
        total = signed + _floats(batch["komi"])
        yield DropReason.FRACTION_SCORE, scored & (np.abs(total - np.round(total)) > 0.01)
    if rules.finished:
        yield DropReason.UNFINISHED, ~_mask(pc.is_valid(batch["winner"]))
    ratings = [_floats(batch[name]) for name in ("black_rating", "white_rating")]
    if rules.ranked:
        yield DropReason.RANK_UNKNOWN, np.isnan(ratings[0]) | np.isnan(ratings[1])
    if rules.min_rating is not None:
        yield DropReason.RANK_LOW, (ratings[0] < rules.min_rating) | (ratings[1] < rules.min_rating)
    if not rules.programs:
        yield DropReason.PROGRAM, _mask(batch["program"].is_valid())
    if rules.min_seconds is not None:
        yield DropReason.BLITZ, thinking_times(batch) < rules.min_seconds


def thinking_times(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """Return [G] each player's time in seconds (`thinking_seconds`), NaN if unknown. batch: has TIME_COLUMNS."""
    return np.array(
        [_thinking_seconds(*each) for each in zip(*(batch[name].to_pylist() for name in TIME_COLUMNS))], float
    )


TIME_COLUMNS = ("main_minutes", *OVERTIME_COLUMNS)


@lru_cache(1 << 16)
def _thinking_seconds(
    minutes: float | None, kind: OvertimeKind | None, count: int | None, period: float | None
) -> float:
    overtime = None if kind is None or count is None or period is None else Overtime(kind, count, period)
    seconds = thinking_seconds(minutes, overtime)
    return nan if seconds is None else seconds


def _count_per_game(marked: npt.NDArray[np.bool_], games: GameArrays) -> npt.NDArray[np.int64]:
    total = np.append(0, np.cumsum(marked))
    counts: npt.NDArray[np.int64] = total[games.move_offset[1:]] - total[games.move_offset[:-1]]
    return counts


def _mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a boolean column as an array, with False for null."""
    mask: npt.NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def _floats(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return a numeric column as an array, with NaN for null."""
    values: npt.NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values

"""Which games a corpus sets aside, as a table of rules that has a name, and what they say of each game.

The rules after Schraudolph's archive stand in cleaning/schraudolph.toml, with their source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import nan
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field, field_validator

from kifu.config import STRICT, Line, check_config, config_names, config_text, load_config
from kifu.errors import DropReason, RecipeError
from kifu.go.rules import Rules
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.records import tygem
from kifu.records.games import GameArrays, ParseWarning
from kifu.records.times import parse_overtime, thinking_seconds

_FOLDER, _KIND = "cleaning", "set of cleaning rules"

Count = Annotated[int, Field(ge=0, le=10**6)]
Amount = Annotated[float, Field(ge=0, le=10**6)]


class CleaningRules(BaseModel):
    """Rules of cleaning. A game that several of them set aside is counted under the first, in this order."""

    model_config = STRICT

    name: Line
    title: Line
    rules: Line = "records"
    """The rules of Go that games are replayed under (`kifu.go.rules.NAMED`)."""
    illegal: Literal["drop", "cut"] = "drop"
    """A game with an illegal move is set aside, or ends before that move."""
    sizes: tuple[Line, ...] | None = Field(None, strict=False)
    """Boards, like "19x19"; others are set aside."""
    known_size: bool = False
    """A record that does not tell its board is set aside; else it is taken for 19 x 19."""
    alternating: bool = False
    """Two moves in a row by one colour are not allowed."""
    min_moves: Count = 0
    """Passes count. A game without any is told apart from one that is short."""
    max_moves: Count | None = None
    min_stones: Count = 0
    """Moves that are no passes."""
    self_play: Amount | None = None
    """A player's game against himself needs so many times the board's side in moves."""
    max_score: Amount | None = None
    """In multiples of the points of the board."""
    whole_score: bool = False
    """Score and komi add up to a whole number, where both are told."""
    finished: bool = False
    """The result is told, and not void."""
    ranked: bool = False
    """Both ranks are known."""
    min_rating: Amount | None = None
    """Of both players, where their ranks are known: 30 kyu 2, 1 kyu 31, 1 dan 32, 9 dan 40, 1 dan professional 41."""
    programs: bool = True
    """Whether games of programs stay."""
    program_names: tuple[Line, ...] = Field((), strict=False)
    """More names of programs, with * for any letters."""
    min_seconds: Amount | None = None
    """A player's time for a game, as `kifu.records.times.thinking_seconds` reckons it; enough, where none is told."""
    duplicates: Literal["keep", "fields", "games"] = "keep"
    """fields: of games that are equal in all fields the first stays. games: also of those that are equal but for
    mirror, rotation, colours or last passes, or of which one is the beginning of the other, the longest stays."""

    @field_validator("rules")
    @classmethod
    def _known_rules(cls, name: str) -> str:
        try:
            Rules.named(name)
        except RecipeError as error:
            raise ValueError(str(error)) from None
        return name

    @field_validator("sizes")
    @classmethod
    def _known_sizes(cls, sizes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for size in sizes or ():
            width, x, height = size.partition("x")
            if not (x and width.isdecimal() and height.isdecimal()):
                raise ValueError(f'{size!r} is no board; "19x19" is one')
        return sizes


def cleaning_rule_names() -> list[str]:
    """The sets of rules that come with kifu."""
    return config_names(_FOLDER)


def load_cleaning_rules(name: str, overrides: Iterable[str] = ()) -> CleaningRules:
    """A set of rules by its name, or from a TOML file if `name` ends in .toml.

    overrides: see `kifu.config.load_config`. Raises RecipeError.
    """
    return check_cleaning_rules(load_config(_FOLDER, _KIND, name, overrides), name)


def check_cleaning_rules(table: Mapping[str, object], name: str) -> CleaningRules:
    """The rules that a table of values makes. Raises RecipeError, which names the first value that does not fit."""
    return check_config(CleaningRules, table, _KIND, name)


def cleaning_rules_text(name: str) -> str:
    """The TOML text of a set of rules. Raises RecipeError."""
    return config_text(_FOLDER, _KIND, name)


def apply_rules(clean: CleaningRules, games: GameArrays, batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """What the rules say of each row: [G] uint8, the first `DropReason` that applies, or `DropReason.KEPT`.

    games: of the rows of `batch`, which has all columns of the catalogue but for `drop`, which is not looked at.
    Illegal moves and duplicates are not judged here: the former need a replay, the latter other games.
    """
    drop = np.full(len(games), DropReason.KEPT, np.uint8)
    for why, applies in _faults(clean, games, batch):
        drop[(drop == DropReason.KEPT) & applies] = why
    return drop


def _faults(
    clean: CleaningRules, games: GameArrays, batch: pa.RecordBatch
) -> Iterator[tuple[DropReason, npt.NDArray[np.bool_]]]:
    width, height = games.width.astype(np.int64), games.height.astype(np.int64)
    points = width * height
    moves = np.diff(games.move_offset)
    if clean.known_size:
        yield DropReason.BAD_SIZE, games.warnings & ParseWarning.SIZE_MISSING != 0
    if clean.sizes is not None:
        wanted = [int(w) * 256 + int(h) for w, _, h in (size.partition("x") for size in clean.sizes)]
        yield DropReason.WRONG_SIZE, ~np.isin(width * 256 + height, wanted)
    if clean.alternating:
        same = (games.moves[1:] ^ games.moves[:-1]) & WHITE_BIT == 0
        at = np.arange(1, len(games.moves))
        same[np.isin(at, games.move_offset[1:-1])] = False  # the last move of one game and the first of the next
        yield DropReason.NOT_ALTERNATING, _count(np.append(False, same)[: len(games.moves)], games) > 0
    if clean.min_moves or clean.min_stones:
        yield DropReason.NO_MOVES, moves == 0
    if clean.min_stones:
        passes = games.moves & POINT_MASK == np.repeat(points, moves)
        yield DropReason.FEW_STONES, moves - _count(passes, games) < clean.min_stones
    if clean.min_moves:
        yield DropReason.TOO_SHORT, moves < clean.min_moves
    if clean.max_moves is not None:
        yield DropReason.TOO_LONG, moves > clean.max_moves
    if clean.self_play is not None:
        one_player = _true(pc.equal(batch["black"], batch["white"]))
        yield DropReason.SELF_PLAY, one_player & (moves < clean.self_play * np.maximum(width, height))
    scored = batch["ending"].to_numpy(zero_copy_only=False) == "score"
    margin = _floats(batch["margin"])
    if clean.max_score is not None:
        yield DropReason.HUGE_SCORE, scored & (margin > clean.max_score * points)
    if clean.whole_score:
        signed = np.where(_true(pc.equal(batch["winner"], "white")), -margin, margin)
        total = signed + _floats(batch["komi"])
        yield DropReason.FRACTION_SCORE, scored & (np.abs(total - np.round(total)) > 0.01)
    if clean.finished:
        yield DropReason.UNFINISHED, ~_true(pc.is_valid(batch["winner"]))
    ratings = [_floats(batch[name]) for name in ("black_rating", "white_rating")]
    if clean.ranked:
        yield DropReason.RANK_UNKNOWN, np.isnan(ratings[0]) | np.isnan(ratings[1])
    if clean.min_rating is not None:
        yield DropReason.RANK_LOW, (ratings[0] < clean.min_rating) | (ratings[1] < clean.min_rating)
    if not clean.programs:
        yield DropReason.PROGRAM, _true(batch["black_program"]) | _true(batch["white_program"])
    if clean.min_seconds is not None:
        terms = zip(batch["main_minutes"].to_pylist(), batch["format"].to_pylist(), batch["overtime"].to_pylist())
        yield DropReason.BLITZ, np.array([_seconds(*each) for each in terms], float) < clean.min_seconds


@lru_cache(1 << 16)
def _seconds(minutes: float | None, spelling: str, overtime: str | None) -> float:
    """What a player may think; NaN if nothing is told."""
    if overtime is not None and spelling == "tygem":
        overtime = tygem.parse_overtime(overtime)
    seconds = thinking_seconds(minutes, parse_overtime(overtime) if overtime is not None else None)
    return nan if seconds is None else seconds


def _count(marked: npt.NDArray[np.bool_], games: GameArrays) -> npt.NDArray[np.int64]:
    """How many moves of each game are marked."""
    total = np.append(0, np.cumsum(marked))
    counts: npt.NDArray[np.int64] = total[games.move_offset[1:]] - total[games.move_offset[:-1]]
    return counts


def _true(column: pa.Array) -> npt.NDArray[np.bool_]:
    """A column of truths, with False for null."""
    truths: npt.NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return truths


def _floats(column: pa.Array) -> npt.NDArray[np.float64]:
    """A column of numbers, with NaN for null."""
    values: npt.NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values

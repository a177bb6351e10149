"""Selection of games and moves for KataGo's training files, and the number of rows that each game gives.

The selection follows `writetrainingdata` of KataGo v1.17.2; each of its rules is an option of the recipe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from kifu.arrays import Bools, Bytes, Indices, Ints
from kifu.config import Line
from kifu.corpus.catalogue import Catalogue, RowShard
from kifu.corpus.schema import GAME_COLUMNS, game_arrays, map_distinct, to_numpy
from kifu.datasets.global_inputs import Server
from kifu.datasets.npz import Compression
from kifu.errors import DropReason
from kifu.go.positions import Positions
from kifu.katago.inputs import ILLEGAL_MOVES, MAX_SIZE, MIN_SIZE, KataEncoder
from kifu.katago.npz import MAX_ROWS_PER_FILE, ROWS_PER_FILE
from kifu.katago.rules import KataRules, recorded_komi, resolve_rules
from kifu.kernel import kernel
from kifu.planes.encoder import CONTEXT_COLUMNS
from kifu.planes.registry import KATAGO22
from kifu.point import POINT_MASK, WHITE_BIT, parse_board
from kifu.recipes.pipeline import RowSlice, SetChunk, SetJob
from kifu.recipes.schema import SplitRecipe
from kifu.records.games import GameArrays, ParseWarning

Moves = Annotated[int, Field(ge=0, le=10_000)]
Weight = Annotated[float, Field(ge=0, le=1)]


class KatagoRecipe(SplitRecipe):
    """A recipe of KataGo's training files. Its defaults select games as KataGo's `writetrainingdata` does."""

    kind: Literal["katago"]

    boards: Annotated[tuple[Line, ...] | None, Field(strict=False, min_length=1)] = None
    """Board sizes such as "19x19"; other games are dropped. Default: all sizes from 2x2 to 19x19."""
    default_rules: Line | None = None
    """The rules of games without RU, such as "japanese". Default: these games are dropped."""
    default_komi: Annotated[float, Field(ge=-150, le=150)] | None = None
    """The komi of games without KM. Default: these games are dropped."""
    handicap: bool = True
    """Drop games with an HA that is not a number, or more than half the side of the board."""
    handicap_moves: Literal["drop", "begin"] = "drop"
    """Games that begin with several moves of Black are dropped, or begin with the last of them."""
    min_moves: Moves | Literal["katago"] = "katago"
    """Minimum number of moves from the first row on, without trailing passes. KataGo: 15 + points / 8."""
    max_moves: Moves | Literal["katago"] = "katago"
    """Maximum number of moves. KataGo: 40 + 1.5 x points."""
    early_passes: bool = True
    """Drop games with a pass soon after the opening (19x19: moves 31 to 50), and begin games with a pass in the opening
    after the answer to it."""
    alternating: bool = True
    """Drop games in which a player moves twice in a row later."""
    illegal: Literal["drop", "cut"] = "drop"
    """Games with a move that their rules forbid, or setup after the root, are dropped, or end there."""
    results: Literal["any", "understood", "known"] = "understood"
    """understood: drop games whose RE cannot be parsed, or has a score larger than the board. known: also drop games
    without RE."""
    trust: dict[Literal["score", "resign", "time", "forfeit"], Weight] = Field(
        default={"score": 1.0, "resign": 1.0, "time": 0.5}
    )
    """Weight of the result in the network's loss, by the ending of the game; 0 for missing keys."""
    metadata: Server | None = None
    """For human-style networks: the server or collection of the games. Default: no metadataInputNC."""
    compression: Compression = "deflate"
    """deflate: as KataGo; fast: files 2.5 times as large in half the time; stored: none."""
    rows_per_file: Annotated[int, Field(ge=1, le=MAX_ROWS_PER_FILE)] = ROWS_PER_FILE
    """Rows in a training file."""

    def position_bytes(self, catalogues: Sequence[Catalogue]) -> float:
        """Return the size of a row in a file, about."""
        return {"deflate": 70, "fast": 175, "stored": 7700}[self.compression]

    @field_validator("boards")
    @classmethod
    def _boards_in_range(cls, boards: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for board in boards or ():
            width, height = parse_board(board)
            if not (MIN_SIZE <= width <= MAX_SIZE and MIN_SIZE <= height <= MAX_SIZE):
                raise ValueError(f"boards must be from {MIN_SIZE}x{MIN_SIZE} to {MAX_SIZE}x{MAX_SIZE}, got {board}")
        return boards

    @field_validator("default_rules")
    @classmethod
    def _rules_are_known(cls, rules: str | None) -> str | None:
        if rules is not None:
            KataRules.parse(rules)
        return rules

    @field_validator("default_komi")
    @classmethod
    def _komi_in_half_points(cls, komi: float | None) -> float | None:
        if komi is not None and komi % 0.5:
            raise ValueError(f"default_komi must be a multiple of 0.5, got {komi:g}")
        return komi


COLUMNS = (*GAME_COLUMNS, *CONTEXT_COLUMNS, "id", "winner", "margin", "ending", "result_text", "repairs")
"""The columns of the catalogue that selecting and rendering need."""

NEVER = np.iinfo(np.int32).max

_GAMES = 256
"""Games in one item."""

_CUT_REASONS = (DropReason.OFF_BOARD, *ILLEGAL_MOVES, DropReason.SETUP_LATER)
"""Reasons that end a game early and leave the moves before usable; the others make the whole game unusable."""


class Opening(NamedTuple):
    """Properties of G games that follow from passes and colours alone.

    Attributes:
        first: [G] int32, the first ply that may have a row.
        repeat: [G] int32, the first ply at which a player moves twice in a row where that is not allowed, else NEVER.
        early_pass: [G] bool, whether there is a pass where none is allowed.
    """

    first: Ints
    repeat: Ints
    early_pass: Bools


def scan_openings(recipe: KatagoRecipe, games: GameArrays) -> Opening:
    """Scan games for early passes and moves out of turn, as far as KataGo does."""
    n = len(games)
    opening = Opening(np.zeros(n, np.int32), np.full(n, NEVER, np.int32), np.zeros(n, np.bool_))
    _scan_openings(
        games.moves, games.move_offset, games.width, games.height, recipe.early_passes,
        recipe.handicap_moves == "begin", recipe.alternating, opening,
    )  # fmt: skip
    return opening


@kernel
def _scan_openings(
    moves: Any, move_offset: Any, width: Any, height: Any, passes: Any, begin: Any, alternating: Any, out: Opening
) -> None:
    for g in range(width.shape[0]):
        points = np.int64(width[g]) * np.int64(height[g])
        start, plies = move_offset[g], move_offset[g + 1] - move_offset[g]
        for t in range(min(plies, 14 + points // 10) if passes else 0):
            if (moves[start + t] & POINT_MASK) == points:
                if t < 12 + points // 20:
                    out.first[g] = t + 2
                else:
                    out.early_pass[g] = True
        for t in range(1, plies):
            if (moves[start + t] ^ moves[start + t - 1]) & WHITE_BIT != 0:
                continue
            at_start = t < 6 + points // 40 and moves[start + t] & WHITE_BIT == 0
            if at_start and begin:
                out.first[g] = max(out.first[g], t)
            elif at_start or alternating:
                out.repeat[g] = min(out.repeat[g], t)


def select_plies(games: GameArrays, rows: Indices, first: Ints) -> Positions:
    """Return the positions of the games `rows` from ply `first` on, except before passes and answers to passes."""
    begin = np.full(len(games), NEVER)
    begin[rows] = first
    lengths, points = np.diff(games.move_offset), games.width.astype(np.int64) * games.height
    ply = np.arange(len(games.moves)) - np.repeat(games.move_offset[:-1], lengths)
    counts = ply >= np.repeat(begin, lengths)
    is_pass = counts & (games.moves & POINT_MASK == np.repeat(points, lengths))
    after_pass = (ply > 0) & np.append(False, is_pass)[:-1]
    return Positions.where(games, counts & ~is_pass & ~after_pass)


def end_plies(games: GameArrays, rows: Indices, first: Ints, ply: Ints) -> Ints:
    """Return `ply` [R], the moves played in each of the games `rows`, less trailing passes after `first`."""
    stop = np.empty(len(rows), np.int32)
    points = games.width[rows].astype(np.int64) * games.height[rows]
    _strip_passes(games.moves, games.move_offset, rows, points, first, ply, stop)
    return stop


@kernel
def _strip_passes(moves: Any, move_offset: Any, rows: Any, points: Any, first: Any, ply: Any, stop: Any) -> None:
    for r in range(rows.shape[0]):
        t = ply[r]
        while t > first[r] and (moves[move_offset[rows[r]] + t - 1] & POINT_MASK) == points[r]:
            t -= 1
        stop[r] = t


ENCODER = KataEncoder(KATAGO22, MAX_SIZE, MAX_SIZE, pad=True)
"""The encoder of all games of KataGo's files."""


def rules_of(recipe: KatagoRecipe, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.void], Bytes]:
    """Return the rules and drop reasons of games, see `resolve_rules`."""
    default = None if recipe.default_rules is None else KataRules.parse(recipe.default_rules)
    return resolve_rules(batch["rules"], recorded_komi(batch), batch["handicap"], default, recipe.default_komi)


@dataclass(frozen=True)
class CountRows(SetJob):
    """Count the training rows that games give."""

    recipe: KatagoRecipe

    @cached_property
    def _boards(self) -> list[int] | None:
        boards = self.recipe.boards
        return None if boards is None else [w << 8 | h for w, h in map(parse_board, boards)]

    def read(self, shard: RowShard) -> Iterator[RowSlice]:
        """Yield the games of a shard."""
        return self.reader(COLUMNS, _GAMES)(shard)

    def process(self, item: RowSlice) -> SetChunk:
        """Select games, play them and count their rows, which have no content yet."""
        games = game_arrays(item.batch)
        rules, unresolved = rules_of(self.recipe, item.batch)
        opening = scan_openings(self.recipe, games)
        unfit = (*self._faults(item.batch, games, unresolved), (opening.early_pass, DropReason.EARLY_PASS))
        rows, drops, elsewhere = self.usable_rows(item.batch, unfit)
        first, repeat = opening.first[rows], opening.repeat[rows]
        stop, drop = self._end(games, rows, first, repeat, *ENCODER.replay(games, rows, rules[rows]))
        selected = select_plies(games, rows, first)
        game, ply = np.searchsorted(rows, selected.game), selected.ply
        kept = drop == DropReason.KEPT
        has_row = kept[game] & (ply < stop[game])
        counts = np.bincount(game[has_row], minlength=len(kept))[kept]
        return SetChunk(
            content=None, member=(item.first + rows[kept]).astype(np.int32), rows=counts.astype(np.int32),
            plies=ply[has_row].astype(np.uint16),
            drops=drops + Counter(DropReason(k).name for k in drop[~kept].tolist()), elsewhere=elsewhere,
            read=len(item.batch),
        )  # fmt: skip

    def _faults(
        self, batch: pa.RecordBatch, games: GameArrays, unresolved: Bytes
    ) -> Iterator[tuple[Bools, DropReason]]:
        """Yield the reasons to drop games, in KataGo's order, each after the games that it applies to."""
        recipe = self.recipe
        width, height = games.width.astype(np.int64), games.height.astype(np.int64)
        points, moves = width * height, np.diff(games.move_offset)
        fits = (np.minimum(width, height) >= MIN_SIZE) & (np.maximum(width, height) <= MAX_SIZE)
        if self._boards is not None:
            fits &= np.isin(width << 8 | height, self._boards)
        yield ~fits, DropReason.WRONG_SIZE
        if recipe.handicap:
            known = batch["handicap"].is_valid().to_numpy(zero_copy_only=False)
            yield games.warnings & ParseWarning.HANDICAP_TEXT != 0, DropReason.BAD_HANDICAP
            large = (games.handicap < 0) | (games.handicap > np.floor(np.sqrt(points) / 2))
            yield known & large, DropReason.HANDICAP_LARGE
        yield unresolved == DropReason.RULES_UNKNOWN, DropReason.RULES_UNKNOWN
        yield unresolved == DropReason.KOMI_UNKNOWN, DropReason.KOMI_UNKNOWN
        max_moves = recipe.max_moves if isinstance(recipe.max_moves, int) else 1.5 * points + 40
        yield moves > max_moves, DropReason.TOO_LONG
        if recipe.results == "any":
            return
        has_text = batch["result_text"].is_valid().to_numpy(zero_copy_only=False)
        winner = batch["winner"].is_valid().to_numpy(zero_copy_only=False)
        ending = map_distinct(batch["ending"], lambda e: e == "unknown", np.bool_)
        # A question mark is an unknown result, not an unparsable one.
        question_mark = map_distinct(batch["result_text"], lambda text: (text or "").strip() == "?", np.bool_)
        unparsed = has_text & ending & ~winner & ~question_mark
        yield ~winner if recipe.results == "known" else unparsed, DropReason.UNFINISHED
        yield to_numpy(batch["margin"].fill_null(0)) >= points, DropReason.HUGE_SCORE

    def _end(
        self, games: GameArrays, rows: Indices, first: Ints, repeat: Ints, drop: Bytes, ply: Ints
    ) -> tuple[Ints, Bytes]:
        """Return the number of moves of each game, [R], and the final drop reasons. drop, ply: from `replay`."""
        drop = np.where(drop == DropReason.AFTER_END, DropReason.KEPT, drop).astype(np.uint8)
        if self.recipe.illegal == "cut":
            drop[np.isin(drop, _CUT_REASONS)] = DropReason.KEPT
        drop[repeat < ply] = DropReason.NOT_ALTERNATING
        points = games.width[rows].astype(np.int64) * games.height[rows]
        stop = end_plies(games, rows, first, ply)
        min_moves = self.recipe.min_moves if isinstance(self.recipe.min_moves, int) else 15 + points // 8
        short = (drop == DropReason.KEPT) & ((stop <= first) | (stop - first < min_moves))
        drop[short] = np.where(np.diff(games.move_offset)[rows] == 0, DropReason.NO_MOVES, DropReason.TOO_SHORT)[short]
        return stop, drop

"""Which of some games KataGo's training files take, and how many rows each of them gives: they are played for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.config import parse_board
from kifu.corpus.schema import GAME_COLUMNS, drop_code, game_arrays, map_distinct, to_numpy
from kifu.datasets.renderer import CONTEXT_COLUMNS
from kifu.errors import DropReason
from kifu.katago.encoder import LEAST, MOST, KataEncoder, KataScratch
from kifu.katago.moves import Firsts, choose_plies, find_end_plies, find_firsts
from kifu.katago.recipe import KatagoRecipe
from kifu.katago.rules import KataRules, recorded_komi, resolve_rules
from kifu.planes.registry import KATAGO22
from kifu.recipes.pipeline import CatalogueRowsJob, RowSlice
from kifu.records.games import GameArrays, ParseWarning

_GAMES = 256
"""Looked at at one go."""

COLUMNS = (*GAME_COLUMNS, *CONTEXT_COLUMNS, "id", "winner", "margin", "ending", "result_text", "repairs")

_BROKEN = (
    DropReason.OFF_BOARD,
    DropReason.OCCUPIED,
    DropReason.SUICIDE,
    DropReason.KO,
    DropReason.SUPERKO,
    DropReason.SETUP_LATER,
)
"""What ends a game that could go on up to there; others leave nothing of it."""


class RuleResolver:
    """How games are played by what a recipe says of them; serves any number of threads."""

    def __init__(self, recipe: KatagoRecipe) -> None:
        self._recipe = recipe
        self._rules = None if recipe.default_rules is None else KataRules.parse(recipe.default_rules)
        self.encoder = KataEncoder(KATAGO22, MOST, MOST, pad=True)

    def terms(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint8]]:
        """What each of these games is played for; and why some cannot be played, as `terms_of` tells."""
        komi = recorded_komi(batch)
        return resolve_rules(batch["rules"], komi, batch["handicap"], self._rules, self._recipe.default_komi)

    def firsts(self, games: GameArrays) -> Firsts:
        """What is to be told of games by their passes and colours."""
        recipe = self._recipe
        return find_firsts(games, recipe.early_passes, recipe.handicap_moves == "begin", recipe.alternating)


class _Selected(NamedTuple):
    """Which of some rows of a catalogue are of the set, as far as is known before they are played.

    rows: [R] of the batch.  first, again: [R], see `Firsts`.  why, elsewhere: what became of the others.
    """

    rows: npt.NDArray[np.int64]
    terms: npt.NDArray[np.void]
    first: npt.NDArray[np.int32]
    again: npt.NDArray[np.int32]
    why: Counter[str]
    elsewhere: int


class RowCounts(NamedTuple):
    """Which of some games are kept, and their rows; read: of how many games.

    member, rows: [K] which rows of the catalogue, and how many rows of KataGo's each gives; plies: of all of these.
    """

    member: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    why: Counter[str]
    elsewhere: int
    read: int


@dataclass(frozen=True)
class CountRows(CatalogueRowsJob[RowCounts]):
    """How many rows games give."""

    columns = COLUMNS

    recipe: KatagoRecipe

    @cached_property
    def _rulebook(self) -> RuleResolver:
        return RuleResolver(self.recipe)

    @cached_property
    def _desks(self) -> list[KataScratch]:
        """Of threads that are not at work."""
        return []

    @cached_property
    def _boards(self) -> list[int] | None:
        boards = self.recipe.boards
        return None if boards is None else [w << 8 | h for w, h in map(parse_board, boards)]

    @property
    def games(self) -> int:
        return _GAMES

    def process(self, item: RowSlice) -> RowCounts:
        games = game_arrays(item.batch)
        chosen = self._select(item.batch, games)
        stop, drop = self._ended(games, chosen, *self._follow(games, chosen))
        _, game, ply = choose_plies(games, chosen.rows, chosen.first)
        kept = drop == DropReason.KEPT
        stays = kept[game] & (ply < stop[game])
        counts = np.bincount(game[stays], minlength=len(kept))[kept]
        return RowCounts(
            member=(item.first + chosen.rows[kept]).astype(np.int32),
            rows=counts.astype(np.int32),
            plies=ply[stays].astype(np.uint16),
            why=chosen.why + Counter(DropReason(k).name for k in drop[~kept].tolist()),
            elsewhere=chosen.elsewhere,
            read=len(item.batch),
        )

    def _select(self, batch: pa.RecordBatch, games: GameArrays) -> _Selected:
        """Which of these rows are of the set, as far as can be told before the games are played."""
        ours = self.ours(batch)
        terms, unknown = self._rulebook.terms(batch)
        drop = map_distinct(batch["drop"], drop_code, np.uint8)
        set_aside = drop != DropReason.KEPT
        for why, applies in self._faults(batch, games, unknown):
            drop[(drop == DropReason.KEPT) & applies] = why
        firsts = self._rulebook.firsts(games)
        drop[(drop == DropReason.KEPT) & firsts.early_pass] = DropReason.EARLY_PASS
        counted = drop[(ours | set_aside) & (drop != DropReason.KEPT)]
        rows = np.flatnonzero(ours & (drop == DropReason.KEPT))
        reasons = Counter(DropReason(k).name for k in counted.tolist())
        elsewhere = int(np.count_nonzero(~ours & ~set_aside))
        return _Selected(rows, terms[rows], firsts.first[rows], firsts.again[rows], reasons, elsewhere)

    def _faults(
        self, batch: pa.RecordBatch, games: GameArrays, unknown: npt.NDArray[np.uint8]
    ) -> Iterator[tuple[DropReason, npt.NDArray[np.bool_]]]:
        """Why games are set aside, in KataGo's order, and which."""
        recipe = self.recipe
        width, height = games.width.astype(np.int64), games.height.astype(np.int64)
        points, moves = width * height, np.diff(games.move_offset)
        fits = (np.minimum(width, height) >= LEAST) & (np.maximum(width, height) <= MOST)
        if self._boards is not None:
            fits &= np.isin(width << 8 | height, self._boards)
        yield DropReason.WRONG_SIZE, ~fits
        if recipe.handicap:
            told = batch["handicap"].is_valid().to_numpy(zero_copy_only=False)
            yield DropReason.BAD_HANDICAP, games.warnings & ParseWarning.HANDICAP_TEXT != 0
            large = (games.handicap < 0) | (games.handicap > np.floor(np.sqrt(points) / 2))
            yield DropReason.HANDICAP_LARGE, told & large
        yield DropReason.RULES_UNKNOWN, unknown == DropReason.RULES_UNKNOWN
        yield DropReason.KOMI_UNKNOWN, unknown == DropReason.KOMI_UNKNOWN
        most = recipe.max_moves if isinstance(recipe.max_moves, int) else 1.5 * points + 40
        yield DropReason.TOO_LONG, moves > most
        if recipe.results == "any":
            return
        told = batch["result_text"].is_valid().to_numpy(zero_copy_only=False)
        winner = batch["winner"].is_valid().to_numpy(zero_copy_only=False)
        ending = map_distinct(batch["ending"], lambda e: e == "unknown", np.bool_)
        yield DropReason.UNFINISHED, ~winner if recipe.results == "known" else told & ending & ~winner & ~_asked(batch)
        yield DropReason.HUGE_SCORE, to_numpy(batch["margin"].fill_null(0)) >= points

    def _follow(self, games: GameArrays, chosen: _Selected) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """[R] what ends each game, and before how many moves there is a position, as `KataEncoder.encode` tells."""
        try:
            desk = self._desks.pop()
        except IndexError:
            desk = self._rulebook.encoder.new_desk()
        encoder, rows = self._rulebook.encoder, chosen.rows
        take = np.full(int(np.diff(games.move_offset)[rows].sum()), -1)
        nothing = encoder.new_out(0), np.empty(0, np.int16)
        turned = np.zeros(len(rows), np.uint8)
        ended = encoder.encode(desk, games, rows, turned, take, *nothing, chosen.terms, encoder.new_inputs(0))
        self._desks.append(desk)
        return ended

    def _ended(
        self, games: GameArrays, chosen: _Selected, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """[R] where each game ends, and which are set aside for what became of them as they were played.

        drop, ply: [R], as `_follow` tells.
        """
        rows, first = chosen.rows, chosen.first
        drop = np.where(drop == DropReason.AFTER_END, DropReason.KEPT, drop).astype(np.uint8)
        if self.recipe.illegal == "cut":
            drop[np.isin(drop, _BROKEN)] = DropReason.KEPT
        drop[chosen.again < ply] = DropReason.NOT_ALTERNATING
        points = games.width[rows].astype(np.int64) * games.height[rows]
        stop = find_end_plies(games, rows, first, ply)
        asked = self.recipe.min_moves
        least = asked if isinstance(asked, int) else 15 + points // 8
        short = (drop == DropReason.KEPT) & ((stop <= first) | (stop - first < least))
        moves = np.diff(games.move_offset)[rows]
        drop[short] = np.where(moves == 0, DropReason.NO_MOVES, DropReason.TOO_SHORT)[short]
        return stop, drop


def _asked(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """[G] whether the result is a question mark: nothing that anybody failed to understand."""
    return map_distinct(batch["result_text"], lambda text: (text or "").strip() == "?", np.bool_)

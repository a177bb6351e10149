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

from kifu.corpus.catalogue import GAME_COLUMNS, by_value, drop_code, games_of, numbers
from kifu.datasets.drawing import TOLD_COLUMNS, komi_told
from kifu.datasets.sources import parse_board
from kifu.errors import Drop
from kifu.parcels import Parcel
from kifu.planes.katago.encoder import LEAST, MOST, KataDesk, KataEncoder
from kifu.planes.katago.rules import KataRules, terms_of
from kifu.planes.registry import KATAGO22
from kifu.recipes.kata_plies import Firsts, choose_plies, find_firsts, find_stops
from kifu.recipes.kata_sets import KataSets
from kifu.recipes.sets import RowsJob, Some
from kifu.records.games import Games, Note

_GAMES = 256
"""Looked at at one go."""

COLUMNS = (*GAME_COLUMNS, *TOLD_COLUMNS, "id", "winner", "margin", "ending", "result_text", "repairs")

_BROKEN = (Drop.OFF_BOARD, Drop.OCCUPIED, Drop.SUICIDE, Drop.KO, Drop.SUPERKO, Drop.SETUP_LATER)
"""What ends a game that could go on up to there; others leave nothing of it."""


class Rulebook:
    """How games are played by what a recipe says of them; serves any number of threads."""

    def __init__(self, recipe: KataSets) -> None:
        self._recipe = recipe
        self._rules = None if recipe.default_rules is None else KataRules.parse(recipe.default_rules)
        self.encoder = KataEncoder(KATAGO22, MOST, MOST, pad=True)

    def terms(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint8]]:
        """What each of these games is played for; and why some cannot be played, as `terms_of` tells."""
        komi = komi_told(batch)
        return terms_of(batch["rules"], komi, batch["handicap"], self._rules, self._recipe.default_komi)

    def firsts(self, games: Games) -> Firsts:
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


class Counted(NamedTuple):
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
class CountRows(RowsJob[Counted]):
    """How many rows games give."""

    columns = COLUMNS

    recipe: KataSets

    @cached_property
    def _rulebook(self) -> Rulebook:
        return Rulebook(self.recipe)

    @cached_property
    def _desks(self) -> list[KataDesk]:
        """Of threads that are not at work."""
        return []

    @cached_property
    def _boards(self) -> list[int] | None:
        boards = self.recipe.boards
        return None if boards is None else [w << 8 | h for w, h in map(parse_board, boards)]

    @property
    def games(self) -> int:
        return _GAMES

    def make(self, item: Some) -> Counted:
        games = games_of(item.batch)
        chosen = self._select(item.batch, games)
        stop, drop = self._ended(games, chosen, *self._follow(games, chosen))
        _, game, ply = choose_plies(games, chosen.rows, chosen.first)
        kept = drop == Drop.KEPT
        stays = kept[game] & (ply < stop[game])
        counts = np.bincount(game[stays], minlength=len(kept))[kept]
        return Counted(
            member=(item.first + chosen.rows[kept]).astype(np.int32),
            rows=counts.astype(np.int32),
            plies=ply[stays].astype(np.uint16),
            why=chosen.why + Counter(Drop(k).name for k in drop[~kept].tolist()),
            elsewhere=chosen.elsewhere,
            read=len(item.batch),
        )

    def pack(self, result: Counted) -> Parcel:
        return result._asdict()

    def unpack(self, parcel: Parcel) -> Counted:
        return Counted(**parcel)._replace(why=Counter(parcel["why"]))

    def _select(self, batch: pa.RecordBatch, games: Games) -> _Selected:
        """Which of these rows are of the set, as far as can be told before the games are played."""
        ours = self.ours(batch)
        terms, unknown = self._rulebook.terms(batch)
        drop = by_value(batch["drop"], drop_code, np.uint8)
        set_aside = drop != Drop.KEPT
        for why, applies in self._faults(batch, games, unknown):
            drop[(drop == Drop.KEPT) & applies] = why
        firsts = self._rulebook.firsts(games)
        drop[(drop == Drop.KEPT) & firsts.early_pass] = Drop.EARLY_PASS
        counted = drop[(ours | set_aside) & (drop != Drop.KEPT)]
        rows = np.flatnonzero(ours & (drop == Drop.KEPT))
        reasons = Counter(Drop(k).name for k in counted.tolist())
        elsewhere = int(np.count_nonzero(~ours & ~set_aside))
        return _Selected(rows, terms[rows], firsts.first[rows], firsts.again[rows], reasons, elsewhere)

    def _faults(
        self, batch: pa.RecordBatch, games: Games, unknown: npt.NDArray[np.uint8]
    ) -> Iterator[tuple[Drop, npt.NDArray[np.bool_]]]:
        """Why games are set aside, in KataGo's order, and which."""
        recipe = self.recipe
        width, height = games.width.astype(np.int64), games.height.astype(np.int64)
        points, moves = width * height, np.diff(games.move_offset)
        fits = (np.minimum(width, height) >= LEAST) & (np.maximum(width, height) <= MOST)
        if self._boards is not None:
            fits &= np.isin(width << 8 | height, self._boards)
        yield Drop.WRONG_SIZE, ~fits
        if recipe.handicap:
            told = batch["handicap"].is_valid().to_numpy(zero_copy_only=False)
            yield Drop.BAD_HANDICAP, games.notes & Note.HANDICAP_TEXT != 0
            large = (games.handicap < 0) | (games.handicap > np.floor(np.sqrt(points) / 2))
            yield Drop.HANDICAP_LARGE, told & large
        yield Drop.RULES_UNKNOWN, unknown == Drop.RULES_UNKNOWN
        yield Drop.KOMI_UNKNOWN, unknown == Drop.KOMI_UNKNOWN
        most = recipe.max_moves if isinstance(recipe.max_moves, int) else 1.5 * points + 40
        yield Drop.TOO_LONG, moves > most
        if recipe.results == "any":
            return
        told = batch["result_text"].is_valid().to_numpy(zero_copy_only=False)
        winner = batch["winner"].is_valid().to_numpy(zero_copy_only=False)
        ending = by_value(batch["ending"], lambda e: e == "unknown", np.bool_)
        yield Drop.UNFINISHED, ~winner if recipe.results == "known" else told & ending & ~winner & ~_asked(batch)
        yield Drop.HUGE_SCORE, numbers(batch["margin"].fill_null(0)) >= points

    def _follow(self, games: Games, chosen: _Selected) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
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
        self, games: Games, chosen: _Selected, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """[R] where each game ends, and which are set aside for what became of them as they were played.

        drop, ply: [R], as `_follow` tells.
        """
        rows, first = chosen.rows, chosen.first
        drop = np.where(drop == Drop.AFTER_END, Drop.KEPT, drop).astype(np.uint8)
        if self.recipe.illegal == "cut":
            drop[np.isin(drop, _BROKEN)] = Drop.KEPT
        drop[chosen.again < ply] = Drop.NOT_ALTERNATING
        points = games.width[rows].astype(np.int64) * games.height[rows]
        stop = find_stops(games, rows, first, ply)
        asked = self.recipe.min_moves
        least = asked if isinstance(asked, int) else 15 + points // 8
        short = (drop == Drop.KEPT) & ((stop <= first) | (stop - first < least))
        moves = np.diff(games.move_offset)[rows]
        drop[short] = np.where(moves == 0, Drop.NO_MOVES, Drop.TOO_SHORT)[short]
        return stop, drop


def _asked(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """[G] whether the result is a question mark: nothing that anybody failed to understand."""
    return by_value(batch["result_text"], lambda text: (text or "").strip() == "?", np.bool_)

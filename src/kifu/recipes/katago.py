"""From games of people to KataGo's training files, without a network: what its `writetrainingdata` was made for.

Which games, and which moves of them, follows `writetrainingdata` of KataGo v1.17.2, each rule a value of the recipe. It
has rows neither for a pass nor for the answer to one, since a search that plays by strict rules must not learn from
people when to pass, and trailing passes are no part of the game.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import GAME_COLUMNS, Catalogue, by_value, drop_code, games_of, numbers
from kifu.datasets.drawing import TOLD_COLUMNS, komi_told
from kifu.datasets.katago_meta import META_COLUMNS, metadata_rows
from kifu.datasets.katago_npz import KataWriter
from kifu.datasets.katago_rows import KataRows
from kifu.datasets.katago_targets import UNKNOWN_WINNER, Span, TargetDesk, fill_targets
from kifu.datasets.manifest import ExamplesManifest
from kifu.datasets.sources import parse_board
from kifu.errors import Drop
from kifu.planes.katago.encoder import LEAST, MOST, KataDesk, KataEncoder
from kifu.planes.katago.rules import KataRules, terms_of
from kifu.planes.registry import KATAGO22
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.progress import OpenBar, silent
from kifu.recipes.kata_plies import choose_plies, find_firsts, find_stops
from kifu.recipes.kata_sets import KataSets
from kifu.recipes.sets import BuiltExamples, SetJob, Some, Tally, build_sets, some_rows
from kifu.records.games import Games, Note

FORMAT = "katago-npz@1"

_GAMES = 8
"""Drawn at one go: 13 MB of rows."""

_COLUMNS = (*GAME_COLUMNS, *TOLD_COLUMNS, "id", "winner", "margin", "ending", "result_text", "repairs")

_BROKEN = (Drop.OFF_BOARD, Drop.OCCUPIED, Drop.SUICIDE, Drop.KO, Drop.SUPERKO, Drop.SETUP_LATER)
"""What ends a game that could go on up to there; others leave nothing of it."""


def build_katago(
    recipe: KataSets,
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    progress: OpenBar = silent,
) -> list[BuiltExamples]:
    """Makes a folder of KataGo's files for each set, with its manifest, and returns them in the order of `sets`.

    As `kifu.recipes.examples.build_examples` does: the arguments are the same, folders that are there already stay,
    bytes do not depend on the number of threads. Rows stand in the order of the games; shuffle.py shuffles them.
    Raises RecipeError, SourceError, FormatError or OutputError.
    """

    def make(job: SetJob) -> ExamplesManifest:
        return _Build(recipe, job).make()

    return build_sets(recipe, "", make, sources, Path(into), sets, jobs, progress)


class _Selected(NamedTuple):
    """Which of some rows of a catalogue are of the set, and which of their positions get a row, as far as is known.

    rows: [R] of the batch.  span: see `Span`; its `stop` is the end of the record.  again: see `Firsts`.
    take: [M] for all moves of these games the slot of the position before it, or -1.  game, ply: [N] of the slots.
    why, elsewhere: what became of the others.
    """

    rows: npt.NDArray[np.int64]
    terms: npt.NDArray[np.void]
    span: Span
    again: npt.NDArray[np.int32]
    take: npt.NDArray[np.int64]
    game: npt.NDArray[np.int64]
    ply: npt.NDArray[np.int32]
    why: Counter[str]
    elsewhere: int


class _Made(NamedTuple):
    """The rows of some games; member, counts: [K] which rows of the catalogue those are of, and how many of each."""

    rows: KataRows
    member: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    why: Counter[str]
    elsewhere: int
    read: int


@dataclass
class _Build:
    """One folder in the making."""

    recipe: KataSets
    job: SetJob
    tally: Tally = field(default_factory=Tally)
    desks: list[tuple[KataDesk, TargetDesk]] = field(default_factory=list)
    """Of threads that are not at work."""

    def __post_init__(self) -> None:
        recipe = self.recipe
        self.encoder = KataEncoder(KATAGO22, MOST, MOST, pad=True)
        self.rules = None if recipe.default_rules is None else KataRules.parse(recipe.default_rules)
        self.boards = None if recipe.boards is None else [w << 8 | h for w, h in map(parse_board, recipe.boards)]

    def make(self) -> ExamplesManifest:
        """Writes the folder."""
        recipe, job = self.recipe, self.job
        games = sum(len(catalogue) for catalogue in job.catalogues)
        with (
            job.progress(f"building {job.path.name}", games, "games") as bar,
            KataWriter(
                job.path,
                rows_per_file=recipe.rows_per_file,
                compression=recipe.compression,
                meta=recipe.metadata is not None,
            ) as writer,
        ):
            for catalogue in job.catalogues:
                writer.write(self._rows(catalogue, bar.advance), job.crew)
                self.tally.end(catalogue)
            written = writer.commit({"recipe": recipe.name, "title": recipe.title, "set": job.set})
        return self.tally.manifest(job, written, recipe, FORMAT, KATAGO22.name)

    def _rows(self, catalogue: Catalogue, advance: Any) -> Iterator[KataRows]:
        split = self.recipe.split
        columns = (
            *_COLUMNS,
            *(split.columns if split is not None else ()),
            *(META_COLUMNS if self.recipe.metadata is not None else ()),
        )
        for made in self.job.crew.map(self._draw, some_rows(catalogue, columns, _GAMES), self.job.crew.jobs + 1):
            self.tally.set_aside(made.why, made.elsewhere)
            self.tally.add(made.member, made.counts, made.plies)
            advance(made.read)
            yield made.rows

    def _draw(self, some: Some) -> _Made:
        """The rows of these games."""
        games = games_of(some.batch)
        chosen = self._select(some.batch, games)
        try:
            desk, target_desk = self.desks.pop()
        except IndexError:
            desk, target_desk = self.encoder.new_desk(), TargetDesk()
        rows, n = chosen.rows, len(chosen.game)
        planes, inputs, label = self.encoder.new_out(n), self.encoder.new_inputs(n), np.empty(n, np.int16)
        drop, ply = self.encoder.encode(
            desk, games, rows, np.zeros(len(rows), np.uint8), chosen.take, planes, label, chosen.terms, inputs
        )
        span, drop = self._ended(games, chosen, drop, ply)
        kept = drop == Drop.KEPT
        stays = np.flatnonzero(kept[chosen.game] & (chosen.ply < span.stop[chosen.game]))
        game, plies = chosen.game[stays], chosen.ply[stays]
        safe = span._replace(stop=np.where(kept, span.stop, 0))  # what cannot be played is not played again
        targets = fill_targets(target_desk, games, rows, chosen.terms, safe, game, plies)
        self.desks.append((desk, target_desk))
        made = KataRows(
            planes[stays], inputs[stays], *targets,
            q=np.zeros((len(stays), 3, targets.policy.shape[2]), np.int16),
            meta=self._metadata(some.batch, games, rows[game], plies),
        )  # fmt: skip
        counts = np.bincount(game, minlength=len(rows))[kept].astype(np.int32)
        why = chosen.why + Counter(Drop(k).name for k in drop[~kept].tolist())
        member = (some.first + rows[kept]).astype(np.int32)
        return _Made(made, member, counts, plies.astype(np.uint16), why, chosen.elsewhere, len(some.batch))

    def _metadata(
        self, batch: pa.RecordBatch, games: Games, game: npt.NDArray[np.int64], ply: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32] | None:
        if self.recipe.metadata is None:
            return None
        white = games.moves[games.move_offset[game] + ply] & WHITE_BIT != 0
        sides: npt.NDArray[np.float32] = metadata_rows(batch, self.recipe.metadata)[game, white.astype(np.int64)]
        return sides

    def _select(self, batch: pa.RecordBatch, games: Games) -> _Selected:
        """Which positions of these rows get a row, as far as can be told before the games are played."""
        recipe = self.recipe
        ours = np.ones(len(batch), bool)
        if recipe.split is not None:
            ours = recipe.split.codes(batch) == list(recipe.split.sets).index(self.job.set)
        terms, unknown = terms_of(batch["rules"], komi_told(batch), batch["handicap"], self.rules, recipe.default_komi)
        trust: Mapping[str, float] = {str(ending): weight for ending, weight in recipe.trust.items()}
        drop = by_value(batch["drop"], drop_code, np.uint8)
        set_aside = drop != Drop.KEPT
        for why, applies in self._faults(batch, games, unknown):
            drop[(drop == Drop.KEPT) & applies] = why
        firsts = find_firsts(games, recipe.early_passes, recipe.handicap_moves == "begin", recipe.alternating)
        drop[(drop == Drop.KEPT) & firsts.early_pass] = Drop.EARLY_PASS
        counted = drop[(ours | set_aside) & (drop != Drop.KEPT)]
        rows = np.flatnonzero(ours & (drop == Drop.KEPT))
        take, game, ply = choose_plies(games, rows, firsts.first[rows])
        span = Span(
            first=firsts.first[rows],
            stop=np.diff(games.move_offset)[rows].astype(np.int32),
            winner=by_value(batch["winner"], lambda winner: _WINNERS.get(winner or "", UNKNOWN_WINNER), np.int8)[rows],
            trusted=by_value(batch["ending"], lambda ending: trust.get(ending or "", 0), np.float32)[rows],
            key=numbers(batch["id"])[rows],
        )
        reasons = Counter(Drop(k).name for k in counted.tolist())
        elsewhere = int(np.count_nonzero(~ours & ~set_aside))
        return _Selected(rows, terms[rows], span, firsts.again[rows], take, game, ply, reasons, elsewhere)

    def _faults(
        self, batch: pa.RecordBatch, games: Games, unknown: npt.NDArray[np.uint8]
    ) -> Iterator[tuple[Drop, npt.NDArray[np.bool_]]]:
        """Why games are set aside, in KataGo's order, and which."""
        recipe = self.recipe
        width, height = games.width.astype(np.int64), games.height.astype(np.int64)
        points, moves = width * height, np.diff(games.move_offset)
        fits = (np.minimum(width, height) >= LEAST) & (np.maximum(width, height) <= MOST)
        if self.boards is not None:
            fits &= np.isin(width << 8 | height, self.boards)
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

    def _ended(
        self, games: Games, chosen: _Selected, drop: npt.NDArray[np.uint8], ply: npt.NDArray[np.int32]
    ) -> tuple[Span, npt.NDArray[np.uint8]]:
        """Where each game ends, and which are set aside for what became of them as they were played.

        drop, ply: [R], as `KataEncoder.encode` tells.
        """
        rows, span = chosen.rows, chosen.span
        drop = np.where(drop == Drop.AFTER_END, Drop.KEPT, drop).astype(np.uint8)
        if self.recipe.illegal == "cut":
            drop[np.isin(drop, _BROKEN)] = Drop.KEPT
        drop[chosen.again < ply] = Drop.NOT_ALTERNATING
        points = games.width[rows].astype(np.int64) * games.height[rows]
        stop = find_stops(games, rows, span.first, ply)
        asked = self.recipe.min_moves
        least = asked if isinstance(asked, int) else 15 + points // 8
        short = (drop == Drop.KEPT) & ((stop <= span.first) | (stop - span.first < least))
        drop[short] = np.where(span.stop == 0, Drop.NO_MOVES, Drop.TOO_SHORT)[short]
        return span._replace(stop=stop), drop


_WINNERS = {"black": BLACK, "white": WHITE, "draw": 0}


def _asked(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """[G] whether the result is a question mark: nothing that anybody failed to understand."""
    return by_value(batch["result_text"], lambda text: (text or "").strip() == "?", np.bool_)

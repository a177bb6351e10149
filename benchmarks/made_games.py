"""Generate millions of games from real ones, with a known number of duplicates.

Each distinct real game without setup gives up to 379 different ones: two pairs of passes are inserted before two of
its first 28 moves, which is always legal, so that all differ within their first 30 moves. Of 100 games, 95 are such,
2 equal an earlier one in all fields, 2 are an earlier one under another symmetry and name, and 1 is the first half of
an earlier one under another name.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import check_cleaning_rules
from kifu.corpus.export import rows_to_olf
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import POINTS, SCHEMA, game_arrays
from kifu.point import POINT_MASK, WHITE_BIT, symmetries
from kifu.records.olf_writer import ExportFailure

GAMES = 20_000
"""Games per file."""

COPIES = {"equal": 400, "symmetric": 400, "first half": 200}
"""Duplicates among them, at the end of the file."""

_NEW = GAMES - sum(COPIES.values())
_CHUNK = 8192
_PASS = 19 * 19
_SHORTEST = 60
"""Minimum number of moves of a real game: its first half then has at least the 30 that distinguish it."""

_FIRST_MOVES = 28
_PLACES = np.stack(np.triu_indices(_FIRST_MOVES, 1), axis=1)
"""[378, 2]: the plies before which passes are inserted."""

_NEVER = 1 << 40

Numbers = npt.NDArray[np.int64]

_CLEAN = {
    "name": "real", "title": "games to generate others from", "sizes": ["19x19"], "alternating": True,
    "min_stones": _SHORTEST, "duplicates": "games",
}  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """K games to generate, as columns of [K].

    Attributes:
        game: Number among the different games.
        turn: One of the 8 symmetries.
        half: True for the first half only.
        name: Suffix of Black's name; negative for the number of the variant.
    """

    game: Numbers
    turn: Numbers
    half: npt.NDArray[np.bool_]
    name: Numbers

    def part(self, first: int, last: int) -> Chosen:
        """Return games first to last - 1."""
        some = slice(first, last)
        return Chosen(self.game[some], self.turn[some], self.half[some], self.name[some])


class Maker:
    """Generates games from those of some archives."""

    def __init__(self, archives: Sequence[Path], catalogue: Path) -> None:
        """Ingest the archives into the catalogue unless it exists, and load it."""
        if not catalogue.exists():
            ingest(archives, catalogue, clean=check_cleaning_rules(_CLEAN, "real"))
        table = pa.Table.from_batches(map(_plain, open_catalogue(catalogue).batches()), SCHEMA)
        self._rows = table.combine_chunks().to_batches()[0]
        games = game_arrays(self._rows)
        self._moves, self._offset = games.moves, games.move_offset
        self._white_first = (self._moves[self._offset[:-1]] & WHITE_BIT != 0).astype(np.int64)
        self._turned = symmetries(19, 19).astype(np.uint16)

    @property
    def most(self) -> int:
        """The number of different games."""
        return len(self._rows) * (len(_PLACES) + 1)

    def write(self, number: int, path: Path) -> None:
        """Write file `number` (from 0) as compressed OLF."""
        part = path.with_name(f".{path.name}.part")
        chosen = choose(number)
        packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
        with part.open("wb") as file:
            for first in range(0, GAMES, _CHUNK):
                file.write(packer.compress(self._lines(chosen.part(first, first + _CHUNK))))
            file.write(packer.flush())
        part.rename(path)

    def _lines(self, chosen: Chosen) -> memoryview:
        moves, offset = self._play(chosen)
        rows = self._rows.take(pa.array(chosen.game % len(self._rows)))
        mark = np.where(chosen.name < 0, chosen.game // len(self._rows), -chosen.name)
        black = pc.binary_join_element_wise(pc.fill_null(rows["black"], ""), pc.cast(pa.array(mark), pa.string()), " ")
        changed = {"moves": pa.ListArray.from_arrays(pa.array(offset.astype(np.int32)), moves, POINTS), "black": black}
        columns = [changed.get(name, rows[name]) for name in SCHEMA.names]
        lines = rows_to_olf(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        return lines.data.data

    def _play(self, chosen: Chosen) -> tuple[npt.NDArray[np.uint16], Numbers]:
        """Return the moves of all games, and their offsets [K + 1]."""
        variant, row = np.divmod(chosen.game, len(self._rows))
        real = np.diff(self._offset)[row]
        places = np.where(variant[:, None] > 0, _PLACES[variant - 1], _NEVER)
        whole = real + 4 * (variant > 0)
        size = np.where(chosen.half, whole // 2, whole)
        offset = np.append(0, np.cumsum(size))

        def each(values: Numbers) -> Numbers:
            return np.repeat(values, size)

        at = np.arange(offset[-1]) - each(offset[:-1])
        first, second = at - each(places[:, 0]), at - each(places[:, 1]) - 2
        before = np.clip(first, 0, 2) + np.clip(second, 0, 2)
        point: npt.NDArray[np.uint16] = (
            self._moves[each(self._offset[row]) + np.minimum(at - before, each(real) - 1)] & POINT_MASK
        )
        passed = (first >> 1 == 0) | (second >> 1 == 0)
        point = np.where(passed, np.uint16(_PASS), self._turned[each(chosen.turn), point])
        white = (each(self._white_first[row]) + at) % 2 == 1
        return point | np.where(white, np.uint16(WHITE_BIT), np.uint16(0)), offset


def choose(number: int) -> Chosen:
    """Return the games of file `number` (from 0); duplicates are of games of the same or an earlier file."""
    draw = np.random.default_rng([number, 1846])
    word, turned, _ = COPIES.values()
    game = np.append(np.arange(_NEW) + number * _NEW, draw.integers(0, (number + 1) * _NEW, GAMES - _NEW))
    place = np.arange(GAMES)
    turn = np.where((place >= _NEW + word) & (place < _NEW + word + turned), draw.integers(1, 8, GAMES), 0)
    name = np.where(place < _NEW + word, -1, number * GAMES + place)
    return Chosen(game, turn, place >= _NEW + word + turned, name)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that games can be generated from and OLF can represent, without territory."""
    games = game_arrays(batch)
    count = np.diff(games.move_offset)
    passes = np.append(0, np.cumsum(games.moves & POINT_MASK == _PASS))[games.move_offset]
    last = np.flatnonzero(games.moves & POINT_MASK != _PASS)
    stones = count - np.diff(passes)
    end = np.searchsorted(last, games.move_offset[1:]) - 1
    until = np.where(stones > 0, last[np.maximum(end, 0)] + 1 - games.move_offset[:-1], 0) if len(last) else stones
    kept = batch["drop"].is_null().to_numpy(zero_copy_only=False)
    kept &= (np.diff(games.setup_offset) == 0) & (games.handicap <= 0) & (until == stones)
    bare = pa.nulls(len(batch), POINTS)
    columns = [bare if name == "territory" else batch[name] for name in SCHEMA.names]
    plain = pa.RecordBatch.from_arrays(columns, schema=SCHEMA).filter(pa.array(kept))
    return plain.filter(pa.array(rows_to_olf(plain).failure == ExportFailure.NONE))

"""Millions of games made of real ones, in whole arrays, with copies among them whose number is known.

Each real game, of those without setup that are no copies, gives up to 379 different ones: two pairs of passes are put
in before two of its first 28 moves, which any game allows; by its first 30 moves each is already told from all others.
Of 100 games 95 are such, 2 say the same as an earlier one word by word, 2 are an earlier one turned or mirrored, under
another name, and 1 is the first half of an earlier one, under another name.
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
"""In one file."""

COPIES = {"word by word": 400, "turned": 400, "first half": 200}
"""Of them, at the end of the file."""

_NEW = GAMES - sum(COPIES.values())
_CHUNK = 8192
_PASS = 19 * 19
_SHORTEST = 60
"""Moves of a real game that is taken: a first half then has more than the 30 that tell it from others."""

_FIRST_MOVES = 28
_PLACES = np.stack(np.triu_indices(_FIRST_MOVES, 1), axis=1)
"""[378, 2]: before which moves passes come."""

_NEVER = 1 << 40

Numbers = npt.NDArray[np.int64]

_CLEAN = {
    "name": "real", "title": "games to make others of", "sizes": ["19x19"], "alternating": True,
    "min_stones": _SHORTEST, "duplicates": "games",
}  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """Some games to be made, [K] each. game: its number among the different ones. turn: which of the 8 symmetries.
    half: whether only its first half is played. name: a number that Black's name ends in; below 0: that of its kind."""

    game: Numbers
    turn: Numbers
    half: npt.NDArray[np.bool_]
    name: Numbers

    def part(self, first: int, last: int) -> Chosen:
        """Games first to last - 1."""
        some = slice(first, last)
        return Chosen(self.game[some], self.turn[some], self.half[some], self.name[some])


class Maker:
    """Makes games of the real ones of some archives."""

    def __init__(self, archives: Sequence[Path], catalogue: Path) -> None:
        """catalogue: where the real games lie; it is made if it is not there."""
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
        """How many different games there can be."""
        return len(self._rows) * (len(_PLACES) + 1)

    def write(self, number: int, path: Path) -> None:
        """Writes the file of this number, from 0, as OLF."""
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
        """The moves of some games, one after another, and where each game's begin."""
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
    """The games of the file of this number, from 0. Copies are of games of the same file, or an earlier one."""
    draw = np.random.default_rng([number, 1846])
    word, turned, _ = COPIES.values()
    game = np.append(np.arange(_NEW) + number * _NEW, draw.integers(0, (number + 1) * _NEW, GAMES - _NEW))
    place = np.arange(GAMES)
    turn = np.where((place >= _NEW + word) & (place < _NEW + word + turned), draw.integers(1, 8, GAMES), 0)
    name = np.where(place < _NEW + word, -1, number * GAMES + place)
    return Chosen(game, turn, place >= _NEW + word + turned, name)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Those of a catalogue's rows that games are made of, as OLF can say them; their territory is left out."""
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

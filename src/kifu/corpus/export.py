"""Rows of the catalogue as games again: as lines of OLF, in whole arrays; as a `Game`, and as SGF, one by one.

What a row has in words is written as it stands where the row came from SGF; words of other formats are spelled as SGF
spells them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.fields import TEXT_COLUMNS
from kifu.corpus.schema import READER_REASONS, game_arrays
from kifu.errors import DropReason
from kifu.point import NO_POINT, POINT_MASK, WHITE_BIT, to_sgf
from kifu.records import olf, tygem
from kifu.records.game import Game, write_record
from kifu.records.games import NO_HANDICAP, GameArrays, ParseWarning
from kifu.records.olf import ExportFailure, OlfFields, OlfLines, write_olf
from kifu.records.sgf import make_record, text_properties

# The root's properties in the order in which they are written, and the columns of their texts.
_WORDS = {
    "PB": "black", "BR": "black_rank", "PW": "white", "WR": "white_rank", "RE": "result_text", "KM": "komi_text",
    "DT": "date_text", "TM": "time_text", "OT": "overtime", "RU": "rules", "EV": "event", "RO": "round", "PC": "place",
    "GN": "title",
}  # fmt: skip

# How what other formats say is spelled in SGF.
_AS_SGF: Mapping[str, Callable[[Mapping[str, str]], Mapping[str, str | None]]] = {
    "olf": olf.to_sgf_properties,
    "tygem": tygem.to_sgf_properties,
}


def territory_arrays(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """The territory of some rows as (territory [T] uint16, offset [G + 1] int64), see `kifu.records.games.ParsedBlock`."""
    column = batch.column("territory")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return column.flatten().to_numpy(), np.append(0, np.cumsum(lengths, dtype=np.int64))


def read_games(batch: pa.RecordBatch) -> GameArrays:
    """The games of some rows as their records have them: of reasons to drop one, only those of a reader stay."""
    games = game_arrays(batch)
    return replace(games, drop=np.where(np.isin(games.drop, READER_REASONS), games.drop, np.uint8(DropReason.KEPT)))


def rows_to_olf(batch: pa.RecordBatch) -> OlfLines:
    """The rows as lines of OLF, dropped ones too if their record could be read."""
    words = OlfFields(**{name: batch.column(name) for name in OlfFields.__dataclass_fields__})
    return write_olf(read_games(batch), words, *territory_arrays(batch))


def rows_to_sgf(batch: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.uint8]]:
    """The rows as SGF -> (a record for each row, b"" where there is none; why [G] uint8 of `ExportFailure`).

    SGF cannot say what a reader could read nothing of, nor points beyond the board; it says every other row, dropped
    or not. Reading a record gives the same play, terms and words, but for what SGF has no word for: how a move that is
    no point was spelled, the order of a node's setup stones of different colours, what was cut off the game, and
    of other formats' rows the spelling of the words.
    """
    games = read_games(batch)
    territory, offset = territory_arrays(batch)
    why = _unsayable(games, territory, offset)
    written = []
    for (game, words), unsayable, begin, end in zip(_games(batch, games), why, offset, offset[1:]):
        record = b"" if unsayable else write_record(game, text_properties(game.handicap, words))
        written.append(_with_territory(record, game, territory[begin:end]) if begin < end and record else record)
    return written, why


def rows_to_games(batch: pa.RecordBatch) -> Iterator[Game]:
    """The rows as games; the `drop` of each is its reader's, if that had a reason."""
    for game, words in _games(batch, read_games(batch)):
        yield replace(game, record=make_record(game.width, game.height, game.handicap, words))


def _games(batch: pa.RecordBatch, games: GameArrays) -> Iterator[tuple[Game, Mapping[str, str | None]]]:
    """The rows as games without a record, and what its root would say."""
    told = {name: batch.column(name).to_pylist() for name in (*TEXT_COLUMNS.values(), "format")}
    archives, members = batch.column("archive").to_pylist(), batch.column("member").to_pylist()
    for g in range(len(games)):
        moves = slice(games.move_offset[g], games.move_offset[g + 1])
        setup = slice(games.setup_offset[g], games.setup_offset[g + 1])
        handicap = int(games.handicap[g])
        game = Game(
            width=int(games.width[g]),
            height=int(games.height[g]),
            moves=_read_only(games.moves[moves]),
            setup=_read_only(games.setup[setup]),
            setup_ply=_read_only(games.setup_ply[setup]),
            root_setup=int(games.root_setup[g]),
            to_play=int(games.to_play[g]),
            handicap=None if handicap == NO_HANDICAP else handicap,
            record=b"",
            warnings=ParseWarning(int(games.warnings[g])),
            drop=DropReason(games.drop[g]),
            source=archives[g],
            name=members[g],
        )
        yield game, _sgf_words({name: column[g] for name, column in told.items()})


def _read_only(part: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    part = part.view()
    part.setflags(write=False)
    return part


def _sgf_words(row: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """The root's properties of a row. row: its texts by column, and its format."""
    to_sgf_properties = _AS_SGF.get(row["format"] or "")
    if to_sgf_properties is None:
        return {name: row[column] for name, column in _WORDS.items()}
    return to_sgf_properties({field: row[column] or "" for field, column in TEXT_COLUMNS.items()})


def _with_territory(record: bytes, game: Game, territory: npt.NDArray[np.uint16]) -> bytes:
    """A record as `write_record` writes it, with TB and TW in its last node."""
    parts = [record.removesuffix(b")\n")]
    for name, owned in ((b"TB", territory & WHITE_BIT == 0), (b"TW", territory & WHITE_BIT != 0)):
        points = (territory[owned] & POINT_MASK).tolist()
        if points:
            parts.append(name + b"".join(b"[%s]" % to_sgf(p, game.width, game.height).encode() for p in points))
    return b"".join(parts) + b"\n)\n"


def _unsayable(
    games: GameArrays, territory: npt.NDArray[np.uint16], offset: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """[G] uint8 of `ExportFailure`: why SGF cannot say a game. A move that is no point of the board it can."""
    points = games.width.astype(np.int64) * games.height
    why = np.where(points == 0, ExportFailure.BOARD, ExportFailure.SAYABLE)
    moves = games.moves & POINT_MASK
    for reason, found, at, beyond in (
        (ExportFailure.MOVES, np.where(moves == NO_POINT, 0, moves), games.move_offset, points),
        (ExportFailure.MOVES, territory & POINT_MASK, offset, points - 1),
        (ExportFailure.SETUP, games.setup & POINT_MASK, games.setup_offset, points - 1),
    ):
        game = np.repeat(np.arange(len(games)), np.diff(at))
        why[game[found > beyond[game]]] = reason
    return np.where(games.drop != DropReason.KEPT, ExportFailure.SET_ASIDE, why).astype(np.uint8)

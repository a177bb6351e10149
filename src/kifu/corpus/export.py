"""Write rows of a catalogue: as games, and as records in SGF or OLF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus import schema
from kifu.corpus.hashes import handicap_as_setup
from kifu.corpus.rows import TEXT_COLUMNS, recorded_games
from kifu.errors import DropReason
from kifu.point import NO_POINT, POINT_MASK, WHITE_BIT, to_sgf
from kifu.records.detect import RECORD_FORMATS
from kifu.records.game import Game, game_from_arrays, write_record
from kifu.records.games import GameArrays, name_properties
from kifu.records.olf_writer import ExportFailure, OlfFields, OlfLines, write_olf
from kifu.records.sgf import make_record, text_properties


def territory_arrays(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the territory of G rows: [T] uint16 and offset [G + 1] int64, see `kifu.records.games.ParsedBlock`."""
    column = batch.column("territory")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return column.flatten().to_numpy(), np.append(0, np.cumsum(lengths, dtype=np.int64))


def rows_to_olf(batch: pa.RecordBatch) -> OlfLines:
    """Return the rows as lines of OLF, dropped ones too if their record was readable.

    Handicap stones that are moves, as many as HA states, are written as those of the setup.
    """
    text = OlfFields(**{name: batch.column(name) for name in OlfFields.__dataclass_fields__})
    return write_olf(handicap_as_setup(recorded_games(batch), stated_only=True), text, *territory_arrays(batch))


def rows_to_sgf(batch: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.uint8]]:
    """Return the rows as SGF records, dropped ones too, and why some cannot be written.

    Unreadable records and points beyond the board cannot be written. Parsing a written record restores moves, setup and
    text, except: the spelling of moves that are no points, the order of a node's setup stones of different colours,
    moves that were cut, and the spelling of other formats' text. Evaluations and game_type are written as KataGo does;
    times used are not, as they do not determine clocks.

    Returns:
        (records: one for each row, b"" for rows that cannot be written; failure: [G] uint8 of `ExportFailure`).
    """
    games = recorded_games(batch)
    territory, offset = territory_arrays(batch)
    failure = _export_failures(games, territory, offset)
    records = []
    rows = zip(
        _games(batch, games), _comments(batch), batch.column("game_type").to_pylist(), failure, offset, offset[1:]
    )
    for (game, properties), comments, game_type, failed, begin, end in rows:
        if comments or game_type:
            first = next((ply for ply, comment in enumerate(comments) if comment), len(game))
            kind = f",gtype={game_type}" if game_type else ""
            properties = {**properties, "C": f"startTurnIdx={first}{kind}"}
        record = b"" if failed else write_record(game, text_properties(game.handicap, properties), comments)
        records.append(_with_territory(record, game, territory[begin:end]) if begin < end and record else record)
    return records, failure


def rows_to_games(batch: pa.RecordBatch) -> Iterator[Game]:
    """Yield the rows as games; only a reader's reason to drop a game becomes its `drop`."""
    for game, properties in _games(batch, recorded_games(batch)):
        yield replace(game, record=make_record(game.width, game.height, game.handicap, properties))


def _games(batch: pa.RecordBatch, games: GameArrays) -> Iterator[tuple[Game, Mapping[str, str | None]]]:
    """Yield the rows as games without a record, and their root's text properties."""
    text = {name: batch.column(name).to_pylist() for name in (*TEXT_COLUMNS.values(), "format")}
    archives, members = batch.column("archive").to_pylist(), batch.column("member").to_pylist()
    for g in range(len(games)):
        game = game_from_arrays(games, g, record=b"", source=archives[g], name=members[g])
        texts = {field: text[column][g] or "" for field, column in TEXT_COLUMNS.items()}
        record_format = RECORD_FORMATS.get(text["format"][g] or "sgf")
        yield game, name_properties(texts) if record_format is None else record_format.to_sgf_properties(texts)


def _comments(batch: pa.RecordBatch) -> Iterator[list[bytes]]:
    """Yield the comments of each row's moves, b"" for those without evaluation; [] for rows without evaluations."""
    column = batch.column("evaluations")
    win, loss, score = schema.evaluations_array(column)[:, :3].T
    known = ~np.isnan(win)
    no_result = np.round(np.maximum(1 - win - loss, 0), 2)
    shares = (_decimals(values[known], 2) for values in (win, loss, no_result))
    visited = column.flatten().flatten()[-1].drop_null().to_pylist()  # exact, unlike float32
    texts = map("C[{} {} {} {} v={}]".format, *shares, _decimals(score[known], 1), visited)
    found = (next(texts).encode() if is_known else b"" for is_known in known.tolist())
    for length in pc.fill_null(pc.list_value_length(column), 0).to_pylist():
        yield list(islice(found, length))


def _decimals(values: npt.NDArray[np.float32], digits: int) -> list[str]:
    """Return numbers with this number of decimals, or as many as are needed to read the same value."""
    texts = np.char.mod(f"%.{digits}f", values)
    exact = texts.astype(np.float32) == values
    return [
        text if same else np.format_float_positional(value)
        for text, same, value in zip(texts.tolist(), exact.tolist(), values)
    ]


def _with_territory(record: bytes, game: Game, territory: npt.NDArray[np.uint16]) -> bytes:
    """Append TB and TW to the last node of a record from `write_record`."""
    parts = [record.removesuffix(b")\n")]
    for name, owned in ((b"TB", territory & WHITE_BIT == 0), (b"TW", territory & WHITE_BIT != 0)):
        points = (territory[owned] & POINT_MASK).tolist()
        if points:
            parts.append(name + b"".join(b"[%s]" % to_sgf(p, game.width, game.height).encode() for p in points))
    return b"".join(parts) + b"\n)\n"


def _export_failures(
    games: GameArrays, territory: npt.NDArray[np.uint16], offset: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Return why games cannot be written as SGF: [G] uint8 of `ExportFailure`. NO_POINT moves can be written."""
    points = games.width.astype(np.int64) * games.height
    failure = np.where(points == 0, ExportFailure.BOARD, ExportFailure.NONE)
    moves = games.moves & POINT_MASK
    for reason, values, value_offset, largest in (
        (ExportFailure.MOVES, np.where(moves == NO_POINT, 0, moves), games.move_offset, points),
        (ExportFailure.MOVES, territory & POINT_MASK, offset, points - 1),
        (ExportFailure.SETUP, games.setup & POINT_MASK, games.setup_offset, points - 1),
    ):
        game = np.repeat(np.arange(len(games)), np.diff(value_offset))
        failure[game[values > largest[game]]] = reason
    return np.where(games.drop != DropReason.KEPT, ExportFailure.DROPPED, failure).astype(np.uint8)

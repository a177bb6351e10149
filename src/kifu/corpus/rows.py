"""From games as readers give them, or as a catalogue holds them, to rows of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kifu.corpus.cleaning import CleaningRules, apply_rules
from kifu.corpus.fields import TEXT_COLUMNS, UnparsedTexts, parse_fields
from kifu.corpus.hashes import hash_games, hash_rows
from kifu.corpus.schema import POINTS, READER_REASONS, SCHEMA, drop_names, game_arrays, warnings_to_text, with_drop
from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import Rules
from kifu.point import NO_POINT, POINT_MASK, to_gtp
from kifu.records.decode import decode
from kifu.records.games import NO_HANDICAP, GameArrays, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.programs import Programs


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of the catalogue, but for the columns `drop` and `drop_detail`, which other games may still decide.

    columns: by name, [G] each.  drop: [G] uint8 of `DropReason`.  detail: row -> what there is to say about its drop.
    unclear: by column, the texts that were not understood, with their counts.
    """

    columns: dict[str, pa.Array]
    drop: npt.NDArray[np.uint8]
    detail: dict[int, str]
    unclear: UnparsedTexts

    def batch(self, drop: npt.NDArray[np.uint8]) -> pa.RecordBatch:
        """The rows in the catalogue's columns, dropped as told."""
        detail = pa.nulls(len(drop), pa.string())
        if self.detail:
            told = [self.detail.get(g) if drop[g] == self.drop[g] else None for g in range(len(drop))]
            detail = pa.array(told, pa.string())
        return with_drop(self.columns, drop, detail)


def rows_from_parsed(reading: ParsedBlock, archive: str, clean: CleaningRules, programs: Programs) -> Rows:
    """The rows of some games that a reader gave.

    archive: what the catalogue calls the container.
    """
    games, block = reading.games, reading.block
    columns, unclear = _told(reading, archive, programs)
    raw = {
        int(g): block.data[games.start[g] : games.stop[g]].tobytes()
        for g in np.flatnonzero(np.isin(games.drop, READER_REASONS))
    }
    moves = pa.array(np.diff(games.move_offset).astype(np.int32))
    return _rows(games, columns, moves, raw, clean, unclear)


def recorded_rows(reading: ParsedBlock, archive: str, programs: Programs) -> pa.RecordBatch:
    """The rows of some games as they were read, with those columns only that take neither replay nor hashes.

    `drop` says what the reader says. archive: what the catalogue calls the container.
    """
    columns, _ = _told(reading, archive, programs)
    columns |= _play(reading.games) | {"drop": drop_names(reading.games.drop)}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in SCHEMA.names if name in columns})


def _told(reading: ParsedBlock, archive: str, programs: Programs) -> tuple[dict[str, pa.Array], UnparsedTexts]:
    """Columns: where the games lie, what they say in words, what that means; and what of it was not understood."""
    games, block = reading.games, reading.block
    decoded = decode(reading)
    text = {column: decoded.text[field] for field, column in TEXT_COLUMNS.items()}
    if reading.format == "sgf":
        periods = pc.binary_join_element_wise(decoded.text["periods"], decoded.text["period_seconds"], "x")
        periods = pc.if_else(pc.equal(periods, "0x0"), None, periods)
        text["overtime"] = pc.coalesce(text["overtime"], pc.binary_join_element_wise(periods, "byo-yomi", " "))
    typed, unclear = parse_fields(reading.format, text, programs)
    size = len(games)
    fixed = {
        "archive": pa.repeat(archive, size),
        "member": _member_names(block).take(pa.array(games.block_index)),
        "entry": pa.array(games.member),
        "index": pa.array(reading.index),
        "format": pa.repeat(reading.format, size),
        "encoding": decoded.encoding,
        "territory": _territory(reading),
    }
    return fixed | text | typed, unclear


def rows_from_catalogue(batch: pa.RecordBatch, clean: CleaningRules) -> Rows:
    """The rows of a catalogue, judged anew. What a reader alone can say of a game stays as it was."""
    games = game_arrays(batch)
    read = np.where(np.isin(games.drop, READER_REASONS), games.drop, np.uint8(DropReason.KEPT))
    columns = {name: batch.column(name) for name in SCHEMA.names if name not in ("drop", "drop_detail")}
    return _rows(replace(games, drop=read), columns, columns["n_moves"], None, clean, {})


def _rows(
    games: GameArrays,
    columns: dict[str, pa.Array],
    recorded: pa.Array,
    raw: Mapping[int, bytes] | None,
    clean: CleaningRules,
    unclear: UnparsedTexts,
) -> Rows:
    """Replays, cuts, hashes and judges the games.

    columns: all that does not come of that. recorded: how many moves each record has.
    raw: the bytes of the records that nothing could be read of, which give their id; None: columns has it.
    """
    illegal, legal = replay_all(games, Rules.named(clean.rules))
    illegal[games.drop != DropReason.KEPT] = DropReason.KEPT
    if clean.illegal == "cut":
        games = _cut(games, illegal, legal)
        detail = {}
        illegal[:] = DropReason.KEPT
    else:
        stuck = np.flatnonzero(~np.isin(illegal, (DropReason.KEPT, *READER_REASONS)))
        detail = {g: _where(games, g, int(legal[g])) for g in stuck.tolist()}
    canonical, opening = hash_games(games)
    ids = _ids(games, columns, raw)
    columns = (
        columns
        | _play(games)
        | {
            "id": pa.array(ids),
            "canonical": pa.array(canonical),
            "opening": pa.array(opening),
            "n_moves": recorded,
            "n_legal": pa.array(legal),
        }
    )
    drop = np.where(games.drop != DropReason.KEPT, games.drop, illegal)
    batch = pa.RecordBatch.from_pydict({name: columns[name] for name in SCHEMA.names if name in columns})
    drop = np.where(drop != DropReason.KEPT, drop, apply_rules(clean, games, batch))
    return Rows(columns, drop, detail, unclear)


def _play(games: GameArrays) -> dict[str, pa.Array]:
    """Columns: the board, the terms, the setup and the moves of games."""
    return {
        "width": pa.array(games.width),
        "height": pa.array(games.height),
        "handicap": pa.array(games.handicap, mask=games.handicap == NO_HANDICAP),
        "to_play": pa.array(games.to_play),
        "setup": _points(games.setup, games.setup_offset),
        "setup_ply": _points(games.setup_ply, games.setup_offset),
        "root_setup": pa.array(games.root_setup),
        "moves": _points(games.moves, games.move_offset),
        "repairs": _repairs(games.warnings),
    }


def _cut(games: GameArrays, illegal: npt.NDArray[np.uint8], legal: npt.NDArray[np.int32]) -> GameArrays:
    """The games up to their first illegal move."""
    if not illegal.any():
        return games
    moves, setup = np.diff(games.move_offset), np.diff(games.setup_offset)
    until = np.where(illegal != DropReason.KEPT, legal, moves)
    stays = np.arange(len(games.moves)) - np.repeat(games.move_offset[:-1], moves) < np.repeat(until, moves)
    # A setup stone that is no point of the board makes its ply illegal; it goes with the moves after it.
    stands = games.setup_ply < np.repeat(until + (illegal == DropReason.KEPT), setup)
    kept_setup = np.append(0, np.cumsum(stands))[games.setup_offset]
    return replace(
        games,
        moves=games.moves[stays],
        move_offset=np.append(0, np.cumsum(until)),
        setup=games.setup[stands],
        setup_ply=games.setup_ply[stands],
        setup_offset=kept_setup,
        root_setup=np.minimum(games.root_setup, np.diff(kept_setup)).astype(np.uint16),
        warnings=games.warnings | np.where(illegal != DropReason.KEPT, np.uint32(ParseWarning.CUT), np.uint32(0)),
    )


def _where(games: GameArrays, g: int, ply: int) -> str:
    """Which move of game g cannot be played."""
    width, height = int(games.width[g]), int(games.height[g])
    at = games.move_offset[g] + ply
    point = int(games.moves[at] & POINT_MASK) if at < games.move_offset[g + 1] else NO_POINT
    return f"move {ply + 1}" + (f" at {to_gtp(point, width, height)}" if point <= width * height else "")


def _ids(games: GameArrays, columns: Mapping[str, pa.Array], raw: Mapping[int, bytes] | None) -> npt.NDArray[np.uint64]:
    """The ids: all that the row says; of a record that says nothing, its bytes."""
    ids = hash_rows(games, [columns[name] for name in TEXT_COLUMNS.values()])
    if raw is None:
        kept = columns["id"].to_numpy()
        return np.where(games.drop != DropReason.KEPT, kept, ids)
    for g, record in raw.items():
        ids[g] = int.from_bytes(blake3(record).digest(8), "little")
    return ids


def _member_names(block: RecordBlock) -> pa.StringArray:
    """The names of a block's members for people."""
    offsets = pa.py_buffer(block.name_offset.astype(np.int32))
    names = pa.StringArray.from_buffers(len(block), offsets, pa.py_buffer(block.names))
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([block.name(k) for k in range(len(block))], pa.string())
    return names


def _points(values: npt.NDArray[np.uint16], offsets: npt.NDArray[np.int64]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values), type=POINTS)


def _territory(reading: ParsedBlock) -> pa.ListArray:
    """Null where a record tells none."""
    told = np.diff(reading.territory_offset) > 0
    offsets = pa.array(reading.territory_offset.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(reading.territory), type=POINTS, mask=pa.array(~told))


def _repairs(warnings: npt.NDArray[np.uint32]) -> pa.Array:
    distinct, codes = np.unique(warnings, return_inverse=True)
    return pa.array([warnings_to_text(int(bits)) for bits in distinct], pa.string()).take(pa.array(codes))

"""Make rows of the catalogue from parsed records, or anew from the rows of another catalogue."""

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
from kifu.corpus.schema import (
    EVALUATION,
    EVALUATIONS,
    MOVE_COLUMNS,
    POINTS,
    READER_REASONS,
    SCHEMA,
    SECONDS,
    drop_names,
    game_arrays,
    move_lists,
    warnings_to_text,
    with_drop,
)
from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import Rules
from kifu.point import NO_POINT, POINT_MASK, to_gtp
from kifu.records.decode import decode
from kifu.records.games import NO_HANDICAP, GameArrays, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.text import Programs


@dataclass(frozen=True, slots=True)
class Rows:
    """G rows of the catalogue whose drop reasons are not final: duplicates are found later.

    Attributes:
        columns: By name, [G] each; all but `drop` and `drop_detail`.
        drop: [G] uint8 of `DropReason`.
        detail: By row, the value of `drop_detail` for that reason.
        unparsed: The texts that could not be parsed.
    """

    columns: dict[str, pa.Array]
    drop: npt.NDArray[np.uint8]
    detail: dict[int, str]
    unparsed: UnparsedTexts

    def batch(self, drop: npt.NDArray[np.uint8]) -> pa.RecordBatch:
        """Return the rows in the catalogue's schema.

        Args:
            drop: [G] uint8, the final `DropReason` values.
        """
        detail = pa.nulls(len(drop), pa.string())
        if self.detail:
            texts = [self.detail.get(g) if drop[g] == self.drop[g] else None for g in range(len(drop))]
            detail = pa.array(texts, pa.string())
        return with_drop(self.columns, drop, detail)


def rows_from_parsed(parsed: ParsedBlock, archive: str, rules: CleaningRules, programs: Programs) -> Rows:
    """Return the rows of a parsed block.

    Args:
        archive: The value of column `archive`.
    """
    games, block = parsed.games, parsed.block
    columns, unparsed = _recorded_columns(parsed, archive, programs)
    unreadable = {
        int(g): block.data[games.start[g] : games.stop[g]].data
        for g in np.flatnonzero(np.isin(games.drop, READER_REASONS))
    }
    moves = pa.array(np.diff(games.move_offset).astype(np.int32))
    return _rows(games, columns, moves, unreadable, rules, unparsed)


def recorded_rows(parsed: ParsedBlock, archive: str, programs: Programs) -> pa.RecordBatch:
    """Return the rows of a parsed block as recorded, with only the columns that need neither replay nor hashes.

    Args:
        parsed: The games; their drop reasons become column `drop`.
        archive: The value of column `archive`.
    """
    columns, _ = _recorded_columns(parsed, archive, programs)
    columns |= _game_columns(parsed.games) | {"drop": drop_names(parsed.games.drop)}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in SCHEMA.names if name in columns})


def _recorded_columns(
    parsed: ParsedBlock, archive: str, programs: Programs
) -> tuple[dict[str, pa.Array], UnparsedTexts]:
    """Return location, text, parsed text, territory and figures of moves, and the texts that could not be parsed."""
    games, block = parsed.games, parsed.block
    decoded = decode(parsed)
    text = {column: decoded.text[field] for field, column in TEXT_COLUMNS.items()}
    if parsed.format == "sgf":
        periods = pc.binary_join_element_wise(decoded.text["periods"], decoded.text["period_seconds"], "x")
        periods = pc.if_else(pc.equal(periods, "0x0"), None, periods)
        text["overtime"] = pc.coalesce(text["overtime"], pc.binary_join_element_wise(periods, "byo-yomi", " "))
    typed, unparsed = parse_fields(parsed.format, text, programs)
    size = len(games)
    location = {
        "archive": pa.repeat(archive, size),
        "member": _member_names(block).take(pa.array(games.block_index)),
        "entry": pa.array(games.member),
        "index": pa.array(parsed.index),
        "format": pa.repeat(parsed.format, size),
        "encoding": decoded.encoding,
        "game_type": decoded.text["game_type"],
        "territory": _territory(parsed),
        "move_seconds": _move_seconds(parsed),
        "evaluations": _evaluations(parsed),
    }
    return location | text | typed, unparsed


def rows_from_catalogue(batch: pa.RecordBatch, rules: CleaningRules) -> Rows:
    """Return rows of a catalogue with the rules applied anew; only a reader's drop reasons stay."""
    games = game_arrays(batch)
    reader_drop = np.where(np.isin(games.drop, READER_REASONS), games.drop, np.uint8(DropReason.KEPT))
    columns = {name: batch.column(name) for name in SCHEMA.names if name not in ("drop", "drop_detail")}
    return _rows(replace(games, drop=reader_drop), columns, columns["n_moves"], None, rules, {})


def _rows(
    games: GameArrays,
    columns: dict[str, pa.Array],
    recorded_moves: pa.Array,
    unreadable: Mapping[int, memoryview] | None,
    rules: CleaningRules,
    unparsed: UnparsedTexts,
) -> Rows:
    """Replay, cut and hash the games, and apply the rules."""
    illegal, legal = replay_all(games, Rules.named(rules.rules))
    illegal[games.drop != DropReason.KEPT] = DropReason.KEPT
    if rules.illegal == "cut":
        recorded, games = games, _cut(games, illegal, legal)
        if games is not recorded:
            columns = columns | {name: _cut_lists(columns[name], recorded, games) for name in MOVE_COLUMNS}
        detail = {}
        illegal[:] = DropReason.KEPT
    else:
        stuck = np.flatnonzero(~np.isin(illegal, (DropReason.KEPT, *READER_REASONS)))
        detail = {g: _illegal_move(games, g, int(legal[g])) for g in stuck.tolist()}
    canonical, opening = hash_games(games)
    columns = (
        columns
        | _game_columns(games)
        | {
            "id": pa.array(_ids(games, columns, unreadable)),
            "canonical": pa.array(canonical),
            "opening": pa.array(opening),
            "n_moves": recorded_moves,
            "n_legal": pa.array(legal),
        }
    )
    drop = np.where(games.drop != DropReason.KEPT, games.drop, illegal)
    batch = pa.RecordBatch.from_pydict({name: columns[name] for name in SCHEMA.names if name in columns})
    drop = np.where(drop != DropReason.KEPT, drop, apply_rules(rules, games, batch))
    return Rows(columns, drop, detail, unparsed)


def _game_columns(games: GameArrays) -> dict[str, pa.Array]:
    """Return the columns for the board, the handicap, the setup, the moves and the parse warnings."""
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
    """Cut the games before their first illegal move."""
    if not illegal.any():
        return games
    moves, setup = np.diff(games.move_offset), np.diff(games.setup_offset)
    length = np.where(illegal != DropReason.KEPT, legal, moves)
    keep_move = np.arange(len(games.moves)) - np.repeat(games.move_offset[:-1], moves) < np.repeat(length, moves)
    # A setup stone beyond the board makes its ply illegal, and is cut with the moves after it.
    keep_stone = games.setup_ply < np.repeat(length + (illegal == DropReason.KEPT), setup)
    setup_offset = np.append(0, np.cumsum(keep_stone))[games.setup_offset]
    return replace(
        games,
        moves=games.moves[keep_move],
        move_offset=np.append(0, np.cumsum(length)),
        setup=games.setup[keep_stone],
        setup_ply=games.setup_ply[keep_stone],
        setup_offset=setup_offset,
        root_setup=np.minimum(games.root_setup, np.diff(setup_offset)).astype(np.uint16),
        warnings=games.warnings | np.where(illegal != DropReason.KEPT, np.uint32(ParseWarning.CUT), np.uint32(0)),
    )


def _cut_lists(column: pa.ListArray, recorded: GameArrays, cut: GameArrays) -> pa.ListArray:
    """Cut the lists of one of MOVE_COLUMNS as the games were cut."""
    if column.null_count == len(column):
        return column
    has_list = column.is_valid().to_numpy(zero_copy_only=False)
    before, after = (np.where(has_list, np.diff(games.move_offset), 0) for games in (recorded, cut))
    starts = np.cumsum(before) - before
    keep = np.arange(before.sum()) - np.repeat(starts, before) < np.repeat(after, before)
    return move_lists(column.flatten().filter(pa.array(keep)), np.append(0, np.cumsum(after)), column.type)


def _illegal_move(games: GameArrays, g: int, ply: int) -> str:
    """Describe the illegal move of game g."""
    width, height = int(games.width[g]), int(games.height[g])
    at = games.move_offset[g] + ply
    point = int(games.moves[at] & POINT_MASK) if at < games.move_offset[g + 1] else NO_POINT
    return f"move {ply + 1}" + (f" at {to_gtp(point, width, height)}" if point <= width * height else "")


def _ids(
    games: GameArrays, columns: Mapping[str, pa.Array], unreadable: Mapping[int, memoryview] | None
) -> npt.NDArray[np.uint64]:
    """Return the ids: hashes of the rows' content, or of the bytes of unreadable records."""
    ids = hash_rows(games, [columns[name] for name in TEXT_COLUMNS.values()])
    if unreadable is None:
        return np.where(games.drop != DropReason.KEPT, columns["id"].to_numpy(), ids)
    for g, record in unreadable.items():
        ids[g] = int.from_bytes(blake3(record).digest(8), "little")
    return ids


def _member_names(block: RecordBlock) -> pa.StringArray:
    """Return the display names of a block's members."""
    offsets = pa.py_buffer(block.name_offset.astype(np.int32))
    names = pa.StringArray.from_buffers(len(block), offsets, pa.py_buffer(block.names))
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([block.name(k) for k in range(len(block))], pa.string())
    return names


def _points(values: npt.NDArray[np.uint16], offsets: npt.NDArray[np.int64]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values), type=POINTS)


def _territory(parsed: ParsedBlock) -> pa.ListArray:
    """Return column `territory`, null where a record has none."""
    missing = np.diff(parsed.territory_offset) <= 0
    offsets = pa.array(parsed.territory_offset.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(parsed.territory), type=POINTS, mask=pa.array(missing))


def _move_seconds(parsed: ParsedBlock) -> pa.ListArray:
    """Return column `move_seconds`; times that are negative or not finite are unknown."""
    if parsed.seconds is None:
        return pa.nulls(len(parsed.games), SECONDS)
    unknown = ~(np.isfinite(parsed.seconds) & (parsed.seconds >= 0))
    return move_lists(pa.array(parsed.seconds, mask=unknown), parsed.games.move_offset, SECONDS)


def _evaluations(parsed: ParsedBlock) -> pa.ListArray:
    """Return column `evaluations`."""
    if parsed.evaluations is None:
        return pa.nulls(len(parsed.games), EVALUATIONS)
    unknown = np.isnan(parsed.evaluations.sum(axis=1))
    values = np.where(unknown[:, None], np.float32(0), parsed.evaluations)
    fields = [pa.array(values[:, k].astype(field.type.to_pandas_dtype())) for k, field in enumerate(EVALUATION)]
    elements = pa.StructArray.from_arrays(fields, fields=list(EVALUATION), mask=pa.array(unknown))
    return move_lists(elements, parsed.games.move_offset, EVALUATIONS)


def _repairs(warnings: npt.NDArray[np.uint32]) -> pa.Array:
    distinct, codes = np.unique(warnings, return_inverse=True)
    return pa.array([warnings_to_text(int(bits)) for bits in distinct], pa.string()).take(pa.array(codes))

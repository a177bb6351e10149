"""Blocks of many records: rows, limits, time and memory."""

from __future__ import annotations

from dataclasses import replace

import numba
import pytest

from kifu.errors import DropReason
from kifu.point import WHITE_BIT
from kifu.records._sgf import MAX_PROPERTIES
from kifu.records.game import read_games, read_sgf
from kifu.records.games import NO_HANDICAP, GameArrays, ParseWarning, concat
from kifu.records.sgf import as_block, scan
from kifu.records.tree import read_tree
from record_samples import some_members

COMPILED = not numba.config.DISABLE_JIT

# Limits


LONG = pytest.mark.skipif(not COMPILED, reason="a long record takes long uncompiled")


@LONG
def test_too_many_moves() -> None:
    length = 65_535
    game = read_sgf(b"(;SZ[9]" + b";B[aa]" * length + b")")
    assert len(game) == length
    assert not game.drop
    for last in (b";B[aa]", b";B [aa]"):
        first, second = read_games(b"(;SZ[9]" + b";B[aa]" * length + last + b";AB[bb])(;SZ[9];B[aa])")
        assert first.drop == DropReason.TOO_LARGE
        assert len(first) == 0
        assert len(first.setup) == 0
        assert not second.drop
        assert len(second) == 1


def test_too_many_setup_stones() -> None:
    full = b";AB[aa:yy]"
    assert len(read_sgf(b"(;SZ[25]" + 6 * full + b")").setup) == 6 * 625
    first, second = read_games(b"(;SZ[25]" + 7 * full + b";B[aa])(;SZ[9]AB[aa];B[aa])")
    assert first.drop == DropReason.TOO_LARGE
    assert len(first) == 0
    assert len(first.setup) == 0
    assert not second.drop
    assert second.setup.tolist() == [0]


@LONG
def test_too_many_properties() -> None:
    many = b"A[]" * (MAX_PROPERTIES - 1)
    assert not read_sgf(b"(;SZ[9]" + many + b";B[aa])").drop
    first, second = read_games(b"(;SZ[9]" + many + b";B[aa]C[x])(;SZ[9];B[aa])")
    assert (first.drop, len(first), second.drop, len(second)) == (DropReason.TOO_LARGE, 0, DropReason.KEPT, 1)


def test_too_dense_setup_affects_only_its_member() -> None:
    game = b"(;SZ[25]AB[aa:yy])" + b" " * 20
    games = scan(as_block([game * 60, game]))
    kept = int((games.drop[:-1] == DropReason.KEPT).sum())
    assert kept == (4 * 4096 + 60 * len(game)) // 625
    assert (games.drop[kept:-1] == DropReason.TOO_LARGE).all()
    assert games.drop[-1] == DropReason.KEPT
    assert games.setup_offset[-1] == (kept + 1) * 625


def test_too_dense_games_affect_only_their_member() -> None:
    games = scan(as_block([b"(;)" * 100, b"(;B[aa])"]))
    allowed = 16 + 300 // 32
    assert games.drop.tolist() == [DropReason.KEPT] * allowed + [DropReason.TOO_LARGE, DropReason.KEPT]
    assert games.stop[allowed] == 300
    assert games.start[allowed] == 3 * allowed


HOSTILE = [b"(", b"(;", b";", b"(;GM[1]", b"[", b"]", b"\\", b" ", b"( ", b"; ", b"B", b"B[", b"B[]", b"(;)", b"A[\\]"]


@pytest.mark.parametrize("piece", [*HOSTILE, b"AB[aa:yy]", b"(;AB[aa:ss]", b"A[", b";B[aa] ", b";;GM["])
@pytest.mark.parametrize("start", [b"", b"(;SZ[25]", b"(;CA[big5];"])
def test_time_is_linear_and_memory_bounded(piece: bytes, start: bytes) -> None:
    length = 4 << 20 if COMPILED else 2 << 10
    block = as_block([start + piece * (length // len(piece))])
    games = scan(block)  # about 0.05 s; anything quadratic would take hours
    assert sum(getattr(games, name).nbytes for name in GameArrays.__slots__) < 8 * len(block.data) + 10_000
    read_tree(block.data.tobytes(), 25, 25)


# Blocks


def test_rows_of_a_block() -> None:
    block = as_block([b"(;SZ[9];B[aa])", b"", b"junk", b"(;SZ[9];B[bb])(;SZ[9];W[cc];B[dd])"])
    block.drop[1] = DropReason.UNREADABLE
    games = scan(block)
    assert games.drop.tolist() == [
        DropReason.KEPT,
        DropReason.UNREADABLE,
        DropReason.NO_RECORD,
        DropReason.KEPT,
        DropReason.KEPT,
    ]
    assert games.member.tolist() == games.block_index.tolist() == [0, 1, 2, 3, 3]
    assert games.move_offset.tolist() == [0, 1, 1, 1, 2, 4]
    text = [block.data[a:b].tobytes() for a, b in zip(games.start, games.stop)]
    assert text == [b"(;SZ[9];B[aa])", b"", b"", b"(;SZ[9];B[bb])", b"(;SZ[9];W[cc];B[dd])"]


def test_bytes_between_members_are_not_read() -> None:
    block = as_block([b"(;SZ[9];B[aa]", b"(;SZ[9];B[bb])", b")(;SZ[9];B[cc])"])
    games = scan(some_members(replace(block, member=block.member * 10), [0, 2]))
    assert games.moves.tolist() == [0, 20]
    assert games.member.tolist() == [0, 20]
    assert games.block_index.tolist() == [0, 1]
    assert games.warnings.tolist() == [ParseWarning.TRUNCATED, ParseWarning.JUNK_BEFORE]


def test_many_members_and_stones_outgrow_the_initial_buffers() -> None:
    record = b"(;SZ[9]AB[aa:ii])(;SZ[9]AW[aa:ih];W[ii])"
    count = 400 if COMPILED else 100
    games = scan(as_block([record] * count))
    assert len(games) == 2 * count
    assert games.setup_offset.tolist() == sorted(
        [k * 153 for k in range(count + 1)] + [k * 153 + 81 for k in range(count)]
    )
    assert games.setup.tolist() == [*range(81), *(p | WHITE_BIT for p in range(72))] * count
    assert games.root_setup.tolist() == [81, 72] * count


def test_concat() -> None:
    blocks = [as_block([b"(;SZ[9]AB[aa];B[bb];W[cc])", b""]), as_block([b"(;SZ[9]HA[3]AW[dd][ee];B[ff])"])]
    parts = [scan(block) for block in blocks]
    whole = concat(parts)
    assert whole.move_offset.tolist() == [0, 2, 2, 3]
    assert whole.setup_offset.tolist() == [0, 1, 1, 3]
    assert whole.moves.tolist() == parts[0].moves.tolist() + parts[1].moves.tolist()
    assert whole.handicap.tolist() == [NO_HANDICAP, NO_HANDICAP, 3]
    assert whole.block_index.tolist() == [0, 1, 0]
    for games in (whole, concat([])):
        for name in GameArrays.__slots__:
            assert getattr(games, name).dtype == getattr(parts[0], name).dtype
    assert len(concat([])) == 0
    assert concat([]).move_offset.tolist() == [0]

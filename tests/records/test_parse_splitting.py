"""Split blocks of many games into parts without changing a game."""

from dataclasses import fields
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import DropReason
from kifu.records import containers, sgf
from kifu.records.containers import split_block
from kifu.records.games import GameArrays, ParsedBlock, RecordBlock
from kifu.records.parse import parse_block
from kifu.records.sgf import as_block
from record_samples import OLF_LINE, TYGEM_LINE

SHORT = b"(;KM[7]RE[B+R];B[pd];W[dp])     "

PIECES = [
    SHORT,
    b"(;GM[1]SZ[9];B[aa](;W[bb])(;W[cc]))",
    b"(;GM[1]SZ[9];B[aa]",  # the next root ends it
    b"(;SZ[25]AB[aa:yy])",
    b"(;SZ[9]" + b"AB[aa:ii]" * 60 + b";B[aa])",  # too many stones
    b"(;CA[big5]PB[\xa4]];B[aa])",
    b"(;SZ[3]TB[aa:cc];B[aa])",
    b"junk ",
    b"\n",
    b"(",
    b")",
    b"]",
    b"C[(;GM[1]",
    b";GM[1]SZ[5];B[aa])",
]


def games_of(blocks: list[RecordBlock]) -> list[dict[str, Any]]:
    rows = []
    for parsed in (parsed for block in blocks for parsed in parse_block(block, None)):
        rows += [row_of(parsed, g) for g in range(len(parsed.games))]
    return rows


def row_of(parsed: ParsedBlock, g: int) -> dict[str, Any]:
    games, text = parsed.games, parsed.text_fields
    row = {
        field.name: getattr(games, field.name)[g].item()
        for field in fields(GameArrays)
        if not field.name.startswith(("move", "setup", "block_index"))
    }
    row["moves"] = games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist()
    stones = slice(games.setup_offset[g], games.setup_offset[g + 1])
    row["setup"] = games.setup[stones].tolist(), games.setup_ply[stones].tolist()
    row["territory"] = parsed.territory[parsed.territory_offset[g] : parsed.territory_offset[g + 1]].tolist()
    row["text"] = [text.data[a:b].tobytes() for a, b in zip(text.start[:, g], text.stop[:, g])]
    return row | {"index": parsed.index[g].item(), "member": games.member[g].item()}


def split(block: RecordBlock, size: int, games: int, stones: int = 1 << 20) -> list[RecordBlock]:
    with (
        mock.patch.object(containers, "GAMES_AT_ONCE", games),
        mock.patch.object(containers, "_RECTANGLES_AT_ONCE", games),
        mock.patch.object(sgf, "_SETUP_AT_ONCE", stones),
    ):
        return list(split_block(block, size))


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=30), min_size=1, max_size=4),
    st.integers(1, 400),
    st.integers(1, 20),
    st.sampled_from([1, 1 << 20]),
)
def test_pieces_have_the_same_games(members: list[list[bytes]], size: int, games: int, stones: int) -> None:
    block = as_block([b"".join(pieces) for pieces in members])
    expected = games_of([block])
    parts = split(block, size, games, stones)
    assert games_of(parts) == expected
    assert sum(int((part.stop - part.start).sum()) for part in parts) == len(block.data)


@pytest.mark.parametrize("record", [SHORT, OLF_LINE, TYGEM_LINE])
def test_a_part_has_a_bounded_number_of_games(record: bytes) -> None:
    block = as_block([record * 700, record, record * 20])
    parts = split(block, 1 << 20, 100)
    assert [len(next(parse_block(part, None)).games) for part in parts] == [100] * 7 + [21]
    assert games_of(parts) == games_of([block])
    assert all(np.shares_memory(part.data, block.data) for part in parts)


def test_a_member_with_too_many_games_has_one_more_row() -> None:
    block = as_block([b"(;)" * 1000, b"(;B[aa])"])
    rows = games_of(split(block, 1 << 20, 30))
    assert rows == games_of([block])
    assert [row["drop"] for row in rows] == [0] * (16 + 3000 // 32) + [DropReason.TOO_LARGE, 0]


def test_usual_blocks_are_not_split() -> None:
    block = as_block([b"(;PB[me (2 dan)]C[me [5k\\]: hi (really)];B[aa])" * 3] * 1000)
    assert [part is block for part in split_block(block, len(block.data))] == [True]

"""Positions and byte kinds of text fields, and territory: against naive parsers, and limits."""

from __future__ import annotations

import itertools
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import DropReason
from kifu.point import WHITE_BIT
from kifu.records.containers import blocks
from kifu.records.decode import BEYOND_ASCII, BLANK, BROKEN, ESCAPED, NOT_UTF8, byte_kinds
from kifu.records.sgf import as_block, read_block
from naive_text_fields import TEXT_PIECES, compare_text_fields, territory_of, text_fields_of
from record_samples import TRAPS_FOLDER

COMPILED = not numba.config.DISABLE_JIT


@pytest.mark.nojit
def test_text_fields_of_the_traps() -> None:
    parsed = compare_text_fields(as_block([path.read_bytes() for path in sorted(TRAPS_FOLDER.glob("*.sgf"))]))
    assert len(parsed.games) > 50


@pytest.mark.nojit
@given(st.lists(st.sampled_from(TEXT_PIECES), max_size=40).map(b"".join))
def test_text_fields_of_token_soup(soup: bytes) -> None:
    compare_text_fields(as_block([soup, b"(;SZ[5]" + soup, b"(;" + soup + b"(;GM[1]PB[next]TB[aa])"]))


@pytest.mark.slow
def test_text_fields_of_real_games(shared: Path) -> None:
    counts = []
    for name in ("wild/fox-pro-680.tar.gz", "wild/ai-games-third.tar.gz", "kgs/KGS-2017_05-19-847-.tar.gz"):
        block = next(blocks(shared / "data" / name, block_bytes=(1 << 18) if COMPILED else 20_000))
        parsed = compare_text_fields(block)
        counts.append(int((np.diff(parsed.territory_offset) > 0).sum()))
    assert counts[2] > 0 or not COMPILED


def test_rows_without_a_game() -> None:
    block = as_block([b"", b"junk", b"(;GM[2]PB[Ann]TB[aa])", b"(;SZ[30]PW[Bob])", b"(;SZ[9]PB[Eve]TB[aa])" * 2])
    block.drop[0] = DropReason.UNREADABLE
    parsed = compare_text_fields(block)
    assert [text_fields_of(parsed, g) for g in range(6)] == [
        {}, {}, {"black": b"Ann"}, {"white": b"Bob"}, {"black": b"Eve"}, {"black": b"Eve"},
    ]  # fmt: skip
    assert parsed.index.tolist() == [0, 0, 0, 0, 0, 1]
    assert parsed.index.dtype == np.int32
    assert parsed.territory.tolist() == [0, 0]
    assert parsed.territory_offset.tolist() == [0, 0, 0, 0, 0, 1, 2]


# Territory


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("record", "black", "white"),
    [
        (b"(;SZ[3];B[bb];TB[aa][cc]TW[ba])", [0, 8], [1]),
        (b"(;SZ[3]TB[aa:bc])", [0, 1, 3, 4, 6, 7], []),
        (b"(;SZ[3:2];TB[ca]TW[ab:cb])", [2], [3, 4, 5]),
        (b"(;SZ[3];TB[aa];B[bb];TW[cc];W[ba])", [], [8]),  # the last node with any
        (b"(;SZ[3];TB[aa];B[bb];TW[])", [], []),
        (b"(;SZ[3];TB[aa][ab]TW[aa]TB[aa];)", [0, 3], []),  # the last value
        (b"(;SZ[3](;TB[aa])(;TB[bb]))", [0], []),  # the main line only
        (b"(;SZ[3]TB[ cc ][dd][a][cc:aa])", [8], []),  # not points of the board
        (b"(;SZ[3]C[TB[cc\\]];B[aa])", [], []),  # in a comment
        (b"(;SZ[3]TB[aa]TW[bb", [0], []),  # truncated
        (b"(;CA[big5]SZ[3]C[\xa4]]TB[aa])", [0], []),
        (b"(;GM[2]SZ[3]TB[aa])", [], []),
        ((TRAPS_FOLDER / "territory-twice.sgf").read_bytes(), [0], [1, 70, 71, 79, 80]),
    ],
)
def test_territory(record: bytes, black: list[int], white: list[int]) -> None:
    found = territory_of(compare_text_fields(as_block([record])), 0)
    assert found == sorted([*black, *(point | WHITE_BIT for point in white)], key=lambda entry: entry & ~WHITE_BIT)


def test_too_dense_territory_is_omitted() -> None:
    once, thrice = b"(;SZ[25]TB[aa:yy])" + b" " * 30, b"(;SZ[25]TB[aa:yy][aa:yy][aa:yy])"
    parsed = read_block(as_block([once * 60 + thrice + once, once]))
    assert np.diff(parsed.territory_offset).tolist() == [625] * 60 + [0] + [625] * 2
    whole = read_block(as_block([b"(;SZ[25]" + b"TB[aa:yy]" * 1000 + b")"]))
    assert len(whole.territory) == 0


# Byte kinds


def kind(data: bytes) -> int:
    found = np.empty(1, np.uint8)
    array = np.frombuffer(bytearray(b"[" + data + b"]"), np.uint8)
    byte_kinds(array, np.array([1]), np.array([1 + len(data)]), found)
    return int(found[0])


def naive_kind(data: bytes) -> int:
    bits = (BLANK if not data.strip(bytes(range(33))) else 0) | (ESCAPED if b"\\" in data else 0)
    bits |= BROKEN if any(9 <= c <= 13 for c in data) else 0
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        bits |= NOT_UTF8
    return bits if data.isascii() else bits | BEYOND_ASCII


EDGES = (0x00, 0x20, 0x5C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED)
EDGES += (0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF)


def test_byte_kinds_of_short_values() -> None:
    for length in range(4):
        for some in itertools.product(EDGES if COMPILED else EDGES[::3], repeat=length):
            assert kind(bytes(some)) == naive_kind(bytes(some))


@pytest.mark.nojit
@given(
    st.one_of(st.binary(max_size=12), st.text(max_size=6).map(str.encode), st.lists(st.sampled_from(EDGES)).map(bytes))
)
def test_byte_kinds(data: bytes) -> None:
    assert kind(data) == naive_kind(data)

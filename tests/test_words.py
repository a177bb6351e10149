"""Where the words of SGF records lie, what bytes they are of, and territory: against the slow twins, and limits."""

from __future__ import annotations

import itertools
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_words
from kifu.errors import DropReason
from kifu.point import WHITE_BIT
from kifu.records._fields import BEYOND_ASCII, BLANK, ESCAPED, NAMES, NOT_UTF8, byte_kinds
from kifu.records.containers import blocks
from kifu.records.games import FIELDS, ParsedBlock, RecordBlock
from kifu.records.sgf import as_block, read_block, root_properties
from test_sgf import PIECES, RECORDS

COMPILED = not numba.config.DISABLE_JIT


def words_of(reading: ParsedBlock, g: int) -> dict[str, bytes]:
    spans = zip(FIELDS, reading.text_fields.start[:, g].tolist(), reading.text_fields.stop[:, g].tolist())
    return {field: reading.text_fields.data[start:stop].tobytes() for field, start, stop in spans if stop > start}


def territory_of(reading: ParsedBlock, g: int) -> list[int]:
    return reading.territory[reading.territory_offset[g] : reading.territory_offset[g + 1]].tolist()


def compare_words(block: RecordBlock) -> ParsedBlock:
    reading = read_block(block)
    games = reading.games
    for g in range(len(games)):
        record = block.data[games.start[g] : games.stop[g]].tobytes()
        found = words_of(reading, g)
        assert found == {field: value for field, value in naive_words.words(record).items() if value}
        told = root_properties(record)
        assert found == {field: told[name][0] for field, name in zip(FIELDS, NAMES) if told.get(name, (b"",))[0]}
        expected = [] if games.drop[g] else naive_words.territory(record, int(games.width[g]), int(games.height[g]))
        assert territory_of(reading, g) == expected
    return reading


@pytest.mark.nojit
def test_words_of_the_traps() -> None:
    reading = compare_words(as_block([path.read_bytes() for path in sorted(RECORDS.glob("*.sgf"))]))
    assert len(reading.games) > 50


SOUP = [
    *PIECES,
    *(b"PB[Ann]", b"PW[\xe6\x9f\xaf]", b"PlayerBlack[b]", b"RE", b"re[0]", b"KM[]", b"CA", b"P1B[x]", b"PBW[x]"),
    *(b"TB[aa]", b"TW[aa:bb]", b"TB[]", b"TB", b"TW[", b";TW[bb][ab]", b"tb[aa]", b"TB [aa]", b"TW[zz]"),
]


@pytest.mark.nojit
@given(st.lists(st.sampled_from(SOUP), max_size=40).map(b"".join))
@settings(max_examples=600 if COMPILED else 60, deadline=None)
def test_words_of_token_soup(soup: bytes) -> None:
    compare_words(as_block([soup, b"(;SZ[5]" + soup, b"(;" + soup + b"(;GM[1]PB[next]TB[aa])"]))


def test_words_of_real_games(shared: Path) -> None:
    counts = []
    for name in ("wild/fox-pro-680.tar.gz", "wild/ai-games-third.tar.gz", "kgs/KGS-2017_05-19-847-.tar.gz"):
        block = next(blocks(shared / "data" / name, block_bytes=(4 << 20) if COMPILED else 20_000))
        reading = compare_words(block)
        counts.append(int((np.diff(reading.territory_offset) > 0).sum()))
    assert counts[2] > 0 or not COMPILED


def test_rows_without_a_game() -> None:
    block = as_block([b"", b"junk", b"(;GM[2]PB[Ann]TB[aa])", b"(;SZ[30]PW[Bob])", b"(;SZ[9]PB[Eve]TB[aa])" * 2])
    block.drop[0] = DropReason.UNREADABLE
    reading = compare_words(block)
    assert [words_of(reading, g) for g in range(6)] == [
        {},
        {},
        {"black": b"Ann"},
        {"white": b"Bob"},
        {"black": b"Eve"},
        {"black": b"Eve"},
    ]
    assert reading.index.tolist() == [0, 0, 0, 0, 0, 1] and reading.index.dtype == np.int32
    assert reading.territory.tolist() == [0, 0] and reading.territory_offset.tolist() == [0, 0, 0, 0, 0, 1, 2]


# Territory


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("record", "black", "white"),
    [
        (b"(;SZ[3];B[bb];TB[aa][cc]TW[ba])", [0, 8], [1]),
        (b"(;SZ[3]TB[aa:bc])", [0, 1, 3, 4, 6, 7], []),
        (b"(;SZ[3:2];TB[ca]TW[ab:cb])", [2], [3, 4, 5]),
        (b"(;SZ[3];TB[aa];B[bb];TW[cc];W[ba])", [], [8]),  # the last node that has any
        (b"(;SZ[3];TB[aa];B[bb];TW[])", [], []),
        (b"(;SZ[3];TB[aa][ab]TW[aa]TB[aa];)", [0, 3], []),  # the last word
        (b"(;SZ[3](;TB[aa])(;TB[bb]))", [0], []),  # the main line only
        (b"(;SZ[3]TB[ cc ][dd][a][cc:aa])", [8], []),  # no points of the board
        (b"(;SZ[3]C[TB[cc\\]];B[aa])", [], []),  # a word about it
        (b"(;SZ[3]TB[aa]TW[bb", [0], []),  # cut off
        (b"(;CA[big5]SZ[3]C[\xa4]]TB[aa])", [0], []),
        (b"(;GM[2]SZ[3]TB[aa])", [], []),
        ((RECORDS / "territory-twice.sgf").read_bytes(), [0], [1, 70, 71, 79, 80]),
    ],
)
def test_territory(record: bytes, black: list[int], white: list[int]) -> None:
    found = territory_of(compare_words(as_block([record])), 0)
    assert found == sorted([*black, *(point | WHITE_BIT for point in white)], key=lambda entry: entry & ~WHITE_BIT)


def test_a_member_that_packs_territory_too_densely_has_none_from_there_on() -> None:
    game = b"(;SZ[25]TB[aa:yy])" + b" " * 30
    reading = read_block(as_block([game * 60, game]))
    kept = (4 * 4096 + 60 * len(game)) // 625
    assert 0 < kept < 60
    sizes = np.diff(reading.territory_offset).tolist()
    assert sizes == [625] * kept + [0] * (60 - kept) + [625]
    whole = read_block(as_block([b"(;SZ[25]" + b"TB[aa:yy]" * 1000 + b")"]))
    assert len(whole.territory) == 0


# What bytes a value is of


def kind(data: bytes) -> int:
    found = np.empty(1, np.uint8)
    array = np.frombuffer(bytearray(b"[" + data + b"]"), np.uint8)
    byte_kinds(array, np.array([1]), np.array([1 + len(data)]), found)
    return int(found[0])


def naive_kind(data: bytes) -> int:
    bits = (BLANK if not data.strip(bytes(range(33))) else 0) | (ESCAPED if b"\\" in data else 0)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        bits |= NOT_UTF8
    return bits if data.isascii() else bits | BEYOND_ASCII


EDGES = (0x00, 0x20, 0x5C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED)
EDGES += (0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF)


def test_kinds_of_all_short_values() -> None:
    for length in range(4):
        for some in itertools.product(EDGES if COMPILED else EDGES[::3], repeat=length):
            assert kind(bytes(some)) == naive_kind(bytes(some))


@pytest.mark.nojit
@given(
    st.one_of(st.binary(max_size=12), st.text(max_size=6).map(str.encode), st.lists(st.sampled_from(EDGES)).map(bytes))
)
@settings(max_examples=500 if COMPILED else 100, deadline=None)
def test_kinds(data: bytes) -> None:
    assert kind(data) == naive_kind(data)

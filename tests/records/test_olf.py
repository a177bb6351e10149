"""OLF: lines by hand, broken lines, a naive parser, round trips, limits."""

from __future__ import annotations

import datetime
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import DropReason
from kifu.point import ERASE_BIT, NO_POINT, WHITE_BIT
from kifu.records import olf
from kifu.records.containers import blocks, containers
from kifu.records.games import FIELDS, NO_HANDICAP, GameArrays, ParseWarning, concat
from kifu.records.olf import read_olf
from kifu.records.olf_writer import ExportFailure, OlfFields, OlfLines, write_olf
from kifu.records.sgf import as_block, scan
from naive_olf import (
    HEAD,
    LINE,
    NAMES,
    PIECES,
    PLAY,
    NaiveGame,
    check,
    compare_with_naive,
    fields_of,
    naive_of,
    read_lines,
    read_member,
    write_back,
    write_line,
)
from record_samples import some_members

COMPILED = not numba.config.DISABLE_JIT


# Lines by hand


@pytest.mark.nojit
def test_a_line() -> None:
    territory = b" AAsaab"
    (game,) = read_lines(LINE + territory + b"\n")
    assert game == NaiveGame(
        start=0,
        stop=len(LINE + territory),
        width=19,
        height=19,
        moves=[72, 288 | WHITE_BIT, 361, 361 | WHITE_BIT],
        territory=[0, 18 | WHITE_BIT, 19 | WHITE_BIT],
        words={
            "date": b"1996-03-12", "black": b"Ann", "black_rank": b"35.0", "white": b"Bob_B", "white_rank": b"34",
            "time": b"30", "result": b"-3.5", "komi": b"5.5",
        },
    )  # fmt: skip


@pytest.mark.nojit
def test_lines_are_written() -> None:
    lines = [
        LINE,
        LINE + b" AAsaab",
        b"1996-00-00 ? 0 ? 0 9:13 0 888.8 0 h-0 -",
        b"0000-00-00 a 41.0 b 2 2:1 2.5 -999.9 -9.5 h-0 BA",
        "2024-02-29 柯洁 49.0 신진서 48.5 1:1 ? 0 ? h-0 - aa".encode(),
        HEAD[:-4] + b"h-2 PDttDPttddTT",
        HEAD[:-4] + b"h-3 DDttPP",
    ]
    data = b"".join(line + b"\n" for line in lines)
    written = write_back(read_olf(as_block([data])))
    assert written.data.tobytes() == data
    assert written.offset.tolist() == np.cumsum([0, *(len(line) + 1 for line in lines)]).tolist()
    assert not written.failure.any()


PASS, WPASS = 361, 361 | WHITE_BIT
D, P, Q, W = 72, 288, 300, 60 | WHITE_BIT  # points of 19 x 19: PD, DP, PP, dd


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("handicap", "play", "setup", "moves"),
    [
        (2, b"PDttDPdd", [D, P], [W]),
        (2, b"PDttDP", [D, P], []),
        (3, b"PDttDPttPPddTT", [D, P, Q], [W, PASS]),
        # a pass after the last stone is the handicap's only if White moves next
        (2, b"PDttDPttdd", [D, P], [W]),
        (2, b"PDttDPttPP", [D, P], [WPASS, Q]),
        (2, b"PDttDPtt", [D, P], [WPASS]),
        (2, b"PDttDPtttt", [D, P], [WPASS]),
        (2, b"PDttDPPP", [D, P], [Q]),
        # these do not begin with the handicap
        (2, b"PDddDP", [], [D, W, P]),
        (2, b"PDTTDP", [], [D, PASS, P]),
        (2, b"pdttDP", [], [D | WHITE_BIT, WPASS, P]),
        (2, b"PDttPD", [], [D, WPASS, D]),
        (2, b"PDttTT", [], [D, WPASS, PASS]),
        (2, b"PDttZZ", [], [D, WPASS, NO_POINT]),
        (3, b"PDttDP", [], [D, WPASS, P]),
        (9999, b"PDttDP", [], [D, WPASS, P]),
        (1, b"PDttDP", [], [D, WPASS, P]),
        (0, b"PDttDP", [], [D, WPASS, P]),
    ],
)
def test_handicap(handicap: int, play: bytes, setup: list[int], moves: list[int]) -> None:
    parsed = read_olf(as_block([HEAD[:-2] + b"%d " % handicap + play]))
    (game,) = naive_of(parsed)
    assert (game.setup, game.moves, game.handicap) == (setup, moves, handicap or None)
    assert game.warnings == (ParseWarning.HANDICAP_ONE if handicap == 1 else ParseWarning(0))
    assert parsed.games.root_setup.tolist() == [len(setup)]
    assert not parsed.games.setup_ply.any()


def with_field(k: int, value: bytes) -> bytes:
    """Return LINE with another k-th field, counted from 1 as in the format description."""
    fields = LINE.split(b" ")
    fields[k - 1] = value
    return b" ".join(fields)


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("line", "drop"),
    [
        (b"x", DropReason.UNREADABLE),
        (HEAD, DropReason.UNREADABLE),
        (LINE + b" AA AA", DropReason.UNREADABLE),
        *((with_field(6, size), DropReason.BAD_SIZE) for size in (b"19", b"0:9", b"9:20", b"21:21", b"x:9", b"9:", b":")),  # noqa: E501 - one case per line
        *((with_field(11, play), DropReason.UNREADABLE) for play in (b"PDd", b"P1dp", b"--", b"PD-", b"\xc3\xa9", b"?")),  # noqa: E501 - one case per line
        *((LINE + b" " + area, DropReason.UNREADABLE) for area in (b"A", b"-", b"A1", b"?")),
        *((LINE + b" " + area, DropReason.OFF_BOARD) for area in (b"AATT", b"tt", b"zz", b"Aa")),
        (with_field(6, b"9:9") + b" AJ", DropReason.OFF_BOARD),
    ],
)  # fmt: skip
def test_invalid_lines(line: bytes, drop: DropReason) -> None:
    data = LINE + b"\n" + line + b"\r\n" + LINE
    first, broken, last = read_lines(data)
    assert broken.drop == drop
    assert (broken.moves, broken.setup, broken.territory) == ([], [], [])
    assert data[broken.start : broken.stop] == line.strip()
    assert first.moves == last.moves == [72, 288 | WHITE_BIT, 361, 361 | WHITE_BIT]
    assert not last.drop
    assert [game.index for game in (first, broken, last)] == [0, 1, 2]


@pytest.mark.nojit
def test_invalid_points_are_kept() -> None:
    (game,) = read_lines(with_field(6, b"9:9").replace(PLAY, b"AAjaKKAbbAzzttTt"))
    off = [NO_POINT, NO_POINT | WHITE_BIT]
    assert game.moves == [0, off[1], off[0], off[0], off[1], off[1], 81 | WHITE_BIT, off[0]]
    assert not game.drop


@pytest.mark.nojit
@pytest.mark.parametrize("text", [b"h2", b"2", b"h-", b"H-2", b"h-x", b"h--2", b"h-12345", b"-h2", b"h"])
def test_invalid_handicaps(text: bytes) -> None:
    (game,) = read_lines(with_field(10, text))
    assert game.handicap is None
    assert game.warnings == ParseWarning.HANDICAP_TEXT
    assert not game.drop


@pytest.mark.parametrize(
    ("k", "nothing"), [(1, b"0000-00-00"), (2, b"?"), (3, b"0"), (4, b"?"), (5, b"0"), (7, b"?"), (9, b"?")]
)
def test_placeholders_of_missing_fields(k: int, nothing: bytes) -> None:
    (full,), (game,) = read_lines(LINE), read_lines(with_field(k, nothing))
    del full.words[NAMES[k - 1]]
    assert game.words == full.words


# Blocks


def test_members_and_lines() -> None:
    members = [
        b"\xef\xbb\xbf# a comment\n\n" + LINE + b"\r\n \t\r\n  #another\n\t" + LINE.replace(b" ", b" \t ") + b"  ",
        b"",
        b"\n# nothing here\n",
        b"gone",
        b"\n" * 40 + LINE,
    ]
    block = as_block([*members])
    block.drop[3] = DropReason.TOO_LARGE
    parsed = read_olf(replace(block, member=block.member * 10))
    games = parsed.games
    assert games.drop.tolist() == [
        DropReason.KEPT, DropReason.KEPT, DropReason.NO_RECORD, DropReason.NO_RECORD, DropReason.TOO_LARGE,
        DropReason.KEPT,
    ]  # fmt: skip
    assert games.member.tolist() == [0, 0, 10, 20, 30, 40]
    assert games.block_index.tolist() == [0, 0, 1, 2, 3, 4]
    assert parsed.index.tolist() == [2, 5, 0, 0, 0, 40]
    assert games.move_offset.tolist() == [0, 4, 8, 8, 8, 8, 12]
    assert games.setup_offset.tolist() == [0] * 7
    texts = [block.data[a:b].tobytes() for a, b in zip(games.start, games.stop)]
    assert texts == [LINE, LINE.replace(b" ", b" \t "), b"", b"", b"", LINE]
    assert parsed.format == "olf"
    assert parsed.text_fields.start.shape == (len(FIELDS), 6)


def test_bytes_between_members_are_not_read() -> None:
    block = as_block([LINE[:-4], b"CC" + LINE, LINE])
    parsed = read_olf(some_members(block, [0, 2]))
    assert np.diff(parsed.games.move_offset).tolist() == [2, 4]


def test_no_members() -> None:
    parsed = read_olf(as_block([]))
    assert len(parsed.games) == 0
    written = write_back(parsed)
    assert len(written.data) == 0
    assert written.offset.tolist() == [0]
    assert len(written.failure) == 0


def test_types() -> None:
    parsed = read_olf(as_block([LINE, b""]))
    empty = concat([])
    for name in GameArrays.__slots__:
        assert getattr(parsed.games, name).dtype == getattr(empty, name).dtype, name
    assert (parsed.index.dtype, parsed.territory.dtype) == (np.int32, np.uint16)
    assert parsed.territory_offset.dtype == parsed.text_fields.start.dtype == parsed.text_fields.stop.dtype == np.int64


# Limits


@pytest.mark.skipif(not COMPILED, reason="a long line takes long uncompiled")
def test_too_many_moves() -> None:
    most = HEAD + b"AA" * 65_535
    longest, longer, last = read_lines(b"\n".join([most, most + b"A", LINE]))
    assert len(longest.moves) == 65_535
    assert longer.drop == DropReason.UNREADABLE
    assert not last.drop
    too_long, last = read_lines(most + b"AA\n" + LINE)
    assert too_long.drop == DropReason.TOO_LARGE
    assert too_long.moves == []
    assert not last.drop
    whole = LINE + b" " + b"A" * ((1 << 20) - len(LINE) - 1)
    assert [game.drop for game in read_lines(whole + b" \n" + whole + b"A\n" + LINE)] == [0, DropReason.TOO_LARGE, 0]


def test_too_dense_lines_affect_only_their_member() -> None:
    data = b"x\n" * 100
    parsed = read_olf(as_block([data, LINE]))
    allowed = 16 + 200 // 32
    assert parsed.games.drop.tolist() == [DropReason.UNREADABLE] * allowed + [DropReason.TOO_LARGE, DropReason.KEPT]
    assert parsed.games.start[allowed] == 2 * allowed
    assert parsed.games.stop[allowed] == 200


HOSTILE = [
    b"\n", b"x\n", b"#\n", b" ", b"\r", b"a ", b"A" * 50 + b" ", LINE + b"\n", LINE + b" AA\n", b"tt", b"1", b"\0",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("start", [b"", HEAD, LINE + b" ", HEAD[:-2] + b"9 "])
def test_time_is_linear_and_memory_bounded(piece: bytes, start: bytes) -> None:
    length = 4 << 20 if COMPILED else 2 << 10
    block = as_block([start + piece * (length // len(piece))])
    parsed = read_olf(block)  # about 0.02 s; anything quadratic would take hours
    games = sum(getattr(parsed.games, name).nbytes for name in GameArrays.__slots__)
    words = parsed.text_fields.start.nbytes + parsed.text_fields.stop.nbytes
    assert games + words + parsed.territory.nbytes < 12 * len(block.data) + 10_000


# The naive parser

soup = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
lines_like = st.lists(
    st.tuples(
        st.sampled_from([b"0000-00-00 ", b"1996-03-12 ", b"- "]),
        st.sampled_from([b"Ann 35.0 Bob 0 ", b"? 0 ? 0 ", b"? ? x 0.0 "]),
        st.sampled_from([b"9:9 ", b"19:19 ", b"2:1 ", b"1:+1 ", b"9 "]),
        st.sampled_from([b"0 0 0 ", b"? 999.9 ? "]),
        st.sampled_from([b"h-0 ", b"h-2 ", b"h-3 ", b"h-1 ", b"hx ", b"h--0 "]),
        st.lists(st.sampled_from([b"AA", b"tt", b"BA", b"aa", b"TT", b"zz", b"AAttBA", b"-"])).map(b"".join),
        st.sampled_from([b"\n", b"\n", b"\r\n", b" aaBA\n", b" AAaa\n", b" TT\n"]),
    ).map(b"".join),
    max_size=4,
).map(b"".join)  # fmt: skip


@given(st.one_of(soup, lines_like, st.binary(max_size=200).map(lambda tail: HEAD + tail)))
@pytest.mark.nojit
def test_matches_naive_parser(data: bytes) -> None:
    compare_with_naive(data)


# Fields


def test_ratings() -> None:
    texts = ["35", "35.0", "35.", "48.25", "2", "0", "0.0", "-1.0", "x", "", "?", "1e3", "nan", "3" * 21, "٣"]
    expected = [(35, None), (35, True), (35, True), (48.25, True), (2, None), *10 * [(None, None)]]
    assert [olf.parse_rating(text) for text in texts] == expected


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("3.5", "B+3.5"),
        ("+3.5", "B+3.5"),
        ("-12", "W+12"),
        ("-0.5", "W+0.5"),
        ("0", "0"),
        ("-0.0", "0"),
        ("888.8", "B+T"),
        ("-888.80", "W+T"),
        ("999.9", "B+R"),
        ("-999.9", "W+R"),
        ("888.7", "B+888.7"),
        *((nothing, "?") for nothing in ("1000", "-999.91", "?", "", "B+R", "inf", "1e2", "3,5", "--1")),
    ],
)
def test_results(text: str, result: str) -> None:
    assert str(olf.parse_result(text)) == result


def test_times_komi_names_and_dates() -> None:
    assert [olf.parse_time(text) for text in ("0", "30", "2.5", "-1", "?", "")] == [0, 30, 2.5, None, None, None]
    assert [olf.parse_komi(text) for text in ("0", "3.75", "-9.5", "375", "?", "x")] == [0, 3.75, -9.5, 375, None, None]
    assert olf.parse_name("Cho_Chikun__9p") == "Cho Chikun  9p"
    dates = ["1996-03-12", "1996-03-00", "1996-00-00", "0000-00-00", "0000-05-05", "", "12 Mar 1996"]
    expected = ["1996-03-12", "1996-03", "1996", None, None, None, "12 Mar 1996"]
    assert [olf.parse_date(text) for text in dates] == expected


# Round trips


DEFAULTS: dict[str, Any] = {
    "date": datetime.date(1996, 3, 12), "year": None, "black": "Ann", "black_rating": 35, "black_confirmed": True,
    "white": "Bob B", "white_rating": 34, "white_confirmed": None, "main_minutes": 30, "winner": "white",
    "ending": "score", "margin": 3.5, "komi": 5.5,
}  # fmt: skip
TYPES = {
    "date": pa.date32(),
    "year": pa.int16(),
    **dict.fromkeys(("black", "white", "winner", "ending"), pa.string()),
    **dict.fromkeys(("black_rating", "white_rating", "main_minutes", "margin", "komi"), pa.float32()),
    **dict.fromkeys(("black_confirmed", "white_confirmed"), pa.bool_()),
}


def words_of(rows: list[dict[str, Any]]) -> OlfFields:
    return OlfFields(**{name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})


def write_games(games: list[NaiveGame], rows: list[dict[str, Any]], plies: list[list[int]] | None = None) -> OlfLines:
    """Write games. plies: number of moves before each setup stone; default 0."""
    offset = lambda lists: np.cumsum([0, *map(len, lists)], dtype=np.int64)  # noqa: E731
    flat = lambda lists: np.array([entry for part in lists for entry in part], np.uint16)  # noqa: E731
    count, setup = len(games), [game.setup for game in games]
    arrays = GameArrays(
        width=np.array([game.width for game in games], np.uint8),
        height=np.array([game.height for game in games], np.uint8),
        moves=flat([game.moves for game in games]),
        move_offset=offset([game.moves for game in games]),
        setup=flat(setup),
        setup_ply=flat(plies or [[0] * len(part) for part in setup]),
        setup_offset=offset(setup),
        root_setup=np.array([len(part) for part in setup], np.uint16),
        to_play=np.zeros(count, np.uint8),
        handicap=np.array([NO_HANDICAP if game.handicap is None else game.handicap for game in games], np.int16),
        warnings=np.zeros(count, np.uint32),
        drop=np.array([game.drop for game in games], np.uint8),
        member=np.zeros(count, np.int32),
        block_index=np.zeros(count, np.int32),
        start=np.zeros(count, np.int64),
        stop=np.zeros(count, np.int64),
    )
    territory = [game.territory for game in games]
    return write_olf(arrays, words_of(rows), flat(territory), offset(territory))


def failure_of(game: NaiveGame | None = None, plies: list[int] | None = None, **words: Any) -> ExportFailure:
    game = game or NaiveGame(width=19, height=19)
    lines = write_games([game], [DEFAULTS | words], plies and [plies])
    assert bool(len(lines.data)) == (lines.failure[0] == ExportFailure.NONE)
    return ExportFailure(lines.failure[0])


ON_19 = NaiveGame(width=19, height=19)
TWO_STONES = replace(ON_19, handicap=2, setup=[D, P])


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("game", "why"),
    [
        (TWO_STONES, ExportFailure.NONE),
        (replace(ON_19, drop=DropReason.NOT_GO), ExportFailure.DROPPED),
        (replace(ON_19, width=0, height=0, drop=DropReason.BAD_SIZE), ExportFailure.DROPPED),
        (replace(ON_19, width=20), ExportFailure.BOARD),
        (replace(ON_19, height=25), ExportFailure.BOARD),
        (replace(ON_19, height=0), ExportFailure.BOARD),
        (replace(TWO_STONES, handicap=None), ExportFailure.SETUP),
        (replace(TWO_STONES, handicap=3), ExportFailure.SETUP),
        (replace(TWO_STONES, setup=[D, P | WHITE_BIT]), ExportFailure.SETUP),
        (replace(TWO_STONES, setup=[D, P | ERASE_BIT]), ExportFailure.SETUP),
        (replace(TWO_STONES, setup=[D, D]), ExportFailure.SETUP),
        (replace(TWO_STONES, setup=[D, 361]), ExportFailure.SETUP),
        (replace(TWO_STONES, moves=[WPASS, W]), ExportFailure.NONE),
        (replace(TWO_STONES, moves=[WPASS, Q]), ExportFailure.NONE),
        (replace(ON_19, handicap=1, setup=[D]), ExportFailure.SETUP),
        (replace(ON_19, handicap=2, moves=[D, WPASS, P, W]), ExportFailure.SETUP),
        (replace(ON_19, handicap=2, moves=[D, W, P]), ExportFailure.NONE),
        (replace(ON_19, moves=[D, WPASS, P, W]), ExportFailure.NONE),
        (replace(ON_19, moves=[NO_POINT]), ExportFailure.MOVES),
        (replace(ON_19, moves=[362]), ExportFailure.MOVES),
        (replace(ON_19, moves=[D | ERASE_BIT]), ExportFailure.MOVES),
        (replace(ON_19, territory=[D | ERASE_BIT]), ExportFailure.MOVES),
        (replace(ON_19, territory=[361]), ExportFailure.MOVES),
        (replace(ON_19, moves=[D] * 65_535), ExportFailure.NONE),
        (replace(TWO_STONES, moves=[D] * 65_535), ExportFailure.MOVES),
        (replace(ON_19, handicap=-2), ExportFailure.TERMS),
        (replace(ON_19, handicap=10_000), ExportFailure.TERMS),
        (replace(ON_19, handicap=9_999), ExportFailure.NONE),
    ],
)  # fmt: skip
def test_games_that_cannot_be_written(game: NaiveGame, why: ExportFailure) -> None:
    assert failure_of(game) == why


def test_setup_after_moves_cannot_be_written() -> None:
    assert failure_of(replace(TWO_STONES, moves=[W]), plies=[0, 1]) == ExportFailure.SETUP


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"winner": "draw", "margin": None}, ExportFailure.NONE),
        ({"winner": "draw", "ending": "unknown", "margin": None}, ExportFailure.RESULT),
        ({"winner": None, "ending": "void", "margin": None}, ExportFailure.RESULT),
        ({"ending": "forfeit", "margin": None}, ExportFailure.RESULT),
        ({"ending": None}, ExportFailure.RESULT),
        ({"margin": None}, ExportFailure.RESULT),
        *(({"margin": margin}, ExportFailure.RESULT) for margin in (0, -1, 888.8, 999.9, 1000, math.nan, math.inf)),
        ({"margin": 888.7}, ExportFailure.NONE),
        ({"winner": "none"}, ExportFailure.RESULT),
        *(({"black_rating": rating}, ExportFailure.TERMS) for rating in (0, -1, math.nan, math.inf, 1e-20)),
        ({"white_rating": 34.5}, ExportFailure.TERMS),
        ({"white_rating": 34.5, "white_confirmed": True}, ExportFailure.NONE),
        *(({"main_minutes": minutes}, ExportFailure.TERMS) for minutes in (-1, math.nan, math.inf)),
        *(({"komi": komi}, ExportFailure.TERMS) for komi in (math.nan, math.inf, 1e20)),
        *(({"date": None, "year": year}, ExportFailure.TERMS) for year in (-5, 0, 10_000)),
        ({"date": 10_000_000}, ExportFailure.TERMS),
        ({"date": -1_000_000}, ExportFailure.TERMS),
    ],
)
def test_fields_that_cannot_be_written(words: dict[str, Any], why: ExportFailure) -> None:
    assert failure_of(**words) == why


def test_all_reasons_are_distinct_in_one_batch() -> None:
    games = [replace(ON_19, width=20), TWO_STONES, replace(ON_19, moves=[NO_POINT]), replace(ON_19, moves=[W])]
    lines = write_games(games, [DEFAULTS] * 4)
    assert lines.failure.tolist() == [ExportFailure.BOARD, ExportFailure.NONE, ExportFailure.MOVES, ExportFailure.NONE]
    texts = [lines.data[a:b].tobytes() for a, b in zip(lines.offset, lines.offset[1:])]
    assert texts == [b"", HEAD[:-2] + b"2 PDttDP\n", b"", HEAD + b"dd\n"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1400, "23.333333"), (600, "10"), (90, "1.5"), (73, "1.216667"), (0, "0"), (1, "0.016667"), (100, "1.666667"),
        (3599, "59.983333"), (1000, "16.666667"), (7400, "123.333333"), (86_400, "1440"), (10_000, "166.666667"),
    ],
)  # fmt: skip
def test_minutes_are_decimals_that_read_back(seconds: float, text: str) -> None:
    lines = write_games([ON_19], [DEFAULTS | {"main_minutes": seconds / 60}])
    assert lines.data.tobytes().split()[6] == text.encode()
    assert fields_of(read_olf(as_block([lines.data.tobytes()]))).main_minutes[0].as_py() == np.float32(seconds / 60)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("Cho Chikun", "Cho Chikun"),
        (" a\t\n\0b\x7f\x85 \u3000c_d__e ", "a b c d e"),
        ("_", None),
        ("", None),
        ("?", None),
        (None, None),
        ("#a", "#a"),
        ("聂 卫平", "聂 卫平"),
    ],
)
def test_names(name: str | None, read: str | None) -> None:
    lines = write_games([ON_19], [DEFAULTS | {"black": name, "white": name}])
    words = fields_of(read_olf(as_block([lines.data.tobytes()])))
    assert words.black.to_pylist() == words.white.to_pylist() == [read]


@st.composite
def games_to_write(draw: st.DrawFn) -> NaiveGame:
    """Small boards and few stones, so that all forms of handicap-like moves occur."""
    width, height = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    points = width * height
    move = st.one_of(
        st.integers(0, points - 1), st.just(points | WHITE_BIT), st.integers(0, points).map(lambda p: p | WHITE_BIT)
    )
    setup = draw(st.one_of(st.just([]), st.lists(st.integers(0, points - 1), max_size=4)))
    moves = draw(st.lists(move, max_size=8))
    handicap = draw(st.sampled_from([None, len(setup) or None, len(setup) or None, 1, 2, 3]))
    area = draw(st.dictionaries(st.integers(0, points - 1), st.sampled_from([0, WHITE_BIT]), max_size=4))
    return NaiveGame(
        width=width,
        height=height,
        moves=moves,
        setup=setup,
        handicap=handicap,
        territory=[point | area[point] for point in sorted(area)],
    )


@given(st.lists(games_to_write(), max_size=4))
@pytest.mark.nojit
def test_games_round_trip_or_cannot_be_written(games: list[NaiveGame]) -> None:
    lines = write_games(games, [DEFAULTS] * len(games))
    for game, start, stop, why in zip(games, lines.offset, lines.offset[1:], lines.failure):
        size, handicap = f"{game.width}:{game.height}", f"h-{0 if game.handicap == 1 else game.handicap or 0}"
        words = HEAD.decode().split()
        words[5], words[9] = size, handicap
        line = write_line(words, game)
        (read,) = read_member(line)
        game = replace(game, handicap=None if game.handicap == 1 else game.handicap)  # there is no h-1
        same = all(getattr(read, name) == getattr(game, name) for name in ("moves", "setup", "territory", "handicap"))
        assert (why == ExportFailure.NONE) == same
        assert lines.data[start:stop].tobytes() == (line if same else b"")


float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def rows_of_words(draw: st.DrawFn) -> dict[str, Any]:
    maybe = lambda strategy: st.one_of(st.none(), strategy)  # noqa: E731
    row: dict[str, Any] = dict.fromkeys(TYPES)
    row["date"] = draw(maybe(st.dates()))
    row["year"] = None if row["date"] else draw(maybe(st.integers(1, 9999)))
    for colour in ("black", "white"):
        row[colour] = draw(maybe(st.text(st.characters(codec="utf-8"), max_size=8)))
        row[f"{colour}_rating"] = draw(maybe(st.one_of(float32, st.integers(1, 49))))
        row[f"{colour}_confirmed"] = (
            draw(st.sampled_from([None, True])) if row[f"{colour}_rating"] is not None else None
        )
    row["main_minutes"], row["komi"] = draw(maybe(float32)), draw(maybe(float32))
    row["winner"] = draw(st.sampled_from(["black", "white", "draw", None]))
    row["ending"] = draw(st.sampled_from(["score", "time", "resign", "void"]))
    if row["ending"] == "score" and row["winner"] != "draw":
        row["margin"] = draw(maybe(st.one_of(float32, st.integers(1, 800).map(lambda half: half / 2))))
    return row


def written_name(name: str | None) -> str | None:
    blanks = dict.fromkeys([*range(33), *range(127, 160), ord("_")], " ")
    name = " ".join((name or "").translate(blanks).split())
    return None if name in ("", "?") else name


@pytest.mark.slow
@given(st.lists(rows_of_words(), max_size=5))
def test_fields_round_trip(rows: list[dict[str, Any]]) -> None:
    lines = write_games([ON_19] * len(rows), rows)
    written = [row for row, why in zip(rows, lines.failure) if not why]
    assert {int(why) for why in lines.failure} <= {ExportFailure.NONE, ExportFailure.RESULT, ExportFailure.TERMS}
    if not written:
        assert len(lines.data) == 0
        return
    parsed = read_olf(as_block([lines.data.tobytes()]))
    expected = words_of(
        [row | {"black": written_name(row["black"]), "white": written_name(row["white"])} for row in written]
    )
    found = fields_of(parsed)
    for name in TYPES:
        assert getattr(found, name).to_pylist() == getattr(expected, name).to_pylist(), name
    again = write_olf(parsed.games, found, parsed.territory, parsed.territory_offset)
    assert again.data.tobytes() == lines.data.tobytes()


@st.composite
def canonical_lines(draw: st.DrawFn) -> bytes:
    number = st.sampled_from(["1", "0.5", "12.25", "30", "1.216667", "1.2166668"])
    fields = [
        draw(st.sampled_from(["0000-00-00", "1996-00-00", "1996-03-12", "2024-02-29"])),
        *(draw(st.sampled_from(["?", "Cho_Chikun", "柯洁"])), draw(st.sampled_from(["0", "2", "35", "35.0", "41.5"]))),
        *(draw(st.sampled_from(["?", "Bob", "a?"])), draw(st.sampled_from(["0", "49.0", "7"]))),
        *("19:19", draw(st.one_of(number, st.sampled_from(["0", "?"])))),
        draw(st.sampled_from(["0", "888.8", "-888.8", "999.9", "-999.9", "3.5", "-0.5"])),
        draw(st.one_of(number, st.sampled_from(["0", "?", "-9.5"]))),
    ]  # fmt: skip
    stones = draw(st.sampled_from([0, 0, 2, 3]))
    fields.append(f"h-{stones}")
    play = draw(st.lists(st.sampled_from(["AA", "ss", "SA", "TT", "as"]), max_size=5))
    if stones > 1:
        white_pass = ["tt"] if play and play[0].islower() else []
        play = ["tt".join(["DD", "PP", "DP"][:stones]), *white_pass, *play]
    fields.append("".join(play) or "-")
    fields += draw(st.sampled_from([[], ["AA"], ["aaBAss"]]))
    return " ".join(fields).encode() + b"\n"


@given(st.lists(canonical_lines(), max_size=4).map(b"".join))
def test_canonical_lines_round_trip(data: bytes) -> None:
    compare_with_naive(data)
    if data:
        assert write_back(read_olf(as_block([data]))).data.tobytes() == data


@pytest.mark.slow
def test_damaged_lines() -> None:
    """Fields that can be read and written again are read the same again."""
    draw = random.Random(3)
    whole = b"".join(line + b"\n" for line in (LINE, LINE + b" AAss", HEAD[:-2] + b"2 PDttDPdd"))
    for _ in range(300 if COMPILED else 100):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            at = draw.randint(0, len(data))
            data[at : at + draw.choice((0, 1, 5))] = draw.choice([b"", bytes([draw.randrange(256)]), *PIECES])
        check(bytes(data))


def test_real_games_round_trip(shared: Path) -> None:
    """A KGS archive: moves, handicap stones and number of each game, also by the naive parser."""
    (container,) = containers(shared / "data/kgs/KGS-2002-19-3646-.tar.gz")
    games = concat([scan(block) for block in blocks(container)])
    count = len(games)
    none = np.empty(0, np.uint16), np.zeros(count + 1, np.int64)
    lines = write_olf(games, words_of([DEFAULTS] * count), *none)
    assert count > 3000
    assert not lines.failure.any()
    data = lines.data.tobytes()
    again = read_olf(as_block([data])).games
    for name in ("width", "height", "moves", "move_offset", "setup", "setup_ply", "setup_offset", "handicap", "drop"):
        assert np.array_equal(getattr(again, name), getattr(games, name)), name
    part = data[: lines.offset[300]]
    assert read_lines(part) == read_member(part)

"""The SGF parser and writer: traps, a naive parser, sgfmill, round trips, limits."""

from __future__ import annotations

import math
import random
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sgfmill import sgf as sgfmill

from kifu.errors import DropReason, GameError
from kifu.point import ERASE_BIT, NO_POINT, POINT_MASK, WHITE_BIT, to_sgf
from kifu.records._sgf import MAX_PROPERTIES
from kifu.records.game import Game, read_games, read_sgf, write_sgf
from kifu.records.games import NO_HANDICAP, GameArrays, ParseWarning, concat
from kifu.records.sgf import as_block, make_record, read_block, scan
from kifu.records.tree import Tree, read_tree
from naive_sgf import PIECES, compare_with_naive, games_of
from naive_text_fields import compare_text_fields
from record_samples import TRAPS_FOLDER, some_members

COMPILED = not numba.config.DISABLE_JIT
BLANK = "(;FF[4]GM[1]CA[UTF-8]SZ[9]"

# Record -> each of its games as written without line breaks, and its warnings.
TRAPS: dict[str, list[tuple[str | DropReason, ParseWarning]]] = {
    "plain": [
        (
            "(;FF[4]GM[1]CA[UTF-8]SZ[19]PB[Ann]PW[Bob]BR[3d]WR[2k]KM[6.5]RE[B+2.5]DT[2024-05-01]EV[Test Cup]"
            "RU[Japanese];B[pd];W[dp];B[pq])",
            ParseWarning(0),
        )
    ],
    "all-lower-case-names": [(BLANK + ";B[cc];W[gg])", ParseWarning.LOWER_CASE_NAME)],
    "ff1-long-names": [(BLANK + "PB[Ann]PL[W]AB[ba];W[cc];B[gg])", ParseWarning.LOWER_CASE_NAME)],
    "truncated": [(BLANK + ";B[cc];W[gg];B[cg])", ParseWarning.TRUNCATED)],
    "truncated-in-value": [(BLANK + ";B[cc];W[gg])", ParseWarning.TRUNCATED)],
    "truncated-then-another": [
        (BLANK + ";B[cc];W[gg];B[cg];W[gc])", ParseWarning.TRUNCATED),
        (BLANK + ";B[ee])", ParseWarning.LATER_GAME),
    ],
    "opening-missing": [(BLANK + "PB[Ann];B[cc];W[gg];B[cg])", ParseWarning.OPENING_MISSING | ParseWarning.VARIATIONS)],
    "variations": [(BLANK + ";B[cc];W[gg];B[cg];W[gc])", ParseWarning.VARIATIONS)],
    "two-games": [
        (BLANK + ";B[cc];W[gg])", ParseWarning(0)),
        ("(;FF[4]GM[1]CA[UTF-8]SZ[13];B[dd])", ParseWarning.LATER_GAME),
        (BLANK + ";B[ee])", ParseWarning.LATER_GAME | ParseWarning.JUNK_BEFORE),
    ],
    "utf8-bom": [(BLANK + "PB[柯洁];B[cc])", ParseWarning.JUNK_BEFORE)],
    "mail-header": [(BLANK + ";B[cc];W[gg])", ParseWarning.JUNK_BEFORE)],
    "escapes": [(BLANK + r"GN[a [b\] c\: d\\]GC[one;(two)threefour];B[cc];W[gg])", ParseWarning(0))],
    "compressed-points": [(BLANK + "AB[aa][ba][ca][ab][bb][cb][ii]AW[da][ee];B[gg])", ParseWarning(0))],
    "setup-mid-game": [(BLANK + ";B[cc];W[gg];AB[aa][ab]AW[ba]AE[cc];B[cg])", ParseWarning.SETUP_AFTER_ROOT)],
    "handicap-in-second-node": [
        ("(;FF[4]GM[1]CA[UTF-8]SZ[19]HA[2]KM[325]RU[Chinese];AB[pd][dp];W[pp];B[dd])", ParseWarning.SETUP_AFTER_ROOT)
    ],
    "setup-and-move-in-node": [(BLANK + ";AB[aa];B[cc];W[gg])", ParseWarning.SETUP_AFTER_ROOT)],
    "setup-twice": [(BLANK + "AB[aa]AE[bb];B[cc])", ParseWarning.SETUP_TWICE)],
    "territory-twice": [(BLANK + ";B[cc];W[gg];B[])", ParseWarning(0))],
    "bad-setup-point": [(BLANK + "AB[aa]AW[gg];B[cc])", ParseWarning.BAD_SETUP_POINT)],
    "size-last": [("(;FF[4]GM[1]CA[UTF-8]SZ[13]AB[aa]AW[mm];B[cc];W[gg])", ParseWarning.MOVE_IN_ROOT)],
    "size-missing": [("(;FF[4]GM[1]CA[UTF-8]SZ[19];B[pd];W[ss])", ParseWarning.SIZE_MISSING)],
    "size-empty": [("(;FF[4]GM[1]CA[UTF-8]SZ[19];B[pd])", ParseWarning.SIZE_MISSING)],
    "size-pair": [("(;FF[4]GM[1]CA[UTF-8]SZ[19];B[pd])", ParseWarning.SIZE_PAIR)],
    "size-rectangle": [("(;FF[4]GM[1]CA[UTF-8]SZ[13:9];B[mi];W[zz];B[aa];W[])", ParseWarning.PASS_AS_TT)],
    "size-26": [(DropReason.BAD_SIZE, ParseWarning(0))],
    "size-text": [(DropReason.BAD_SIZE, ParseWarning(0))],
    "not-go": [(DropReason.NOT_GO, ParseWarning(0))],
    "no-record": [(DropReason.NO_RECORD, ParseWarning(0))],
    "utf-16": [(DropReason.NO_RECORD, ParseWarning(0))],
    "tt-pass-on-19": [("(;FF[4]GM[1]CA[UTF-8]SZ[19];B[pd];W[];B[])", ParseWarning.PASS_AS_TT)],
    "pass-as-word": [(BLANK + ";B[cc];W[];B[];W[];B[gg];W[zz])", ParseWarning.PASS_AS_WORD)],
    "tt-point-on-21": [("(;FF[4]GM[1]CA[UTF-8]SZ[21];B[tt];W[uu];B[])", ParseWarning(0))],
    "off-board-move": [(BLANK + ";B[zz];W[zz];B[zz];W[cc])", ParseWarning(0))],
    "two-blacks-in-a-row": [(BLANK + ";B[cc];B[gg];W[cg];W[];W[gc])", ParseWarning(0))],
    "two-moves-in-node": [
        (BLANK + ";W[gg];B[cc];W[cg];B[gc])", ParseWarning.TWO_MOVES_IN_NODE | ParseWarning.MOVE_SKIPPED)
    ],
    "many-move-values": [(BLANK + ";B[cc];W[cg])", ParseWarning.MANY_MOVE_VALUES)],
    "forked-game": [
        (
            BLANK + ";AB[cc][gg][gc]AW[cg][ee];W[ce];B[eg])",
            ParseWarning.MANY_MOVE_VALUES | ParseWarning.SETUP_AFTER_ROOT,
        ),
        (
            BLANK + ";AB[cc]AW[gg][cg];B[ee])",
            ParseWarning.MANY_MOVE_VALUES | ParseWarning.SETUP_AFTER_ROOT | ParseWarning.LATER_GAME,
        ),
        (BLANK + "AB[cc][gg]AW[cg][gc]AE[aa];B[ee])", ParseWarning.MANY_MOVE_VALUES | ParseWarning.LATER_GAME),
        (BLANK + ";AW[gg];B[cc];W[ee])", ParseWarning.SETUP_AFTER_ROOT | ParseWarning.LATER_GAME),
    ],
    "move-in-root": [(BLANK + ";B[cc];W[gg])", ParseWarning.MOVE_IN_ROOT)],
    "handicap-text": [(BLANK + "HA[two]AB[cc][gg];W[ee])", ParseWarning.HANDICAP_TEXT)],
    "handicap-empty": [(BLANK + "HA[];B[ee])", ParseWarning.HANDICAP_TEXT)],
    "handicap-one": [(BLANK + "HA[1];B[ee])", ParseWarning.HANDICAP_ONE)],
    "handicap-spaces": [(BLANK + "HA[ +2 ]AB[cc][gg];W[ee])", ParseWarning(0))],
    "white-space-everywhere": [(BLANK + "AB[aa][bb];B[cc];W[gg];B[cg])", ParseWarning(0))],
    "empty-values": [(BLANK + "KM[]PB[]RE[]BR[];B[cc])", ParseWarning(0))],
    "bad-charset": [(BLANK + "PB[柯洁];B[cc])", ParseWarning.BAD_CHARSET)],
    "gb18030-no-ca": [
        (BLANK + "PB[聂卫平]PW[马晓春]BR[九段]WR[九段]EV[第三届天元战决赛]RE[黑中盘胜];B[cc])", ParseWarning(0))
    ],
    "big5-no-ca": [(BLANK + "PB[王立誠]PW[張栩]BR[九段]EV[第一屆應氏盃圍棋賽]RE[白中盤勝];B[cc])", ParseWarning(0))],
    "euc-kr-no-ca": [(BLANK + "PB[이창호]PW[조훈현]BR[9단]EV[제1기 국수전 결승]RE[흑 불계승];B[cc])", ParseWarning(0))],
    "shift-jis-no-ca": [
        (BLANK + "PB[武宮正樹]PW[小林光一]BR[九段]EV[第十期名人戦リーグ]RE[白3目半勝ち];B[cc])", ParseWarning(0))
    ],
    "euc-jp-no-ca": [(BLANK + "PB[加藤正夫]PW[石田芳夫]EV[本因坊戦の第一局];B[cc])", ParseWarning(0))],
    "latin-1-no-ca": [(BLANK + "PB[Jörg Müller]PW[François];B[cc])", ParseWarning(0))],
    "utf8-called-latin-1": [(BLANK + "PB[柯洁]PW[신진서];B[cc])", ParseWarning(0))],
    "utf8-damaged": [(BLANK + "PB[柯洁]PW[申真\ufffd]GN[第一局];B[cc])", ParseWarning(0))],
    "shift-jis-backslash": [(BLANK + "PB[小野ソ]PW[ゾ能表];B[cc])", ParseWarning(0))],
    "big5-bracket": [(BLANK + "PB[許功也]PW[周俊勳];B[cc])", ParseWarning(0))],
    "root-without-semicolon": [
        (BLANK + "PB[Ann];B[cc];W[gg])", ParseWarning.JUNK_BEFORE | ParseWarning.SEMICOLON_MISSING),
        (BLANK + ";B[ee])", ParseWarning.LATER_GAME | ParseWarning.SEMICOLON_MISSING),
    ],
    "node-without-semicolon": [
        (
            BLANK + ";B[cc];W[gg];B[cg];AW[aa])",
            ParseWarning.SEMICOLON_MISSING | ParseWarning.VARIATIONS | ParseWarning.SETUP_AFTER_ROOT,
        )
    ],
    "empty-variation": [(BLANK + ";B[cc];W[gg];B[cg])", ParseWarning.EMPTY_VARIATION | ParseWarning.VARIATIONS)],
    "node-outside-variation": [(BLANK + ";B[cc];W[gg])", ParseWarning.TEXT_SKIPPED)],
    "text-between-nodes": [
        (BLANK + "PB[Ann];B[cc];W[gg];B[cg])", ParseWarning.TEXT_SKIPPED | ParseWarning.MANY_MOVE_VALUES)
    ],
    "closed-early": [(BLANK + "PB[Ann];B[cc];W[gg];B[cg])", ParseWarning.CLOSED_EARLY)],
    "unescaped-bracket": [
        (BLANK + "PB[Ann [3d\\]]EV[Cup [A\\] (game 1)];B[cc];W[gg])", ParseWarning.UNESCAPED_BRACKET)
    ],
    "info-after-root": [
        (BLANK + "PB[Ann]EV[Cup]PW[Bob]KM[5.5]RE[W+R]HA[2];B[cc];W[gg])", ParseWarning.INFO_AFTER_ROOT)
    ],
    "shift-jis-backslash-no-ca": [
        (BLANK + "PB[申ソ]PW[小野田表]BR[九段];B[cc];W[gg];B[cg])", ParseWarning.OTHER_CHARSET)
    ],
    "big5-backslash-no-ca": [
        (BLANK + "PB[許功]PW[周俊勳]EV[第一屆應氏盃圍棋賽];B[cc];W[gg];B[cg])", ParseWarning.OTHER_CHARSET)
    ],
    "gb18030-backslash": [(BLANK + "PB[柯洁]PW[王立誠]EV[围棋名人战决赛];B[cc];W[gg])", ParseWarning(0))],
    "utf8-called-big5": [(BLANK + "PB[이세돌]PW[박정환];B[cc];W[gg])", ParseWarning.OTHER_CHARSET)],
    "utf8-called-gb2312": [(BLANK + "PB[柯洁]PW[古力];B[cc];W[gg])", ParseWarning(0))],
    "latin-1-called-big5": [(BLANK + "PB[André]PW[Zoé];B[cc];W[gg])", ParseWarning.OTHER_CHARSET)],
    "euc-kr-called-shift-jis": [(BLANK + "PB[이세돌]PW[박정환]BR[9단];B[cc];W[gg])", ParseWarning.OTHER_CHARSET)],
    "line-breaks": [(BLANK + "PB[Lee Sedol]PW[Gu Li]EV[World Cup]PC[New York];B[cc];W[gg];B[cg])", ParseWarning(0))],
    "pass-as-back-quotes": [(BLANK + ";B[cc];W[gg];B[];W[])", ParseWarning.PASS_AS_WORD)],
    "fox-komi": [("(;FF[4]GM[1]CA[UTF-8]SZ[19]KM[375]RU[Chinese]BR[P9段]WR[9段]RE[B+0.75];B[pd])", ParseWarning(0))],
}


def test_every_trap_is_in_the_table() -> None:
    assert sorted(TRAPS) == sorted(path.stem for path in TRAPS_FOLDER.glob("*.sgf"))


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str) -> None:
    games = games_of((TRAPS_FOLDER / f"{name}.sgf").read_bytes())
    found = [(game.drop or write_sgf(game).decode().replace("\n", ""), game.warnings) for game in games]
    assert found == TRAPS[name]


@pytest.mark.parametrize(
    "warning", [warning for warning in ParseWarning if warning != ParseWarning.CUT]
)  # which no parser sets
def test_each_warning_has_a_trap(warning: ParseWarning) -> None:
    assert any(warning in warnings for games in TRAPS.values() for _, warnings in games)
    assert warning.name in (Path(__file__).parents[2] / "docs/leniency.md").read_text()


# Warnings for the 48 records of the 2015 program, by which a recipe can do as that program did.
SYNTHETIC = {
    "07_HA1": ParseWarning.HANDICAP_ONE,
    "12_HA2_AB_AE_same_point": ParseWarning.SETUP_TWICE,
    "13_setup_in_later_node": ParseWarning.SETUP_AFTER_ROOT,
    "20_ko_pass_tt_then_pass_then_B": ParseWarning.PASS_AS_TT,
    "24_no_SZ": ParseWarning.SIZE_MISSING,
    "25_SZ_19:19": ParseWarning.SIZE_PAIR,
    "26_variations": ParseWarning.VARIATIONS,
    "27_B_and_W_one_node": ParseWarning.TWO_MOVES_IN_NODE,
    "28_move_two_values": ParseWarning.MANY_MOVE_VALUES,
    "29_move_in_root": ParseWarning.MOVE_IN_ROOT,
    "30_truncated": ParseWarning.TRUNCATED,
    "36_HA_text": ParseWarning.HANDICAP_TEXT,
    "42_junk_before": ParseWarning.JUNK_BEFORE,
    "43_bad_CA": ParseWarning.BAD_CHARSET,
    "44_lower_case_props": ParseWarning.LOWER_CASE_NAME,
    "47_handicap_AB_in_second_node": ParseWarning.SETUP_AFTER_ROOT,
}


# Moves off the board or on a stone (set up in 09 and 13), single-stone suicides, an immediate ko recapture; no game.
IMPOSSIBLE = {
    "09_AB_without_HA_played_on", "13_setup_in_later_node", "14_occupied_point", "15_suicide_single",
    "16_suicide_single_then_replayed", "22_ko_illegal_retake_played", "31_off_board_move", "32_upper_case_point",
    "41_empty_file", "48_recapture_takes_two_strings",
}  # fmt: skip


def test_synthetic_records(shared: Path) -> None:
    warnings = {}
    with tarfile.open(shared / "reference/kgsgo/synthetic.tar.gz") as archive:
        for member in archive:
            if not member.name.endswith(".sgf"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            name, game = Path(member.name).stem, games_of(file.read())[0]
            warnings[name] = game.warnings
            assert game.drop == (DropReason.NO_RECORD if name == "41_empty_file" else DropReason.KEPT)
            assert bool(game.errors) == (name in IMPOSSIBLE), name
    assert len(warnings) == 48
    assert {name: warning for name, warning in warnings.items() if warning} == SYNTHETIC


# The naive parser


token_soup = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)


@given(st.one_of(token_soup, token_soup.map(lambda soup: b"(;" + soup)))
def test_matches_naive_parser_on_token_soup(data: bytes) -> None:
    compare_with_naive(data)


@pytest.mark.slow
def test_matches_naive_parser_on_damaged_records() -> None:
    draw = random.Random(7)
    records = [path.read_bytes() for path in sorted(TRAPS_FOLDER.glob("*.sgf"))]
    for record in records:
        compare_with_naive(record)
    for _ in range(2000 if COMPILED else 300):
        data = bytearray(draw.choice(records) + draw.choice([b"", *records]))
        for _ in range(draw.randint(1, 6)):
            at = draw.randint(0, len(data))
            data[at : at + draw.choice((0, 1, 5))] = draw.choice([b"", bytes([draw.randrange(256)]), *PIECES])
        compare_with_naive(bytes(data))
        for game in games_of(bytes(data)):
            assert game.drop or main_line_of(read_tree(game.record, game.width, game.height)) == (
                [move for move in game.moves.tolist() if move & POINT_MASK != NO_POINT],
                game.setup.tolist(),
            )


def main_line_of(tree: Tree) -> tuple[list[int], list[int]]:
    parents, moves, ends, _ = tree.nodes.T.tolist()
    first = {parent: k for k, parent in reversed([*enumerate(parents)])}
    line = [first[-1]]
    while line[-1] in first:
        line.append(first[line[-1]])
    starts = [0, *ends]
    return [moves[k] for k in line if moves[k] >= 0], [
        stone for k in line for stone in tree.setup[starts[k] : ends[k]].tolist()
    ]


@given(st.binary(max_size=300))
def test_any_bytes_give_rows(data: bytes) -> None:
    compare_with_naive(data)
    for game in games_of(data):
        assert game.record in data
        str(game)


# sgfmill


def read_with_sgfmill(record: bytes) -> tuple[int, list[int], list[tuple[int, int]], dict[str, tuple[bytes, ...]]]:
    """Return size, moves, setup (ply, entry) and raw root properties as read by sgfmill."""
    game = sgfmill.Sgf_game.from_bytes(record)
    size, root = game.get_size(), game.get_root()
    flat = lambda point: (size - 1 - point[0]) * size + point[1]  # noqa: E731
    moves: list[int] = []
    setup = []
    for node in game.get_main_sequence():
        for bits, points in zip((0, WHITE_BIT, ERASE_BIT), node.get_setup_stones()):
            setup += [(len(moves), flat(point) | bits) for point in points]
        colour, point = node.get_move()
        if colour:
            moves.append((size * size if point is None else flat(point)) | (WHITE_BIT if colour == "w" else 0))
    return size, moves, sorted(setup), {name: tuple(root.get_raw_list(name)) for name in root.properties()}


def real_games(shared: Path, each: int) -> Iterator[Game]:
    draw = random.Random(1)
    for path in [*sorted((shared / "data/wild").iterdir()), shared / "data/kgs/KGS-2006-19-10388-.tar.gz"]:
        with tarfile.open(path) as archive:
            members = [member for member in archive if member.isfile()]
            for member in sorted(draw.sample(members, each), key=lambda member: member.offset):
                file = archive.extractfile(member)
                assert file is not None
                yield read_sgf(file.read())


@pytest.mark.slow
def test_matches_sgfmill_on_real_games(shared: Path) -> None:
    for game in real_games(shared, 250 if COMPILED else 20):
        if ParseWarning.OPENING_MISSING in game.warnings:  # sgfmill finds no game, or one of its variations
            continue
        setup = sorted(zip(game.setup_ply.tolist(), game.setup.tolist()))
        assert (game.size, game.moves.tolist(), setup, game.properties) == read_with_sgfmill(game.record)


@pytest.mark.slow
def test_real_games_round_trip(shared: Path) -> None:
    for game in real_games(shared, 100 if COMPILED else 10):
        check_laws(game)


# Round trips


def check_laws(game: Game) -> None:
    """Check that parse(write(game)) == game, and that writing is idempotent."""
    text = write_sgf(game)
    again = read_sgf(text)
    assert again == game
    assert hash(again) == hash(game)
    assert write_sgf(again) == text
    if game.width == game.height and not game.errors:
        assert read_with_sgfmill(text)[:2] == (game.size, game.moves.tolist())


@pytest.mark.parametrize("name", [name for name, games in TRAPS.items() if not isinstance(games[0][0], DropReason)])
def test_traps_round_trip(name: str) -> None:
    for game in games_of((TRAPS_FOLDER / f"{name}.sgf").read_bytes()):
        check_laws(game)


@given(st.one_of(token_soup.map(lambda soup: b"(;" + soup), st.binary(max_size=200).map(lambda tail: b"(;PB[" + tail)))
def test_any_game_round_trips(data: bytes) -> None:
    for game in games_of(data):
        if not game.drop:
            text = write_sgf(game)
            assert read_sgf(text) == game
            assert write_sgf(read_sgf(text)) == text


@st.composite
def written_games(draw: st.DrawFn) -> tuple[bytes, dict[str, object]]:
    """Generate a record by FF[4]'s grammar, with all its freedom, and its expected content."""
    width, height = draw(st.integers(1, 25)), draw(st.integers(1, 25))
    space = st.sampled_from(["", "", " ", "\n", "\r\n\t"])
    point = st.integers(0, width * height - 1)
    name = draw(st.text(st.sampled_from("ab]\\:;()[ é黑"), max_size=6))
    escaped = "".join("\\" + char if char in "\\]" else char for char in name)
    parts = ["GM[1]", f"SZ[{width}:{height}]" if width != height else f"SZ[{width}]", f"PB[{escaped}]", "CA[UTF-8]"]
    moves: list[int] = []
    setup: list[tuple[int, int]] = []

    def stones(ply: int) -> str:
        text = ""
        points = draw(st.lists(point, max_size=5, unique=True))
        for prop, bits in (("AB", 0), ("AW", WHITE_BIT), ("AE", ERASE_BIT)):
            mine = [points.pop() for _ in range(draw(st.integers(0, len(points))))]
            setup.extend((ply, p | bits) for p in mine)
            text += prop + "".join(f"{draw(space)}[{to_sgf(p, width, height)}]" for p in mine) if mine else ""
        return text

    parts.append(stones(0))
    text = "(" + draw(space) + ";" + draw(space).join(draw(st.permutations(parts)))
    root_setup, opened = len(setup), 0
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.integers(0, 5)) == 0:
            text += "("
            opened += 1
        text += draw(space) + ";" + draw(space)
        if draw(st.integers(0, 5)) == 0:
            text += stones(len(moves))
            continue
        move, colour = draw(st.integers(0, width * height)), draw(st.sampled_from("BW"))
        moves.append(move | (WHITE_BIT if colour == "W" else 0))
        text += draw(st.sampled_from(["", "C[(;B[aa\\])]", "LB[aa:1]"])) + f"{colour}[{to_sgf(move, width, height)}]"
        text += draw(st.sampled_from(["", "BL[3.5]", "TR[aa][bb]"])) + draw(space)
    variation = "(;W[aa](;B[bb])(;B[cc]C[)]))"
    text += "".join(")" + draw(st.sampled_from(["", variation, "\n"])) for _ in range(opened)) + ")"
    expected = {"size": (width, height), "moves": moves, "setup": setup, "root": root_setup, "name": name}
    return text.encode(), expected


@given(written_games())
def test_generated_records(written: tuple[bytes, dict[str, object]]) -> None:
    data, expected = written
    game = read_sgf(data)
    assert {
        "size": (game.width, game.height),
        "moves": game.moves.tolist(),
        "setup": list(zip(game.setup_ply.tolist(), game.setup.tolist())),
        "root": game.root_setup,
        "name": game.text("PB"),
    } == expected
    compare_with_naive(data)
    text = write_sgf(game)
    assert read_sgf(text) == game
    assert write_sgf(read_sgf(text)) == text


@pytest.mark.parametrize(
    ("board", "properties", "record"),
    [
        ((19, 19, None), {}, "(;FF[4]GM[1]CA[UTF-8]SZ[19])"),
        ((13, 9, 0), {"PB": "柯洁", "PW": None, "RE": ""}, "(;FF[4]GM[1]CA[UTF-8]SZ[13:9]PB[柯洁]RE[])"),
        (
            (9, 9, 2),
            {"GN": "a]b\\c", "EV": "one\r\ntwo"},
            r"(;FF[4]GM[1]CA[UTF-8]SZ[9]GN[a\]b\\c]EV[one" "\ntwo]HA[2])",
        ),
    ],
)
def test_make_record(board: tuple[int, int, int | None], properties: dict[str, str | None], record: str) -> None:
    assert make_record(*board, properties) == record.encode()


def test_dropped_games_cannot_be_written() -> None:
    with pytest.raises(GameError, match="board size"):
        write_sgf(read_sgf(b"(;SZ[99];B[aa])"))


def test_no_point_round_trips() -> None:
    game = read_sgf(b"(;SZ[25];B[yy];W[zz];B[AA])")
    assert game.moves.tolist() == [624, NO_POINT | WHITE_BIT, NO_POINT]
    assert write_sgf(game).endswith(b";B[yy]\n;W[zz]\n;B[zz]\n)\n")
    assert np.array_equal(read_sgf(write_sgf(game)).moves, game.moves)


NAN = math.nan


def seconds(text: str) -> list[float]:
    """Return the times of one game, rounded to milliseconds; [] if the block has none."""
    used = compare_text_fields(as_block([f"(;SZ[9]{text})".encode()])).seconds
    return [] if used is None else [round(float(each), 3) for each in used]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # main time
        ("TM[600];B[aa]BL[590.5];W[ba]WL[600];B[ca]BL[580.25]", [9.5, 0, 10.25]),
        ("TM[10m];B[aa]BL[590]", [10]),
        ("TM[600];BL[590]B[aa];W[ba]C[WL[1\\]]", [10, NAN]),
        (";B[aa]BL[590.5];W[ba]WL[600];B[ca]BL[580]", [NAN, NAN, 10.5]),  # main time unknown
        ("TM[0];B[aa]BL[590.5];W[ba];B[ca]BL[580]", [NAN, NAN, 10.5]),  # no limit
        ("TM[600];B[aa]BL[500];W[ba];B[ca]BL[550];W[da];B[ea]BL[540]", [100, NAN, NAN, NAN, 10]),  # time was added
        ("TM[600];B[aa];W[ba];B[ca]BL[550];W[da];B[ea]BL[540]", [NAN, NAN, NAN, NAN, 10]),  # of two moves
        ("TM[600];B[aa]BL[x];W[ba];B[ca]BL[-1]", [NAN] * 3),
        ("TM[600];B[aa]BL[590]BL[580];W[ba]WL[x]WL[590]", [10, NAN]),  # the first value is used
        # both clocks in each node, as NNGS writes them
        ("TM[1800];B[aa];W[ba]BL[1797]WL[1743];B[ca]BL[1791]WL[1743];W[da]BL[1791]WL[1739]", [3, 57, 6, 4]),
        ("TM[60];B[aa]BL[59];W[ba];BL[50]WL[55];B[ca]BL[58]", [1, 5, 1]),
        # byo-yomi: KGS writes the clock after it was reset
        ("TM[60]OT[5x30 byo-yomi];B[aa]BL[5.5];W[ba];B[ca]BL[30]OB[5];W[da];B[ea]BL[30]OB[4]", [54.5, *[NAN] * 4]),
        # others write what was left of the period
        ("TM[60]OT[5x30 byo-yomi];B[aa]BL[5];W[ba];B[ca]BL[29]OB[5]", [55, NAN, 6]),
        ("TM[60]OT[5x30 byo-yomi];B[aa]BL[5];W[ba];B[ca]BL[29]OB[4]", [55, NAN, NAN]),  # OB may or may not count it
        ("TM[0]OT[5x30 byo-yomi];B[aa]BL[21]OB[5];W[ba];B[ca]BL[20]OB[5];W[da];B[ea]BL[25]OB[3]",
         [9, NAN, 10, NAN, 65]),
        ("TM[0]OT[5x30 byo-yomi];B[aa]BL[21]OB[4];W[ba];B[ca]BL[20]OB[5]", [NAN, NAN, NAN]),
        ("TM[0]TC[3]TT[60];B[aa]BL[50]OB[3];W[ba]", [10, NAN]),
        ("TM[0]OT[20 per move];B[aa]BL[20]OB[1];W[ba]WL[15]OW[1]", [NAN, 5]),
        # a count in main time: below the length of a period, main time and the first period look the same
        ("TM[60]OT[3x5 byo-yomi];B[aa]BL[50]OB[3];W[ba];B[ca]BL[4]OB[3];W[da];B[ea]BL[3]OB[2]", [10, *[NAN] * 4]),
        # no count in overtime: after the clock has risen, nothing is known
        ("TM[60]OT[3x30 byo-yomi];B[aa]BL[5];W[ba];B[ca]BL[25];W[da];B[ea]BL[20]", [55, NAN, NAN, NAN, NAN]),
        # Canadian overtime: OB is the number of moves left in the period
        ("TM[60]OT[25/300 Canadian];B[aa]BL[5];W[ba];B[ca]BL[290]OB[24];W[da];B[ea]BL[280.5]OB[23]",
         [55, NAN, 15, NAN, 9.5]),
        ("TM[60]OT[25/300 Canadian];B[aa]BL[5];W[ba];B[ca]BL[290]OB[25]", [55, NAN, 15]),
        ("TM[60]OT[25/300 Canadian];B[aa]BL[5];W[ba];B[ca]BL[300]OB[25]", [55, NAN, NAN]),
        ("TM[0]OT[2/30 Canadian];B[aa]BL[20]OB[1];W[ba];B[ca]BL[15]OB[0];W[da];B[ea]BL[25]OB[1]",
         [10, NAN, 5, NAN, 5]),
        ("TM[0]OT[2/30 Canadian];B[aa]BL[20]OB[1];W[ba];B[ca]BL[30]OB[2];W[da];B[ea]BL[25]OB[1]",
         [10, NAN, NAN, NAN, 5]),  # the last move of a period that was reset
        # overtime whose clocks are read differently, or not understood
        ("TM[60]OT[10 fischer];B[aa]BL[55]", [NAN]),
        ("TM[60]OT[by ear];B[aa]BL[55]", [NAN]),
        # no clock
        *((text, []) for text in (";B[aa];W[ba]", ";B[aa]C[BL 5]", "GM[2];B[aa]BL[5]")),
    ],
)  # fmt: skip
def test_times_used(text: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(seconds(text), expected)


def test_games_of_a_block_are_read_by_themselves() -> None:
    first, second = b"(;SZ[9]TM[60];B[aa]BL[59])", b"(;SZ[9];B[aa];W[ba])"
    parsed = read_block(as_block([second, first + second, first]))
    np.testing.assert_array_equal(parsed.seconds, [NAN, NAN, 1, NAN, NAN, 1])
    assert parsed.evaluations is None


LIMITS = ["", "TM[60]", "TM[0]"], ["", "OT[3x30 byo-yomi]", "OT[5/30 Canadian]", "OT[0]", "TC[2]TT[30]"]


@pytest.mark.slow
def test_made_clocks_as_the_naive_reader() -> None:
    """Players who use random times, with clocks that some nodes lack or write differently."""
    draw = random.Random(7)
    for _ in range(300):
        text = "".join(map(draw.choice, LIMITS))
        left, count = {"B": 60.0, "W": 60.0}, {"B": -1, "W": -1}
        for ply in range(30):
            side = "BW"[ply % 2]
            left[side] -= draw.choice((0, 0.5, 5, 17.25))
            while left[side] < 0:
                left[side] += 30
                count[side] = draw.choice((5, 3)) if count[side] < 0 else max(count[side] - 1, 0)
            count[side] -= draw.random() < 0.3
            shown = draw.choice((left[side], 30.0)) if count[side] >= 0 else left[side]
            text += f";{side}[]"
            for each in draw.choice((side, side, side, "BW", "", "W")):
                text += f"{each}L[{shown if each == side else left[each]}]"
                text += f"O{each}[{count[each]}]" if draw.random() < 0.9 and count[each] >= -1 else ""
        seconds(text)


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
        DropReason.KEPT, DropReason.UNREADABLE, DropReason.NO_RECORD, DropReason.KEPT, DropReason.KEPT,
    ]  # fmt: skip
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

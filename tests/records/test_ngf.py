"""NGF: both dialects and disputed points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz_ngf import GI_RECORD, RECORD
from kifu.errors import DropReason
from kifu.point import NO_POINT
from kifu.records.games import NO_HANDICAP, ParsedBlock, ParseWarning
from kifu.records.ngf import read_ngf
from kifu.records.ranks import Rank
from kifu.records.sgf import as_block
from readings import PASS, SETUP, STONES, Reading, W, check_members, kept, readings, texts_of


def record(*moves: str, **changed: str) -> bytes:
    names = ("title", "size", "white", "black", "place", "handicap", "zero", "komi", "date", "time", "result", "moves")
    lines = dict(zip(names, RECORD.splitlines())) | changed
    return "\n".join([*lines.values(), *moves]).encode() + b"\n"


def parse(*members: bytes) -> ParsedBlock:
    return read_ngf(as_block(members))


def texts(data: bytes) -> dict[str, str]:
    return texts_of(parse(data))


def moves(data: bytes) -> list[int]:
    return parse(data).games.moves.tolist()


HEADER = record()
MOVE = b"PMABBREER\n"
TRAPS: dict[str, tuple[bytes, Reading]] = {
    "empty": (b"", Reading(DropReason.NO_RECORD)),
    "text": (b"hello\nworld\n", Reading(DropReason.NO_RECORD)),
    "whole": (RECORD.encode(), kept(73, 60 | W, PASS, 319 | W)),
    "crlf": (RECORD.replace("\n", "\r\n").encode(), kept(73, 60 | W, PASS, 319 | W)),
    "cr": (RECORD.replace("\n", "\r").encode(), kept(73, 60 | W, PASS, 319 | W)),
    "byte-order-mark": (b"\xef\xbb\xbf" + RECORD.encode(), kept(73, 60 | W, PASS, 319 | W)),
    "gi": (GI_RECORD.encode("gb18030"), kept(73, 60 | W)),
    "no-moves": (HEADER, kept()),
    "passes": (record("PMABBAAAA", "PMACWAAAA"), kept(PASS, PASS | W)),
    "corners": (record("PMABBBBBB", "PMACWTTTT"), kept(0, 360 | W)),
    "off-board": (record("PMABBUUUU", "PMACWABBA", "PMADB??"), kept(NO_POINT, NO_POINT | W, NO_POINT)),
    "colours-as-recorded": (record("PMABBREER", "PMACBEEEE"), kept(73, 60)),
    "spaces": (record("  PMABBREER  ", "\tPMACWEEEE"), kept(73, 60 | W)),
    "other-lines": (record("PMABBREER", "", "XX", "PMACWEEEE", "GI1"), kept(73, 60 | W)),
    "small-board": (record("PMABBBBBB", "PMACWKKKK", size="9"), kept(0, NO_POINT | W, size=9)),
    "no-size": (record("PMABBREER", size="?"), kept(73, warnings=ParseWarning.SIZE_MISSING)),
    "moves-alone": (MOVE, kept(73, handicap=NO_HANDICAP, warnings=ParseWarning.SIZE_MISSING | ParseWarning.TRUNCATED)),
    "size-26": (record("PMABBREER", size="26"), Reading(DropReason.BAD_SIZE)),
    "size-0": (record("PMABBREER", size="0"), Reading(DropReason.BAD_SIZE)),
    "handicap-text": (record(handicap="two"), kept(handicap=NO_HANDICAP, warnings=ParseWarning.HANDICAP_TEXT)),
    "handicap-empty": (record(handicap=""), kept(handicap=NO_HANDICAP)),
    "handicap-one": (record(handicap="1"), kept(handicap=1, warnings=ParseWarning.HANDICAP_ONE)),
    "cut-header": (b"Title\n19\nA\nB\n", kept(handicap=NO_HANDICAP, warnings=ParseWarning.TRUNCATED)),
    "cut-in-move": (HEADER + MOVE + b"PMACW", kept(73, warnings=ParseWarning.TRUNCATED)),
    "cut-in-repetition": (HEADER + MOVE + b"PMACWEE", kept(73, 60 | W, warnings=ParseWarning.TRUNCATED)),
    "cut-after-move": (HEADER + MOVE[:-1], kept(73)),
    "most-moves": (HEADER + MOVE * 65_535, kept(*[73] * 65_535)),
    "too-many-moves": (HEADER + MOVE * 65_536, Reading(DropReason.TOO_LARGE)),
}


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str) -> None:
    data, expected = TRAPS[name]
    assert readings(parse(data)) == [expected]


NINE, GI = record("PMABBBBBB", size="9", title="Next"), GI_RECORD.encode("gb18030")
FIRST: dict[str, bytes] = {
    "whole": HEADER + MOVE, "crlf": (HEADER + MOVE).replace(b"\n", b"\r\n"), "line-break-missing": HEADER + MOVE[:-1],
    "cut-in-header": b"Title\n19\nA\nB\n", "cut-in-repetition": HEADER + MOVE + b"PMACWEE\n", "gi": GI,
    "gi-line-break-missing": GI[:-1], "no-moves": HEADER, "moves-alone": MOVE,
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_joined_records(name: str) -> None:
    expected = [readings(parse(data))[0] for data in (FIRST[name], GI, NINE)]
    later = [replace(each, warnings=each.warnings | ParseWarning.LATER_GAME) for each in expected[1:]]
    parsed = parse((b"\xef\xbb\xbf" if name == "whole" else b"").join((FIRST[name], GI, NINE)))
    assert readings(parsed) == [expected[0], *later]
    assert (parsed.index.tolist(), texts_of(parsed, 2)["title"]) == ([0, 1, 2], "Next")


def test_cut_records_before_others() -> None:
    nine = kept(0, size=9, warnings=ParseWarning.LATER_GAME)
    assert readings(parse(HEADER + MOVE + MOVE[:5] + NINE)) == [kept(73), nine]
    assert readings(parse(b"Title\n19\nA\nB" + NINE))[1] == nine
    assert readings(parse(b"mail\n" + NINE)) == [kept(0, size=9, warnings=ParseWarning.JUNK_BEFORE)]


def test_members_are_read_separately() -> None:
    check_members(read_ngf, [data for name, (data, _) in TRAPS.items() if "many" not in name])


def test_texts() -> None:
    assert texts(RECORD.encode()) == {
        "title": "Rated game", "white": "LQC", "white_rank": "9DP", "black": "CYY", "black_rank": "9DP",
        "place": "www.cyberoro.com", "komi": "7.5", "date": "2017-03-16", "time": "300", "result": "B+0.5",
    }  # fmt: skip
    assert texts(GI_RECORD.encode("gb18030")) == {
        "title": "韩国十段战", "white": "朴承华", "white_rank": "初段", "black": "李载雄", "black_rank": "五段",
        "komi": "6.5", "date": "2006-09-05", "result": "B+R",
    }  # fmt: skip


RESULTS = {
    "Black wins by 0.5!": "B+0.5", "White Win by Resign!": "W+R", "White loses on time": "B+T",
    "Black loses on time!": "W+T", "black WINS by 12.5!": "B+12.5", "Black wins by Resign!": "B+R",
    "Black Win by 34win >> White(58):Black(92)": "B+34", "White wins on time!": "W+T", "Draw!": "0",
    "White wins by Disconnection!": "W+F", "Void": "Void", "White wins by resi!": "W+R",
    "Black wins by 16.5 points! >> White(66):Black(89)": "B+16.5",
    "흑7집승": "B+7", "250수 흑7집승": "B+7", "백불계승": "W+R", "백 3집반승": "W+3.5", "흑시간승": "B+T",
    "백기권승": "W+F",
    "흑접속끊김패": "W+F", "백 시간패": "B+T", "무승부": "0", "118수 백 불계승": "W+R",
    "黑中盘胜": "B+R", "白中盘胜": "W+R", "黑胜2.5目": "B+2.5", "白胜3又1/4子": "W+6.5", "黑超时负": "W+T",
    "白不计胜": "W+R",
    "211手 黑中盘胜": "B+R", "白时间胜": "W+T", "和棋": "0", "黑逾時負": "W+T",
    "黒5.5目勝\uff01": "B+5.5", "黒5.5目勝\uff01 >> 白(64):黒(76)": "B+5.5", "白中押し勝ち": "W+R",
    "黒半目勝ち": "B+0.5", "黒時間切れ勝ち": "B+T", "ジゴ": "0", "白3目半勝": "W+3.5",
    "Progressing!": None, "진행중": None, "": None, "who knows": "who knows",
}  # fmt: skip


@pytest.mark.parametrize("text", RESULTS)
def test_results(text: str) -> None:
    assert texts(record(result=text)).get("result") == RESULTS[text]


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        ("IDB[2] 白胜1.5目[EndTxt]", "W+1.5"),
        ("IDB[1] 白中盘胜[EndTxt]\nIDB[2] 黑中盘胜", "B+R"),
        ("IDB[2] 好棋[EndTxt]", None),
        ("XDB[2] 黑中盘胜[EndTxt]", None),
    ],
)
def test_result_in_a_comment(comments: str, expected: str | None) -> None:
    before, _, _ = GI_RECORD.partition("IDB")
    assert texts((before + comments).encode("gb18030")).get("result") == expected


@pytest.mark.parametrize(
    ("komi", "handicap", "expected"),
    [
        ("7", "0", "7.5"), ("6", "0", "6.5"), ("0", "0", "0.5"), ("-6", "0", "-5.5"), ("0", "1", "0"), ("0", "6", "0"),
        ("5", "2", "5"), ("6.5", "0", "6.5"), ("100", "2", "100.00"), ("none", "0", "none"), ("6", "", "6.5"),
    ],
)  # fmt: skip
def test_komi_has_half_a_point_more_without_handicap(komi: str, handicap: str, expected: str) -> None:
    assert texts(record(komi=komi, handicap=handicap))["komi"] == expected


PLAYERS = {
    "LQC         9DP": ("LQC", "9DP", "9p"), "Lee Chang Ho  7D*": ("Lee Chang Ho", "7D*", "7d*"),
    "노영현      5단*": ("노영현", "5단*", "5d*"), "홍성지      7단P": ("홍성지", "7단P", "7p"),
    "x   21K*": ("x", "21K*", "21k*"),
    "朴承华 初段": ("朴承华", "初段", "1d"), "a b 3k": ("a b", "3k", "3k"), "Lee Sedol": ("Lee Sedol", None, None),
    "江維傑\u3000\u30005段P": ("江維傑", "5段P", "5p"), "9d": ("9d", None, None), "": (None, None, None),
}  # fmt: skip


@pytest.mark.parametrize("line", PLAYERS)
def test_players(line: str) -> None:
    found = texts(record(white=line, black="B  1D"))
    rank = found.get("white_rank")
    assert (found.get("white"), rank, rank and str(Rank.parse(rank))) == PLAYERS[line]
    assert (found["black"], found["black_rank"]) == ("B", "1D")


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("date", "20170316 [09:37]", "2017-03-16"), ("date", "20100123 [21: 6]", "2010-01-23"),
        ("date", "2006-9-5", "2006-09-05"), ("date", "2006", "2006"), ("time", "0", "0"), ("time", "480", "28800"),
        ("time", "a while", "a while"),
    ],
)  # fmt: skip
def test_dates_and_main_time(field: str, text: str, expected: str) -> None:
    assert texts(record(**{field: text}))[field] == expected


NAMES = {
    "utf_8": ("이세돌", "柯洁", "Rated game"),
    "gb18030": ("李昌镐", "常昊", "第三届春兰杯决赛第一局"),
    "cp949": ("이창호", "조훈현", "제5기 한국물가정보배"),
    "cp932": ("小林光一", "アギラール", "ﾚｰﾃｨﾝｸﾞ対局"),
    "cp950": ("周俊勳", "張栩", "應氏盃世界圍棋賽"),
}


@pytest.mark.parametrize("codec", NAMES)
def test_character_sets(codec: str) -> None:
    white, black, title = NAMES[codec]
    data = record("PMABBREER", white=f"{white}  9D", black=f"{black}  1D", title=title).decode().encode(codec)
    parsed = parse(data)
    found = texts(data)
    assert parsed.codecs == [codec]
    assert (found["white"], found["black"], found["title"]) == (white, black, title)


@pytest.mark.parametrize("handicap", [-1, 0, 1, *SETUP, 10, 9999])
def test_handicap_stones(handicap: int) -> None:
    games = parse(record("PMABWREER", handicap=str(handicap))).games
    points = {STONES[int(k)] for k in SETUP.get(handicap, "")}
    assert set(games.setup.tolist()) == points
    assert games.root_setup.tolist() == [len(points)]
    assert games.handicap.tolist() == [handicap]


@pytest.mark.parametrize(("size", "points"), [(9, {2 * 9 + 6, 6 * 9 + 2}), (13, {3 * 13 + 9, 9 * 13 + 3}), (5, set())])
def test_handicap_on_small_boards(size: int, points: set[int]) -> None:
    assert set(parse(record(handicap="2", size=str(size))).games.setup.tolist()) == points


def test_large_texts_are_bounded() -> None:
    parsed = parse(b"a" * 1_000_000 + b"\n19\n", record("PMABBREER") + b"x" * 1_000_000)
    assert parsed.games.drop.tolist() == [DropReason.NO_RECORD, DropReason.KEPT]
    assert len(parsed.text_fields.data) < 200_000


def test_seconds_and_codecs_have_a_value_for_each_game() -> None:
    parsed = parse(RECORD.encode(), b"", GI_RECORD.encode("gb18030"))
    assert parsed.seconds is None
    assert parsed.codecs == ["utf_8", "utf_8", "gb18030"]
    assert np.diff(parsed.games.move_offset).tolist() == [4, 0, 2]

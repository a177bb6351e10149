"""GIB: traps, dialects, and the real samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import readings as r
from kifu.convert import convert
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import read
from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import RECORD_RULES
from kifu.point import NO_POINT
from kifu.records.games import NO_HANDICAP, ParseWarning
from kifu.records.gib import read_gib
from kifu.records.sgf import as_block
from readings import PASS, SETUP, STONES, Reading, W, check_members, readings, texts_of


def record(*lines: str, header: str = "", handicap: int = 0) -> bytes:
    """Return a record with these lines after INI."""
    text = "".join(f"{line} \n" for line in lines)
    return f"\\HS\n{header}\\HE\n\\GS\n2 1 0\n9 0 &4\nINI 0 1 {handicap} &4\n{text}\\GE\n".encode()


def kept(*moves: int, **changes: Any) -> list[Reading]:
    return [r.kept(*moves, **changes)]


def dropped(reason: DropReason) -> list[Reading]:
    return [Reading(reason)]


STO_AA, STO_BA = "STO 0 2 1 0 0", "STO 0 3 2 1 0"
WHOLE = record(STO_AA, STO_BA)
DIAGRAM = b"\\RS\n\\[REFSUSUN=3\\]\n\\[REFGIBO=\nINI 0 1 2 &4\nSTO 0 2 1 9 9\n\\]\n\\RE\n"

TRAPS: dict[str, tuple[bytes, list[Reading]]] = {
    "empty": (b"", dropped(DropReason.NO_RECORD)),
    "no-record": (b"STO 0 2 1 0 0\n", dropped(DropReason.NO_RECORD)),
    "plain": (WHOLE, kept(0, 1 | W)),
    "crlf": (WHOLE.replace(b"\n", b"\r\n"), kept(0, 1 | W)),
    "cr": (WHOLE.replace(b"\n", b"\r"), kept(0, 1 | W)),
    "bom-and-nuls": (b"\xef\xbb\xbf" + WHOLE + b"\0\0", kept(0, 1 | W)),
    "junk-before": (b"mail\n" + WHOLE, kept(0, 1 | W, warnings=ParseWarning.JUNK_BEFORE)),
    "opening-missing": (b"\\[GAMENAME=x\\]\n" + WHOLE[4:], kept(0, 1 | W, warnings=ParseWarning.OPENING_MISSING)),
    "no-header": (WHOLE[8:], kept(0, 1 | W, warnings=ParseWarning.OPENING_MISSING)),
    "end-missing": (WHOLE[:-4], kept(0, 1 | W, warnings=ParseWarning.TRUNCATED)),
    "cut-in-move": (WHOLE[:-8], kept(0, warnings=ParseWarning.TRUNCATED)),
    "cut-after-1": (record("STO 0 2 1 3 1")[:-6], kept(warnings=ParseWarning.TRUNCATED)),
    "cut-after-2": (record("STO 0 2 1 3 2")[:-6], kept(41, warnings=ParseWarning.TRUNCATED)),
    "cut-in-header": (b"\\HS\n\\[GAMENAME=x", kept(handicap=NO_HANDICAP, warnings=ParseWarning.TRUNCATED)),
    "diagram": (WHOLE + DIAGRAM, kept(0, 1 | W)),
    "diagram-without-end": (WHOLE[:-4] + DIAGRAM, kept(0, 1 | W, warnings=ParseWarning.TRUNCATED)),
    "two-games": (WHOLE * 2, kept(0, 1 | W) + kept(0, 1 | W, warnings=ParseWarning.LATER_GAME)),
    "cut-then-another": (
        WHOLE[:-4] + WHOLE,
        kept(0, 1 | W, warnings=ParseWarning.TRUNCATED) + kept(0, 1 | W, warnings=ParseWarning.LATER_GAME),
    ),
    "other-words": (record(STO_AA, "REM 0 3 -1 -1 0 1", "DSC 0 0", "SUR 0 1", "WIT", "", STO_BA), kept(0, 1 | W)),
    "wrong-numbers": (record("STO 0 9 1 0 0", "STO 0 9 2 1 0", "STO x"), kept(0, 1 | W, NO_POINT)),
    "twice": (record(STO_AA, STO_AA), kept(0, 0)),
    "two-blacks-in-a-row": (record(STO_AA, "STO 0 3 1 1 0"), kept(0, 1)),
    "off-board": (record("STO 0 2 1 19 0", "STO 0 3 2 -1 0", STO_AA), kept(NO_POINT, NO_POINT | W, 0)),
    "no-colour": (record(STO_AA, "STO 0 3 3 1 0"), kept(0, NO_POINT | W)),
    "passes": (record(STO_AA, "SKI 0 3", "SKI 0 4", STO_BA, "SKI 0 6"), kept(0, PASS | W, PASS, 1 | W, PASS)),
    "pass-first": (record("SKI 0 2", STO_BA), kept(PASS, 1 | W)),
    "pass-first-with-handicap": (record("SKI 0 2", handicap=2), kept(PASS | W, handicap=2, setup=[288, 72])),
    "handicap-one": (record(STO_AA, handicap=1), kept(0, handicap=1, warnings=ParseWarning.HANDICAP_ONE)),
    "handicap-ten": (
        record(STO_AA, handicap=10), kept(0, handicap=NO_HANDICAP, warnings=ParseWarning.HANDICAP_TEXT)
    ),
    "handicap-by-tag": (
        record("SKI", header="\\[GAMETAG=S0,R2\\]\n").replace(b"INI", b"---"),
        kept(PASS | W, handicap=2, setup=[288, 72])
    ),
    "handicap-by-line": (record("SKI", header="\\[GAMETAG=R2\\]\n"), kept(PASS)),
    "size-9": (
        record("STO 0 2 1 8 8", "STO 0 3 2 9 8", handicap=2, header="\\[GAMEINFOMAIN=GTYPE:0,LINE:9,AUSZ:0\\]\n"),
        [Reading(size=9, handicap=2, moves=[80, NO_POINT | W])],
    ),
    "size-26": (record(STO_AA, header="\\[GAMEINFOMAIN=LINE:26\\]\n"), dropped(DropReason.BAD_SIZE)),
    "size-text": (record(STO_AA, header="\\[GAMEINFOMAIN=LINE:?\\]\n"), kept(0)),
    "many-moves": (record(*["SKI"] * 65_535), kept(*[PASS, PASS | W] * 32_767, PASS)),
    "too-many-moves": (record(*["SKI"] * 65_536), dropped(DropReason.TOO_LARGE)),
    "too-many-games": (
        b"\\HS\n" * 66,
        kept(handicap=NO_HANDICAP, warnings=ParseWarning.TRUNCATED)
        + kept(handicap=NO_HANDICAP, warnings=ParseWarning.TRUNCATED | ParseWarning.LATER_GAME) * 63
        + dropped(DropReason.TOO_LARGE),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str) -> None:
    data, games = TRAPS[name]
    assert readings(read_gib(as_block([data]))) == games


def test_rows_of_several_members() -> None:
    members = [WHOLE * 2, b"", b"\\HS\n", WHOLE]
    check_members(read_gib, members)
    parsed = read_gib(as_block(members))
    assert parsed.index.tolist() == [0, 1, 0, 0, 0]
    assert parsed.games.member.tolist() == parsed.games.block_index.tolist() == [0, 0, 1, 2, 3]
    block = parsed.block
    assert [block.data[a:b].tobytes() for a, b in zip(parsed.games.start, parsed.games.stop)] == [WHOLE] * 2 + members[
        1:
    ]
    assert parsed.games.to_play.tolist() == [0] * 5


@pytest.mark.parametrize("stones", SETUP)
def test_handicap_stones(stones: int) -> None:
    (game,) = readings(read_gib(as_block([record(handicap=stones)])))
    assert game.setup == [STONES[int(k)] for k in SETUP[stones]]


def fields_of(header: str, codec: str = "utf-8") -> dict[str, str]:
    """Return the text fields of a record with this header, each line of which is in \\[ and \\]."""
    lines = "".join(f"\\[{line}\\]\r\n" for line in header.strip().splitlines())
    parsed = read_gib(as_block([b"\\HS\r\n" + lines.encode(codec) + b"\\HE\r\n\\GS\r\n\\GE"]))
    assert parsed.games.drop.tolist() == [0]
    return texts_of(parsed)


KOREAN = """GIBOKIND=Korea
GAMECONDITION=호선 : 흑 6집반
GAMETIME=제한시간 20분 : 30초 초읽기 3번
GAMERESULT=흑 시간승
GAMEZIPSU=0
GAMEDUM=0
GAMEGONGJE=65
GAMENAME=승강급 대국
GAMEDATE=2005- 8- 9-22-56-58
GAMEPLACE=타이젬 바둑
GAMEWHITENAME=동직 (1급)
GAMEWHITELEVEL=17
GAMEBLACKNAME=김 철수 (3단)
GAMEBLACKLEVEL=20"""

GLOBAL = """GIBOKIND=Global
GAMETIME=Time limit 20minute :
30 second countdown 3 time
GAMERESULT=
GAMEDUM=5
GAMEGONGJE=0
GAMENAME=Free
GAMEDATE=2016- 3-26-17-29-25
GAMEPLACE=Tygem Baduk
GAMEWHITENAME=wildism1 (10K)
GAMEWHITELEVEL=wildism1
GAMEBLACKNAME=jy512 (15K)
GAMEBLACKLEVEL=3
GAMEBLACKNICK=jy512
GAMEINFOMAIN=GBKIND:3,GTIME:1200-30-3,GRLT:255,ZIPSU:0,DUM:5,GONGJE:0
WUSERINFO=WID:楷摬楳ㅭ,WLV:8,WNICK:楷摬楳ㅭ,WNCD:0
GAMETAG=S1,R3,D5,G0,W255,Z0,T30-3-1200,\t\tC2016:03:26:17:29,\t\tI:楷摬楳ㅭ,L:8,M:jy512,N:3,A:楷摬楳ㅭ,B:jy512,J:0,K:0"""

EWEIQI = """GAMEINFOMAIN=GBKIND:2,GTYPE:0,GTIME:7200-60-5,GRLT:1,ZIPSU:5,DUM:0,GONGJE:75,TCNT:5,LINE:19,AUSZ:0
GAMEINFOSUB=GNAMEF:99,GNAME:第1局, 名人战,GDATE:2026-07-30-13-31-33,GPLC:www.eweiqi.com,GCMT:姜大胖
WUSERINFO=WID:党毅飞 ,WLV:35,WNICK:DangYiFei,WNCD:2,WAID:0,WIMG:http://images.eweiqi.com/x.jpg
BUSERINFO=BID:柯洁 ,BLV:27,BNICK:KeJie,BNCD:2,BAID:0,BIMG:http://images.eweiqi.com/y.jpg"""

TAG_ONLY = "GAMETAG=S0,R0,D0,G75,W1,Z245,T15-3-300,C2025-01-18-16-38-32,I:a,b,L:5,M:,N:26,A:c,B:d e,J:3,K:0"

CHINESE = """GIBOKIND=China
GAMETIME=每方 20分 : 30秒 3次
GAMERESULT=白中盘胜
GAMENAME=友谊对局
GAMEDATE=2012年7月16日 上午 0:19
GAMEPLACE=弈城TYGEM对弈
GAMEWHITENAME=云淡风轻(7段)
GAMEBLACKNAME=小龙女\uff089P\uff09"""

DIALECTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "korean": (
        KOREAN,
        "cp949",
        {
            "black": "김 철수", "white": "동직", "black_rank": "3단", "white_rank": "1급", "result": "B+T",
            "komi": "6.5", "date": "2005-08-09", "time": "1200", "overtime": "3x30 byo-yomi", "place": "타이젬 바둑",
            "title": "승강급 대국",
        },
    ),
    "global": (
        GLOBAL,
        "utf-8",
        {
            "black": "jy512", "white": "wildism1", "black_rank": "15K", "white_rank": "10K", "komi": "0",
            "date": "2016-03-26", "time": "1200", "overtime": "3x30 byo-yomi", "place": "Tygem Baduk", "title": "Free",
        },
    ),
    "eweiqi": (
        EWEIQI,
        "utf-8",
        {
            "black": "柯洁", "white": "党毅飞", "black_rank": "1p", "white_rank": "9p", "result": "W+0.5",
            "komi": "7.5", "date": "2026-07-30", "time": "7200", "overtime": "5x60 byo-yomi", "place": "www.eweiqi.com",
            "title": "第1局, 名人战",
        },
    ),
    "tag-only": (
        TAG_ONLY,
        "utf-8",
        {
            "black": "d e", "white": "a,b", "black_rank": "9d", "white_rank": "13k", "result": "W+24.5", "komi": "7.5",
            "date": "2025-01-18", "time": "300", "overtime": "3x15 byo-yomi",
        },
    ),
    "chinese": (
        CHINESE,
        "gb18030",
        {
            "black": "小龙女", "white": "云淡风轻", "black_rank": "9P", "white_rank": "7段", "result": "W+R",
            "date": "2012-07-16", "time": "1200", "overtime": "3x30 byo-yomi", "place": "弈城TYGEM对弈",
            "title": "友谊对局",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_dialect(name: str) -> None:
    header, codec, texts = DIALECTS[name]
    assert fields_of(header, codec) == texts


@pytest.mark.parametrize(
    ("kind", "codec", "name", "read_as"),
    [
        ("Korea", "cp949", "김철수", "cp949"),
        ("korea", "cp949", "한", "cp949"),
        ("China", "gb18030", "\u674e\u660c\u9550", "gb18030"),
        ("Taiwan", "cp950", "周功許蓋", "cp950"),  # the second byte of 功, 許 and 蓋 is a backslash
        ("Taiwan", "utf-8", "周俊勳", "utf_8"),
        ("China", "utf-8", "李昌镐", "utf_8"),
        ("Korea", "utf-8", "이창호", "utf_8"),
        ("Global", "utf-8", "Zoë", "utf_8"),
        ("Global", "cp949", "박정환이창호김지석", "cp949"),
        (None, "utf-8", "李昌镐", "utf_8"),
        (None, "gb18030", "\u674e\u660c\u9550\u4e5d\u6bb5", "gb18030"),
        (None, "ascii", "osun", "utf_8"),
    ],
)
def test_charset(kind: str | None, codec: str, name: str, read_as: str) -> None:
    header = (f"\\[GIBOKIND={kind}\\]\n" if kind else "") + f"\\[GAMEBLACKNAME={name} (1D)\\]\n"
    parsed = read_gib(as_block([b"\\HS\n" + header.encode(codec) + b"\\HE\n\\GS\n\\GE"]))
    assert parsed.codecs == [read_as]
    assert texts_of(parsed) == {"black": name, "black_rank": "1D"}


VALUES: list[tuple[str, str, str]] = [
    *(
        (f"GAMEINFOMAIN=GRLT:{code},ZIPSU:35", "result", text)
        for code, text in enumerate(("B+3.5", "W+3.5", "", "B+R", "W+R", "B+F", "W+F", "B+T", "W+T", ""))
    ),
    ("GAMEINFOMAIN=GRLT:255,ZIPSU:35\nGAMERESULT=black wins", "result", ""),
    ("GAMEINFOMAIN=GRLT:2\nGAMERESULT=黑中盘胜", "result", "B+R"),
    ("GAMEINFOMAIN=GRLT:1,ZIPSU:0", "result", "W+"),
    ("GAMERESULT=white 24.5 win", "result", "W+24.5"),
    ("GAMERESULT=?!", "result", "?!"),
    ("GAMETAG=W0,Z5", "result", "B+0.5"),
    ("GAMEGONGJE=65", "komi", "6.5"),
    ("GAMEGONGJE=-55", "komi", "-5.5"),
    ("GAMEGONGJE=1000", "komi", "100.0"),
    ("GAMEGONGJE=?\nGAMETAG=G0", "komi", "0"),
    ("GAMECONDITION=Even : Black 6.5 Dum", "komi", "6.5"),
    ("GAMECONDITION=호선 : 흑 공제 6집반", "komi", "6.5"),
    ("GAMECONDITION=호선 : 흑 제 여섯집반", "komi", "6.5"),
    ("GAMECONDITION=3 Handicap : White Dum(5)", "komi", ""),
    ("GAMECONDITION=3 Handicap", "komi", ""),
    ("GAMECONDITION=Even : Black 6.5 Dum\nGAMEGONGJE=0", "komi", "0"),
    ("GAMEDUM=5\nGAMEINFOMAIN=DUM:5", "komi", ""),
    ("GAMEDATE=0- 0- 0\nGAMEINFOSUB=GDATE:2020-1-2-3-4-5,GPLC:x", "date", "2020-01-02"),
    ("GAMEDATE=long ago", "date", "long ago"),
    ("GAMETAG=C2020:08:21:22:55", "date", "2020-08-21"),
    ("GAMEINFOMAIN=GTIME:600-30-1", "overtime", "1x30 byo-yomi"),
    ("GAMEINFOMAIN=GTIME:60000-0-0", "time", "60000"),
    ("GAMEINFOMAIN=GTIME:60000-0-0", "overtime", ""),
    ("GAMEINFOMAIN=GTIME:whatever\nGAMETAG=T30-1-600", "time", "600"),
    ("GAMEINFOMAIN=GTIME:whatever", "time", "whatever"),
    ("GAMETIME=Time limit 60minute", "time", "3600"),
    ("GAMETIME=제한시간 20분 : 30초 초읽기 3번", "overtime", "3x30 byo-yomi"),
    ("GAMEBLACKNAME=a b(P) (9D)", "black", "a b(P)"),
    ("GAMEBLACKNAME=a (b)", "black", "a (b)"),
    ("GAMEBLACKNAME= (4D)\nGAMEBLACKNICK=x", "black", "x"),
    ("GAMEBLACKNICK=x\nBUSERINFO=BID:y,BLV:1", "black", "x"),
    ("BUSERINFO=BID:,BLV:1,BNICK:z\nGAMETAG=M:y", "black", "y"),
    ("BUSERINFO=BID:a,BLV:0", "black_rank", "18k"),
    ("BUSERINFO=BID:a,BLV:17", "black_rank", "1k"),
    ("BUSERINFO=BID:a,BLV:18", "black_rank", "1d"),
    ("BUSERINFO=BID:a,BLV:26", "black_rank", "9d"),
    ("BUSERINFO=BID:a,BLV:27", "black_rank", "1p"),
    ("BUSERINFO=BID:a,BLV:36", "black_rank", ""),
    ("GAMEBLACKLEVEL=joppon", "black_rank", ""),
    ("GAMEBLACKLEVEL=6", "black_rank", "12k"),
    ("GAMENAME=a\nGAMENAME=b", "title", "a"),
    ("GAMENAME=a\0b\0", "title", "a b"),
    ("GAMECOMMENT=x\nNEWKEY=y", "title", ""),
]


@pytest.mark.parametrize(("header", "field", "text"), VALUES)
def test_value(header: str, field: str, text: str) -> None:
    assert fields_of(header).get(field, "") == text


def test_value_without_an_end_is_left_out() -> None:
    assert fields_of("GAMENAME=x").get("title") == "x"
    data = b"\\HS\n\\[GAMENAME=cut\n\\[GAMEPLACE=here\\]\n\\[\\[GAMEGONGJE=65\\]\n\\HE\n\\GS\n\\GE"
    assert texts_of(read_gib(as_block([data]))) == {"place": "here", "komi": "6.5"}


def test_large_members_are_read_within_the_limits() -> None:
    repeated = b"\\HS\n" + b"\\[GAMENAME=x\\]\n" * 300_000 + b"\\HE\n\\GS\n" + STO_AA.encode() + b"\n\\GE\n"
    spaces = b"\\HS\n\\[GAMEBLACKNAME=a" + b" " * 65_000 + b"b (\\]\n" + WHOLE[4:]
    commas = b"\\HS\n\\[GAMETAG=" + b", ," * 20_000 + b"W3\\]\n" + WHOLE[4:]
    parsed = read_gib(as_block([repeated, spaces, commas, b"\\HS\n\\GS\n" + b"STO 0 2 1 3 3\n" * 1_000_000]))
    assert parsed.games.drop.tolist() == [0, 0, 0, DropReason.TOO_LARGE]
    assert np.diff(parsed.games.move_offset).tolist() == [1, 2, 2, 0]
    assert texts_of(parsed, 0) == {"title": "x"}
    assert texts_of(parsed, 2) == {"result": "B+R"}


def test_a_file_through_every_way(tmp_path: Path) -> None:
    path = tmp_path / "game.gib"
    header = "".join(f"\\[{line}\\]\n" for line in EWEIQI.splitlines())
    path.write_bytes(b"\xef\xbb\xbf" + record("SKI", "STO 0 3 1 2 2", header=header, handicap=3) + DIAGRAM)
    (game,) = read(path)
    assert (game.players, game.handicap, game.width, game.moves.tolist()) == (("柯洁", "党毅飞"), 3, 19, [PASS | W, 40])
    convert(path, tmp_path / "game.sgf")
    (converted,) = read(tmp_path / "game.sgf")
    assert {name: converted.text(name) for name in ("PB", "BR", "RE", "KM", "DT", "TM", "OT", "PC", "HA")} == {
        "PB": "柯洁", "BR": "1p", "RE": "W+0.5", "KM": "7.5", "DT": "2026-07-30", "TM": "7200", "OT": "5x60 byo-yomi",
        "PC": "www.eweiqi.com", "HA": "3",
    }  # fmt: skip
    tables = []
    for source in (path, tmp_path / "game.sgf"):
        ingest(source, tmp_path / "games.parquet", overwrite=True)
        tables.append(pq.read_table(tmp_path / "games.parquet").to_pylist()[0])
    first, second = tables
    assert first["format"] == "gib"
    assert {name for name in first if first[name] != second[name]} == {"archive", "member", "format"}


def _point(name: str) -> int:
    colour, point = name.split()
    move = PASS if point == "pass" else (ord(point[1]) - 97) * 19 + ord(point[0]) - 97
    return move | W if colour == "W" else move


def test_samples_equal_their_references(shared: Path) -> None:
    references = json.loads((shared / "reference/formats/gib.json").read_text("utf-8"))["files"]
    assert len(references) == 10
    for expected in references:
        parsed = read_gib(as_block([(shared / "data/formats/gib" / Path(expected["file"]).name).read_bytes()]))
        (game,) = readings(parsed)
        texts = texts_of(parsed)
        assert (game.size, game.handicap, game.warnings) == (19, expected["handicap"], ParseWarning(0))
        assert game.moves == [_point(move) for move in expected["moves"]]
        assert sorted(game.setup) == sorted(_point(stone) for stone in expected["setup"])
        assert float(texts["komi"]) == expected["komi"]
        assert (texts["black"], texts["white"]) == (expected["black"], expected["white"])
        assert [texts["black_rank"], texts["white_rank"]] == expected["ranks"]
        assert (texts["date"], texts.get("result")) == (expected["date"], expected["result"])
        time = expected["time"]
        overtime = f"{time['periods']}x{time['period_s']} byo-yomi" if time["periods"] else None
        assert (texts["time"], texts.get("overtime")) == (str(time["main_s"]), overtime)
        drop, _ = replay_all(parsed.games, RECORD_RULES, 1)
        assert drop.tolist() == [0]

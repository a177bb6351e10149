"""UGF: sections and disputed points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz_ugf import RECORD
from kifu.errors import DropReason
from kifu.point import NO_POINT
from kifu.records.games import NO_HANDICAP, ParsedBlock, ParseWarning
from kifu.records.sgf import as_block
from kifu.records.ugf import read_ugf
from marks import slow
from readings import PASS, Reading, W, check_members, kept, readings, texts_of

HEADER: dict[str, str] = {"Ver": "UGF3,200", "Size": "19", "Hdcp": "0,6.50", "CoordinateType": "IGS"}


def record(*lines: str, **changed: str | None) -> bytes:
    """Return a record with these lines in [Data] and some values of its header changed, or removed with None."""
    values = {key: value for key, value in (HEADER | changed).items() if value is not None}
    header = [f"{key}={value}" for key, value in values.items()]
    return "".join(f"{line}\n" for line in ["[Header]", *header, "[Data]", *lines]).encode()


def parse(*members: bytes) -> ParsedBlock:
    return read_ugf(as_block(members))


def texts(data: bytes) -> dict[str, str]:
    return texts_of(parse(data))


def field(name: str, **changed: str | None) -> str | None:
    return texts(record(**changed)).get(name)


QP, DP = "QP,B1,1,0", "DP,W1,2,0"  # in IGS's coordinates, from below: qd and dd
WHOLE = record(QP, DP)
PLAYED = (73, 60 | W)
TRAPS: dict[str, tuple[bytes, Reading]] = {
    "empty": (b"", Reading(DropReason.NO_RECORD)),
    "text": (b"hello\nworld\n", Reading(DropReason.NO_RECORD)),
    "whole": (WHOLE, kept(*PLAYED)),
    "crlf": (WHOLE.replace(b"\n", b"\r\n"), kept(*PLAYED)),
    "cr": (WHOLE.replace(b"\n", b"\r"), kept(*PLAYED)),
    "byte-order-mark": (b"\xef\xbb\xbf" + WHOLE, kept(*PLAYED)),
    "comments-before": (b"# made by a program\n" + WHOLE, kept(*PLAYED)),
    "made": (
        RECORD.encode("cp932"),
        kept(
            300 | W, 249, 43 | W, PASS, PASS | W,
            handicap=3, setup=[288, 72, 60], seconds=[35.0, 7.0, 12.0, 3.0, 1.0],
        ),
    ),
    "igs-counts-from-below": (record("AA,B1,1,0", "TA,W1,2,0", "AS,B1,3,0"), kept(342, NO_POINT | W, 0)),
    "jpn-counts-from-the-top": (record("AA,B1,1,0", "QP,W1,2,0", CoordinateType="JPN"), kept(0, 301 | W)),
    "no-coordinate-type": (record("QP,B1,1,0", CoordinateType=None), kept(301)),
    "passes": (record("YA,B1,1,0", "Y?,W1,2,0", "Z?,B1,3,0", "ZZ,W1,4,0"), kept(PASS, PASS | W, PASS, PASS | W)),
    "y-on-the-largest-board": (record("YA,B1,1,0", "ZA,W1,2,0", Size="25"), kept(624, 625 | W, size=25)),
    "off-board": (record("TA,B1,1,0", "A?,W1,2,0", "?A,B1,3,0", "qp,W1,4,0"), kept(*[NO_POINT, NO_POINT | W] * 2)),
    "pair-go": (record("QP,B1,1,0", "DP,W2,2,0", "DC,B2,3,0"), kept(73, 60 | W, 307)),
    "colours-as-recorded": (record(QP, "DP,B1,2,0"), kept(73, 60)),
    "short-lines": (record("QP,B", "DP,W1", "DC,B1,3"), kept(73, 60 | W, 307)),
    "seconds": (record("QP,B1,1,35", "DP,W1,2,7.5", "DC,B1,3,x"), kept(73, 60 | W, 307, seconds=[35.0, 7.5, np.nan])),
    "number-0": (record("DP,B1,0,0", "PD,W1,0,0", QP), kept(73, setup=[60, 300 | W])),
    "number-0-after-a-move": (record(QP, "DP,W1,0,0"), kept(*PLAYED)),
    "setup-off-board": (record("TT,B1,0,0", "YA,B1,0,0", QP), kept(73, warnings=ParseWarning.BAD_SETUP_POINT)),
    "figure": (record(QP, ".Fig,2,1", "DC,B1,1,0", ".Text", "x", ".EndText", ".EndFig", DP), kept(*PLAYED)),
    "text-with-a-move": (record(QP, ".Text,1", "DC,B1,1,0", ".EndText", ".#,16,16,A", DP), kept(*PLAYED)),
    "text-without-end": (record(QP, ".Text", DP), kept(73, warnings=ParseWarning.TRUNCATED)),
    "other-sections": (WHOLE + b"[Figure]\nDC,B1,1,0\n[Data]\nDC,B1,1,0\n[ReviewNode]\nNODE,1,0\n", kept(*PLAYED)),
    "remote-before-data": (WHOLE.replace(b"[Data]", b"[Remote]\nSize=9\n[Data]"), kept(*PLAYED)),
    "data-before-header": (b"[Data]\nQP,B1,1,0\n[Header]\nSize=9\n", kept(NO_POINT, size=9, handicap=NO_HANDICAP)),
    "empty-data": (b"[Header]\n[Data]\n[Figure]\n", kept(handicap=NO_HANDICAP, warnings=ParseWarning.SIZE_MISSING)),
    "cut-at-data": (record(), kept(warnings=ParseWarning.TRUNCATED)),
    "no-data": (b"[Header]\nSize=9\n", kept(size=9, handicap=NO_HANDICAP, warnings=ParseWarning.TRUNCATED)),
    "no-size": (record("QP,B1,1,0", Size=None), kept(73, warnings=ParseWarning.SIZE_MISSING)),
    "size-26": (record(Size="26"), Reading(DropReason.BAD_SIZE)),
    "size-text": (record(Size="large"), Reading(DropReason.BAD_SIZE)),
    "first-value-counts": (record(QP).replace(b"[Data]", b"Size=9\n[Data]"), kept(73)),
    "encrypted": (record(QP, Crypt="9666,XYZ,READ_WRITE"), Reading(DropReason.UNREADABLE)),
    "encrypted-without-name": (record(QP, Crypt="9666"), Reading(DropReason.UNREADABLE)),
    "plain": (record(QP, Crypt="2146,PLAIN_UGF_FILE,READ_WRITE"), kept(73)),
    "crypt-empty": (record(QP, Crypt=""), kept(73)),
    "handicap-text": (record(QP, Hdcp="two"), kept(73, handicap=NO_HANDICAP, warnings=ParseWarning.HANDICAP_TEXT)),
    "handicap-before-a-control-character": (record(QP, Hdcp="2\x1e,0"), kept(73, handicap=2)),
    "handicap-one": (record(QP, Hdcp="1,0"), kept(73, handicap=1, warnings=ParseWarning.HANDICAP_ONE)),
    "handicap-without-stones": (record("PP,W1,1,0", Hdcp="2,0"), kept(72 | W, handicap=2)),
    "cut-in-point": (WHOLE[:-8], kept(73, warnings=ParseWarning.TRUNCATED)),
    "cut-in-number": (WHOLE[:-3], kept(*PLAYED, warnings=ParseWarning.TRUNCATED)),
    "cut-after-move": (WHOLE[:-1], kept(*PLAYED)),
    "most-moves": (record(*[QP] * 65_535), kept(*[73] * 65_535)),
    "too-many-moves": (record(*[QP] * 65_536), Reading(DropReason.TOO_LARGE)),
    "most-stones": (record(*["QP,B1,0,0"] * 4096), kept(setup=[73] * 4096)),
    "too-many-stones": (record(*["QP,B1,0,0"] * 4097), Reading(DropReason.TOO_LARGE)),
}  # fmt: skip
LONG = ("most-moves", "too-many-moves")


@pytest.mark.parametrize("name", [*(name for name in TRAPS if name not in LONG), *slow(*LONG)])
def test_trap(name: str) -> None:
    data, expected = TRAPS[name]
    assert repr(readings(parse(data))) == repr([expected])  # NaN differs from itself


NINE = record("AA,B1,1,0", Size="9")
FIRST: dict[str, bytes] = {
    "whole": WHOLE, "byte-order-mark": WHOLE + b"\xef\xbb\xbf", "cut-in-number": WHOLE[:-3], "cut-in-point": WHOLE[:-8],
    "cut-in-text": record(QP, ".Text", "x"), "cut-in-header": b"[Header]\nSize=19\nHdcp=0,6",
    "no-data": b"[Header]\nSize=9\n", "encrypted": record(QP, Crypt="9666,XYZ,READ_WRITE"),
    "comment-after": WHOLE + b"[Comment]\nx\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_joined_records(name: str) -> None:
    expected = [readings(parse(data))[0] for data in (FIRST[name], NINE, WHOLE)]
    later = [replace(each, warnings=each.warnings | ParseWarning.LATER_GAME) for each in expected[1:]]
    parsed = parse(FIRST[name] + NINE + WHOLE)
    assert (readings(parsed), parsed.index.tolist()) == ([expected[0], *later], [0, 1, 2])


def test_too_many_joined_records() -> None:
    assert parse(b"[Header]\nSize=9\n" * 70).games.drop.tolist() == [DropReason.KEPT] * 65 + [DropReason.TOO_LARGE]


@pytest.mark.slow
def test_members_are_read_separately() -> None:
    check_members(read_ugf, [data for name, (data, _) in TRAPS.items() if "many" not in name])


def test_seconds_are_missing_if_all_are_zero() -> None:
    assert parse(WHOLE).seconds is None
    seconds = parse(record("QP,B1,1,35", DP), WHOLE).seconds
    assert seconds is not None
    assert np.array_equal(seconds, np.array([35, 0, np.nan, np.nan], np.float32), equal_nan=True)


def test_texts() -> None:
    assert texts(RECORD.encode("cp932")) == {
        "title": "26th,碁聖,挑戦手合", "place": "日本棋院", "black": "山下", "black_rank": "碁聖", "white": "小林",
        "white_rank": "九段", "result": "W+R", "komi": "0.5", "date": "2001-08-20", "time": "14400",
        "rules": "Japanese",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hdcp", "komi", "handicap"),
    [
        ("0,6.50", "6.5", 0), ("2,0,50", "0.5", 2), ("0,-5.50", "-5.5", 0), ("0,-5,50", "-5.5", 0), ("0,6", "6", 0),
        ("0,6.5,", "6.5", 0), ("3,0.50", "0.5", 3), ("0,100", "100.00", 0), ("2", None, 2), ("0,some", "some", 0),
        (" 4 , 0 ", "0", 4),
    ],
)  # fmt: skip
def test_handicap_and_komi(hdcp: str, komi: str | None, handicap: int) -> None:
    data = record(Hdcp=hdcp)
    assert texts(data).get("komi") == komi
    assert parse(data).games.handicap.tolist() == [handicap]


RESULTS = {
    "B,7.50": "B+7.5", "W,0.50": "W+0.5", "B,7,50": "B+7.5", "W,12": "W+12", "W,C": "W+R", "B,C": "B+R", "B,T": "B+T",
    "W,N": "W+F", "B,F": "B+F", "D": "0", "D,0": "0", "O": "Void", "O,": "Void", "A": None, "P,": None, "N,": None,
    "B": "B+", "W,": "W+", "B,0": "B+", "B,X": "B,X", "X": "X", "": None,
}  # fmt: skip


@pytest.mark.parametrize("winner", RESULTS)
def test_results(winner: str) -> None:
    assert field("result", Winner=winner) == RESULTS[winner]


@pytest.mark.parametrize(
    ("players", "name", "rank"),
    [
        ({"PlayerB": "kaziwami,7d,,panda@.jp"}, "kaziwami", "7d"),
        ({"PlayerB": "K. Kobayashi,9-dan,0,"}, "K. Kobayashi", "9-dan"),
        ({"PlayerB": "kaziwami"}, "kaziwami", None),
        ({"PlayerB": ",3k"}, None, "3k"),
        ({"PlayerB": "a,5d,,", "PlayerB2": "b,5d,,"}, "a & b", "5d"),
        ({"PlayerB": "a,5d", "PlayerB2": "b,3d"}, "a & b", "5d & 3d"),
        ({"PlayerB": "a,5d", "PlayerB2": ""}, "a", "5d"),
        ({}, None, None),
    ],
)
def test_players(players: dict[str, str], name: str | None, rank: str | None) -> None:
    found = texts(record(PlayerW="w,1k", **players))
    assert (found.get("black"), found.get("black_rank")) == (name, rank)
    assert (found["white"], found["white_rank"]) == ("w", "1k")


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("Date", "2019/03/08,22:09:00,2019/03/09,07:16:59", "date", "2019-03-08"),
        ("Date", "2019", "date", "2019"),
        ("Date", ",", "date", None),
        ("Ptime", "J;240;10;60,J;240;10;60,0,0", "time", "14400"),
        ("Ptime", "N;0;0;0,N;0;0;0,0,0", "time", None),
        ("Ptime", "N", "time", None),
        ("Rule", "JPN", "rules", "Japanese"),
        ("Rule", "XYZ", "rules", "XYZ"),
        ("Title", "2019,PANDA-NET,", "title", "2019,PANDA-NET"),
        ("Place", "PANDA-NET", "place", "PANDA-NET"),
    ],
)
def test_other_fields(key: str, value: str, name: str, expected: str | None) -> None:
    assert field(name, **{key: value}) == expected


@pytest.mark.parametrize(
    ("lang", "codec"), [("SJIS", "cp932"), ("UTF8", "utf_8"), (None, "cp932"), (None, "utf_8"), ("?", "cp932")]
)
def test_character_sets(lang: str | None, codec: str) -> None:
    data = record(QP, PlayerB="小林光一,九段,0,", Place="日本棋院", Lang=lang).decode().encode(codec)
    parsed = parse(data)
    assert parsed.codecs == [codec]
    assert texts(data)["black"] == "小林光一"


def test_comments_decide_the_character_set_too() -> None:
    data = record(QP, PlayerB="小林,9d", Lang=None).decode() + "[Comment]\n日本棋院の囲碁の対局です\n"
    assert texts(data.encode("cp932"))["black"] == "小林"


def test_large_texts_are_bounded() -> None:
    parsed = parse(record(QP, Title="x" * 1_000_000), WHOLE + b"[Comment]\n" + b"\x8e" * 1_000_000)
    assert parsed.games.drop.tolist() == [DropReason.KEPT] * 2
    assert len(parsed.text_fields.data) < 200_000

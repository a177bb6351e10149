"""Recognition of programs by name, and of no human player."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import RecipeError, SourceError
from kifu.records.text import Programs, known_programs

PROGRAMS = [
    "ManyFaces", "Explorer", "Perception", "Golife", "Poka", "GNU Go", "gnugo3pt8", "GnuGo_3.8", "many_faces",
    "MFGOdnnBot", "Zen19X", "ZenLv8", "DeepZenGo", "deepzengo", "CrazyStone", "CrazySton7", "Leela", "Leela Zero",
    "LeelaZeroT", "LZ191", "Fuego", "Pachi", "AyaMC", "AyaBotD1", "HiraBot42", "FineArt", "绝艺",
    "\N{REPLACEMENT CHARACTER}?艺指导B", "Golaxy", "GOLAXY", "星阵围棋", "DolBaram", "돌바람", "AQ", "GLOBIS_AQZ",
    "KataGo", "Kata-Go b18", "Golois6", "DCNN1d08", "AlphaGo", "AI (KataGo)", "AI (KataGo)\N{HANGUL FILLER}",
    "AI (Human-like)", "ai (p:pick)", "amybot-beginner", "amybot_ddk", "noob_bot_1", "noob_bot_3", "doge_bot_4",
    "kata-bot", "katrain-6k", "katrain_3d", "KaTrain-20k", "Spectral-4k", "spectral_1d", "Fuego-trunk", "Fuego-1.1",
    "fuego 1.1", "Fuego_svn", "Golois", "Golois2", "leelazerop", "LeelaZeroT", "ELF", "ELFonShelf", "ELFBot",
    "HiraBot3", "HiraBot44", "DCNN1d01", "DcnnRasPi", "MIss", "GO2", "LeelaX", "Leela7dan", "Leela094", "LeelaZFast",
    "CrazyStonT", "GinseiIgo", "pachipachi", "pachi2", "sai0.18", "GoTrend",
]  # fmt: skip
PEOPLE = [
    "PachiPachi", "pachi2000", "leelaleela", "CrazySt0ne", "", "Zenith", "Zend", "ZenMind", "HelloZen", "botkiller",
    "Battousai", "antbot1", "ray", "Rayon414", "sai2004", "aqua", "AquaBlast", "fuegoman", "leelaaa", "pokanasi",
    "Explorer7", "alphamarc", "AlphaInsei", "crazyeight", "CrazySt0nes", "elf", "Elfe", "Miss", "miss", "missy", "go2",
    "AI7d", "Aiko", "AI", "spectralline", "Spectral", "katraining", "KaTrain", "fuegian", "noobie", "amy", "doge",
    "notarobot", "DCNN", "leelaqi", "IA", "botnet",
    "Master", "golaxyfan", "lzhang", "manyfacesofme", "GBPacker", "王元均", "星阵迷", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    assert known_programs().reason(name)


@pytest.mark.parametrize("name", PEOPLE)
def test_no_program(name: str) -> None:
    assert known_programs().reason(name) is None


@given(st.text())
def test_any_name(name: str) -> None:
    assert Programs(["GNU Go"]).reason(name + "x") is None


def test_user_patterns(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("\ufeff# mine\n\n  My-Bot*  # all of them\nx[0-9]y\n", "utf-8")
    programs = known_programs("hers?", file=file)
    assert len(programs) == len(known_programs()) + 3
    names = ("mybot 3", "X7Y", "x-7 y", "xzy", "hers2", "hers", "GNU Go")
    assert [name for name in names if programs.reason(name)] == ["mybot 3", "X7Y", "x-7 y", "hers2", "GNU Go"]


def test_a_separator_before_a_wildcard_has_to_be_there() -> None:
    programs = Programs(["my-bot-*", "his bot?", "=Exact Name"])
    names = ["my-bot-1", "My_Bot 1", "my bot_", "mybot1", "my-bot1", "hisbot2", "Exact Name", "exact name", "ExactName"]
    assert [name for name in names if programs.reason(name)] == [
        "my-bot-1", "My_Bot 1", "my bot_", "hisbot2", "Exact Name",
    ]  # fmt: skip


def test_reasons() -> None:
    programs = known_programs("mine*  # I run it", "hers[0-9]")
    names = ("mine 7", "HERS3", "AI (x)", "MIss", "GNU Go", "Aya", "Ann", "", None)
    assert [programs.reason(name) for name in names] == [
        "pattern mine*, I run it", "pattern hers[0-9]", "pattern AI (*",
        "behaviour, 234 games in 12 days, up to 50 a day, against 4 players, 0 won", "pattern GNUGo*", "list", None,
        None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["*", "?", "a*", "[a-z][a-z]*", "*-*"])
def test_too_general_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(RecipeError, match="at least two letters or digits"):
        known_programs(pattern)


def test_no_patterns_match_nothing() -> None:
    assert Programs([]).reason("") is None
    assert Programs([]).reason("GNU Go") is None


@pytest.mark.parametrize("data", [None, b"\xff\xfe", b"# " + b"x" * (1 << 20)])
def test_unreadable_list(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / "list.txt"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(SourceError, match=r"list\.txt: "):
        known_programs(file=file)

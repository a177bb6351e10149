"""Text of records: encodings, and the recognition of programs by name."""

from __future__ import annotations

import random
import re
import zipfile
from pathlib import Path

import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu.records.text as charset_texts
from kifu.corpus.sources import read
from kifu.errors import RecipeError, SourceError
from kifu.records.game import read_sgf
from kifu.records.text import (
    Programs,
    canonical_value,
    charsets,
    choose_codec,
    codec_named,
    detect_codec,
    escape,
    known_programs,
    unescape,
)

WORDS = {
    "gb18030": ["柯洁 时越", "聂卫平 九段", "围棋甲级联赛第一轮", "黑中盘胜", "朴廷桓 芈昱廷", "马晓春\n刘小光"],
    "cp950": ["周俊勳 王立誠", "第一屆應氏盃圍棋賽", "許皓鋐\n陳祈睿", "張栩 九段", "白中盤勝"],
    "cp949": ["이창호 조훈현", "박정환 9단", "제1기 국수전 결승", "흑 불계승", "신진서\n변상일"],
    "cp932": ["武宮正樹 小林光一", "第十期名人戦リーグ", "白中押し勝ち", "井山裕太 九段", "ヒカルの碁"],
    "euc_jp": ["加藤正夫 石田芳夫", "第十期名人戦リーグ", "白中押し勝ち", "ヒカルの碁"],
    "cp1252": ["Jörg Müller", "François Béziers", "Ångström", "Peña & Núñez", "Søren's “game”"],
    "utf_8": ["柯洁", "이창호", "武宮正樹", "Müller", "Łukasz", "Динерштейн", "plain"],
    "cp1251": ["Александр Динерштейн\nИлья Шикшин"],
}


@pytest.mark.parametrize(("codec", "words"), [(codec, text) for codec, texts in WORDS.items() for text in texts])
def test_detect(codec: str, words: str) -> None:
    assert words.encode(codec).decode(detect_codec(words.encode(codec))) == words


@pytest.mark.slow
def test_detect_names_of_real_players(shared: Path) -> None:
    """Nicknames from four countries, four to a record. The bound is below the actual rate of every charset."""
    with zipfile.ZipFile(shared / "data/tygem/Kifu2016.zip") as archive:
        rows = [line.split("\t") for line in archive.read("Kifu2016.index").decode().splitlines()]
    draw = random.Random(1)
    for nation, codec in (("2", "gbk"), ("0", "cp949"), ("4", "cp950"), ("1", "cp932"), ("1", "euc_jp")):
        players = [(row[2], row[4]) for row in rows] + [(row[5], row[7]) for row in rows]
        names = sorted({name for name, origin in players if origin == nation and encodable(name, codec)})
        records = ["\n".join(draw.sample(names, 4)) for _ in range(200)]
        right = sum(
            record.encode(codec).decode(detect_codec(record.encode(codec)), "replace") == record for record in records
        )
        assert right >= 0.95 * len(records), (codec, right)


def encodable(name: str, codec: str) -> bool:
    """Half-width katakana are excluded: these "Japanese" names are mostly mis-decoded Chinese ones."""
    try:
        return not name.isascii() and bool(name.encode(codec)) and not any("｡" <= c <= "ﾟ" for c in name)
    except UnicodeEncodeError:
        return False


@pytest.mark.parametrize(
    ("ca", "codec", "text", "expected"),
    [
        (b"GB2312", "gb18030", "柯洁", "gb18030"),
        (b"gbk", "gb18030", "芈昱廷", "gb18030"),
        (b"Big5", "cp950", "許功也", "cp950"),
        (b"EUC-KR", "cp949", "이창호", "cp949"),
        (b"ks_c_5601-1987", "cp949", "똠방각하", "cp949"),
        (b"Shift_JIS", "cp932", "①髙ソ", "cp932"),
        (b"x-sjis", "cp932", "ソ", "cp932"),
        (b"windows-1251", "cp1251", "Шикшин", "cp1251"),
        (b"ISO-8859-1", "cp1252", "“Müller”", "cp1252"),
        (b"UTF-8", "utf_8", "柯洁", "utf_8"),
        (b"UTF-8", "gb18030", "柯洁时越聂卫平", "gb18030"),  # wrong
        (b"gb2312", "utf_8", "신", "utf_8"),  # three bytes do not pair
        (b"latin1", "utf_8", "柯洁", "utf_8"),  # fits any bytes
        (b"no-such", "utf_8", "柯洁", "utf_8"),
        (b"UTF-16", "cp1252", "Müller", "cp1252"),  # SGF's own bytes would not be ASCII
        (None, "cp949", "이창호 조훈현 결승", "cp949"),
        (b"Shift_JIS", "ascii", "plain", "utf_8"),
        (b"ISO-2022-JP", "iso2022_jp", "井山裕太", "iso2022_jp_ext"),
        (b"csISO2022JP", "iso2022_jp", "羽根直樹", "iso2022_jp_ext"),
        (b"ISO-2022-JP", "utf_8", "井山裕太", "utf_8"),
        (b"ISO-2022-JP", "ascii", "plain", "utf_8"),
        (b"KOI8-U", "koi8_u", "Їжак", "koi8_u"),
        (b"windows-874", "cp874", "สมชาย", "cp874"),
        (b"x-mac-roman", "mac_roman", "Müller", "mac_roman"),
        (b"x-mac-cyrillic", "mac_cyrillic", "Шикшин", "mac_cyrillic"),
        (b"x-euc-jp", "euc_jp", "加藤正夫", "euc_jp"),
    ],
)
def test_choose_codec(ca: bytes | None, codec: str, text: str, expected: str) -> None:
    assert choose_codec(ca, text.encode(codec)) == expected


def test_names_of_charsets() -> None:
    assert codec_named(b" Utf-8 ") == codec_named(b"UTF8") == "utf_8"
    for name in (b"", b"no-such", b"utf-16", b"hex", b"rot13", b"idna", b"\xff\xfe", b"x" * 100):
        assert codec_named(name) is None
    assert charsets().key.tolist() == sorted(int(name, 36) for name in charset_texts._codecs())
    assert {rb"\[;:]".decode(codec) for codec in charset_texts._codecs().values()} == {r"\[;:]"}


@pytest.mark.parametrize(
    "name", [b"", b"0", b"utf-8", b"U.T.F 8", b"no-such", b"a" * 12, b"a" * 13, b"\xff" * 40, b"gb2312-80"]
)
def test_scanner_and_decoder_share_charsets(name: bytes) -> None:
    game = read_sgf(b"(;GM[1]CA[" + name + b"]SZ[9])")
    assert bool(game.warnings & game.warnings.BAD_CHARSET) == (codec_named(name) is None)


@given(st.binary(max_size=40))
def test_any_text_gets_a_codec(text: bytes) -> None:
    for ca in (None, b"gbk", b"utf-8", b"latin1", b"x"):
        text.decode(choose_codec(ca, text), "replace").encode("utf-8")


@pytest.mark.parametrize(
    ("value", "text", "written"),
    [
        ("plain", "plain", "plain"),
        (r"a\]b\\c\:d\e", r"a]b\c:de", r"a\]b\\c\:de"),
        ("one\\\ntwo\nthree", "onetwo\nthree", "onetwo\nthree"),
        ("one\\\r\ntwo\r\nthree\rfour", "onetwo\r\nthree\rfour", "onetwo\nthree\nfour"),
        ("a:b]c", "a:b]c", r"a:b\]c"),
        ("end\\", "end\\", "end\\\\"),
    ],
)
def test_escapes(value: str, text: str, written: str) -> None:
    assert unescape(value) == text
    assert canonical_value(value) == written


@given(st.text(st.sampled_from("\\]:a\r\n")))
def test_canonical_value_is_idempotent(value: str) -> None:
    normal = canonical_value(value)
    assert canonical_value(normal) == normal
    assert "\r" not in normal
    if "\r" not in value:
        assert unescape(normal) == unescape(value)


@given(st.text(st.sampled_from("\\]:a\r\n")))
def test_escape_round_trips(text: str) -> None:
    value = escape(text)
    assert canonical_value(value) == value
    assert read_sgf(b"(;C[" + value.encode() + b"])").text("C") == re.sub("\r\n|\n\r|\r", "\n", text)


def test_damaged_text_is_kept_where_valid() -> None:
    game = read_sgf("(;CA[UTF-8]PB[柯洁]PW[申真谞".encode()[:-1] + b"])")
    assert game.players == ("柯洁", "申真\ufffd")
    assert game.raw("PW") == "申真谞".encode()[:-1]


def test_real_chinese_text(shared: Path) -> None:
    """The Fox games are UTF-8 that went through a wrong charset: some characters are lost, none may raise."""
    games = list(read(shared / "data/wild/fox-pro-680.tar.gz"))[: 50 if numba.config.DISABLE_JIT else None]
    assert {game.codec for game in games} == {"utf_8"}
    assert sum("段" in game.text("WR") and game.ranks[1] is not None for game in games) == len(games)


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
    "kata1-b18c384nbt-s9791399168-d4261348054", "KATA1 B6C96", "kata1_b28c512nbt-s7", "kata9x9-b18c384nbt-20231025",
    "g170-b40c256x2-s5095420928-d1229425124", "g170e-b20c256x2", "b6c96-s175395328-d26788732", "b18c384nbt-humanv0",
    "rect15-b20c256-s343365760-d96847752", "rect15 b20c256", "b40c256x2-s7", "any-b24c64-s1-d2", "b6c96",
    "leelaz", "LeelaZ-0e9ea880", "lz-elf", "LZ_ELFv1", "lz-elf-v2 t1", "LZ_c83e1b6e", "leelaz 0.17", "LZ 157",
    "SAI", "sai20b", "SAI 0.17", "elfv2", "ELF v0", "elf-opengo-v1", "minigo-v17", "MiniGo 000990", "minigo_v10_990",
    "Zen7", "Zen-6", "Zen-15.3-1c1g", "Rn.4.20-4c", "Zen19S", "天頂の囲碁7", "天顶围棋", "Zenith Go 7", "Golaxy 2",
    "星阵", "星阵围棋2",
    "天壤", "天壤围棋", "Leela指导E", "乌鸦指导B", "贾员外", "让\N{REPLACEMENT CHARACTER}?X指导", "TianRang",
    "gg-3.8-lv10", "gg3.6", "GG_3.7.10", "AlphaGo Zero 20b", "alphago-v18",
]  # fmt: skip
PEOPLE = [
    "PachiPachi", "pachi2000", "leelaleela", "CrazySt0ne", "", "Zenith", "Zend", "ZenMind", "HelloZen", "botkiller",
    "Battousai", "antbot1", "ray", "Rayon414", "sai2004", "aqua", "AquaBlast", "fuegoman", "leelaaa", "pokanasi",
    "Explorer7", "alphamarc", "AlphaInsei", "crazyeight", "CrazySt0nes", "elf", "Elfe", "Miss", "miss", "missy", "go2",
    "AI7d", "Aiko", "AI", "spectralline", "Spectral", "katraining", "KaTrain", "fuegian", "noobie", "amy", "doge",
    "notarobot", "DCNN", "leelaqi", "IA", "botnet",
    "zen7", "zen70", "zen6kyu", "minigo110", "zen5", "Zenith Go", "saito", "sai", "Sai3", "sai20bob", "sai20", "elf7",
    "elfv", "elfvira",
    "Katarina", "kata1", "katab1c", "kata", "Bob6c96", "b6c9", "b1", "b18", "bc", "g170", "rect15", "leelazz", "lzelin",
    "lz", "lzdean", "lzfb1965", "minigolf", "minigovern", "gg", "gg3", "ggg-3", "alphagofan", "天壤之别", "Leela粉丝",
    "喜鹊指导D", "林心诚9段", "星阵粉丝", "天顶",
    "Master", "golaxyfan", "lzhang", "manyfacesofme", "GBPacker", "王元均", "星阵迷", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("name", [*PROGRAMS, *PEOPLE])
def test_programs_are_told_from_people(name: str) -> None:
    assert (known_programs().reason(name) is None) == (name in PEOPLE)


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

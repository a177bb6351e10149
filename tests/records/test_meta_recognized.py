"""Recognized text fields: by tables, and in all available real games."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
from kifu.records.meta import Subject, is_recognized, parse_overtime
from kifu.records.text import known_programs

SUBJECTS: tuple[Subject, ...] = get_args(Subject)
PROPERTIES: dict[str, Subject] = {
    "BR": "rank", "WR": "rank", "RE": "result", "KM": "komi", "DT": "date", "TM": "time", "OT": "overtime",
}  # fmt: skip

UNDERSTOOD: dict[Subject, tuple[str, ...]] = {
    "rank": ("5d", "3k?", "NR", "nr?", "-", "?", "", "none", "无段"),
    "result": (
        "B+R", "B+3.5", "B", "W+", "B+0.02", "B-5", "W+J", "W+AW", "Void", "0", "?", "", "Unknown", "Left unfinished",
        "黑负", "打掛け",
    ),
    "komi": ("6.5", "0", "", "-", "none", "no komi"),
    "date": ("2016-01-12", "1998", "- 2016-01-12", "", "????-??-??", "0000-00-00", "1970-01-01", "undated"),
    "time": ("1800", "0", "", "-", "none", "unlimited", "No time limit"),
    "overtime": ("5x30 byo-yomi", "", "None", "0", "sudden death", "7 days without byoyomi"),
}  # fmt: skip
NOT_UNDERSTOOD: dict[Subject, tuple[str, ...]] = {
    "rank": ("9", "Meijin", "0d", "5d 3k", "beginner?", "-5k", "--5k", "1e1k", "1_0k"),
    "result": (
        "Won", "Both lost", "B+x", "10000", "x", "B+1e308", "B+5E-3", "W+-5", "W+ -5", "B++5", "B+--1/2",
        "B+0x1F", "B+1_0", "B+1.2.3", "B+1,000.5", "B+inf", "B+5nan", "W+3-5", "White wins by -5", "黑勝1e2子",
    ),
    "komi": ("x", "1e400", "99999999", "6.5 or so", "1e0", "+-5", "0x10", "1_0", "inf", "nan", "6.5.5"),
    "date": ("98-03-12", "yesterday", "9999", "-2016-01-12", "2016-01-1e1", "2016e3", "0x2016"),
    "time": ("-5", "long", "1e9", "1_0", "0x10 min", "1e2 min", "nan min"),
    "overtime": ("30", "5x", "byo-yomi", "5x-30", "5x1e3", "-10 fischer"),
}  # fmt: skip


@pytest.mark.parametrize(("subject", "text"), [(s, text) for s, texts in UNDERSTOOD.items() for text in texts])
def test_recognized(subject: Subject, text: str) -> None:
    assert is_recognized(subject, text)
    assert is_recognized(subject, f" {text} ")


@pytest.mark.parametrize(("subject", "text"), [(s, text) for s, texts in NOT_UNDERSTOOD.items() for text in texts])
def test_not_recognized(subject: Subject, text: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    assert not is_recognized(subject, text)
    assert not is_recognized(subject, wide)


@given(
    st.sampled_from(SUBJECTS),
    st.text() | st.text(st.sampled_from("0123456789.,:+-/x*?[]() dkpmhsBWRT年月日段级子目半胜三十又分")),
)
def test_any_text(subject: Subject, text: str) -> None:
    is_recognized(subject, text)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_long_text_takes_linear_time(subject: Subject) -> None:
    """Anything quadratic would take hours."""
    for piece in ["1", "1-", " ", "1 ", "1.", "1,", "a", "b+", "段", "十", "half", "1h", "?", "(", "aga ", "1/", "ﷺ"]:
        for end in ("", "!", "d"):
            is_recognized(subject, piece * 1_000_000 + end)
            is_recognized(subject, (piece * 80)[:79] + end)


# One record has damaged Chinese text: the bracket that ended the value became half of a character.
SPOILT = ("rank", "9娈礭 WR[9娈礭 KM[0")


def words_of(source: Path) -> Counter[tuple[Subject, str]]:
    counts: Counter[tuple[Subject, str]] = Counter()
    for game in kifu.read(source):
        counts.update((subject, game.text(name)) for name, subject in PROPERTIES.items() if name in game.properties)
    return counts


def test_real_games_are_recognized_except_one_rank(shared: Path) -> None:
    words = words_of(shared / "data" / "wild")
    assert {word: count for word, count in words.items() if not is_recognized(*word)} == {SPOILT: 1}
    assert len(words) > 800


@pytest.mark.slow
def test_kgs_games_are_recognized(shared: Path) -> None:
    words = words_of(shared / "data" / "kgs")
    assert [word for word in words if not is_recognized(*word)] == []
    assert len(words) > 3600
    assert all(parse_overtime(text) for subject, text in words if subject == "overtime")


@pytest.mark.slow
def test_tygem_index_is_recognized(shared: Path) -> None:
    with zipfile.ZipFile(shared / "data" / "tygem" / "Kifu2016.zip") as archive:
        lines = archive.read("Kifu2016.index").decode("utf-8").splitlines()
    rows = [fields for line in lines if len(fields := line.split("\t")) == 11]
    assert len(rows) == 167_084
    assert [text for text in {row[1] for row in rows} if not is_recognized("date", text)] == []
    assert [text for text in {row[8] for row in rows} if not is_recognized("result", text)] == []
    assert [text for text in {row[10].split()[1] for row in rows} if not is_recognized("time", text)] == []


def test_programs_are_found_in_their_collections(shared: Path) -> None:
    """Each folder of the archive contains the games of one program, or of a contest of programs."""
    programs = known_programs()
    games = Counter[str]()
    with_program = Counter[str]()
    for game in kifu.read(shared / "data" / "wild" / "ai-games-third.tar.gz"):
        folder = game.name.split("/")[1]
        games[folder] += 1
        with_program[folder] += any(map(programs.reason, game.players))
    for folder in (
        "FineArt",
        "DeepZenGo",
        "CGI Fox Go Server",
        "Li Long",
        "Jin Mao Ce Shi",
        "AlphaGo Zero",
        "BensonDarr",
    ):
        assert with_program[folder] >= 0.95 * games[folder] > 0, folder

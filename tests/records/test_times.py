"""Main time, overtime and thinking time."""

from __future__ import annotations

import pytest

from kifu.records.meta import Overtime, parse_main_before, parse_minutes, parse_overtime, thinking_seconds

MINUTES = {
    "1800": 30, "0": 0, "90": 1.5, "600.0": 10, "1800000": 30_000,
    "1h": 60, "1h30": 90, "1h30m": 90, "1 h 30": 90, "2 hours": 120, "2 hours each": 120, "1.5h": 90, "1,5 h": 90,
    "3 hours, 30 minutes": 210, "90 min": 90, "90 minutes per player": 90, "5m": 5, "45 sec.": 0.75, "2 days": 2880,
    "30:00": 30, "1:30:00": 90, "0:45": 0.75, "2小时": 120, "各3小时": 180, "1時間30分": 90, "각 2시간": 120, "60秒": 1,
    "": None, "-": None, "-5": None, "x": None, "none": None, "1e9": None, "nan": None, "5 moves": None, "30:0": None,
    "2 houris": None, "h": None, "9" * 100: None,
}  # fmt: skip


@pytest.mark.parametrize("text", MINUTES)
def test_minutes(text: str) -> None:
    assert parse_minutes(text) == MINUTES[text]


OVERTIMES = {
    "5x30 byo-yomi": ("byo-yomi", 5, 30), "80x10 byo-yomi": ("byo-yomi", 80, 10), "3x30s": ("byo-yomi", 3, 30),
    "3*30sec": ("byo-yomi", 3, 30), "5 periods of 30 seconds": ("byo-yomi", 5, 30),
    "byoyomi: 3 x 1 min": ("byo-yomi", 3, 60),
    "5 times 60 seconds": ("byo-yomi", 5, 60), "30秒3回": ("byo-yomi", 3, 30), "60초 3회": ("byo-yomi", 3, 60),
    "1分10次": ("byo-yomi", 10, 60), "30s byo yomi": ("byo-yomi", 1, 30), "30 seconds per move": ("byo-yomi", 1, 30),
    "25/300 Canadian": ("canadian", 25, 300), "1/6 Canadian": ("canadian", 1, 6),
    "canadian: 15/5min": ("canadian", 15, 300),
    "25 stones in 5 min": ("canadian", 25, 300), "20 moves / 10 minutes": ("canadian", 20, 600),
    "3 periods 30 seconds": ("byo-yomi", 3, 30), "读秒 3次 30秒": ("byo-yomi", 3, 30), "3회 30초": ("byo-yomi", 3, 30),
    "30s x3": ("byo-yomi", 3, 30), "30 sec * 3": ("byo-yomi", 3, 30), "byo-yomi 1m x 5": ("byo-yomi", 5, 60),
    "30秒\xd73": ("byo-yomi", 3, 30), "25 moves / 10 min": ("canadian", 25, 600),
    "14 days + 1 day per move and 10 extra periods": ("byo-yomi", 10, 86_400),
    "Japanese byoyomi: 2 days + 1 day per move and 5 extra periods": ("byo-yomi", 5, 86_400),
    "3 days + 1 day/10 periods Japanese byoyomi": ("byo-yomi", 10, 86_400),
    "90 days + 15 days per 20 stones": ("canadian", 20, 1_296_000),
    "90 days and 5 hours + 15 days/20 stones Canadian byoyomi": ("canadian", 20, 1_296_000),
    "1 day and 5 hours per 5 stones": ("canadian", 5, 104_400),
    "7 days with 1 day extra per move": ("fischer", 1, 86_400), "with 8 hours extra per move": ("fischer", 1, 28_800),
    "Fischer time: 7 days with 1 day and 2 hours extra per move": ("fischer", 1, 93_600),
    "7 days without byoyomi": None, "7 days + some": None, "x with 1 day extra per move": None, "30秒3": None,
    "10 fischer": ("fischer", 1, 10), "fischer +10s": ("fischer", 1, 10), "+5": ("fischer", 1, 5),
    "": None, "None": None, "30": None, "0x10 byo-yomi": None, "5x0 byo-yomi": None, "5x byo-yomi": None,
    "byo-yomi": None,
    "5x30 byo-yomi or so": None, "9" * 100: None,
}  # fmt: skip


@pytest.mark.parametrize("text", OVERTIMES)
def test_overtime(text: str) -> None:
    expected = OVERTIMES[text]
    assert parse_overtime(text) == (Overtime(*expected) if expected else None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("overtime", "minutes"),
    [
        ("14 days + 1 day per move and 10 extra periods", 14 * 1440),
        ("Fischer time: 3 days and 5 hours with 2 days extra per move", 3 * 1440 + 300),
        ("7 hours without byoyomi", 420),
        ("1 day per 5 stones", None),
        ("5x30 byo-yomi", None),
        ("", None),
    ],
)
def test_main_time_before_an_overtime(overtime: str, minutes: float | None) -> None:
    assert parse_main_before(overtime) == minutes


@pytest.mark.parametrize(
    ("minutes", "overtime", "seconds"),
    [
        (1, "5x10 byo-yomi", 60 + 4 * 10 + 120 * 10),
        (0, "80x10 byo-yomi", 79 * 10 + 120 * 10),
        (None, "3x30 byo-yomi", 2 * 30 + 120 * 30),
        (10, "25/600 Canadian", 600 + 120 * 24),
        (5, "10 fischer", 300 + 120 * 10),
        (20, "None", 1200),
        (0, "", None),
        (None, "", None),
    ],
)
def test_thinking_seconds(minutes: float | None, overtime: str, seconds: float | None) -> None:
    assert thinking_seconds(minutes, parse_overtime(overtime)) == seconds

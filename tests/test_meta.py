"""Ranks, results and komi in the spellings of many servers and languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.point import BLACK, WHITE
from kifu.records.meta import Rank, Result, parse_komi

RANKS = {
    "5d": "5d", "9 dan": "9d", "6 Dan": "6d", "9D": "9d", "10d": "10d", "3k": "3k", "20 kyu": "20k", "30K": "30k",
    "9p": "9p", "9P": "9p", "P9": "9p", "pro 3": "3p", "9 dan pro": "9p", "9d pro": "9p", "1p?": "1p?", "7d?": "7d?",
    " 4d ": "4d", "2d*": "2d", "9段": "9d", "P2段": "2p", "九段": "9d", "初段": "1d", "职业九段": "9p", "専": None,
    "3级": "3k", "3級": "3k", "18급": "18k", "9단": "9d", "프로 9단": "9p", "プロ五段": "5p", "３段": "3d",
    "": None, "-": None, "?": None, "NR": None, "9": None, "0d": None, "11d": None, "31k": None, "10p": None,
    "d": None, "5d 3k": None, "dan 5": None,
}  # fmt: skip


@pytest.mark.parametrize("text", RANKS)
def test_rank(text: str) -> None:
    rank = Rank.parse(text)
    assert (str(rank) if rank else None) == RANKS[text]


def test_ranks_are_ordered_and_spelled_back() -> None:
    names = [f"{n}k" for n in range(30, 0, -1)] + [f"{n}d" for n in range(1, 11)] + [f"{n}p" for n in range(1, 10)]
    ranks = [Rank.parse(name) for name in names]
    assert [rank.level for rank in ranks if rank] == list(range(-29, 20))
    assert [str(rank) for rank in ranks] == names
    assert Rank.parse("5d?") == Rank.parse("5d") and Rank(5) < Rank(6, certain=False)


B, W = BLACK, WHITE
RESULTS = {
    "B+R": (B, "resign", None), "B+Resign": (B, "resign", None), "b+r": (B, "resign", None),
    "W+T": (W, "time", None), "W+Time": (W, "time", None), "B+F": (B, "forfeit", None),
    "W+Forfeit": (W, "forfeit", None),
    "W+3.5": (W, "score", 3.5), "B+12": (B, "score", 12.0), "W + 0.5": (W, "score", 0.5), "B+3,5": (B, "score", 3.5),
    "B+0.02": (B, "score", 0.02), "W+0.0": (W, "score", 0.0), "B+": (B, "unknown", None), "B": (B, "unknown", None),
    "W+J": (W, "unknown", None), "B+99999999": (B, "unknown", None), "W+" + "9" * 5000: (W, "unknown", None),
    "0": (None, "draw", None), "0.0": (None, "draw", None), "Draw": (None, "draw", None), "jigo": (None, "draw", None),
    "Void": (None, "void", None), "?": (None, "unknown", None), "": (None, "unknown", None),
    "Both lost": (None, "unknown", None), "Won": (None, "unknown", None), "Bob": (None, "unknown", None),
    "Black wins by resignation": (B, "resign", None), "White wins by 3.5 points": (W, "score", 3.5),
    "White won on time": (W, "time", None),
    "黑中盘胜": (B, "resign", None), "白中盤勝": (W, "resign", None), "黑胜1又3/4子": (B, "score", 3.5),
    "黑胜3/4子": (B, "score", 1.5), "黑胜1子半": (B, "score", 3.0), "白胜3.5目": (W, "score", 3.5),
    "白超时胜": (W, "time", None), "黑胜": (B, "unknown", None), "黑负": (None, "unknown", None),
    "和棋": (None, "draw", None),
    "白番中押し勝ち": (W, "resign", None), "白3目半勝ち": (W, "score", 3.5), "黒半目勝ち": (B, "score", 0.5),
    "持碁": (None, "draw", None), "無勝負": (None, "void", None),
    "흑 불계승": (B, "resign", None), "백 3집반승": (W, "score", 3.5), "백 반집승": (W, "score", 0.5),
    "흑 시간승": (B, "time", None), "무승부": (None, "draw", None),
}  # fmt: skip


@pytest.mark.parametrize("text", RESULTS)
def test_result(text: str) -> None:
    result = Result.parse(text)
    assert (result.winner, result.how, result.margin) == RESULTS[text]
    assert Result.parse(str(result)) == result


@given(st.text(st.sampled_from("BWbw+0123456789.,/又子目半집반승胜勝RTF ?黑白")))
def test_any_result_is_spelled_back(text: str) -> None:
    result = Result.parse(text)
    assert Result.parse(str(result)) == result


KOMI = {
    "6.5": 6.5, "0": 0.0, " 7.50 ": 7.5, "7,5": 7.5, "-5.5": -5.5, "5": 5.0, "650": 6.5, "750": 7.5, "0.5": 0.5,
    "375": 7.5, "325": 6.5, "3.75": 7.5, "2.75": 5.5, "-375": -7.5,
    "": None, " ": None, "x": None, "nan": None, "inf": None, "-inf": None, "1e400": None, "99999999": None,
    "6.5目": None, "9" * 5000: None,
}  # fmt: skip


@pytest.mark.parametrize("text", KOMI)
def test_komi(text: str) -> None:
    assert parse_komi(text) == KOMI[text]


@given(st.text())
def test_any_words(text: str) -> None:
    Rank.parse(text), Result.parse(text), parse_komi(text)

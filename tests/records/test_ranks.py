"""Ranks in the spellings of many servers and languages, ratings, and the table of equally strong ranks."""

from __future__ import annotations

import contextlib

import pytest

from commands import run
from kifu.errors import GameError
from kifu.records.ranks import Rank

RANKS = {
    "5d": "5d", "9 dan": "9d", "6 Dan": "6d", "9D": "9d", "10d": "10d", "3k": "3k", "20 kyu": "20k", "30K": "30k",
    "18kyu": "18k", "6-dan": "6d", "1st kyu": "1k", "31k": "31k", "6 dan amateur": "6d", "(4d)": "4d", "[3k?]": "3k?",
    "9p": "9p", "9P": "9p", "P9": "9p", "pro 3": "3p", "9 dan pro": "9p", "9d pro": "9p", "1p?": "1p?", "7d?": "7d?",
    "9 dan professional": "9p", "5 dan (pro)": "5p", "9p*": "9p", " 4d ": "4d", "2d*": "2d*", "17k*": "17k*",
    "3k?": "3k?", "3k+": "3k", "9段": "9d", "P2段": "2p", "九段": "9d", "P9段": "9p", "初段": "1d", "十段": "10d",
    "十五级": "15k", "二十三级": "23k", "职业九段": "9p", "业余6段": "6d", "専": None, "1级": "1k", "3级": "3k",
    "3級": "3k", "3급": "3k", "18급": "18k", "26Gup": "26k", "9단": "9d", "프로 9단": "9p", "プロ五段": "5p",
    "３段": "3d", "13.0k": "13k", "11.6k": "12k", "2.3d": "2d", "5.7 dan": "5d", "0.4k": "1k", "1.0k": "1k",
    "29.5k": "30k", "30.2 kyu": "31k", "13,0k": "13k", "9.0d": "9d", "1.9d?": "1d?", "12.5k*": "13k*",
    "7.2k (OGS)": "8k", "~13.0k": "13k", "13.0k ± 1.2": "13k", "6.5级": "7k", "3.5段": "3d", "0.0k": None, "0.9d": None,
    "2.00d": "2d", "3.05k": "4k", "11.2d": None, "3.5p": None, "13.k": None, "50.5k": None, "13.0": None, "5.3": "5d",
    "-2.1": "2k", "AGA 5.3": "5d", "1.0 AGA": "1d", "-1.0": "1k", "-12.87": "12k", "0.4": None, "-0.9": None,
    "11.0": None, "5.": None, "5": None, "AGA 5": None, "2 dan (EGF 2050)": "2d", "4k EGF": "4k", "4k (GoR 1700)": None,
    "EGF 4k": "4k", "EGF GoR: 2050": "1d", "2049 GoR": "1k", "EGF 2049.7": "1k", "GoR 100": "20k", "GoR 2750": "7d",
    "3d KGS": "3d", "3d (KGS)": "3d", "3d IGS 3d": None, "": None, "-": None, "?": None, "NR": None, "9": None,
    "0d": None, "11d": None, "51k": None, "10p": None, "d": None, "5d 3k": None, "dan 5": None, "3k pro": None,
    "Meijin": None,
    # with titles
    "9p, Kisei": "9p", "9 dan, Judan, Gosei": "9d", "Kisei, 9p": "9p", "Honinbo 9p": "9p", "九段 棋聖": "9d",
    "名人九段": "9d", "9p/Kisei": "9p", "9p (Kisei)": "9p", "Kisei (9p)": "9p", "棋聖・九段": "9d", "九段 十段": "9d",
    "Meijin 9-dan": "9d", "9p Kisei & Honinbo": "9p", "23rd Gosei, 9p": "9p", "第23期棋聖 九段": "9d", "9단 국수": "9d",
    "Honorary Honinbo 9p": "9p", "女流名人 五段": "5d", "4d*, IGS": "4d*", "3 kyu, AGA": "3k", "碁聖": None,
    "1004p": None, "1,004p": None, "5k, now 3d": None, "9d, 9p": None, "Table 9d": None, "5, dan": None,
    # decoded by another charset
    "9\xb6\xce": "9d", "9\xe6\xae\xb5": "9d", "9\u2019i": "9d", "\xd6\xb0\xd2\xb5\xbe\xc5\xb6\xce": "9p", "9\xb6": None,
}  # fmt: skip


@pytest.mark.parametrize("rank", ["7段", "7級", "7级", "7단", "7급"])
def test_ranks_decoded_by_another_charset(rank: str) -> None:
    for right in ("utf_8", "gb18030", "cp949", "cp950", "cp932", "euc_jp"):
        for wrong in ("latin_1", "cp1252", "gb18030", "cp949", "cp950", "cp932", "cp1251"):
            with contextlib.suppress(UnicodeError):
                assert Rank.parse(rank.encode(right).decode(wrong)) == Rank.parse(rank)


def test_ranks() -> None:
    ranks = {text: Rank.parse(text) for text in RANKS}
    assert {text: str(rank) if rank else None for text, rank in ranks.items()} == RANKS


NAMES = [f"{n}k" for n in range(50, 0, -1)] + [f"{n}d" for n in range(1, 11)] + [f"{n}p" for n in range(1, 10)]


def test_ranks_are_ordered_and_round_trip() -> None:
    ranks = [Rank.parse(name) for name in NAMES]
    assert [rank.level for rank in ranks if rank] == list(range(-49, 20))
    assert [str(rank) for rank in ranks] == NAMES
    assert [eval(repr(rank)) for rank in ranks] == ranks
    with pytest.raises(GameError, match=r"level must be a number, got '3d'; Rank\.parse takes a text"):
        Rank("3d")  # type: ignore[arg-type]
    assert Rank.parse("5d?") == Rank.parse("5d")
    assert Rank(5) < Rank(6, confirmed=False)


@pytest.mark.parametrize("confirmed", [True, False, None])
def test_rank_spelling_includes_confirmation(confirmed: bool | None) -> None:
    for name in NAMES:
        rank = Rank(Rank.parse(name).level, confirmed)  # type: ignore[union-attr]
        again = Rank.parse(str(rank))
        assert again == rank
        assert again.confirmed == (True if rank.professional and confirmed is None else confirmed), name


def test_ratings_are_those_of_the_archive() -> None:
    """Seed: "30 kyu = 2 ... 1 kyu = 31, 1 dan = 32 ... 9 dan = 40, 1 dan (pro) = 41 ... 9 dan (pro) = 49"."""
    scale = [f"{n}k" for n in range(30, 0, -1)] + [f"{n}d" for n in range(1, 10)] + [f"{n}p" for n in range(1, 10)]
    ranks = [Rank.parse(name) for name in scale]
    assert [rank.rating for rank in ranks if rank] == list(range(2, 50))
    assert [Rank.from_rating(rating) for rating in range(2, 50)] == ranks
    assert [rank.professional for rank in ranks if rank] == [False] * 39 + [True] * 9
    beyond = [Rank.parse(name) for name in ("31k", "50k", "10d")]
    assert [rank.rating for rank in beyond if rank] == [1, 1, 40]


@pytest.mark.parametrize("rating", [0, 0.9, -3, 50, 1e300, float("inf"), float("nan")])
def test_ratings_without_a_rank(rating: float) -> None:
    assert Rank.from_rating(rating) is None


def test_rating_keeps_confirmation() -> None:
    rank = Rank.from_rating(35.0, True)
    assert rank == Rank(4)
    assert rank.confirmed is True
    assert Rank.from_rating(35.9) == Rank(4)
    assert Rank.from_rating(40.9) == Rank(9)
    assert Rank.from_rating(1) == Rank(-30)


SCALES = ("aga", "china", "europe", "igs", "japan", "korea")
# Seed: "olf rating AGA CHINA EUROPE IGS JAPAN KOREA", as far as the text goes.
EQUIVALENT = """
2 20K 23K 22K 30K 19K 26Gup
3 19K 22K 21K 29K 18K 25Gup
4 18K 21K 20K 28K 17K 24Gup
5 17-18K 20-21K 19-20K 27K 16-17K 23-24Gup
6 17K 20K 19K 26K 16K 23Gup
7 16K 19K 18K 25K 15K 22Gup
8 15-16K 18-19K 17-18K 24K 14-15K 21-22Gup
9 15K 18K 17K 23K 14K 21Gup
10 14K 17K 16K 22K 13K 20Gup
11 13K 16K 15K 21K 12K 19Gup
12 12-13K 15-16K 14-15K 20K 11-12K 18-19Gup
13 12K 15K 14K 19K 11K 18Gup
14 11K 14K 13K 18K 10K 17Gup
15 10K 13K 12K 17K 9K 16Gup
16 9-10K 12-13K 11-12K 16K 8-9K 15-16Gup
17 9K 12K 11K 15K 8K 15Gup
18 8K 11K 10K 14K 7K 14Gup
19 7K 10K 9K 13K 6K 13Gup
20 6-7K 9-10K 8-9K 12K 5-6K 12-13Gup
21 6K 9K 8K 11K 5K 12Gup
22 5K 8K 7K 10K 4K 11Gup
23 4-5K 7-8K 6-7K 9K 3-4K 10-11Gup
24 4K 7K 6K 8K 3K 10Gup
25 3K 6K 5K 7K 2K 9Gup
26 2K 5K 4K 6K 1K 8Gup
27 1-2K 4-5K 3-4K 5K 1K-1D 7-8Gup
28 1K 4K 3K 4K 1D 7Gup
29 1D 3K 2K 3K 2D 6Gup
30 2D 2K 1K 2K 3D 5Gup
31 3D 1K 1D 1K 4D 4Gup
32 4D 1D 2D 1D 4-5D 3Gup
33 5D 2D 3D 2D 5-6D 2Gup
34 6D 3D 4D 3D 6D 1-2Gup
35 6D 3-4D 4-5D 4D 6D 1Gup
36 7D 4-5D 5-6D 5D 6-7D 1Gup
"""
EQUIVALENT_ROWS = [line.split() for line in EQUIVALENT.split("\n") if line]


def test_the_command_prints_the_table() -> None:
    header, none, *rows = (line.split() for line in run("list", "ranks").out.splitlines())
    assert (header[1:], rows) == ([*SCALES], EQUIVALENT_ROWS)
    assert none == ["0", "-", "-", "-", "NR", "-", "-"]

"""The table of equally strong ranks, and what is read out of it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from kifu.errors import RecipeError
from kifu.records.equivalents import SYSTEMS, equivalent, rank_at, ratings_of
from kifu.records.meta import Rank

DOCS = Path(__file__).parents[1] / "docs" / "ranks.md"
RATINGS = range(2, 37)


def rows_of(text: str) -> list[list[str]]:
    """Rows of seven words that begin with a rating."""
    return [
        words for line in text.splitlines() if len(words := line.replace("|", " ").split()) == 7 and words[0].isdigit()
    ]


def table() -> list[list[str]]:
    return [[str(rating), *(rank_at(rating, system) or "" for system in SYSTEMS)] for rating in RATINGS]


def test_the_table_is_the_readme_of_the_archive(shared: Path) -> None:
    (seed,) = (shared / "seeds").glob("002_*")
    words = seed.read_text("utf-8").partition("- NR - -")[2].split()
    assert [words[i : i + 7] for i in range(0, len(words), 7)] == table()


def test_the_card_shows_the_table() -> None:
    assert rows_of(DOCS.read_text("utf-8")) == table()


@pytest.mark.parametrize("system", SYSTEMS)
def test_ranks_rise_with_the_rating(system: str) -> None:
    cells = [rank_at(rating, system) for rating in RATINGS]
    spans = [[Rank.parse(end if end[-1].isalpha() else end + kind) for end in cell.split("-")]
             for cell in cells if cell for kind in [re.sub(r".*\d", "", cell)]]  # fmt: skip
    levels = [sorted(rank.level for rank in span if rank) for span in spans]
    assert all(lower[0] <= upper[0] and lower[-1] <= upper[-1] for lower, upper in itertools.pairwise(levels))
    assert levels[0][0] < levels[-1][0]


def test_igs_is_the_scale() -> None:
    assert [rank_at(rating, "IGS") for rating in RATINGS] == [
        str(Rank.from_rating(rating)).upper() for rating in RATINGS
    ]


@pytest.mark.parametrize(
    ("rank", "system", "ratings"),
    [
        ("17k", "AGA", (6, 6)),  # 17-18K stands below it
        ("18k", "AGA", (4, 4)),
        ("6d", "AGA", (34, 35)),
        ("5d", "Japan", (32, 33)),  # 4-5D and 5-6D only
        ("4d", "China", (35, 36)),
        ("5d", "China", (36, 36)),
        ("1k", "Japan", (26, 26)),
        ("1d", "Japan", (28, 28)),
        ("1 gup", "Korea", (35, 36)),
        ("6d", "IGS", None),
        ("8d", "Japan", None),
        ("5p", "Japan", None),
    ],
)
def test_ratings_of_a_rank(rank: str, system: str, ratings: tuple[int, int] | None) -> None:
    known = Rank.parse(rank)
    assert known and ratings_of(known, system) == ratings == ratings_of(known, system.lower())


@pytest.mark.parametrize(
    ("rank", "system", "other", "answer"),
    [
        ("30k", "IGS", "Korea", "26Gup"),
        ("27k", "IGS", "Korea", "23-24Gup"),
        ("5k", "IGS", "Japan", "1K-1D"),
        ("5d", "Japan", "AGA", "4-5D"),
        ("6d", "Japan", "IGS", "3-4D"),
        ("3d", "IGS", "Korea", "1-2Gup"),
        ("1 dan", "Europe", "Europe", "1D"),
        ("9d", "AGA", "Japan", None),
        ("NR", "IGS", "AGA", None),
        ("9p", "Japan", "AGA", None),
    ],
)
def test_equivalent(rank: str, system: str, other: str, answer: str | None) -> None:
    assert equivalent(rank, system, other) == answer


def test_ratings_that_the_table_does_not_hold() -> None:
    assert [rank_at(rating, "AGA") for rating in (0, 1, 37, 49)] == [None] * 4


def test_a_system_that_does_not_exist() -> None:
    for ask in (
        lambda: rank_at(5, "KGS"),
        lambda: equivalent("1d", "IGS", "KGS"),
        lambda: equivalent("1d", "KGS", "IGS"),
    ):
        with pytest.raises(RecipeError, match="no rank system 'KGS'; there are AGA, China, Europe, IGS, Japan, Korea"):
            ask()

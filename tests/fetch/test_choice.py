"""The choice of files by name and date."""

from __future__ import annotations

import re

import pytest

from kifu.errors import RecipeError, SourceError
from kifu.fetch.collections import FileChoice, ListedFile, choose_files, parse_dates

FOX = [
    ListedFile(name, folder, "")
    for folder, name in [
        ("1d", "1d.7z.001"),
        ("1d", "1d2.7z.001"),
        ("10k", "10k.7z"),
        ("Pro", "Pro.7z"),
        ("Pro", "Pro2.7z"),
    ]
]
DAYS = [ListedFile(f"{date}sgfs.tar.bz2", "", "", date=date) for date in ("2020-12-31", "2021-01-01", "2021-02-01")]
YEARS = [ListedFile(f"{date}.zip", "", "", date=date) for date in ("2006", "2007-03", "2007-04")]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["1d"], ["1d.7z.001", "1d2.7z.001"]),
        (["1D.7z.001"], ["1d.7z.001"]),
        (["pro2"], ["Pro2.7z"]),
        (["*.7z"], ["10k.7z", "Pro.7z", "Pro2.7z"]),
        (["[0-9]d", "pro"], ["1d.7z.001", "1d2.7z.001", "Pro.7z", "Pro2.7z"]),
        ([], [file.name for file in FOX]),
    ],
)
def test_names(names: list[str], chosen: list[str]) -> None:
    assert [file.name for file in choose_files("fox", FOX, FileChoice(names))] == chosen


@pytest.mark.parametrize("name", ["1", "d", "2d", "", "[", "../x"])
def test_a_name_of_no_file(name: str) -> None:
    with pytest.raises(SourceError, match=re.escape(f"fox has no file {name!r}; see kifu fetch fox --list")):
        choose_files("fox", FOX, FileChoice(["1d", name]))


@pytest.mark.parametrize(
    ("dates", "days", "years"),
    [
        ("2020", 1, 0),
        ("2021", 2, 0),
        ("2020-2021", 3, 0),
        ("2020-12..2021-01", 2, 0),
        ("2020-12-31..2021-01-01", 2, 0),
        ("2021-01-01..2021", 2, 0),
        ("2021-02,2020", 2, 0),
        ("2006-05", 0, 1),  # the archive of the whole year overlaps it
        ("2007-03-15..2007-03-16", 0, 1),
        ("2006..2007-03", 0, 2),
    ],
)
def test_dates(dates: str, days: int, years: int) -> None:
    for files, expected in ((DAYS, days), (YEARS, years)):
        choice = FileChoice(dates=parse_dates(dates))
        if expected:
            assert len(choose_files("x", files, choice)) == expected
        else:
            with pytest.raises(SourceError, match=r"x has no such file of .*, but files from 20"):
                choose_files("x", files, choice)


def test_an_index_without_a_date_belongs_to_all_dates() -> None:
    index = ListedFile("Kifu.index", "", "")
    assert choose_files("tom", [index, *YEARS], FileChoice(dates=parse_dates("2006"))) == [index, YEARS[0]]
    with pytest.raises(SourceError, match="has no such file of 1999, but files from 2006 to 2007-04"):
        choose_files("tom", [index, *YEARS], FileChoice(dates=parse_dates("1999")))


def test_files_without_dates_are_not_chosen_by_date() -> None:
    with pytest.raises(RecipeError, match="the files of fox have no dates in their names; choose them by name"):
        choose_files("fox", FOX, FileChoice(dates=parse_dates("2006")))


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("2016", [("2016", "2016")]),
        (" 2001 - 2002 , 2016,2001-12", [("2001", "2002"), ("2016", "2016"), ("2001-12", "2001-12")]),
        ("2001..2001-06", [("2001", "2001-06")]),
        ("2020-12-08 .. 2021", [("2020-12-08", "2021")]),
    ],
)
def test_spelling_of_dates(text: str, dates: list[tuple[str, str]]) -> None:
    assert parse_dates(text) == dates


@pytest.mark.parametrize(
    "text",
    ["", "2014-2001", "2001,", "1", "20011", "2001-", "-2001", "2001-2002-2003", "2001-13", "2001-1",
     "2021-02..2021-01", "2001-01-32", "2001..", "\u0662\u0660\u0660\u0661", "all"],
)  # fmt: skip
def test_invalid_dates(text: str) -> None:
    with pytest.raises(RecipeError, match=r"is not a year, month, day or range, as in 2001-2014,2016-03,"):
        parse_dates(text)

"""The choice of files of a collection, by name and by date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kifu.errors import RecipeError, SourceError
from kifu.fetch._listing import ListedFile

_DATE = r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?"
_DATES = re.compile(rf"\s*(?:(\d{{4}})\s*-\s*(\d{{4}})|({_DATE})(?:\s*\.\.\s*({_DATE}))?)\s*", re.ASCII)

DateRange = tuple[str, str]
"""First and last date: years, months or days, such as ("2001", "2014-06")."""


@dataclass(frozen=True, slots=True)
class FileChoice:
    """The files of a collection to list or fetch: those with one of the names and one of the dates.

    Attributes:
        names: Names of files or of their folders in the index, also without extensions, or patterns such as "9d*";
            empty for all. Upper and lower case are the same.
        dates: Empty for all. Files without a date in their names are indexes of the others, and belong to all dates.
    """

    names: Sequence[str] = ()
    dates: Sequence[DateRange] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.dates)


def parse_dates(text: str) -> list[DateRange]:
    """Parse dates and ranges such as "2001-2014,2016-03,2020-12-08..2021". Raises RecipeError for anything else."""
    ranges = []
    for piece in text.split(","):
        match = _DATES.fullmatch(piece)
        first, last = (match[1] or match[3], match[2] or match[4] or match[3]) if match else ("1", "0")
        if not _overlaps(first, (first, last)):
            raise RecipeError(
                f"{piece.strip()!r} in {text!r} is not a year, month, day or range, "
                "as in 2001-2014,2016-03,2020-12-08..2021-01-31"
            )
        ranges.append((first, last))
    return ranges


def choose_files(collection: str, files: Iterable[ListedFile], choice: FileChoice) -> list[ListedFile]:
    """Return the chosen files in their order.

    Raises:
        SourceError: A name is not the name of any file, or no file is of the dates.
        RecipeError: The files have no dates.
    """
    files = list(files)
    for name in choice.names:
        if not any(_is_named(file, name) for file in files):
            raise SourceError(f"{collection} has no file {name!r}; see kifu fetch {collection} --list")
    chosen = [file for file in files if not choice.names or any(_is_named(file, name) for name in choice.names)]
    if not choice.dates:
        return chosen
    known = sorted(file.date for file in files if file.date)
    if not known:
        raise RecipeError(f"the files of {collection} have no dates in their names; choose them by name")
    chosen = [file for file in chosen if not file.date or any(_overlaps(file.date, each) for each in choice.dates)]
    if not any(file.date for file in chosen):
        wanted = ", ".join("..".join(dict.fromkeys(each)) for each in choice.dates)
        raise SourceError(f"{collection} has no such file of {wanted}, but files from {known[0]} to {known[-1]}")
    return chosen


def _is_named(file: ListedFile, pattern: str) -> bool:
    stem = file.name.partition(".")[0]
    values = {file.name, stem, file.folder, *file.folder.split("/")} - {""}
    return any(fnmatchcase(value.casefold(), pattern.casefold()) for value in values)


def _overlaps(date: str, dates: DateRange) -> bool:
    """Return whether a year, month or day overlaps a range of such."""
    first, last = dates
    return date[: len(first)] >= first[: len(date)] and date[: len(last)] <= last[: len(date)]

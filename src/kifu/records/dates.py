"""The dates that records tell: SGF's lists of days, servers' time stamps, and what people write."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

from kifu.records.spelling import respell

# Year 1 of each era; before 1873 its months are those of the old lunar calendar.
_ERAS = {"明治": 1868, "大正": 1912, "昭和": 1926, "平成": 1989, "令和": 2019}
_GREGORIAN_IN_JAPAN = 1873
_LATEST_YEAR = 2199

_MONTHS = {
    name: month
    for month, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], start=1
    )
}
_MONTH = r"(?P<month>(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"

# Each with a group year; month and day where it has them. The leftmost match of the first that is found counts.
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?P<era>{'|'.join(_ERAS)})\s*(?P<year>元|\d{{1,2}})\s*年(?:\s*(?P<month>\d{{1,2}})\s*月"
        r"(?:\s*(?P<day>\d{1,2})\s*日)?)?",
        r"(?<!\d)(?P<year>\d{4})\s*[-/.年년]\s*(?P<month>\d{1,2})(?!\d)(?:\s*[-/.月월]\s*(?P<day>\d{1,2})(?!\d))?",
        r"(?<!\d)(?P<year>1[5-9]\d\d|20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])(?!\d)",
        r"(?<!\d)(?P<day>\d{1,2})\.\s*(?P<month>\d{1,2})\.\s*(?P<year>\d{4})(?!\d)",
        r"(?<!\d)(?P<one>\d{1,2})([-/])(?P<two>\d{1,2})\2(?P<year>\d{4})(?!\d)",
        rf"(?<!\d){_DAY}(?:\s+of)?[-\s.]*{_MONTH}[-\s.,]*(?P<year>\d{{4}})(?!\d)",
        rf"\b{_MONTH}[-\s.]*{_DAY}[\s,]+(?:\d{{1,2}}:\d\d(?::\d\d)?\s+(?:[a-z]{{3,4}}\s+)?)?(?P<year>\d{{4}})(?!\d)",
        r"(?<!\d)(?P<year>\d{4})(?!\d)",
    )
)


@dataclass(frozen=True, slots=True)
class Date:
    """When a game was played.

    year: from 1 to 2199.
    first: the first day, if the text tells it in full; None too if there is no such day ("2018-02-31").
    """

    year: int
    first: datetime.date | None = None


def parse_date(text: str) -> Date | None:
    """Reads "2016-01-12,13", "2016.1.2 00:02", "1998-03", "12 Mar 1998", "2018年7月30日", "平成10年3月1日" ...

    None if it finds no year. Of several days, or a span of them, the first counts. "3/12/1998" is a year only, unless
    one of the two can only be a day; "3.12.1998" is the 3rd of December. 1970-01-01 is no date but a clock that was
    never set. Lunar dates of old, unmarked, are taken as written; Japan's of before 1873, by era, are years only.
    """
    text = respell(text)
    for form in _FORMS:
        if match := form.search(text):
            return _date(match.groupdict())
    return None


def _date(parts: dict[str, str | None]) -> Date | None:
    year = _year(parts)
    if not 1 <= year <= _LATEST_YEAR:
        return None
    month, day = _month_and_day(parts)
    if parts.get("era") and year < _GREGORIAN_IN_JAPAN:
        day = 0
    try:
        told = datetime.date(year, month, day)
    except ValueError:
        return Date(year)
    return None if told == datetime.date(1970, 1, 1) else Date(year, told)


def _year(parts: dict[str, str | None]) -> int:
    told, era = parts["year"] or "", parts.get("era")
    year = 1 if told == "元" else int(told)
    return year + _ERAS[era] - 1 if era else year


def _month_and_day(parts: dict[str, str | None]) -> tuple[int, int]:
    """0 for what is not told."""
    if one := parts.get("one"):
        low, high = sorted((int(one), int(parts["two"] or 0)))
        return (low, high) if high > 12 or low == high else (0, 0)
    month, day = parts.get("month") or "0", parts.get("day") or "0"
    return _MONTHS[month[:3].lower()] if month[0].isalpha() else int(month), int(day)

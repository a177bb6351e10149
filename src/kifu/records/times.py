"""Parse dates and time limits: main time, overtime, and the thinking time that they allow."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kifu.records.text import normalize

_UNITS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_UNIT = (
    r"(?:(?:(?P<day>days?|d|日|天|일)|(?P<hour>hours?|hrs?|h|小时|小時|時間|시간)"
    r"|(?P<minute>minutes?|mins?|m|分钟|分鐘|分|분)|(?P<second>seconds?|secs?|s|秒|초))(?![a-z]))"
)
_NUMBER = r"(?P<number>\d{1,9}(?:[.,]\d{1,9})?)"
_PART = re.compile(rf"{_NUMBER}\s*{_UNIT}", re.IGNORECASE)
_FILLERS = re.compile(
    r"\b(?:each|per|a|player|side|and|main|time|absolute)\b|各|每方|每人|持ち時間|制限時間|用时|用時|각자?|[.,;:+()]",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d\d)")
_HOURS_AND_MINUTES = re.compile(r"h\s*(\d{1,2})$", re.IGNORECASE)


def _seconds(amount: re.Match[str]) -> float:
    """Return a number with its unit in seconds; a number without a unit is in seconds."""
    parts = amount.groupdict()
    unit = next((length for name, length in _UNITS.items() if parts[name]), 1)
    return float(parts["number"].replace(",", ".")) * unit


def parse_minutes(text: str) -> float | None:
    """Parse a main time, such as "1800" (seconds, as in SGF), "1h30", "90 min", "2 hours each" or "2小时".

    "30:00" is minutes and seconds, "1:30:00" hours too. 0 is 0: overtime from the start, or no limit at all.

    Returns:
        Minutes; None for any other text.
    """
    text = normalize(text)
    if re.fullmatch(_NUMBER, text):
        text += "s"
    if clock := _CLOCK.fullmatch(text):
        return 60 * int(clock[1] or 0) + int(clock[2]) + int(clock[3]) / 60
    text = _HOURS_AND_MINUTES.sub(r"h \1m", text)
    parts = list(_PART.finditer(text))
    if not parts or _FILLERS.sub("", _PART.sub("", text)).strip():
        return None
    return sum(map(_seconds, parts)) / 60


OvertimeKind: TypeAlias = Literal["byo-yomi", "canadian", "fischer", "simple"]


@dataclass(frozen=True, slots=True)
class Overtime:
    """A time limit that applies after the main time.

    Attributes:
        kind: "byo-yomi": `count` periods of `seconds` each; a period is lost only if a move takes longer. "canadian":
            `count` moves in `seconds`, again and again. "fischer": `seconds` are added for each move (count 1).
            "simple": `seconds` for each move (count 1), as on OGS.
        seconds: Length of a period, in seconds.
    """

    kind: OvertimeKind
    count: int
    seconds: float

    @property
    def seconds_per_move(self) -> float:
        """Seconds that each move may take without end."""
        return self.seconds / self.count if self.kind == "canadian" else self.seconds


_AMOUNT = rf"{_NUMBER}\s*{_UNIT}?"
_COUNT = r"(?P<count>[1-9]\d{0,4})"
_PERIODS = r"(?:byo[-\s]?yomi|byo|japanese|periods?|秒読み|读秒|讀秒|초읽기)"
_SPAN = r"(?P<span>\d{1,4}[^+/*]{0,40}?)"
_FORMS: tuple[tuple[OvertimeKind, str], ...] = (
    ("byo-yomi", rf"(?:{_PERIODS}[\s:]*)?{_COUNT}\s*(?:[x*\xd7]|times|periods? of)\s*{_AMOUNT}\s*{_PERIODS}?"),
    ("byo-yomi", rf"(?:{_PERIODS}[\s:]*)?{_AMOUNT}\s*[x*\xd7]?\s*{_COUNT}\s*(?:回|회|次)\s*{_PERIODS}?"),
    ("byo-yomi", rf"(?:{_PERIODS}[\s:]*)?{_NUMBER}\s*{_UNIT}\s*[x*\xd7]\s*{_COUNT}\s*(?:回|회|次|times|periods?)?"),
    ("byo-yomi", rf"(?:{_PERIODS}[\s:]*)?{_COUNT}\s*(?:回|회|次|periods?)\s*(?:of)?\s*{_AMOUNT}"),
    ("byo-yomi", rf"{_AMOUNT}\s*(?:(?:per|a|/)\s*move|{_PERIODS})"),
    ("canadian", rf"(?:canadian[\s:]*)?{_COUNT}\s*(?:stones?|moves?)?\s*(?:/|in|per)\s*{_AMOUNT}\s*(?:canadian)?"),
    ("fischer", rf"(?:fischer[\s:]*\+?|\+)\s*{_AMOUNT}\s*(?:(?:per|a|/)\s*move)?"),
    ("fischer", rf"{_AMOUNT}\s*fischer"),
    ("simple", rf"{_AMOUNT}\s*simple"),
    # DGS; its games last for months.
    ("byo-yomi", rf"{_SPAN}\s*per move and {_COUNT} extra periods"),
    ("byo-yomi", rf"{_SPAN}\s*/\s*{_COUNT} periods japanese byoyomi"),
    ("canadian", rf"{_SPAN}\s*(?:per|/)\s*{_COUNT} stones(?: canadian byoyomi)?"),
    ("fischer", rf"with {_SPAN} extra per move"),
)
_MAIN_BEFORE = re.compile(
    r"(?:[a-z ]{1,20}:\s*)?(?P<main>\d{1,4} (?:days?|hours?)(?: and \d{1,2} hours?)?)\s+(?:\+\s*|(?=with))",
    re.IGNORECASE,
)
"""The main time that DGS writes before an overtime, behind the name of its kind in some versions."""

_OVERTIMES = tuple((kind, re.compile(form, re.IGNORECASE)) for kind, form in _FORMS)


def parse_overtime(text: str) -> Overtime | None:
    """Parse an overtime, such as "5x30 byo-yomi", "25/300 Canadian", "10 fischer", "30秒3回" or "25 stones in 5 min".

    Amounts without a unit are in seconds.

    Returns:
        None for any other text; also for a number alone, whose meaning is unclear.
    """
    text = normalize(text)
    if main := _MAIN_BEFORE.match(text):
        text = text[main.end() :]
    for kind, form in _OVERTIMES:
        if match := form.fullmatch(text):
            parts = match.groupdict()
            seconds = 60 * (parse_minutes(parts["span"]) or 0) if "span" in parts else _seconds(match)
            return Overtime(kind, int(parts.get("count") or 1), seconds) if seconds else None
    return None


def parse_main_before(overtime: str) -> float | None:
    """Parse the main time that DGS writes in its overtime: "14 days + 1 day per move and 10 extra periods".

    Returns:
        Minutes; None for any other text.
    """
    match = _MAIN_BEFORE.match(normalize(overtime))
    return parse_minutes(match["main"]) if match else None


_MOVES = 120


def thinking_seconds(minutes: float | None, overtime: Overtime | None) -> float | None:
    """Return how long a player may think in a game of 240 moves, 120 of them his own.

    The result is the main time, plus 120 times what overtime allows per move, plus the periods that may be lost: 1
        minute
    and 5 x 10 s of byo-yomi give 1,300 s; 25 moves in 10 minutes 2,880 s; 20 minutes and nothing else 1,200 s. A
    threshold of 1,800 s, which is 15 s per move, separates games of 10 s per move from those of 20.

    Args:
        minutes: Main time; None if unknown.
        overtime: None if absent or unknown.

    Returns:
        Seconds; None if there is no limit: both arguments None, or 0 and None.
    """
    main = 60 * (minutes or 0)
    if overtime is None:
        return main or None
    spare = (overtime.count - 1) * overtime.seconds if overtime.kind == "byo-yomi" else 0
    return main + spare + _MOVES * overtime.seconds_per_move


# Year 1 of each era. Before 1873 the months are those of the lunar calendar.
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

# Each has a group "year", and "month" and "day" if it contains them. The leftmost match of the first form that
# matches is used.
_DATE_FORMS = tuple(
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
    """The date of a game.

    Attributes:
        year: From 1 to 2199.
        first: The first day of the game; None if the text is not that precise or no such day exists ("2018-02-31").
    """

    year: int
    first: datetime.date | None = None


def parse_date(text: str) -> Date | None:
    """Parse a date, such as "2016-01-12,13", "2016.1.2 00:02", "1998-03", "12 Mar 1998" or "平成10年3月1日".

    The first of several days, or of a span, is used. "3/12/1998" gives only a year unless one of the two numbers can
    only be a day; "3.12.1998" is 3 December. 1970-01-01 is the sign of an unset clock, not a date. Unmarked lunar dates
    are taken as written; Japanese dates by era before 1873 give only a year.

    Returns:
        None if there is no year in the text.
    """
    text = normalize(text)
    for form in _DATE_FORMS:
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
        date = datetime.date(year, month, day)
    except ValueError:
        return Date(year)
    return None if date == datetime.date(1970, 1, 1) else Date(year, date)


def _year(parts: dict[str, str | None]) -> int:
    digits, era = parts["year"] or "", parts.get("era")
    year = 1 if digits == "元" else int(digits)
    return year + _ERAS[era] - 1 if era else year


def _month_and_day(parts: dict[str, str | None]) -> tuple[int, int]:
    """Return month and day, 0 for what the text does not contain."""
    if one := parts.get("one"):
        low, high = sorted((int(one), int(parts["two"] or 0)))
        return (low, high) if high > 12 or low == high else (0, 0)
    month, day = parts.get("month") or "0", parts.get("day") or "0"
    return _MONTHS[month[:3].lower()] if month[0].isalpha() else int(month), int(day)

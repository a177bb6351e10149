"""Parse results, komi, dates and time limits: many spellings in, SGF's own out.

Parsers of records raise nothing: text that cannot be parsed gives None or an unknown `Result`. `is_recognized`
distinguishes it from text which states that there is no value.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from kifu.point import BLACK, WHITE
from kifu.records.ranks import Rank
from kifu.records.text import normalize
from kifu.text import lazy_pattern

_UNITS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_UNIT = (
    r"(?:(?:(?P<day>days?|d|日|天|일)|(?P<hour>hours?|hrs?|h|小时|小時|時間|시간)"
    r"|(?P<minute>minutes?|mins?|m|分钟|分鐘|分|분)|(?P<second>seconds?|secs?|s|秒|초))(?![a-z]))"
)
_DURATION = r"(?P<number>\d{1,9}(?:[.,]\d{1,9})?)"
_PART = lazy_pattern(rf"{_DURATION}\s*{_UNIT}", re.IGNORECASE)
_FILLERS = lazy_pattern(
    r"\b(?:each|per|a|player|side|and|main|time|absolute)\b|各|每方|每人|持ち時間|制限時間|用时|用時|각자?|[.,;:()]",
    re.IGNORECASE,
)
_CLOCK = lazy_pattern(r"(?:(\d{1,4}):)?(\d{1,4}):(\d\d)")
_CGOBAN = lazy_pattern(
    r"(?P<main>[\d:]{1,10})\s*(?:\(\s*(?P<periods>\d{1,5}\s*x\s*[\d:]{1,10})\s*\)"
    r"|\+(?P<by>[\d:]{1,10})(?:/(?P<stones>\d{1,5})|x\d{1,5}))"
)
"""A time limit of CGoban 1: byo-yomi "10:00(5x1:00)", Canadian "10:00+5:00/25", Ing's "10:00+5:00x3"."""
_HOURS_AND_MINUTES = lazy_pattern(r"h\s*(\d{1,2})$", re.IGNORECASE)

OvertimeKind: TypeAlias = Literal["byo-yomi", "canadian", "fischer", "simple"]

_AMOUNT = rf"(?:(?P<clock>\d{{1,2}}:\d\d(?::\d\d)?)|{_DURATION}\s*{_UNIT}?)"
_COUNT = r"(?P<count>[1-9]\d{0,4})"
_BYO_YOMI = r"byo[-\s]?yomi|byo|japanese|秒読み|读秒|讀秒|초?읽기"
_PERIODS = rf"(?:{_BYO_YOMI}|periods?)"
_SPAN = r"(?P<span>\d{1,4}[^+/*]{0,40}?)"
_FORMS: tuple[tuple[OvertimeKind, str], ...] = (
    (
        "byo-yomi",
        rf"(?:{_PERIODS}[\s:]*)?{_COUNT}\s*(?:[回회次]?\s*[x*\xd7]|times|periods? of)\s*{_AMOUNT}\s*{_PERIODS}?",
    ),
    (
        "byo-yomi",
        rf"(?:{_PERIODS}[\s:]*)?{_AMOUNT}\s*(?:[x*\xd7]|{_PERIODS})?\s*{_COUNT}\s*(?:[回회次]|periods?)\s*{_PERIODS}?",
    ),
    ("byo-yomi", rf"(?:{_PERIODS}[\s:]*)?{_DURATION}\s*{_UNIT}\s*[x*\xd7]\s*{_COUNT}\s*(?:回|회|次|times|periods?)?"),
    ("byo-yomi", rf"(?:{_PERIODS}[\s:]*)?{_COUNT}\s*(?:[回회次]|periods?)\s*(?:of)?\s*{_AMOUNT}\s*{_PERIODS}?"),
    ("byo-yomi", rf"{_AMOUNT}\s*(?:(?:per|a|/)\s*move|{_BYO_YOMI})"),
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
_OVERTIMES = tuple((kind, lazy_pattern(form, re.IGNORECASE)) for kind, form in _FORMS)

_MOVES = 120

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
_MONTH_NAME = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_MONTH, _UNTIL_MONTH = rf"(?P<month>{_MONTH_NAME})", rf"(?P<until>{_MONTH_NAME})"
_TO = r"\s*(?:[-\u2010-\u2014~\u301c/,;&+・、]|\.\.+|\b(?:and|to|till|until|through)\b|から|至|到|부터)\s*"
"""Between the days of a game."""
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_NEXT_DAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,?\s+)?\d{1,2}(?!\d)(?:st|nd|rd|th)?\.?"
_DAYS = rf"(?<![\d:]){_DAY}\.?(?:{_TO}{_NEXT_DAY})*"
_ANY_YEAR = r"(?P<year>\d{4})(?!\d)"

# Each has a group "year", and "month" and "day" of the first day if it contains them, or "one" and "two" if it is not
# clear which is which; "until" is the month of the last day, whose year it is. The leftmost match of the first form
# that matches is used.
_DATE_FORMS = tuple(
    lazy_pattern(form, re.IGNORECASE)
    for form in (
        rf"(?P<era>{'|'.join(_ERAS)})\s*(?P<year>元|\d{{1,2}})\s*年(?:\s*(?P<month>\d{{1,2}})\s*月"
        r"(?:\s*(?P<day>\d{1,2})(?!\d))?)?",
        r"(?<!\d)(?P<year>\d{4})\s*[-/.年년]\s*(?P<month>\d{1,2})(?!\d|\s+[a-z]{3})"
        r"(?:\s*[-/.月월]\s*(?P<day>\d{1,2})(?!\d))?",
        r"(?<!\d)(?P<year>1[5-9]\d\d|20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])(?!\d)",
        rf"(?<!\d){_DAY}\.\s*(?P<month>\d{{1,2}})\.?{_TO}\d{{1,2}}\.\s*(?P<until>\d{{1,2}})\.\s*{_ANY_YEAR}",
        r"(?<!\d)(?P<one>\d{1,2})/(?P<two>\d{1,2})\s*[-\u2010-\u2014~\u301c]"
        rf"\s*(?P<three>\d{{1,2}})/(?P<four>\d{{1,2}})/{_ANY_YEAR}",
        rf"(?<![\d:]){_DAY}\.?(?:{_TO}\d{{1,2}})*\.\s*(?P<month>\d{{1,2}})\.\s*{_ANY_YEAR}",
        rf"(?<![\d:]){_DAY}(?:{_TO}\d{{1,2}})+([-/.])(?P<month>\d{{1,2}})\2{_ANY_YEAR}",
        rf"(?<!\d)(?P<month>\d{{1,2}})/{_DAY}(?:\s*[-\u2010-\u2014~\u301c,&]\s*\d{{1,2}})+/{_ANY_YEAR}",
        rf"(?<!\d)(?P<one>\d{{1,2}})([-/])(?P<two>\d{{1,2}})\2{_ANY_YEAR}",
        rf"(?<![\d:]){_DAY}[-\s.]*{_MONTH}\.?{_TO}{_NEXT_DAY}[-\s.]*{_UNTIL_MONTH}[-\s.,]*{_ANY_YEAR}",
        rf"\b{_MONTH}[-\s.]*{_DAY}{_TO}{_UNTIL_MONTH}[-\s.]*{_NEXT_DAY}[\s,]+{_ANY_YEAR}",
        rf"{_DAYS}(?:\s+of)?[-\s.]*{_MONTH}[-\s.,]*{_ANY_YEAR}",
        rf"\b{_MONTH}[-\s.]*{_DAY}(?:{_TO}{_NEXT_DAY})*[\s,]+"
        rf"(?:\d{{1,2}}:\d\d(?::\d\d)?\s+(?:[a-z]{{3,4}}\s+)?)?{_ANY_YEAR}",
        rf"(?<!\d){_ANY_YEAR}[-\s.,/]+{_MONTH}(?:[-\s.,/]*{_DAY}(?!\d))?",
        rf"(?<!\d){_ANY_YEAR}",
    )
)
_MALFORMED_DATE = lazy_pattern(r"^[-+]\d|\de[-+]?\d|\b0x", re.IGNORECASE)
_GAME_NUMBER = lazy_pattern(r"\b(?:game|round|match|board|table|part|no|nr)\b[.\s#]*\d{1,2}\b", re.IGNORECASE)

ResultKind = Literal["score", "resign", "time", "forfeit", "draw", "void", "unknown"]
Ending = Literal["score", "resign", "time", "forfeit", "void", "unknown"]

_SIDE = lazy_pattern(
    r"(?:(?P<black>\bblack|黑|黒|흑|先番)|(?P<white>\bwhite|白|백)"
    r"|(?:^|(?<=[,;:(.\s]))(?:(?P<b>b)|(?P<w>w)))(?![a-z])(?:'s)?[番번方棋]?\s*",
    re.IGNORECASE,
)
_WON = lazy_pattern("win|won|beats?|defeat|胜|勝|승", re.IGNORECASE)
_LOST = lazy_pattern(
    "los[et]|resign|forfeit[se]|timed? ?out|out of time|[超逾][时時]|時間切れ|负|負|败|敗|패|认输|認輸|投了"
    "|弃权|棄權|기권",
    re.IGNORECASE,
)
_WON_BEFORE = lazy_pattern(r"\b(?:win|won|winner|victory)\b[^,;.]*$|[胜勝][方者]\s*:?\s*$|승자\s*:?\s*$", re.IGNORECASE)
_BY_REASON = lazy_pattern(r"by\s+(?:[rtf]\b|res|time|forfeit|default|[\d.,])", re.IGNORECASE)
_LOST_BEFORE = lazy_pattern(r"\b(?:resignation|resigned|forfeit|loss|lost|loser)\s+(?:by|of|for)\s*$", re.IGNORECASE)
_OBJECT_BEFORE = lazy_pattern(r"\b(?:beats?|defeat(?:s|ed)?|over|against|to|vs\.?)\s*$", re.IGNORECASE)
_MOVE_COUNT = lazy_pattern(
    r"\(?\s*(?:after|in|共|全|总|總|計|计|총)?\s*[\d百]{1,5}\s*(?:手|수|moves?\b)\s*(?:完|まで|で|终|終|끝)?\s*\)?[\s,、。:;.]*",
    re.IGNORECASE,
)
_HEADING = lazy_pattern(r"^(?:result|score|结果|結果|결과)\s*:?\s*", re.IGNORECASE)
_CAUSES: tuple[tuple[ResultKind, re.Pattern[str]], ...] = (
    (
        "resign",
        lazy_pattern(
            r"(?:^[bw\s]*\+|\bby)\s*r(?:es)?\b|\bresi|中盘|中盤|中押|投了|认输|認輸|불계|不计|不計", re.IGNORECASE
        ),
    ),
    (
        "time",
        lazy_pattern(r"(?:^[bw\s]*\+|\bby)\s*t\b|time|超时|超時|逾时|逾時|时间|時間|時間切れ|시간", re.IGNORECASE),
    ),
    (
        "forfeit",
        lazy_pattern(
            r"(?:^[bw\s]*\+|\bby)\s*f\b|forfeit|default|walkover|offline|disconnect|不[戦战]|弃权|棄權|棄権|犯规|犯規"
            "|反则|反則|断线|斷線|掉线|掉線|失格|반칙|기권|접속|실격",
            re.IGNORECASE,
        ),
    ),
)
# Only the winner: bare; by the referee's decision, or by agreement of two programs (both from the UEC Cup).
_WINNER_ONLY = lazy_pattern(
    r"\+?\s*(?:j|aw)?|\+?\s*(?:wins?|won)(?: on points)?[.!]?|(?:获|獲|判定)?[胜勝]ち?|(?:판정)?승", re.IGNORECASE
)
_MARGIN = lazy_pattern(
    r"(?P<whole>(?:\d+(?:[.,]\d*)?|[.,]\d+)(?!\d*\s*/))?\s*+又?\s*+(?:(?P<part>\d++)\s*+/\s*+(?P<parts>0*[1-9]\d*))?"
    r"\s*+(?P<stones>子)?[目집호]?\s*+(?P<half>半|반)?\s*+(?P<half_stone>子)?[目집호]?"
)
_ONLY_REASON = lazy_pattern(
    rf"中押し?|中盘|中盤|불계|(?=[^\s]){_MARGIN.pattern}\s*(?:points?|pts?|moku)?", re.IGNORECASE
)
_LESS_OF_NUMBER = lazy_pattern(r"[-+]\s*[-+]\s*$|\s-$|[目집子호百千万萬廿卅]\s*$")
_MORE_OF_NUMBER = lazy_pattern(
    r"(?:[-+.,:'_]|e[-+]?|\s*)\d|x[\da-f]|(?:e|inf|nan)\b|\S?[半반]|\s*(?:[百千万萬十]|hundred|thousand)", re.IGNORECASE
)
"""After the digits of a malformed number, such as 1e308, 0x10, 1_000, 1.2.3 or 1 2; `_LESS_OF_NUMBER` precedes the
digits of -5 and +-5, and a half without its whole number.
"""
_FIRST_NUMBER = lazy_pattern(r"(?:(?<![^\s+])[.,])?\d|半|반")

_NUMBER_NAMES = (
    "one 한,two 두,three 세 석,four 네 넉,five 다섯,six 여섯,seven 일곱,eight 여덟,nine 아홉,ten 열,eleven,twelve,"
    "thirteen,fourteen,fifteen,sixteen,seventeen,eighteen,nineteen,twenty 스물 스무,thirty 서른,forty 마흔,fifty 쉰,"
    "sixty 예순,seventy 일흔,eighty 여든,ninety 아흔"
)
_NUMBER_VALUES = (*range(1, 20), *range(20, 100, 10))
_NUMBERS = {name: n for n, names in zip(_NUMBER_VALUES, _NUMBER_NAMES.split(",")) for name in names.split()}
_ENGLISH, _KOREAN = ("|".join(name for name in _NUMBERS if name.isascii() is each) for each in (True, False))
_NUMBER_WORD = lazy_pattern(
    rf"\b(?:and )?(?:an? )?(?:half(?: an?)?|({_ENGLISH})(?:[-\s]({_ENGLISH}))?)\b"
    rf"|(?<![{_KOREAN}])({_KOREAN})({_KOREAN})?(?=\s*[집호])",
    re.IGNORECASE,
)
_FRACTION = lazy_pattern(r"(\d+)分之(\d+)")
_STONES_AND_PARTS = lazy_pattern(r"子又?\s*(\d+/\d+)子?")
_DRAW = lazy_pattern(
    r"0(\.0*)?|draw(n|\s+by\b.*)?|d\+j?|jigo|tie|和棋?|平局|持碁|持棋|ジゴ|무승부|비김|빅", re.IGNORECASE
)
_VOID = lazy_pattern(r"void|no result|annulled|cancell?ed|無勝負|无胜负|无效|無効|勝負なし|무효", re.IGNORECASE)
_UNFINISHED = lazy_pattern(
    r"|\?+|-+|none|unknown|n/a|u|unf|unfinished|(left|not)? ?(unfinished|finished|played out)|suspended|adjourned"
    r"|打ち?掛け?|封棋|未完|未[终終]局|不明",
    re.IGNORECASE,
)

_NUMBER = lazy_pattern(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)")
_KOMI_WORDS = lazy_pattern(
    r"^(?:[黑黒흑]번?番?|先番|black\b)?\s*(?:komi|コミ|[贴貼]目?|덤|공?제)?\s*:?\s*"
    r"|\s*(?:points?|pts?|moku|(?:コミ)?出し?|コミ|komi|dum|공제)$",
    re.IGNORECASE,
)


FOX_KOMI = {"25": "0.25", "50": "0.5", "75": "0.75"}
"""Komi below 100 that are hundredths on Fox, as no other server has them."""


def _seconds(amount: re.Match[str]) -> float:
    """Return a number with its unit in seconds; a number without a unit is in seconds."""
    parts = amount.groupdict()
    if clock := parts.get("clock"):
        return 60 * (parse_minutes(clock) or 0)
    unit = next((length for name, length in _UNITS.items() if parts[name]), 1)
    return float(parts["number"].replace(",", ".")) * unit


def parse_minutes(text: str) -> float | None:
    """Parse a main time, such as "1800" (seconds, as in SGF), "1h30", "90 min", "2 hours each" or "2小时".

    "30:00" is minutes and seconds, "1:30:00" hours too. 0 is 0: overtime from the start, or no limit at all. Of a limit
    of CGoban 1, "10:00(5x1:00)", the main time is used, and of "60 minutes + 5 minutes / 30 stones", too.

    Returns:
        Minutes; None for any other text.
    """
    text = normalize(text)
    if cgoban := _CGOBAN.fullmatch(text):
        text = cgoban["main"]
    if re.fullmatch(_DURATION, text):
        text += "s"
    minutes = _plain_minutes(text)
    return minutes if minutes is not None else next((minutes for minutes, _ in _split_limit(text)), None)


def _plain_minutes(text: str) -> float | None:
    if clock := _CLOCK.fullmatch(text):
        return 60 * int(clock[1] or 0) + int(clock[2]) + int(clock[3]) / 60
    text = _HOURS_AND_MINUTES.sub(r"h \1m", text)
    parts = list(_PART.finditer(text))
    if not parts or _FILLERS.sub("", _PART.sub("", text)).strip():
        return None
    return sum(map(_seconds, parts)) / 60


def _split_limit(text: str) -> Iterator[tuple[float, Overtime | None]]:
    """Yield readings of a limit as minutes of main time and an overtime behind it, None if that is unclear.

    The longest main time comes first. Some versions of DGS write the name of the overtime before the main time.
    """
    is_whole = _plain_overtime(text)
    text = re.sub("^[A-Za-z ]{1,20}: *", "", text)
    ends = [] if is_whole else [part.end() for part in _PART.finditer(text)]
    for end in sorted([*ends, *(plus.start() for plus in re.finditer(r" ?\+", text))], reverse=True):
        minutes, rest = _plain_minutes(text[:end]), text[end:].lstrip(" ,;、")
        is_unclear = rest.startswith("+") and _plain_overtime(rest)  # Fischer, or byo-yomi
        overtime = None if is_unclear else _plain_overtime(rest.removeprefix("+").lstrip())
        if minutes is not None and (overtime or (rest.startswith("+") and _PART.search(rest)) or rest[:7] == "without"):
            yield minutes, overtime


@dataclass(frozen=True, slots=True)
class Overtime:
    """A time limit that applies after the main time.

    Attributes:
        kind: "byo-yomi": `count` periods of `seconds` each; a period is lost only if a move takes longer. "canadian":
            `count` moves in `seconds`, again and again. "fischer": `seconds` are added for each move (count 1).
            "simple": `seconds` for each move (count 1), as on OGS.
    """

    kind: OvertimeKind
    count: int
    seconds: float

    @property
    def seconds_per_move(self) -> float:
        """Seconds that each move may take without end."""
        return self.seconds / self.count if self.kind == "canadian" else self.seconds


def parse_overtime(text: str) -> Overtime | None:
    """Parse an overtime, such as "5x30 byo-yomi", "25/300 Canadian", "10 fischer", "30秒3回" or "25 stones in 5 min".

    Amounts without a unit are in seconds. A main time may precede it, "20m 3x30s". Returns None for any other text, and
    for a number alone, whose meaning is unclear.
    """
    text = normalize(text)
    if cgoban := _CGOBAN.fullmatch(text):
        text = cgoban["periods"] or f"{cgoban['stones'] or '0'}/{cgoban['by']}"
    overtime = _plain_overtime(text)
    return overtime or next((overtime for _, overtime in _split_limit(text)), None)


def _plain_overtime(text: str) -> Overtime | None:
    for kind, form in _OVERTIMES:
        if match := form.fullmatch(text):
            parts = match.groupdict()
            seconds = 60 * (parse_minutes(parts["span"]) or 0) if "span" in parts else _seconds(match)
            return Overtime(kind, int(parts.get("count") or 1), seconds) if seconds else None
    return None


def parse_main_before(overtime: str) -> float | None:
    """Return main minutes in an overtime of DGS, "14 days + 1 day per move and 10 extra periods"; None without."""
    return next((minutes for minutes, _ in _split_limit(normalize(overtime))), None)


def thinking_seconds(minutes: float | None, overtime: Overtime | None) -> float | None:
    """Return how long a player may think in a game of 240 moves, 120 of them his own.

    The result is the main time, plus 120 times what overtime allows per move, plus the periods that may be lost: 1
        minute
    and 5 x 10 s of byo-yomi give 1,300 s; 25 moves in 10 minutes 2,880 s; 20 minutes and nothing else 1,200 s. A
    threshold of 1,800 s, which is 15 s per move, separates games of 10 s per move from those of 20.

    Returns:
        Seconds; None if there is no limit: both arguments None, or 0 and None.
    """
    main = 60 * (minutes or 0)
    if overtime is None:
        return main or None
    spare = (overtime.count - 1) * overtime.seconds if overtime.kind == "byo-yomi" else 0
    return main + spare + _MOVES * overtime.seconds_per_move


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
    text = _GAME_NUMBER.sub("", normalize(text))
    for form in () if _MALFORMED_DATE.search(text) else _DATE_FORMS:
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
    if until := parts.get("until"):
        year -= _month(until) < _month(parts["month"] or "")
    return year + _ERAS[era] - 1 if era else year


def _month(text: str) -> int:
    return int(text or 0) if not text or text.isdigit() else _MONTHS[text[:3].lower()]


def _month_and_day(parts: dict[str, str | None]) -> tuple[int, int]:
    if parts.get("one"):
        first, second = int(parts["one"] or 0), int(parts["two"] or 0)
        if max(first, int(parts.get("three") or 0)) > 12:
            return second, first
        both_ways = first == second and not parts.get("three")
        return (first, second) if both_ways or max(second, int(parts.get("four") or 0)) > 12 else (0, 0)
    return _month(parts.get("month") or ""), int(parts.get("day") or 0)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a game.

    Attributes:
        winner: BLACK, WHITE, or None (draw, void, unknown).
        how: The kind of result; "unknown" with a winner if only the winner is known.
        margin: Points, if `how` is "score".
    """

    winner: int | None = None
    how: ResultKind = "unknown"
    margin: float | None = None

    @classmethod
    def parse(cls, text: str) -> Result:
        """Parse a result, such as "B+R", "W+3.5", "0", "Jigo", "Void", "B+Time", "黑中盘胜" or "白3目半勝ち".

        Leaving the server ("W+Offline", TYGEM) is a forfeit: the game is lost by the player's conduct, neither by a
        declared resignation nor on time. Margins in stones (子), and quarters, which only stones can have (Fox, Chinese
        rules), count double. A win by less than a quarter ("W+0.0", "B+0.02") is a code of Fox and not a score: such
        games end after 18 moves as well as after 219. Margins of 10,000 and more are not scores either.
        """
        return _parse_result(text)[0]

    @property
    def ending(self) -> Ending:
        """The kind of result as in the catalogue, where a draw is a game that ended by score."""
        return "score" if self.how == "draw" else self.how

    def __str__(self) -> str:
        """Return SGF's spelling: "B+3.5", "W+R", "B+T", "B+F", "B+", "0", "Void", "?"."""
        if self.winner is None:
            return {"draw": "0", "void": "Void"}.get(self.how, "?")
        side = "B+" if self.winner == BLACK else "W+"
        if self.margin is not None:
            return f"{side}{self.margin:.12g}"
        return side + {"resign": "R", "time": "T", "forfeit": "F"}.get(self.how, "")


def _parse_result(text: str) -> tuple[Result, bool]:
    """Return the result, and whether the whole text was recognized; "?" and "unfinished" are recognized as unknown."""
    text = _HEADING.sub("", _MOVE_COUNT.sub("", normalize(text))).strip("!。,、 ")
    if _DRAW.fullmatch(text):
        return Result(how="draw"), True
    if _VOID.fullmatch(text):
        return Result(how="void"), True
    text = _in_digits(text)
    winner, rest = _winner(text)
    if winner is None:
        return Result(), _UNFINISHED.fullmatch(text) is not None
    for how, pattern in _CAUSES:
        if pattern.search(text):
            return Result(winner, how), True
    margin = _margin(text)
    if margin is None or margin < 0.25:
        rest = rest.strip()
        return Result(winner), margin is not None or bool(_WINNER_ONLY.fullmatch(rest) or _LOST.fullmatch(rest))
    return Result(winner, "score", margin), True


def _winner(text: str) -> tuple[int | None, str]:
    """Return the side that won, and the text after it. None if the text does not state one, or contradicts itself."""
    found = list(_SIDE.finditer(text))
    verdicts: dict[int, str] = {}
    for side, following in zip(found, [*found[1:], None]):
        before, rest = text[: side.start()], text[side.end() : following.start() if following else None].strip(" ,;.-(")
        if _OBJECT_BEFORE.search(before):
            continue
        colour = BLACK if side["black"] or side["b"] else WHITE
        if rest.startswith("+"):
            return (colour, text[side.end() :])
        if _LOST_BEFORE.search(before):
            won = False
        elif _WON.search(rest) or _WON_BEFORE.search(before) or _BY_REASON.match(rest):
            won = True
        elif _LOST.search(rest):
            won = False
        elif _ONLY_REASON.fullmatch(rest) or not (rest or before or following):
            won = True
        else:
            continue
        verdicts.setdefault(colour if won else BLACK + WHITE - colour, rest)
    return next(iter(verdicts.items())) if len(verdicts) == 1 else (None, "")


def _in_digits(text: str) -> str:
    """Return text with English and Korean numbers in digits, and parts of stones before 子: 1又1/4子 for 1子1/4."""

    def spell(word: re.Match[str]) -> str:
        numbers = [_NUMBERS[name.lower()] for name in word.groups() if name]
        return word[0] if len(numbers) > 1 and numbers[0] < 10 else str(sum(numbers) or "1/2")

    return _STONES_AND_PARTS.sub(r"又\1子", _FRACTION.sub(r"\2/\1", _NUMBER_WORD.sub(spell, text)))


def _margin(text: str) -> float | None:
    first = _FIRST_NUMBER.search(text)
    match = _MARGIN.match(text, first.start()) if first else None
    malformed = match and (_LESS_OF_NUMBER.search(text, 0, match.start()) or _MORE_OF_NUMBER.match(text, match.end()))
    margin = _points(match) if match and not malformed else None
    return round(margin, 2) if margin is not None and margin < 10_000 else None


def _points(match: re.Match[str]) -> float | None:
    """Return the points in a match of _MARGIN; stones, and quarters, which are parts of stones, count double."""
    if not (match["whole"] or match["part"] or match["half"]):
        return None
    points = float((match["whole"] or "0").replace(",", "."))
    if match["part"]:
        points += float(Fraction(int(match["part"]), int(match["parts"])))
    if match["half"]:
        points += 0.5
    return points * 2 if match["stones"] or match["half_stone"] or points % 0.5 == 0.25 else points


def parse_komi(text: str) -> float | None:
    """Parse a komi.

    A whole number of 100 or more without decimals is in hundredths, as Fox writes it (KM[650] is 6.5), unless that is
    not a multiple of a quarter point. Servers that write decimals mean them: KM[-100.00] is a reverse komi of 100
    (KGS). Quarters below 5 are Chinese stones (子) of two points each: KM[3.75] and KM[375] are 7.5; so is "3又3/4子".
    KM[250] and KM[350] are such stones, too, 5 and 7 points: no rules have a komi of 2.5 or 3.5 points.

    Returns:
        Points for White; None for empty or unrecognized text.
    """
    text = normalize(text)
    if _NUMBER.fullmatch(text):
        komi = float(text.replace(",", "."))
        if text.isdigit() and komi >= 100 and komi % 25 == 0:
            komi *= 0.02 if komi in (250, 350) else 0.01
        if komi % 0.5 == 0.25 and abs(komi) < 5:
            komi *= 2
    else:
        match = _MARGIN.fullmatch(_KOMI_WORDS.sub("", _in_digits(text)))
        points = _points(match) if match else None
        if points is None:
            return None
        komi = points
    return komi + 0.0 if abs(komi) < 1000 else None


def komi_text(komi: float) -> str:
    """Return a komi as SGF spells it: a whole number of 100 or more would be in hundredths, so it gets decimals."""
    return f"{komi:.12g}" if abs(komi) < 100 else f"{komi:.2f}"


def date_text(text: str) -> str:
    """Return a date as SGF spells it; other text, such as a year alone, as it is."""
    date = parse_date(text)
    return date.first.isoformat() if date and date.first else text


def result_text(text: str) -> str:
    """Return a result as SGF spells it; "" if it is unknown."""
    result = Result.parse(text)
    return "" if result == Result() else str(result)


Subject: TypeAlias = Literal["rank", "result", "komi", "date", "time", "overtime"]

_PARSERS: dict[Subject, Callable[[str], object]] = {
    "rank": Rank.parse, "komi": parse_komi, "date": parse_date, "time": parse_minutes, "overtime": parse_overtime,
}  # fmt: skip
_NO_VALUE = r"|\?+|-+|none|unknown|not known|n/?a|null|无|無|없음|不明"
_NO_VALUE_OF: dict[Subject, str] = {
    "rank": r"nr[?*]*|unranked|unrated|no rank|无段|無段",
    "komi": "no|no komi",
    "date": r"0000([-/.]00([-/.]00)?)?|1970-0?1-0?1|[?]{4}([-/.][?]{2}){0,2}|undated|no date|date unknown",
    "time": "no|no limit|no time|no time limit|unlimited|untimed",
    "overtime": (
        r"0|no|no limit|no overtime|no time limit|unlimited|absolute|sudden death|[\w: ]{0,60}\bwithout byo-?yomi"
    ),
}


def is_recognized(subject: Subject, text: str) -> bool:
    """Return whether a field's text is recognized, including text that states there is no value ("NR", "?").

    If not, the parser of that subject returns None, or a `Result` that does not cover the whole text.
    """
    if subject == "result":
        return _parse_result(text)[1]
    no_value = re.fullmatch(f"{_NO_VALUE}|{_NO_VALUE_OF[subject]}", normalize(text), re.IGNORECASE)
    return no_value is not None or _PARSERS[subject](text) is not None

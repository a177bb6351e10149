"""Which words of records are understood, and which are kept as text only, to be counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from kifu.records.dates import parse_date
from kifu.records.meta import Rank, parse_komi, read_result
from kifu.records.spelling import respell
from kifu.records.times import parse_minutes, parse_overtime

Subject: TypeAlias = Literal["rank", "result", "komi", "date", "time", "overtime"]

_READERS: dict[Subject, Callable[[str], object]] = {
    "rank": Rank.parse,
    "komi": parse_komi,
    "date": parse_date,
    "time": parse_minutes,
    "overtime": parse_overtime,
}
_NOTHING = r"|\?+|-+|none|unknown|not known|n/?a|null|无|無|없음|不明"
_SAYS_NOTHING: dict[Subject, str] = {
    "rank": r"nr[?*]*|unranked|unrated|no rank|无段|無段",
    "komi": "no|no komi",
    "date": r"0000([-/.]00([-/.]00)?)?|1970-0?1-0?1|[?]{4}([-/.][?]{2}){0,2}|undated|no date|date unknown",
    "time": "no|no limit|no time|no time limit|unlimited|untimed",
    "overtime": "0|no|no limit|no overtime|no time limit|unlimited|absolute|sudden death",
}


def understood(subject: Subject, text: str) -> bool:
    """Whether we know what a value says, be it that there is nothing to say: "NR" is no rank, "?" no result.

    Where this is False the reader of that subject gave None, or a Result that is not all that the text says.
    """
    if subject == "result":
        return read_result(text)[1]
    says_nothing = re.fullmatch(f"{_NOTHING}|{_SAYS_NOTHING[subject]}", respell(text), re.IGNORECASE)
    return says_nothing is not None or _READERS[subject](text) is not None

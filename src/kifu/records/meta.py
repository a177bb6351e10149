"""What records say about a game in words: ranks, results, komi. Each reads many spellings and writes SGF's own.

Nothing here raises: words that say nothing we know give None, or a Result that is unknown.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from kifu.point import BLACK, WHITE

_LONGEST = 80  # characters of a value that are looked at

_NUMERALS = str.maketrans("初一二三四五六七八九", "1123456789")

_RANK = re.compile(
    r"(?P<before>p|pro|职业|職業|专业|專業|プロ|프로)?\s*(?P<number>\d{1,2})\s*"
    r"(?P<kind>dan|d|段|단|kyu|kup|gup|k|级|級|급|pro|p)?\s*(?P<after>pro|p)?\s*(?P<doubt>[?*+]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """A player's rank.

    level: 30 kyu is -29, 1 kyu 0, 1 dan 1, 10 dan 10 (amateurs); 1 dan professional is 11, 9 dan professional 19. It
        orders ranks, but is no measure of strength: servers differ, and 1p may well beat 9d.
    certain: False where the record doubts it ("7d?"). Does not take part in comparisons.
    """

    level: int
    certain: bool = field(default=True, compare=False)

    @classmethod
    def parse(cls, text: str) -> Rank | None:
        """Reads "5d", "9 dan", "3k", "9p", "9 dan pro", "P9段", "职业九段", "18급", "7d?" ...; else None."""
        match = _RANK.fullmatch(text.strip()[:_LONGEST].translate(_NUMERALS))
        if match is None:
            return None
        number = int(match["number"])
        kind = (match["kind"] or "").lower()
        certain = "?" not in match["doubt"]
        if match["before"] or match["after"] or kind in ("p", "pro"):
            return cls(number + 10, certain) if 1 <= number <= 9 else None
        if kind in ("dan", "d", "段", "단"):
            return cls(number, certain) if 1 <= number <= 10 else None
        return cls(1 - number, certain) if kind and 1 <= number <= 30 else None

    def __str__(self) -> str:
        if self.level > 10:
            name = f"{self.level - 10}p"
        else:
            name = f"{self.level}d" if self.level > 0 else f"{1 - self.level}k"
        return name if self.certain else name + "?"


How = Literal["score", "resign", "time", "forfeit", "draw", "void", "unknown"]

_WINNER = re.compile(r"\s*(?:(b|black|黑|黒|흑)|(w|white|白|백))(?![a-z])\s*", re.IGNORECASE)
_CAUSES: tuple[tuple[How, re.Pattern[str]], ...] = (
    ("resign", re.compile(r"\+?\s*r|.*resign|.*(中盘|中盤|中押|投了|认输|認輸|불계)", re.IGNORECASE)),
    ("time", re.compile(r"\+?\s*t|.*(time|超时|超時|时间|時間|시간)", re.IGNORECASE)),
    ("forfeit", re.compile(r"\+?\s*f|.*(forfeit|弃权|棄權|棄権|犯规|犯規|反则|反則|반칙|기권)", re.IGNORECASE)),
)
_MARGIN = re.compile(
    r"(?P<whole>\d+(?:[.,]\d+)?(?!\d*\s*/))?\s*又?\s*(?:(?P<part>\d+)\s*/\s*(?P<parts>0*[1-9]\d*))?"
    r"\s*(?P<stones>子)?[目집]?\s*(?P<half>半|반)?"
)
_DRAW = re.compile(r"0(\.0*)?|draw|jigo|tie|和棋?|平局|持碁|持棋|무승부|빅", re.IGNORECASE)
_VOID = re.compile(r"void|no result|無勝負|无胜负|无效|無効|무효", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Result:
    """How a game ended.

    winner: BLACK, WHITE, or None (draw, void, unknown).
    how: "unknown" with a winner means that only the winner is known.
    margin: in points, where how is "score". As written: a server's "W+0.0" stays a win by 0, and Fox's games under
        Chinese rules give stones ("B+0.75" is 1.5 points there).
    """

    winner: int | None = None
    how: How = "unknown"
    margin: float | None = None

    @classmethod
    def parse(cls, text: str) -> Result:
        """Reads "B+R", "W+3.5", "0", "Jigo", "Void", "B+Time", "黑中盘胜", "白3目半勝ち", "흑 불계승" ...

        Chinese margins in stones (子) count double.
        """
        text = text.strip()[:_LONGEST]
        if _DRAW.fullmatch(text):
            return cls(how="draw")
        if _VOID.fullmatch(text):
            return cls(how="void")
        side = _WINNER.match(text)
        if side is None:
            return cls()
        winner = BLACK if side[1] else WHITE
        rest = text[side.end() :]
        if rest and rest[0] != "+" and not re.search("win|won|胜|勝|승", rest, re.IGNORECASE):
            return cls()
        for how, pattern in _CAUSES:
            if pattern.match(rest):
                return cls(winner, how)
        margin = _margin(rest)
        return cls(winner) if margin is None else cls(winner, "score", margin)

    def __str__(self) -> str:
        """SGF's spelling: "B+3.5", "W+R", "B+T", "B+F", "B+", "0", "Void", "?"."""
        if self.winner is None:
            return {"draw": "0", "void": "Void"}.get(self.how, "?")
        side = "B+" if self.winner == BLACK else "W+"
        if self.margin is not None:
            return f"{side}{self.margin:.12g}"
        return side + {"resign": "R", "time": "T", "forfeit": "F"}.get(self.how, "")


def _margin(text: str) -> float | None:
    first = re.search(r"[\d半반]", text)
    match = _MARGIN.match(text, first.start()) if first else None
    if match is None or not (match["whole"] or match["part"] or match["half"]):
        return None
    margin = float((match["whole"] or "0").replace(",", "."))
    if match["part"]:
        margin += float(Fraction(int(match["part"]), int(match["parts"])))
    if match["half"]:
        margin += 0.5
    if match["stones"]:
        margin *= 2
    return round(margin, 2) if margin < 1000 else None


def parse_komi(text: str) -> float | None:
    """The komi in points; None for an empty value and for nonsense.

    100 or more is a hundredfold, as Fox writes it: KM[650] is 6.5. Quarters are Chinese stones (子), each two points:
    KM[3.75] and KM[375] are 7.5. Below 100, whole and half numbers are believed as they stand.
    """
    try:
        komi = float(text.strip()[:_LONGEST].replace(",", "."))
    except ValueError:
        return None
    if abs(komi) >= 100:
        komi /= 100
    if not (math.isfinite(komi) and abs(komi) < 100):
        return None
    return komi * 2 if komi % 0.5 == 0.25 else komi

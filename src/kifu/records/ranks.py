"""Ranks of players: many spellings in, one scale of ratings, and a table of equally strong ranks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kifu.errors import GameError, RecipeError
from kifu.records.text import MAX_TEXT, normalize
from kifu.text import lazy_pattern

_PRO_RATING = 41  # 1 dan professional
_TOP_RATING = 49  # 9 dan professional
_LOWEST_KYU = 50

_EQUIVALENT = {
    "aga": (
        "20K 19K 18K 17-18K 17K 16K 15-16K 15K 14K 13K 12-13K 12K 11K 10K 9-10K 9K 8K 7K 6-7K 6K 5K 4-5K 4K 3K 2K "
        "1-2K 1K 1D 2D 3D 4D 5D 6D 6D 7D"
    ),
    "china": (
        "23K 22K 21K 20-21K 20K 19K 18-19K 18K 17K 16K 15-16K 15K 14K 13K 12-13K 12K 11K 10K 9-10K 9K 8K 7-8K 7K "
        "6K 5K 4-5K 4K 3K 2K 1K 1D 2D 3D 3-4D 4-5D"
    ),
    "europe": (
        "22K 21K 20K 19-20K 19K 18K 17-18K 17K 16K 15K 14-15K 14K 13K 12K 11-12K 11K 10K 9K 8-9K 8K 7K 6-7K 6K 5K "
        "4K 3-4K 3K 2K 1K 1D 2D 3D 4D 4-5D 5-6D"
    ),
    "igs": (
        "30K 29K 28K 27K 26K 25K 24K 23K 22K 21K 20K 19K 18K 17K 16K 15K 14K 13K 12K 11K 10K 9K 8K 7K 6K 5K 4K 3K "
        "2K 1K 1D 2D 3D 4D 5D"
    ),
    "japan": (
        "19K 18K 17K 16-17K 16K 15K 14-15K 14K 13K 12K 11-12K 11K 10K 9K 8-9K 8K 7K 6K 5-6K 5K 4K 3-4K 3K 2K 1K "
        "1K-1D 1D 2D 3D 4D 4-5D 5-6D 6D 6D 6-7D"
    ),
    "korea": (
        "26Gup 25Gup 24Gup 23-24Gup 23Gup 22Gup 21-22Gup 21Gup 20Gup 19Gup 18-19Gup 18Gup 17Gup 16Gup 15-16Gup "
        "15Gup 14Gup 13Gup 12-13Gup 12Gup 11Gup 10-11Gup 10Gup 9Gup 8Gup 7-8Gup 7Gup 6Gup 5Gup 4Gup 3Gup 2Gup "
        "1-2Gup 1Gup 1Gup"
    ),
}
"""Equally strong ranks of the 1990s by Schraudolph's README, from rating 2 to 36. Those of IGS name the ratings."""

_INPUT_LEVELS = (*range(-29, 10), *range(11, 20))
"""`Rank.level` of the ranks that a user may give: 30 kyu to 9 dan, 1 to 9 dan professional."""

_BODIES = "aga|egf|ffg|bga|dgob|kgs|igs|nngs|ogs|dgs|fox|tygem"
_REMARK = lazy_pattern(
    rf"[,(\[]?\s*\b(?:{_BODIES})\b[\s:]*(?:(?:gor|rating)\b[\s:]*)?(?:-?\d{{1,4}}(?:\.\d+)?(?![\w.]))?\s*[)\]]?",
    re.IGNORECASE,
)
_PRO = "professional|pro|p|职业|職業|专业|專業|プロ|프로"
_AMATEUR = "amateur|ama|业余|業餘|アマ|아마"
_RANK = lazy_pattern(
    rf"~?(?:(?P<before>{_PRO})|{_AMATEUR})?[\s-]*(?P<number>\d{{1,2}})(?P<decimals>[.,]\d{{1,2}})?(?:st|nd|rd|th)?[\s-]*"
    rf"(?:(?P<dan>dan|d|段|단)|(?P<kyu>kyu|kup|gup|k|级|級|급)|(?P<pro>{_PRO}))?\.?"
    rf"\s*\(?(?:(?P<after>{_PRO})|{_AMATEUR})?\)?\s*(?P<doubt>[?*+~]*)"
    r"(?:\s*±\s*[\d.]{1,4})?",
    re.IGNORECASE,
)
_AGA = lazy_pattern(r"(?:aga[\s:]*)?([+-]?\d{1,2}\.\d{1,6})(?:\s*\(?aga\)?)?", re.IGNORECASE)
_GOR = lazy_pattern(
    r"(?:(?:egf|gor|rating)[\s:]*){1,2}(\d{3,4})(?:\.\d+)?|(\d{3,4})(?:\.\d+)?(?:\s*(?:egf|gor)){1,2}", re.I
)

_TITLE = lazy_pattern(
    r"\s*[-:]?\s*(?:\b\d{1,3}(?:st|nd|rd|th)\s+|第\d{1,3}[期届屆]\s*|제?\d{1,3}기\s*)?"
    r"(?:\b(?:honou?rary|lifetime|former|ex)[\s-]+|名[誉譽]|永世|女[流子]|前|元|명예\s*|여[류자]\s*|전\s+)?"
    r"(?:\b(?:kisei|meijin|hon'?inbou?|judan|[ji]ud[ao]n|tengen|ou?za|gosei|ryusei|okan|tianyuan|mingren|qisheng|qiwang"
    r"|guoshou|g?k?uksu|my[eu]o?ngin|k?g?iseong|wangwi|chunwon|title(?:[\s-]?holder)?|(?:world\s+)?champion|challenger)\b"
    r"|棋[聖圣]|碁[聖圣]|名人|本因坊|王[座位冠]|天元|[竜龍龙]星|[国國]手|棋王|最高位|挑[戦战戰]者|10段"
    r"|기성|명인|본인방|왕[좌위]|천원|국수|십단|패왕|기왕|최고위)\s*[-:]?\s*",
    re.IGNORECASE,
)
_SEPARATOR = lazy_pattern(r"\s*[,;/|()\[\]・·、&]\s*")
_EAST_ASIAN = lazy_pattern("[段级級단급]")
_WESTERN = {ord(char): c for c in range(128, 160) if (char := bytes([c]).decode("cp1252", "ignore"))}
_MISREAD_AS = ("latin_1", "gb18030", "cp949", "cp950", "cp932", "cp1251")
_WRITTEN_IN = ("utf_8", "gb18030", "cp949", "cp950", "cp932", "euc_jp")


def _repair(text: str) -> Iterator[str]:
    """Yield a text as it may have been before it was decoded by another charset than its own."""
    for wrong in _MISREAD_AS:
        for right in _WRITTEN_IN:
            with contextlib.suppress(UnicodeError):
                repaired = text.translate(_WESTERN if wrong == "latin_1" else {}).encode(wrong).decode(right)
                if _EAST_ASIAN.search(repaired):
                    yield repaired


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Rank:
    """A player's rank.

    Attributes:
        level: 30 kyu is -29, 1 kyu 0, 1 dan 1, 10 dan 10 (amateurs); 1 dan professional is 11, 9 dan professional 19.
            It orders ranks but does not measure strength: servers differ, and 1p may well beat 9d.
        confirmed: True for professionals and for marked ranks ("5d*", as IGS marks rated players), False for doubtful
            ones ("7d?", as on KGS), None if the record has neither mark. Ignored in comparisons.
    """

    level: int
    confirmed: bool | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.level, int):
            raise GameError(f"level must be a number, got {self.level!r:.80}; Rank.parse takes a text such as '3d'")

    @classmethod
    def parse(cls, text: str) -> Rank | None:
        """Parse a rank, such as "5d", "9 dan", "3k*", "9p", "9 dan pro", "P9段", "职业九段", "18급" or "7d?".

        A number alone is a rank only if it is an AGA rating, which has a decimal point and is not between -1 and 1
        ("5.3" is 5 dan, "-2.1" 2 kyu), or if it is labelled EGF or GoR (2100 is 1 dan, 100 points per grade, 7 dan the
        maximum). The decimals of OGS ("11.6k" is 12 kyu, "2.3d" 2 dan) are rounded to the weaker rank, as there. A rank
        beside such a rating ("2 dan (EGF 2050)") is used as it is, and so is one beside titles ("9p, Kisei") or in
        characters that were decoded by another charset than their own ("9¶Î"). East Asian records that write 九段
        for professionals do not distinguish them from amateurs; neither does this function.

        Returns:
            None for any other text.
        """
        plain = normalize(text)
        rank = cls._parse_plain(plain)
        if rank is None and (parts := _SEPARATOR.split(_TITLE.sub(",", plain)))[1:]:
            ranks = [(part, cls._parse_plain(part)) for part in parts if part]
            others = [part for part, each in ranks if each is None]
            if len(others) == len(ranks) - 1 and not re.search(r"\d", "".join(others)):
                rank = next(each for _, each in ranks if each is not None)
        if rank is None and not text.isascii():
            rank = next(filter(None, map(cls._parse_plain, map(normalize, _repair(text[:MAX_TEXT])))), None)
        return rank

    @classmethod
    def _parse_plain(cls, text: str) -> Rank | None:
        """Parse normalized text without titles."""
        text = text.strip("[](){}")
        if aga := _AGA.fullmatch(text):
            rating = float(aga[1])
            if 1 <= rating < 11:
                return cls(int(rating))
            return cls(1 + int(rating)) if -_LOWEST_KYU <= rating <= -1 else None
        if gor := _GOR.fullmatch(text):
            return cls(min((int(gor[1] or gor[2]) - 2050) // 100 + 1, 7))
        match = _RANK.fullmatch(_REMARK.sub(" ", text).strip())
        if match is None or text.startswith("-"):
            return None
        number, doubt = int(match["number"]), match["doubt"]
        if match["decimals"]:
            if not (match["dan"] or match["kyu"]) or match["before"] or match["after"]:
                return None
            number += bool(match["kyu"]) and match["decimals"].strip(".,0") != ""
        confirmed = False if "?" in doubt else True if "*" in doubt else None
        if match["before"] or match["pro"] or match["after"]:
            professional = 1 <= number <= 9 and not match["kyu"]
            return cls(number + 10, confirmed is not False) if professional else None
        if match["dan"]:
            return cls(number, confirmed) if 1 <= number <= 10 else None
        return cls(1 - number, confirmed) if match["kyu"] and 1 <= number <= _LOWEST_KYU else None

    @classmethod
    def parse_rating(cls, text: str) -> float:
        """Return the rating of a rank such as "3d" or "10k", as a user writes it. Raises RecipeError."""
        rank = cls._parse_plain(normalize(text))
        if rank is None or rank.level not in _INPUT_LEVELS:
            raise RecipeError(f"a rank is 30k to 1k, 1d to 9d or 1p to 9p, got {text!r}")
        return float(rank.rating)

    @classmethod
    def from_rating(cls, rating: float, confirmed: bool | None = None) -> Rank | None:
        """Return the rank of a rating on the scale of `rating`, rounded down; None if it is outside that scale."""
        if not 1 <= rating < _TOP_RATING + 1:
            return None
        return cls(int(rating) - (30 if rating >= _PRO_RATING else 31), confirmed)

    @property
    def professional(self) -> bool:
        """True for a professional rank."""
        return self.level > 10

    @property
    def rating(self) -> int:
        """The rating on Schraudolph's scale: 30 kyu is 2, 1 kyu 31, 1 dan 32, 9 dan 40; 1p is 41, 9p 49.

        The scale has no 10 dan, which is 40 too, and no ranks below 30 kyu, which are all 1. Its 0 means "no rank" and
        is not a rating of any `Rank`.
        """
        return self.level + 30 if self.professional else max(1, min(self.level + 31, 40))

    def __repr__(self) -> str:
        return f"Rank.parse({str(self)!r})"

    def __str__(self) -> str:
        if self.professional:
            name = f"{self.level - 10}p"
        else:
            name = f"{self.level}d" if self.level > 0 else f"{1 - self.level}k"
        if self.confirmed is None or (self.confirmed and self.professional):
            return name
        return name + ("*" if self.confirmed else "?")


def rank_table() -> list[dict[str, int | str | None]]:
    """Return the rows of Schraudolph's table: "rating", and the rank in each place."""
    names = ("rating", *_EQUIVALENT)
    none = (0, *("NR" if name == "igs" else None for name in _EQUIVALENT))
    ranks = zip(*(column.split() for column in _EQUIVALENT.values()))
    return [dict(zip(names, row)) for row in (none, *((rating, *row) for rating, row in enumerate(ranks, start=2)))]

"""The arguments of GTP commands, read one after the other and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kifu.errors import GameError, KifuError
from kifu.point import BLACK, WHITE, parse_gtp

_OF_SEARCHES = ("rootinfo", "pvvisits", "pvedgevisits", "movesownership", "ownershipstdev", "movesownershipstdev")
"""Booleans that ask KataGo for more than there is to tell without a search; no field comes of them."""

_REAL = re.compile(r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})")


class GtpError(KifuError):
    """A command that is answered with a question mark and this text."""


@dataclass(slots=True)
class AnalyzeRequest:
    """What an analysis is asked for. seconds: between two lines; None: one line only."""

    colour: int
    seconds: float | None = None
    least: int = 0
    most: int | None = None
    ownership: bool = False


class Arguments:
    """The words after a command's name. Every method raises Refused, a syntax error, if its argument is not there."""

    def __init__(self, words: list[str], width: int, height: int) -> None:
        """width, height: of the board that vertices are points of."""
        self._words, self._width, self._height = words[::-1], width, height

    @property
    def more(self) -> bool:
        """Whether there are arguments left."""
        return bool(self._words)

    def end(self) -> None:
        """That was all."""
        if self._words:
            raise GtpError("syntax error")

    def word(self) -> str:
        """Any word."""
        if not self._words:
            raise GtpError("syntax error")
        return self._words.pop()

    def integer(self, low: int, high: int) -> int:
        """A whole number within low to high."""
        word = self.word()
        if not (word.isascii() and word.isdigit() and len(word) <= 10 and low <= int(word) <= high):
            raise GtpError("syntax error")
        return int(word)

    def real(self) -> float:
        """A decimal number."""
        word = self.word()
        if not _REAL.fullmatch(word) or not word.isascii():
            raise GtpError("syntax error")
        return float(word)

    def colour(self) -> int:
        """BLACK or WHITE."""
        found = _COLOURS.get(self.word().lower())
        if found is None:
            raise GtpError("syntax error")
        return found

    def vertex(self) -> int:
        """A point of the board, or a pass."""
        try:
            return parse_gtp(self.word(), self._width, self._height)
        except GameError:
            raise GtpError("syntax error") from None

    def analysis(self, to_play: int) -> AnalyzeRequest:
        """[colour] [interval], then keys with values: interval, minmoves, maxmoves, ownership, and `_OF_SEARCHES`."""
        asked = AnalyzeRequest(to_play)
        if self.more and self._words[-1].lower() in _COLOURS:
            asked.colour = self.colour()
        if self.more and self._words[-1].isdigit():
            asked.seconds = self._centiseconds()
        while self.more:
            match self.word().lower():
                case "interval":
                    asked.seconds = self._centiseconds()
                case "minmoves":
                    asked.least = self.integer(0, 999)
                case "maxmoves":
                    asked.most = self.integer(1, 999)
                case "ownership":
                    asked.ownership = self._boolean()
                case key if key in _OF_SEARCHES:
                    self._boolean()
                case _:
                    raise GtpError("syntax error")
        return asked

    def _centiseconds(self) -> float:
        return max(self.integer(0, 10**6), 1) / 100

    def _boolean(self) -> bool:
        word = self.word().lower()
        if word not in ("true", "false"):
            raise GtpError("syntax error")
        return word == "true"


_COLOURS = {"b": BLACK, "black": BLACK, "w": WHITE, "white": WHITE}

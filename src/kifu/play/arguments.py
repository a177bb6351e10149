"""Parsing and validation of the arguments of GTP commands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kifu.errors import GameError, KifuError
from kifu.point import BLACK, WHITE, parse_gtp

_SEARCH_FLAGS = ("rootinfo", "pvvisits", "pvedgevisits", "movesownership", "ownershipstdev", "movesownershipstdev")
"""Boolean options of `kata-analyze` about a search. They are accepted and ignored, because there is no search."""

_REAL = re.compile(r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})")


class GtpError(KifuError):
    """A failed GTP command; its text is the response after the question mark."""


@dataclass(slots=True)
class AnalyzeRequest:
    """The arguments of an analyze command.

    Attributes:
        interval: Seconds between two reports; None reports once.
        min_moves: Minimum number of moves to report.
        max_moves: Maximum number of moves to report; None is unlimited.
    """

    colour: int
    interval: float | None = None
    min_moves: int = 0
    max_moves: int | None = None
    ownership: bool = False


class Arguments:
    """The words after a command's name, read from left to right.

    Every method raises `GtpError` ("syntax error") if the next argument is missing or malformed.
    """

    def __init__(self, words: list[str], width: int, height: int) -> None:
        """Wrap the arguments of one command; vertices are points of a width x height board."""
        self._words, self._width, self._height = words[::-1], width, height

    @property
    def more(self) -> bool:
        """True while arguments are left."""
        return bool(self._words)

    def end(self) -> None:
        """Require that no arguments are left."""
        if self._words:
            raise GtpError("syntax error")

    def word(self) -> str:
        """Return the next argument."""
        if not self._words:
            raise GtpError("syntax error")
        return self._words.pop()

    def integer(self, low: int, high: int) -> int:
        """Return the next argument as an integer within low to high."""
        word = self.word()
        if not (word.isascii() and word.isdigit() and len(word) <= 10 and low <= int(word) <= high):
            raise GtpError("syntax error")
        return int(word)

    def real(self) -> float:
        """Return the next argument as a decimal number."""
        word = self.word()
        if not _REAL.fullmatch(word) or not word.isascii():
            raise GtpError("syntax error")
        return float(word)

    def colour(self) -> int:
        """Return the next argument as BLACK or WHITE."""
        colour = _COLOURS.get(self.word().lower())
        if colour is None:
            raise GtpError("syntax error")
        return colour

    def vertex(self) -> int:
        """Return the next argument as a move: a point of the board, or a pass."""
        try:
            return parse_gtp(self.word(), self._width, self._height)
        except GameError:
            raise GtpError("syntax error") from None

    def analyze_request(self, to_play: int) -> AnalyzeRequest:
        """Return the remaining arguments of an analyze command.

        The syntax is [colour] [interval] followed by key-value pairs: interval, minmoves, maxmoves, ownership and
        KataGo's search flags. The colour defaults to `to_play`.
        """
        request = AnalyzeRequest(to_play)
        if self.more and self._words[-1].lower() in _COLOURS:
            request.colour = self.colour()
        if self.more and self._words[-1].isdigit():
            request.interval = self._centiseconds()
        while self.more:
            match self.word().lower():
                case "interval":
                    request.interval = self._centiseconds()
                case "minmoves":
                    request.min_moves = self.integer(0, 999)
                case "maxmoves":
                    request.max_moves = self.integer(1, 999)
                case "ownership":
                    request.ownership = self._boolean()
                case key if key in _SEARCH_FLAGS:
                    self._boolean()
                case _:
                    raise GtpError("syntax error")
        return request

    def _centiseconds(self) -> float:
        return max(self.integer(0, 10**6), 1) / 100

    def _boolean(self) -> bool:
        word = self.word().lower()
        if word not in ("true", "false"):
            raise GtpError("syntax error")
        return word == "true"


_COLOURS = {"b": BLACK, "black": BLACK, "w": WHITE, "white": WHITE}

"""The errors of kifu, and the reasons for which games are dropped.

    KifuError            and also
    ├── RecordError      ValueError      bytes that are not a readable game record
    ├── GameError        ValueError      a game that violates the rules it is read under
    │   └── IllegalMove
    ├── FormatError      ValueError      a data file that violates its format
    ├── SourceError      OSError         an archive, folder or address that cannot be read
    ├── OutputError      OSError         a file that cannot be written
    ├── ClusterError     RuntimeError    a cluster that is unreachable or cannot do the work
    ├── RecipeError      ValueError      a recipe, plane set, format or option that is unknown or invalid
    └── MissingExtra     ImportError     a package that an extra of kifu installs

Each message names the bad value and the allowed ones. The command line prints it as one line and exits with code 2.
A bad game among many raises nothing: it is dropped, with a `DropReason`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum


class KifuError(Exception):
    """Base of every error that kifu raises on purpose. As text it is one printable line."""

    def __str__(self) -> str:
        return printable(super().__str__())


class RecordError(KifuError, ValueError):
    """Bytes that are not a readable game record."""


class GameError(KifuError, ValueError):
    """A game that violates the rules it is read under."""


class FormatError(KifuError, ValueError):
    """A data file that violates its format."""


class SourceError(KifuError, OSError):
    """An archive, folder or address that cannot be read."""


class OutputError(KifuError, OSError):
    """A file that cannot be written."""


class ClusterError(KifuError, RuntimeError):
    """A cluster that is unreachable or cannot do the work."""


class RecipeError(KifuError, ValueError):
    """A recipe, plane set, format or option that is unknown or invalid."""


class MissingExtra(KifuError, ImportError):  # noqa: N818 - the name says more than ImportError
    """A package that is required and not installed, although an extra of kifu would install it."""


EXTRAS = {
    "duckdb": "query",
    "fsspec": "query",
    "py7zr": "7z",
    "matplotlib": "charts",
    "starlette": "web",
    "uvicorn": "web",
    "torch": "learn",
    "safetensors": "learn",
    "tensorboard": "tensorboard",
    "onnx": "learn",
    "onnxscript": "learn",
    "keras": "keras",
    "h5py": "hdf5",
    "ray": "cluster",
    "s3fs": "cluster",
    "gcsfs": "cluster",
}
"""The extra that installs each package which only some functions need."""


@contextmanager
def missing_extras() -> Iterator[None]:
    """Raise MissingExtra instead of ModuleNotFoundError for a package in EXTRAS."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(f"{package} is required: pip install 'kifu[{EXTRAS[package]}]'", name=package) from None


@contextmanager
def reading(path: object, error: type[KifuError] = SourceError) -> Iterator[None]:
    """Raise an error of kifu, "PATH cannot be read: REASON", instead of one of the operating system."""
    try:
        yield
    except KifuError:
        raise
    except OSError as found:
        raise error(f"{path} cannot be read: {found.strerror or first_line(found)}") from None


class DropReason(IntEnum):
    """The reason for which a game is dropped.

    Kernels return these numbers, and catalogues store them, so a number is never reused.
    """

    KEPT = 0
    # the record
    NO_RECORD = 1
    NOT_GO = 2
    BAD_SIZE = 3
    TOO_LARGE = 4
    UNREADABLE = 5
    # moves and setup stones
    OFF_BOARD = 10
    OCCUPIED = 11
    SUICIDE = 12
    KO = 13
    SUPERKO = 14
    # requirements of a recipe
    WRONG_SIZE = 20
    TRUNCATED = 21
    BAD_HANDICAP = 22
    BAD_CHARSET = 23
    SETUP_TWICE = 24
    # cleaning rules
    NO_MOVES = 30
    FEW_STONES = 31
    TOO_SHORT = 32
    TOO_LONG = 33
    SELF_PLAY = 34
    HUGE_SCORE = 35
    FRACTION_SCORE = 36
    UNFINISHED = 37
    RANK_UNKNOWN = 38
    RANK_LOW = 39
    PROGRAM = 40
    BLITZ = 41
    NOT_ALTERNATING = 42
    DUPLICATE = 43
    SAME_GAME = 44
    CUT_OFF = 45
    REPAIRED = 46
    # requirements of KataGo's rows
    RULES_UNKNOWN = 50
    KOMI_UNKNOWN = 51
    HANDICAP_LARGE = 52
    EARLY_PASS = 53
    SETUP_LATER = 54
    SETUP_DEAD = 55
    AFTER_END = 56

    @property
    def reason(self) -> str:
        """A description in one line."""
        return _REASONS[self]


_REASONS = {
    DropReason.KEPT: "kept",
    DropReason.NO_RECORD: "contains no game record",
    DropReason.NOT_GO: "a record of another game (GM is not 1)",
    DropReason.BAD_SIZE: "a board size that is unreadable or not within 1 to 25",
    DropReason.TOO_LARGE: "larger than the reader accepts",
    DropReason.UNREADABLE: "unreadable: a malformed line, or a damaged, encrypted or unsupported archive member",
    DropReason.OFF_BOARD: "a move or setup stone outside the board",
    DropReason.OCCUPIED: "a move on an occupied point",
    DropReason.SUICIDE: "a suicide, which the rules forbid",
    DropReason.KO: "an immediate ko recapture",
    DropReason.SUPERKO: "a move that repeats an earlier position",
    DropReason.WRONG_SIZE: "a board size that the recipe does not use",
    DropReason.TRUNCATED: "the record ends too early",
    DropReason.BAD_HANDICAP: "a handicap that is 1 or not a number",
    DropReason.BAD_CHARSET: "an unknown character set (CA)",
    DropReason.SETUP_TWICE: "two setup stones on one point",
    DropReason.NO_MOVES: "no moves",
    DropReason.FEW_STONES: "fewer stones played than required",
    DropReason.TOO_SHORT: "fewer moves than required",
    DropReason.TOO_LONG: "more moves than allowed",
    DropReason.SELF_PLAY: "a short game of a player against themselves",
    DropReason.HUGE_SCORE: "a score above twice the points of the board",
    DropReason.FRACTION_SCORE: "score plus komi is not a whole number",
    DropReason.UNFINISHED: "no result, or a void one",
    DropReason.RANK_UNKNOWN: "a player's rank is unknown",
    DropReason.RANK_LOW: "a player's rank is lower than required",
    DropReason.PROGRAM: "a player is a program",
    DropReason.BLITZ: "too little time to think",
    DropReason.NOT_ALTERNATING: "two moves in a row by one colour",
    DropReason.DUPLICATE: "equal to an earlier game in all fields",
    DropReason.SAME_GAME: "equal to another game up to symmetry, colours or final passes",
    DropReason.CUT_OFF: "the beginning of another game",
    DropReason.REPAIRED: "the record is damaged in a way that the rules exclude",
    DropReason.RULES_UNKNOWN: "unknown rules (RU)",
    DropReason.KOMI_UNKNOWN: "a komi (KM) that is unknown or not a multiple of one half",
    DropReason.HANDICAP_LARGE: "a handicap above half the board side",
    DropReason.EARLY_PASS: "a pass in the middle of the game",
    DropReason.SETUP_LATER: "stones set up after the first move",
    DropReason.SETUP_DEAD: "setup stones without a liberty",
    DropReason.AFTER_END: "moves after the end of the game",
}


class IllegalMove(GameError):  # noqa: N818 - the established name
    """A move that the rules or the board do not allow; `move` is the point, or NO_POINT (see `kifu.point`)."""

    def __init__(self, ply: int, move: int, reason: DropReason) -> None:
        self.ply, self.move, self.reason = ply, move, reason
        where = "" if reason == DropReason.OFF_BOARD else f" (point {move})"
        super().__init__(f"move {ply + 1}{where} is illegal: {reason.reason}")


def printable(text: object) -> str:
    r"""Return foreign text, or the text of a value, as one line that is safe to print.

    Wide and no-break spaces become plain ones. Control characters, line breaks, characters that reverse or hide text,
    and bytes of a file name that are not UTF-8 are escaped (\x1b, \u202e, \udcff).
    """
    line = str(text)
    return line if line.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in line)


def _escape(c: str) -> str:
    return " " if unicodedata.category(c) == "Zs" else c.encode("unicode_escape", "surrogatepass").decode()


def join_lines(lines: Iterable[object]) -> str:
    """Return lines of text of which each is printable, so that foreign text in one cannot pass for another."""
    return "\n".join(map(printable, lines))


def first_line(error: BaseException) -> str:
    """Return the message of another library's error as one printable line, for use in a message of kifu."""
    lines = str(error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__)

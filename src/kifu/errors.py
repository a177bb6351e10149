"""What can go wrong, as one tree.

    KifuError
    ├── RecordError      bytes that are no readable game record
    ├── GameError        a game that breaks the rules it is read under
    │   └── IllegalMove
    ├── FormatError      a data set file whose bytes are not what its format says
    ├── SourceError      an archive, folder or address that cannot be read
    ├── OutputError      a file that cannot be written
    ├── ClusterError     a cluster that cannot be reached, or cannot do this work
    └── RecipeError      a recipe, plane set, format or option that does not exist or does not fit

Each message names the bad value and what was allowed. The command line prints it as one line and exits with code 2.
A bad game among many raises nothing: it carries a `DropReason`, the reason why it is set aside.
"""

from __future__ import annotations

from enum import IntEnum


class KifuError(Exception):
    """Base of every error that kifu raises on purpose."""


class RecordError(KifuError):
    """Bytes that are no readable game record."""


class GameError(KifuError):
    """A game that breaks the rules it is read under."""


class FormatError(KifuError):
    """A data set file whose bytes are not what its format says."""


class SourceError(KifuError):
    """An archive, folder or address that cannot be read."""


class OutputError(KifuError):
    """A file that cannot be written."""


class ClusterError(KifuError):
    """A cluster that cannot be reached, or cannot do this work."""


class RecipeError(KifuError):
    """A recipe, plane set, format or option that does not exist or does not fit."""


class DropReason(IntEnum):
    """Why a game is set aside. Kernels return these numbers; the catalogue keeps them, so none is ever reused."""

    KEPT = 0
    # the record
    NO_RECORD = 1
    NOT_GO = 2
    BAD_SIZE = 3
    TOO_LARGE = 4
    UNREADABLE = 5
    # the game, move by move
    OFF_BOARD = 10
    OCCUPIED = 11
    SUICIDE = 12
    KO = 13
    SUPERKO = 14
    # what a recipe demands beyond that
    WRONG_SIZE = 20
    TRUNCATED = 21
    BAD_HANDICAP = 22
    BAD_CHARSET = 23
    SETUP_TWICE = 24
    # what cleaning a corpus may ask for
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
    # what KataGo's rows need
    RULES_UNKNOWN = 50
    KOMI_UNKNOWN = 51
    HANDICAP_LARGE = 52
    EARLY_PASS = 53
    SETUP_LATER = 54
    SETUP_DEAD = 55
    AFTER_END = 56

    @property
    def reason(self) -> str:
        """One line for people."""
        return _REASONS[self]


_REASONS = {
    DropReason.KEPT: "kept",
    DropReason.NO_RECORD: "no game record in it",
    DropReason.NOT_GO: "a record of another game (GM is not 1)",
    DropReason.BAD_SIZE: "board size unreadable or not within 1 to 25",
    DropReason.TOO_LARGE: "larger than the reader accepts",
    DropReason.UNREADABLE: "cannot be read: a broken line; or damaged, encrypted, of unknown compression in its archive",
    DropReason.OFF_BOARD: "a move or setup stone that is no point of the board",
    DropReason.OCCUPIED: "a move on an occupied point",
    DropReason.SUICIDE: "a suicide, which the rules forbid",
    DropReason.KO: "a ko retaken at once",
    DropReason.SUPERKO: "a move that repeats an earlier position",
    DropReason.WRONG_SIZE: "another board size than the recipe takes",
    DropReason.TRUNCATED: "the record ends too early",
    DropReason.BAD_HANDICAP: "a handicap that is 1 or no number",
    DropReason.BAD_CHARSET: "an unknown character set (CA)",
    DropReason.SETUP_TWICE: "two setup stones on one point",
    DropReason.NO_MOVES: "no moves",
    DropReason.FEW_STONES: "fewer stones played than asked for",
    DropReason.TOO_SHORT: "fewer moves than asked for",
    DropReason.TOO_LONG: "more moves than asked for",
    DropReason.SELF_PLAY: "a short game of a player against himself",
    DropReason.HUGE_SCORE: "a score above twice the points of the board",
    DropReason.FRACTION_SCORE: "score plus komi is no whole number",
    DropReason.UNFINISHED: "no result, or a void one",
    DropReason.RANK_UNKNOWN: "the rank of a player is not known",
    DropReason.RANK_LOW: "a player's rank is below what is asked for",
    DropReason.PROGRAM: "a player is a program",
    DropReason.BLITZ: "too little time to think",
    DropReason.NOT_ALTERNATING: "two moves in a row by one colour",
    DropReason.DUPLICATE: "equal to an earlier game in all fields",
    DropReason.SAME_GAME: "equal to another game but for mirror, rotation, colours or last passes",
    DropReason.CUT_OFF: "the beginning of another game",
    DropReason.RULES_UNKNOWN: "no rules (RU) that are known",
    DropReason.KOMI_UNKNOWN: "no komi (KM), or one that is no multiple of a half",
    DropReason.HANDICAP_LARGE: "a handicap beyond half the side of the board",
    DropReason.EARLY_PASS: "a pass in the middle of the game",
    DropReason.SETUP_LATER: "stones set up after the first move",
    DropReason.SETUP_DEAD: "setup stones without a liberty",
    DropReason.AFTER_END: "moves after the end of the game",
}


class IllegalMove(GameError):
    """A move that the rules, or the board, do not allow.

    ply: how many moves came before it. move: the point, or NO_POINT (see `kifu.point`). why: one of `DropReason`.
    """

    def __init__(self, ply: int, move: int, why: DropReason) -> None:
        self.ply, self.move, self.why = ply, move, why
        where = "" if why == DropReason.OFF_BOARD else f" (point {move})"
        super().__init__(f"move {ply + 1}{where} is illegal: {why.reason}")


def first_line(error: BaseException) -> str:
    """What another library says is wrong, as one line for a message of ours."""
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    return line if line.isprintable() else repr(line)

"""The engine behind GTP: what each command does to the game, and what it answers.

Commands and their arguments: the Go Text Protocol, version 2, draft 2 (Farnebaeck 2002, https://www.lysator.liu.se/~gunnar/gtp/),
and the extensions that docs/gtp.md lists. How they come and how answers go is the matter of `kifu.play.gtp`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from kifu.errors import GameError, IllegalMove, RecordError
from kifu.go.rules import Rules
from kifu.play.analysis import board_of_numbers, info_line, policy_gfx
from kifu.play.arguments import AnalyzeRequest, Arguments, GtpError
from kifu.play.handicap import fixed_handicap, most_handicap
from kifu.play.ongoing import CHINESE, GameSession
from kifu.play.player import RESIGN, Player, PolicyValue
from kifu.point import BLACK, MAX_SIZE, WHITE, to_gtp
from kifu.records.game import read_sgf

_LARGEST_RECORD = 4 << 20
_COLOURS = {BLACK: "Black", WHITE: "White"}


@dataclass(frozen=True, slots=True)
class Analysis:
    """An answer that goes on until something else is asked: this line, again every so many seconds; None: once."""

    line: str
    seconds: float | None


Answer = str | Analysis


class Engine:
    """A game in the making, and a player for it. Other players' moves have to be legal under its rules too."""

    def __init__(self, player: Player, *, rules: Rules = CHINESE, width: int = 19, height: int = 19) -> None:
        """width, height: of the board that it begins with, which the player must be able to take."""
        self.player, self._rules = player, rules
        self.game = GameSession(width, height, rules=rules)
        self.komi = 7.5

    def run(self, name: str, words: list[str]) -> Answer:
        """Does a command. Raises KifuError, whose text is the answer that begins with a question mark."""
        command = COMMANDS.get(name)
        if command is None:
            raise GtpError("unknown command")
        arguments = Arguments(words, self.game.board.width, self.game.board.height)
        return command(self, arguments)

    # what the engine is

    def protocol_version(self, given: Arguments) -> str:
        given.end()
        return "2"

    def name(self, given: Arguments) -> str:
        given.end()
        return "kifu"

    def version(self, given: Arguments) -> str:
        given.end()
        return f"{version('kifu')} {self.player.oracle.name}"

    def known_command(self, given: Arguments) -> str:
        name = given.word()
        given.end()
        return "true" if name in COMMANDS else "false"

    def list_commands(self, given: Arguments) -> str:
        given.end()
        return "\n".join(COMMANDS)

    def quit(self, given: Arguments) -> str:
        given.end()
        return ""

    # the board

    def boardsize(self, given: Arguments) -> str:
        size = given.integer(0, 999)
        given.end()
        return self._resize(size, size)

    def rectangular_boardsize(self, given: Arguments) -> str:
        width, height = given.integer(0, 999), given.integer(0, 999)
        given.end()
        return self._resize(width, height)

    def _resize(self, width: int, height: int) -> str:
        fits = min(width, height) >= 2 and max(width, height) <= MAX_SIZE
        if not fits or not self.player.oracle.takes(width, height):
            raise GtpError("unacceptable size")
        self.game = GameSession(width, height, rules=self._rules)
        return ""

    def clear_board(self, given: Arguments) -> str:
        given.end()
        return self._resize(self.game.board.width, self.game.board.height)

    def set_komi(self, given: Arguments) -> str:
        self.komi = given.real()
        given.end()
        return ""

    def fixed_handicap(self, given: Arguments) -> str:
        return self._handicap(given, at_most=False)

    def place_free_handicap(self, given: Arguments) -> str:
        return self._handicap(given, at_most=True)

    def _handicap(self, given: Arguments, at_most: bool) -> str:
        """at_most: fewer stones than asked for will do."""
        stones = given.integer(0, 999)
        given.end()
        board = self.game.board
        self._require_untouched()
        most = most_handicap(board.width, board.height)
        if stones < 2 or most < 2 or (stones > most and not at_most):
            raise GtpError("invalid number of stones")
        points = fixed_handicap(min(stones, most), board.width, board.height)
        self.game.give_handicap(points)
        return " ".join(to_gtp(point, board.width, board.height) for point in points)

    def set_free_handicap(self, given: Arguments) -> str:
        points = [given.vertex()]
        while given.more:
            points.append(given.vertex())
        self._require_untouched()
        n = self.game.board.pass_move
        if len(points) < 2 or len(points) >= n or len(set(points)) < len(points) or n in points:
            raise GtpError("bad vertex list")
        self.game.give_handicap(points)
        return ""

    def _require_untouched(self) -> None:
        if not self.game.untouched:
            raise GtpError("board not empty")

    def showboard(self, given: Arguments) -> str:
        given.end()
        board = self.game.board
        taken = board.captures
        lines = [
            f"{_COLOURS[board.to_play]} to play, move {len(self.game.moves) + 1}, komi {self.komi:g}",
            f"captured by Black {taken[BLACK]}, by White {taken[WHITE]}",
        ]
        return "\n".join(["", str(board), *lines])

    def loadsgf(self, given: Arguments) -> str:
        path = Path(given.word())
        before = given.integer(1, 99_999) if given.more else None
        given.end()
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_RECORD:
                raise GtpError("cannot load file")
            record = read_sgf(path.read_bytes())
            plies = len(record) if before is None else min(before - 1, len(record))
            game = GameSession.of(record, plies, rules=self._rules)
        except (OSError, ValueError, RecordError, GameError):
            raise GtpError("cannot load file") from None
        if not self.player.oracle.takes(record.width, record.height):
            raise GtpError("unacceptable size")
        self.game = game
        if record.komi is not None:
            self.komi = record.komi
        return ""

    # the game

    def play(self, given: Arguments) -> str:
        colour, move = given.colour(), given.vertex()
        given.end()
        try:
            self.game.play(move, colour)
        except IllegalMove:
            raise GtpError("illegal move") from None
        return ""

    def genmove(self, given: Arguments) -> str:
        colour = given.colour()
        given.end()
        return self._generate(colour, self._outlook(colour))

    def reg_genmove(self, given: Arguments) -> str:
        colour = given.colour()
        given.end()
        return self._vertex(self.player.choose(self.game, colour, self._outlook(colour)))

    def undo(self, given: Arguments) -> str:
        given.end()
        try:
            self.game.undo()
        except GameError:
            raise GtpError("cannot undo") from None
        return ""

    def _generate(self, colour: int, outlook: PolicyValue) -> str:
        move = self.player.choose(self.game, colour, outlook)
        if move != RESIGN:
            self.game.play(move, colour)
        return self._vertex(move)

    def _vertex(self, move: int) -> str:
        board = self.game.board
        return "resign" if move == RESIGN else to_gtp(move, board.width, board.height)

    def _outlook(self, colour: int) -> PolicyValue:
        return self.player.oracle.outlook(self.game, colour)

    # time and score

    def time_settings(self, given: Arguments) -> str:
        for _ in range(3):
            given.real()
        given.end()
        return ""

    def time_left(self, given: Arguments) -> str:
        given.colour()
        for _ in range(2):
            given.real()
        given.end()
        return ""

    def final_score(self, given: Arguments) -> str:
        given.end()
        if self.game.passes < 2:
            raise GtpError("cannot score")
        score = self.game.board.area_score() - self.komi
        return "0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}"

    def final_status_list(self, given: Arguments) -> str:
        status = given.word()
        given.end()
        if status not in ("alive", "dead", "seki"):
            raise GtpError("syntax error")
        board = self.game.board
        chains = board.chains() if status == "alive" else []
        return "\n".join(" ".join(to_gtp(p, board.width, board.height) for p in chain) for chain in chains)

    # analysis

    def lz_analyze(self, given: Arguments) -> Analysis:
        return self._analysis(given, kata=False)

    def kata_analyze(self, given: Arguments) -> Analysis:
        return self._analysis(given, kata=True)

    def lz_genmove_analyze(self, given: Arguments) -> str:
        return self._genmove_analyze(given, kata=False)

    def kata_genmove_analyze(self, given: Arguments) -> str:
        return self._genmove_analyze(given, kata=True)

    def _analysis(self, given: Arguments, kata: bool) -> Analysis:
        asked = given.analysis(self.game.board.to_play)
        return Analysis(self._info(asked, self._outlook(asked.colour), kata), asked.seconds)

    def _genmove_analyze(self, given: Arguments, kata: bool) -> str:
        asked = given.analysis(self.game.board.to_play)
        outlook = self._outlook(asked.colour)
        return f"\n{self._info(asked, outlook, kata)}\nplay {self._generate(asked.colour, outlook)}"

    def _info(self, asked: AnalyzeRequest, outlook: PolicyValue, kata: bool) -> str:
        return info_line(
            self.game, outlook, kata=kata, least=asked.least, most=asked.most, ownership=kata and asked.ownership
        )

    def analyze_commands(self, given: Arguments) -> str:
        given.end()
        lines = ["gfx/Policy/kifu-policy %m"]
        lines += ["dboard/Ownership/kifu-ownership %m"] if self.player.oracle.has_ownership else []
        lines += ["string/Chance To Win/kifu-value %m"] if self.player.oracle.has_value else []
        return "\n".join(lines)

    def policy(self, given: Arguments) -> str:
        colour = given.colour()
        given.end()
        return policy_gfx(self.game, self._outlook(colour))

    def ownership(self, given: Arguments) -> str:
        colour = given.colour()
        given.end()
        told = self._outlook(colour).ownership
        if told is None:
            raise GtpError("this net does not tell ownership")
        return board_of_numbers(told if colour == BLACK else -told, self.game.board.width)

    def value(self, given: Arguments) -> str:
        colour = given.colour()
        given.end()
        told = self._outlook(colour).value
        if told is None:
            raise GtpError("this net does not tell who wins")
        return f"{(told + 1) / 2:.3f}"


COMMANDS: dict[str, Callable[[Engine, Arguments], Answer]] = {
    "protocol_version": Engine.protocol_version,
    "name": Engine.name,
    "version": Engine.version,
    "known_command": Engine.known_command,
    "list_commands": Engine.list_commands,
    "quit": Engine.quit,
    "boardsize": Engine.boardsize,
    "rectangular_boardsize": Engine.rectangular_boardsize,
    "clear_board": Engine.clear_board,
    "komi": Engine.set_komi,
    "fixed_handicap": Engine.fixed_handicap,
    "place_free_handicap": Engine.place_free_handicap,
    "set_free_handicap": Engine.set_free_handicap,
    "play": Engine.play,
    "genmove": Engine.genmove,
    "reg_genmove": Engine.reg_genmove,
    "undo": Engine.undo,
    "time_settings": Engine.time_settings,
    "time_left": Engine.time_left,
    "final_score": Engine.final_score,
    "final_status_list": Engine.final_status_list,
    "showboard": Engine.showboard,
    "loadsgf": Engine.loadsgf,
    "lz-analyze": Engine.lz_analyze,
    "lz-genmove_analyze": Engine.lz_genmove_analyze,
    "kata-analyze": Engine.kata_analyze,
    "kata-genmove_analyze": Engine.kata_genmove_analyze,
    "gogui-analyze_commands": Engine.analyze_commands,
    "kifu-policy": Engine.policy,
    "kifu-ownership": Engine.ownership,
    "kifu-value": Engine.value,
}

"""One refereed game between two GTP programs: every move is checked on our own board, and a violation loses the game.

Games are scored by area, by the first of these that succeeds: the scoring program (usually GNU Go); both players, if
their `final_score` agrees; the board itself, where no stone is dead (Tromp-Taylor).
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kifu.errors import DropReason, GameError, IllegalMove, KifuError
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.katago.net_file import is_kata_net
from kifu.learn import MIX_SUFFIX, ONNX_SUFFIX, PACKAGED, SUFFIX, split_class, split_mix
from kifu.point import BLACK, WHITE, WHITE_BIT, parse_gtp, to_gtp
from kifu.process import POLL_S, PipedProcess, ProcessError, excerpt, split_command
from kifu.records.meta import Result

RESPONSE_LIMIT = 1 << 16
"""Maximum bytes of a response."""

_MAX_UNMARKED = 1000
"""Bytes without a line feed after which output that does not start with "=" or "?" is nonsense."""

_SUFFIXES = (SUFFIX, ONNX_SUFFIX, MIX_SUFFIX)


class MatchCancelledError(KifuError):
    """The match was cancelled while a response was awaited."""


def parse_command(text: str, rules: str = "chinese") -> list[str]:
    """Return the program and arguments of a command line.

    A net (a run directory, a .safetensors, .onnx or .bin.gz file, or a packaged one) stands for `kifu gtp --net NET`
    with the rules. Raises RecipeError if the text is not a command line, or the program was not found.
    """
    net = [sys.executable, "-P", "-m", "kifu", "gtp", "--net", text, "--rules", rules]
    if text.isprintable() and _is_net(text):
        return net
    # `kifu gtp` reports the missing file
    if (text.endswith(_SUFFIXES) or is_kata_net(text)) and text.isprintable() and len(text.split()) == 1:
        return net
    return split_command(text, 'a program such as "gnugo --mode gtp", or a net')


def _is_net(text: str) -> bool:
    if len(names := split_mix(text)) > 1:
        return all(map(_is_net, names))
    path = Path(split_class(text)[0])
    try:
        is_file = (path.suffix in _SUFFIXES or is_kata_net(path)) and path.is_file()
        return text in PACKAGED or (bool(text.strip()) and (is_file or path.is_dir()))
    except OSError:  # for example, the name is too long
        return False


class GtpProcess(PipedProcess):
    """A running GTP program, which is not trusted.

        with GtpProcess(parse_command("gnugo --mode gtp")) as gnugo:
            gnugo.ask("boardsize 19", timeout=10)
            gnugo.ask("genmove b", timeout=60)          "Q16"

    A response of GTP 2 is "=" or "?", text, and an empty line.
    """

    def __init__(self, command: Sequence[str], stop: threading.Event | None = None) -> None:
        """Start a program, see `parse_command`. Once `stop` is set, `ask` raises MatchCancelledError.

        Raises ProcessError if the program could not be started.
        """
        super().__init__(command)
        self._stop = stop or threading.Event()

    def ask(self, command: str, timeout: float) -> str:
        """Send a command and return the text of its "=" response, which must be complete in `timeout` seconds.

        Raises ProcessError if the program failed, timed out or refused the command; MatchCancelledError if `stop` was
        set.
        """
        self.read_available()
        if self.received.strip():  # it would be mistaken for the next response
            self.fail("nonsense", f"it wrote {excerpt(self.received)} unasked")
        deadline = time.monotonic() + timeout
        self.send(f"{command}\n".encode())
        try:
            while (response := self._pop_response()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    partial = f" (it began with {excerpt(self.received)})" if self.received.strip() else ""
                    self.fail("time", f"no response to {command!r} within {timeout:g} s{partial}")
                if self._stop.is_set():
                    raise MatchCancelledError("cancelled")
                self.wait(min(left, POLL_S))
                if not self.output_open and self.received.find(b"\n\n") < 0:
                    self.fail_exited()
        finally:
            self.unsend()
        success, text = response
        if not success:
            raise ProcessError("refusal", f"it refused {command!r}: {excerpt(text)}")
        return text

    def close(self) -> None:
        """End the program; after a cancellation, without waiting for it."""
        self.failed |= self._stop.is_set()
        super().close()

    def _pop_response(self) -> tuple[bool, str] | None:
        """Remove and return the first complete response as (success, text), or None."""
        self.received = self.received.lstrip(b"\n\t ")
        end = self.received.find(b"\n\n")
        has_line = end >= 0 or self.received.find(b"\n") >= 0 or len(self.received) > _MAX_UNMARKED
        if has_line and not self.received.startswith((b"=", b"?")):
            self.fail("nonsense", f"it wrote {excerpt(self.received)}, which is not a GTP response")
        if max(end, len(self.received) if end < 0 else 0) > RESPONSE_LIMIT:
            self.fail("nonsense", f"it wrote a response of more than {RESPONSE_LIMIT:,} bytes")
        if end < 0:
            return None
        response = bytes(self.received[:end])
        del self.received[: end + 2]
        return response[:1] == b"=", response[1:].decode("utf-8", "replace").strip()


Ending = Literal["score", "resign", "illegal", "crash", "time", "nonsense", "refusal", "unfinished"]
"""score: both passed.  resign: a player resigned.  illegal: a move violated the rules.  unfinished: too many moves.
The other values are faults of a program, see `kifu.process.Fault`."""

ScoredBy = Literal["scorer", "players", "board"]

Opening = tuple[int, ...]
"""Points, colours alternating from Black."""

COLOURS = {BLACK: "Black", WHITE: "White"}

_SCORE = re.compile(r"0|[BW]\+\d{1,4}(\.\d{1,3})?")


@dataclass(frozen=True)
class MatchRules:
    """The conditions of a game.

    Attributes:
        komi: Points for White.
        ruleset: Name of the rules of legal moves, see `Rules.named`. Scoring is by area under all of them.
        move_seconds: Seconds per response; a slower program loses.
        start_seconds: Seconds for the first responses, since a program may have a network to load, and for scoring.
    """

    size: int = 19
    komi: float = 7.5
    ruleset: str = "chinese"
    move_seconds: float = 60.0
    start_seconds: float = 300.0

    @property
    def max_moves(self) -> int:
        """Number of moves after which a game is unfinished: room for the passes by which `Player` ends a long game."""
        return 3 * self.size * self.size + 2


@dataclass(frozen=True)
class GameOutcome:
    """A played game.

    Attributes:
        moves: Moves as point | WHITE_BIT, including the opening.
    """

    moves: tuple[int, ...]
    result: Result
    ending: Ending
    reason: str
    scored_by: ScoredBy | None
    seconds: tuple[float, float]


@dataclass
class _Seat:
    colour: int
    program: GtpProcess
    seconds: float = 0.0

    @property
    def letter(self) -> str:
        return "b" if self.colour == BLACK else "w"

    def ask(self, command: str, timeout: float) -> str:
        try:
            return self.program.ask(command, timeout)
        except ProcessError as error:
            raise _Loss(self.colour, error.fault, error.reason) from None

    def genmove(self, timeout: float) -> str:
        start = time.monotonic()
        try:
            return self.ask(f"genmove {self.letter}", timeout)
        finally:
            self.seconds += time.monotonic() - start


class _Loss(Exception):  # noqa: N818 - control flow, not an error
    """The game is over: the player of that colour has lost it."""

    def __init__(self, colour: int, ending: Ending, reason: str) -> None:
        self.colour, self.ending, self.reason = colour, ending, reason


@dataclass
class _RefereedGame:
    rules: MatchRules
    seats: dict[int, _Seat]
    board: Board
    on_move: Callable[[], None]
    moves: list[int] = field(default_factory=list)
    passes: int = 0

    def play(self, point: int) -> None:
        """Play a move of the player to move; raise IllegalMove if it is illegal."""
        colour = self.board.to_play
        self.board.play(point)
        self.moves.append(point | (WHITE_BIT if colour == WHITE else 0))
        self.passes = self.passes + 1 if point == self.board.pass_move else 0
        self.on_move()


def set_up(program: GtpProcess, rules: MatchRules, timeout: float) -> None:
    """Set up an empty board; `timeout` is that of the first command.

    Raises ProcessError if the program failed or refused a command.
    """
    program.ask(f"boardsize {rules.size}", timeout)
    program.ask("clear_board", rules.move_seconds)
    program.ask(f"komi {rules.komi:g}", rules.move_seconds)


def play_game(
    black: Sequence[str],
    white: Sequence[str],
    opening: Opening,
    rules: MatchRules,
    scorer: Sequence[str] | None,
    stop: threading.Event,
    on_move: Callable[[], None] = lambda: None,
) -> tuple[GameOutcome, dict[int, bytes]]:
    """Start two programs and let them play one game.

    Raises CancelledError if `stop` was set. Faults of the programs raise nothing; they lose the game.

    Args:
        black: Command of Black's program, see `kifu.play.referee.parse_command`.
        opening: First moves as points, colours alternating, legal under the rules.

    Returns:
        The outcome, and by colour the end of the program's standard error.
    """
    programs: dict[int, GtpProcess] = {}
    try:
        try:
            for colour, command in ((BLACK, black), (WHITE, white)):
                programs[colour] = GtpProcess(command, stop)
        except ProcessError as error:
            return _lost_outcome(_Loss(colour, error.fault, error.reason), [], (0.0, 0.0)), {}
        seats = {colour: _Seat(colour, program) for colour, program in programs.items()}
        game = _RefereedGame(rules, seats, Board(rules.size, rules=Rules.named(rules.ruleset)), on_move)
        outcome = _play(game, opening, scorer, stop)
    finally:
        for program in programs.values():
            program.close()
    return outcome, {colour: program.log for colour, program in programs.items()}


def _play(game: _RefereedGame, opening: Opening, scorer: Sequence[str] | None, stop: threading.Event) -> GameOutcome:
    ending: Ending = "score"
    scored_by: ScoredBy | None = None
    try:
        _start(game, opening)
        while game.passes < 2 and len(game.moves) < game.rules.max_moves:
            if not _move(game):
                colour = game.board.to_play
                raise _Loss(colour, "resign", f"{COLOURS[colour]} resigned")
    except _Loss as loss:
        return _lost_outcome(loss, game.moves, _seconds(game))
    if game.passes < 2:
        ending, result, reason = "unfinished", Result(how="void"), f"unfinished after {len(game.moves)} moves"
    else:
        result, scored_by, reason = _score(game, scorer, stop)
    return GameOutcome(tuple(game.moves), result, ending, reason, scored_by, _seconds(game))


def _start(game: _RefereedGame, opening: Opening) -> None:
    for seat in game.seats.values():
        try:
            set_up(seat.program, game.rules, game.rules.start_seconds)
        except ProcessError as error:
            raise _Loss(seat.colour, error.fault, error.reason) from None
    for point in opening:
        letter = "bw"[game.board.to_play == WHITE]
        game.play(point)
        for seat in game.seats.values():
            seat.ask(f"play {letter} {to_gtp(point, game.rules.size)}", game.rules.move_seconds)


def _move(game: _RefereedGame) -> bool:
    """Have the player to move generate a move and send it to the opponent; return False if it resigns."""
    colour, size = game.board.to_play, game.rules.size
    mine, other = game.seats[colour], game.seats[BLACK + WHITE - colour]
    answer = mine.genmove(game.rules.move_seconds)
    if answer.lower() == "resign":
        return False
    try:
        point = parse_gtp(answer, size)
    except GameError:
        text = excerpt(answer) if answer else "nothing"
        raise _Loss(colour, "nonsense", f"it answered {text} to genmove, which is not a move") from None
    try:
        game.play(point)
    except IllegalMove as illegal:
        reason = f"{to_gtp(point, size)} as move {illegal.ply + 1} is illegal: {DropReason(illegal.reason).reason}"
        raise _Loss(colour, "illegal", reason) from None
    other.ask(f"play {mine.letter} {to_gtp(point, size)}", game.rules.move_seconds)
    return True


def _lost_outcome(loss: _Loss, moves: Sequence[int], seconds: tuple[float, float]) -> GameOutcome:
    winner = BLACK + WHITE - loss.colour
    how: Literal["resign", "time", "forfeit"] = (
        "resign" if loss.ending == "resign" else "time" if loss.ending == "time" else "forfeit"
    )
    reason = loss.reason if loss.ending == "resign" else f"{COLOURS[loss.colour]} loses: {loss.reason}"
    return GameOutcome(tuple(moves), Result(winner, how), loss.ending, reason, None, seconds)


def _seconds(game: _RefereedGame) -> tuple[float, float]:
    return game.seats[BLACK].seconds, game.seats[WHITE].seconds


def _score(game: _RefereedGame, scorer: Sequence[str] | None, stop: threading.Event) -> tuple[Result, ScoredBy, str]:
    """Score a game that ended by two passes; return the result, the scorer and the reason."""
    reason = "both passed"
    if scorer is not None:
        try:
            return _ask_scorer(game, scorer, stop), "scorer", reason
        except ProcessError as error:
            reason += f"; the scorer failed: {error.reason}"
    scores = set()
    for seat in game.seats.values():
        try:
            scores.add(_final_score(seat.program, game.rules))
        except ProcessError:
            break
    else:
        if len(scores) == 1:
            return scores.pop(), "players", reason
    margin = game.board.area_score() - game.rules.komi
    if margin == 0:
        return Result(how="draw"), "board", reason
    return Result(BLACK if margin > 0 else WHITE, "score", abs(margin)), "board", reason


def _ask_scorer(game: _RefereedGame, scorer: Sequence[str], stop: threading.Event) -> Result:
    with GtpProcess(scorer, stop) as program:
        set_up(program, game.rules, game.rules.start_seconds)
        for move in game.moves:
            letter, point = "w" if move & WHITE_BIT else "b", move & ~WHITE_BIT
            program.ask(f"play {letter} {to_gtp(point, game.rules.size)}", game.rules.move_seconds)
        return _final_score(program, game.rules)


def _final_score(program: GtpProcess, rules: MatchRules) -> Result:
    """Return a program's score of its current game; raise ProcessError if it has none."""
    answer = program.ask("final_score", rules.start_seconds)
    if not _SCORE.fullmatch(answer):
        raise ProcessError("nonsense", f"it answered {excerpt(answer)} to final_score, which is not a score")
    return Result.parse(answer)

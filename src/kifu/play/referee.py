"""One game between two programs: our own board judges every move, and what a program does wrong loses it the game.

Area is counted, by the first of these that can: the program that is asked to score (GNU Go, mostly); both players, if
their `final_score` is the same; the board itself, on which no stone is dead (Tromp-Taylor).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.play.client import GtpProcess, ProgramFault, shown
from kifu.play.openings import Opening
from kifu.point import BLACK, WHITE, WHITE_BIT, parse_gtp, to_gtp
from kifu.records.meta import Result

Ending = Literal["score", "resign", "illegal", "crash", "time", "nonsense", "refusal", "unfinished"]
"""score: both passed.  resign: one gave up.  illegal: a move that the rules do not allow.  unfinished: too many moves.
The others: what a program did, see `kifu.play.client.Fault`."""

ScoredBy = Literal["scorer", "players", "board"]

COLOURS = {BLACK: "Black", WHITE: "White"}

_SCORE = re.compile(r"0|[BW]\+\d{1,4}(\.\d{1,3})?")


@dataclass(frozen=True)
class MatchRules:
    """What both programs agree to."""

    size: int = 19
    komi: float = 7.5
    rules: str = "chinese"
    """A name of `Rules.named`: what a move may not do. Area is counted under all of them."""
    move_seconds: float = 60.0
    """For one answer; a program that needs longer loses."""
    start_seconds: float = 300.0
    """For the first answers, which may have a net to load; and to count a finished game."""

    @property
    def most_moves(self) -> int:
        """With so many moves a game ends unfinished: after the two passes by which nets of ours end a long one."""
        return 3 * self.size * self.size + 2


@dataclass(frozen=True)
class GameOutcome:
    """A game that was played. moves: point | WHITE_BIT, the opening's among them.

    seconds: what Black's and White's program took for its answers to genmove.
    """

    moves: tuple[int, ...]
    result: Result
    ending: Ending
    reason: str
    scored_by: ScoredBy | None
    seconds: tuple[float, float]


@dataclass
class _Seat:
    """A program at the board."""

    colour: int
    program: GtpProcess
    seconds: float = 0.0

    @property
    def letter(self) -> str:
        return "b" if self.colour == BLACK else "w"

    def ask(self, command: str, seconds: float) -> str:
        try:
            return self.program.ask(command, seconds)
        except ProgramFault as fault:
            raise _Lost(self.colour, fault.fault, fault.reason) from None

    def genmove(self, seconds: float) -> str:
        began = time.monotonic()
        try:
            return self.ask(f"genmove {self.letter}", seconds)
        finally:
            self.seconds += time.monotonic() - began


class _Lost(Exception):
    """The game is lost by the player of that colour."""

    def __init__(self, colour: int, ending: Ending, reason: str) -> None:
        self.colour, self.ending, self.reason = colour, ending, reason


@dataclass
class _Game:
    """A game while it is played."""

    terms: MatchRules
    seats: dict[int, _Seat]
    board: Board
    tell: Callable[[], None]
    moves: list[int] = field(default_factory=list)
    passes: int = 0

    def play(self, point: int) -> None:
        """Plays a move of the player to move. Raises IllegalMove."""
        colour = self.board.to_play
        self.board.play(point)
        self.moves.append(point | (WHITE_BIT if colour == WHITE else 0))
        self.passes = self.passes + 1 if point == self.board.pass_move else 0
        self.tell()


def prepare(program: GtpProcess, terms: MatchRules, seconds: float) -> None:
    """An empty board. Raises ProgramFault."""
    program.ask(f"boardsize {terms.size}", seconds)
    program.ask("clear_board", terms.move_seconds)
    program.ask(f"komi {terms.komi:g}", terms.move_seconds)


def play_game(
    black: Sequence[str],
    white: Sequence[str],
    opening: Opening,
    terms: MatchRules,
    scorer: Sequence[str] | None,
    stop: threading.Event,
    tell: Callable[[], None] = lambda: None,
) -> tuple[GameOutcome, dict[int, bytes]]:
    """A game of two programs that are started for it, and what each colour's wrote to standard error.

    black, white, scorer: as `kifu.play.client.parse_command` gives them. opening: points, colours in turn, legal under
    the rules. tell: called after each move. Raises Stopped when `stop` is set, and nothing for what the programs do.
    """
    programs: dict[int, GtpProcess] = {}
    try:
        try:
            for colour, command in ((BLACK, black), (WHITE, white)):
                programs[colour] = GtpProcess(command, stop)
        except ProgramFault as fault:
            lost = _Lost(colour, fault.fault, fault.reason)
            return _ended_by(lost, [], (0.0, 0.0)), {}
        seats = {colour: _Seat(colour, program) for colour, program in programs.items()}
        game = _Game(terms, seats, Board(terms.size, rules=Rules.named(terms.rules)), tell)
        ended = _play(game, opening, scorer, stop)
    finally:
        for program in programs.values():
            program.close()
    return ended, {colour: program.log for colour, program in programs.items()}


def _play(game: _Game, opening: Opening, scorer: Sequence[str] | None, stop: threading.Event) -> GameOutcome:
    ending: Ending = "score"
    scored_by: ScoredBy | None = None
    try:
        _begin(game, opening)
        while game.passes < 2 and len(game.moves) < game.terms.most_moves:
            if not _move(game):
                colour = game.board.to_play
                raise _Lost(colour, "resign", f"{COLOURS[colour]} resigned")
    except _Lost as lost:
        return _ended_by(lost, game.moves, _seconds(game))
    if game.passes < 2:
        ending, result, reason = "unfinished", Result(how="void"), f"unfinished after {len(game.moves)} moves"
    else:
        result, scored_by, reason = _score(game, scorer, stop)
    return GameOutcome(tuple(game.moves), result, ending, reason, scored_by, _seconds(game))


def _begin(game: _Game, opening: Opening) -> None:
    for seat in game.seats.values():
        try:
            prepare(seat.program, game.terms, game.terms.start_seconds)
        except ProgramFault as fault:
            raise _Lost(seat.colour, fault.fault, fault.reason) from None
    for point in opening:
        letter = "bw"[game.board.to_play == WHITE]
        game.play(point)
        for seat in game.seats.values():
            seat.ask(f"play {letter} {to_gtp(point, game.terms.size)}", game.terms.move_seconds)


def _move(game: _Game) -> bool:
    """One move of the player to move, told to the other one; False if he resigns."""
    colour, size = game.board.to_play, game.terms.size
    mine, other = game.seats[colour], game.seats[BLACK + WHITE - colour]
    answer = mine.genmove(game.terms.move_seconds)
    if answer.lower() == "resign":
        return False
    try:
        point = parse_gtp(answer, size)
    except GameError:
        told = shown(answer.encode()) if answer else "nothing"
        raise _Lost(colour, "nonsense", f"it answered {told} to genmove, which is no move") from None
    try:
        game.play(point)
    except IllegalMove as illegal:
        why = f"{to_gtp(point, size)} as move {illegal.ply + 1} is illegal: {DropReason(illegal.why).reason}"
        raise _Lost(colour, "illegal", why) from None
    other.ask(f"play {mine.letter} {to_gtp(point, size)}", game.terms.move_seconds)
    return True


def _ended_by(lost: _Lost, moves: Sequence[int], seconds: tuple[float, float]) -> GameOutcome:
    winner = BLACK + WHITE - lost.colour
    how: Literal["resign", "time", "forfeit"] = (
        "resign" if lost.ending == "resign" else "time" if lost.ending == "time" else "forfeit"
    )
    reason = lost.reason if lost.ending == "resign" else f"{COLOURS[lost.colour]} loses: {lost.reason}"
    return GameOutcome(tuple(moves), Result(winner, how), lost.ending, reason, None, seconds)


def _seconds(game: _Game) -> tuple[float, float]:
    return game.seats[BLACK].seconds, game.seats[WHITE].seconds


def _score(game: _Game, scorer: Sequence[str] | None, stop: threading.Event) -> tuple[Result, ScoredBy, str]:
    """The result of a game that both ended by a pass, who counted it, and how that came."""
    why = ""
    if scorer is not None:
        try:
            return _ask_scorer(game, scorer, stop), "scorer", "both passed"
        except ProgramFault as fault:
            why = f"; the scorer failed: {fault.reason}"
    found = set()
    for seat in game.seats.values():
        try:
            found.add(_final_score(seat.program, game.terms))
        except ProgramFault:
            break
    else:
        if len(found) == 1:
            return found.pop(), "players", f"both passed{why}"
    margin = game.board.area_score() - game.terms.komi
    if margin == 0:
        return Result(how="draw"), "board", f"both passed{why}"
    return Result(BLACK if margin > 0 else WHITE, "score", abs(margin)), "board", f"both passed{why}"


def _ask_scorer(game: _Game, scorer: Sequence[str], stop: threading.Event) -> Result:
    with GtpProcess(scorer, stop) as program:
        prepare(program, game.terms, game.terms.start_seconds)
        for move in game.moves:
            letter, point = "w" if move & WHITE_BIT else "b", move & ~WHITE_BIT
            program.ask(f"play {letter} {to_gtp(point, game.terms.size)}", game.terms.move_seconds)
        return _final_score(program, game.terms)


def _final_score(program: GtpProcess, terms: MatchRules) -> Result:
    """What a program says of the game that it knows. Raises ProgramFault."""
    answer = program.ask("final_score", terms.start_seconds)
    if not _SCORE.fullmatch(answer):
        raise ProgramFault("nonsense", f"it answered {shown(answer.encode())} to final_score, which is no score")
    return Result.parse(answer)

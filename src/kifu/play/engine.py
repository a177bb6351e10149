"""GTP commands: their effect on the game and their responses.

Commands and arguments follow the Go Text Protocol, version 2, draft 2 (Farnebaeck 2002,
https://www.lysator.liu.se/~gunnar/gtp/) and the extensions listed in docs/gtp.md. `kifu.play.gtp` reads and writes.

`lz-analyze`, `kata-analyze` and `kata-raw-nn` follow KataGo's docs/GTP_Extensions.md, GoGui's analyze commands its
manual. There is no search: "visits" are the policy scaled to 1000, winrate and lead are the net's for the position
after the move (0.5 without a value head), and a principal variation is the move alone.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError, IllegalMove, KifuError, printable
from kifu.go.board import Board
from kifu.go.rules import RECORD_RULES, Rules
from kifu.io import read_small, write_output
from kifu.katago.rules import KataRules
from kifu.learn.evaluation import Evaluation
from kifu.play.player import RESIGN, GameSession, Player, score_points
from kifu.point import BLACK, MAX_SIZE, WHITE, fixed_handicap, max_handicap, parse_gtp, symmetries, to_gtp
from kifu.records.game import read_sgf, write_sgf

_SEARCH_FLAGS = ("rootinfo", "pvvisits", "pvedgevisits", "movesownership", "ownershipstdev", "movesownershipstdev")
"""Boolean options of `kata-analyze` about a search. They are accepted and ignored, because there is no search."""

_REAL = re.compile(r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})")


class GtpError(KifuError):
    """A failed GTP command; its text is the response after the question mark."""


@dataclass(slots=True)
class AnalyzeRequest:
    """The arguments of an analyze command; `interval` is in seconds, None for one report; no `max_moves`: unlimited."""

    colour: int
    interval: float | None = None
    min_moves: int = 0
    max_moves: int | None = None
    ownership: bool = False


class Arguments:
    """The words after a command's name, read from left to right.

    Every method raises `GtpError` ("syntax error") if the next argument is missing or malformed.
    """

    def __init__(self, words: list[str], board: Board) -> None:
        """Wrap the arguments of one command; vertices are points of the board, whose turn is the default colour."""
        self._words, self._board = words[::-1], board

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

    def rest(self) -> str:
        """Return all arguments that are left, at least one."""
        words = [self.word()]
        while self.more:
            words.append(self.word())
        return " ".join(words)

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
            return parse_gtp(self.word(), self._board.width, self._board.height)
        except GameError:
            raise GtpError("syntax error") from None

    def analyze_request(self) -> AnalyzeRequest:
        """Return the remaining arguments of an analyze command.

        The syntax is [colour] [interval] followed by key-value pairs: interval, minmoves, maxmoves, ownership and
        KataGo's search flags. The colour defaults to the side to move.
        """
        request = AnalyzeRequest(self._board.to_play)
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


_VISITS = 1000

_MAX_LISTED = 10
"""Number of moves that a report lists and evaluates unless it is asked for more."""

_MIN_LABELLED = 0.005
"""Smallest probability that GoGui shows as a label."""


def listed_moves(evaluation: Evaluation, request: AnalyzeRequest) -> list[int]:
    """Return the moves of a report by descending probability, at most `_MAX_LISTED` unless the request asks for more.

    Moves below half a visit are omitted. Without any legal point the pass is listed.
    """
    ranked = np.argsort(-evaluation.policy, kind="stable")[: np.count_nonzero(evaluation.policy)].tolist()
    count = min(int(np.count_nonzero(evaluation.policy * _VISITS >= 0.5)), _MAX_LISTED)
    return (ranked or [len(evaluation.policy) - 1])[: max(1, request.min_moves, count)][: request.max_moves]


def info_line(
    game: GameSession,
    evaluation: Evaluation,
    moves: list[int],
    after: dict[int, Evaluation],
    request: AnalyzeRequest,
    *,
    kata: bool,
) -> str:
    """Return one line, "info move D4 visits 412 winrate 5210 prior 4117 lcb 5210 order 0 pv D4 info move ...".

    Args:
        after: By move, the evaluation of the position after it for the opponent. Other moves get the position's values.
        kata: Use KataGo's format: numbers within 0 to 1 rather than 0 to 10000, lead and ownership allowed.
    """
    parts = []
    for choice, move in enumerate(moves):
        vertex, prior = to_gtp(move, game.board.width, game.board.height), float(evaluation.policy[move])
        found, sign = (after[move], -1) if move in after else (evaluation, 1)
        # Lizzie draws no heat for a winrate of exactly 0.
        winrate = 0.5 if found.value is None else min(max((sign * float(found.value) + 1) / 2, 0.0001), 0.9999)
        head = f"info move {vertex} visits {round(prior * _VISITS)}"
        if kata:
            values = f"winrate {winrate:.6f} utility {2 * winrate - 1:.6f}"
            if found.score is not None:
                lead = sign * float(found.score[0])
                values += f" scoreMean {lead:.6f} scoreLead {lead:.6f}"
            values += f" prior {prior:.6f} lcb {winrate:.6f}"
        else:
            values = f"winrate {winrate * 10000:.0f} prior {prior * 10000:.0f} lcb {winrate * 10000:.0f}"
        parts.append(f"{head} {values} order {choice} pv {vertex}")
    if kata and request.ownership and evaluation.ownership is not None:
        parts.append("ownership " + " ".join(f"{value:.4f}" for value in evaluation.ownership.tolist()))
    return " ".join(parts)


def raw_output(game: GameSession, evaluation: Evaluation, symmetry: int) -> str:
    """Return KataGo's table of what a net gives for one symmetry, from the view of White; what it lacks is left out."""
    width, sign = game.board.width, 1 if game.board.to_play == WHITE else -1
    lines = [f"symmetry {symmetry}"]
    if evaluation.value is not None:
        white = (sign * float(evaluation.value) + 1) / 2
        lines += [f"whiteWin {white:.6f}", f"whiteLoss {1 - white:.6f}", "noResult 0.000000"]
    if evaluation.score is not None:
        lines.append(f"whiteLead {sign * float(evaluation.score[0]):.3f}")
    legal = game.board.legal()[:-1]
    policy = [f"{p:8.6f}" if allowed else "     NAN" for p, allowed in zip(evaluation.policy[:-1].tolist(), legal)]
    lines += ["policy", *(" ".join(policy[k : k + width]) for k in range(0, len(policy), width))]
    lines.append(f"policyPass {evaluation.policy[-1]:8.6f}")
    if evaluation.ownership is not None:
        owned = [f"{sign * value:9.7f}" for value in evaluation.ownership.tolist()]
        lines += ["whiteOwnership", *(" ".join(owned[k : k + width]) for k in range(0, len(owned), width))]
    return "\n".join(lines)


def policy_gfx(game: GameSession, evaluation: Evaluation) -> str:
    """Return GoGui graphics: a square per point, scaled to the best move, with percentages as labels."""
    policy = evaluation.policy[:-1]
    best = float(policy.max())
    names = [to_gtp(point, game.board.width, game.board.height) for point in range(len(policy))]
    min_square = max(0.005 * best, np.finfo(np.float32).tiny)  # without a legal point, best is 0
    squares = [f"{name} {p / best:.2f}" for name, p in zip(names, policy.tolist()) if p >= min_square]
    labels = [f"{name} {p:.0%}"[:-1] for name, p in zip(names, policy.tolist()) if p >= _MIN_LABELLED]
    lines = [" ".join(["INFLUENCE", *squares])] if squares else []
    lines += [" ".join(["LABEL", *labels])] if labels else []
    pass_probability = float(evaluation.policy[-1])
    return "\n".join([*lines, f"TEXT best {max(best, pass_probability):.1%}, pass {pass_probability:.1%}"])


def dboard(values: np.ndarray, width: int) -> str:
    """Return numbers as GoGui's dboard: one line per row of the board, top row first."""
    return "\n".join(" ".join(f"{value:.3f}" for value in row) for row in values.reshape(-1, width).tolist())


_MAX_RECORD_BYTES = 4 << 20
_COLOUR_NAMES = {BLACK: "Black", WHITE: "White"}


@dataclass(frozen=True, slots=True)
class Analysis:
    """A response that goes on until the next command: endless `lines`, ever more complete.

    `interval` is in seconds; None takes the first line only.
    """

    lines: Iterator[str]
    interval: float | None


Answer = str | Analysis
COMMANDS: dict[str, Callable[[Engine, Arguments], Answer]] = {}

_Read = Callable[[Arguments], Any]
_Method = TypeVar("_Method", bound=Callable[..., Answer])
_colour, _real, _vertex, _word = Arguments.colour, Arguments.real, Arguments.vertex, Arguments.word


def gtp(name: str, *types: _Read, **options: bool) -> Callable[[_Method], _Method]:
    """Register a method as a GTP command, called with one argument per type and the options; no word may be left."""

    def register(method: _Method) -> _Method:
        def command(engine: Engine, arguments: Arguments) -> Answer:
            values = [read(arguments) for read in types]
            arguments.end()
            return method(engine, *values, **options)

        COMMANDS[name] = command
        return method

    return register


def _integer(low: int, high: int) -> _Read:
    return lambda arguments: arguments.integer(low, high)


def _optional(read: _Read) -> _Read:
    return lambda arguments: read(arguments) if arguments.more else None


def _repeated(*types: _Read) -> _Read:
    def read(arguments: Arguments) -> list[Any]:
        values = []
        while arguments.more:
            values.append([part(arguments) for part in types])
        return values

    return read


class Engine:
    """A game session and the player that generates moves for it.

    Methods that are GTP commands return the response. The opponent's moves must be legal under the engine's rules, too.
    """

    patience = 0.5
    """Seconds of evaluation before an analysis that repeats writes a line."""

    def __init__(self, player: Player, *, rules: str = "chinese", width: int = 19, height: int = 19) -> None:
        """Start with an empty board of width x height, which the player's evaluator must support."""
        self.player, self._rules = player, Rules.named(rules)
        self._kata_rules = replace(
            KataRules() if self._rules == RECORD_RULES else KataRules.parse(rules),
            ko="simple" if self._rules.ko == "none" else self._rules.ko, suicide=self._rules.suicide,
        )  # fmt: skip
        self.game = GameSession(width, height, rules=self._rules)

    def run(self, name: str, words: list[str]) -> Answer:
        """Run a command and return its response.

        Raises KifuError if the command failed; its text is the response after the question mark.
        """
        command = COMMANDS.get(name)
        if command is None:
            raise GtpError("unknown command")
        return command(self, Arguments(words, self.game.board))

    # administration

    gtp("protocol_version")(lambda _: "2")
    gtp("name")(lambda _: "kifu")
    gtp("version")(lambda engine: printable(f"{version('kifu')} {engine.player.evaluator.name}"))
    gtp("known_command", _word)(lambda _, name: "true" if name in COMMANDS else "false")
    gtp("list_commands")(lambda _: "\n".join(COMMANDS))
    gtp("quit")(lambda _: "")

    # board setup

    gtp("boardsize", _integer(0, 999))(lambda engine, size: engine._resize(size, size))
    gtp("rectangular_boardsize", _integer(0, 999), _integer(0, 999))(lambda engine, *size: engine._resize(*size))
    gtp("clear_board")(lambda engine: engine._resize(engine.game.board.width, engine.game.board.height))

    def _resize(self, width: int, height: int) -> str:
        fits = min(width, height) >= 2 and max(width, height) <= MAX_SIZE
        if not fits or not self.player.evaluator.supports(width, height):
            raise GtpError("unacceptable size")
        self.game = GameSession(width, height, rules=self._rules, komi=self.game.komi)
        return ""

    @gtp("set_position", _repeated(_colour, _vertex))
    def set_position(self, stones: list[tuple[int, int]]) -> str:
        """Place stones of both colours on an empty board; Black moves first."""
        board, placed = self.game.board, [point for _, point in stones]
        black, white = ([point for colour, point in stones if colour == side] for side in (BLACK, WHITE))
        game = GameSession(board.width, board.height, rules=self._rules, komi=self.game.komi)
        if len(set(placed)) < len(placed) or board.pass_move in placed:
            raise GtpError("bad vertex list")
        try:
            game.set_up(black, white, BLACK)
        except GameError:
            raise GtpError("illegal position") from None
        self.game = game
        return ""

    @gtp("komi", _real)
    def set_komi(self, komi: float) -> str:
        """Set the komi."""
        self.game.komi = komi
        return ""

    gtp("get_komi")(lambda engine: f"{engine.game.komi:g}")
    gtp("kata-get-rules")(lambda engine: engine._kata_rules.to_json())

    @gtp("kata-set-rules", Arguments.rest)
    def set_rules(self, text: str) -> str:
        """Set the rules by a name or JSON of KataGo, for the game in progress, too."""
        try:
            kata = KataRules.parse(text)
        except GameError:
            raise GtpError(f"unknown rules {printable(text[:40])!r}") from None
        rules = Rules("situational" if kata.ko == "spight" else kata.ko, kata.suicide)
        try:
            self.game = self.game.with_rules(rules)
        except IllegalMove:
            raise GtpError("the game has moves that these rules forbid") from None
        self._rules, self._kata_rules = rules, kata
        self.player.evaluator.set_rules(rules, kata.scoring)
        return ""

    @gtp("kgs-rules", _word)
    def set_kgs_rules(self, name: str) -> str:
        """Set the rules by a name of KGS, whose Chinese rules have superko."""
        name = name.lower()
        if name not in ("chinese", "aga", "japanese", "new_zealand"):
            raise GtpError(f"unknown rules {name[:40]!r}")
        return self.set_rules("chinese-kgs" if name == "chinese" else name)

    @gtp("place_free_handicap", _integer(0, 999), at_most=True)
    @gtp("fixed_handicap", _integer(0, 999))
    def set_handicap(self, stones: int, at_most: bool = False) -> str:
        """Place a handicap on the fixed points; `at_most` allows fewer stones than requested."""
        board = self.game.board
        self._require_empty()
        largest = max_handicap(board.width, board.height)
        if stones < 2 or largest < 2 or (stones > largest and not at_most):
            raise GtpError("invalid number of stones")
        points = fixed_handicap(min(stones, largest), board.width, board.height)
        self.game.place_handicap(points)
        return " ".join(to_gtp(point, board.width, board.height) for point in points)

    @gtp("set_free_handicap", _vertex, _repeated(_vertex))
    def set_free_handicap(self, first: int, others: list[tuple[int]]) -> str:
        """Place a handicap on the given points."""
        points = [first, *(point for (point,) in others)]
        self._require_empty()
        n = self.game.board.pass_move
        if len(points) < 2 or len(points) >= n or len(set(points)) < len(points) or n in points:
            raise GtpError("bad vertex list")
        self.game.place_handicap(points)
        return ""

    def _require_empty(self) -> None:
        if not self.game.is_empty:
            raise GtpError("board not empty")

    # moves

    @gtp("play", _colour, _vertex)
    def play(self, colour: int, move: int) -> str:
        """Play a move of either colour."""
        try:
            self.game.play(move, colour)
        except IllegalMove:
            raise GtpError("illegal move") from None
        return ""

    @gtp("genmove", _colour)
    def genmove(self, colour: int) -> str:
        """Generate and play a move."""
        return self._generate(colour, self._evaluate(colour))

    @gtp("reg_genmove", _colour)
    def reg_genmove(self, colour: int) -> str:
        """Generate a move without playing it."""
        return self._vertex(self.player.choose(self.game, colour, self._evaluate(colour)))

    @gtp("kgs-genmove_cleanup", _colour)
    def genmove_cleanup(self, colour: int) -> str:
        """Generate and play a move of the clean-up after two passes, which captures all dead stones."""
        move = self.player.clean_up(self.game, colour, self._evaluate(colour).policy)
        self.game.play(move, colour)
        return self._vertex(move)

    @gtp("undo")
    def undo(self) -> str:
        """Take back the last move."""
        try:
            self.game.undo()
        except GameError:
            raise GtpError("cannot undo") from None
        return ""

    def _generate(self, colour: int, evaluation: Evaluation) -> str:
        move = self.player.choose(self.game, colour, evaluation)
        if move != RESIGN:
            self.game.play(move, colour)
        return self._vertex(move)

    def _vertex(self, move: int) -> str:
        board = self.game.board
        return "resign" if move == RESIGN else to_gtp(move, board.width, board.height)

    def _evaluate(self, colour: int) -> Evaluation:
        return self.player.evaluator.evaluate(self.game, colour)

    # time and score

    @gtp("clear_cache", _repeated(_word))
    @gtp("kgs-game_over", _repeated(_word))
    @gtp("time_left", _colour, _real, _real)
    @gtp("kgs-time_settings", _repeated(_word))
    @gtp("time_settings", _real, _real, _real)
    def ignored(self, *_: object) -> str:
        """Accept and ignore the time settings and left, the end of a game, and the order to clear a cache."""
        return ""

    gtp("cputime")(lambda _: f"{time.process_time():.3f}")

    @gtp("final_score")
    def final_score(self) -> str:
        """Score the finished game; stones are dead by ownership."""
        if self.game.trailing_passes < 2:
            raise GtpError("cannot score")
        kata = self._kata_rules
        _, black, white = score_points(self.game.board, self._dead(), territory=kata.scoring == "territory")
        score = black - white - kata.bonus(self.game.handicap) - self.game.komi
        return "0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}"

    @gtp("final_status_list", _word)
    def final_status_list(self, status: str) -> str:
        """List the chains of a status; without an ownership head every stone is alive."""
        if status not in ("alive", "dead", "seki"):
            raise GtpError("syntax error")
        board, dead = self.game.board, self._dead()
        chains = [] if status == "seki" else [c for c in board.chains() if dead[c[0]] == (status == "dead")]
        return "\n".join(" ".join(to_gtp(p, board.width, board.height) for p in chain) for chain in chains)

    def _dead(self) -> npt.NDArray[np.bool_]:
        dead = self.player.evaluator.judge_dead(self.game)
        return np.zeros(self.game.board.pass_move, np.bool_) if dead is None else dead

    @gtp("showboard")
    def showboard(self) -> str:
        """Draw the board."""
        board = self.game.board
        lines = [
            f"{_COLOUR_NAMES[board.to_play]} to play, move {len(self.game.moves) + 1}, komi {self.game.komi:g}",
            f"captured by Black {board.captures[BLACK]}, by White {board.captures[WHITE]}",
        ]
        return "\n".join(["", str(board), *lines])

    @gtp("loadsgf", _word, _optional(_integer(1, 99_999)))
    def loadsgf(self, path: str, before: int | None) -> str:
        """Load a game, optionally up to a move."""
        try:
            record = read_sgf(read_small(Path(path), _MAX_RECORD_BYTES))
            plies = len(record) if before is None else min(before - 1, len(record))
            game = GameSession.from_game(record, plies, rules=self._rules, default_komi=self.game.komi)
        except (OSError, ValueError):
            raise GtpError("cannot load file") from None
        if not self.player.evaluator.supports(record.width, record.height):
            raise GtpError("unacceptable size")
        self.game = game
        return ""

    @gtp("printsgf", _optional(_word))
    def printsgf(self, path: str | None) -> str:
        """Return the game as SGF, or write it to a file."""
        record = write_sgf(self.game.to_game(str(self._kata_rules)))
        if path in (None, "-"):
            return record.decode().strip()
        try:
            write_output(Path(path), record)
        except (KifuError, OSError, ValueError):
            raise GtpError("cannot write file") from None
        return ""

    # analysis

    @gtp("kata-genmove_analyze", Arguments.analyze_request, kata=True, generate=True)
    @gtp("kata-analyze", Arguments.analyze_request, kata=True)
    @gtp("lz-genmove_analyze", Arguments.analyze_request, generate=True)
    @gtp("lz-analyze", Arguments.analyze_request)
    def analyze(self, request: AnalyzeRequest, kata: bool = False, generate: bool = False) -> Answer:
        """Return lines about the best moves, or, to generate a move, one line, and the move that is then played."""
        evaluation = self._evaluate(request.colour)
        patience = math.inf if generate or request.interval is None else self.patience
        lines = self._info_lines(evaluation, request, patience, kata)
        if not generate:
            return Analysis(lines, request.interval)
        return f"\n{next(lines)}\nplay {self._generate(request.colour, evaluation)}"

    def _info_lines(
        self, evaluation: Evaluation, request: AnalyzeRequest, patience: float, kata: bool
    ) -> Iterator[str]:
        """Yield lines without end. Before each, evaluate at least one more position after a move, until `patience`."""
        moves = listed_moves(evaluation, request)
        after: dict[int, Evaluation] = {}
        waiting = moves[::-1] if self.player.evaluator.has_value else []
        while True:
            end = time.monotonic() + patience
            while waiting:
                move = waiting.pop()
                self.game.play(move, request.colour)
                try:
                    after[move] = self._evaluate(BLACK + WHITE - request.colour)
                finally:
                    self.game.undo()
                if time.monotonic() > end:
                    break
            yield info_line(self.game, evaluation, moves, after, request, kata=kata)

    @gtp("kata-raw-nn", _word)
    def raw_nn(self, symmetry: str) -> str:
        """Return the net's output for one of the eight symmetries, or for all."""
        if symmetry not in ("all", *"01234567"):
            raise GtpError("syntax error")
        numbers = range(8) if symmetry == "all" else [int(symmetry)]
        return "\n\n".join(raw_output(self.game, self._turned(number), number) for number in numbers)

    def _turned(self, symmetry: int) -> Evaluation:
        """Return the evaluation of the position under a symmetry, turned back."""
        board = self.game.board
        found = self.player.evaluator.evaluate(self.game.turned(symmetry), board.to_play)
        table = symmetries(board.width, board.height)[symmetry]
        owned = None if found.ownership is None else found.ownership[table[:-1]]
        return replace(found, log_probs=found.log_probs[table], ownership=owned)

    @gtp("gogui-analyze_commands")
    def analyze_commands(self) -> str:
        """List the analyze commands for GoGui."""
        lines = ["gfx/Policy/kifu-policy %m"]
        lines += ["dboard/Ownership/kifu-ownership %m"] if self.player.evaluator.has_points else []
        lines += ["string/Chance To Win/kifu-value %m"] if self.player.evaluator.has_value else []
        return "\n".join(lines)

    @gtp("kifu-policy", _colour)
    def policy(self, colour: int) -> str:
        """Draw the policy for GoGui."""
        return policy_gfx(self.game, self._evaluate(colour))

    @gtp("kifu-ownership", _colour)
    def ownership(self, colour: int) -> str:
        """Return Black's ownership of each point for GoGui."""
        ownership = self._evaluate(colour).seen_from(BLACK).ownership
        if ownership is None:
            raise GtpError(f"net {self.player.evaluator.name} gives no points")
        return dboard(ownership, self.game.board.width)

    @gtp("kifu-value", _colour)
    def value(self, colour: int) -> str:
        """Return the colour's probability of winning."""
        value = self._evaluate(colour).value
        if value is None:
            raise GtpError("this net has no value head")
        return f"{(float(value) + 1) / 2:.3f}"

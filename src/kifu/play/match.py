"""Matches between two GTP programs: every opening is played with both colours, and games are kept as SGF files."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import GAME_COLUMNS, game_arrays
from kifu.errors import DropReason, IllegalMove, RecipeError
from kifu.execution.executor import count_jobs
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.io import locked_folder, write_file
from kifu.play.referee import (
    GameOutcome,
    GtpProcess,
    MatchCancelledError,
    MatchRules,
    Opening,
    parse_command,
    play_game,
    set_up,
)
from kifu.play.results import (
    RESULTS,
    SCORERS,
    Match,
    PlayedGame,
    PlayerLabel,
    ProgramInfo,
    Results,
    Settings,
    resume_results,
)
from kifu.point import BLACK, MAX_SIZE, POINT_MASK, WHITE, symmetries, to_gtp
from kifu.process import ProcessError, excerpt, find_program
from kifu.progress import Progress, ProgressFactory, silent
from kifu.records.game import Game, write_sgf
from kifu.records.games import TO_PLAY_UNSET, GameArrays, ParseWarning
from kifu.records.sgf import make_record


def corner_openings(size: int, seed: int) -> list[Opening]:
    """Return the openings of one stone per player, followed by those of two, each group shuffled by the seed.

    Each stone takes the 3-3, 3-4, 4-3 or 4-4 point (on 7 x 7 and 8 x 8 the 3-3 point) of an empty corner. On smaller
    boards an opening is Black's first move anywhere off the edge; on 1 x 1 and 2 x 2 it is empty.

    Examples:
        >>> [len(corner_openings(size, seed=1)) for size in (2, 5, 7, 19)]
        [1, 3, 5, 794]
    """
    if size < 3:
        return [()]
    if size < 7:
        inner = range(1, size - 1)
        groups: list[list[Opening]] = [[(y * size + x,) for y, x in itertools.product(inner, inner)]]
    else:
        groups = [list(_corner_lines(size, stones)) for stones in (2, 4)]
    return [opening for group in groups for opening in _distinct(np.array(group), size, seed)]


def _corner_lines(size: int, stones: int) -> Iterator[Opening]:
    offsets = (2, 3) if size >= 9 else (2,)
    for corners in itertools.permutations(itertools.product((False, True), (False, True)), stones):
        choices = [
            [(size - 1 - y if low else y) * size + (size - 1 - x if right else x) for y in offsets for x in offsets]
            for low, right in corners
        ]
        yield from itertools.product(*choices)


def catalogue_openings(
    path: str | os.PathLike[str], size: int, moves: int, rules: Rules, seed: int, count: int
) -> list[Opening]:
    """Return up to `count` distinct openings, the first `moves` moves of games in a catalogue.

    Games qualify if they are kept, have that board size and no setup stones, and begin with that many moves of
    alternating colours, without passes, all legal under the rules. The frequency of an opening does not matter. Raises
    RecipeError if no game qualifies; FormatError if the catalogue is invalid, see
    `kifu.corpus.catalogue.open_catalogue`.
    """
    firsts = [_first_moves(game_arrays(batch), size, moves) for batch in open_catalogue(path).batches(GAME_COLUMNS)]
    lines = np.concatenate([np.empty((0, moves), np.int64), *firsts])
    legal = (opening for opening in _distinct(lines, size, seed) if _is_legal(opening, size, rules))
    openings = list(itertools.islice(legal, count))
    if not openings:
        raise RecipeError(
            f"{Path(path)} has no game on {size} x {size} without setup stones that begins with {moves} legal moves of "
            "alternating colours"
        )
    return openings


def _first_moves(games: GameArrays, size: int, moves: int) -> npt.NDArray[np.int64]:
    """Return [G, moves] int64 points, of those games that qualify as openings."""
    starts, lengths = games.move_offset[:-1], np.diff(games.move_offset)
    qualifies = (games.width == size) & (games.height == size) & (games.drop == 0)
    qualifies &= (np.diff(games.setup_offset) == 0) & (lengths >= moves)
    lines = games.moves[starts[qualifies, None] + np.arange(moves)]
    points: npt.NDArray[np.int64] = (lines & POINT_MASK).astype(np.int64)
    alternates = (lines >> 15 == np.arange(moves) % 2).all(axis=1) & (points < size * size).all(axis=1)
    openings: npt.NDArray[np.int64] = points[alternates]
    return openings


def _distinct(lines: npt.NDArray[np.int64], size: int, seed: int) -> list[Opening]:
    """Return the lines, [G, M] int64 points, once each up to symmetry, ordered by a hash of seed and points."""
    lines = np.unique(_canonical(lines, size), axis=0)
    return sorted(map(tuple, lines.tolist()), key=lambda line: blake3(f"{seed} {line}".encode()).digest())


def _canonical(lines: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Return [G, M] int64, the symmetry of each line of points that has its first stone in the upper right."""
    forms: npt.NDArray[np.int64] = symmetries(size, size).astype(np.int64)
    best = lines
    for k in range(1, 8):
        form = forms[k][lines]
        first = (form != best).argmax(axis=1)  # the first difference; equal forms are interchangeable
        rows = np.arange(len(lines))
        best = np.where((form[rows, first] < best[rows, first])[:, None], form, best)
    mirrored: npt.NDArray[np.int64] = forms[1][best]  # the smallest form begins in the upper left
    return mirrored


def _is_legal(opening: Opening, size: int, rules: Rules) -> bool:
    board = Board(size, rules=rules)
    try:
        for ply, point in enumerate(opening):
            board.play(point, WHITE if ply % 2 else BLACK)
    except IllegalMove:
        return False
    return True


GNUGO = "gnugo --mode gtp --chinese-rules --seed 1"
"""The default scoring program, if it is installed."""

DEFAULT_RULES = MatchRules()

_POLL_S = 0.2


@dataclass(frozen=True)
class MatchOptions:
    """Options of a match.

    Attributes:
        games: Number of games. Games 2k - 1 and 2k share an opening; A has Black in the first.
        openings: Catalogue of games whose first moves are the openings; None uses `corner_openings`.
        opening_moves: Number of moves taken from a catalogue's games.
        score_by: Command line of the scoring program; None uses GNU Go if it is installed.
        jobs: Number of games at a time, each with its own processes.
    """

    games: int = 20
    openings: Path | None = None
    opening_moves: int = 8
    seed: int = 1
    score_by: str | None = None
    jobs: int = 1


def play_match(
    a: str,
    b: str,
    output: Path,
    *,
    rules: MatchRules = DEFAULT_RULES,
    options: MatchOptions = MatchOptions(),
    dry_run: bool = False,
    progress: ProgressFactory = silent,
) -> Match:
    """Play the games of a match that are not in the output directory yet.

    Each game starts both programs anew, so a crash affects one game only and games are independent of each other.

    Args:
        a: Command line or net of the first program, see `kifu.play.referee.parse_command`.
        output: Directory for the records, the programs' logs and match.json.
        dry_run: Only check the options, the programs and the openings; play and write nothing.

    Raises:
        RecipeError: A program cannot play, an option is invalid, or the directory holds another match.
        FormatError: match.json or the catalogue is invalid.
        OutputError: A file could not be written.
        KeyboardInterrupt: SIGINT or SIGTERM arrived; all programs have ended.
    """
    _validate(rules, options)
    commands: dict[PlayerLabel, list[str]] = {
        "A": parse_command(a, rules.ruleset),
        "B": parse_command(b, rules.ruleset),
    }
    source = "corners"
    if options.openings is None:
        openings = corner_openings(rules.size, options.seed)
    else:
        source = os.fsencode(options.openings).decode("utf-8", "replace")
        pairs = (options.games + 1) // 2
        openings = catalogue_openings(
            options.openings, rules.size, options.opening_moves, Rules.named(rules.ruleset), options.seed, pairs
        )
    _compile_kernels(rules)
    with _cancel_on_signals() as stop:
        info = {label: _introduce(label, text, rules, stop) for label, text in (("A", a), ("B", b))}
        scorer, scorer_text = _find_scorer(options.score_by, rules, stop)
        settings = Settings(
            size=rules.size, komi=rules.komi, rules=rules.ruleset, openings=source,
            opening_moves=None if options.openings is None else options.opening_moves, seed=options.seed,
            move_seconds=rules.move_seconds, scorer=scorer_text,
        )  # fmt: skip
        if dry_run:
            return Match(resume_results(output, Results(a=info["A"], b=info["B"], settings=settings)), 0)
        with locked_folder(output):
            results = resume_results(output, Results(a=info["A"], b=info["B"], settings=settings))
            runner = _MatchRunner(output, results, rules, commands, scorer, openings, stop)
            runner.check_openings()
            missing = sorted({*range(1, options.games + 1)} - {game.game for game in results.games})
            _play_all(runner, missing, options.jobs, progress)
    return Match(results, len(missing))


def _play_all(runner: _MatchRunner, missing: Sequence[int], jobs: int, progress: ProgressFactory) -> None:
    with progress(f"match in {runner.output}", len(missing), "games") as bar, ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(runner.play, number, bar) for number in missing}
        try:
            while waiting:
                # Python runs signal handlers in the main thread, which must therefore wake up regularly.
                done, waiting = wait(waiting, _POLL_S, FIRST_EXCEPTION)
                for each in done:
                    each.result()
        except BaseException:
            runner.stop.set()  # otherwise the pool would wait for the running games
            pool.shutdown(cancel_futures=True)
            raise


@contextlib.contextmanager
def _cancel_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; raise KeyboardInterrupt at the end if one did.

    Python's own KeyboardInterrupt could strike between the start of a program and the assignment that keeps it, and is
    lost if it strikes inside one of LLVM's callbacks.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may install handlers
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except MatchCancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _validate(rules: MatchRules, options: MatchOptions) -> None:
    if not 2 <= rules.size <= MAX_SIZE:
        raise RecipeError(f"board size must be within 2 to {MAX_SIZE}, got {rules.size}")
    if not abs(rules.komi) <= rules.size**2 or rules.komi * 2 % 1:
        raise RecipeError(
            f"komi must be a multiple of 0.5 within -{rules.size**2} to {rules.size**2}, got {rules.komi:g}"
        )
    if not 0 < rules.move_seconds <= 86_400:
        raise RecipeError(f"time limit must be above 0 and at most 86,400 s, got {rules.move_seconds:g}")
    if options.games < 1:
        raise RecipeError(f"games must be >= 1, got {options.games}")
    if options.openings is not None and not 1 <= options.opening_moves <= rules.size**2 // 2:
        raise RecipeError(f"opening moves must be within 1 to {rules.size**2 // 2}, got {options.opening_moves}")
    Rules.named(rules.ruleset)
    count_jobs(options.jobs)


def _compile_kernels(rules: MatchRules) -> None:
    """Compile the kernels of the referee's board, so that no program waits for the compiler."""
    board = Board(rules.size, rules=Rules.named(rules.ruleset))
    for point in (0, board.pass_move, 1, board.pass_move):  # enough moves to make the history grow
        board.play(point)


def _introduce(label: str, text: str, rules: MatchRules, stop: threading.Event) -> ProgramInfo:
    """Start a program once to check that it can play; return its name and version."""
    try:
        with GtpProcess(parse_command(text, rules.ruleset), stop) as program:
            name = program.ask("name", rules.start_seconds)
            version = program.ask("version", rules.move_seconds)
            set_up(program, rules, rules.start_seconds)
    except ProcessError as error:
        raise RecipeError(f"{label}, {text!r}, cannot play: {error}") from None
    name, version = (excerpt(answer, quote=False) for answer in (name, version))
    return ProgramInfo(command=text, name=name, version=version)


def _find_scorer(text: str | None, rules: MatchRules, stop: threading.Event) -> tuple[list[str] | None, str | None]:
    """Return the command and the command line of the scoring program; None without one."""
    requested = text is not None
    if text is None:
        if find_program("gnugo") is None:
            return None, None
        text = GNUGO
    command = parse_command(text, rules.ruleset)
    try:
        with GtpProcess(command, stop) as program:
            set_up(program, rules, rules.start_seconds)
    except ProcessError as error:
        if requested:
            raise RecipeError(f"{text!r} cannot score: {error}") from None
        return None, None  # GNU Go supports boards from 5 x 5 to 19 x 19 only
    return command, text


@dataclass
class _MatchRunner:
    output: Path
    results: Results
    rules: MatchRules
    commands: dict[PlayerLabel, list[str]]
    scorer: list[str] | None
    openings: Sequence[Opening]
    stop: threading.Event
    lock: threading.Lock = field(default_factory=threading.Lock)

    def opening(self, number: int) -> Opening:
        return self.openings[(number - 1) // 2 % len(self.openings)]

    def opening_text(self, number: int) -> str:
        return " ".join(to_gtp(point, self.rules.size) for point in self.opening(number))

    def check_openings(self) -> None:
        """Raise RecipeError if a recorded game has another opening than it would get now."""
        for game in self.results.games:
            if game.game <= 2 * len(self.openings) and game.opening != self.opening_text(game.game):
                raise RecipeError(
                    f"game {game.game} in {self.output} began with {game.opening!r}, but would now begin with "
                    f"{self.opening_text(game.game)!r}: the openings have changed; choose another directory"
                )

    def play(self, number: int, bar: Progress) -> None:
        """Play a game, write its record and logs, and update match.json."""
        black: PlayerLabel = "A" if number % 2 else "B"
        white: PlayerLabel = "B" if number % 2 else "A"
        start = time.monotonic()
        commands = self.commands[black], self.commands[white]
        with bar.subtask(f"game {number}", "moves") as part:
            outcome, logs = play_game(
                *commands, self.opening(number), self.rules, self.scorer, self.stop, on_move=part.advance
            )
        winner = {BLACK: black, WHITE: white}.get(outcome.result.winner or 0)
        seconds = dict(zip((black, white), outcome.seconds))
        played = PlayedGame(
            game=number, file=f"game-{number:04d}.sgf", opening=self.opening_text(number), black=black, white=white,
            result=str(outcome.result), winner=winner, ending=outcome.ending, reason=outcome.reason,
            scored_by=outcome.scored_by, moves=len(outcome.moves), seconds=round(time.monotonic() - start, 6),
            seconds_a=round(seconds["A"], 6), seconds_b=round(seconds["B"], 6),
        )  # fmt: skip
        with self.lock:
            for colour, log in logs.items():
                if log:
                    write_file(self.output / f"game-{number:04d}-{black if colour == BLACK else white}.log", log)
            write_file(self.output / played.file, self.record(played, outcome))
            self.results.games.append(played)
            self.save()
            bar.log(f"game {number}: {played}")
            bar.advance()

    def save(self) -> None:
        """Write match.json; the records of all its games exist by then."""
        self.results.games.sort(key=lambda game: game.game)
        write_file(self.output / RESULTS, (json.dumps(Match(self.results, 0).content(), indent=1) + "\n").encode())

    def record(self, played: PlayedGame, outcome: GameOutcome) -> bytes:
        """Return the game as SGF, without a date, so that equal games are equal bytes."""
        programs = {"A": self.results.a, "B": self.results.b}
        names = {label: f"{each.name} {each.version}".strip() for label, each in programs.items()}
        if names["A"] == names["B"]:
            names = {label: f"{name} ({label})" for label, name in names.items()}
        comment = [f"A: {self.results.a.command}", f"B: {self.results.b.command}", f"opening: {played.opening}"]
        if outcome.scored_by:
            comment.append(f"scored by {SCORERS.get(outcome.scored_by, self.results.settings.scorer)}")
        root = {
            "AP": "kifu", "PB": names[played.black], "PW": names[played.white], "KM": f"{self.rules.komi:g}",
            "RU": _SGF_RULES.get(self.rules.ruleset, self.rules.ruleset), "RE": str(outcome.result),
            "GN": f"game {played.game}", "C": "\n".join([*comment, outcome.reason]),
        }  # fmt: skip
        size, empty = self.rules.size, np.empty(0, np.uint16)
        game = Game(
            width=size, height=size, moves=np.array(outcome.moves, np.uint16), setup=empty, setup_ply=empty,
            root_setup=0, to_play=TO_PLAY_UNSET, handicap=0, record=make_record(size, size, 0, root),
            warnings=ParseWarning(0), drop=DropReason.KEPT, source="", name="",
        )  # fmt: skip
        return write_sgf(game)


_SGF_RULES = {"aga": "AGA", "chinese": "Chinese", "japanese": "Japanese", "korean": "Korean", "new-zealand": "NZ"}
"""Names of rules in SGF (RU)."""

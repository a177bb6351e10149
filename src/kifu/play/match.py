"""Matches: many games between two programs, each opening with both colours, kept as SGF files and one match.json."""

from __future__ import annotations

import contextlib
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

from kifu.atomic_io import locked_folder, write_file
from kifu.errors import DropReason, RecipeError
from kifu.execution.executor import count_jobs
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.play.client import Cancelled, GtpProcess, ProgramFault, find_program, parse_command, shown
from kifu.play.openings import Opening, catalogue_openings, corner_openings
from kifu.play.referee import GameOutcome, MatchRules, play_game, prepare
from kifu.play.results import (
    COUNTED,
    RESULTS,
    Match,
    MatchPrograms,
    PlayedGame,
    Player,
    Results,
    Settings,
    match_score_of,
    resumed,
)
from kifu.point import BLACK, MAX_SIZE, WHITE, to_gtp
from kifu.progress import Progress, ProgressFactory, silent
from kifu.records.game import Game, write_sgf
from kifu.records.games import TO_PLAY_UNSET, ParseWarning
from kifu.records.sgf import make_record

GNUGO = "gnugo --mode gtp --chinese-rules --seed 1"
"""Who counts the games if nobody else is asked to, and it is there."""

TERMS = MatchRules()

_TICK = 0.2
"""Seconds."""


def play_match(
    a: str,
    b: str,
    into: Path,
    *,
    games: int = 20,
    terms: MatchRules = TERMS,
    openings: Path | None = None,
    opening_moves: int = 8,
    seed: int = 1,
    score_by: str | None = None,
    jobs: int = 1,
    progress: ProgressFactory = silent,
) -> Match:
    """Plays games 1 to `games`, but for those that are in the folder already.

    a, b, score_by: command lines, or checkpoints; see `kifu.play.client.parse_command`. score_by: None is GNU Go if it
    is there. openings: a catalogue; None: `corner_openings`. opening_moves: how many of its moves. jobs: games at a
    time; each has processes of its own.

    Game 2k - 1 and 2k have the same opening, A is Black in the first. Each game starts both programs anew, so one
    that crashes harms no other game, and none depends on those before it. Raises RecipeError if a program cannot play
    at all or an option does not fit, FormatError for a match.json that is none, OutputError, and what
    `catalogue_openings` raises. Ctrl-C and SIGTERM end all programs, and then raise KeyboardInterrupt.
    """
    _check(terms, games, None if openings is None else opening_moves)
    count_jobs(jobs)
    commands: dict[Player, list[str]] = {"A": parse_command(a, terms.rules), "B": parse_command(b, terms.rules)}
    if openings is None:
        lines = corner_openings(terms.size, seed)
    else:
        pairs = (games + 1) // 2
        lines = catalogue_openings(openings, terms.size, opening_moves, Rules.named(terms.rules), seed, pairs)
    _load_kernels(terms)
    with _stopped_by_signals() as stop:
        players = {letter: _introduce(letter, text, terms, stop) for letter, text in (("A", a), ("B", b))}
        scorer, scorer_text = _find_scorer(score_by, terms, stop)
        settings = Settings(
            size=terms.size, komi=terms.komi, rules=terms.rules, openings=_openings_text(openings),
            opening_moves=None if openings is None else opening_moves, seed=seed, move_seconds=terms.move_seconds,
            scorer=scorer_text,
        )  # fmt: skip
        with locked_folder(into):
            results = resumed(into, Results(a=players["A"], b=players["B"], settings=settings))
            work = _Work(into, results, terms, commands, scorer, lines, stop)
            work.check_openings()
            missing = sorted({*range(1, games + 1)} - {game.game for game in results.games})
            _play_all(work, missing, jobs, progress)
    return Match(results, len(missing))


def _play_all(work: _Work, missing: Sequence[int], jobs: int, progress: ProgressFactory) -> None:
    with progress(f"match in {work.into}", total=len(missing), unit="games") as bar, ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(work.play, number, bar) for number in missing}
        try:
            while waiting:
                # Never for long: a signal that another thread got is only handled when this one wakes up.
                done, waiting = wait(waiting, _TICK, FIRST_EXCEPTION)
                for each in done:
                    each.result()
        except BaseException:
            work.stop.set()  # else the pool would wait for games that nobody wants
            pool.shutdown(cancel_futures=True)
            raise


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """What Ctrl-C and SIGTERM set in here; the end is a KeyboardInterrupt then.

    Python's own KeyboardInterrupt may come between the start of a program and the line that notes it, and is lost where
    it comes while kernels are loaded, by code of LLVM that calls back.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except Cancelled:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _load_kernels(terms: MatchRules) -> None:
    """What our board needs: once compiled, no program waits for it, and Ctrl-C no more for the compiler."""
    board = Board(terms.size, rules=Rules.named(terms.rules))
    for point in (0, board.pass_move, 1, board.pass_move):  # so many that the history has to grow
        board.play(point)


def _openings_text(openings: Path | None) -> str:
    """Where they come from, as JSON can have it."""
    return "corners" if openings is None else os.fsencode(openings).decode("utf-8", "replace")


def _check(terms: MatchRules, games: int, opening_moves: int | None) -> None:
    if not 2 <= terms.size <= MAX_SIZE:
        raise RecipeError(f"board size {terms.size} is not within 2 to {MAX_SIZE}")
    if not abs(terms.komi) <= terms.size**2 or terms.komi * 2 % 1:
        raise RecipeError(f"komi {terms.komi:g} is no half point, or more than the board has points")
    if not 0 < terms.move_seconds <= 86_400:
        raise RecipeError(f"a time limit of {terms.move_seconds:g} s is not above 0 and at most a day")
    if games < 1:
        raise RecipeError(f"{games} games are too few; there has to be at least 1")
    if opening_moves is not None and not 1 <= opening_moves <= terms.size**2 // 2:
        raise RecipeError(f"openings of {opening_moves} moves are not within 1 to {terms.size**2 // 2}")
    Rules.named(terms.rules)


def _introduce(letter: str, text: str, terms: MatchRules, stop: threading.Event) -> MatchPrograms:
    """Starts a program once to see that it can play. Raises RecipeError."""
    try:
        with GtpProcess(parse_command(text, terms.rules), stop) as program:
            name = program.ask("name", terms.start_seconds)
            version = program.ask("version", terms.move_seconds)
            prepare(program, terms, terms.start_seconds)
    except ProgramFault as fault:
        raise RecipeError(f"{letter}, {text!r}, cannot play: {fault}") from None
    name, version = (shown(said.encode(), quote=False) for said in (name, version))
    return MatchPrograms(command=text, name=name, version=version)


def _find_scorer(text: str | None, terms: MatchRules, stop: threading.Event) -> tuple[list[str] | None, str | None]:
    """Who counts: the command, and how it was given. Raises RecipeError if what was asked for cannot."""
    asked = text is not None
    if text is None:
        if find_program("gnugo") is None:
            return None, None
        text = GNUGO
    command = parse_command(text, terms.rules)
    try:
        with GtpProcess(command, stop) as program:
            prepare(program, terms, terms.start_seconds)
    except ProgramFault as fault:
        if asked:
            raise RecipeError(f"{text!r} cannot count: {fault}") from None
        return None, None  # GNU Go has boards from 5 x 5 to 19 x 19 only
    return command, text


@dataclass
class _Work:
    """The games of a match in the making; several threads play them."""

    into: Path
    results: Results
    terms: MatchRules
    commands: dict[Player, list[str]]
    scorer: list[str] | None
    lines: Sequence[Opening]
    stop: threading.Event
    lock: threading.Lock = field(default_factory=threading.Lock)

    def opening(self, number: int) -> Opening:
        return self.lines[(number - 1) // 2 % len(self.lines)]

    def words(self, number: int) -> str:
        return " ".join(to_gtp(point, self.terms.size) for point in self.opening(number))

    def check_openings(self) -> None:
        """Raises RecipeError if a game that was played has another opening than it would have now."""
        for game in self.results.games:
            if game.game <= 2 * len(self.lines) and game.opening != self.words(game.game):
                raise RecipeError(
                    f"game {game.game} in {self.into} began with {game.opening!r}, and would now with "
                    f"{self.words(game.game)!r}: the openings have changed, so take another folder"
                )

    def play(self, number: int, bar: Progress) -> None:
        black: Player = "A" if number % 2 else "B"
        white: Player = "B" if number % 2 else "A"
        began = time.monotonic()
        commands = self.commands[black], self.commands[white]
        with bar.part(f"game {number}", "moves") as part:
            ended, logs = play_game(
                *commands, self.opening(number), self.terms, self.scorer, self.stop, tell=part.advance
            )
        winner = {BLACK: black, WHITE: white}.get(ended.result.winner or 0)
        took = dict(zip((black, white), ended.seconds))
        played = PlayedGame(
            game=number, file=f"game-{number:04d}.sgf", opening=self.words(number), black=black, white=white,
            result=str(ended.result), winner=winner, ending=ended.ending, reason=ended.reason,
            scored_by=ended.scored_by, moves=len(ended.moves), seconds=round(time.monotonic() - began, 3),
            seconds_a=round(took["A"], 3), seconds_b=round(took["B"], 3),
        )  # fmt: skip
        with self.lock:
            for colour, log in logs.items():
                if log:
                    write_file(self.into / f"game-{number:04d}-{black if colour == BLACK else white}.log", log)
            write_file(self.into / played.file, self.record(played, ended))
            self.results.games.append(played)
            self.save()
            bar.say(f"game {number}: {played}")
            bar.advance()

    def save(self) -> None:
        """Writes match.json; a game is in it once its record is in the folder."""
        self.results.games.sort(key=lambda game: game.game)
        standings: dict[str, Player | None] = {"all": None, "a_black": "A", "a_white": "B"}
        told = {name: match_score_of(self.results.games, black).to_json() for name, black in standings.items()}
        table = self.results.model_dump() | {"standing": told}
        write_file(self.into / RESULTS, (json.dumps(table, indent=1) + "\n").encode())

    def record(self, played: PlayedGame, ended: GameOutcome) -> bytes:
        """The game as SGF. It has no date, so that the same game is the same bytes."""
        names = {letter: f"{each.name} {each.version}".strip() for letter, each in self._players()}
        if names["A"] == names["B"]:
            names = {letter: f"{name} ({letter})" for letter, name in names.items()}
        comment = [f"A: {self.results.a.command}", f"B: {self.results.b.command}", f"opening: {played.opening}"]
        comment += [f"counted by {COUNTED.get(by, self.results.settings.scorer)}" for by in [ended.scored_by] if by]
        root = {
            "AP": "kifu", "PB": names[played.black], "PW": names[played.white], "KM": f"{self.terms.komi:g}",
            "RU": _RULES.get(self.terms.rules, self.terms.rules), "RE": str(ended.result), "GN": f"game {played.game}",
            "C": "\n".join([*comment, ended.reason]),
        }  # fmt: skip
        moves = np.array(ended.moves, np.uint16)
        nothing = np.empty(0, np.uint16)
        size = self.terms.size
        game = Game(
            width=size, height=size, moves=moves, setup=nothing, setup_ply=nothing, root_setup=0,
            to_play=TO_PLAY_UNSET, handicap=0, record=make_record(size, size, 0, root), warnings=ParseWarning(0), drop=DropReason.KEPT,
            source="", name="",
        )  # fmt: skip
        return write_sgf(game)

    def _players(self) -> tuple[tuple[Player, MatchPrograms], tuple[Player, MatchPrograms]]:
        return ("A", self.results.a), ("B", self.results.b)


_RULES = {"aga": "AGA", "chinese": "Chinese", "japanese": "Japanese", "korean": "Korean", "new-zealand": "NZ"}
"""How SGF calls them."""

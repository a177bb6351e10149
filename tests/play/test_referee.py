"""The referee: games between two programs, and the processes of these."""

import contextlib
import os
import shlex
import sys
import threading
import time
from pathlib import Path

import pytest

from gtp_engines import ends, engine, is_alive
from kifu.errors import RecipeError
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.play.match import Opening
from kifu.play.referee import (
    RESPONSE_LIMIT,
    Ending,
    GameOutcome,
    GtpProcess,
    MatchCancelledError,
    MatchRules,
    parse_command,
    play_game,
)
from kifu.point import BLACK, WHITE, WHITE_BIT, parse_gtp
from kifu.process import LOG_LIMIT, Fault, ProcessError
from traps import set_traps, sprung

pytestmark = pytest.mark.subprocess

RULES = MatchRules(size=5, komi=0.5, move_seconds=20, start_seconds=20)
QUICK = MatchRules(size=5, komi=0.5, move_seconds=0.5, start_seconds=20)


def play(
    black: str, white: str, opening: Opening = (), rules: MatchRules = RULES, scorer: str | None = None
) -> tuple[GameOutcome, dict[int, bytes]]:
    counts = None if scorer is None else parse_command(scorer)
    return play_game(parse_command(black), parse_command(white), opening, rules, counts, threading.Event())


def moves(words: str, size: int = 5) -> tuple[int, ...]:
    return tuple(parse_gtp(word, size) | (k % 2) * WHITE_BIT for k, word in enumerate(words.split()))


@pytest.mark.parametrize(
    ("black", "white", "played", "result", "ending", "reason"),
    [
        ("C3", "pass", "C3 pass pass", "B+24.5", "score", "both passed"),
        ("", "", "pass pass", "W+0.5", "score", "both passed"),
        ("c3 PASS", "Pass", "C3 pass pass", "B+24.5", "score", "both passed"),
        ("C3 resign", "B3", "C3 B3", "W+R", "resign", "Black resigned"),
        ("C3", "RESIGN", "C3", "B+R", "resign", "White resigned"),
        (
            "C3", "C3", "C3", "B+F", "illegal",
            "White loses: C3 as move 2 is illegal: a move on an occupied point",
        ),
        (
            "B1 A2 D4", "D5 A1", "B1 D5 A2", "B+F", "illegal",
            "White loses: A1 as move 4 is illegal: a suicide, which the rules forbid",
        ),
        ("Z99", "", "", "W+F", "nonsense", "Black loses: it answered 'Z99' to genmove, which is not a move"),
        ("A6", "", "", "W+F", "nonsense", "Black loses: it answered 'A6' to genmove, which is not a move"),
        ("=", "", "", "W+F", "nonsense", "Black loses: it answered nothing to genmove, which is not a move"),
        ("C3", "crash", "C3", "B+F", "crash", "White loses: it exited with code 3: out of luck"),
        ("C3", "nonsense", "C3", "B+F", "nonsense", "White loses: it wrote 'hello', which is not a GTP response"),
        ("twice", "D5", "D4 D5", "W+F", "nonsense", "Black loses: it wrote '= E5' unasked"),
        ("refuse", "", "", "W+F", "refusal", "Black loses: it refused 'genmove b': 'no'"),
    ],
)  # fmt: skip
def test_endings(black: str, white: str, played: str, result: str, ending: Ending, reason: str) -> None:
    outcome, _ = play(engine(black), engine(white))
    assert (str(outcome.result), outcome.ending, outcome.reason) == (result, ending, reason)
    assert outcome.moves == moves(played)


@pytest.mark.parametrize(
    ("word", "result", "ending", "reason"),
    [
        ("hang", "B+T", "time", "White loses: no response to 'genmove w' within 0.5 s"),
        ("flood", "B+F", "nonsense", "White loses: it wrote a response of more than 65,536 bytes"),
    ],
)
def test_endings_by_time(word: str, result: str, ending: Ending, reason: str) -> None:
    outcome, _ = play(engine("C3"), engine(word), rules=QUICK)
    assert (str(outcome.result), outcome.ending, outcome.reason) == (result, ending, reason)
    assert outcome.seconds[1] > 0.4 if word == "hang" else outcome.seconds[1] < 2


def test_superko() -> None:
    # White's C1 takes two stones, Black's B1 that one: the position after move 4 again, with the other side to move.
    words = "B1 B2 C2 A2 A1 C1 B1"
    black, white = engine("B1 C2 A1 B1"), engine("B2 A2 C1")
    outcome, _ = play(black, white, rules=MatchRules(size=3))
    assert (str(outcome.result), outcome.ending) == ("W+F", "illegal")
    assert outcome.reason == "Black loses: B1 as move 7 is illegal: a move that repeats an earlier position"
    assert outcome.moves == moves(words[:-3], 3)
    outcome, _ = play(black, white, rules=MatchRules(size=3, ruleset="aga"))
    assert outcome.moves == moves(f"{words} pass pass", 3)


def test_ko() -> None:
    # White's C3 takes the stone on C4, which may not take back at once.
    black, white = engine("B3 D3 C2 C4 C4"), engine("B4 D4 C5 C3")
    outcome, _ = play(black, white, rules=MatchRules(size=5, ruleset="japanese"))
    assert outcome.reason == "Black loses: C4 as move 9 is illegal: an immediate ko recapture"


def test_a_program_that_refuses_a_legal_move_loses() -> None:
    outcome, _ = play(engine("C3"), engine(play="refuse"))
    assert str(outcome.result) == "B+F"
    assert outcome.reason == "White loses: it refused 'play b C3': 'no'"
    assert outcome.moves == moves("C3")


def test_a_program_that_fails_before_its_first_move_loses() -> None:
    outcome, _ = play(engine(clear_board="crash"), engine())
    assert (str(outcome.result), outcome.ending, outcome.moves) == ("W+F", "crash", ())
    stop = threading.Event()
    outcome, logs = play_game(parse_command(engine()), ["/"], (), RULES, None, stop)
    assert (str(outcome.result), outcome.ending, outcome.moves, logs) == ("B+F", "crash", (), {})
    assert outcome.reason == "White loses: it could not be started: Permission denied"


def test_an_endless_game_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MatchRules(size=19).max_moves == 3 * 361 + 2
    monkeypatch.setattr(MatchRules, "max_moves", 6)
    outcome, _ = play(engine("A1 B1 C1 D1"), engine("A3 B3 C3 D3"))
    assert (str(outcome.result), outcome.ending, outcome.reason) == ("Void", "unfinished", "unfinished after 6 moves")
    assert outcome.moves == moves("A1 A3 B1 B3 C1 C3")


def test_two_passes_at_the_move_limit_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatchRules, "max_moves", 3)
    assert play(engine("C3"), engine())[0].ending == "score"


def test_the_opening_is_played_for_both() -> None:
    opening = tuple(parse_gtp(word, 5) for word in ("B2", "D4", "B4"))
    outcome, _ = play(engine("D2"), engine("C3"), opening)
    assert outcome.moves == moves("B2 D4 B4 C3 D2 pass pass")
    assert play(engine(), engine(), opening)[0].moves == moves("B2 D4 B4 pass pass")


@pytest.mark.parametrize(
    ("black", "white", "scorer", "result", "scored_by", "reason"),
    [
        ("W+1.5", "W+1.5", "B+3.5", "B+3.5", "scorer", "both passed"),
        ("W+1.5", "W+1.5", "0", "0", "scorer", "both passed"),
        ("W+1.5", "W+1.5", None, "W+1.5", "players", "both passed"),
        ("W+1.5", "W+2.5", None, "B+24.5", "board", "both passed"),
        ("W+1.5", "crash", None, "B+24.5", "board", "both passed"),
        ("W+1.5", "B+R", None, "B+24.5", "board", "both passed"),
        (
            "W+1.5", "W+1.5", "crash", "W+1.5", "players",
            "both passed; the scorer failed: it exited with code 3: out of luck",
        ),
        (
            "refuse", "refuse", "perhaps", "B+24.5", "board",
            "both passed; the scorer failed: it answered 'perhaps' to final_score, which is not a score",
        ),
    ],
)  # fmt: skip
def test_scoring(black: str, white: str, scorer: str | None, result: str, scored_by: str, reason: str) -> None:
    outcome, _ = play(
        engine("C3", final_score=black),
        engine(final_score=white),
        scorer=None if scorer is None else engine(final_score=scorer),
    )
    assert (str(outcome.result), outcome.scored_by, outcome.reason) == (result, scored_by, reason)


def test_a_board_that_is_divided_evenly_is_a_draw() -> None:
    outcome, _ = play(engine("C3"), engine(), rules=MatchRules(size=5, komi=25, move_seconds=20))
    assert (str(outcome.result), outcome.scored_by) == ("0", "board")


def test_random_games_are_legal_and_scored_like_the_board() -> None:
    for seed in (1, 2):
        outcome, _ = play(engine("random", seed), engine("random", seed + 10))
        board = Board(5, rules=Rules.named("chinese"))
        for move in outcome.moves:
            board.play(move & ~WHITE_BIT, WHITE if move & WHITE_BIT else BLACK)
        margin = board.area_score() - 0.5
        assert str(outcome.result) == f"{'B' if margin > 0 else 'W'}+{abs(margin):g}"
        assert len(outcome.moves) > 15
        assert outcome.ending == "score"


def test_moves_are_reported() -> None:
    reported: list[int] = []
    commands = parse_command(engine("C3")), parse_command(engine("B3"))
    outcome, _ = play_game(
        *commands, (24,), RULES, None, threading.Event(), on_move=lambda: reported.append(len(reported))
    )
    assert len(reported) == len(outcome.moves) == 5


def test_standard_error_is_returned() -> None:
    _, logs = play(engine("crash"), engine())
    assert logs == {BLACK: b"first line\nout of luck\n", WHITE: b""}


def test_cancellation() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(MatchCancelledError):
        play_game(parse_command(engine("hang")), parse_command(engine()), (), RULES, None, stop)


LIMIT = 0.5


def open_program(script: str = "", **answers: str) -> GtpProcess:
    program = GtpProcess(shlex.split(engine(script, **answers)))
    program.ask("name", 20)  # the limits of tests are for answers, not for starting Python
    return program


def test_responses() -> None:
    with open_program("D4 =two  words resign =\r", version="=1 \u9ed2") as program:
        assert [program.ask("genmove b", 5) for _ in range(4)] == ["D4", "two", "words", "resign"]
        assert program.ask("version", 5) == "1 \u9ed2"
        assert program.ask("komi 7.5", 5) == ""


def test_a_response_of_several_lines_with_carriage_returns() -> None:
    with open_program(version="=1\r\n2\t3\x07\r") as program:
        assert program.ask("version", 5) == "1\n2\t3"
        assert program.ask("genmove b", 5) == "pass"


@pytest.mark.parametrize(
    ("word", "fault", "reason"),
    [
        ("hang", "time", "no response to 'genmove b' within 0.5 s"),
        ("unended", "time", "no response to 'genmove b' within 0.5 s (it began with '= D4')"),
        ("crash", "crash", "it exited with code 3: out of luck"),
        ("segv", "crash", "it was killed: Segmentation fault"),
        ("stuck", "crash", "it closed its output"),
        ("flood", "nonsense", f"it wrote a response of more than {RESPONSE_LIMIT:,} bytes"),
        ("nonsense", "nonsense", "it wrote 'hello', which is not a GTP response"),
        ("binary", "nonsense", "it wrote '\ufffd\ufffd\ufffd', which is not a GTP response"),
        ("refuse", "refusal", "it refused 'genmove b': 'no'"),
    ],
)
def test_faults(word: str, fault: Fault, reason: str) -> None:
    with open_program(word) as program:
        began = time.monotonic()
        with pytest.raises(ProcessError) as failed:
            program.ask("genmove b", LIMIT)
        assert (failed.value.fault, str(failed.value)) == (fault, reason)
        process = program._process.pid
        began_to_end = time.monotonic()
    assert began_to_end - began < LIMIT + 1.5
    assert time.monotonic() - began_to_end < 1.5
    assert not is_alive(process)


def test_unsolicited_output_is_a_fault() -> None:
    with open_program("twice") as program:
        assert program.ask("genmove b", 5) == "D4"
        time.sleep(0.1)
        with pytest.raises(ProcessError, match=r"^it wrote '= E5' unasked$"):
            program.ask("genmove b", 5)


def test_standard_error_never_blocks_and_its_end_is_kept() -> None:
    with open_program("noisy noisy") as program:
        assert program.ask("genmove b", 5) == program.ask("genmove b", 5) == "pass"
    assert len(program.log) == LOG_LIMIT
    assert program.log.endswith(b"xx\nthe end\n")


def test_children_of_a_program_are_killed() -> None:
    with open_program("child") as program:
        child = int(program.ask("genmove b", 5))
        assert is_alive(child)
    assert ends(child)
    program.close()  # once more is nothing


def test_children_of_a_crashed_program_are_killed() -> None:
    with open_program("child crash") as program:
        child = int(program.ask("genmove b", 5))
        with pytest.raises(ProcessError):
            program.ask("genmove b", LIMIT)
    assert ends(child)


def test_cancellation_ends_the_wait() -> None:
    stop = threading.Event()
    with GtpProcess(parse_command(engine(name="hang")), stop) as program:
        threading.Timer(0.2, stop.set).start()
        began = time.monotonic()
        with pytest.raises(MatchCancelledError):
            program.ask("name", 60)
    assert time.monotonic() - began < 2


def test_files_are_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path.iterdir would count itself, too
    for word in ("D4", "hang", "crash", "flood"):
        with open_program(word) as program, contextlib.suppress(ProcessError):
            program.ask("genmove b", 0.2)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_net_imports_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_traps(tmp_path)
    monkeypatch.chdir(tmp_path)
    with GtpProcess(parse_command("small")) as program:
        assert program.ask("name", 60) == "kifu"
    assert sprung(tmp_path) == []


def test_command_lines(tmp_path: Path) -> None:
    run = tmp_path / "a run"
    run.mkdir()
    net = tmp_path / "a b.safetensors"
    net.write_bytes(b"")
    here = [sys.executable, "-P", "-m", "kifu", "gtp", "--net"]
    assert parse_command(str(run)) == [*here, str(run), "--rules", "chinese"]
    assert parse_command(str(net), "japanese") == [*here, str(net), "--rules", "japanese"]
    assert parse_command("small") == [*here, "small", "--rules", "chinese"]
    assert parse_command("none.safetensors") == [*here, "none.safetensors", "--rules", "chinese"]
    assert parse_command("sh -c old.safetensors")[1:] == ["-c", "old.safetensors"]
    assert parse_command(f"{sys.executable} -c 'a b'") == [sys.executable, "-c", "a b"]
    assert parse_command("kifu gtp run") == [str(Path(sys.executable).with_name("kifu")), "gtp", "run"]
    assert parse_command("sh -c :")[0].startswith("/")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'the command line is empty; expected a program such as "gnugo --mode gtp", or a net'),
        ("  ", 'the command line is empty; expected a program such as "gnugo --mode gtp", or a net'),
        ("gnugo 'x", 'not a command line: "gnugo \'x": No closing quotation'),
        ("no-such-engine --gtp", "program not found: 'no-such-engine' is neither a file nor on PATH"),
        ("a\0b", "not a command line: 'a\\x00b' has unprintable characters"),
        ("a\udcff", "not a command line: 'a\\udcff' has unprintable characters"),
        ("x" * 10_000, f"program not found: {'x' * 10_000!r} is neither a file nor on PATH"),
        ("/etc/passwd", "program not found: '/etc/passwd' is neither a file nor on PATH"),
    ],
)
def test_invalid_command_lines(text: str, message: str) -> None:
    with pytest.raises(RecipeError) as failed:
        parse_command(text)
    assert str(failed.value) == message


def test_a_file_that_is_not_a_program(tmp_path: Path) -> None:
    file = tmp_path / "engine"
    file.write_bytes(b"\x7fELF")
    file.chmod(0o755)
    with pytest.raises(ProcessError, match=r"^it could not be started: Exec format error$"):
        GtpProcess(parse_command(str(file)))

"""The GTP client: faults are reported in time, and no process is left."""

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
from kifu.play.referee import RESPONSE_LIMIT, GtpProcess, MatchCancelledError, parse_command
from kifu.process import LOG_LIMIT, Fault, ProcessError
from traps import set_traps, sprung

pytestmark = pytest.mark.subprocess

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
    here = [sys.executable, "-P", "-m", "kifu.cli", "gtp", "--net"]
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

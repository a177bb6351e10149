"""Progress bars on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import io
import re
import sys
import threading

import pytest

import kifu.progress
from kifu.progress import format_bytes, format_seconds, progress, silent


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (3_900_000, "3.9 MB"),
        (1_500_000_000, "1.5 GB"),
        (2_000_000_000_000, "2,000.0 GB"),
    ],
)
def test_bytes(n: int, text: str) -> None:
    assert format_bytes(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (119.4, "119 s"), (119.6, "2 min 0 s"), (200, "3 min 20 s")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_plain_lines_at_the_start_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("building a.dat", total=4_000, unit="games") as bar:
        bar.advance(1_500)
        bar.log("one is bad")
        bar.advance(2_500)
    out, err = capsys.readouterr()
    start, said, end = err.splitlines()
    assert not out
    assert (start, said) == ("building a.dat: 0 of 4,000 games", "one is bad")
    assert re.fullmatch(r"building a\.dat: 4,000 of 4,000 games in 0\.\d s", end)


def test_plain_lines_in_between(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(kifu.progress.time, "monotonic", lambda: now[0])
    with progress("fetching", total=None, unit="archives") as bar, bar.subtask("a.zip", "bytes") as part:
        part.restart(500, 2_000)
        for _ in range(12):
            now[0] += 1.0
            part.advance(100)
        bar.advance()
    assert capsys.readouterr().err.splitlines() == [
        "fetching ...",
        "fetching: 0 archives after 5.0 s; a.zip: 1.0 kB of 2.0 kB",
        "fetching: 0 archives after 10 s; a.zip: 1.5 kB of 2.0 kB",
        "fetching: 1 archives in 12 s",
    ]


def test_failed_work_has_no_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress("work", total=1, unit="games") as bar, bar.subtask("a", "bytes"):
        raise ZeroDivisionError
    assert capsys.readouterr().err == "work: 0 of 1 games\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    with progress("building [a].dat", total=4_000, unit="games") as bar, bar.subtask("b.zip", "bytes") as part:
        part.restart(0, 2_000)
        part.advance(1_500)
        bar.log("[one] is bad")
        bar.advance(4_000)
    text = terminal.getvalue()
    assert "[one] is bad\n" in text
    assert "\x1b[" in text
    assert re.search(r"building \[a\]\.dat .*━.*4,000 of 4,000 games", text)
    assert "b.zip" not in text.rsplit("\x1b[2K", 1)[-1]  # what was drawn last

    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    with progress("work", total=1, unit="games"):
        pass
    assert terminal.getvalue().startswith("work: 0 of 1 games\nwork: 0 of 1 games in")


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    with silent("work", total=1, unit="games") as bar, bar.subtask("a", "bytes") as part:
        part.restart(0, 1)
        part.advance()
        bar.advance()
        bar.log("nothing")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [False, True])
def test_threads_count_together(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", stream := _Terminal() if terminal else io.StringIO())
    with progress("work", total=20_000, unit="games") as bar:
        threads = [threading.Thread(target=lambda: [bar.advance() for _ in range(5_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "20,000 of 20,000 games" in stream.getvalue()


def test_transient_plain_bars_print_only_long_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(kifu.progress.time, "monotonic", lambda: now[0])
    for seconds in (1.0, 6.0):
        with progress("compiling", total=2, unit="functions", transient=True) as bar:
            now[0] += seconds
            bar.advance()
    assert capsys.readouterr().err == "compiling: 1 of 2 functions after 6.0 s\n"

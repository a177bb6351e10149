"""Progress bars on a terminal, and plain lines elsewhere."""

import io
import re
import sys
import threading
from types import SimpleNamespace

import pytest

import kifu.progress
from kifu.progress import Rate, progress, silent
from kifu.text import format_bytes, format_seconds


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"),
        (3_900_000, "3.9 MB"), (1_500_000_000, "1.5 GB"), (2_000_000_000_000, "2,000.0 GB"),
    ],
)  # fmt: skip
def test_bytes(n: int, text: str) -> None:
    assert format_bytes(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (119.4, "119 s"), (119.6, "2 min 0 s"), (200, "3 min 20 s")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, which stands still unless the test changes it; other modules keep theirs."""
    now = [100.0]
    monkeypatch.setattr(kifu.progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_plain_lines_at_the_start_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("building a.dat", total=4_000, unit="games") as bar:
        bar.advance(1_500)
        bar.log("one is bad")
        bar.advance(2_500)
    out, err = capsys.readouterr()
    start, said, end = err.splitlines()
    assert not out
    assert (start, said) == ("building a.dat: 0 of 4,000 games", "one is bad")
    assert re.fullmatch(r"building a\.dat: 4,000 of 4,000 games in \d+\.\d s", end)


def test_plain_lines_in_between(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with progress("fetching", total=None, unit="archives") as bar, bar.subtask("a.zip", "bytes") as part:
        part.restart(500, 2_000)
        for _ in range(12):
            clock[0] += 1.0
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


def _work(clock: list[float], rate: Rate, n: int, seconds: float, every: float = 0.1) -> None:
    """Count n per second for some time."""
    for _ in range(round(seconds / every)):
        clock[0] += every
        rate.add(round(n * every))


def test_a_rate_is_that_of_the_last_seconds(clock: list[float]) -> None:
    rate = Rate()
    assert rate.per_second() == 0
    _work(clock, rate, 360, 100)
    assert rate.per_second() == pytest.approx(360)
    _work(clock, rate, 80, 5)
    assert rate.per_second() == pytest.approx((360 + 80) / 2, rel=0.05)
    _work(clock, rate, 80, 5)
    assert rate.per_second() == pytest.approx(80, rel=0.05)


def test_a_rate_falls_while_nothing_is_counted(clock: list[float]) -> None:
    rate, falling = Rate(), list[float]()
    _work(clock, rate, 360, 100)
    for _ in range(12):
        falling.append(rate.per_second())
        clock[0] += 1
    assert falling == sorted(falling, reverse=True)
    assert falling[5] == pytest.approx(180, rel=0.05)
    assert falling[11] < 10


def test_a_rate_of_rare_counts(clock: list[float]) -> None:
    rate = Rate()
    _work(clock, rate, 3, 300, every=60)
    assert rate.per_second() == pytest.approx(3)
    clock[0] += 120
    assert rate.per_second() == pytest.approx(1)


def test_a_rate_excludes_pauses(clock: list[float]) -> None:
    rate = Rate()
    _work(clock, rate, 360, 20)
    with rate.paused():
        clock[0] += 500
        assert rate.per_second() == pytest.approx(360)
    assert rate.per_second() == pytest.approx(360)


def test_a_rate_keeps_few_samples(clock: list[float]) -> None:
    rate = Rate()
    _work(clock, rate, 100_000, 30, every=0.001)
    assert rate.per_second() == pytest.approx(100_000, rel=0.05)
    assert len(rate._samples) < 300


def _remaining(unit: str, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the time that a bar shows after half of a minute's work, and later, while the work stalls."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", _Terminal())
    with progress("work", total=60, unit=unit) as bar:
        assert isinstance(bar, kifu.progress._Task)
        for _ in range(30):
            clock[0] += 1
            bar.advance()
        shown = [bar.time]
        for stalled in (20, 20, 10**6):
            clock[0] += stalled
            shown.append(bar.time)
    return shown


def test_the_remaining_time_grows_while_the_work_stalls(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    first, *stalled, last = _remaining("games", clock, monkeypatch)
    assert (first, last) == ("00:30", "--:--")
    assert first < stalled[0] < stalled[1]


def test_seconds_pass_by_themselves(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _remaining("s", clock, monkeypatch) == ["00:30"] * 4


@pytest.mark.parametrize(("seconds", "text"), [(59.9, "00:59"), (61, "01:01"), (3661, "1:01:01")])
def test_finished_bars_show_the_elapsed_time(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, seconds: float, text: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    with progress("work", total=60, unit="games") as bar:
        clock[0] += seconds
        bar.advance(60)
        clock[0] += 1000
    assert f"60 of 60 games \x1b[36m{text}" in terminal.getvalue()


def test_a_note_is_made_when_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    with progress("training", total=60, unit="s") as bar:
        rates = ["old"]
        bar.set_note(lambda: f"{rates[0]} rate")
        rates[0] = "new"  # nothing is counted
    assert "new rate" in terminal.getvalue()


def test_plain_lines_show_the_present_note(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with progress("training", total=60, unit="s") as bar:
        rate = Rate()
        bar.set_note(lambda: f"{rate.per_second():.0f} positions/s")
        for n in (360, 80):
            _work(clock, rate, n, 12)
            bar.advance(12)
    assert [line.rpartition("; ")[2] for line in capsys.readouterr().err.splitlines()[1:3]] == [
        "360 positions/s",
        "80 positions/s",
    ]


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


def test_transient_plain_bars_print_only_long_work(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    for seconds in (1.0, 6.0):
        with progress("compiling", total=2, unit="functions", transient=True) as bar:
            clock[0] += seconds
            bar.advance()
    assert capsys.readouterr().err == "compiling: 1 of 2 functions after 6.0 s\n"

"""`kifu demo`, the first command of a new user: the whole way on the bundled sample."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import kifu
from commands import Done, run
from kgs_archives import archive
from kifu import demo
from kifu.datasets.manifest import read_manifest
from kifu.point import to_sgf

SETS = ("test", "train10k", "trainall")
FILES = [f"kgsgo-{name}{version}.dat" for version in ("", "-v2") for name in SETS]
PICTURES = ["example.png", "games.png", "heat-small.png", "heat.png", "planes.png", "position.png"]
QUICK = ("--time", "3s")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """Run the demo and return its output and folder."""
    into = tmp_path_factory.mktemp("demo") / "into"
    return run("demo", "--output", into, "--jobs", 2, *QUICK), into


def test_it_ends_well(done: tuple[Done, Path]) -> None:
    assert done[0].code == 0, done[0].err
    assert all(
        line.startswith(("building kgsgo-", "reading games", "training quick-cpu", "step ")) for line in done[0].err
    )


def test_it_makes_what_it_says(done: tuple[Done, Path]) -> None:
    said, into = done
    made = sorted(path.name for path in into.iterdir())
    assert made == sorted([*FILES, *(f"{name}.manifest.json" for name in FILES), *PICTURES, "games.parquet", "run"])
    for name in FILES:
        manifest = read_manifest(into / name)
        with kifu.open(into / name) as data:
            assert len(data) == manifest.examples > 0
        (line,) = [line for line in said.out.splitlines() if line.startswith(f"  {name} ") and " games " in line]
        assert f" {manifest.kept} games " in line
        assert f" {manifest.examples:,} examples " in line
    for name in PICTURES:
        assert (into / name).read_bytes().startswith(b"\x89PNG")
        assert f"  {into / name}" in said.out.splitlines()


def test_it_catalogues_the_games(done: tuple[Done, Path]) -> None:
    said, into = done
    reported = run("inspect", into / "games.parquet").out.splitlines()[0]
    (line,) = [line for line in said.out.splitlines() if line.startswith("  games.parquet ")]
    assert reported.partition(", ")[2].partition(" kept")[0] in line


def test_it_tells_counts_checks_and_speed(done: tuple[Done, Path]) -> None:
    games = sum(1 for _ in kifu.read(demo.sample_path()))
    assert games >= 300
    assert done[0].out.startswith(f"The sample: {games} games, ")
    for line in ("equal planes", "as the manifest lists", "examples per second in total", "X is to move and plays"):
        assert line in done[0].out


def test_the_command_that_it_ends_with_works(done: tuple[Done, Path]) -> None:
    last = done[0].out.splitlines()[-1]
    assert last.startswith("Next: kifu ")
    assert run(*last.split()[2:]).code == 0


def test_a_second_run_makes_nothing_anew(done: tuple[Done, Path]) -> None:
    into = done[1]
    before = {path: path.stat().st_mtime_ns for path in into.glob("*.dat")}
    again = run("demo", "--output", into, *QUICK)
    assert again.code == 0
    assert again.out.count("(was there)") == len(FILES) + 1
    assert "a second" not in again.out
    assert {path: path.stat().st_mtime_ns for path in into.glob("*.dat")} == before


# No two of them are neighbours, so that no stone is ever taken: v1 and v2 differ about stones without liberties.
QUIET = [point for point in range(361) if point // 19 % 2 == point % 19 % 2]


def quiet_game(seed: int) -> bytes:
    points = random.Random(seed).sample(QUIET, 125)
    moves = [f";{'BW'[k % 2]}[{to_sgf(point, 19)}]" for k, point in enumerate(points)]
    return f"(;SZ[19]{''.join(moves)})".encode()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a demo that was run on 230 made-up games instead of the sample."""
    source = archive(tmp_path / "source", [quiet_game(k) for k in range(230)], year=2025)
    monkeypatch.setattr(demo, "sample_path", lambda: source)
    assert run("demo", "--output", tmp_path / "out", *QUICK).code == 0
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("name", "at", "reported"),
    [
        ("kgsgo-test-v2.dat", 1024 + 322 * 5 + 6, "differ in rows 0 to"),  # a stone of plane 0
        ("kgsgo-test.dat", 365 * 5 + 3, "differ in rows 0 to"),  # the column of a label
        ("kgsgo-test-v2.dat", -1, "END"),
    ],
)
def test_it_checks_what_it_reads_back(small: Path, name: str, at: int, reported: str) -> None:
    data = bytearray((small / name).read_bytes())
    data[at] ^= 1
    (small / name).write_bytes(data)
    done = run("demo", "--output", small, *QUICK)
    assert done.code == 2
    assert done.err[-1].startswith("kifu: ")
    assert reported in done.err[-1]


@pytest.mark.parametrize(
    ("hashes_fit", "reported"),
    [(False, "does not match the hash in its manifest"), (True, ", which its manifest lists")],
)
def test_it_sees_what_is_wrong_in_both_formats(small: Path, hashes_fit: bool, reported: str) -> None:
    """Rows in another order: they are equal in both, so that only the manifests tell, by hash and by origin."""
    for name, start, size in (("kgsgo-test.dat", 0, 365), ("kgsgo-test-v2.dat", 1024, 322)):
        path = small / name
        data = path.read_bytes()
        rows = [data[at : at + size] for at in range(start, len(data) - 3, size)]
        path.write_bytes(data[:start] + b"".join(rows[::-1]) + b"END")
    with pytest.MonkeyPatch.context() as patch:
        if hashes_fit:
            patch.setattr(demo, "hash_file", lambda path: read_manifest(path).blake3)
        done = run("demo", "--output", small, *QUICK)
    assert done.code == 2
    assert reported in done.err[-1]

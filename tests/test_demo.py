"""`kifu demo`, the first command of a new user: the whole pipeline on the bundled sample."""

from __future__ import annotations

import random
import re
from contextlib import closing
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
PICTURES = ["example.png", "games.png", "hit.png", "miss.png", "planes.png", "run/curves.png"]
QUICK = ("--time", "1s")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """Run the demo and return its output and folder."""
    into = tmp_path_factory.mktemp("demo") / "into"
    return run("demo", "--output", into, "--jobs", 2, *QUICK), into


@pytest.mark.slow
def test_progress_goes_to_standard_error(done: tuple[Done, Path]) -> None:
    assert done[0].code == 0, done[0].err
    known = (
        "building kgsgo-",
        "reading games",
        "indexing",
        "splitting games",
        "training demo",
        "step ",
        "compiling ",
        "kifu: this processor has no instructions for bfloat16",
    )
    assert [line for line in done[0].err if not line.startswith((*known, "a second process"))] == []


def test_files(done: tuple[Done, Path]) -> None:
    printed, into = done
    made = {path.name for path in into.iterdir()}
    top = {
        *FILES,
        *(f"{name}.manifest.{kind}" for name in FILES for kind in ("json", "parquet")),
        *(name for name in PICTURES if "/" not in name),
    }
    assert made == {*top, "games.parquet", "games.parquet.search", "sets", "run", "index.html"}
    for name in FILES:
        manifest = read_manifest(into / name)
        with kifu.open(into / name) as data:
            assert len(data) == manifest.examples > 0
        (line,) = [line for line in printed.out.splitlines() if line.startswith(f"    {name} ") and " games " in line]
        assert f" {manifest.kept} games " in line
        assert f" {manifest.examples:,} examples " in line
    for name in PICTURES:
        assert (into / name).read_bytes().startswith(b"\x89PNG")
        assert f"    {into / name}" in printed.out.splitlines()


def test_page_shows_all_pictures_and_commands(done: tuple[Done, Path]) -> None:
    printed, into = done
    page = (into / "index.html").read_text()
    assert re.findall('<img src="([^"]*)"', page) == [
        "games.png", "example.png", "planes.png", "run/curves.png", "hit.png", "miss.png",
    ]  # fmt: skip
    assert "\n".join(line.strip() for line in printed.out.splitlines()[-4:]) in page


def test_explanations_name_the_moves(done: tuple[Done, Path]) -> None:
    out = " ".join(done[0].out.split())
    move = r"[A-T]\d+ \((\w[\w ]*, )*\d+ lines? from the last move\)"
    assert re.search(rf"The packaged net gives {move} \d+%, and (Black|White) played it\. Your net gives", out)
    miss = rf"The packaged net gives {move} \d+%; (Black|White) played {move}, its choice \d+ with \d\.\d%\. "
    assert re.search(miss, out)


def test_lines_fit_a_terminal(done: tuple[Done, Path]) -> None:
    printed, into = done
    assert [line for line in printed.out.splitlines() if len(line) > 80 and str(into) not in line] == []


def test_next_commands_run(done: tuple[Done, Path]) -> None:
    lines = done[0].out.splitlines()
    commands = [line.split() for line in lines[lines.index("Next:") + 1 :]]
    *others, serve = commands
    assert [command[:2] for command in others] == [["kifu", "predict"], ["kifu", "inspect"], ["kifu", "audit"]]
    assert [run(*command[1:]).code for command in others] == [0, 0, 0]
    into = done[1]
    catalogue, net = str(into / "games.parquet"), str(into / "run")
    assert serve == ["kifu", "serve", catalogue, "--net", net, "--net", "small", "--open"]
    pytest.importorskip("starlette", reason="needs kifu[web]")
    from kifu.web.site import Site

    with closing(Site([catalogue], [net, "small"])) as site:
        assert site.corpora[0].indexed
        assert len(site.nets) == 2


@pytest.mark.slow
def test_second_run_keeps_data_sets_and_net(done: tuple[Done, Path]) -> None:
    into = done[1]
    before = {path: path.stat().st_mtime_ns for path in into.glob("*.dat")}
    again = run("demo", "--output", into, *QUICK)
    assert again.code == 0
    assert again.out.count("(was there)") == len(FILES) + 1
    assert {path: path.stat().st_mtime_ns for path in into.glob("*.dat")} == before


# No two of them are neighbours, so that no stone is ever taken: v1 and v2 differ about stones without liberties.
QUIET = [point for point in range(361) if point // 19 % 2 == point % 19 % 2]


def quiet_game(seed: int) -> bytes:
    points = random.Random(seed).sample(QUIET, 125)
    moves = [f";{'BW'[k % 2]}[{to_sgf(point, 19)}]" for k, point in enumerate(points)]
    return f"(;SZ[19]{''.join(moves)})".encode()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a demo that was run, without torch, on 230 made-up games instead of the sample."""
    source = archive(tmp_path / "source", [quiet_game(k) for k in range(230)], year=2025)
    monkeypatch.setattr(demo, "sample_path", lambda: source)
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    done = run("demo", "--output", tmp_path / "out")
    assert (done.code, "Net: skipped, torch is required: pip install 'kifu[learn]'" in done.out) == (0, True)
    return tmp_path / "out"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "at", "reported"),
    [
        ("kgsgo-test-v2.dat", 1024 + 322 * 5 + 6, "differ in rows 0 to"),  # a stone of plane 0
        ("kgsgo-test.dat", 365 * 5 + 3, "differ in rows 0 to"),  # the column of a label
        ("kgsgo-test-v2.dat", -1, "END"),
    ],
)
def test_damage_is_reported(small: Path, name: str, at: int, reported: str) -> None:
    data = bytearray((small / name).read_bytes())
    data[at] ^= 1
    (small / name).write_bytes(data)
    done = run("demo", "--output", small)
    assert done.code == 2
    assert done.err[-1].startswith("kifu: ")
    assert reported in done.err[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hashes_fit", "reported"),
    [(False, "does not match the hash in its manifest"), (True, ", which its manifest lists")],
)
def test_damage_of_both_formats_is_reported(small: Path, hashes_fit: bool, reported: str) -> None:
    """Rows in another order: they are equal in both, so that only the manifests reveal it, by hash and by origin."""
    for name, start, size in (("kgsgo-test.dat", 0, 365), ("kgsgo-test-v2.dat", 1024, 322)):
        path = small / name
        data = path.read_bytes()
        rows = [data[at : at + size] for at in range(start, len(data) - 3, size)]
        path.write_bytes(data[:start] + b"".join(rows[::-1]) + b"END")
    with pytest.MonkeyPatch.context() as patch:
        if hashes_fit:
            patch.setattr(demo, "hash_file", lambda path: read_manifest(path).blake3)
        done = run("demo", "--output", small)
    assert done.code == 2
    assert reported in done.err[-1]

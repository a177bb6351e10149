"""`kifu demo`, the first command of a new user: other commands on the bundled sample."""

import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest

from commands import Done, run
from kifu.cli import demo

PICTURES = ["games.png", "pattern.png", "example.png", "run/curves.png", "predicted.png"]
QUICK = ("--time", "1s")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    into = tmp_path_factory.mktemp("demo") / "into"
    return run("demo", "--output", into, "--jobs", 2, *QUICK), into


def test_files(done: tuple[Done, Path]) -> None:
    printed, into = done
    assert printed.code == 0, printed.err
    assert {path.name for path in into.iterdir()} == {
        *(name for name in PICTURES if "/" not in name),
        "games.parquet", "games.parquet.search", "sets", "data", "run", "index.html",
    }  # fmt: skip
    for name in PICTURES:
        assert (into / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_page_shows_each_command_with_all_that_it_prints(done: tuple[Done, Path]) -> None:
    printed, into = done
    page = (into / "index.html").read_text()
    assert re.findall('<img src="([^"]*)"', page) == PICTURES
    lines = [line[2:] for line in printed.out.splitlines() if line.startswith("$ ")]
    assert [shlex.split(line)[1] for line in lines] == [step.line.split()[0] for step in demo.STEPS]
    for line in lines:
        _, name, *arguments = shlex.split(line)
        if name in ("stats", "audit", "show", "predict"):  # the same when run by hand
            again = run(name, *arguments)
            assert (again.code, again.out.strip() in page.replace("&quot;", '"').replace("&#x27;", "'")) == (0, True), (
                line
            )
    assert "\n... (all of it is on the page)\n" in printed.out


def test_the_last_line_opens_the_results(done: tuple[Done, Path]) -> None:
    into = done[1]
    catalogue, net = str(into / "games.parquet"), str(into / "run")
    last = done[0].out.splitlines()[-1]
    assert last == f"Next: kifu serve {catalogue} --net {net} --net small --open"
    pytest.importorskip("starlette", reason="needs kifu[web]")
    from kifu.web.site import Site

    with closing(Site([catalogue], [net, "small"])) as site:
        assert site.corpora[0].indexed
        assert len(site.nets) == 2


@pytest.mark.slow
def test_a_second_run_keeps_data_sets_and_net(done: tuple[Done, Path]) -> None:
    into = done[1]
    before = {
        path: path.stat().st_mtime_ns for path in (*into.glob("data/*"), *into.glob("sets/*"), *into.glob("run/*"))
    }
    again = run("demo", "--output", into, *QUICK)
    assert (again.code, again.out.count("(there already)")) == (0, 4)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    done = run("demo", "--output", tmp_path / "out")
    assert (done.code, done.out.count("skipped, torch is required: pip install 'kifu[learn]'")) == (0, 2)
    assert done.out.splitlines()[-1].endswith("games.parquet --open")

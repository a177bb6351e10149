"""The command line as a new user meets it: help, lists, builds, what it says when something is wrong, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kifu
from commands import Done, finish, on_terminal, run, start
from kgs_archives import BROKEN, archive, records
from kifu.assets import OTHER_FORMATS
from kifu.cli import app
from kifu.datasets.formats import FORMATS
from kifu.datasets.manifest import read_manifest
from kifu.planes.registry import PLANE_SETS
from kifu.recipes.schema import recipe_names

COMMANDS = [
    "audit", "build", "compact", "convert", "demo", "estimate", "evaluate", "export", "fetch", "formats", "gtp",
    "ingest",
    "inspect", "match", "nets", "planes", "predict", "query", "recipes", "show", "split", "stats", "train",
]  # fmt: skip
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two archives of 12 games each."""
    folder = tmp_path_factory.mktemp("kgs")
    archive(folder, records(12, 1), year=2001)
    archive(folder, records(12, 2), year=2002)
    return folder


def is_error(done: Done, *words: str) -> None:
    """One line on standard error (below those of progress), no traceback, nothing else, exit code 2."""
    *begun, line = done.err
    assert (done.code, done.out) == (2, "")
    assert all(each.startswith("building ") for each in begun)
    assert line.startswith("kifu: ")
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    "given",
    [
        ["ingest", "a.zip", "-o"], ["demo", "--output"], ["fetch", "kgs", "--output"],
        ["split", "a.parquet", "--output"],
        ["convert", "a.zip"], ["build", "agz17", "a.zip", "--output"], ["inspect", "a.npz", "--row", "1", "-o"],
        ["audit", "a.parquet", "b.parquet", "--json"], ["stats", "a.parquet", "-o"], ["stats", "a.parquet", "--json"],
        ["query", "select 1", "a.parquet", "-o"], ["show", "a.sgf", "-o"], ["estimate", "a.zip", "--json"],
        ["match", "a", "b", "--output"], ["predict", "a.sgf", "-o"], ["predict", "a.sgf", "--json"],
        ["export", "a", "-o"], ["evaluate", "a", "a.zip", "--html"], ["evaluate", "a", "a.zip", "--json"],
        ["train", "quick-cpu", "a.zip", "--output"],
    ],
    ids="-".join,
)  # fmt: skip
def test_output_urls_are_refused(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in folders of this machine that are called as it is."""
    monkeypatch.chdir(tmp_path)
    done = run(*given, "s3://user:s3cr3t@games/a.png")
    is_error(done, "cannot write s3://games/a.png: outputs must be local paths")
    assert not list(tmp_path.iterdir())


# help and lists


def test_without_arguments_it_shows_the_help() -> None:
    done = finish(start())
    assert done.err == []
    assert done.out.rstrip() == finish(start("--help")).out.rstrip()


def test_the_help_lists_every_command() -> None:
    done = run("--help")
    assert (done.code, done.err) == (0, [])
    assert sorted(command.callback.__name__ for command in app.registered_commands) == COMMANDS
    for command in COMMANDS:
        assert re.search(rf"^│ {command} +[A-Z]", done.out, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_command_has_its_help(command: str, option: str) -> None:
    done = run(command, option)
    assert (done.code, done.err) == (0, [])
    assert f"Usage: kifu {command}" in done.out


def test_a_missing_package_is_reported_with_its_extra() -> None:
    program = "import sys\nsys.modules['torch'] = None\nfrom kifu.cli import main\nsys.argv = ['kifu', 'nets']\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kifu: torch is required: pip install 'kifu[learn]'\n"


@pytest.mark.parametrize(
    ("command", "default"),
    [("build", "one per core"), ("build", "the recipe's"), ("show", "default: (all)"), ("fetch", "kgs")],
)
def test_help_shows_defaults(command: str, default: str) -> None:
    assert default in run(command, "--help").out


def test_version() -> None:
    assert run("--version") == Done(0, f"kifu {kifu.__version__}\n", [])


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("recipes", recipe_names()),
        ("planes", list(PLANE_SETS)),
        ("formats", [*FORMATS, *OTHER_FORMATS]),
    ],
)
def test_lists_are_complete(command: str, names: list[str]) -> None:
    done = run(command)
    assert (done.code, done.err) == (0, [])
    assert [line.split()[0] for line in done.out.splitlines()] == names


@pytest.mark.parametrize("name", ["agz17", "kgsgo-v1", "kgsgo-v2", "olf-archive"])
def test_a_recipe_is_shown(name: str) -> None:
    text = (REPOSITORY / "src" / "kifu" / "assets" / "recipes" / f"{name}.toml").read_text("utf-8")
    assert run("recipes", name) == Done(0, text, [])


@pytest.mark.parametrize(
    ("command", "name"),
    [("planes", name) for name in (*PLANE_SETS, "seven", "kgsgo7")]
    + [("formats", name) for name in (*FORMATS, *OTHER_FORMATS, "dat1", "dat2", "olf", "npy")],
)
def test_a_card_is_shown(command: str, name: str) -> None:
    text = (REPOSITORY / "docs" / command / f"{name.partition('@')[0]}.md").read_text("utf-8")
    assert run(command, name) == Done(0, text, [])


def test_planes_of_a_composition_are_listed() -> None:
    done = run("planes", "own+liberties2+last1")
    assert (done.code, done.err) == (0, [])
    assert done.out.splitlines() == [
        "0 own stones", "1 stones, 1 liberty", "2 stones, 2+ liberties", "3 the last move"
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [50, 80, 120])
@pytest.mark.parametrize("command", ["recipes", "planes", "formats"])
def test_lists_fit_the_terminal(command: str, columns: int) -> None:
    lines = on_terminal(columns, command)
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == " ".join(run(command).out.split())


def test_a_card_fits_the_terminal() -> None:
    lines = on_terminal(80, "formats", "dat1")
    assert max(map(len, lines)) <= 80
    assert not any("|---" in line for line in lines)
    assert any("365 bytes" in line for line in lines)


# building


def test_build(kgs: Path, tmp_path: Path) -> None:
    into = tmp_path / "new" / "folder"
    command = ["build", "kgsgo-v2", kgs, "--output", into, "--sets", "test, trainall", "--set", "sets.test.games=5"]
    done = run(*command)
    assert done.code == 0
    test, train = done.out.splitlines()
    for line, name, games in ((test, "test", 5), (train, "trainall", 19)):
        path = into / f"kgsgo-{name}-v2.dat"
        with kifu.open(path) as data:
            size = path.stat().st_size
            shown = f"{size / 1000:,.1f} kB" if size < 999_950 else f"{size / 1e6:,.1f} MB"
            assert line == f"{path}: {len(data):,} examples, {shown}; {games} games = {games} kept"
    assert sorted(path.name for path in into.iterdir()) == [
        "kgsgo-test-v2.dat", "kgsgo-test-v2.dat.manifest.json",
        "kgsgo-trainall-v2.dat", "kgsgo-trainall-v2.dat.manifest.json",
    ]  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in into.iterdir()}
    again = run(*command)
    assert again.out.splitlines() == [line + " (was there already)" for line in (test, train)]
    assert {path: path.stat().st_mtime_ns for path in into.iterdir()} == before


def test_build_reports_drop_reasons(tmp_path: Path) -> None:
    sources = archive(tmp_path, [*records(3), BROKEN["OCCUPIED"], BROKEN["TRUNCATED"]])
    done = run("build", "kgsgo-v1", sources, "--output", tmp_path, "--sets", "archives")
    assert done.code == 0
    assert done.out.endswith("; 5 games = 3 kept + 1 occupied + 1 truncated\n")


def test_build_samples_from_an_index_page_for_any_number_of_threads(kgs: Path, tmp_path: Path) -> None:
    index = tmp_path / "index.html"
    index.write_text('<a href="/KGS-2001-19-12-.zip">1</a> <a href="/KGS-2002-19-12-.zip">2</a>')
    overrides = ["--sets", "test", "--set", "sets.test.games=9", "--index", index]
    made = {}
    for jobs in (1, 2):
        into = tmp_path / str(jobs)
        assert run("build", "kgsgo-v2", kgs, "--output", into, "--jobs", jobs, *overrides).code == 0
        made[jobs] = {path.name: path.read_bytes() for path in into.iterdir()}
    assert made[1] == made[2]
    run("build", "kgsgo-v2", kgs, "--output", tmp_path, *overrides[:-2])  # in the order of the year, newest first
    assert (tmp_path / "kgsgo-test-v2.dat").read_bytes() != made[1]["kgsgo-test-v2.dat"]


def test_build_with_a_custom_recipe(kgs: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\ntitle = "mine"\nformat = "dat1"\nseed = 7\nuntil = 2001\n'
        '[sets.few]\ntitle = "three"\nfile = "few.dat"\ngames = 3\n'
    )
    done = run("build", own, kgs, "--output", tmp_path)
    assert done.code == 0
    manifest = read_manifest(tmp_path / "few.dat")
    assert (manifest.kept, [part.archive for part in manifest.archives]) == (3, ["KGS-2001-19-12-"])


# errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("recipes nix", ["'nix'", "kgsgo-v1, kgsgo-v2"]),
        ("recipes nix.toml", ["nix.toml", "No such file"]),
        ("planes sevn", ["'sevn'", "did you mean 'seven'"]),
        ("planes ../planes/seven", ["'../planes/seven'"]),
        ("formats dat3", ["'dat3'", "dat1@1, dat2@1"]),
        ("fetch ogs", ["'ogs'", "available: kgs"]),
        ("fetch kgs --years 20-x", ["'20-x'", "2001-2014"]),
        ("fetch kgs --index missing.html --output OUT", ["missing.html", "No such file"]),
        ("build nix KGS --output OUT", ["'nix'", "kgsgo-v1"]),
        ("build kgsgo-v2 missing --output OUT", ["missing", "No such file"]),
        ("build kgsgo-v2 EMPTY --output OUT", ["EMPTY", "no .sgf files and no archives"]),
        ("build kgsgo-v2 GARBAGE --output OUT", ["KGS-2006-19-10388-.tar.gz"]),
        ("build kgsgo-v2 KGS --output OUT", ["'test' takes 100 games, but 24", "sets.test.games=N"]),
        ("build kgsgo-v2 KGS --output OUT --sets test,nix", ["'nix'", "test, train10k, trainall, archives"]),
        ("build kgsgo-v2 KGS --output OUT --set until", ["'until'", "key=value"]),
        ("build kgsgo-v2 KGS --output OUT --set until=soon", ["until", '"soon"', "integer"]),
        ("build kgsgo-v2 KGS --output OUT --set untill=2001", ["untill"]),
        ("build kgsgo-v2 KGS --output OUT --set format=dat3", ["dat3", "dat1@1, dat2@1"]),
        ("build kgsgo-v2 KGS --output OUT --set until=1999", ["0 archives"]),
        ("build kgsgo-v2 KGS --output OUT --index missing.html", ["missing.html", "No such file"]),
        ("build kgsgo-v2 KGS --output OUT --index GARBAGE", ["index page", "KGS-2006-19-10388-.zip"]),
        ("build kgsgo-v2 KGS --output GARBAGE --sets archives", ["GARBAGE", "Not a directory"]),
        ("build kgsgo-v2 LIAR --output OUT --sets archives", ["KGS-2003-19-9-", "is not a game"]),
        ("inspect missing", ["missing", "No such file"]),
        ("inspect EMPTY", ["EMPTY", "no .sgf files and no archives"]),
        ("inspect GARBAGE", ["GARBAGE", "neither an archive nor a game record"]),
        ("inspect /dev/null", ["/dev/null", "neither a file nor a directory"]),
        ("inspect KGS --row 3", ["not a data set", "row 3"]),
        ("inspect KGS -o board.svg", ["board.svg", "--row"]),
        ("show missing", ["missing", "No such file"]),
        ("show KGS --game 25", ["within 1 to 24", "25"]),
        ("show KGS --move 61", ["within 0 to 60", "61"]),
        ("show KGS -o OUT/board.gif", ["board.gif", ".png", ".svg"]),
        ("show KGS -o GARBAGE/board.svg", ["cannot write", "board.svg"]),
    ],
)
def test_errors_are_one_line(kgs: Path, tmp_path: Path, arguments: str, words: list[str]) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "GARBAGE").write_bytes(b"neither this nor that")
    liar = archive(tmp_path / "LIAR", records(3), year=2003, listed=9)
    places = {"KGS": kgs, "LIAR": liar} | {name: tmp_path / name for name in ("EMPTY", "GARBAGE", "OUT")}
    pattern = re.compile("|".join(places))
    is_error(run(*(pattern.sub(lambda found: str(places[found[0]]), word) for word in arguments.split())), *words)
    assert not list((tmp_path / "OUT").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ("nix", "No such command 'nix'"),
        ("build", "Missing argument 'recipe'"),
        ("build kgsgo-v2 x", "Missing option '-o' / '--output'"),
        ("build kgsgo-v2 x --output x --jobs 0", "'--jobs'"),
        ("show x --game 0", "'--game'"),
        ("show x --move -1", "'--move'"),
        ("inspect x --row one", "'--row'"),
        ("fetch kgs --jobs many", "'--jobs'"),
    ],
)
def test_wrong_usage_names_the_option(arguments: str, reported: str) -> None:
    done = run(*arguments.split())
    assert (done.code, done.out) == (2, "")
    assert any(reported in line for line in done.err)
    assert not any("Traceback" in line for line in done.err)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everywhere")
def test_permission_errors_are_one_line(kgs: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    is_error(run("build", "kgsgo-v2", closed, "--output", tmp_path), "closed", "Permission denied")
    is_error(run("build", "kgsgo-v2", kgs, "--output", closed, "--sets", "archives"), "closed", "Permission denied")


# the shell around it


def test_a_closed_pipe_is_not_an_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = start("planes", "seven", stdout=theirs)
    os.close(theirs)
    assert finish(process) == Done(1, "", [])


def test_interrupted_builds_leave_no_file(tmp_path: Path) -> None:
    source, into = tmp_path / "kgs", tmp_path / "out"
    for k in range(40):
        archive(source, records(20, k), year=1980 + k)
    command = ["build", "kgsgo-v2", source, "--sets", "trainall", "--set", "sets.test.games=1", "--output"]
    # Uncompiled, the kernels take half a minute for that, so that there is time to interrupt them, however busy we are.
    process = start(*command, into, "--jobs", 2, NUMBA_DISABLE_JIT="1")
    part = into / ".kgsgo-trainall-v2.dat.part"
    deadline = time.monotonic() + 60
    while not part.exists() or part.stat().st_size < 2000:
        assert process.poll() is None, finish(process)
        assert time.monotonic() < deadline, finish(process)
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out) == (130, "")
    assert done.err[-1] == "kifu: interrupted; no partial output was left"
    assert [line for line in done.err if not line.startswith("building ")] == done.err[-1:]
    assert list(into.iterdir()) == []
    name = "kgsgo-trainall-v2.dat"
    assert run(*command, into).code == run(*command, tmp_path / "undisturbed").code == 0
    assert (into / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def test_running_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "kifu.cli", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"kifu {kifu.__version__}\n"

"""The command line: help, options, errors and output, and the examples of its help."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kifu
from commands import COMMANDS, KIFU, Done, finish, first_line, is_error, on_terminal, run, start, wait_until
from kata_nets import small_net
from kgs_archives import BROKEN, archive, records
from kifu.assets import OTHER_FORMATS, config_names, read_titles
from kifu.cli.app import PANELS
from kifu.datasets.formats import FORMATS
from kifu.datasets.manifest import read_manifest
from kifu.katago.net_file import write_kata_net
from kifu.planes.registry import PLANE_SETS
from kifu.text import counted
from lazy import lazy_import
from marks import slow

registry = lazy_import("kifu.learn.registry")

SETS = ("train", "validation", "test")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kgs")
    archive(folder, records(12, 1), year=2001)
    archive(folder, records(12, 2), year=2002)
    return folder


@pytest.mark.parametrize(
    "given",
    [
        ["ingest", "a.zip", "-o"], ["demo", "--output"], ["fetch", "kgs", "--output"],
        ["split", "a.parquet", "--output"],
        ["convert", "a.zip", "-o"], ["build", "agz17", "a.zip", "--output"], ["show", "a.npz", "--row", "1", "-o"],
        ["audit", "a.parquet", "b.parquet", "--json"], ["stats", "a.parquet", "-o"], ["stats", "a.parquet", "--json"],
        ["query", "select 1", "a.parquet", "-o"],
        ["search", "a.parquet", "X", "-o"], ["search", "a.parquet", "X", "--hits"], ["explore", "a.parquet", "-o"],
        ["show", "a.sgf", "-o"],
        ["match", "a", "b", "--output"], ["predict", "a.sgf", "-o"], ["predict", "a.sgf", "--json"],
        ["export", "a", "-o"], ["evaluate", "a.zip", "--html"], ["evaluate", "a.zip", "--json"],
        ["train", "quick-cpu", "a.zip", "--output"], ["evaluate", "a.zip", "-o"],
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


@pytest.mark.subprocess
def test_without_arguments_it_shows_the_help() -> None:
    done = finish(start())
    assert done.err == []
    assert done.out.rstrip() == finish(start("--help")).out.rstrip()


def test_the_help_lists_every_command() -> None:
    done = run("--help")
    assert (done.code, done.err) == (0, [])
    lines = iter(done.out.splitlines())
    for panel in PANELS:
        assert f"{panel}:" in lines
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{str(command.help).split()[0]}", done.out, re.MULTILINE)


def test_every_command_has_help_with_examples_and_the_common_options() -> None:
    for name, command in COMMANDS.items():
        done = run(name, "--help")
        assert run(name, "-h") == done
        assert (done.code, done.err) == (0, [])
        assert f"Usage: kifu {name}" in done.out
        for option in ("-q, --quiet", "-v, --verbose"):
            assert option in done.out
        assert ("--json" in done.out.split()) == (name not in ("demo", "gtp", "serve"))
        shown = done.out.rstrip().splitlines()[-len(command.examples) :]
        assert [line.strip() for line in shown] == [*command.examples]
        assert len(command.examples) >= 2
        assert max(map(len, shown)) <= 80
        assert all(f"kifu {name}" in line for line in command.examples)


def test_options_of_one_name_have_one_type_and_unit() -> None:
    seen: dict[str, set[str | None]] = {}
    for command in COMMANDS.values():
        for param in command.params:
            for option in param.opts:
                seen.setdefault(option, set()).add(param.metavar)
    several = {option: metavars for option, metavars in seen.items() if option[0] == "-" and len(metavars) > 1}
    assert several == {"--index": {"URL|FILE", "FILE"}, "--set": {"KEY=VALUE", "NAME"}}


def test_outputs_are_called_output_and_can_be_planned() -> None:
    for name, command in COMMANDS.items():
        options = {option for param in command.params for option in param.opts}
        assert ("--output" in options) == ("-o" in options)
        writes = name in (
            "fetch", "ingest", "split", "convert", "build", "train", "annotate", "export", "match",
        )  # fmt: skip
        assert ("--dry-run" in options) == writes


@pytest.mark.subprocess
def test_help_fits_a_narrow_terminal() -> None:
    for line in ("", "build"):
        shown = finish(start(*line.split(), "--help", COLUMNS="40")).out.partition("Examples:")[0]
        assert max(map(len, shown.splitlines())) <= 40
        assert "\u2026" not in shown


@pytest.mark.subprocess
def test_a_missing_package_is_reported_with_its_extra() -> None:
    program = "import sys\nsys.modules['torch'] = None\nsys.argv = ['kifu', 'list', 'nets', 'blog']\n"
    program += "from kifu.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kifu: torch is required: pip install 'kifu[learn]'\n"


@pytest.mark.parametrize(
    ("command", "default"),
    [("build", "one per core"), ("build", "the recipe's"), ("show", "default: (all)"), ("fetch", "kgs")],
)
def test_help_shows_defaults(command: str, default: str) -> None:
    assert default in " ".join(run(command, "--help").out.split())


def test_help_and_version_are_also_commands() -> None:
    assert run("help", "ingest") == run("ingest", "--help")
    assert run("help") == run("--help")
    assert run("version") == run("--version") == Done(0, f"kifu {kifu.__version__}\n", [])


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("recipes", config_names("recipes")),
        ("rules", config_names("cleaning")),
        ("planes", list(PLANE_SETS)),
        ("formats", [*FORMATS, *OTHER_FORMATS]),
    ],
)
def test_lists_are_complete(kind: str, names: list[str]) -> None:
    done = run("list", kind)
    assert (done.code, done.err) == (0, [])
    assert [line.split()[0] for line in done.out.splitlines()] == names


def test_kinds_are_listed() -> None:
    lines = run("list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["recipes", "planes", "formats", "nets", "rules", "sets", "ranks"]
    is_error(run("list", "nest"), "unknown kind 'nest'; did you mean 'nets'?")
    is_error(run("list", "planes", "--planes", "seven"), "options of kifu list nets, got kifu list planes")
    is_error(run("list", "ranks", "3d"), "one table, got '3d'")


def test_listed_titles_are_those_of_the_registries() -> None:
    """The file serves lists that load neither torch nor numpy."""
    lines = {name: f"{counted(each.planes, 'plane')}; {each.title}" for name, each in PLANE_SETS.items()}
    assert read_titles("planes") == lines
    names = [*registry.NETS, registry.RESIDUAL, registry.KATA]
    assert read_titles("nets") == {name: registry.net_line(name) for name in names}


RECIPES = ("agz17", "kgsgo-v1", "kgsgo-v2", "olf-archive")
PLANE_CARDS = (*PLANE_SETS, "seven", "kgsgo7")
FORMAT_CARDS = (*FORMATS, *OTHER_FORMATS, "dat1", "dat2", "olf", "npy")


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [("recipes", name, f"src/kifu/assets/recipes/{name}.toml") for name in RECIPES]
    + [("rules", name, f"src/kifu/assets/cleaning/{name}.toml") for name in config_names("cleaning")]
    + [("planes", name, f"docs/planes/{name.partition('@')[0]}.md") for name in PLANE_CARDS]
    + [("formats", name, f"docs/formats/{name.partition('@')[0]}.md") for name in FORMAT_CARDS],
)
def test_a_recipe_or_card_is_shown(kind: str, name: str, path: str) -> None:
    text = (REPOSITORY / path).read_text("utf-8")
    assert run("list", kind, name) == Done(0, text, [])


def test_planes_of_a_composition_are_listed() -> None:
    done = run("list", "planes", "own+liberties2+last1")
    assert (done.code, done.err) == (0, [])
    assert done.out.splitlines() == [
        "0 own stones", "1 stones, 1 liberty", "2 stones, 2+ liberties", "3 the last move"
    ]  # fmt: skip


@pytest.mark.subprocess
@pytest.mark.parametrize("columns", [80, *slow(50, 120)])
@pytest.mark.parametrize("kind", ["planes", *slow("recipes", "formats")])
def test_lists_fit_the_terminal(kind: str, columns: int) -> None:
    lines = on_terminal(columns, "list", kind)
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == " ".join(run("list", kind).out.split())


@pytest.mark.subprocess
def test_a_card_fits_the_terminal() -> None:
    lines = on_terminal(80, "list", "formats", "dat1")
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
        "kgsgo-test-v2.dat", "kgsgo-test-v2.dat.manifest.json", "kgsgo-test-v2.dat.manifest.parquet",
        "kgsgo-trainall-v2.dat", "kgsgo-trainall-v2.dat.manifest.json", "kgsgo-trainall-v2.dat.manifest.parquet",
    ]  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in into.iterdir()}
    again = run(*command)
    assert again.out.splitlines() == [line + " (was there already)" for line in (test, train)]
    assert {path: path.stat().st_mtime_ns for path in into.iterdir()} == before


def test_build_refuses_to_write_nothing(tmp_path: Path) -> None:
    done = run("build", "agz17", kifu.sample_path(), "--output", tmp_path / "data")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    line = "kifu: recipe agz17 uses none of these games, with clean=legal all legal ones are kept: 0 examples, "
    assert done.err[-1].startswith(line)


def test_build_reports_drop_reasons(tmp_path: Path) -> None:
    sources = archive(tmp_path, [*records(3), BROKEN["OCCUPIED"], BROKEN["TRUNCATED"]])
    done = run("build", "kgsgo-v1", sources, "--output", tmp_path, "--sets", "archives")
    assert done.code == 0
    assert "; 5 games = 3 kept + 1 occupied + 1 truncated" in done.out


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
        ("list recipes nix", ["'nix'", "kgsgo-v1, kgsgo-v2"]),
        ("train nosuch KGS -o OUT", ["unknown training recipe 'nosuch'; available: blog,"]),
        ("list recipes kgsgo-v3", ["unknown recipe 'kgsgo-v3'; did you mean 'kgsgo-v2'? available: agz17,"]),
        ("show KGS -q -v", ["--quiet and --verbose exclude each other"]),
        (
            "train quick-cpu KGS -o OUT --time 15",
            ["--time must be a duration with a unit, such as 90s,", "got '15'"],
        ),
        ("train quick-cpu KGS -o OUT --time 0s", ["--time", "got '0s'"]),
        ("match a b -o OUT --board 9x13", ["boards are square, got 9x13"]),
        ("list recipes nix.toml", ["nix.toml", "No such file"]),
        ("list planes sevn", ["unknown plane set or feature 'sevn'; did you mean 'seven'?"]),
        ("list nets b6x64", ["unknown net 'b6x64'; did you mean 'b6c64'?"]),
        ("ingest KGS -o OUT --clean trainig", ["unknown set of cleaning rules 'trainig'; did you mean 'training'?"]),
        ("split KGS -o OUT --by hsh", ["unknown split 'hsh'; did you mean 'hash'?"]),
        ("build kgsgo-v2 KGS -o OUT --sets tst --dry-run", ["unknown set 'tst'; did you mean 'test'?"]),
        ("convert KGS -o OUT/x.doc --dry-run", ["x.doc"]),
        ("convert KGS -o GARBAGE/x.sgf --dry-run", ["cannot write", "Not a directory"]),
        ("list planes ../planes/seven", ["'../planes/seven'"]),
        ("list formats dat3", ["'dat3'", "dat1@1, dat2@1"]),
        ("fetch foxes", ["unknown collection 'foxes'; did you mean 'fox'? available: sample, kgs, kgs-4d, ogs,"]),
        ("fetch ogs", ["no files of ogs are chosen; give names, --dates or --all, see kifu fetch ogs --list"]),
        ("fetch kgs --dates 20-x", ["'20-x'", "2001-2014"]),
        ("fetch kgs --all --index missing.html --output OUT", ["missing.html", "No such file"]),
        ("build nix KGS --output OUT", ["'nix'", "kgsgo-v1"]),
        ("build kgsgo-v2 missing --output OUT", ["missing", "No such file"]),
        ("build kgsgo-v2 EMPTY --output OUT", ["EMPTY", "no game records and no archives"]),
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
        ("show EMPTY", ["EMPTY", "no game records and no archives"]),
        ("show GARBAGE", ["GARBAGE", "neither an archive nor a game record"]),
        ("show /dev/null", ["/dev/null", "neither a file nor a directory"]),
        ("show KGS --row 3", ["not a data set", "row 3"]),
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
        ("xyz", "kifu: unknown command 'xyz'; see kifu --help"),
        ("inspect x", "kifu: the command inspect is now kifu show"),
        ("compact x", "kifu: the command compact is now kifu ingest --compact -o FOLDER"),
        ("ingest -o x", "kifu: missing argument 'SOURCE...'; see kifu ingest --help"),
        ("benchmark x", "kifu: the command benchmark is now kifu evaluate --set NAME"),
        ("index x", "kifu: the command index is now part of kifu search and kifu explore"),
        ("planes seven", "kifu: the command planes is now kifu list planes"),
        ("ingets", "kifu: unknown command 'ingets'; did you mean 'ingest'? see kifu --help"),
        ("build --ouput x", "kifu: unknown option --ouput; did you mean --output? see kifu build --help"),
        ("build", "kifu: missing argument 'RECIPE'; see kifu build --help"),
        ("build kgsgo-v2 x", "kifu: missing option '-o' / '--output'; see kifu build --help"),
        ("build kgsgo-v2 x --output x --jobs 0", "--jobs must be a whole number >= 1, got '0'"),
        ("show x --game 0", "--game"),
        ("show x --move -1", "--move"),
        ("show x --row one", "--row"),
        ("fetch kgs --jobs 2", "unknown option --jobs"),
    ],
)
def test_wrong_usage_names_the_option(arguments: str, reported: str) -> None:
    done = run(*arguments.split())
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert reported in done.err[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everywhere")
def test_permission_errors_are_one_line(kgs: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    is_error(run("build", "kgsgo-v2", closed, "--output", tmp_path), "closed", "Permission denied")
    is_error(run("build", "kgsgo-v2", kgs, "--output", closed, "--sets", "archives"), "closed", "Permission denied")


# the shell around it


@pytest.mark.subprocess
def test_a_closed_pipe_is_not_an_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = start("list", "planes", "seven", stdout=theirs)
    os.close(theirs)
    assert finish(process) == Done(0, "", [])


@pytest.mark.slow
@pytest.mark.subprocess
def test_interrupted_builds_leave_no_file(tmp_path: Path) -> None:
    source, into = tmp_path / "kgs", tmp_path / "out"
    for k in range(40):
        archive(source, records(20, k), year=1980 + k)
    command = ["build", "kgsgo-v2", source, "--sets", "trainall", "--set", "sets.test.games=1", "--output"]
    # Uncompiled, the kernels take half a minute for that, so that there is time to interrupt them, however busy we are.
    process = start(*command, into, "--jobs", 2, NUMBA_DISABLE_JIT="1")
    part = into / ".kgsgo-trainall-v2.dat.part"
    wait_until(lambda: part.exists() and part.stat().st_size >= 2000, process)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out) == (130, "")
    assert done.err[-1] == "kifu: interrupted; no partial output was left"
    size, *others = [line for line in done.err if not line.startswith("building ")]
    assert size.endswith("kgsgo-trainall-v2.dat: about 42.8 MB")
    assert others == done.err[-1:]
    assert not into.exists()
    name = "kgsgo-trainall-v2.dat"
    assert run(*command, into).code == run(*command, tmp_path / "undisturbed").code == 0
    assert (into / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


@pytest.mark.subprocess
def test_running_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kifu", "--version"], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == f"kifu {kifu.__version__}\n"


# output


def test_results_as_json(kgs: Path, tmp_path: Path) -> None:
    games = tmp_path / "games.parquet"
    report = json.loads(run("ingest", kgs, "-o", games, "--json", "-").out)
    assert (report["read"], report["kept"], report["bytes"]) == (24, 24, games.stat().st_size)
    sets = json.loads(run("split", games, "-o", tmp_path / "sets", "--json", "-").out)
    assert sum(sets["sets"].values()) + sets["unset"] + sets["dropped"] == 24
    position = json.loads(run("show", games, "--move", 1, "--json", "-").out)
    assert (position["move"], len(position["black"]), position["white"]) == (1, 1, [])
    head = json.loads(run("query", "select count(*) n from games", games, "--json", "-").out)
    assert (head["columns"], head["rows"]) == (["n"], [["24"]])
    assert "24 games = 24 kept" in json.loads(run("show", games, "--json", "-").out)["title"]
    converted = json.loads(run("convert", kgs, "-o", tmp_path / "a.sgf", "--json", "-").out)
    assert (converted["read"], converted["written"]) == (24, 24)
    built = ["build", "kgsgo-v2", kgs, "-o", tmp_path, "--sets", "trainall", "--set", "sets.test.games=1", "--json"]
    assert run(*built, tmp_path / "report.json").out.startswith(str(tmp_path))
    (data_set,) = json.loads((tmp_path / "report.json").read_text())
    assert (data_set["read"], data_set["kept"], data_set["fresh"]) == (23, 23, True)
    for kind, names in (
        ("recipes", config_names("recipes")),
        ("planes", PLANE_SETS),
        ("formats", [*FORMATS, *OTHER_FORMATS]),
    ):
        assert [each["name"] for each in json.loads(run("list", kind, "--json", "-").out)] == list(names)


def test_standard_input_and_output(kgs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = kgs.glob("KGS-2001*")

    def run_with_input(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(source.read_bytes())))
        return run(*arguments)

    assert run("convert", source, "-o", tmp_path / "a.sgf").code == 0
    assert run_with_input("convert", "-", "-o", "-").out == (tmp_path / "a.sgf").read_text("utf-8")
    assert run_with_input("show", "-", "--game", 2).out == run("show", source, "--game", 2).out
    made = [tmp_path / f"{k}.parquet" for k in (1, 2)]
    for path in made:
        assert run_with_input("ingest", "-", "-o", path).out.startswith(f"{path}: 12 games = 12 kept")
    assert made[0].read_bytes() == made[1].read_bytes()


def test_quiet_prints_requested_results_only(kgs: Path, tmp_path: Path) -> None:
    games = tmp_path / "games.parquet"
    assert run("ingest", kgs, "-o", games, "-q") == Done(0, "", [])
    assert run("stats", games, "-q") == run("stats", games)
    assert run("ingest", tmp_path / "missing", "-o", games, "-q").err == [
        f"kifu: {tmp_path / 'missing'}: No such file or directory"
    ]


def test_files_left_out_are_named_once(kgs: Path, tmp_path: Path) -> None:
    shutil.copytree(kgs, tmp_path / "kgs")
    (tmp_path / "kgs" / "notes.pdf").touch()
    command = ["ingest", tmp_path / "kgs", "-o", tmp_path / "games.parquet", "--dry-run"]
    assert run(*command).err == [f"kifu: {tmp_path / 'kgs'}: left out: 1 file (1 .pdf)"]
    assert run(*command, "-q").err == []


def test_verbose_prints_resources_and_tracebacks(kgs: Path, tmp_path: Path) -> None:
    assert re.fullmatch(r"kifu: .* s, .* s of processor time, peak memory .*B", run("show", kgs, "-v").err[-1])
    err = run("show", tmp_path / "missing", "-v").err
    assert err[0].startswith("  Traceback")
    assert err[-1].startswith("kifu: ")


def test_an_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.cli.reference.config_names", lambda folder: 1 / 0)
    done = run("list", "recipes")
    assert (done.code, done.out) == (2, "")
    assert done.err == ["kifu: unexpected ZeroDivisionError: division by zero; --verbose shows the traceback"]


def test_dry_runs_list_inputs_and_outputs_and_write_nothing(kgs: Path, tmp_path: Path) -> None:
    games, folder, out = tmp_path / "games.parquet", tmp_path / "games", tmp_path / "out"
    for output in (games, folder):
        assert run("ingest", kgs, "-o", output).code == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    archives = sorted(map(str, kgs.iterdir()))
    for command, reads, writes in (
        (["fetch", "sample", "-o", out], [], [str(out / kifu.sample_path().name)]),
        (["ingest", kgs, "-o", out], archives, [str(out)]),
        (["convert", kgs, "-o", out / "a.olf"], archives, [str(out / "a.olf")]),
        (["split", games, "-o", out], [f"{games}: 24 games"], [str(out / f"{s}.parquet") for s in SETS]),
        (["ingest", "--compact", "-o", folder], [f"{folder}: 24 games"], [str(folder)]),
        (["build", "katago", games, "-o", out, "--sets", "val"], [str(games)], [str(out / "val")]),
    ):
        planned = json.loads(run(*command, "--dry-run", "--json", "-").out)
        assert (planned["reads"], planned["writes"]) == (reads, writes)
        assert run(*command, "--dry-run").out.endswith("dry run: nothing was written\n")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_sample_is_fetched_once(tmp_path: Path) -> None:
    done = run("fetch", "sample", "-o", tmp_path / "sample")
    assert (tmp_path / "sample" / kifu.sample_path().name).read_bytes() == kifu.sample_path().read_bytes()
    assert done.out.startswith(f"{tmp_path / 'sample'}: 1 file fetched")
    first, second = run("fetch", "sample", "-o", tmp_path / "sample").out.splitlines()
    assert first.endswith("0 files fetched (0 bytes), 1 there already")
    assert second == f"next: kifu ingest {tmp_path / 'sample'} -o games.parquet"


EXAMPLES = [line for command in COMMANDS.values() for line in command.examples]
SHORTER = {"train": ["--time", "1s", "--set", "net=b1c8"], "demo": ["--time", "1s"], "mix": ["--positions", "99"]}


@pytest.mark.slow
@pytest.mark.subprocess
def test_all_examples_run_in_the_order_of_the_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, except for what reads standard input, is a line for a shell, or runs until a signal ends it."""
    monkeypatch.chdir(tmp_path)
    write_kata_net(tmp_path / "net.bin.gz", small_net(["residual"]))
    environment = os.environ | {"PATH": f"{KIFU.parent}:{os.environ['PATH']}"}
    for line in EXAMPLES:
        if line.startswith("kifu serve "):  # runs until a signal ends it
            arguments = [*shlex.split(line)[1:], "--port", "0"]
            with subprocess.Popen(
                [KIFU, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as server:
                assert "Ctrl-C ends it" in first_line(server), line
                server.terminate()
                finish(server, 60)
            continue
        program, name, *arguments = shlex.split(line, comments=True)
        if "--dry-run" not in arguments:
            arguments += SHORTER.get(name, [])
        if program == "kifu" and name != "gtp" and not set("|<>&;$*").intersection(line):
            done = run(name, *arguments)
            assert done.code == 0, (line, done.err)
            continue
        by_shell = subprocess.run(
            line, shell=True, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
        )
        assert by_shell.returncode == 0, (line, by_shell.stderr)

"""Hostile names and values through every command: no control character and no forged line may reach the terminal."""

import contextlib
import csv
import io
import json
import logging
import os
import random
import re
import shutil
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pyarrow.parquet as pq
import pytest

import kifu
from commands import COMMANDS, run
from kifu.cli import main
from kifu.errors import printable
from kifu.io import read_small
from kifu.learn import SUFFIX
from lazy import lazy_import
from marks import slow
from nets import tiny_net

safetensors = lazy_import("safetensors.torch")
safe_open = lazy_import("safetensors")

LONG = ("build", "evaluate", "explore", "list", "match", "query", "search", "show", "train")
LIE = "kifu: all is well"
EVIL = f"\x1b]0;owned\x07\x1b[5m\x08\t\x9b5m\u202e\u2028[link=x]:bomb:\r\n{LIE}"
"""A title, blinking text in both spellings, an erased character, reversed and marked-up text, and a forged line."""
PATH = f"{EVIL}\udcff"
"""A file name, whose last byte is not UTF-8."""

PROPERTIES = re.findall("..", "PBPWBRWREVROPCGNDTREKMHATMOTRUAPUSCPSOGC")

Arguments = list[object]
CASES: dict[str, Callable[[Path, Path], Iterator[Arguments]]] = {}
"""The arguments of runs by command, from the folder of `world` and a new one for outputs."""


def case(function: Callable[[Path, Path], Iterator[Arguments]]) -> Callable[[Path, Path], Iterator[Arguments]]:
    CASES[function.__name__.strip("_")] = function
    return function


def record(seed: int, **properties: str) -> bytes:
    """Return a game of 40 moves, of which properties have a hostile value each."""
    points = random.Random(seed).sample([a + b for a in "abcdefghi" for b in "abcdefghi"], 40)
    values = dict.fromkeys(PROPERTIES, EVIL)
    escaped = ((key, value.replace("\\", "\\\\").replace("]", "\\]")) for key, value in (values | properties).items())
    text = "".join(f"{key}[{value}]" for key, value in escaped if value)
    moves = "".join(f";{'BW'[k % 2]}[{point}]" for k, point in enumerate(points))
    return f"(;GM[1]FF[4]CA[UTF-8]SZ[9]{text}{moves})".encode()


def archive(path: Path, **properties: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for k in range(12):
            file.writestr(f"{EVIL}/{EVIL}-{k}.sgf", record(k, **properties))
        file.writestr(f"{EVIL}.sgf", b"(;GM[1]SZ[9];B[aa];W[aa])")
        file.writestr(f"bad{EVIL}.sgf", b"(;GM[1]SZ[" + EVIL.encode())
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / EVIL
    folder.mkdir()
    archive(folder / f"{PATH}.zip")
    archive(folder / "fair.zip", KM="6.5", RU="Chinese", RE="B+3.5", HA="")
    records = folder / f"records{PATH}"
    records.mkdir()
    (records / f"{PATH}.sgf").write_bytes(record(1))
    (records / f"{PATH}.txt").write_bytes(b"left out")
    for name, sources in {"a": ["fair.zip"], "b": ["fair.zip", f"records{PATH}"]}.items():
        done = run("ingest", *(folder / source for source in sources), "-o", folder / f"{name}.parquet")
        assert done.code == 0, done.err
    about = pq.read_metadata(folder / "a.parquet").metadata
    schema = pq.read_schema(folder / "a.parquet")
    with (folder / f"{PATH}.parquet").open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        writer.write_table(pq.read_table(folder / "a.parquet"))
        evil = {b"clean": json.dumps(EVIL), EVIL.encode(): json.dumps([EVIL])}
        writer.add_key_value_metadata({key: value for key, value in about.items() if key != b"ARROW:schema"} | evil)
    net = tiny_net(folder / f"net{EVIL}{SUFFIX}", passes=True)
    with safe_open.safe_open(net, "pt") as file:
        about = json.loads(file.metadata()["kifu-net"])
        del about["kifu-blake3"]
    about |= {"recipe": {"name": EVIL, EVIL: EVIL}, "trained": {EVIL: EVIL, "seconds": EVIL}}
    tensors = safetensors.load_file(net)
    safetensors.save_file(tensors, net, {"kifu-net": json.dumps(about), EVIL: EVIL})
    (folder / f"net{PATH}{SUFFIX}").write_bytes(net.read_bytes())
    safetensors.save_file(tensors, folder / f"keys{SUFFIX}", {"kifu-net": json.dumps(about | {EVIL: 1})})
    safetensors.save_file(tensors | {EVIL: tensors["games"]}, folder / f"odd{SUFFIX}", {"kifu-net": json.dumps(about)})
    line = json.dumps(EVIL)
    tables = {"key": f"{line} = {line}", "name": f"name = {line}", "junk": f"{EVIL} = 1", "latin": "# \x9b\u202e\nx=1"}
    for name, text in tables.items():
        (folder / f"{name}{PATH}.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / f"{EVIL}.csv").write_text(f'file\n"{EVIL}"\n')
    (folder / "index.html").write_text(
        f'<html><a href="{EVIL}/KGS-2001-19-2298-.tar.gz">x</a><a href="KGS-2002-19-1-.tar.gz"></html>'
    )
    return folder


class Stream(io.TextIOWrapper):
    """A stream as the interpreter opens it for UTF-8, which may be a terminal."""

    def __init__(self, terminal: bool, errors: str) -> None:
        super().__init__(io.BytesIO(), "utf-8", errors, write_through=True, newline="")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def shown(arguments: Arguments, terminal: bool) -> tuple[str, str]:
    """Run a command in this process; return both outputs, of a terminal without what only rich writes."""
    out, err = Stream(terminal, "strict"), Stream(terminal, "backslashreplace")
    with (
        mock.patch.object(sys, "argv", ["kifu", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": "100", "TERM": "xterm-256color"}),
        mock.patch.dict(os.environ),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        os.environ.pop("NO_COLOR", None)
        main()
    texts = out.text(), err.text()
    if terminal:  # cursor movements and colours, and none that blinks
        return tuple(re.sub(r"\x1b\[(?!5m)\??[\d;]*[A-Za-z]|\r(?=[\x1b\n]|$)", "", text) for text in texts)  # type: ignore[return-value]
    return texts


def problems(text: str) -> list[str]:
    faults = {
        "unprintable": "".join(sorted({f"|{re.escape(c)}" for c in text if not c.isprintable() and c != "\n"}))[1:],
        "forged": rf"(?m)^\s*{LIE}",
        "emoji": "\N{BOMB}",
        "crash": r"(?m)^kifu: unexpected [A-Z]|^Traceback",
    }
    found = ((name, re.search(pattern, text)) for name, pattern in faults.items() if pattern)
    return [f"{name}: {text[max(m.start() - 100, 0) : m.end() + 100]!a}" for name, m in found if m]


def common(world: Path) -> Iterator[Arguments]:
    yield from ([f"--{EVIL}"], [EVIL] * 4, [world / PATH] * 2, ["--json", world / PATH / "x"])
    yield from (["--jobs", EVIL], ["-o", f"s3://{EVIL}"], ["--set", EVIL])
    yield from ([world / f"{PATH}.parquet", option, "\udcff"] for option in ("--player", "--set", "--net"))
    yield from ([world / f"{each}{PATH}.toml"] * 2 for each in ("key", "name"))


@pytest.mark.parametrize("name", [*(name for name in COMMANDS if name not in LONG), *slow(*LONG)])
def test_only_printable_text_is_printed(
    name: str, world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    failures = []

    def check(arguments: Arguments, terminal: bool) -> None:
        into = tmp_path / str(len(list(tmp_path.iterdir())))
        into.mkdir()
        given = [name, *(str(each).replace("{out}", str(into)) for each in arguments)]
        for stream, text in zip(("out", "err"), shown(given, terminal)):
            failures.extend(f"{arguments!a} ({stream}): {each}" for each in problems(text))

    for arguments in common(world):
        check(arguments, terminal=False)
        check([*arguments, "--verbose"], terminal=True)
    for k, arguments in enumerate(CASES[name](world, tmp_path)):
        check(arguments, terminal=False)
        if k % 2 or name in ("demo", "gtp", "serve"):
            check(arguments, terminal=True)
        else:
            check([*arguments, "--json", "-"], terminal=False)
    captured = capfd.readouterr()
    failures += problems(captured.out + captured.err)
    assert not failures, "\n".join(failures)


def test_objects_are_one_printable_line(world: Path, tmp_path: Path) -> None:
    (game, *_), catalogue = kifu.read(world / f"{PATH}.zip"), kifu.open_catalogue(world / f"{PATH}.parquet")
    net = kifu.open_net(world / f"net{EVIL}{SUFFIX}")
    reports = [kifu.ingest(world / f"{PATH}.zip", tmp_path / f"{EVIL}{k}") for k in (1, 1)]
    reports.append(kifu.split(catalogue.path, tmp_path / EVIL / "sets"))
    reports += kifu.build(recipe(tmp_path / "x.toml"), world / f"{PATH}.parquet", tmp_path / EVIL)
    with kifu.open(tmp_path / EVIL / "all.parquet") as data, kifu.query("select 1", world / f"{PATH}.parquet") as query:
        for each in (game, catalogue, kifu.stats(catalogue.path), net, net.about, data, query, *reports):
            assert not problems(repr(each))
            assert len(repr(each).splitlines()) == 1
    assert str(game).isprintable()
    picture = game._repr_svg_()
    assert picture is not None
    assert not problems(picture)


def test_texts_of_other_libraries_are_printable(world: Path) -> None:
    def warn(*_: object) -> None:
        warnings.warn(EVIL, UserWarning, stacklevel=1)
        logging.getLogger("other").warning(EVIL)
        logging.getLogger("kifu").warning(EVIL)
        raise RuntimeError(EVIL)

    with (
        mock.patch("kifu.report.games.find_game", warn),
        mock.patch.object(logging.root, "handlers", []),
        warnings.catch_warnings(action="always"),
    ):
        _, err = shown(["show", world / f"{PATH}.zip", "--game", 1, "--verbose"], terminal=False)
    line = EVIL.encode("unicode_escape").decode()
    assert [each for each in err.splitlines() if not each.startswith("  ")] == [
        f"kifu: UserWarning: {line}", line, f"kifu: {line}",
        f"kifu: unexpected RuntimeError: {line.partition(chr(92) + 'u2028')[0]}; --verbose shows the traceback",
    ]  # fmt: skip
    assert f"  RuntimeError: {line.replace(chr(92) + 'n', chr(10) + '  ')}\n" in err
    assert err.isascii()


def test_a_recipe_is_shown_as_toml(tmp_path: Path) -> None:
    text = run("list", "recipes", recipe(tmp_path / "x.toml")).out
    assert text.startswith("# \\x9b5m\\u202e\n        kind = ")
    assert tomllib.loads(text)["format"] == "parquet"


def test_csv_is_data_unless_a_terminal_shows_it(world: Path) -> None:
    given = ["query", "select black from games where index = 0 limit 2", world / f"{PATH}.parquet", "-o", "-"]
    rows = list(csv.reader(io.StringIO(shown(given, terminal=False)[0], newline="")))
    assert rows[0] == ["black"]
    assert LIE in rows[1][0]
    assert "\x1b" in rows[1][0]
    escaped = shown(given, terminal=True)[0]
    assert not problems(escaped)
    assert [[printable(field) for field in row] for row in rows] == list(csv.reader(escaped.splitlines()))


def test_streams_of_other_encodings_do_not_fail(world: Path) -> None:
    out = io.TextIOWrapper(io.BytesIO(), "latin-1", write_through=True)
    with mock.patch.object(sys, "argv", ["kifu", "show", str(world / "name.sgf")]), contextlib.redirect_stdout(out):
        (world / "name.sgf").write_bytes(record(1, PB="柯洁"))
        with pytest.raises(SystemExit, match="0"):
            main()
    assert out.buffer.getvalue().startswith(b"\\u67ef\\u6d01 - ")  # type: ignore[attr-defined]


@case
def ingest(world: Path, out: Path) -> Iterator[Arguments]:
    parts = out / f"parts{EVIL}"
    for source in (f"{PATH}.zip", f"records{PATH}", f"{PATH}.parquet"):
        yield [world / source, "-o", f"{{out}}/{PATH}.parquet"]
        yield [world / source, "-o", parts]
        yield [world / source, "-o", parts]
    yield [world / f"{PATH}.zip", "-o", parts, "--dry-run"]
    yield [world / f"{PATH}.zip", "-o", parts, "--clean", world / f"key{PATH}.toml"]
    yield [world / f"{PATH}.zip", "-o", parts, "--clean", EVIL]
    yield [world / f"{PATH}.zip", "-o", parts, "--set", f"{EVIL}=1"]
    yield [world / f"{PATH}.zip", "-o", parts, "--engine", EVIL]
    merged = out / f"merged{EVIL}"
    run("ingest", world / f"{PATH}.parquet", "-o", merged)
    yield ["--compact", "-o", merged, "--dry-run"]
    yield ["--compact", "-o", merged]
    yield ["--compact", "-o", world / f"{PATH}.parquet"]
    index = merged / "catalogue.json"
    for change in ({EVIL: EVIL}, {"parts": [EVIL]}, {"clean": {EVIL: EVIL}}):
        index.write_text(json.dumps(json.loads(read_small(index)) | change))
        yield ["--compact", "-o", merged]


@case
def stats(world: Path, out: Path) -> Iterator[Arguments]:
    yield [world / f"{PATH}.parquet", world / "b.parquet"]
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}.svg"]
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}"]


@case
def query(world: Path, out: Path) -> Iterator[Arguments]:
    columns = "archive, member, black, white, black_rank, date_text, event, place, result_text, komi_text, drop_detail"
    for sql in (
        f"select {columns} from games", f'select 1 as "{EVIL}"', f"select '{EVIL}'", f"select ['{EVIL}']",
        "select error(black) from games", "select black::int from games", f"select {EVIL}", EVIL, f'select "{EVIL}"',
        f"select {{'{EVIL}': 1}}", f"select '{EVIL}'::blob", f"select map(['{EVIL}'], [1])", f"copy '{EVIL}'",
    ):  # fmt: skip
        yield [sql, world / f"{PATH}.parquet"]
    yield ["select * from games", world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}.csv"]
    yield ["select * from games", world / f"{PATH}.parquet", "-o", f"{{out}}/{PATH}.parquet"]
    yield ["select * from games", world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}"]


@case
def split(world: Path, out: Path) -> Iterator[Arguments]:
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}"]
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}", "--dry-run"]
    yield [world / f"{PATH}.parquet", "-o", "{out}", "--set", f'split.{EVIL}="{EVIL}"']
    games, split = out / "games.txt", out / "split.toml"
    games.write_text(f"{EVIL}\na/{EVIL}.sgf\n")
    for path in (games, EVIL):
        split.write_text(
            f'name = "x"\ntitle = "x"\n[split]\nkind = "list"\nsets = {{train = {json.dumps(str(path))}}}\n'
        )
        yield [world / f"{PATH}.parquet", "-o", "{out}", "--by", split]
    for name in ("key", "name", "junk", "latin"):
        yield [world / f"{PATH}.parquet", "-o", "{out}", "--by", world / f"{name}{PATH}.toml"]


@case
def audit(world: Path, out: Path) -> Iterator[Arguments]:
    yield [world / f"{PATH}.parquet", world / "b.parquet"]
    yield [world / "a.parquet", world / f"{PATH}.zip"]


@case
def search(world: Path, out: Path) -> Iterator[Arguments]:
    games = world / f"{PATH}.parquet"
    (world / f"pattern{PATH}.sgf").write_bytes(record(1, LB=f"aa:{EVIL}"))
    (world / f"pattern{PATH}.txt").write_text(f"{EVIL}: {EVIL}\nX", "utf-8", "surrogatepass")
    for pattern in ("X", "X", EVIL, f"{EVIL}: X/X", f"anchor: {EVIL}/X", f"X/{EVIL}", f"1 at {EVIL}/1"):
        yield [games, pattern]
    for name in (f"pattern{PATH}.sgf", f"pattern{PATH}.txt", f"{PATH}.parquet"):
        yield [games, world / name]
    yield [games, "X", "-o", f"{{out}}/{PATH}.svg", "--hits", f"{{out}}/{EVIL}.parquet"]
    yield [games, "X", "-o", f"{{out}}/{PATH}.parquet"]
    for option in ("-o", "--hits", "--anchor", "--next", "--player", "--where", "--years"):
        yield [games, "X", option, EVIL]
    yield [games, "X", "--player", f"{EVIL} "]


@case
def explore(world: Path, out: Path) -> Iterator[Arguments]:
    games = world / f"{PATH}.parquet"
    for position in (
        "A1",
        "A1",
        "1@2",
        "1@999",
        EVIL,
        f"{PATH}.sgf",
        f"Q16 {EVIL}",
        world / f"records{PATH}" / f"{PATH}.sgf",
    ):
        yield [games, position, "--table"]
    for option in ("-o", "--player", "--where", "--years", "--board"):
        yield [games, option, EVIL]
    yield [games, "-o", f"{{out}}/{PATH}.svg"]
    parts = out / f"parts{EVIL}"
    run("ingest", games, "-o", parts)
    yield [parts]


def recipe(path: Path) -> Path:
    path.write_text(
        '# \x9b5m\u202e\n\tkind = "examples"\nname = "x"\ntitle = "x"\n'
        'planes = "seven"\nboard = "9x9"\nformat = "parquet"\n'
    )
    return path


@case
def build(world: Path, out: Path) -> Iterator[Arguments]:
    for format in ("parquet", "npy", "hdf5"):
        yield [recipe(out / f"{EVIL}.toml"), world / f"{PATH}.parquet", "-o", f"{{out}}/{PATH}", "--format", format]
    yield [recipe(out / f"{EVIL}.toml"), world / f"{PATH}.zip", "-o", f"{{out}}/{PATH}", "--dry-run"]
    yield ["kgsgo-v2", world, "-o", f"{{out}}/{PATH}", "--sets", EVIL]
    yield ["kgsgo-v2", world, "-o", f"{{out}}/{PATH}", "--index", world / "index.html"]
    yield ["katago", world / "a.parquet", "-o", f"{{out}}/{PATH}"]
    yield ["olf-archive", world / "a.parquet", "-o", f"{{out}}/{PATH}"]
    for name in ("key", "name", "junk", "latin"):
        yield [world / f"{name}{PATH}.toml", world / f"{PATH}.parquet", "-o", "{out}"]


def tiny_recipe(folder: Path) -> Path:
    path = folder / "tiny.toml"
    path.write_text(
        'kind = "training"\nname = "x"\ntitle = "x"\nnet = "b1c8"\nplanes = "seven"\nboard = "9x9"\nbatch_size = 8\n'
        'validation = 0.5\nsteps = 2\n[optimizer]\nkind = "adamw"\nlr = 0.01\n'
    )
    return path


@case
def publish(world: Path, out: Path) -> Iterator[Arguments]:
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}"]
    yield [world / "a.parquet", "-o", f"{{out}}/{PATH}", "--title", EVIL]
    yield [world / "a.parquet", "-o", "{out}/a", "--license", EVIL]
    yield [world / "a.parquet", "-o", "{out}/a", "--version", EVIL]
    yield [world / "a.parquet", "-o", "{out}/a", "--previous", world / EVIL]
    yield [world / f"{PATH}.zip", "-o", "{out}/a"]


@case
def train(world: Path, out: Path) -> Iterator[Arguments]:
    tiny = tiny_recipe(out)
    yield [tiny, world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}"]
    yield [tiny, world / f"{PATH}.zip", "-o", out / EVIL, "--dry-run"]
    yield [tiny, world / f"{PATH}.zip", "--validate", world / "b.parquet", "-o", out / EVIL, "--dry-run"]
    yield [tiny, world / f"{PATH}.parquet", "--set", f'positions.where="{EVIL}"', "-o", out / EVIL, "--dry-run"]
    done = run("train", tiny, world / f"{PATH}.parquet", "-o", out / EVIL)
    assert done.code == 0, done.err
    yield [tiny, world / "b.parquet", "-o", out / EVIL, "--resume"]
    yield [tiny, world / f"{PATH}.parquet", "-o", out / EVIL, "--resume", "--set", f"name={EVIL}"]
    yield [tiny, world / f"{PATH}.parquet", "-o", f"{{out}}/{EVIL}", "--accelerator", EVIL]
    stored = json.loads(read_small(out / EVIL / "run.json"))
    (out / EVIL / "run.json").write_text(json.dumps(stored | {"recipe": {EVIL: EVIL}}))
    yield [tiny, world / f"{PATH}.parquet", "-o", out / EVIL, "--resume"]


@case
def annotate(world: Path, out: Path) -> Iterator[Arguments]:
    net = world / f"net{EVIL}{SUFFIX}"
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{PATH}", "--net", net, "--net", net]
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{PATH}", "--net", world / f"odd{SUFFIX}"]
    yield [world / f"{PATH}.zip", "-o", f"{{out}}/{PATH}", "--net", f"{EVIL} analysis", "--rank", EVIL]


@case
def evaluate(world: Path, out: Path) -> Iterator[Arguments]:
    net = world / f"net{EVIL}{SUFFIX}"
    page = ["--html", f"{{out}}/{EVIL}.html"]
    yield [world / f"{PATH}.parquet", "--net", net, "--net", net, "--positions", 20, *page]
    yield [world / f"{PATH}.zip", "--net", net, "--positions", 20]
    yield [world / f"{PATH}.parquet", "--net", net, "--overlap", EVIL]
    yield [world / f"{PATH}.parquet", "--net", world / f"odd{SUFFIX}"]
    yield [world / f"{PATH}.zip", "--net", net, "--set", "all"]
    yield [world / f"{PATH}.parquet", "--net", net, "--set", EVIL, "-o", f"{{out}}/{EVIL}.md"]
    (out / f"{EVIL}.json").write_text(json.dumps({"version": 1, "kifu": EVIL, "sets": [], EVIL: EVIL}))
    yield ["--compare", out / f"{EVIL}.json"]


@case
def predict(world: Path, out: Path) -> Iterator[Arguments]:
    net = world / f"net{EVIL}{SUFFIX}"
    yield [world / f"{PATH}.zip", "--net", net]
    yield [world / f"{PATH}.parquet", "--net", net, "--game", 7]
    yield [world / f"{PATH}.parquet", "--net", net, "--game", 3, "-o", f"{{out}}/{EVIL}.svg"]
    yield [world / f"{PATH}.zip", "--net", world / f"keys{SUFFIX}"]


@case
def mix(world: Path, out: Path) -> Iterator[Arguments]:
    nets = [shutil.copy(world / f"net{EVIL}{SUFFIX}", out / f"{k}{EVIL}{SUFFIX}") for k in "ab"]
    options = [word for net in nets for word in ("--net", net)]
    yield [world / f"{PATH}.parquet", "-o", out / f"{EVIL}.mix", *options, "--positions", 20]
    yield [world / f"{PATH}.zip", "-o", f"{{out}}/{PATH}", *options]
    yield [world / f"{PATH}.parquet", "-o", f"{{out}}/{PATH}.mix", "--net", world / f"odd{SUFFIX}"]


@case
def problems_(world: Path, out: Path) -> Iterator[Arguments]:
    yield [world / f"{PATH}.parquet", "--ranks", EVIL]
    yield [world / f"{PATH}.zip"]


@case
def export(world: Path, out: Path) -> Iterator[Arguments]:
    yield [world / f"net{EVIL}{SUFFIX}", "-o", f"{{out}}/{EVIL}.onnx", "--dry-run"]
    yield [world / f"odd{SUFFIX}", "-o", "{out}/x.onnx"]


@case
def gtp(world: Path, out: Path) -> Iterator[Arguments]:
    lines = [
        EVIL, f"loadsgf {PATH}", f"loadsgf {world}/records{PATH}/{PATH}.sgf", f"play b {EVIL}", f"boardsize {EVIL}",
    ]  # fmt: skip
    (out / "records").symlink_to(world / f"records{PATH}")
    lines += [f"loadsgf {out}/records", "version", "name", f"{EVIL} 1", "genmove b", "showboard", "quit"]
    reading, writing = os.pipe()
    os.write(writing, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    os.close(writing)
    with mock.patch("kifu.play.gtp.os.read", lambda _, size, read=os.read: read(reading, size)):
        yield [world / f"net{EVIL}{SUFFIX}"]
    os.close(reading)


@case
def serve(world: Path, out: Path) -> Iterator[Arguments]:
    catalogue = world / f"{PATH}.parquet"
    yield [world / f"{EVIL}.parquet"]
    yield [catalogue, "--report", world / f"keys{SUFFIX}"]
    yield [catalogue, "--records", out / EVIL]
    yield [catalogue, "--host", EVIL]
    yield [catalogue, "--token", EVIL]
    yield [catalogue, "--port", 0, "--net", world / f"keys{SUFFIX}"]


ENGINE = f"""import sys
for line in sys.stdin:
    name = line.split()[0]
    if name == "quit":
        break
    if name == "genmove" and "crash" in sys.argv:
        sys.exit({EVIL!a}.replace(chr(10), " "))
    evil = name in sys.argv
    sys.stdout.write(("?" if "?" in sys.argv and evil else "=") + ({EVIL!a} if evil else "pass") + "\\n\\n")
    sys.stdout.flush()
"""


@case
def match(world: Path, out: Path) -> Iterator[Arguments]:
    (out / "engine.py").write_text(ENGINE)
    fair = f"{sys.executable} -S {out}/engine.py"
    for words in ("name version", "genmove", "play ?", "final_score", "crash", "boardsize ?"):
        yield [f"{fair} {words}", fair, "-o", f"{{out}}/{EVIL}", "--games", 1, "--board", "5x5"]
    results = out / "match.json"
    for content in ({EVIL: 1}, {"version": EVIL}, EVIL):
        results.write_text(json.dumps(content))
        yield [fair, fair, "-o", out, "--games", 1, "--board", "5x5"]
    yield [EVIL, EVIL, "-o", "{out}"]


@case
def show(world: Path, out: Path) -> Iterator[Arguments]:
    names = [f"{PATH}.zip", f"records{PATH}", f"{PATH}.parquet", f"net{EVIL}{SUFFIX}", f"net{PATH}{SUFFIX}"]
    names += [f"keys{SUFFIX}", f"odd{SUFFIX}"]
    yield from ([world / name] for name in [*names, f"name{PATH}.toml", f"{EVIL}.csv", f"records{PATH}/{PATH}.sgf"])
    sets = out / PATH
    run("build", recipe(out / "x.toml"), world / f"{PATH}.parquet", "-o", sets)
    for path in sets.iterdir():
        yield [path]
        yield [path, "--row", 3]
        yield [path, "--row", 3, "-o", f"{{out}}/{EVIL}.svg"]
        yield [path, "--row", 999999]
    (manifest,) = sets.glob("*.manifest.json")
    whole = json.loads(read_small(manifest))
    for change in ({"recipe": {"name": EVIL}}, {"set": EVIL, "drops": {EVIL: 0}}, {EVIL: EVIL}, {"format": EVIL}):
        manifest.write_text(json.dumps(whole | change))
        yield from ([path] for path in sets.iterdir())
    for name in (f"{PATH}.zip", f"records{PATH}", f"{PATH}.parquet"):
        for game in (1, 7, 8, 99):
            yield [world / name, "--game", game]
        yield [world / name, "-o", f"{{out}}/{EVIL}.svg"]


@case
def convert(world: Path, out: Path) -> Iterator[Arguments]:
    for name in (f"{PATH}.zip", f"records{PATH}", f"{PATH}.parquet"):
        for suffix in (".sgf", ".olf.gz", ".zip", ""):
            yield [world / name, "-o", f"{{out}}/{EVIL}{suffix}"]
    yield [world / f"{PATH}.zip", "-o", f"{{out}}/{EVIL}.sgf", "--dry-run"]


@case
def fetch(world: Path, out: Path) -> Iterator[Arguments]:
    yield ["sample", "-o", f"{{out}}/{PATH}"]
    yield ["sample", "-o", f"{{out}}/{PATH}", "--dry-run"]
    for more in (["--all", "--dry-run"], ["--list"], ["--dates", EVIL], [EVIL], ["--list", EVIL]):
        yield ["kgs", "-o", f"{{out}}/{EVIL}", "--index", world / "index.html", *more]
    yield ["kgs", "--all", "-o", f"{{out}}/{EVIL}", "--index", f"ftp://{EVIL}"]
    yield [EVIL]


@case
def demo(world: Path, out: Path) -> Iterator[Arguments]:
    yield ["-o", world / f"{EVIL}.csv"]
    yield ["-o", out, "--time", EVIL]


@case
def list_(world: Path, out: Path) -> Iterator[Arguments]:
    yield [EVIL]
    for kind in ("recipes", "rules", "planes", "formats", "nets", "sets", "ranks"):
        yield from ([kind, name] for name in (EVIL, f"own+{EVIL}", f"own+opp+{EVIL}", f"b1c{EVIL}"))
    for path in (recipe(out / f"{EVIL}.toml"), *(world / f"{name}{PATH}.toml" for name in ("key", "latin"))):
        yield ["recipes", path]
        yield ["rules", path]

"""Existing outputs: foreign ones stay, those of the same inputs and options stay, others wait for --overwrite."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Done, is_error, run
from kgs_archives import archive, record, records
from kifu.corpus.ingest import ingest
from marks import slow

_TRAIN = "-o out --set clean=legal --sets train"
COMMANDS = {  # arguments for the first and for other inputs or options, and the path that is written
    "ingest": ("{a}.tar.gz -o out.parquet", "{b}.tar.gz -o out.parquet", "out.parquet"),
    "split": ("{a}.parquet -o out", "{b}.parquet -o out", "out/train.parquet"),
    "publish": ("{a}.parquet -o out", "{a}.parquet -o out --author me", "out"),
    "build": (f"tokens {{a}}.parquet {_TRAIN}", f"tokens {{b}}.parquet {_TRAIN}", "out/train"),
    "build npy": (f"book-seven {{a}}.parquet {_TRAIN}", f"book-seven {{b}}.parquet {_TRAIN}", "out/train"),
    "build npz": ("katago {a}.parquet -o out --sets train", "katago {b}.parquet -o out --sets train", "out/train"),
    "build seed": (f"agz17 {{a}}.parquet {_TRAIN}", f"agz17 {{a}}.parquet {_TRAIN} --set seed=1", "out/train.parquet"),
    "convert": ("{a}.tar.gz -o out.zip", "{b}.tar.gz -o out.zip", "out.zip"),
    "convert to sgf": ("{a}.tar.gz -o out.sgf.bz2", "{b}.tar.gz -o out.sgf.bz2", "out.sgf.bz2"),
    "annotate": ("{a}.parquet -o out.parquet --net small", "{b}.parquet -o out.parquet --net small", "out.parquet"),
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    for name, games in (("a", 8), ("b", 9)):
        played = [game.replace(b"PB[", b"RE[B+R]RU[Japanese]KM[6.5]PB[") for game in records(games, games)]
        archive(folder / name, played).rename(folder / f"{name}.tar.gz")
        ingest(folder / f"{name}.tar.gz", folder / f"{name}.parquet")
    return {name: str(folder / name) for name in "ab"}


@pytest.fixture(params=[*(name for name in COMMANDS if name != "annotate"), *slow("annotate")])
def call(
    request: pytest.FixtureRequest, inputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)
    shutil.copy(f"{inputs['a']}.parquet", "g.parquet")
    first, other, path = COMMANDS[request.param]

    def call_command(*options: str, others: bool = False) -> Done:
        return run(request.param.split()[0], *(other if others else first).format(**inputs).split(), *options)

    call_command.path = Path(path)  # type: ignore[attr-defined]
    call_command.mends = request.param.startswith(("build", "convert"))  # type: ignore[attr-defined]
    return call_command


def content(path: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in (path, *path.rglob("*")) if each.is_file()}


def test_own_outputs(call: Callable[..., Done]) -> None:
    path = call.path  # type: ignore[attr-defined]
    assert call().code == 0
    before, written = content(path), path.stat().st_mtime_ns
    for options in ((), ("--overwrite",)):
        again = call(*options)
        assert (again.code, content(path), path.stat().st_mtime_ns) == (0, before, written)
        assert "was there already" in f"{again.out} {again.err}"
    refused = call(others=True)
    assert (refused.code, content(path)) == (2, before)
    assert refused.err[-1].endswith("; --overwrite replaces it")
    assert call("--overwrite", others=True).code == 0
    assert content(path) != before
    others = content(path)
    assert (call(others=True).code, content(path)) == (0, others)


@pytest.mark.parametrize("kind", ["file", "folder", "damaged"])
def test_foreign_and_damaged_outputs_stay(call: Callable[..., Done], kind: str) -> None:
    path = call.path  # type: ignore[attr-defined]
    path.parent.mkdir(exist_ok=True)
    if kind == "damaged":
        assert call().code == 0
        whole = content(path)
        file = next(each for each in content(path) if each.suffix not in ("", ".json", ".md"))
        file.write_bytes(file.read_bytes()[:-9])
    elif kind == "folder":
        path.mkdir()
        (path / "notes.txt").write_text("mine")
    else:
        path.write_text("mine")
    before = content(path)
    for options in ((), ("--overwrite",) * (kind != "damaged")):
        done = call(*options)
        assert (done.code, content(path)) == (2, before)
        assert "exists" in done.err[-1] or "contains" in done.err[-1]
    if kind == "damaged":
        mended = (0, whole) if call.mends else (2, before)  # type: ignore[attr-defined]
        assert (call("--overwrite").code, content(path)) == mended


def test_files_without_an_origin_need_the_option(inputs: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "board.svg"
    path.write_text("mine")
    line = ("show", f"{inputs['a']}.tar.gz", "-o", path)
    is_error(run(*line), f"{path} exists; --overwrite replaces it")
    assert path.read_text() == "mine"
    assert run(*line, "--overwrite").code == 0
    assert path.read_text() != "mine"
    is_error(run("stats", f"{inputs['a']}.parquet", "--json", path), f"{path} exists; --overwrite replaces it")
    assert run("stats", f"{inputs['a']}.parquet", "--json", "/dev/null").code == 0


@pytest.mark.parametrize("name", ["x.csv", "x.SGF", "x.tar.gz", "x.json", "x.db"])
def test_a_catalogue_has_no_other_suffix(inputs: dict[str, str], tmp_path: Path, name: str) -> None:
    for options in ((), ("--dry-run",)):
        is_error(run("ingest", f"{inputs['a']}.tar.gz", "-o", tmp_path / name, *options), "folder", name)
    assert not (tmp_path / name).exists()
    assert run("ingest", f"{inputs['a']}.tar.gz", "-o", tmp_path / "kgs-2019.01").code == 0


def test_a_folder_of_records_is_the_same_while_its_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.sgf").write_bytes(record(1))
    line = ("ingest", tmp_path / "in", "-o", tmp_path / "g.parquet")
    assert [run(*line).code for _ in range(2)] == [0, 0]
    (tmp_path / "in/1.sgf").write_bytes(record(2))
    is_error(run(*line), "made from other inputs")
    assert run(*line, "--overwrite").code == 0

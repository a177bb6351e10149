"""Output folders that are removed or replaced during a build: one error, no manifest, and no folder is made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kgs_archives import archive, records
from kifu.assets import sample_path
from kifu.config import check_config
from kifu.corpus.ingest import ingest
from kifu.corpus.splits import split
from kifu.corpus.update import append, compact
from kifu.errors import KifuError
from kifu.progress import Progress
from kifu.recipes import kgsgo
from kifu.recipes.pipeline import build
from kifu.recipes.schema import ExamplesRecipe, load_recipe
from marks import slow, thorough
from slow_writer import CHUNK, SETTINGS

MINE: dict[str, Any] = {
    "kind": "examples", "name": "mine", "title": "a recipe of my own", "planes": "seven", "format": "npy",
    "split": {"kind": "hash", "sets": {"train": 2.0, "test": 1.0}},
}  # fmt: skip


class Removed:
    """A progress factory that changes the folder at the event of a number."""

    def __init__(self, change: Callable[[], object], at: int) -> None:
        self.change, self.at, self.events = change, at, 0

    def count(self) -> None:
        if self.events == self.at:
            self.change()
        self.events += 1

    @contextmanager
    def __call__(self, label: str, total: int | None, unit: str) -> Iterator[Progress]:
        self.count()
        yield mock.Mock(advance=lambda n=1: self.count())
        self.count()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    archive(folder, records(30, 1, 60), year=2001)
    archive(folder, records(30, 2, 60), year=2002)
    ingest(folder, folder.parent / "games.parquet")
    ingest(sample_path(), folder.parent / "sample.parquet")
    return folder


def build_dat(source: Path, into: Path, progress: Any) -> None:
    with mock.patch.object(kgsgo, "_CHUNK_BYTES", CHUNK):
        build(load_recipe("kgsgo-v2", SETTINGS), source, into, sets=["test", "trainall"], jobs=1, progress=progress)


def build_examples(source: Path, into: Path, progress: Any) -> None:
    build(check_config(ExamplesRecipe, MINE, "recipe", "mine"), source, into, jobs=1, progress=progress)


def build_katago(source: Path, into: Path, progress: Any) -> None:
    recipe = load_recipe("katago", ["rows_per_file=1000", "compression=fast"])
    build(recipe, source.parent / "sample.parquet", into, sets=["train"], jobs=1, progress=progress)


def build_olf(source: Path, into: Path, progress: Any) -> None:
    build(load_recipe("olf-archive"), source.parent / "sample.parquet", into, jobs=1, progress=progress)


def ingest_folder(source: Path, into: Path, progress: Any) -> None:
    append(source, into, jobs=1, progress=progress)


def ingest_file(source: Path, into: Path, progress: Any) -> None:
    ingest(source, into / "games.parquet", jobs=1, progress=progress)


def split_games(source: Path, into: Path, progress: Any) -> None:
    split(source.parent / "games.parquet", into, progress=progress)


def compact_folder(source: Path, into: Path, progress: Any) -> None:
    append(source, into, jobs=1)
    compact(into, jobs=1, progress=progress)


def files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


COMMANDS = [build_dat, build_examples, build_olf, ingest_folder, ingest_file, split_games, compact_folder]
MORE = ("renamed", "replaced")


@pytest.mark.parametrize(
    ("command", "how"),
    [
        *((command, "removed") for command in COMMANDS),
        *slow((build_katago, "removed"), *((command, how) for command in COMMANDS for how in MORE)),
        *thorough(*((build_katago, how) for how in MORE)),
    ],
)
def test_a_folder_that_is_gone(command: Callable[..., None], how: str, source: Path, tmp_path: Path) -> None:
    undisturbed = Removed(lambda: None, -1)
    command(source, tmp_path / "good", undisturbed)
    assert undisturbed.events > 2
    into = tmp_path / "out"

    def change() -> None:
        into.rename(tmp_path / f"gone{removed.at}")
        if how == "removed":
            shutil.rmtree(tmp_path / f"gone{removed.at}")
        elif how == "replaced":
            into.mkdir()

    events = range(undisturbed.events - 1)  # all is done before the last one
    for at in {*events[:4], *events[:: max(undisturbed.events // 4, 1)], *events[-4:]}:
        removed = Removed(lambda: into.exists() and change(), at)
        shutil.rmtree(into, ignore_errors=True)
        failed = False
        try:
            command(source, into, removed)
        except KifuError:
            failed = True
        # Without an error, the folder did not exist yet.
        assert (failed and not into.exists()) or files(into) == (set() if failed else files(tmp_path / "good")), at

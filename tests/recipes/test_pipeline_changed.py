"""Archives replaced between hashing and reading: no output claims the hash of one and has the games of the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgs_archives import archive, records
from kifu.corpus import ingest as ingesting
from kifu.corpus import sources, update
from kifu.corpus.ingest import ingest
from kifu.errors import SourceError
from kifu.recipes import kgsgo, olf_archive, pipeline
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from slow_writer import SETTINGS

COMMANDS: dict[str, Callable[[Path, Path], Any]] = {
    "ingest": lambda source, output: ingest(source, output / "games.parquet", jobs=1),
    "append": lambda source, output: update.append(source, output / "games", jobs=1),
    "kgsgo": lambda source, output: build(load_recipe("kgsgo-v2", SETTINGS), source, output, sets=["test"], jobs=1),
    "examples": lambda source, output: build(load_recipe("agz17"), source, output, jobs=1),
    "olf": lambda source, output: build(load_recipe("olf-archive"), source, output / "lines", jobs=1),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_replaced_archive_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    path = archive(tmp_path / "source", records(60, 1, 100), year=2001)
    other = archive(tmp_path / "other", records(60, 2, 100), year=2001)
    hash_sources = sources.hash_sources

    def replaced(*arguments: Any) -> list[sources.Source]:
        hashed = hash_sources(*arguments)
        shutil.copy(other, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
        return hashed

    for module in (ingesting, update, kgsgo, olf_archive, pipeline):
        monkeypatch.setattr(module, "hash_sources", replaced)
    with pytest.raises(SourceError) as error:
        COMMANDS[command](path.parent, tmp_path / "output")
    assert str(error.value) == f"{path}: it changed while it was read"
    assert [file.name for file in (tmp_path / "output").rglob("*") if file.is_file()] == []

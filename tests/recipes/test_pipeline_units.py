"""Builds in units that are sent as bytes, as on a cluster: the files are those that threads make."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import tree
from example_sets import bytes_of
from kgs_archives import BROKEN, archive, record
from kifu.config import check_config
from kifu.corpus import catalogue
from kifu.corpus import sources as corpus_sources
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest, mark_duplicates
from kifu.datasets import manifest
from kifu.errors import OutputError
from kifu.execution.executor import THREADS
from kifu.katago import build as katago_build
from kifu.katago import npz as katago_npz
from kifu.katago import select as katago_select
from kifu.katago.build import _piece_bounds
from kifu.progress import silent
from kifu.recipes import examples, kgsgo, pipeline
from kifu.recipes.pipeline import build
from kifu.recipes.schema import ExamplesRecipe, load_recipe
from serializing import ENGINE, SerializingExecutor, install

SPLIT = {"kind": "hash", "sets": {"train": 2.0, "test": 1.0}}


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kgs")
    properties = b"SZ[19]RU[Chinese]KM[7.5]RE[B+R]BR[3d]DT[2006-07-01]"
    for year in (2001, 2002):
        games = [record(f"{year}-{k}", 34, 2 + k % 4 if k % 4 == 3 else 0) for k in range(14)]
        archive(folder, [*(each.replace(b"SZ[19]", properties) for each in games), *BROKEN.values()], year=year)
    return folder


@pytest.fixture(scope="module")
def catalogues(kgs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("catalogues")
    paths = []
    for number, source in enumerate(sorted(kgs.iterdir())):
        ingest(source, folder / "whole.parquet", overwrite=True)
        paths.append(folder / f"{number}.parquet")
        pq.write_table(pq.read_table(folder / "whole.parquet"), paths[-1], row_group_size=5)
    return paths


def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut catalogues into shards of ten games, and these into small chunks."""
    install(monkeypatch)
    for module, name, value in (
        (catalogue, "_SHARD_ROWS", 10), (examples, "CHUNK_BYTES", 50_000), (examples, "_GAMES", 4),
        (examples, "WINDOW_BYTES", 60_000), (manifest, "GROUP_ROWS", 100), (katago_select, "_GAMES", 4),
        (katago_build, "_GAMES", 3), (katago_npz, "_PIECE_ROWS", 64), (kgsgo, "_CHUNK_BYTES", 30_000),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def same_for_all(make: Any, folder: Path) -> list[Any]:
    """Return the results of `make` with one thread, two threads and serialized shards, which write the same files."""
    made = [
        make(folder / name, jobs=jobs, engine=engine)
        for name, jobs, engine in (("one", 1, THREADS), ("two", 2, THREADS), ("sent", 1, ENGINE))
    ]
    one, two, sent = (tree(folder / name) for name in ("one", "two", "sent"))
    assert one.keys() == two.keys() == sent.keys()
    assert [name for name in one if one[name] != two[name] or one[name] != sent[name]] == []
    return made


@pytest.fixture(name="cut_small")
def _cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)


def recipe(**changes: Any) -> ExamplesRecipe:
    plain = {"kind": "examples", "name": "mine", "title": "mine", "planes": "seven", "format": "npy", "split": SPLIT}
    return check_config(ExamplesRecipe, plain | changes, "recipe", "mine")


ANY = {"labels": ["move", "next3", "ranks"], "positions": {"passes": True}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"format": "npy", **ANY},
        {"format": "npy", "order": "shuffled", "planes": "katago22", "positions": {"per_game": 9}},
        {"format": "parquet", **ANY},
        {"format": "parquet", "order": "shuffled"},
        {"format": "hdf5"},
        {"format": "hdf5", "order": "shuffled"},
        {"format": "book-npy"},
    ],
    ids=lambda changes: "-".join(changes[key] for key in ("format", "order") if key in changes),
)
def test_examples(
    catalogues: list[Path], tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(into: Path, **engine: Any) -> Any:
        return build(recipe(**changes), catalogues, into, **engine)

    whole = make(tmp_path / "whole", jobs=1)
    cut_small(monkeypatch)
    one, _, sent = same_for_all(make, tmp_path)
    assert all(built.fresh and built.manifest.examples > 60 for built in sent)
    assert [built.manifest for built in whole] == [built.manifest for built in one] == [b.manifest for b in sent]
    assert [bytes_of(built.path) for built in whole] == [bytes_of(built.path) for built in one]
    assert SerializingExecutor.shards >= 2 * 2 * 6  # two sets, that are counted and made, of six units


@pytest.mark.usefixtures("cut_small")
def test_examples_of_archives(kgs: Path, tmp_path: Path) -> None:
    """The catalogue of a build is read by the same executor."""
    same_for_all(lambda into, **engine: build(recipe(), kgs, into, sets=["test"], **engine), tmp_path)


def test_a_second_run_reads_nothing_again(kgs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue of a run that was interrupted is taken, unless it is of other archives or rules."""
    read: list[int] = []

    def counted(*arguments: Any) -> Any:
        read.append(1)
        return mark_duplicates(*arguments)

    def make(*sources: Path, **changes: Any) -> int:
        read.clear()
        build(recipe(**changes), sources, tmp_path, sets=["test"], overwrite=True)
        return len(read)

    monkeypatch.setattr("kifu.corpus.ingest.mark_duplicates", counted)
    one, other = sorted(kgs.iterdir())
    assert make(one) == 1
    shutil.rmtree(tmp_path / "test")
    assert make(one) == 0
    assert make(one, seed=5) == 0
    assert make(one, other) == 1
    assert make(one) == 1
    assert make(one, clean="training") == 1
    monkeypatch.setattr(pipeline.importlib.metadata, "version", lambda _: "0.0.1")
    assert make(one, clean="training") == 1


def test_a_folder_is_read_as_ingest_reads_it(kgs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed, nested = tmp_path / "mixed", tmp_path / "nested"
    for k, path in enumerate(sorted(kgs.iterdir())):
        for folder in (mixed, nested / str(k)):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder)
    (mixed / "alone.sgf").write_bytes(record("alone", 30))
    for source, games in ((mixed, 49), (nested, 48)):
        expected, into = tmp_path / "expected.parquet", tmp_path / "into" / source.name
        ingest(source, expected, overwrite=True)
        assert build(recipe(), iter([source]), into, sets=["test"])[0].manifest.read == games
        assert into.joinpath("games.parquet").read_bytes() == expected.read_bytes()
    shutil.rmtree(into / "test")
    monkeypatch.setattr("kifu.corpus.ingest.mark_duplicates", None)
    assert build(recipe(), nested, into, sets=["test"])[0].fresh


def test_each_source_is_hashed_once(kgs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []

    def hash_and_count(path: Path) -> dict[str, Any]:
        hashed.append(path)
        return hash_source(path)

    hash_source = corpus_sources._hash
    monkeypatch.setattr(corpus_sources, "_hash", hash_and_count)
    build(recipe(), kgs, tmp_path / "examples")
    assert sorted(hashed) == sorted(kgs.iterdir())
    hashed.clear()
    build(load_recipe("olf-archive"), kgs, tmp_path / "olf")
    assert sorted(hashed) == sorted(kgs.iterdir())


def test_no_other_build_replaces_the_games_that_one_reads(kgs: Path, catalogues: list[Path], tmp_path: Path) -> None:
    """A build of another recipe is refused; a build that writes no catalogue is not."""
    tried: list[str] = []

    @contextmanager
    def meanwhile(label: str, total: int | None, unit: str) -> Iterator[Any]:
        with silent(label, total, unit) as bar:
            if label.startswith(("building", "sorting")):
                for build_other in (
                    lambda: build(recipe(clean="training"), kgs, tmp_path, sets=["train"], overwrite=True),
                    lambda: build(load_recipe("olf-archive", ["clean=training"]), [kgs], tmp_path, overwrite=True),
                ):
                    with pytest.raises(OutputError, match=f"^{tmp_path} is being written by another process$"):
                        build_other()
                build(recipe(), catalogues, tmp_path, sets=["train"], overwrite=True)
                tried.append(label)
            yield bar

    (built,) = build(recipe(), kgs, tmp_path, sets=["test"], progress=meanwhile)
    games = open_catalogue(tmp_path / "games.parquet")
    assert (built.manifest.archives[0].blake3, built.manifest.read) == (games.digest(), 48)
    (tmp_path / "games.parquet").unlink()
    build(load_recipe("olf-archive"), [kgs], tmp_path, progress=meanwhile)
    assert tried == ["building test", "sorting lines"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.usefixtures("cut_small")
def test_dat(kgs: Path, tmp_path: Path, version: int) -> None:
    chosen = load_recipe(f"kgsgo-v{version}", ["sets.test.games=13", "sets.train10k.games=15"])
    names = ["test", "train10k", "archives"]
    one, _, sent = same_for_all(lambda into, **engine: build(chosen, [kgs], into, sets=names, **engine), tmp_path)
    assert [built.manifest for built in one] == [built.manifest for built in sent]
    assert sum(len(built.manifest.dropped) for built in sent) > 10


@pytest.mark.slow
@pytest.mark.parametrize("metadata", [["metadata=kgs"], []])
@pytest.mark.usefixtures("cut_small")
def test_katago(catalogues: list[Path], tmp_path: Path, metadata: list[str]) -> None:
    asked = ['split={kind="hash", sets={train=3.0, test=1.0}}', "compression=fast", "rows_per_file=150"]
    chosen: Any = load_recipe("katago", [*asked, "min_moves=0", "early_passes=false", "illegal=cut", *metadata])
    one, _, sent = same_for_all(lambda into, **engine: build(chosen, catalogues, into, **engine), tmp_path)
    assert sum(built.manifest.examples for built in one) > 600
    assert [built.manifest for built in one] == [built.manifest for built in sent]


@pytest.mark.usefixtures("cut_small")
def test_olf_archive(kgs: Path, catalogues: list[Path], tmp_path: Path) -> None:
    chosen: Any = load_recipe("olf-archive")
    (one,), _, (sent,) = same_for_all(lambda into, **engine: build(chosen, [kgs], into, **engine), tmp_path)
    assert one.manifest == sent.manifest
    assert sent.manifest.kept > 20
    assert sum(sent.manifest.drops.values()) > 5


def test_units_do_not_change_katago_s_files(
    catalogues: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces that begin in one unit and end in another are those of one unit of all."""
    monkeypatch.setattr(katago_npz, "_PIECE_ROWS", 200)
    chosen: Any = load_recipe("katago", ['split={kind="hash", sets={all=1.0}}', "compression=fast", "min_moves=0"])
    (one,) = build(chosen, catalogues, tmp_path / "one", jobs=1)
    monkeypatch.setattr(catalogue, "_SHARD_ROWS", 5)
    (other,) = build(chosen, catalogues, tmp_path / "other", jobs=1)
    assert bytes_of(one.path) == bytes_of(other.path)
    assert sum(len(catalogue.open_catalogue(path).shards()) for path in catalogues) > 6


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 6000), st.integers(1, 4000))
def test_piece_bounds(start: int, rows: int, rows_per_file: int) -> None:
    """They are all rows, in order; those that are whole are pieces, and all pieces that lie within."""
    spans = list(_piece_bounds(start, rows, rows_per_file))
    assert [bounds[0] for bounds, _ in spans] == [0, *(bounds[-1] for bounds, _ in spans)][:-1]
    assert spans[-1][0][-1] == rows
    ends = [0]
    while ends[-1] < start + rows:
        ends.append(katago_npz.piece_end(ends[-1], rows_per_file))
    wanted = [(a - start, b - start) for a, b in pairwise(ends) if start <= a and b <= start + rows]
    assert [piece for bounds, whole in spans if whole for piece in pairwise(bounds)] == wanted
    assert all(len(bounds) == 2 for bounds, whole in spans if not whole)

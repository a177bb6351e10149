"""Archives at URLs are fetched once, also for several sets of a build."""

import gzip
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from archives import put, tar_of, zipped
from kgs_archives import archive, record, records
from kifu.corpus import sources
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import archive_shards, find_sources, hash_sources
from kifu.corpus.update import append
from kifu.errors import SourceError
from kifu.execution.executor import Executor
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records import paths
from kifu.records.containers import blocks
from web_store import Web, web_store

NAMES = ["games.tar", "games.tar.gz", "games.tgz", "games.zip"]


def members() -> dict[str, bytes]:
    """Return 10 MB of records, which take several blocks."""
    noise = random.Random(1)
    return {f"{k}.sgf": record(k, 10)[:-1] + b"C[" + noise.randbytes(10_000).hex().encode() + b"])" for k in range(500)}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same games as archives of several kinds."""
    folder = tmp_path_factory.mktemp("archives")
    put(folder / "games.tar", tar := tar_of(members()))
    for name in ("games.tar.gz", "games.tgz"):
        put(folder / name, gzip.compress(tar, 1))
    zipped(folder / "games.zip", members())
    return folder


@pytest.fixture
def web(local: Path) -> Iterator[Web]:
    with web_store() as store:
        for name in NAMES:
            store.files[f"/{name}"] = (local / name).read_bytes()
        yield store


@pytest.fixture
def several_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SMALL_BYTES", 1 << 20)
    monkeypatch.setattr(sources, "_SHARD_BLOCKS", 1)


@pytest.mark.usefixtures("several_shards")
@pytest.mark.parametrize(("jobs", "ranges"), [(1, True), (3, True), (2, False)])
@pytest.mark.parametrize("name", NAMES)
def test_threads_fetch_an_archive_once(
    web: Web, local: Path, name: str, jobs: int, ranges: bool, tmp_path: Path
) -> None:
    web.ranges = ranges
    assert len(list(archive_shards(local / name))) > 2
    assert ingest(f"{web.url}/{name}", tmp_path / "there.parquet", jobs=jobs).read == 500
    assert web.sent == len(web.files[f"/{name}"])
    ingest(local / name, tmp_path / "here.parquet", jobs=1)
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


@pytest.mark.usefixtures("several_shards")
def test_an_append_to_a_partitioned_catalogue_fetches_an_archive_once(web: Web, tmp_path: Path) -> None:
    assert append([f"{web.url}/games.tar.gz"], tmp_path / "games", jobs=2).read == 500
    assert web.sent == len(web.files["/games.tar.gz"])


def test_all_sets_of_a_build_take_one_fetch(web: Web, tmp_path: Path) -> None:
    paths = [archive(tmp_path / "kgs", records(20, year), year=year) for year in (2001, 2002)]
    web.files = {f"/{path.name}": path.read_bytes() for path in paths}
    recipe = load_recipe("kgsgo-v2", ["sets.test.games=5", "sets.train10k.games=10"])
    urls = [f"{web.url}/{path.name}" for path in paths]
    assert len(build(recipe, urls, tmp_path / "built", jobs=2)) == 3
    assert web.sent == sum(map(len, web.files.values()))


def fault(source: str, folder: Path) -> str:
    with pytest.raises(SourceError) as raised:
        ingest(source, folder / "games.parquet")
    assert not list(folder.iterdir())
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_failures_of_a_transfer(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_POLICY", replace(paths._POLICY, first_delay_s=0.01))
    url = f"{web.url}/games.tar.gz"
    web.cuts = 1000
    assert fault(url, tmp_path).startswith(f"{url}: ")
    web.cuts = 2
    assert ingest(url, tmp_path / "games.parquet").read == 500


@pytest.mark.parametrize("when", ["hashed", "read"])
def test_a_file_that_changes(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    url, original = f"{web.url}/games.tar.gz", sources.hash_sources

    def change() -> None:
        web.files["/games.tar.gz"] = web.files["/games.tgz"] + bytes(1000)

    if when == "hashed":
        found = find_sources(url)
        next(iter(blocks(found[0].path)))  # its metadata are known
        change()
        with pytest.raises(SourceError, match=r"games\.tar\.gz: it changed while it was read"):
            hash_sources(found, Executor(1))
        return

    def hash_and_change(*arguments: object) -> list[dict[str, object]]:
        hashes = original(*arguments)
        change()
        return hashes

    monkeypatch.setattr("kifu.corpus.ingest.hash_sources", hash_and_change)
    assert fault(url, tmp_path) == f"{url}: it changed while it was read"


def test_a_full_disk(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{web.url}/games.tar.gz"
    with monkeypatch.context() as patch:
        patch.setattr(paths.tempfile, "TemporaryFile", partial(Path("/dev/full").open, "wb"))
        message = fault(url, tmp_path)
    assert message == f"{url}: cannot write a copy to {paths.tempfile.gettempdir()}: No space left on device"

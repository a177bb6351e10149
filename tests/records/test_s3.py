"""Archives in the S3-compatible store of moto give the same catalogues and data sets as the same local folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from commands import run
from kgs_archives import archive, record, records
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import read
from kifu.errors import SourceError
from kifu.files import hash_file
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records import paths
from kifu.records.containers import blocks, containers
from kifu.records.paths import as_path, open_file
from web_store import web_store

pytestmark = pytest.mark.slow

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "anybody",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto import server as moto_server

    server = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def use_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let s3:// lead to an endpoint, and return the store as fsspec has it."""
    for name, value in (_ENVIRONMENT | {"AWS_ENDPOINT_URL": endpoint}).items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    return fsspec.filesystem("s3", use_listings_cache=False)


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = use_endpoint(endpoint, monkeypatch)
    found.makedirs("games", exist_ok=True)
    return found


@pytest.fixture
def kgs(tmp_path: Path, store: Any) -> Path:
    """Write a folder of archives and records, also to s3://games/kgs."""
    top = tmp_path / "kgs"
    archive(top, records(12, 1), year=2001)
    archive(top / "b", records(9, 2), year=2002, kind="zip")
    (top / "loose.sgf").write_bytes(record("loose"))
    (top / "Later.sgf").write_bytes(record("later"))
    for path in top.rglob("*.*"):
        store.put_file(str(path), f"games/kgs/{path.relative_to(top).as_posix()}")
    return top


def fault(source: str) -> str:
    with pytest.raises(SourceError) as raised:
        list(read(source))
    message = str(raised.value)
    assert message.startswith(f"{source}: ")
    assert "\n" not in message
    return message


def test_a_catalogue_of_a_bucket_equals_that_of_the_folder(kgs: Path, tmp_path: Path) -> None:
    here = ingest(kgs, tmp_path / "here.parquet", jobs=1)
    there = ingest("s3://games/kgs/", tmp_path / "there.parquet", jobs=2)
    assert here.read == there.read == 23
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_a_data_set_of_a_bucket_equals_that_of_the_archives(kgs: Path, tmp_path: Path) -> None:
    recipe = load_recipe("kgsgo-v2", ["sets.test.games=5"])
    for source, into in ((str(kgs), tmp_path / "here"), ("s3://games/kgs", tmp_path / "there")):
        build(recipe, [source], into, sets=["test"])
    made = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert made
    for name in made:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_kifu_ingest_takes_a_bucket(kgs: Path, tmp_path: Path) -> None:
    outcome = run("ingest", "s3://games/kgs/b/KGS-2002-19-9-.zip", kgs / "loose.sgf", "-o", tmp_path / "games.parquet")
    assert outcome.code == 0
    assert "10 games = 10 kept" in outcome.out


def test_missing_objects_are_one_line(store: Any) -> None:
    assert fault("s3://games/none.zip").endswith("no such file or folder")
    assert fault("s3://nobucket/none.zip").endswith("The specified bucket does not exist")


def test_a_store_that_denies_access_or_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with web_store() as web:
        use_endpoint(web.url, monkeypatch)
        web.status = 403
        assert fault("s3://games/a.zip").endswith("access is denied")
    use_endpoint("http://127.0.0.1:9", monkeypatch)
    assert "Could not connect" in fault("s3://games/a.zip")


def test_a_store_that_fails_is_one_line_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with web_store() as web:
        use_endpoint(web.url, monkeypatch)
        web.status = 503
        assert "s3cr3t" not in fault("s3://games/a.zip")
        assert len(web.requests) < 40


def test_an_object_that_is_replaced_while_it_is_read(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "PIECE_BYTES", 4096)
    monkeypatch.setattr(paths, "_PAGE_BYTES", 1024)
    text = record("a", 300) * 10
    store.pipe("games/many.sgf", text)
    digest = hash_file(as_path("s3://games/many.sgf"))
    with pytest.raises(OSError, match="changed while it was read"), open_file(as_path("s3://games/many.sgf")) as file:  # noqa: PT012 - all of it may raise
        file.read(1)
        store.pipe("games/many.sgf", text + b" ")
        while file.read(1 << 20):
            pass
    assert hash_file(as_path("s3://games/many.sgf")) != digest


def test_real_archives_in_a_bucket(shared: Path, store: Any) -> None:
    path = shared / "data" / "kgs" / "KGS-2017_02-19-525-.tar.gz"
    store.put_file(str(path), f"games/real/{path.name}")
    (found,) = containers("s3://games/real")
    assert hash_file(found) == hash_file(path)
    here, there = list(blocks(path)), list(blocks(found))
    assert [block.data.tobytes() for block in there] == [block.data.tobytes() for block in here]

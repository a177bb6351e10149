"""Archives in the emulator of Google Cloud Storage give the same catalogues and data sets as the same local folder."""

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


@pytest.fixture(scope="module")
def emulator() -> Iterator[Any]:
    """Start the emulator with the empty bucket "games"."""
    server = pytest.importorskip("gcp_storage_emulator.server").create_server(
        "127.0.0.1", 0, in_memory=True, default_bucket="games"
    )
    with server:
        server._api._httpd.handle_error = lambda *_: None  # clients close connections that they need no more
        yield server


def use_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let gs:// lead to an endpoint, and return the store as fsspec has it."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # its bucket types are asked of Google only
    import gcsfs

    gcsfs.GCSFileSystem.clear_instance_cache()
    return fsspec.filesystem("gs", use_listings_cache=False)


@pytest.fixture
def store(emulator: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return use_endpoint(f"http://127.0.0.1:{emulator._api._httpd.server_port}", monkeypatch)


@pytest.fixture
def kgs(tmp_path: Path, store: Any) -> Path:
    """Write a folder of archives and records, also to gs://games/kgs."""
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
    return message.removeprefix(f"{source}: ")


def test_a_catalogue_of_a_bucket_equals_that_of_the_folder(kgs: Path, tmp_path: Path) -> None:
    here = ingest(kgs, tmp_path / "here.parquet", jobs=1)
    there = ingest("gs://games/kgs/", tmp_path / "there.parquet", jobs=2)
    assert here.read == there.read == 23
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_a_data_set_of_a_bucket_equals_that_of_the_archives(kgs: Path, tmp_path: Path) -> None:
    recipe = load_recipe("kgsgo-v2", ["sets.test.games=5"])
    for source, into in ((str(kgs), tmp_path / "here"), ("gs://games/kgs", tmp_path / "there")):
        build(recipe, [source], into, sets=["test"])
    made = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert made
    for name in made:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_kifu_ingest_takes_a_bucket(kgs: Path, tmp_path: Path) -> None:
    outcome = run("ingest", "gs://games/kgs/b/KGS-2002-19-9-.zip", kgs / "loose.sgf", "-o", tmp_path / "games.parquet")
    assert outcome.code == 0
    assert "10 games = 10 kept" in outcome.out


@pytest.mark.usefixtures("store")
def test_missing_objects_are_one_line() -> None:
    assert fault("gs://games/none.zip") == fault("gs://nobucket/none.zip") == "no such file or folder"


@pytest.mark.usefixtures("no_delays")
def test_a_store_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with web_store() as web:
        use_endpoint(web.url, monkeypatch)
        for status, message in ((403, "access is denied"), (503, "the server answered 503 (Service Unavailable)")):
            web.status, web.requests[:] = status, []
            assert fault("gs://games/a.zip") == message
            assert len(web.requests) < 20
        outcome = run("inspect", "gs://games/a.zip")
        assert (outcome.code, outcome.err) == (2, [f"kifu: gs://games/a.zip: {message}"])
    use_endpoint("http://127.0.0.1:9", monkeypatch)
    assert fault("gs://games/a.zip") == "Connection refused"


@pytest.fixture
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gcsfs retry at once; its delays add up to half a minute."""
    from gcsfs import retry

    sleep = retry.asyncio.sleep
    monkeypatch.setattr(retry.asyncio, "sleep", lambda _: sleep(0))


def test_a_truncated_object(store: Any, emulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = record("a", 300) * 10
    store.pipe("games/many.sgf", text)
    kept = emulator._storage.get_file
    monkeypatch.setattr(emulator._storage, "get_file", lambda *arguments: kept(*arguments)[:5000])
    assert fault("gs://games/many.sgf") == f"it ends at byte 5,000 of {len(text):,}"


def test_an_object_that_is_replaced_while_it_is_read(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "PIECE_BYTES", 4096)
    monkeypatch.setattr(paths, "_PAGE_BYTES", 1024)
    text = record("a", 300) * 10
    store.pipe("games/many.sgf", text)
    digest = hash_file(as_path("gs://games/many.sgf"))
    with pytest.raises(OSError, match="changed while it was read"), open_file(as_path("gs://games/many.sgf")) as file:  # noqa: PT012 - all of it may raise
        file.read(1)
        store.pipe("games/many.sgf", text[::-1])
        while file.read(1 << 20):
            pass
    assert hash_file(as_path("gs://games/many.sgf")) != digest


def test_real_archives_in_a_bucket(shared: Path, store: Any) -> None:
    path = shared / "data" / "kgs" / "KGS-2017_02-19-525-.tar.gz"
    store.put_file(str(path), f"games/real/{path.name}")
    (found,) = containers("gs://games/real")
    assert hash_file(found) == hash_file(path)
    here, there = list(blocks(path)), list(blocks(found))
    assert [block.data.tobytes() for block in there] == [block.data.tobytes() for block in here]

"""Sources at URLs are read like local ones, with few requests; failures of a store are one line."""

import gzip
import io
import os
import pickle
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from archives import put, tar_of, zip_of
from commands import run
from kgs_archives import archive, records
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import archive_shards, find_sources, hash_sources
from kifu.errors import DropReason, SourceError
from kifu.execution.executor import Executor
from kifu.io import hash_file
from kifu.records import paths
from kifu.records.containers import blocks, containers, count_blocks
from kifu.records.paths import Remote, as_path, etag, name_below
from kifu.records.tygem import load_index
from record_samples import OLF_LINE
from serializing import ENGINE, SerializingExecutor, install
from web_store import Web, web_store

SGF = b"(;GM[1]FF[4]SZ[19];B[pd];W[dp])"
SECRETS = ("user", "password", "signature", "s3cr3t")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files take several requests."""
    monkeypatch.setattr(paths, "PIECE_BYTES", 4096)
    monkeypatch.setattr(paths, "_PAGE_BYTES", 1024)


@pytest.fixture
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_POLICY", replace(paths._POLICY, first_delay_s=0.01))


@pytest.fixture
def web() -> Iterator[Web]:
    with web_store() as store:
        yield store


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


MANY = {f"{k}.sgf": noise(k, 700) for k in range(60)} | {"big.sgf": noise(99, 20_000), "README.pdf": noise(98, 9000)}

TREE = {
    "a.zip": zip_of(MANY, zipfile.ZIP_STORED),
    "packed.ZIP": zip_of(MANY, zipfile.ZIP_DEFLATED),
    "b/games.tar": tar_of(MANY, "w"),
    "b/games.tar.gz": tar_of(MANY, "w:gz"),
    "b/no name.gz": gzip.compress(tar_of(MANY, "w")),
    "b/text.gz": gzip.compress(noise(5, 3000)),
    "lines.olf": OLF_LINE * 300,
    "Z.sgf": SGF,
    "a.sgf": SGF * 2,
    "é/名人戦.sgf": noise(1, 5000),
    "b/packed.sgf.gz": gzip.compress(SGF * 300),
    "b/broken.sgf.gz": gzip.compress(noise(6, 3000))[:-20],
    "b/._a.sgf": noise(2, 100),
    "notes.pdf": b"nothing",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same files to a local folder and to memory://games."""
    top = tmp_path_factory.mktemp("places") / "games"
    store = fsspec.filesystem("memory")
    for name, data in TREE.items():
        put(top / name, data)
        store.pipe(f"/games/{name}", data)
    return top


def rows(source: str | os.PathLike[str], block_bytes: int = 8192) -> list[tuple[int, str, bytes, int]]:
    """Return the members of a container: ordinal, name, content, drop reason."""
    return [
        (int(b.member[k]), b.name(k), b.data[b.start[k] : b.stop[k]].tobytes(), int(b.drop[k]))
        for b in blocks(source, block_bytes=block_bytes)
        for k in range(len(b))
    ]


def fault(source: str) -> str:
    """Return the message of the error in which reading a source ends."""
    with pytest.raises(SourceError) as raised:  # noqa: PT012 - all of it may raise
        for container in containers(source):
            rows(container)
    message = str(raised.value)
    assert "\n" not in message
    assert not any(secret in message for secret in SECRETS)
    return message


@pytest.mark.usefixtures("small_pieces")
def test_a_folder_at_a_url_is_read_like_a_local_one(tree: Path) -> None:
    here, there = containers(tree), containers("memory://games")
    assert [name_below(tree, path) for path in here] == [name_below(as_path("memory://games"), path) for path in there]
    assert len(here) == 7
    for one, other in zip(here, there):
        assert rows(one) == rows(other)
    assert [row[3] for row in rows(there[0])].count(DropReason.UNREADABLE) == 1


def test_sources_at_urls_are_described_like_local_ones(tree: Path) -> None:
    here, there = find_sources([tree]), find_sources(["memory://games"])
    one, other = ([each.info for each in hash_sources(found, Executor(1))] for found in (here, there))
    assert one == other
    assert all(hash_file(one.path) == hash_file(other.path) for one, other in zip(here[1:], there[1:]))


def test_files_of_the_same_name_are_named_by_their_urls() -> None:
    store = fsspec.filesystem("memory")
    for folder in ("one", "two"):
        store.pipe(f"/{folder}/same.sgf", SGF)
    named = [source.name for source in find_sources(["memory://one/same.sgf", "memory://two/same.sgf"])]
    assert named == ["memory://one/same.sgf", "memory://two/same.sgf"]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5120, 5121, 30_000])
def test_reading_in_pieces(size: int) -> None:
    data = noise(size, size)
    fsspec.filesystem("memory").pipe("/bytes", data)
    rng, twin = random.Random(size), io.BytesIO(data)
    with Remote("memory://bytes").open() as file:
        for _ in range(300):
            if rng.random() < 0.2:
                where = rng.randrange(size + 100)
                assert file.seek(where) == twin.seek(where)
            elif rng.random() < 0.1:
                assert file.seek(50, os.SEEK_CUR) == twin.seek(50, os.SEEK_CUR)
            wanted = rng.choice([1, 10, 700, 6000])
            got = file.read(wanted)
            assert got == twin.read(len(got))
            assert got or twin.tell() >= size
            assert file.tell() == twin.tell()


@pytest.mark.usefixtures("small_pieces")
def test_sequential_reads_request_every_byte_once_in_large_pieces(web: Web) -> None:
    web.files["/games.tar"] = data = tar_of(MANY, "w")
    assert len(rows(f"{web.url}/games.tar")) == 61
    parts = web.parts()
    assert parts == [(0, 1024), *((k, min(k + 4096, len(data))) for k in range(1024, len(data), 4096))][: len(parts)]
    assert len(web.requests) == len(parts) + 2
    web.requests.clear()
    assert hash_file(as_path(f"{web.url}/games.tar"))
    assert sum(stop - first for first, stop in web.parts()) == len(data)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", ["a.zip", "packed.ZIP"])
def test_no_byte_of_a_zip_is_requested_twice_and_the_directory_gives_the_blocks(
    web: Web, tree: Path, name: str
) -> None:
    web.files["/games.zip"] = TREE[name]
    url, size = f"{web.url}/games.zip", len(TREE[name])
    assert rows(url) == rows(tree / name)
    fetched = [k for first, stop in web.parts() for k in range(first, stop)]
    assert len(fetched) == len(set(fetched))
    assert len(web.parts()) < size // 4096 + 12
    web.requests.clear()
    count, by_place = count_blocks(as_path(url), block_bytes=8192)
    assert by_place
    assert count == len(list(blocks(tree / name, block_bytes=8192)))
    directory = 62 * 70 + 66_000
    assert sum(stop - first for first, stop in web.parts()) < min(size, directory)
    web.requests.clear()
    (last,) = blocks(url, block_bytes=8192, first=count - 1)
    names = [row[1] for row in rows(tree / name)]
    assert [last.name(k) for k in range(len(last))] == names[-len(last) :]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", ["a.zip", "b/games.tar", "b/games.tar.gz", "lines.olf", "é/名人戦.sgf"])
def test_a_server_without_range_requests(web: Web, tree: Path, name: str) -> None:
    web.files["/" + name.rpartition("/")[2].replace("名人戦", "m")] = TREE[name]
    (path,) = web.files
    here = rows(tree / name)
    assert [row[2:] for row in rows(web.url + path)] == [row[2:] for row in here]
    web.ranges, web.sent = False, 0
    assert [row[2:] for row in rows(web.url + path)] == [row[2:] for row in here]
    assert web.sent == len(TREE[name])


def test_names_of_urls_contain_no_credentials(web: Web) -> None:
    full = "https://user:password@host/kgs/KGS%202001.zip?X-Signature=signature&s3cr3t#part"
    for found in (as_path(full), pickle.loads(pickle.dumps(as_path(full)))):
        assert os.fspath(found) == full
        assert str(found) == "https://host/kgs/KGS%202001.zip"
        assert found.name == "KGS 2001.zip"
        assert not any(secret in repr(found) for secret in SECRETS)
    assert str(as_path("s3://user:password@bucket/a@b?c#d")) == "s3://bucket/a@b?c#d"
    assert as_path("s3://bucket").name == as_path("s3://bucket/").name == "bucket"
    assert as_path(as_path(full)) == as_path(full) != as_path("https://host/kgs/KGS%202001.zip")


@pytest.mark.parametrize("text", ["a.zip", "/a/b.zip", "C:/games", "s3:/bucket/x", "://x", "a b://c"])
def test_other_texts_are_paths(text: str) -> None:
    assert as_path(text) == as_path(Path(text)) == Path(text)


@pytest.mark.usefixtures("short_delays")
def test_credentials_are_never_written_or_shown(web: Web, tmp_path: Path) -> None:
    host = web.url.removeprefix("http://")
    url = f"http://user:password@{host}/games.zip?X-Signature=signature&t=s3cr3t"
    web.files["/games.zip"] = zip_of({f"{k}.sgf": data for k, data in enumerate(records(5, 1))})
    out = tmp_path / "games.parquet"
    assert ingest([url, f"{web.url}/games.zip"], out).read == 10
    assert not any(secret.encode() in out.read_bytes() for secret in SECRETS)
    assert ("GET", "/games.zip?X-Signature=signature&t=s3cr3t") in [request[:2] for request in web.requests]
    for status, reason in ((403, "Forbidden"), (404, "no such file or folder"), (503, "Service Unavailable")):
        web.status = status
        message = fault(url)
        assert message.startswith(f"http://{host}/games.zip: ")
        assert reason in message


@pytest.mark.usefixtures("short_delays", "small_pieces")
@pytest.mark.parametrize("ranges", [True, False])
def test_broken_connections_are_retried_a_few_times(web: Web, tree: Path, ranges: bool) -> None:
    web.files["/games.tar"], web.ranges = TREE["b/games.tar"], ranges
    web.cuts = 2
    assert rows(f"{web.url}/games.tar") == rows(tree / "b/games.tar")
    assert web.cuts == 0
    web.cuts = 1000
    assert fault(f"{web.url}/games.tar").startswith(f"{web.url}/games.tar: ")
    assert web.cuts > 900


@pytest.mark.usefixtures("short_delays")
def test_a_silent_server_times_out(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_POLICY", replace(paths._POLICY, first_delay_s=0.01, read_timeout_s=0.2))
    web.files["/games.zip"], web.silent = zip_of(MANY, zipfile.ZIP_STORED), True
    assert fault(f"{web.url}/games.zip") == f"{web.url}/games.zip: no answer in time"


@pytest.mark.usefixtures("short_delays")
def test_failures_are_one_line(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files["/game.sgf"], web.lengths = SGF, False
    assert fault(f"{web.url}/game.sgf").endswith("/game.sgf: the server does not report its size")
    assert fault(f"{web.url}/") == f"{web.url}/: http has no folders: name the files one by one"
    assert fault("http://127.0.0.1:9/a.zip") == "http://127.0.0.1:9/a.zip: Connection refused"
    assert fault("memory://nothing/here") == "memory://nothing/here: no such file or folder"
    assert fault("nosuch://host/a") == "nosuch://host/a: Protocol not known: nosuch"
    fsspec.filesystem("memory").pipe("/few/notes.pdf", b"nothing")
    assert "memory://few: no game records and no archives" in fault("memory://few")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'kifu[cluster]'" in fault("s3://bucket/a.zip")


@pytest.mark.usefixtures("small_pieces", "short_delays")
def test_wrong_responses_are_refused(web: Web) -> None:
    web.files["/games.tar"] = TREE["b/games.tar"]
    web.more = 1
    assert fault(f"{web.url}/games.tar").endswith("the server sends more than requested")
    web.more, web.shift = 0, 1
    assert fault(f"{web.url}/games.tar").endswith("the server sends another range than requested")
    with pytest.raises(OSError, match="the server reports a size of 1,152,921,504,606,846,976 bytes"):
        Remote("memory://a.zip", {"type": "file", "size": 1 << 60}).open()


@pytest.mark.usefixtures("small_pieces")
def test_a_file_that_changes_while_it_is_read(web: Web) -> None:
    web.files["/games.tar"] = TREE["b/games.tar"]
    found = blocks(f"{web.url}/games.tar", block_bytes=8192)
    next(found)
    web.files["/games.tar"] = tar_of(MANY | {"0.sgf": noise(0, 701)}, "w")
    with pytest.raises(SourceError, match="it changed while it was read"):
        list(found)


def test_etags_of_changed_files_differ(web: Web) -> None:
    web.files["/a.sgf"] = SGF
    before = etag(as_path(f"{web.url}/a.sgf"))
    assert etag(as_path(f"{web.url}/a.sgf")) == before
    web.files["/a.sgf"] = SGF.replace(b"pd", b"dd")
    assert etag(as_path(f"{web.url}/a.sgf")) != before


def test_a_less_precise_time_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing of a folder may give 12.345, and the file itself 12."""
    plain = {"type": "file", "size": 3}
    listed = plain | {"ETag": '"a"', "LastModified": "12:00:12.345"}
    for now, same in (
        (plain | {"ETag": '"a"', "LastModified": "12:00:12"}, True),
        (plain | {"ETag": '"b"', "LastModified": "12:00:12.345"}, False),
        (plain | {"LastModified": "12:00:12.345"}, True),
        (plain | {"LastModified": "12:00:13.345"}, False),
        (plain | {"size": 4, "ETag": '"a"'}, False),
    ):
        monkeypatch.setattr(paths.Store, "info", lambda _, now=now: now)
        with nullcontext() if same else pytest.raises(OSError, match="changed"):
            Remote("memory://a.zip", listed).require_unchanged()


def test_a_record_that_cannot_be_fetched_ends_the_run(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Remote) -> bytes:
        raise OSError(5, "the store is gone")

    (folder, *_) = containers("memory://games")
    monkeypatch.setattr(Remote, "read_bytes", fail)
    with pytest.raises(SourceError, match=r"memory://games/Z\.sgf: the store is gone"):
        rows(folder)


def test_a_full_disk_for_the_copy_of_a_zip_is_one_line(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    write, room = os.pwrite, 10_000

    def few(file: int, data: memoryview, at: int) -> int:
        if at >= room:
            raise OSError(28, "No space left on device")
        return write(file, data[: room - at], at)

    web.files["/games.zip"] = TREE["a.zip"]
    monkeypatch.setattr(paths.os, "pwrite", few)
    assert "cannot write a copy to " in fault(f"{web.url}/games.zip")
    room = 1 << 20
    assert len(rows(f"{web.url}/games.zip")) == 61


def test_shards_of_files_at_urls_can_be_pickled(web: Web) -> None:
    web.files["/games.zip"] = TREE["a.zip"]
    (unit,) = archive_shards(as_path(f"{web.url}/games.zip"))
    arrived = pickle.loads(pickle.dumps(unit))
    assert arrived == unit
    assert rows(arrived.path) == rows(unit.path)


def test_catalogues_must_be_local() -> None:
    line = "s3://bucket/games.parquet: catalogues must be local files or folders; only archives can be read from URLs"
    with pytest.raises(SourceError, match=re.escape(line)):
        find_sources("s3://bucket/games.parquet")
    outcome = run("stats", "s3://bucket/games.parquet")
    assert (outcome.code, outcome.err) == (2, [f"kifu: {line}"])


def test_a_cluster_gives_the_same_for_a_folder_at_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [
        archive(tmp_path / "kgs", records(9, k), year=2000 + k, kind=kind) for k, kind in ((1, "zip"), (2, "tar.gz"))
    ]
    (tmp_path / "kgs" / "loose.sgf").write_bytes(SGF)
    for path in (*paths, tmp_path / "kgs" / "loose.sgf"):
        fsspec.filesystem("memory").pipe(f"/kgs/{path.name}", path.read_bytes())
    ingest(tmp_path / "kgs", tmp_path / "here.parquet")
    install(monkeypatch)
    ingest("memory://kgs", tmp_path / "there.parquet", engine=ENGINE)
    assert SerializingExecutor.shards == 3
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_indexes_of_tygem_are_found_at_urls(tree: Path) -> None:
    assert load_index(containers("memory://games")) is None
    fsspec.filesystem("memory").pipe("/tygem/kifu.index", b"842008471\t" * 3 + b"\n")
    assert load_index(containers("memory://tygem")) is not None


@pytest.mark.subprocess
def test_local_paths_need_no_fsspec(tree: Path) -> None:
    code = "import sys; from kifu.records.containers import *; list(blocks(containers(sys.argv[1])[0]));"
    code += "assert not {'fsspec', 'aiohttp', 'asyncio'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, tree], check=True)


def test_commands_take_urls(web: Web, tmp_path: Path) -> None:
    (path,) = [archive(tmp_path / "kgs", records(6, 4), year=2003)]
    web.files["/" + path.name] = path.read_bytes()
    url = f"{web.url}/{path.name}"
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    assert run("ingest", url, "-o", there).code == run("ingest", path, "-o", here).code == 0
    assert there.read_bytes() == here.read_bytes()
    assert run("inspect", url).out.partition(": ")[2] == run("inspect", path).out.partition(": ")[2] != ""
    assert run("show", url, "--game", "2").out == run("show", path, "--game", "2").out
    assert (
        run("convert", url, "-o", tmp_path / "there.olf").code
        == run("convert", path, "-o", tmp_path / "here.olf").code
        == 0
    )
    assert (tmp_path / "there.olf").read_bytes() == (tmp_path / "here.olf").read_bytes()
    outcome = run("inspect", url, "--row", "1")
    assert (outcome.code, outcome.err) == (2, [f"kifu: {url} is not a data set and has no rows, got --row 1"])

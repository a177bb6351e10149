"""Sources at URLs are copied once and read like local ones; failures of a store are one line."""

import base64
import gzip
import os
import pickle
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import fsspec
import pytest

import http_server as web
from commands import run
from http_server import Site
from kgs_archives import archive, put, records, tar_of, zip_of
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import ShardReader, archive_shards, find_sources, hash_sources
from kifu.corpus.update import append
from kifu.errors import DropReason, SourceError
from kifu.execution.executor import Executor
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records import paths
from kifu.records.containers import blocks, containers
from kifu.records.paths import Remote, as_path, name_below
from kifu.records.tygem import load_index
from record_samples import OLF_LINE
from serializing import ENGINE, SerializingExecutor, install

SGF = b"(;GM[1]FF[4]SZ[19];B[pd];W[dp])"
SECRETS = ("user", "password", "signature", "s3cr3t")


@pytest.fixture(autouse=True)
def short_delays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_POLICY", replace(paths._POLICY, first_delay_s=0.01))


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


MANY = {f"{k}.sgf": noise(k, 700) for k in range(60)} | {"big.sgf": noise(99, 20_000), "README.pdf": noise(98, 9000)}
TAR = tar_of(MANY, "w")

TREE = {
    "a.zip": zip_of(MANY),
    "b/games.tar": TAR,
    "b/games.tar.gz": gzip.compress(TAR),
    "b/no name.gz": gzip.compress(TAR),
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
    top = tmp_path_factory.mktemp("places") / "games"
    for name, data in TREE.items():
        put(top / name, data)
        fsspec.filesystem("memory").pipe(f"/games/{name}", data)
    return top


@pytest.fixture
def url(site: Site) -> str:
    site.files["/games.tar"], site.versions["/games.tar"] = TAR, '"1"'
    return f"{site.url}/games.tar"


def rows(source: str | os.PathLike[str], block_bytes: int = 8192) -> list[tuple[int, str, bytes, int]]:
    return [
        (int(b.member[k]), b.name(k), b.data[b.start[k] : b.stop[k]].tobytes(), int(b.drop[k]))
        for b in blocks(source, block_bytes=block_bytes)
        for k in range(len(b))
    ]


def fault(source: str) -> str:
    with pytest.raises(SourceError) as raised:  # noqa: PT012 - all of it may raise
        for container in containers(source):
            rows(container)
    message = str(raised.value)
    assert "\n" not in message
    assert not any(secret in message for secret in SECRETS)
    return message


# The same bytes


def test_a_folder_at_a_url_is_read_like_a_local_one(tree: Path) -> None:
    here, there = containers(tree), containers("memory://games")
    assert [name_below(tree, path) for path in here] == [name_below(as_path("memory://games"), path) for path in there]
    assert len(here) == 6
    assert [rows(path) for path in here] == [rows(path) for path in there]
    assert [row[3] for row in rows(there[0])].count(DropReason.UNREADABLE) == 1
    one, other = (
        [each.info for each in hash_sources(find_sources([source]), Executor(1))] for source in (tree, "memory://games")
    )
    assert one == other


def test_files_of_the_same_name_are_named_by_their_urls() -> None:
    for folder in ("one", "two"):
        fsspec.filesystem("memory").pipe(f"/{folder}/same.sgf", SGF)
    named = [source.name for source in find_sources(["memory://one/same.sgf", "memory://two/same.sgf"])]
    assert named == ["memory://one/same.sgf", "memory://two/same.sgf"]


def test_a_cluster_gives_the_same_for_a_folder_at_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, kind in ((1, "zip"), (2, "tar.gz")):
        archive(tmp_path / "kgs", records(9, k), year=2000 + k, kind=kind)
    (tmp_path / "kgs" / "loose.sgf").write_bytes(SGF)
    for path in (tmp_path / "kgs").iterdir():
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


def test_commands_take_urls(site: Site, tmp_path: Path) -> None:
    path = archive(tmp_path / "kgs", records(6, 4), year=2003)
    site.files["/" + path.name] = path.read_bytes()
    url = f"{site.url}/{path.name}"
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    assert run("ingest", url, "-o", there).code == run("ingest", path, "-o", here).code == 0
    assert there.read_bytes() == here.read_bytes()
    assert run("show", url).out.partition(": ")[2] == run("show", path).out.partition(": ")[2] != ""
    assert run("show", url, "--game", "2").out == run("show", path, "--game", "2").out
    outcome = run("show", url, "--row", "1")
    assert (outcome.code, outcome.err) == (2, [f"kifu: {url} is not a data set and has no rows, got --row 1"])


@pytest.mark.subprocess
def test_local_paths_need_no_fsspec(tree: Path) -> None:
    code = "import sys; from kifu.records.containers import *; list(blocks(containers(sys.argv[1])[0]));"
    code += "assert not {'fsspec', 'aiohttp', 'asyncio', 'urllib3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, tree], check=True)


def test_catalogues_must_be_local() -> None:
    line = "s3://bucket/games.parquet: catalogues must be local files or folders; only archives can be read from URLs"
    with pytest.raises(SourceError, match=re.escape(line)):
        find_sources("s3://bucket/games.parquet")
    outcome = run("stats", "s3://bucket/games.parquet")
    assert (outcome.code, outcome.err) == (2, [f"kifu: {line}"])


# Copies


def serializing(source: str, path: Path) -> object:
    return ingest(source, path, engine=ENGINE)


@pytest.mark.parametrize("write", [partial(ingest, jobs=3), append, serializing])
def test_an_archive_is_fetched_once(
    site: Site, url: str, write: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kifu.corpus.sources._SMALL_BYTES", 0)
    install(monkeypatch)
    write(url, tmp_path / "games.parquet")
    assert site.sent == len(TAR)


def test_all_sets_of_a_build_take_one_fetch(site: Site, tmp_path: Path) -> None:
    paths = [archive(tmp_path / "kgs", records(20, year), year=year) for year in (2001, 2002)]
    site.files = {f"/{path.name}": path.read_bytes() for path in paths}
    recipe = load_recipe("kgsgo-v2", ["sets.test.games=5", "sets.train10k.games=10"])
    assert len(build(recipe, [f"{site.url}/{path.name}" for path in paths], tmp_path / "built", jobs=2)) == 3
    assert site.sent == sum(map(len, site.files.values()))


def test_the_copy_of_an_unchanged_file_is_used_again(site: Site, url: str, cache: Path) -> None:
    expected = rows(url)
    assert rows(url) == expected
    assert site.sent == len(TAR)
    assert len(site.requests) == 2
    copy = as_path(url).local()
    assert copy.parent == cache
    assert re.fullmatch("[0-9a-f]{32}", copy.name)
    copy.write_bytes(b"x" * len(TAR))  # damaged
    assert rows(url) == expected
    assert site.sent == 2 * len(TAR)
    site.files["/games.tar"], site.versions["/games.tar"] = TAR[:10240] + bytes(1024), '"2"'
    assert len(rows(url)) < len(expected)
    assert as_path(url).local() == copy
    assert sorted(cache.iterdir()) == [copy, copy.with_suffix(".json")]


@pytest.mark.parametrize("address", ["/games.tar", "memory"])
def test_a_file_without_a_version_is_copied_again(site: Site, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files["/games.tar"] = TAR
    fsspec.filesystem("memory").pipe("/games.tar", TAR)
    url = "memory://games.tar" if address == "memory" else site.url + address
    first = as_path(url)
    assert as_path(url).local() == first.local()  # the same bytes
    for data in (TAR[::-1], TAR[:-512]):
        site.files["/games.tar"] = data
        fsspec.filesystem("memory").pipe("/games.tar", data)
        assert as_path(url).local().read_bytes() == data
    with pytest.raises(OSError, match="it changed while it was read"):
        first.local()


def test_loose_records_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(20):
        put(tmp_path / "once" / f"{k}.sgf", SGF)
    fetched: list[str] = []
    get = paths._Store.get
    monkeypatch.setattr(paths._Store, "get", lambda self, *args: (fetched.append(self._path), get(self, *args)))
    assert ingest(f"file://{tmp_path}/once", tmp_path / "games.parquet").read == 20
    assert sorted(fetched) == sorted(f"{tmp_path}/once/{k}.sgf" for k in range(20))


def test_an_estimate_copies_only_its_sample(tmp_path: Path, cache: Path) -> None:
    for k in range(12):
        put(tmp_path / "many" / f"{k}.zip", zip_of({f"{n}.sgf": data for n, data in enumerate(records(5, k))}))
    put(tmp_path / "many" / "kifu.index", b"842008471\t" * 3 + b"\n")
    outcome = run("ingest", f"file://{tmp_path}/many", "-o", tmp_path / "games.parquet", "--dry-run")
    assert outcome.code == 0
    assert re.search("about 6[0-9] games", outcome.out), outcome.out
    assert len(list(cache.glob("*.json"))) == 8 + 1


def test_threads_wait_for_one_copy(site: Site, url: str) -> None:
    site.always("/games.tar", web.late)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(as_path(url).local())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4


def test_another_process_reads_the_same_bytes(site: Site, url: str, cache: Path) -> None:
    (path,) = containers(url)
    (shard,) = archive_shards(path)
    assert pickle.loads(pickle.dumps(shard)) == shard
    content = [block.data.tobytes() for block in ShardReader().read(shard)]
    sent = pickle.dumps(shard)
    site.files["/games.tar"], site.versions["/games.tar"] = TAR[::-1], '"2"'
    assert [block.data.tobytes() for block in ShardReader().read(pickle.loads(sent))] == content
    for file in cache.iterdir():  # as on another machine
        file.unlink()
    with pytest.raises(SourceError, match="it changed while it was read"):
        list(ShardReader().read(pickle.loads(sent)))


@pytest.mark.parametrize("key", ["ETag", "mtime"])
def test_a_file_that_changes_while_it_is_copied(monkeypatch: pytest.MonkeyPatch, cache: Path, key: str) -> None:
    fsspec.filesystem("memory").pipe("/changing.sgf", SGF)
    infos = [{"type": "file", "size": len(SGF), key: k} for k in range(2)]
    monkeypatch.setattr(paths._Store, "info", lambda _: infos.pop(0))
    assert fault("memory://changing.sgf").endswith("changing.sgf: it changed while it was read")
    assert not list(cache.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_copy_leaves_nothing(
    site: Site, url: str, cache: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[bytes]:
        yield TAR[:5000]
        raise error

    monkeypatch.setattr("kifu.download.Client.chunks", fail)
    if isinstance(error, OSError):
        assert fault(url) == f"{url}: cannot write a copy to {cache}: No space left on device"
    else:
        with pytest.raises(KeyboardInterrupt):
            rows(url)
    assert not list(cache.iterdir())


def test_a_full_disk(url: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths.shutil, "disk_usage", lambda _: type("", (), {"free": 1000}))
    line = f"a copy takes {len(TAR):,} bytes, but {cache} has room for 1,000"
    assert fault(url) == f"{url}: {line}"
    fsspec.filesystem("memory").pipe("/full.tar", TAR)
    assert fault("memory://full.tar") == f"memory://full.tar: {line}"
    monkeypatch.setattr(paths, "private_folder", lambda _: None)
    assert "XDG_CACHE_HOME" in fault(url)
    assert not list(cache.iterdir())


# Names and credentials


def test_names_of_urls_contain_no_credentials() -> None:
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


def test_credentials_are_sent_but_never_written_or_shown(site: Site, cache: Path, tmp_path: Path) -> None:
    host, path = site.url.removeprefix("http://"), "/games.zip?X-Signature=signature&t=s3cr3t"
    url = f"http://user:pass%20word@{host}{path}"
    site.files[path] = site.files["/games.zip"] = zip_of({f"{k}.sgf": data for k, data in enumerate(records(5, 1))})
    out = tmp_path / "games.parquet"
    assert ingest([url, f"{site.url}/games.zip"], out).read == 10
    kept = [out.read_bytes(), *(file.read_bytes() + file.name.encode() for file in cache.iterdir())]
    assert not any(secret.encode() in data for secret in SECRETS for data in kept)
    login = "Basic " + base64.b64encode(b"user:pass word").decode()
    assert {(each.path, each.headers.get("authorization")) for each in site.requests} == {
        (path, login),
        ("/games.zip", None),
    }
    for code, reason in ((403, "403 (Forbidden)"), (404, "404 (Not Found)"), (503, "503 (Service Unavailable)")):
        site.always(path, web.status(code))
        message = fault(url)
        assert message.startswith(f"http://{host}/games.zip: the server answered {reason}")


def test_a_login_of_netrc(site: Site, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for host, expected in (("127.0.0.1", "Basic " + base64.b64encode(b"user:password").decode()), ("other", None)):
        (tmp_path / ".netrc").write_text(f"machine {host}\nlogin user\npassword password\ndefault login x password y\n")
        (tmp_path / ".netrc").chmod(0o600)
        rows(url)
        assert site.requests[-1].headers.get("authorization") == expected


# Failures


def test_broken_connections_are_retried_a_few_times(site: Site, url: str, tree: Path) -> None:
    site.misbehave("/games.tar", web.half_then(web.hang_up), web.half_then(web.hang_up))
    assert rows(url) == rows(tree / "b/games.tar")
    assert site.ranges("/games.tar")[0] is None
    assert site.sent == len(TAR)  # each attempt continues
    site.versions["/games.tar"] = '"2"'
    site.always("/games.tar", web.half_then(web.hang_up))
    assert fault(url).startswith(f"{url}: the connection ended")
    assert len(site.requests) == 6


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (web.unannounced(1000), "the server does not report its size"),
        (web.chunked, "the server does not report its size"),
        (web.announce(1 << 60), r"a copy takes 1,152,921,504,606,[0-9,]+ bytes, but .* has room for .*"),
        (web.announce(10), r"the connection ended 10 bytes too early \(tried 3 times\)"),
        (web.partial("bytes 5-10/11"), "the server cannot resume at byte 0; starting over .*"),
        (web.stall, r"nothing came for 0\.2 s \(tried 3 times\)"),
    ],
)
def test_wrong_responses_are_refused(
    site: Site, url: str, response: web.Fault, reason: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_POLICY", replace(paths._POLICY, read_timeout_s=0.2 if response is web.stall else 60))
    site.always("/games.tar", response)
    assert re.fullmatch(f"{url}: {reason}", fault(url))
    assert not list(cache.iterdir())


def test_failures_are_one_line(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault(f"{site.url}/") == f"{site.url}/: http has no folders: name the files one by one"
    assert fault("http://127.0.0.1:9/a.zip").startswith("http://127.0.0.1:9/a.zip: no connection (Connection refused)")
    assert fault("memory://nothing/here") == "memory://nothing/here: no such file or folder"
    assert fault("nosuch://host/a") == "nosuch://host/a: Protocol not known: nosuch"
    store = fsspec.filesystem("memory")
    store.pipe("/few/notes.pdf", b"nothing")
    assert "memory://few: no game records and no archives" in fault("memory://few")
    store.pipe("/sizes.tar", TAR)
    for size, reason in (
        (len(TAR) - 1, "more came than the "),
        (len(TAR) + 1, "it ends at byte "),
        (None, "the server"),
    ):
        monkeypatch.setattr(paths._Store, "info", lambda _, size=size: {"type": "file", "size": size})
        assert fault("memory://sizes.tar").startswith(f"memory://sizes.tar: {reason}")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'kifu[cluster]'" in fault("s3://bucket/a.zip")


def test_a_record_that_cannot_be_fetched_ends_the_run(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Remote) -> bytes:
        raise OSError(5, "the store is gone")

    (folder, *_) = containers("memory://games")
    monkeypatch.setattr(Remote, "local", fail)
    with pytest.raises(SourceError, match=r"memory://games/Z\.sgf: the store is gone"):
        rows(folder)

"""Archives in emulators of S3 and of Google Cloud Storage give the same catalogues and data sets as the same folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pytest

from commands import run
from http_server import Handler, HTTPServer, Request, Site, serving
from kgs_archives import archive, record, records
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import read
from kifu.errors import SourceError
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records import paths
from kifu.records.containers import blocks, containers
from kifu.records.paths import as_path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "anybody",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def moto_endpoint() -> Iterator[str]:
    from moto import server as moto_server

    server = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def emulator() -> Iterator[Any]:
    """Start the emulator of Google Cloud Storage with the empty bucket "games"."""
    server = pytest.importorskip("gcp_storage_emulator.server").create_server(
        "127.0.0.1", 0, in_memory=True, default_bucket="games"
    )
    with server:
        server._api._httpd.handle_error = lambda *_: None  # clients close connections that they need no more
        yield server


def use_s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let s3:// lead to an endpoint, and return the store as fsspec has it."""
    for name, value in (_ENVIRONMENT | {"AWS_ENDPOINT_URL": endpoint}).items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    return fsspec.filesystem("s3", use_listings_cache=False)


def use_gs(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let gs:// lead to an endpoint, and return the store as fsspec has it."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # its bucket types are asked of Google only
    import gcsfs

    gcsfs.GCSFileSystem.clear_instance_cache()
    return fsspec.filesystem("gs", use_listings_cache=False)


class Failing(Handler):
    """Answers each request with a status, which is all that its site serves."""

    def do_GET(self) -> None:  # noqa: N802
        site = self.server.site
        site.requests.append(Request(self.path, None, {}, None))
        self.start(int(site.files["status"]), {"Content-Length": 0})

    do_HEAD = do_GET  # noqa: N815


@contextmanager
def failing(status: int) -> Iterator[Site]:
    with HTTPServer(("127.0.0.1", 0), Failing) as server:
        server.site = Site(f"http://127.0.0.1:{server.server_port}", {"status": b"%d" % status})
        with serving(server, server.site.closing):
            yield server.site


class Bucket(NamedTuple):
    url: str
    files: Any


@pytest.fixture(params=["s3", "gs"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    if request.param == "gs":
        server = request.getfixturevalue("emulator")
        return Bucket("gs://games", use_gs(f"http://127.0.0.1:{server._api._httpd.server_port}", monkeypatch))
    files = use_s3(request.getfixturevalue("moto_endpoint"), monkeypatch)
    files.makedirs("games", exist_ok=True)
    return Bucket("s3://games", files)


@pytest.fixture
def kgs(tmp_path: Path, bucket: Bucket) -> Path:
    top = tmp_path / "kgs"
    archive(top, records(12, 1), year=2001)
    archive(top / "b", records(9, 2), year=2002, kind="zip")
    (top / "loose.sgf").write_bytes(record("loose"))
    (top / "Later.sgf").write_bytes(record("later"))
    for path in top.rglob("*.*"):
        bucket.files.put_file(str(path), f"games/kgs/{path.relative_to(top).as_posix()}")
    return top


def fault(source: str) -> str:
    with pytest.raises(SourceError) as raised:
        list(read(source))
    message = str(raised.value)
    assert message.startswith(f"{source}: ")
    assert "\n" not in message
    return message.removeprefix(f"{source}: ")


def test_a_catalogue_of_a_bucket_equals_that_of_the_folder(kgs: Path, bucket: Bucket, tmp_path: Path) -> None:
    here = ingest(kgs, tmp_path / "here.parquet", jobs=1)
    there = ingest(f"{bucket.url}/kgs/", tmp_path / "there.parquet", jobs=2)
    assert here.read == there.read == 23
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_a_data_set_of_a_bucket_equals_that_of_the_archives(kgs: Path, bucket: Bucket, tmp_path: Path) -> None:
    recipe = load_recipe("kgsgo-v2", ["sets.test.games=5"])
    for source, into in ((str(kgs), tmp_path / "here"), (f"{bucket.url}/kgs", tmp_path / "there")):
        build(recipe, [source], into, sets=["test"])
    made = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert made
    for name in made:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_kifu_ingest_takes_a_bucket(kgs: Path, bucket: Bucket, tmp_path: Path) -> None:
    outcome = run(
        "ingest", f"{bucket.url}/kgs/b/KGS-2002-19-9-.zip", kgs / "loose.sgf", "-o", tmp_path / "games.parquet"
    )
    assert outcome.code == 0
    assert "10 games = 10 kept" in outcome.out


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
@pytest.mark.usefixtures("bucket")
def test_missing_objects_of_s3_are_one_line() -> None:
    assert fault("s3://games/none.zip") == "no such file or folder"
    assert fault("s3://nobucket/none.zip").endswith("The specified bucket does not exist")


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
@pytest.mark.usefixtures("bucket")
def test_missing_objects_of_gs_are_one_line() -> None:
    assert fault("gs://games/none.zip") == fault("gs://nobucket/none.zip") == "no such file or folder"


def test_s3_that_fails_is_one_line_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with failing(403) as site:
        use_s3(site.url, monkeypatch)
        assert fault("s3://games/a.zip") == "access is denied"
    with failing(503) as site:
        use_s3(site.url, monkeypatch)
        assert "s3cr3t" not in fault("s3://games/a.zip")
        assert len(site.requests) < 40
    use_s3("http://127.0.0.1:9", monkeypatch)
    assert "Could not connect" in fault("s3://games/a.zip")


@pytest.fixture
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gcsfs retry at once; its delays add up to half a minute."""
    from gcsfs import retry

    sleep = retry.asyncio.sleep
    monkeypatch.setattr(retry.asyncio, "sleep", lambda _: sleep(0))


@pytest.mark.usefixtures("no_delays")
def test_gs_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for status, message in ((403, "access is denied"), (503, "the server answered 503 (Service Unavailable)")):
        with failing(status) as site:
            use_gs(site.url, monkeypatch)
            assert fault("gs://games/a.zip") == message
            assert len(site.requests) < 20
            outcome = run("show", "gs://games/a.zip")
            assert (outcome.code, outcome.err) == (2, [f"kifu: gs://games/a.zip: {message}"])
    use_gs("http://127.0.0.1:9", monkeypatch)
    assert fault("gs://games/a.zip") == "Connection refused"


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
def test_a_truncated_object(bucket: Bucket, emulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = record("a", 300) * 10
    bucket.files.pipe("games/many.sgf", text)
    kept = emulator._storage.get_file
    monkeypatch.setattr(emulator._storage, "get_file", lambda *arguments: kept(*arguments)[:5000])
    assert fault("gs://games/many.sgf") == f"it ends at byte 5,000 of {len(text):,}"


def test_a_copy_is_used_again_unless_the_object_was_replaced(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    get = paths._Store.get
    monkeypatch.setattr(paths._Store, "get", lambda self, *args: (fetched.append(self._path), get(self, *args)))
    for text in (record("a", 300), record("b", 200)):
        bucket.files.pipe("games/many.sgf", text)
        for _ in range(2):
            assert as_path(f"{bucket.url}/many.sgf").local().read_bytes() == text
    assert len(fetched) == 2


def test_real_archives_in_a_bucket(shared: Path, bucket: Bucket) -> None:
    path = shared / "data" / "kgs" / "KGS-2017_02-19-525-.tar.gz"
    bucket.files.put_file(str(path), f"games/real/{path.name}")
    (found,) = containers(f"{bucket.url}/real")
    here, there = list(blocks(path)), list(blocks(found))
    assert [block.data.tobytes() for block in there] == [block.data.tobytes() for block in here]

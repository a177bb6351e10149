"""Builds interrupted, killed, or out of room: no broken file under a final name, and the next run mends all."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import limited, tree
from kgs_archives import archive, records
from kifu.datasets.manifest import manifest_path, read_manifest
from kifu.errors import OutputError
from kifu.io import AtomicFile
from kifu.recipes import kgsgo, pipeline
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from slow_writer import CHUNK, SETTINGS

RECIPE = load_recipe("kgsgo-v2", SETTINGS)
SETS = ["test", "trainall"]
HERE = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(kgsgo, "_CHUNK_BYTES", CHUNK)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    archive(folder, records(60, 1, 100), year=2001)
    archive(folder, records(60, 2, 100), year=2002)
    return folder


@pytest.fixture(scope="module")
def good(source, tmp_path_factory):
    into = tmp_path_factory.mktemp("good")
    build(RECIPE, [source], into, sets=SETS, jobs=1)
    files = tree(into)
    assert len(files) == 6
    assert len(files["kgsgo-trainall-v2.dat"]) > 20 * CHUNK
    return files


def mended(source, into, good):
    """The next run ends with the same bytes as an undisturbed one, and nothing else lies there."""
    build(RECIPE, [source], into, sets=SETS)
    assert tree(into) == good


def whole(into, good):
    """Assert that files with a final name are complete; the others are partial."""
    for path in into.glob("*"):
        if path.suffix not in (".part", ".unfinished"):
            assert path.read_bytes() == good[path.name], path.name


# From inside


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_exceptions_at_any_moment(source, good, tmp_path, error, jobs):
    for countdown in (0, 1, 5, 13, 25):
        into = tmp_path / str(countdown)

        class Bomb:
            left = countdown

            def advance(self, n=1):
                Bomb.left -= 1
                if Bomb.left < 0:
                    raise error

        @contextmanager
        def armed(label, total, unit, bar=Bomb):
            yield bar()

        with pytest.raises(error):
            build(RECIPE, [source], into, sets=SETS, jobs=jobs, progress=armed)
        whole(into, good)
        assert len(tree(into)) in (0, 3), "the sets that were whole before, with their manifests"
        mended(source, into, good)


def test_an_exception_leaves_the_older_file(source, good, tmp_path):
    """But not its manifest, as it may be another recipe's; so the next run makes it anew."""
    build(load_recipe("kgsgo-v2", ["seed=1", *SETTINGS]), [source], tmp_path, sets=["test"])
    before = (tmp_path / "kgsgo-test-v2.dat").read_bytes()

    @contextmanager
    def fail(label, total, unit):
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        build(RECIPE, [source], tmp_path, sets=["test"], overwrite=True, progress=fail)
    unfinished = ".kgsgo-test-v2.dat.manifest.json.unfinished"
    assert tree(tmp_path) == {"kgsgo-test-v2.dat": before, unfinished: b""}
    assert before != good["kgsgo-test-v2.dat"]
    mended(source, tmp_path, good)


# No room


@pytest.fixture
def mounted(tmp_path):
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(options, *, again=False):
        options = ("remount," if again else "") + options
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "kifu-test", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip("needs the right to mount")
        return folder

    if not shutil.which("mount"):
        pytest.skip("needs the right to mount")
    yield mount
    while subprocess.run(["umount", str(folder)], capture_output=True).returncode == 0:
        pass


@pytest.mark.subprocess
@pytest.mark.parametrize("size", [4096, 400_000, 1_300_000, 2_900_000])
def test_a_full_disk(source, good, mounted, size, monkeypatch):
    folder = mounted(f"size={size}")
    with pytest.raises(OutputError, match=r"the output takes .* MB, but .* has room for "):
        build(RECIPE, [source], folder / "into", sets=SETS)
    monkeypatch.setattr(pipeline, "require_room", lambda *_: None)  # as if another program filled the disk
    with pytest.raises(OutputError, match="No space left on device"):
        build(RECIPE, [source], folder / "into", sets=SETS)
    whole(folder / "into", good)
    assert not list((folder / "into").glob(".*"))
    mounted("size=9000000", again=True)
    mended(source, folder / "into", good)


@pytest.mark.subprocess
def test_a_disk_without_a_free_inode(source, good, mounted):
    folder = mounted("nr_inodes=2")
    (folder / "into").mkdir()
    with pytest.raises(OutputError, match="No space left on device"):
        build(RECIPE, [source], folder / "into", sets=SETS)
    assert tree(folder / "into") == {}
    mounted("nr_inodes=20", again=True)
    mended(source, folder / "into", good)


@pytest.mark.subprocess
def test_a_read_only_disk(source, good, mounted):
    folder = mounted("ro")
    with pytest.raises(OutputError, match="Read-only file system"):
        build(RECIPE, [source], folder / "into", sets=SETS)
    mounted("rw", again=True)
    build(RECIPE, [source], folder, sets=["test"])
    before = tree(folder)
    mounted("ro", again=True)
    assert build(RECIPE, [source], folder, sets=["test"])[0].fresh is False
    for sets, recipe in ((["trainall"], RECIPE), (["test"], load_recipe("kgsgo-v2", ["seed=1", *SETTINGS]))):
        with pytest.raises(OutputError, match="Read-only file system"):
            build(recipe, [source], folder, sets=sets, overwrite=True)
    assert tree(folder) == before
    mounted("rw", again=True)
    mended(source, folder, good)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(source, tmp_path):
    into = tmp_path / "into"
    into.mkdir(mode=0o555)
    with pytest.raises(OutputError, match="Permission denied"):
        build(RECIPE, [source], into, sets=SETS)
    assert tree(into) == {}


# From outside, in processes of their own


def start(into, *sources, pause=0.02, jobs=2, sets=SETS):
    words = ["build", into, pause, jobs, ",".join(sets), *sources]
    command = [sys.executable, str(HERE / "support" / "slow_writer.py"), *map(str, words)]
    return limited(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


def watch(process, into, good, until):
    """Looks at the files all the time, for so many seconds after the first of them is begun, or until it ends."""
    process.stdout.readline()  # "building ..."
    end = time.monotonic() + until
    while process.poll() is None and time.monotonic() < end:
        whole(into, good)
    whole(into, good)


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "moment", [pytest.param(0.0, marks=pytest.mark.slow), 0.5, pytest.param(1.2, marks=pytest.mark.slow)]
)
def test_kill_9(source, good, tmp_path, moment):
    with start(tmp_path, source, pause=0.1) as process:
        watch(process, tmp_path, good, moment)
        while not list(tmp_path.glob(".*.part")) and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL, "it was killed within a file"
    whole(tmp_path, good)
    mended(source, tmp_path, good)


@pytest.mark.subprocess
@pytest.mark.slow
def test_two_builds_at_once(source, good, tmp_path):
    """Both end well, or one says in a line that the other is at it; the files are right in any case."""
    with start(tmp_path, source, pause=0.05) as first:
        watch(first, tmp_path, good, 0)
        first.send_signal(signal.SIGSTOP)
        with pytest.raises(OutputError, match=r"^.*kgsgo-test-v2.dat is being written by another process$"):
            build(RECIPE, [source], tmp_path, sets=SETS)
        first.send_signal(signal.SIGCONT)
        whole(tmp_path, good)
        with start(tmp_path, source, pause=0.01, sets=SETS[::-1]) as second:
            error = second.stderr.read()
        assert first.stderr.read() == "" or second.returncode == 0
    assert {first.returncode, second.returncode} <= {0, 2}
    assert 0 in (first.returncode, second.returncode)
    assert error == "" or error.endswith("is being written by another process\n")
    whole(tmp_path, good)
    mended(source, tmp_path, good)


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_build_beside_another_set_of_the_same_folder(source, good, tmp_path):
    with start(tmp_path, source, pause=0.02, sets=["trainall"]) as process:
        watch(process, tmp_path, good, 0)
        build(RECIPE, [source], tmp_path, sets=["test"])
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert tree(tmp_path) == good


def test_while_someone_holds_the_name(source, good, tmp_path):
    path = tmp_path / "kgsgo-test-v2.dat"
    with AtomicFile(path), pytest.raises(OutputError, match="another process"):
        build(RECIPE, [source], tmp_path, sets=["test"])
    with AtomicFile(manifest_path(path)), pytest.raises(OutputError, match="another process"):
        build(RECIPE, [source], tmp_path, sets=["test"])
    whole(tmp_path, good)
    assert read_manifest(path) is None
    mended(source, tmp_path, good)

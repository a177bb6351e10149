"""Atomic files: renamed only when complete, locked, and removed after failures."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from kifu.atomic_io import AtomicFile, remove_file, write_file
from kifu.errors import OutputError
from kifu.files import hash_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@given(st.lists(st.binary(max_size=300), max_size=5), st.binary(max_size=40), st.booleans())
def test_files_contain_what_was_written(tmp_path_factory, parts, header, foreseen):
    path = tmp_path_factory.mktemp("out") / "file"
    with AtomicFile(path, header if foreseen else bytes(len(header))) as output:
        for part in parts:
            output.write(memoryview(part))
        digest = output.commit() if foreseen else output.commit(header)
    content = header + b"".join(parts)
    assert path.read_bytes() == content
    assert output.size == len(content)
    assert digest == blake3(content).hexdigest() == hash_file(path)
    assert names(path.parent) == ["file"]


def test_a_file_is_renamed_only_when_complete(tmp_path):
    path = tmp_path / "deep" / "er" / "file"
    with AtomicFile(path) as output:
        output.write(b"some")
        assert names(path.parent) == [".file.part"]
        output.write(b" bytes")
        output.commit()
        assert names(path.parent) == ["file"]
    assert path.read_bytes() == b"some bytes"


def test_an_uncommitted_file_is_removed(tmp_path):
    with AtomicFile(tmp_path / "file") as output:
        output.write(b"some")
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_exception_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file"
    write_file(path, b"old")
    with pytest.raises(error), AtomicFile(path) as output:  # noqa: PT012 - the context manager is tested
        output.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_existing_files_are_replaced(tmp_path):
    """A longer file, the rest of a killed run, and a link, whose target stays."""
    path = tmp_path / "file"
    for before in (lambda: path.write_bytes(b"x" * 9999), lambda: (tmp_path / ".file.part").write_bytes(b"x" * 9999)):
        before()
        write_file(path, b"new")
        assert path.read_bytes() == b"new"
        assert names(tmp_path) == ["file"]
    (tmp_path / "link").symlink_to(path)
    write_file(tmp_path / "link", b"other")
    assert path.read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "file"
    with AtomicFile(path) as output:
        output.write(b"first")
        with pytest.raises(OutputError, match=r"file is being written by another process$"):
            AtomicFile(path)
        assert names(tmp_path) == [".file.part"], "who comes second removes nothing"
        output.commit()
        with AtomicFile(path) as second:  # from the commit on the name is free
            second.write(b"second")
            second.commit()
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["file"]


def race(path, rounds, failures):
    for k in range(rounds):
        content = f"{os.getpid()} {threading.get_ident()} {k}".encode() * 500
        try:
            write_file(path, content)
        except OutputError as error:
            if "by another process" not in str(error):
                failures.append(str(error))


def test_many_writers_at_once(tmp_path):
    """The file is always complete, as one of the writers wrote it."""
    path = tmp_path / "file"
    failures = []
    write_file(path, b"0 0 0" * 500)
    threads = [threading.Thread(target=race, args=(path, 100, failures)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        content = path.read_bytes()
        assert content == content[: len(content) // 500] * 500
        assert content
    assert failures == []
    assert names(tmp_path) == ["file"]


def test_a_lock_dies_with_its_process(tmp_path):
    """The rest of a killed process is overwritten."""
    path = tmp_path / "file"
    script = (
        "import sys; from pathlib import Path; from kifu.atomic_io import AtomicFile; "
        "AtomicFile(Path(sys.argv[1])).write(b'half'); print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(OutputError, match="another process"):
            AtomicFile(path)
        process.kill()
    assert names(tmp_path) == [".file.part"]
    write_file(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("failing", ["write", "pwrite", "fchmod", "lseek", "replace", "fstat"])
def test_failures_leave_no_files(tmp_path, monkeypatch, failing, code):
    """Any system call may fail; the next attempt succeeds."""
    path = tmp_path / "file"
    write_file(path, b"old")
    (tmp_path / ".file.part").write_bytes(b"of a killed run")  # only such a one is cut off

    def fail(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if failing == "replace" else (os, failing)), fail)
        with (  # noqa: PT012 - the context manager is tested
            pytest.raises(OutputError, match=f"^cannot write {path}: {os.strerror(code)}$"),
            AtomicFile(path, b"   ") as output,
        ):
            output.write(b"new")
            output.commit(b"HDR")
    assert path.read_bytes() == b"old"
    write_file(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert names(tmp_path) == ["file"]


def test_short_writes(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data)[:7]))
    write_file(tmp_path / "file", bytes(range(256)))
    assert (tmp_path / "file").read_bytes() == bytes(range(256))


def test_a_temporary_file_that_another_program_changes(tmp_path):
    with (  # noqa: PT012 - the context manager is tested
        pytest.raises(OutputError, match=r"\.file\.part changed while it was written"),
        AtomicFile(tmp_path / "file") as output,
    ):
        output.write(b"some")
        with (tmp_path / ".file.part").open("ab") as foreign:
            foreign.write(b"more")
        output.commit()
    assert names(tmp_path) == []


def test_invalid_names(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_bytes(b"")
    cases = {
        tmp_path / "plain" / "file": "Not a directory|File exists",
        tmp_path / "plain" / "deep" / "file": "Not a directory",
        tmp_path / ("x" * 255): "File name too long",
        tmp_path / "nul\0" / "file": "null byte",
        tmp_path / "nul\0": "null byte",
        Path("/proc/kifu/file"): "No such file or directory",
        Path("/dev/full/file"): "Not a directory|File exists",
    }
    for path, reason in cases.items():
        with pytest.raises(OutputError, match=reason):
            write_file(path, b"x")
    with (
        pytest.raises(OutputError, match=r"cannot write .*folder: Is a directory"),
        AtomicFile(tmp_path / "folder") as output,
    ):
        output.commit()
    assert names(tmp_path) == ["folder", "plain"]


def test_no_file_stays_open(tmp_path, monkeypatch):
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    write_file(tmp_path / "file", b"x")
    for _ in range(3):
        with AtomicFile(tmp_path / "file"), pytest.raises(OutputError):
            AtomicFile(tmp_path / "file")
        with pytest.raises(OutputError):
            AtomicFile(tmp_path / "file" / "file")
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "No locks available")))
    with pytest.raises(OutputError, match="No locks available"):
        AtomicFile(tmp_path / "other")
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_remove_file(tmp_path):
    write_file(tmp_path / "file", b"x")
    remove_file(tmp_path / "file")
    remove_file(tmp_path / "file")
    assert names(tmp_path) == []
    with pytest.raises(OutputError, match=r"^cannot remove .*: Is a directory$"):
        remove_file(tmp_path)
    with pytest.raises(OutputError, match="null byte"):
        remove_file(tmp_path / "a\0")


def test_hash_of_a_file(tmp_path):
    for content in (b"", b"x", bytes(range(256)) * 1000):
        (tmp_path / "file").write_bytes(content)
        assert hash_file(tmp_path / "file") == blake3(content).hexdigest()

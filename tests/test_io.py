"""Atomic files: renamed only when complete, locked, and removed after failures."""

import errno
import fcntl
import os
import pkgutil
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from signal import SIGINT, raise_signal

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from commands import limited
from kifu import io
from kifu.errors import OutputError
from kifu.io import (
    AtomicDirectory,
    AtomicFile,
    append_to,
    hash_file,
    held_folder,
    locked_folder,
    remove_file,
    write_file,
    write_output,
)


def refuse(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


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


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_exception_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file"
    write_file(path, b"old")
    with pytest.raises(error), AtomicFile(path) as output:  # noqa: PT012 - the context manager is tested
        output.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("function", ["os.open", "kifu.io.lock_file", "os.lseek"])
def test_an_interrupt_while_the_file_is_created_leaves_nothing(tmp_path, monkeypatch, function):
    """Signals are handled when a function returns, before its value is assigned."""
    called = pkgutil.resolve_name(function)
    monkeypatch.setattr(function, lambda *given: (monkeypatch.undo(), called(*given), raise_signal(SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        AtomicFile(tmp_path / "folder" / "file")
    assert names(tmp_path) == []


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


@pytest.mark.subprocess
def test_a_lock_dies_with_its_process(tmp_path):
    """The rest of a killed process is overwritten."""
    path = tmp_path / "file"
    script = (
        "import sys; from pathlib import Path; from kifu.io import AtomicFile; "
        "AtomicFile(Path(sys.argv[1])).write(b'half'); print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with limited(process):
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(OutputError, match="another process"):
            AtomicFile(path)
        process.kill()
    assert names(tmp_path) == [".file.part"]
    write_file(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("failing", ["write", "pwrite", "fchmod", "lseek", "replace", "fstat", "fsync"])
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
    monkeypatch.setattr(os, "fchmod", refuse(errno.EPERM))
    with pytest.raises(OutputError, match="Operation not permitted"):
        AtomicFile(tmp_path / "file")
    assert names(tmp_path) == ["file"]
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF])
def test_file_systems_without_locks(number, tmp_path, monkeypatch, caplog):
    """NFS without its lock daemon, some FUSE."""
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    io._warn_of_locks.cache_clear()
    with AtomicDirectory(tmp_path / "folder", "index") as output:
        for name in "ab":
            with output.file(name) as file:
                file.commit()
        output.commit({})
    with locked_folder(tmp_path / "folder"):
        assert names(tmp_path) == ["folder"]
    assert [os.strerror(number) in each for each in caplog.messages] == [True]


def test_permissions_follow_the_umask(tmp_path):
    (tmp_path / ".killed.part").touch(mode=0o600)
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", b"x")
        write_file(tmp_path / "killed", b"x")  # the permissions that a killed run left are not kept
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "killed")] == [0o640, 0o640]


def test_remove_file(tmp_path):
    write_file(tmp_path / "file", b"x")
    remove_file(tmp_path / "file")
    remove_file(tmp_path / "file")
    assert names(tmp_path) == []
    with pytest.raises(OutputError, match=r"^cannot remove .*: Is a directory$"):
        remove_file(tmp_path)
    with pytest.raises(OutputError, match="null byte"):
        remove_file(tmp_path / "a\0")


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, lambda path: os.mknod(path, 0o600 | 0o140000)])
def test_a_temporary_name_that_is_no_file(tmp_path, plant):
    plant(tmp_path / ".file.part")
    with pytest.raises(OutputError, match=r"^cannot write .*file: (not a regular file|Is a directory)$"):
        write_file(tmp_path / "file", b"x")
    assert names(tmp_path) == [".file.part"]


def test_a_hard_link_at_a_temporary_name_is_not_written_through(tmp_path):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / ".file.part").hardlink_to(tmp_path / "precious")
    write_file(tmp_path / "file", b"x")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "file").samefile(tmp_path / "precious")


def test_links_among_the_parents_are_followed(tmp_path):
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "data").symlink_to("disk/deep")
    write_file(tmp_path / "data" / "file", b"x")
    with AtomicDirectory(tmp_path / "data" / "set", "index.json") as folder:
        with folder.file("one") as file:
            file.commit()
        folder.commit({})
    assert names(tmp_path / "disk" / "deep") == ["file", "set"]
    assert (tmp_path / "data").is_symlink()


def test_a_link_at_the_path_of_a_directory_is_replaced(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "one").write_bytes(b"precious")
    (tmp_path / "set").symlink_to("precious")
    with AtomicDirectory(tmp_path / "set", "index.json") as folder:
        with folder.file("one") as file:
            file.commit()
        folder.commit({})
    assert names(tmp_path / "set") == ["index.json", "one"]
    assert not (tmp_path / "set").is_symlink()
    assert (tmp_path / "precious" / "one").read_bytes() == b"precious"


def write_set(path, *files):
    with AtomicDirectory(path, "index.json") as folder:
        for name in files:
            with folder.file(name) as file:
                file.write(name.encode())
                file.commit()
        assert folder.encode_index({"a": 1}).endswith(b'"}\n')
        folder.commit({"a": 1})


def test_a_directory_with_folders_replaces_another_and_what_a_killed_run_left(tmp_path):
    write_set(tmp_path / ".set.old", "data/one")  # moved aside by a run that was killed
    write_set(tmp_path / "set", "data/one", "data/deep/two")
    (tmp_path / ".set.part" / "data").mkdir(parents=True)
    (tmp_path / ".set.part" / "data" / ".one.part").write_bytes(b"some")
    write_set(tmp_path / "set", "data/three")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "set", "set/data", "set/data/three", "set/index.json",
    ]  # fmt: skip
    (tmp_path / "set" / "data" / "mine").mkdir()
    with pytest.raises(OutputError, match=r"set contains data/mine, which its index does not list; remove it$"):
        write_set(tmp_path / "set", "one")
    assert (tmp_path / "set" / "data" / "three").read_bytes() == b"data/three"
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(OutputError, match=r"cannot write .*file: Not a directory$"):
        write_set(tmp_path / "file", "one")


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o755])
def test_permissions_of_a_replaced_file_are_kept(tmp_path, mode):
    path = tmp_path / "file"
    write_file(path, b"old")
    path.chmod(mode)
    with AtomicFile(path) as output:
        assert (tmp_path / ".file.part").stat().st_mode & 0o777 == mode, "already while it is written"
        output.commit()
    assert path.stat().st_mode & 0o777 == mode


def make_device(path):
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null
        path.write_bytes(b"x")
    except PermissionError:
        pytest.skip("devices cannot be made or opened here")


def test_devices_are_written_to_and_never_replaced(tmp_path):
    device = tmp_path / "device"
    make_device(device)
    (tmp_path / "link").symlink_to("device")
    for path in (device, tmp_path / "link"):
        write_output(path, b"x")
        with pytest.raises(OutputError, match=f"^cannot write {path}: not a regular file$"):
            AtomicFile(path)
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert names(tmp_path) == ["device", "link"]


def test_fifos_are_written_to_and_never_replaced(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write_output(path, b"x" * 100_000)
    reader.join(120)
    assert not reader.is_alive(), "the reader has not ended in 120 s"
    assert received == [b"x" * 100_000]
    with pytest.raises(OutputError, match=f"^cannot write {path}: not a regular file$"):
        AtomicFile(path)
    assert stat.S_ISFIFO(path.lstat().st_mode)
    assert names(tmp_path) == ["fifo"]


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_open_files_are_written_to_and_never_replaced(tmp_path, name):
    """Below what the program has printed; a rename would replace the link /dev/stdout."""
    script = (
        "import sys; from pathlib import Path; from kifu.io import AtomicFile, write_output; print('text'); "
        "write_output(Path(sys.argv[1]), b'data\\n'); print('end', flush=True); AtomicFile(Path(sys.argv[1]))"
    )
    with (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-c", script, name]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert (tmp_path / "out").read_text() == "text\ndata\nend\n"
    assert done.stderr.endswith(f"cannot write {name}: not a regular file\n")
    assert Path("/dev/stdout").is_symlink()


def test_other_outputs_are_atomic(tmp_path):
    write_output(tmp_path / "new" / "file", b"x")
    assert (tmp_path / "new" / "file").read_bytes() == b"x"
    with pytest.raises(OutputError, match="Is a directory"):
        write_output(tmp_path / "new", b"x")


@pytest.mark.parametrize("how", ["removed", "replaced", "linked"])
def test_a_temporary_file_that_is_no_longer_there(tmp_path, how):
    path, part = tmp_path / "file", tmp_path / ".file.part"
    (tmp_path / "other").write_bytes(b"some")
    with (  # noqa: PT012 - the context manager is tested
        pytest.raises(OutputError, match=r"^.*/\.file\.part was removed or replaced while it was written$"),
        AtomicFile(path) as output,
    ):
        output.write(b"some")
        part.unlink()
        if how == "replaced":
            part.write_bytes(b"evil")
        elif how == "linked":
            part.symlink_to("other")
        output.commit()
    assert not path.exists()
    assert (tmp_path / "other").read_bytes() == b"some"
    assert part.is_symlink() or not part.exists() or part.read_bytes() == b"evil", "files of others are kept"


@pytest.mark.parametrize("how", ["folder removed", "file removed", "file replaced", "file cut off", "part renamed"])
def test_a_directory_whose_files_are_gone(tmp_path, how):
    part = tmp_path / ".set.part"
    with (  # noqa: PT012 - the context manager is tested
        pytest.raises(OutputError, match=r"^.*/\.set\.part(/one)? was removed or replaced while it was written$"),
        AtomicDirectory(tmp_path / "set", "index.json") as folder,
    ):
        for name in ("one", "two"):
            with folder.file(name) as file:
                file.write(b"some")
                file.commit()
        if how == "folder removed":
            shutil.rmtree(part)
        elif how == "part renamed":
            part.rename(tmp_path / "elsewhere")
        elif how == "file removed":
            (part / "one").unlink()
        elif how == "file replaced":
            (tmp_path / "evil").write_bytes(b"evil")
            (tmp_path / "evil").rename(part / "one")
        else:
            (part / "one").write_bytes(b"")
        folder.commit({})
    assert names(tmp_path) == (["elsewhere"] if how == "part renamed" else [])


def test_a_held_directory_is_not_made_again(tmp_path):
    folder = tmp_path / "deep" / "folder"
    with held_folder(folder):
        write_file(folder / "inner" / "file", b"x")
        for change in (shutil.rmtree, lambda path: path.mkdir(parents=True), shutil.rmtree):
            change(tmp_path / "deep")
            with pytest.raises(OutputError, match=f"^({folder}|{tmp_path}/deep/folder) was removed or replaced"):
                write_file(folder / "inner" / "file", b"x")
    write_file(folder / "inner" / "file", b"x")
    assert names(folder) == ["inner"]


def test_a_failure_leaves_no_empty_directory(tmp_path):
    path = tmp_path / "deep" / "folder" / "output"
    for output in (AtomicFile, lambda path: AtomicDirectory(path, "index.json"), held_folder):
        with output(path):
            assert names(tmp_path) == ["deep"]
        assert names(tmp_path) == []
    path.parent.mkdir(parents=True)
    with AtomicFile(path):
        pass
    assert names(path.parent.parent) == ["folder"]


def test_appending_follows_no_link(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"one")
    append_to(path, b", two")
    assert path.read_bytes() == b"one, two"
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "fifo")
    for name, reason in (("link", "symbolic link"), ("fifo", "not a regular file"), ("none", "No such file")):
        with pytest.raises(OutputError, match=f"^cannot write .*{name}: .*{reason}"):
            append_to(tmp_path / name, b"x")
    assert path.read_bytes() == b"one, two"


def test_files_are_on_the_disk_before_their_names(tmp_path, monkeypatch):
    """Data first, then the name, then the directory that holds it."""
    calls = []
    fsync, replace = os.fsync, Path.replace

    def record_sync(descriptor):
        calls.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def record_rename(path, target):
        calls.append(f"rename {path.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_rename)
    (tmp_path / "here").mkdir()
    write_file(tmp_path / "here" / "file", b"x")
    assert calls == ["sync .file.part", "rename .file.part", "sync here"]
    calls.clear()
    write_set(tmp_path / "here" / "set", "one")
    assert calls == [
        "sync .one.part", "rename .one.part", "sync .set.part",
        "sync .index.json.part", "rename .index.json.part", "sync .set.part",
        "rename .set.part", "sync here",
    ]  # fmt: skip


@pytest.mark.parametrize("can_swap", [True, False])
def test_a_replaced_directory_always_stands_under_its_name(tmp_path, monkeypatch, can_swap):
    path = tmp_path / "set"
    write_set(path, "one")
    if not can_swap:
        monkeypatch.setattr(io, "_swap", lambda one, other: False)
    names_seen, rename = [], Path.rename

    def record(source, target):
        result = rename(source, target)
        names_seen.append(sorted(path.iterdir()) if path.exists() else None)
        return result

    monkeypatch.setattr(Path, "rename", record)
    write_set(path, "two")
    assert names(path) == ["index.json", "two"]
    assert names(tmp_path) == ["set"]
    assert names_seen == [[path / "index.json", path / "two"] if can_swap else None]

"""How files reach the disk, and what manifests say."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from kifu import atomic_io as output
from kifu.atomic_io import AtomicFile, hash_file, remove_file, write_file
from kifu.datasets.manifest import ArchiveRowsBuilder, DroppedGame, Manifest, RowOrigin, manifest_path, read_manifest
from kifu.errors import FormatError, OutputError

# Output


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@given(st.lists(st.binary(max_size=300), max_size=5), st.binary(max_size=40), st.booleans())
def test_what_is_written_is_what_is_there(tmp_path_factory, parts, header, foreseen):
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


def test_it_has_no_name_before_it_is_whole(tmp_path):
    path = tmp_path / "deep" / "er" / "file"
    with AtomicFile(path) as output:
        output.write(b"some")
        assert names(path.parent) == [".file.part"]
        output.write(b" bytes")
        output.commit()
        assert names(path.parent) == ["file"]
    assert path.read_bytes() == b"some bytes"


def test_uncommitted_it_was_never_there(tmp_path):
    with AtomicFile(tmp_path / "file") as output:
        output.write(b"some")
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_exception_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file"
    write_file(path, b"old")
    with pytest.raises(error), AtomicFile(path) as output:
        output.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_what_was_there_is_replaced(tmp_path):
    """A longer file, a left part of a killed run, and a link, whose target stays."""
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
    """Whoever wins, the file is always one of those that were written, whole."""
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
@pytest.mark.parametrize("failing", ["write", "pwrite", "ftruncate", "lseek", "replace", "fstat"])
def test_no_failure_leaves_anything(tmp_path, monkeypatch, failing, code):
    """Whatever call it is that fails; and the next try is not hindered."""
    path = tmp_path / "file"
    write_file(path, b"old")
    (tmp_path / ".file.part").write_bytes(b"of a killed run")  # only such a one is cut off

    def fail(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if failing == "replace" else (os, failing)), fail)
        with (
            pytest.raises(OutputError, match=f"^cannot write {path}: {os.strerror(code)}$"),
            AtomicFile(path, b"   ") as output,
        ):
            output.write(b"new")
            output.commit(b"HDR")
    assert path.read_bytes() == b"old"
    write_file(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert names(tmp_path) == ["file"]


def test_a_disk_that_takes_a_little_at_a_time(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data)[:7]))
    write_file(tmp_path / "file", bytes(range(256)))
    assert (tmp_path / "file").read_bytes() == bytes(range(256))


def test_a_part_that_someone_else_changes(tmp_path):
    with (
        pytest.raises(OutputError, match=r"\.file\.part changed while it was written"),
        AtomicFile(tmp_path / "file") as output,
    ):
        output.write(b"some")
        with (tmp_path / ".file.part").open("ab") as foreign:
            foreign.write(b"more")
        output.commit()
    assert names(tmp_path) == []


def test_names_that_can_not_be(tmp_path):
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


def test_files_are_as_open_as_the_user_wants(tmp_path):
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


def test_the_hash_of_a_file(tmp_path):
    for content in (b"", b"x", bytes(range(256)) * 1000):
        (tmp_path / "file").write_bytes(content)
        assert output.hash_file(tmp_path / "file") == blake3(content).hexdigest()


# Manifests

GAMES = st.lists(
    st.tuples(st.integers(1, 30), st.lists(st.integers(0, 400), unique=True, max_size=30).map(sorted)),
    unique_by=lambda game: game[0],
    max_size=12,
)
"""[(member, plies of its rows)]"""


def rows_of(archive, games, at_a_time=100):
    noted = ArchiveRowsBuilder()
    for first in range(0, len(games), at_a_time):
        some = games[first : first + at_a_time]
        plies = [ply for _, game in some for ply in game]
        members, counts = [member for member, _ in some], [len(game) for _, game in some]
        noted.add(np.array(members, np.int32), np.array(counts, np.int32), np.array(plies, np.uint16))
    return noted.build(archive, "hash")


@given(GAMES, st.integers(1, 12))
def test_origins_of_one_archive(games, at_a_time):
    """Every row, expanded one by one; and the same, however many games are noted at a time."""
    rows = rows_of("A", games, at_a_time)
    assert rows == rows_of("A", games)
    expected = [RowOrigin("A", member, ply) for member, game in games for ply in game]
    assert [rows.origin(row) for row in range(len(expected))] == expected
    assert rows.rows == [len(game) for _, game in games]
    assert rows.ply == [game[0] if game else 0 for _, game in games]
    for game, within, ply in rows.skips:
        assert within > 0
        assert games[game][1][within] == ply > games[game][1][within - 1] + 1


def test_a_game_in_one_go_takes_three_numbers():
    rows = rows_of("A", [(7, list(range(1, 400))), (3, [0, 1, 2, 9, 10])])
    assert (rows.member, rows.rows, rows.ply, rows.skips) == ([7, 3], [399, 5], [1, 0], [[1, 3, 9]])


def manifest(archives, dropped=()):
    rows = [rows_of(f"A{k}", games) for k, games in enumerate(archives)]
    kept = sum(len(games) for games in archives)
    reasons = [game.reason for game in dropped]
    return Manifest(
        kifu="1", file="x.dat", format="dat2@1", plane_set="kgsgo7@1", recipe={"seed": 0, "sets": {"a": None}},
        set="test", examples=sum(len(plies) for games in archives for _, plies in games), bytes=1027, blake3="00",
        read=kept + len(dropped), kept=kept, drops={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        dropped=list(dropped), archives=rows,
    )  # fmt: skip


@given(st.lists(GAMES, max_size=4), st.lists(st.sampled_from(["KO", "OCCUPIED"]), max_size=3))
def test_manifests_are_read_as_they_were_written(tmp_path_factory, archives, reasons):
    path = tmp_path_factory.mktemp("manifest") / "x.dat"
    dropped = [DroppedGame("A0", 31 + k, f"name {k}\n\"'ü", reason) for k, reason in enumerate(reasons)]
    written = manifest(archives, dropped)
    written.write(manifest_path(path))
    assert read_manifest(path) == written
    expected = [RowOrigin(f"A{k}", m, ply) for k, games in enumerate(archives) for m, plies in games for ply in plies]
    assert [written.origin(row) for row in range(written.examples)] == expected
    for row in (-1, written.examples, written.examples + 5):
        with pytest.raises(IndexError, match=f"row {row} is not within 0 to {written.examples - 1}"):
            written.origin(row)


def test_a_manifest_is_one_line_of_json(tmp_path):
    path = tmp_path / "x.dat"
    manifest([[(1, [0, 1, 5])]]).write(manifest_path(path))
    text = (tmp_path / "x.dat.manifest.json").read_text()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert json.loads(text)["archives"] == [
        {"archive": "A0", "blake3": "hash", "member": [1], "rows": [3], "ply": [0], "skips": [[0, 2, 5]]}
    ]


def test_no_manifest(tmp_path):
    assert read_manifest(tmp_path / "x.dat") is None


@pytest.fixture
def plain(tmp_path):
    """A manifest as a table, and a function that writes it back."""
    path = tmp_path / "x.dat"
    manifest([[(1, [0, 1, 5]), (2, [])]], [DroppedGame("A0", 3, "n", "KO")]).write(manifest_path(path))

    def damage(content):
        manifest_path(path).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(FormatError) as caught:
            read_manifest(path)
        message = str(caught.value)
        assert message.startswith(f"{manifest_path(path)} is not a manifest: ")
        assert message.isprintable()
        return message

    return json.loads(manifest_path(path).read_bytes()), damage


NO_MANIFEST = {
    "empty": b"",
    "cut off": b'{"kifu":',
    "not UTF-8": b"\xff",
    "null": b"null",
    "a list": b"[]",
    "nothing in it": b"{}",
    "a number": b"7",
    "a text": b'"x"',
    "deep lists": b"[" * 50_000,
    "deep tables": b'{"a":' * 50_000,
    "a long number": b"9" * 9999,
    "no number": b"NaN",
}


@pytest.mark.parametrize("case", NO_MANIFEST)
def test_files_that_are_no_manifest(plain, case):
    plain[1](NO_MANIFEST[case])


@pytest.mark.parametrize(
    "change",
    [
        {"examples": "3"}, {"examples": 4}, {"examples": 3.0}, {"examples": None}, {"bytes": "x"}, {"kept": 1},
        {"read": 2}, {"drops": {}}, {"drops": {"KO": 2}}, {"drops": []}, {"dropped": []}, {"dropped": [{}]},
        {"dropped": 3}, {"archives": []}, {"archives": 5}, {"archives": [5]}, {"archives": [{}]}, {"recipe": []},
        {"set": 5}, {"kifu": 1}, {"blake3": None},
    ],
    ids=str,
)  # fmt: skip
def test_values_that_do_not_fit(plain, change):
    table, damage = plain
    damage(table | change)


@pytest.mark.parametrize(
    "change",
    [
        {"member": [1]}, {"rows": [3]}, {"rows": [4, -1]}, {"rows": ["3", 0]}, {"ply": [0]}, {"ply": [0, -1]},
        {"skips": [[0, 2]]}, {"skips": [5]}, {"skips": [[0, 2, 5, 6]]}, {"skips": None}, {"member": "12"},
    ],
    ids=str,
)  # fmt: skip
def test_archives_that_do_not_fit(plain, change):
    table, damage = plain
    table["archives"][0] |= change
    damage(table)


@pytest.mark.parametrize("key", list(Manifest.__dataclass_fields__))
def test_every_value_is_needed(plain, key):
    table, damage = plain
    del table[key]
    assert damage(table).endswith(f"{key} Field required")


@given(st.binary(max_size=100))
def test_any_bytes_as_a_manifest(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.dat"
    manifest_path(path).write_bytes(data)
    with pytest.raises(FormatError):
        read_manifest(path)

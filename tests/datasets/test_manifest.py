"""Manifests of data sets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.datasets.manifest import ArchiveRows, DroppedGame, Manifest, WrittenFile, manifest_path, read_manifest
from kifu.errors import FormatError
from kifu.io import read_small


def manifest(rows=(), reasons=(), files=1):
    """Return a manifest of archives with so many rows each, one game for each row, of which some were dropped."""
    dropped = [DroppedGame("A0", 31 + k, f"name {k}\n\"'ü", reason) for k, reason in enumerate(reasons)]
    written = [WrittenFile(f"part {k}", 1027 + k, f"0{k}") for k in range(files)]
    return Manifest(
        kifu="1", file="x.dat", format="dat2@1", plane_set="kgsgo7@1", recipe={"seed": 0, "sets": {"a": None}},
        set="test", examples=sum(rows), files=written, read=sum(rows) + len(dropped), kept=sum(rows), elsewhere=0,
        drops={reason: reasons.count(reason) for reason in sorted(set(reasons))}, dropped=dropped,
        sources=[{"name": "A0.tar.gz", "bytes": 7, "blake3": "ab"}],
        archives=[ArchiveRows(f"A{k}", "hash", count, count) for k, count in enumerate(rows)],
        origins=WrittenFile("x.dat.manifest.parquet", 77, "03"),
    )  # fmt: skip


@given(st.lists(st.integers(0, 9), max_size=4), st.lists(st.sampled_from(["KO", "OCCUPIED"]), max_size=3))
def test_manifests_are_read_as_they_were_written(tmp_path_factory, rows, reasons):
    path = tmp_path_factory.mktemp("manifest") / "x.dat"
    written = manifest(rows, reasons)
    written.write(manifest_path(path))
    assert read_manifest(path) == written


def test_size_and_hash():
    assert (manifest().bytes, manifest().blake3) == (1027, "00")
    assert (manifest(files=2).bytes, manifest(files=2).blake3) == (2055, None)


def test_a_manifest_is_one_line_of_json(tmp_path):
    path = tmp_path / "x.dat"
    manifest([3]).write(manifest_path(path))
    text = (tmp_path / "x.dat.manifest.json").read_text()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert json.loads(text)["archives"] == [{"archive": "A0", "blake3": "hash", "games": 3, "rows": 3}]


def test_no_manifest(tmp_path):
    assert read_manifest(tmp_path / "x.dat") is None


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "x.dat"
    manifest([3], ["KO"]).write(manifest_path(path))

    def damage(content):
        manifest_path(path).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(FormatError) as caught:
            read_manifest(path)
        message = str(caught.value)
        assert message.startswith(f"{manifest_path(path)} is not a manifest: ")
        assert message.isprintable()
        return message

    return json.loads(read_small(manifest_path(path))), damage


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
def test_files_that_are_not_manifests(plain, case):
    plain[1](NO_MANIFEST[case])


@pytest.mark.parametrize(
    "change",
    [
        {"examples": "3"}, {"examples": 4}, {"examples": 3.0}, {"examples": None}, {"files": "x"}, {"kept": 1},
        {"read": 2}, {"elsewhere": 1}, {"drops": {}}, {"drops": {"KO": 2}}, {"drops": []}, {"drops": {"OCCUPIED": 1}},
        {"dropped": [{}]}, {"dropped": 3}, {"archives": []}, {"archives": 5}, {"archives": [5]}, {"archives": [{}]},
        {"recipe": []}, {"set": 5}, {"kifu": 1}, {"sources": None}, {"origins": None}, {"origins": 5},
        {"origins": {"file": "../x", "bytes": 77, "blake3": "03"}}, {"files": [{"file": "x"}]},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_values(plain, change):
    table, damage = plain
    damage(table | change)


@pytest.mark.parametrize(
    "change", [{"rows": 2}, {"rows": "3"}, {"games": None}, {"games": -1}, {"archive": 5}], ids=str
)
def test_invalid_archives(plain, change):
    table, damage = plain
    table["archives"][0] |= change
    damage(table)


@pytest.mark.parametrize("key", sorted({*Manifest.__dataclass_fields__} - {"index"}))  # which 0.17 did not write
def test_every_value_is_required(plain, key):
    table, damage = plain
    del table[key]
    assert damage(table).endswith(f"{key} is missing")


@given(st.binary(max_size=100))
def test_any_bytes_as_a_manifest(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.dat"
    manifest_path(path).write_bytes(data)
    with pytest.raises(FormatError):
        read_manifest(path)

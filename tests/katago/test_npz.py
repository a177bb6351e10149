"""KataGo's training files: writing, reading, damaged and hostile files, inspection."""

from __future__ import annotations

import errno
import io
import itertools
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import kifu
from commands import run
from example_sets import bytes_of
from kata_nets import as_arrays, random_rows, same_rows
from kifu.datasets.formats import FORMATS, detect_format
from kifu.errors import FormatError, OutputError, RecipeError, SourceError
from kifu.katago.npz import ARRAYS, KataNpz, KataRows, KataWriter, PieceBuffer, compress_rows, join_rows
from kifu.leaks import audit as leaks_audit
from kifu.leaks.audit import audit, open_set
from kifu.report.describe import describe_row
from kifu.report.inspect import describe_data_set, inspect_examples

ROWS = random_rows(57)
REQUIRED = {
    "binaryInputNCHWPacked": ("uint8", (22, 46)), "globalInputNC": ("float32", (19,)),
    "policyTargetsNCMove": ("int16", (2, 362)), "globalTargetsNC": ("float32", (80,)), "scoreDistrN": ("int8", (842,)),
    "valueTargetsNCHW": ("int8", (5, 19, 19)),
}  # fmt: skip
OPTIONAL = {"qValueTargetsNCMove": ("int16", (3, 362)), "metadataInputNC": ("float32", (192,))}


def cuts(rows: KataRows, *at: int) -> Iterator[KataRows]:
    bounds = [0, *at, rows.size]
    for start, stop in itertools.pairwise(bounds):
        yield rows.part(start, stop)


def write(path: Path, rows: KataRows, *at: int, **options) -> Path:
    with KataWriter(path, q=rows.q is not None, meta=rows.meta is not None, **options) as writer:
        for part in cuts(rows, *at):
            writer.write(part)
        writer.commit({"recipe": "none"})
    return path


def taken_by_scripts(folder: Path, include_meta: bool) -> int:
    """Check the requirements of shuffle.py (v1.17.2) and train.py. Returns the number of rows."""
    total = 0
    for path in sorted(folder.glob("*.npz")):
        assert "_" not in path.name
        with zipfile.ZipFile(path) as file, file.open("binaryInputNCHWPacked.npy") as head:
            assert np.lib.format.read_magic(head) == (1, 0)
            shape, fortran, _ = np.lib.format.read_array_header_1_0(head)
        with np.load(path) as file:
            keys = set(file.keys())
            assert keys - {"qValueTargetsNCMove"} == {*REQUIRED, *(["metadataInputNC"] if include_meta else [])}
            for name in keys:
                kind, rest = {**REQUIRED, **OPTIONAL}[name]
                assert (file[name].dtype.name, file[name].shape) == (kind, (shape[0], *rest)), name
            assert not fortran
            assert (file["policyTargetsNCMove"].sum(2, np.int64) > 0).all()
            assert (file["scoreDistrN"].sum(1, np.int64) == 100).all()
            assert all(np.isfinite(file[name]).all() for name in keys)
        assert json.loads(path.with_suffix(".json").read_text()) == {"num_rows": shape[0]}
        total += shape[0]
    return total


@pytest.mark.parametrize("compression", ["deflate", "fast", "stored"])
@pytest.mark.parametrize(("q", "meta"), [(True, True), (True, False), (False, True), (False, False)])
def test_files_round_trip_and_meet_the_scripts_requirements(tmp_path, compression, q, meta):
    rows = random_rows(57, q=q, meta=meta)
    folder = write(tmp_path / "tr_ain", rows, 5, 5, 30, rows_per_file=20, compression=compression)
    assert [path.name for path in sorted(folder.glob("*.npz"))] == [f"tr-ain-{k:05}.npz" for k in range(3)]
    assert taken_by_scripts(folder, meta) == 57
    with np.load(folder / "tr-ain-00001.npz") as file:
        for name, values in as_arrays(rows.part(20, 40)).items():
            assert np.array_equal(file[name], values)
    with zipfile.ZipFile(folder / "tr-ain-00002.npz") as file:
        assert file.testzip() is None
        assert [name.removesuffix(".npy") for name in file.namelist()] == [*as_arrays(rows)]
        assert {info.date_time[:3] for info in file.infolist()} == {(1980, 1, 1)}
        assert {info.compress_type for info in file.infolist()} == {0 if compression == "stored" else 8}
    with kifu.open(folder) as data:
        assert isinstance(data, KataNpz)
        assert len(data) == 57
        assert data.about == {"recipe": "none"}
        for start, stop in [(0, 57), (0, 3), (18, 22), (56, 57), (5, 45), (0, 0)]:
            assert same_rows(data.rows(start, stop), rows.part(start, stop))
    assert detect_format(folder) == detect_format(folder / "tr-ain-00000.npz") == FORMATS["katago-npz@1"]


def test_bytes_depend_on_rows_only(tmp_path, monkeypatch):
    monkeypatch.setattr("kifu.katago.npz._PIECE_ROWS", 8)
    monkeypatch.setattr("kifu.datasets.npz._IN_MEMORY", 1000)  # so that some of it goes to the disk
    one = bytes_of(write(tmp_path / "a" / "set", ROWS, rows_per_file=30))
    assert len(one) == 5
    assert one == bytes_of(write(tmp_path / "b" / "set", ROWS, *range(1, 57), rows_per_file=30))
    assert one == bytes_of(write(tmp_path / "c" / "set", ROWS, 29, 29, 31, rows_per_file=30))
    other = ROWS._replace(targets=ROWS.targets + np.float32(1))
    assert one != bytes_of(write(tmp_path / "d" / "set", other, rows_per_file=30))


def test_compressed_pieces_may_be_appended(tmp_path, monkeypatch):
    monkeypatch.setattr("kifu.katago.npz._PIECE_ROWS", 8)
    one = bytes_of(write(tmp_path / "a" / "set", ROWS, rows_per_file=30))
    with KataWriter(tmp_path / "b" / "set", rows_per_file=30, meta=True) as writer:
        for start, stop in itertools.pairwise([0, 8, 16, 24, 30, 38, 46, 54, 57]):
            some = ROWS.part(start, stop)
            if stop in (16, 38, 57):
                writer.write(some.part(0, 3))
                writer.write(some.part(3, some.size))
            else:
                writer.append(compress_rows(some, "deflate"))
        writer.commit({"recipe": "none"})
    assert bytes_of(tmp_path / "b" / "set") == one


def test_compressed_pieces_with_other_arrays_raise(tmp_path):
    with KataWriter(tmp_path / "set", rows_per_file=57) as writer, pytest.raises(ValueError, match="7 arrays, got 8"):
        writer.append(compress_rows(ROWS, "fast"))


@pytest.mark.parametrize(("size", "rows_per_file"), [(1, 1), (3, 7), (7, 7), (8, 5), (4, 8), (100, 100)])
def test_pieces_end_with_files(monkeypatch, size, rows_per_file):
    monkeypatch.setattr("kifu.katago.npz._PIECE_ROWS", size)
    for at in ((), (1, 2, 3, 9), (7, 14, 50)):
        pieces = PieceBuffer(rows_per_file)
        found = [*(piece for part in cuts(ROWS, *at) for piece in pieces.add(part)), *pieces.flush()]
        bounds = np.cumsum([piece.size for piece in found])
        files = sorted({*range(0, 57, rows_per_file), 57})
        wanted = [end for a, b in itertools.pairwise(files) for end in [*range(a + size, b, size), b]]
        assert bounds.tolist() == wanted
        assert same_rows(join_rows(found), ROWS)
        assert [*pieces.flush()] == []


def test_an_empty_data_set(tmp_path):
    folder = write(tmp_path / "none", ROWS.part(0, 0))
    assert [path.name for path in folder.iterdir()] == ["examples.json"]
    with kifu.open(folder) as data:
        assert len(data) == data.rows(0, 0).size == 0
        assert [*data] == []
    assert "0 in 0 files" in "\n".join(inspect_examples(folder))


@pytest.mark.parametrize(
    "wrong",
    [{"policy": ROWS.policy.astype(np.int32)}, {"targets": ROWS.targets[:, :64]}, {"inputs": ROWS.inputs[:9]}],
    ids=list,
)
def test_arrays_of_other_types_or_shapes_raise(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"must be .*\(57, .*got"):
        write(tmp_path / "set", ROWS._replace(**wrong))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("rows_per_file", [0, -1, 200_001])
def test_rows_per_file_is_checked(tmp_path, rows_per_file):
    with pytest.raises(RecipeError, match=f"rows_per_file must be from 1 to 200,000, got {rows_per_file:,}"):
        KataWriter(tmp_path / "set", rows_per_file=rows_per_file)
    assert not [*tmp_path.iterdir()]


def test_a_disk_that_is_full_before_the_first_file(tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", lambda *_, **__: Full())
    with pytest.raises(OutputError, match="set: No space left on device"):
        write(tmp_path / "set", ROWS)
    assert not [*tmp_path.iterdir()]


# --- reading


def save(path: Path, arrays: dict, method: int = zipfile.ZIP_DEFLATED, suffix: str = ".npy") -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, values in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, values)
            file.writestr(name + suffix, buffer.getvalue())
    return path


@pytest.mark.parametrize("suffix", ["", ".npy"])
@pytest.mark.parametrize("columns", [64, 70, 80])
def test_files_written_by_katago_open(tmp_path, suffix, columns):
    rows = random_rows(9, q=False, meta=False)
    arrays = as_arrays(rows) | {"globalTargetsNC": rows.targets[:, :columns]}
    path = save(tmp_path / "a_b.npz", arrays, suffix=suffix)
    with kifu.open(path) as data:
        assert same_rows(data.rows(0, 9), rows)
        assert [each.name for each in data.arrays] == [*REQUIRED]


def test_a_folder_written_by_katago_opens(tmp_path):
    """Files are read in the order of their names, without those that shuffle.py skips; missing q values are 0."""
    parts = [random_rows(5, 1, meta=False), random_rows(4, 2, q=False, meta=False), random_rows(3, 3, meta=False)]
    parts[0].q[:] = 7
    for name, part in zip(("a", "b", "C"), parts):
        save(tmp_path / f"{name}.npz", as_arrays(part))
    save(tmp_path / "a_half.npz", as_arrays(parts[0]))
    (tmp_path / "a.json").write_text('{"num_rows": 5}')
    with kifu.open(tmp_path) as data:
        assert [file.path.name for file in data.files] == ["C.npz", "a.npz", "b.npz"]
        found = data.rows(0, 12)
        assert same_rows(found.part(3, 8), parts[0])
        assert same_rows(found.part(8, 12)._replace(q=None), parts[1])
        assert not found.q[8:].any()
    save(tmp_path / "d.npz", as_arrays(random_rows(2)))
    with pytest.raises(FormatError, match=r"only one of .* has metadataInputNC"):
        kifu.open(tmp_path)


def test_rows_as_examples(tmp_path):
    folder = write(tmp_path / "set", ROWS, rows_per_file=25)
    with kifu.open(folder) as data:
        planes, move = data[26]
        bits = np.unpackbits(ROWS.planes[26], axis=-1, count=361).reshape(22, 19, 19)
        assert np.array_equal(planes, bits)
        assert move == ROWS.policy[26, 0].argmax()
        assert [move for _, move in data] == ROWS.policy[:, 0].argmax(1).tolist()
        assert np.array_equal(data[-3:][1], ROWS.policy[-3:, 0].argmax(1))
        whole = data.read(0, 57)
        assert np.array_equal(whole.planes, ROWS.planes)
        assert np.array_equal(whole.labels["globals"], ROWS.inputs)
        assert np.array_equal(whole.labels["result"], np.where(ROWS.targets[:, 0] == 1, 1, -1))
        assert np.array_equal(whole.game, ROWS.targets[:, 41].astype(np.uint64) + 7 * 2**22)
        assert np.array_equal(whole.ply, np.arange(57) + 2)
        joined = [batch.labels["move"] for batch in data.batches(8)]
        assert np.array_equal(np.concatenate(joined), whole.labels["move"])
        with pytest.raises(IndexError):
            data[57]
    with pytest.raises(ValueError, match="is closed"):
        data.read(0, 1)


def test_unweighted_results_are_unknown_and_rows_without_hash_have_no_game(tmp_path):
    rows = random_rows(4, meta=False)
    rows.targets[:, :3] = [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]]
    rows.targets[0, 35] = 1
    rows.targets[3, 41:47] = 0
    with kifu.open(write(tmp_path / "set", rows)) as data:
        batch = data.read(0, 4)
    assert batch.labels["result"].tolist() == [-128, -1, 0, 0]
    assert batch.game[3] == 0
    assert batch.ply.tolist() == [2, 3, 4, -1]


def test_rows_can_be_read_in_any_order(tmp_path):
    rng = np.random.default_rng(1)
    folder = write(tmp_path / "set", ROWS, rows_per_file=7)
    with kifu.open(folder) as data:
        for _ in range(30):
            start, stop = sorted(rng.integers(0, 58, 2).tolist())
            assert same_rows(data.rows(start, stop), ROWS.part(start, stop))
        assert len(data._readers) <= 4


def test_the_loader_reads_npz(tmp_path):
    folder = write(tmp_path / "set", ROWS, rows_per_file=20)
    loader = kifu.load(folder, batch_size=10, config=kifu.LoaderConfig(augment=False))
    moves = ROWS.policy[:, 0].argmax(1).tolist()
    wanted = sorted(zip(moves, map(bytes, ROWS.planes), map(bytes, ROWS.inputs)))
    found = [
        each for batch in loader for each in zip(batch.labels["move"].tolist(), map(bytes, batch.planes),
        map(bytes, batch.labels["globals"]))
    ]  # fmt: skip
    assert found != wanted
    assert sorted(found) == wanted


def test_rows_written_by_katago_are_read(shared, tmp_path):
    path = shared / "reference" / "katago" / "trainrows.npz"
    with np.load(path) as file:
        wanted = KataRows(*(file[array.name] for array in ARRAYS))
    with kifu.open(path) as data:
        assert same_rows(data.rows(0, 3812), wanted)
        assert same_rows(data.rows(1000, 1100), wanted.part(1000, 1100))
    text = describe_data_set(path)
    assert "3,812 in 1 file, games unknown" in text
    assert "19 x 19: 3,812" in text
    folder = write(tmp_path / "set", wanted)
    assert taken_by_scripts(folder, True) == 3812
    # as small as what KataGo writes, but for 2 %
    assert sum(each.stat().st_size for each in folder.glob("*.npz")) < 1.02 * path.stat().st_size


# --- what is no training file

SMALL = random_rows(6, q=False, meta=False)
ARRAYS_6 = as_arrays(SMALL)


def header(text: str, version: bytes = b"\1\0") -> bytes:
    body = text.encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(body)) + body


def raw(path: Path, **members: bytes) -> Path:
    save(path, {name: values for name, values in ARRAYS_6.items() if name not in members})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def claim(shape: str, descr: str = "<f4", size: int = 6 * 19 * 4) -> bytes:
    return header(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n") + bytes(size)


HEADERS = {
    "another type": (claim("(6, 19)", "<f8", 6 * 19 * 8), "globalInputNC must be .* got <f8"),
    "another byte order": (claim("(6, 19)", ">f4"), "globalInputNC must be .* got >f4"),
    "another shape": (claim("(6, 20)", size=480), r"globalInputNC must be <f4 \[6, 19\], got <f4 \[6, 20\]"),
    "other rows": (claim("(5, 19)", size=380), r"globalInputNC must be .* got <f4 \[5, 19\]"),
    "one number": (claim("(6,)", size=24), r"globalInputNC must be .* got <f4 \[6\]"),
    "a bomb": (claim("(600000000, 19)"), r"has \d+ bytes, not the 45,600,000,\d+ of <f4 \[600000000, 19\]"),
    "more numbers than can be": (claim("(" + "9" * 40 + ", 19)"), "does not begin with the header of an array"),
    "too short": (claim("(6, 19)", size=455), "bytes, not the"),
    "too long": (claim("(6, 19)", size=457), "bytes, not the"),
    "columns first": (
        header("{'descr': '<f4', 'fortran_order': True, 'shape': (6, 19), }\n") + bytes(456),
        "does not begin with the header of an array",
    ),
    "objects": (
        header("{'descr': '|O', 'fortran_order': False, 'shape': (6, 19), }\n") + b"cos\nsystem\n(S'false'\ntR.",
        "does not begin with the header of an array",
    ),
    "a structure": (
        header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6, 19), }\n") + bytes(456),
        "does not begin with the header of an array",
    ),
    "a type that is none": (claim("(6, 19)", "<xyz"), "has the unknown type <xyz"),
    "code": (
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, __import__('os').getpid()), }") + bytes(456),
        "does not begin with the header of an array",
    ),
    "no array": (b"hello", "does not begin with the header of an array"),
    "nothing": (b"", "does not begin with the header of an array"),
    "a long header": (header("{" + " " * 60_000 + "}"), "does not begin with the header of an array"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_are_checked_before_memory_is_allocated(tmp_path, what):
    data, message = HEADERS[what]
    with pytest.raises(FormatError, match=message) as caught:
        kifu.open(raw(tmp_path / "a.npz", globalInputNC=data))
    assert len(str(caught.value).splitlines()) == 1


def without(name: str) -> dict:
    return {key: values for key, values in ARRAYS_6.items() if key != name}


SETS: dict[str, tuple[Callable[[Path], object], str]] = {
    "an array too many": (lambda p: save(p, ARRAYS_6 | {"selfBonusScoreN": np.zeros((6, 61), "i1")}), "has 'selfBonus"),
    "an array too few": (lambda p: save(p, without("scoreDistrN")), "lacks 'scoreDistrN'"),
    "no array": (lambda p: save(p, {}), "lacks"),
    "63 columns": (
        lambda p: save(p, ARRAYS_6 | {"globalTargetsNC": np.zeros((6, 63), "f4")}),
        r"globalTargetsNC must be <f4 \[6, 80\], got <f4 \[6, 63\]",
    ),
    "81 columns": (lambda p: save(p, ARRAYS_6 | {"globalTargetsNC": np.zeros((6, 81), "f4")}), r"got <f4 \[6, 81\]"),
    "boards of 9 x 9": (
        lambda p: save(p, ARRAYS_6 | {"binaryInputNCHWPacked": np.zeros((6, 22, 11), "u1")}),
        r"binaryInputNCHWPacked must be .* got \|u1 \[6, 22, 11\]",
    ),
    "bzip2": (lambda p: save(p, ARRAYS_6, zipfile.ZIP_BZIP2), "neither stored nor deflated"),
    "two of one name": (
        lambda p: save(p, ARRAYS_6 | {"globalInputNC.npy": SMALL.inputs}, suffix=""),
        "has two arrays 'globalInputNC'",
    ),
    "text": (lambda p: p.write_bytes(b"PK, but no zip"), "no zip directory"),
    "cut off": (lambda p: p.write_bytes(save(p, ARRAYS_6).read_bytes()[:-30]), "no zip directory"),
    "cut in the middle": (
        lambda p: p.write_bytes((data := save(p, ARRAYS_6).read_bytes())[:40] + data[-700:]),
        "is damaged",
    ),
    "many members": (lambda p: save(p, {f"x{k}": np.zeros(1) for k in range(400)}), "zip directory of"),
    "zip64": (
        lambda p: p.write_bytes((data := save(p, ARRAYS_6).read_bytes())[:-22] + b"PK\6\7" + bytes(16) + data[-22:]),
        "is a zip64 file",
    ),
}


@pytest.mark.parametrize("what", SETS)
def test_invalid_files_raise(tmp_path, what):
    make, message = SETS[what]
    path = tmp_path / "a.npz"
    make(path)
    with pytest.raises(FormatError, match=message) as caught:
        kifu.open(path)
    assert len(str(caught.value).splitlines()) == 1


def test_missing_files_raise(tmp_path):
    with pytest.raises(SourceError, match="cannot be read"):
        KataNpz(tmp_path / "a.npz")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_changed_bytes_are_detected_when_all_rows_are_read(tmp_path, method):
    rng = np.random.default_rng(0)
    data = bytearray(save(tmp_path / "a.npz", ARRAYS_6, method).read_bytes())
    detected = 0
    for _ in range(40):
        at = int(rng.integers(0, len(data)))
        data[at] ^= 0xFF
        (tmp_path / "b.npz").write_bytes(data)
        error = None
        try:
            with KataNpz(tmp_path / "b.npz") as opened:
                same = same_rows(opened.rows(0, 6), SMALL)
        except (FormatError, SourceError) as raised:
            error = raised
        if error is None:
            assert same, at  # the byte is one that readers ignore, such as one of a date
        else:
            assert len(str(error).splitlines()) == 1
            detected += 1
        data[at] ^= 0xFF
    assert detected > 20


def test_only_requested_rows_are_decompressed(tmp_path):
    """A valid file may decompress to a hundred times its size."""
    some = KataRows(*(None if values is None else np.zeros_like(values) for values in random_rows(1024, meta=False)))
    with KataWriter(tmp_path / "set", rows_per_file=32_768, compression="fast") as writer:
        for _ in range(32):
            writer.write(some)
        writer.commit({})
    path = tmp_path / "set" / "set-00000.npz"
    assert path.stat().st_size < 3_000_000
    tracemalloc.start()
    try:
        with kifu.open(path) as data:
            assert data.rows(32_760, 32_768).size == 8
        assert tracemalloc.get_traced_memory()[1] < 60_000_000  # of 245 million
    finally:
        tracemalloc.stop()


# --- inspect and audit


def test_inspect_summarizes_a_folder(tmp_path):
    folder = write(tmp_path / "set", ROWS, rows_per_file=20)
    text = run("show", folder).out
    assert "57 in 3 files of 3 games" in text
    assert "metadataInputNC" in text
    assert "move 1, next move 0" in text
    won = int(ROWS.targets[:, 0].sum())
    assert f"{won} won by the mover, {57 - won} lost, 0 neither; 0 without weight" in text


def spoilt(field: str, at: tuple, value: float) -> KataRows:
    rows = random_rows(5)
    getattr(rows, field)[at] = value
    return rows


PROBLEMS = {
    "planes with points beyond the board": spoilt("planes", (3, 4, 45), 1),
    "no valid board": spoilt("planes", (3, 0), 0),
    "infinity in metadataInputNC": spoilt("meta", (3, 9), np.nan),
    "negative policy target": spoilt("policy", (3, 1, 9), -1),
    "sums to 0": spoilt("policy", (3, 1), 0),
    "negative weight": spoilt("targets", (3, 25), -1),
    "a negative weight": spoilt("targets", (3, 35), 1.5),
    "do not sum to 1": spoilt("targets", (3, 2), 1),
    "does not sum to 100": spoilt("scores", (3, 2), 1),
    "outside -1 to 1": spoilt("values", (3, 2, 1, 1), 2),
}


@pytest.mark.parametrize("what", PROBLEMS)
def test_inspect_rejects_rows_that_train_py_could_not_use(tmp_path, what):
    with pytest.raises(FormatError, match=f"row 3 has .*{what}"):
        inspect_examples(write(tmp_path / "set", PROBLEMS[what]))


def test_examples_of_damaged_numbers_are_refused(tmp_path):
    for field, column, value in (("inputs", 0, np.nan), ("targets", 35, np.inf), ("targets", 51, 3e38)):
        folder = write(tmp_path / f"{column}", spoilt(field, (3, column), value), rows_per_file=2)
        with kifu.open(folder) as data, pytest.raises(FormatError, match=r"row 3 has (NaN|no valid ply)"):
            data[:]


def test_inspect_finds_a_move_on_a_stone(tmp_path):
    rows = random_rows(5, meta=False)
    taken = np.unpackbits(rows.planes[3, 1] | rows.planes[3, 2])
    point = int(taken.argmax()) if taken.any() else 360
    rows.policy[3, 0] = 0
    rows.policy[3, 0, point] = 1
    with pytest.raises(FormatError, match="row 3 has a move on a stone"):
        inspect_examples(write(tmp_path / "set", rows))
    rows.targets[3, 26] = 0  # which then says nothing
    inspect_examples(write(tmp_path / "set", rows))


def test_inspect_counts_known_results(tmp_path):
    rows = random_rows(6, meta=False)
    rows.targets[:, :3] = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]]
    rows.targets[5, 35] = 1
    text = "\n".join(inspect_examples(write(tmp_path / "set", rows)))
    assert "1 won by the mover, 2 lost, 2 neither; 1 without weight" in text


@pytest.mark.parametrize("text", ['{"num_rows": 4}', "{}", "[]", "nonsense", ""])
def test_inspect_checks_the_json_beside_a_file(tmp_path, text):
    save(tmp_path / "a.npz", ARRAYS_6)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FormatError, match=r"a\.json: num_rows must be 6, as in a\.npz"):
        inspect_examples(tmp_path)


def test_a_row_is_shown_on_a_board_of_its_size(tmp_path):
    rows = random_rows(1, q=False)
    board = np.zeros((22, 19, 19), np.uint8)
    board[0, :3, :4] = 1
    board[1, 0, 1] = board[2, 2, 3] = 1
    policy = np.zeros((1, 2, 362), np.int16)
    policy[0, 0, 19 + 2] = 1
    policy[0, 1, [0, 361]] = 3, 1
    meta = np.zeros((1, 192), np.float32)
    meta[0, [0, 5, 76, 151 + 2]] = 1
    meta[0, 6:18] = 1
    rows.targets[0, [0, 1, 2, 3, 28, 47, 61]] = 0, 1, 0, -0.5, 1, -6.5, 1
    inputs = np.zeros((1, 19), np.float32)
    inputs[0, [9, 10]] = 1
    rows = rows._replace(
        planes=np.packbits(board.reshape(1, 22, 361), axis=-1), policy=policy, meta=meta, inputs=inputs
    )
    lines = describe_row(write(tmp_path / "set", rows), 0).splitlines()
    assert "row 0: X is to move and plays C2; 2 stones" in lines
    assert "move: C2; next move: A3 75%, pass 25%" in lines
    assert "result: the mover loses, by -0.5 (weight 1)" in lines
    assert "rules: simple ko, territory, no points in seki; the mover's komi and bonus -6.5, later +1" in lines
    assert "players: the mover 3 kyu; the opponent rank unknown, a program; time limit none; from kgs" in lines
    assert any(line.startswith("without weight: ") and "ownership" in line for line in lines)


def test_a_row_can_be_drawn(tmp_path):
    folder = write(tmp_path / "set", ROWS)
    done = run("show", folder, "--row", 3, "-o", tmp_path / "row.svg")
    assert done.code == 0
    assert (tmp_path / "row.svg").stat().st_size > 1000


def test_rows_without_a_valid_board_are_not_shown(tmp_path):
    folder = write(tmp_path / "set", PROBLEMS["no valid board"])
    with pytest.raises(FormatError, match="the move is not on the board"):
        describe_row(folder, 3)


def test_the_audit_matches_games_by_hash(tmp_path):
    rows = random_rows(40, games=4, meta=False)
    game = rows.targets[:, 41]
    one = write(tmp_path / "one", rows.part(0, int((game <= 2).sum())))
    two = write(tmp_path / "two", rows.part(int((game <= 1).sum()), 40))
    three = write(tmp_path / "three", random_rows(20, 9, meta=False)._replace(targets=_renamed(random_rows(20, 9))))
    found = audit([one, two, three], jobs=1)
    assert [each.games for each in found.sets] == [2, 3, len(np.unique(random_rows(20, 9).targets[:, 41]))]
    shared = {(pair.first, pair.second): pair for pair in found.pairs}
    games = shared[str(one), str(two)].games
    assert [(each.record, each.first.entry, each.second.entry, each.second.row) for each in games] == [(True, 1, 0, 0)]
    assert not shared[str(one), str(three)].games


def _renamed(rows: KataRows) -> np.ndarray:
    targets = rows.targets.copy()
    targets[:, 42] = 99
    return targets


def test_the_games_of_rows_are_sorted_only_a_few_times(tmp_path, monkeypatch):
    rows = random_rows(600, meta=False)
    game = rows.targets[:, 41] = np.random.default_rng(5).integers(1, 200, 600)
    path = write(tmp_path / "set", rows)
    monkeypatch.setattr(leaks_audit, "_EXAMPLE_ROWS", 8)
    whole, handed = np.unique, []

    def unique(values, **options):
        handed.append(len(values))
        return whole(values, **options)

    monkeypatch.setattr(np, "unique", unique)
    found = open_set(path)
    monkeypatch.undo()
    assert len(handed) > 600 / 8
    assert sum(handed) < 5 * 600
    first = sorted(game.tolist().index(each) for each in set(game.tolist()))
    assert [place.row for place in found.locate(np.arange(found.games))] == first


def test_the_audit_of_rows_without_games(tmp_path):
    rows = random_rows(20, meta=False)
    rows.targets[:, 41:47] = 0
    found = audit([write(tmp_path / "one", rows), write(tmp_path / "two", random_rows(20, 5, meta=False))], jobs=1)
    assert found.sets[0].games is None

"""The formats of examples as other programs read them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from pathlib import Path

import h5py
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kifu
from example_sets import MOVE, assert_same, cut, layout_for, random_batch, write
from kifu.datasets import hdf5
from kifu.datasets.examples import Batch, GameRuns
from kifu.datasets.parquet import ParquetWriter, group_rows, schema_of
from kifu.errors import FormatError, RecipeError


def saved(values: np.ndarray) -> bytes:
    """Return the bytes that np.save writes."""
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


# npy@1


def test_npy_is_what_np_save_writes(tmp_path: Path) -> None:
    layout = layout_for("npy@1")
    batch = random_batch(layout, 70)
    write("npy@1", tmp_path / "train", layout, batch)
    arrays = {
        "features": batch.unpack_planes(layout), "labels": batch.labels["move"], "result": batch.labels["result"],
        "ranks": batch.labels["ranks"], "game": batch.game, "ply": batch.ply,
    }  # fmt: skip
    for name, values in arrays.items():
        path = tmp_path / "train" / f"{name}.npy"
        assert path.read_bytes() == saved(values)
        assert np.array_equal(np.load(path, mmap_mode="r"), values)
    found = {path.name for path in (tmp_path / "train").iterdir()}
    assert found == {"examples.json", *(f"{name}.npy" for name in arrays)}


# book-npy@1


def book_batches(folder: Path, archives: list[str], kind: str, classes: int, size: int):
    """Yield the batches of the book's generator, which reads whatever glob finds."""
    for archive in archives:
        base = archive.replace(".tar.gz", "") + kind
        for feature_file in sorted(folder.glob(base + "_features_*.npy"), key=lambda p: int(p.stem.split("_")[-1])):
            x = np.load(feature_file).astype("float32")
            y = np.eye(classes)[np.load(str(feature_file).replace("features", "labels")).astype(int)]
            while x.shape[0] >= size:
                x_batch, x = x[:size], x[size:]
                y_batch, y = y[:size], y[size:]
                yield x_batch, y_batch


def test_the_book_reads_the_chunks(tmp_path: Path) -> None:
    layout = layout_for("book-npy@1", planes=2)
    archives = ["KGS-2006-19-10388-.tar.gz", "KGS-2007-19-9-.tar.gz"]
    batch = random_batch(layout, 2600, runs=False)
    runs = GameRuns([archives[0], archives[1]], ["a", "b"], np.array([2100, 500]))
    path = tmp_path / "train"
    write("book-npy@1", path, layout, *cut(Batch(batch.planes, batch.labels, batch.game, batch.ply, runs), 1500))
    sizes = {p.name: np.load(p).shape[0] for p in path.glob("*features*")}
    assert sizes == {
        "KGS-2006-19-10388-train_features_0.npy": 1024,
        "KGS-2006-19-10388-train_features_1.npy": 1024,
        "KGS-2006-19-10388-train_features_2.npy": 52,
        "KGS-2007-19-9-train_features_0.npy": 500,
    }
    planes, moves = batch.unpack_planes(layout), batch.labels["move"].astype(int)
    from_bottom = planes[:, :, ::-1]
    flipped = (3 - moves // 5) * 5 + moves % 5
    first = path / "KGS-2006-19-10388-train_features_1.npy"
    assert first.read_bytes() == saved(from_bottom[1024:2048].astype(np.float64))
    labels = path / "KGS-2006-19-10388-train_labels_1.npy"
    assert labels.read_bytes() == saved(flipped[1024:2048].astype(np.float64))
    read = list(book_batches(path, archives, "train", 20, 4))
    assert np.array_equal(np.concatenate([x for x, _ in read]), from_bottom)
    assert np.array_equal(np.concatenate([y for _, y in read]).argmax(1), flipped)


def test_a_repeated_archive_continues_numbering(tmp_path: Path) -> None:
    layout = layout_for("book-npy@1")
    batch = random_batch(layout, 30, runs=False)
    runs = GameRuns(["a.tar.gz", "../b/c.zip", "a.tar.gz"], ["1", "2", "3"], np.array([10, 5, 15]))
    path = tmp_path / "test"
    write("book-npy@1", path, layout, Batch(batch.planes, batch.labels, batch.game, batch.ply, runs))
    names = ["_._b_c.ziptest_features_0.npy", "atest_features_0.npy", "atest_features_1.npy"]
    assert sorted(p.name for p in path.glob("*features*")) == names
    with kifu.open(path) as data:
        assert_same(data, batch, has_provenance=False)


def test_the_book_supports_only_the_next_move(tmp_path: Path) -> None:
    layout = layout_for("npy@1")
    with pytest.raises(RecipeError, match="holds only the label move, not move, result, ranks"):
        write("book-npy@1", tmp_path / "train", layout)
    assert not list(tmp_path.iterdir())


# parquet@1


def unpacked(column: list[bytes], planes: int, height: int, width: int) -> np.ndarray:
    """Unpack the column of planes as the card describes."""
    bits = np.frombuffer(b"".join(column), np.uint8).reshape(len(column), planes, -1)
    return np.unpackbits(bits, axis=-1, count=height * width).reshape(-1, planes, height, width)


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, Batch, np.ndarray]:
    layout = layout_for("parquet@1")
    batch = random_batch(layout, 300)
    path = tmp_path / "train.parquet"
    write("parquet@1", path, layout, batch)
    return path, batch, batch.unpack_planes(layout)


def test_polars_opens_parquet(table: tuple[Path, Batch, np.ndarray]) -> None:
    path, batch, planes = table
    frame = polars.read_parquet(path)
    assert frame.columns == ["planes", "move", "result", "ranks", "game", "ply"]
    assert np.array_equal(unpacked(frame["planes"].to_list(), 3, 4, 5), planes)
    assert frame["move"].to_list() == batch.labels["move"].tolist()
    assert frame["ranks"].to_list() == batch.labels["ranks"].tolist()
    assert frame["game"].to_list() == batch.game.tolist()
    assert polars.scan_parquet(path).filter(polars.col("ply") == 0).collect().height == 60


@pytest.mark.slow
def test_hugging_face_datasets_opens_parquet(
    table: tuple[Path, Batch, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    datasets = pytest.importorskip("datasets")
    path, batch, planes = table
    loaded = datasets.load_dataset(
        "parquet", data_files={"train": str(path)}, split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.column_names == ["planes", "move", "result", "ranks", "game", "ply"]
    assert np.array_equal(unpacked(loaded["planes"][:], 3, 4, 5), planes)
    assert loaded["move"][:] == batch.labels["move"].tolist()
    assert loaded[7]["game"] == batch.game[7]
    streamed = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
    assert [row["ply"] for row in streamed.take(8)] == batch.ply[:8].tolist()


@pytest.mark.slow
def test_row_groups_are_small(tmp_path: Path) -> None:
    seven = layout_for("parquet@1", 19, 19, 7)
    assert group_rows(seven) == 32_768
    assert group_rows(layout_for("parquet@1", 19, 19, 25, real=True)) * 25 * 361 * 4 <= 16 << 20
    path = tmp_path / "x.parquet"
    layout = layout_for("parquet@1", 25, 25, 1000)
    write("parquet@1", path, layout, random_batch(layout, 450))
    meta = pq.read_metadata(path)
    assert [meta.row_group(k).num_rows for k in range(meta.num_row_groups)] == [212, 212, 26]
    with kifu.open(path) as data:
        assert_same(data, random_batch(layout, 450), has_provenance=True)


def test_parquet_of_another_version_or_with_other_columns(tmp_path: Path) -> None:
    layout = layout_for("parquet@1")
    path = tmp_path / "x.parquet"
    write("parquet@1", path, layout, random_batch(layout, 10))
    table = pq.read_table(path)
    reported = table.schema.metadata
    for meta, columns, message in (
        (reported | {b"kifu.examples": b"2"}, table, "version '2'"),
        (reported, table.drop(["result"]), "columns or types that differ"),
        (reported | {b"kifu.layout": b"{}"}, table, "invalid layout"),
        (reported | {b"kifu.about": b"["}, table, "x.parquet: "),
    ):
        pq.write_table(columns.replace_schema_metadata(meta), path)
        with pytest.raises(FormatError, match=message):
            kifu.open(path)


def test_a_row_group_that_would_need_much_memory_is_refused(tmp_path: Path) -> None:
    layout = layout_for("parquet@1", 19, 19, 48, labels=(MOVE,))
    rows = (256 << 20) // layout.packed_bytes + 1
    same = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([bytes(layout.packed_bytes)], pa.binary(layout.packed_bytes))
    )
    columns = [same, *(pa.array(np.zeros(rows, dtype)) for dtype in (np.int16, np.uint64, np.int32))]
    fields = [field.with_type(column.type) for field, column in zip(schema_of(layout), columns)]
    path, table = tmp_path / "x.parquet", pa.table(columns, pa.schema(fields))
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.add_key_value_metadata({"kifu.examples": "1", "kifu.layout": layout.to_json()})
        writer.write_table(table, row_group_size=rows)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(FormatError, match="a row group that is empty or too large"):
        kifu.open(path)


def test_a_catalogue_is_not_a_data_set(tmp_path: Path) -> None:
    from catalogues import rows, write_catalogue

    with pytest.raises(FormatError):
        kifu.open(write_catalogue(tmp_path / "games.parquet", rows(moves=[[1]])))
    assert ParquetWriter.format == "parquet@1"


# hdf5@2


def test_rocalphago_reads_its_layout(tmp_path: Path) -> None:
    layout = layout_for("hdf5@2", 5, 5, plane_set="alphago48@1")
    batch = random_batch(layout, 1100)
    path = tmp_path / "train.h5"
    write("hdf5@2", path, layout, *cut(batch, 3, 999))
    planes = batch.unpack_planes(layout)
    with h5py.File(path) as file:
        states, actions = file["states"], file["actions"]
        assert states.dtype == actions.dtype == np.uint8
        assert (states.chunks, actions.chunks) == ((64, 3, 5, 5), (1024, 2))
        assert states.compression == actions.compression == "lzf"
        assert file["features"][()].decode().split(",")[:3] == ["board", "ones", "turns_since"]
        for row in (0, 63, 64, 1099):
            x, y = map(int, actions[row])
            one_hot = np.zeros((5, 5))
            one_hot[tuple(actions[row])] = 1
            assert y * 5 + x == batch.labels["move"][row]
            assert np.array_equal(states[row].transpose(0, 2, 1), planes[row])
            assert one_hot.T.ravel().argmax() == batch.labels["move"][row]
        assert len(file["file_offsets"]) == 220
        index, length = file["file_offsets"]["KGS-2001-19-4-.tar.gz:folder:5.sgf"]
        assert (index, length) == (25, 5)
        assert np.array_equal(file["game"][:], batch.game)
        assert np.array_equal(file["labels/ranks"][:], batch.labels["ranks"])


def test_a_file_written_by_rocalphago(tmp_path: Path) -> None:
    layout = layout_for("hdf5@2", 5, 4, labels=(MOVE,))
    batch = random_batch(layout, 100)
    path = tmp_path / "theirs.h5"
    y, x = np.divmod(batch.labels["move"], 5)
    with h5py.File(path, "w") as file:
        states = file.create_dataset(
            "states", (1, 3, 5, 4), np.uint8, maxshape=(None, 3, 5, 4), chunks=(64, 3, 5, 4), compression="lzf"
        )
        states.resize(100, 0)
        states[:] = batch.unpack_planes(layout).transpose(0, 1, 3, 2)
        file["actions"] = np.stack([x, y], 1).astype(np.uint8)
        file["features"] = np.bytes_("board,liberties")
        file.create_group("file_offsets")
    with kifu.open(path) as data:
        assert data.layout.plane_set == "board,liberties"
        assert (data.layout.shape, data.layout.first_row) == ((3, 4, 5), "top")
        assert_same(data, batch, has_provenance=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.__delitem__("states"), "has no states"),
        (lambda file: file["states"].__setitem__((3, 1, 2, 2), 2), "holds 2 in states"),
        (lambda file: file["actions"].__setitem__(5, (0, 4)), "an action outside the board"),
        (lambda file: file["actions"].resize(9, 0), "actions has shape"),
        (lambda file: file.move("ply", "states2"), "has no ply"),
        (lambda file: file.attrs.__setitem__("kifu.layout", "{}"), "kifu.layout is object, expected one text"),
        (lambda file: (file.move("ply", "old"), file.create_dataset("ply", data=np.zeros(10))), "ply has .* float64"),
        (
            lambda file: (file.move("ply", "old"), file.create_dataset("ply", (10,), "<i4", compression="gzip")),
            "other than lzf",
        ),
    ],
)
def test_damaged_hdf5(tmp_path: Path, change, message: str) -> None:
    layout = layout_for("hdf5@2")
    path = tmp_path / "x.h5"
    write("hdf5@2", path, layout, random_batch(layout, 10))
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(FormatError, match=message), kifu.open(path) as data:
        data.read(0, 10)


def test_hdf5_rejects_external_links(tmp_path: Path) -> None:
    layout = layout_for("hdf5@2")
    path, other = tmp_path / "x.h5", tmp_path / "other.h5"
    for each in (path, other):
        write("hdf5@2", each, layout, random_batch(layout, 10))
    with h5py.File(path, "r+") as file:
        del file["states"]
        file["states"] = h5py.ExternalLink(str(other), "states")
    with pytest.raises(FormatError, match="has no states"):
        kifu.open(path)
    with h5py.File(path, "r+") as file:
        del file["states"], file["labels"]
        file["states"] = np.zeros((10, *layout.shape), np.uint8)
        file["labels"] = h5py.ExternalLink(str(other), "labels")
    with pytest.raises(FormatError, match="has no labels/"):
        kifu.open(path)


@pytest.mark.parametrize("locking", [None, True, False, "best-effort"])
def test_hdf5_is_open_to_others(tmp_path: Path, locking) -> None:
    layout = layout_for("hdf5@2")
    path, batch = tmp_path / "x.h5", random_batch(layout, 30)
    write("hdf5@2", path, layout, batch)
    path.chmod(0o444)
    opened = contextlib.ExitStack()
    for order in (1, -1):
        with opened:
            openers = [lambda: h5py.File(path, locking=locking), *[lambda: kifu.open(path)] * 2][::order]
            *data, theirs = [opened.enter_context(opener()) for opener in openers][::-order]
            assert len(theirs["ply"]) == 30
            assert_same(data[order], batch, has_provenance=True)


def test_hdf5_that_becomes_shorter(tmp_path: Path) -> None:
    layout = layout_for("hdf5@2")
    write("hdf5@2", tmp_path / "x.h5", layout, random_batch(layout, 3000))
    with kifu.open(tmp_path / "x.h5") as data:
        os.truncate(data.path, 20_000)
        with pytest.raises(FormatError, match="shorter than when it was opened"):
            data.read(0, 3000)


@pytest.mark.subprocess
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_reads_hdf5(tmp_path: Path) -> None:
    layout = layout_for("hdf5@2")
    batch = random_batch(layout, 30)
    write("hdf5@2", tmp_path / "x.h5", layout, batch)
    with kifu.open(tmp_path / "x.h5") as data:
        child = os.fork()
        if child == 0:
            read = data.read(3, 8)
            data.close()
            os._exit(7 if np.array_equal(read.planes, batch.planes[3:8]) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert_same(data, batch, has_provenance=True)


def test_hdf5_that_would_need_much_memory_is_refused(tmp_path: Path) -> None:
    for name, make, message in (
        (
            "chunks",
            lambda file: file.create_dataset(
                "states", (100, 1, 19, 19), "u1", chunks=(10**6, 1, 19, 19), maxshape=(None, 1, 19, 19)
            ),
            r"states has chunks of 361,000,000 bytes, the limit is",
        ),
        ("about", lambda file: file.create_dataset("about", data=np.bytes_(b"x" * (17 << 20))), "about is .S17825792"),
        ("features", lambda file: file.create_dataset("features", (1 << 40,), "u1", chunks=(9,)), "features is uint8"),
    ):
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            make(file)
            if name != "chunks":
                file["states"] = np.zeros((1, 1, 19, 19), np.uint8)
                file["actions"] = np.zeros((1, 2), np.uint8)
        with pytest.raises(FormatError, match=message):
            kifu.open(path)


def test_missing_h5py_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.delitem(sys.modules, "kifu.datasets.hdf5", raising=False)
    with pytest.raises(kifu.MissingExtra, match=r"h5py is required: pip install 'kifu\[hdf5\]'"):
        write("hdf5@2", tmp_path / "x.h5", layout_for("hdf5@2"))


def test_hdf5_sees_no_failed_write() -> None:
    with contextlib.closing(hdf5._DiskFile("/dev/full", "r+")) as file:
        assert file.write(b"abc") == 3
        assert file.error.errno == errno.ENOSPC

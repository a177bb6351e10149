"""Common behaviour of all formats of examples: round trips, bytes, errors, damage, interruption."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import pkgutil
import random
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kifu
from example_sets import FORMATS, MOVE, assert_same, bytes_of, cut, layout_for, random_batch, write
from kifu.datasets import hdf5
from kifu.datasets.epoch_plan import LoaderConfig
from kifu.datasets.examples import Batch, GameRuns, LabelSpec, Layout, pack_planes, parse_layout
from kifu.datasets.formats import find_format, formats_of, open_writer
from kifu.datasets.labels import augment_planes, find_label
from kifu.datasets.manifest import manifest_path
from kifu.datasets.parquet import ParquetWriter, group_rows, schema_of
from kifu.errors import FormatError, KifuError, OutputError, RecipeError, SourceError
from kifu.report.inspect import inspect_examples

ROWS = 2500
"""More than two groups, or chunks, of each format at these sizes."""


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def place(folder: Path, name: str) -> Path:
    return folder / f"train{formats_of('examples')[name].suffix}"


@pytest.fixture
def layout(name: str) -> Layout:
    return layout_for(name)


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    return place(tmp_path, name)


# Round trips


def is_stored(name: str, path: Path, layout: Layout, batch: Batch, error: str | None) -> bool:
    """Return whether a batch is stored: it reads back, or is refused with the expected error and leaves nothing."""
    if error:
        with pytest.raises(RecipeError, match=error):
            write(name, path, layout, batch)
        assert not list(path.parent.iterdir())
        return False
    write(name, path, layout, batch)
    with kifu.open(path) as data:
        assert data.layout == layout
        assert_same(data, batch, find_format(name).has_provenance)
    return True


def test_round_trip(name: str, layout: Layout, path: Path) -> None:
    batch = random_batch(layout, ROWS)
    written = write(name, path, layout, batch, about={"set": "train", "n": 3})
    assert written.examples == ROWS
    assert sum(file.bytes for file in written.files) <= sum(map(len, bytes_of(path).values()))
    with kifu.open(path) as data:
        assert data.layout == layout
        assert data.about == {"set": "train", "n": 3}
        assert_same(data, batch, find_format(name).has_provenance)


@settings(
    max_examples=max(5, settings().max_examples // 15), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    width=st.integers(1, 25),
    height=st.integers(1, 25),
    planes=st.integers(1, 4),
    rows=st.integers(0, 40),
    bottom=st.booleans(),
    seed=st.integers(0, 9),
)
def test_any_board(
    name: str, tmp_path: Path, width: int, height: int, planes: int, rows: int, bottom: bool, seed: int
) -> None:
    layout = layout_for(name, width, height, planes, first_row="bottom" if bottom else "top")
    assert is_stored(name, place(tmp_path, name), layout, random_batch(layout, rows, seed), None)


def test_real_planes(name: str, path: Path) -> None:
    layout = layout_for(name, real=True)
    batch = random_batch(layout, 100)
    if is_stored(name, path, layout, batch, None if find_format(name).real else "planes of 0 and 1"):
        with kifu.open(path) as data:
            planes, _ = data[3]
        assert planes.dtype == np.float32
        assert np.array_equal(planes, batch.planes[3].reshape(layout.shape))


def test_padded_planes(name: str, path: Path) -> None:
    layout = layout_for(name, rim=1)
    assert layout.shape == (3, 6, 7)
    assert is_stored(name, path, layout, random_batch(layout, 50), None)


def test_passes(name: str, path: Path, layout: Layout) -> None:
    batch = random_batch(layout, 30)
    batch.labels["move"][17] = layout.pass_label
    is_stored(name, path, layout, batch, None if find_format(name).passes else "has no passes")


def test_rows_in_any_order(name: str, path: Path, layout: Layout) -> None:
    batch = random_batch(layout, 30, runs=False)
    is_stored(name, path, layout, batch, None if find_format(name).has_provenance else "cannot be shuffled")


# A sequence


def test_a_data_set_is_a_sequence(name: str, layout: Layout, path: Path) -> None:
    batch = random_batch(layout, ROWS)
    write(name, path, layout, batch)
    planes, moves = batch.unpack_planes(layout), batch.labels["move"]
    with kifu.open(path) as data:
        for row in (0, 1, 1023, 1024, ROWS - 1, -1, -ROWS):
            one, move = data[row]
            assert np.array_equal(one, planes[row])
            assert move == moves[row]
            assert isinstance(move, int)
        for some in (slice(5, 5), slice(1000, 1100), slice(None, None, 333), slice(None, None, -700), slice(-3, None)):
            several, labels = data[some]
            assert np.array_equal(several, planes[some])
            assert np.array_equal(labels, moves[some])
        several[:] = 0
        assert sum(move for _, move in data) == moves.sum()
        assert np.array_equal(data.to_numpy()[0], planes)
        for row in (ROWS, -ROWS - 1):
            with pytest.raises(IndexError, match="which has 2,500"):
                data[row]
    with pytest.raises(ValueError, match="closed"):
        data[0]
    assert len(data) == ROWS


def test_the_first_label_may_have_a_shape(tmp_path: Path) -> None:
    name = "npy@1"
    layout = layout_for(name, labels=(LabelSpec("ownership", "int8", (20,), "whose"), MOVE))
    batch = random_batch(layout, 10)
    write(name, tmp_path / "train", layout, batch)
    with kifu.open(tmp_path / "train") as data:
        assert np.array_equal(data[2][1], batch.labels["ownership"][2])
        assert [len(label) for _, label in data] == [20] * 10


# Bytes


def test_bytes_do_not_depend_on_batches(name: str, layout: Layout, tmp_path: Path) -> None:
    batch = random_batch(layout, ROWS)
    rng = random.Random(3)
    made = []
    for k in range(4):
        cuts = sorted(rng.sample(range(ROWS), [0, 1, 20, 300][k]))
        path = place(tmp_path / str(k), name)
        write(name, path, layout, *cut(batch, *cuts), examples=[0, ROWS, 7, ROWS][k])
        made.append(bytes_of(path))
    assert all(each == made[0] for each in made)


def test_bytes_do_not_depend_on_time(
    name: str, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = random_batch(layout, 200)
    write(name, place(tmp_path / "a", name), layout, batch)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    import time

    time.sleep(1.05)  # libraries that note a time do so in seconds
    write(name, place(tmp_path / "b", name), layout, batch)
    assert bytes_of(place(tmp_path / "a", name)) == bytes_of(place(tmp_path / "b", name))


def test_the_hashes_are_those_of_the_files(name: str, layout: Layout, path: Path) -> None:
    from blake3 import blake3

    written = write(name, path, layout, random_batch(layout, 100))
    for file in written.files:
        data = (path / file.file if path.is_dir() else path).read_bytes()
        assert (file.bytes, file.blake3) == (len(data), blake3(data).hexdigest())


# Atomic writes


def test_without_commit_nothing_is_left(name: str, layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_writer(name, place(tmp_path, name), layout) as writer:  # noqa: PT012 - mid-write
        writer.write(random_batch(layout, ROWS))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_data_set_stays_until_the_new_one_is_whole(
    name: str, path: Path, layout: Layout, tmp_path: Path
) -> None:
    write(name, path, layout, random_batch(layout, ROWS, 1))
    before = bytes_of(path)
    with pytest.raises(ZeroDivisionError), open_writer(name, path, layout) as writer:  # noqa: PT012 - mid-write
        writer.write(random_batch(layout, ROWS, 2))
        raise ZeroDivisionError
    assert bytes_of(path) == before
    write(name, path, layout, random_batch(layout, 20, 2))
    fresh = place(tmp_path / "fresh", name)
    write(name, fresh, layout, random_batch(layout, 20, 2))
    assert bytes_of(path) == bytes_of(fresh)


def test_two_writers_do_not_share_a_file(name: str, layout: Layout, path: Path) -> None:
    with open_writer(name, path, layout) as writer:
        with pytest.raises(OutputError, match="another process"):
            open_writer(name, path, layout)
        writer.write(random_batch(layout, 10))
        writer.commit({})
    with kifu.open(path) as data:
        assert len(data) == 10


@pytest.mark.parametrize("name", ["npy@1", "book-npy@1"])
def test_a_folder_with_other_files_is_left_alone(name: str, layout: Layout, tmp_path: Path) -> None:
    path = tmp_path / "train"
    write(name, path, layout, random_batch(layout, 10))
    path.joinpath("mine.txt").write_text("mine")
    before = bytes_of(path)
    with pytest.raises(OutputError, match=r"contains mine\.txt"):
        open_writer(name, path, layout)
    assert bytes_of(path) == before
    assert [each.name for each in tmp_path.iterdir()] == ["train"]


@pytest.mark.parametrize("name", ["npy@1", "book-npy@1"])
def test_the_output_of_a_killed_run_is_replaced(name: str, layout: Layout, tmp_path: Path) -> None:
    left = tmp_path / ".train.part"
    left.mkdir()
    left.joinpath("features.npy").write_bytes(b"half")
    left.joinpath("other_features_7.npy").write_bytes(b"half")
    write(name, tmp_path / "train", layout, random_batch(layout, 10))
    fresh = tmp_path / "fresh" / "train"
    write(name, fresh, layout, random_batch(layout, 10))
    assert bytes_of(tmp_path / "train") == bytes_of(fresh)


def test_a_file_where_a_folder_belongs(tmp_path: Path) -> None:
    tmp_path.joinpath("train").write_text("mine")
    with pytest.raises(OutputError, match="Not a directory"):
        open_writer("npy@1", tmp_path / "train", layout_for("npy@1"))


# Damage


def test_padding_bits_are_refused_before_a_kernel_uses_them(tmp_path: Path) -> None:
    layout = layout_for("parquet@1", 19, 19, labels=(MOVE,))
    batch = random_batch(layout, 100)
    batch.planes[41, 2, -1] |= 1  # the last 7 bits of a plane are no points
    write("parquet@1", tmp_path / "x.parquet", layout, batch)
    with kifu.open(tmp_path / "x.parquet") as data, pytest.raises(FormatError, match="plane of row 41 has padding"):
        data.read(30, 50)
    with pytest.raises(FormatError, match=r"x\.parquet: a plane of row 41 has padding bits that are not 0"):
        list(kifu.load(tmp_path / "x.parquet", config=LoaderConfig(shuffle=None)))


@given(rows=st.integers(1, 3), seed=st.integers(0, 999), size=st.sampled_from([(5, 4), (5, 5), (8, 8), (19, 19)]))
def test_augmentation_ignores_bits_that_are_no_points(rows: int, seed: int, size: tuple[int, int]) -> None:
    layout = layout_for("parquet@1", *size)
    right = random_batch(layout, rows, seed).planes
    wrong = np.random.default_rng(seed).integers(0, 256, right.shape, np.uint8)
    points = np.unpackbits(wrong, axis=-1, count=layout.points)
    symmetry = np.full(rows, seed % (8 if size[0] == size[1] else 4), np.uint8)
    assert np.array_equal(
        augment_planes(wrong, symmetry, layout), augment_planes(np.packbits(points, axis=-1), symmetry, layout)
    )


@pytest.mark.parametrize(
    ("label", "value", "message"),
    [
        ("move", 21, "label move of row 17 is 21, not within 0 to 20"),
        ("move", -1, "label move of row 17 is -1, not within 0 to 20"),
        ("next3", -2, "label next3 of row 17 is -2, not within -1 to 20"),
        ("next3", 32767, "label next3 of row 17 is 32767, not within -1 to 20"),
        ("result", 127, "label result of row 17 is 127, not one of -128, -1, 0, 1"),
        ("ownership", 2, "label ownership of row 17 is 2, not one of -128, -1, 0, 1"),
        ("policy", np.nan, "label policy of row 17 is nan, not within 0 to 1"),
    ],
)
@pytest.mark.parametrize("name", ["npy@1", "parquet@1", "hdf5@2"])
def test_labels_out_of_range_are_refused(name: str, label: str, value: int, message: str, path: Path) -> None:
    if (name, label) == ("hdf5@2", "move"):
        pytest.skip("stores moves as two coordinates")
    plain = layout_for(name)
    others = ["next3", "result", "ownership", "policy"]
    labels = (MOVE, *(find_label(other, plain.width, plain.height) for other in others))
    layout = replace(plain, labels=labels)
    batch = random_batch(layout, 30)
    for other in others:
        batch.labels[other][:] = 0
    batch.labels[label][17] = value
    write(name, path, layout, batch)
    with kifu.open(path) as data:
        with pytest.raises(FormatError, match=f"{path}: {message}"):
            data.read(3, 30)
        if label == "move":
            with pytest.raises(FormatError, match=message):
                data[3::7]
    with pytest.raises(FormatError, match=message):
        inspect_examples(path)


def test_rows_that_do_not_exist(name: str, layout: Layout, path: Path) -> None:
    write(name, path, layout, random_batch(layout, 30))
    with kifu.open(path) as data:
        for start, stop in ((-1, 3), (0, 31), (5, 4), (10**12, 10**12)):
            with pytest.raises(IndexError, match="which has 30"):
                data.read(start, stop)
        assert len(data.read(30, 30)) == 0


def test_labels_whose_shape_cannot_be_augmented(tmp_path: Path) -> None:
    for k, (label, shape) in enumerate((("move", (2,)), ("ownership", (19,)), ("next2", (2, 2)), ("next2", ()))):
        layout = layout_for("npy@1", labels=(LabelSpec(label, "int16", shape, ""),))
        path = tmp_path / str(k)
        batch = Batch(
            np.zeros((10, 3, 3), np.uint8),
            {label: np.zeros((10, *shape), np.int16)},
            np.zeros(10, np.uint64),
            np.zeros(10, np.int32),
        )
        write("npy@1", path, layout, batch)
        with pytest.raises(RecipeError, match=f"label '{label}'.* does not support augmentation"):
            next(iter(kifu.load(path)))


def test_fifos_do_not_block(name: str, layout: Layout, path: Path) -> None:
    write(name, path, layout, random_batch(layout, 10))
    reader = pkgutil.resolve_name(find_format(name).reader)
    for file, data in bytes_of(path).items():
        where = path / file if file else path
        where.unlink()
        os.mkfifo(where)
        for read in (kifu.open, reader, inspect_examples):
            with pytest.raises((SourceError, FormatError)):
                read(path)
        where.unlink()
        where.write_bytes(data)
    os.mkfifo(manifest_path(path))
    with pytest.raises(FormatError, match="not a regular file"):
        inspect_examples(path)


@pytest.mark.parametrize("name", ["npy@1", "book-npy@1", "hdf5@2"])
def test_a_file_that_is_truncated_while_it_is_open(name: str, path: Path) -> None:
    layout = layout_for(name, 19, 19)
    write(name, path, layout, random_batch(layout, 3000))
    with kifu.open(path) as data:
        for file, whole in bytes_of(path).items():
            os.truncate(path / file if file else path, len(whole) // 2)
        for read in (lambda: data.read(0, 3000), data.to_numpy):
            with pytest.raises(FormatError, match=r"truncated|damaged|filter returned"):
                read()


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    for name in ("npy@1", "book-npy@1"):
        path = tmp_path / name
        layout = layout_for(name)
        write(name, path, layout, random_batch(layout, 10))
        next(path.glob("*labels*.npy")).unlink()
        with pytest.raises(SourceError, match="labels"):
            kifu.open(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 26}, {"height": 0}, {"plane_names": []}, {"first_row": "left"}, {"rim": -1}, {"real": "yes"},
        {"labels": []}, {"labels": [{"name": "game", "dtype": "int8", "shape": [], "meaning": ""}]},
        {"labels": [{"name": "../x", "dtype": "int8", "shape": [], "meaning": ""}]},
        {"labels": [{"name": "move", "dtype": "object", "shape": [], "meaning": ""}]},
        {"labels": [{"name": "move", "dtype": "int8", "shape": [10**9], "meaning": ""}]},
        {"labels": [{"name": "move", "dtype": "int8", "shape": [], "meaning": ""}] * 2},
    ],
)  # fmt: skip
def test_invalid_layouts(wrong: dict[str, object]) -> None:
    good = json.loads(layout_for("npy@1").to_json())
    assert parse_layout(json.dumps(good)) == layout_for("npy@1")
    with pytest.raises(FormatError, match="invalid layout"):
        parse_layout(json.dumps(good | wrong))


# Names


def test_names_of_formats() -> None:
    assert find_format("parquet").name == "parquet@1"
    with pytest.raises(
        RecipeError, match=r"unknown format 'parket'; did you mean 'parquet'\? available: npy@1, book-npy@1"
    ):
        find_format("parket", "examples")


def test_files_that_are_not_data_sets(tmp_path: Path) -> None:
    for content in (b"", b"PAR1", b"\x89HDF\r\n\x1a\n", b"nonsense"):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=str(path)):
            kifu.open(path)
    with pytest.raises(KifuError):
        kifu.open(tmp_path)
    with pytest.raises(SourceError):
        kifu.open(tmp_path / "none")


def test_planes_are_stored_as_bits_from_the_upper_left() -> None:
    layout = Layout("x", ("a", "b"), False, 3, 3, 0, "top", (MOVE,))
    planes = np.zeros((1, 2, 3, 3), np.uint8)
    planes[0, 0, 0, 1] = planes[0, 1, 2, 2] = 1
    stored = pack_planes(planes, layout)
    assert stored.tolist() == [[[0b01000000, 0], [0, 0b10000000]]]
    batch = Batch(stored, {"move": np.zeros(1, np.int16)}, np.zeros(1, np.uint64), np.zeros(1, np.int32))
    assert np.array_equal(batch.unpack_planes(layout), planes)


def saved(values: np.ndarray) -> bytes:
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

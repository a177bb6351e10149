"""Common behaviour of all formats of examples: round trips, bytes, errors, damage, interruption."""

from __future__ import annotations

import json
import os
import pkgutil
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kifu
from example_sets import FORMATS, MOVE, assert_same, bytes_of, cut, layout_for, random_batch, write
from kifu.datasets.epoch_plan import LoaderConfig
from kifu.datasets.examples import Batch, LabelSpec, Layout, pack_planes, parse_layout
from kifu.datasets.formats import find_format, formats_of, open_writer
from kifu.datasets.labels import augment_planes, find_label
from kifu.datasets.manifest import manifest_path
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


def test_any_damage_is_a_format_error_or_examples(name: str, layout: Layout, path: Path) -> None:
    if name == "hdf5@2":
        pytest.skip("not promised: the HDF5 library may crash")
    write(name, path, layout, *cut(random_batch(layout, 60), 20))
    whole = bytes_of(path)
    rng = random.Random(1)
    reported = 0
    inputs = 150
    for k in range(inputs):
        file = rng.choice(list(whole))
        data = bytearray(whole[file])
        if k % 3 == 0:
            del data[rng.randrange(len(data)) :]
        else:
            for _ in range(rng.choice([1, 1, 8])):
                data[rng.randrange(len(data))] = rng.randrange(256)
        where = path / file if file else path
        where.write_bytes(data)
        try:
            with kifu.open(path) as found:
                for batch in found.batches(16):
                    assert isinstance(batch, Batch)
        except (FormatError, SourceError) as error:
            reported += 1
            assert str(error).isprintable()  # noqa: PT017 - most damage does not raise
        where.write_bytes(whole[file])
    assert reported > inputs // 4


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

"""The dat1 and dat2 formats: bytes, reader, and error messages."""

import dataclasses
import gzip
import hashlib
import re
import tarfile

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import kifu.report.inspect as inspection
from kifu.datasets import formats
from kifu.datasets.dat import DAT_LAYOUTS, MAX_SEGMENTS, Dat, check_segments, find_dat_layout
from kifu.datasets.formats import FORMATS, find_format
from kifu.datasets.manifest import ArchiveRows, WrittenFile
from kifu.errors import FormatError, KifuError, RecipeError, SourceError
from kifu.planes.packing import DAT1, DAT2
from kifu.point import parse_sgf, to_bottom_row
from kifu.report.inspect import inspect_dat
from naive_dat import random_examples, random_file, write_naive

DAT1_1, DAT2_1 = DAT_LAYOUTS["dat1@1"], DAT_LAYOUTS["dat2@1"]


@pytest.fixture
def saved(tmp_path):
    def save(data, name="set.dat"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return save


@pytest.fixture(scope="module")
def reference(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    for name in ("kgsgo-test.dat", "kgsgo-test-v2.dat"):
        (folder / name).write_bytes(gzip.decompress((shared / f"reference/kgsgo/{name}.gz").read_bytes()))
    return folder / "kgsgo-test.dat", folder / "kgsgo-test-v2.dat"


# The layouts


def test_sizes_of_the_records():
    assert DAT1.itemsize == DAT1_1.record_bytes == 365
    assert DAT2.itemsize == DAT2_1.record_bytes == 322
    assert [DAT1.fields[key][1] for key in ("mark", "row", "col", "planes")] == [0, 2, 3, 4]
    assert [DAT2.fields[key][1] for key in ("mark", "label", "bits")] == [0, 2, 6]
    assert DAT2["label"].str == "<i4"


def test_headers():
    assert DAT1_1.header(19666) == b""
    header = DAT2_1.header(347)
    text = b"mlv2-n=347-numplanes=7-imagewidth=19-imageheight=19-datatype=int-bpp=1\0\n"
    assert header == text + bytes(1024 - len(text))
    with pytest.raises(RecipeError, match="-1 examples"):
        DAT2_1.header(-1)


def test_find_format():
    assert find_format("dat2") is find_format("dat2@1", "kgsgo") is FORMATS["dat2@1"]
    assert find_dat_layout("dat2") is find_dat_layout("dat2@1") is DAT2_1
    with pytest.raises(
        RecipeError, match=r"unknown format 'dat3'; did you mean 'dat[12]'\? available: dat1@1, dat2@1, npy@1"
    ):
        find_format("dat3")
    for find in (find_dat_layout, lambda name: find_format(name, "kgsgo")):
        with pytest.raises(
            RecipeError, match=r"unknown .*format.* 'dat3'; did you mean 'dat[12]'\? available: dat1@1, dat2@1$"
        ):
            find("dat3")


def test_a_record_by_hand(saved):
    """An own stone in atari at the lower left, an opponent's string of two at the upper right; played: (18, 1)."""
    v1 = bytearray(b"GO\x12\x01" + b"\x80" * 361 + b"END")
    v1[4] |= 1  # row 0, column 0
    v1[4 + 18 * 19 + 17] |= 1 << 4
    v1[4 + 18 * 19 + 18] |= 1 << 4
    v2 = bytearray(b"GO\x57\x01\0\0" + bytes(316) + b"END")  # 18 * 19 + 1 = 343 = 0x157
    v2[6] = 0b1000_0000
    last = 4 * 361 + 360  # the last bit of plane 4, 225 * 8 + 4
    v2[6 + last // 8] = 0b0001_1000
    for data in (bytes(v1), DAT2_1.header(1) + bytes(v2)):
        planes, label = formats.open(saved(data))[0]
        assert label == 343
        assert type(label) is int
        assert planes.dtype == np.uint8
        assert np.argwhere(planes[:7]).tolist() == [[0, 0, 0], [4, 18, 17], [4, 18, 18]]
        assert planes[7:].all()


# The reader


@pytest.mark.parametrize("name", DAT_LAYOUTS)
@pytest.mark.parametrize("n", [0, 1, 300])  # 300: more than is unpacked at a time
def test_reads_what_the_naive_writer_wrote(name, n, saved):
    planes, labels = random_examples(name, n)
    path = saved(write_naive(name, planes, labels))
    with formats.open(path) as dat:
        assert (dat.path, dat.format, dat.segments) == (path, FORMATS[name], 1)
        assert len(dat) == dat.examples == n
        got_planes, got_labels = dat.to_numpy()
        assert got_planes.shape == (n, DAT_LAYOUTS[name].planes, 19, 19)
        assert (got_planes.dtype, got_labels.dtype) == (np.uint8, np.int32)
        assert_array_equal(got_planes, planes)
        assert_array_equal(got_labels, labels)
        rows = list(dat)
        assert len(rows) == n
        assert all((p == q).all() and a == b for (p, a), q, b in zip(rows, planes, labels.tolist()))


def joined(name, counts, saved):
    parts = [random_examples(name, n, seed) for seed, n in enumerate(counts)]
    path = saved(b"".join(write_naive(name, *part) for part in parts))
    return path, np.concatenate([p for p, _ in parts]), np.concatenate([q for _, q in parts])


@pytest.mark.parametrize("name", DAT_LAYOUTS)
@pytest.mark.parametrize("counts", [[7], [3, 4], [0, 2, 0, 0, 5, 0]], ids=str)
def test_indexing_and_slicing_match_a_list(name, counts, saved):
    path, planes, labels = joined(name, counts, saved)
    dat = Dat(path)
    n = len(labels)
    assert dat.segments == len(counts)
    for i in (*range(-n, n), np.int64(n - 1)):
        assert_array_equal(dat[i][0], planes[i])
        assert dat[i][1] == labels[i]
    for i in (-n - 1, n):
        with pytest.raises(IndexError, match=rf"example {i} of .*, which has 7"):
            dat[i]
    bounds = [None, -9, -3, 0, 2, 5, 7, 9]
    for start in bounds:
        for stop in bounds:
            for step in (None, 2, 3, 9, -1, -2, -5):
                got_planes, got_labels = dat[start:stop:step]
                assert_array_equal(got_labels, labels[start:stop:step])
                assert_array_equal(got_planes, planes[start:stop:step])
    with pytest.raises(TypeError):
        dat["0"]


def test_returned_arrays_are_copies(saved):
    path = saved(random_file("dat2@1", 2))
    dat = Dat(path)
    before = dat[0][0].copy()
    dat[0][0][:] = 7
    dat[:][0][:] = 7
    assert_array_equal(dat[0][0], before)


def test_close(saved):
    path = saved(random_file("dat1@1", 3))
    with Dat(path) as dat:
        part = dat[:2]
    dat.close()  # twice does no harm
    assert len(dat) == 3
    assert part[0].shape == (2, 8, 19, 19)
    for use in (lambda: dat[0], lambda: dat[:], lambda: list(dat)):
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_repr(saved):
    path = saved(random_file("dat1@1", 2) + random_file("dat1@1", 1))
    assert repr(Dat(path)) == f"<Dat {str(path)!r}: dat1@1, 3 examples, 2 files joined>"
    path.write_bytes(random_file("dat2@1", 1))
    assert repr(Dat(path)) == f"<Dat {str(path)!r}: dat2@1, 1 examples>"


# Damaged files


def v1_with(offset, patch, n=3):
    data = bytearray(random_file("dat1@1", n))
    data[offset : offset + len(patch)] = patch
    return bytes(data)


def v2_with(offset, patch, n=3):
    data = bytearray(random_file("dat2@1", n))
    data[offset : offset + len(patch)] = patch
    return bytes(data)


V1, V2 = random_file("dat1@1", 3), random_file("dat2@1", 3)


def headed(old, new):
    return V2.replace(old, new, 1)


BROKEN = {
    "empty": (b"", "is empty"),
    "text": (b"hello", "begins with b'hell', which no data set does"),
    "gzip": (gzip.compress(V1), r"begins with b'\x1f\x8b"),
    "v1 mark": (v1_with(365, b"XX"), "record 1 at byte 365 begins with b'XX', not b'GO'"),
    "v1 row": (v1_with(2, b"\x13"), "record 0: row 19, column "),
    "v1 column": (v1_with(733, b"\xff"), "column 255 at byte 732 are not both within 0 to 18"),
    "v1 plane 7": (v1_with(4 + 360, b"\x7f"), "record 0: byte 364 is 0x7f, without the highest bit"),
    "v1 no END": (V1[:-3], "ends after 3 records, at byte 1,095, without b'END'"),
    "v1 half an END": (V1[:-1], "record 3 at byte 1,095 begins with b'EN', not b'GO'"),
    "v1 cut off": (V1[:800], "record 2 at byte 730 is cut off after 70 of 365 bytes"),
    "v1 END, then a rest": (V1 + b"\n", "record 3 at byte 1,098 begins with b'\\n', not b'GO'"),
    "v1, second part broken": (V1 + v1_with(365, b"G0"), "record 4 at byte 1,463 begins with b'G0'"),
    "v1, then v2": (V1 + V2, "record 3 at byte 1,098 begins with b'ml', not b'GO'"),
    "v2 n too large": (headed(b"n=3", b"n=4"), "gives n=4, which ends at byte 2,315 with its b'END', but the file ends"),  # noqa: E501 - one case per line
    "v2 n too small": (headed(b"n=3", b"n=2"), "instead of b'END' at byte 1,668, after the 2 records of the header at byte 0"),  # noqa: E501 - one case per line
    "v2 n huge": (headed(b"n=3", b"n=" + b"9" * 15), "gives n=999999999999999,"),
    "v2 n huger": (headed(b"n=3", b"n=" + b"9" * 400), "has b'n=99999999999999999999999999999999999999' where"),
    "v2 n negative": (headed(b"n=3", b"n=-3"), "the header at byte 0 has b'n=' where n=<number of examples> belongs"),
    "v2 n padded": (headed(b"n=3", b"n=03"), "has b'n=03' where n=<number of examples> belongs"),
    "v2 planes": (headed(b"numplanes=7", b"numplanes=8"), "has b'numplanes=8' where b'numplanes=7' belongs"),
    "v2 width": (headed(b"width=19", b"width=9"), "has b'imagewidth=9' where b'imagewidth=19' belongs"),
    "v2 height": (headed(b"height=19", b"height=9"), "has b'imageheight=9' where b'imageheight=19' belongs"),
    "v2 type": (headed(b"=int", b"=float"), "has b'datatype=float' where b'datatype=int' belongs"),
    "v2 bits": (headed(b"bpp=1", b"bpp=8"), "has b'bpp=8' where b'bpp=1' belongs"),
    "v2 a field less": (headed(b"-bpp=1", b"\0\0\0\0\0\0"), "has b'' where b'bpp=1' belongs"),
    "v2 a field more": (headed(b"bpp=1\0\n", b"bpp=1-x"), "at its byte 68, after its text"),
    "v2 header's rest": (v2_with(1023, b"x"), "has b'x' at its byte 1023, after its text"),
    "v2 header cut off": (V2[:1000], "the header at byte 0 is cut off after 1000 of 1,024 bytes"),
    "v2 mark": (v2_with(1024 + 322, b"go"), "record 1 at byte 1,346 begins with b'go', not b'GO'"),
    "v2 label 361": (v2_with(1026, b"\x69\x01\0\0"), "record 0: label 361 at byte 1,026 is not within 0 to 360"),
    "v2 label 65536": (v2_with(1026, b"\0\0\1\0"), "label 65536"),
    "v2 label -1": (v2_with(1026, b"\xff\xff\xff\xff"), "label -1"),
    "v2 last bit": (v2_with(1024 + 321, b"\1"), "record 0: the last bit at byte 1,345, which is padding, is set"),
    "v2 cut off": (V2[:-10], "but the file ends at byte 1,983"),
    "v2 no END": (V2[:-3] + b"XYZ", "has b'XYZ' instead of b'END' at byte 1,990"),
    "v2 END, then a rest": (V2 + b"END", "the header at byte 1,993 is cut off after 3 of 1,024 bytes"),
    "v2, second part broken": (V2 + v2_with(1024 + 322, b"gO"), "record 4 at byte 3,339 begins with b'gO'"),
    "v2, then v1": (V2 + random_file("dat1@1", 9), "the header at byte 1,993 has b'GO"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=list(BROKEN))
def test_error_names_the_problem(data, message, saved):
    path = saved(data)
    with pytest.raises(FormatError) as caught:
        formats.open(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_last_label_is_read(saved):
    assert formats.open(saved(v2_with(1026, b"\x68\x01\0\0")))[0][1] == 360
    assert formats.open(saved(v1_with(2, b"\x12\x12")))[0][1] == 360


def test_many_concatenated_files(saved):
    path = saved(b"END" * MAX_SEGMENTS)
    assert Dat(path).segments == 10_000
    assert len(Dat(path)) == 0
    path.write_bytes(b"END" * (MAX_SEGMENTS + 1))
    with pytest.raises(FormatError, match="more than 10,000 concatenated files"):
        Dat(path)


@pytest.mark.parametrize("name", ["missing.dat", "a\0b", "."])
def test_unreadable_paths(name, tmp_path):
    with pytest.raises(SourceError) as caught:
        formats.open(tmp_path / name)
    assert str(tmp_path) in str(caught.value)


@given(st.one_of(st.binary(), st.builds(bytes.__add__, st.sampled_from([b"GO", b"END", b"mlv2"]), st.binary())))
def test_any_bytes(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.dat"
    path.write_bytes(data)
    try:
        dat = formats.open(path)
    except KifuError:
        return
    assert len(dat) == 0
    assert data == b"END" * dat.segments


@given(st.data())
def test_mutations(tmp_path_factory, data):
    """A file with some bytes changed, removed, or inserted is rejected, or is read exactly as stored."""
    name = data.draw(st.sampled_from(sorted(DAT_LAYOUTS)))
    content = bytearray(random_file(name, 2) + random_file(name, 1))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 1, 2, 4, 322, 365]))
        content[at : at + length] = data.draw(st.sampled_from([b"", b"\0", b"GO", b"END", b"\x80", content[:1024]]))
    path = tmp_path_factory.getbasetemp() / "mutated.dat"
    path.write_bytes(content)
    try:
        dat = formats.open(path)
    except KifuError:
        return
    planes, labels = dat.to_numpy()
    first, again = 0, b""
    for _, examples in check_segments(np.frombuffer(bytes(content), np.uint8), dat.dat_layout):
        part = slice(first, first + examples)
        again += write_naive(dat.format.name, planes[part], labels[part])
        first += examples
    assert again == content


# Files of the 2015 program


@pytest.mark.slow
def test_reference_files(reference):
    v1, v2 = map(formats.open, reference)
    assert hashlib.md5(v1.path.read_bytes()).hexdigest() == "ca97a2325444f6e890f95ae676fd732a"
    assert (v1.format.name, v2.format.name) == ("dat1@1", "dat2@1")
    assert len(v1) == len(v2) == 19_666
    planes, labels = v1.to_numpy()
    planes_v2, labels_v2 = v2.to_numpy()
    assert_array_equal(labels, labels_v2)
    assert_array_equal(planes[:, :7], planes_v2)
    assert planes[:, 7].all()
    # ../shared/facts/kgsgo.md counts the ko plane: 400 on empty points, the others on stones of the mover
    ko = planes[:, 6].astype(bool)
    occupied = planes[:, :6].any(axis=1)
    assert (ko.any(axis=(1, 2)).sum(), ko.sum(), (ko & ~occupied).sum()) == (400, 1381, 400)
    assert (planes[:, :6].sum(axis=1) <= 1).all()
    assert not occupied.reshape(-1, 361)[np.arange(len(labels)), labels].any()  # all were played on empty points


EXAMPLE = re.compile(r"(v[12]) ex\d+ move (\S\S) \| own (\S*)\s+enemy (\S*)\s*(?:KO (.*))?$")


def listed_planes(own, enemy, ko):
    """[7, 361] uint8 of one line of planes.txt, in the frame of the files."""
    planes = np.zeros((7, 361), np.uint8)
    for base, stones in ((0, own), (3, enemy)):
        for stone in filter(None, stones.split(",")):
            point, liberties = stone.split(":")
            planes[base + int(liberties) - 1, to_bottom_row(parse_sgf(point, 19), 19)] = 1
    for point in re.findall(r"(\S\S)\(", ko or ""):
        planes[6, to_bottom_row(parse_sgf(point, 19), 19)] = 1
    return planes


def test_synthetic_records_are_read_as_listed(shared, saved):
    """planes.txt lists the planes of the program's own records, suicides included."""
    with tarfile.open(shared / "reference/kgsgo/synthetic.tar.gz") as archive:
        files = {m.name.split("/")[-1]: archive.extractfile(m).read() for m in archive.getmembers() if m.isfile()}
    sections = re.split(r"^---- ", files["planes.txt"].decode(), flags=re.MULTILINE)[1:]
    seen = 0
    for section in sections:
        stem = section.split()[0]
        listed = {"v1": [], "v2": []}
        for line in section.splitlines():
            if match := EXAMPLE.search(line):
                listed[match[1]].append(match.groups()[1:])
        if "v2 same" in section:
            listed["v2"] = listed["v1"]
        for version, layout in (("v1", DAT1_1), ("v2", DAT2_1)):
            examples = listed[version]
            path = saved(layout.header(len(examples)) + files[f"{stem}.{version}.bin"] + b"END")
            dat = formats.open(path)
            assert len(dat) == len(examples)
            for (planes, label), (move, own, enemy, ko) in zip(dat, examples):
                assert label == to_bottom_row(parse_sgf(move, 19), 19)
                assert_array_equal(planes[:7].reshape(7, 361), listed_planes(own, enemy, ko))
                seen += 1
    assert seen == 288


# inspect_dat


def test_inspect_counts(saved):
    planes = np.zeros((4, 7, 19, 19), np.uint8)
    planes[:3, 0, 0, 0] = planes[0, 5, 2, 2:4] = planes[1, 6, 9, 9] = 1
    data = write_naive("dat2@1", planes, [5, 6, 6, 360])
    title, *lines = inspect_dat(saved(data))
    assert title.endswith(f": dat2@1, {FORMATS['dat2@1'].title}")
    assert [line[14:] for line in lines] == [
        "4", f"{len(data):,}", "kgsgo7@1, row 0 is the bottom of the board",
        "1.2 on average; 25.00% of the examples have a ko", "3 of 361 points", hashlib.md5(data).hexdigest(),
        blake3(data).hexdigest(), "all valid", "none",
    ]  # fmt: skip


def test_inspect_empty_and_concatenated_files(saved):
    found = inspect_dat(saved(b"END"))
    assert (found[1], found[4][14:17]) == ("  examples    0", "0.0")
    empty = [write_naive("dat2@1", np.zeros((n, 7, 19, 19), np.uint8), [0] * n) for n in (300, 2)]
    found = inspect_dat(saved(b"".join(empty)))
    assert found[1] == "  examples    302 in 2 joined files"


def test_inspect_reports_the_planes_before_december_2015(saved):
    planes = np.zeros((1, 7, 19, 19), np.uint8)
    planes[0, [0, 2], 3, 3] = planes[0, [4, 5], 6, 6] = planes[0, 5, 8, 8] = 1
    with pytest.raises(FormatError, match="2 stones are in more than one of the planes 0 to 5"):
        inspect_dat(saved(write_naive("dat2@1", planes, [0])))


def test_inspect_compares_the_manifest(saved):
    data = write_naive("dat2@1", np.zeros((2, 7, 19, 19), np.uint8), [0, 1])
    path, digest = saved(data), blake3(data).hexdigest()
    manifest = inspection.Manifest(
        kifu="0.1.0", file=path.name, format="dat2@1", plane_set="kgsgo7@1", recipe={"name": "kgsgo-v2"}, set="test",
        examples=2, files=[WrittenFile(path.name, len(data), digest)], read=1, kept=1, elsewhere=0, drops={},
        dropped=[], sources=[], archives=[ArchiveRows("KGS-2001-19-1-", "ef", 0, 0)], origins=None,
    )  # fmt: skip
    beside = inspection.manifest_path(path)
    manifest.write(beside)
    assert inspect_dat(path)[-1].endswith("; its hashes match")
    dataclasses.replace(manifest, files=[WrittenFile(path.name, 3, "ab")]).write(beside)
    words = (
        f"set.dat.manifest.json lists bytes 3; the file has {len(data)}; "
        f"set.dat.manifest.json lists blake3 ab; the file has {digest}"
    )
    with pytest.raises(FormatError, match=words):
        inspect_dat(path)
    beside.write_text("[]")
    with pytest.raises(FormatError, match="is not a manifest"):
        inspect_dat(path)


def test_inspect_rejects_what_open_rejects(saved):
    with pytest.raises(FormatError, match="begins with"):
        inspect_dat(saved(b"no data set"))

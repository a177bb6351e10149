"""Manifests of dat1 and dat2 files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.datasets.manifest import ArchiveRowsBuilder, DroppedGame, Manifest, RowOrigin, manifest_path, read_manifest
from kifu.errors import FormatError

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
    """Every row, expanded one by one; the same for any number of games added at a time."""
    rows = rows_of("A", games, at_a_time)
    assert rows == rows_of("A", games)
    expected = [RowOrigin("A", member, ply) for member, game in games for ply in game]
    assert [rows.origin(row) for row in range(len(expected))] == expected
    assert rows.rows == [len(game) for _, game in games]
    assert rows.ply == [game[0] if game else 0 for _, game in games]
    for game, within, ply in rows.skips:
        assert within > 0
        assert games[game][1][within] == ply > games[game][1][within - 1] + 1


def test_a_run_of_rows_takes_three_numbers():
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
    """Return a manifest as a table, and a function that writes it back."""
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
def test_files_that_are_not_manifests(plain, case):
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
def test_invalid_values(plain, change):
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
def test_invalid_archives(plain, change):
    table, damage = plain
    table["archives"][0] |= change
    damage(table)


@pytest.mark.parametrize("key", list(Manifest.__dataclass_fields__))
def test_every_value_is_required(plain, key):
    table, damage = plain
    del table[key]
    assert damage(table).endswith(f"{key} Field required")


@given(st.binary(max_size=100))
def test_any_bytes_as_a_manifest(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.dat"
    manifest_path(path).write_bytes(data)
    with pytest.raises(FormatError):
        read_manifest(path)

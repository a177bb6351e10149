"""`inspect` and `show`: what they tell of each kind of artefact, as text and as pictures."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import kifu
from catalogues import rows, write_catalogue
from commands import Done, lines_of, run
from kgs_archives import BROKEN, archive, record, records
from kifu.assets import OTHER_FORMATS, asset
from kifu.datasets.formats import FORMATS, detect_format
from kifu.datasets.manifest import manifest_path, origins_path
from kifu.io import hash_file

# In the upper left corner the last black stone takes a ko; then White plays elsewhere.
KO = b"(;SZ[19]PB[Ada]BR[3d]PW[Bob]RE[B+R]KM[6.5];B[ba];W[ca];B[ab];W[db];B[bc];W[cc];B[qq];W[bb];B[cb];W[pd])"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    source = archive(folder, [KO, record("a"), record("b", handicap=4)])
    for recipe in ("kgsgo-v1", "kgsgo-v2"):
        assert run("build", recipe, source, "--output", folder, "--sets", "archives").code == 0
    return folder


V1, V2 = "KGS-2001-19-3-.dat", "KGS-2001-19-3-v2.dat"


def facts(done: Done) -> dict[str, str]:
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines_of(done)[1:]}


def fails(done: Done, *words: str) -> None:
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert all(word in done.err[0] for word in words), done.err[0]


def is_picture(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".png":
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert data.endswith(b"IEND\xaeB`\x82")
    else:
        assert ET.fromstring(data).tag == "{http://www.w3.org/2000/svg}svg"
    return data


@pytest.mark.parametrize(
    ("name", "layout", "planes", "bytes_"),
    [
        (V1, "dat1@1", "kgsgo8@1, row 0 is the bottom of the board", lambda n: 365 * n + 3),
        (V2, "dat2@1", "kgsgo7@1, row 0 is the bottom of the board", lambda n: 1024 + 322 * n + 3),
    ],
)
def test_a_data_set(made: Path, name: str, layout: str, planes: str, bytes_: object) -> None:
    path = made / name
    with kifu.open(path) as data:
        examples = len(data)
        all_planes, labels = data.to_numpy()
    done = run("show", path)
    assert lines_of(done)[0].startswith(f"{path}: {layout}, kgsgo v{layout[3]}: ")
    reported = facts(done)
    stones = all_planes[:, :6].any(1).sum() / examples
    ko = all_planes[:, 6].any((1, 2)).mean()
    assert reported == {
        "examples": f"{examples:,}",
        "bytes": f"{bytes_(examples):,}",
        "planes": planes,
        "stones": f"{stones:.1f} on average; {ko:.2%} of the examples have a ko",
        "labels": f"{len(set(labels.tolist()))} of 361 points",
        "md5": hashlib.md5(path.read_bytes()).hexdigest(),
        "blake3": json.loads(manifest_path(path).read_bytes())["files"][0]["blake3"],
        "marks": "all valid",
        "manifest": f"recipe kgsgo-v{layout[3]}, set archives, kifu {kifu.__version__}; 3 games = 3 kept; "
        "its hashes match",
    }


def test_joined_data_sets_without_a_manifest(made: Path, tmp_path: Path) -> None:
    joined = tmp_path / "joined.dat"
    joined.write_bytes((made / V2).read_bytes() * 3)
    reported = facts(run("show", joined))
    assert reported["examples"].endswith(" in 3 joined files")
    assert reported["manifest"] == "none"


def test_a_data_set_that_contradicts_its_manifest(made: Path, tmp_path: Path) -> None:
    path = tmp_path / V2
    data = bytearray((made / V2).read_bytes())
    data[1024 + 6] ^= 0x80  # a stone in the corner of the first example
    path.write_bytes(data)
    manifest_path(path).write_bytes(manifest_path(made / V2).read_bytes())
    fails(run("show", path), f"{V2} is damaged: it has other bytes than its manifest lists")


def test_a_data_set_without_its_file_of_origins(made: Path, tmp_path: Path) -> None:
    path = tmp_path / V2
    for beside in (lambda path: path, manifest_path):
        shutil.copy(beside(made / V2), beside(path))
    fails(run("show", path), f"{V2}.manifest.parquet is missing, or its hash differs")
    fails(run("show", path, "--row", "0"), "manifest.parquet is missing")
    origins_path(path).write_bytes(bytes(origins_path(made / V2).stat().st_size))
    fails(run("show", path), "its hash differs")
    fails(run("show", path, "--row", "0"), "manifest.parquet")
    shutil.copy(origins_path(made / V2), origins_path(path))
    assert lines_of(run("show", path))


@pytest.mark.parametrize("garbage", [b"GO", b"END!", b"mlv2-n=1-", b"GO" * 400 + b"END"])
def test_a_damaged_data_set(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "x.dat"
    path.write_bytes(garbage)
    assert detect_format(path) is not None
    for more in ([], ["--row", 0]):
        fails(run("show", path, *more), "x.dat")


@pytest.mark.parametrize("name", [V1, V2])
def test_a_row(made: Path, name: str) -> None:
    row = lines_of(run("show", made / name, "--row", 8))
    assert row[0].split() == list("ABCDEFGHJKLMNOPQRST")
    assert [line[:12] for line in row[1:4]] == ["19 . O X . .", "18 O . O X .", "17 . O X . ."]
    assert row[17][32:] == " . O . ."  # R3
    assert sum(line[3:].count("X") + line[3:].count("O") for line in row[1:20]) == 8
    assert row[20:] == [
        "row 8: X is to move and plays Q16; 8 stones",
        "ko plane: C19, B18, D18, C17",
        "from KGS-2001-19-3-, entry 2, move 10",
    ]


def test_a_manifest_stands_for_its_data_set(made: Path) -> None:
    assert lines_of(run("show", manifest_path(made / V2))) == lines_of(run("show", made / V2))


def test_the_first_rows_of_games(made: Path) -> None:
    assert lines_of(run("show", made / V2, "--row", 0))[20:] == [
        "row 0: X is to move and plays C19; 1 stone",
        "from KGS-2001-19-3-, entry 2, move 2",
    ]
    with kifu.open(made / V2) as data:
        last = len(data) - 1
    assert "entry 4, move 60" in run("show", made / V2, "--row", last).out
    fails(run("show", made / V2, "--row", last + 1), f"row must be within 0 to {last}")
    fails(run("show", made / V2, "--row", -1), "--row must be a whole number >= 0")


def test_a_row_beyond_its_manifest(made: Path, tmp_path: Path) -> None:
    """The data set is two joined, the manifest that of one: no row's origin is made up."""
    joined = tmp_path / V1
    joined.write_bytes((made / V1).read_bytes() * 2)
    for beside in (manifest_path, origins_path):
        shutil.copy(beside(made / V1), beside(joined))
    fails(run("show", joined, "--row", 0), f"{V1} is damaged: it has other bytes than its manifest lists")


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_row_is_drawn(made: Path, tmp_path: Path, suffix: str) -> None:
    drawn = set()
    for row in (7, 8):
        out = tmp_path / f"{row}.{suffix}"
        assert lines_of(run("show", made / V2, "--row", row, "-o", out))[-1] == f"drew {out}"
        drawn.add(is_picture(out))
    assert len(drawn) == 2


def test_an_archive(tmp_path: Path) -> None:
    games = [*records(3), BROKEN["OCCUPIED"], BROKEN["NOT_GO"], BROKEN["WRONG_SIZE"]]
    path = archive(tmp_path, games)
    done = run("show", path)
    assert lines_of(done)[0] == f"{path}: 6 games = 4 kept + 1 not go + 1 occupied"
    assert facts(done)["moves"] == f"{3 * 60 + 3} in the kept games"
    assert facts(done)["boards"] == "19 x 19: 3, 9 x 9: 1"
    dropped = [line for line in lines_of(done) if line.startswith("  dropped")]
    assert len(dropped) == 2
    assert "00003.sgf: a move on an occupied point" in dropped[0]
    assert "00004.sgf: a record of another game" in dropped[1]


def test_a_folder_and_a_record(tmp_path: Path) -> None:
    (tmp_path / "one.sgf").write_bytes(KO)
    (tmp_path / "two.sgf.gz").write_bytes(gzip.compress(b"(;GM[1];B[dd];W[])"))
    done = run("show", tmp_path)
    assert lines_of(done)[0] == f"{tmp_path}: 2 games = 2 kept"
    assert facts(done)["moves"] == "12 in the kept games"
    assert facts(done)["warnings"] == "SIZE_MISSING: 1"
    alone = run("show", tmp_path / "one.sgf")
    assert lines_of(alone)[0] == "Ada [3d] - Bob, B+R, 10 moves, 19 x 19, komi 6.5"
    assert lines_of(alone)[-1] == "after all 10 moves"
    assert run("show", tmp_path / "one.sgf", "--game", 1) == alone


@pytest.fixture
def games(tmp_path: Path) -> Path:
    path = tmp_path / "games.sgf"
    path.write_bytes(
        KO
        + b"(;SZ[9];B[ee];W[];B[gc])"
        + b"(;SZ[5:3]AB[aa]AW[ec];W[bb];B[zz])"
        + b"(;SZ[9];B[dd];W[ee];B[ee];W[cc])"
        + b"(;GM[2]SZ[9];B[dd])"
    )
    return path


def test_show_the_end_of_the_first_game(games: Path) -> None:
    shown = lines_of(run("show", games, "--game", 1))
    assert shown[0] == "Ada [3d] - Bob, B+R, 10 moves, 19 x 19, komi 6.5"
    assert shown[1] == ""
    assert shown[3].startswith("19 . X O .")
    assert "(O)" in shown[6]  # Q16, the last move
    assert shown[-1] == "after all 10 moves"


@pytest.mark.parametrize(
    ("game", "move", "last"),
    [
        (1, 0, "after 0 of 10 moves; next: Black B19"),
        (1, 9, "after 9 of 10 moves; next: White Q16"),
        (2, 1, "after 1 of 3 moves; next: White pass"),
        (2, 2, "after 2 of 3 moves; next: Black G7"),
        (2, 3, "after all 3 moves"),
        (3, 0, "after 0 of 2 moves; next: White B2"),
        (3, 1, "after 1 of 2 moves; next: Black off the board"),
        (4, 2, "after 2 of 4 moves; next: Black E5"),
    ],
)
def test_show_any_position(games: Path, game: int, move: int, last: str) -> None:
    assert lines_of(run("show", games, "--game", game, "--move", move))[-1] == last


def test_show_a_rectangular_board(games: Path) -> None:
    assert lines_of(run("show", games, "--game", 3, "--move", 1))[2:6] == [
        "   A B C D E",
        " 3 X . . . .",
        " 2 .(O). . .",
        " 1 . . . . O",
    ]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_position_is_drawn(games: Path, tmp_path: Path, suffix: str) -> None:
    drawn = set()
    for game, move in ((1, 0), (1, 9), (2, 2), (2, 3), (3, 1)):
        out = tmp_path / f"{game}-{move}.{suffix}"
        done = run("show", games, "--game", game, "--move", move, "-o", out)
        assert lines_of(done)[-2:] == [lines_of(run("show", games, "--game", game, "--move", move))[-1], f"drew {out}"]
        drawn.add(is_picture(out))
    assert len(drawn) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--game", 3], ["move 2", "outside the board"]),
        (["--game", 4], ["move 3", "occupied"]),
        (["--game", 4, "--move", 3, "-o", "x.svg"], ["move 3", "occupied"]),
        (["--game", 5], ["game 5", "dropped", "another game"]),
        (["--game", 6], ["within 1 to 5", "got 6"]),
        (["--game", 2, "--move", 4], ["within 0 to 3", "got 4"]),
    ],
)
def test_invalid_selections(games: Path, arguments: list[object], words: list[str]) -> None:
    fails(run("show", games, *arguments), *words)


# Catalogues


@pytest.fixture
def catalogue(tmp_path: Path, games: Path) -> Path:
    """The same games as rows; the third and fourth have an illegal move, the fifth is of another game than go."""
    path = tmp_path / "games.parquet"
    assert run("ingest", games, "-o", path).code == 0
    return path


def test_inspect_a_catalogue(catalogue: Path, games: Path) -> None:
    shown = lines_of(run("show", catalogue))
    assert shown[0] == f"{catalogue}: catalogue@3, 5 games = 2 kept + 1 off board + 1 occupied + 1 not go"
    assert shown[1:4] == [
        "  moves       13 in the kept games",
        "  boards      9 x 9: 1, 19 x 19: 1",
        "  formats     sgf: 2",
    ]
    assert shown[4] == f"  archives    {games.name}: 2"
    assert f"  blake3      {hash_file(catalogue)}" in shown
    assert shown[-1] == "  cleaned     legal: every game that can be read and played to its end"


def test_inspect_a_catalogue_of_a_query(tmp_path: Path) -> None:
    about = {"query": "select\n*", "of": ["games.parquet"]}
    path = write_catalogue(tmp_path / "x.parquet", rows(moves=[[3]]), about=about)
    shown = lines_of(run("show", path))
    assert shown[-2:] == [r"  query       select\n*", '  of          ["games.parquet"]']


def test_inspect_a_catalogue_without_games(tmp_path: Path) -> None:
    assert lines_of(run("show", write_catalogue(tmp_path / "x.parquet")))[0].endswith("0 games = 0 kept")


@pytest.mark.parametrize("about", [{"read": 3}, {"kept": 1}, {"drops": {"KO": 1}}, {"kept": "x" * 500}])
def test_a_catalogue_with_false_metadata(tmp_path: Path, about: dict[str, object]) -> None:
    path = write_catalogue(tmp_path / "x.parquet", rows(moves=[[3], []], drop=[None, None]), about=about)
    fails(run("show", path), str(path), f"{next(iter(about))} is ", "but the metadata list")


def test_a_catalogue_that_is_damaged(catalogue: Path) -> None:
    catalogue.write_bytes(catalogue.read_bytes()[:-1])
    fails(run("show", catalogue), "is not a catalogue")


def test_show_a_row(catalogue: Path, games: Path) -> None:
    row, record = (lines_of(run("show", path, "--game", 2, "--move", 1)) for path in (catalogue, games))
    assert row == [record[0], f"from {games.name}, {games.name}, game 2", *record[1:]]


@pytest.mark.parametrize(
    ("row", "remark", "last"),
    [
        (3, "a move or setup stone outside the board (move 2)", "after 1 of 2 moves; next: Black off the board"),
        (4, "a move on an occupied point (move 3 at E5)", "after 2 of 4 moves; next: Black E5"),
    ],
)
def test_a_dropped_row_is_shown_up_to_the_illegal_move(
    catalogue: Path, tmp_path: Path, row: int, remark: str, last: str
) -> None:
    shown = lines_of(run("show", catalogue, "--game", row))
    assert (shown[2], shown[-1]) == (f"dropped: {remark}", last)
    assert lines_of(run("show", catalogue, "--game", row, "-o", tmp_path / "x.svg"))[-1] == f"drew {tmp_path / 'x.svg'}"
    fails(run("show", catalogue, "--game", row, "--move", 4 if row == 4 else 2), "is illegal")


def test_a_row_without_a_record(catalogue: Path, games: Path, tmp_path: Path) -> None:
    shown = lines_of(run("show", catalogue, "--game", 5))
    assert len(shown) == 3
    assert shown[-1] == "dropped: a record of another game (GM is not 1)"
    fails(run("show", catalogue, "--game", 5, "-o", tmp_path / "x.svg"), "has no position")
    fails(run("show", catalogue, "--game", 6), "within 1 to 5", "got 6")


def test_every_card_of_a_format_is_listed() -> None:
    """The manifest lies beside data sets of all formats and is none itself."""
    cards = {Path(str(card)).stem for card in asset("cards", "formats").iterdir()}
    assert cards - {"manifest"} == {name.partition("@")[0] for name in (*FORMATS, *OTHER_FORMATS)}

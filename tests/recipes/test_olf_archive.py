"""kifu build olf-archive: which file a game goes to, what is counted, and what an interrupted or second run leaves."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.compute as pc
import pytest

import kifu
from commands import is_error, run, tree
from kgs_archives import BROKEN, archive
from kifu.convert import convert
from kifu.corpus.catalogue import open_catalogue
from kifu.errors import DropReason, OutputError, RecipeError, SourceError
from kifu.io import hash_file
from kifu.point import POINT_MASK, to_sgf
from kifu.recipes import olf_archive, pipeline
from kifu.recipes.olf_archive import CATALOGUE, MANIFEST, ArchiveManifest, file_rating
from kifu.recipes.pipeline import BuildReport
from kifu.recipes.schema import OlfArchiveRecipe, load_recipe
from kifu.records.olf import read_olf
from kifu.records.sgf import as_block
from naive_olf import read_member

RECIPE = load_recipe("olf-archive")
assert isinstance(RECIPE, OlfArchiveRecipe)


def sgf(number: int, root: str, size: int = 9, end: str = "", stones: int = 8) -> bytes:
    """A game of its own in which every point is played once, and none of the third row, where handicap stones are."""
    colours = "WB" if "HA" in root else "BW"
    points = [p for p in range(size * size) if p // size != 2]
    moves = (f";{colours[k % 2]}[{to_sgf(points[(7 * number + 2 * k) % len(points)], size)}]" for k in range(stones))
    return f"(;GM[1]SZ[{size}]PB[b{number}]PW[w]{root}{''.join(moves)}{end})".encode()


PLACES = {
    "RE[B+R]": "9x9/resign/even/00.olf",
    "RE[W+T]BR[1d]WR[1k]": "9x9/time/even/31.olf",
    "RE[W+T]BR[1k]WR[1d]": "9x9/time/even/31.olf",
    "RE[0]BR[9p]WR[9p]": "9x9/score/even/49.olf",
    "RE[B+3]BR[35k]WR[1k]": "9x9/score/even/01.olf",
    "RE[B+4]BR[5k?]": "9x9/score/even/27.olf",
    "RE[B+5]WR[5k]": "9x9/score/even/00.olf",
    "RE[B+6]BR[29k]WR[4d]": "9x9/score/even/35.olf",
    "RE[B+7]BR[30k]WR[28k]": "9x9/score/even/04.olf",
    "RE[B+8]BR[29k]": "9x9/score/even/03.olf",
    "RE[B+9]BR[27k]WR[4d]": "9x9/score/even/05.olf",
    "RE[B+R]HA[3]AB[ac][cc][ec]BR[28k]WR[4d]": "9x9/resign/handicap/32.olf",
    "RE[B+R]HA[3]AB[ac][cc][ec]BR[28k]WR[27k]": "9x9/resign/handicap/02.olf",
    "RE[B+R]HA[2]AB[ac][cc]BR[4d]WR[1d]": "9x9/resign/handicap/35.olf",
}


def place(game: bytes, folder: Path) -> list[str]:
    (folder / "x.sgf").write_bytes(game)
    return [file.file for file in build(folder / "x.sgf", folder / "into").manifest.files]


def build(sources: Path | list[Path], into: Path, **options: Any) -> BuildReport[ArchiveManifest]:
    given = [sources] if isinstance(sources, Path) else sources
    (report,) = pipeline.build(RECIPE, given, into, **({"overwrite": True} | options))
    return report


@pytest.mark.parametrize(("root", "file"), PLACES.items())
def test_where_a_game_goes(tmp_path: Path, root: str, file: str) -> None:
    assert place(sgf(0, root), tmp_path) == [file]


@pytest.mark.parametrize(
    ("size", "end", "folder"),
    [
        (13, "", "13x13/score/even"),
        (19, "", "19x19/score/even"),
        (7, "", "other/score/even"),
        (19, "TB[aa]TW[bb]", "19x19/terry/even"),
    ],
)
def test_boards_and_territory(tmp_path: Path, size: int, end: str, folder: str) -> None:
    assert place(sgf(0, "RE[B+2]", size, end), tmp_path) == [f"{folder}/00.olf"]


def test_a_rectangle_is_another_board(tmp_path: Path) -> None:
    assert place(sgf(0, "RE[B+2]").replace(b"SZ[9]", b"SZ[9:13]"), tmp_path) == ["other/score/even/00.olf"]


def test_the_rating_of_the_weaker_player() -> None:
    black = np.array([10, 10, 10, 0, 2, 4, 5, 2, 2, 3.5, np.nan, 1e9], np.float32)
    white = np.array([9, 11, 9, 9, 30, 30, 30, 0, 3, 9, 3, 1e9], np.float32)
    stones = np.array([0, 1, 2, 0, 0, 9, 9, 4, 9, 0, 0, 0])
    assert file_rating(black, white, stones).tolist() == [9, 10, 10, 0, 30, 21, 5, 2, 2, 9, 0, 49]


# A whole archive

RESULTS = ("B+R", "W+T", "W+3.5", "B+2", "0")
TERMS = ("", "BR[3d]WR[2d]", "BR[15k]WR[13k]HA[2]AB[ac][cc]", "BR[28k]WR[12k]")
GAMES = [
    sgf(k, f"RE[{RESULTS[k % 5]}]KM[0]{TERMS[k // 5 % 4]}", (9, 13, 19, 7)[k % 4], "TB[aa]" if k % 7 == 0 else "")
    for k in range(200)
]
HALF_POINTS = sum(k % 5 == 2 for k in range(200))
ODD = [
    *GAMES[:3:2], GAMES[1],  # once more
    sgf(900, "RE[B+F]"), sgf(901, "RE[Void]"), sgf(902, ""), sgf(903, "RE[W+]"),
    sgf(904, "RE[B+R]AW[ac]"),
    sgf(905, "RE[B+R]", 21),
    sgf(906, "RE[B+R]", stones=5),
    sgf(907, "RE[B+700]"),
    BROKEN["OCCUPIED"], BROKEN["NO_RECORD"],
]  # fmt: skip


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    return [archive(tmp_path / "in", [*GAMES[:120], *ODD]), archive(tmp_path / "in", GAMES[120:], year=2002)]


def lines_of(built: BuildReport[ArchiveManifest]) -> dict[str, list[bytes]]:
    files = {file.file: (built.path / file.file).read_bytes() for file in built.manifest.files}
    return {name: data.splitlines() for name, data in files.items()}


def test_what_is_counted(sources: list[Path], tmp_path: Path) -> None:
    built = build(sources, tmp_path / "into")
    m = built.manifest
    assert m.drops == {
        "DUPLICATE": 2, "FEW_STONES": 1, "FRACTION_SCORE": HALF_POINTS + 1, "HUGE_SCORE": 1, "NO_RECORD": 1,
        "OCCUPIED": 1,
    }  # fmt: skip
    assert m.unsayable == {"BOARD": 1, "RESULT": 4, "SETUP": 1}
    assert (m.read, m.kept) == (len(GAMES) + len(ODD), len(GAMES) - HALF_POINTS)
    assert m.adds_up()
    assert [source["name"] for source in m.sources] == [path.name for path in sources]
    for file in (*m.files, m.catalogue):
        path = built.path / file.file
        assert (file.bytes, file.blake3) == (path.stat().st_size, hash_file(path))
    assert set(tree(built.path)) == {file.file for file in m.files} | {CATALOGUE, MANIFEST}
    assert str(built).startswith(f"{built.path}: 213 games = 160 in {len(m.files)} files, ")
    assert json.loads((built.path / MANIFEST).read_bytes())["kept"] == 160


def test_a_number_of_games(sources: list[Path], tmp_path: Path) -> None:
    (built,) = pipeline.build(load_recipe("olf-archive", ["games=50"]), sources, tmp_path / "into")
    m, whole = built.manifest, lines_of(build(sources, tmp_path / "whole"))
    assert m.adds_up()
    assert m.elsewhere > 0
    assert m.kept + sum(m.unsayable.values()) == 50
    assert all({*lines} <= {*whole[name]} for name, lines in lines_of(built).items())


def test_no_line_is_repeated(tmp_path: Path) -> None:
    twins = [sgf(1, f"RE[B+R]{root}") for root in ("EV[one]BR[3d]", "EV[two]PC[here]OT[5x30]RU[Ing]BR[3 dan]")]
    first = build(archive(tmp_path / "in", [*twins, GAMES[0], *twins, sgf(1, "RE[B+R]DT[1996]BR[3d]")]), tmp_path / "a")
    assert (first.manifest.kept, first.manifest.drops) == (3, {"DUPLICATE": 3})
    assert first.manifest.adds_up()
    lines = lines_of(first)
    assert max(Counter(line for each in lines.values() for line in each).values()) == 1
    again = build([first.path / name for name in lines], tmp_path / "b")
    assert (lines_of(again), again.manifest.drops) == (lines, {})


def test_of_lines_that_differ_in_territory_one_is_kept(tmp_path: Path) -> None:
    ends = ("EV[1]", "TB[ac]EV[2]", "TB[aa]TW[ac]EV[3]")
    others = [sgf(1, "RE[B+2]KM[0]BR[3d]"), sgf(2, "RE[B+2]KM[0]", end="TB[ac]")]
    twins = [sgf(1, "RE[B+2]KM[0]", end=end) for end in ends]
    first = build(archive(tmp_path / "in", [*twins, *others]), tmp_path / "a")
    assert (first.manifest.kept, first.manifest.drops) == (3, {"DUPLICATE": 2})
    lines = lines_of(first)
    assert [(file.file, file.games) for file in first.manifest.files] == [
        ("9x9/terry/even/00.olf", 2),
        ("9x9/score/even/34.olf", 1),
    ]
    assert [len(line.split()) for line in lines["9x9/terry/even/00.olf"]] == [12, 12]
    again = build([first.path / name for name in lines], tmp_path / "b")
    assert (lines_of(again), again.manifest.drops) == (lines, {})


@pytest.mark.parametrize(
    ("record", "text"),
    [
        *((f"{stones};W[ma];B[aa]", "DDttPPttmaAA") for stones in ("AB[dd][pp]", ";B[dd];B[pp]")),
        (";B[dd];W[];B[pp];W[];W[ma]", "DDttPPttma"),
        ("AB[dd][pp];W[];W[ma]", "DDttPPttttma"),
        ("AB[dd][pp]PL[B];B[aa];W[ma]", "DDttPPAAma"),
    ],
)
def test_handicap_stones_are_followed_by_passes(tmp_path: Path, record: str, text: str) -> None:
    (tmp_path / "a.sgf").write_text(f"(;SZ[19]HA[2]RE[W+R]{record})")
    convert(tmp_path / "a.sgf", tmp_path / "a.olf")
    assert (tmp_path / "a.olf").read_text().split()[9:] == ["h-2", text]
    (game,) = kifu.read(tmp_path / "a.olf")
    assert (game.handicap, game.setup.tolist(), game.setup_ply.tolist()) == (2, [60, 300], [0, 0])
    played = text.removeprefix("DDttPPtt").removeprefix("DDttPP")
    assert "".join(to_sgf(move & POINT_MASK, 19) or "tt" for move in game.moves.tolist()) == played.lower()


def test_the_lines_are_those_of_the_catalogue_in_order(sources: list[Path], tmp_path: Path) -> None:
    built = build(sources, tmp_path / "into")
    found = lines_of(built)
    assert {file.file: file.games for file in built.manifest.files} == {
        name: len(lines) for name, lines in found.items()
    }
    for lines in found.values():
        numbers = [int(line.split()[1][1:]) for line in lines]
        assert numbers == sorted(numbers)
    (batch,) = open_catalogue(built.path / CATALOGUE).batches()
    kept = batch.filter(pc.is_null(batch["drop"]))["black"].to_pylist()
    written = Counter(line.split()[1].decode() for lines in found.values() for line in lines)
    assert written == Counter(name for name in kept if int(name[1:]) < 900)


def test_the_same_bytes_for_any_number_of_threads_and_any_chunks(sources: list[Path], tmp_path: Path) -> None:
    build(sources, tmp_path / "one", jobs=1)
    with mock.patch.object(olf_archive, "_CHUNK_BYTES", 100):
        build(sources, tmp_path / "two", jobs=3)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_what_is_there_already_stays(sources: list[Path], tmp_path: Path) -> None:
    first = build(sources, tmp_path / "into")
    times = {path: path.stat().st_mtime_ns for path in first.path.rglob("*")}
    again = build(sources, tmp_path / "into")
    assert (first.fresh, again.fresh, again.manifest) == (True, False, first.manifest)
    assert str(again).endswith(" (was there already)")
    assert {path: path.stat().st_mtime_ns for path in first.path.rglob("*")} == times


@pytest.mark.parametrize(
    "harm", ["file gone", "file cut", "manifest gone", "manifest damaged", "manifest lies", "catalogue gone"]
)  # a manifest that is not as kifu wrote it makes all foreign
def test_what_is_damaged_is_made_anew(sources: list[Path], tmp_path: Path, harm: str) -> None:
    built = build(sources, tmp_path / "into")
    before = tree(built.path)
    what, how = harm.split()
    path = built.path / {"file": built.manifest.files[3].file, "manifest": MANIFEST, "catalogue": CATALOGUE}[what]
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        lie = data.replace(b'"kept":160', b'"kept":161')
        path.write_bytes({"cut": data[:-9], "damaged": data[9:], "lies": lie}[how])
    if what == "manifest":
        with pytest.raises(OutputError, match=r"is not part of this archive|is not an intact output of kifu"):
            build(sources, tmp_path / "into")
        return
    assert build(sources, tmp_path / "into").fresh
    assert tree(built.path) == before


def test_another_archive_takes_its_place(sources: list[Path], tmp_path: Path) -> None:
    build(sources, tmp_path / "into")
    few = build(sources[1], tmp_path / "into")
    build(sources[1], tmp_path / "new")
    assert tree(few.path) == tree(tmp_path / "new")


def test_files_that_nobody_tells_of_are_not_mixed_in(sources: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "into/19x19/score/even/48.olf"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"48\.olf is not part of this archive"):
        build(sources, tmp_path / "into")
    assert other.read_bytes() == b"mine"
    assert not (tmp_path / "into" / MANIFEST).exists()
    (tmp_path / "into/notes.olf").write_bytes(other.read_bytes())
    other.unlink()
    assert build(sources, tmp_path / "into").fresh


def test_a_manifest_that_names_files_elsewhere_removes_none(sources: list[Path], tmp_path: Path) -> None:
    built = build(sources, tmp_path / "into")
    victim = tmp_path / "victim.olf"
    victim.write_bytes(b"mine")
    path = built.path / MANIFEST
    path.write_text(path.read_text().replace(built.manifest.files[0].file, "../victim.olf"))
    with pytest.raises(OutputError, match="is not an intact output of kifu"):
        build(sources, tmp_path / "into")
    assert victim.read_bytes() == b"mine"


def test_a_disk_that_is_full(sources: list[Path], tmp_path: Path) -> None:
    class Full:
        def write(self, _: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None: ...

    with (
        mock.patch.object(olf_archive, "_CHUNK_BYTES", 100),
        mock.patch.object(olf_archive.tempfile, "TemporaryFile", return_value=Full()),
        pytest.raises(OutputError, match=r"cannot write in .*: No space left on device"),
    ):
        build(sources, tmp_path / "into")
    assert list(tree(tmp_path / "into")) == [CATALOGUE]


def test_a_folder_of_records_is_always_read_anew(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.sgf").write_bytes(GAMES[0])
    assert build(tmp_path / "in", tmp_path / "into").fresh
    (tmp_path / "in/a.sgf").write_bytes(GAMES[1])
    assert build(tmp_path / "in", tmp_path / "into").fresh


def test_a_source_that_is_missing_leaves_what_is_there(sources: list[Path], tmp_path: Path) -> None:
    before = tree(build(sources, tmp_path / "into").path)
    with pytest.raises(SourceError):
        build(tmp_path / "missing", tmp_path / "into")
    assert tree(tmp_path / "into") == before


# The recipe and the command


def test_the_recipe() -> None:
    assert (RECIPE.kind, RECIPE.name, RECIPE.clean.name) == ("olf-archive", "olf-archive", "schraudolph")
    changed = load_recipe("olf-archive", ["clean=training", "name=mine"])
    assert isinstance(changed, OlfArchiveRecipe)
    assert (changed.name, changed.clean.duplicates) == ("mine", "games")
    table = load_recipe("olf-archive", ['clean={name = "few", title = "few", min_moves = 20}'])
    assert isinstance(table, OlfArchiveRecipe)
    assert table.clean.min_moves == 20


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "kind=heap",
            "kind must be one of 'examples', 'katago', 'olf-archive', 'tokens', 'training', or left out; got 'heap'",
        ),
        ("clean=none", "unknown set of cleaning rules 'none'; available: legal, schraudolph, training"),
        ("clean=3", "clean must be a table, got 3"),
        ("sets=3", "sets: "),
    ],
)
def test_what_the_recipe_may_not_say(override: str, message: str) -> None:
    with pytest.raises(RecipeError, match="recipe olf-archive: .*" + re.escape(message)):
        load_recipe("olf-archive", [override])


def test_the_command(sources: list[Path], tmp_path: Path) -> None:
    words = ("build", "olf-archive", *sources, "--output", tmp_path / "into")
    is_error(run(*words, "--set", "clean.min_stones=9"), "clean of the recipe must be a table")
    is_error(run(*words, "--sets", "test"), "recipe olf-archive has no option sets")
    done = run(*words)
    assert done.code == 0
    assert done.out.startswith(f"{tmp_path / 'into'}: 213 games = 160 in ")
    assert re.search(r"^olf-archive +OLF files by board", run("list", "recipes").out, re.MULTILINE)
    assert run("list", "recipes", "olf-archive").out.endswith('clean = "schraudolph"\n')


# All of KGS


@pytest.fixture(scope="module")
def kgs(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildReport[ArchiveManifest]]:
    return build(shared / "data/kgs", tmp_path_factory.mktemp("kgs"))


@pytest.mark.slow
def test_every_line_of_kgs_is_read_back(kgs: BuildReport[ArchiveManifest]) -> None:
    m = kgs.manifest
    assert m.adds_up()
    assert m.read == 64_842
    assert m.kept > 60_000
    total = 0
    for file in m.files:
        data = (kgs.path / file.file).read_bytes()
        games = read_olf(as_block([data])).games
        naive = read_member(data)
        assert len(games) == len(naive) == file.games == data.count(b"\n")
        assert not games.drop.any()
        assert all(game.drop == DropReason.KEPT for game in naive)
        assert np.array_equal(games.moves, np.concatenate([np.array(game.moves, np.uint16) for game in naive]))
        assert np.diff(games.setup_offset).tolist() == [len(game.setup) for game in naive]
        assert {right_place(line) for line in data.splitlines()} == {file.file}
        total += len(games)
    assert total == m.kept == sum(1 for _ in open_lines(kgs))


def open_lines(built: BuildReport[ArchiveManifest]) -> Iterator[bytes]:
    for file in built.manifest.files:
        with (built.path / file.file).open("rb") as lines:
            yield from lines


def right_place(line: bytes) -> str:
    fields = line.decode().split()
    board = fields[5].replace(":", "x") if fields[5] in ("9:9", "13:13", "19:19") else "other"
    ending = {"888.8": "time", "999.9": "resign"}.get(fields[7].lstrip("-"), "terry" if len(fields) == 12 else "score")
    stones = int(fields[9][2:])
    black, white = float(fields[2]), float(fields[4])
    weaker, other = (white, black) if stones < 2 and 0 < white < black else (black, white)
    if 2 <= weaker <= 4 and other:
        weaker = max(2, other - (stones if stones > 1 else 0))
    return f"{board}/{ending}/{'handicap' if stones > 1 else 'even'}/{int(weaker):02}.olf"

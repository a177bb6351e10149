"""Openings of matches: each once up to symmetry, all of them, legal, in an order of their own."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from kifu.errors import FormatError, RecipeError
from kifu.go.rules import Rules
from kifu.play.match import Opening, catalogue_openings, corner_openings
from kifu.point import WHITE_BIT, parse_gtp, symmetries, to_gtp

CHINESE = Rules.named("chinese")


def forms(opening: Opening, size: int) -> set[Opening]:
    """The opening as it looks under each symmetry."""
    return {tuple(form[list(opening)].tolist()) for form in symmetries(size, size)}


def naive_corners(size: int, stones: int) -> set[frozenset[Opening]]:
    """All ways to put so many stones into corners of their own, those that are equal up to symmetry as one."""
    near = [2, 3] if size >= 9 else [2]
    lines = {*near, *(size - 1 - line for line in near)}
    points = [y * size + x for y in lines for x in lines]
    ways = itertools.permutations(points, stones)
    corner = {point: (point % size > size // 2, point // size > size // 2) for point in points}
    return {frozenset(forms(way, size)) for way in ways if len({corner[point] for point in way}) == stones}


@pytest.mark.parametrize("size", [7, 8, 9, 19, 25])
def test_corner_openings_are_complete(size: int) -> None:
    openings = corner_openings(size, seed=1)
    pairs = [opening for opening in openings if len(opening) == 2]
    assert openings[: len(pairs)] == pairs  # the short ones come first
    for stones in (2, 4):
        mine = [frozenset(forms(opening, size)) for opening in openings if len(opening) == stones]
        assert len(set(mine)) == len(mine)
        assert set(mine) == naive_corners(size, stones)


def test_the_openings_of_small_boards() -> None:
    names = {size: [[to_gtp(p, size) for p in line] for line in corner_openings(size, 1)] for size in range(1, 7)}
    assert names[1] == names[2] == [[]]
    assert names[3] == [["B2"]]
    assert sorted(names[4]) == [["C3"]]
    assert sorted(names[5]) == [["C3"], ["C4"], ["D4"]]
    assert len(names[6]) == 3


def test_black_begins_in_the_upper_right() -> None:
    firsts = {to_gtp(opening[0], 19) for opening in corner_openings(19, 1)}
    assert firsts == {"Q16", "Q17", "R17"}  # R16 is Q17, mirrored


def test_the_seed_determines_the_order() -> None:
    first, second = corner_openings(19, 1), corner_openings(19, 2)
    assert first != second
    assert sorted(first) == sorted(second)
    assert corner_openings(19, 1) == first


def moves(words: str, colours: str | None = None, size: int = 19) -> list[int]:
    """Moves as catalogues have them, Black's and White's in turn if colours ("bwb") do not say else."""
    points = [parse_gtp(word, size) for word in words.split()]
    return [p | (WHITE_BIT if c == "w" else 0) for p, c in zip(points, colours or itertools.cycle("bw"))]


def test_openings_of_a_catalogue(tmp_path: Path) -> None:
    games = [
        moves("D4 Q16 C16 Q4"),
        moves("Q16 D4 R4 D16 C3"),  # the same, turned
        moves("Q17 D4 Q3 D16 C3"),
        moves("Q16 D4 pass D16"),
        moves("Q16 D4 R4"),  # too short
        moves("Q16 D4 R4 D17", "bbww"),
        moves("Q16 D4 D4 D17"),  # illegal
        moves("G7 D4 D7 G4", size=9),
        moves("D16 Q4 D17 Q3"),  # has a setup stone
        moves("D16 Q4 C17 R3"),  # dropped
    ]
    sizes = [9 if k == 7 else 19 for k in range(len(games))]
    setup = [[5] if k == 8 else [] for k in range(len(games))]
    drops = ["unreadable" if k == 9 else None for k in range(len(games))]
    for k in range(len(games)):
        if drops[k]:
            games[k] = []
    table = rows(
        moves=games, width=sizes, height=sizes, setup=setup, setup_ply=[[0] * len(s) for s in setup],
        root_setup=[len(s) for s in setup], drop=drops,
    )  # fmt: skip
    path = write_catalogue(tmp_path / "a.parquet", table.slice(0, 3), table.slice(3))
    found = catalogue_openings(path, 19, 4, CHINESE, seed=1, count=10)
    expected = [forms(tuple(np.array(games[k][:4]) & 0x3FFF), 19) for k in (0, 2)]
    assert len(found) == 2
    assert {frozenset(forms(each, 19)) for each in found} == set(map(frozenset, expected))
    assert catalogue_openings(path, 19, 4, CHINESE, seed=1, count=1) == found[:1]
    assert {tuple(catalogue_openings(path, 19, 4, CHINESE, seed=k, count=1)) for k in range(20)} == {
        (found[0],),
        (found[1],),
    }
    assert len(catalogue_openings(path, 9, 4, CHINESE, seed=1, count=10)) == 1
    with pytest.raises(
        RecipeError, match=r"a\.parquet has no game on 13 x 13 without setup stones that begins with 4 legal moves"
    ):
        catalogue_openings(path, 13, 4, CHINESE, seed=1, count=10)


def test_invalid_catalogues(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"a\.parquet is not a catalogue"):
        catalogue_openings(tmp_path / "a.parquet", 19, 4, CHINESE, seed=1, count=10)

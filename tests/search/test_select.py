"""Choosing games by SQL and by player."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from kifu.corpus.update import append
from kifu.errors import RecipeError
from kifu.search.searcher import Searcher
from partition_sources import make_sources, rules

NAMES = ["Shusaku", "Gennan", None, "SHUSAKU", "gennan inseki", "O'Meien"]
OTHERS = ["Gennan", "shusaku", "Shusaku", None, "Shuwa", "柯洁"]


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    games = rows(
        black=NAMES, white=OTHERS, year=[1846, 1846, None, 1847, 1848, 2017], black_rating=[49.0, 45, 30, None, 31, 49]
    )
    return Searcher(write_catalogue(tmp_path_factory.mktemp("select") / "games.parquet", games))


def chosen(searcher: Searcher, **options: str) -> list[int]:
    mask = searcher.select(**options)
    assert mask is not None
    assert (mask.dtype, mask.shape) == (np.bool_, (searcher.catalogue.rows,))
    return [*map(int, np.flatnonzero(mask))]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("year >= 1847 -- unknown years do not count", [3, 4, 5]),
        ("black_rating > 40 and year < 1900", [0, 1]),
        ("black in (select white from games)", [0, 1]),
        ("white is null or black = 'O''Meien'", [3, 5]),
        ("1 = 0", []),
    ],
)
def test_conditions_are_sql(searcher: Searcher, where: str, expected: list[int]) -> None:
    assert chosen(searcher, where=where) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "the condition must be an SQL expression, got an empty text"),
        ("blak = 'x'", r".*\"blak\" not found.*black.*"),
        ("true) limit (5", ".*syntax error.*"),
        ("true) union all select (1", ".*syntax error.*"),
        ("1; drop table games", ".*syntax error.*"),
        ("row_number() over () < 3", ".*window functions.*"),
        ("count(*) > 3", ".*aggregates.*"),
        ("black", ".*Could not convert.*"),
        ("exists (from read_csv('x'))", r"the query must not call read_csv\(\).*"),
    ],
)
def test_other_conditions_are_rejected_in_one_line(searcher: Searcher, where: str, message: str) -> None:
    with pytest.raises(RecipeError, match=f"^{message}$"):
        searcher.select(where)


def test_players_are_found_in_either_colour_ignoring_case(searcher: Searcher) -> None:
    assert chosen(searcher, player=" shusaku ") == [0, 1, 2, 3]
    assert chosen(searcher, player="Shusaku", colour="white") == [1, 2]
    assert chosen(searcher, player="柯洁") == [5]
    assert chosen(searcher, player="Shusaku", where="year = 1846") == [0, 1]
    assert chosen(searcher, player="Dosaku") == []


def test_without_a_question_all_games_are_meant(searcher: Searcher) -> None:
    assert searcher.select() is None


@pytest.mark.parametrize("options", [{"colour": "black"}, {"colour": "red", "player": "Shusaku"}])
def test_a_colour_needs_a_player(searcher: Searcher, options: dict[str, str]) -> None:
    with pytest.raises(RecipeError, match=r"^colour must be black or white and requires a player, got '\w+'$"):
        searcher.select(**options)


def test_similar_names_are_suggested(searcher: Searcher) -> None:
    assert [name.lower() for name in searcher.similar_players("Shusako")] == ["shusaku", "shuwa"]
    assert set(searcher.similar_players("inseki")) == {"gennan inseki"}
    assert searcher.similar_players("x") == []


@pytest.mark.slow
def test_rows_of_folders_are_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    folder = tmp_path / "games"
    for source in make_sources(tmp_path):
        append(source, folder, clean=rules("keep"))
    searcher = Searcher(folder)
    assert len(searcher.catalogue.partitions) > 4
    years = [year for batch in searcher.catalogue.batches(["year"]) for year in batch.column(0).to_pylist()]
    expected = [row for row, year in enumerate(years) if year is not None and year >= 2004]
    assert chosen(searcher, where="year >= 2004") == expected
    assert chosen(searcher, where="id in (select id from kept where year >= 2004)") != []

"""The searcher: hits by a slow twin, hits of whole boards from an index alone, and the choice of games."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogues import rows, write_catalogue
from drawn_games import OneGame
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.update import append
from kifu.errors import FormatError, OutputError, RecipeError
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.search import store
from kifu.search.build import build_index
from kifu.search.index import index_path, open_index
from kifu.search.match import find_board, pattern_position
from kifu.search.notation import format_pattern
from kifu.search.pattern import Pattern, PatternMove
from kifu.search.position import Position
from kifu.search.results import HITS
from kifu.search.searcher import Searcher
from kifu.search.store import GameStore
from naive_search import find, stones_before
from partition_sources import make_sources, rules
from searchable import catalogues, write_games

COLUMNS = ("row", "ply", "symmetry", "exchanged", "x", "y", "next_ply", "next_x", "next_y", "next_colour")
EMPTY = Position(19, 19, np.zeros(361, np.uint8))
PAIR = Pattern(2, 1, (2, 4))


def hit_rows(hits):
    """The hits as tuples, with -1 and 0 in place of nulls like the slow twin."""
    return [
        tuple(({"next_ply": -1}.get(name, 0) if row[name] is None else row[name]) for name in COLUMNS)
        for row in hits.table.to_pylist()
    ]


@st.composite
def questions(draw):
    """(games, columns, pattern, number of indexed plies), often with a pattern of the whole board."""
    games, columns = draw(catalogues())
    game = draw(st.sampled_from(games))
    boards = stones_before(game)
    rng = draw(st.randoms(use_true_random=False))
    board = np.array(rng.choice(boards), np.uint8)
    position = Position(game.width, game.height, board.ravel())
    last_ply = rng.choice([None, None, rng.randint(0, len(boards))])
    next_colour = rng.choice([None, None, BLACK, WHITE])
    whole = Pattern(
        game.width, game.height, position.cells(), "board",
        both_colours=rng.random() < 0.5, next_colour=next_colour, last_ply=last_ply,
    )  # fmt: skip
    width, height = rng.randint(1, game.width), rng.randint(1, game.height)
    cells = tuple(1 << board[y, x] | rng.choice([0, 0, 7]) for y in range(height) for x in range(width))
    part = Pattern(width, height, cells, rng.choice(["corner", "anywhere"]), next_colour=next_colour)
    return games, columns, rng.choice([whole, whole, part]), rng.choice([1, 2, 5, 60])


@pytest.mark.slow
@given(questions(), st.integers(1, 3))
def test_hits_are_those_of_the_slow_twin(question, jobs) -> None:
    games, columns, pattern, plies = question
    kept = [row for row, drop in enumerate(columns["drop"]) if drop is None]
    expected = [(row, *hit) for row in kept for hit in find(games[row], pattern)]
    with tempfile.TemporaryDirectory() as folder:
        path = write_games(Path(folder, "games.parquet"), games, columns)
        plain = Searcher(path).find(pattern, jobs=jobs)
        build_index(path, plies=plies, jobs=1)
        searcher = Searcher(path)
        first, second = searcher.find(pattern, jobs=jobs), searcher.find(pattern, jobs=jobs)
        even = searcher.find(pattern, np.arange(len(games)) % 2 == 0)
    assert plain.table.schema == HITS
    assert hit_rows(plain) == expected
    assert hit_rows(first) == hit_rows(second) == expected
    assert plain.to_dict() == first.to_dict() == second.to_dict()
    assert hit_rows(even) == [hit for hit in expected if hit[0] % 2 == 0]
    assert (len(plain), plain.games) == (len(expected), len({row for row, *_ in expected}))
    assert plain.rows().tolist() == sorted({row for row, *_ in expected})
    assert sum(each.count for each in plain.continuations()) == len(expected)
    assert_statistics(games, columns, plain, expected)


def assert_statistics(games, columns, hits, expected) -> None:
    """Compare wins by the colours on the board: of each hit with a continuation, its player's result."""
    results = {}
    for row, ply, *_, next_ply, x, y, colour in expected:
        if next_ply >= 0:
            player = "white" if games[row].moves[next_ply] & WHITE_BIT else "black"
            key = x, y, ("black", "white")[colour - 1]
            wins, losses, tenuki = results.get(key, (0, 0, 0))
            won = columns["winner"][row] == player
            lost = not won and columns["winner"][row] in ("black", "white")
            results[key] = wins + won, losses + lost, tenuki + (next_ply - ply >= 2)
    listed = {(c.x, c.y, c.colour): (c.wins, c.losses, c.tenuki) for c in hits.continuations() if c.colour}
    assert listed == results


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("folder")
    sources = make_sources(top)
    append(sources[0], top / "games", clean=rules("keep"))
    build_index(top / "games", plies=10)
    append(sources[1:], top / "games", clean=rules("keep"))
    return top / "games"


@pytest.fixture(scope="module")
def single(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalogue(tmp_path_factory.mktemp("single") / "games.parquet", *open_catalogue(folder).batches())


def values(result):
    return {name: value for name, value in result.to_dict().items() if name != "catalogue"}


def test_folders_have_the_hits_of_single_files(folder: Path, single: Path) -> None:
    whole, partitioned = Searcher(single), Searcher(folder)
    assert {index_path(path).exists() for path in partitioned.catalogue.partitions} == {True, False}
    games = partitioned.select("year >= 2004 or black = 'Black'")
    position = whole.position(0, 5)
    for chosen in (None, games):
        for pattern in (PAIR, EMPTY.to_pattern(), position.to_pattern()):
            one, many = whole.find(pattern, chosen), partitioned.find(pattern, chosen, jobs=2)
            assert one.table.equals(many.table)
            assert len(one) > 0 or chosen is games
            assert values(one) == values(many)
        assert values(whole.explore(position, chosen)) == values(partitioned.explore(position, chosen))


def test_dropped_games_are_never_found(folder: Path) -> None:
    searcher = Searcher(folder)
    dropped = [row for batch in searcher.catalogue.batches(["drop"]) for row in batch.column(0).is_valid().to_pylist()]
    assert any(dropped)
    anything = searcher.find(Pattern(19, 19, (1,) * 361, "board"))
    assert anything.rows().tolist() == [row for row, drop in enumerate(dropped) if not drop]
    assert searcher.find(PAIR, np.array(dropped)).games == 0
    assert searcher.explore(EMPTY, np.array(dropped)).continuations == []


def test_few_games_in_memory_make_no_difference(single: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = values(Searcher(single).find(PAIR))
    monkeypatch.setattr(store, "MAX_CACHED", 0)
    monkeypatch.setattr(store, "_BATCH", 3)
    searcher = Searcher(single)
    assert [values(searcher.find(PAIR, jobs=2)) for _ in range(2)] == [expected, expected]


def test_many_hits_are_spilled(single: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hits = Searcher(single).find(PAIR)
    monkeypatch.setattr("kifu.search.results._MAX_BYTES", 100)
    monkeypatch.setattr(store, "_BATCH", 3)
    spilled = Searcher(single).find(PAIR)
    assert spilled.table.num_rows > 10
    assert spilled.table.column(0).num_chunks > 3
    assert spilled.table.equals(hits.table)
    assert values(spilled) == values(hits)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(OutputError, match=r"^cannot spill hits to .*none: .*No such file"):
        Searcher(single).find(PAIR)


def test_hits_are_written_with_the_question(single: Path, tmp_path: Path) -> None:
    hits = Searcher(single).find(PAIR)
    hits.write(tmp_path / "hits.parquet")
    file = pq.ParquetFile(tmp_path / "hits.parquet")
    assert file.read().cast(HITS).equals(hits.table)
    assert json.loads(file.metadata.metadata[b"kifu.search"]) == format_pattern(PAIR)
    assert open_catalogue(single).digest() in file.metadata.metadata[b"kifu.of"].decode()


def test_games_with_hits_are_a_catalogue(folder: Path, tmp_path: Path) -> None:
    searcher = Searcher(folder)
    hits = searcher.find(PAIR)
    hits.write_games(tmp_path / "found.parquet")
    found = open_catalogue(tmp_path / "found.parquet")
    ids = [value for batch in searcher.catalogue.batches(["id"]) for value in batch.column(0).to_pylist()]
    assert [value for batch in found.batches(["id"]) for value in batch.column(0).to_pylist()] == [
        ids[row] for row in hits.rows()
    ]
    assert 0 < found.rows < len(ids)
    assert found.metadata["search"] == format_pattern(PAIR)
    assert [of["blake3"] for of in found.metadata["of"]] == [searcher.catalogue.digest()]
    assert Searcher(tmp_path / "found.parquet").find(PAIR).games == found.rows


def test_nothing_is_found_in_an_empty_catalogue(tmp_path: Path) -> None:
    searcher = Searcher(write_games(tmp_path / "games.parquet", [], {"drop": []}))
    hits = searcher.find(PAIR)
    assert (len(hits), hits.games, hits.continuations(), hits.by_year(), hits.rows().tolist()) == (0, 0, [], [], [])
    found = searcher.explore(EMPTY)
    assert (found.games, found.continuations) == (0, [])


def test_games_are_described_in_the_order_of_the_question(tmp_path: Path) -> None:
    columns = {
        "black": ["Shusaku", None], "white": ["Gennan", "Shuwa"], "black_rank": ["4d", None], "year": [1846, None],
        "date_text": ["1846-09-11", None], "result_text": ["B+2", None], "drop": [None, "ko"],
    }  # fmt: skip
    games = [OneGame(9, 9, [40, 20 | WHITE_BIT]), OneGame(9, 9, [])]
    searcher = Searcher(write_games(tmp_path / "games.parquet", games, columns))
    described = searcher.games([1, 0, 1])
    assert [(each.row, each.black, each.white, each.moves) for each in described] == [
        (1, None, "Shuwa", 0), (0, "Shusaku", "Gennan", 2), (1, None, "Shuwa", 0),
    ]  # fmt: skip
    assert described[1].to_dict() == {
        "row": 0, "black": "Shusaku", "black_rank": "4d", "white": "Gennan", "white_rank": None, "date": "1846-09-11",
        "year": 1846, "event": None, "result": "B+2", "moves": 2,
    }  # fmt: skip
    assert np.flatnonzero(searcher.position(0, 1).stones).tolist() == [40]


def test_bad_requests_are_rejected_in_one_line(single: Path) -> None:
    searcher = Searcher(single)
    rows = searcher.catalogue.rows
    with pytest.raises(RecipeError, match=rf"^the catalogue has rows 0 to {rows - 1}, got {rows}$"):
        searcher.games([0, rows])
    with pytest.raises(RecipeError, match=r"^the catalogue has rows 0 to \d+, got -1$"):
        searcher.position(-1, 0)
    with pytest.raises(RecipeError, match=r"^row 0: ply must be within 0 to 60, got 61$"):
        searcher.position(0, 61)
    with pytest.raises(RecipeError, match=r"^at most 1,000 games can be described, got 1,001$"):
        searcher.games([0] * 1001)
    with pytest.raises(RecipeError, match=rf"^games must be bool \({rows},\), got bool \(1,\)$"):
        searcher.find(PAIR, np.ones(1, np.bool_))
    with pytest.raises(RecipeError, match=r"^jobs must be >= 1, got 0$"):
        searcher.find(PAIR, jobs=0)


def test_a_damaged_index_is_reported_unless_it_is_not_used(single: Path, tmp_path: Path) -> None:
    path = tmp_path / "games.parquet"
    path.write_bytes(single.read_bytes())
    index_path(path).write_bytes(b"junk")
    with pytest.raises(FormatError, match=r"is not a search index$"):
        Searcher(path)
    assert Searcher(path, use_index=False).find(PAIR).games > 0


STONE = Pattern(3, 3, (2, 1, 1, 1, 1, 1, 1, 1, 1), "board")
W = WHITE_BIT
GAMES = [
    OneGame(3, 3, [2, 4 | W]),  # another corner
    OneGame(3, 3, [9, 8 | W, 4]),  # the other colour
    OneGame(3, 3, [6, 9 | W, 4]),  # a pass, so that the continuation comes later
    OneGame(3, 3, [4]),
    OneGame(3, 3, [0]),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    games = write_games(tmp_path / "games.parquet", GAMES, {"drop": [None] * len(GAMES)})
    build_index(games, plies=2)
    return games


def test_games_that_an_index_does_not_decide_are_named(path: Path) -> None:
    position = pattern_position(STONE)
    assert position is not None
    hits, unsure = find_board(open_index(path), STONE, position)
    columns = [column.tolist() for column in (hits.game, hits.ply, hits.exchanged, hits.next_ply, hits.board_colour)]
    assert [*zip(*columns)] == [(0, 1, False, 1, 2), (4, 1, False, -1, 0)]
    assert unsure.tolist() == [False, True, True, False, False]  # after two plies, games 1 and 2 have one stone


def test_other_games_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(store: GameStore, group: Any) -> Any:
        raise AssertionError("games are read")

    chosen = Searcher(path).select("entry in (0, 4)")
    monkeypatch.setattr(GameStore, "batches", reading)
    hits = Searcher(path).find(STONE, chosen)
    assert hits.rows().tolist() == [0, 4]
    with pytest.raises(AssertionError, match="games are read"):
        Searcher(path).find(STONE)


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern(3, 3, (2, 1, 1, 1, 1, 1, 1, 1, 7), "board"),
        Pattern(3, 3, STONE.cells, "corner"),
        Pattern(3, 3, STONE.cells, "board", moves=(PatternMove(1, 1, BLACK),)),
        Pattern(3, 3, STONE.cells, "board", consecutive=True),
    ],
)
def test_other_patterns_are_not_positions(pattern: Pattern) -> None:
    assert pattern_position(pattern) is None


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

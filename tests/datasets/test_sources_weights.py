"""Games that are selected and weighed by SQL expressions over the columns of catalogues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kifu
import naive_order
from kgs_archives import archive, records
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.update import append
from kifu.errors import RecipeError, SourceError
from kifu.recipes.schema import load_recipe, load_training
from loader_games import kept_games, load, make, naive_games, row_ids

WHERE = "black_rating > 30 and coalesce(winner, 'white') <> 'draw'"
WEIGHT = "case when winner = 'black' then 0.5 when winner = 'white' then 0.25 end"


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"))


def table(path: Path) -> dict[int, dict[str, Any]]:
    names = ("id", "black_rating", "winner")
    rows = [row for batch in open_catalogue(path).batches(names) for row in batch.to_pylist()]
    return {row["id"]: row for row in rows}


def naive_where(row: dict[str, Any]) -> bool:
    return row["black_rating"] is not None and row["black_rating"] > 30 and row["winner"] != "draw"


def naive_weight(row: dict[str, Any]) -> float:
    return {"black": 0.5, "white": 0.25}.get(row["winner"], 0.0)


def naive_rows(path: Path, weight: Callable[[dict[str, Any]], float], **options: Any) -> list[tuple[int, int]]:
    """Return (id, ply) of each row of an epoch from the naive twin; games of weight 0 do not exist there."""
    rows = table(path)
    weighed = {key: game for key, game in kept_games(path).items() if weight(rows[key]) > 0}
    naive = [
        game._replace(weights=(weight(rows[key]),) * 2) for key, game in zip(weighed, naive_games(weighed), strict=True)
    ]
    ids = list(weighed)
    return [(ids[g], t) for g, t, _ in naive_order.epoch_order(naive, **options)]


@pytest.mark.parametrize(
    ("rules", "weight"),
    [
        ({"where": WHERE}, naive_where),
        ({"weight": WEIGHT}, naive_weight),
        ({"where": WHERE, "weight": WEIGHT}, lambda row: naive_where(row) * naive_weight(row)),
        ({"weight": "winner = 'black'"}, lambda row: float(row["winner"] == "black")),
    ],
)
@pytest.mark.parametrize("epoch", [0, 3])
def test_selection_matches_the_naive_twin(
    games: Path, rules: dict[str, str], weight: Callable[[dict[str, Any]], float], epoch: int
) -> None:
    found = row_ids(load(games, "own", seed=4, epoch=epoch, passes=True, **rules))
    assert found == naive_rows(games, weight, seed=4, epoch=epoch, passes=True)
    assert 0 < len(found) < sum(len(game.moves) for game in kept_games(games).values())


def test_weights_multiply(games: Path) -> None:
    """Half of what 0.5 by ply and 1 by rank keep; draws depend on the product only."""
    both = load(games, "own", weight="0.5", ply_weights={0: 0.5}, rank_weights={"30k": 1, "?": 1})
    assert row_ids(both) == row_ids(load(games, "own", weight="0.25"))


@pytest.mark.slow
def test_single_and_partitioned_catalogues_and_archives_give_the_same_games(tmp_path: Path) -> None:
    source = archive(tmp_path, [text.replace(b"SZ[19]", b"SZ[19]PB[%d]" % k) for k, text in enumerate(records(20))])
    single, folder = tmp_path / "games.parquet", tmp_path / "folder"
    kifu.ingest(source, single)
    append(source, folder)
    rules = {"where": "black::INT % 3 > 0", "weight": "(black::INT % 4) / 4"}
    found = [row_ids(load(path, "own", **rules)) for path in (source, single, folder)]
    assert found[0] == found[1]
    assert len(found[0]) > 100
    assert {key for key, _ in found[2]} == {key for key, _ in found[0]}
    both = Counter(key for key, _ in row_ids(load([single, folder], "own", where=rules["where"])))
    assert both == {
        key: 2 * n for key, n in Counter(k for k, _ in row_ids(load(single, "own", where=rules["where"]))).items()
    }


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"where": "blak_rating > 5"}, r'where: .*"blak_rating" not found.*"black_rating".*'),
        ({"where": "black_rating"}, "where: must be BOOLEAN, got FLOAT: black_rating"),
        ({"where": " "}, "where: must be an SQL expression, got an empty text"),
        ({"where": "true) union all select (1"}, "where: .*syntax error.*"),
        ({"where": "exists (from read_csv('x'))"}, r"where: the query must not call read_csv\(\).*"),
        ({"where": "date < today()"}, "where: must not call today, whose result varies"),
        ({"where": "date < current_date"}, "where: must not call current_date, whose result varies"),
        ({"weight": "black"}, "weight: must be a number, got VARCHAR: black"),
        ({"weight": "0.5, 0.5"}, r"weight: must be a number, got TUPLE\(.*\): 0.5, 0.5"),
        ({"weight": "1), (2"}, r"weight: must be one SQL expression, got 1\), \(2"),
        ({"weight": "random()"}, "weight: must not call random, whose result varies"),
        ({"weight": "count(*)"}, "weight: .*aggregates.*"),
    ],
)
def test_invalid_expressions_are_rejected_in_one_line(rules: dict[str, str], message: str) -> None:
    with pytest.raises(RecipeError, match=f"^{message}$"):
        kifu.PositionFilter(**rules)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("black_rating", r"weight must be within 0 to 1, got 34\.0 for game 1 of .*games\.parquet"),
        ("-1", r"weight must be within 0 to 1, got -1\.0 for game 1 of .*"),
        ("'nan'::FLOAT", r"weight must be within 0 to 1, got nan for game 1 of .*"),
        ("ending::INT", ".*Could not convert.*"),
    ],
)
def test_invalid_weights_are_rejected_in_one_line(games: Path, weight: str, message: str) -> None:
    with pytest.raises(RecipeError, match=f"^{message}$"):
        load(games, "own", weight=weight)


def test_weights_of_dropped_and_unselected_games_do_not_matter(games: Path) -> None:
    weight = 'case when "drop" is not null or winner is null then 7 else 1 end'
    assert row_ids(load(games, "own", where="winner is not null", weight=weight))
    with pytest.raises(RecipeError, match=r"^weight must be within 0 to 1, got 7\.0"):
        load(games, "own", weight=weight)


def test_no_selected_game_is_an_error(games: Path) -> None:
    with pytest.raises(SourceError, match=r"no game on a 19 x 19 board, selected by where and weight, in .*games"):
        load(games, "own", where="year = 1234")


def test_states_of_other_rules_are_refused(games: Path) -> None:
    plain, rules = load(games, "own"), [{"where": WHERE}, {"weight": WEIGHT}, {"where": "true"}, {"min_ply": 0}]
    loaders = [load(games, "own", **each) for each in rules]
    for k, one in enumerate(loaders[:3]):
        one.load_state_dict(one.state_dict())
        for other in (*loaders[:k], *loaders[k + 1 :], plain, load(games, "own", min_ply=3)):
            with pytest.raises(RecipeError, match="the state is of another loader"):
                one.load_state_dict(other.state_dict())
            with pytest.raises(RecipeError, match="the state is of another loader"):
                other.load_state_dict(one.state_dict())


def test_states_of_other_weights_under_the_same_expression_are_refused(games: Path, tmp_path: Path) -> None:
    """Ids of games do not depend on the results of cleaning rules, such as their number in another catalogue."""
    other = tmp_path / "copy.parquet"
    other.write_bytes(games.read_bytes())
    one, two = (
        load(path, "own", weight=f"case when catalogue = '{games}' then 1 else 0.5 end") for path in (games, other)
    )
    with pytest.raises(RecipeError, match="the state is of another loader: source"):
        two.load_state_dict(one.state_dict())


def test_recipes_take_expressions(games: Path, tmp_path: Path) -> None:
    recipe = load_training("small", [f'positions.where="{WHERE}"', "positions.weight=0.5 + 0.25"])
    assert (recipe.positions.where, recipe.positions.weight) == (WHERE, "0.5 + 0.25")
    assert recipe.to_dict()["positions"]["where"] == WHERE
    with pytest.raises(RecipeError, match=r"positions.*: where: must be BOOLEAN, got FLOAT"):
        load_training("small", ["positions.where=black_rating"])
    with pytest.raises(RecipeError, match="where is supported by training recipes only"):
        load_recipe("alphago48", ["positions.where=1 = 1"])

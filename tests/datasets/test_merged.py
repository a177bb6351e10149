"""Merged openings against a twin in plain Python, and their laws."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kifu
import naive_order
from catalogues import rows, write_catalogue
from kifu.corpus.catalogue import open_catalogue
from kifu.datasets.examples import Batch
from kifu.errors import RecipeError
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.recipes.schema import load_recipe, load_training
from loader_games import load, one_batch
from naive import NaiveBoard

LABELS = ("move", "policy", "count", "to_play")
SIZES = {"5x5": [(5, 5)], "4x3": [(4, 3)], "4x4 with smaller boards": [(4, 4), (4, 3), (3, 4), (3, 3)]}


class Game(NamedTuple):
    width: int
    height: int
    setup: list[int]
    moves: list[int]


def random_game(rng: random.Random, width: int, height: int) -> Game:
    """A game with setup, passes, captures and ko, shown under one of the symmetries that keep the size."""
    board, moves = NaiveBoard(width, height), []
    setup = {1: BLACK, width * height - 1: BLACK} if rng.random() < 0.2 else {}
    board.set_up({(p % width, p // width): colour for p, colour in setup.items()})
    colour = WHITE if setup or rng.random() < 0.1 else BLACK
    for _ in range(rng.randint(1, 24)):
        legal = [point for point in board.points() if not board.why_not(point, colour)]
        point = rng.choice(sorted(legal, key=lambda at: rng.random() * (1 + at[0] + at[1]))[:3] or [None])
        point = None if rng.random() < 0.05 else point
        board.play(point, colour)
        p = width * height if point is None else point[1] * width + point[0]
        moves.append(p | (WHITE_BIT if colour == WHITE else 0))
        colour = 3 - colour
    table = symmetries(width, height)[rng.randrange(8 if width == height else 4)].tolist()
    turned = [table[word & POINT_MASK] | word & WHITE_BIT for word in moves]
    return Game(width, height, [table[p] for p in setup], turned)


def write(folder: Path, sizes: list[tuple[int, int]], count: int = 150) -> tuple[Path, list[Game]]:
    rng = random.Random(f"{sizes}")
    games = [random_game(rng, *rng.choice(sizes)) for _ in range(count)]
    ratings = [rng.choice([20.0, 30.0, None]) for _ in games]
    batch = rows(
        width=[game.width for game in games], height=[game.height for game in games],
        setup=[game.setup for game in games], setup_ply=[[0] * len(game.setup) for game in games],
        root_setup=[len(game.setup) for game in games], moves=[game.moves for game in games],
        black_rating=ratings, white_rating=ratings[::-1],
    )  # fmt: skip
    return write_catalogue(folder / "games.parquet", batch), games


def situations(game: Game, passes: bool) -> list[tuple[int, int, Any, list[int]]]:
    """Return ply, move, canonical position and the symmetries that lead to it, for each position of a game."""
    width, height = game.width, game.height
    board, found = NaiveBoard(width, height), []
    board.set_up({(p % width, p // width): BLACK for p in game.setup})
    tables = symmetries(width, height).tolist()
    for t, word in enumerate(game.moves):
        move, colour = word & POINT_MASK, WHITE if word & WHITE_BIT else BLACK
        forms = []
        for k, table in enumerate(tables):
            stones = sorted((table[y * width + x], c) for (x, y), c in board.stones.items())
            ko = -1
            if board.ko_point is not None and board.ko_player == colour:
                ko = table[board.ko_point[1] * width + board.ko_point[0]]
            forms.append(((height, width) if k & 4 else (width, height), stones, colour, ko))
        lowest = min(forms)
        if passes or move != width * height:
            canonical = (width, height, str(lowest))
            found.append((t, move, canonical, [k for k, form in enumerate(forms) if form == lowest]))
        board.play(None if move == width * height else (move % width, move // width), colour)
    return found


class Merged(NamedTuple):
    """A position of the twin: what it stands for, and the shares of the moves of its game's board."""

    count: float
    shares: dict[int, float]


def naive_merge(
    games: list[Game], plies: int, passes: bool, weight: Any = lambda g, t: 1.0
) -> dict[Any, Merged | None]:
    """Return by (game, ply) what the position stands for; None if another one represents it."""
    groups = defaultdict(list)
    for g, game in enumerate(games):
        for t, move, canonical, ways in situations(game, passes):
            if weight(g, t) > 0:
                groups[canonical if t < plies else (g, t)].append((g, t, move, ways))
    found: dict[Any, Merged | None] = {}
    for members in groups.values():
        g, t, move, ways = members[0]
        if len(members) == 1:
            found[g, t] = Merged(1, {move: 1})
            continue
        table = symmetries(games[g].width, games[g].height)[ways[0]].tolist()
        total: dict[int, float] = defaultdict(float)
        for h, u, other, many in members:
            images = symmetries(games[h].width, games[h].height)
            for k in many:
                total[table.index(int(images[k, other]))] += weight(h, u) / len(many)
        found |= {(h, u): None for h, u, *_ in members}
        count = sum(weight(h, u) for h, u, *_ in members)
        found[g, t] = Merged(count, {p: share / count for p, share in total.items()})
    return found


def check(
    batch: Batch, games: list[Game], width: int, expected: dict[Any, Merged | None], turns: dict[Any, int]
) -> None:
    """Assert that the labels of merged positions are those of the twin, under the symmetry of each game."""
    for row, (g, t) in enumerate(zip(batch.game.tolist(), batch.ply.tolist())):
        merged, game = expected[g, t], games[g]
        assert merged is not None
        assert batch.labels["count"][row] == pytest.approx(merged.count)
        table = symmetries(game.width, game.height)[turns.get((g, t), 0)].tolist()
        across = game.height if turns.get((g, t), 0) & 4 else game.width
        policy = np.zeros(batch.labels["policy"].shape[1])
        for p, share in merged.shares.items():
            y, x = divmod(table[p], across)
            policy[-1 if p == game.width * game.height else y * width + x] = share
        assert np.allclose(batch.labels["policy"][row], policy, atol=1e-6)
        assert batch.labels["policy"][row].sum() == pytest.approx(1, abs=1e-5)
        assert batch.labels["policy"][row, batch.labels["move"][row]] > 0


@pytest.mark.slow
@pytest.mark.nojit
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("plies", [1, 8, 30])
def test_merged_positions_match_the_naive_twin(tmp_path: Path, sizes: str, plies: int) -> None:
    path, games = write(tmp_path, SIZES[sizes])
    board, passes = sizes.partition(" ")[0], plies != 8
    expected = naive_merge(games, plies, passes)
    options = {"board": board, "pad": len(SIZES[sizes]) > 1, "labels": LABELS, "merge_plies": plies, "passes": passes}
    width, height = map(int, board.split("x"))
    plain = one_batch(load(path, "black+white", augment=False, **options))
    examples = sorted(zip(plain.game.tolist(), plain.ply.tolist()))
    assert examples == sorted(at for at, merged in expected.items() if merged is not None)
    assert (len(examples) < len(expected)) & (max(plain.labels["count"]) > 5)
    check(plain, games, width, expected, {})
    turned = one_batch(load(path, "black+white", **options))
    naive = [naive_order.Game(game.moves, len(game.moves), game.width * game.height, width == height) for game in games]
    turns = {(g, t): int(k) for g, t, k in naive_order.epoch_order(naive, passes=True)}
    check(turned, games, width, expected, turns)


def test_random_games_have_ko_and_symmetric_positions(tmp_path: Path) -> None:
    _, games = write(tmp_path, [(4, 4)])
    found = [position for game in games for position in situations(game, True)]
    assert sum(not canonical[2].endswith("-1)") for _, _, canonical, _ in found) > 5
    assert sum(len(ways) > 1 for t, _, _, ways in found if t > 0) > 50


def test_a_banned_ko_distinguishes_positions(tmp_path: Path) -> None:
    """White may not retake at once; after two passes the stones are the same and White may."""
    points = [1, 2, 5, 8, 11, 12, 24, 6, 7, 25, 25, 6]
    moves = [p | (WHITE_BIT if t % 2 else 0) for t, p in enumerate(points)]
    path = write_catalogue(tmp_path / "games.parquet", rows(width=[5, 5], height=[5, 5], moves=[moves, moves]))
    batch = one_batch(load(path, "black+white", board="5x5", labels=LABELS, merge_plies=20, passes=True))
    assert sorted(zip(batch.game.tolist(), batch.ply.tolist())) == [(0, t) for t in range(12)]
    assert set(batch.labels["count"].tolist()) == {2}


@pytest.mark.slow
def test_openings_of_kgs_match_the_naive_twin(shared: Path, tmp_path: Path) -> None:
    kifu.ingest(shared / "data" / "kgs" / "KGS-2016_02-19-577-.tar.gz", tmp_path / "games.parquet")
    with kifu.query("FROM kept WHERE width = 19 LIMIT 60", tmp_path / "games.parquet") as result:
        result.write(tmp_path / "some.parquet")
    found = list(open_catalogue(tmp_path / "some.parquet").games())
    games = [Game(game.width, game.height, game.setup.tolist(), game.moves[:20].tolist()) for game in found]
    expected = naive_merge(games, 20, False)
    assert not any(setup & WHITE_BIT for game in games for setup in game.setup)
    options = {"labels": LABELS, "merge_plies": 20, "max_ply": 19, "augment": False}
    batch = one_batch(load(tmp_path / "some.parquet", "black+white", **options))
    (ids,) = [rows["id"].to_pylist() for rows in open_catalogue(tmp_path / "some.parquet").batches(("id",))]
    batch.game[:] = [ids.index(key) for key in batch.game.tolist()]
    examples = sorted(zip(batch.game.tolist(), batch.ply.tolist()))
    assert examples == sorted(at for at, merged in expected.items() if merged is not None)
    assert len(examples) < 0.9 * len(expected)
    check(batch, games, 19, expected, {})


def weigh(game: int, ply: int) -> float:
    """The weights of `WEIGHTS`: 0, 0.5 or 1 by game, and less from ply 3 on."""
    return game % 3 / 2 * (0.25 if ply >= 3 else 1)


WEIGHTS = {"weight": "(id % 3) / 2", "ply_weights": {0: 1, 3: 0.25}}


@pytest.mark.slow
def test_counts_are_sums_of_weights(tmp_path: Path) -> None:
    path, games = write(tmp_path, [(4, 4)])
    expected = naive_merge(games, 10, True, weigh)
    options = {"board": "4x4", "labels": LABELS, "merge_plies": 10, "passes": True, "augment": False, **WEIGHTS}
    seen: dict[Any, int] = defaultdict(int)
    for epoch in range(8):
        batch = one_batch(load(path, "black+white", epoch=epoch, **options))
        check(batch, games, 4, expected, {})
        for at in zip(batch.game.tolist(), batch.ply.tolist()):
            seen[at] += 1
    shared = {at for at, merged in expected.items() if merged is not None and merged.count != 1}
    assert {seen[at] for at in shared} == {8}
    assert {seen[at] for at in expected if at not in shared} >= {0, 2, 8}


def loss(batch: Batch, weights: np.ndarray, targets: np.ndarray) -> float:
    """Return the weighted cross-entropy of a predictor that commutes with the symmetries of a square board."""
    planes = batch.planes
    black, white = planes[:, 0].astype(float), planes[:, 1].astype(float)
    size = planes.shape[-1]
    y, x = np.divmod(np.arange(size * size), size)
    squares = (y[:, None] - y) ** 2 + (x[:, None] - x) ** 2
    middle = (2 * y - size + 1) ** 2 + (2 * x - size + 1) ** 2
    mover = np.where(batch.labels["to_play"] == BLACK, 1.0, -1.0)[:, None]
    stones = (black - 0.7 * white).reshape(len(batch), -1) * mover + 0.1 * mover * black.reshape(len(batch), -1)
    logits = np.cos(stones @ np.sin(squares + 1) + 0.3 * middle)
    logits = np.concatenate([logits, 0.1 * (black + white).sum((1, 2))[:, None]], axis=1)
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return float(-(weights[:, None] * targets * log_probs).sum())


@pytest.mark.parametrize("augment", [True, False])
def test_the_cross_entropy_of_a_symmetric_predictor_stays_the_same(tmp_path: Path, augment: bool) -> None:
    path, games = write(tmp_path, [(5, 5)], 300)
    options = {"board": "5x5", "labels": LABELS, "max_ply": 9, "passes": True, "augment": augment, "output": "uint8"}
    plain = one_batch(load(path, "black+white", **options))
    merged = one_batch(load(path, "black+white", merge_plies=10, **options))
    assert np.array_equal(plain.labels["policy"], np.eye(26, dtype=np.float32)[plain.labels["move"]])
    assert np.all(plain.labels["count"] == 1)
    assert len(merged) < 0.8 * len(plain)
    assert merged.labels["count"].sum() == len(plain) == sum(min(len(game.moves), 10) for game in games)
    one, other = (loss(batch, batch.labels["count"], batch.labels["policy"]) for batch in (plain, merged))
    assert one == pytest.approx(other, rel=1e-6)


def test_merging_resumes_and_divides_like_any_epoch(tmp_path: Path) -> None:
    path, _ = write(tmp_path, [(4, 4)])
    options = {"board": "4x4", "labels": LABELS, "merge_plies": 12, "batch_size": 64, "window": 100}
    loader = load(path, "black+white", **options)
    batches = list(loader)
    first = load(path, "black+white", **options)
    iterator = iter(first)
    next(iterator)
    again = load(path, "black+white", resume=first.state_dict(), **options)
    rest = list(again)
    assert [batch.labels["policy"].tobytes() for batch in rest] == [b.labels["policy"].tobytes() for b in batches[1:]]
    with pytest.raises(RecipeError, match="the state is of another loader: merge_plies was 12, and is 11"):
        load(path, "black+white", resume=first.state_dict(), **options | {"merge_plies": 11})
    ranks = [one_batch(load(path, "black+white", process_index=r, world_size=3, **options)) for r in range(3)]
    parts = sorted(at for part in ranks for at in zip(part.game.tolist(), part.ply.tolist()))
    assert parts == sorted(at for batch in batches for at in zip(batch.game.tolist(), batch.ply.tolist()))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"merge_plies": -1}, "merge_plies must be within 0 to 1,000, got -1"),
        ({"merge_plies": 1001}, "merge_plies must be within 0 to 1,000, got 1001"),
        ({"merge_plies": 20, "per_game": 3}, "merge_plies and per_game exclude each other"),
    ],
)
def test_invalid_rules_are_rejected(rules: dict[str, int], message: str) -> None:
    with pytest.raises(RecipeError, match=f"^{message}$"):
        kifu.PositionFilter(**rules)


def test_recipes_do_not_merge() -> None:
    with pytest.raises(RecipeError, match="merge_plies is supported by loaders only"):
        load_training("small", ["positions={merge_plies = 20}"])
    with pytest.raises(RecipeError, match="merge_plies is supported by loaders only"):
        load_recipe("alphago48", ["positions.merge_plies=20"])
    with pytest.raises(RecipeError, match="labels policy and count are supported by loaders only"):
        load_recipe("agz17", ["labels=['move', 'policy']"])

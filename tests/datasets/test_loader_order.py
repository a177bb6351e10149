"""The order of an epoch equals that of the naive twin; it is a permutation, and processes do not overlap."""

from collections import Counter
from itertools import pairwise, permutations
from math import factorial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_order
from drawn_games import OneGame, flat
from kifu.datasets.epoch_plan import hash_key, permutation, slots_of_entries
from kifu.datasets.filter import PositionFilter, select_positions
from kifu.datasets.sources import list_positions
from kifu.point import WHITE_BIT
from loader_games import kept_games, load, make, naive_games, row_ids

# The first example of a test compiles kernels.
KEYS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"))


# Kernels


@pytest.mark.nojit
@given(KEYS, st.integers(0, 60))
def test_permutation_matches_the_twin(parts, count):
    key = hash_key(*parts)
    assert key.tolist() == [naive_order.key(*parts)]
    order = permutation(key, count).tolist()
    assert order == naive_order.shuffled(naive_order.key(*parts), count)
    assert sorted(order) == list(range(count))


@pytest.mark.nojit
@given(KEYS, st.integers(1, 60), st.data())
def test_slots_of_entries(parts, count, data):
    order = permutation(hash_key(*parts), count)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    slot_of, slots = slots_of_entries(order[start:stop], len(order))
    some = sorted(order[start:stop].tolist())
    assert slot_of.tolist() == [some.index(q) if q in some else -1 for q in range(count)]
    assert [some[slot] for slot in slots] == order[start:stop].tolist()


def test_permutations_are_equally_likely():
    times = 24 * 400
    found = Counter(tuple(permutation(hash_key(seed, 5), 4).tolist()) for seed in range(times))
    assert set(found) == set(permutations(range(4)))
    expected = times / factorial(4)
    # Of 23 degrees of freedom; above 49.7 once in a thousand.
    assert sum((n - expected) ** 2 / expected for n in found.values()) < 49.7


GAMES = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12), st.integers(0, 12)), max_size=8
)
WEIGHT = st.sampled_from([0.0, 0.3, 0.999, 1.0])


@pytest.mark.nojit
@given(
    GAMES,
    st.booleans(),
    st.none() | st.dictionaries(st.integers(0, 12), WEIGHT),
    st.tuples(WEIGHT, WEIGHT),
    st.none() | st.integers(1, 8),
    st.integers(0, 2**63 - 1),
    st.integers(0, 3),
)
def test_select_positions_matches_the_twin(drawn_games, passes, ply_weights, players, per_game, seed, epoch):
    words = [[point | white * WHITE_BIT for point, white in moves] for moves, _ in drawn_games]
    playable = np.array([min(n, len(moves)) for moves, n in drawn_games], np.int32)
    offset = np.cumsum([0, *map(len, words)])
    rules = PositionFilter(passes=passes, ply_weights=ply_weights, per_game=per_game)
    found, counts = np.zeros((offset[-1] + 7) // 8, np.uint8), np.empty(len(words), np.int32)
    games = flat([OneGame(2, 2, moves) for moves in words])
    keys = hash_key(seed, epoch, 3)[0], hash_key(seed, epoch, 4)[0]
    select_positions(games, 0, playable, rules, np.array([players] * len(words)).reshape(-1, 2), keys, found, counts)

    def by_ply(t):
        return max((ply, weight) for ply, weight in [(-1, 0), *ply_weights.items()] if ply <= t)[1]

    twins = [naive_order.Game(w, n, 4, weights=players) for w, n in zip(words, playable.tolist())]
    wanted = naive_order.chosen(twins, seed, epoch, passes, None if ply_weights is None else by_ply, per_game)
    marks = np.unpackbits(found, bitorder="little")
    assert [np.flatnonzero(marks[a:b]).tolist() for a, b in pairwise(offset)] == wanted
    assert counts.tolist() == [len(plies) for plies in wanted]


@pytest.mark.nojit
@given(st.lists(st.lists(st.booleans(), max_size=8), min_size=1, max_size=8), st.data())
def test_list_positions(marks, data):
    offset = np.cumsum([0, *map(len, marks)])
    units = np.array(data.draw(st.permutations(range(len(marks)))))
    positions = [(g, t) for g in units for t, mark in enumerate(marks[g]) if mark]
    first = data.draw(st.integers(-3, 3))  # the block begins within the first games, or games go before
    size = data.draw(st.integers(0, len(positions) + 6))
    order = permutation(hash_key(len(positions)), size)
    stop = data.draw(st.integers(0, size))
    rank, _ = slots_of_entries(order[:stop], size)
    game, ply, slot = np.empty((3, offset[-1]), np.int64)
    turns, symmetry = np.arange(len(units), dtype=np.uint8), np.empty(offset[-1], np.uint8)
    chosen = np.packbits(np.array([mark for each in marks for mark in each], np.bool_), bitorder="little")
    ids, ids_out, ply_out = np.arange(100, 100 + len(marks)), np.zeros(stop, np.uint64), np.full(stop, -1, np.int32)
    n = list_positions(
        units, turns, first, rank, offset, chosen, game, ply, symmetry, slot, ids.astype(np.uint64), ids_out, ply_out
    )
    slots = [(g, t, int(rank[first + k])) for k, (g, t) in enumerate(positions) if 0 <= first + k < size]
    assert [*zip(*(each[:n].tolist() for each in (game, ply, slot)))] == [each for each in slots if each[2] >= 0]
    assert units[symmetry[:n]].tolist() == game[:n].tolist()
    assert (ids_out[slot[:n]].tolist(), ply_out[slot[:n]].tolist()) == (ids[game[:n]].tolist(), ply[:n].tolist())


# Epochs

OPTIONS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "epoch": st.integers(0, 5),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([1, 7, 64, 300, 131_072]),
        "augment": st.booleans(),
        "world_size": st.integers(1, 4),
        "drop_last": st.booleans(),
        "batch_size": st.sampled_from([1, 16, 100]),
        "passes": st.booleans(),
        "per_game": st.none() | st.integers(1, 30),
    }
)


@pytest.mark.slow
@given(OPTIONS, st.data())
def test_epoch_order_matches_the_twin(games, options, data):
    if options["batch_size"] == 1:
        options["window"] = max(options["window"], 64)
    options["process_index"] = data.draw(st.integers(0, options["world_size"] - 1))
    found = kept_games(games)
    loader = load(games, "own", jobs=1, **options)
    wanted = naive_order.epoch_order(naive_games(found), **options)
    ids = list(found)
    assert (row_ids(loader) if wanted else []) == [(ids[g], t) for g, t, _ in wanted]
    assert loader.positions == 0 or len(loader.epoch(options["epoch"])) == -(-len(wanted) // options["batch_size"])


def test_epochs_and_seeds_have_different_orders(games):
    orders = [row_ids(load(games, "own", seed=seed, epoch=epoch)) for seed in range(3) for epoch in range(3)]
    assert len(set(map(tuple, orders))) == 9
    assert len({frozenset(order) for order in orders}) == 1


def test_a_game_is_spread_over_its_window(games):
    """Windows have at least the requested size, and neighbours in the stream are not neighbours in a game."""
    order = row_ids(load(games, "own", window=300))
    total = len(order)
    assert total > 900
    spans = {}
    for place, (key, _) in enumerate(order):
        spans.setdefault(key, []).append(place)
    windows = total // 300
    bounds = [total * k // windows for k in range(windows + 1)]
    assert min(b - a for a, b in pairwise(bounds)) >= 300
    for places in spans.values():
        inside = [sum(a <= place < b for place in places) for a, b in pairwise(bounds)]
        held = [k for k, n in enumerate(inside) if n]
        assert held[-1] - held[0] <= 1  # a game lies in one window, or across the border of two
    followers = sum(a[0] == b[0] and abs(a[1] - b[1]) <= 2 for a, b in pairwise(order))
    assert followers < total * 0.03


def test_the_order_of_a_global_shuffle_does_not_depend_on_memory(games):
    few, many = (row_ids(load(games, "own", shuffle="global", memory=memory)) for memory in (20_000, 10**9))
    assert few == many

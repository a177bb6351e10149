"""Epochs that are divided among processes: each position is delivered exactly once."""

import json
from collections.abc import Iterable
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_order
from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, make_plan
from kifu.datasets.examples import Batch
from kifu.errors import RecipeError
from loader_games import assert_same, concat_batches, kept_games, load, make, naive_games, row_ids

# The first example of a test compiles kernels.


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), games=12, plies=30)


# Plans


def counted(counts: list[int]) -> EpochSelection:
    """Return units with given numbers of positions."""
    return EpochSelection(np.array(counts, np.int64), np.empty(0, np.uint8), None)


PLAN = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([1, 5, 16, 1000]),
        "drop_last": st.booleans(),
        "order": st.sampled_from(["contiguous", "global-batch"]),
    }
)


def delivered(counts: list[int], config: LoaderConfig, batch_size: int) -> list[int]:
    """The positions that a process delivers, as indices in the sequence of the epoch."""
    plan = make_plan(counted(counts), config, batch_size, 3)
    chunks = [plan.order(c.block)[c.entries()] + c.block.first for c in plan.chunks(plan.batches(), 50)]
    positions = np.concatenate([np.empty(0, np.int64), *chunks]).tolist()
    assert len(positions) == plan.batches().positions
    return positions


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 6), st.integers(1, 9), PLAN)
def test_each_position_is_delivered_once(counts, world_size, batch_size, options):
    configs = [LoaderConfig(augment=False, rank=r, world_size=world_size, **options) for r in range(world_size)]
    shares = [delivered(counts, config, batch_size) for config in configs]
    total, seen = sum(counts), [*chain(*shares)]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(range(total))
    if options["drop_last"]:
        assert {len(share) for share in shares} == {total // (world_size * batch_size) * batch_size}
    else:
        assert len(seen) == total
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


# Global batches


def global_steps(counts: list[int], options: dict[str, Any], world_size: int, total: int) -> list[list[int]]:
    """Return the positions of each step of all ranks with a total batch size, in rank order."""
    size = total // world_size
    configs = [LoaderConfig(augment=False, rank=r, world_size=world_size, **options) for r in range(world_size)]
    shares = [delivered(counts, config, size) for config in configs]
    batches = [[share[k : k + size] for k in range(0, len(share), size)] for share in shares]
    return [[*chain(*step)] for step in zip_longest(*batches, fillvalue=[])]


@given(st.lists(st.integers(0, 30), max_size=12), PLAN, st.sampled_from([1, 6, 12, 60]))
def test_global_batches_do_not_depend_on_the_world_size(counts, options, total):
    single = global_steps(counts, options | {"order": "contiguous"}, 1, total)
    assert set(map(len, single[:-1])) <= {total}
    for world_size in (size for size in range(1, 7) if total % size == 0):
        assert global_steps(counts, options | {"order": "global-batch"}, world_size, total) == single


@given(st.lists(st.integers(0, 30), max_size=12), PLAN, st.integers(1, 4), st.integers(1, 9), st.data())
def test_batch_slices_match_lists(counts, options, world_size, size, data):
    """Batches first, first + every, ... of a rank, in parts."""
    rank, every = data.draw(st.integers(0, world_size - 1)), data.draw(st.integers(1, 4))
    first, slots = data.draw(st.integers(0, 9)), data.draw(st.integers(1, 40))
    config = LoaderConfig(augment=False, rank=rank, world_size=world_size, **options)
    whole = delivered(counts, config, size)
    batches = [whole[k : k + size] for k in range(0, len(whole), size)]
    plan = make_plan(counted(counts), config, size, 3)
    found = plan.batches(first, every)
    chunks = list(plan.chunks(found, slots))
    positions = [*chain(*((plan.order(c.block)[c.entries()] + c.block.first).tolist() for c in chunks))]
    assert positions == [*chain(*batches[first::every])]
    assert found.positions == len(positions)
    assert all(0 < c.stop - c.start <= slots for c in chunks)


# Loaders


@pytest.mark.parametrize("shuffle", ["window", "global", None])
def test_global_batches_are_bit_exact_for_any_world_size(games, shuffle):
    """1 process with batches of 48, 2 with 24, or 4 with 12: each step has the same rows, augmented alike."""
    options: dict[str, Any] = {"shuffle": shuffle, "window": 50, "seed": 3, "jobs": 1, "order": "global-batch"}
    loader = load(games, "seven", batch_size=48, **options)
    steps = list(loader)
    assert len(steps[-1]) % 4  # the last one cannot be divided evenly
    for world_size in (2, 4):
        options |= {"world_size": world_size, "batch_size": 48 // world_size}
        processes = [iter(load(games, "seven", rank=rank, **options)) for rank in range(world_size)]
        for step, *parts in zip(steps, *processes, strict=True):
            assert_same(concat_batches(parts, loader.layout), step)


@pytest.mark.parametrize("order", ["contiguous", "global-batch"])
def test_interleaved_loaders_take_turns(games, order):
    loader = load(games, "own", batch_size=7, rank=1, world_size=2, order=order, window=60, jobs=1)
    loader = loader.epoch(1, 2)
    left = [rows([batch]) for batch in loader.epoch(1, 2)]
    for count in (1, 3, len(left) + 1):
        for index in range(count):
            part = loader.interleave(index, count)
            assert [rows([batch]) for batch in part] == left[index::count]
            again = [rows([batch]) for batch in part]
            assert again == [rows([batch]) for batch in loader.epoch(2)][index::count]
            assert again == [rows([batch]) for batch in part.epoch(2)]
    pairs = [[rows([batch]) for batch in loader.interleave(1, 2).interleave(k, 2)] for k in range(2)]
    assert pairs == [left[1::4], left[3::4]]
    for index in (-1, 2):
        with pytest.raises(RecipeError, match="interleave index must be within 0 to 1"):
            loader.interleave(index, 2)


def test_an_interleaved_loader_resumes(games):
    loader = load(games, "own", batch_size=10, jobs=1)
    wanted = [rows([batch]) for batch in loader.interleave(1, 3)]
    part = loader.epoch(0).interleave(1, 3)
    running = iter(part)
    assert [rows([batch]) for batch in islice(running, 2)] == wanted[:2]
    state = json.loads(json.dumps(part.state_dict()))
    running.close()
    again = loader.epoch(0).interleave(1, 3)
    again.load_state_dict(state)
    assert [rows([batch]) for batch in again] == wanted[2:]


@pytest.mark.parametrize("world_size", [1, 2])
def test_shards_of_global_batches_cover_an_epoch(games, world_size):
    options: dict[str, Any] = {"batch_size": 9, "order": "global-batch", "world_size": world_size, "jobs": 1}
    ranks = [load(games, "own", rank=rank, **options) for rank in range(world_size)]
    shards = [row_ids(rank.shard(k, 3)) for rank in ranks for k in range(3)]
    assert sorted(chain(*shards)) == sorted(row_ids(load(games, "own")))
    whole = row_ids(ranks[-1].epoch(0))
    assert row_ids(ranks[-1].shard(1, 3))[:9] == whole[9:18]


@pytest.mark.parametrize("order", ["contiguous", "global-batch"])
@pytest.mark.parametrize("shuffle", ["window", "global", None])
@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_deliver_what_the_slow_twin_does(games, order, shuffle, drop_last):
    options: dict[str, Any] = {"shuffle": shuffle, "window": 50, "seed": 5, "epoch": 2, "passes": True}
    options |= {"drop_last": drop_last, "per_game": 20, "order": order, "world_size": 3, "batch_size": 6}
    found = kept_games(games)
    twins, ids = naive_games(found), list(found)
    for rank in range(3):
        twin = naive_order.epoch_order(twins, rank=rank, **options)
        assert row_ids(load(games, "own", rank=rank, jobs=1, **options)) == [(ids[g], t) for g, t, _ in twin]


def rows(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    return [pair for batch in batches for pair in zip(batch.game.tolist(), batch.ply.tolist())]


@pytest.mark.parametrize("order", ["contiguous", "global-batch"])
def test_resuming_is_bit_exact(games, order):
    options: dict[str, Any] = {
        "world_size": 3, "rank": 1, "batch_size": 8, "window": 60, "jobs": 1, "order": order, "epoch": 2
    }  # fmt: skip
    first = load(games, "seven", **options)
    batches = list(first.epoch(2))
    running = iter(first)
    assert_same(concat_batches([*islice(running, 4)], first.layout), concat_batches(batches[:4], first.layout))
    state = json.loads(json.dumps(first.state_dict()))
    running.close()
    assert (state["epoch"], state["batch"]) == (2, 4)
    second = load(games, "seven", resume=state, **options)
    assert_same(concat_batches([*second], second.layout), concat_batches(batches[4:], second.layout))
    assert (second.state_dict()["epoch"], second.state_dict()["batch"]) == (3, 0)
    assert row_ids(second) == row_ids(load(games, "seven", **options | {"epoch": 3}))


def test_a_small_last_batch_counts_as_a_batch(games):
    """Ranks whose parts differ by a position have the same state after the same number of batches."""
    total = load(games, "own").positions
    world_size = next(size for size in range(2, 10) if total % size)
    shares = [load(games, "own", rank=rank, world_size=world_size, jobs=1) for rank in range(world_size)]
    size = max(share.positions for share in shares)
    assert {share.positions for share in shares} == {size - 1, size}
    states = []
    for share in shares:
        share = share.with_batch_size(size)
        running = iter(share)
        next(running)
        states.append(share.state_dict())
        running.close()
    assert all(state == states[0] for state in states)
    assert list(load(games, "own", rank=0, world_size=world_size, batch_size=size, resume=states[0])) == []

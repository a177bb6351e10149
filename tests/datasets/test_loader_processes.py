"""Epochs that are divided among processes: each position is delivered exactly once."""

import json
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_order
from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, make_plan
from kifu.errors import RecipeError
from loader_games import assert_same, concat_batches, kept_games, load, make, naive_games, row_ids

# The first example of a test compiles kernels.


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), games=12, plies=30)


# Plans


def counted(counts: list[int]) -> EpochSelection:
    return EpochSelection(np.array(counts, np.int64), np.empty(0, np.uint8), None)


PLAN = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([1, 5, 16, 1000]),
        "drop_last": st.booleans(),
    }
)


def delivered(counts: list[int], config: LoaderConfig, batch_size: int) -> list[int]:
    """The positions that a process delivers, as indices in the sequence of the epoch."""
    plan = make_plan(counted(counts), config, batch_size, 3)
    chunks = list(plan.chunks(0, plan.positions, 50))
    assert all(0 < chunk.stop - chunk.start <= 50 for chunk in chunks)
    found = [plan.order(chunk)[chunk.start : chunk.stop] + chunk.first for chunk in chunks]
    positions = np.concatenate([np.empty(0, np.int64), *found]).tolist()
    assert len(positions) == plan.positions
    return positions


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 6), st.integers(1, 9), PLAN)
def test_each_position_is_delivered_once(counts, world_size, batch_size, options):
    configs = [
        LoaderConfig(augment=False, process_index=r, world_size=world_size, **options) for r in range(world_size)
    ]
    shares = [delivered(counts, config, batch_size) for config in configs]
    total, seen = sum(counts), [*chain(*shares)]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(range(total))
    if options["drop_last"]:
        assert {len(share) for share in shares} == {total // (world_size * batch_size) * batch_size}
    else:
        assert len(seen) == total
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.lists(st.integers(0, 30), max_size=12), PLAN, st.integers(0, 99), st.integers(0, 99), st.integers(1, 40))
def test_chunks_match_a_range_of_the_whole(counts, options, first, size, slots):
    config = LoaderConfig(augment=False, process_index=1, world_size=2, **options)
    whole = delivered(counts, config, 3)
    plan, first = make_plan(counted(counts), config, 3, 3), min(first, len(whole))
    chunks = plan.chunks(first, min(first + size, len(whole)), slots)
    found = [*chain(*((plan.order(c)[c.start : c.stop] + c.first).tolist() for c in chunks))]
    assert found == whole[first : first + size]


# Loaders


@pytest.mark.parametrize("shuffle", ["window", "global", None])
@pytest.mark.parametrize("drop_last", [False, True])
def test_processes_deliver_what_the_slow_twin_does(games, shuffle, drop_last):
    options: dict[str, Any] = {"shuffle": shuffle, "window": 50, "seed": 5, "epoch": 2, "passes": True}
    options |= {"drop_last": drop_last, "per_game": 20, "world_size": 3, "batch_size": 6}
    found = kept_games(games)
    twins, ids = naive_games(found), list(found)
    for k in range(3):
        twin = naive_order.epoch_order(twins, process_index=k, **options)
        assert row_ids(load(games, "own", process_index=k, jobs=1, **options)) == [(ids[g], t) for g, t, _ in twin]


def test_resuming_is_bit_exact(games):
    options: dict[str, Any] = {
        "world_size": 3, "process_index": 1, "batch_size": 8, "window": 60, "jobs": 1, "epoch": 2
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
    for name, other in (("world_size", 4), ("batch_size", 9)):
        with pytest.raises(
            RecipeError, match=f"{name} was {options[name]}, and is {other}; resume with the same {name}"
        ):
            load(games, "seven", resume=state, **options | {name: other})


def test_a_small_last_batch_counts_as_a_batch(games):
    """Processes whose parts differ by a position have the same state after the same number of batches."""
    total = load(games, "own").positions
    world_size = next(size for size in range(2, 10) if total % size)
    shares = [load(games, "own", process_index=k, world_size=world_size, jobs=1) for k in range(world_size)]
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
    assert list(load(games, "own", world_size=world_size, batch_size=size, resume=states[0])) == []

"""Epochs that resume with a different world size: each position is delivered exactly once."""

import json
from collections.abc import Iterable
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import naive_order
from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, WorldStage, make_plan
from kifu.datasets.examples import Batch
from kifu.datasets.sources import LoaderSource
from kifu.errors import RecipeError
from loader_games import assert_same, concat_batches, kept_games, load, make, naive_games, row_ids

# The first example of a test compiles kernels.


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), games=12, plies=30)


# Plans


class Counted(LoaderSource):
    """Units with given numbers of positions, which cannot be rendered."""

    def __init__(self, counts: list[int]) -> None:
        self._counts = np.array(counts, np.int64)

    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        return EpochSelection(self._counts, np.empty(0, np.uint8), None)

    fingerprint = cost = render = None


Counted.__abstractmethods__ = frozenset()

STAGES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=4)
PLAN = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([1, 5, 16, 1000]),
        "drop_last": st.booleans(),
        "order": st.sampled_from(["contiguous", "global-batch"]),
    }
)


def delivered(counts: list[int], config: LoaderConfig, batch_size: int, before: list[WorldStage]) -> list[int]:
    """The positions that a rank delivers, as indices in the sequence of the epoch."""
    plan = make_plan(Counted(counts), config, batch_size, 3, before)
    chunks = [plan.order(c.block)[c.entries()] + c.block.first for c in plan.chunks(plan.batches(), 50)]
    positions = np.concatenate([np.empty(0, np.int64), *chunks]).tolist()
    assert len(positions) == plan.batches().positions
    return positions


@given(st.lists(st.integers(0, 30), max_size=12), STAGES, PLAN)
def test_each_position_is_delivered_once_for_changing_world_sizes(counts, stages, options):
    total = sum(counts)
    before: list[WorldStage] = []
    seen: list[int] = []
    for k, stage in enumerate(stages):
        world_size, batch_size, batches = stage
        configs = [LoaderConfig(augment=False, rank=r, world_size=world_size, **options) for r in range(world_size)]
        shares = [delivered(counts, config, batch_size, before) for config in configs]
        left = total - len(seen)
        if options["drop_last"]:
            assert {len(share) for share in shares} == {left // (world_size * batch_size) * batch_size}
            batches = min(batches, left // (world_size * batch_size))
        else:
            assert sum(map(len, shares)) == left
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
        if k == len(stages) - 1:
            seen += chain(*shares)
        else:
            seen += chain(*(share[: batches * batch_size] for share in shares))
            before.append(WorldStage(world_size, batch_size, batches))
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(range(total))
    world_size, batch_size, _ = stages[-1]
    # What is left over is less than a batch of all processes together.
    assert len(seen) >= total - (world_size * batch_size - 1 if options["drop_last"] else 0)


@given(st.lists(st.integers(0, 30), max_size=12), STAGES, PLAN, st.integers(1, 6))
def test_an_empty_stage_changes_nothing(counts, stages, options, world_size):
    before = [WorldStage(*stage) for stage in stages]
    assume(not options["drop_last"])  # windows are cut in what all who begin can give
    config = LoaderConfig(augment=False, rank=world_size - 1, world_size=world_size, **options)
    idle = WorldStage(stages[0][0] % 6 + 1, 2, 0)
    assert delivered(counts, config, 7, [*before, idle]) == delivered(counts, config, 7, before)


def test_undelivered_positions_keep_their_order():
    """New ranks continue the windows that the old ranks started."""
    options = {"seed": 1, "shuffle": "window", "window": 40, "augment": False, "drop_last": False}
    old = [delivered([200], LoaderConfig(rank=rank, world_size=2, **options), 10, []) for rank in range(2)]
    left = [*old[0][30:], *old[1][30:]]
    before = [WorldStage(2, 10, 3)]
    new = [delivered([200], LoaderConfig(rank=rank, world_size=3, **options), 5, before) for rank in range(3)]
    assert [*chain(*new)] == left
    assert list(map(len, new)) == [46, 47, 47]


# Global batches


def global_steps(counts: list[int], options: dict[str, Any], world_size: int, total: int, before=()) -> list[list[int]]:
    """Return the positions of each step of all ranks with a total batch size, in rank order."""
    size = total // world_size
    configs = [LoaderConfig(augment=False, rank=r, world_size=world_size, **options) for r in range(world_size)]
    shares = [delivered(counts, config, size, list(before)) for config in configs]
    batches = [[share[k : k + size] for k in range(0, len(share), size)] for share in shares]
    return [[*chain(*step)] for step in zip_longest(*batches, fillvalue=[])]


@given(st.lists(st.integers(0, 30), max_size=12), PLAN, st.sampled_from([1, 6, 12, 60]))
def test_global_batches_do_not_depend_on_the_world_size(counts, options, total):
    single = global_steps(counts, options | {"order": "contiguous"}, 1, total)
    assert set(map(len, single[:-1])) <= {total}
    for world_size in (size for size in range(1, 7) if total % size == 0):
        assert global_steps(counts, options | {"order": "global-batch"}, world_size, total) == single


WORLD_SIZES = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 6]), st.integers(0, 6)), min_size=1, max_size=5)


@given(st.lists(st.integers(0, 30), max_size=12), PLAN, WORLD_SIZES)
def test_global_batches_continue_with_other_world_sizes(counts, options, stages):
    options |= {"order": "global-batch"}
    single = global_steps(counts, options, 1, 12)
    seen: list[list[int]] = []
    before: list[WorldStage] = []
    for world_size, batches in stages:
        assert global_steps(counts, options, world_size, 12, before) == single[len(seen) :]
        batches = min(batches, len(single) - len(seen))
        seen += single[len(seen) : len(seen) + batches]
        before.append(WorldStage(world_size, 12 // world_size, batches))


@given(st.lists(st.integers(0, 30), max_size=12), PLAN, st.integers(1, 4), st.integers(1, 9), st.data())
def test_batch_slices_match_lists(counts, options, world_size, size, data):
    """Batches first, first + every, ... of a rank, in parts."""
    rank, every = data.draw(st.integers(0, world_size - 1)), data.draw(st.integers(1, 4))
    first, slots = data.draw(st.integers(0, 9)), data.draw(st.integers(1, 40))
    config = LoaderConfig(augment=False, rank=rank, world_size=world_size, **options)
    whole = delivered(counts, config, size, [])
    batches = [whole[k : k + size] for k in range(0, len(whole), size)]
    plan = make_plan(Counted(counts), config, size, 3)
    found = plan.batches(first, every)
    chunks = list(plan.chunks(found, slots))
    positions = [*chain(*((plan.order(c.block)[c.entries()] + c.block.first).tolist() for c in chunks))]
    assert positions == [*chain(*batches[first::every])]
    assert found.positions == len(positions)
    assert all(0 < c.stop - c.start <= slots for c in chunks)


# Loaders


@pytest.mark.parametrize("shuffle", ["window", "global", None])
def test_global_batches_are_bit_exact_after_changes_of_the_world_size(games, shuffle):
    """1 process with batches of 48, then 2 with 24, then 4 with 12: each step has the same rows, augmented alike."""
    options: dict[str, Any] = {"shuffle": shuffle, "window": 50, "seed": 3, "jobs": 1, "order": "global-batch"}
    loader = load(games, "seven", batch_size=48, **options)
    steps = list(loader)
    assert len(steps[-1]) % 4  # the last one cannot be divided evenly
    state, done = None, 0
    for world_size, batches in ((1, 1), (2, 2), (4, len(steps))):
        options |= {"world_size": world_size, "batch_size": 48 // world_size, "resume": state}
        ranks = [load(games, "seven", rank=rank, **options) for rank in range(world_size)]
        running = [*map(iter, ranks)]
        for step in steps[done : done + batches]:
            assert_same(concat_batches([next(each) for each in running], loader.layout), step)
        done += batches
        (state,) = {json.dumps(rank.state_dict()) for rank in ranks}
        state = json.loads(state)
        for each in running:
            each.close()
    assert state["stages"] == [[1, 48, 1], [2, 24, 2], [4, 12, len(steps) - 3]]


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
def test_resuming_with_any_world_size(games, order, shuffle, drop_last):
    """2 processes, then 3, then 1 with larger batches; the next epoch is not affected."""
    options: dict[str, Any] = {"shuffle": shuffle, "window": 50, "seed": 5, "epoch": 2, "passes": True, "jobs": 1}
    options |= {"drop_last": drop_last, "per_game": 20, "order": order}
    whole = row_ids(load(games, "own", **options | {"drop_last": False}))
    found = kept_games(games)
    twins, ids = naive_games(found), list(found)
    seen: list[tuple[int, int]] = []
    state, before = None, ()
    for world_size, batch_size, batches in ((2, 10, 4), (3, 6, 2), (1, 25, 2)):
        states = []
        for rank in range(world_size):
            loader = load(
                games, "own", rank=rank, world_size=world_size, batch_size=batch_size, resume=state, **options
            )
            twin = naive_order.epoch_order(
                twins, rank=rank, world_size=world_size, batch_size=batch_size, before=before,
                **{name: value for name, value in options.items() if name != "jobs"},
            )  # fmt: skip
            assert row_ids(loader.epoch(2)) == [(ids[g], t) for g, t, _ in twin]
            running = iter(loader)
            seen += rows(islice(running, batches))
            states.append(loader.state_dict())
            running.close()
        before += ((world_size, batch_size, batches),)
        state = json.loads(json.dumps(states[0]))
        assert all(each == states[0] for each in states)
    assert state["stages"] == [list(stage) for stage in before]
    loader = load(games, "own", batch_size=25, resume=state, **options)
    seen += rows(loader)
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(whole)
    assert len(whole) - len(seen) == ((len(whole) - 2 * 10 * 4 - 3 * 6 * 2) % 25 if drop_last else 0)
    assert loader.state_dict()["stages"] == [[1, 25, 0]]
    assert row_ids(loader) == row_ids(load(games, "own", batch_size=25, **options | {"epoch": 3}))


def rows(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    return [pair for batch in batches for pair in zip(batch.game.tolist(), batch.ply.tolist())]


def test_resuming_with_the_same_world_size_is_bit_exact(games):
    """Also after the world size has changed once."""
    options: dict[str, Any] = {"world_size": 3, "rank": 1, "batch_size": 8, "window": 60, "jobs": 1}
    began = load(games, "seven", batch_size=20, world_size=2, jobs=1, window=60)
    running = iter(began)
    next(running)
    second = load(games, "seven", resume=began.state_dict(), **options)
    running.close()
    batches = list(second.epoch(0))
    running = iter(second)
    assert_same(concat_batches([*islice(running, 4)], second.layout), concat_batches(batches[:4], second.layout))
    third = load(games, "seven", resume=json.loads(json.dumps(second.state_dict())), **options)
    running.close()
    assert third.state_dict()["stages"] == [[2, 20, 1], [3, 8, 4]]
    assert len(third) == len(batches)
    assert_same(concat_batches([*third], third.layout), concat_batches(batches[4:], third.layout))
    assert_same(concat_batches([*second.epoch(0, 2)], third.layout), concat_batches(batches[2:], third.layout))


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
    assert list(load(games, "own", batch_size=size, resume=states[0])) == []


def test_a_state_between_epochs_has_no_stages_left(games):
    loader = load(games, "own", rank=1, world_size=2, jobs=1)
    for _ in loader:
        pass
    again = load(games, "own", batch_size=30, world_size=3, resume=loader.state_dict())
    assert again.state_dict()["stages"] == [[3, 30, 0]]
    assert row_ids(again) == row_ids(load(games, "own", batch_size=30, world_size=3, epoch=1))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "not a state of a loader"),
        (3, "not a state of a loader"),
        ([[1, 256]], "not a state of a loader"),
        ([[1, 256, 0.5]], "not a state of a loader"),
        ([[1, 256, "0"]], "not a state of a loader"),
        ([[1, 1, 0]] * 1001, "not a state of a loader"),
        ([[0, 256, 1], [1, 256, 0]], "world_size must be >= 1, got 0"),
        ([[10**12, 256, 1], [1, 256, 0]], "world_size must be <= 65,536, got 1,000,000,000,000"),
        ([[1, 0, 1], [1, 256, 0]], "batch_size must be >= 1, got 0"),
        ([[1, 256, -1]], "batch must be an integer >= 0, got -1"),
        ([[1, 255, 2]], "batch_size was 255, and is 256"),
    ],
)
def test_invalid_stages_are_rejected(games, stages, message):
    state = load(games, "own").state_dict() | {"stages": stages}
    with pytest.raises(RecipeError) as caught:
        load(games, "own", resume=state)
    assert message in str(caught.value)

"""An epoch that is gone on with by another number of processes: nothing of it comes twice, nothing is lost."""

import json
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

import kifu
import naive_order
from kifu.datasets.epoch_plan import LoaderConfig, WorldStage, make_plan
from kifu.datasets.examples import Batch
from kifu.datasets.sources import Epoch, LoaderSource
from kifu.errors import RecipeError
from loader_games import assert_same, given, joined, kept, make, naive

# A test's first example compiles kernels.
patient = settings(deadline=None)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), games=12, plies=30)


# Plans


class Counted(LoaderSource):
    """Units of so many positions, of which nothing can be drawn."""

    def __init__(self, counts: list[int]) -> None:
        self._counts = np.array(counts, np.int64)

    def epoch(self, seed: int, epoch: int, augment: bool) -> Epoch:
        return Epoch(self._counts, np.empty(0, np.bool_), None)

    told = work = draw = None


Counted.__abstractmethods__ = frozenset()

STAGES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=4)
PLAN = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([1, 5, 16, 1000]),
        "drop_last": st.booleans(),
    }
)


def places(counts: list[int], order: LoaderConfig, before: list[WorldStage], batches: int | None = None) -> list[int]:
    """What a rank is given, as places in the sequence of the epoch: of so many batches, or all of it."""
    plan = make_plan(Counted(counts), order, 3, before)
    told = [plan.entries(part.block)[part.start : part.stop] + part.block.first for part in plan.parts(0, 50)]
    found = np.concatenate([np.empty(0, np.int64), *told]).tolist()
    assert len(found) == plan.positions
    return found if batches is None else found[: batches * order.batch_size]


@patient
@drawn(st.lists(st.integers(0, 30), max_size=12), STAGES, PLAN)
def test_processes_come_and_go_and_each_position_is_given_once(counts, stages, options):
    total = sum(counts)
    before: list[WorldStage] = []
    seen: list[int] = []
    for k, stage in enumerate(stages):
        world_size, batch_size, batches = stage
        orders = [
            LoaderConfig(batch_size, augment=False, rank=r, world_size=world_size, **options) for r in range(world_size)
        ]
        shares = [places(counts, order, before) for order in orders]
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


@patient
@drawn(st.lists(st.integers(0, 30), max_size=12), STAGES, PLAN, st.integers(1, 6))
def test_a_stage_in_which_nothing_was_given_changes_nothing(counts, stages, options, world_size):
    before = [WorldStage(*stage) for stage in stages]
    assume(not options["drop_last"])  # windows are cut in what all who begin can give
    order = LoaderConfig(7, augment=False, rank=world_size - 1, world_size=world_size, **options)
    idle = WorldStage(stages[0][0] % 6 + 1, 2, 0)
    assert places(counts, order, [*before, idle]) == places(counts, order, before)


def test_what_old_processes_left_keeps_its_shuffle():
    """New ones go through the windows that the old ones had begun."""
    options = {"seed": 1, "shuffle": "window", "window": 40, "augment": False, "drop_last": False}
    old = [places([200], LoaderConfig(10, rank=rank, world_size=2, **options), []) for rank in range(2)]
    left = [*old[0][30:], *old[1][30:]]
    before = [WorldStage(2, 10, 3)]
    new = [places([200], LoaderConfig(5, rank=rank, world_size=3, **options), before) for rank in range(3)]
    assert [*chain(*new)] == left
    assert list(map(len, new)) == [46, 47, 47]


# Loaders


@pytest.mark.parametrize("shuffle", ["window", "global", None])
@pytest.mark.parametrize("drop_last", [False, True])
def test_states_are_resumed_by_any_number_of_processes(games, shuffle, drop_last):
    """2 processes, then 3, then 1 with larger batches; the next epoch is as if nothing had happened."""
    options: dict[str, Any] = {"shuffle": shuffle, "window": 50, "seed": 5, "epoch": 2, "passes": True, "jobs": 1}
    options |= {"drop_last": drop_last, "per_game": 20}
    whole = given(kifu.load(games, "own", **options | {"drop_last": False}))
    found = kept(games)
    twins, ids = naive(found), list(found)
    seen: list[tuple[int, int]] = []
    state, before = None, ()
    for world_size, batch_size, batches in ((2, 10, 4), (3, 6, 2), (1, 25, 2)):
        states = []
        for rank in range(world_size):
            loader = kifu.load(
                games, "own", rank=rank, world_size=world_size, batch_size=batch_size, resume=state, **options
            )
            twin = naive_order.epoch_order(
                twins, rank=rank, world_size=world_size, batch_size=batch_size, before=before,
                **{name: value for name, value in options.items() if name != "jobs"},
            )  # fmt: skip
            assert given(loader.epoch(2)) == [(ids[g], t) for g, t, _ in twin]
            running = iter(loader)
            seen += rows(islice(running, batches))
            states.append(loader.state())
            running.close()
        before += ((world_size, batch_size, batches),)
        state = json.loads(json.dumps(states[0]))
        assert all(each == states[0] for each in states)
    assert state["stages"] == [list(stage) for stage in before]
    loader = kifu.load(games, "own", batch_size=25, resume=state, **options)
    seen += rows(loader)
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(whole)
    assert len(whole) - len(seen) == ((len(whole) - 2 * 10 * 4 - 3 * 6 * 2) % 25 if drop_last else 0)
    assert loader.state()["stages"] == [[1, 25, 0]]
    assert given(loader) == given(kifu.load(games, "own", batch_size=25, **options | {"epoch": 3}))


def rows(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    return [pair for batch in batches for pair in zip(batch.game.tolist(), batch.ply.tolist())]


def test_who_goes_on_in_the_same_number_goes_on_bit_for_bit(games):
    """Also after the number has changed once."""
    options: dict[str, Any] = {"world_size": 3, "rank": 1, "batch_size": 8, "window": 60, "jobs": 1}
    began = kifu.load(games, "seven", batch_size=20, world_size=2, jobs=1, window=60)
    running = iter(began)
    next(running)
    second = kifu.load(games, "seven", resume=began.state(), **options)
    running.close()
    batches = list(second.epoch(0))
    running = iter(second)
    assert_same(joined([*islice(running, 4)], second.layout), joined(batches[:4], second.layout))
    third = kifu.load(games, "seven", resume=json.loads(json.dumps(second.state())), **options)
    running.close()
    assert third.state()["stages"] == [[2, 20, 1], [3, 8, 4]]
    assert len(third) == len(batches)
    assert_same(joined([*third], third.layout), joined(batches[4:], third.layout))
    assert_same(joined([*second.epoch(0, 2)], third.layout), joined(batches[2:], third.layout))


def test_the_last_batch_counts_as_one_however_small(games):
    """Ranks whose shares differ by a position have the same state after as many batches."""
    total = kifu.load(games, "own").positions
    world_size = next(size for size in range(2, 10) if total % size)
    shares = [kifu.load(games, "own", rank=rank, world_size=world_size, jobs=1) for rank in range(world_size)]
    size = max(share.positions for share in shares)
    assert {share.positions for share in shares} == {size - 1, size}
    states = []
    for share in shares:
        share = share.sized(size)
        running = iter(share)
        next(running)
        states.append(share.state())
        running.close()
    assert all(state == states[0] for state in states)
    assert list(kifu.load(games, "own", batch_size=size, resume=states[0])) == []


def test_between_epochs_nothing_is_left_to_others(games):
    loader = kifu.load(games, "own", rank=1, world_size=2, jobs=1)
    for _ in loader:
        pass
    again = kifu.load(games, "own", batch_size=30, world_size=3, resume=loader.state())
    assert again.state()["stages"] == [[3, 30, 0]]
    assert given(again) == given(kifu.load(games, "own", batch_size=30, world_size=3, epoch=1))


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([], "is no state"),
        (3, "is no state"),
        ([[1, 256]], "is no state"),
        ([[1, 256, 0.5]], "is no state"),
        ([[1, 256, "0"]], "is no state"),
        ([[1, 1, 0]] * 1001, "is no state"),
        ([[0, 256, 1], [1, 256, 0]], "world_size is 0"),
        ([[10**12, 256, 1], [1, 256, 0]], "world_size is 1,000,000,000,000; it has to be 65,536 or less"),
        ([[1, 0, 1], [1, 256, 0]], "batch_size is 0"),
        ([[1, 256, -1]], "batch -1"),
        ([[1, 255, 2]], "batch_size was 255, and is 256"),
    ],
)
def test_stages_that_cannot_be_are_refused(games, stages, says):
    state = kifu.load(games, "own").state() | {"stages": stages}
    with pytest.raises(RecipeError) as caught:
        kifu.load(games, "own", resume=state)
    assert says in str(caught.value)

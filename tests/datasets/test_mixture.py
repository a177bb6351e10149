"""Mixtures: epochs equal those of the naive twin, shares are exact, and epochs resume bit-exactly."""

import json
import pickle
from collections import Counter
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
import naive_mixture
from kifu.datasets.formats import open_writer
from kifu.datasets.mixture import MixtureSource, select_part
from kifu.errors import RecipeError, SourceError
from loader_games import assert_same, kept_games, load, make, naive_games, one_batch, row_ids

# The first example of a test compiles kernels.


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    sizes = (20, 7, 3)
    paths = [make(tmp_path_factory.mktemp("games"), games, 30, seed=k) for k, games in enumerate(sizes)]
    found = [set(kept_games(path)) for path in paths]
    assert len(set.union(*found)) == sum(map(len, found))
    return paths


def mix(sources: list[Path], weights: list[float], planes: str = "own", positions: int | None = None, **options):
    return load(kifu.Mixture(dict(zip(sources, weights)), positions), planes, **options)


def source_of(sources: list[Path]) -> dict[int, int]:
    return {key: k for k, path in enumerate(sources) for key in kept_games(path)}


def sizes_of(sources: list[Path], **options) -> list[int]:
    return [load(path, "own", **options).positions for path in sources]


# The twin

WEIGHT = st.sampled_from([0.1, 0.3, 0.7, 1, 2.5])
OPTIONS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "epoch": st.integers(0, 9),
        "positions": st.none() | st.sampled_from([1, 50, 200]),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([64, 300, 131_072]),
        "augment": st.booleans(),
        "world_size": st.integers(1, 4),
        "drop_last": st.booleans(),
        "batch_size": st.sampled_from([16, 100]),
    }
)


@pytest.mark.slow
@given(st.lists(WEIGHT, min_size=1, max_size=3), OPTIONS, st.booleans(), st.none() | st.integers(1, 20), st.data())
def test_epochs_match_the_twin(sources, weights, options, weighted, per_game, data):
    options["process_index"] = data.draw(st.integers(0, options["world_size"] - 1))
    ply_weights = {0: 0.5, 10: 1} if weighted else None
    found = [kept_games(path) for path in sources[: len(weights)]]
    by_ply = (lambda t: 0.5 if t < 10 else 1) if weighted else None
    wanted = naive_mixture.mixture_order(
        list(map(naive_games, found)), weights, choice={"per_game": per_game, "by_ply": by_ply}, **options
    )
    options |= {"per_game": per_game, "ply_weights": ply_weights, "jobs": 1}
    if wanted is None:
        with pytest.raises(RecipeError, match=r"an epoch needs [\d,]+ positions of .*, which has"):
            mix(sources, weights, **options)._plan()
        return
    loader = mix(sources, weights, **options)
    ids = list(map(list, found))
    assert loader.positions == len(wanted)
    assert (row_ids(loader) if wanted else []) == [(ids[s][g], t) for s, g, t, _ in wanted]


@pytest.mark.nojit
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 2)), max_size=8), st.data())
def test_select_part(drawn, data):
    """Each unit has `count` positions of the mixture, and `after` more in its source."""
    part, counts, after = (np.array([unit[k] for unit in drawn], np.int32) for k in range(3))
    own = np.arange(len(drawn), dtype=np.int32)  # each source holds all units, in the same order
    sizes = counts + after
    units = np.array(data.draw(st.permutations(range(len(drawn)))), np.int64)
    first = data.draw(st.integers(-3, 3))
    slot_of = np.array(data.draw(st.lists(st.integers(-1, 9), min_size=1, max_size=int(counts.sum()) + 4)), np.int32)
    starts = first + np.concatenate([[0], np.cumsum(counts[units])]).astype(int)
    for wanted in range(3):
        own_units, own_slots = np.empty(len(units), np.int64), np.empty(int(sizes.sum()), np.int32)
        n, end = select_part(units, first, slot_of, counts, part, own, wanted, sizes, own_units, own_slots)
        chosen = [k for k, u in enumerate(units) if part[u] == wanted]
        assert own_units[:n].tolist() == units[chosen].tolist()
        slots = []
        for k in chosen:
            at = range(starts[k], starts[k] + counts[units[k]])
            inside = [slot_of[q] if 0 <= q < len(slot_of) else -1 for q in at]
            slots += inside + [-1] * after[units[k]]
        assert own_slots[:end].tolist() == slots


# Shares


def test_an_epoch_ends_with_the_first_source(sources):
    sizes, where = sizes_of(sources), source_of(sources)
    loader = mix(sources, [0.5, 0.25, 0.25])
    rows = Counter(where[key] for key, _ in row_ids(loader))
    assert rows[2] == sizes[2]
    assert rows[1] == sizes[2]
    assert rows[0] == 2 * sizes[2]


def test_natural_proportions_deliver_each_position_once(sources):
    sizes = sizes_of(sources)
    every = sorted(chain.from_iterable(row_ids(load(path, "own")) for path in sources))
    for epoch in range(3):
        assert sorted(row_ids(mix(sources, sizes, epoch=epoch))) == every
        assert sorted(row_ids(mix(sources, [size / 1000 for size in sizes], epoch=epoch))) == every


@pytest.mark.parametrize("positions", [1, 7, 500])
def test_shares_are_exact_to_a_position(sources, positions):
    where, weights = source_of(sources), [0.6, 0.3, 0.1]
    for epoch in range(3):
        rows = Counter(where[key] for key, _ in row_ids(mix(sources, weights, positions=positions, epoch=epoch)))
        assert all(0 <= rows[k] - positions * weight < 1.000001 for k, weight in enumerate(weights))


def test_an_epoch_takes_no_more_than_a_source_has(sources):
    size = sizes_of(sources)[2]
    with pytest.raises(RecipeError, match=rf"an epoch needs {size + 1:,} positions of .*, which has {size:,}"):
        mix(sources, [1, 1, 1], positions=3 * size + 1)


def test_epochs_take_other_positions_in_other_orders(sources):
    loader = mix(sources, [1, 1, 1], shuffle=None)
    epochs = [row_ids(loader) for _ in range(3)]
    assert len(set(map(tuple, epochs))) == 3
    assert len(set(chain(*epochs))) > len(epochs[0])
    assert all(len(set(rows)) == len(rows) for rows in epochs)


@pytest.mark.parametrize("weights", [[0.7, 0.3], [0.2, 0.5, 0.3], [1, 1, 100]])
def test_each_range_of_the_sequence_holds_the_proportions(sources, weights):
    """A range of positions deviates by at most L * (1 + (K - 2) * p), with L the longest game."""
    where = source_of(sources)
    loader = mix(sources, weights, shuffle=None)
    of = np.array([where[key] for key, _ in row_ids(loader)])
    longest = max(len(game.moves) for path in sources for game in kept_games(path).values())
    for k in range(len(weights)):
        share = np.mean(of == k)
        ahead = np.concatenate([[0], np.cumsum((of == k) - share)])
        assert ahead.max() - ahead.min() <= longest * (1 + (len(weights) - 2) * share)


def test_equal_to_the_source_alone_under_its_own_seed(sources):
    """Planes and labels of a mixture are those that its sources render."""
    labels = ("move", "result", "ownership", "to_play")
    mixed = one_batch(mix(sources, [3, 2, 1], "seven", labels=labels, augment=False, batch_size=64))
    rows = {}
    for path in sources:
        batch = one_batch(load(path, "seven", labels=labels, augment=False))
        for k, at in enumerate(zip(batch.game.tolist(), batch.ply.tolist())):
            rows[at] = (batch.planes[k].tobytes(), *(batch.labels[name][k].tobytes() for name in labels))
    for k, at in enumerate(zip(mixed.game.tolist(), mixed.ply.tolist())):
        assert rows[at] == (mixed.planes[k].tobytes(), *(mixed.labels[name][k].tobytes() for name in labels))


# Processes and resuming


@pytest.mark.parametrize("output", ["packed", "float32"])
def test_resuming_is_bit_exact(sources, output):
    options = {"batch_size": 8, "positions": 120, "epoch": 4, "ply_weights": {0: 0.5}, "output": output}
    loader = mix(sources, [2, 1, 1], "seven", **options)
    whole = list(loader)
    other = mix(sources, [2, 1, 1], "seven", **options)
    for k, _ in enumerate(other):
        if k == 4:
            state = json.loads(json.dumps(other.state_dict()))
            break
    resumed = mix(sources, [2, 1, 1], "seven", **options, resume=state)
    rest = list(resumed)
    assert len(rest) == len(whole) - 5
    for one, same in zip(rest, whole[5:], strict=True):
        assert_same(one, same)
    after, expected = one_batch(resumed), one_batch(mix(sources, [2, 1, 1], "seven", **options | {"epoch": 5}))
    assert_same(after, expected)


def test_processes_that_resume_deliver_the_rest(sources):
    options = {"positions": 150, "epoch": 2, "batch_size": 5, "world_size": 3}
    whole = Counter(row_ids(mix(sources, [2, 1, 1], positions=150, epoch=2)))
    delivered, states = Counter(), []
    for k in range(3):
        loader = mix(sources, [2, 1, 1], process_index=k, **options)
        for batch in islice(loader, 7):
            delivered.update(zip(batch.game.tolist(), batch.ply.tolist()))
            states.append(loader.state_dict())
        delivered.update(row_ids(mix(sources, [2, 1, 1], process_index=k, resume=states[6], **options)))
    assert states[6] == states[13] == states[20]
    assert delivered == whole


def test_states_of_other_mixtures_are_refused(sources):
    state = mix(sources, [2, 1, 1]).state_dict()
    for other in (
        mix(sources, [2, 1, 1.5]), mix(sources[:2], [2, 1]), mix(sources[::-1], [2, 1, 1]),
        mix(sources, [2, 1, 1], positions=9), load(sources[0], "own"),
    ):  # fmt: skip
        with pytest.raises(RecipeError, match="the state is of another loader"):
            other.load_state_dict(state)
    with pytest.raises(RecipeError, match="the state is of another loader: source"):
        mix(sources, [2, 1, 1]).load_state_dict(load(sources[0], "own").state_dict())


def test_shards_and_pickled_loaders(sources):
    loader = mix(sources, [2, 1, 1], positions=150, batch_size=50).epoch(3)
    whole = Counter(row_ids(loader.epoch(3)))
    shards = [pickle.loads(pickle.dumps(loader.shard(k, 4))) for k in range(4)]
    assert sum((Counter(row_ids(shard)) for shard in shards), Counter()) == whole


# Sources


def test_a_source_of_several_paths(sources):
    one = mix(sources, [1, 1, 1])
    several = load({(str(sources[0]), sources[1]): 2, str(sources[2]): 1}, "own")
    assert len(several) == len(one)
    where = source_of(sources)
    assert {where[key] for key, _ in row_ids(several)} == {0, 1, 2}


def test_proportions_of_numpy(sources):
    one, two = sources[:2]
    assert row_ids(load({one: np.float64(0.75), two: np.int64(1)}, "own")) == row_ids(load({one: 0.75, two: 1}, "own"))


def test_names_are_distinct(sources):
    opened = load(sources[0], "own")._source
    mixture = kifu.Mixture({"http://a/games.parquet?key=1": 1, "http://a/games.parquet?key=2": 1, "b.parquet": 1})
    names = MixtureSource(mixture, [opened] * 3).names
    assert names == ("http://a/games.parquet (1)", "http://a/games.parquet (2)", "b.parquet")


def test_data_sets_can_be_mixed(sources, tmp_path):
    paths = []
    for k, path in enumerate(sources[:2]):
        loader = load(path, "own", augment=False, shuffle=None)
        paths.append(tmp_path / str(k))
        with open_writer("npy", paths[-1], loader.layout) as writer:
            writer.write(one_batch(loader))
            writer.commit({})
    where = source_of(sources)
    for loader in (load({paths[0]: 0.4, paths[1]: 0.6}), load({paths[0]: 0.4, sources[1]: 0.6}, "own")):
        rows = row_ids(loader)
        shares = Counter(where[key] for key, _ in rows)
        assert shares[1] == sizes_of(sources)[1]
        assert 0 <= shares[0] - shares[1] * 2 / 3 < 1
        assert len(set(rows)) == len(rows)


def test_bad_mixtures(sources, tmp_path):
    one, two = map(str, sources[:2])
    for value in (0, -1, float("nan"), float("inf"), True, "0.3", None):
        with pytest.raises(RecipeError, match=r"the proportion of .* must be a number > 0, got"):
            kifu.load({one: 0.5, two: value}, "own")
    with pytest.raises(RecipeError, match="requires at least one source"):
        kifu.load({}, "own")
    with pytest.raises(RecipeError, match="twice"):
        kifu.load({one: 0.5, f"{Path(one).parent}/./{Path(one).name}": 0.5}, "own")
    with pytest.raises(RecipeError, match="twice"):
        kifu.load({one: 0.5, (two, one): 0.5}, "own")
    with pytest.raises(SourceError):
        kifu.load({one: 0.5, tmp_path / "missing.parquet": 0.5}, "own")
    with pytest.raises(RecipeError, match="selects no position of"):
        kifu.load({one: 0.5, two: 0.5}, "own", filter=kifu.PositionFilter(min_ply=500))
    with pytest.raises(RecipeError, match="planes are required"):
        kifu.load({one: 0.5, two: 0.5})
    with pytest.raises(RecipeError, match="within 1 to"):
        kifu.Mixture({one: 1}, 0)

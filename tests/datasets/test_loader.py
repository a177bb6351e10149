"""The loader: examples, augmentation, epochs, states, sources, and errors."""

import json
import pickle
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import fsspec
import numpy as np
import pytest

import kifu
import naive_order
from catalogues import write_catalogue
from commands import run
from kgs_archives import archive, records
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import game_arrays
from kifu.datasets.examples import Batch, LabelSpec, Layout, pack_planes
from kifu.datasets.formats import formats_of, open_writer
from kifu.datasets.labels import augment_planes
from kifu.datasets.sources import CatalogueSource
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from loader_games import (
    RATING,
    apply_symmetry,
    assert_same,
    concat_batches,
    kept_games,
    load,
    make,
    naive_games,
    one_batch,
    row_ids,
)

LABELS = ("move", "next3", "to_play", "result", "margin", "ownership", "ranks", "komi", "ply")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), smalls=6)


@pytest.fixture(scope="module")
def moves_of(games: Path) -> dict[int, np.ndarray]:
    return {key: game.moves for key, game in kept_games(games).items()}


def symmetry_of(path: Path, seed: int = 0, epoch: int = 0) -> dict[int, int]:
    """Return the symmetry of each game by id, from the naive twin."""
    ids = list(kept_games(path))
    return {
        ids[g]: k
        for g, _, k in naive_order.epoch_order(naive_games(kept_games(path)), seed=seed, epoch=epoch, passes=True)
    }


def column(path: Path, name: str) -> list:
    return [value for batch in open_catalogue(path).batches((name,)) for value in batch[name].to_pylist()]


def plane_rows(path: Path, planes: str) -> dict[tuple[int, int], np.ndarray]:
    """Return the planes of `kifu.encode` by id and ply, for each move that is not a pass."""
    found = {}
    for key, game in kept_games(path).items():
        drawn, _ = kifu.encode(game, planes)
        plies = np.flatnonzero(game.moves & POINT_MASK != game.width * game.height)
        found |= {(key, int(t)): drawn[k] for k, t in enumerate(plies)}
    return found


# Examples


@pytest.mark.parametrize(
    "planes",
    [
        "clark8",
        "one-plane",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("seven", "agz17", "own_dan+own+opp_dan")),
    ],
)
def test_planes_and_moves_match_the_augmented_game(games, moves_of, planes):
    output = "float32" if planes == "one-plane" else "packed"
    loader = load(games, planes, seed=5, epoch=2, batch_size=100, output=output)
    wanted, symmetry = plane_rows(games, planes), symmetry_of(games, 5, 2)
    batch = one_batch(loader)
    ready = batch.planes if output == "float32" else batch.unpack_planes(loader.layout)
    assert len(batch) == len(wanted)
    assert len(set(symmetry.values())) > 4
    for row, key, t in zip(range(len(batch)), batch.game.tolist(), batch.ply.tolist()):
        assert np.array_equal(ready[row], apply_symmetry(wanted[key, t], symmetry[key])), (key, t)
        assert batch.labels["move"][row] == symmetries(19, 19)[symmetry[key], moves_of[key][t] & POINT_MASK]


def test_labels_match_the_augmented_game(games):
    batch = one_batch(load(games, "own", labels=LABELS, passes=True))
    found, symmetry = kept_games(games), symmetry_of(games)
    winners = dict(zip(column(games, "id"), column(games, "winner")))
    points = dict(zip(column(games, "id"), column(games, "margin")))
    assert set(points.values()) == {2.5, None}
    seen = Counter()
    for row, key, t in zip(range(len(batch)), batch.game.tolist(), batch.ply.tolist()):
        game, table = found[key], symmetries(19, 19)[symmetry[key]].tolist()
        mover = bool(game.moves[t] & WHITE_BIT)
        following = [table[word & POINT_MASK] for word in game.moves[t : t + 3].tolist()]
        assert batch.labels["next3"][row].tolist() == (following + [-1] * 3)[:3]
        assert batch.labels["move"][row] == following[0]
        assert batch.labels["to_play"][row] == (WHITE if mover else BLACK)
        winner = {"black": 1, "white": -1, "draw": 0, None: None}[winners[key]]
        seen[winner] += 1
        assert batch.labels["result"][row] == (-128 if winner is None else -winner if mover else winner)
        margin = 0 if winner == 0 else np.nan if points[key] is None else batch.labels["result"][row] * points[key]
        assert np.array_equal(batch.labels["margin"][row], margin, equal_nan=True)
        ratings = [np.nan if rank is None else rank.rating for rank in game.ranks]
        assert np.array_equal(batch.labels["ranks"][row], ratings[::-1] if mover else ratings, equal_nan=True)
        assert np.array_equal(batch.labels["komi"][row], np.nan if game.komi is None else game.komi, equal_nan=True)
    assert set(seen) == {1, -1, 0, None}
    assert "ply" not in batch.labels


def test_ownership_is_augmented_with_the_board(games):
    still = load(games, "own", labels=("ownership",), shuffle=None, augment=False)
    straight, symmetry = one_batch(still), symmetry_of(games)
    rows = {at: row for row, at in enumerate(zip(straight.game.tolist(), straight.ply.tolist()))}
    reported = 0
    batch = one_batch(load(games, "own", labels=("ownership",)))
    for row, (key, t) in enumerate(zip(batch.game.tolist(), batch.ply.tolist())):
        wanted = straight.labels["ownership"][rows[key, t]].reshape(19, 19)
        assert np.array_equal(batch.labels["ownership"][row].reshape(19, 19), apply_symmetry(wanted, symmetry[key]))
        reported += wanted[0, 0] != -128
    assert 0 < reported < len(batch)


@pytest.mark.nojit
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(("width", "height"), [(5, 5), (3, 3), (4, 2), (19, 19)])
def test_augment_planes(width, height, real):
    layout = Layout("", ("a", "b"), real, width, height, 0, "top", (LabelSpec("move", "int16", (), ""),))
    kinds = range(8 if width == height else 4)
    planes = np.random.default_rng(1).integers(0, 2, (len(kinds), 2, height, width), np.uint8)
    found = augment_planes(pack_planes(planes, layout), np.array(kinds, np.uint8), layout)
    assert np.array_equal(found, pack_planes(np.stack([apply_symmetry(planes[k], k) for k in kinds]), layout))


@pytest.mark.parametrize(("output", "kind"), [("uint8", np.uint8), ("float32", np.float32), ("bfloat16", np.uint16)])
def test_output_forms(games, output, kind):
    packed = one_batch(load(games, "seven", batch_size=50))
    loader = load(games, "seven", batch_size=50, output=output)
    ready = one_batch(loader)
    assert ready.planes.dtype == kind
    values = (ready.planes.astype(np.uint32) << 16).view(np.float32) if output == "bfloat16" else ready.planes
    assert np.array_equal(values, packed.unpack_planes(loader.layout))
    assert np.array_equal(ready.labels["move"], packed.labels["move"])


def test_arrays_may_be_changed(games):
    batches = list(load(games, "seven", batch_size=64))
    again = []
    for batch in load(games, "seven", batch_size=64):
        again.append(Batch(batch.planes.copy(), dict(batch.labels), batch.game, batch.ply))
        batch.planes[:] = 255
    for one, other in zip(batches, again, strict=True):
        assert_same(one, other)


def test_small_boards_are_padded(games):
    loader = load(games, "own+board", board="9x9", pad=True, labels=("move", "next2", "ownership"), batch_size=7)
    batch = one_batch(loader)
    found = kept_games(games, 9, 9) | kept_games(games, 9, 7)
    assert set(batch.game.tolist()) == set(found)
    ready = batch.unpack_planes(loader.layout)
    shapes = set()
    for row, (key, t) in enumerate(zip(batch.game.tolist(), batch.ply.tolist())):
        game = found[key]
        board = ready[row, 1]
        height, width = int(board.any(axis=1).sum()), int(board.any(axis=0).sum())
        shapes.add((game.width, game.height, width, height))
        assert sorted((width, height)) == sorted((game.width, game.height))
        assert board[:height, :width].all()
        assert board.sum() == width * height
        y, x = divmod(int(batch.labels["move"][row]), 9)
        assert board[y, x]
        assert not ready[row, 0][y, x]
        assert batch.labels["next2"][row][0] == batch.labels["move"][row]
        own = int(ready[row, 0].sum())
        assert own == t // 2
    assert len(shapes) >= 2  # as they are, and lying on their side where they are no squares


def test_rectangular_boards_have_four_symmetries(games):
    loader = load(games, "own", board="9x7")
    assert loader.layout.shape == (1, 7, 9)
    assert set(one_batch(loader).game.tolist()) == set(kept_games(games, 9, 7))


# Position filter


def test_passes(games, moves_of):
    without, with_passes = (one_batch(load(games, "own", passes=passes)) for passes in (False, True))
    passes = sum(int(np.count_nonzero(moves & POINT_MASK == 361)) for moves in moves_of.values())
    assert passes > 5
    assert without.labels["move"].max() < 361
    assert int(np.count_nonzero(with_passes.labels["move"] == 361)) == passes
    assert len(with_passes) - passes == len(without)


def test_ply_weights(games):
    every = Counter(ply for _, ply in row_ids(load(games, "own")))
    some = Counter(ply for _, ply in row_ids(load(games, "own", ply_weights={5: 1, 20: 0.5, 30: 0})))
    assert min(some) == 5
    assert max(some) == 29
    assert [some[t] for t in range(5, 20)] == [every[t] for t in range(5, 20)]
    half = sum(every[t] for t in range(20, 30))
    assert 0.35 * half < sum(some[t] for t in range(20, 30)) < 0.65 * half


def test_rank_weights(games):
    batch = one_batch(load(games, "own", labels=("ranks",), rank_weights={"1d": 1, "7d": 0}))
    assert set(batch.labels["ranks"][:, 0].tolist()) == {RATING["1d"], RATING["3d"]}
    batch = one_batch(load(games, "own", labels=("ranks",), rank_weights={"?": 1, "7d": 1}))
    assert {None if np.isnan(rating) else rating for rating in batch.labels["ranks"][:, 0].tolist()} == {38, None}


def test_per_game_samples_anew_in_each_epoch(games):
    loader = load(games, "own", per_game=3)
    first, second = set(row_ids(loader)), set(row_ids(loader))
    for found in (first, second):
        assert set(Counter(key for key, _ in found).values()) == {3}
    assert len(first & second) < len(first) / 2


# Epochs and states


def test_loops_yield_consecutive_epochs(games):
    loader = load(games, "own", seed=1)
    reported = [row_ids(loader) for _ in range(3)]
    assert reported == [row_ids(load(games, "own", seed=1, epoch=k)) for k in range(3)]
    assert reported[1] == row_ids(loader.epoch(1))
    assert loader.epoch_number == 3
    loader.set_epoch(1)
    assert row_ids(loader) == reported[1]
    assert loader.epoch_number == 2


@pytest.mark.parametrize("mixed", [False, True])
def test_each_loop_is_the_next_epoch(games, mixed):
    """Also after a loop that ended early, or while another one runs; only a loaded state continues an epoch."""
    loader = load({games: 1} if mixed else games, "own", batch_size=64)
    epochs = [[batch.game.tolist() for batch in loader.epoch(k)] for k in range(8)]
    ids = lambda batches: [batch.game.tolist() for batch in batches]  # noqa: E731
    iter(loader)  # requests no batch
    assert ids(islice(loader, 2)) == epochs[0][:2]
    state = loader.state_dict()
    with pytest.raises(AttributeError):
        [batch.nothing for batch in loader]
    assert list(map(ids, zip(loader, loader))) == list(map(list, zip(epochs[2], epochs[3])))
    assert (loader.state_dict()["epoch"], loader.epoch_number) == (3, 4)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert [ids(loader), ids(loader)] == [epochs[0][2:], epochs[1]]
    loader.set_epoch(7)
    assert ids(loader) == epochs[7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ply_weights": {500: 1}}, "epoch 0 has 0 positions"),
        ({"batch_size": 5000, "drop_last": True}, "batch of 5,000"),
    ],
)
def test_empty_epochs_are_reported(games, options, message):
    with pytest.warns(UserWarning, match=message):
        assert list(load(games, "own", **options)) == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"per_game": 5, "output": "uint8"}, id="drawn"),
        pytest.param({}, id="window", marks=pytest.mark.slow),
        pytest.param({"shuffle": "global", "memory": 400_000}, id="global", marks=pytest.mark.slow),
        pytest.param({"shuffle": None}, id="unshuffled", marks=pytest.mark.slow),
    ],
)
def test_resuming_is_bit_exact(games, options):
    options = {"batch_size": 96, "seed": 9, "epoch": 1, "labels": LABELS, "window": 200, "memory": 10**6} | options
    loader = load(games, "seven", **options)
    per_epoch = len(loader)
    batches = [*loader, *loader]
    assert len(batches) == 2 * per_epoch > 2
    for stop in range(len(batches) + 1):
        loader = load(games, "seven", **options)
        running = chain(loader, loader)
        before = list(islice(running, stop))
        again = load(games, "seven", resume=json.loads(json.dumps(loader.state_dict())), **options)
        rest = [*again, *again, *again][: len(batches) - stop]
        for one, other in zip(batches, before + rest, strict=True):
            assert_same(one, other)


def test_start_at_a_later_batch(games):
    loader = load(games, "own", batch_size=50)
    batches = list(loader)
    for k in (0, 1, 7, len(batches)):
        assert_same(concat_batches(batches[k:], loader.layout), one_batch(loader.epoch(0, k)))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"jobs": 1}, {"jobs": 5}, {"memory": 50_000}, {"memory": 10**9}])
@pytest.mark.parametrize("shuffle", ["window", "global"])
def test_batches_do_not_depend_on_threads_or_memory(games, monkeypatch, options, shuffle):
    monkeypatch.setattr("kifu.datasets.loader._CHUNK", 100)
    reported = {"labels": LABELS, "batch_size": 33, "shuffle": shuffle, "window": 250}
    assert_same(
        one_batch(load(games, "seven", **reported, **options)), one_batch(load(games, "seven", jobs=2, **reported))
    )


def test_threads_end_with_the_loop(games):
    before = threading.active_count()
    loader = load(games, "seven", batch_size=8)
    for k, _ in enumerate(loader):
        if k == 3:
            break
    running = iter(loader)
    next(running)
    running.close()
    assert threading.active_count() == before


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_loop_may_run_until_the_interpreter_exits(games):
    """Module globals are gone by then, because torch clears them before the loop ends."""
    script = "import sys, torch, kifu; loop = iter(kifu.load(sys.argv[1], 'seven', batch_size=8)); next(loop)"
    done = subprocess.run([sys.executable, "-c", script, games], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_a_loader_can_be_pickled(games):
    loader = load(games, "seven", batch_size=40, labels=LABELS, per_game=4)
    next(iter(loader))
    assert_same(one_batch(pickle.loads(pickle.dumps(loader))), one_batch(loader))


def test_shards_cover_the_process(games):
    loader = load(games, "own", process_index=1, world_size=2)
    parts = [row_ids(loader.shard(k, 3)) for k in range(3)]
    assert sorted(chain(*parts)) == sorted(row_ids(loader))


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"shuffle": "global"}, {"shuffle": None}])
def test_shards_reuse_the_plan(games, monkeypatch, options):
    def make_loader():
        return load(games, "own", process_index=1, world_size=2, batch_size=7, window=50, per_game=9, **options)

    apart = [one_batch(make_loader().shard(k, 3)) for k in range(3)]
    sized = one_batch(make_loader().with_batch_size(20))
    planned = make_loader()
    assert planned.positions
    with monkeypatch.context() as patched:
        patched.setattr(CatalogueSource, "select", None)
        for part, k in zip(apart, range(3)):
            assert_same(one_batch(planned.shard(k, 3)), part)
        assert_same(one_batch(planned.with_batch_size(20)), sized)
        list(planned)
    assert_same(one_batch(planned.shard(0, 3)), one_batch(make_loader().epoch(1).shard(0, 3)))  # of the next one


# Sources


def test_archives_equal_their_catalogue(games):
    source = next(games.parent.glob("KGS-*"))
    assert_same(one_batch(load(source, "seven")), one_batch(load([games], "seven")))


@pytest.mark.usefixtures("cache")
def test_remote_archives_equal_local_ones(games):
    source = next(games.parent.glob("KGS-*"))
    fsspec.filesystem("memory").pipe(f"/loader/{source.name}", source.read_bytes())
    assert_same(one_batch(load(source, "seven")), one_batch(load(f"memory://loader/{source.name}", "seven")))


def test_catalogues_come_before_archives(tmp_path, games):
    more = archive(tmp_path, records(4, 99, 30))
    both = load([more, games], "own", shuffle=None)
    first = list(dict.fromkeys(key for key, _ in row_ids(both)))
    assert first[: len(kept_games(games))] == list(kept_games(games))
    assert len(first) == len(kept_games(games)) + 4


def test_train_and_test_never_mix(games, tmp_path):
    run("split", str(games), "--output", str(tmp_path), "--set", "split.sets={train=70.0,test=30.0}")
    train, test = (tmp_path / f"{name}.parquet" for name in ("train", "test"))
    ids = [{key for key, _ in row_ids(load(path, "own", epoch=2))} for path in (train, test)]
    assert all(ids)
    assert not ids[0] & ids[1]
    assert ids[0] | ids[1] == set(kept_games(games))
    openings = [set(column(path, "opening")) for path in (train, test)]
    assert not openings[0] & openings[1]


def write(name: str, path: Path, batch: Batch, layout: Layout) -> Path:
    with open_writer(name, path, layout) as writer:
        writer.write(batch)
        writer.commit({})
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in formats_of("examples").items() if each.has_provenance])
def test_data_sets_are_augmented(games, tmp_path, monkeypatch, name):
    monkeypatch.setattr("kifu.datasets.examples.RUN_ROWS", 16)
    monkeypatch.setattr("kifu.datasets.parquet._MAX_GROUP_ROWS", 64)
    if name == "hdf5@2":
        pytest.importorskip("h5py")
    labels = ("move", "next2", "ownership", "ranks")
    straight = load(games, "seven", labels=labels, shuffle=None, augment=False)
    batch, layout = one_batch(straight), straight.layout
    path = write(name, tmp_path / f"set{formats_of('examples')[name].suffix}", batch, layout)
    assert_same(one_batch(load(path, shuffle=None, augment=False)), batch)
    rows = {at: row for row, at in enumerate(zip(batch.game.tolist(), batch.ply.tolist()))}
    loader = load(path, "seven", seed=4, window=200, batch_size=60)
    shuffled = one_batch(loader)
    assert sorted(zip(shuffled.game.tolist(), shuffled.ply.tolist())) == sorted(rows)
    assert_same(shuffled, one_batch(load(path, seed=4, window=200, batch_size=60, memory=50_000, jobs=3)))
    ready, before = shuffled.unpack_planes(layout), batch.unpack_planes(layout)
    used = Counter()
    for row, at in enumerate(zip(shuffled.game.tolist(), shuffled.ply.tolist())):
        was = rows[at]
        # Which symmetry it is, its planes tell; position by position, since an empty board looks the same in all.
        fits = [k for k in range(8) if np.array_equal(ready[row], apply_symmetry(before[was], k))]
        table = symmetries(19, 19)[fits]
        moves = [batch.labels["move"][was], *batch.labels["next2"][was]]
        reported = [shuffled.labels["move"][row], *shuffled.labels["next2"][row]]
        both = [k for k, to in zip(fits, table) if [to[p] if p >= 0 else p for p in moves] == reported]
        assert both
        used.update(both[:1])
        owned = batch.labels["ownership"][was].reshape(19, 19)
        assert np.array_equal(shuffled.labels["ownership"][row].reshape(19, 19), apply_symmetry(owned, both[0]))
        assert np.array_equal(shuffled.labels["ranks"][row], batch.labels["ranks"][was], equal_nan=True)
    assert set(used) == set(range(8))


def test_a_resumed_epoch_can_be_restarted(games):
    first = load(games, "own", batch_size=10, world_size=2)
    list(islice(first, 3))
    rest = load(games, "own", batch_size=10, world_size=2, resume=first.state_dict())
    assert_same(one_batch(rest.epoch(0)), one_batch(load(games, "own", batch_size=10, world_size=2)))


def test_data_sets_resume_and_are_divided_among_processes(games, tmp_path):
    straight = load(games, "one-plane", shuffle=None, augment=False, output="float32")
    stored = Batch(*(getattr(one_batch(straight), name) for name in ("planes", "labels", "game", "ply")))
    stored = Batch(stored.planes.reshape(len(stored), 1, 361), stored.labels, stored.game, stored.ply)
    halves = [stored.slice(0, 500), stored.slice(500, len(stored))]
    paths = [write("npy@1", tmp_path / str(k), half, straight.layout) for k, half in enumerate(halves)]
    options = {"batch_size": 70, "output": "float32", "window": 300}
    loader = load(paths, **options)
    batches = list(loader)
    loader = load(paths, **options)
    running = iter(loader)
    for _ in range(5):
        next(running)
    state = loader.state_dict()
    running.close()
    assert_same(one_batch(load(paths, resume=state, **options)), concat_batches(batches[5:], loader.layout))
    shares = [row_ids(load(paths, process_index=k, world_size=3, **options)) for k in range(3)]
    assert sorted(chain(*shares)) == sorted(zip(stored.game.tolist(), stored.ply.tolist()))
    with pytest.raises(RecipeError, match="source was"):
        load(paths[0], resume=state, **options)


@pytest.mark.parametrize("name", ["dat1", "dat2"])
def test_dat_files_are_augmented_in_their_frame(tmp_path, name):
    source = archive(tmp_path, records(12, 5, 30))
    recipe = load_recipe(f"kgsgo-v{name[-1]}", ("until=2018", "sets.test.games=4"))
    index = tmp_path / "index.html"
    index.write_text(f'<a href="https://u-go.net/{source.name}">Download</a>')
    (built, *_) = build(recipe, [source], tmp_path / "built", sets=["test"], index=index)
    with kifu.open(built.path) as data:
        before, moves = data.to_numpy()
        layout = data.layout
    loader = load(built.path, epoch=3, batch_size=10)
    batch = one_batch(loader)
    assert loader.layout == layout
    assert len(batch) == len(before)
    lines = {}
    for planes, move in zip(before, moves.tolist()):
        for k in range(8):
            lines[apply_symmetry(planes, k).tobytes(), int(symmetries(19, 19)[k, move])] = True
    for planes, move in zip(batch.unpack_planes(layout), batch.labels["move"].tolist()):
        assert (planes.tobytes(), move) in lines


def test_an_empty_data_set_yields_no_batches(games, tmp_path):
    straight = load(games, "seven", shuffle=None, augment=False)
    loader = load(write("npy@1", tmp_path / "none", one_batch(straight).slice(0, 0), straight.layout))
    with pytest.warns(UserWarning, match="epoch 0 has 0 positions"):
        assert (len(loader), list(loader)) == (0, [])


@pytest.mark.slow
def test_an_epoch_of_real_games_has_each_position_once(shared, tmp_path):
    path = tmp_path / "kgs.parquet"
    kifu.ingest(sorted((shared / "data" / "kgs").glob("KGS-2016*")), path)
    keys = lambda game, ply: game * np.uint64(10_007) + ply.astype(np.uint64)  # noqa: E731 - no two alike by chance
    wanted = []
    for batch in open_catalogue(path).batches():
        games = game_arrays(batch.filter(batch["drop"].is_null()))
        ids = batch.filter(batch["drop"].is_null())["id"].to_numpy()
        plies = np.diff(games.move_offset)
        ply = np.arange(len(games.moves)) - np.repeat(games.move_offset[:-1], plies)
        wanted.append(keys(np.repeat(ids, plies), ply)[games.moves & POINT_MASK != 361])
    for shuffle in ("window", "global"):
        loader = load(path, "own", batch_size=4096, shuffle=shuffle, memory=1 << 30)
        found = np.concatenate([keys(batch.game, batch.ply) for batch in loader])
        # Sorted, since some games are there twice.
        assert np.array_equal(np.sort(found), np.sort(np.concatenate(wanted)))


# Errors


def error_message(error, source, *arguments, **options):
    with pytest.raises(error) as caught:
        list(load(source, *arguments, **options))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"planes": "sven"}, "did you mean 'seven'?"),
        ({"planes": None}, "planes are required"),
        ({"planes": "kgsgo7"}, "dat1 and dat2 files only"),
        ({"planes": "one-plane"}, "output must be 'float32'"),
        ({"output": "uint16"}, "did you mean 'uint8'?"),
        ({"shuffle": "globl"}, "did you mean 'global'?"),
        ({"labels": ("mov",)}, "did you mean 'move'?"),
        ({"labels": ("move", "move")}, "listed twice"),
        ({"labels": ("ply",)}, "at least one label besides"),
        ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
        ({"window": 0}, "window must be >= 1, got 0"),
        ({"world_size": 0}, "world_size must be >= 1, got 0"),
        ({"process_index": 2, "world_size": 2}, "process_index must be within 0 to world_size - 1 = 1, got 2"),
        ({"seed": -1}, "seed must be within 0 to 2**63 - 1, got -1"),
        ({"epoch": -1}, "epoch must be an integer >= 0, got -1"),
        ({"jobs": 0}, "jobs must be >= 1, got 0"),
        ({"board": "19"}, "board must be like 19x19, got '19'"),
        ({"per_game": 0}, "per_game must be within 1 to 1,000,000, got 0"),
        ({"per_game": "x"}, "per_game must be within 1 to 1,000,000, got 'x'"),
        ({"sed": 3}, "load has no option 'sed'; did you mean 'seed'?"),
        ({"ply_weights": {3: 2}}, "ply_weights must be within 0 to 1, got 2 for 3"),
        ({"ply_weights": {-3: 1}}, "got -3"),
        ({"rank_weights": {"strong": 1}}, "'strong' is not a rank"),
    ],
)
def test_invalid_options_are_named(games, options, message):
    assert message in error_message(RecipeError, games, **({"planes": "seven"} | options))


def test_missing_games_are_reported(games, tmp_path):
    assert "no game on a 5 x 5 board" in error_message(SourceError, games, "seven", board="5x5")
    assert "nowhere" in error_message(SourceError, tmp_path / "nowhere", "seven")


def test_data_sets_define_their_planes_and_labels(games, tmp_path):
    straight = load(games, "seven", shuffle=None, augment=False)
    path = write("npy@1", tmp_path / "set", one_batch(straight), straight.layout)
    assert "has planes seven@1, not own" in error_message(RecipeError, path, "own")
    for options in ({"labels": ("result",)}, {"passes": True}, {"per_game": 2}, {"board": "19x19"}, {"pad": True}):
        assert "apply to games only" in error_message(RecipeError, path, **options)
    assert "is not a data set" in error_message(RecipeError, [path, games], "seven")
    other = load(games, "own", shuffle=None, augment=False)
    beside = write("npy@1", tmp_path / "other", one_batch(other), other.layout)
    assert "other planes or labels" in error_message(RecipeError, [path, beside])


def test_unknown_labels_cannot_be_augmented(games, tmp_path):
    straight = load(games, "seven", labels=("komi",), shuffle=None, augment=False)
    batch, reported = one_batch(straight), straight.layout
    layout = replace(reported, labels=(replace(reported.labels[0], name="temperature"),))
    batch = Batch(batch.planes, {"temperature": batch.labels["komi"]}, batch.game, batch.ply)
    path = write("npy@1", tmp_path / "set", batch, layout)
    assert "'temperature' does not support augmentation" in error_message(RecipeError, path)
    assert len(one_batch(load(path, augment=False))) == len(batch)


def test_wrong_move_counts_of_a_catalogue_are_reported(games, tmp_path):
    (batch,) = open_catalogue(games).batches()
    keep = [k for k, drop in enumerate(batch["drop"].to_pylist()) if drop == "occupied"]
    row = batch.take(keep).to_pylist()[0] | {"drop": None}
    row["n_legal"] = row["n_moves"]
    broken = write_catalogue(tmp_path / "broken.parquet", type(batch).from_pylist([row], batch.schema))
    message = error_message(FormatError, broken, "seven")
    assert message == f"game {row['id']:016x}: move 3 cannot be played: a move on an occupied point"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "version 1 is not supported, only version 5"),
        ({"order": None}, "not a state of a loader"),
        ({"batch": -5}, "batch must be an integer >= 0, got -5"),
        ({"batch": 0.5}, "batch must be an integer >= 0, got 0.5"),
        ({"epoch": "1"}, "epoch must be an integer >= 0, got '1'"),
    ],
)
def test_invalid_states_are_rejected(games, change, message):
    state = load(games, "own").state_dict() | change
    assert message in error_message(RecipeError, games, "own", resume=state)
    assert "not a state of a loader" in error_message(RecipeError, games, "own", resume={})


@pytest.mark.parametrize(
    "options",
    [{"seed": 1}, {"batch_size": 9}, {"shuffle": "global"}, {"augment": False}, {"passes": True}, {"window": 5},
     {"world_size": 2}, {"ply_weights": {3: 1}}, {"drop_last": True}],
    ids=str,
)  # fmt: skip
def test_states_of_other_options_are_rejected(games, options):
    state = load(games, "own").state_dict()
    (name,) = options
    assert f"{name} was" in error_message(RecipeError, games, "own", resume=state, **options)


def test_the_rest_of_an_epoch_has_no_shards(games):
    loader = load(games, "own", batch_size=10)
    next(iter(loader))
    again = load(games, "own", batch_size=10, resume=loader.state_dict())
    with pytest.raises(RecipeError, match="in the middle of an epoch"):
        again.shard(0, 2)

"""Reports of draws equal counts of the delivered batches, also for processes, resumed epochs and mixtures."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kifu
import naive_mixture
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.stats import BANDS
from kifu.datasets.draws import Draws, count_drawn, mark_drawn
from kifu.datasets.formats import open_writer
from kifu.errors import RecipeError
from kifu.point import WHITE_BIT
from kifu.report.tables import print_draws
from loader_games import kept_games, load, make, naive_games, one_batch

BAND = {34: "3d", 38: "7d", None: "unknown", 27: "5-1k", 32: "1d"}

COLUMNS = ("id", "black_rating", "white_rating", "year", "winner", "canonical", "moves")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    drawn = ((20, 0), (7, 1), (12, 0))
    return [make(tmp_path_factory.mktemp("games"), games, 30, seed) for games, seed in drawn]


def rows_of(path: Path) -> dict[int, dict]:
    (batch,) = open_catalogue(path).batches(COLUMNS)
    kept = kept_games(path)
    return {row["id"]: row for row in batch.to_pylist() if row["id"] in kept}


def naive_draws(epoch: int, examples: list[tuple[str, dict, int]], games: dict[str, int]) -> dict:
    """Count examples (source, row of the game, ply) in plain Python. games: number of games of each source."""
    counted = {name: Counter() for name in ("ranks", "plies", "years", "colours", "results")}
    for _, row, ply in examples:
        white = bool(row["moves"][ply] & WHITE_BIT)
        mover = ("black", "white")[white]
        winner = row["winner"]
        counted["ranks"][BAND[row[f"{mover}_rating"]]] += 1
        counted["plies"][f"{ply // 20 * 20}-{ply // 20 * 20 + 19}"] += 1
        counted["years"][str(row["year"] or "unknown")] += 1
        counted["colours"][mover] += 1
        counted["results"][
            "unknown" if winner is None else winner if winner == "draw" else ("loss", "win")[winner == mover]
        ] += 1
    at = Counter((source, row["id"]) for source, row, _ in examples)
    distinct = {(source, row["id"], ply): row["canonical"] for source, row, ply in examples}
    canonical = {(source, row["id"]): row["canonical"] for source, row, _ in examples}
    return {
        "epoch": epoch,
        "examples": len(examples),
        "sources": {
            name: {
                "examples": (own := sum(n for (source, _), n in at.items() if source == name)),
                "share": own / max(len(examples), 1),
                "games": sum(source == name for source, _ in at),
                "all_games": games[name],
            }
            for name in games
        },
        **{name: dict(counts) for name, counts in counted.items()},
        "games": len(at),
        "per_game": {
            name: float(f(list(at.values()))) if at else 0.0
            for name, f in (("min", min), ("median", np.median), ("mean", np.mean), ("max", max))
        },
        "duplicate_games": len(canonical) - len(set(canonical.values())),
        "duplicates": len(distinct) - len({(game, ply) for (_, _, ply), game in distinct.items()}),
    }


def assert_draws(draws: Draws, wanted: dict) -> None:
    found = draws.to_dict()
    for name in ("ranks", "plies", "years", "colours", "results"):
        assert sum(found[name].values()) == found["examples"]
        found[name] = {key: n for key, n in found[name].items() if n}
    assert found == wanted


OPTIONS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**63 - 1),
        "epoch": st.integers(0, 3),
        "shuffle": st.sampled_from(["window", "global", None]),
        "window": st.sampled_from([64, 131_072]),
        "world_size": st.integers(1, 3),
        "drop_last": st.booleans(),
        "batch_size": st.sampled_from([16, 100]),
        "per_game": st.none() | st.integers(1, 20),
        "passes": st.booleans(),
    }
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:epoch:UserWarning")
@given(OPTIONS, st.none() | st.integers(0, 9), st.integers(0, 4), st.data())
def test_draws_equal_the_delivered_batches(sources, options, batches, skipped, data):
    options["process_index"] = data.draw(st.integers(0, options["world_size"] - 1))
    rows = rows_of(sources[0])
    loader = load(sources[0], "own", jobs=1, **options).epoch(options["epoch"], skipped)
    delivered = [
        ("games", rows[key], ply)
        for _, batch in zip(range(10**6 if batches is None else batches), loader.epoch(options["epoch"], skipped))
        for key, ply in zip(batch.game.tolist(), batch.ply.tolist())
    ]
    assert_draws(loader.draws(batches), naive_draws(options["epoch"], delivered, {"games": len(rows)}))


@pytest.mark.slow
@given(OPTIONS, st.lists(st.sampled_from([0.1, 0.3, 1]), min_size=3, max_size=3), st.sampled_from([None, 100]))
def test_draws_of_mixtures_match_the_twin(sources, options, weights, positions):
    options = {**options, "drop_last": False}
    given_options = dict(options)
    rows = [list(rows_of(path).values()) for path in sources]
    choice = {name: options.pop(name) for name in ("per_game", "passes")}
    order = naive_mixture.mixture_order(
        [naive_games(kept_games(path)) for path in sources], weights, positions=positions, choice=choice, **options
    )
    assume(order is not None)
    loader = load(kifu.Mixture(dict(zip(sources, weights)), positions), "own", **given_options)
    names = list(map(str, sources))
    wanted = [(names[s], rows[s][g], t) for s, g, t, _ in order]
    draws = loader.draws()
    assert_draws(draws, naive_draws(options["epoch"], wanted, dict(zip(names, map(len, rows)))))


def test_duplicates(sources):
    shared = kept_games(sources[2])
    alone = load(sources[2], "own", passes=True).positions
    natural = {path: load(path, "own", passes=True).positions for path in (sources[0], sources[2])}
    draws = load(natural, "own", passes=True).draws()
    assert (draws.duplicate_games, draws.duplicates) == (len(shared), alone)


def test_processes_add_up_to_an_epoch(sources):
    whole = load(sources[0], "own", seed=4).draws()
    options = {"seed": 4, "world_size": 3, "shuffle": "window", "window": 64}
    parts = [load(sources[0], "own", process_index=k, **options) for k in range(3)]
    assert sum(part.draws().examples for part in parts) == whole.examples
    for name in ("ranks", "plies", "years", "colours", "results"):
        total = Counter()
        for part in parts:
            total.update(getattr(part.draws(), name))
        assert +total == +Counter(getattr(whole, name))
    assert list(whole.ranks) == [band for band in BANDS if band in whole.ranks]


def test_weights_show_in_the_draws(sources):
    draws = load(sources[0], "own", rank_weights={"1d": 1}, ply_weights={20: 1}).draws()
    assert set(draws.ranks) == {"1d", "3d", "7d"}
    assert set(draws.plies) == {"20-39"}
    empty = load(sources[0], "own", min_ply=999).draws()
    assert (empty.examples, empty.games, empty.per_game["max"]) == (0, 0, 0)


def test_draws_of_data_sets_are_refused(sources, tmp_path):
    loader = load(sources[0], "own", augment=False, shuffle=None)
    with open_writer("npy", tmp_path / "rows", loader.layout) as writer:
        writer.write(one_batch(loader))
        writer.commit({})
    with pytest.raises(RecipeError, match="for games only"):
        load(tmp_path / "rows").draws()
    with pytest.raises(RecipeError, match="for games only"):
        load({tmp_path / "rows": 1, sources[1]: 1}, "own").draws()
    with pytest.raises(RecipeError, match="batch must be an integer >= 0, got -1"):
        loader.draws(-1)


def test_the_table(sources, capsys):
    print_draws(load({str(sources[0]): 0.75, str(sources[1]): 0.25}, "own").draws())
    text = capsys.readouterr().out
    assert "75.0%" in text
    assert "unknown" in text
    assert all(len(line) <= 80 or str(sources[0]) in line for line in text.splitlines())


# Kernels

MARKS = st.lists(st.lists(st.booleans(), max_size=8), min_size=1, max_size=8)


@pytest.mark.nojit
@given(MARKS, st.data())
def test_mark_drawn(marks, data):
    offset = np.cumsum([0, *map(len, marks)])
    units = np.array(data.draw(st.permutations(range(len(marks)))))
    first = data.draw(st.integers(-3, 3))
    rank = np.array(data.draw(st.lists(st.integers(-1, 5), min_size=1, max_size=40)), np.int32)
    selected = np.packbits(np.array([mark for game in marks for mark in game], np.bool_), bitorder="little")
    drawn = np.zeros_like(selected)
    mark_drawn(units, first, rank, offset, selected, drawn)
    positions = [offset[g] + t for g in units for t, mark in enumerate(marks[g]) if mark]
    wanted = [k for q, k in enumerate(positions, first) if 0 <= q < len(rank) and rank[q] >= 0]
    assert np.flatnonzero(np.unpackbits(drawn, bitorder="little")).tolist() == sorted(wanted)


@pytest.mark.nojit
@given(MARKS, st.integers(1, 9), st.data())
def test_count_drawn(marks, classes, data):
    offset = np.cumsum([0, *map(len, marks)])
    whites = [data.draw(st.lists(st.booleans(), min_size=len(game), max_size=len(game))) for game in marks]
    moves = np.array([white * WHITE_BIT for game in whites for white in game], np.uint16)
    drawn = np.packbits(np.array([mark for game in marks for mark in game], np.bool_), bitorder="little")
    by_player, by_ply = np.zeros((len(marks), 2), np.int64), np.zeros(classes, np.int64)
    count_drawn(moves, offset, drawn, by_player, by_ply)
    found = [
        (g, white, t) for g, game in enumerate(marks) for t, mark in enumerate(game) if mark for white in [whites[g][t]]
    ]
    assert by_player.tolist() == [[sum(e[:2] == (g, w) for e in found) for w in (0, 1)] for g in range(len(marks))]
    assert by_ply.tolist() == [sum(min(t, classes - 1) == k for *_, t in found) for k in range(classes)]
    assert [int(by_player[g].sum()) for g in range(len(marks))] == [int(np.sum(game)) for game in marks]

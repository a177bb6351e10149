"""Global inputs: where they come from, how they are encoded, and the laws of their encoding."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from commands import run
from kgs_archives import archive
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.datasets import global_inputs
from kifu.datasets import global_inputs as gi
from kifu.datasets.labels import check_augmentable, inputs_label
from kifu.errors import RecipeError
from kifu.point import WHITE_BIT
from loader_games import load, make
from runs import SAMPLE

ROOTS = (
    "KM[6.5]HA[0]RU[Japanese]BR[3d]WR[5k]DT[2011-05-07]TM[600]OT[5x30 byo-yomi]PC[KGS]",
    "KM[0.5]HA[3]RU[Chinese]BR[9p]WR[30k]DT[1987]TM[3600]PC[OGS: https://online-go.com/game/1]",
    "KM[?]RU[AGA]BR[?]WR[1d?]DT[unknown]OT[25/600 Canadian]",
    "HA[2]AB[dd][pp]RU[house rules]BR[-]TM[0]OT[14 days + 1 day per move and 10 extra periods]",
    "",
)
ALL = tuple(name for name in gi.INPUTS if name not in ("profile", "metadata"))  # of KataGo, see tests/katago


def values_of(conditions: gi.Conditions) -> list[list[float]]:
    return [getattr(conditions, each.name).tolist() for each in fields(gi.Conditions)]


def catalogue(folder: Path, roots: tuple[str, ...] = ROOTS) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "games.parquet"
    ingest(archive(folder, [f"(;SZ[19]{root};B[aa];W[ss];B[ba])".encode() for root in roots]), path)
    return path


def rows_and_games(path: Path) -> tuple[gi.Conditions, gi.Conditions]:
    """Return the conditions of a catalogue's readable games by its columns, and by the records that it exports."""
    games = list(open_catalogue(path).games())
    kept = [k for k, game in enumerate(games) if not game.drop]
    rows = pa.Table.from_batches(open_catalogue(path).batches()).combine_chunks().to_batches()[0]
    return gi.Conditions.from_rows(rows.take(pa.array(kept))), gi.Conditions.from_games([games[k] for k in kept])


def check_agreement(path: Path) -> int:
    by_rows, by_games = rows_and_games(path)
    for each in fields(gi.Conditions):
        one, other = (getattr(conditions, each.name) for conditions in (by_rows, by_games))
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(
            one, other, rtol=1e-3, err_msg=each.name
        )  # columns hold minutes to a tenth of a second
    return len(by_rows.komi)


def test_columns_and_records_agree(tmp_path: Path) -> None:
    assert check_agreement(catalogue(tmp_path)) == len(ROOTS)


def test_columns_and_records_of_real_games_agree(tmp_path: Path) -> None:
    ingest([SAMPLE], tmp_path / "games.parquet")
    assert check_agreement(tmp_path / "games.parquet") == 320


@pytest.mark.parametrize("name", ["gib", "katago-sgfs", "ngf", "ogs", "professional", "tom", "ugf"])
def test_columns_and_records_of_all_formats_agree(shared: Path, tmp_path: Path, name: str) -> None:
    ingest([shared / "data" / "formats" / name], tmp_path / "games.parquet")
    assert check_agreement(tmp_path / "games.parquet") > 1


def test_conditions_of_games_by_hand(tmp_path: Path) -> None:
    nan = float("nan")
    komi, handicap, area, rating, year, seconds, server, day, clock = values_of(rows_and_games(catalogue(tmp_path))[0])
    np.testing.assert_equal(komi, [6.5, 0.5, nan, nan, nan])
    assert handicap == [0, 3, 0, 2, 0]
    np.testing.assert_equal(area, [0, 1, 1, nan, nan])
    np.testing.assert_equal(rating, [[34, 27], [49, 2], [nan, 32], [nan, nan], [nan, nan]])
    np.testing.assert_equal(year, [2011, 1987, nan, nan, nan])
    np.testing.assert_allclose(seconds[:3], [(600 + 4 * 30) / 120 + 30, 30, 24], rtol=1e-6)
    assert seconds[3] > 86_400
    np.testing.assert_equal(server, [gi.SERVERS.index("kgs"), gi.SERVERS.index("ogs"), nan, nan, nan])
    np.testing.assert_equal(day, [15101, nan, nan, nan, nan])
    assert clock[:2] == [[gi.CLOCKS["byo-yomi"], 600, 30, 5, 0], [gi.ABSOLUTE, 3600, 0, 0, 0]]
    assert clock[2][0] == 0  # overtime without a main time
    np.testing.assert_equal(clock[4][0], nan)


def random_conditions(seed: int, games: int = 40) -> gi.Conditions:
    rng = np.random.default_rng(seed)

    def some(low: float, high: float, *shape: int) -> np.ndarray:
        values = rng.uniform(low, high, (games, *shape)).astype(np.float32).round(1)
        return np.where(rng.random((games, *shape)) < 0.2, np.float32(np.nan), values)

    area = rng.choice(np.array([0, 1, np.nan], np.float32), games)
    known = some(-40, 40), some(0, 20), area, some(1, 49, 2), some(1900, 2050), some(0, 600)
    return gi.Conditions(*known, some(0, 6).round(), some(-9999, 20_000), some(0, 6, 5))


class At(NamedTuple):
    conditions: gi.Conditions
    game: np.ndarray
    white: np.ndarray


def positions_of(conditions: gi.Conditions, seed: int = 0, count: int = 200) -> At:
    rng = np.random.default_rng(seed)
    return At(conditions, rng.integers(0, len(conditions.komi), count), rng.random(count) < 0.5)


def naive(names: tuple[str, ...], at: At, position: int) -> list[float]:
    """Return the inputs of one position, by the table of docs/nets.md."""
    white, values = int(at.white[position]), [getattr(at.conditions, each.name) for each in fields(gi.Conditions)]
    komi, handicap, area, rating, year, seconds, *_ = (each[at.game[position]] for each in values)

    def signed(value: float, scale: float) -> list[float]:
        sign = -1 if white else 1
        return [0, 0] if np.isnan(value) else [1, min(max(sign * value / scale, -3), 3)]

    def spread(value: float, knots: tuple[float, ...]) -> list[float]:
        return [0 if np.isnan(value) else float(np.interp(value, knots, unit)) for unit in np.eye(len(knots))]

    ranks = spread(rating[white], global_inputs._RATING_KNOTS) + spread(rating[1 - white], global_inputs._RATING_KNOTS)
    encoded = {
        "colour": [-1 if white else 1],
        "komi": signed(komi, -10),
        "handicap": signed(handicap, 5),
        "rules": [area == 1, area == 0],
        "ranks": ranks,
        "year": spread(year, global_inputs._YEAR_KNOTS),
        "time": spread(np.log2(max(seconds, 1)), global_inputs._TIME_KNOTS),
    }
    return [float(each) for name in names for each in encoded[name]]


@pytest.mark.parametrize("names", [ALL, ("ranks", "colour"), ("komi",)])
def test_encoding_matches_a_naive_one(names: tuple[str, ...]) -> None:
    at = positions_of(random_conditions(1))
    found = gi.encode_inputs(names, *at)
    assert (found.shape, found.dtype) == ((200, gi.input_size(names)), np.float32)
    np.testing.assert_allclose(found, [naive(names, at, k) for k in range(200)], atol=1e-5)


def test_no_positions_have_no_inputs() -> None:
    nothing = At(gi.Conditions.unknown(0), np.empty(0, np.int64), np.empty(0, np.bool_))
    assert gi.encode_inputs(ALL, *nothing).shape == (0, gi.input_size(ALL))


def test_unknown_values_are_zeros() -> None:
    at = positions_of(gi.Conditions.unknown(3), count=20)
    found = gi.encode_inputs(ALL, *at)
    assert (found[:, 0] == np.where(at.white, -1, 1)).all()
    assert not found[:, 1:].any()


def test_shifted_komi_is_that_of_games_with_other_komi() -> None:
    conditions, points = random_conditions(3), np.float32(4)
    at = positions_of(conditions)
    other = {white: replace(conditions, komi=conditions.komi + (points if white else -points)) for white in (0, 1)}
    naive_ones = [naive(ALL, at._replace(conditions=other[int(at.white[k])]), k) for k in range(len(at.game))]
    before = gi.encode_inputs(ALL, *at)
    shifted, given = global_inputs.shift_komi(ALL, before, np.full(len(before), points))
    clipped = np.abs(before[:, 2]) == 3
    unknown = before[:, 1] == 0
    assert clipped.any()
    assert unknown.any()
    assert np.array_equal(given, np.where(clipped | unknown, 0, points))
    np.testing.assert_allclose(shifted[~clipped], np.array(naive_ones)[~clipped], atol=1e-5)
    assert np.array_equal(shifted[clipped], before[clipped])


def test_exchanged_colours_change_the_input_colour_only() -> None:
    """Komi and handicap of the other sign, ranks exchanged, and the other player to move."""
    conditions = random_conditions(2)
    exchanged = replace(
        conditions, komi=-conditions.komi, handicap=-conditions.handicap, rating=conditions.rating[:, ::-1]
    )
    at = positions_of(conditions)
    found = gi.encode_inputs(ALL, *at)
    other = gi.encode_inputs(ALL, *At(exchanged, at.game, ~at.white))
    assert np.array_equal(found[:, 1:], other[:, 1:])
    assert np.array_equal(found[:, 0], -other[:, 0])
    assert not np.array_equal(found, gi.encode_inputs(ALL, *At(conditions, at.game, ~at.white)))


def test_ranks_of_mover_and_opponent() -> None:
    conditions, white = random_conditions(3), np.arange(40) % 2 == 1
    at = At(conditions.with_ranks(white, 34, 29), np.arange(40), white)
    asked = gi.Conditions.unknown(1).with_ranks(np.array([False]), 34, 29)
    wanted = gi.encode_inputs(("ranks",), *At(asked, np.zeros(40, np.int64), np.zeros(40, np.bool_)))
    assert np.array_equal(gi.encode_inputs(("ranks",), *at), wanted)
    kept = conditions.with_ranks(white, None, None)
    assert np.array_equal(kept.rating, conditions.rating, equal_nan=True)
    assert not np.array_equal(at.conditions.rating, conditions.rating, equal_nan=True)


def test_parts_cover_all_values() -> None:
    parts = gi.input_parts(ALL)
    assert [k for _, part, _ in parts for k in range(part.start, part.stop)] == list(range(gi.input_size(ALL)))
    assert [unknown for *_, unknown in parts] == [False] + [True] * (len(parts) - 1)


def test_the_loader_draws_inputs(tmp_path: Path) -> None:
    """Whatever the symmetry of a position: inputs belong to its game and side to move."""
    path, names = make(tmp_path), ("colour", "komi", "ranks")
    ids = [each for rows in open_catalogue(path).batches(["id"]) for each in rows["id"].to_pylist()]
    games = {each: k for k, each in enumerate(ids)}
    kept = list(open_catalogue(path).games())
    conditions = gi.Conditions.from_games(kept)
    for augment in (False, True):
        for batch in load(path, "own+opp", batch_size=64, labels=("move", inputs_label(names)), augment=augment):
            game = np.array([games[each] for each in batch.game.tolist()])
            white = np.array([kept[g].moves[ply] & WHITE_BIT != 0 for g, ply in zip(game, batch.ply)])
            wanted = gi.encode_inputs(names, *At(conditions, game, white))
            np.testing.assert_allclose(batch.labels[inputs_label(names)], wanted, atol=1e-6)


def test_data_sets_with_inputs_can_be_augmented(tmp_path: Path) -> None:
    layout = load(make(tmp_path), "own+opp", labels=("move", inputs_label(ALL))).layout
    check_augmentable(layout)  # raises RecipeError for labels that it does not know


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["kmi"], "unknown input 'kmi'; did you mean 'komi'"),
        (["komi", "komi"], "input 'komi' is listed twice"),
        (["colour", "Komi"], "unknown input 'Komi'; did you mean 'komi'"),
    ],
)
def test_invalid_inputs(tmp_path: Path, names: list[str], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        global_inputs.check_inputs(names)
    with pytest.raises(RecipeError, match=words):
        load(make(tmp_path), "own+opp", labels=("move", inputs_label(names)))
    done = run("train", "quick-cpu", tmp_path / "games.parquet", "-o", tmp_path / "run", "--set", f"inputs={names}")
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert words.split(";")[0] in done.err[0]

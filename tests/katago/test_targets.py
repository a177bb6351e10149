"""Training targets: equal to KataGo's for real games, and to a slow reference."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from catalogues import rows as catalogue_rows
from kata_reference import ARCHIVES, unpack
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import game_arrays
from kifu.katago.npz import ARRAYS, TARGETS, game_hashes
from kifu.katago.rules import resolve_rules
from kifu.katago.targets import UNKNOWN_WINNER, GameSpan, Targets, TargetScratch, fill_targets, key_columns
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records.games import GameArrays
from naive import NaiveBoard

# KataGo's own rows

ELSEWISE = ("09_komi_100_tt.sgf", "09_komi_400_tt.sgf", "11_variation_second_longer.sgf", "12_two_in_node.sgf")
"""Records that kifu reads differently: KM in Fox's notation, the first of two lines, one move per node."""


class Trained(NamedTuple):
    """KataGo's rows of real games. games: their folder; name, turn: the game and ply of each row."""

    arrays: dict[str, Any]
    games: Path
    names: list[str]
    game: Any
    turn: Any


@pytest.fixture(scope="module")
def trained(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    with np.load(shared / "reference" / "katago" / "trainrows.npz") as file:
        arrays = {key: file[key] for key in file.files}
    with np.load(shared / "reference" / "katago" / "trainrows_index.npz") as file:
        index = {key: file[key] for key in file.files}
    names = index["names"].tolist()
    for top in sorted({name.split("/")[0] for name in names}):
        unpack(shared / "data" / "kgs" / ARCHIVES[top], set(names), folder / "games")
    return Trained(arrays, folder / "games", names, index["game"], index["turn"])


def test_targets_equal_katagos(trained: Trained, tmp_path: Path) -> None:
    recipe = load_recipe(
        "katago",
        ["min_moves=0", "metadata=kgs", "trust={score=1.0, resign=1.0, time=1.0, forfeit=1.0}",
         'split={kind="hash", sets={all=1.0}}', "compression=stored"],
    )  # fmt: skip
    (built,) = build(recipe, [trained.games], tmp_path, jobs=1)
    assert built.manifest.drops == {"NO_MOVES": 1}
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches(("id", "member"))
    ids = dict(zip(batch["member"].to_pylist(), batch["id"].to_pylist()))
    with np.load(built.path / "all-00000.npz") as file:
        ours = {array.name: file[array.name] for array in ARRAYS}
    key = game_hashes(ours["globalTargetsNC"])[:, 0]
    at = 0
    for k, name in enumerate(trained.names):
        theirs, mine = trained.game == k, key == np.uint64(ids[name])
        assert np.count_nonzero(theirs) == np.count_nonzero(mine)
        at += np.count_nonzero(mine)
        if not mine.any():
            continue
        for array in ARRAYS:
            wanted, found = trained.arrays[array.name][theirs], ours[array.name][mine]
            assert (wanted.dtype, wanted.shape) == (found.dtype, found.shape)
            if array.name == "globalTargetsNC":
                wanted, found = np.delete(wanted, range(36, 47), 1), np.delete(found, range(36, 47), 1)
            bits = [np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1) for values in (wanted, found)]
            differing = np.flatnonzero((bits[0] != bits[1]).any(1))
            assert not len(differing), (name, array.name, trained.turn[theirs][differing])
    assert at == len(key)


def test_targets_of_odd_games_equal_katagos(shared: Path, tmp_path: Path) -> None:
    with np.load(shared / "reference" / "katago" / "handmade.npz") as file:
        theirs = {key: file[key] for key in file.files}
    unpack(shared / "reference" / "katago" / "handmade-sgf.tar.gz", set(theirs["names"].tolist()), tmp_path / "games")
    recipe = load_recipe(
        "katago",
        ["min_moves=0", "early_passes=false", "alternating=false", "handicap_moves=begin", "illegal=cut",
         "handicap=false", "results=any", "default_rules=tromp-taylor", "default_komi=6.5", "compression=stored",
         'split={kind="hash", sets={all=1.0}}', 'clean={name="cut", title="cut", illegal="cut"}'],
    )  # fmt: skip
    (built,) = build(recipe, [tmp_path / "games"], tmp_path, jobs=1)
    with np.load(built.path / "all-00000.npz") as file:
        ours = {array.name: file[array.name] for array in ARRAYS if array.name in file.files}
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches(("id", "member"))
    names = dict(zip(batch["member"].to_pylist(), batch["id"].to_pylist()))
    targets = ours["globalTargetsNC"]
    at = {
        place: k
        for k, place in enumerate(zip(game_hashes(targets)[:, 0].tolist(), (targets[:, 51] + targets[:, 53]).tolist()))
    }
    met = set()
    for row, (game, turn) in enumerate(zip(theirs["game"].tolist(), theirs["turn"].tolist())):
        name = str(theirs["names"][game])
        k = at.get((names.get(name), turn))
        if k is None or name in ELSEWISE:
            continue
        assert np.array_equal(ours["binaryInputNCHWPacked"][k], theirs["binaryInputNCHWPacked"][row]), (name, turn)
        assert np.array_equal(ours["globalInputNC"][k], theirs["globalInputNC"][row]), (name, turn)
        assert ours["policyTargetsNCMove"][k, 0].argmax() == theirs["move"][row], (name, turn)
        met.add((name, turn))
    assert len(met) > 6_000
    assert {name for name, _ in met} >= {"14_no_ru.sgf", "14_no_km.sgf", "05_handicap_as_moves_jp.sgf"}


def test_history_inclusion_has_katagos_distribution(trained: Trained) -> None:
    """Five draws, each of which counts only if those before it succeeded."""
    out = _coins(200_000)
    for shown in (trained.arrays["globalTargetsNC"][:, 36:41], out):
        assert np.isin(shown, (0, 1)).all()
        assert np.all(np.diff(shown, axis=1) <= 0)
        for k in range(5):
            wanted = 0.98 ** (k + 1)
            assert abs(shown[:, k].mean() - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / len(shown))


def _coins(n: int) -> Any:
    batch = catalogue_rows(moves=[[9]])
    games, rows = game_arrays(batch), np.zeros(n, np.int64)
    rules = np.repeat(_game_rules("japanese"), n)
    span = _span([1] * n, key=np.arange(n, dtype=np.uint64))
    parts = []
    for first in range(0, n, 5000):
        some = slice(first, first + 5000)
        of = GameSpan(*(column[some] for column in span))
        out = fill_targets(
            TargetScratch(), games, rows[some], rules[some], of, np.arange(5000), np.zeros(5000, np.int32)
        )
        parts.append(out.targets[:, 36:41])
    return np.concatenate(parts)


# The slow reference


def _game_rules(rules: str, komi: float = 6.5, handicap: int | None = None) -> Any:
    columns = pa.array([rules]), pa.array([komi], pa.float32()), pa.array([handicap], pa.int16())
    resolved, drop = resolve_rules(*columns)
    assert not drop.any()
    return resolved


def _span(stop: list[int], first: int = 0, winner: int = BLACK, trusted: float = 1, key: Any = None) -> GameSpan:
    n = len(stop)
    return GameSpan(
        np.full(n, first, np.int32), np.array(stop, np.int32), np.full(n, winner, np.int8),
        np.full(n, trusted, np.float32), np.zeros(n, np.uint64) if key is None else key,
    )  # fmt: skip


class Played(NamedTuple):
    """A game played by the slow reference: boards before each move and after the last; White's bonus."""

    width: int
    height: int
    setup: list[tuple[tuple[int, int], int]]
    moves: list[tuple[tuple[int, int] | None, int]]
    boards: list[dict[tuple[int, int], int]]
    bonus: list[int]


def _play(seed: int, width: int, height: int, plies: int, territory: bool, handicap: int) -> Played:
    """Return a random game under simple ko without suicide, and without consecutive passes."""
    rng = random.Random(seed)
    board = NaiveBoard(width, height, "simple", 0)
    setup = [(point, BLACK) for point in rng.sample(board.points(), handicap)]
    board.set_up(dict(setup))
    colour = WHITE if handicap else BLACK
    played = Played(width, height, setup, [], [dict(board.stones)], [handicap if territory else 0])
    passed = True
    for _ in range(plies):
        legal = [p for p in board.points() if not board.why_not(p, colour)]
        point = None if not passed and (not legal or rng.random() < 0.1) else rng.choice(legal) if legal else ()
        if point == ():
            break
        board.play(point, colour)
        passed = point is None
        played.moves.append((point, colour))
        played.boards.append(dict(board.stones))
        step = 0 if passed or not territory else 1 if colour == BLACK else -1
        played.bonus.append(played.bonus[-1] + step)
        colour = 3 - colour
    return played


def _flat(played: Played) -> GameArrays:
    def word(point: tuple[int, int] | None, colour: int) -> int:
        p = played.width * played.height if point is None else point[1] * played.width + point[0]
        return p | (WHITE_BIT if colour == WHITE else 0)

    setup = [word(*stone) for stone in played.setup]
    return game_arrays(
        catalogue_rows(
            width=[played.width],
            height=[played.height],
            moves=[[word(*move) for move in played.moves]],
            setup=[setup],
            setup_ply=[[0] * len(setup)],
            root_setup=[len(setup)],
        )
    )


def _index(point: tuple[int, int] | None) -> int:
    return 361 if point is None else point[1] * 19 + point[0]


def _seen(stones: dict[tuple[int, int], int], mover: int) -> Any:
    values = np.zeros((19, 19), np.int8)
    for (x, y), colour in stones.items():
        values[y, x] = 1 if colour == mover else -1
    return values


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("seed", "width", "height", "rules", "handicap"),
    [(1, 5, 5, "japanese", 0), (2, 4, 7, "chinese", 3), (3, 7, 4, "japanese", 2), (4, 9, 9, "chinese", 0)],
)
@pytest.mark.parametrize("first", [0, 7])
def test_targets_equal_the_slow_reference(
    seed: int, width: int, height: int, rules: str, handicap: int, first: int
) -> None:
    played = _play(seed, width, height, 60, rules == "japanese", handicap)
    stop = len(played.moves)
    assert stop > 40
    while played.moves[stop - 1][0] is None:
        stop -= 1
    ply = np.arange(first, stop, dtype=np.int32)
    game_rules = _game_rules(rules, 7.5)
    out = fill_targets(
        TargetScratch(), _flat(played), np.zeros(1, np.int64), game_rules, _span([stop], first, WHITE, 0.25),
        np.zeros(len(ply), np.int64), ply,
    )  # fmt: skip
    bonus_of_handicap = handicap if rules == "chinese" else 0
    for k, t in enumerate(ply.tolist()):
        point, mover = played.moves[t]
        white = mover == WHITE
        targets = out.targets[k].tolist()
        assert np.flatnonzero(out.policy[k, 0]).tolist() == [_index(point)]
        assert out.policy[k, 0].sum() == 1
        follows = t + 1 < stop and played.moves[t + 1][0] is not None
        if follows:
            assert np.flatnonzero(out.policy[k, 1]).tolist() == [_index(played.moves[t + 1][0])]
        else:
            assert out.policy[k, 1].tolist() == [1] * 362
        assert targets[28] == follows
        assert targets[0:4] == targets[4:8] == targets[16:20] == ([1, 0, 0, 0.5] if white else [0, 1, 0, -0.5])
        assert (targets[24], targets[25], targets[26], targets[35]) == (1, 1, 1, 0.75)
        assert (targets[20], targets[21], targets[27], targets[29], targets[34]) == (0, 0, 0, 0, 0)
        komi = 7.5 + bonus_of_handicap + played.bonus[t]
        assert targets[47] == (komi if white else -komi)
        assert targets[48] == (rules == "chinese")
        assert (targets[51], targets[53], targets[54], targets[56]) == (t - first, first, handicap, handicap)
        gained = played.bonus[stop] - played.bonus[t]
        assert targets[61] == (gained if white else -gained)
        assert (targets[33], targets[62], targets[63]) == (1, 0, 3)
        assert targets[22:24] + targets[30:33] + targets[49:51] + targets[64:] == [0] * 23
        assert np.array_equal(out.values[k, 2], _seen(played.boards[min(t + 8, stop)], mover))
        assert np.array_equal(out.values[k, 3], _seen(played.boards[min(t + 32, stop)], mover))
        assert not out.values[k, [0, 1, 4]].any()
        assert np.flatnonzero(out.scores[k]).tolist() == [420, 421]
        assert out.scores[k, 420:422].tolist() == [50, 50]


# Laws


def _one(moves: list[int], rules: str = "japanese", **options: Any) -> Targets:
    span = _span([len(moves)], **options)
    games = game_arrays(catalogue_rows(moves=[moves]))
    ply = np.arange(len(moves), dtype=np.int32)
    return fill_targets(
        TargetScratch(), games, np.zeros(1, np.int64), _game_rules(rules), span, np.zeros(len(ply), np.int64), ply
    )


@pytest.mark.parametrize(
    ("winner", "trusted", "black", "weight"),
    [
        (BLACK, 1, [1, 0, 0, 0.5], 1), (WHITE, 1, [0, 1, 0, -0.5], 1), (0, 1, [0.5, 0.5, 0, 0], 1),
        (UNKNOWN_WINNER, 1, [0.5, 0.5, 0, 0], 0), (BLACK, 0, [1, 0, 0, 0.5], 0), (WHITE, 0.5, [0, 1, 0, -0.5], 0.5),
    ],
)  # fmt: skip
def test_results(winner: int, trusted: float, black: list[float], weight: float) -> None:
    targets = _one([60, 300 | WHITE_BIT], winner=winner, trusted=trusted).targets
    assert targets[0, :4].tolist() == black
    assert targets[1, :4].tolist() == [black[1], black[0], black[2], -black[3]]
    assert np.all(targets[:, 35] == 1 - weight)
    assert np.all(targets[:, 24] == 1)


def test_next_moves_by_the_same_player_have_no_weight() -> None:
    out = _one([60, 61, 300 | WHITE_BIT])
    assert out.targets[:, 28].tolist() == [0, 1, 0]
    assert out.policy[0, 1].tolist() == [1] * 362


def test_policies_sum_to_more_than_0_and_scores_to_100() -> None:
    out = _one([60, 300 | WHITE_BIT, 361, 301 | WHITE_BIT])
    assert out.policy.sum(2).min() == 1
    assert out.scores.astype(int).sum(1).tolist() == [100] * 4


def test_game_keys_round_trip() -> None:
    rng = np.random.default_rng(0)
    key = np.concatenate([rng.integers(0, 2**64, 1000, np.uint64), np.array([0, 2**64 - 1], np.uint64)])
    columns = key_columns(key)
    targets = np.zeros((len(key), TARGETS), np.float32)
    targets[:, 41:47] = columns
    assert np.array_equal(game_hashes(targets)[:, 0], key)
    assert columns.max() < 2**22
    assert np.array_equal(columns, np.floor(columns))
    assert columns[:, [2, 5]].max() < 2**20
    assert len(np.unique(columns, axis=0)) == len(key)


def test_an_illegal_game_raises() -> None:
    with pytest.raises(ValueError, match="game 0 cannot be played for 2 moves"):
        _one([60, 60 | WHITE_BIT])


def test_scratch_memory_serves_games_of_any_size() -> None:
    scratch = TargetScratch()
    for seed, width, height in ((1, 5, 5), (2, 4, 7), (1, 5, 5)):
        played = _play(seed, width, height, 60, True, 0)
        stop = len(played.moves)
        ply = np.arange(stop, dtype=np.int32)
        given = (
            _flat(played), np.zeros(1, np.int64), _game_rules("japanese"), _span([stop]), np.zeros(stop, np.int64), ply,
        )  # fmt: skip
        for mine, fresh in zip(fill_targets(scratch, *given), fill_targets(TargetScratch(), *given)):
            assert np.array_equal(mine, fresh)

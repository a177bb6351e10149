"""KataGo's planes and globals from the loader, `kifu build` and `encode`."""

import json
import pickle
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kifu
from kata_reference import unpack as unpack_records
from kgs_archives import BROKEN, archive, records
from kifu.config import check_config
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.datasets.examples import Batch
from kifu.errors import DropReason, GameError, IllegalMove, RecipeError
from kifu.katago.inputs import KataEncoder, encode_katago
from kifu.katago.rules import GAME_RULES, KataRules, resolve_rules_or_default
from kifu.planes.packing import unpack
from kifu.planes.registry import KATAGO22, find_plane_set
from kifu.point import POINT_MASK, symmetries
from kifu.recipes.pipeline import build
from kifu.recipes.schema import ExamplesRecipe, load_training
from kifu.records.games import MoveArrays
from lazy import lazy_import
from loader_games import apply_symmetry, assert_same, concat_batches, kept_games, load, one_batch

loss = lazy_import("kifu.learn.loss")

HEADS = (
    b"RU[Japanese]KM[6.5]", b"RU[chinese]KM[7]", b"RU[AGA]KM[0.5]", b"RU[New Zealand]KM[-5]", b"", b"KM[5.5]",
    b"RU[koSPIGHTscoreTERRITORYtaxNONEsui1]", b"RU[aga-button]",
)  # fmt: skip
BAD_TERMS = {"RULES_UNKNOWN": b"RU[house rules]KM[6.5]", "KOMI_UNKNOWN": b"RU[Japanese]KM[6.25]"}
"""Rules or komi that KataGo does not know."""

GOES_ON = b"(;SZ[19]PB[a]RU[Chinese]KM[7];B[aa];W[bb];B[];W[];B[cc])"
DIES = b"(;SZ[19]PB[b]RU[Chinese]KM[7];B[ab];W[aa];B[bb];W[pp];B[ca];W[ba];B[cc])"  # by its own sixth move
BUILT = {"kind": "examples", "name": "mine", "title": "mine", "planes": "katago22", "labels": ["globals", "move"]}


def row_ids(batch: Batch) -> list[tuple[int, int]]:
    """Return (id, ply) of each row."""
    return list(zip(batch.game.tolist(), batch.ply.tolist()))


def headed(texts: list[bytes], heads: tuple[bytes, ...]) -> list[bytes]:
    return [text.replace(b"SZ[19]", b"SZ[19]" + heads[k % len(heads)]) for k, text in enumerate(texts)]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue of games under all kinds of rules, some of which KataGo rejects or follows only in part."""
    folder = tmp_path_factory.mktemp("katago")
    texts = headed(records(24, 3, 40), HEADS) + headed(records(2, 9, 20), (*BAD_TERMS.values(),))
    ingest(archive(folder, [*texts, GOES_ON, DIES, BROKEN["OCCUPIED"]]), folder / "games.parquet")
    return folder / "games.parquet"


def usual_komi(rules: KataRules) -> float:
    return 6.5 if rules.scoring == "territory" else 7.0 if rules.button else 7.5


def rows_of(game: kifu.Game, encoder: KataEncoder) -> tuple[np.ndarray, np.ndarray, DropReason]:
    """Encode all positions: planes [T, 22, H, W], globals [T, 19], and the drop reason."""
    rules = KataRules.parse(game.rules) if game.rules else KataRules()
    komi = usual_komi(rules) if game.komi is None else game.komi
    rules_row = np.array([(*rules.codes, komi, -1 if game.handicap is None else game.handicap)], GAME_RULES)
    plies = len(game.moves)
    out, labels = encoder.new_out(plies), encoder.new_labels(plies)
    alone = MoveArrays(
        np.array([game.width], np.uint8), np.array([game.height], np.uint8), game.moves, np.array([0, plies]),
        game.setup, game.setup_ply, np.array([0, len(game.setup)]), np.array([game.root_setup], np.uint16),
    )  # fmt: skip
    drop, ply = encoder.replay(alone, np.zeros(1, np.int64), rules_row, None, np.arange(plies), out, labels)
    planes = np.empty((plies, *encoder.shape), np.uint8)
    unpack(out, planes)
    return planes[: ply[0]], labels["globals"][: ply[0]], DropReason(drop[0])


@pytest.fixture(scope="module")
def wanted(games: Path) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray, int]]:
    """Planes, globals and the point played by (id, ply), for all positions that KataGo accepts."""
    encoder = KataEncoder(KATAGO22, 19, 19, False)
    found = {}
    for key, game in kept_games(games).items():
        if game.rules == "house rules" or game.komi == 6.25:
            continue
        planes, inputs, _ = rows_of(game, encoder)
        found |= {(key, t): (planes[t], inputs[t], int(game.moves[t] & POINT_MASK)) for t in range(len(planes))}
    return found


# Batches


def test_batches_equal_encoded_rows_under_their_symmetry(games, wanted):
    loader = load(games, "katago22", seed=3, batch_size=100, passes=True, window=200)
    assert [label.name for label in loader.layout.labels] == ["move", "globals"]
    batch = one_batch(loader)
    assert sorted(row_ids(batch)) == sorted(wanted)
    assert len(batch) == len(loader) * 100 - (-len(batch) % 100) > 700
    fits = {key: set(range(8)) for key, _ in wanted}  # the symmetries that a game's rows allow
    moves = batch.labels["move"].tolist()
    for planes, (key, t), move, inputs in zip(
        batch.unpack_planes(loader.layout), row_ids(batch), moves, batch.labels["globals"]
    ):
        before, numbers, point = wanted[key, t]
        assert inputs.tobytes() == numbers.tobytes()  # numbers do not turn
        fits[key] &= {
            k
            for k in range(8)
            if symmetries(19, 19)[k, point] == move and np.array_equal(planes, apply_symmetry(before, k))
        }
    assert all(fits.values())
    assert len(set().union(*fits.values())) == 8


def test_positions_that_katago_rejects_are_not_loaded(games):
    reasons = Counter()
    batch = one_batch(load(games, "katago22", passes=True))
    plies = Counter(batch.game.tolist())
    encoder = KataEncoder(KATAGO22, 19, 19, False)
    for key, game in kept_games(games).items():
        if game.rules == "house rules" or game.komi == 6.25:
            reasons["terms"] += 1
            assert plies[key] == 0
        else:
            reasons[rows_of(game, encoder)[2].name] += 1
    assert reasons["terms"] == 2
    assert reasons["SUICIDE"] == 1
    assert reasons["AFTER_END"] >= 1
    assert plies[next(key for key, game in kept_games(games).items() if game.players[0] == "a")] == 4
    assert plies[next(key for key, game in kept_games(games).items() if game.players[0] == "b")] == 5


@pytest.mark.parametrize(("output", "kind"), [("uint8", np.uint8), ("float32", np.float32), ("bfloat16", np.uint16)])
def test_planes_have_the_requested_output_type(games, output, kind):
    packed = load(games, "katago22", batch_size=64)
    ready = one_batch(load(games, "katago22", batch_size=64, output=output))
    assert ready.planes.dtype == kind
    values = (ready.planes.astype(np.uint32) << 16).view(np.float32) if output == "bfloat16" else ready.planes
    batch = one_batch(packed)
    assert batch.planes.shape[1:] == (22, 46)
    assert np.array_equal(values, batch.unpack_planes(packed.layout))
    assert np.array_equal(ready.labels["globals"], batch.labels["globals"])


def test_batches_are_the_same_resumed_pickled_and_with_any_threads(games, monkeypatch):
    monkeypatch.setattr("kifu.datasets.loader._CHUNK", 100)
    options = {"batch_size": 70, "seed": 4, "window": 150, "labels": ("globals", "result", "move", "next2")}
    loader = load(games, "katago22", jobs=3, **options)
    batches = list(loader)
    assert_same(concat_batches(batches, loader.layout), one_batch(load(games, "katago22", jobs=1, **options)))
    assert_same(one_batch(pickle.loads(pickle.dumps(loader.epoch(0)))), concat_batches(batches, loader.layout))
    loader = load(games, "katago22", **options)
    before = list(islice(loader, 3))
    again = load(games, "katago22", resume=json.loads(json.dumps(loader.state_dict())), **options)
    assert_same(concat_batches([*before, *again], loader.layout), concat_batches(batches, loader.layout))


def test_globals_may_be_omitted(games):
    batch = one_batch(load(games, "katago22", labels=("move",), seed=2))
    assert list(batch.labels) == ["move"]
    both = one_batch(load(games, "katago22", seed=2))
    assert batch.planes.tobytes() == both.planes.tobytes()
    assert batch.labels["move"].tobytes() == both.labels["move"].tobytes()


def test_small_boards_are_in_the_corner(tmp_path):
    text = b"(;SZ[%s]RU[Chinese]KM[6];B[aa];W[cc];B[bb];W[ab])"
    paths = [tmp_path / f"{size.decode().replace(':', 'x')}.sgf" for size in (b"5", b"4:3", b"1:7")]
    for path, size in zip(paths, (b"5", b"4:3", b"1:7")):
        path.write_bytes(text % size if size != b"1:7" else b"(;SZ[1:7]RU[Chinese]KM[6];B[aa];W[ac])")
    loader = load(paths, "katago22", board="7x7", pad=True, augment=False, shuffle=None)
    batch = one_batch(loader)
    assert loader.layout.shape == (22, 7, 7)
    sizes = Counter((int(b[0].any(0).sum()), int(b[0].any(1).sum())) for b in batch.unpack_planes(loader.layout))
    assert sizes == {(5, 5): 4, (4, 3): 4}  # KataGo has no boards with a side of one
    for planes, move in zip(batch.unpack_planes(loader.layout), batch.labels["move"].tolist()):
        assert planes[0, move // 7, move % 7]
        assert not planes[1:3, move // 7, move % 7].any()
    with pytest.raises(GameError, match=r"katago22@1 is for boards from 2 x 2 to 19 x 19, got 20 x 20"):
        load(paths, "katago22", board="20x20", pad=True)


def test_tensors_include_globals(games):
    torch = pytest.importorskip("torch")
    from kifu.datasets.torch_data import tensors

    batch = next(iter(load(games, "katago22", batch_size=9)))
    inputs = tensors(batch)["globals"]
    assert inputs.dtype == torch.float32
    assert np.array_equal(inputs, batch.labels["globals"])


def test_batches_equal_katagos_rows(shared, tmp_path):
    """Globals and planes of every position that the loader yields, for constructed games."""
    source = shared / "reference" / "katago" / "handmade-sgf.tar.gz"
    reference = np.load(source.with_name("handmade.npz"))
    # Read otherwise here: KM[400] is a hundredfold, as Fox writes it; of branches the first is taken, not the longest;
    # of two moves in a node the first.
    other = {"09_komi_100_tt.sgf", "09_komi_400_tt.sgf", "11_variation_second_longer.sgf", "12_two_in_node.sgf"}
    numbers = {str(name): k for k, name in enumerate(reference["names"]) if str(name) not in other}
    rows = {(int(game), int(turn)): k for k, (game, turn) in enumerate(zip(reference["game"], reference["turn"]))}
    unpack_records(source, set(numbers), tmp_path / "sgf")
    path = tmp_path / "games.parquet"
    ingest(tmp_path / "sgf", path)
    batch = one_batch(load(path, "katago22", pad=True, augment=False, passes=True, shuffle=None))
    (table,) = open_catalogue(path).batches(("id", "member"))
    names = dict(zip(table["id"].to_pylist(), table["member"].to_pylist()))
    at = [rows[numbers[names[key]], t] for key, t in row_ids(batch)]
    assert np.array_equal(batch.labels["globals"].view(np.uint32), reference["globalInputNC"][at].view(np.uint32))
    assert np.array_equal(batch.planes, reference["binaryInputNCHWPacked"][at])
    assert np.array_equal(batch.labels["move"], reference["move"][at])
    assert reference["strict"][at].sum() > 11_250


# The terms where a record is silent


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # g5, g6, g7, g8, g9, g10, g11, g14, g17, g18 of the last move
        (b"(;SZ[3]RU[Chinese]KM[1];B[bb])", (-1 / 20, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        (b"(;SZ[4]RU[japanese]KM[6.5];B[bb];W[aa])", (7.5 / 20, 0, 0, 0, 1, 1, 0, 0, 0, 0)),
        (b"(;SZ[3]RU[NZ]KM[0.5];B[bb])", (-0.5 / 20, 1, -0.5, 1, 0, 0, 0, 0, 0, 0.5)),
        (b"(;SZ[3]RU[AGA]KM[0.5]HA[2]AB[aa][cc];W[bb])", (1.5 / 20, 1, -0.5, 0, 0, 0, 0, 0, 0, 0.5)),
        (b"(;SZ[3]RU[Chinese]KM[0]AB[aa][cc];W[bb])", (2 / 20, 0, 0, 0, 0, 0, 0, 0, 0, -1.0 + 1)),
        (b"(;SZ[4];B[bb])", (-7.5 / 20, 1, 0.5, 1, 0, 0, 0, 0, 0, 0.5)),
        (b"(;SZ[4]RU[Japanese];B[bb])", (-6.5 / 20, 0, 0, 0, 1, 1, 0, 0, 0, 0)),
        (b"(;SZ[4]RU[AGA-button];B[bb])", (-7 / 20, 1, -0.5, 0, 0, 0, 0, 0, 1, 0)),
        (b"(;SZ[4]RU[AGA-button]KM[2];B[];W[bb])", (1.5 / 20, 1, -0.5, 0, 0, 0, 0, 0, 0, -0.5)),
        (b"(;SZ[4]RU[stone scoring]KM[9];B[aa];W[];B[bb])", (-9 / 20, 0, 0, 0, 0, 1, 1, 1, 0, 0)),
        (b"(;SZ[2]RU[NZ]KM[99];B[bb])", (-24 / 20, 1, -0.5, 1, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_globals_of_a_game(text, expected):
    planes, numbers, labels = encode_katago(kifu.read_sgf(text))
    assert len(planes) == len(numbers) == len(labels)
    asked = [5, 6, 7, 8, 9, 10, 11, 14, 17, 18]
    assert numbers[-1, asked].tolist() == np.float32(expected).tolist()
    assert not np.delete(numbers[-1], [*asked, 0]).any()
    assert numbers[-1, 0] == (b"[];" in text)


def test_default_rules_of_many_games_equal_those_of_each():
    texts = ["Japanese", None, "aga-button", "koSIMPLEscoreTERRITORYbutton1", "house rules", "NZ", None]
    komi = [None, None, None, None, 6.5, 0.5, float("nan")]
    terms, drop = resolve_rules_or_default(
        pa.array(texts, pa.string()), pa.array(komi, pa.float32()), pa.array([None, 3, 0, 2, 1, None, 5], pa.int16())
    )
    assert drop.tolist() == [0, 0, 0, 0, DropReason.RULES_UNKNOWN, 0, DropReason.KOMI_UNKNOWN]
    for k in range(4):
        rules = KataRules.parse(texts[k]) if texts[k] else KataRules()
        assert terms[k].item() == (*rules.codes, usual_komi(rules), (-1, 3, 0, 2)[k])
    assert terms["komi"][5] == 0.5
    assert not terms[[4, 6]].view(np.uint8).any()


# Other faces


@pytest.mark.nojit
def test_encode_returns_the_planes():
    game = kifu.read_sgf(b"(;SZ[5:4]RU[NZ]KM[3]HA[2]AB[aa][bb];W[cc];B[];W[db];B[dc])")
    planes, inputs, labels = encode_katago(game)
    assert (planes.shape, inputs.shape, labels.tolist()) == ((3, 22, 4, 5), (3, 19), [12, 8, 13])
    again = kifu.encode(game, "katago22")
    assert np.array_equal(again[0], planes)
    assert np.array_equal(again[1], labels)
    every = rows_of(game, KataEncoder(KATAGO22, 5, 4, False))
    assert np.array_equal(planes, every[0][[0, 2, 3]])
    assert np.array_equal(inputs, every[1][[0, 2, 3]])


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (b"(;SZ[4]RU[mine];B[aa])", GameError, "unknown rules (RU): 'mine'"),
        (b"(;SZ[4]KM[6.25];B[aa])", GameError, "not a multiple of one half: '6.25'"),
        (b"(;SZ[4]KM[much];B[aa])", GameError, ": 'much'"),
        (b"(;SZ[1:9];B[aa])", GameError, "from 2 x 2 to 19 x 19, got 1 x 9"),
        (b"(;SZ[20];B[aa])", GameError, "from 2 x 2 to 19 x 19, got 20 x 20"),
        (b"(;SZ[4];B[];W[];B[aa])", GameError, "follows 2 of the game's 3 moves: moves after the end of the game"),
        (b"(;SZ[4];B[aa];AB[bb];W[cc])", GameError, "follows 1 of the game's 2 moves: stones set up after the first move"),  # noqa: E501 - one case per line
        (b"(;SZ[3]AB[aa]AW[ab][ba];B[cc])", GameError, "follows 0 of the game's 1 moves: setup stones without a liberty"),  # noqa: E501 - one case per line
        (b"(;SZ[4]RU[Chinese];B[ab];W[aa];B[ba];W[aa])", IllegalMove, "move 4 (point 0) is illegal: a suicide"),
        (b"(;SZ[4];B[aa];W[aa])", IllegalMove, "move 2 (point 0) is illegal: a move on an occupied point"),
    ],
)  # fmt: skip
def test_games_that_katago_rejects_raise(text, error, words):
    for encode in (encode_katago, lambda game: kifu.encode(game, "katago22")):
        with pytest.raises(error) as caught:
            encode(kifu.read_sgf(text))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_planes_only_callers_reject_katago22_in_one_line(games):
    with pytest.raises(RecipeError, match="takes planes only, but these planes have 19 numbers") as caught:
        loss.make_policy_module(load_training("quick-cpu", ("planes=katago22",)))
    assert "\n" not in str(caught.value)
    with pytest.raises(RecipeError, match="katago22@1 does not consist of features"):
        find_plane_set("katago22+last1")
    with pytest.raises(RecipeError, match="seven@1 does not define label 'globals'"):
        load(games, "seven", labels=("move", "globals"))


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_written_data_sets_include_globals(games, wanted, tmp_path, form):
    recipe = check_config(ExamplesRecipe, BUILT | {"format": form, "positions": {"passes": True}}, "recipe", "mine")
    (built,) = build(recipe, games, tmp_path)
    manifest = built.manifest
    assert manifest.read == manifest.kept + sum(manifest.drops.values())
    whole_games = Counter(key for key, _ in wanted)
    ended = {key: len(game) for key, game in kept_games(games).items() if whole_games[key] not in (0, len(game))}
    assert manifest.drops["RULES_UNKNOWN"] == manifest.drops["KOMI_UNKNOWN"] == 1
    assert manifest.drops["SUICIDE"] == 1
    assert 1 + manifest.drops["AFTER_END"] == len(ended) > 1
    loader = load(built.path, shuffle=None, augment=False)
    batch = one_batch(loader)
    assert sorted(row_ids(batch)) == sorted(at for at in wanted if at[0] not in ended)
    for planes, at, inputs in zip(batch.unpack_planes(loader.layout), row_ids(batch), batch.labels["globals"]):
        assert np.array_equal(planes, wanted[at][0])
        assert inputs.tobytes() == wanted[at][1].tobytes()
    mirrored = one_batch(load(built.path, seed=1))
    numbers = {at: inputs.tobytes() for at, inputs in zip(row_ids(mirrored), mirrored.labels["globals"])}
    assert numbers == {at: wanted[at][1].tobytes() for at in row_ids(batch)}

"""Positions of many games, drawn where they are wanted; names and compositions; features of one's own."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

import kifu
from drawn_games import COMPOSED_SETS, OneGame, draw, flat
from kifu.compiler import fingerprint
from kifu.errors import DropReason, GameError, RecipeError
from kifu.go.state import add_point
from kifu.planes import encoder as encoder_module
from kifu.planes.context import PositionContext
from kifu.planes.encoder import find_encoder
from kifu.planes.features import FAMILIES, FEATURES, feature, find_feature
from kifu.planes.packing import unpack
from kifu.planes.registry import DEFINITIONS, PLANE_SETS, define, definition_table, find_plane_set
from kifu.point import WHITE_BIT, symmetries

W = WHITE_BIT
TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs" / "planes"

GAMES = flat([
    OneGame(5, 5, [12, 13 | W, 25, 25 | W, 0], ((0, 3), (2, 4 | W))),
    OneGame(5, 4, [1, 2 | W]),
    OneGame(5, 5, [7, 7 | W, 3]),  # the second move is on a stone
    OneGame(5, 5, []),
    OneGame(5, 5, [1, 2 | W, 30]),  # the third is off the board
    OneGame(5, 5, [1, 2 | W], ((1, 25),)),  # so is the setup
    OneGame(4, 5, [1, 2 | W, 20]),
])  # fmt: skip


LADDERS = pytest.mark.parametrize("name", ["clark8", pytest.param("alphago48", marks=pytest.mark.slow)])


def encode(encoder, game_index, symmetry, slot_of_move, slots, games=GAMES):
    out, label = encoder.new_out(slots), np.full(slots, -9, np.int16)
    out[:] = 0
    rows, ratings = np.array(game_index, np.int64), np.zeros((len(game_index), 2), np.float32)
    symmetries, slots_of_moves = np.array(symmetry, np.uint8), np.array(slot_of_move, np.int64)
    drop, ply = encoder.replay(games, rows, ratings, symmetries, slots_of_moves, out, {"move": label})
    return out, label, drop.tolist(), ply.tolist()


@pytest.mark.nojit
def test_chosen_positions_go_to_their_slots():
    encoder = find_encoder("seven+last5", 5, 5)
    take = [3, -1, 0, -1, 1, -1, -1, -1, -1, 2]
    out, label, drop, ply = encode(encoder, [0, 1, 2], [5, 0, 2], take, 5)
    assert (drop, ply) == ([0, DropReason.WRONG_SIZE, DropReason.OCCUPIED], [5, 0, 1])
    nodes = [("AB", [(3, 0)]), ("B", (2, 2)), ("W", (3, 2)), ("AW", [(4, 0)]), ("B", None), ("W", None), ("B", (0, 0))]
    planes, played = draw("seven+last5", (5, 5, nodes), 5)
    drawn = np.empty((5, *encoder.shape), np.uint8)
    unpack(out, drawn)
    np.testing.assert_array_equal(drawn[[3, 0, 1]], planes[[0, 2, 4]])
    assert label[[3, 0, 1]].tolist() == played[[0, 2, 4]].tolist()
    assert played[2] == 25
    assert not drawn[4].any()
    assert (label[4], label[2]) == (-9, -9), "slot 2 is beyond the illegal move"


@pytest.mark.nojit
def test_games_that_cannot_be_played():
    _, label, drop, ply = encode(find_encoder("own", 5, 5), range(7), [0] * 7, np.arange(18), 18)
    assert drop == [
        0, DropReason.WRONG_SIZE, DropReason.OCCUPIED, 0, DropReason.OFF_BOARD, DropReason.OFF_BOARD,
        DropReason.WRONG_SIZE,
    ]  # fmt: skip
    assert ply == [5, 0, 1, 0, 2, 1, 0]
    assert label[:5].tolist() == [12, 13, 25, 25, 0]
    assert label[10:15].tolist() == [1, 2, -9, 1, -9]


def test_symmetry_can_transpose_a_game_to_the_right_size():
    narrow = find_encoder("own", 4, 5)
    rows, symmetry = [1, 1, 6, 6], [0, 4, 0, 7]
    assert encode(narrow, rows, symmetry, [-1] * 10, 0)[2] == [DropReason.WRONG_SIZE, 0, 0, DropReason.WRONG_SIZE]
    padded = find_encoder("own", 6, 5, pad=True)
    _, label, drop, _ = encode(padded, rows, symmetry, range(10), 10)
    assert drop == [0, 0, 0, 0]
    for row, k, at in ((1, 0, 0), (1, 4, 2), (6, 0, 4), (6, 7, 7)):
        width, height = ((5, 4), (4, 5))[row == 6]
        y, x = np.divmod(symmetries(width, height)[k][[1, 2]], height if k & 4 else width)
        assert label[at : at + 2].tolist() == (y * 6 + x).tolist()
    assert label[6] == 30
    assert label[9] == 30
    assert encode(find_encoder("own", 3, 9, pad=True), rows, symmetry, [-1] * 10, 0)[2] == [DropReason.WRONG_SIZE] * 4


@LADDERS
def test_scratch_serves_games_of_any_size(name):
    encoder = find_encoder(name, 6, 6, pad=True)
    rows = np.tile(np.arange(7), 3)
    take = np.arange(3 * len(GAMES.moves))
    together = encode(encoder, rows, rows % 8, take, len(take))
    again = encode(encoder, rows, rows % 8, take, len(take))
    for each, other in zip(together, again):
        np.testing.assert_array_equal(each, other)
    at = 0
    for row in rows:
        plies = len(GAMES.moves[GAMES.move_offset[row] : GAMES.move_offset[row + 1]])
        alone = encode(find_encoder(name, 6, 6, pad=True), [row], [row % 8], np.arange(plies), plies)
        np.testing.assert_array_equal(alone[0], together[0][at : at + plies])
        np.testing.assert_array_equal(alone[1], together[1][at : at + plies])
        at += plies


@LADDERS
def test_threads_give_the_same_planes(name):
    rng = np.random.default_rng(3)
    moves = lambda: [int(p) | W * (k & 1) for k, p in enumerate(rng.permutation(81)[:30])]  # noqa: E731
    many = flat([OneGame(9, 9, moves()) for _ in range(40)])
    encoder = find_encoder(name, 9, 9)
    rows, take = np.arange(40), np.arange(1200)
    wanted = encode(encoder, rows, rows % 8, take, 1200, many)
    with ThreadPoolExecutor(4) as pool:
        halves = [pool.submit(encode, encoder, part, part % 8, take[: 30 * len(part)], 30 * len(part), many)
                  for part in np.split(rows, 4)]  # fmt: skip
    for k in range(4):
        got = np.concatenate([np.asarray(half.result()[k]) for half in halves])
        np.testing.assert_array_equal(got, np.asarray(wanted[k]))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiles nothing")
def test_one_kernel_serves_arrays_that_are_read_only_and_that_are_not():
    encoder = find_encoder("own", 5, 5)
    read_only = GAMES._replace(moves=GAMES.moves.copy(), setup=GAMES.setup.copy())
    read_only.moves.setflags(write=False)
    read_only.setup.setflags(write=False)
    for games in (GAMES, read_only):
        encode(encoder, [0], [0], [-1] * 5, 0, games)
    assert len(encoder_module._compile(encoder.plane_set.features).dispatcher.signatures) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"slot_of_move": np.zeros(4, np.int64)}, "slot_of_move must have an entry for each of the 5 moves, got 4"),
        ({"slot_of_move": np.full(5, 3)}, "slots must be below 3, got 3"),
        ({"label": np.empty(0, np.int16), "slot_of_move": np.zeros(5, np.int64)}, "slots must be below 0, got 0"),
        ({"symmetry": np.array([8], np.uint8)}, "symmetry must be 1 numbers from 0 to 7"),
        ({"symmetry": np.zeros(2, np.uint8)}, "symmetry must be 1 numbers from 0 to 7"),
        ({"out": np.empty((3, 7, 5), np.uint8)}, "out must be uint8 [slots, 7, 4], got uint8 (3, 7, 5)"),
        ({"out": np.empty((3, 7, 4), np.int8)}, "out must be uint8 [slots, 7, 4], got int8 (3, 7, 4)"),
    ],
)
def test_arrays_that_do_not_match(changes, words):
    encoder = find_encoder("seven", 5, 5)
    arrays = {"symmetry": np.zeros(1, np.uint8), "slot_of_move": np.full(5, -1), "out": encoder.new_out(3)}
    arrays |= {"labels": {"move": changes.pop("label", np.empty(3, np.int16))}} | changes
    with pytest.raises(ValueError, match=re.escape(words)):
        encoder.replay(GAMES, np.zeros(1, np.int64), np.zeros((1, 2), np.float32), **arrays)


# Names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sevn", "unknown plane set or feature 'sevn'; did you mean 'seven'?"),
        ("seven@2", "unknown plane set or feature 'seven@2'; did you mean 'seven@1'?"),
        ("SEVEN", "unknown plane set or feature 'SEVEN'; did you mean"),
        ("sevenplane", "did you mean 'seven'?"),
        ("agz18", "did you mean 'agz17'?"),
        ("own+oppp", "unknown plane set or feature 'oppp'; did you mean 'opp'?"),
        ("own+libertys4", "unknown plane set or feature 'libertys4'; did you mean 'liberties4'?"),
        ("turn_since8", "did you mean 'turns_since8'?"),
        ("own+", "unknown plane set or feature ''"),
        ("", "unknown plane set or feature ''"),
        ("liberties", "no feature 'liberties': liberties takes a number from 1 to 64"),
        ("liberties0", "takes a number from 1 to 64"),
        ("liberties03", "takes a number from 1 to 64"),
        ("history9", "no feature 'history9': history takes a number from 1 to 8"),
        ("last65", "takes a number from 1 to 64"),
        ("kgsgo7+last1", "kgsgo7@1 does not consist of features"),
    ],
)
def test_unknown_names(name, words):
    with pytest.raises(RecipeError, match=re.escape(words)) as caught:
        find_plane_set(name)
    assert "\n" not in str(caught.value)


def test_compositions():
    assert find_plane_set("seven").name == "seven@1"
    found = find_plane_set("seven@1+last5")
    assert found.name == "own_liberties3+opp_liberties3+ko+last5"
    assert found.plane_names == find_plane_set("seven+last5").plane_names
    assert find_plane_set("seven+last5").name == "seven+last5@1"
    assert (found.planes, found.real, found.padding, found.needs_ranks, found.first_row) == (12, False, 0, False, "top")
    mixed = find_plane_set("edge+own_dan+centre")
    assert (mixed.planes, mixed.real, mixed.padding, mixed.needs_ranks) == (11, True, 1, True)


@pytest.mark.parametrize("name", list(PLANE_SETS))
def test_counts_in_names(name):
    digits = re.search(r"(\d+)(-\w+)?@", name)
    words = {"one-plane@1": 1, "seven@1": 7, "eleven@1": 11, "seven+last5@1": 12}
    assert PLANE_SETS[name].planes == (words.get(name) or int(digits[1]))
    assert len(set(PLANE_SETS[name].plane_names)) == PLANE_SETS[name].planes


def test_a_name_without_version_is_the_newest():
    assert find_plane_set("maddison36").name == "maddison36@2"
    assert find_plane_set("maddison36@1").name == "maddison36@1"
    for name, first in (("maddison36", ["black", "white"]), ("maddison36@1", ["own", "opp"])):
        features = [each.name for each in find_plane_set(f"{name}+zeros").features]
        assert features[:2] == first
        assert features[2:] == [
            "empty", "liberties4", "liberties_after6", "legal", "turns_since5", "capture_size7", "ladder_capture",
            "own_dan", "zeros",
        ]  # fmt: skip


@pytest.mark.parametrize("name", list(PLANE_SETS))
def test_cards_list_every_plane(name):
    stem = name.partition("@")[0]
    card, _, history = (DOCS / f"{stem}.md").read_text("utf-8").partition("## History")
    reported = []
    for cell in re.findall(r"^\| ([\d, to]+) \|", card, re.MULTILINE):
        ends = [int(each) for each in re.findall(r"\d+", cell)]
        reported += range(ends[0], ends[-1] + 1) if "to" in cell else ends
    assert reported == list(range(PLANE_SETS[name].planes))
    features = "+".join(each.name for each in PLANE_SETS[name].features)
    versions = [each for each in PLANE_SETS if each.partition("@")[0] == stem]
    assert card.startswith(f"# {versions[-1]}\n")
    listed = [f"{stem}@{k}" for k in re.findall(r"^\| (\d+) \|", history, re.MULTILINE)]
    assert listed == versions[::-1] or (not listed and len(versions) == 1)
    if name != "alphago49@1":  # it refers to alphago48
        assert features in (card + history).replace("`\n`", "")


def test_definitions_are_complete():
    defined = [name for section in DEFINITIONS.values() for name in section]
    own = {name for name in FEATURES if FEATURES[name].fill.__module__.startswith("kifu.")}
    assert sorted(defined) == sorted(own | FAMILIES.keys())
    text = (DOCS / "features.md").read_text("utf-8")
    assert re.findall("<!-- generated: features_([a-z]+) -->", text) == list(DEFINITIONS)
    rows = [row for section in DEFINITIONS for row in definition_table(section)[2:]]
    assert "| `capture_size`k | k | legal moves that capture 0, 1, ..., k - 1 or more stones |" in rows
    assert [row.split(" | ")[1] for row in rows if "history" in row] == ["2k", "2k", "k", "k"]
    assert define(find_feature("capture_size7")) == "legal moves that capture 0, 1, ..., 6 or more stones"
    assert define(find_feature("own_liberties3")) == "own stones whose chain has 1, 2, 3 or more liberties"
    assert not any("{" in define(feature) for found in PLANE_SETS.values() for feature in found.features)


def test_sizes():
    assert find_encoder("clark8", 23, 23).shape == (8, 25, 25)
    with pytest.raises(GameError, match="clark8@1 pads the board, so its size must be within 1 to 23, got 24 x 3"):
        find_encoder("clark8", 24, 3)
    with pytest.raises(GameError, match="board size 26 x 3 is not within 1 to 25"):
        find_encoder("seven", 26, 3)
    with pytest.raises(RecipeError, match="kgsgo7@1 exists in dat1 and dat2 files only"):
        find_encoder("kgsgo7")


# kifu.encode


GAME = b"(;SZ[9]BR[3d]WR[9p];B[cc];W[gg];B[];W[cg])"


@pytest.mark.parametrize("name", COMPOSED_SETS)
def test_encode_serves_every_set(name):
    planes, labels = kifu.encode(kifu.read_sgf(GAME), name)
    found = PLANE_SETS[name]
    side = 9 + 2 * found.padding
    assert planes.shape == (3, found.planes, side, side)
    assert planes.dtype == (np.float32 if found.real else np.uint8)
    assert labels.dtype == np.int32
    assert labels.tolist() == [20, 60, 56]


@pytest.mark.slow
def test_encode_uses_the_ranks():
    ranks = kifu.encode(kifu.read_sgf(GAME), "own_dan+opp_dan")[0].all(axis=(2, 3))
    assert [np.flatnonzero(row).tolist() for row in ranks] == [[2, 17], [8, 11], [8, 11]]


def test_encode_one_plane():
    one, _ = kifu.encode(kifu.read_sgf(GAME), "one-plane")
    assert (one[2, 0, 2, 2], one[2, 0, 6, 6], np.abs(one).sum()) == (-1, 1, 3)


# Your own features


def test_example_in_the_docs():
    code = re.search(r"```python\n(.*?)```", (DOCS / "features.md").read_text("utf-8"), re.DOTALL)[1]
    names = {"kifu": kifu, "game": kifu.read_sgf(b"(;SZ[5];B[aa];W[ee];B[ba];W[ea];B[cc])"), "__name__": "mine"}
    exec(compile(code, "features.md", "exec"), names)
    planes = names["planes"]
    assert planes.shape == (5, 3, 5, 5)
    assert np.argwhere(planes[:, 2]).tolist() == [[2, 0, 0], [3, 4, 4], [4, 0, 0]]
    del FEATURES["own_corners"]


@pytest.mark.parametrize("name", ["seven+x", "Own", "", "liberties", "liberties4", "a b", "9"])
def test_invalid_feature_names(name):
    with pytest.raises(RecipeError, match="a feature name must be small letters"):
        feature(name, ["x"])(lambda position, out: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import numpy", "<string>, line 2 cannot be compiled: an import must be outside the function"),
        ("out[0, 0] = position.x", "<string>, line 2 cannot be compiled: Unknown attribute 'x' of type Posi"),
        ("out[0, 0] = nothing", "f cannot be compiled: NameError: name 'nothing' is not defined"),
    ],
)
def test_features_that_cannot_be_compiled(line, words):
    feature("broken", ["x"])(_program(f"def f(position, out):\n    {line}"))
    with pytest.raises(RecipeError, match=re.escape(words)) as caught:
        kifu.encode(kifu.read_sgf("(;SZ[9];B[aa])"), "broken")
    del FEATURES["broken"]
    assert "\n" not in str(caught.value)


def test_feature_of_another_module_is_not_replaced():
    with pytest.raises(RecipeError, match=r"feature 'own' is already defined in kifu\.planes\.features"):
        feature("own", ["x"])(lambda position, out: None)


def _program(text, **names):
    names["__name__"] = names.get("module", "mine")
    exec(text, names)
    return names["f"]


def test_fingerprint_covers_everything_the_code_uses():
    calls, adds = "def f(view, out):\n    'Draws.'\n    g(out, K)\n", "def f(out, k):\n    out[0] = k + L\n"
    made = "def make(k):\n    def f(view, out): out[0] = k\n    return f\nf = make(%d)"
    g = _program(adds, L=1)
    whole = _program(calls, g=g, K=3)
    others = [
        _program(calls, g=g, K=4),
        _program(calls, g=_program(adds, L=2), K=3),
        _program(calls, g=_program(adds.replace("+", "-"), L=1), K=3),
        _program(calls, g=_program(adds, L=1, module="theirs"), K=3),
        _program(calls.replace("K)", "5)"), g=g, K=3),
        _program(calls, g=g, K=np.array([3])),
        _program(calls, g=g, K=np.array([4])),
        _program(made % 1),
        _program(made % 2),
    ]
    hashes = [fingerprint(each) for each in [whole, *others]]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == fingerprint(_program(calls, g=_program(adds, L=1), K=3))
    assert hashes[0] == fingerprint(_program(calls.replace("Draws.'", "Draw.'\n\n    # here"), g=g, K=3))
    assert hashes[0][1] == {"mine"}
    assert hashes[4][1] == {"mine", "theirs"}


@pytest.mark.subprocess
@pytest.mark.slow
def test_feature_of_a_module_is_cached_on_disk(tmp_path):
    """Two programs, one after the other, use a feature of a file beside them; then the file changes."""
    (tmp_path / "mine.py").write_text(
        "from kifu.planes.features import feature\n"
        "from kifu.go.state import add_point\n"
        "POINT = 3\n"
        "@feature('mine', ['one point'])\n"
        "def mine(position, out):\n"
        "    add_point(out[0], POINT)\n"
    )
    program = (
        "import mine\n"
        "from drawn_games import draw\n"
        "from kifu.planes import encoder\n"
        "planes, _ = draw('mine', (5, 5, [('B', (0, 0))]))\n"
        "kernel = encoder._compile(encoder.find_plane_set('mine').features)\n"
        "print(planes.reshape(-1).nonzero()[0].tolist(), kernel.dispatcher._cache_hits.total())\n"
    )
    modules = f"{tmp_path}:{TESTS}/support:{TESTS}/twins"
    environment = os.environ | {"PYTHONPATH": modules, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    reported = []
    for point in (3, 3, 4):
        (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("POINT = 3", f"POINT = {point}"))
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], check=True, capture_output=True, text=True, env=environment
        )  # -B: the file changes within a second
        reported.append(done.stdout.strip())
    assert reported == ["[3] 0", "[3] 1", "[4] 0"]


@pytest.mark.slow
def test_redefined_feature_is_compiled_anew():
    for point in (3, 4):

        @feature("one_point", ["one point"])
        def one_point(position: PositionContext, out: np.ndarray, point=point) -> None:
            add_point(out[0], point)

        planes, _ = draw("one_point", (5, 1, [("B", None)]))
        assert np.flatnonzero(planes).tolist() == [point]
    del FEATURES["one_point"]


# Unpacking


@pytest.mark.nojit
@pytest.mark.parametrize(("dtype", "one"), [(np.uint8, 1), (np.float32, 1), (np.uint16, 0x3F80), (np.float64, -2)])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (4, 4), (19, 19)])
def test_unpacking(dtype, one, size):
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (3, 4, *size))
    packed = np.packbits(bits.astype(bool).reshape(3, 4, -1), axis=2)
    out = np.full(bits.shape, 9, dtype)
    unpack(packed, out, one)
    np.testing.assert_array_equal(out, bits.astype(dtype) * dtype(one))


def test_unpacking_mismatched_shapes():
    with pytest.raises(ValueError, match=r"planes packed as uint8 \(2, 3, 4\) do not fit an array of \(2, 3, 6, 6\)"):
        unpack(np.zeros((2, 3, 4), np.uint8), np.empty((2, 3, 6, 6), np.uint8))
    with pytest.raises(ValueError, match="do not fit"):
        unpack(np.zeros((2, 3, 5), np.uint8), np.empty((2, 3, 6, 6), np.uint8)[:, :, ::-1])

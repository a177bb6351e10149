"""Every feature against its slow twin, and the laws that the planes of every set keep."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_planes
from compiled import LARGEST
from drawn_games import COMPOSED_SETS, draw, games, read_archive, turn
from kifu.planes.features import FAMILIES, FEATURES
from kifu.planes.registry import PLANE_SETS
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT, symmetries
from marks import thorough
from naive_planes import BITS, VALUES

SIZES = st.one_of(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.sampled_from([(1, 25), (9, 7), (13, 13), (19, 19), (LARGEST, LARGEST)]),
)
few = settings(max_examples=max(5, settings().max_examples // 15))

# To compile the kernels of all sets takes minutes. Each feature is also checked without the compiler.
composed = pytest.mark.parametrize("name", COMPOSED_SETS)


@functools.cache
def composition(name):
    return "+".join(feature.name for feature in PLANE_SETS[name].features)


def test_the_compositions_above_have_every_feature():
    stems = {part.rstrip("0123456789") for part in f"{BITS}+{VALUES}".split("+")}
    built_in = {name for name, feature in FEATURES.items() if feature.fill.__module__.startswith("kifu.")}
    assert stems == (built_in | set(FAMILIES)) - {"edge"} == set(naive_planes.FEATURES)


@pytest.mark.slow
@pytest.mark.nojit
@few
@pytest.mark.parametrize("name", [BITS, VALUES])
@given(drawn=games(SIZES), rating=st.tuples(*2 * [st.sampled_from([0, np.nan, 1, 31, 32, 33.5, 39, 40, 41, 49])]))
def test_features_against_their_twins(name, drawn, rating):
    width, height, _ = drawn
    planes, label = draw(name, drawn, rating=rating)
    dan = tuple(min(int(its) - 31, 9) if its >= 32 else 0 for its in rating)
    moves = [(what, colour) for colour, what in drawn[2] if len(colour) == 1]
    for row, position in enumerate(naive_planes.positions(*drawn, dan)):
        wanted = naive_planes.planes(name, position)
        np.testing.assert_allclose(planes[row], wanted, rtol=1e-6, atol=1e-30, err_msg=f"ply {row}")
        point = moves[row][0]
        assert label[row] == (width * height if point is None else point[1] * width + point[0])
    assert len(planes) == len(moves)
    assert planes.dtype == (np.float32 if name == VALUES else np.uint8)


@composed
@few
@given(drawn=games(st.tuples(st.integers(1, 6), st.integers(1, 6))), rating=st.just((35, 41)))
def test_sets_are_their_features(name, drawn, rating):
    if PLANE_SETS[name].padding:
        return
    planes, _ = draw(name, drawn, rating=rating)
    for row, position in enumerate(naive_planes.positions(*drawn, (4, 9))):
        np.testing.assert_allclose(planes[row], naive_planes.planes(composition(name), position), 1e-6, 1e-30)


@composed
@few
@given(drawn=games(SIZES))
def test_planes_of_a_game_under_a_symmetry(name, drawn):
    width, height, _ = drawn
    if PLANE_SETS[name].padding and max(width, height) > 23:
        return
    planes, label = draw(name, drawn)
    for k in range(1, 8):
        got, got_label = draw(name, drawn, k)
        np.testing.assert_array_equal(got, turn(planes, k))
        np.testing.assert_array_equal(got_label, symmetries(width, height)[k][label])


@composed
@few
@given(drawn=games(SIZES))
def test_planes_with_the_colours_swapped(name, drawn):
    """Own planes stay the same; only black and white planes are exchanged."""
    width, height, nodes = drawn
    if PLANE_SETS[name].padding and max(width, height) > 23:
        return
    other = {"B": "W", "W": "B", "AB": "AW", "AW": "AB", "AE": "AE"}
    planes, label = draw(name, drawn, rating=(32, 34))
    got, got_label = draw(name, (width, height, [(other[colour], what) for colour, what in nodes]), rating=(34, 32))
    names = PLANE_SETS[name].plane_names
    swap = {"black": "white", "white": "black", "Black": "White", "White": "Black"}
    swapped = [" ".join(swap.get(word, word) for word in each.split()) for each in names]
    for c, each in enumerate(swapped):
        if each in names:
            np.testing.assert_array_equal(got[:, c], planes[:, names.index(each)], each)
        else:  # a set that has ones for Black only
            np.testing.assert_array_equal(got[:, c], 1 - planes[:, c], each)
    np.testing.assert_array_equal(got_label, label)


@composed
@few
@given(drawn=games(SIZES), extra=st.tuples(st.integers(0, 6), st.integers(0, 6)), k=st.integers(0, 7))
def test_a_padded_board_is_its_own_size_and_nothing(name, drawn, extra, k):
    width, height, _ = drawn
    rim = PLANE_SETS[name].padding
    turned = (height, width) if k & 4 else (width, height)
    large = [min(LARGEST - 2 * rim, side + more) for side, more in zip(turned, extra)]
    if min(large[0] - turned[0], large[1] - turned[1]) < 0:
        return
    planes, label = draw(name, drawn, k)
    got, got_label = draw(name, drawn, k, width=large[0], height=large[1], pad=True)
    inside = np.s_[:, :, rim : rim + turned[1], rim : rim + turned[0]]
    np.testing.assert_array_equal(got[inside], planes[inside])
    outside = got.copy()
    outside[inside] = 0
    edges = np.array([each == "outside the board" for each in PLANE_SETS[name].plane_names])
    assert not outside[:, ~edges].any()
    beyond = np.ones(got.shape[2:], got.dtype)
    beyond[inside[2:]] = 0
    assert (got[:, edges] == beyond).all()
    y, x = np.divmod(label, turned[0])
    wanted = np.where(label == turned[0] * turned[1], large[0] * large[1], y * large[0] + x)
    np.testing.assert_array_equal(got_label, wanted)


@few
@given(drawn=games(st.sampled_from([(9, 9), (23, 5), (19, 19)])))
def test_clark_is_padded_by_one(drawn):
    width, height, _ = drawn
    planes, label = draw("clark8", drawn)
    seven, label7 = draw("seven", drawn)
    assert planes.shape[1:] == (8, height + 2, width + 2)
    np.testing.assert_array_equal(planes[:, :7, 1:-1, 1:-1], seven)
    np.testing.assert_array_equal(label, label7)
    assert planes[:, :7].sum() == seven.sum()
    edge = np.pad(np.zeros((height, width)), 1, constant_values=1)
    assert (planes[:, 7] == edge).all()


@pytest.mark.slow
@few
@given(drawn=games(SIZES))
def test_a_composition_is_its_parts(drawn):
    planes, _ = draw("seven+last5", drawn)
    np.testing.assert_array_equal(planes[:, :7], draw("seven", drawn)[0])
    np.testing.assert_array_equal(planes[:, 7:], draw("last5", drawn)[0])
    zero, eighteen = draw("agz17", drawn)[0], draw("lz18", drawn)[0]
    np.testing.assert_array_equal(zero[:, 0:16:2], eighteen[:, :8])
    np.testing.assert_array_equal(zero[:, 1:16:2], eighteen[:, 8:16])
    np.testing.assert_array_equal(zero[:, 16:], eighteen[:, 16:17])


@pytest.mark.slow
@pytest.mark.parametrize("every", [50, *thorough(5)])
@pytest.mark.parametrize("name", [BITS, VALUES])
def test_features_of_real_games(shared, name, every):
    for game in read_archive(shared / "data/kgs/KGS-2016_02-19-577-.tar.gz", 40):
        nodes = []
        setup = list(game.setup)
        for ply, word in enumerate([*game.moves, None]):
            while setup and setup[0][0] <= ply:
                at = setup.pop(0)[1]
                kind = "AE" if at & ERASE_BIT else "AW" if at & WHITE_BIT else "AB"
                nodes.append((kind, [((at & POINT_MASK) % 19, (at & POINT_MASK) // 19)]))
            if word is not None:
                p = word & POINT_MASK
                nodes.append(("W" if word & WHITE_BIT else "B", None if p == 361 else (p % 19, p // 19)))
        planes, _ = draw(name, (19, 19, nodes))
        for row, position in enumerate(naive_planes.positions(19, 19, nodes)):
            if row % every == 0:  # the twin takes 30 ms
                expected = naive_planes.planes(name, position)
                np.testing.assert_allclose(planes[row], expected, 1e-6, 1e-30, err_msg=f"{row}")

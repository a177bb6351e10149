"""Hashes of games and rows: a naive implementation, and the invariants."""

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_hashes as naive
from drawn_games import OneGame, flat
from kifu.corpus import hashes
from kifu.corpus.hashes import OPENING_PLIES, handicap_as_setup, hash_games, hash_rows, make_hash_state, text_hashes
from kifu.point import ERASE_BIT, NO_POINT, POINT_MASK, WHITE_BIT
from kifu.records.games import concat
from kifu.records.sgf import as_block, scan


@st.composite
def games(draw, max_size=4):
    """Any words at all, on few points, so that setup meets itself; setup comes in the order of its plies."""
    width, height = draw(st.integers(1, max_size)), draw(st.integers(1, max_size))
    n = width * height
    points = st.one_of(st.integers(0, n), st.sampled_from([n, n + 1, NO_POINT]))
    moves = draw(st.lists(st.builds(int.__or__, points, st.sampled_from([0, WHITE_BIT])), max_size=8))
    passes = draw(st.integers(0, 2))
    plies = st.integers(0, len(moves) + passes + 1)
    bits = st.sampled_from([0, WHITE_BIT, ERASE_BIT, ERASE_BIT | WHITE_BIT])
    setup = draw(st.lists(st.tuples(plies, st.builds(int.__or__, points, bits)), max_size=6))
    return OneGame(width, height, moves + [n] * passes, tuple(sorted(setup, key=lambda entry: entry[0])))


def canonical(*some):
    return hash_games(flat(some))[0].tolist()


def opening(game, plies):
    walk, out = make_hash_state(flat([game])), np.empty((2, 1), np.uint64)
    with np.errstate(over="ignore"):
        hashes.hash_all(walk, plies, *out)
    return int(out[1, 0])


@pytest.mark.nojit
@given(st.lists(st.one_of(games(), games(max_size=25)), max_size=6))
def test_canonical_equals_the_naive_implementation(some):
    found, begun = hash_games(flat(some))
    assert (found.dtype, begun.dtype) == (np.uint64, np.uint64)
    assert found.tolist() == [naive.canonical(game) for game in some]
    assert begun.tolist() == [naive.opening(game, OPENING_PLIES) for game in some]


@pytest.mark.nojit
@given(games(), st.integers(0, 9))
def test_opening_is_the_hash_of_the_first_plies(game, plies):
    assert opening(game, plies) == naive.opening(game, plies)


@pytest.mark.nojit
@given(games(), st.integers(0, 7), st.booleans(), st.integers(0, 3), st.randoms())
def test_hash_invariances(game, k, swap, passes, rng):
    n = game.width * game.height
    same = naive.symmetric(naive.swapped(game) if swap else game, k)
    if not same.setup or same.setup[-1][0] <= len(same.moves):  # else passes would come before that setup
        same.moves.extend([n] * passes)
    once = {(ply, word & POINT_MASK): (ply, word) for ply, word in same.setup}  # the last word on each point
    shuffled = sorted(rng.sample(list(once.values()), len(once)), key=lambda entry: entry[0])
    expected = hash_games(flat([game]))
    found = hash_games(flat([same._replace(setup=tuple(shuffled))]))
    assert [h.tolist() for h in found] == [h.tolist() for h in expected]


DIFFERENT = {
    "empty": OneGame(19, 19, []),
    "empty, 9 x 9": OneGame(9, 9, []),
    "empty, 9 x 5": OneGame(9, 5, []),
    "a corner": OneGame(19, 19, [0]),
    "beside it": OneGame(19, 19, [1]),
    "twice one colour": OneGame(19, 19, [0, 1]),
    "both colours": OneGame(19, 19, [0, 1 | WHITE_BIT]),
    "in the other order": OneGame(19, 19, [1, 0 | WHITE_BIT]),
    "a pass first": OneGame(19, 19, [361, 0 | WHITE_BIT, 1]),
    "a bad move first": OneGame(19, 19, [NO_POINT, 0 | WHITE_BIT, 1]),
    "set up": OneGame(19, 19, [], ((0, 0),)),
    "two set up": OneGame(19, 19, [], ((0, 0), (0, 1))),
    "two of two colours": OneGame(19, 19, [], ((0, 0), (0, 1 | WHITE_BIT))),
    "set up before": OneGame(19, 19, [1], ((0, 0),)),
    "set up before, other colour": OneGame(19, 19, [1], ((0, 0 | WHITE_BIT),)),
    "set up after": OneGame(19, 19, [1], ((1, 0),)),
    "set up after a pass": OneGame(19, 19, [1, 361 | WHITE_BIT], ((2, 0),)),
    "emptied": OneGame(19, 19, [1], ((1, 0 | ERASE_BIT),)),
    "none": OneGame(0, 0, []),
}


@pytest.mark.nojit
def test_hashes_differ_for_different_games():
    found = canonical(*DIFFERENT.values())
    assert len(set(found)) == len(DIFFERENT), dict(zip(DIFFERENT, found))


def test_hashes_never_change():
    """If this fails, catalogues and splits that exist have changed their meaning: mend the code, not the numbers."""
    moves = [(37 * ply + 60) % 361 | ply % 2 * WHITE_BIT for ply in range(60)]
    some = [*DIFFERENT.values(), OneGame(19, 19, moves, ((0, 5), (0, 9 | WHITE_BIT), (40, 7 | ERASE_BIT)))]
    found = np.stack(hash_games(flat(some)))
    assert found[:, -1].tolist() == GOLDEN
    assert hashlib.sha256(found.astype("<u8").tobytes()).hexdigest() == GOLDEN_ALL


GOLDEN = [15902770676834282350, 12910200519090429016]
GOLDEN_ALL = "250876fff79aae4f20d857b74463b1181492955d593ae65949306bf1584ee725"


@pytest.mark.nojit
@given(st.integers(0, 2**32), st.integers(0, 7), st.integers(OPENING_PLIES, OPENING_PLIES + 20))
def test_a_game_shares_its_opening_with_its_beginnings(seed, k, plies):
    rng = np.random.default_rng(seed)
    moves = [int(p) | ply % 2 * WHITE_BIT for ply, p in enumerate(rng.integers(0, 361, 60))]
    setup = tuple(sorted((int(ply), int(p)) for ply, p in rng.integers(0, 60, (4, 2))))
    game = OneGame(19, 19, moves, setup)
    cut = OneGame(19, 19, moves[:plies], tuple(entry for entry in setup if entry[0] < plies))
    found = hash_games(flat([game, naive.symmetric(cut, k)]))[1].tolist()
    assert found[0] == found[1]


# Black and White stones alternate after the handicap in all of these.
AFTER = b";W[qf];B[nc];W[rd];B[qh]"
HANDICAPS = {
    "moves": b"HA[3];B[pd];B[dp];B[pp]" + AFTER,
    "moves in another order": b"HA[3];B[pp];B[pd];B[dp]" + AFTER,
    "passes between": b"HA[3];B[pd];W[];B[dp];W[tt];B[pp]" + AFTER,
    "passes after each": b"HA[3];B[pd];W[];B[dp];W[];B[pp];W[]" + AFTER,
    "one in the root": b"HA[3]AB[dp];B[pd];B[pp]" + AFTER,
    "the first in the root": b"HA[3]B[pd];B[dp];B[pp]" + AFTER,
    "no HA": b";B[pd];B[dp];B[pp]" + AFTER,
    "HA 0": b"HA[0];B[pd];B[dp];B[pp]" + AFTER,
    "HA is negative": b"HA[-3];B[pd];B[dp];B[pp]" + AFTER,
    "HA is no number": b"HA[three];B[pd];B[dp];B[pp]" + AFTER,
    "setup after the root": b"HA[3];AB[pd][dp][pp]" + AFTER,
    "setup without HA": b"AB[pd][dp][pp]" + AFTER,
    "another HA": b"HA[4]AB[pd][dp][pp]" + AFTER,
    "mirrored": b"HA[3];B[dd];B[pp];B[dp];W[cf];B[fc];W[bd];B[ch]",
}
OTHERS = {
    "fewer than HA": b"HA[4];B[pd];B[dp];B[pp]" + AFTER,
    "more than HA": b"HA[2];B[pd];B[dp];B[pp]" + AFTER,
    "HA 1": b"HA[1];B[pd];B[dp];B[pp]" + AFTER,
    "no HA, a pass": b";B[pd];W[];B[dp];B[pp]" + AFTER,
    "HA 0, a pass": b"HA[0];B[pd];W[];B[dp];B[pp]" + AFTER,
    "White in the root": b"HA[3]AW[aa];B[pd];B[dp];B[pp]" + AFTER,
    "setup between": b"HA[3];B[pd];B[dp];AB[jj];B[pp]" + AFTER,
    "White first": b"HA[3];W[qf];B[pd];B[dp];B[pp]" + AFTER[6:],
    "Black passes": b"HA[3];B[pd];B[dp];B[];B[pp]" + AFTER,
}


def handicap_games(records):
    return scan(as_block([b"(;SZ[19]" + record + b")" for record in records.values()]))


def test_handicap_stones_as_moves_and_as_setup_are_one_game():
    setup = scan(as_block([b"(;SZ[19]HA[3]AB[pd][dp][pp]" + AFTER + b")"]))
    expected = [h.tolist() * len(HANDICAPS) for h in hash_games(setup)]
    found = hash_games(handicap_as_setup(handicap_games(HANDICAPS)))
    assert [dict(zip(HANDICAPS, h.tolist())) for h in found] == [dict(zip(HANDICAPS, h)) for h in expected]


def test_other_stones_remain_moves():
    games = handicap_games(OTHERS)
    same = handicap_as_setup(games)
    assert same.moves.tolist() == games.moves.tolist()
    assert same.setup.tolist() == games.setup.tolist()


def test_more_stones_than_root_setup_can_count_remain_moves():
    games = handicap_games({"": b"AB[aa][bb]" + b";B[cc]" * 65_534 + b";W[dd]"})
    assert handicap_as_setup(games).root_setup.tolist() == [2]


def test_handicap_games_among_others():
    """Each game becomes what it becomes alone, and later setup keeps its place."""
    later = {"later setup": b"HA[2];B[pd];B[dp];W[qf];AB[aa];B[cc]", "empty": b"", "plain": b";B[aa];W[bb]"}
    records = later | HANDICAPS | OTHERS | {"only stones": b"HA[2];B[pd];B[dp]"}
    together = handicap_as_setup(handicap_games(records))
    alone = [handicap_as_setup(handicap_games({name: record})) for name, record in records.items()]
    expected = concat(alone)
    for name in ("moves", "move_offset", "setup", "setup_ply", "setup_offset", "root_setup"):
        assert getattr(together, name).tolist() == getattr(expected, name).tolist(), name
    assert alone[0].setup_ply.tolist() == [0, 0, 1]
    assert alone[-1].moves.tolist() == []
    assert len(handicap_as_setup(scan(as_block([])))) == 0


def test_no_games():
    assert [h.tolist() for h in hash_games(flat([]))] == [[], []]


def test_boards_that_are_too_large_have_no_symmetries():
    five, mirrored = OneGame(200, 3, [5]), OneGame(200, 3, [194])
    found = canonical(five, naive.swapped(five), five._replace(moves=[5, 600]), mirrored)
    assert len(set(found[:3])) == 1
    assert found[3] != found[0]


RECORDS = (
    b"(;SZ[19]HA[2]AB[dd][pp];W[pd])", b"(;SZ[19]AB[dd][pp];W[pd])", b"(;SZ[19]HA[2]PL[W]AB[dd][pp];W[pd])",
    b"(;SZ[19]HA[2]AB[pp][dd];W[pd])", b"(;SZ[19]HA[2]AB[dd][pp];B[pd])", b"(;SZ[19]HA[2]AB[dd][pp];W[pd];B[])",
    b"(;SZ[19]HA[2]AB[dd];W[pd];AB[pp])", b"(;SZ[13]HA[2]AB[dd];W[pd])", b"(;SZ[19:13];B[aa])", b"(;SZ[13:19];B[aa])",
    b"(;SZ[19];B[aa];W[bb];B[cc];W[dd];B[ee])", b"(;SZ[19];B[aa];W[bb];B[cc];W[dd])", b"(;SZ[19])", b"(;SZ[19]HA[1])",
    b"",
)  # fmt: skip
"""Each says something else than all others."""


def test_id_depends_on_all_arrays():
    games = scan(as_block(RECORDS))
    ids = hash_rows(games, [])
    assert (ids.dtype, ids.shape) == (np.uint64, (len(RECORDS),))
    assert len(set(ids.tolist())) == len(RECORDS)
    assert (
        hash_rows(scan(as_block([b"(;SZ[19]HA[0])"])), []).tolist()
        == hash_rows(scan(as_block([b"(;SZ[19])"])), []).tolist()
    )
    twice = hash_rows(concat([games, games]), [])
    assert twice.tolist() == ids.tolist() * 2
    # Where a game lies, and what was forgiven, do not count.
    moved = replace(games, member=games.member + 1, warnings=games.warnings + 1, start=games.start + 1)
    assert hash_rows(moved, []).tolist() == ids.tolist()


TEXTS = [None, "", "\0", "\0\0", "a", "b", "ab", "ba", "abcdefgh", "abcdefghi", "abcdefgh\0", "弈城", "弈城" * 9, None]


def texts(*values):
    return pa.array(values, pa.string())


def same_rows(count):
    return scan(as_block([b"(;SZ[9];B[aa])"] * count))


@pytest.mark.nojit
@given(st.lists(st.sampled_from(RECORDS), max_size=4), st.data())
def test_id_equals_the_naive_implementation(records, data):
    games = scan(as_block(records))
    column = st.lists(st.none() | st.text(max_size=20), min_size=len(games), max_size=len(games))
    words = data.draw(st.lists(column, max_size=3))
    numbers = np.stack([games.width, games.height, games.to_play, games.handicap], 1).astype(int).tolist()
    lists = [
        [part.tolist() for part in np.split(values, offset[1:-1])]
        for values, offset in (
            (games.setup, games.setup_offset), (games.setup_ply, games.setup_offset), (games.moves, games.move_offset),
        )
    ]  # fmt: skip
    rows = zip(numbers, zip(*lists), zip(*words) if words else [()] * len(games))
    found = hash_rows(games, [texts(*column) for column in words])
    assert found.tolist() == [naive.row_hash(*row) for row in rows]


@pytest.mark.nojit
def test_id_depends_on_all_texts():
    games = same_rows(len(TEXTS))
    ids = hash_rows(games, [texts(*TEXTS)])
    assert [TEXTS.index(text) for text in TEXTS] == [ids.tolist().index(i) for i in ids.tolist()]
    assert text_hashes(texts(*TEXTS)).tolist().count(int(text_hashes(texts(None))[0])) == 2


@pytest.mark.nojit
def test_id_depends_on_the_column_of_a_text():
    rows = [("ab", "c", None), ("a", "bc", None), (None, "ab", "c"), ("ab", None, "c"), ("ab", "c", "")]
    ids = hash_rows(same_rows(len(rows)), [texts(*column) for column in zip(*rows)])
    assert len(set(ids.tolist())) == len(rows)


@pytest.mark.nojit
@given(st.lists(st.none() | st.text(max_size=20)), st.integers(0, 3), st.integers(0, 3))
def test_id_of_sliced_columns(values, before, after):
    padded = texts(*["x"] * before, *values, *[None] * after)
    assert text_hashes(padded.slice(before, len(values))).tolist() == text_hashes(texts(*values)).tolist()

"""Ladders: boards with the answer drawn, the slow twin, and KataGo's own planes."""

import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_ladder
from compiled import assert_state, bits, play
from drawn_games import read_archive
from kifu.errors import DropReason, GameError
from kifu.go.ladder import NODE_LIMIT, NODES, ladder_moves, laddered_stones, new_ladder_search
from kifu.go.replay import GameMoves, set_up
from kifu.go.rules import clear_history, make_move, new_history
from kifu.go.state import SUICIDE_REMOVED, clear, new_state, rebuild_chains
from kifu.kernel import kernel
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.records.game import read_sgf
from naive import FORBIDDEN, NaiveBoard

# By default only without the compiler; the planes of AlphaGo test compiled ladders.
pytestmark = pytest.mark.slow

SIZES = st.one_of(st.tuples(st.integers(1, 5), st.integers(1, 5)), st.sampled_from([(7, 7), (20, 20)]))


@kernel
def moves_of(s, lad, mover, captures, escapes):
    ladder_moves(s, lad, np.uint8(mover), captures, escapes)


@kernel
def stones_of(s, lad, stones):
    laddered_stones(s, lad, stones)


def ask(s, lad, mover):
    """(captures, escapes, laddered) as sets of points."""
    captures, escapes, stones = (np.full(len(s.words), 2**64 - 1, np.uint64) for _ in range(3))
    moves_of(s, lad, mover, captures, escapes)
    stones_of(s, lad, stones)
    return bits(captures), bits(escapes), bits(stones)


# Black is to move. Small letters are stones that are caught. * catches some, + saves some, # does both.
DRAWN = {
    "runs into the corner": """
        . . . . . . .
        . . X . . . .
        . X o * . . .
        . X . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .""",
    "runs into a breaker": """
        . . . . . . .
        . . X . . . .
        . X O . . . .
        . X . . . . .
        . . . . . . .
        . . . . . O .
        . . . . . . .""",
    "in atari, and the ladder works": """
        . . . . . . .
        . . O . . . .
        . O x O . . .
        . O . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .""",
    "in atari, and a friend waits": """
        . . . . . . .
        . . O . . . .
        . O X O . . .
        . O + . . . .
        . . . . . . .
        . . . . . X .
        . . . . . . .""",
    "saved by one more step, three liberties": """
        . O . . .
        O X + . .
        . O . . .""",
    "along the edge, from either side": """
        . . . . . .
        . X X X . .
        . X o * . .
        . . * . . .""",
    "on the edge one side does not do": """
        . . . . . .
        . . . . . .
        . . X X . .
        . * o . . .
        . . x . . .""",
    "in atari already: nothing to catch any more": """
        . . . . . .
        . . X . . .
        . X o . . .""",
    "taking an attacker saves": """
        . . . . . . .
        . . O X . . .
        . O X O X . .
        . O + + X . .
        . . . . . . .
        . . . . . . .""",
    "taking an attacker does not: it is a snapback": """
        . X X X . .
        X X o o X X
        X o * * X .
        . X o X X .
        . X o X . .
        . . * . . .""",
    "two eyes: where the attacker may not play": """
        . O . O X .
        O O O O X .
        X X X X + .""",
    "one eye: from outside only": """
        . o o X .
        o o * X .
        X X X . .""",
    "two kos are as good as none": """
        o X X . .
        * o X X .
        o # O X .
        X O O X .
        . X X . .""",
}
SYMBOLS = {"x": BLACK, "o": WHITE}


@pytest.mark.nojit
@pytest.mark.parametrize("name", DRAWN)
def test_drawn(name):
    rows = [line.split() for line in DRAWN[name].split("\n") if line]
    width, height = len(rows[0]), len(rows)
    for k, turned in enumerate(symmetries(width, height)):
        w, h = (height, width) if k & 4 else (width, height)
        at = {divmod(int(turned[y * width + x]), w)[::-1]: v for y, row in enumerate(rows) for x, v in enumerate(row)}
        drawn = [{p for p, v in at.items() if v in symbols} for symbols in ("*#", "+#", "xo")]
        for mover in (BLACK, WHITE):
            naive = NaiveBoard(w, h, "simple", FORBIDDEN)
            stones = {p: SYMBOLS[v.lower()] for p, v in at.items() if v.lower() in SYMBOLS}
            naive.set_up({p: c if mover == BLACK else 3 - c for p, c in stones.items()})
            assert list(naive_ladder.ladders(naive, mover)) == drawn
            s = state_of(naive)
            assert ask(s, new_ladder_search(w, h), mover) == tuple({y * w + x for x, y in points} for points in drawn)


def state_of(naive):
    s = new_state(naive.width, naive.height)
    for (x, y), colour in naive.stones.items():
        s.colour[y * naive.width + x] = colour
    rebuild_chains(s)
    return s


def check(s, lad, naive):
    for mover in (BLACK, WHITE):
        expected = [{y * naive.width + x for x, y in points} for points in naive_ladder.ladders(naive, mover)]
        assert list(ask(s, lad, mover)) == expected
    assert_state(s, naive)


@pytest.mark.nojit
@given(SIZES, st.data())
def test_the_twin_on_random_games(size, data):
    """Moves clump around a point, so that there are ataris. What is known is kept from one position to the next."""
    width, height = size
    s, naive = new_state(width, height), NaiveBoard(width, height, "simple", FORBIDDEN)
    lad = new_ladder_search(width, height)
    near = data.draw(st.integers(0, width * height - 1))
    for ply in range(data.draw(st.integers(1, 50))):
        p = (near + data.draw(st.integers(-2, 2)) + width * data.draw(st.integers(-2, 2))) % (width * height)
        colour = data.draw(st.sampled_from([BLACK, WHITE]))
        if naive.why_not((p % width, p // width), colour) == DropReason.KEPT:
            naive.play((p % width, p // width), colour)
            assert play(s, p, colour, FORBIDDEN) == 0
            if ply % 2:
                check(s, lad, naive)


@pytest.mark.nojit
def test_the_twin_on_random_positions():
    lad = new_ladder_search(5, 4)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        naive = NaiveBoard(5, 4, "simple", FORBIDDEN)
        share = rng.uniform(0.3, 0.9)
        naive.set_up({point: int(rng.integers(1, 3)) for point in naive.points() if rng.random() < share})
        check(state_of(naive), lad, naive)


@pytest.mark.nojit
def test_the_ban_of_ko():
    """White has just taken a stone; Black, in atari, may not save himself by taking back at once.

    . . O . . . .
    . . X O . . .
    . X O k O . .
    . . X O . . .
    . . . . . . .
    """
    s, naive, lad = new_state(7, 5), NaiveBoard(7, 5, "simple", FORBIDDEN), new_ladder_search(7, 5)
    moves = [(9, BLACK), (15, BLACK), (23, BLACK), (17, BLACK)] + [(p, WHITE) for p in (2, 10, 18, 24, 16)]
    for p, colour in moves:
        naive.play((p % 7, p // 7), colour)
        assert play(s, p, colour, FORBIDDEN) == 0
    assert naive.ko_point == (3, 2)
    check(s, lad, naive)
    assert ask(s, lad, BLACK)[1] == {8}
    s.scalars[:] = -1  # as a pass leaves it
    naive.play(None, BLACK)
    check(s, lad, naive)
    assert ask(s, lad, BLACK)[1] == {8, 17}


@pytest.mark.nojit
@pytest.mark.parametrize("stones", range(14))
def test_bounds(stones):
    """Past its bounds a search says "not caught", and the board is as it was: this ladder takes 12 stones to read."""
    naive = NaiveBoard(7, 7, "simple", FORBIDDEN)
    naive.set_up({(2, 1): BLACK, (1, 2): BLACK, (2, 2): WHITE, (1, 3): BLACK})
    s = state_of(naive)
    lad = new_ladder_search(7, 7)
    assert lad.scalars[NODES] == NODE_LIMIT
    lad.scalars[NODES] = stones
    few = new_ladder_search(7, 7)
    few = few._replace(n_moves=few.n_moves[: stones + 2])
    for bounded in (lad, few):
        assert ask(s, bounded, BLACK)[0] == ({17} if stones >= 12 else set())
        assert_state(s, naive)


@pytest.mark.parametrize(("width", "height"), [(0, 19), (26, 19)])
def test_impossible_sizes(width, height):
    with pytest.raises(GameError, match=f"board size {width} x {height} is not within 1 to 25"):
        new_ladder_search(width, height)


@kernel
def follow(s, history, kept, fresh, moves, setup, setup_ply, captures, escapes, stones):
    """Fills [T, 2, W] bit sets with the ladders before each move, as found with what is kept and with nothing known."""
    clear(s)
    clear_history(history)
    at = 0
    game = GameMoves(moves, setup, setup_ply)
    for ply in range(moves.shape[0]):
        if at < setup.shape[0] and setup_ply[at] <= ply:
            at = set_up(s, game, at, setup.shape[0], ply)
        for i in range(fresh.cached.shape[0]):
            fresh.cached[i] = np.uint64(0)
        c = np.uint8(WHITE if moves[ply] & WHITE_BIT else BLACK)
        for k, lad in enumerate((kept, fresh)):
            ladder_moves(s, lad, c, captures[ply, k], escapes[ply, k])
            laddered_stones(s, lad, stones[ply, k])
        if make_move(s, history, np.int64(moves[ply] & POINT_MASK), c, 1, SUICIDE_REMOVED) != 0:
            return ply + 1
    return moves.shape[0]


def ladders_of(game, kept, fresh):
    """(captures, escapes, laddered), each [T, n] of 0 and 1, before each move of a game up to the first illegal one."""
    n = game.width * game.height
    s, history = new_state(game.width, game.height), new_history(0)
    found = np.zeros((3, len(game.moves), 2, len(s.words)), np.uint64)
    plies = follow(s, history, kept, fresh, game.moves, game.setup, game.setup_ply, *found)
    points = np.unpackbits(found[:, :plies].astype(">u8").view(np.uint8), axis=-1)[..., :n]
    assert np.array_equal(points[:, :, 0], points[:, :, 1])
    return points[:, :, 0]


ARCHIVES = {
    "handmade": ["reference/katago/handmade-sgf.tar.gz"],
    "dev": [f"data/kgs/KGS-{name}-.tar.gz" for name in ("2001-19-2298", "2006-19-10388", "2016_01-19-756")],
}


def records(shared, archive, wanted):
    """(name, record) of those of the wanted games that the archives begin with, or hold."""
    for path in ARCHIVES[archive]:
        with tarfile.open(shared / path) as file:
            found = 0
            for member in file:
                name = member.name.removeprefix("handmade/")
                if name in wanted:
                    found += 1
                    yield name, file.extractfile(member).read()
                elif member.isfile() and archive == "dev":
                    break


@pytest.mark.parametrize(("archive", "games", "rows"), [("handmade", 163, 11300), ("dev", 140, 27739)])
def test_katago(shared, archive, games, rows):
    """Planes 14 (stones that are caught) and 17 (moves that catch) of KataGo's own program, point by point.

    Left out are three games that it reads otherwise, by its own rule for variations, and what is not its normal play.
    """
    reference = dict(np.load(shared / "reference/katago" / f"{archive}.npz"))
    names = reference["names"].tolist()
    tables = {}
    compared = [0, 0]
    for name, record in records(shared, archive, set(names)):
        at = np.flatnonzero(reference["game"] == names.index(name))
        game = read_sgf(record)
        size = game.width, game.height
        if len(game.moves) != len(at):
            continue
        if size not in tables:
            tables[size] = new_ladder_search(*size), new_ladder_search(*size)
        n = game.width * game.height
        captures, _, stones = ladders_of(game, *tables[size])
        at = at[: len(captures)]
        normal = (reference["strict"][at] == 1) & (reference["encorePhase"][at] == 0)
        bits_of = np.unpackbits(reference["binaryInputNCHWPacked"][at][:, [14, 17]], axis=-1, count=361)
        theirs = bits_of.reshape(len(at), 2, 19, 19)[:, :, : game.height, : game.width].reshape(captures.shape[0], 2, n)
        assert np.array_equal(stones[normal], theirs[normal, 0])
        assert np.array_equal(captures[normal], theirs[normal, 1])
        compared[0] += 1
        compared[1] += int(normal.sum())
    assert compared == [games, rows]


def test_the_twin_on_real_positions(shared):
    """Every 60th position of some games: also what saves, which KataGo has no plane for."""
    lad = new_ladder_search(19, 19)
    for game in read_archive(shared / "data/kgs/KGS-2016_02-19-577-.tar.gz", every=100):
        naive = NaiveBoard(19, 19)
        for ply, word in enumerate(game.moves):
            p = word & POINT_MASK
            naive.play((p % 19, p // 19) if p < 361 else None, WHITE if word & WHITE_BIT else BLACK)
            if ply % 60 == 59:
                position = naive_ladder.without_ko(naive)
                check(state_of(position), lad, position)

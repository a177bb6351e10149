"""Areas: boards with the answer drawn, the slow twin, all attacks tried, and KataGo's own planes."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_area
from compiled import bits
from kifu.errors import GameError
from kifu.go.area import find_areas, new_area_workspace
from kifu.go.state import rebuild_chains
from kifu.katago.rules import KataRules
from kifu.planes.context import frame_points, new_context
from kifu.point import BLACK, WHITE, symmetries
from naive import REMOVED, NaiveBoard

# Stones, and beside them what a column is named for: "sure", what is certainly one's own, and "area"; with a + where
# suicide is allowed; "tax", what of the area a tax leaves. Columns with and without + are equal where one is missing.
DRAWN = {
    "nothing": """
        stones   sure     area     tax
        . . .    . . .    . . .    . . .
        . . .    . . .    . . .    . . .""",
    "one stone has all, but not for certain": """
        stones   sure     area     tax
        . . .    . . .    X X X    X X X
        . X .    . . .    X X X    X X X
        . . .    . . .    X X X    X X X""",
    "two eyes": """
        stones        sure          area          tax
        . X . X .     X X X X X     X X X X X     X X X X X
        X X X X .     X X X X X     X X X X X     X X X X X
        . . . . .     X X X X X     X X X X X     X X X X X
        . . . . .     X X X X X     X X X X X     X X X X X""",
    "one eye, and the other is false": """
        stones        sure          area          tax
        . X . X O     . . . . O     X X . X O     . X . X O
        X X O O O     . . O O O     X X O O O     X X O O O
        O O O . O     O O O O O     O O O O O     O O O . O
        . O . O O     O O O O O     O O O O O     . O . O O""",
    "one eye with one inner point is dead": """
        stones     sure       area       tax
        . X O .    O O O O    O O O O    O O O O
        X X O O    O O O O    O O O O    O O O O
        O O O .    O O O O    O O O O    O O O O""",
    "a dead stone in an eye": """
        stones        sure          area          tax
        . O X . X     X X X X X     X X X X X     X X X X X
        X X X X X     X X X X X     X X X X X     X X X X X
        . . . . .     X X X X X     X X X X X     X X X X X""",
    "an eye that suicide opens": """
        stones        sure          area          sure+         area+
        O O X . X     X X X X X     X X X X X     . . . . .     O O X X X
        . X X X X     X X X X X     X X X X X     . . . . .     . X X X X
        X X X X X     X X X X X     X X X X X     . . . . .     X X X X X""",
    "with suicide, the chain itself must touch all of an eye": """
        stones     sure       area       sure+      area+
        . O X .    X X X X    X X X X    . . . .    . O X X
        X O X X    X X X X    X X X X    . . . .    X O X X
        X X . X    X X X X    X X X X    . . . .    X X X X""",
    "chains that share their eyes": """
        stones   sure     area     tax
        X . X    X X X    X X X    X X X
        X X .    X X X    X X X    X X X
        X . X    X X X    X X X    X X X""",
    "three in the corner, bent, are one eye only with a stone on the bend": """
        stones        sure          area          tax
        . . X . X     . . . . .     X X X X X     X X X X X
        . X X X X     . . . . .     X X X X X     X X X X X
        X X X X X     . . . . .     X X X X X     X X X X X""",
    "a stone in wide land is not dead yet": """
        stones            sure              area              tax
        . X . X . . .     X X X X . . .     X X X X . . .     . X . X . . .
        X X X X . O .     X X X X . . .     X X X X . O .     X X X X . O .
        X X X X . . .     X X X X . . .     X X X X . . .     X X X X . . .""",
    "wide land of stones that live, and of stones that do not": """
        stones              sure                area                tax
        . X . X . . O .     X X X X . . . .     X X X X . . O O     . X . X . . O .
        X X X X . . O .     X X X X . . . .     X X X X . . O O     X X X X . . O .
        O O O X . . O .     . . . X . . . .     O O O X . . O O     O O O X . . O .
        . . O X X X X O     . . . X X X X .     O O O X X X X O     O O O X X X X O
        . . O X . . X X     . . . X X X X X     O O O X X X X X     O O O X . . X X
        . . O X . . . .     . . . X X X X X     O O O X X X X X     O O O X . . . .""",
    "an eye of dead stones is the victor's": """
        stones            sure              area              tax
        . O X . X . X     X X X X X X X     X X X X X X X     X X X X X X X
        O X X X X X X     X X X X X X X     X X X X X X X     X X X X X X X
        X X . . . . .     X X X X X X X     X X X X X X X     X X X X X X X""",
    "seki, with an eye each": """
        stones     sure       area       tax
        . X O .    . . . .    X X O O    . X O .
        X X O O    . . . .    X X O O    X X O O
        X . . O    . . . .    X . . O    X . . O""",
    "seki beside stones that live": """
        stones              sure                area                tax
        . X O . X . X .     . . . . X X X X     X X O . X X X X     . X O . X . X .
        X X O . X X X X     . . . . X X X X     X X O . X X X X     X X O . X X X X""",
    "a stone in atari makes seki of its own side's area": """
        stones        sure          area          tax
        . X . X O     X X . . .     X X X X O     . X . X O
        X X X O O     X X X . .     X X X O O     X X X O O
        . X O O .     X X . . .     X X O O O     . X O O .""",
    "only a line": """
        stones       sure         area         tax
        . X . X .    X X X X X    X X X X X    X X X X X""",
}


def columns_of(name):
    lines = [re.split(r"\s{2,}", line.strip()) for line in DRAWN[name].strip("\n").split("\n")]
    drawn = {column: [cells[i].split() for cells in lines[1:]] for i, column in enumerate(lines[0])}
    for column in ("sure", "area"):
        drawn.setdefault(f"{column}+", drawn[column])
    return drawn


def state_of(naive, frame=None):
    """The board, and the bit set of its points; frame: (width, height, rim) of what it is laid in."""
    width, height, rim = frame or (naive.width, naive.height, 0)
    view = new_context(naive.width, naive.height, width, height, rim)
    points = frame_points(naive.width, naive.height, width, height, rim)
    for (x, y), colour in naive.stones.items():
        view.s.colour[points[y * naive.width + x]] = colour
    rebuild_chains(view.s)
    return view.s, view.board, points


def ask(naive, suicide, taxed, frame=None, room=None):
    """(sure, areas) as {point: colour}."""
    s, board, points = state_of(naive, frame)
    a = room or new_area_workspace(*(frame or (naive.width, naive.height))[:2])
    out = np.full((2, len(s.words)), 2**64 - 1, np.uint64)
    find_areas(s, a, board, suicide, taxed, out)
    assert not (out[0] & out[1]).any()
    at = {int(p): divmod(i, naive.width)[::-1] for i, p in enumerate(points[:-1])}
    return tuple({at[p]: c + 1 for c in range(2) for p in bits(sets[c])} for sets in (a.alive, out))


def board_of(stones, width, height):
    naive = NaiveBoard(width, height, "simple", REMOVED)
    naive.set_up(stones)
    return naive


@pytest.mark.nojit
@pytest.mark.parametrize("name", DRAWN)
def test_drawn(name):
    drawn = columns_of(name)
    height, width = len(drawn["stones"]), len(drawn["stones"][0])
    for k, turned in enumerate(symmetries(width, height)):
        w, h = (height, width) if k & 4 else (width, height)
        room = new_area_workspace(w, h)
        spot = [divmod(int(p), w)[::-1] for p in turned]
        for symbols in (".XO", ".OX"):
            cells = [(spot[y * width + x], y, x) for y in range(height) for x in range(width)]
            at = {
                column: {point: symbols.index(rows[y][x]) for point, y, x in cells if rows[y][x] != "."}
                for column, rows in drawn.items()
            }
            naive = board_of(at["stones"], w, h)
            for suicide, mark in ((False, ""), (True, "+")):
                assert ask(naive, suicide, False, room=room) == (at[f"sure{mark}"], at[f"area{mark}"])
                assert naive_area.areas(naive, suicide, taxed=False) == at[f"area{mark}"]
            if "tax" in at:
                assert ask(naive, False, True, room=room)[1] == at["tax"]
                assert naive_area.areas(naive, suicide=False, taxed=True) == at["tax"]


@st.composite
def positions(draw, sizes, least):
    """Boards on which every chain has a liberty, with stones on some share of the points that is `least` or more."""
    width, height = draw(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share, black = rng.uniform(least, 0.95), rng.uniform(0.05, 0.95)
    naive = NaiveBoard(width, height, "simple", REMOVED)
    stones = {p: BLACK if rng.random() < black else WHITE for p in naive.points() if rng.random() < share}
    naive.set_up({p: c for p, c in stones.items() if naive.chain(p, stones)[1]})
    return naive


SIZES = st.one_of(st.tuples(st.integers(1, 7), st.integers(1, 7)), st.just((9, 9)))
ROOM = {}


@pytest.mark.nojit
@given(positions(SIZES, 0.2), st.integers(0, 3), st.integers(0, 2))
def test_the_twin(naive, rim, more):
    frame = (naive.width + 2 * rim + more, naive.height + 2 * rim, rim)
    room = ROOM.setdefault(frame[:2], new_area_workspace(*frame[:2]))
    for suicide in (False, True):
        sure = [naive_area.sure_and_loose(naive, c, suicide)[0] for c in (BLACK, WHITE)]
        assert not sure[0] & sure[1]
        expected = dict.fromkeys(sure[0], BLACK) | dict.fromkeys(sure[1], WHITE)
        for taxed in (False, True):
            areas = naive_area.areas(naive, suicide, taxed)
            assert ask(naive, suicide, taxed) == ask(naive, suicide, taxed, frame, room) == (expected, areas)


@pytest.mark.slow
@pytest.mark.nojit
@given(positions(st.sampled_from([(3, 3), (4, 2), (2, 5), (5, 2), (8, 1)]), 0.6))
def test_no_attack_takes_what_is_alive(naive):
    """Pass-alive is exactly what the other side cannot take, however it plays while the owner passes."""
    for suicide in (False, True):
        sure = ask(naive, suicide, taxed=False)[0]
        for colour in (BLACK, WHITE):
            alive = {p for p, c in naive.stones.items() if c == colour and sure.get(p) == colour}
            assert alive == naive_area.uncapturable(board_of(naive.stones, naive.width, naive.height), colour, suicide)


@pytest.mark.parametrize(("width", "height"), [(0, 19), (26, 19)])
def test_impossible_sizes(width, height):
    with pytest.raises(GameError, match=f"board size {width} x {height} is not within 1 to 25"):
        new_area_workspace(width, height)


@pytest.mark.parametrize(("archive", "rows"), [("area", 9750), ("handmade", 9823)])
def test_katago(shared, archive, rows):
    """Planes 18 and 19 of KataGo's own program, from its planes of stones, wherever area is counted."""
    reference = dict(np.load(shared / "reference/katago" / f"{archive}.npz"))
    rules = [KataRules.parse(re.sub(r"komi[-.\d]+$", "", text) or "japanese") for text in reference["rules"].tolist()]
    planes = reference["binaryInputNCHWPacked"][:, [0, 1, 2, 18, 19]]
    room, frames, compared = new_area_workspace(19, 19), {}, 0
    out = np.zeros((2, 6), np.uint64)
    for row in np.flatnonzero(reference["strict"]):
        reported = rules[reference["game"][row]]
        if reported.scoring == "territory":
            continue
        compared += 1
        points, own, other, *theirs = np.unpackbits(planes[row], axis=-1, count=361).reshape(5, 19, 19)
        size = int(points.any(0).sum()), int(points.any(1).sum())
        if size not in frames:
            frames[size] = new_context(*size, 19, 19, 0)
        s, board = frames[size].s, frames[size].board
        mover = int(reference["pla"][row])
        s.colour[:361] = (own * mover + other * (3 - mover)).ravel()
        rebuild_chains(s)
        find_areas(s, room, board, reported.suicide, reported.tax != "none", out)
        ours = np.unpackbits(out.astype(">u8").view(np.uint8), axis=-1, count=361)
        assert np.array_equal(ours[[mover - 1, 2 - mover]].reshape(2, 19, 19), theirs)
    assert compared == rows

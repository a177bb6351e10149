"""Random games for hypothesis to draw, and the ways to write them down."""

from hypothesis import strategies as st

from compiled import LARGEST
from flat import OneGame
from kifu.errors import DropReason
from kifu.point import BLACK, ERASE_BIT, WHITE, WHITE_BIT, to_sgf
from naive import NaiveBoard

SIZES = st.one_of(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST)),
    st.integers(2, LARGEST).map(lambda size: (size, size)),
)
SETUP = {"AB": 0, "AW": WHITE_BIT, "AE": ERASE_BIT}


@st.composite
def games(draw, sizes=SIZES):
    """(width, height, nodes) of a legal game: crowded, with passes, repeated colours and stones set up at any time.

    nodes: ("B" or "W", point or None), or (one of SETUP, points).
    """
    width, height = draw(sizes)
    rng = draw(st.randoms(use_true_random=False))
    x0, y0 = rng.randrange(width), rng.randrange(height)
    around = [(x, y) for x in range(width) for y in range(height) if abs(x - x0) <= 2 and abs(y - y0) <= 2]
    board, nodes, mover = NaiveBoard(width, height), [], BLACK
    for _ in range(draw(st.integers(0, 60))):
        kind = rng.random()
        if kind < 0.04:
            name, points = rng.choice(sorted(SETUP)), rng.sample(around, rng.randint(1, min(3, len(around))))
            board.set_up(dict.fromkeys(points, {"AB": BLACK, "AW": WHITE, "AE": 0}[name]))
            nodes.append((name, points))
            continue
        allowed = [point for point in around if board.why_not(point, mover) == DropReason.KEPT]
        point = rng.choice(allowed) if allowed and kind > 0.08 else None
        board.play(point, mover)
        nodes.append(("B" if mover == BLACK else "W", point))
        if rng.random() < 0.9:
            mover = 3 - mover
    return width, height, nodes


def sgf(width, height, nodes):
    """The game as a record; setup nodes are nodes of their own."""
    spell = lambda point: "" if point is None else to_sgf(point[1] * width + point[0], width, height)  # noqa: E731
    text = f"(;SZ[{width}:{height}]"
    for name, what in nodes:
        points = what if name in SETUP else [what]
        text += f";{name}" + "".join(f"[{spell(point)}]" for point in points)
    return (text + ")").encode()


def one_game(width, height, nodes):
    """The game as arrays take it."""
    flat_point = lambda point: width * height if point is None else point[1] * width + point[0]  # noqa: E731
    moves, setup = [], []
    for name, what in nodes:
        if name in SETUP:
            setup += [(len(moves), flat_point(point) | SETUP[name]) for point in what]
        else:
            moves.append(flat_point(what) | (WHITE_BIT if name == "W" else 0))
    return OneGame(width, height, moves, tuple(setup))

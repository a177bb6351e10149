"""Random games for hypothesis to draw, and the ways to write them down."""

import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from compiled import LARGEST
from kifu.errors import DropReason
from kifu.planes.encoder import find_encoder
from kifu.planes.packing import unpack
from kifu.planes.registry import PLANE_SETS
from kifu.point import BLACK, ERASE_BIT, WHITE, WHITE_BIT, parse_sgf, to_sgf
from naive import NaiveBoard

SIZES = st.one_of(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST)),
    st.integers(2, LARGEST).map(lambda size: (size, size)),
)
SETUP = {"AB": 0, "AW": WHITE_BIT, "AE": ERASE_BIT}


@st.composite
def games(draw, sizes=SIZES):
    """(width, height, nodes) of a crowded legal game. nodes: ("B" or "W", point or None), or (one of SETUP, points)."""
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
    spell = lambda point: "" if point is None else to_sgf(point[1] * width + point[0], width, height)  # noqa: E731
    text = f"(;SZ[{width}:{height}]"
    for name, what in nodes:
        points = what if name in SETUP else [what]
        text += f";{name}" + "".join(f"[{spell(point)}]" for point in points)
    return (text + ")").encode()


def one_game(width, height, nodes):
    flat_point = lambda point: width * height if point is None else point[1] * width + point[0]  # noqa: E731
    moves, setup = [], []
    for name, what in nodes:
        if name in SETUP:
            setup += [(len(moves), flat_point(point) | SETUP[name]) for point in what]
        else:
            moves.append(flat_point(what) | (WHITE_BIT if name == "W" else 0))
    return OneGame(width, height, moves, tuple(setup))


class Flat(NamedTuple):
    """Return the arrays that `kifu.go.replay` requires."""

    width: np.ndarray
    height: np.ndarray
    moves: np.ndarray
    move_offset: np.ndarray
    setup: np.ndarray
    setup_ply: np.ndarray
    setup_offset: np.ndarray


class OneGame(NamedTuple):
    width: int
    height: int
    moves: list[int]  # point | WHITE_BIT
    setup: tuple[tuple[int, int], ...] = ()  # (ply, point | bits)


def cut(game: OneGame, plies: int) -> OneGame:
    return game._replace(moves=game.moves[:plies])


def flat(games: Iterable[OneGame]) -> Flat:
    games = list(games)
    offset = lambda counts: np.cumsum([0, *counts], dtype=np.int64)  # noqa: E731
    setup = [entry for game in games for entry in game.setup]
    return Flat(
        np.array([game.width for game in games], np.uint8),
        np.array([game.height for game in games], np.uint8),
        np.array([move for game in games for move in game.moves], np.uint16),
        offset(len(game.moves) for game in games),
        np.array([word for _, word in setup], np.uint16),
        np.array([ply for ply, _ in setup], np.uint16),
        offset(len(game.setup) for game in games),
    )


BITS = {b"B": 0, b"W": WHITE_BIT, b"AB": 0, b"AW": WHITE_BIT, b"AE": ERASE_BIT}


def read_sgf(data: bytes) -> OneGame:
    """Parse a 19 x 19 game whose variations, if any, begin after the main line. Setup stones are single points."""
    moves, setup = [], []
    data = re.sub(rb"C\[(\\.|[^\\\]])*\]", b"", data, flags=re.DOTALL)  # comments may look like moves
    for name, values in re.findall(rb"\b(B|W|AB|AW|AE)((?:\[[a-t]{0,2}\]\s*)+)", data.partition(b")")[0]):
        for value in re.findall(rb"\[(.*?)\]", values):
            word = parse_sgf(value.decode(), 19) | BITS[name]
            if len(name) == 1:
                moves.append(word)
            else:
                setup.append((len(moves), word))
    return OneGame(19, 19, moves, tuple(setup))


def read_archive(path: Path, every: int = 1) -> list[OneGame]:
    """Return every `every`-th game of a .tar.gz."""
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()][::every]
        return [read_sgf(archive.extractfile(member).read()) for member in members]


_QUICK = {"one-plane@1", "clark8@1"}
COMPOSED_SETS = [
    # alphago49 is alphago48 and a colour plane.
    pytest.param(
        name, marks=() if name in _QUICK else pytest.mark.thorough if name == "alphago49@1" else pytest.mark.slow
    )
    for name, found in PLANE_SETS.items()
    if found.features
]
"""The plane sets that consist of features; only two compile quickly enough for `make test`."""


def draw(name, drawn, symmetry=0, rating=None, width=None, height=None, pad=False):
    """(planes [T, C, H, W], labels) of every move of a game."""
    game = one_game(*drawn)
    turned = (game.height, game.width) if symmetry & 4 else (game.width, game.height)
    encoder = find_encoder(name, *((width, height) if width else turned), pad)
    count = len(game.moves)
    out, label = encoder.new_out(count), np.full(count, -9, np.int16)
    rating = np.array([(0, 0) if rating is None else rating], np.float32)
    turns = np.array([symmetry], np.uint8)
    drop, ply = encoder.replay(
        flat([game]), np.zeros(1, np.int64), rating, turns, np.arange(count), out, {"move": label}
    )
    assert (drop.tolist(), ply.tolist()) == ([0], [count])
    if encoder.plane_set.real:
        return out.reshape(count, *encoder.shape), label
    bits = np.empty((count, *encoder.shape), np.uint8)
    unpack(out, bits)
    assert not np.unpackbits(out, axis=2)[:, :, encoder.points :].any()
    return bits, label


def turn(planes, k):
    """Planes as they look under a symmetry of the board, see `kifu.point.symmetries`."""
    planes = planes[..., ::-1] if k & 1 else planes
    planes = planes[..., ::-1, :] if k & 2 else planes
    return planes.swapaxes(-1, -2) if k & 4 else planes

"""The planes of a game by `Encoder.replay`."""

import numpy as np
import pytest

from drawn_games import one_game
from flat import flat
from kifu.planes.encoder import find_encoder
from kifu.planes.packing import unpack
from kifu.planes.registry import PLANE_SETS

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

"""Random KataGo training rows for tests."""

import numpy as np

from kifu.katago.npz import ARRAYS, POINTS, SIDE, KataRows


def random_rows(rows: int, seed: int = 0, q: bool = True, meta: bool = True, games: int = 3) -> KataRows:
    """Return valid rows, on boards of all sizes, in the order of their games, which have the hashes 1, 2, ..."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, SIDE + 1, (rows, 2))
    y, x = np.mgrid[:SIDE, :SIDE]
    board = (x < size[:, :1, None]) & (y < size[:, 1:, None])
    planes = rng.random((rows, 22, SIDE, SIDE)) < 0.2
    planes[:, 0] = board
    planes[:, 1:] &= board[:, None]
    planes[:, 2] &= ~planes[:, 1]
    policy = np.zeros((rows, 2, POINTS + 1), np.int16)
    free = (board & ~planes[:, 1] & ~planes[:, 2]).reshape(rows, POINTS)
    for k in range(rows):
        policy[k, 0, rng.choice([*np.flatnonzero(free[k]), POINTS])] = 1
    policy[:, 1] = 1
    targets = np.zeros((rows, 80), np.float32)
    won = rng.integers(0, 2, rows)
    targets[np.arange(rows), won] = 1
    targets[:, 3] = 0.5 - won
    targets[:, [24, 25, 26, 33]] = 1
    game = np.sort(rng.integers(0, games, rows))
    targets[:, 41], targets[:, 42], targets[:, 44] = game + 1, 7, 5
    targets[:, 51], targets[:, 53], targets[:, 63] = np.arange(rows), 2, 3
    scores = np.zeros((rows, 2 * POINTS + 120), np.int8)
    scores[:, 420:422] = 50
    values = np.zeros((rows, 5, SIDE, SIDE), np.int8)
    values[:, 2:4] = rng.integers(-1, 2, (rows, 2, SIDE, SIDE))
    return KataRows(
        np.packbits(planes.reshape(rows, 22, POINTS), axis=-1),
        rng.normal(size=(rows, 19)).astype(np.float32),
        policy,
        targets,
        scores,
        values,
        np.zeros((rows, 3, POINTS + 1), np.int16) if q else None,
        rng.normal(size=(rows, 192)).astype(np.float32) if meta else None,
    )


def same_rows(actual: KataRows, expected: KataRows) -> bool:
    """Return whether all arrays are equal, with their types and shapes."""
    for array, one, other in zip(ARRAYS, actual, expected):
        if (one is None) != (other is None):
            return False
        if one is not None and not (one.dtype == array.dtype == other.dtype and np.array_equal(one, other)):
            return False
    return True


def as_arrays(rows: KataRows) -> dict[str, np.ndarray]:
    """Return the arrays by their names in a file."""
    return {array.name: values for array, values in zip(ARRAYS, rows) if values is not None}

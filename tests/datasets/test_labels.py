"""The labels of times and evaluations."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from kifu.datasets.epoch_plan import LoaderConfig
from kifu.datasets.loader import load
from kifu.point import WHITE_BIT

BEFORE_WHITE = {"win": 0.25, "loss": 0.5, "score": -3.5, "visits": 600}
BEFORE_BLACK = {"win": 0.75, "loss": 0.125, "score": 8.0, "visits": 2}
MOVES = [[40, 41 | WHITE_BIT, 42], [40, 41 | WHITE_BIT], [50]]
UNKNOWN = [math.nan] * 4
EXPECTED = {
    (0, 0): (1.5, UNKNOWN), (0, 1): (math.nan, [0.25, 0.5, -3.5, 600]), (0, 2): (0.0, [0.125, 0.75, -8.0, 2]),
    (1, 0): (math.nan, UNKNOWN), (1, 1): (math.nan, UNKNOWN), (2, 0): (7.25, UNKNOWN),
}  # fmt: skip
"""By row and ply: the seconds, and the evaluation from the mover's view."""


@pytest.mark.parametrize("augment", [False, True])
def test_labels_of_the_next_move(tmp_path: Path, augment: bool) -> None:
    path = write_catalogue(
        tmp_path / "games.parquet",
        rows(
            moves=MOVES, width=[9] * 3, height=[9] * 3, id=[0, 1, 2],
            move_seconds=[[1.5, None, 0.0], None, [7.25]],
            evaluations=[[None, BEFORE_WHITE, BEFORE_BLACK], None, None],
        ),
    )  # fmt: skip
    config = LoaderConfig(augment=augment)
    loader = load(path, "seven", labels=("seconds", "evaluation"), board="9x9", batch_size=4, config=config)
    found = {}
    for batch in loader:
        assert batch.labels["seconds"].dtype == batch.labels["evaluation"].dtype == np.float32
        for game, ply, seconds, evaluation in zip(batch.game, batch.ply, *batch.labels.values()):
            found[int(game), int(ply)] = (float(seconds), evaluation.tolist())
    np.testing.assert_equal(found, EXPECTED)

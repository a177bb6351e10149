"""The columns of a catalogue that results of searches are summed up by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import map_distinct, to_numpy
from kifu.point import BLACK, WHITE

UNKNOWN_YEAR = -1

_WINNERS = {"black": BLACK, "white": WHITE}


class GameInfo(NamedTuple):
    """Results, ratings and years of G games.

    Attributes:
        winner: [G] uint8: BLACK or WHITE, else 0.
        year: [G] int16, UNKNOWN_YEAR if not recorded.
        rating: [G, 2] float32, of Black and of White; NaN if unknown.
    """

    winner: npt.NDArray[np.uint8]
    year: npt.NDArray[np.int16]
    rating: npt.NDArray[np.float32]


INFO_COLUMNS = ("winner", "year", "black_rating", "white_rating")
"""The columns of a catalogue that `game_info` needs."""


def game_info(batch: pa.RecordBatch) -> GameInfo:
    """Return results, ratings and years of rows with at least INFO_COLUMNS, as `Catalogue.batches` yields them."""
    year = to_numpy(pc.fill_null(batch.column("year"), UNKNOWN_YEAR))
    ratings = [to_numpy(batch.column(f"{colour}_rating").fill_null(float("nan"))) for colour in ("black", "white")]
    return GameInfo(
        winner=map_distinct(batch.column("winner"), lambda text: _WINNERS.get(text or "", 0), np.uint8),
        year=np.maximum(year, UNKNOWN_YEAR),
        rating=np.stack(ratings, axis=1),
    )

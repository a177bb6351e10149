"""The columns of the catalogue that encoders read, and how far they can follow its games."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import move_arrays
from kifu.errors import DropReason
from kifu.execution.executor import Executor
from kifu.planes.encoder import RATING_COLUMNS, FrameEncoder

CONTEXT_COLUMNS = ("rules", "komi", "komi_text", "handicap", *RATING_COLUMNS)
"""The columns of the catalogue that encoders read (`FrameEncoder.columns`), besides the games themselves."""

_GAMES = 1024
"""Games replayed at a time when nothing is encoded."""


def playable(encoder: FrameEncoder, batch: pa.RecordBatch, legal: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return how many positions of each game can be encoded, [G].

    Args:
        batch: Rows of the catalogue with PLAYED_COLUMNS and the encoder's columns.
        legal: [G], number of legal moves under `kifu.go.rules.RECORD_RULES`, which most plane sets use.
    """
    if encoder.RECORD_RULES:
        return legal

    def replay(first: int) -> npt.NDArray[np.int32]:
        part = batch.slice(first, _GAMES)
        context = encoder.context(part)
        _, ply = encoder.replay(move_arrays(part), np.arange(len(part)), context.values)
        return np.where(context.drop == DropReason.KEPT, ply, np.int32(0))

    with Executor() as executor:
        counts = [np.empty(0, np.int32), *executor.map(replay, range(0, len(legal), _GAMES))]
    return np.minimum(np.concatenate(counts), legal)

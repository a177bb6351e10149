"""Renders positions of games in a catalogue as planes, with the encoder of a plane set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import move_arrays
from kifu.datasets.labels import ENCODED_LABELS
from kifu.errors import DropReason
from kifu.execution.executor import Executor
from kifu.planes.encoder import RATING_COLUMNS, FrameEncoder, GameContext, PositionRequest, make_encoder
from kifu.planes.registry import find_plane_set
from kifu.records.games import GameArrays, MoveArrays

Rows = npt.NDArray[np.int64]

CONTEXT_COLUMNS = ("rules", "komi", "komi_text", "handicap", *RATING_COLUMNS)
"""The columns of the catalogue that encoders read (`FrameEncoder.columns`), besides the games themselves."""

_GAMES = 1024
"""Games replayed at a time when nothing is rendered."""


@dataclass(frozen=True, slots=True)
class Renderer:
    """An encoder with scratch memory for any number of threads; `find_renderer` returns one."""

    encoder: FrameEncoder
    _idle_scratch: list[Any] = field(default_factory=list, repr=False, compare=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of ENCODED_LABELS that the plane set defines."""
        return ENCODED_LABELS if self.encoder.plane_set.inputs else ENCODED_LABELS[:1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of CONTEXT_COLUMNS that `render` needs."""
        return self.encoder.columns

    def context(self, batch: pa.RecordBatch, rows: Rows) -> GameContext:
        """Return what the encoder needs to know about some rows of a batch, which has at least `columns`."""
        return self.encoder.context(batch.select(self.columns).take(pa.array(rows)))

    def render(
        self,
        batch: pa.RecordBatch,
        games: GameArrays | MoveArrays,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        slot_of_move: Rows,
        planes: npt.NDArray[Any],
        labels: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Render positions of some games into `planes` and into the arrays of ENCODED_LABELS in `labels`.

        Args:
            slot_of_move: For each move of these games, game after game, the slot that receives the position before it,
                or -1.
            planes: [slots, ...], in the form of `kifu.datasets.examples.Batch.planes`.

        Returns:
            drop: [R] uint8, the `DropReason` that stopped a game, or KEPT.
            ply: [R] int32, how many moves were replayed; 0 if the encoder lacks context, such as known rules. Slots of
                later positions are undefined.
        """
        try:
            scratch = self._idle_scratch.pop()
        except IndexError:
            scratch = self.encoder.new_scratch()
        context = self.context(batch, rows)
        request = PositionRequest(games, rows, symmetry, slot_of_move)
        drop, ply = self.encoder.draw(scratch, request, planes, labels, context.values)
        self._idle_scratch.append(scratch)
        unknown = context.drop != DropReason.KEPT
        return np.where(unknown, context.drop, drop), np.where(unknown, 0, ply).astype(np.int32)

    def playable(self, batch: pa.RecordBatch, legal: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return how many positions of each game can be rendered, [G].

        Args:
            batch: Rows of the catalogue with PLAYED_COLUMNS and at least `columns`.
            legal: [G], number of legal moves under `kifu.go.rules.RECORD_RULES`, which most plane sets use.
        """
        if self.encoder.RECORD_RULES:
            return legal
        no_slots = self.encoder.new_out(0), self.new_labels(0)

        def replay(first: int) -> npt.NDArray[np.int32]:
            part = batch.slice(first, _GAMES)
            games = move_arrays(part)
            rows, slot_of_move = np.arange(len(part)), np.full(len(games.moves), -1)
            return self.render(part, games, rows, np.zeros(len(part), np.uint8), slot_of_move, *no_slots)[1]

        with Executor() as executor:
            counts = [np.empty(0, np.int32), *executor.map(replay, range(0, len(legal), _GAMES))]
        return np.minimum(np.concatenate(counts), legal)

    def new_labels(self, slots: int) -> dict[str, npt.NDArray[Any]]:
        """Return uninitialized arrays for ENCODED_LABELS; `globals` is empty unless the plane set defines it."""
        return {
            "move": np.empty(slots, np.int16),
            "globals": np.empty((slots, len(self.encoder.plane_set.inputs)), np.float32),
        }


def find_renderer(name: str, width: int = 19, height: int = 19, pad: bool = False) -> Renderer:
    """Return the renderer of a plane set, or of features joined by "+", for boards of one size, or with `pad` up to it.

    Raises RecipeError if there is no such plane set, or it has no encoder, and GameError for a board that it does not
    support.
    """
    return Renderer(make_encoder(find_plane_set(name), width, height, pad))

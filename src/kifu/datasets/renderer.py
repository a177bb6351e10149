"""Planes of games in a catalogue, drawn by the encoder of their plane set, which is told what it asks for of each game.

Most sets ask for ranks at most. KataGo's asks for the terms of the game, and gives numbers beside its planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import move_arrays
from kifu.datasets.labels import DRAWN
from kifu.errors import DropReason
from kifu.execution.executor import ThreadExecutor
from kifu.planes.board_embedding import FrameEncoder, GameContext
from kifu.planes.encoder import RATING_COLUMNS, make_encoder
from kifu.planes.registry import find_plane_set
from kifu.records.games import GameArrays, MoveArrays

Rows = npt.NDArray[np.int64]

CONTEXT_COLUMNS = ("rules", "komi", "komi_text", "handicap", *RATING_COLUMNS)
"""All columns of the catalogue that encoders read (`FrameEncoder.columns`), besides the games themselves."""

_GAMES = 1024
"""Followed at one go where nothing is drawn."""


@dataclass(frozen=True, slots=True)
class Renderer:
    """An encoder, and desks for any number of threads. `find_drawing` makes it."""

    encoder: FrameEncoder
    _desks: list[Any] = field(default_factory=list, repr=False, compare=False)
    """Of threads that are not at work."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What it tells beside the planes: those of `DRAWN` that mean something."""
        return DRAWN if self.encoder.plane_set.inputs else DRAWN[:1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of CONTEXT_COLUMNS that `draw` needs."""
        return self.encoder.columns

    def told(self, batch: pa.RecordBatch, rows: Rows) -> GameContext:
        """What it asks for of some rows of a batch, which has its `columns` at least.

        Where KataGo's planes are drawn of a game whose record says nothing of rules, or of komi, they are the usual
        ones (`usual_terms`); what it says and KataGo does not understand, sets the game aside.
        """
        return self.encoder.context(batch.select(self.columns).take(pa.array(rows)))

    def draw(
        self,
        batch: pa.RecordBatch,
        games: GameArrays | MoveArrays,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        planes: npt.NDArray[Any],
        labels: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Draws positions of these games as `Encoder.encode` does: planes, and the labels that are `DRAWN`.

        batch: rows of the catalogue with its `columns` at least; games: the same rows. Returns drop and ply of each of
        `rows`; nothing that is wanted of a game whose terms are not known is of any meaning, and its ply is 0.
        """
        try:
            desk = self._desks.pop()
        except IndexError:
            desk = self.encoder.new_desk()
        told = self.told(batch, rows)
        drop, ply = self.encoder.draw(desk, games, rows, symmetry, take, planes, labels, told.values)
        self._desks.append(desk)
        unknown = told.drop != DropReason.KEPT
        return np.where(unknown, told.drop, drop), np.where(unknown, 0, ply).astype(np.int32)

    def playable(self, batch: pa.RecordBatch, legal: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """[G] of how many moves of each game the position before can be drawn.

        batch: rows of the catalogue with PLAYED_COLUMNS and its `columns` at least.  legal: [G], how many moves can be
        played under `kifu.go.rules.RECORD_RULES`, by which most sets go.
        """
        if self.encoder.RECORD_RULES:
            return legal
        nothing = self.encoder.new_out(0), self.new_labels(0)

        def follow(first: int) -> npt.NDArray[np.int32]:
            some = batch.slice(first, _GAMES)
            games = move_arrays(some)
            rows, take = np.arange(len(some)), np.full(len(games.moves), -1)
            return self.draw(some, games, rows, np.zeros(len(some), np.uint8), take, *nothing)[1]

        with ThreadExecutor() as executor:
            found = [np.empty(0, np.int32), *executor.map(follow, range(0, len(legal), _GAMES))]
        return np.minimum(np.concatenate(found), legal)

    def new_labels(self, slots: int) -> dict[str, npt.NDArray[Any]]:
        """Room for `DRAWN` of so many positions, not initialised; `globals` are no numbers where they mean nothing."""
        return {
            "move": np.empty(slots, np.int16),
            "globals": np.empty((slots, len(self.encoder.plane_set.inputs)), np.float32),
        }


def find_renderer(name: str, width: int = 19, height: int = 19, pad: bool = False) -> Renderer:
    """The renderer of a plane set for boards of one size, see `find_encoder`. Raises RecipeError, GameError."""
    return Renderer(make_encoder(find_plane_set(name), width, height, pad))

"""A batch of training positions: what networks and teachers see, and the targets."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class TeacherInputs(NamedTuple):
    """The inputs of a teacher for a batch.

    Attributes:
        planes: In the format of the loader, as in `TrainingBatch`.
        globals: [B, G] float32, its global inputs, if it has any.
    """

    planes: Tensor
    globals: Tensor | None


class TeacherPositions(NamedTuple):
    """The positions of a batch, for an engine, see `kifu.learn.training_games.TrainingGames.positions`.

    Attributes:
        game: [B] int64, the bits of each game's id.
        ply: [B] int32.
    """

    game: Tensor
    ply: Tensor


class SoftTargets(NamedTuple):
    """The targets that teachers give for a batch.

    Attributes:
        policy: [B, moves] float32, probabilities.
        value: [B] float32, or None if no teacher has a value.
    """

    policy: Tensor
    value: Tensor | None


class TrainingBatch(NamedTuple):
    """A batch of positions with their labels.

    Attributes:
        planes: In the loader's output format: [B, C, H, W], or packed [B, C, bytes].
        move: [B] int64, the move played.
        result: [B] int8, if the network has a value head.
        ownership: [B, N] int8, if the network has an ownership head.
        globals: [B, G] float32, if the network has global inputs.
        next_position: Epoch and batch that follow this batch, see `TrainingData.position`.
        teachers: The inputs of each teacher for these positions, until they have labelled the batch.
    """

    planes: Tensor
    move: Tensor
    result: Tensor | None = None
    ownership: Tensor | None = None
    globals: Tensor | None = None
    next_position: tuple[int, int] = (0, 0)
    teachers: tuple[TeacherInputs | TeacherPositions, ...] = ()
    soft: SoftTargets | None = None

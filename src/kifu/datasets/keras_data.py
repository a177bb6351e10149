"""A loader's batches as Keras 3 takes them, and as the book's generator gives them. Needs keras: kifu[keras]."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from kifu.datasets.examples import Batch
from kifu.datasets.loader import Loader
from kifu.errors import RecipeError

Pair = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


class KerasDataset(keras.utils.PyDataset):  # type: ignore[misc]
    """What a loader gives: planes [B, C, H, W] float32, and the next moves one-hot [B, classes] float32.

    `dataset[i]` is batch i of the epoch. While Keras trains, which by default asks for the batches of an epoch in an
    order of its own (`shuffle=True`), each index means the next batch when it is first asked for, since only batches
    that come one after another come fast. Each pass of Keras is an epoch of the loader's.
    """

    def __init__(self, loader: Loader, num_classes: int | None = None) -> None:
        """num_classes: by default as many as the board has points; one more if passes are among the moves.

        Raises RecipeError if the loader's planes are not float32, the next move is none of its labels, or it resumes in
        the middle of an epoch.
        """
        super().__init__()
        if "move" not in [label.name for label in loader.layout.labels]:
            raise RecipeError("Keras learns the label 'move', which the loader does not give")
        if loader.output != "float32":
            raise RecipeError(f"Keras needs planes as output 'float32', not {loader.output!r}")
        self._loader = loader.share(0, 1)  # from the beginning of its epoch
        self._classes = loader.layout.pass_label if num_classes is None else num_classes
        self._lock = threading.Lock()
        self._batches: Generator[Batch] | None = None
        self._number: dict[int, int] | None = None
        self._next = 0

    def __len__(self) -> int:
        """How many batches the epoch has."""
        return len(self._loader)

    def __getitem__(self, index: int) -> Pair:
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} of an epoch that has {len(self):,}")
        with self._lock:
            number = index if self._number is None else self._number.setdefault(index, len(self._number))
            if self._batches is None or number != self._next:
                self._close()
                self._batches = iter(self._loader.epoch(self._loader.number, number))
            batch = next(self._batches)
            self._next = number + 1
        return _pair(batch, self._classes)

    def on_epoch_begin(self) -> None:
        """Keras begins a pass."""
        self._number = {}

    def on_epoch_end(self) -> None:
        """Keras ends a pass, after all batches or fewer; what begins then is the next epoch."""
        with self._lock:
            # One batch out of many is no pass: Keras looks at one before it trains, and ends that as it ends an epoch.
            if self._number is not None and len(self._number) > min(1, len(self) - 1):
                self._loader = self._loader.epoch(self._loader.number + 1)
            self._close()
            self._number = None

    def _close(self) -> None:
        if self._batches is not None:
            self._batches.close()
        self._batches = None

    def generate(self, batch_size: int = 128, num_classes: int = 361) -> Iterator[Pair]:
        """Batches for ever, epoch after epoch, the last one of an epoch with what is left: the book's generator."""
        loader = self._loader.sized(batch_size)
        while True:
            for batch in loader:
                yield _pair(batch, num_classes)

    def get_num_samples(self, batch_size: int = 128, num_classes: int = 361) -> int:
        """How many examples an epoch has; what is asked for besides, as the book does, changes nothing."""
        return self._loader.positions


def dataset(loader: Loader, num_classes: int | None = None) -> KerasDataset:
    """A loader as `fit`, `evaluate` and `predict` of Keras take it; see `KerasDataset`."""
    return KerasDataset(loader, num_classes)


def _pair(batch: Batch, classes: int) -> Pair:
    moves = batch.labels["move"]
    if moves.max() >= classes:
        raise RecipeError(f"move {moves.max()} is none of {classes} classes; a pass needs one of its own")
    one_hot = np.zeros((len(batch), classes), np.float32)
    one_hot[np.arange(len(batch)), moves] = 1
    planes: npt.NDArray[Any] = batch.planes
    return planes, one_hot

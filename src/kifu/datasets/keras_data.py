"""Adapter for Keras 3, with the interface of the book's generator. Requires keras: kifu[keras]."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Any

import keras
import numpy as np

from kifu.arrays import Floats
from kifu.datasets.examples import Batch
from kifu.datasets.loader import Loader
from kifu.errors import RecipeError

Pair = tuple[Floats, Floats]


class KerasDataset(keras.utils.PyDataset):  # type: ignore[misc]
    """The batches of a loader: planes [B, C, H, W] float32, and one-hot next moves [B, classes] float32.

    Each pass of Keras, and each loop, is an epoch of the loader; `dataset[i]` is batch i of the next one. By default
    Keras requests the batches of a training epoch in random order (`shuffle=True`), but only consecutive batches are
    fast; therefore each index returns the next batch when it is requested for the first time.
    """

    def __init__(self, loader: Loader, num_classes: int | None = None) -> None:
        """Wrap a loader.

        Raises RecipeError if the loader has another output, no label "move", or resumes in the middle of an epoch.

        Args:
            loader: A loader with output "float32" and the label "move".
            num_classes: Number of moves; by default the number of points. Use one more if passes are among the moves.
        """
        super().__init__()
        if "move" not in [label.name for label in loader.layout.labels]:
            raise RecipeError("Keras requires the label 'move', which the loader does not have")
        if loader.config.output != "float32":
            raise RecipeError(f"Keras requires output 'float32', got {loader.config.output!r}")
        self._loader = loader.shard(0, 1)  # from the start of its epoch
        self._classes = loader.layout.pass_label if num_classes is None else num_classes
        self._lock = threading.Lock()
        self._batches: Generator[Batch] | None = None
        self._number: dict[int, int] | None = None
        self._next = 0
        self._looked = False

    def __setattr__(self, name: str, value: Any) -> None:
        if value and (name == "use_multiprocessing" or (name == "workers" and value > 1)):
            raise RecipeError(f"{name} must be {'<= 1' if name == 'workers' else False}, got {value}; kifu prefetches")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self._loader)

    def __getitem__(self, index: int) -> Pair:
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} of an epoch that has {len(self):,}")
        with self._lock:
            number = index if self._number is None else self._number.setdefault(index, len(self._number))
            if self._batches is None or number != self._next:
                self._batches = iter(self._loader.epoch(self._loader.epoch_number, number))
            batch = next(self._batches)
            self._next = number + 1
        return _pair(batch, self._classes)

    def __iter__(self) -> Iterator[Pair]:
        return (_pair(batch, self._classes) for batch in self._loader)

    def on_epoch_begin(self) -> None:
        """Start a pass."""
        self._number = {}

    def on_epoch_end(self) -> None:
        """End a pass, after all batches or fewer; the next pass is the next epoch."""
        with self._lock:
            # Keras may request a single batch before it trains, and then ends the epoch; that is not a pass.
            if self._number and (self._looked or len(self._number) > 1):
                self._loader.set_epoch(self._loader.epoch_number + 1)
            self._looked = True
            self._batches = self._number = None

    def generate(self, batch_size: int = 128, num_classes: int = 361) -> Iterator[Pair]:
        """Yield batches forever, epoch after epoch, like the book's generator; an epoch's last batch may be smaller."""
        while True:
            epoch = self._loader.with_batch_size(batch_size)
            self._loader.set_epoch(self._loader.epoch_number + 1)
            for batch in epoch:
                yield _pair(batch, num_classes)

    def get_num_samples(self, batch_size: int = 128, num_classes: int = 361) -> int:
        """Return the number of examples of an epoch. The arguments, which the book passes, have no effect."""
        return self._loader.positions


def dataset(loader: Loader, num_classes: int | None = None) -> KerasDataset:
    """Return a loader in the form that `fit`, `evaluate` and `predict` of Keras take; see `KerasDataset`."""
    return KerasDataset(loader, num_classes)


def _pair(batch: Batch, classes: int) -> Pair:
    moves = batch.labels["move"]
    if moves.max() >= classes:
        raise RecipeError(f"move {moves.max()} is out of range for {classes} classes; passes require one more class")
    one_hot = np.zeros((len(batch), classes), np.float32)
    one_hot[np.arange(len(batch)), moves] = 1
    return batch.planes, one_hot

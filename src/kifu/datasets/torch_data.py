"""Adapter for PyTorch: batches as tensors. Requires torch: kifu[learn].

loader = kifu.load("train.parquet", "seven", batch_size=1024)
for batch in DataLoader(dataset(loader), batch_size=None):
    planes = unpack(batch["planes"].to("cuda"), 19, 19)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from kifu.datasets.examples import Batch
from kifu.datasets.loader import Item, Loader

_MAX_WORKERS = 1024


class TorchDataset(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
    """The batches of a loader, epoch after epoch; `dataset` returns one.

    The workers of a `DataLoader` take turns: each yields every `num_workers`-th batch, so neither the batches nor their
    order depend on the number of workers. Each loop is a new epoch, also with workers that do not persist.

    Attributes:
        loader: The loader. With workers, which have copies, `follow` keeps its state exact.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        # How many starts were announced, and the epoch and batch of the last one; shared with the workers.
        self._announced = torch.zeros(3, dtype=torch.int64).share_memory_()
        # For each worker the seed of its last loop since then and the loop's number, in one word, which a worker writes
        # at once. By them a new worker finds its epoch.
        self._loops = torch.zeros(_MAX_WORKERS, dtype=torch.int64).share_memory_()
        self._seen = 0
        self._state: dict[str, Any] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Start the next loop at the beginning of an epoch, also in persistent workers."""
        self.loader.set_epoch(epoch)
        self._announce()

    def follow(self, batches: Iterable[Item]) -> Generator[Item]:
        """Yield the batches of one loop over a `DataLoader` of this data set, and count them in the state of `loader`.

        Each loop starts where `loader` does, with any number of workers, persistent or not.
        """
        self._announce()
        yield from self.loader.follow(batches)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the last loop for `load_state_dict`, in a worker that of this worker's batches."""
        return self.loader.state_dict() if self._state is None else self._state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a loop stood, in the main process before workers start. torchdata calls it in each worker.

        Raises:
            RecipeError: The state is of another source, of other options, or of another number of processes.
        """
        if get_worker_info() is None:
            self.loader.load_state_dict(state)
            self._loops.zero_()
            return
        self._part.load_state_dict(state)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        if get_worker_info() is None:
            return map(tensors, self.loader)
        announced, epoch, batch = self._announced.tolist()
        resumed = self._state is None and "_part" in vars(self)  # by torchdata
        loop = 1 if resumed else self._count_loop()
        if loop > 1 and self._state is None:
            self._part = self._take_turns(self.loader.epoch(self.loader.epoch_number + loop - 1))
        if self._state is not None and announced != self._seen:  # the first loop starts where this copy does
            self._seen, self._part = announced, self._take_turns(self.loader.epoch(epoch, batch))
        batches = iter(self._part)
        self._state = self._part.state_dict()
        return self._worker_batches(batches)

    def _worker_batches(self, batches: Iterator[Batch]) -> Generator[dict[str, Tensor]]:
        for batch in batches:
            # After the last batch the state stays in this epoch, because other workers may not have finished it.
            self._state = self._part.state_dict()
            yield tensors(batch)

    def _count_loop(self) -> int:
        """Return the number of this loop since the last announcement, the same for all its workers.

        They share a random seed, and no worker starts twice in a loop.
        """
        worker = get_worker_info()
        seed, index = (worker.seed - worker.id) % (1 << 40), worker.id % _MAX_WORKERS
        words: list[int] = self._loops.tolist()
        same = [word & 0xFFFF for word in words if word >> 16 == seed and word & 0xFFFF > words[index] & 0xFFFF]
        loop = max(same) if same else max(word & 0xFFFF for word in words) + 1
        self._loops[index] = seed << 16 | loop
        return loop

    @cached_property
    def _part(self) -> Loader:
        """The batches of this worker."""
        return self._take_turns(self.loader)

    @staticmethod
    def _take_turns(loader: Loader) -> Loader:
        worker = get_worker_info()
        return loader.interleave(worker.id, worker.num_workers)

    def _announce(self) -> None:
        """Make persistent workers start their next loop where `loader` does."""
        self._seen += 1
        self._loops.zero_()
        self._announced[:] = torch.tensor([self._seen, *self.loader.position[:2]])


def dataset(loader: Loader) -> TorchDataset:
    """Return a loader as a dataset for torch's `DataLoader`, or torchdata's `StatefulDataLoader`, with batch_size=None.

    The loader uses threads, so workers do not make it faster: each of them replays all games, and renders its share.
    """
    return TorchDataset(loader)


def tensors(batch: Batch) -> dict[str, Tensor]:
    """Return the arrays of a batch as tensors [B, ...] by name: planes, the labels, game and ply.

    Arrays are shared where torch has their type. Labels that are points become int64, as loss functions require; planes
    of output "bfloat16" get that dtype; game becomes int64 with the bits of the uint64.
    """
    planes = batch.planes
    result = {"planes": torch.from_numpy(planes.view(np.int16) if planes.dtype == np.uint16 else planes)}
    if planes.dtype == np.uint16:
        result["planes"] = result["planes"].view(torch.bfloat16)
    for name, values in batch.labels.items():
        result[name] = torch.from_numpy(values.astype(np.int64) if values.dtype == np.int16 else values)
    return result | {"game": torch.from_numpy(batch.game.view(np.int64)), "ply": torch.from_numpy(batch.ply)}


def unpack(packed: Tensor, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Unpack planes on their device.

    Args:
        packed: [B, C, ceil(height * width / 8)] uint8.
        height: Height of a plane, which is larger than the board if the plane set pads it.

    Returns:
        [B, C, height, width] of 0 and 1.
    """
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    bits = (packed.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(-2)[..., : height * width].to(dtype).unflatten(-1, (height, width))

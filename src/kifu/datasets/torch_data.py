"""Adapter for PyTorch: batches as tensors. Requires torch: kifu[learn].

loader = kifu.load("train.parquet", "seven", batch_size=1024)
for batch in DataLoader(dataset(loader), batch_size=None):
    planes = unpack(batch["planes"].to("cuda"), 19, 19)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from multiprocessing import current_process
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from kifu.datasets.epoch_plan import LoaderPosition
from kifu.datasets.examples import Batch
from kifu.datasets.loader import Item, Loader

_EPOCHS = 1 << 32


class TorchDataset(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
    """The batches of a loader, epoch after epoch; `dataset` returns one.

    The workers of a `DataLoader` take turns: each yields every `num_workers`-th batch, so neither the batches nor their
    order depend on the number of workers. Loops and epochs are those of `Loader`, with or without workers.

    Attributes:
        loader: The loader. With workers, which have copies, `follow` keeps its state exact.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        # Shared with the workers: the epoch and batch that were set, and for each of the last 64 loops of workers since
        # then, its number * _EPOCHS + its epoch, in one word, which a worker writes at once.
        self._shared = torch.zeros(2 + 64, dtype=torch.int64).share_memory_()
        self._loops = 0
        self._part: Loader | None = None
        self._state: dict[str, Any] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Start the next loop at the beginning of an epoch, also in persistent workers."""
        self.loader.set_epoch(epoch)
        self._announce()

    def follow(self, batches: Iterable[Item]) -> Generator[Item]:
        """Yield the batches of a loop over a `DataLoader` of this data set, and count them in the state of `loader`."""
        self._announce()
        yield from self.loader.follow(batches)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the last loop for `load_state_dict`, in a worker that of this worker's batches."""
        return self.loader.state_dict() if self._state is None else self._state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a loop stood, see `Loader.load_state_dict`; torchdata calls this in each worker."""
        worker = get_worker_info()
        if worker is None:
            self.loader.load_state_dict(state)
            self._announce()
        else:
            self._part = self.loader.interleave(worker.id, worker.num_workers)
            self._part.load_state_dict(state)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        worker = get_worker_info()
        epochs = dict(divmod(word, _EPOCHS) for word in self._shared[2:].tolist() if word)
        if worker is None:
            if epochs:
                self.set_epoch(max(epochs.values()) + 1)
            return map(tensors, self.loader)
        self._loops += 1
        # Processes are numbered as they start, those of a loop consecutively; persistent ones begin each loop together.
        loop = (((current_process()._identity[-1] - worker.id) << 12) ^ self._loops) & 0xFFFFFFF | (1 << 28)
        start = self.loader.position if self._loops == 1 else LoaderPosition(*self._shared[:2].tolist())
        part, self._part = self._part, None
        if part is None:
            epoch = epochs.get(loop, max(epochs.values(), default=start.epoch - 1) + 1)
            part = self.loader.epoch(epoch, start.batch if epoch == start.epoch else 0)
            part = part.interleave(worker.id, worker.num_workers)
        else:  # torchdata resumes, perhaps at an earlier epoch
            epoch = part.epoch_number
            self._shared[2:] = 0
        self._shared[2 + loop % 64] = loop * _EPOCHS + epoch
        self._state = part.state_dict()
        return self._worker_batches(part)

    def _worker_batches(self, part: Loader) -> Generator[dict[str, Tensor]]:
        for batch in part:
            # After the last batch the state stays in this epoch, because other workers may not have finished it.
            self._state = part.state_dict()
            yield tensors(batch)

    def _announce(self) -> None:
        """Make workers start their next loop where `loader` does."""
        self._shared[2:] = 0
        self._shared[:2] = torch.tensor(self.loader.position[:2])


def dataset(loader: Loader) -> TorchDataset:
    """Return a loader as a dataset for `DataLoader`, or torchdata's `StatefulDataLoader`, with batch_size=None."""
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

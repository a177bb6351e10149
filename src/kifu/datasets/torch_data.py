"""Adapter for PyTorch: batches as tensors. Requires torch: kifu[learn].

loader = kifu.load("train.parquet", "seven", batch_size=1024)
for batch in DataLoader(dataset(loader), batch_size=None):
    planes = unpack(batch["planes"].to("cuda"), 19, 19)
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from multiprocessing import current_process
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from kifu.datasets.examples import Batch
from kifu.datasets.loader import Loader

_EPOCHS = 1 << 32


class TorchDataset(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
    """The batches of a loader, epoch after epoch; `dataset` returns one.

    Each worker of a `DataLoader` delivers a part of the epoch, as further processes would (`Loader.shard`).
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        # One word that the workers share, as they have copies of the loader: the number of the last loop of workers
        # * _EPOCHS + the epoch of the next loop.
        self._shared = torch.full((1,), loader.epoch_number).share_memory_()
        self._loops = 0
        self._part: Loader | None = None
        self._state: dict[str, Any] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Start the next loop at the beginning of an epoch, also in persistent workers."""
        self.loader.set_epoch(epoch)
        self._shared[0] = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the last loop for `load_state_dict`, in a worker that of this worker's batches."""
        return self.loader.state_dict() if self._state is None else self._state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a loop stood, see `Loader.load_state_dict`; torchdata calls this in each worker."""
        worker = get_worker_info()
        if worker is None:
            self.loader.load_state_dict(state)
            self._shared[0] = self.loader.epoch_number
        else:
            self._part = self.loader.epoch(self.loader.epoch_number).shard(worker.id, worker.num_workers)
            self._part.load_state_dict(state)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        worker = get_worker_info()
        number, epoch = divmod(int(self._shared[0]), _EPOCHS)
        if worker is None:
            if epoch != self.loader.epoch_number:
                self.loader.set_epoch(epoch)
            return self._batches()
        self._loops += 1
        # Processes are numbered as they start, those of a loop consecutively; persistent ones begin each loop together.
        loop = (((current_process()._identity[-1] - worker.id) << 12) ^ self._loops) & 0x3FFFFFFF | 1 << 30
        part, self._part = self._part, None
        if part is None:
            epoch -= loop == number  # another worker began it
            part = self.loader.epoch(epoch, self.loader.position.batch if epoch == self.loader.epoch_number else 0)
            part = part.shard(worker.id, worker.num_workers)
        self._shared[0] = loop * _EPOCHS + part.epoch_number + 1
        self._state = part.state_dict()
        return self._worker_batches(part)

    def _batches(self) -> Generator[dict[str, Tensor]]:
        for batch in self.loader:
            self._shared[0] = self.loader.epoch_number
            yield tensors(batch)
        self._shared[0] = self.loader.epoch_number  # if a state was at the end of its epoch

    def _worker_batches(self, part: Loader) -> Generator[dict[str, Tensor]]:
        for batch in part:
            # After the last batch the state stays in this epoch, because other workers may not have finished it.
            self._state = part.state_dict()
            yield tensors(batch)


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

"""A loader's batches as tensors, and packed planes written out on the device. Needs torch: kifu[learn].

loader = kifu.load("train.parquet", "seven", batch_size=1024)
for batch in DataLoader(dataset(loader), batch_size=None):
    planes = unpack(batch["planes"].to("cuda"), 19, 19)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from kifu.datasets.examples import Batch
from kifu.datasets.loader import Loader


class TorchDataset(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
    """What a loader gives, epoch after epoch; `dataset` makes one.

    With workers a `DataLoader` makes new ones for each epoch, which know nothing of those before: call `set_epoch`
    before each, or let it keep them (`persistent_workers=True`).
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._share: Loader | None = None

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next loop is of."""
        self.loader = self.loader.epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        worker = get_worker_info()
        if worker is not None and self._share is None:
            self._share = self.loader.share(worker.id, worker.num_workers)
        for batch in self._share or self.loader:
            yield tensors(batch)


def dataset(loader: Loader) -> TorchDataset:
    """A loader as torch's `DataLoader` takes it, with batch_size=None: its batches, by name as `tensors` gives them.

    Threads do the loader's work, so that a `DataLoader` gains nothing from num_workers above 0. With them each worker
    gives a part of the epoch, in batches of its own; together they give all of it, and no position twice.
    """
    return TorchDataset(loader)


def tensors(batch: Batch) -> dict[str, Tensor]:
    """A batch's arrays as tensors, without a copy where torch has their type: planes, the labels, game and ply.

    Labels that are points are int64, as losses want them; planes of an output "bfloat16" are that; game is int64 with
    the bits of the uint64.
    """
    planes = batch.planes
    told = {"planes": torch.from_numpy(planes.view(np.int16) if planes.dtype == np.uint16 else planes)}
    if planes.dtype == np.uint16:
        told["planes"] = told["planes"].view(torch.bfloat16)
    for name, values in batch.labels.items():
        told[name] = torch.from_numpy(values.astype(np.int64) if values.dtype == np.int16 else values)
    return told | {"game": torch.from_numpy(batch.game.view(np.int64)), "ply": torch.from_numpy(batch.ply)}


def unpack(packed: Tensor, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Packed planes [B, C, ceil(height * width / 8)] uint8 as [B, C, height, width] of 0 and 1, where they lie.

    height, width: of a plane, larger than the board where the set has a rim.
    """
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    bits = (packed.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(-2)[..., : height * width].to(dtype).unflatten(-1, (height, width))

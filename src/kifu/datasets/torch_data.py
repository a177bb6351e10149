"""Adapter for PyTorch: batches as tensors. Requires torch: kifu[learn].

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
from kifu.datasets.token_loader import TokenBatch


class TorchDataset(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
    """The batches of a loader, epoch after epoch; `dataset` returns one.

    A `DataLoader` with workers starts new workers for each epoch, which do not know the previous ones: call `set_epoch`
    before each epoch, or keep the workers (`persistent_workers=True`).
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._shard: Loader | None = None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next loop."""
        self.loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        worker = get_worker_info()
        if worker is not None and self._shard is None:
            self._shard = self.loader.shard(worker.id, worker.num_workers)
        for batch in self._shard or self.loader:
            yield tensors(batch)


def dataset(loader: Loader) -> TorchDataset:
    """Return a loader as a dataset for torch's `DataLoader` with batch_size=None.

    The loader uses threads, so workers do not make it faster. With workers, each one yields a disjoint part of the
    epoch, in separate batches.
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


def token_tensors(batch: TokenBatch) -> dict[str, Tensor]:
    """Return tokens, positions and segment_ids [B, L], and lengths [B], as int64 tensors by name."""
    names = ("tokens", "positions", "segment_ids", "lengths")
    return {name: torch.from_numpy(getattr(batch, name).astype(np.int64)) for name in names}


def unpack(packed: Tensor, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Unpack planes on their device.

    Args:
        packed: [B, C, ceil(height * width / 8)] uint8.
        height: Height of a plane, which is larger than the board if the plane set pads it.
        width: Width of a plane.
        dtype: Dtype of the result.

    Returns:
        [B, C, height, width] of 0 and 1.
    """
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    bits = (packed.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(-2)[..., : height * width].to(dtype).unflatten(-1, (height, width))

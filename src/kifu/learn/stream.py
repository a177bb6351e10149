"""Outputs of a network for many positions of catalogue games, with planes from a loader."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

import numpy as np
import torch

from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, Output
from kifu.datasets.loader import Loader
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.datasets.torch_data import tensors, unpack
from kifu.learn.batch_evaluator import BatchEvaluator, BatchOutput
from kifu.learn.positions import EvalPositions, assign_slots, legal_masks

_CPU_BATCH, _GPU_BATCH = 256, 4096

_MEMORY = 64 << 20
"""Bytes of examples that a loader encodes at a time."""


class _PositionSource(CatalogueSource):
    """A loader source of exactly the given positions."""

    def __init__(self, positions: EvalPositions, planes: str) -> None:
        board = (positions.width, positions.height)
        spec = ExampleSpec(planes, board, labels=("move",), filter=PositionFilter(passes=True))
        super().__init__(positions.rows, spec)
        chosen = np.zeros(len(positions.games.moves), np.bool_)
        chosen[positions.move_index] = True
        self._chosen = np.packbits(chosen, bitorder="little")
        self._counts = np.bincount(positions.game, minlength=len(positions.games))

    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        """Return the same positions for every epoch."""
        return EpochSelection(self._counts, self._chosen, None)


@contextmanager
def stream_outputs(
    evaluator: BatchEvaluator, positions: EvalPositions, *, legal: bool, jobs: int
) -> Generator[Iterator[BatchOutput]]:
    """Provide an iterator over the outputs of consecutive positions, see `kifu.learn.predict.Predictor.stream`."""
    device, (width, height) = evaluator.device, (positions.width, positions.height)
    encoder = evaluator.net.encoder_for(width, height)
    source = _PositionSource(positions, encoder.plane_set.name)
    packed = device.type == "cuda" and not source.layout.real
    output: Output = "packed" if packed else "float32"
    config = LoaderConfig(shuffle=None, augment=False, output=output, jobs=jobs, memory=_MEMORY)
    size = _GPU_BATCH if device.type == "cuda" else _CPU_BATCH
    with closing(iter(Loader(source, config, size))) as batches:

        def outputs() -> Generator[BatchOutput]:
            for start, batch in zip(range(0, len(positions), size), batches):
                part = positions.slice(start, start + size)
                planes = tensors(batch)["planes"].to(device)
                planes = unpack(planes, *encoder.shape[1:]) if packed else planes
                inputs = evaluator.global_inputs(part.input_positions)
                mask = torch.from_numpy(_legal_moves(part)).to(device) if legal else None
                yield evaluator.evaluate(planes, inputs, width, height, mask)

        yield outputs()


def _legal_moves(positions: EvalPositions) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return [N, points + 1] which moves are legal under the rules of records."""
    games = positions.games
    return legal_masks(games, assign_slots(games, positions.game, positions.ply), positions.points)

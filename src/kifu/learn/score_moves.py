"""Scores of the moves played in many positions, with planes from a loader."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor

from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, Output
from kifu.datasets.loader import Loader
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.datasets.torch_data import tensors, unpack
from kifu.errors import FormatError
from kifu.learn.net import Net
from kifu.learn.positions import EvalPositions, assign_slots, legal_masks
from kifu.learn.predict import BatchEvaluator, Precision
from kifu.learn.scores import MoveScores
from kifu.planes.encoder import Encoder
from kifu.progress import Progress

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


def score_moves(
    nets: Sequence[Net],
    positions: EvalPositions,
    *,
    legal: bool,
    symmetries: bool,
    precision: Precision,
    jobs: int,
    bar: Progress,
) -> list[MoveScores]:
    """Return the scores of the moves played, for each net.

    Args:
        nets: The nets.
        positions: The positions.
        legal: Restrict the probabilities to legal moves.
        symmetries: Average over the symmetries of the board.
        precision: Precision of the networks.
        jobs: Threads that encode planes.
        bar: Counts positions.

    Raises:
        FormatError: A net returns NaN, or a game differs from its row.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = _GPU_BATCH if device.type == "cuda" else _CPU_BATCH
    width, height = positions.width, positions.height
    encoders = [net.encoder_for(width, height) for net in nets]
    evaluators = [BatchEvaluator(net, device=device, symmetries=symmetries, precision=precision) for net in nets]
    by_planes = {encoder.plane_set.name: encoder for encoder in encoders}
    scores = [MoveScores.empty(len(positions)) for _ in nets]
    with ExitStack() as stack:
        streams = {
            name: stack.enter_context(_stream_planes(positions, encoder, device, size, jobs))
            for name, encoder in by_planes.items()
        }
        for start in range(0, len(positions), size):
            part = positions.slice(start, start + size)
            move, to_play = torch.from_numpy(part.move).to(device), torch.from_numpy(part.to_play).to(device)
            mask = torch.from_numpy(_legal_moves(part)).to(device) if legal else None
            planes = {name: next(stream) for name, stream in streams.items()}
            for evaluator, encoder, out in zip(evaluators, encoders, scores):
                output = evaluator.evaluate(planes[encoder.plane_set.name], to_play, width, height, mask)
                _store_scores(out, start, output.log_probs, move, evaluator.net.name)
            bar.advance(len(move))
    return scores


@contextmanager
def _stream_planes(
    positions: EvalPositions, encoder: Encoder, device: torch.device, size: int, jobs: int
) -> Generator[Generator[Tensor]]:
    """Provide a generator of the planes of all positions on the device, [B, C, H, W] float32, batch by batch."""
    source = _PositionSource(positions, encoder.plane_set.name)
    packed = device.type == "cuda" and not source.layout.real
    output: Output = "packed" if packed else "float32"
    config = LoaderConfig(shuffle=None, augment=False, output=output, jobs=jobs, memory=_MEMORY)
    loader = Loader(source, config, size)
    batches = iter(loader)

    def stream() -> Generator[Tensor]:
        for batch in batches:
            planes = tensors(batch)["planes"].to(device)
            yield unpack(planes, *encoder.shape[1:]) if packed else planes

    try:
        yield stream()
    finally:
        batches.close()


def _legal_moves(positions: EvalPositions) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return [N, points + 1] which moves are legal under the rules of records."""
    games = positions.games
    return legal_masks(games, assign_slots(games, positions.game, positions.ply), positions.points)


def _store_scores(out: MoveScores, start: int, log_probs: Tensor, move: Tensor, name: str) -> None:
    """Store rank, negative log-likelihood and confidence of moves [B], given [B, moves] log-probabilities.

    Raises:
        FormatError: The log-probability of a move is NaN or infinite.
    """
    part = slice(start, start + len(move))
    played = log_probs.gather(1, move[:, None])
    preferred = log_probs > played
    preferred |= (log_probs == played) & (torch.arange(log_probs.shape[1], device=log_probs.device) < move[:, None])
    nll = -played[:, 0]
    if not bool(nll.isfinite().all()):
        raise FormatError(f"net {name} returns values that are NaN or too large")
    out.rank[part] = preferred.sum(1).cpu().numpy()
    out.nll[part] = nll.cpu().numpy()
    out.confidence[part] = log_probs.amax(1).exp().cpu().numpy()

"""Nets asked for the moves of many games at once: the examples come from a loader, in the games' order."""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, Output
from kifu.datasets.loader import Loader
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.datasets.torch_data import tensors, unpack
from kifu.errors import FormatError
from kifu.go.replay import legal_moves
from kifu.learn.breakdown import EvalPositions
from kifu.learn.net import Net
from kifu.learn.scores import MoveScores
from kifu.planes.encoder import Encoder
from kifu.point import symmetries
from kifu.progress import Progress

Precision = Literal["float32", "bfloat16"]

_BATCH, _GPU_BATCH = 256, 4096

_MEMORY = 64 << 20
"""Bytes of examples that a loader draws at a time."""


class _Listed(CatalogueSource):
    """Given positions of games, and no others."""

    def __init__(self, asked: EvalPositions, planes: str) -> None:
        board = (asked.width, asked.height)
        spec = ExampleSpec(planes, board, labels=("move",), filter=PositionFilter(passes=True))
        super().__init__(asked.rows, spec)
        chosen = np.zeros(len(asked.games.moves), np.bool_)
        chosen[asked.at] = True
        self._chosen = np.packbits(chosen, bitorder="little")
        self._counts = np.bincount(asked.row, minlength=len(asked.games))

    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        return EpochSelection(self._counts, self._chosen, None)


class _Judge:
    """A net on the device, as it is asked here."""

    def __init__(self, net: Net, encoder: Encoder, device: torch.device, turned: bool, precision: Precision) -> None:
        """turned: whether answers are the mean over the symmetries of the board. net itself stays as it is."""
        self.name = net.name
        self._module = copy.deepcopy(net.module).to(device, memory_format=torch.channels_last).eval()
        self._half = precision == "bfloat16"
        height, width = encoder.shape[1:]
        turns = range(8 if width == height else 4) if turned else range(1)
        frame, board = symmetries(width, height), symmetries(encoder.width, encoder.height)
        # [T, points]: which point of the frame comes to each under a symmetry; [T, moves]: where each move lands
        self._from = [torch.from_numpy(np.argsort(frame[k, :-1])).to(device) for k in turns]
        self._to = [torch.from_numpy(board[k].astype(np.int64)).to(device) for k in turns]

    def log_chances(self, planes: Tensor, legal: Tensor | None) -> Tensor:
        """[B, moves] float32: ln of the moves' probabilities, of planes [B, C, H, W]. legal: [B, points + 1] bool."""
        told = [self._one(planes, legal, k) for k in range(len(self._from))]
        return told[0] if len(told) == 1 else torch.stack(told).logsumexp(0) - np.log(len(told))

    def _one(self, planes: Tensor, legal: Tensor | None, turn: int) -> Tensor:
        turned = planes.flatten(2)[..., self._from[turn]].view_as(planes)
        with torch.autocast(planes.device.type, torch.bfloat16, enabled=self._half):
            policy = self._module(turned.contiguous(memory_format=torch.channels_last)).policy.float()
        policy = policy[:, self._to[turn][: policy.shape[1]]]
        if legal is not None:
            policy = policy.masked_fill(~legal[:, : policy.shape[1]], -torch.inf)
        return policy.log_softmax(1)


def score_moves(
    nets: Sequence[Net],
    asked: EvalPositions,
    *,
    legal: bool,
    turned: bool,
    precision: Precision,
    jobs: int,
    bar: Progress,
) -> list[MoveScores]:
    """What each net thinks of the moves that were played. bar: counts positions.

    legal, turned, precision: as `kifu.learn.evaluate.evaluate` takes them. jobs: threads that draw planes.
    Raises FormatError if a net tells no numbers, or if a game is not what its row says.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = _GPU_BATCH if device.type == "cuda" else _BATCH
    encoders = [net.encoder_for(asked.width, asked.height) for net in nets]
    judges = [_Judge(net, encoder, device, turned, precision) for net, encoder in zip(nets, encoders)]
    by_planes = {encoder.plane_set.name: encoder for encoder in encoders}
    found = [_room(len(asked)) for _ in nets]
    plain = torch.backends.cudnn.flags(enabled=True, allow_tf32=False, fp32_precision="ieee")  # no TensorFloat-32
    with ExitStack() as stack, torch.inference_mode(), plain:
        drawn = {
            name: stack.enter_context(_planes(asked, encoder, device, size, jobs))
            for name, encoder in by_planes.items()
        }
        for first in range(0, len(asked), size):
            part = asked.part(first, first + size)
            move = torch.from_numpy(part.move).to(device)
            mask = torch.from_numpy(_legal(part)).to(device) if legal else None
            planes = {name: next(batches) for name, batches in drawn.items()}
            for judge, encoder, out in zip(judges, encoders, found):
                chances = judge.log_chances(planes[encoder.plane_set.name], mask)
                _note(out, first, chances, move, judge.name)
            bar.advance(len(move))
    return found


def _room(positions: int) -> MoveScores:
    return MoveScores(np.empty(positions, np.uint16), np.empty(positions, np.float32), np.empty(positions, np.float32))


@contextmanager
def _planes(
    asked: EvalPositions, encoder: Encoder, device: torch.device, size: int, jobs: int
) -> Generator[Generator[Tensor]]:
    """The planes of all positions on the device, [B, C, H, W] float32, batch by batch."""
    source = _Listed(asked, encoder.plane_set.name)
    packed = device.type == "cuda" and not source.layout.real
    output: Output = "packed" if packed else "float32"
    config = LoaderConfig(shuffle=None, augment=False, output=output, jobs=jobs, memory=_MEMORY)
    loader = Loader(source, config, size)
    batches = iter(loader)

    def ready() -> Generator[Tensor]:
        for batch in batches:
            planes = tensors(batch)["planes"].to(device)
            yield unpack(planes, *encoder.shape[1:]) if packed else planes

    try:
        yield ready()
    finally:
        batches.close()


def _legal(asked: EvalPositions) -> npt.NDArray[np.bool_]:
    """[N, points + 1]: which moves are legal in each position, under the rules of records."""
    games = asked.games
    rows, which = np.unique(asked.row, return_inverse=True)
    ends = np.cumsum(games.move_offset[rows + 1] - games.move_offset[rows])
    first = np.concatenate([[0], ends[:-1]])
    take = np.full(ends[-1], -1, np.int64)
    take[first[which] + asked.ply] = np.arange(len(which))
    out = np.empty((len(which), asked.width * asked.height + 1), np.bool_)
    legal_moves(games, rows, take, out)
    return out


def _note(out: MoveScores, first: int, chances: Tensor, move: Tensor, name: str) -> None:
    """Writes down, from place `first` on, what is kept of [B, moves] log-probabilities.

    Raises FormatError if they are no numbers.
    """
    part = slice(first, first + len(move))
    played = chances.gather(1, move[:, None])
    likelier = chances > played
    likelier |= (chances == played) & (torch.arange(chances.shape[1], device=chances.device) < move[:, None])
    nll = -played[:, 0]
    if not bool(nll.isfinite().all()):
        raise FormatError(f"net {name} tells values that are no numbers, or that are too large")
    out.place[part] = likelier.sum(1).cpu().numpy()
    out.nll[part] = nll.cpu().numpy()
    out.sure[part] = chances.amax(1).exp().cpu().numpy()

"""Evaluation of positions by a network: probabilities of moves, the best moves, random moves, value and ownership.

    predictor = Predictor(open_net("run"))
    moves, probabilities = predictor.top(PredictPositions.from_games([game], [120]), 5)

A `Predictor` evaluates any positions, in batches or one at a time: a batch of one takes little longer than the network
itself, with `b6c64` about 6 ms on one core. `Predictor.stream` evaluates many positions of catalogue games.
`MovePredictor` is the interface that other sources of move probabilities share with it. Networks compute in bfloat16
where it is requested and the device has instructions for it.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, Output
from kifu.datasets.global_inputs import InputPositions, encode_inputs
from kifu.datasets.loader import Loader
from kifu.datasets.mmap_games import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.datasets.torch_data import tensors, unpack
from kifu.errors import RecipeError
from kifu.go.replay import check_playable
from kifu.go.rules import RECORD_RULES, Rules
from kifu.learn import Precision
from kifu.learn.net import AnyNet, Net, as_net
from kifu.learn.nets import NetworkOutput
from kifu.learn.positions import EvalPositions, PredictPositions, Slots, assign_slots, legal_masks
from kifu.planes import packing
from kifu.planes.board_embedding import PositionRequest
from kifu.planes.encoder import Encoder, EncoderScratch
from kifu.point import symmetries as symmetry_maps
from kifu.text import counted

_log = logging.getLogger(__name__)

_CPU_CAPABILITIES = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
"""Names of `torch.cpu.get_capabilities` for products in bfloat16, of x86 and of ARM."""


def default_device() -> torch.device:
    """Return a GPU if there is one, or else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def supported_precision(precision: Precision, device: torch.device) -> Precision:
    """Return the precision in which networks compute on a device where `precision` was asked for.

    Without instructions for bfloat16 torch emulates it, which takes several times as long as float32. A note is logged
    then.
    """
    if precision == "bfloat16" and not has_bfloat16(device.type):
        processor = "GPU" if device.type == "cuda" else "processor"
        _log.info("this %s has no instructions for bfloat16; networks compute in float32", processor)
        return "float32"
    return precision


@functools.cache
def has_bfloat16(device_type: str) -> bool:
    """Return True if products in bfloat16 are fast on devices of this type, such as "cpu" or "cuda"."""
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device_type == "cpu":
        # Only oneDNN has convolutions that use these instructions.
        present = torch.cpu.get_capabilities()
        return torch.backends.mkldnn.is_available() and any(present.get(name, False) for name in _CPU_CAPABILITIES)
    return True


class BatchOutput(NamedTuple):
    """The evaluation of B positions, on the network's device.

    Attributes:
        log_probs: [B, moves] float32, natural logarithms of the moves' probabilities; -inf for illegal moves, and for
            all moves of a position without a legal one.
        value: [B] float32 or None.
        ownership: [B, points] float32 or None.
        score: [B, 2] float32 or None.
    """

    log_probs: Tensor
    value: Tensor | None
    ownership: Tensor | None
    score: Tensor | None = None


class _SymmetryMaps(NamedTuple):
    """Index tables for S symmetries on a device.

    Attributes:
        sources: [S][frame points] the point of the planes that each point of the transformed planes shows.
        targets: [S][moves] the place of each move in the transformed policy.
    """

    sources: list[Tensor]
    targets: list[Tensor]


class BatchEvaluator:
    """Evaluates batches of planes with a network."""

    def __init__(
        self,
        net: Net,
        *,
        device: torch.device | None = None,
        symmetries: bool = False,
        precision: Precision = "float32",
    ) -> None:
        """Prepare a network.

        Args:
            device: Evaluate a copy of the network on this device; None evaluates the network itself where it is.
            symmetries: Average over the 8 symmetries of the board (4 if it is not square).
            precision: "bfloat16" is faster for large batches and accurate to two or three digits; on devices without
                instructions for it, "float32" is used.
        """
        self.net, self.symmetries = net, symmetries
        self._module, self._memory_format = net.module, torch.contiguous_format
        if device is not None:
            self._memory_format = torch.channels_last
            self._module = copy.deepcopy(net.module).to(device, memory_format=torch.channels_last).eval()
        self.device = next(self._module.parameters()).device
        self._bfloat16 = supported_precision(precision, self.device) == "bfloat16"
        self._maps: dict[tuple[int, ...], _SymmetryMaps] = {}

    def global_inputs(self, positions: InputPositions) -> Tensor | None:
        """Return the global inputs of positions, [B, G] float32; None for a net without any."""
        inputs = self.net.about.inputs
        return torch.from_numpy(encode_inputs(inputs, positions)) if inputs else None

    def evaluate(
        self, planes: Tensor, globals: Tensor | None, width: int, height: int, legal: Tensor | None = None
    ) -> BatchOutput:
        """Evaluate a batch.

        Args:
            planes: [B, C, height + 2 rim, width + 2 rim] float32.
            globals: [B, G] float32, see `global_inputs`; None for a net without any.
            legal: [B, points + 1] bool, restricts the probabilities to these moves; None allows all.
        """
        planes, globals = planes.to(self.device), None if globals is None else globals.to(self.device)
        frame_height, frame_width = planes.shape[2:]
        maps = self._symmetry_maps(width, height, frame_width, frame_height)
        # TensorFloat-32 is switched off, so that figures agree between machines.
        exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False, fp32_precision="ieee")
        with torch.inference_mode(), exact:
            if not self.symmetries:
                return self._evaluate_symmetry(planes, globals, legal, maps, 0)
            outputs = [self._evaluate_symmetry(planes, globals, legal, maps, k) for k in range(len(maps.sources))]
            log_probs, *others = zip(*outputs)
            means = (None if parts[0] is None else torch.stack(parts).mean(0) for parts in others)
            return BatchOutput(torch.stack(log_probs).logsumexp(0) - math.log(len(outputs)), *means)

    def _evaluate_symmetry(
        self, planes: Tensor, globals: Tensor | None, legal: Tensor | None, maps: _SymmetryMaps, k: int
    ) -> BatchOutput:
        """Evaluate the transformed board and transform the result back."""
        if k:
            planes = planes.flatten(2)[..., maps.sources[k]].view_as(planes)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bfloat16):
            output: NetworkOutput = self._module(planes.contiguous(memory_format=self._memory_format), globals)
        target = maps.targets[k]
        policy = output.policy.float()
        moves = policy.shape[1]
        policy = policy[:, target[:moves]]
        if legal is None:
            log_probs = policy.log_softmax(1)
        else:
            mask = legal[:, :moves]
            log_probs = policy.masked_fill(~mask, -torch.inf).log_softmax(1)
            log_probs = log_probs.masked_fill(~mask, -torch.inf)  # NaN where no move is legal
        value = None if output.value is None else output.value.float()
        ownership = None if output.ownership is None else output.ownership.float()[:, target[:-1]]
        return BatchOutput(log_probs, value, ownership, None if output.score is None else output.score.float())

    def _symmetry_maps(self, width: int, height: int, frame_width: int, frame_height: int) -> _SymmetryMaps:
        key = (width, height, frame_width, frame_height)
        if key not in self._maps:
            count = (8 if width == height else 4) if self.symmetries else 1
            frame, board = symmetry_maps(frame_width, frame_height), symmetry_maps(width, height)
            self._maps[key] = _SymmetryMaps(
                [torch.from_numpy(np.argsort(frame[k, :-1])).to(self.device) for k in range(count)],
                [torch.from_numpy(board[k].astype(np.int64)).to(self.device) for k in range(count)],
            )
        return self._maps[key]


_CPU_BATCH, _GPU_BATCH = 256, 4096

_MEMORY = 64 << 20
"""Bytes of examples that a loader encodes at a time."""


class _PositionSource(CatalogueSource):
    """A loader source of exactly the given positions."""

    def __init__(self, positions: EvalPositions, planes: str) -> None:
        board = (positions.width, positions.height)
        spec = ExampleSpec(planes, board, labels=("move",), filter=PositionFilter(passes=True))
        super().__init__(positions.rows, spec)
        selected = np.zeros(len(positions.games.moves), np.bool_)
        selected[positions.move_index] = True
        self._selected = np.packbits(selected, bitorder="little")
        self._counts = np.bincount(positions.game, minlength=len(positions.games))

    def select(self, seed: int, epoch: int, augment: bool) -> EpochSelection:
        """Return the same positions for every epoch."""
        return EpochSelection(self._counts, self._selected, None)


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
                mask = None
                if legal:
                    slots = assign_slots(part.games, part.game, part.ply)
                    mask = torch.from_numpy(legal_masks(part.games, slots, part.points)).to(device)
                yield evaluator.evaluate(planes, inputs, width, height, mask)

        yield outputs()


_BATCH_SIZE = 256
"""Maximum number of positions that are encoded and evaluated at once."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The evaluation of B positions.

    Attributes:
        policy: [B, moves] float32, probabilities that sum to 1. A move is row * width + column; if the net predicts
            passes, the last one is the pass, width * height.
        legal: [B, moves] bool, the allowed moves. The policy is 0 for all others, and 0 everywhere if there are none.
        value: [B] float32 from -1 (the side to move loses) to 1 (it wins), or None without a value head.
        ownership: [B, points] float32 from -1 (the opponent's) to 1, or None without an ownership head.
        score: [B, 2] float32, points by which the side to move is ahead, and the standard deviation of its score; None
            but for nets of KataGo.
    """

    policy: npt.NDArray[np.float32]
    legal: npt.NDArray[np.bool_]
    value: npt.NDArray[np.float32] | None
    ownership: npt.NDArray[np.float32] | None
    score: npt.NDArray[np.float32] | None = None

    def __repr__(self) -> str:
        heads = "".join(f", {name}" for name in ("value", "ownership") if getattr(self, name) is not None)
        positions, moves = self.policy.shape
        return f"<Predictions of {counted(positions, 'position')}: {moves} moves{heads}>"

    def top(self, n: int) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.float32]]:
        """Return the n most likely moves in descending order; of equally likely moves the lower number comes first.

        Returns:
            Moves [B, n] int16, -1 beyond the last legal one, and their probabilities [B, n] float32. There are fewer
            than n columns if the board has fewer moves.
        """
        policy = np.where(self.legal, self.policy, -1)
        order = np.argsort(-policy, axis=1, kind="stable")[:, :n]
        best = np.take_along_axis(policy, order, 1)
        return np.where(best < 0, -1, order).astype(np.int16), np.maximum(best, 0)

    def sample(self, rng: np.random.Generator, temperature: float = 1.0, epsilon: float = 0.0) -> npt.NDArray[np.int16]:
        """Draw a move for each position.

        Args:
            temperature: Probabilities are raised to the power 1 / temperature; 0 draws among the most likely moves.
            epsilon: Probability of drawing uniformly from all legal moves instead.

        Returns:
            [B] int16, -1 for positions without a legal move.

        Raises:
            RecipeError: An argument is out of range.
        """
        if not temperature >= 0:
            raise RecipeError(f"temperature must be >= 0, got {temperature}")
        if not 0 <= epsilon <= 1:
            raise RecipeError(f"epsilon must be 0 to 1, got {epsilon}")
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            weight = np.log(self.policy, dtype=np.float64)
            weight -= weight.max(1, keepdims=True)
            # Differences from the maximum overflow only to -inf at tiny temperatures.
            weight = np.where(weight == 0, 0, weight / temperature)
        explore = rng.random(len(weight)) < epsilon
        weight = np.where(self.legal, np.where(explore[:, None], 0, weight), -np.inf)
        # The maximum of log-weights with Gumbel noise is a draw by weight that needs no normalization.
        moves = np.argmax(weight + rng.gumbel(size=weight.shape), 1)
        return np.where(self.legal.any(1), moves, -1).astype(np.int16)


class MovePredictor(Protocol):
    """A source of move probabilities.

    Attributes:
        description: What it is, such as "b4c64 on alphago48@1 with colour, komi".
        board: Width and height of the boards that it was trained on; 19 x 19 for an engine.
        games: [K] uint64, ascending canonical hashes of the games that it was trained on or validated with.
        passes: True if it predicts passes.
        has_value: True if evaluations have a value.
        has_ownership: True if evaluations have ownership.
        takes_ranks: True if it imitates players of the ranks that positions have.
    """

    name: str
    description: str
    board: tuple[int, int]
    games: npt.NDArray[np.uint64]
    passes: bool
    has_value: bool
    has_ownership: bool
    takes_ranks: bool

    def check_board(self, width: int, height: int) -> None:
        """Raise RecipeError or GameError for a board size that it does not support."""
        ...

    def predict(self, positions: PredictPositions, legal: bool = True) -> Predictions:
        """Evaluate positions, see `Predictor.predict`."""
        ...

    def stream(
        self, positions: EvalPositions, *, legal: bool, jobs: int
    ) -> AbstractContextManager[Iterator[BatchOutput]]:
        """Evaluate many positions of catalogue games, see `Predictor.stream`."""
        ...


class Predictor:
    """Predicts moves with a net. Not thread-safe. The attributes are those of `MovePredictor`, and `net`."""

    def __init__(
        self,
        net: AnyNet | None = None,
        *,
        rules: Rules = RECORD_RULES,
        symmetries: bool = False,
        precision: Precision = "float32",
    ) -> None:
        """Prepare a net.

        Args:
            net: The net, or its path as for `open_net`; None for the net that is packaged with kifu.
            rules: The rules that define legal moves; the moves before a position must be legal, too.
            symmetries: Average over the 8 symmetries of the board (4 if it is not square).
            precision: Precision of `stream`, see `BatchEvaluator`.
        """
        self.net, self.rules = as_net(net), rules
        about = self.net.about
        self.name, self.games, self.passes = self.net.name, self.net.games, about.passes
        inputs = f" with {', '.join(about.inputs)}" if about.inputs else ""
        self.description, self.board = f"{about.net} on {about.planes}{inputs}", (about.width, about.height)
        self.has_value, self.has_ownership = "value" in about.heads, "ownership" in about.heads
        self.takes_ranks = "ranks" in about.inputs or self.net.encoder.plane_set.needs_ranks
        self._symmetries, self._precision = symmetries, precision
        self._evaluator = BatchEvaluator(self.net, symmetries=symmetries)
        self._encoders: dict[tuple[int, int], tuple[Encoder, EncoderScratch]] = {}

    def __repr__(self) -> str:
        return f"<Predictor with {self.net!r}>"

    def check_board(self, width: int, height: int) -> None:
        """Raise RecipeError or GameError for a board size that the net does not support."""
        self.net.encoder_for(width, height)

    def stream(
        self, positions: EvalPositions, *, legal: bool, jobs: int
    ) -> AbstractContextManager[Iterator[BatchOutput]]:
        """Evaluate many positions of catalogue games, on a GPU if there is one.

        Args:
            legal: Restrict the probabilities to legal moves.

        Returns:
            An iterator over the outputs of consecutive positions, some hundreds or thousands at a time. The context
            ends its threads. It raises FormatError for a game that differs from its row.
        """
        evaluator = BatchEvaluator(
            self.net, device=default_device(), symmetries=self._symmetries, precision=self._precision
        )
        return stream_outputs(evaluator, positions, legal=legal, jobs=jobs)

    def predict(self, positions: PredictPositions, legal: bool = True) -> Predictions:
        """Evaluate positions.

        Args:
            positions: The positions; the result for each is independent of the others, but for rounding.
            legal: Restrict the probabilities to legal moves.

        Raises:
            IllegalMove: A move before one of the positions is illegal under the predictor's rules, or, if `legal` is
                False, under `RECORD_RULES`.
            RecipeError: The net does not support the board size.
        """
        starts = range(0, max(len(positions), 1), _BATCH_SIZE)
        parts = [self._predict_batch(positions.slice(start, start + _BATCH_SIZE), legal) for start in starts]
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        return Predictions(
            np.concatenate([part.policy for part in parts]),
            np.concatenate([part.legal for part in parts]),
            None if first.value is None else np.concatenate([part.value for part in parts]),
            None if first.ownership is None else np.concatenate([part.ownership for part in parts]),
        )

    def probabilities(self, positions: PredictPositions, legal: bool = True) -> npt.NDArray[np.float32]:
        """Return `Predictions.policy`, [B, moves] float32."""
        return self.predict(positions, legal).policy

    def top(self, positions: PredictPositions, n: int) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.float32]]:
        """Return the n most likely legal moves [B, n] and their probabilities [B, n], see `Predictions.top`."""
        return self.predict(positions).top(n)

    def sample(
        self, positions: PredictPositions, rng: np.random.Generator, temperature: float = 1.0, epsilon: float = 0.0
    ) -> npt.NDArray[np.int16]:
        """Draw a legal move for each position: [B] int16, see `Predictions.sample`."""
        return self.predict(positions).sample(rng, temperature, epsilon)

    def _predict_batch(self, positions: PredictPositions, legal: bool) -> Predictions:
        (width, height), games = self.board, positions.games
        if len(positions):
            first = positions.game[0]
            width, height = int(games.width[first]), int(games.height[first])
        points = width * height
        slots = assign_slots(games, positions.game, positions.ply)
        allowed = np.ones((len(positions), points + 1), np.bool_)
        if legal:
            allowed = legal_masks(games, slots, points, self.rules)
        planes = self._encode(positions, slots, width, height)
        mask = torch.from_numpy(allowed).to(self._evaluator.device) if legal else None
        inputs = self._evaluator.global_inputs(positions.input_positions)
        output = self._evaluator.evaluate(torch.from_numpy(planes), inputs, width, height, mask)
        return Predictions(
            output.log_probs.exp().cpu().numpy(),
            allowed[:, : points + self.passes],
            None if output.value is None else output.value.cpu().numpy(),
            None if output.ownership is None else output.ownership.cpu().numpy(),
        )

    def _encode(self, positions: PredictPositions, slots: Slots, width: int, height: int) -> npt.NDArray[np.float32]:
        """Return the planes [B, C, H, W] of positions on boards of one size."""
        if (width, height) not in self._encoders:
            encoder = self.net.encoder_for(width, height)
            self._encoders[width, height] = encoder, encoder.new_scratch()
        encoder, workspace = self._encoders[width, height]
        rows, take, slot, count = slots
        packed = encoder.new_out(count)
        request = PositionRequest(positions.games, rows, np.zeros(len(rows), np.uint8), take)
        label = np.empty(count, np.int16)
        drop, ply = encoder.encode(workspace, request, packed, label, np.nan_to_num(positions.conditions.rating)[rows])
        check_playable(positions.games, rows, take, drop, ply)
        planes: npt.NDArray[Any] = np.empty((count, *encoder.shape), np.float32)
        if encoder.plane_set.real:
            planes = packed.reshape(planes.shape)
        else:
            packing.unpack(packed, planes)
        return planes[slot]

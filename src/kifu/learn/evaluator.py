"""Evaluation of batches of planes by a network, in onnxruntime or torch, averaged over symmetries if requested."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.datasets.epoch_plan import EpochSelection, LoaderConfig, Output
from kifu.datasets.filter import PositionFilter
from kifu.datasets.global_inputs import InputPositions, encode_inputs
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.learn import Precision
from kifu.learn.net_format import Net, OnnxSession
from kifu.learn.positions import EvalPositions, assign_slots, legal_masks
from kifu.planes import packing
from kifu.point import symmetries as symmetry_maps

_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd")

Array: TypeAlias = Any
"""An array of a backend: a NumPy array, or a tensor on the network's device."""


class BatchOutput(NamedTuple):
    """The evaluation of B positions, as NumPy arrays or, from a backend, as its arrays.

    Attributes:
        log_probs: [B, moves] float32, natural logarithms of the moves' probabilities; -inf for illegal moves, and for
            all moves of a position without a legal one.
        value: [B] float32 or None.
        ownership: [B, points] float32 or None.
        score: [B, 2] float32 or None.
    """

    log_probs: Array
    value: Array | None
    ownership: Array | None
    score: Array | None = None


class Backend(Protocol):
    """A network on a device, with the operations on its arrays that an evaluation takes."""

    @property
    def unpacks(self) -> bool:
        """True if packed planes are faster, because they are copied to another device."""
        ...

    def array(self, values: npt.NDArray[Any]) -> Array:
        """Return a NumPy array as an array of the backend."""
        ...

    def numpy(self, values: Array) -> npt.NDArray[Any]:
        """Return an array of the backend as a NumPy array."""
        ...

    def unpack(self, packed: Array, height: int, width: int) -> Array:
        """Return packed planes [B, C, bytes] as [B, C, height, width] float32; only if `unpacks`."""
        ...

    def inference(self) -> AbstractContextManager[Any]:
        """Return the context of an evaluation."""
        ...

    def run(self, planes: Array, globals: Array | None) -> dict[str, Array]:
        """Return the outputs of positions by their names in `kifu.learn.nets.NetworkOutput`."""
        ...

    def log_softmax(self, policy: Array, legal: Array | None) -> Array:
        """Return log-probabilities [B, moves] of logits, -inf where `legal` is False."""
        ...

    def log_mean(self, log_probs: Sequence[Array]) -> Array:
        """Return the logarithms of the mean of probabilities."""
        ...


def log_softmax(policy: npt.NDArray[Any], legal: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return log-probabilities [B, moves] of logits, -inf where `legal` is False."""
    if legal is not None:
        policy = np.where(legal, policy, np.float32(-np.inf))
    largest = policy.max(1, keepdims=True)
    shifted = policy - np.where(np.isneginf(largest), 0, largest)  # where no move is legal
    total = np.exp(shifted).sum(1, keepdims=True)
    log_probs: npt.NDArray[Any] = shifted - np.log(np.where(total, total, 1))
    return log_probs


class _OnnxBackend:
    """A network in onnxruntime, on the CPU."""

    unpacks = False

    def __init__(self, session: OnnxSession) -> None:
        self.run = session.run

    def array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values

    numpy = array

    def unpack(self, packed: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
        planes = np.empty((*packed.shape[:2], height, width), np.float32)
        packing.unpack(packed, planes)
        return planes

    def inference(self) -> AbstractContextManager[Any]:
        return nullcontext()

    log_softmax = staticmethod(log_softmax)

    def log_mean(self, log_probs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        with np.errstate(divide="ignore"):
            mean: npt.NDArray[Any] = np.log(np.mean([np.exp(each) for each in log_probs], 0))
        return mean


def make_backend(
    net: Net, *, precision: Precision = "float32", threads: int | None = None, on_gpu: bool = False
) -> Backend:
    """Return a net in onnxruntime, or in torch: on a GPU, in bfloat16, and if the net has no ONNX file.

    Args:
        precision: See `kifu.learn.torch_net.TorchBackend`.
        on_gpu: Use a GPU if there is one.
    """
    gpu = on_gpu and has_gpu()
    if net.session is not None and not gpu and precision == "float32":
        return _OnnxBackend(net.session)
    from kifu.learn.torch_net import CPU, TorchBackend, default_device, supported_precision

    device = default_device() if gpu else CPU
    if net.session is not None and not gpu and supported_precision(precision, device) == "float32":
        return _OnnxBackend(net.session)
    return TorchBackend(net.module, device, precision)


def has_gpu() -> bool:
    """Return True if torch can use a GPU. torch, whose import takes seconds, is only asked where there may be one."""
    if not (any(Path(name).exists() for name in _GPU_DEVICES) and find_spec("torch")):
        return False
    from kifu.learn.torch_net import default_device

    return bool(default_device().type == "cuda")


class _SymmetryMaps(NamedTuple):
    """Index tables for S symmetries, as arrays of a backend.

    Attributes:
        sources: [S][frame points] the point of the planes that each point of the transformed planes shows.
        targets: [S][moves] the place of each move in the transformed policy.
    """

    sources: list[Array]
    targets: list[Array]


class BatchEvaluator:
    """Evaluates batches of planes with a network."""

    def __init__(self, net: Net, backend: Backend, *, symmetries: bool = False) -> None:
        """Prepare a network.

        Args:
            backend: The network of the net, see `make_backend`.
            symmetries: Average over the 8 symmetries of the board (4 if it is not square).
        """
        self.net, self.backend, self.symmetries = net, backend, symmetries
        self._maps: dict[tuple[int, ...], _SymmetryMaps] = {}

    def evaluate_positions(
        self, planes: npt.NDArray[np.float32], positions: InputPositions, width: int, height: int,
        legal: npt.NDArray[np.bool_] | None,
    ) -> BatchOutput:  # fmt: skip
        """Evaluate NumPy arrays and return NumPy arrays; arguments as for `evaluate`."""
        inputs = self.net.about.inputs
        globals = encode_inputs(inputs, positions) if inputs else None
        return self.evaluate_arrays(planes, globals, width, height, legal)

    def evaluate_arrays(
        self, planes: Array, globals: npt.NDArray[np.float32] | None, width: int, height: int,
        legal: npt.NDArray[np.bool_] | None,
    ) -> BatchOutput:  # fmt: skip
        """Evaluate NumPy arrays, or planes that are the backend's already, and return NumPy arrays."""
        array, numpy = self.backend.array, self.backend.numpy
        planes = array(planes) if isinstance(planes, np.ndarray) else planes
        inputs, mask = (None if values is None else array(values) for values in (globals, legal))
        output = self.evaluate(planes, inputs, width, height, mask)
        return BatchOutput(*(None if values is None else numpy(values) for values in output))

    def evaluate(
        self, planes: Array, globals: Array | None, width: int, height: int, legal: Array | None = None
    ) -> BatchOutput:
        """Evaluate a batch of the backend's arrays.

        Args:
            planes: [B, C, height + 2 rim, width + 2 rim] float32.
            globals: [B, G] float32; None for a net without global inputs.
            legal: [B, points + 1] bool, restricts the probabilities to these moves; None allows all.
        """
        maps = self._symmetry_maps(width, height, planes.shape[3], planes.shape[2])
        with self.backend.inference():
            outputs = [self._evaluate_symmetry(planes, globals, legal, maps, k) for k in range(len(maps.sources))]
            if len(outputs) == 1:
                return outputs[0]
            log_probs, *others = zip(*outputs)
            means = (None if parts[0] is None else sum(parts) / len(parts) for parts in others)
            return BatchOutput(self.backend.log_mean(log_probs), *means)

    def _evaluate_symmetry(
        self, planes: Array, globals: Array | None, legal: Array | None, maps: _SymmetryMaps, k: int
    ) -> BatchOutput:
        """Evaluate the transformed board and transform the result back."""
        if k:
            planes = planes.reshape(*planes.shape[:2], -1)[..., maps.sources[k]].reshape(planes.shape)
        outputs, target = self.backend.run(planes, globals), maps.targets[k]
        policy, ownership = outputs["policy"], outputs.get("ownership")
        moves = policy.shape[1]
        log_probs = self.backend.log_softmax(policy[:, target[:moves]], None if legal is None else legal[:, :moves])
        ownership = None if ownership is None else ownership[:, target[:-1]]
        return BatchOutput(log_probs, outputs.get("value"), ownership, outputs.get("score"))

    def _symmetry_maps(self, width: int, height: int, frame_width: int, frame_height: int) -> _SymmetryMaps:
        key = (width, height, frame_width, frame_height)
        if key not in self._maps:
            count = (8 if width == height else 4) if self.symmetries else 1
            frame, board = symmetry_maps(frame_width, frame_height), symmetry_maps(width, height)
            self._maps[key] = _SymmetryMaps(
                [self.backend.array(np.argsort(frame[k, :-1])) for k in range(count)],
                [self.backend.array(board[k].astype(np.int64)) for k in range(count)],
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
    from kifu.datasets.loader import Loader  # slow to load; few positions are evaluated without it

    backend, (width, height) = evaluator.backend, (positions.width, positions.height)
    encoder = evaluator.net.encoder_for(width, height)
    source = _PositionSource(positions, encoder.plane_set.name)
    packed = backend.unpacks and not source.layout.real
    output: Output = "packed" if packed else "float32"
    config = LoaderConfig(shuffle=None, augment=False, output=output, jobs=jobs, memory=_MEMORY)
    size = _GPU_BATCH if backend.unpacks else _CPU_BATCH
    with closing(iter(Loader(source, config, size))) as batches:

        def outputs() -> Generator[BatchOutput]:
            for start, batch in zip(range(0, len(positions), size), batches):
                part = positions.slice(start, start + size)
                planes = batch.planes
                if packed:
                    planes = backend.unpack(backend.array(planes), *encoder.shape[1:])
                mask = None
                if legal:
                    slots = assign_slots(part.games, part.game, part.ply)
                    mask = legal_masks(part.games, slots, part.points)
                yield evaluator.evaluate_positions(planes, part.input_positions, width, height, mask)

        yield outputs()

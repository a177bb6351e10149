"""Networks on a device: what nets require of onnxruntime and torch, and the evaluation of batches of planes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import FormatError, first_line
from kifu.execution.executor import count_cores
from kifu.katago.net_onnx import parse_kata_onnx
from kifu.learn.evaluation import log_softmax
from kifu.learn.net_format import METADATA_KEY, read_onnx
from kifu.planes import packing
from kifu.point import symmetries as symmetry_maps

_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd")

Array: TypeAlias = Any
"""An array of a backend: a NumPy array, or a tensor on the network's device."""

Outputs = tuple[Array, Array | None, Array | None, Array | None]
"""Log-probabilities, value, ownership and score of B positions, as in `kifu.learn.evaluation.Evaluation`."""


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
        """Return packed planes [B, C, bytes] as [B, C, height, width] float32."""
        ...

    def inference(self) -> AbstractContextManager[Any]:
        """Return the context of an evaluation."""
        ...

    def run(self, planes: Array, globals: Array | None) -> dict[str, Array]:
        """Return the outputs of positions by their names in `kifu.learn.networks.NetworkOutput`."""
        ...

    def log_softmax(self, policy: Array, legal: Array | None) -> Array:
        """Return log-probabilities [B, moves] of logits, -inf where `legal` is False."""
        ...

    def log_mean(self, log_probs: Sequence[Array]) -> Array:
        """Return the logarithms of the mean of probabilities."""
        ...


def evaluate_batch(
    backend: Backend, planes: Array, globals: Array | None, board: tuple[int, int], legal: Array | None = None,
    *, symmetries: bool = False,
) -> Outputs:  # fmt: skip
    """Evaluate arrays of a backend.

    Args:
        planes: [B, C, height + 2 rim, width + 2 rim] float32.
        globals: [B, G] float32; None for a net without global inputs.
        legal: [B, points + 1] bool, restricts the probabilities to these moves; None allows all.
        symmetries: Average over the 8 symmetries of the board (4 if it is not square).
    """
    frame = planes.shape[3], planes.shape[2]
    count = (8 if board[0] == board[1] else 4) if symmetries else 1
    with backend.inference():
        outputs = [_evaluate_symmetry(backend, planes, globals, legal, board, frame, k) for k in range(count)]
        if count == 1:
            return outputs[0]
        log_probs, *others = zip(*outputs)
        value, ownership, score = (None if parts[0] is None else sum(parts) / count for parts in others)
        return backend.log_mean(log_probs), value, ownership, score


def _evaluate_symmetry(
    backend: Backend, planes: Array, globals: Array | None, legal: Array | None, board: tuple[int, int],
    frame: tuple[int, int], k: int,
) -> Outputs:  # fmt: skip
    if k:
        planes = planes.reshape(*planes.shape[:2], -1)[..., backend.array(_sources(*frame)[k])].reshape(planes.shape)
    outputs = backend.run(planes, globals)
    policy, ownership = outputs["policy"], outputs.get("ownership")
    moves, target = policy.shape[1], backend.array(_targets(*board)[k])
    ownership = None if ownership is None else ownership[:, target[:-1]]
    log_probs = backend.log_softmax(policy[:, target[:moves]], None if legal is None else legal[:, :moves])
    return log_probs, outputs.get("value"), ownership, outputs.get("score")


@cache
def _sources(width: int, height: int) -> npt.NDArray[np.int64]:
    """Return [8, points] the point of the planes that each point of the transformed planes shows."""
    return np.argsort(symmetry_maps(width, height)[:, :-1], axis=1)


@cache
def _targets(width: int, height: int) -> npt.NDArray[np.int64]:
    """Return [8, moves] the place of each move in the transformed policy."""
    return symmetry_maps(width, height).astype(np.int64)


def has_gpu() -> bool:
    """Return True if torch can use a GPU. torch, whose import takes seconds, is only asked where there may be one."""
    if not (any(Path(name).exists() for name in _GPU_DEVICES) and find_spec("torch")):
        return False
    from kifu.learn.torch_backend import default_device

    return bool(default_device().type == "cuda")


def onnx_session(model: bytes, threads: int | None = None) -> Any:
    """Return a session of onnxruntime on the CPU; `threads` as for `OnnxBackend`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or _openmp_threads() or count_cores()
    options.log_severity_level = 4  # errors are raised
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _openmp_threads() -> int | None:
    """Return the first number of OMP_NUM_THREADS; None if it is not a list of positive numbers, as OpenMP requires."""
    numbers = os.environ.get("OMP_NUM_THREADS", "").split(",")
    is_valid = all(re.fullmatch(r"\s*\+?0*[1-9]\d{0,8}\s*", each, re.ASCII) for each in numbers)
    return int(numbers[0]) if is_valid else None


class OnnxBackend:
    """An ONNX net in onnxruntime, on the CPU. Several threads may call it.

    Attributes:
        kata: The metadata of a network of KataGo; None for a net of kifu.
    """

    unpacks = False

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """Read a file and check its checksum; files that other programs changed have none.

        Raises FormatError if the file is damaged, or not a net of kifu or KataGo.

        Args:
            threads: Threads of one evaluation, on whose number figures may depend; None for `OMP_NUM_THREADS`, as torch
                does, or one per core.
        """
        self.path = path
        try:
            self._session = onnx_session(read_onnx(path), threads)
            self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        except Exception as error:  # of many kinds, without a common base
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{path} is not an ONNX file: {first_line(error)}") from None
        self._outputs = [output.name for output in self._session.get_outputs()]
        try:
            self.kata = parse_kata_onnx(self.metadata)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None
        if self.kata is None and (METADATA_KEY not in self.metadata or "policy" not in self._outputs):
            raise FormatError(f"{path} is not a net of kifu: its metadata has no {METADATA_KEY!r}")

    def array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the array."""
        return values

    numpy = array

    def unpack(self, packed: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
        """Return packed planes [B, C, bytes] as [B, C, height, width] float32."""
        planes = np.empty((*packed.shape[:2], height, width), np.float32)
        packing.unpack(packed, planes)
        return planes

    def inference(self) -> AbstractContextManager[Any]:
        """Return a context without effect."""
        return nullcontext()

    def run(self, planes: npt.NDArray[np.float32], globals: npt.NDArray[np.float32] | None) -> dict[str, Any]:
        """Return the outputs of B positions by their names in `kifu.learn.networks.NetworkOutput`.

        Raises FormatError if the net does not compute the outputs that its metadata promise.

        Args:
            planes: [B, C, H, W] float32, with their rim.
            globals: [B, G] float32, or None.
        """
        try:
            if self.kata is not None:
                assert globals is not None
                raw = dict(zip(self._outputs, self._session.run(None, self.kata.feed(planes, globals))))
                return self.kata.decode(raw, globals, *planes.shape[2:])
            inputs = {"planes": planes} if globals is None else {"planes": planes, "globals": globals}
            outputs = dict(zip(self._outputs, self._session.run(None, inputs)))
        except Exception as error:  # of many kinds, without a common base
            raise FormatError(f"{self.path} cannot be evaluated: {first_line(error)}") from None
        if any(len(output) != len(planes) for output in outputs.values()):
            raise FormatError(f"{self.path} does not return an output for each of {len(planes)} positions")
        return outputs

    log_softmax = staticmethod(log_softmax)

    def log_mean(self, log_probs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the logarithms of the mean of probabilities, -inf only where all are."""
        mean = np.mean([np.exp(each) for each in log_probs], 0)
        with np.errstate(divide="ignore"):  # the largest is near the mean of probabilities too small for float32
            found: npt.NDArray[Any] = np.where(mean, np.log(mean), np.max(log_probs, 0))
        return found

"""Nets ready for use: of kifu, of KataGo, and mixtures, in onnxruntime or torch.

    net = open_net("run")
    moves, probabilities = net.evaluate(game, plies=[60, 120]).top(5)

`Net.evaluate` evaluates any positions, in batches or one at a time: a batch of one takes little longer than the network
itself, with `b6c64` about 6 ms on one core. `Net.stream` evaluates many positions in large batches, on a GPU if there
is one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kifu.datasets.global_inputs import SERVERS, Imitated, encode_inputs
from kifu.errors import IllegalMove, RecipeError, printable
from kifu.go.rules import RECORD_RULES, Rules
from kifu.katago.inputs import MAX_SIZE, MIN_SIZE
from kifu.learn import PACKAGED, Precision
from kifu.learn.backends import Backend, OnnxBackend, evaluate_batch, has_gpu
from kifu.learn.evaluation import Evaluation, join
from kifu.learn.kata_inputs import encode_positions, encode_profile
from kifu.learn.mix import mix
from kifu.learn.net_format import MixFile, NetMetadata
from kifu.learn.positions import NetPositions
from kifu.planes import packing
from kifu.planes.encoder import FrameEncoder, find_encoder, fixed_context
from kifu.planes.registry import KATAGO22
from kifu.point import parse_board
from kifu.records.game import Game
from kifu.records.ranks import Rank
from kifu.registry import check_choice

if TYPE_CHECKING:
    from kifu.learn.networks import Network

T = TypeVar("T")
R = TypeVar("R")

_BATCH, _GPU_BATCH = 256, 4096
"""Number of positions that are evaluated at once on the CPU and on a GPU."""

_KATA_BATCH, _KATA_GPU_BATCH = 16, 64
"""The same by networks of KataGo. On a CPU, transformers take 30 % less time in batches of 16 than of 64."""

_Inputs = tuple[npt.NDArray[Any], npt.NDArray[np.float32] | None, npt.NDArray[np.bool_] | None]
"""The inputs of B positions: planes, packed if the backend unpacks them, global inputs, and the legal moves."""


class _Shared:
    """The encoders and networks in torch that a net and its copies with other options share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.encoders: dict[tuple[int, int], FrameEncoder] = {}
        self.backends: dict[tuple[bool, Precision], Backend] = {}


@dataclass(frozen=True)
class Net:
    """A net that is ready for inference. Threads may share it. `kifu.open_net` opens one.

    Attributes:
        games: [K] uint64, ascending canonical hashes of the catalogue games that it was trained on or validated with.
        name: Display name: the file's name without its suffix, or the directory's.
        any_size: True if it evaluates boards of other sizes than the one that it was trained on.
        session: The net in onnxruntime; None if it can only be evaluated by torch.
        unchecked: True if the class of the network is not imported, so that the weights were counted with buffers.
        has_points: True if its score and ownership hold in all positions (`NetMetadata.has_points`).
        fitted: The weights of a mixture; None for equal ones.
        rules: The rules that define legal moves; the moves before a position must be legal, too.
        symmetries: Average over the 8 symmetries of the board (4 if it is not square).
        precision: Precision of large batches, see `kifu.learn.torch_backend.TorchBackend`.
        server: The server whose players a human-style net imitates, "profile" for the ranks and years alone, as in
            KataGo's profiles; None for what the records state.
    """

    about: NetMetadata
    games: npt.NDArray[np.uint64]
    name: str
    any_size: bool
    parameters: int
    load: Callable[[], Network]
    session: OnnxBackend | None = None
    unchecked: bool = False
    has_points: bool = False
    members: tuple[Net, ...] = ()
    fitted: MixFile | None = None
    rules: Rules = RECORD_RULES
    symmetries: bool = False
    precision: Precision = "float32"
    server: Imitated | None = None
    _shared: _Shared = field(default_factory=_Shared, repr=False, compare=False)

    def __repr__(self) -> str:
        about = self.about
        board = f"{about.width} x {about.height}"
        sizes = f"{self.parameters:,} parameters, {len(self.games):,} known games"
        return f"<Net {printable(self.name)}: {about.net} on {about.planes}, {board}, {sizes}>"

    @cached_property
    def module(self) -> Network:
        """The network in torch, in evaluation mode, see `kifu.learn.networks.Network.forward`.

        Raises:
            FormatError: The net is an ONNX file or a mixture, or its weights do not fit the architecture that it names.
        """
        return self.load()

    @cached_property
    def encoder(self) -> FrameEncoder:
        """The encoder for the board that it was trained on."""
        return self.encoder_for(*self.board)

    @property
    def description(self) -> str:
        """A description such as "b4c64 on alphago48@1 with colour, komi"."""
        about = self.about
        if self.members:
            kind = "fitted mixture" if self.fitted else "mixture"
            return f"{kind} of {' and '.join(each.description for each in self.members)}"
        if self._is_kata:
            return f"KataGo's net {self.name}" + (" with ranks" if about.inputs else "")
        inputs = f" with {', '.join(about.inputs)}" if about.inputs else ""
        return f"{about.net} on {about.planes}{inputs}"

    @property
    def board(self) -> tuple[int, int]:
        """Width and height of the boards that it was trained on."""
        return self.about.width, self.about.height

    @property
    def passes(self) -> bool:
        """True if it predicts passes."""
        return any(each.about.passes for each in self.parts)

    @property
    def has_value(self) -> bool:
        """True if evaluations have a value."""
        return any("value" in each.about.heads for each in self.parts)

    @property
    def takes_ranks(self) -> bool:
        """True if it imitates players of the ranks that positions have."""
        return self.fitted is not None or any(each._takes_ranks for each in self.parts)

    @property
    def _takes_ranks(self) -> bool:
        inputs = self.about.inputs
        return "ranks" in inputs or (bool(inputs) if self._is_kata else self.encoder.plane_set.needs_ranks)

    @property
    def _is_kata(self) -> bool:
        return self.about.planes == KATAGO22.name

    @property
    def parts(self) -> tuple[Net, ...]:
        """The net, or those that a mixture consists of instead of it."""
        return tuple(part for each in self.members for part in each.parts) or (self,)

    @property
    def known_games(self) -> int:
        """Number of games that it was trained on or validated with; 0 if unknown, also for one net of a mixture."""
        return len(self.games) if all(len(each.games) for each in self.parts) else 0

    def using(self, **options: Any) -> Net:
        """Return the net with other rules, symmetries, precision or server; both share the network."""
        return replace(self, members=tuple(each.using(**options) for each in self.members), **options)

    def encoder_for(self, width: int, height: int) -> FrameEncoder:
        """Return the encoder for a board size. Raises RecipeError if the net does not support it."""
        if (width, height) != self.board and not self.any_size:
            raise RecipeError(
                f"net {self.name} ({self.about.net}) supports {self.about.width} x {self.about.height} boards only,"
                f" got {width} x {height}"
            )
        encoders = self._shared.encoders
        if (width, height) not in encoders:
            encoders[width, height] = find_encoder(self.about.planes, width, height)
        return encoders[width, height]

    def check_board(self, width: int, height: int) -> None:
        """Raise RecipeError or GameError for a board size that it does not support."""
        for each in self.parts:
            if not each._is_kata:
                each.encoder_for(width, height)
            elif not MIN_SIZE <= min(width, height) <= max(width, height) <= MAX_SIZE:
                raise RecipeError(f"KataGo supports boards of {MIN_SIZE} to {MAX_SIZE} lines, got {width} x {height}")

    def check_ranks(self, *ranks: float | None) -> None:
        """Raise RecipeError if a rank is given to a net that does not take ranks."""
        if not self.takes_ranks and any(rank is not None for rank in ranks):
            raise RecipeError(
                f"net {self.name} does not take ranks: it is {self.description}. The net {PACKAGED[0]} takes them"
            )

    def evaluate(
        self,
        positions: NetPositions | Game,
        plies: Sequence[int] | None = None,
        *,
        rank: str | float | None = None,
        opponent: str | float | None = None,
        legal: bool = True,
        unverified: bool = False,
    ) -> Evaluation:
        """Evaluate positions. The result for each is independent of the others, but for rounding.

        Args:
            plies: Numbers of moves of the game before each position; by default one position after the last move.
            rank: Rank of the side to move, such as "3d", or a rating (`kifu.Rank.rating`); None for that of the record.
            opponent: Rank or rating of its opponent, likewise.
            unverified: Return score and ownership of a net without points, too, to measure them or to propose dead
                stones at the end of a game.

        Raises:
            IllegalMove: A move before one of the positions is illegal under the rules of the net, or, if `legal` is
                False, under `RECORD_RULES`.
            RecipeError: The net does not support the board size, or takes no ranks.
        """
        if isinstance(positions, Game):
            plies = [len(positions)] if plies is None else plies
            positions = NetPositions.from_games([positions] * len(plies), plies)
        ranks = tuple(Rank.parse_rating(each) if isinstance(each, str) else each for each in (rank, opponent))
        if ranks != (None, None):
            self.check_ranks(*ranks)
            positions = positions.with_ranks(*ranks)
        if not len(positions):
            return self._nothing()
        self.check_board(positions.width, positions.height)
        return join(list(self._outputs(positions, legal, unverified, large=False, jobs=0)))

    def stream(
        self, positions: NetPositions, *, legal: bool = True, jobs: int = 1, unverified: bool = False
    ) -> Iterator[Evaluation]:
        """Evaluate many positions, on a GPU if there is one, in the precision of the net.

        Returns:
            An iterator over the evaluations of consecutive positions, some hundreds or thousands at a time. Arguments
            and errors as for `evaluate`.
        """
        if len(positions):
            self.check_board(positions.width, positions.height)
            yield from self._outputs(positions, legal, unverified, large=True, jobs=jobs)

    def _outputs(
        self, positions: NetPositions, legal: bool, unverified: bool, *, large: bool, jobs: int
    ) -> Iterator[Evaluation]:
        backend, size = self._backend(large), self._batch(large)
        parts = (positions.take(slice(start, start + size)) for start in range(0, len(positions), size))
        if backend is None:
            for part in parts:
                outputs = (net._outputs(part, legal, unverified, large=large, jobs=jobs) for net in self.members)
                yield mix([join(list(each)) for each in outputs], part, self.fitted)
            return
        for part, inputs in _ahead(lambda part: (part, self._inputs(backend, part, legal)), parts, jobs):
            yield self._run(backend, part, inputs, unverified)

    def _inputs(self, backend: Backend, positions: NetPositions, legal: bool) -> _Inputs:
        try:
            return self._encode(backend, positions, legal)
        except IllegalMove as error:
            raise positions.explain(error) from None

    def _encode(self, backend: Backend, positions: NetPositions, legal: bool) -> _Inputs:
        names, allowed = self.about.inputs, positions.legal(self.rules) if legal else None
        if not self._is_kata:
            planes = self._planes(positions, packed=backend.unpacks)
            return planes, encode_inputs(names, *positions.inputs) if names else None, allowed
        planes, numbers = encode_positions(self.encoder_for(positions.width, positions.height), positions, self.rules)
        if names:
            numbers = np.concatenate([numbers, encode_profile(names, positions, self.server)], 1)
        return planes, numbers, allowed

    def _planes(self, positions: NetPositions, *, packed: bool) -> npt.NDArray[Any]:
        """Return the planes [B, C, H, W] float32, or packed."""
        encoder = self.encoder_for(positions.width, positions.height)
        found = encoder.encode(positions, fixed_context(positions.ratings))
        positions.check_playable(found.drop, found.ply)
        if encoder.plane_set.real:
            return found.planes.reshape(-1, *encoder.shape)
        if packed:
            return found.planes
        planes = np.empty((len(positions), *encoder.shape), np.float32)
        packing.unpack(found.planes, planes)
        return planes

    def _run(self, backend: Backend, positions: NetPositions, inputs: _Inputs, unverified: bool) -> Evaluation:
        board = positions.width, positions.height
        planes, numbers, legal = (None if each is None else backend.array(each) for each in inputs)
        if inputs[0].ndim == 3:
            planes = backend.unpack(planes, *self.encoder_for(*board).shape[1:])
        found = evaluate_batch(backend, planes, numbers, board, legal, symmetries=self.symmetries)
        log_probs, value, *points = (None if each is None else backend.numpy(each) for each in found)
        assert log_probs is not None
        shown = points if self.has_points or unverified else (None, None)
        return Evaluation(log_probs, positions.to_play, value, *shown)

    def _nothing(self) -> Evaluation:
        points = self.board[0] * self.board[1]
        sizes = {"value": (0,), "ownership": (0, points), "score": (0, 2)}
        known = self.about.heads if self.has_points else ("value",) * self.has_value
        heads = {name: np.empty(size, np.float32) for name, size in sizes.items() if name in known}
        return Evaluation(np.empty((0, points + self.passes), np.float32), np.empty(0, np.uint8), **heads)

    def _batch(self, large: bool) -> int:
        if self.members:
            return max(_BATCH, *(each._batch(large) for each in self.members))
        if self._is_kata:
            return _KATA_GPU_BATCH if has_gpu() else _KATA_BATCH
        return _GPU_BATCH if large and has_gpu() else _BATCH

    def _backend(self, large: bool) -> Backend | None:
        """Return onnxruntime, or torch: on a GPU, in bfloat16, and if the net has no ONNX file; None for a mixture."""
        if self.members:
            return None
        session, large = self.session, large or self._is_kata
        precision: Precision = self.precision if large else "float32"
        on_gpu = large and not (self._is_kata and session) and has_gpu()
        if precision == "bfloat16" or on_gpu or session is None:
            from kifu.learn.torch_backend import CPU, TorchBackend, default_device, supported_precision

            device = default_device() if on_gpu else CPU
            precision = supported_precision(precision, device)
        if session is not None and precision == "float32" and not on_gpu:
            return session
        with self._shared.lock:
            backends = self._shared.backends
            if (on_gpu, precision) not in backends:
                backends[on_gpu, precision] = TorchBackend(self.module, device, precision)
            return backends[on_gpu, precision]


def _ahead(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield the results of a function in order, computed ahead by threads; by none if `jobs` is 0."""
    if not jobs:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def set_server(nets: Sequence[Net], server: str | None) -> list[Net]:
    """Return nets that imitate players of a server, if it is given. Raise RecipeError if none is a human-style net."""
    if server is None:
        return list(nets)
    check_choice("server", server, (*SERVERS, "profile"))
    if not any(part._is_kata and part.takes_ranks for net in nets for part in net.parts):
        names = " or ".join(net.name for net in nets)
        raise RecipeError(f"server {server} requires a human-style net of KataGo, which {names} is not")
    return [net.using(server=server) for net in nets]


def replay_planes(nets: Sequence[Net]) -> str:
    """Return the plane set that determines how far games can be replayed: that of the first net."""
    own = [part.about.planes for net in nets for part in net.parts if not part._is_kata]
    return own[0] if own else "black+white"


def unique_names(nets: Sequence[Net]) -> list[str]:
    """Return the names of nets; a name that occurred before gets a number."""
    names: list[str] = []
    for net in nets:
        name, number = net.name, 1
        while name in names:
            number += 1
            name = f"{net.name} ({number})"
        names.append(name)
    return names


def common_board(nets: Sequence[Net], board: str | None) -> tuple[int, int]:
    """Return width and height of `board`, such as "19x19"; None is the size that the first net was trained on."""
    size = nets[0].board if board is None else parse_board(board)
    for net in nets:
        net.check_board(*size)
    return size

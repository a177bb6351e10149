"""Evaluation of positions by a network: probabilities of moves, the best moves, random moves, value and ownership.

    predictor = Predictor(open_net("run"))
    moves, probabilities = predictor.predict(PredictPositions.from_games([game], [120])).top(5)

A `Predictor` evaluates any positions, in batches or one at a time: a batch of one takes little longer than the network
itself, with `b6c64` about 6 ms on one core. `Predictor.stream` evaluates many positions of catalogue games.
`MovePredictor` is the interface that other sources of move probabilities share with it. Networks compute in bfloat16
where it is requested and the device has instructions for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError
from kifu.go.positions import Positions
from kifu.go.rules import RECORD_RULES, Rules
from kifu.learn import Precision
from kifu.learn.evaluator import BatchEvaluator, BatchOutput, make_backend, stream_outputs
from kifu.learn.net import AnyNet, as_net
from kifu.learn.positions import EvalPositions, PredictPositions, assign_slots, legal_masks
from kifu.planes import packing
from kifu.planes.encoder import FrameEncoder, fixed_context
from kifu.text import counted

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
        ownership: [B, points] float32 from -1 (the opponent's) to 1, or None from a net without points.
        score: [B, 2] float32, points by which the side to move is ahead, and the standard deviation of its score, or
            None from a net without points.
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
        board: Width and height of the boards that it was trained on.
        games: [K] uint64, ascending canonical hashes of the games that it was trained on or validated with.
        passes: True if it predicts passes.
        has_value: True if evaluations have a value.
        has_points: True if evaluations have score and ownership, see `kifu.learn.net_format.Net`.
        takes_ranks: True if it imitates players of the ranks that positions have.
        rules: The rules that define legal moves; the moves before a position must be legal, too.
    """

    name: str
    description: str
    board: tuple[int, int]
    games: npt.NDArray[np.uint64]
    passes: bool
    has_value: bool
    has_points: bool
    takes_ranks: bool
    rules: Rules

    def check_board(self, width: int, height: int) -> None:
        """Raise RecipeError or GameError for a board size that it does not support."""
        ...

    def predict(self, positions: PredictPositions, legal: bool = True, *, unverified: bool = False) -> Predictions:
        """Evaluate positions, see `Predictor.predict`."""
        ...

    def stream(
        self, positions: EvalPositions, *, legal: bool, jobs: int
    ) -> AbstractContextManager[Iterator[BatchOutput]]:
        """Evaluate many positions of catalogue games, see `Predictor.stream`."""
        ...


class Predictor:
    """Predicts moves with a net. Threads may share it. The attributes are those of `MovePredictor`, and `net`."""

    def __init__(
        self,
        net: AnyNet | None = None,
        *,
        rules: Rules = RECORD_RULES,
        symmetries: bool = False,
        precision: Precision = "float32",
        threads: int | None = None,
    ) -> None:
        """Prepare a net.

        Args:
            net: The net, or its path as for `open_net`; None for the net that is packaged with kifu.
            rules: The rules that define legal moves; the moves before a position must be legal, too.
            symmetries: Average over the 8 symmetries of the board (4 if it is not square).
            precision: Precision of `stream`, see `kifu.learn.torch_net.TorchBackend`.
            threads: Threads of onnxruntime; None for one per core.
        """
        self.net, self.rules = as_net(net, threads), rules
        about = self.net.about
        self.name, self.games, self.passes = self.net.name, self.net.games, about.passes
        inputs = f" with {', '.join(about.inputs)}" if about.inputs else ""
        self.description, self.board = f"{about.net} on {about.planes}{inputs}", (about.width, about.height)
        self.has_value, self.has_points = "value" in about.heads, self.net.has_points
        self.takes_ranks = "ranks" in about.inputs or self.net.encoder.plane_set.needs_ranks
        self._symmetries, self._precision = symmetries, precision
        self._evaluator = BatchEvaluator(self.net, make_backend(self.net), symmetries=symmetries)
        self._encoders: dict[tuple[int, int], FrameEncoder] = {}

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
        backend = make_backend(self.net, precision=self._precision, on_gpu=True)
        evaluator = BatchEvaluator(self.net, backend, symmetries=self._symmetries)
        return stream_outputs(evaluator, positions, legal=legal, jobs=jobs)

    def predict(self, positions: PredictPositions, legal: bool = True, *, unverified: bool = False) -> Predictions:
        """Evaluate positions.

        Args:
            positions: The positions; the result for each is independent of the others, but for rounding.
            legal: Restrict the probabilities to legal moves.
            unverified: Return score and ownership of a net without points, too, to measure them or to propose dead
                stones at the end of a game.

        Raises:
            IllegalMove: A move before one of the positions is illegal under the predictor's rules, or, if `legal` is
                False, under `RECORD_RULES`.
            RecipeError: The net does not support the board size.
        """
        starts = range(0, max(len(positions), 1), _BATCH_SIZE)
        batches = (positions.slice(start, start + _BATCH_SIZE) for start in starts)
        parts = [self._predict_batch(batch, legal, unverified) for batch in batches]
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        return Predictions(
            np.concatenate([part.policy for part in parts]),
            np.concatenate([part.legal for part in parts]),
            None if first.value is None else np.concatenate([part.value for part in parts]),
            None if first.ownership is None else np.concatenate([part.ownership for part in parts]),
            None if first.score is None else np.concatenate([part.score for part in parts]),
        )

    def _predict_batch(self, positions: PredictPositions, legal: bool, unverified: bool) -> Predictions:
        (width, height), games = self.board, positions.games
        if len(positions):
            first = positions.game[0]
            width, height = int(games.width[first]), int(games.height[first])
        points = width * height
        allowed = np.ones((len(positions), points + 1), np.bool_)
        if legal:
            slots = assign_slots(games, positions.game, positions.ply)
            allowed = legal_masks(games, slots, points, self.rules)
        planes = self._encode(positions, width, height)
        mask = allowed if legal else None
        output = self._evaluator.evaluate_positions(planes, positions.input_positions, width, height, mask)
        allowed = allowed[:, : points + self.passes]
        shown = (output.ownership, output.score) if self.has_points or unverified else (None, None)
        return Predictions(np.exp(output.log_probs), allowed, output.value, *shown)

    def _encode(self, positions: PredictPositions, width: int, height: int) -> npt.NDArray[np.float32]:
        """Return the planes [B, C, H, W] of positions on boards of one size."""
        at = Positions.of(positions.games, positions.game, positions.ply)
        if (width, height) not in self._encoders:
            self._encoders[width, height] = self.net.encoder_for(width, height)
        encoder = self._encoders[width, height]
        encoded = encoder.encode(at, fixed_context(np.nan_to_num(positions.conditions.rating)))
        at.check_playable(encoded.drop, encoded.ply)
        planes: npt.NDArray[Any] = np.empty((len(at), *encoder.shape), np.float32)
        if encoder.plane_set.real:
            return encoded.planes.reshape(planes.shape)
        packing.unpack(encoded.planes, planes)
        return planes

"""The answer of a net for positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError

Floats = npt.NDArray[np.float32]


def log_softmax(policy: npt.NDArray[Any], legal: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Return log-probabilities [..., moves] of logits, -inf where `legal` is False."""
    if legal is not None:
        policy = np.where(legal, policy, np.float32(-np.inf))
    largest = policy.max(-1, keepdims=True)
    shifted = policy - np.where(np.isneginf(largest), 0, largest)  # where no move is legal
    total = np.exp(shifted).sum(-1, keepdims=True)
    return shifted - np.log(np.where(total, total, 1))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer of a net for B positions; `evaluation[k]` is that for one of them, without the first axis.

    Attributes:
        log_probs: [B, moves] float32, natural logarithms of the moves' probabilities; -inf for illegal moves, and for
            all moves of a position without a legal one. A move is row * width + column; if the net predicts passes, the
            last one is the pass, width * height.
        side: [B] uint8, BLACK or WHITE: the side to move, from which all else is seen unless `seen_from` changed it.
        value: [B] float32 from -1 (the side loses) to 1 (it wins), or None without a value head.
        ownership: [B, points] float32 from -1 (the other side's) to 1, or None from a net without points.
        score: [B, 2] float32, points by which the side is ahead, and the standard deviation of its score, or None from
            a net without points.
    """

    log_probs: Floats
    side: npt.NDArray[np.uint8]
    value: Floats | None = None
    ownership: Floats | None = None
    score: Floats | None = None

    def __repr__(self) -> str:
        heads = "".join(f", {name}" for name in ("value", "ownership", "score") if getattr(self, name) is not None)
        return f"<Evaluation {list(self.log_probs.shape)}: policy{heads}>"

    def __len__(self) -> int:
        return len(self.log_probs)

    def __iter__(self) -> Iterator[Evaluation]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, which: Any) -> Evaluation:
        arrays: Any = (None if each is None else each[which] for each in self._arrays())
        return Evaluation(*arrays)

    def _arrays(self) -> list[Any]:
        return [getattr(self, each.name) for each in fields(self)]

    @property
    def policy(self) -> Floats:
        """[B, moves] float32, probabilities that sum to 1, or are all 0 without a legal move."""
        return np.exp(self.log_probs)

    @property
    def legal(self) -> npt.NDArray[np.bool_]:
        """[B, moves] bool, the allowed moves, also those whose probability is too small for float32."""
        return ~np.isneginf(self.log_probs)

    def seen_from(self, colour: int) -> Evaluation:
        """Return value, ownership and score from the view of BLACK or WHITE; the policy is that of the side to move."""
        sign, score = np.where(self.side == colour, np.float32(1), np.float32(-1)), self.score
        return Evaluation(
            self.log_probs,
            np.full_like(self.side, colour),
            None if self.value is None else sign * self.value,
            None if self.ownership is None else sign[..., None] * self.ownership,
            None if score is None else np.stack([sign * score[..., 0], score[..., 1]], -1),
        )

    def restrict(self, legal: npt.NDArray[np.bool_]) -> Evaluation:
        """Return the evaluation with these legal moves alone, [B, points + 1]; a pass that is not predicted gets 0."""
        log_probs = np.full(legal.shape, -np.inf, np.float32)
        log_probs[..., : self.log_probs.shape[-1]] = self.log_probs
        if (~legal & ~np.isneginf(log_probs)).any():
            log_probs = log_softmax(log_probs, legal).astype(np.float32)
        return Evaluation(log_probs, *self._arrays()[1:])

    def top(self, n: int) -> tuple[npt.NDArray[np.int16], Floats]:
        """Return the n most likely moves in descending order; of equally likely moves the lower number comes first.

        Returns:
            Moves [B, n] int16, -1 beyond the last legal one, and their probabilities [B, n] float32. There are fewer
            than n columns if the board has fewer moves.
        """
        policy = np.where(self.legal, self.policy, -1)
        order = np.argsort(-policy, axis=-1, kind="stable")[..., :n]
        best = np.take_along_axis(policy, order, -1)
        return np.where(best < 0, -1, order).astype(np.int16), np.maximum(best, 0)

    def probability(self, move: int) -> float | None:
        """Return the probability of a move in one position; None for a pass that the net does not predict."""
        return float(self.policy[move]) if move < len(self.log_probs) else None

    def choice(self, move: int) -> int:
        """Return the place of a move among the choices in one position, 1 for the most likely."""
        return 1 + int((self.policy > self.policy[move]).sum())

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
        legal = self.legal
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            weight = self.log_probs.astype(np.float64)
            weight -= weight.max(1, keepdims=True)
            # Differences from the maximum overflow only to -inf at tiny temperatures.
            weight = np.where(weight == 0, 0, weight / temperature)
        explore = rng.random(len(weight)) < epsilon
        weight = np.where(legal, np.where(explore[:, None], 0, weight), -np.inf)
        # The maximum of log-weights with Gumbel noise is a draw by weight that needs no normalization.
        moves = np.argmax(weight + rng.gumbel(size=weight.shape), 1)
        return np.where(legal.any(1), moves, -1).astype(np.int16)


def join(parts: Sequence[Evaluation]) -> Evaluation:
    """Return the evaluations of consecutive positions as one."""
    columns: Any = zip(*(part._arrays() for part in parts))
    joined: Any = (None if column[0] is None else np.concatenate(column) for column in columns)
    return Evaluation(*joined)

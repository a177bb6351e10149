"""Scores of the moves played in many positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kifu.errors import FormatError
from kifu.learn.positions import EvalPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.scores import MoveScores
from kifu.progress import Progress


def score_moves(
    predictors: Sequence[MovePredictor], positions: EvalPositions, *, legal: bool, jobs: int, bar: Progress
) -> list[MoveScores]:
    """Return the scores of the moves played, for each predictor.

    Args:
        predictors: The nets or engines.
        positions: The positions.
        legal: Restrict the probabilities to legal moves.
        jobs: Threads that encode planes.
        bar: Counts positions of all predictors.

    Raises:
        FormatError: A net returns NaN, or a game differs from its row.
    """
    found = []
    for predictor in predictors:
        scores, start = MoveScores.empty(len(positions)), 0
        with predictor.stream(positions, legal=legal, jobs=jobs) as outputs:
            for output in outputs:
                count = len(output.log_probs)
                move = torch.from_numpy(positions.slice(start, start + count).move).to(output.log_probs.device)
                _store_scores(scores, start, output.log_probs, move, predictor.name)
                start += count
                bar.advance(count)
        found.append(scores)
    return found


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

"""Scores of the moves played in many positions: the rows of `kifu annotate`, which `kifu evaluate` summarizes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kifu.errors import FormatError
from kifu.learn.batch_evaluator import BatchOutput
from kifu.learn.positions import EvalPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.scores import MoveScores
from kifu.progress import Progress


def score_moves(
    predictor: MovePredictor, positions: EvalPositions, *, legal: bool, jobs: int, bar: Progress | None = None
) -> MoveScores:
    """Return the scores of the moves played.

    Args:
        legal: Restrict the probabilities to legal moves.

    Raises:
        FormatError: A net returns NaN, or a game differs from its row.
    """
    scores, start = MoveScores.empty(len(positions)), 0
    with predictor.stream(positions, legal=legal, jobs=jobs) as outputs:
        for output in outputs:
            part = slice(start, start + len(output.log_probs))
            move = torch.from_numpy(positions.slice(part.start, part.stop).move).to(output.log_probs.device)
            _store_scores(scores, part, output, move, predictor.name)
            start = part.stop
            if bar is not None:
                bar.advance(len(move))
    return scores


def _store_scores(out: MoveScores, part: slice, output: BatchOutput, move: Tensor, name: str) -> None:
    """Store the scores of moves [B]."""
    log_probs, moves = output.log_probs, output.log_probs.shape[1]
    move, predicted = move.clamp(max=moves - 1)[:, None], move < moves
    played = log_probs.gather(1, move)
    preferred = log_probs > played
    preferred |= (log_probs == played) & (torch.arange(moves, device=log_probs.device) < move)
    nll = -played[:, 0]
    confidence, best = log_probs.max(1)
    finite = nll.isfinite() | ~predicted
    if output.value is not None:
        finite &= output.value.isfinite()
    if not bool(finite.all()):
        raise FormatError(f"net {name} returns values that are NaN or too large")
    out.rank[part] = preferred.sum(1).cpu().numpy()
    out.nll[part] = nll.masked_fill(~predicted, torch.nan).cpu().numpy()
    out.confidence[part] = np.exp(confidence.cpu().numpy())
    out.entropy[part] = torch.special.entr(log_probs.exp()).sum(1).cpu().numpy()
    out.best[part] = best.cpu().numpy()
    out.value[part] = torch.nan if output.value is None else output.value.cpu().numpy()

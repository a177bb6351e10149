"""Evaluations in the text formats of Sabaki, Lizzie and GoGui.

`lz-analyze` and `kata-analyze` follow KataGo's docs/GTP_Extensions.md, GoGui's analyze commands its manual. There is no
search: "visits" are the policy scaled to 1000, the winrate is the value head's for the position itself (0.5 without
one), and a principal variation is the move alone.
"""

from __future__ import annotations

import numpy as np

from kifu.play.arguments import AnalyzeRequest
from kifu.play.player import PolicyValue
from kifu.play.session import GameSession
from kifu.point import to_gtp

_VISITS = 1000

_MIN_LABELLED = 0.005
"""Smallest probability that GoGui shows as a label."""


def info_line(game: GameSession, evaluation: PolicyValue, request: AnalyzeRequest, *, kata: bool) -> str:
    """Return one line, "info move D4 visits 412 winrate 5210 prior 4117 lcb 5210 order 0 pv D4 info move ...".

    Moves are sorted by probability; those below half a visit are omitted unless the request asks for more. Without any
    legal point the line lists the pass.

    Args:
        request: Minimum and maximum number of moves, and whether ownership is wanted.
        kata: Use KataGo's format: numbers within 0 to 1 rather than 0 to 10000, ownership allowed.
    """
    ranked = np.argsort(-evaluation.policy, kind="stable")[: np.count_nonzero(evaluation.policy)].tolist()
    count = max(1, request.min_moves, int(np.count_nonzero(evaluation.policy * _VISITS >= 0.5)))
    order = (ranked or [len(evaluation.policy) - 1])[:count][: request.max_moves]
    # Lizzie draws no heat for a winrate of exactly 0.
    winrate = 0.5 if evaluation.value is None else min(max((evaluation.value + 1) / 2, 0.0001), 0.9999)
    parts = []
    for rank, move in enumerate(order):
        vertex, prior = to_gtp(move, game.board.width, game.board.height), float(evaluation.policy[move])
        head = f"info move {vertex} visits {round(prior * _VISITS)}"
        if kata:
            values = f"winrate {winrate:.6f} utility {2 * winrate - 1:.6f} prior {prior:.6f} lcb {winrate:.6f}"
        else:
            values = f"winrate {winrate * 10000:.0f} prior {prior * 10000:.0f} lcb {winrate * 10000:.0f}"
        parts.append(f"{head} {values} order {rank} pv {vertex}")
    if kata and request.ownership and evaluation.ownership is not None:
        parts.append("ownership " + " ".join(f"{value:.4f}" for value in evaluation.ownership.tolist()))
    return " ".join(parts)


def policy_gfx(game: GameSession, evaluation: PolicyValue) -> str:
    """Return GoGui graphics: a square per point, scaled to the best move, with percentages as labels."""
    policy = evaluation.policy[:-1]
    best = float(policy.max())
    names = [to_gtp(point, game.board.width, game.board.height) for point in range(len(policy))]
    min_square = max(0.005 * best, np.finfo(np.float32).tiny)  # without a legal point, best is 0
    squares = [f"{name} {p / best:.2f}" for name, p in zip(names, policy.tolist()) if p >= min_square]
    labels = [f"{name} {p:.0%}"[:-1] for name, p in zip(names, policy.tolist()) if p >= _MIN_LABELLED]
    lines = [" ".join(["INFLUENCE", *squares])] if squares else []
    lines += [" ".join(["LABEL", *labels])] if labels else []
    pass_probability = float(evaluation.policy[-1])
    return "\n".join([*lines, f"TEXT best {max(best, pass_probability):.1%}, pass {pass_probability:.1%}"])


def dboard(values: np.ndarray, width: int) -> str:
    """Return numbers as GoGui's dboard: one line per row of the board, top row first."""
    return "\n".join(" ".join(f"{value:.3f}" for value in row) for row in values.reshape(-1, width).tolist())

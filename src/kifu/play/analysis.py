"""What an oracle says of a position as programs around an engine want to read it: Sabaki, Lizzie, GoGui.

Formats: `lz-analyze` and `kata-analyze` as KataGo's docs/GTP_Extensions.md has them, GoGui's analyze commands as its
manual has them. There is no search behind them: "visits" are the policy's share of a thousand, the winrate is the value
head's of the position itself, a half without one, and a principal variation is the move alone.
"""

from __future__ import annotations

import numpy as np

from kifu.play.ongoing import GameSession
from kifu.play.player import PolicyValue
from kifu.point import to_gtp

_VISITS = 1000

_LABELLED = 0.005
"""Moves of at least this probability have it written on them in GoGui."""


def info_line(
    game: GameSession,
    outlook: PolicyValue,
    *,
    kata: bool,
    least: int = 0,
    most: int | None = None,
    ownership: bool = False,
) -> str:
    """One line: "info move D4 visits 412 winrate 5210 prior 4117 lcb 5210 order 0 pv D4 info move ...".

    The best move first; the moves of less than half a visit are left out. kata: numbers are within 0 to 1, not 10000.
    least, most: how many moves are told, if so many have a probability at all; where none has, the pass is.
    ownership: tell it, if it is known.
    """
    possible = np.argsort(-outlook.policy, kind="stable")[: np.count_nonzero(outlook.policy)].tolist()
    enough = max(1, least, int(np.count_nonzero(outlook.policy * _VISITS >= 0.5)))
    order = (possible or [len(outlook.policy) - 1])[:enough][:most]
    winrate = 0.5 if outlook.value is None else min(max((outlook.value + 1) / 2, 0.0001), 0.9999)  # 0 is no heat
    parts = []
    for rank, move in enumerate(order):
        vertex, prior = to_gtp(move, game.board.width, game.board.height), float(outlook.policy[move])
        head = f"info move {vertex} visits {round(prior * _VISITS)}"
        if kata:
            told = f"winrate {winrate:.6f} utility {2 * winrate - 1:.6f} prior {prior:.6f} lcb {winrate:.6f}"
        else:
            told = f"winrate {winrate * 10000:.0f} prior {prior * 10000:.0f} lcb {winrate * 10000:.0f}"
        parts.append(f"{head} {told} order {rank} pv {vertex}")
    if ownership and outlook.ownership is not None:
        parts.append("ownership " + " ".join(f"{value:.4f}" for value in outlook.ownership.tolist()))
    return " ".join(parts)


def policy_gfx(game: GameSession, outlook: PolicyValue) -> str:
    """GoGui graphics: a square on each point, as large as its probability beside the best one's, and percentages."""
    chances = outlook.policy[:-1]
    top = float(chances.max())
    names = [to_gtp(point, game.board.width, game.board.height) for point in range(len(chances))]
    least = max(0.005 * top, np.finfo(np.float32).tiny)  # there may be no legal point
    squares = [f"{name} {chance / top:.2f}" for name, chance in zip(names, chances.tolist()) if chance >= least]
    labels = [f"{name} {chance:.0%}"[:-1] for name, chance in zip(names, chances.tolist()) if chance >= _LABELLED]
    lines = [" ".join(["INFLUENCE", *squares])] if squares else []
    lines += [" ".join(["LABEL", *labels])] if labels else []
    return "\n".join([*lines, f"TEXT best {max(top, float(outlook.policy[-1])):.1%}, pass {outlook.policy[-1]:.1%}"])


def board_of_numbers(values: np.ndarray, width: int) -> str:
    """GoGui's dboard: a line for each row of the board, the top one first."""
    return "\n".join(" ".join(f"{value:.3f}" for value in row) for row in values.reshape(-1, width).tolist())

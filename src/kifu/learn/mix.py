"""Mixtures of nets: pools of their policies and values, and the fit of the weights; see docs/mixtures.md.

The probability of a move is proportional to the product of the nets' probabilities, each to the power of its weight.
A sum of weights below 1 makes the probabilities more even, above 1 less. A value is the weighted sum of the nets'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.arrays import Indices
from kifu.datasets.examples import UNKNOWN
from kifu.errors import FormatError
from kifu.learn.evaluation import Evaluation, log_softmax
from kifu.learn.net_format import RANK_BANDS, MixFigures, MixFile, PoolWeights
from kifu.learn.positions import NetPositions

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

_PHASE_STARTS = (1 / 6, 1 / 2)
"""Moves as shares of the board's points from which on it is the middle game, and the endgame: 60 and 180 on 19 x 19."""

_BAND_STARTS = (32, 35, 38)
"""Ratings (`kifu.Rank.rating`) of 1, 4 and 7 dan, the first ones of the later `RANK_BANDS`."""

_STIFFNESS = 1e-3, 300.0
"""Precisions of the normal prior of the common weights, around 1 / n, and of what phases and ranks add, around 0."""

_MAX_STEPS = 100
_TOLERANCE = 1e-8
_FIT_CHUNK = 512


def design(positions: NetPositions) -> Floats:
    """Return [B, R] the rows of `PoolWeights.table` whose sum is the weights of each position."""
    games, (conditions, game, white) = positions.games, positions.inputs
    points = games.width[positions.game].astype(np.int64) * games.height[positions.game]
    phase = np.searchsorted(_PHASE_STARTS, positions.ply / points, "right")
    rating = conditions.rating[game, white.astype(np.int64)]
    band = np.where(np.isnan(rating), -1, np.searchsorted(_BAND_STARTS, rating, "right"))
    ones = np.ones((len(phase), 1), np.bool_)
    phases, bands = np.arange(len(_PHASE_STARTS) + 1), np.arange(len(RANK_BANDS))
    return np.hstack([ones, phase[:, None] == phases, band[:, None] == bands]).astype(np.float64)


def pool(log_probs: Sequence[Floats32], weights: Floats) -> Floats32:
    """Return the pooled log-probabilities [B, M], given those of n nets and weights [B, n].

    A move to which one of the nets gives probability 0 has probability 0.
    """
    allowed = np.all([np.isfinite(each) for each in log_probs], 0)
    logits = np.sum([np.where(allowed, each, 0) * weights[:, [k]] for k, each in enumerate(log_probs)], 0)
    return log_softmax(logits, allowed).astype(np.float32)


def complete_passes(log_probs: Sequence[Floats32]) -> list[Floats32]:
    """Return policies of the same moves: nets that predict no passes are given the mean of the others' log p."""
    moves = max(each.shape[1] for each in log_probs)
    full = [each for each in log_probs if each.shape[1] == moves]
    passes = np.minimum(np.mean([each[:, -1:] for each in full], 0), -1e-6)
    points = np.log1p(-np.exp(passes))
    return [each if each.shape[1] == moves else np.hstack([each + points, passes]) for each in log_probs]


def pool_values(values: Sequence[Floats32 | None], weights: Floats) -> Floats32:
    """Return the weighted sums [B] of values, within -1 to 1; nets without values do not count."""
    known = [value * weights[:, k] for k, value in enumerate(values) if value is not None]
    pooled: Floats32 = np.clip(np.sum(known, 0), -1, 1).astype(np.float32)
    return pooled


def _mean(parts: Iterable[Any]) -> Any:
    known = [part for part in parts if part is not None]
    return sum(known) / len(known) if known else None


def mix(parts: Sequence[Evaluation], positions: NetPositions, fitted: MixFile | None) -> Evaluation:
    """Return the pooled evaluation of positions by several nets, by default with equal weights."""
    rows, has_value = design(positions), [part.value is not None for part in parts]
    policy = fitted.policy.table() if fitted else equal_weights([True] * len(parts))
    log_probs, value = pool(complete_passes([part.log_probs for part in parts]), rows @ policy), None
    if any(has_value):
        weights = fitted.value.table() if fitted and fitted.value else equal_weights(has_value)
        value = pool_values([part.value for part in parts], rows @ weights)
    ownership, score = (_mean(getattr(part, name) for part in parts) for name in ("ownership", "score"))
    return Evaluation(log_probs, parts[0].side, value, ownership, score)


def equal_weights(used: Sequence[bool]) -> Floats:
    """Return the table [R, n] of equal weights, which sum to 1, of those nets that are used."""
    table = np.zeros((PoolWeights.rows(), len(used)))
    table[0] = np.array(used) / max(sum(used), 1)
    return table


def fit_weights(features: Floats32, observed: Floats, rows: Floats) -> Floats:
    """Return the table [R, n] of weights under which outcomes that occurred are the most likely.

    The likelihood of a log-linear pool has one maximum, which Newton's method finds. Raises FormatError if a net gives
    an outcome that occurred a probability of 0 or NaN.

    Args:
        features: [N, M, n], log-probabilities of M outcomes by n nets; -inf for impossible ones.
        observed: [N, n], log-probabilities of the outcomes that occurred.
        rows: [N, R], see `design`.
    """
    if not np.isfinite(observed).all():
        raise FormatError("a net gives a move that was played a probability of 0 or NaN")
    count, nets = rows.shape[1], observed.shape[1]
    start, stiffness = _prior(nets)

    def objective(table: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss in nats, its gradient and its Hessian."""
        loss, slope, curvature = _likelihood(features, observed, rows, table)
        apart = table - start
        return (
            loss + float((stiffness * apart**2).sum()) / 2,
            (slope + stiffness * apart).ravel(),
            curvature + np.diag(stiffness.ravel()),
        )

    table, (loss, slope, curvature) = start, objective(start)
    for _ in range(_MAX_STEPS):
        step = np.linalg.solve(curvature, slope).reshape(count, nets)
        found = objective(table - step)
        while found[0] > loss * (1 + 1e-12) and np.abs(step).max() > _TOLERANCE:
            step /= 2
            found = objective(table - step)
        table, (loss, slope, curvature) = table - step, found
        if np.abs(step).max() <= _TOLERANCE:
            break
    return table


def _prior(nets: int) -> tuple[Floats, Floats]:
    """Return means [R, n] and precisions [R, n] of the prior of the weights."""
    stiffness = np.full((PoolWeights.rows(), nets), _STIFFNESS[1])
    stiffness[0] = _STIFFNESS[0]
    return equal_weights([True] * nets), stiffness


def fit_values(values: Floats, result: Floats, rows: Floats) -> Floats:
    """Return weights [R, n] of values [N, n] with least squared errors from results [N], 1, 0, -1; rows: `design`."""
    features = (rows[:, :, None] * values[:, None]).reshape(len(values), -1)
    mean, stiffness = (each.ravel() for each in _prior(values.shape[1]))
    curvature = features.T @ features + np.diag(stiffness)
    table: Floats = np.linalg.solve(curvature, features.T @ result + stiffness * mean).astype(np.float64)
    return table.reshape(rows.shape[1], values.shape[1])


def _likelihood(features: Floats32, observed: Floats, rows: Floats, table: Floats) -> tuple[float, Floats, Floats]:
    """Return the negative log-likelihood, its gradient [R, n] and its Hessian [R n, R n]."""
    loss, slope = 0.0, np.zeros_like(table)
    curvature = np.zeros((*table.shape, *table.shape))
    for start in range(0, len(rows), _FIT_CHUNK):
        part = slice(start, start + _FIT_CHUNK)
        chosen, weights = rows[part], rows[part] @ table
        values = features[part].astype(np.float64)
        allowed = np.isfinite(values).all(2)
        values[~allowed] = 0
        logits = np.where(allowed, np.einsum("bmn,bn->bm", values, weights), -np.inf)
        largest = logits.max(1, keepdims=True)
        probabilities = np.exp(logits - largest)
        total = probabilities.sum(1, keepdims=True)
        probabilities /= total
        loss += float((largest + np.log(total)).sum() - (weights * observed[part]).sum())
        mean = np.einsum("bm,bmn->bn", probabilities, values)
        slope += chosen.T @ (mean - observed[part])
        covariance = np.matmul((values * probabilities[..., None]).transpose(0, 2, 1), values)
        covariance -= mean[:, :, None] * mean[:, None]
        curvature += np.einsum("bk,bl,bij->kilj", chosen, chosen, covariance, optimize=True)
    return loss, slope, curvature.reshape(table.size, table.size)


def fit_pools(
    outputs: Sequence[Evaluation], names: Sequence[str], move: Indices, result: npt.NDArray[np.int8], rows: Floats
) -> tuple[PoolWeights, PoolWeights | None, tuple[MixFigures, ...]]:
    """Fit the weights of policies and values.

    Args:
        move: [N], the moves that were played.
        result: [N], from the view of the side to move, as for `kifu.learn.scores.value_error`.
        rows: [N, R], see `design`.

    Returns:
        Weights of the policies, those of the values if a net has values and a result is known, and the figures of each
        net, of equal weights and of the fitted ones.
    """
    everywhere, known = np.arange(len(move)), result != UNKNOWN
    log_probs = complete_passes([output.log_probs for output in outputs])
    features = np.stack(log_probs, 2)
    policy = fit_weights(features, features[everywhere, move].astype(np.float64), rows)
    equal = rows @ equal_weights([True] * len(names))
    policies = [*log_probs, pool(log_probs, equal), pool(log_probs, rows @ policy)]
    values = [output.value for output in outputs]
    value, has_value = None, [each is not None for each in values]
    if known.any() and any(has_value):
        worths = np.stack([np.zeros(len(move)) if each is None else each for each in values], 1)[known]
        value = fit_values(worths, result[known].astype(np.float64), rows[known])
        value[:, np.logical_not(has_value)] = 0
        values += [pool_values(values, rows @ table) for table in (equal_weights(has_value), value)]
    else:
        values = [None] * len(policies)
    figures = tuple(
        MixFigures(
            name=name,
            top1=float((each.argmax(1) == move).mean()),
            nll=-float(each[everywhere, move].mean(dtype=np.float64)),
            value=None if worth is None else float(((worth - result)[known] ** 2).mean()),
        )
        for name, each, worth in zip([*names, "equal weights", "fitted"], policies, values)
    )
    return PoolWeights.of_table(policy), None if value is None else PoolWeights.of_table(value), figures

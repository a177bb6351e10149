"""The epochs of a mixture in plain integers and lists; the slow twin of `kifu.datasets.mixture`."""

from fractions import Fraction
from itertools import groupby

import naive_order

SOURCE = 5


def part(sequence, count):
    """Return the first positions of an epoch, and the middle of each game's positions as a share of the part."""
    runs, end = [], 0
    for _, run in groupby(sequence[:count], lambda position: position[0]):
        run = list(run)
        end += len(run)
        runs.append(((2 * end - len(run)) / (2 * count), run))
    return runs


def mixture_order(
    sources, weights, *, positions=None, seed=0, epoch=0, shuffle="window", augment=True, choice=(), **options
):
    """Return [(source, game, ply, symmetry)] of one process, None if too few; options: see `naive_order.deliver`."""
    sequences = [
        naive_order.epoch_sequence(games, naive_order.key(seed, k, SOURCE), epoch, "window", augment, **dict(choice))
        for k, games in enumerate(sources)
    ]
    weights = [Fraction(str(weight)) for weight in weights]
    scale = min(len(sequence) / weight for sequence, weight in zip(sequences, weights))
    if positions is not None:
        scale = positions / sum(weights)
    counts = [-(-(scale * weight) // 1) for weight in weights]
    if any(count > len(sequence) for count, sequence in zip(counts, sequences)):
        return None
    runs = [
        (middle, k, [(k, *position) for position in run])
        for k, (sequence, count) in enumerate(zip(sequences, counts))
        for middle, run in part(sequence, count)
    ]
    merged = [position for _, _, run in sorted(runs, key=lambda run: run[:2]) for position in run]
    return naive_order.deliver(merged, seed, epoch, shuffle, **options)

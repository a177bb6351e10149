"""The epochs of a mixture in plain integers and lists; the slow twin of `kifu.datasets.mixture`."""

from fractions import Fraction
from itertools import groupby

import naive_order

SOURCE = 5


class Source:
    """The endless sequence of the positions of some games: (cycle, game, ply, symmetry)."""

    def __init__(self, games, index, seed, augment, **choice):
        self.games, self.seed = games, naive_order.key(seed, index, SOURCE)
        self.augment, self.choice = augment, choice

    def sequence(self, number):
        found = naive_order.epoch_sequence(self.games, self.seed, number, "window", self.augment, **self.choice)
        return [(number, *position) for position in found]

    def part(self, start, count):
        """Return positions of an epoch, and the middle of each game's positions as a share of the part."""
        size = len(self.sequence(0))
        number, skipped = start // size, start % size
        first = self.sequence(number)
        found = first[skipped * len(first) // size :]
        while len(found) < count:
            number += 1
            found += self.sequence(number)
        found, runs, end = found[:count], [], 0
        for _, run in groupby(found, lambda position: position[:2]):
            run = list(run)
            end += len(run)
            runs.append(((2 * end - len(run)) / (2 * count), run))
        return runs


def mixture_order(
    sources, weights, *, positions=None, seed=0, epoch=0, shuffle="window", augment=True, choice=(), **options
):
    """Return [(source, cycle, game, ply, symmetry)] of one rank; options: see `naive_order.deliver`."""
    sources = [Source(games, k, seed, augment, **dict(choice)) for k, games in enumerate(sources)]
    weights = [Fraction(str(weight)) for weight in weights]
    if positions is None:
        scale = min(len(source.sequence(0)) / weight for source, weight in zip(sources, weights))
    else:
        scale = positions / sum(weights)
    counts = [-(-(scale * weight) // 1) for weight in weights]
    runs = [
        (middle, k, [(k, *position) for position in run])
        for k, (source, count) in enumerate(zip(sources, counts))
        for middle, run in source.part(epoch * count, count)
    ]
    merged = [position for _, _, run in sorted(runs, key=lambda run: run[:2]) for position in run]
    return naive_order.deliver(merged, seed, epoch, shuffle, **options)

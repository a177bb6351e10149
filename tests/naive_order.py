"""The order of a loader's epoch in plain ints and lists, as the docstrings of `_order` and `plan` say it."""

from itertools import pairwise
from typing import NamedTuple

from kifu.point import POINT_MASK, WHITE_BIT
from naive_hashes import mix

UNITS, SYMMETRY, BLOCK, CHANCE, DRAW = range(5)


class Game(NamedTuple):
    words: list[int]
    playable: int
    points: int
    square: bool = True
    weights: tuple[float, float] = (1, 1)  # of Black's moves and White's


def key(seed, *parts):
    h = mix(seed)
    for part in parts:
        h = mix(h ^ part)
    return h


def shuffled(key, count):
    order = list(range(count))
    for i in reversed(range(1, count)):
        j = mix(key ^ i) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def chosen(games, seed, epoch, passes=False, by_ply=None, per_game=None):
    """The plies of each game. by_ply: ply -> weight."""
    chance, draw = key(seed, epoch, CHANCE), key(seed, epoch, DRAW)
    found, first = [], 0
    for game in games:
        plies = []
        for t, word in enumerate(game.words[: game.playable]):
            weight = game.weights[bool(word & WHITE_BIT)] * (by_ply(t) if by_ply else 1)
            if not passes and word & POINT_MASK == game.points:
                continue
            if (mix(first + t ^ chance) >> 11) / 2**53 < weight:
                plies.append(t)
        if per_game is not None and len(plies) > per_game:
            left, wanted, some = len(plies), per_game, []
            for t in plies:
                if mix(first + t ^ draw) % left < wanted:
                    some.append(t)
                    wanted -= 1
                left -= 1
            plies = some
        found.append(plies)
        first += len(game.words)
    return found


def cut(low, high, count):
    return list(pairwise(low + (high - low) * k // count for k in range(count + 1)))


def epoch_order(
    games, *, seed=0, epoch=0, shuffle="window", window=131_072, augment=True, rank=0, world_size=1, drop_last=False,
    batch_size=1, **choice,
):  # fmt: skip
    """[(game, ply, symmetry)] that one rank is given."""
    plies = chosen(games, seed, epoch, **choice)
    turns = key(seed, epoch, SYMMETRY)
    symmetry = [(mix(g ^ turns) >> (61 if game.square else 62)) if augment else 0 for g, game in enumerate(games)]
    units = range(len(games)) if shuffle is None else shuffled(key(seed, epoch, UNITS), len(games))
    sequence = [(g, t, symmetry[g]) for g in units for t in plies[g]]
    total = len(sequence)
    low, high = total * rank // world_size, total * (rank + 1) // world_size
    if drop_last:
        high = low + total // world_size // batch_size * batch_size
    if shuffle == "global":
        return [sequence[q] for q in shuffled(key(seed, epoch, BLOCK, 0), total)[low:high]]
    given = []
    for first, last in cut(low, high, max((high - low) // window, 1)):
        order = range(last - first) if shuffle is None else shuffled(key(seed, epoch, BLOCK, first), last - first)
        given += [sequence[first + q] for q in order]
    return given

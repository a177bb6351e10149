"""The order of an epoch in plain integers and lists; the slow twin of `kifu.datasets.epoch_plan` and `epoch_plan`."""

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
    """Return the selected plies of each game. by_ply: ply -> weight."""
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


def full(total, world_size, batch_size):
    """Return how many positions each process delivers in full batches."""
    return total // (world_size * batch_size) * batch_size


def shuffled_shares(sequence, world_size, batch_size, key_of_block, shuffle, window, drop_last):
    total = len(sequence)
    if shuffle == "global":
        order = shuffled(key_of_block(0), total)
        return [[sequence[q] for q in order[low:high]] for low, high in cut(0, total, world_size)]
    shares = []
    for low, high in cut(0, total, world_size):
        end = low + full(total, world_size, batch_size) if drop_last else high
        share = []
        for first, last in [*cut(low, end, max((end - low) // window, 1)), (end, high)]:
            order = range(last - first) if shuffle is None else shuffled(key_of_block(first), last - first)
            share += [sequence[first + q] for q in order]
        shares.append(share)
    return shares


def epoch_sequence(games, seed, epoch, shuffle, augment, **choice):
    """Return [(game, ply, symmetry)] of an epoch, game after game."""
    plies = chosen(games, seed, epoch, **choice)
    turns = key(seed, epoch, SYMMETRY)
    symmetry = [(mix(g ^ turns) >> (61 if game.square else 62)) if augment else 0 for g, game in enumerate(games)]
    units = range(len(games)) if shuffle is None else shuffled(key(seed, epoch, UNITS), len(games))
    return [(g, t, symmetry[g]) for g in units for t in plies[g]]


def epoch_order(
    games, *, seed=0, epoch=0, shuffle="window", augment=True, passes=False, by_ply=None, per_game=None, **options
):
    """Return [(game, ply, symmetry)] of one process; options: see `deliver`."""
    sequence = epoch_sequence(
        games, seed, epoch, shuffle, augment, passes=passes, by_ply=by_ply, per_game=per_game
    )  # fmt: skip
    return deliver(sequence, seed, epoch, shuffle, **options)


def deliver(
    sequence, seed, epoch, shuffle, *, window=131_072, process_index=0, world_size=1, drop_last=False, batch_size=1
):
    """Return the positions of one process in order."""
    shares = shuffled_shares(
        sequence, world_size, batch_size, lambda place: key(seed, epoch, BLOCK, place), shuffle, window, drop_last
    )
    share = shares[process_index]
    return share[: full(len(sequence), world_size, batch_size)] if drop_last else share

"""Naive twins: `canonical@1` in Python ints, as `kifu.corpus.hashes` documents it, and duplicates by all pairs."""

from drawn_games import OneGame
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT

WORD = 2**64
SETUP, BOARD = 0x10000, 0x20000


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) % WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB % WORD
    return x ^ x >> 31


def step(h, v):
    h = (h ^ v) * 0xBF58476D1CE4E5B9 % WORD
    return h ^ h >> 32


def turned(word, k, width, height):
    """Return a word with its point under symmetry k: mirrored left-right, top-bottom, then transposed."""
    point = word & POINT_MASK
    if point >= width * height:
        return word
    y, x = divmod(point, width)
    x = width - 1 - x if k & 1 else x
    y = height - 1 - y if k & 2 else y
    return (word - point) | (x * height + y if k & 4 else y * width + x)


def symmetric(game, k):
    w, h = game.width, game.height
    moves = [turned(word, k, w, h) for word in game.moves]
    setup = tuple((ply, turned(word, k, w, h)) for ply, word in game.setup)
    return OneGame(h if k & 4 else w, w if k & 4 else h, moves, setup)


def swapped(game):
    setup = tuple((ply, word if word & ERASE_BIT else word ^ WHITE_BIT) for ply, word in game.setup)
    return game._replace(moves=[word ^ WHITE_BIT for word in game.moves], setup=setup)


def trimmed(game):
    plies = len(game.moves)
    least = min(game.setup[-1][0], plies) if game.setup else 0
    while plies > least and game.moves[plies - 1] & POINT_MASK == game.width * game.height:
        plies -= 1
    return game._replace(moves=game.moves[:plies], setup=tuple((min(ply, plies), word) for ply, word in game.setup))


def normal(game):
    """Return the hashed content of a trimmed game as nested tuples; the first mover, or else Black, is colour 0."""
    first = game.moves[0] & WHITE_BIT if game.moves else 0
    events = []
    for ply in range(len(game.moves) + 1):
        final = {word & POINT_MASK: word for at, word in game.setup if at == ply}
        if final:
            stones = {word & ~WHITE_BIT if word & ERASE_BIT else word ^ first for word in final.values()}
            events.append(("setup", tuple(sorted(stones))))
        if ply < len(game.moves):
            events.append(("move", game.moves[ply] ^ first))
    return game.width, game.height, tuple(events)


def faces(game):
    colours = [game] if game.moves else [game, swapped(game)]
    return [normal(symmetric(one, k)) for one in colours for k in range(8)]


def hash_of(face):
    width, height, events = face
    h = mix(BOARD + 256 * width + height)
    for kind, what in events:
        if kind == "move":
            h = step(h, mix(what))
        else:
            value = 0
            for word in what:
                value ^= mix(SETUP + word)
            h = step(h, value)
    return h


def canonical(game):
    return mix(min(map(hash_of, faces(trimmed(game)))))


def opening(game, plies):
    game = trimmed(game)
    if len(game.moves) >= plies:
        game = game._replace(moves=game.moves[:plies], setup=tuple(entry for entry in game.setup if entry[0] < plies))
    return mix(min(map(hash_of, faces(game))))


def row_hash(numbers, lists, texts):
    """Return the id of a row, from 32-bit numbers, lists of 16-bit numbers, and texts, which may be None."""
    h = 0
    for number in numbers:
        h = step(h, mix(number % 2**32))
    for values in lists:
        h = step(h, mix(len(values)))
        for i in range(0, len(values), 4):
            h = step(h, mix(sum(value << 16 * k for k, value in enumerate(values[i : i + 4]))))
    for text in texts:
        data = b"" if text is None else text.encode()
        h = step(h, mix(0 if text is None else len(data) + 1))
        for i in range(0, len(data), 8):
            h = step(h, mix(int.from_bytes(data[i : i + 8], "little")))
    return h


def is_beginning(game, other):
    """Return True if a trimmed game equals another one, or one of its beginnings."""
    plies = len(game.moves)
    if plies > len(other.moves):
        return False
    before = other._replace(moves=other.moves[:plies], setup=tuple(e for e in other.setup if e[0] < plies))
    at = before._replace(setup=tuple(e for e in other.setup if e[0] <= plies))
    lowest = min(faces(game))
    return lowest in (min(faces(before)), min(faces(at)))


def relations(games, shortest, least):
    """Return (row, all rows of its cluster, relation, row that is kept) of each game that belongs with another.

    The relation is "kept", "same" or "cut". Games of fewer than `shortest` moves are ignored; beginnings have at least
    `least` moves.
    """
    cut = [trimmed(game) for game in games]
    rows = [i for i, game in enumerate(cut) if len(game.moves) >= shortest]
    lowest = {i: min(faces(cut[i])) for i in rows}
    equal = {i: [j for j in rows if lowest[i] == lowest[j]] for i in rows}
    speaker = {i: min(equal[i], key=lambda j: (-len(games[j].moves), j)) for i in rows}
    longer = {
        i: [j for j in rows if len(cut[i].moves) >= least and lowest[i] != lowest[j] and is_beginning(cut[i], cut[j])]
        for i in rows
    }

    def last(i):
        if not longer[i]:
            return speaker[i]
        return last(min(longer[i], key=lambda j: (-len(cut[j].moves), speaker[j])))

    def cluster(i):
        found, new = set(), {i}
        while new:
            found |= new
            new = {j for j in rows for i in new if j in equal[i] + longer[i] or i in longer[j]} - found
        return found

    result = []
    for i in rows:
        together = cluster(i)
        if len(together) > 1:
            kind = "kept" if last(i) == i else "cut" if longer[i] else "same"
            result.append((i, together, kind, last(i)))
    return result

"""Feature planes as their cards define them, found by looking at a plain board: one function a feature.

A feature is a function of a Position and, for families, of the number in its name. It gives what its planes mark: a
list of sets of points (x, y), or of dicts from point to value.
"""

import math
import re
from dataclasses import dataclass

import numpy as np

import naive_ladder
from kifu.errors import DropReason
from kifu.point import BLACK, WHITE
from naive import FORBIDDEN, NaiveBoard


@dataclass
class Position:
    """The board before a move; what was played before (points or None); the boards before those moves and this one."""

    board: NaiveBoard
    mover: int
    played: list
    past: list
    ages: dict  # point -> ply at which a move put the stone there; no entry if it was set up
    dan: tuple  # of Black and White, 0 if unknown or kyu, 9 for professionals

    @property
    def ply(self):
        return len(self.played)

    def stones(self, colour):
        return {point for point, its in self.board.stones.items() if its == colour}

    @property
    def empty(self):
        return set(self.board.points()) - set(self.board.stones)

    def everywhere(self, condition):
        return set(self.board.points()) if condition else set()

    def legal(self):
        """Point -> (stones it takes, stones of its chain, liberties of its chain) of each move that is no suicide."""
        rules = NaiveBoard(self.board.width, self.board.height, "simple", FORBIDDEN)
        rules.stones, rules.ko_point, rules.ko_player = self.board.stones, self.board.ko_point, self.board.ko_player
        moves = {}
        for point in self.empty:
            if rules.why_not(point, self.mover) == DropReason.KEPT:
                after, taken, _ = rules.result(point, self.mover)
                chain, liberties = rules.chain(point, after)
                moves[point] = len(taken), len(chain), len(liberties)
        return moves


def positions(width, height, nodes, dan=(0, 0)):
    """The position before each move of a game. nodes: ("B" or "W", point or None), or (setup, points)."""
    board, played, past, ages = NaiveBoard(width, height), [], [], {}
    for name, what in nodes:
        if len(name) == 2:
            board.set_up(dict.fromkeys(what, {"AB": BLACK, "AW": WHITE, "AE": 0}[name]))
            for point in what:
                ages.pop(point, None)
            continue
        mover = BLACK if name == "B" else WHITE
        past.append(dict(board.stones))
        here = NaiveBoard(width, height)
        here.stones, here.ko_point, here.ko_player = dict(board.stones), board.ko_point, board.ko_player
        yield Position(here, mover, list(played), list(past), dict(ages), dan)
        ages = {point: ply for point, ply in ages.items() if point in board.stones}
        board.play(what, mover)
        if what is not None:
            ages[what] = len(played)
        played.append(what)


def binned(values, count, least=1):
    """`values`: point -> number, spread over `count` sets for `least`, `least` + 1, ... or more."""
    sets = [set() for _ in range(count)]
    for point, value in values.items():
        if value >= least:
            sets[min(value - least, count - 1)].add(point)
    return sets


def liberties(position, colours, k):
    found = {}
    for colour, stones, points in position.board.chains():
        if colour in colours:
            found |= dict.fromkeys(stones, len(points))
    return binned(found, k)


def moved(position, k):
    backwards = position.played[::-1][:k]
    return [{point} if point is not None else set() for point in backwards] + [set()] * (k - len(backwards))


def turns_since(position, k):
    age = {point: position.ply - ply for point, ply in position.ages.items()}
    return binned({point: age.get(point, k) for point in position.board.stones}, k)


def at(position, t, colour):
    stones = position.past[-1 - t] if t <= position.ply else {}
    return {point for point, its in stones.items() if its == colour}


def distances(position, colour):
    """Of each point to the nearest stone of a colour, along the lines, whatever stands there."""
    stones = position.stones(colour)
    return {
        (x, y): min((abs(x - i) + abs(y - j) for i, j in stones), default=math.inf) for x, y in position.board.points()
    }


def closest(position):
    mine, theirs = distances(position, position.mover), distances(position, 3 - position.mover)
    return [{p for p in mine if mine[p] < theirs[p]}, {p for p in mine if theirs[p] < mine[p]}]


def is_own_eye(position, point):
    board, (x, y) = position.board, point
    beside = board.beside(point)
    if any(board.stones.get(near) != position.mover for near in beside):
        return False
    bad = sum(board.stones.get((x + i, y + j)) == 3 - position.mover for i in (-1, 1) for j in (-1, 1))
    return bad <= (1 if len(beside) == 4 else 0)


def decay(position, colour):
    stones = position.stones(colour)
    return {point: math.exp(-0.1 * (position.ply - position.ages[point])) for point in stones & set(position.ages)}


def centre(position):
    width, height = position.board.width, position.board.height
    away = lambda x, y: (x - (width - 1) / 2) ** 2 + (y - (height - 1) / 2) ** 2  # noqa: E731
    return {(x, y): math.exp(-away(x, y) / 2) for x, y in position.board.points()}


def dan(position, colour):
    return [position.everywhere(position.dan[colour - 1] == k) for k in range(1, 10)]


FEATURES = {
    "own": lambda p: [p.stones(p.mover)],
    "opp": lambda p: [p.stones(3 - p.mover)],
    "black": lambda p: [p.stones(BLACK)],
    "white": lambda p: [p.stones(WHITE)],
    "empty": lambda p: [p.empty],
    "board": lambda p: [p.everywhere(True)],
    "zeros": lambda p: [set()],
    "border": lambda p: [{point for point in p.board.points() if len(p.board.beside(point)) < 4}],
    "ko": lambda p: [{p.board.ko_point} if p.board.ko_point and p.board.ko_player == p.mover else set()],
    "black_to_move": lambda p: [p.everywhere(p.mover == BLACK)],
    "white_to_move": lambda p: [p.everywhere(p.mover == WHITE)],
    "liberties": lambda p, k: liberties(p, (BLACK, WHITE), k),
    "own_liberties": lambda p, k: liberties(p, (p.mover,), k),
    "opp_liberties": lambda p, k: liberties(p, (3 - p.mover,), k),
    "black_liberties": lambda p, k: liberties(p, (BLACK,), k),
    "white_liberties": lambda p, k: liberties(p, (WHITE,), k),
    "last": moved,
    "turns_since": turns_since,
    "history": lambda p, k: [at(p, t, colour) for t in range(k) for colour in (p.mover, 3 - p.mover)],
    "repeated_history": lambda p, k: [
        at(p, min(t, p.ply), colour) for t in range(k) for colour in (p.mover, 3 - p.mover)
    ],
    "own_history": lambda p, k: [at(p, t, p.mover) for t in range(k)],
    "opp_history": lambda p, k: [at(p, t, 3 - p.mover) for t in range(k)],
    "legal": lambda p: [set(p.legal())],
    "capture_size": lambda p, k: binned({point: taken for point, (taken, _, _) in p.legal().items()}, k, 0),
    "liberties_after": lambda p, k: binned({point: left for point, (_, _, left) in p.legal().items()}, k),
    "self_atari_size": lambda p, k: binned(
        {point: size for point, (_, size, left) in p.legal().items() if left == 1}, k
    ),
    "sensibleness": lambda p: [{point for point in p.legal() if not is_own_eye(p, point)}],
    "ladder_capture": lambda p: [naive_ladder.ladders(p.board, p.mover)[0]],
    "ladder_escape": lambda p: [naive_ladder.ladders(p.board, p.mover)[1]],
    "closest": closest,
    "own_dan": lambda p: dan(p, p.mover),
    "opp_dan": lambda p: dan(p, 3 - p.mover),
    "signed_stones": lambda p: [{point: 1 if its == p.mover else -1 for point, its in p.board.stones.items()}],
    "own_decay": lambda p: [decay(p, p.mover)],
    "opp_decay": lambda p: [decay(p, 3 - p.mover)],
    "centre": lambda p: [centre(p)],
}

# Compositions of bits and of real values that have every feature, and families with numbers below, at and above the
# three liberties that the board keeps sets for.
BITS = (
    "own+opp+black+white+empty+board+zeros+border+ko+black_to_move+white_to_move+legal+sensibleness+ladder_capture+ladder_escape"
    "+closest+own_dan+opp_dan+liberties1+liberties2+liberties3+liberties8+own_liberties4+opp_liberties3"
    "+black_liberties2+white_liberties5+last1+last7+turns_since1+turns_since4+history8+repeated_history8"
    "+own_history3+opp_history2+capture_size1+capture_size3+liberties_after2+liberties_after6+self_atari_size3"
)
VALUES = "signed_stones+own+own_decay+turns_since3+opp_decay+centre+closest+ko"


def marks(name, position):
    stem, digits = re.fullmatch(r"(.*?)(\d*)", name).groups()
    return FEATURES[stem](position, *([int(digits)] if digits else []))


def planes(composition, position):
    """[C, H, W] float64."""
    drawn = []
    for name in composition.split("+"):
        for marked in marks(name, position):
            plane = np.zeros((position.board.height, position.board.width))
            for x, y in marked:
                plane[y, x] = marked[x, y] if isinstance(marked, dict) else 1
            drawn.append(plane)
    return np.array(drawn)

"""The kgsgo-dataset-preprocessor of 2015, from a record's bytes to the bytes of its examples: the slow twin of builds.

Written from what is known of the program's behaviour, with plain lists and dicts. sgfmill, which descends from the
library that the program read records with, reads them here.
"""

from typing import NamedTuple

from sgfmill import sgf

SIZE = 19


class RefusedError(Exception):
    """The program could not use the record."""


class Example(NamedTuple):
    ply: int  # how many moves, passes too, come before
    data: bytes


class Board:
    """Stones by (row, column), row 0 at the bottom. A suicide stays where it is, without liberties."""

    def __init__(self):
        self.stones = {}
        self.last = None
        self.captured = 0

    def beside(self, point):
        row, col = point
        around = [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]
        return [(r, c) for r, c in around if 0 <= r < SIZE and 0 <= c < SIZE]

    def string(self, point):
        """The stones connected with the one on `point`, and how many liberties they have."""
        found, fringe, liberties = {point}, [point], set()
        while fringe:
            for near in self.beside(fringe.pop()):
                if near not in self.stones:
                    liberties.add(near)
                elif self.stones[near] == self.stones[point] and near not in found:
                    found.add(near)
                    fringe.append(near)
        return found, len(liberties)

    def play(self, point, colour):
        if point in self.stones:
            raise RefusedError("occupied")
        self.stones[point] = colour
        self.last, self.captured = point, 0
        for near in self.beside(point):
            if self.stones.get(near, colour) != colour:
                found, liberties = self.string(near)
                if liberties == 0:
                    for stone in found:
                        del self.stones[stone]
                    self.captured += len(found)

    def liberties(self):
        known = {}
        for point in self.stones:
            if point not in known:
                found, liberties = self.string(point)
                known.update(dict.fromkeys(found, liberties))
        return known

    def ko_points(self, liberties, to_move):
        if self.captured != 1 or liberties[self.last] != 1 or len(self.string(self.last)[0]) != 1:
            return []
        marked = []
        for near in self.beside(self.last):
            in_atari = [p for p in self.beside(near) if self.stones.get(p, to_move) != to_move and liberties[p] == 1]
            if len(in_atari) == 1:
                marked.append(near)
        return marked


def planes_of(board, to_move, version):
    """Seven lists of 361, row by row from the bottom."""
    planes = [[0] * (SIZE * SIZE) for _ in range(7)]
    liberties = board.liberties()
    for (row, col), colour in board.stones.items():
        count = liberties[row, col]
        if count == 0:
            if version == 2:
                continue
            count = 3
        planes[min(count, 3) - 1 + (0 if colour == to_move else 3)][row * SIZE + col] = 1
    for row, col in board.ko_points(liberties, to_move):
        planes[6][row * SIZE + col] = 1
    return planes


def example_v1(planes, row, col):
    points = [sum(plane[i] << k for k, plane in enumerate(planes)) | 1 << 7 for i in range(SIZE * SIZE)]
    return b"GO" + bytes([row, col, *points])


def example_v2(planes, row, col):
    bits = [bit for plane in planes for bit in plane]
    bits += [0] * (-len(bits) % 8)
    packed = [int("".join(map(str, bits[i : i + 8])), 2) for i in range(0, len(bits), 8)]
    return b"GO" + (row * SIZE + col).to_bytes(4, "little") + bytes(packed)


def examples_of(record, version):
    """All examples of a record, in order. Raises RefusedError."""
    try:
        game = sgf.Sgf_game.from_bytes(record)
        if game.get_size() != SIZE:
            raise RefusedError("size")
        handicap = game.get_handicap()
        setup = game.get_root().get_setup_stones() if handicap else ()
        moves = [node.get_move() for node in game.get_main_sequence()]
    except (ValueError, LookupError) as error:
        raise RefusedError(str(error)) from None
    board, found = Board(), []
    for points in setup:
        for point in points:
            board.play(point, "b")
    started = bool(handicap)
    played = [(colour, point) for colour, point in moves if colour is not None]
    for ply, (colour, point) in enumerate(played):
        if point is None:
            continue
        if started:
            write = example_v1 if version == 1 else example_v2
            found.append(Example(ply, write(planes_of(board, colour, version), *point)))
        board.play(point, colour)
        started = True
    return found

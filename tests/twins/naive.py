"""The slow twin of the compiled board, to be checked by eye; a position is a dict from (x, y) to a colour."""

from kifu.errors import DropReason
from kifu.point import BLACK, WHITE

FORBIDDEN, REMOVED, LEFT = range(3)  # what becomes of a suicide


class NaiveBoard:
    """Plays by any ko rule. `suicide`: LEFT leaves a chain without liberties standing, as the 2015 program did."""

    def __init__(self, width, height, ko="simple", suicide=REMOVED):
        self.width, self.height, self.ko, self.suicide = width, height, ko, suicide
        self.stones = {}
        self.ko_point = None  # where `ko_player` may not play
        self.ko_player = None
        self.past = set()  # (position, player) whenever a player had to move
        self.taken = {BLACK: 0, WHITE: 0}

    def points(self):
        return [(x, y) for y in range(self.height) for x in range(self.width)]

    def beside(self, point):
        x, y = point
        around = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
        return [(x, y) for x, y in around if 0 <= x < self.width and 0 <= y < self.height]

    def chain(self, point, stones):
        """The chain of the stone on `point` and its liberties, two sets."""
        chain, liberties, fringe = {point}, set(), [point]
        while fringe:
            for near in self.beside(fringe.pop()):
                if near not in stones:
                    liberties.add(near)
                elif stones[near] == stones[point] and near not in chain:
                    chain.add(near)
                    fringe.append(near)
        return chain, liberties

    def result(self, point, colour):
        """The stones after a move, and the sets of enemy and of own stones that it takes off."""
        stones = {**self.stones, point: colour}
        captured, lost = set(), set()
        for near in self.beside(point):
            if stones.get(near, colour) != colour:
                chain, liberties = self.chain(near, stones)
                if not liberties:
                    captured |= chain
        stones = {p: c for p, c in stones.items() if p not in captured}
        chain, liberties = self.chain(point, stones)
        if not liberties:
            lost = chain
            if self.suicide != LEFT:
                stones = {p: c for p, c in stones.items() if p not in lost}
        return stones, captured, lost

    def situation(self, stones, player):
        return frozenset(stones.items()), player if self.ko == "situational" else None

    def why_not(self, point, colour):
        """Why that move is illegal, or Drop.KEPT. A pass (None) never is."""
        if point is None:
            return DropReason.KEPT
        if point in self.stones:
            return DropReason.OCCUPIED
        stones, _, lost = self.result(point, colour)
        if lost and (self.suicide == FORBIDDEN or (self.suicide == REMOVED and len(lost) == 1)):
            return DropReason.SUICIDE
        if self.ko != "none" and point == self.ko_point and colour == self.ko_player:
            return DropReason.KO
        if self.ko in ("positional", "situational") and self.situation(stones, 3 - colour) in self.past:
            return DropReason.SUPERKO
        return DropReason.KEPT

    def play(self, point, colour):
        self.past.add(self.situation(self.stones, colour))
        self.ko_point = None
        if point is None:
            return
        self.stones, captured, lost = self.result(point, colour)
        self.taken[colour] += len(captured)
        if lost and self.suicide != LEFT:
            self.taken[3 - colour] += len(lost)
        if len(captured) == 1:
            chain, liberties = self.chain(point, self.stones)
            if len(chain) == 1 and liberties == captured:
                (self.ko_point,) = captured
                self.ko_player = 3 - colour

    def set_up(self, changes):
        """Stones set up ({point: colour or 0}) are no move: nothing is captured, and what was before is forgotten."""
        self.stones = {p: c for p, c in {**self.stones, **changes}.items() if c}
        self.ko_point = None
        self.past = set()

    def chains(self):
        """Every chain with its liberties: [(colour, stones, liberties)]."""
        found, seen = [], set()
        for point, colour in self.stones.items():
            if point not in seen:
                chain, liberties = self.chain(point, self.stones)
                seen |= chain
                found.append((colour, chain, liberties))
        return found

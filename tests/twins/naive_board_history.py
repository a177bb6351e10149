"""A slow reference for `kifu.katago.history`: KataGo's rules as its web page describes them, without hashes.

A game is followed to its end or, with territory scoring, to the end of its normal phase.
"""

import math

from kifu.errors import DropReason
from kifu.point import BLACK, WHITE
from naive import FORBIDDEN, REMOVED, NaiveBoard


class NaiveBoardHistory:
    """A game. setup: {point: colour}.  rules: a KataRules.  handicap: HA, or None.  first: the first player."""

    def __init__(self, width, height, setup, rules, komi, handicap, first):
        self.board = NaiveBoard(width, height, "simple", REMOVED if rules.suicide else FORBIDDEN)
        self.board.set_up(setup)
        self.rules, self.komi = rules, komi
        black, white = (list(setup.values()).count(colour) for colour in (BLACK, WHITE))
        if handicap is None:
            handicap = black if black >= 2 and not white else 0
        self.bonus = {"0": 0, "n": handicap, "n-1": max(handicap - 1, 0)}[rules.handicap_bonus]
        if rules.scoring == "territory":
            self.bonus += black - white
        self.mover = first
        self.moves = []  # (point or None, colour)
        self.seen = [self.situation(self.board.stones, first)]  # situations that ko forbids to repeat
        self.passed = []  # (stones, player)
        self.passes_in_row = 0
        self.button = rules.button
        self.over = False

    def situation(self, stones, player):
        to_move = player if self.rules.ko in ("simple", "situational") else None
        return frozenset(stones.items()), to_move

    def is_superko(self, point, colour):
        if self.rules.ko == "simple":
            return False
        stones, _, _ = self.board.result(point, colour)
        return self.situation(stones, 3 - colour) in self.seen

    def why_not(self, point, colour):
        why = self.board.why_not(point, colour)
        if why == DropReason.KEPT and point is not None and self.is_superko(point, colour):
            return DropReason.SUPERKO
        return why

    def banned(self):
        """The points that simple ko or superko forbids the next player."""
        points = {self.board.ko_point} - {None}
        for point in self.board.points():
            if self.board.why_not(point, self.mover) == DropReason.KEPT and self.is_superko(point, self.mover):
                points.add(point)
        return points

    def pass_would_end(self, colour):
        if self.rules.ko in ("simple", "spight") and (frozenset(self.board.stones.items()), colour) in self.passed:
            return True
        return self.rules.ko != "spight" and self.passes_in_row == 1

    def play(self, point, colour):
        if point is None:
            self.play_pass(colour)
        else:
            self.passes_in_row = 0
            if self.rules.scoring == "territory":
                self.bonus += 1 if colour == BLACK else -1
        self.board.play(point, colour)
        self.moves.append((point, colour))
        self.mover = 3 - colour
        self.seen.append(self.situation(self.board.stones, self.mover))
        if point is not None and self.rules.ko == "simple" and self.seen.count(self.seen[-1]) == 3:
            self.over = True

    def play_pass(self, colour):
        if self.button:
            self.button = False
            self.bonus += 0.5 if colour == WHITE else -0.5
            self.seen, self.passed = [], []
            return
        self.over = self.pass_would_end(colour)
        self.passes_in_row += 1
        self.passed.append((frozenset(self.board.stones.items()), colour))
        if self.rules.ko in ("simple", "spight"):
            self.seen = []

    def last_moves(self, colour):
        """The last moves, newest first, as long as the players alternated; at most five."""
        moves = []
        for point, player in reversed(self.moves[-5:]):
            if player == colour:
                break
            moves.append(point)
            colour = 3 - colour
        return moves

    def inputs(self, colour):
        rules, board = self.rules, self.board
        inputs = [0.0] * 19
        for k, point in enumerate(self.last_moves(colour)):
            inputs[k] = float(point is None)
        points = board.width * board.height
        komi = self.komi + self.bonus
        komi = max(-points - 20, min(points + 20, komi if colour == WHITE else -komi))
        inputs[5] = komi / 20
        inputs[6] = float(rules.ko != "simple")
        inputs[7] = {"simple": 0.0, "situational": -0.5}.get(rules.ko, 0.5)
        inputs[8] = float(rules.suicide)
        inputs[9] = float(rules.scoring == "territory")
        inputs[10] = float(rules.tax != "none")
        inputs[11] = float(rules.tax == "all")
        inputs[14] = float(self.pass_would_end(colour))
        inputs[17] = float(self.button)
        if rules.scoring == "area":
            # A triangle wave of height 0.5 that rises through 0 where a draw is possible
            inputs[18] = math.asin(math.sin(math.pi * (komi - points % 2))) / math.pi
        return inputs

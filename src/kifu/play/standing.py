"""What the games of a match say about two players: the share of points, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z95 = 1.959963984540054
"""Of a normal distribution 95 % lie within so many standard deviations."""


def wilson(points: float, games: int, z: float = Z95) -> tuple[float, float]:
    """The interval, by E. B. Wilson (1927), of the chance of a success that came `points` times in `games`.

    A draw is half a point; the interval is then a little too wide. (0, 1) of no games.

    >>> [round(bound, 4) for bound in wilson(10, 20)]
    [0.2993, 0.7007]
    """
    if games == 0:
        return 0.0, 1.0
    share = points / games
    middle = share + z * z / (2 * games)
    spread = z * math.sqrt(share * (1 - share) / games + z * z / (4 * games * games))
    lower, upper = ((middle + sign * spread) / (1 + z * z / games) for sign in (-1, 1))
    # Of 0 and of all games the one bound is the share itself, but for rounding.
    return (0.0 if points == 0 else lower), (1.0 if points == games else upper)


def elo(share: float) -> float:
    """The difference of Elo ratings at which such a share of points is expected; infinite for 0 and 1.

    >>> round(elo(0.75))
    191
    """
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return 400 * math.log10(share / (1 - share))


@dataclass(frozen=True)
class MatchScore:
    """Games between A and B, as A sees them. none: games without a winner that are no draw; they do not count."""

    won: int = 0
    lost: int = 0
    drawn: int = 0
    none: int = 0

    @property
    def counted(self) -> int:
        return self.won + self.lost + self.drawn

    @property
    def share(self) -> float | None:
        """Of the points; None if no game counts."""
        return (self.won + self.drawn / 2) / self.counted if self.counted else None

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, 95 %."""
        return wilson(self.won + self.drawn / 2, self.counted)

    def __str__(self) -> str:
        """One line: the share with its interval, and the same as Elo."""
        if self.share is None:
            return "no game that counts"
        low, high = self.interval
        differences = [_signed(elo(share)) for share in (self.share, low, high)]
        return (
            f"{self.share:.1%} of the points, 95% interval {low:.1%} to {high:.1%}; "
            f"Elo difference {differences[0]}, interval {differences[1]} to {differences[2]}"
        )

    def to_json(self) -> dict[str, object]:
        """The same as JSON values; an infinite Elo difference is null, as is the share of no games."""
        low, high = self.interval
        bounds = [None if self.share is None else self.share, low, high]
        elos = [None if share is None or math.isinf(elo(share)) else round(elo(share), 1) for share in bounds]
        return {
            "won": self.won, "lost": self.lost, "drawn": self.drawn, "none": self.none, "share": self.share,
            "interval": [low, high], "elo": elos[0], "elo_interval": elos[1:],
        }  # fmt: skip


def _signed(number: float) -> str:
    if math.isinf(number):
        return "infinite" if number > 0 else "minus infinite"
    return f"{number:+.0f}"

"""What an estimate says, and how it is said."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kifu.progress import format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class Range:
    """A number that is foreseen, and between which two it should lie 19 times out of 20."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, error: float) -> Range:
        """error: the standard error, as a share of the value."""
        return cls(value, value * max(1 - 2 * error, 0.0), value * (1 + 2 * error))

    def __str__(self) -> str:
        """A whole number; of three digits, where it is not known."""
        if self.low == self.high:
            return f"{self.value:,.0f}"
        return f"about {_rounded(self.value)} ({_rounded(self.low)} to {_rounded(self.high)})"


def _rounded(value: float) -> str:
    return f"{round(value, min(3 - len(f'{value:.0f}'), 0)):,.0f}"


@dataclass(frozen=True, slots=True)
class EstimateStep:
    """One part of a run.

    seconds: without what it takes to begin. memory: its peak, in bytes. disk: bytes that stay. meanwhile: bytes that
    are needed beside these until the step is done.
    """

    name: str
    seconds: Range
    memory: int
    disk: Range
    meanwhile: int


@dataclass(frozen=True, slots=True)
class SetSize:
    """One data set. bytes: on disk."""

    name: str
    examples: Range
    bytes: Range


@dataclass(frozen=True, slots=True)
class Estimate:
    """What `kifu.estimate.estimate.estimate` foresees."""

    sources: int
    bytes: int
    """Of the sources."""
    jobs: int
    cores: int
    """Of this machine. More threads than that are reckoned from what these do, in proportion."""
    games: Range
    kept: Range
    """Of them, by the rules of cleaning; but for copies of other games, which a sample cannot show."""
    positions: Range
    """Moves of the kept games, passes too."""
    steps: tuple[EstimateStep, ...]
    sets: tuple[SetSize, ...]
    begin: float
    """Seconds until the kernels were ready: loaded, or compiled if they had not been before. `kifu plan` adds those in
    which the command was loaded."""
    looked_at: int
    """Games of the sample."""
    seconds: float
    """What the estimate took."""

    def to_json(self) -> str:
        """The same as one JSON object."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def __str__(self) -> str:
        """What there is to say on a terminal, some lines."""
        lines = [
            f"{self.sources:,} source{'s' * (self.sources != 1)}, {format_bytes(self.bytes)}: {self.games} games",
            f"kept: {self.kept} games, {self.positions} positions",
        ]
        for step in self.steps:
            times = [format_seconds(step.seconds.low), format_seconds(step.seconds.high)]
            lines.append(
                f"{step.name}, jobs {self.jobs}: {' to '.join(times)}, {format_bytes(step.memory)} of memory, "
                f"{format_bytes(round(step.disk.value))} on disk"
                + (f" and {format_bytes(step.meanwhile)} until it is done" if step.meanwhile else "")
            )
        lines += [f"  {s.name}: {s.examples} examples, {format_bytes(round(s.bytes.value))}" for s in self.sets]
        lines.append(
            f"told from {self.looked_at:,} games in {format_seconds(self.seconds)}; "
            f"before it begins, a run takes {format_seconds(self.begin)}"
        )
        return "\n".join(lines)

"""Match results: the file match.json, its summary, and the score with confidence interval and Elo difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from kifu.config import StrictModel, read_model
from kifu.errors import FormatError, RecipeError, join_lines
from kifu.play.referee import Ending, ScoredBy
from kifu.text import Report, counted, wilson

RESULTS = "match.json"

_MAX_RESULTS_BYTES = 64 << 20

PlayerLabel = Literal["A", "B"]


class ProgramInfo(StrictModel):
    """A program in match.json: its command line, and the name and version it reports."""

    command: str
    name: str
    version: str


class PlayedGame(StrictModel):
    """A game in match.json."""

    game: Annotated[int, Field(ge=1)]
    file: str
    opening: str
    """Moves in GTP notation, separated by spaces."""
    black: PlayerLabel
    white: PlayerLabel
    result: str
    """Result in SGF notation (RE)."""
    winner: PlayerLabel | None
    ending: Ending
    reason: str
    scored_by: ScoredBy | None
    moves: Annotated[int, Field(ge=0)]
    """Number of moves, including passes and the opening."""
    seconds: Annotated[float, Field(ge=0)]
    """Duration of the game."""
    seconds_a: Annotated[float, Field(ge=0)]
    """Thinking time of A."""
    seconds_b: Annotated[float, Field(ge=0)]
    """Thinking time of B."""

    @property
    def at_fault(self) -> PlayerLabel | None:
        """The player who lost by anything but score or resignation."""
        if self.winner is None or self.ending in ("score", "resign"):
            return None
        return "B" if self.winner == "A" else "A"

    def __str__(self) -> str:
        colour = {self.black: "Black", self.white: "White"}
        outcome = f"{self.winner} wins as {colour[self.winner]}" if self.winner else "no winner"
        return f"{outcome} ({self.result}, {counted(self.moves, 'move')}): {self.reason}"


class Settings(StrictModel):
    """Settings that must stay the same when a match is resumed."""

    size: int
    komi: float
    rules: str
    openings: str
    """"corners", or the path of a catalogue."""
    opening_moves: int | None
    """Length of a catalogue's openings."""
    seed: int
    move_seconds: float
    scorer: str | None


class Results(StrictModel):
    """The content of match.json. `standing` is derived from the games, so it is written but not read."""

    version: Literal[1] = 1
    a: ProgramInfo
    b: ProgramInfo
    settings: Settings
    standing: dict[str, Any] = Field(default_factory=dict)
    games: list[PlayedGame] = Field(default_factory=list)


@dataclass(frozen=True)
class MatchScore:
    """Games between A and B from A's side. `none` counts games without a result, which do not enter the score."""

    won: int = 0
    lost: int = 0
    drawn: int = 0
    none: int = 0

    @property
    def counted(self) -> int:
        """Number of games with a result."""
        return self.won + self.lost + self.drawn

    @property
    def share(self) -> float | None:
        """A's share of the points, or None without games."""
        return (self.won + self.drawn / 2) / self.counted if self.counted else None

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the share."""
        return wilson(self.won + self.drawn / 2, self.counted)

    def __str__(self) -> str:
        """Return one line: the share and the Elo difference, each with its interval."""
        if self.share is None:
            return "no games with a result"
        low, high = self.interval
        differences = [_signed(elo(share)) for share in (self.share, low, high)]
        return (
            f"{self.share:.1%} of the points, 95% interval {low:.1%} to {high:.1%}; "
            f"Elo difference {differences[0]}, interval {differences[1]} to {differences[2]}"
        )

    def to_json(self) -> dict[str, object]:
        """Return the score as JSON values; an infinite Elo difference or an undefined share is null."""
        low, high = self.interval
        bounds = [self.share, low, high]
        elos = [None if share is None or math.isinf(elo(share)) else round(elo(share), 1) for share in bounds]
        return {
            "won": self.won, "lost": self.lost, "drawn": self.drawn, "none": self.none, "share": self.share,
            "interval": [low, high], "elo": elos[0], "elo_interval": elos[1:],
        }  # fmt: skip


def elo(share: float) -> float:
    """Return the Elo difference that predicts this share of the points; infinite for 0 and 1.

    Examples:
        >>> round(elo(0.75))
        191
    """
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return 400 * math.log10(share / (1 - share))


def _signed(number: float) -> str:
    if math.isinf(number):
        return "infinite" if number > 0 else "minus infinite"
    return f"{number:+.0f}"


@dataclass(frozen=True)
class Match(Report):
    """A match so far; `str()` is its summary. `fresh` is the number of games played by this run."""

    results: Results
    fresh: int

    @property
    def games(self) -> Sequence[PlayedGame]:
        """All games of the match."""
        return self.results.games

    def content(self) -> dict[str, Any]:
        """Return the content of match.json, with the scores so far."""
        scores: dict[str, PlayerLabel | None] = {"all": None, "a_black": "A", "a_white": "B"}
        standing = {name: score_games(self.games, black).to_json() for name, black in scores.items()}
        return self.results.model_dump() | {"standing": standing}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of match.json and the number of fresh games as JSON values."""
        return self.content() | {"fresh": self.fresh}

    def score(self, black: PlayerLabel | None = None) -> MatchScore:
        """Return A's score in all games, or in those where `black` has Black."""
        return score_games(self.games, black)

    def __str__(self) -> str:
        r = self.results
        lines = [f"{label} = {each.command} ({each.name} {each.version})" for label, each in (("A", r.a), ("B", r.b))]
        s = r.settings
        lines += [f"{counted(len(self.games), 'game')} on {s.size} x {s.size}, komi {s.komi:g}, {s.rules} rules", ""]
        for label, score in (
            ("A in all", self.score()),
            ("A as Black", self.score("A")),
            ("A as White", self.score("B")),
        ):
            none = f", {score.none} without a winner" if score.none else ""
            lines.append(f"{label:<10} won {score.won:,}, lost {score.lost:,}, drew {score.drawn:,}{none}")
        lines += ["", f"A: {self.score()}", ""]
        endings = Counter(game.ending for game in self.games)
        lines.append("ended by " + ", ".join(f"{_ENDINGS[ending]} {n:,}" for ending, n in endings.most_common()))
        scored = Counter(game.scored_by for game in self.games if game.scored_by not in (None, "scorer"))
        lines += [f"scored by {SCORERS[by]}: {counted(n, 'game')}" for by, n in sorted(scored.items())]
        faults = [game for game in self.games if game.at_fault]
        lines += [f"game {game.game}: {game.at_fault} as {game.reason}" for game in faults]
        if not faults:
            lines.append("no illegal move, no crash, no time-out")
        return join_lines(lines)


_ENDINGS: dict[Ending, str] = {
    "score": "score", "resign": "resignation", "illegal": "illegal move", "crash": "crash", "time": "time-out",
    "nonsense": "malformed GTP response", "refusal": "refused command", "unfinished": "too many moves",
}  # fmt: skip

SCORERS = {"players": "the players, who agreed", "board": "area on the board, no stone dead"}


def score_games(games: Sequence[PlayedGame], black: PlayerLabel | None) -> MatchScore:
    """Return A's score in all games, or in those where `black` has Black."""
    chosen = [game for game in games if black in (None, game.black)]
    won, lost = (sum(game.winner == label for game in chosen) for label in "AB")
    drawn = sum(game.result == "0" for game in chosen)
    return MatchScore(won, lost, drawn, len(chosen) - won - lost - drawn)


def resume_results(output_dir: Path, current: Results) -> Results:
    """Return the results stored in a directory, or `current` if there are none.

    Raises SourceError if match.json cannot be read; FormatError if match.json is invalid; RecipeError if match.json
    belongs to a match with other settings.
    """
    path = output_dir / RESULTS
    if not path.exists():
        return current
    stored = read_model(Results, path, "a match", _MAX_RESULTS_BYTES)
    now, then = ({"A": r.a.model_dump(), "B": r.b.model_dump(), **r.settings.model_dump()} for r in (current, stored))
    for name in now:
        if now[name] != then[name]:
            raise RecipeError(f"{path} is another match: {name} was {then[name]!r}, now {now[name]!r}")
    if len({game.game for game in stored.games}) < len(stored.games):
        raise FormatError(f"{path} does not hold a match: a game is listed twice")
    return stored

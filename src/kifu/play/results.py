"""What a match has come to: match.json, and the summary of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from kifu.config import STRICT
from kifu.errors import FormatError, RecipeError
from kifu.play.referee import Ending, ScoredBy
from kifu.play.standing import MatchScore

RESULTS = "match.json"

_RESULTS_LIMIT = 64 << 20

Player = Literal["A", "B"]


class MatchPrograms(BaseModel):
    """A player, as match.json has it. command: as given; name, version: what it says of itself."""

    model_config = STRICT

    command: str
    name: str
    version: str


class PlayedGame(BaseModel):
    """A game of a match, as match.json has it."""

    model_config = STRICT

    game: Annotated[int, Field(ge=1)]
    file: str
    opening: str
    """Its moves, in GTP's words."""
    black: Player
    white: Player
    result: str
    """As SGF's RE has it."""
    winner: Player | None
    ending: Ending
    reason: str
    scored_by: ScoredBy | None
    moves: Annotated[int, Field(ge=0)]
    """Passes and those of the opening among them."""
    seconds: Annotated[float, Field(ge=0)]
    seconds_a: Annotated[float, Field(ge=0)]
    seconds_b: Annotated[float, Field(ge=0)]
    """Of these seconds what A and B took for their moves."""

    @property
    def at_fault(self) -> Player | None:
        """Who did what no program should: anything that loses the game but giving up."""
        if self.winner is None or self.ending in ("score", "resign"):
            return None
        return "B" if self.winner == "A" else "A"

    def __str__(self) -> str:
        """One line, for people."""
        colour = {self.black: "Black", self.white: "White"}
        won = f"{self.winner} wins as {colour[self.winner]}" if self.winner else "nobody wins"
        return f"{won} ({self.result}, {count(self.moves, 'move')}): {self.reason}"


class Settings(BaseModel):
    """What may not change while a match goes on."""

    model_config = STRICT

    size: int
    komi: float
    rules: str
    openings: str
    """"corners", or the path of a catalogue."""
    opening_moves: int | None
    """Of a catalogue's openings."""
    seed: int
    move_seconds: float
    scorer: str | None


class Results(BaseModel):
    """match.json. It also has `standing`, which follows from the games and so is not read."""

    model_config = STRICT

    version: Literal[1] = 1
    a: MatchPrograms
    b: MatchPrograms
    settings: Settings
    standing: dict[str, Any] = Field(default_factory=dict)
    games: list[PlayedGame] = Field(default_factory=list)


@dataclass(frozen=True)
class Match:
    """A match as far as it was played. Printed, it is the summary."""

    results: Results
    fresh: int
    """How many of its games were played just now."""

    @property
    def games(self) -> Sequence[PlayedGame]:
        return self.results.games

    def standing(self, black: Player | None = None) -> MatchScore:
        """Of all games, or of those where this player has Black."""
        return match_score_of(self.games, black)

    def __str__(self) -> str:
        r = self.results
        lines = [f"{letter} = {each.command} ({each.name} {each.version})" for letter, each in (("A", r.a), ("B", r.b))]
        s = r.settings
        lines += [f"{count(len(self.games), 'game')} on {s.size} x {s.size}, komi {s.komi:g}, {s.rules} rules", ""]
        for label, got in (
            ("A in all", self.standing()),
            ("A as Black", self.standing("A")),
            ("A as White", self.standing("B")),
        ):
            none = f", {got.none} without a winner" if got.none else ""
            lines.append(f"{label:<10} won {got.won:,}, lost {got.lost:,}, drew {got.drawn:,}{none}")
        lines += ["", f"A: {self.standing()}", ""]
        endings = Counter(game.ending for game in self.games)
        lines.append("ended by " + ", ".join(f"{_ENDINGS[ending]} {n:,}" for ending, n in endings.most_common()))
        counted = Counter(game.scored_by for game in self.games if game.scored_by not in (None, "scorer"))
        lines += [f"counted by {COUNTED[by]}: {count(n, 'game')}" for by, n in sorted(counted.items())]
        faults = [game for game in self.games if game.at_fault]
        lines += [f"game {game.game}: {game.at_fault} as {game.reason}" for game in faults]
        if not faults:
            lines.append("no illegal move, no crash, no time-out")
        return "\n".join(lines)


_ENDINGS: dict[Ending, str] = {
    "score": "score",
    "resign": "resignation",
    "illegal": "illegal move",
    "crash": "crash",
    "time": "time-out",
    "nonsense": "answer that is no GTP",
    "refusal": "refusal of a command",
    "unfinished": "too many moves",
}

COUNTED = {"players": "the players, who agreed", "board": "area on the board, no stone dead"}


def match_score_of(games: Sequence[PlayedGame], black: Player | None) -> MatchScore:
    """Of all games, or of those where this player has Black."""
    taken = [game for game in games if black in (None, game.black)]
    won, lost = (sum(game.winner == letter for game in taken) for letter in "AB")
    drawn = sum(game.result == "0" for game in taken)
    return MatchScore(won, lost, drawn, len(taken) - won - lost - drawn)


def resumed(into: Path, now: Results) -> Results:
    """What the folder's match.json says. Raises FormatError if it is none, RecipeError if it is of another match."""
    path = into / RESULTS
    try:
        with path.open("rb") as file:
            data = file.read(_RESULTS_LIMIT + 1)
    except FileNotFoundError:
        return now
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None
    try:
        if len(data) > _RESULTS_LIMIT:
            raise ValueError(f"more than {_RESULTS_LIMIT:,} bytes")
        found = Results.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FormatError(
            f"{path} is no match: {where + ': ' if where else ''}{first['msg'].splitlines()[0]}"
        ) from None
    except ValueError as error:
        raise FormatError(f"{path} is no match: {error}") from None
    mine, its = ({"A": r.a.model_dump(), "B": r.b.model_dump(), **r.settings.model_dump()} for r in (now, found))
    for name in mine:
        if mine[name] != its[name]:
            raise RecipeError(f"{path} is of another match: {name} is {its[name]!r} there, and now {mine[name]!r}")
    if len({game.game for game in found.games}) < len(found.games):
        raise FormatError(f"{path} is no match: it has a game twice")
    return found


def count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"

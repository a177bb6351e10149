"""The recipe of KataGo's training files: which games are used, and how their rows are written."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from kifu.config import Line, parse_board
from kifu.datasets.npz import Compression
from kifu.katago.encoder import MAX_SIZE, MIN_SIZE
from kifu.katago.metadata import Source
from kifu.katago.npz import MAX_ROWS_PER_FILE, ROWS_PER_FILE
from kifu.katago.rules import KataRules
from kifu.recipes.schema import SplitRecipe

Moves = Annotated[int, Field(ge=0, le=10_000)]
Weight = Annotated[float, Field(ge=0, le=1)]


class KatagoRecipe(SplitRecipe):
    """A recipe of KataGo's training files. Its defaults select games as KataGo's `writetrainingdata` does."""

    kind: Literal["katago"]

    boards: Annotated[tuple[Line, ...] | None, Field(strict=False, min_length=1)] = None
    """Board sizes such as "19x19"; other games are dropped. Default: all sizes from 2x2 to 19x19."""
    default_rules: Line | None = None
    """The rules of games without RU, such as "japanese". Default: these games are dropped."""
    default_komi: Annotated[float, Field(ge=-150, le=150)] | None = None
    """The komi of games without KM. Default: these games are dropped."""
    handicap: bool = True
    """Drop games with an HA that is not a number, or more than half the side of the board."""
    handicap_moves: Literal["drop", "begin"] = "drop"
    """Games that begin with several moves of Black are dropped, or begin with the last of them."""
    min_moves: Moves | Literal["katago"] = "katago"
    """Minimum number of moves from the first row on, without trailing passes. KataGo: 15 + points / 8."""
    max_moves: Moves | Literal["katago"] = "katago"
    """Maximum number of moves. KataGo: 40 + 1.5 x points."""
    early_passes: bool = True
    """Drop games with a pass soon after the opening (19x19: moves 31 to 50), and begin games with a pass in the opening
    after the answer to it."""
    alternating: bool = True
    """Drop games in which a player moves twice in a row later."""
    illegal: Literal["drop", "cut"] = "drop"
    """Games with a move that their rules forbid, or setup after the root, are dropped, or end there."""
    results: Literal["any", "understood", "known"] = "understood"
    """understood: drop games whose RE cannot be parsed, or has a score larger than the board. known: also drop games
    without RE."""
    trust: dict[Literal["score", "resign", "time", "forfeit"], Weight] = Field(
        default={"score": 1.0, "resign": 1.0, "time": 0.5}
    )
    """Weight of the result in the network's loss, by the ending of the game; 0 for missing keys."""
    metadata: Source | None = None
    """For human-style networks: the server or collection of the games. Default: no metadataInputNC."""
    compression: Compression = "deflate"
    """deflate: as KataGo; fast: files 2.5 times as large in half the time; stored: none."""
    rows_per_file: Annotated[int, Field(ge=1, le=MAX_ROWS_PER_FILE)] = ROWS_PER_FILE
    """Rows in a training file."""

    @field_validator("boards")
    @classmethod
    def _boards_in_range(cls, boards: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for board in boards or ():
            width, height = parse_board(board)
            if not (MIN_SIZE <= width <= MAX_SIZE and MIN_SIZE <= height <= MAX_SIZE):
                raise ValueError(f"boards must be from {MIN_SIZE}x{MIN_SIZE} to {MAX_SIZE}x{MAX_SIZE}, got {board}")
        return boards

    @field_validator("default_rules")
    @classmethod
    def _rules_are_known(cls, rules: str | None) -> str | None:
        if rules is not None:
            KataRules.parse(rules)
        return rules

    @field_validator("default_komi")
    @classmethod
    def _komi_in_half_points(cls, komi: float | None) -> float | None:
        if komi is not None and komi % 0.5:
            raise ValueError(f"default_komi must be a multiple of 0.5, got {komi:g}")
        return komi

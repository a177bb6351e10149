"""A recipe of KataGo's training files: which games are taken, and what their rows say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from kifu.config import Line, parse_board
from kifu.datasets.npz import Compression
from kifu.errors import KifuError
from kifu.katago.encoder import LEAST, MOST
from kifu.katago.metadata import Source
from kifu.katago.npz import MOST_ROWS_PER_FILE, ROWS_PER_FILE
from kifu.katago.rules import KataRules
from kifu.recipes.schema import SplitRecipe

Moves = Annotated[int, Field(ge=0, le=10_000)]
Weight = Annotated[float, Field(ge=0, le=1)]


class KatagoRecipe(SplitRecipe):
    """KataGo's training files. What says "katago" or is true by default is as its `writetrainingdata` has it."""

    kind: Literal["katago"]

    boards: Annotated[tuple[Line, ...] | None, Field(strict=False, min_length=1)] = None
    """Like "19x19"; games on others are set aside. Left out: all from 2x2 to 19x19."""
    default_rules: Line | None = None
    """The rules of games whose record names none (RU), like "japanese"; left out: these games are set aside."""
    default_komi: Annotated[float, Field(ge=-150, le=150)] | None = None
    """The komi of games whose record tells none (KM); left out: these games are set aside."""
    handicap: bool = True
    """Whether HA has to be a number, if it is there, of at most half the side of the board."""
    handicap_moves: Literal["drop", "begin"] = "drop"
    """Of a game that begins with several moves of Black's: it is set aside, or begins with the last of them."""
    min_moves: Moves | Literal["katago"] = "katago"
    """Moves from the first that has a row, without trailing passes; KataGo's: 15 and an eighth of the points."""
    max_moves: Moves | Literal["katago"] = "katago"
    """KataGo's: 40 and one and a half times the board's points."""
    early_passes: bool = True
    """Whether a game with a pass soon after the opening (19x19: moves 31 to 50) is set aside, and one with a pass in
    the opening begins after the answer to it."""
    alternating: bool = True
    """Whether a game in which somebody moves twice in a row later is set aside."""
    illegal: Literal["drop", "cut"] = "drop"
    """A game with a move that its rules forbid, or with setup after the root, is set aside, or ends there."""
    results: Literal["any", "understood", "known"] = "understood"
    """understood: a game whose result (RE) is none, or a score that its board has no room for, is set aside, while one
    without RE stays. known: the latter is, too."""
    trust: dict[Literal["score", "resign", "time", "forfeit"], Weight] = Field(
        default={"score": 1.0, "resign": 1.0, "time": 0.5}
    )
    """How much the result weighs in a net's loss, by how the game ended; 0 for what is left out."""
    metadata: Source | None = None
    """For human-style nets: the server or collection that the games are from; left out: no metadataInputNC."""
    compression: Compression = "deflate"
    """deflate, as KataGo has it; fast: files of 2.5 times the size in half the time; stored."""
    rows_per_file: Annotated[int, Field(ge=1, le=MOST_ROWS_PER_FILE)] = ROWS_PER_FILE

    @field_validator("boards")
    @classmethod
    def _known_boards(cls, boards: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for board in boards or ():
            try:
                width, height = parse_board(board)
            except KifuError as error:
                raise ValueError(str(error)) from None
            if not (LEAST <= width <= MOST and LEAST <= height <= MOST):
                raise ValueError(f"{board} is not within {LEAST}x{LEAST} to {MOST}x{MOST}")
        return boards

    @field_validator("default_rules")
    @classmethod
    def _known_rules(cls, rules: str | None) -> str | None:
        try:
            if rules is not None:
                KataRules.parse(rules)
        except KifuError as error:
            raise ValueError(str(error)) from None
        return rules

    @field_validator("default_komi")
    @classmethod
    def _half_points(cls, komi: float | None) -> float | None:
        if komi is not None and komi % 0.5:
            raise ValueError(f"{komi:g} is no multiple of a half")
        return komi

"""The report of an audit: games and positions that data sets share, as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kifu.config import StrictModel, read_model
from kifu.errors import join_lines
from kifu.text import json_text

BANDS = (0, 10, 20, 30, 50, 100)
"""The lower bounds of the bands of stones on the board by which positions are counted."""

LATE = BANDS.index(50)
"""The first band of late positions. Unrelated games share early positions, so only late ones count as leaks."""

_STONES = (*((lowest, after - 1) for lowest, after in pairwise(BANDS)), (BANDS[-1], None))
_LISTED = 10
_NO_LEAKS = "no game in two sets"


@dataclass(frozen=True, slots=True)
class GameLocation:
    """The location of a game: entry of an archive, game of that entry (both from 0), and its first row in the set."""

    archive: str
    entry: int
    index: int
    row: int

    def __str__(self) -> str:
        game = f", game {self.index + 1}" if self.index else ""
        return f"{self.archive}, entry {self.entry + 1}{game} (row {self.row})"


@dataclass(frozen=True, slots=True)
class AuditedSet:
    """An audited set. games: None if the file does not record its games."""

    path: str
    kind: str
    games: int | None
    positions: int


@dataclass(frozen=True, slots=True)
class SharedGame:
    """A game that two sets share.

    Attributes:
        first: The game in the first set; None if that set does not record its games.
        positions: The number of shared late positions, counted in the set that has more of them.
        cluster: Whether the games are linked, directly or through other games, see `kifu.corpus.links`.
        record: Whether both were taken from the same entry of the same archive.
    """

    first: GameLocation | None
    second: GameLocation | None
    positions: int
    cluster: bool
    record: bool

    def __str__(self) -> str:
        reasons = [
            *(["the same record"] if self.record else []),
            *(["the same game, its beginning, or nearly the same"] if self.cluster else []),
            *([f"{self.positions:,} late positions"] if self.positions else []),
        ]
        return f"{self.first or 'unknown'} = {self.second or 'unknown'}: {', '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The positions and games that two sets share.

    Attributes:
        distinct: By band of stones (`BANDS`), the distinct positions in both sets.
        first_rows: By band, the positions of the first set that occur in the second.
        second_rows: By band, the positions of the second set that occur in the first.
        first_games: The games of the first set that are in the second.
        second_games: The games of the second set that are in the first.
    """

    first: str
    second: str
    distinct: tuple[int, ...]
    first_rows: tuple[int, ...]
    second_rows: tuple[int, ...]
    first_games: int
    second_games: int
    games: tuple[SharedGame, ...]

    @property
    def leaks(self) -> bool:
        """True if the sets share a game or a late position."""
        return bool(self.games) or sum(self.distinct[LATE:]) > 0


class Audit(StrictModel):
    """The result of `audit`; docs/audit.md describes its JSON.

    Attributes:
        stones: The least and the largest number of stones of each band, None without a limit.
    """

    leaks: bool
    stones: tuple[tuple[int, int | None], ...] = _STONES
    sets: tuple[AuditedSet, ...]
    pairs: tuple[Pair, ...]

    def __repr__(self) -> str:
        leaks = sum(pair.leaks for pair in self.pairs)
        return f"<Audit of {len(self.sets)} sets: {f'{leaks} of {len(self.pairs)} pairs leak' if leaks else _NO_LEAKS}>"

    def __str__(self) -> str:
        lines = []
        for each in self.sets:
            games = "games unknown" if each.games is None else f"{each.games:,} games"
            lines.append(f"{each.path}: {each.kind}, {games}, {each.positions:,} positions")
        for pair in self.pairs:
            lines += ["", *_pair_lines(pair)]
        if len(self.pairs) > 1:
            leaks = sum(pair.leaks for pair in self.pairs)
            lines += ["", f"{leaks} of {len(self.pairs)} pairs of sets have games in common" if leaks else _NO_LEAKS]
        return join_lines(lines)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json_text(self.model_dump(mode="json"))


def _pair_lines(pair: Pair) -> list[str]:
    heads = [f"{lowest}-{after - 1}" for lowest, after in pairwise(BANDS)] + [f"{BANDS[-1]}+", "all"]
    rows = {
        "stones on the board": heads,
        "positions in both": _counts(pair.distinct),
        "rows of the first": _counts(pair.first_rows),
        "rows of the second": _counts(pair.second_rows),
    }
    lines = [f"{pair.first} and {pair.second}"]
    lines += [f"  {name:<20}" + "".join(f"{cell:>11}" for cell in cells) for name, cells in rows.items()]
    if not pair.leaks:
        return [*lines, f"  {_NO_LEAKS}"]
    lines.append(f"  games in both: {pair.first_games:,} of the first, {pair.second_games:,} of the second")
    lines += [f"    {game}" for game in pair.games[:_LISTED]]
    if len(pair.games) > _LISTED:
        lines.append(f"    and {len(pair.games) - _LISTED:,} more pairs of games")
    if not pair.games:
        lines.append("    unknown, since neither file records its games; late positions are in both")
    return lines


def _counts(bands: Sequence[int]) -> list[str]:
    return [f"{n:,}" for n in (*bands, sum(bands))]


def read_audit(path: str | os.PathLike[str]) -> Audit:
    """Read a file that `kifu audit --json` wrote. Raises FormatError if it does not hold results of an audit."""
    return read_model(Audit, path, "results of kifu audit")

"""Patterns, positions and continuations as given on the command line of `kifu search` and `kifu explore`."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kifu.arrays import Bools
from kifu.cli.app import progress
from kifu.corpus.catalogue import is_catalogue
from kifu.corpus.schema import to_numpy
from kifu.errors import RecipeError, SourceError, printable
from kifu.point import parse_board
from kifu.registry import check_choice
from kifu.search.build import ensure_index
from kifu.search.notation import check_pattern, parse_pattern
from kifu.search.pattern import ANCHORS, Pattern
from kifu.search.position import (
    FILE_LIMIT,
    Position,
    parse_position,
    pattern_from_sgf,
    read_input,
    record_position,
    sequence_pattern,
)
from kifu.search.searcher import Searcher

_COLOURS = {"black": 1, "white": 2}
_MOVES = re.compile(r"(?:(?:pass|black|white|[bw]|[a-hj-t][0-9]{1,2})(?:[\s,]+|$))+", re.IGNORECASE)
_PLY = re.compile(r"(?:[0-9]+|.+\.sgf)@[0-9]+", re.IGNORECASE)
_DIAGRAM = re.compile(r"[-+|.XOxo#*0-9\s/]+")


def open_searcher(catalogue: Path, argument: str, no_index: bool, jobs: int | None) -> Searcher:
    """Return the searcher of a catalogue, which is indexed first. argument: The pattern or position after it."""
    if is_catalogue(argument):
        raise RecipeError(f"{printable(argument)} is a catalogue: it comes first, then the pattern or position")
    return Searcher(catalogue, use_index=not no_index and ensure_index(catalogue, jobs=jobs, progress=progress))


def read_pattern(searcher: Searcher, argument: str) -> Pattern:
    """Return a pattern: moves, a diagram, a ply of a game of the catalogue or a record, or a file with one of them.

    A record without a ply is a pattern drawn by markup.

    Raises SourceError if a file cannot be read; RecipeError if the text is not a pattern; RecordError if the record
    has no game; GameError if the game of the record is dropped, or has an illegal move.
    """
    given = _read(argument)
    if isinstance(given, bytes) and b"(;" in given:
        return pattern_from_sgf(given)
    text = given if isinstance(given, str) else given.decode("utf-8", "replace")
    if _PLY.fullmatch(text.strip()):
        return read_position(searcher, text, None).to_pattern()
    return sequence_pattern(text) if _MOVES.fullmatch(text.strip()) else parse_pattern(text)


def _read(argument: str) -> bytes | str:
    """Return the content of a file or standard input, or other text. Raises SourceError if there is no such file."""
    if argument == "-":
        return sys.stdin.buffer.read(FILE_LIMIT)
    if _is_file(argument):
        return read_input(argument)
    if not (argument == "" or _is_text(argument) or _MOVES.match(argument) or _PLY.fullmatch(argument.strip())):
        raise SourceError(f"{printable(argument)}: no such file, and neither a diagram nor moves")
    return argument


def _is_text(argument: str) -> bool:
    """Return True if an argument is a diagram, perhaps with settings, rather than a path or moves."""
    return "\n" in argument or ":" in argument or _DIAGRAM.fullmatch(argument) is not None


def _is_file(argument: str) -> bool:
    try:
        return argument != "" and Path(argument).is_file()
    except (OSError, ValueError):  # longer than any path, or with a null character
        return False


def apply_options(
    pattern: Pattern,
    anchor: str | None,
    next_colour: str | None,
    *,
    fixed_colours: bool,
    consecutive: bool,
    last_ply: int | None,
) -> Pattern:
    """Return a pattern with the settings of options, which override those of its text.

    Raises RecipeError if a value is unknown, or the anchor contradicts the edges drawn.
    """
    changes: dict[str, Any] = {}
    if anchor is not None:
        check_choice("anchor", anchor, ANCHORS)
        if pattern.anchor not in ("anywhere", anchor):
            raise RecipeError(f"--anchor {anchor}: the edges drawn mean {pattern.anchor!r}; leave out one of them")
        changes["anchor"] = anchor
    if next_colour is not None:
        check_choice("colour", next_colour, tuple(_COLOURS))
        changes["next_colour"] = _COLOURS[next_colour]
    if fixed_colours:
        changes["both_colours"] = False
    if consecutive:
        changes["consecutive"] = True
    if last_ply is not None:
        changes["last_ply"] = last_ply
    changed = replace(pattern, **changes)
    check_pattern(changed)
    return changed


def read_position(searcher: Searcher, argument: str, board: str | None) -> Position:
    """Return a position in the spellings of `read_pattern`; of a record without a ply, the final one.

    Raises RecipeError if the text is not a position, or there is no such game; GameError if the game of the record is
    dropped, or has no such position.

    Args:
        argument: The text or path; "" for the empty board.
        board: The size of the board for moves, such as "19x19"; by default the most frequent one of the catalogue.
    """
    width, height = (board_sizes(searcher) or [(19, 19)])[0] if board is None else parse_board(board)
    given = _read(argument)
    if isinstance(given, bytes) and b"(;" in given:
        return record_position(given)
    text = given if isinstance(given, str) else given.decode("utf-8", "replace")
    position = parse_position(text, width, height)
    if isinstance(position, Position):
        return position
    row, ply = position
    if row >= searcher.catalogue.rows:
        raise RecipeError(f"the catalogue has games 1 to {searcher.catalogue.rows:,}, got {row + 1:,}")
    return searcher.position(row, ply)


def select_games(searcher: Searcher, where: str | None, player: str | None, colour: str | None) -> Bools | None:
    """Return the games to search, see `Searcher.select`; raise RecipeError also for a player without games."""
    if player is not None and not np.any(searcher.select(player=player)):
        names = searcher.similar_players(player)
        hint = f"; did you mean {' or '.join(map(repr, names))}?" if names else ""
        raise RecipeError(f"no games of player {player!r}{hint}")
    return searcher.select(where, player, colour)


def require_fit(searcher: Searcher, pattern: Pattern) -> None:
    """Raise RecipeError if a catalogue has games, but none on a board that the pattern fits on."""
    sizes = board_sizes(searcher)
    if sizes and not any(pattern.images(*size) for size in sizes):
        known = ", ".join(f"{width} x {height}" for width, height in sizes[:5])
        raise RecipeError(f"{pattern.width} x {pattern.height} points fit on no board of the catalogue: {known}")


def board_sizes(searcher: Searcher) -> list[tuple[int, int]]:
    """Return the widths and heights of all boards of a catalogue, the most frequent first."""
    counts = np.zeros(1 << 16, np.int64)
    for batch in searcher.catalogue.batches(["width", "height"], size=65_536):
        width, height = (to_numpy(batch.column(name)).astype(np.int64) for name in ("width", "height"))
        counts += np.bincount(width << 8 | height, minlength=len(counts))
    return [divmod(size, 256) for size in np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].tolist()]

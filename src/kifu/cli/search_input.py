"""Patterns, positions and continuations as given on the command line of `kifu search` and `kifu explore`."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kifu.arrays import Bools
from kifu.corpus.catalogue import is_catalogue
from kifu.corpus.schema import to_numpy
from kifu.errors import RecipeError, SourceError, printable
from kifu.point import parse_board
from kifu.registry import check_choice
from kifu.search.notation import check_pattern, parse_pattern
from kifu.search.pattern import ANCHORS, Pattern
from kifu.search.position import FILE_LIMIT, Position, parse_position, pattern_from_sgf, read_input, sequence_pattern
from kifu.search.searcher import Searcher

_COLOURS = {"black": 1, "white": 2}
_MOVES = re.compile(r"(?:(?:pass|black|white|[bw]|[a-hj-t][0-9]{1,2})(?:[\s,]+|$))+", re.IGNORECASE)
_DIAGRAM = re.compile(r"[-+|.XOxo#*0-9\s/]+")


def read_pattern(argument: str) -> Pattern:
    """Return the pattern in a text, in the file at a path, or in standard input ("-"): a diagram, moves or an SGF.

    Raises SourceError if the file cannot be read; RecipeError if the text is not a pattern; RecordError if the record
    has no game; GameError if the game of the record is dropped, or has an illegal move.
    """
    if argument == "-":
        return _parse(sys.stdin.buffer.read(FILE_LIMIT))
    if not _is_file(argument):
        if not (_is_text(argument) or _MOVES.fullmatch(argument)):
            raise SourceError(f"{printable(argument)}: no such file, and neither a diagram nor moves")
        return _parse(os.fsencode(argument))
    if is_catalogue(argument):
        raise RecipeError(f"{printable(argument)} is a catalogue, not a pattern; the pattern comes first")
    return _parse(read_input(argument))


def _is_text(argument: str) -> bool:
    """Return True if an argument is a diagram, perhaps with settings, rather than a path or moves."""
    return "\n" in argument or ":" in argument or _DIAGRAM.fullmatch(argument) is not None


def _is_file(argument: str) -> bool:
    try:
        return argument != "" and Path(argument).is_file()
    except (OSError, ValueError):  # longer than any path, or with a null character
        return False


def _parse(data: bytes) -> Pattern:
    if b"(;" in data:
        return pattern_from_sgf(data)
    text = data.decode("utf-8", "replace")
    return sequence_pattern(text) if _MOVES.fullmatch(text.strip()) else parse_pattern(text)


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
    """Return a position: moves, a ply of a game of the catalogue, a diagram, or a file with one of them.

    Raises RecipeError if the text is not a position, or there is no such game; GameError if the game of the record is
    dropped, or has no such position.

    Args:
        argument: The text or path; "" for the empty board.
        board: The size of the board for moves, such as "19x19"; by default the most frequent one of the catalogue.
    """
    width, height = (board_sizes(searcher) or [(19, 19)])[0] if board is None else parse_board(board)
    if not (_is_file(argument) or _is_text(argument)) and re.search(r"\.\w+$", argument):
        raise SourceError(f"{printable(argument)}: no such file")
    position = parse_position(Path(argument) if _is_file(argument) else argument, width, height)
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

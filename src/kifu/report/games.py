"""Positions of games as text, JSON and pictures, for `kifu show` and `kifu predict`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.corpus.catalogue import is_catalogue
from kifu.corpus.sources import read
from kifu.errors import DropReason, FormatError, GameError, SourceError, join_lines, printable
from kifu.go.board import Board
from kifu.learn import ONNX_SUFFIX, SUFFIX
from kifu.point import BLACK, NO_POINT, POINT_MASK, WHITE, WHITE_BIT, to_gtp
from kifu.records.game import Game, games_in
from kifu.records.games import LeftOut
from kifu.records.paths import AnyPath


@dataclass(frozen=True, slots=True)
class SelectedGame:
    """A game of a container or catalogue; `plies` moves are shown by default. `remarks`: its origin and drop reason."""

    game: Game
    plies: int
    remarks: tuple[str, ...]


def is_record(path: AnyPath) -> bool:
    """Return True if a path is a file of one game, which was kept."""
    if isinstance(path, Path) and (path.is_dir() or path.suffix in (SUFFIX, ONNX_SUFFIX) or is_catalogue(path)):
        return False
    try:
        games = list(islice(games_in([path], LeftOut()), 2))
    except (SourceError, FormatError):
        return False
    return len(games) == 1 and not games[0].drop


def find_game(path: AnyPath, number: int) -> SelectedGame:
    """Return game `number`, from 1, of a container or catalogue.

    Raises GameError if there are fewer games, or the game of a container was dropped.
    """
    if isinstance(path, Path) and is_catalogue(path):
        return _find_row(path, number)
    seen = 0
    for game in read(path):
        seen += 1
        if seen == number:
            if game.drop:
                raise GameError(f"game {number} of {path} was dropped: {DropReason(game.drop).reason}")
            return SelectedGame(game, len(game), ())
    raise GameError(f"{path}: game must be within 1 to {seen:,}, got {number}")


def _find_row(path: Path, number: int) -> SelectedGame:
    from kifu.corpus.catalogue import open_catalogue
    from kifu.corpus.export import rows_to_games
    from kifu.corpus.schema import drop_code

    catalogue = open_catalogue(path)
    before = number - 1
    for batch in catalogue.batches():
        if before < len(batch):
            row = batch.slice(before, 1).to_pylist()[0]
            remarks = [
                f"from {row['archive']}, {row['member']}" + (f", game {row['index'] + 1}" if row["index"] else "")
            ]
            if row["drop"]:
                detail = f" ({row['drop_detail']})" if row["drop_detail"] else ""
                remarks.append(f"dropped: {DropReason(drop_code(row['drop'])).reason}{detail}")
            (game,) = rows_to_games(batch.slice(before, 1))
            return SelectedGame(game, row["n_legal"], tuple(remarks))
        before -= len(batch)
    raise GameError(f"{path}: game must be within 1 to {catalogue.rows:,}, got {number}")


def board_after(game: Game, plies: int) -> Board:
    """Return the board after some moves. Raise GameError if there are fewer."""
    if not 0 <= plies <= len(game):
        raise GameError(f"move must be within 0 to {len(game)}, got {plies}")
    return game.board(plies)


def _last_and_next(game: Game, plies: int) -> tuple[int | None, int | None]:
    def point(ply: int) -> int | None:
        at = int(game.moves[ply] & POINT_MASK) if 0 <= ply < len(game) else NO_POINT
        return at if at < game.width * game.height else None

    return point(plies - 1), point(plies)


def describe_position(selected: SelectedGame, move: int | None) -> str:
    """Return a position, after `move` moves or all legal ones, as text below the game's headline.

    A dropped game has a headline only. Raises GameError if the game has fewer moves.
    """
    game = selected.game
    head = [str(game), *selected.remarks, ""]
    if game.drop:
        return join_lines(head[:-1])
    plies = selected.plies if move is None else move
    lines = [*head, *str(board_after(game, plies)).splitlines()]
    if plies < len(game):
        word = int(game.moves[plies])
        side = "White" if word & WHITE_BIT else "Black"
        vertex = (
            to_gtp(word & POINT_MASK, game.width, game.height) if word & POINT_MASK != NO_POINT else "off the board"
        )
        lines.append(f"after {plies} of {len(game)} moves; next: {side} {vertex}")
    else:
        lines.append(f"after all {len(game)} moves")
    return join_lines(lines)


def position_to_dict(selected: SelectedGame, move: int | None) -> dict[str, Any]:
    """Return a position as JSON values; of a dropped game, only the game."""
    game = selected.game
    values: dict[str, Any] = {"game": str(game), "remarks": selected.remarks, "moves": len(game)}
    if game.drop:
        return values
    plies = selected.plies if move is None else move
    board, points = board_after(game, plies), zip(("last", "next"), _last_and_next(game, plies))
    names = {name: None if p is None else to_gtp(p, game.width, game.height) for name, p in points}
    stones = stones_by_colour(np.asarray(board.stones).reshape(-1), game.width, game.height)
    return values | {"move": plies, "board": f"{game.width}x{game.height}"} | names | stones


def draw_position(game: Game, move: int, out: Path) -> None:
    """Draw the position after `move` moves, with marks on the last and the next move."""
    from kifu.viz.boards import draw_board, save

    board, (last, ring) = board_after(game, move), _last_and_next(game, move)
    title = f"{' - '.join(printable(name or '?') for name in game.players)}, after {move} of {len(game)} moves"
    save(draw_board(board.stones, title=title, last=last, ring=ring), out)


def stones_by_colour(colours: npt.NDArray[np.uint8], width: int, height: int) -> dict[str, list[str]]:
    """Return the points with stones, as GTP names them; colours: [H * W]."""
    return {
        name: [to_gtp(point, width, height) for point in np.flatnonzero(colours == colour).tolist()]
        for name, colour in (("black", BLACK), ("white", WHITE))
    }

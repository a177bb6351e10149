"""What the commands `inspect` and `show` print: artefacts and positions, as text and as pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kifu.datasets.dat import Dat
from kifu.datasets.inspect import Inspection, inspect_dat
from kifu.datasets.manifest import manifest_path, read_manifest
from kifu.draw import draw_board, save
from kifu.errors import Drop, FormatError, GameError
from kifu.go.board import Board
from kifu.planes.registry import find_plane_set
from kifu.point import BLACK, NO_POINT, POINT_MASK, WHITE, WHITE_BIT, to_bottom_row, to_gtp
from kifu.records.game import Game, read
from kifu.records.survey import Survey, survey

_DAT_MARKS = (b"GO", b"END", b"mlv2-")


def is_data_set(path: Path) -> bool:
    """Whether a file begins as one of our data set formats does."""
    try:
        with path.open("rb") as file:
            return file.read(5).startswith(_DAT_MARKS)
    except OSError:
        return False


def describe_data_set(path: Path) -> str:
    """Header, counts and checks of a data set file, as lines of text. Raises FormatError if anything is wrong."""
    found = inspect_dat(path)
    plane_set = find_plane_set(found.format.plane_set)
    lines = [
        f"{path}: {found.format.name}, {found.format.title}",
        f"  examples    {found.examples:,}" + (f" in {found.segments} joined files" if found.segments > 1 else ""),
        f"  bytes       {found.bytes:,}",
        f"  planes      {plane_set.name}, row 0 is the {plane_set.first_row} of the board",
        f"  stones      {found.mean_stones:.1f} on average; {found.ko_share:.2%} of the examples have a ko",
        f"  labels      {found.distinct_labels} of 361 points",
        f"  md5         {found.md5}",
        f"  blake3      {found.blake3}",
        "  marks       all in place",
        f"  manifest    {_manifest_line(found)}",
    ]
    if found.problems:
        raise FormatError(f"{path}: " + "; ".join(found.problems))
    return "\n".join(lines)


def _manifest_line(found: Inspection) -> str:
    manifest = found.manifest
    if manifest is None:
        return "none beside it"
    drops = "".join(f", {name} {count:,}" for name, count in manifest.drops.items())
    return (
        f"recipe {manifest.recipe.get('name')}, set {manifest.set}, kifu {manifest.kifu}; "
        f"{manifest.read:,} games = {manifest.kept:,} kept{drops}; its hash is right"
    )


def describe_records(path: Path) -> str:
    """What is in an archive, folder or record, as lines of text."""
    found = survey(path)
    lines = [f"{path}: {found.read:,} games = {found.kept:,} kept" + _counts(found)]
    lines.append(f"  moves       {found.moves:,} in the kept games")
    lines.append("  boards      " + ", ".join(f"{size}: {n:,}" for size, n in found.sizes.most_common(5)))
    forgiven = [f"{name}: {n:,}" for name, n in found.notes.items() if n]
    lines.append("  forgiven    " + (", ".join(forgiven) or "nothing"))
    lines += [
        f"  dropped     {name or container}: {why.reason}{f' (after {plies} moves)' if plies else ''}"
        for container, name, why, plies in found.dropped
    ]
    return "\n".join(lines)


def _counts(found: Survey) -> str:
    return "".join(f" + {n:,} {name.lower().replace('_', ' ')}" for name, n in found.drops.items())


@dataclass(frozen=True, slots=True)
class _Example:
    """One row of a data set as a board, turned so that row 0 is the top. colours: [19, 19] uint8, own stones black."""

    colours: npt.NDArray[np.uint8]
    label: int
    ko: list[int]


def _example(data: Dat, row: int) -> _Example:
    """Raises FormatError if there is no such row."""
    if not 0 <= row < len(data):
        raise FormatError(f"{data.path} has rows 0 to {len(data) - 1}, none of number {row}")
    planes, label = data[row]
    from_top = planes[:, ::-1]
    own, other = from_top[0:3].any(0), from_top[3:6].any(0)
    colours: npt.NDArray[np.uint8] = np.where(other, 2, own).astype(np.uint8)
    return _Example(colours, to_bottom_row(label, 19), np.flatnonzero(from_top[6]).tolist())


def describe_row(path: Path, row: int) -> str:
    """One example as a board in text, with where it comes from."""
    with Dat(path) as data:
        example = _example(data, row)
    board = Board(19)
    board.setup(*(np.flatnonzero(example.colours == c).tolist() for c in (BLACK, WHITE)))
    stones = np.count_nonzero(example.colours)
    counted = "1 stone" if stones == 1 else f"{stones} stones"
    lines = [str(board), f"row {row}: X is to move and plays {to_gtp(example.label, 19)}; {counted}"]
    if example.ko:
        lines.append("ko plane: " + ", ".join(to_gtp(p, 19) for p in example.ko))
    manifest = read_manifest(path)
    if manifest is not None:
        if row >= manifest.examples:
            raise FormatError(f"{manifest_path(path)} tells of {manifest.examples:,} rows, not of row {row}")
        origin = manifest.origin(row)
        lines.append(f"from {origin.archive}, entry {origin.member + 1}, move {origin.ply + 1}")
    return "\n".join(lines)


def draw_row(path: Path, row: int, out: Path) -> None:
    """Draws one example: the position, own stones black, and the move that was played ringed."""
    with Dat(path) as data:
        example = _example(data, row)
    title = f"{path.name}, row {row}: Black is to move and plays {to_gtp(example.label, 19)}"
    save(draw_board(example.colours, title=title, ring=example.label, marks=dict.fromkeys(example.ko, "+")), out)


def find_game(path: Path, number: int) -> Game:
    """Game `number` (from 1) of a container. Raises GameError if there are fewer, or if it was set aside."""
    seen = 0
    for game in read(path):
        seen += 1
        if seen == number:
            if game.drop:
                raise GameError(f"game {number} of {path} was set aside: {Drop(game.drop).reason}")
            return game
    raise GameError(f"{path} has {seen:,} games, no game {number}")


@dataclass(frozen=True, slots=True)
class _Position:
    """The board after `plies` moves of a game, the stone played last and the point played next, where there is one."""

    board: Board
    plies: int
    last: int | None
    next: int | None


def _position(game: Game, move: int | None) -> _Position:
    """move: how many moves are played; None: all. Raises GameError."""
    plies = len(game) if move is None else move
    if not 0 <= plies <= len(game):
        raise GameError(f"the game has {len(game)} moves, none of number {move}")
    board = game.board(plies)

    def point(ply: int) -> int | None:
        at = int(game.moves[ply] & POINT_MASK) if 0 <= ply < len(game) else NO_POINT
        return at if at < game.width * game.height else None

    return _Position(board, plies, point(plies - 1), point(plies))


def describe_position(game: Game, move: int | None) -> str:
    """A position in text, below the game's headline."""
    at = _position(game, move)
    lines = [str(game), "", str(at.board)]
    if at.plies < len(game):
        word = int(game.moves[at.plies])
        side = "White" if word & WHITE_BIT else "Black"
        vertex = (
            to_gtp(word & POINT_MASK, game.width, game.height) if word & POINT_MASK != NO_POINT else "off the board"
        )
        lines.append(f"after {at.plies} of {len(game)} moves; next: {side} {vertex}")
    else:
        lines.append(f"after all {len(game)} moves")
    return "\n".join(lines)


def draw_position(game: Game, move: int | None, out: Path) -> None:
    """Draws a position, with the last move marked and the next one ringed."""
    at = _position(game, move)
    title = f"{' - '.join(name or '?' for name in game.players)}, after {at.plies} of {len(game)} moves"
    save(draw_board(at.board.stones, title=title, last=at.last, ring=at.next), out)

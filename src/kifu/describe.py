"""What the commands `inspect` and `show` print: artefacts and positions, as text and as pictures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import Catalogue, is_catalogue, open_catalogue
from kifu.corpus.export import rows_to_games
from kifu.corpus.index import INDEX
from kifu.corpus.schema import SCHEMA, VERSION, drop_code, game_arrays, to_numpy
from kifu.datasets.examples import Dataset
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.inspect import DatInspection, inspect_dat, inspect_examples
from kifu.datasets.manifest import ExamplesManifest, manifest_path, read_examples_manifest, read_manifest
from kifu.errors import DropReason, FormatError, GameError, SourceError
from kifu.go.board import Board
from kifu.katago.inspect import row_words
from kifu.katago.npz import KataNpz
from kifu.planes.registry import KATAGO22, find_plane_set
from kifu.point import BLACK, NO_POINT, POINT_MASK, WHITE, WHITE_BIT, to_gtp
from kifu.records.game import Game, read
from kifu.records.parse import summarize
from kifu.records.places import AnyPath
from kifu.viz.boards import draw_board, save

_SIGNED = "own stones 1, opponent's stones -1"
_KO = ("the point that ko forbids", "ko, as kgsgo marks it", KATAGO22.plane_names[6])

_MANY = 12
"""Values of a label that are shown."""


def is_data_set(path: Path) -> bool:
    """Whether a file or folder begins as one of our data set formats does. Raises FormatError for a damaged one."""
    try:
        return detect_format(path) is not None
    except (OSError, SourceError):
        return False


def describe_data_set(path: Path) -> str:
    """Header, counts and checks of a data set, as lines of text. Raises FormatError if anything is wrong."""
    detected = detect_format(path)
    if detected is not None and not detected.is_dat:
        return "\n".join(inspect_examples(path))
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


def _manifest_line(found: DatInspection) -> str:
    manifest = found.manifest
    if manifest is None:
        return "none"
    drops = "".join(f", {name} {count:,}" for name, count in manifest.drops.items())
    return (
        f"recipe {manifest.recipe.get('name')}, set {manifest.set}, kifu {manifest.kifu}; "
        f"{manifest.read:,} games = {manifest.kept:,} kept{drops}; its hash is right"
    )


def describe_catalogue(path: Path) -> str:
    """Counts, hash and origin of a catalogue, as lines of text. Every row is read and checked.

    Raises FormatError if anything is wrong, also if the rows are not those that the file tells of.
    """
    catalogue = open_catalogue(path)
    drops, formats, archives, boards = (Counter[str]() for _ in range(4))
    moves = 0
    for batch in catalogue.batches():
        games = game_arrays(batch)
        drops.update(_counted(batch["drop"]))
        kept = batch.filter(pc.is_null(batch["drop"]))
        moves += int(to_numpy(kept["n_legal"]).sum())
        formats.update(_counted(kept["format"]))
        archives.update(_counted(kept["archive"]))
        sizes = np.stack([games.width, games.height], 1)[games.drop == DropReason.KEPT]
        boards.update({f"{w} x {h}": int(n) for (w, h), n in zip(*np.unique(sizes, axis=0, return_counts=True))})
    told = {"read": catalogue.rows, "kept": archives.total(), "drops": {k.upper(): n for k, n in drops.items()}}
    for name in told.keys() & catalogue.metadata.keys():
        if told[name] != catalogue.metadata[name]:
            raise FormatError(f"{path}: {name} is {told[name]}, and {_short(catalogue.metadata[name])} by what it says")
    size = catalogue.file_bytes()
    lines = [
        f"{path}: catalogue@{VERSION}, {catalogue.rows:,} games = {archives.total():,} kept" + _sum(drops),
        f"  moves       {moves:,} in the kept games",
        f"  boards      {_common(boards)}",
        f"  formats     {_common(formats)}",
        f"  archives    {_common(archives)}",
        f"  columns     {len(SCHEMA.names)}",
        f"  bytes       {size:,}" + (f", {size / catalogue.rows:.0f} a game" if catalogue.rows else ""),
        *_part_lines(catalogue),
        f"  blake3      {catalogue.digest()}",
    ]
    return "\n".join([*lines, *(f"  {line}" for line in _origin(catalogue.metadata))])


def _part_lines(catalogue: Catalogue) -> list[str]:
    """How many parts a folder has. Raises FormatError if one of them is not what the index says."""
    if catalogue.index is None:
        return []
    for part in catalogue.index.parts:
        if open_catalogue(catalogue.path / part.path).digest() != part.blake3:
            raise FormatError(f"{catalogue.path / part.path} is not the file that {INDEX} tells of: its BLAKE3 differs")
    return [f"  parts       {len(catalogue.partitions):,}; their hashes are right"]


def _counted(column: pa.Array) -> dict[str, int]:
    """Each text of a column and how often it comes; nulls are left out."""
    return {each["values"]: each["counts"] for each in pc.value_counts(column.drop_null()).to_pylist()}


def _common(counts: Counter[str]) -> str:
    """The most common ones."""
    shown = ", ".join(f"{name}: {n:,}" for name, n in counts.most_common(5))
    return (shown or "none") + (f", and {len(counts) - 5:,} more" if len(counts) > 5 else "")


def _origin(about: Mapping[str, Any]) -> list[str]:
    """What a catalogue says about how it came to be, each thing on a line."""
    clean = about.get("clean")
    if isinstance(clean, dict):
        return [f"cleaned     {_short(clean.get('name'))}: {_short(clean.get('title'))}"]
    return [f"{name:<11} {_short(value)}" for name, value in about.items() if name not in ("read", "kept", "drops")]


def _short(value: Any) -> str:
    """A value that a file gives, as one line of at most 200 characters."""
    text = value if isinstance(value, str) and value.isprintable() else json.dumps(value)
    return text if len(text) <= 200 else text[:196] + " ..."


def describe_records(path: AnyPath) -> str:
    """What is in an archive, folder or record, as lines of text."""
    found = summarize(path)
    lines = [f"{path}: {found.read:,} games = {found.kept:,} kept" + _sum(found.drops)]
    lines.append(f"  moves       {found.moves:,} in the kept games")
    lines.append(f"  boards      {_common(found.sizes)}")
    forgiven = [f"{name}: {n:,}" for name, n in found.warnings.items() if n]
    lines.append("  forgiven    " + (", ".join(forgiven) or "nothing"))
    lines += [
        f"  dropped     {name or container}: {why.reason}{f' (after {plies} moves)' if plies else ''}"
        for container, name, why, plies in found.dropped
    ]
    return "\n".join(lines)


def _sum(drops: Mapping[str, int]) -> str:
    return "".join(f" + {n:,} {name.lower().replace('_', ' ')}" for name, n in drops.items())


@dataclass(frozen=True, slots=True)
class _Example:
    """One row of a data set as a board, turned so that row 0 is the top.

    colours: [H, W] uint8, the mover's stones black unless the planes tell black and white. moves: whether X is to move.
    label: the next move, None if that is no label; ko: points. others: a line for each other label, and for the game.
    """

    colours: npt.NDArray[np.uint8]
    mover_is_x: bool
    label: int | None
    ko: list[int]
    others: list[str]


def _example(data: Dataset, row: int) -> _Example:
    """Raises FormatError if there is no such row, or if the planes do not tell where stones are."""
    if not 0 <= row < len(data):
        raise FormatError(f"{data.path} has rows 0 to {len(data) - 1}, none of number {row}")
    layout, batch = data.layout, data.read(row, row + 1)
    rim, planes = layout.rim, batch.unpack_planes(data.layout)[0]
    planes = planes[:, rim : planes.shape[1] - rim, rim : planes.shape[2] - rim]
    label = int(batch.labels["move"][0]) if "move" in batch.labels else None
    if layout.first_row == "bottom":
        planes = planes[:, ::-1]
        label = None if label is None else int(layout.flip_points(np.array([label]))[0])
    if layout.plane_set == KATAGO22.name:  # in whose frame a smaller board may lie
        planes, label = _own_board(data, planes, label)
    colours = np.zeros(planes.shape[1:], np.uint8)
    for k, side in layout.stone_planes():
        colours[planes[k] != 0] = BLACK if side in ("own", "black") else WHITE
    if _SIGNED in layout.plane_names:
        signed = planes[layout.plane_names.index(_SIGNED)]
        colours[signed > 0], colours[signed < 0] = BLACK, WHITE
    elif not layout.stone_planes():
        raise FormatError(f"the planes of {data.path} do not tell where stones are")
    ko = [p for name, plane in zip(layout.plane_names, planes) if name in _KO for p in np.flatnonzero(plane).tolist()]
    others = [f"{name}: {_values(values[0])}" for name, values in batch.labels.items() if name != "move"]
    if isinstance(data, KataNpz):
        others = row_words(data.rows(row, row + 1))
    if batch.ply[0] >= 0:
        others.append(f"game {batch.game[0]}, move {batch.ply[0] + 1}")
    return _Example(colours, "black stones, 1 liberty" not in layout.plane_names, label, ko, others)


def _own_board(data: Dataset, planes: npt.NDArray[Any], label: int | None) -> tuple[npt.NDArray[Any], int | None]:
    """The part of KataGo's planes where the board lies, and a label that is a point of it."""
    height, width = (int(planes[0].any(axis).sum()) for axis in (1, 0))
    y, x = divmod(0 if label in (None, data.layout.pass_label) else label, data.layout.width)
    if not (x < width and y < height):
        raise FormatError(f"{data.path}: the move is not on the board of {width} x {height}")
    if label is not None:
        label = width * height if label == data.layout.pass_label else y * width + x
    return planes[:, :height, :width], label


def _values(values: npt.NDArray[Any]) -> str:
    shown = values.reshape(-1)[:_MANY].tolist()
    return ", ".join(f"{value:g}" for value in shown) + (" ..." if values.size > _MANY else "")


def describe_row(path: Path, row: int) -> str:
    """One example as a board in text, with where it comes from."""
    with open_examples(path) as data:
        example = _example(data, row)
    height, width = example.colours.shape
    board = Board(width, height)
    board.setup(*(np.flatnonzero(example.colours == c).tolist() for c in (BLACK, WHITE)))
    stones = np.count_nonzero(example.colours)
    counted = "1 stone" if stones == 1 else f"{stones} stones"
    plays = "" if example.label is None else f" and plays {to_gtp(example.label, width, height)}"
    mover = f"X is to move{plays}" if example.mover_is_x else f"X is black; the next move is{plays[10:]}"
    lines = [str(board), f"row {row}: {mover}; {counted}"]
    if example.ko:
        lines.append("ko plane: " + ", ".join(to_gtp(p, width, height) for p in example.ko))
    return "\n".join([*lines, *example.others, *_origin_line(path, row)])


def _origin_line(path: Path, row: int) -> list[str]:
    """Where a row comes from by the manifest, if that tells."""
    detected = detect_format(path)
    is_dat = detected is not None and detected.is_dat
    manifest = read_manifest(path) if is_dat else read_examples_manifest(path)
    if manifest is None:
        return []
    if row >= manifest.examples:
        raise FormatError(f"{manifest_path(path)} tells of {manifest.examples:,} rows, not of row {row}")
    if isinstance(manifest, ExamplesManifest):
        if not any(catalogue.rows for catalogue in manifest.catalogues):  # shuffled
            return []
        origin = manifest.origin(row)
        return [f"from {origin.archive}, row {origin.member}, move {origin.ply + 1}"]
    origin = manifest.origin(row)
    return [f"from {origin.archive}, entry {origin.member + 1}, move {origin.ply + 1}"]


def draw_row(path: Path, row: int, out: Path) -> None:
    """Draws one example: the position, own stones black, and the move that was played ringed."""
    with open_examples(path) as data:
        example = _example(data, row)
    height, width = example.colours.shape
    title = f"{path.name}, row {row}"
    if example.label is not None:
        mover = "Black is to move and plays" if example.mover_is_x else "the next move is"
        title += f": {mover} {to_gtp(example.label, width, height)}"
    ring = example.label if example.label is not None and example.label < width * height else None
    save(draw_board(example.colours, title=title, ring=ring, marks=dict.fromkeys(example.ko, "+")), out)


@dataclass(frozen=True, slots=True)
class Shown:
    """A game to look at.

    until: how many moves are played if nobody says how many. remarks: what there is to say beside its headline.
    """

    game: Game
    until: int
    remarks: tuple[str, ...]


def find_game(path: AnyPath, number: int) -> Shown:
    """Game `number` (from 1) of a container, or if it was set aside, GameError; or any row of a catalogue.

    Raises GameError if there are fewer.
    """
    if isinstance(path, Path) and is_catalogue(path):
        return _find_row(path, number)
    seen = 0
    for game in read(path):
        seen += 1
        if seen == number:
            if game.drop:
                raise GameError(f"game {number} of {path} was set aside: {DropReason(game.drop).reason}")
            return Shown(game, len(game), ())
    raise GameError(f"{path} has {seen:,} games, no game {number}")


def _find_row(path: Path, number: int) -> Shown:
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
                remarks.append(f"set aside: {DropReason(drop_code(row['drop'])).reason}{detail}")
            (game,) = rows_to_games(batch.slice(before, 1))
            return Shown(game, row["n_legal"], tuple(remarks))
        before -= len(batch)
    raise GameError(f"{path} has {catalogue.rows:,} games, no game {number}")


@dataclass(frozen=True, slots=True)
class _Position:
    """The board after `plies` moves of a game, the stone played last and the point played next, where there is one."""

    board: Board
    plies: int
    last: int | None
    next: int | None


def _position(game: Game, plies: int) -> _Position:
    """plies: how many moves are played. Raises GameError."""
    if not 0 <= plies <= len(game):
        raise GameError(f"the game has {len(game)} moves, none of number {plies}")
    board = game.board(plies)

    def point(ply: int) -> int | None:
        at = int(game.moves[ply] & POINT_MASK) if 0 <= ply < len(game) else NO_POINT
        return at if at < game.width * game.height else None

    return _Position(board, plies, point(plies - 1), point(plies))


def describe_position(shown: Shown, move: int | None) -> str:
    """A position in text, below the game's headline; of a game that has no board the headline only.

    move: how many moves are played; None: all, or of a catalogue's row as many as can be. Raises GameError.
    """
    game = shown.game
    head = [str(game), *shown.remarks, ""]
    if game.drop:
        return "\n".join(head[:-1])
    at = _position(game, shown.until if move is None else move)
    lines = [*head, str(at.board)]
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


def draw_position(game: Game, move: int, out: Path) -> None:
    """Draws the position after so many moves, with the last move marked and the next one ringed."""
    at = _position(game, move)
    title = f"{' - '.join(name or '?' for name in game.players)}, after {at.plies} of {len(game)} moves"
    save(draw_board(at.board.stones, title=title, last=at.last, ring=at.next), out)

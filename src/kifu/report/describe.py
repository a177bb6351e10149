"""Descriptions of artefacts and positions as text and pictures, for `kifu show`."""

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
from kifu.corpus.schema import INDEX, SCHEMA, VERSION, game_arrays, to_numpy
from kifu.datasets.examples import Dataset
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.manifest import find_origin, manifest_path, read_manifest
from kifu.datasets.tokens import is_tokens
from kifu.errors import DropReason, FormatError, join_lines
from kifu.go.board import Board
from kifu.katago.net_file import is_kata_net
from kifu.katago.npz import KataNpz
from kifu.learn import BEST, MIX_SUFFIX, ONNX_SUFFIX, SUFFIX
from kifu.planes.registry import KATAGO22
from kifu.point import BLACK, WHITE, to_gtp
from kifu.records.games import describe_left_out
from kifu.records.parse import summarize
from kifu.records.paths import AnyPath
from kifu.report.games import stones_by_colour
from kifu.report.inspect import describe_data_set, describe_kata_net, describe_kata_row, inspect_tokens
from kifu.text import counted, format_counts, format_games, json_text, shorten
from kifu.viz.boards import draw_board, save

_SIGNED = "own stones 1, opponent's stones -1"
_KO = ("the point that ko forbids", "ko, as kgsgo marks it", KATAGO22.plane_names[6])

_INDENT = 14
"""Characters before the values of a description."""

_MOVES_SHOWN = 5
"""Moves of a policy that are shown."""

_MAX_VALUES = 12
"""Values of a label that are shown."""


class Description(str):
    """Lines of text: a title, then names with values."""

    def to_json(self) -> str:
        """Return the title and the values by name, lists where a name has several, as one JSON object."""
        title, *lines = self.splitlines()
        values: dict[str, Any] = {"title": title}
        name = ""
        for line in lines:
            name, value = line[:_INDENT].strip() or name, line[_INDENT:].strip()
            known = values.get(name, [])
            values[name] = [*(known if isinstance(known, list) else [known]), value] if name in values else value
        return json_text(values)


def describe(path: AnyPath) -> Description:
    """Return the contents of a net, data set (also of its manifest), catalogue, archive or folder, with its checks."""
    if isinstance(path, Path):
        path = Path(str(path).removesuffix(".manifest.json"))
        if is_kata_net(path):
            return Description(describe_kata_net(path))
        if path.suffix in (SUFFIX, ONNX_SUFFIX, MIX_SUFFIX) or (path / BEST).exists():
            from kifu.learn.net import describe_net

            return Description(describe_net(path))
        if is_tokens(path):
            return Description(join_lines(inspect_tokens(path)))
        if detect_format(path) is not None:
            return Description(describe_data_set(path))
        if is_catalogue(path):
            return Description(describe_catalogue(path))
    return Description(describe_records(path))


def describe_catalogue(path: Path) -> str:
    """Return counts, hash and origin of a catalogue as text. Every row is read and checked.

    Raises FormatError if the catalogue is invalid, or its rows differ from its metadata.
    """
    catalogue = open_catalogue(path)
    drops, formats, archives, boards = (Counter[str]() for _ in range(4))
    moves = 0
    for batch in catalogue.batches():
        games = game_arrays(batch)
        drops.update(_value_counts(batch["drop"]))
        kept = batch.filter(pc.is_null(batch["drop"]))
        moves += int(to_numpy(kept["n_legal"]).sum())
        formats.update(_value_counts(kept["format"]))
        archives.update(_value_counts(kept["archive"]))
        sizes = np.stack([games.width, games.height], 1)[games.drop == DropReason.KEPT]
        boards.update({f"{w} x {h}": int(n) for (w, h), n in zip(*np.unique(sizes, axis=0, return_counts=True))})
    counts = {"read": catalogue.rows, "kept": archives.total(), "drops": {k.upper(): n for k, n in drops.items()}}
    for name in counts.keys() & catalogue.metadata.keys():
        if counts[name] != catalogue.metadata[name]:
            raise FormatError(
                f"{path}: {name} is {counts[name]}, but the metadata list {_short(catalogue.metadata[name])}"
            )
    size = catalogue.file_bytes()
    lines = [
        f"{path}: catalogue@{VERSION}, {format_games(catalogue.rows, archives.total(), drops)}",
        f"  moves       {moves:,} in the kept games",
        f"  boards      {_most_common(boards)}",
        f"  formats     {_most_common(formats)}",
        f"  archives    {_most_common(archives)}",
        f"  columns     {len(SCHEMA.names)}",
        f"  bytes       {size:,}" + (f", {size / catalogue.rows:.0f} a game" if catalogue.rows else ""),
        *_partition_lines(catalogue),
        f"  blake3      {catalogue.digest()}",
        *_left_out_lines(_left_out_of_sources(catalogue.metadata)),
    ]
    return join_lines([*lines, *(f"  {line}" for line in _origin(catalogue.metadata))])


def _partition_lines(catalogue: Catalogue) -> list[str]:
    """Return the number of partitions of a folder; raise FormatError if a file differs from the index."""
    if catalogue.index is None:
        return []
    for part in catalogue.index.parts:
        if open_catalogue(catalogue.path / part.path).digest() != part.blake3:
            raise FormatError(f"{catalogue.path / part.path}: the BLAKE3 hash differs from {INDEX}")
    return [f"  partitions  {len(catalogue.partitions):,}; their hashes match"]


def _value_counts(column: pa.Array) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in pc.value_counts(column.drop_null()).to_pylist()}


def _most_common(counts: Counter[str]) -> str:
    return format_counts(dict(counts.most_common(5))) + (f", and {len(counts) - 5:,} more" if len(counts) > 5 else "")


def _origin(metadata: Mapping[str, Any]) -> list[str]:
    clean = metadata.get("clean")
    if isinstance(clean, dict):
        return [f"cleaned     {_short(clean.get('name'))}: {_short(clean.get('title'))}"]
    return [f"{name:<11} {_short(value)}" for name, value in metadata.items() if name not in ("read", "kept", "drops")]


def _short(value: Any) -> str:
    """Return a value from a file as one printable line of at most 200 characters."""
    return shorten(value if isinstance(value, str) else json.dumps(value), 200)


def describe_records(path: AnyPath) -> str:
    """Return the contents of an archive, folder or record as text."""
    summary = summarize(path)
    lines = [f"{path}: {format_games(summary.read, summary.kept, summary.drops)}"]
    lines.append(f"  moves       {summary.moves:,} in the kept games")
    lines.append(f"  boards      {_most_common(summary.sizes)}")
    lines.append(f"  warnings    {format_counts({name: n for name, n in summary.warnings.items() if n})}")
    lines += [
        f"  dropped     {name or container}: {why.reason}{f' (after {plies} moves)' if plies else ''}"
        for container, name, why, plies in summary.dropped
    ]
    return join_lines(lines + _left_out_lines(summary.left_out))


def _left_out_lines(left_out: Mapping[str, int]) -> list[str]:
    return [f"  {describe_left_out(left_out).replace(': ', '    ', 1)}"] if left_out else []


def _left_out_of_sources(metadata: Mapping[str, Any]) -> Counter[str]:
    """Return the number of files and members of a catalogue's sources that were not read, by kind."""
    total = Counter[str]()
    sources = metadata.get("sources")
    for source in sources if isinstance(sources, list) else []:
        counts = source.get("left_out") if isinstance(source, dict) else None
        if isinstance(counts, dict):
            total.update({kind: count for kind, count in counts.items() if isinstance(count, int)})
    return total


@dataclass(frozen=True, slots=True)
class _ExampleRow:
    """One row of a data set as a board whose row 0 is the top.

    Attributes:
        colours: [H, W] uint8; the mover's stones are black unless the planes distinguish Black and White.
    """

    colours: npt.NDArray[np.uint8]
    mover_is_x: bool
    label: int | None
    ko: list[int]
    others: list[str]


def _example(data: Dataset, row: int) -> _ExampleRow:
    """Return a row as an example; raise FormatError if it does not exist or its planes do not show stones."""
    if not 0 <= row < len(data):
        raise FormatError(f"{data.path}: row must be within 0 to {len(data) - 1}, got {row}")
    layout, batch = data.layout, data.read(row, row + 1)
    rim, planes = layout.rim, batch.unpack_planes(data.layout)[0]
    planes = planes[:, rim : planes.shape[1] - rim, rim : planes.shape[2] - rim]
    label = int(batch.labels["move"][0]) if "move" in batch.labels else None
    if layout.first_row == "bottom":
        planes = planes[:, ::-1]
        label = None if label is None else int(layout.flip_points(np.array([label]))[0])
    if layout.plane_set == KATAGO22.name:  # smaller boards lie in the frame's corner
        planes, label = _crop_to_board(data, planes, label)
    colours = np.zeros(planes.shape[1:], np.uint8)
    for k, side in layout.stone_planes():
        colours[planes[k] != 0] = BLACK if side in ("own", "black") else WHITE
    if _SIGNED in layout.plane_names:
        signed = planes[layout.plane_names.index(_SIGNED)]
        colours[signed > 0], colours[signed < 0] = BLACK, WHITE
    elif not layout.stone_planes():
        raise FormatError(f"{data.path}: its planes do not show where stones are")
    ko = [p for name, plane in zip(layout.plane_names, planes) if name in _KO for p in np.flatnonzero(plane).tolist()]
    others = [
        f"{name}: {_values(values[0])}" for name, values in batch.labels.items() if name not in ("move", "policy")
    ]
    if "policy" in batch.labels:
        policy = batch.labels["policy"][0]
        best = np.argsort(-policy, kind="stable")[: min(np.count_nonzero(policy), _MOVES_SHOWN)].tolist()
        moves = ", ".join(f"{to_gtp(point, layout.width, layout.height)} {policy[point]:.1%}" for point in best)
        others.insert(0, f"policy: {moves}")
    if isinstance(data, KataNpz):
        others = describe_kata_row(data.rows(row, row + 1))
    if batch.ply[0] >= 0:
        others.append(f"game {batch.game[0]}, move {batch.ply[0] + 1}")
    mover_is_x = not any(side in ("black", "white") for _, side in layout.stone_planes())
    return _ExampleRow(colours, mover_is_x, label, ko, others)


def _crop_to_board(data: Dataset, planes: npt.NDArray[Any], label: int | None) -> tuple[npt.NDArray[Any], int | None]:
    """Crop KataGo's planes to the board; return them and the label as a move on that board."""
    height, width = (int(planes[0].any(axis).sum()) for axis in (1, 0))
    y, x = divmod(0 if label in (None, data.layout.pass_label) else label, data.layout.width)
    if not (x < width and y < height):
        raise FormatError(f"{data.path}: the move is not on the board of {width} x {height}")
    if label is not None:
        label = width * height if label == data.layout.pass_label else y * width + x
    return planes[:, :height, :width], label


def _values(values: npt.NDArray[Any]) -> str:
    first = values.reshape(-1)[:_MAX_VALUES].tolist()
    return ", ".join(f"{value:g}" for value in first) + (" ..." if values.size > _MAX_VALUES else "")


def describe_row(path: Path, row: int) -> str:
    """Return one example as a board in text, with its labels and origin."""
    with open_examples(path) as data:
        example = _example(data, row)
    height, width = example.colours.shape
    board = Board(width, height)
    board.setup(*(np.flatnonzero(example.colours == c).tolist() for c in (BLACK, WHITE)))
    count = counted(int(np.count_nonzero(example.colours)), "stone")
    plays = "" if example.label is None else f" and plays {to_gtp(example.label, width, height)}"
    mover = f"X is to move{plays}" if example.mover_is_x else f"X is black; the next move is{plays[10:]}"
    lines = [*str(board).splitlines(), f"row {row}: {mover}; {count}"]
    if example.ko:
        lines.append("ko plane: " + ", ".join(to_gtp(p, width, height) for p in example.ko))
    return join_lines([*lines, *example.others, *_origin_line(path, row)])


def _origin_line(path: Path, row: int) -> list[str]:
    manifest = read_manifest(path)
    if manifest is None:
        return []
    if row >= manifest.examples:
        raise FormatError(f"{manifest_path(path)} lists {manifest.examples:,} rows, but not row {row}")
    origin = find_origin(manifest, path, row)
    if origin is None:
        return []
    detected = detect_format(path)
    is_dat = detected is not None and detected.is_dat
    game = f"entry {origin.member + 1}" if is_dat else f"row {origin.member}"
    return [f"from {origin.archive}, {game}, move {origin.ply + 1}"]


def row_to_dict(path: Path, row: int) -> dict[str, Any]:
    """Return one example as JSON values."""
    with open_examples(path) as data:
        example = _example(data, row)
    height, width = example.colours.shape
    return {
        "file": str(path),
        "row": row,
        **stones_by_colour(example.colours.reshape(-1), width, height),
        "move": None if example.label is None else to_gtp(example.label, width, height),
        "ko": [to_gtp(point, width, height) for point in example.ko],
        "labels": example.others,
    }


def draw_row(path: Path, row: int, out: Path) -> None:
    """Draw one example: the position, own stones black, and a ring on the next move."""
    with open_examples(path) as data:
        example = _example(data, row)
    height, width = example.colours.shape
    title = f"{path.name}, row {row}"
    if example.label is not None:
        mover = "Black is to move and plays" if example.mover_is_x else "the next move is"
        title += f": {mover} {to_gtp(example.label, width, height)}"
    ring = example.label if example.label is not None and example.label < width * height else None
    save(draw_board(example.colours, title=title, ring=ring, marks=dict.fromkeys(example.ko, "+")), out)

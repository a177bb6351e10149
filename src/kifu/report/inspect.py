"""Descriptions of data sets for `kifu show`: counts, hashes, checks, and a comparison with the manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.assets import OTHER_FORMATS
from kifu.datasets.dat import Dat
from kifu.datasets.examples import Dataset
from kifu.datasets.formats import Format, detect_format
from kifu.datasets.formats import open as open_dataset
from kifu.datasets.global_inputs import SERVERS
from kifu.datasets.manifest import Manifest, manifest_path, origins_path, read_manifest
from kifu.datasets.tokens import FORMAT as TOKENS_FORMAT
from kifu.datasets.tokens import METADATA, Tokenizer, open_tokens
from kifu.errors import FormatError, join_lines, reading
from kifu.io import hash_file, hash_md5, open_regular
from kifu.katago.checkpoint import read_network
from kifu.katago.net_file import Block, Bottleneck
from kifu.katago.net_onnx import INFO_PREFIX, parse_kata_onnx, read_kata_entries
from kifu.katago.npz import LAYOUT, POINTS, SIDE, KataNpz, KataRows, game_hashes
from kifu.planes.registry import find_plane_set
from kifu.point import to_gtp
from kifu.text import counted, format_counts, format_games

_BLOCK_NAMES = {
    "ResidualLayers": "residual", "Pooling": "global pooling", "Attention": "attention", "FeedForward": "feed-forward",
    "Bottleneck": "nested bottleneck",
}  # fmt: skip
"""Names of the blocks of KataGo's networks, by class."""

_KATAGO_ROWS = 1024
_MAX_JSON_BYTES = 1 << 16
_MOVES_SHOWN = 5

_WEIGHTS = {
    "rows": 25, "move": 26, "next move": 28, "score and ownership": 27, "lead": 29, "later boards": 33, "scoring": 34,
}  # fmt: skip
"""Columns of globalTargetsNC with weights."""

_COMPLEMENTS = {"intermediate values": 24, "result": 35}
"""Columns with 1 - weight."""

_DAT_ROWS = 256
"""Examples at a time; their planes fit into a cache."""

_ROWS = 1 << 14

_TOKEN_GAMES = 8192
"""Games of a tokens@1 directory that are checked at a time."""

_TOKENS_SHOWN, _VALUES_SHOWN = 32, 5
"""Tokens of a game, and values of a field, of a tokens@1 directory that are shown."""


def describe_data_set(path: Path) -> str:
    """Return header, counts and checks of a data set as text."""
    detected = detect_format(path)
    return join_lines(inspect_dat(path) if detected is None or detected.is_dat else inspect_examples(path))


def _manifest_line(manifest: Manifest | None) -> str:
    if manifest is None:
        return "  manifest    none"
    return (
        f"  manifest    recipe {manifest.recipe.get('name')}, set {manifest.set}, kifu {manifest.kifu}; "
        f"{format_games(manifest.read, manifest.kept, manifest.drops, manifest.elsewhere)}; its hashes match"
    )


def inspect_dat(path: Path) -> list[str]:
    """Read a whole dat1 or dat2 file, once per hash and once for its planes, and return lines of text.

    Raises FormatError if it is damaged, has stones of several kinds on a point, or differs from its manifest.
    """
    with Dat(path) as dat:
        labels = np.zeros(361, np.int64)
        stones = shared = with_ko = 0
        for start in range(0, len(dat), _DAT_ROWS):
            planes, moves = dat[start : start + _DAT_ROWS]
            occupied = int(np.count_nonzero(np.bitwise_or.reduce(planes[:, :6], axis=1)))
            stones += occupied
            shared += int(np.count_nonzero(planes[:, :6])) - occupied
            with_ko += int(planes[:, 6].any(axis=(1, 2)).sum())
            labels += np.bincount(moves, minlength=361)
    n = max(len(dat), 1)
    md5, blake3 = _hashes(path)
    problems, manifest = [], None
    if shared:
        problems.append(
            f"{shared:,} stones are in more than one of the planes 0 to 5, "
            "as in dat2 files that the kgsgo program made before December 2015"
        )
    try:
        manifest = read_manifest(path)
    except FormatError as error:
        problems.append(str(error))
    if manifest is not None:
        problems += _contradictions(manifest, dat, blake3)
    if problems:
        raise FormatError(f"{path}: " + "; ".join(problems))
    plane_set = find_plane_set(dat.format.plane_set)
    joined = f" in {dat.segments} joined files" if dat.segments > 1 else ""
    return [
        f"{path}: {dat.format.name}, {dat.format.title}",
        f"  examples    {len(dat):,}{joined}",
        f"  bytes       {dat.bytes:,}",
        f"  planes      {plane_set.name}, row 0 is the {plane_set.first_row} of the board",
        f"  stones      {stones / n:.1f} on average; {with_ko / n:.2%} of the examples have a ko",
        f"  labels      {np.count_nonzero(labels)} of 361 points",
        f"  md5         {md5}",
        f"  blake3      {blake3}",
        "  marks       all valid",
        _manifest_line(manifest),
    ]


def _contradictions(manifest: Manifest, dat: Dat, blake3: str) -> list[str]:
    facts = {"format": dat.format.name, "examples": len(dat), "bytes": dat.bytes, "blake3": blake3}
    name, origins = manifest_path(dat.path).name, origins_path(dat.path)
    lines = [
        f"{name} lists {key} {str(getattr(manifest, key))[:80]}; the file has {fact}"
        for key, fact in facts.items()
        if getattr(manifest, key) != fact
    ]
    if manifest.origins is not None and (not origins.is_file() or hash_file(origins) != manifest.origins.blake3):
        lines.append(f"{origins.name} is missing, or its hash differs from the one in {name}")
    return lines


def _hashes(path: Path) -> tuple[str, str]:
    with reading(path):
        return hash_md5(path), hash_file(path)


def inspect_examples(path: Path) -> list[str]:
    """Read every row of a data set of examples, and return counts and checks as lines of text.

    Raises FormatError if it is damaged, or its files differ from those that its manifest lists.
    """
    format = detect_format(path)
    if format is None:
        raise FormatError(f"{path} is not a data set")
    with open_dataset(path) as data:
        lines = _inspect_katago(format, data) if isinstance(data, KataNpz) else _dataset_lines(format, data)
        return [*lines, *_manifest_lines(path, format.name, len(data))]


def _dataset_lines(format: Format, data: Dataset) -> list[str]:
    layout = data.layout
    games = np.empty(0, np.uint64)
    for batch in data.batches(_ROWS):
        games = np.union1d(games, batch.game)
    planes, height, width = layout.shape
    padding = f", {layout.rim} around the board" if layout.rim else ""
    return [
        f"{data.path}: {format.name}, {format.title}",
        f"  examples    {len(data):,}" + (f" of {len(games):,} games" if format.has_provenance else ""),
        f"  planes      {layout.plane_set}: {planes} of {width} x {height}{padding}, row 0 is the {layout.first_row}",
        *(
            f"  {'' if k else 'labels':<11} {label.name}, {label.dtype}{''.join(f' x {n}' for n in label.shape[:1])}: "
            f"{label.meaning[:200]}"
            for k, label in enumerate(layout.labels)
        ),
    ]


def _manifest_lines(path: Path, format: str, examples: int) -> list[str]:
    """Compare a data set with its manifest and summarize the manifest. Raises FormatError if they differ."""
    manifest = read_manifest(path)
    if manifest is None:
        return [_manifest_line(None)]
    name = manifest_path(path).name
    if (manifest.format, manifest.examples) != (format, examples):
        raise FormatError(
            f"{name} lists {manifest.examples:,} examples in {manifest.format}; {path} has {examples:,} in {format}"
        )
    for found, file in manifest.files_at(path):
        if not found.is_file() or hash_file(found) != file.blake3:
            raise FormatError(f"{path}: the hash of {file.file} differs from the one in {name}")
    return [f"  bytes       {manifest.bytes:,}", _manifest_line(manifest)]


def _inspect_katago(format: Format, data: KataNpz) -> list[str]:
    """Check all training rows and return a summary as lines of text.

    Raises FormatError for a damaged file, or the first row that train.py could not use or that contradicts itself.
    """
    games = np.empty((0, 2), np.uint64)
    boards: Counter[str] = Counter()
    results = np.zeros(4, np.int64)
    weights = np.zeros(len(_WEIGHTS) + len(_COMPLEMENTS))
    for file in data.files:
        _check_json(file.path, file.rows)
    for start in range(0, len(data), _KATAGO_ROWS):
        rows = data.rows(start, min(start + _KATAGO_ROWS, len(data)))
        for problem, wrong in _problems(rows):
            if wrong.any():
                raise FormatError(f"{data.path}: row {start + int(np.argmax(wrong))} {problem}")
        games = np.unique(np.concatenate([games, game_hashes(rows.targets)]), axis=0)
        width, height = board_sizes(rows.planes)
        boards.update(f"{w} x {h}" for w, h in zip(width.tolist(), height.tolist()))
        ahead = np.sign(rows.targets[:, 0] - rows.targets[:, 1])[rows.targets[:, 35] < 1]
        results += [np.sum(ahead > 0), np.sum(ahead < 0), np.sum(ahead == 0), rows.size - len(ahead)]
        targets = rows.targets.astype(np.float64)
        weights += [*targets[:, [*_WEIGHTS.values()]].sum(0), *(1 - targets[:, [*_COMPLEMENTS.values()]]).sum(0)]
    known_games = np.count_nonzero(games.any(1))
    means = zip((*_WEIGHTS, *_COMPLEMENTS), (weights / max(len(data), 1)).tolist())
    return [
        f"{data.path}: {format.name}, {format.title}",
        f"  examples    {len(data):,} in {counted(len(data.files), 'file')}"
        + (f" of {known_games:,} games" if known_games else ", games unknown"),
        f"  arrays      {', '.join(each.name for each in data.arrays)}",
        f"  planes      {LAYOUT.plane_set}: {LAYOUT.planes} of {SIDE} x {SIDE}, row 0 is the {LAYOUT.first_row}",
        f"  boards      {format_counts(dict(boards.most_common(5)))}",
        f"  results     {results[0]:,} won by the mover, {results[1]:,} lost, {results[2]:,} neither; "
        f"{results[3]:,} without weight",
        f"  weights     {', '.join(f'{name} {mean:.3g}' for name, mean in means)}, on average",
    ]


def _check_json(path: Path, rows: int) -> None:
    """Check the number of rows in a file's .json, if there is one: train.py reads it."""
    json_path = path.with_suffix(".json")
    try:
        with open_regular(json_path) as file:
            summary = json.loads(file.read(_MAX_JSON_BYTES))
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError):
        summary = None
    if not isinstance(summary, dict) or summary.get("num_rows") != rows:
        raise FormatError(f"{json_path}: num_rows must be {rows:,}, as in {path.name}")


def board_sizes(planes: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the width and height, [N] int64 each, of the boards in packed planes [N, 22, 46]."""
    on_board = np.unpackbits(planes[:, 0], axis=-1, count=POINTS).reshape(-1, SIDE, SIDE)
    return on_board.any(1).sum(1), on_board.any(2).sum(1)


def _problems(rows: KataRows) -> Iterator[tuple[str, Any]]:
    """Yield possible problems of a row, and whether each row has them, [N] bool."""
    policy, targets = rows.policy, rows.targets
    on_board = np.unpackbits(rows.planes[:, 0], axis=-1, count=POINTS).reshape(-1, SIDE, SIDE)
    width, height = (size[:, None, None] for size in board_sizes(rows.planes))
    y, x = np.mgrid[:SIDE, :SIDE]
    yield "has planes with points beyond the board", ((rows.planes[:, :, -1] & 0x7F) != 0).any(1)
    yield "has no valid board", (on_board != ((x < width) & (y < height))).any((1, 2)) | (width[:, 0, 0] < 2)
    yield "has a negative policy target", (policy < 0).any((1, 2))
    yield "has a policy target that sums to 0, by which train.py divides", (policy.sum(2, np.int64) == 0).any(1)
    stones = np.unpackbits(rows.planes[:, 1] | rows.planes[:, 2], axis=-1, count=POINTS) != 0
    taken = stones | (on_board.reshape(-1, POINTS) == 0)
    known = targets[:, 26] > 0
    yield "has a move on a stone or beyond the board", known & ((policy[:, 0, :POINTS] > 0) & taken).any(1)
    weights = np.stack([*targets[:, [*_WEIGHTS.values()]].T, *(1 - targets[:, [*_COMPLEMENTS.values()]]).T], 1)
    yield "has a negative weight", (weights < 0).any(1)
    yield "has results that do not sum to 1", np.abs(targets[:, :3].sum(1) - 1) > 1e-3
    yield "has a score distribution that does not sum to 100", rows.scores.sum(1, np.int64) != 100
    yield "has a board value outside -1 to 1", (np.abs(rows.values[:, :4].astype(np.int64)) > 1).any((1, 2, 3))


def describe_kata_row(rows: KataRows) -> list[str]:
    """Describe a single row, except for the stones on its board, in lines of text."""
    targets = rows.targets[0]
    (width,), (height,) = (size.tolist() for size in board_sizes(rows.planes))
    moves = [_moves(rows.policy[0, k], width, height, targets[column]) for k, column in enumerate((26, 28))]
    won = ("the mover wins", "the mover loses", "no result")[int(targets[:3].argmax())]
    if targets[0] == targets[1]:
        won = "a draw"
    without = [name for name, column in _WEIGHTS.items() if targets[column] == 0]
    without += [name for name, column in _COMPLEMENTS.items() if targets[column] == 1]
    lines = [
        f"move: {moves[0]}; next move: {moves[1]}",
        f"result: {won}, by {targets[3]:+g} (weight {1 - targets[35]:g})",
        f"without weight: {', '.join(without) or 'nothing'}",
        f"rules: {_rules(rows.inputs[0])}; the mover's komi and bonus {targets[47]:+g}, later {targets[61]:+g}",
        f"weight of the row {targets[25]:g}; handicap stones {targets[54]:g}",
    ]
    return lines + ([] if rows.meta is None else [f"players: {_players(rows.meta[0])}"])


def _moves(counts: npt.NDArray[np.int16], width: int, height: int, weight: Any) -> str:
    if weight == 0:
        return "unknown"
    best = np.argsort(-counts.astype(np.int64), kind="stable")[: min(np.count_nonzero(counts), _MOVES_SHOWN)]
    total = int(counts.sum(dtype=np.int64))
    named = []
    for point in best.tolist():
        y, x = divmod(point, SIDE)
        name = "pass" if point == POINTS else to_gtp(y * width + x, width, height)
        named.append(name if counts[point] == total else f"{name} {counts[point] / total:.0%}")
    return ", ".join(named) + (" ..." if np.count_nonzero(counts) > len(best) else "")


def _rules(inputs: npt.NDArray[np.float32]) -> str:
    ko = "simple ko" if not inputs[6] else "situational superko" if inputs[7] < 0 else "positional superko"
    tax = "taxes all groups" if inputs[11] else "no points in seki" if inputs[10] else "no tax"
    scoring = "territory" if inputs[9] else "area"
    options = (("suicide", inputs[8]), ("a button", inputs[17]), ("encore", inputs[12]))
    return ", ".join([ko, scoring, tax, *(name for name, value in options if value)])


def _players(meta: npt.NDArray[np.float32]) -> str:
    sides = []
    for k, side in enumerate(("the mover", "the opponent")):
        level = int(meta[6 + 34 * k : 40 + 34 * k].sum())
        rank = "unranked" if meta[2 + k] else "rank unknown" if meta[4 + k] or not level else _rank(level)
        sides.append(f"{side} {rank}" + ("" if meta[k] else ", a program"))
    kinds = ("unknown", "none", "absolute", "simple", "byo-yomi", "Canadian", "Fischer")
    time = kinds[int(meta[75:82].argmax())]
    sources = SERVERS
    source = int(meta[151:167].argmax())
    return f"{'; '.join(sides)}; time limit {time}; from {sources[source] if source < len(sources) else source}"


def _rank(level: int) -> str:
    """Return a rank by its level: 1 for 9 dan and professionals, 10 for 1 kyu."""
    return f"{10 - level} dan" if level < 10 else f"{level - 9} kyu"


def inspect_tokens(path: Path) -> list[str]:
    """Read all games of a tokens@1 directory, and return counts, checks and the beginning of a game as lines of text.

    Raises FormatError if it is damaged, or its files differ from those that its manifest lists.
    """
    data = open_tokens(path)
    tokenizer, names = data.tokenizer, data.tokenizer.names
    counts = np.zeros(len(names), np.int64)
    for first in range(0, len(data), _TOKEN_GAMES):
        part = data.part(first, min(first + _TOKEN_GAMES, len(data)))
        found = np.bincount(part.tokens, minlength=len(names))
        if len(found) > len(names):
            raise FormatError(f"{path / 'tokens.npy'}: tokens must be below {len(names)}, got {len(found) - 1}")
        part.decode()
        counts += found
    beginning = []
    if len(data):
        shown = ", ".join(names[token] for token in data[0][:_TOKENS_SHOWN].tolist())
        beginning = [f"  game 0      {shown}{' ...' if len(data[0]) > _TOKENS_SHOWN else ''}"]
    padded = ", and smaller square boards in its upper left corner" if tokenizer.pad else ""
    return [
        f"{path}: {TOKENS_FORMAT}, {OTHER_FORMATS[TOKENS_FORMAT]}",
        f"  games       {len(data):,}",
        f"  tokens      {len(data.tokens):,}; {counts[: tokenizer.points + 1].sum():,} of them points and passes",
        f"  board       {tokenizer.width}x{tokenizer.height}{padded}",
        f"  vocabulary  {len(names)}",
        *_metadata_lines(tokenizer, counts),
        *beginning,
        *_manifest_lines(path, TOKENS_FORMAT, len(data)),
    ]


def _metadata_lines(tokenizer: Tokenizer, counts: npt.NDArray[np.int64]) -> Iterator[str]:
    """Yield the most common values of each field, with their numbers of games; counts: [V], by token."""
    for name in tokenizer.fields:
        first, values = tokenizer.first_tokens[name], METADATA[name].values
        found = Counter(dict(zip(values, counts[first : first + len(values)].tolist())))
        yield f"  {name:<11} " + ", ".join(f"{value}: {n:,}" for value, n in found.most_common(_VALUES_SHOWN) if n)


def describe_kata_net(path: Path) -> str:
    """Return the sizes, blocks and inputs of a network of KataGo as lines of text. Raises FormatError."""
    if path.suffix == ".onnx":
        return _describe_kata_onnx(path)
    net = read_network(path)
    trunk, policies = net.trunk, net.policy.policies
    norm = "batch norm" if trunk.rms_norm is None else "RMS norm"
    human = "human-style net" if net.is_human else "no human-style net"
    heads = f"{policies} {'policy' if policies == 1 else 'policies'}, result, score, lead, ownership"
    lines = [
        f"{path}: {net.name}, network of KataGo, format version {net.version}, {human}",
        f"  blocks      {len(trunk.blocks)}: {_block_names(trunk.blocks)}",
        f"  channels    {trunk.channels}; {norm} before the heads",
        f"  parameters  {net.parameters:,}",
        "  inputs      22 planes (katago22@1), 19 numbers" + (", 192 of metadata (ranks)" if net.is_human else ""),
        f"  outputs     {heads}",
        "  boards      2 x 2 to 19 x 19",
        f"  bytes       {path.stat().st_size:,}",
        f"  blake3      {hash_file(path)}",
    ]
    return join_lines(lines)


def _describe_kata_onnx(path: Path) -> str:
    entries = read_kata_entries(path)
    net = parse_kata_onnx(entries)
    if net is None:
        raise FormatError(f"{path} is not a network of KataGo")
    human = "human-style net" if net.is_human else "no human-style net"
    return join_lines([
        f"{path}: {net.name}, network of KataGo in ONNX, format version {net.version}, {human}",
        f"  parameters  {entries.get(INFO_PREFIX + 'arch.numParameters', 'unknown')}",
        f"  boards      2 x 2 to {net.width} x {net.height}",
        f"  bytes       {path.stat().st_size:,}",
        f"  blake3      {hash_file(path)}",
    ])  # fmt: skip


def _block_names(blocks: Sequence[Block]) -> str:
    """Return the kinds of blocks with their numbers and, for nested ones, those of the blocks inside the first."""
    parts = []
    for kind, number in Counter(type(block).__name__ for block in blocks).items():
        inner = next((block.blocks for block in blocks if isinstance(block, Bottleneck)), [])
        nested = f" ({_block_names(inner)} each)" if kind == "Bottleneck" else ""
        parts.append(f"{number} {_BLOCK_NAMES[kind]}{nested}")
    return ", ".join(parts)

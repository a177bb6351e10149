"""Leak detection: find games and positions that two data sets share. docs/audit.md explains the report.

Three things show that a game of one set is in another: its late positions occur there; both games are linked
(`kifu.corpus.links`), if both sets are catalogues; both were taken from the same entry of the same archive, if both
sets have manifests.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.arrays import Hashes, Indices
from kifu.corpus.catalogue import RowShard, is_catalogue, open_catalogue, read_shard
from kifu.corpus.hashes import lowest, mix_words
from kifu.corpus.links import find_links
from kifu.corpus.positions import PositionHashes, Workspace, hash_positions, new_workspace
from kifu.corpus.schema import GAME_COLUMNS, drop_codes, game_arrays, to_numpy
from kifu.datasets.dat import DAT_LAYOUTS, Dat, read_records
from kifu.datasets.examples import Batch, Layout
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.manifest import manifest_path, read_game_rows, read_manifest
from kifu.datasets.tokens import FORMAT, is_tokens, open_tokens
from kifu.errors import DropReason, FormatError, RecipeError, reading
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.execution.range_sort import Columns, RangeSort
from kifu.go.state import ONE, ZERO, last_point
from kifu.io import open_regular
from kifu.kernel import kernel
from kifu.leaks.report import BANDS, LATE, Audit, AuditedSet, GameLocation, Pair, SharedGame
from kifu.planes.packing import Records
from kifu.progress import Progress, ProgressFactory, silent
from kifu.records.games import GameArrays

_MAX_PLIES = 1000
"""Bound on the moves of a game in the estimate of a catalogue's positions: its n_moves is not trusted."""

_GAME_ROWS = 2048
_EXAMPLE_ROWS = 1 << 13
"""Rows of a catalogue and of a data set that are hashed as one item."""

_SHARD_ROWS = 1 << 19
"""Rows of a data set in one shard."""

RecordIndex = dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""For each archive, by its BLAKE3: the entries that games were taken from and the numbers of these games, [K] each."""

ROWS = 1 << 23
"""Positions compared at a time, at 30 bytes of memory each. The others wait on disk, at 15 bytes each."""

_HASHES = "hashes"
_NO_PAIRS = np.empty(0, np.int64)


@dataclass(frozen=True)
class AuditSet:
    """A set of positions. Its games are numbered from 0, in the order of the set.

    Attributes:
        games: The number of games; None if the file does not record which game a position is from.
        shards: With `read` and `process`, a map whose results are all positions in order, see `Executor.run`.
        records: The records that games were taken from; empty if the file does not name them.
        locate: Returns the locations of games, given by number in ascending order, [K] int64. Raises FormatError.
    """

    path: Path
    kind: str
    games: int | None
    estimated_positions: int
    shards: Sequence[Any]
    read: Callable[[Any], Iterator[Any]]
    process: Callable[[Any], PositionHashes]
    records: RecordIndex = field(default_factory=dict)
    locate: Callable[[Indices], list[GameLocation]] = lambda _: []

    def positions(self, executor: Executor) -> Iterator[PositionHashes]:
        """Yield all positions in order, in blocks. Raises FormatError."""
        return executor.run(self.process, self.shards, self.read)


def _catalogue_set(path: Path) -> AuditSet:
    catalogue, games, positions = open_catalogue(path), 0, 0
    for batch in catalogue.batches(("drop", "n_moves")):
        kept = drop_codes(batch) == DropReason.KEPT
        games += int(np.count_nonzero(kept))
        positions += int(np.clip(to_numpy(batch["n_moves"])[kept], 0, _MAX_PLIES).sum())

    def locate(games: Indices) -> list[GameLocation]:
        locations: list[GameLocation] = []
        first = 0
        for batch in catalogue.batches(("archive", "entry", "index")):
            lo, hi = np.searchsorted(games, (first, first + len(batch)))
            if lo < hi:
                rows = games[lo:hi]
                taken = batch.take(rows - first)
                fields = zip(taken["archive"].to_pylist(), to_numpy(taken["entry"]), to_numpy(taken["index"]), rows)
                locations += [GameLocation(archive, int(entry), int(i), int(row)) for archive, entry, i, row in fields]
            first += len(batch)
        return locations

    return AuditSet(path, "catalogue", games, positions, catalogue.shards(), _read_games, _hash_games, locate=locate)


def _dat_set(path: Path) -> AuditSet:
    """Return the rows of a dat1 or dat2 file. Its manifest, if there is one, lists the game of each row."""
    data, manifest = Dat(path), read_manifest(path)
    kind, rows, read = data.format.name, len(data), partial(_read_dat, path, data.format.name, tuple(data.spans))
    if manifest is None:
        return AuditSet(path, kind, None, rows, _row_shards(rows), read, partial(_hash_dat, kind, None))
    if (manifest.format, manifest.examples, manifest.bytes) != (kind, rows, data.bytes):
        raise FormatError(f"{manifest_path(path)} describes another file than {path}")
    archives, games = manifest.archives, read_game_rows(manifest, path)
    stops = np.cumsum(games.rows, dtype=np.int64)
    parts: dict[str, list[Indices]] = {}
    first = 0
    for archive in archives:
        parts.setdefault(archive.blake3, []).append(first + np.flatnonzero(games.rows[first : first + archive.games]))
        first += archive.games
    numbers = {key: np.concatenate(each) for key, each in parts.items()}
    records = {key: (games.member[each].astype(np.int64), each) for key, each in numbers.items()}

    def locate(wanted: Indices) -> list[GameLocation]:
        columns = (games.archive, games.member, stops - games.rows)
        fields = zip(*(column[wanted].tolist() for column in columns))
        return [GameLocation(archives[archive].archive, entry, 0, row) for archive, entry, row in fields]

    process = partial(_hash_dat, kind, stops)
    return AuditSet(path, kind, len(stops), rows, _row_shards(rows), read, process, records=records, locate=locate)


def _examples_set(path: Path, kind: str, has_games: bool) -> AuditSet:
    """Return the rows of any other data set whose planes show the stones of both sides; its games are unknown.

    has_games: for KataGo's rows, which carry a hash of their game. Two sets with a hash in common share its game.
    """
    examples = open_examples(path)
    layout, rows = examples.layout, len(examples)
    own, opp = (tuple(k for k, owner in layout.stone_planes() if owner == side) for side in ("own", "opp"))
    if not (own and opp):
        raise FormatError(
            f"{path}: planes of {layout.plane_set} do not show the stones of each side, which an audit needs"
        )
    ids, first = _first_rows(examples.batches(_EXAMPLE_ROWS)) if has_games else (np.empty(0, np.uint64), _NO_PAIRS)
    ids, first = ids[ids != 0], first[ids != 0]
    order = np.argsort(first)
    numbers = np.empty(len(order), np.int32)  # games are numbered by their first rows
    numbers[order] = np.arange(len(order))
    first = first[order]
    return AuditSet(
        path, kind, len(order) if len(order) or (has_games and not rows) else None, rows, _row_shards(rows),
        read=partial(_read_examples, path), process=partial(_hash_examples, layout, own, opp, ids, numbers),
        records={"game hash": (ids.view(np.int64), numbers.astype(np.int64))} if len(order) else {},
        locate=lambda games: [GameLocation(path.name, game, 0, int(first[game])) for game in games.tolist()],
    )  # fmt: skip


def _token_set(path: Path) -> AuditSet:
    """Return the games of a data set of tokens, replayed. Two sets with a game's `id` in common share it."""
    data = open_tokens(path)
    return AuditSet(
        path, FORMAT, len(data), len(data.tokens), _row_shards(len(data)), read=partial(_read_tokens, path),
        process=_hash_games, records={"game id": (data.games.view(np.int64), np.arange(len(data)))},
        locate=lambda games: [GameLocation(path.name, game, 0, game) for game in games.tolist()],
    )  # fmt: skip


def _first_rows(batches: Iterable[Batch]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return the distinct games of rows, [K] uint64 in ascending order, and the first row of each, [K].

    New games are merged once they are as many as the known ones, so that all are sorted only a few times.
    """
    games, first = np.empty(0, np.uint64), np.empty(0, np.int64)
    pending: list[tuple[Hashes, npt.NDArray[np.int64]]] = []
    n_pending = row = 0
    for batch in batches:
        ids, at = np.unique(batch.game, return_index=True)
        pending.append((ids, row + at))
        n_pending, row = n_pending + len(ids), row + len(batch)
        if n_pending > len(games):
            games, first = _merge_games([(games, first), *pending])
            pending, n_pending = [], 0
    return _merge_games([(games, first), *pending])


def _merge_games(parts: Sequence[tuple[Hashes, npt.NDArray[np.int64]]]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return each game once, in ascending order, with its first row."""
    games, kept = np.unique(np.concatenate([games for games, _ in parts]), return_index=True)
    return games, np.concatenate([first for _, first in parts])[kept]


def open_set(path: str | os.PathLike[str]) -> AuditSet:
    """Open a catalogue or data set for an audit. Raises FormatError if it is damaged or its format is unknown."""
    path = Path(path)
    if is_tokens(path):
        return _token_set(path)
    written = detect_format(path)
    if written is not None:
        if written.is_dat:
            return _dat_set(path)
        return _examples_set(path, written.name, written.recipe_kind == "katago")
    if is_catalogue(path):
        return _catalogue_set(path)
    with reading(path), open_regular(path) as file:
        head = file.read(8)
    magics = ", ".join(map(repr, (b"PAR1", b"GO", b"END", b"mlv2")))
    raise FormatError(f"{path} begins with {head!r}; a catalogue or data set begins with one of {magics}")


_GameItem: TypeAlias = tuple[int, GameArrays]
"""Games that are numbered by row, and the number of the first one."""


def _read_games(shard: RowShard) -> Iterator[_GameItem]:
    first = shard.row
    for batch in read_shard(shard, GAME_COLUMNS, _GAME_ROWS):
        yield first, game_arrays(batch)
        first += len(batch)


def _hash_games(item: _GameItem) -> PositionHashes:
    first, games = item
    hashed = hash_positions(games)
    return PositionHashes(hashed.hashes, hashed.stones, hashed.game + np.int32(first))


class _RowRange(NamedTuple):
    """Rows `first` to `stop` - 1 of a data set."""

    first: int
    stop: int

    def blocks(self, size: int) -> Iterator[_RowRange]:
        for first in range(self.first, self.stop, size):
            yield _RowRange(first, min(first + size, self.stop))


def _row_shards(rows: int) -> list[_RowRange]:
    return list(_RowRange(0, rows).blocks(_SHARD_ROWS))


def _read_dat(
    path: Path, kind: str, spans: tuple[tuple[int, int], ...], shard: _RowRange
) -> Iterator[tuple[_RowRange, Records]]:
    """Yield rows of a dat1 or dat2 file. spans: See `Dat.spans`."""
    first = 0
    for offset, rows in spans:
        wanted = _RowRange(max(shard.first, first), min(shard.stop, first + rows))
        for block in wanted.blocks(_EXAMPLE_ROWS):
            yield block, read_records(path, kind, offset, block.first - first, block.stop - first)
        first += rows


def _hash_dat(kind: str, stops: npt.NDArray[np.int64] | None, item: tuple[_RowRange, Records]) -> PositionHashes:
    """Hash rows. stops: [G] int64, the row after the last one of each game; None if games are unknown."""
    block, records = item
    game = np.full(len(records), -1, np.int32)
    if stops is not None:
        game[:] = np.searchsorted(stops, np.arange(block.first, block.stop), side="right")
    return PositionHashes(*hash_records(records, kind), game)


def _read_examples(path: Path, shard: _RowRange) -> Iterator[Batch]:
    with open_examples(path) as examples:
        for block in shard.blocks(_EXAMPLE_ROWS):
            yield examples.read(block.first, block.stop)


def _hash_examples(
    layout: Layout,
    own: tuple[int, ...],
    opp: tuple[int, ...],
    ids: Hashes,
    numbers: npt.NDArray[np.int32],
    batch: Batch,
) -> PositionHashes:
    """Hash rows of another data set, in any orientation, of the games `ids` [G], ascending, with `numbers` [G] int32.

    own: the planes with stones of the side to move.
    """
    rim, width, height = layout.rim, layout.width, layout.height
    planes = batch.unpack_planes(layout)[:, :, rim : rim + height, rim : rim + width] != 0
    hashed = hash_boards(planes[:, own].any(1), planes[:, opp].any(1))
    game = np.full(len(batch), -1, np.int32)
    if len(ids):
        at = np.minimum(np.searchsorted(ids, batch.game), len(ids) - 1)
        game = np.where(ids[at] == batch.game, numbers[at], np.int32(-1))
    return PositionHashes(*hashed, game)


def _read_tokens(path: Path, shard: _RowRange) -> Iterator[_GameItem]:
    data = open_tokens(path)
    for block in shard.blocks(_GAME_ROWS):
        yield block.first, data.part(*block).decode()


@kernel
def _hash_stones(ws: Workspace, sides: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of the bit sets of own and other stones, sides [2, n, W] uint64."""
    for row in range(sides.shape[1]):
        for k in range(8):
            ws.hashes[0, k] = ws.empty[k]
        count = 0
        for side in range(2):
            for w in range(sides.shape[2]):
                word = sides[side, row, w]
                while word != ZERO:
                    p = last_point(w, word)
                    word &= word - ONE
                    count += 1
                    for k in range(8):
                        ws.hashes[0, k] ^= ws.keys[side, p, k]
        hashes[row], stones[row] = lowest(ws.hashes[0]), count


def hash_boards(own: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> tuple[Hashes, npt.NDArray[np.uint16]]:
    """Hash stones [n, H, W]; a point of both is own. Returns hashes [n] uint64 and numbers of stones [n] uint16."""
    n, height, width = own.shape
    hashes, stones = np.empty(n, np.uint64), np.empty(n, np.uint16)
    packed = np.packbits(np.stack([own, other & ~own]).reshape(2, n, height * width), axis=2)
    sides = np.pad(packed, ((0, 0), (0, 0), (0, -packed.shape[2] % 8))).view(">u8").astype(np.uint64)
    _hash_stones(new_workspace(width, height), sides, hashes, stones)
    return hashes, stones


def hash_records(records: Records, kind: str) -> tuple[Hashes, npt.NDArray[np.uint16]]:
    """Hash the positions of dat1@1 or dat2@1 records, as `hash_boards`: planes 0 to 2 are own stones, 3 to 5 others."""
    layout = DAT_LAYOUTS[kind]
    planes = np.empty((len(records), layout.planes, 19, 19), np.uint8)
    layout.unpack(records, planes, np.empty(len(records), np.int32))
    own, other = ((planes[:, k] | planes[:, k + 1] | planes[:, k + 2]).view(np.bool_) for k in (0, 3))
    return hash_boards(own, other)


def audit(
    files: Iterable[str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
    rows: int = ROWS,
) -> Audit:
    """Compare every two of these files, catalogues and data sets in any mix.

    Raises:
        RecipeError: For fewer than two files.
        FormatError: A file is damaged or of an unknown format.
    """
    paths = [Path(file) for file in files]
    if len(paths) < 2:
        raise RecipeError(f"an audit needs at least 2 files, got {len(paths)}")
    sets = [open_set(path) for path in paths]
    with make_executor(engine, jobs) as executor, progress("comparing positions", None, "positions") as bar:
        positions, overlaps = find_overlaps(sets, executor, bar, rows)
    clusters = _cluster_pairs(sets)
    pairs = tuple(
        _make_pair(sets[a], sets[b], overlap, clusters.get((a, b), _NO_PAIRS), _record_pairs(sets[a], sets[b]))
        for (a, b), overlap in overlaps.items()
    )
    audited = tuple(AuditedSet(str(each.path), each.kind, each.games, n) for each, n in zip(sets, positions))
    return Audit(leaks=any(pair.leaks for pair in pairs), sets=audited, pairs=pairs)


def _make_pair(first: AuditSet, second: AuditSet, overlap: Overlap, clusters: Indices, records: Indices) -> Pair:
    """Combine the overlap of two sets with the pairs of games (`pair_key`) found by cluster and by record."""
    keys = np.unique(np.concatenate([overlap.pairs, clusters, records]))
    keys = keys[keys != 0]  # 0: positions of games that are unknown in both sets
    late = np.zeros(len(keys), np.int64)
    late[np.searchsorted(keys, overlap.pairs[overlap.pairs != 0])] = overlap.shared.max(0)[overlap.pairs != 0]
    games = (keys >> 32) - 1, (keys & 0xFFFFFFFF) - 1  # as `pair_key` packs them
    located = []
    for each, numbers in zip((first, second), games):
        known = np.unique(numbers[numbers >= 0])
        located.append({-1: None} | dict(zip(known.tolist(), each.locate(known))))
    rows = zip(*(numbers.tolist() for numbers in games), late.tolist(), np.isin(keys, clusters), np.isin(keys, records))
    return Pair(
        first=str(first.path), second=str(second.path), distinct=tuple(overlap.distinct.tolist()),
        first_rows=tuple(overlap.rows[0].tolist()), second_rows=tuple(overlap.rows[1].tolist()),
        first_games=len(located[0]) - 1, second_games=len(located[1]) - 1,
        games=tuple(SharedGame(located[0][a], located[1][b], n, bool(c), bool(r)) for a, b, n, c, r in rows),
    )  # fmt: skip


def _cluster_pairs(sets: Sequence[AuditSet]) -> dict[tuple[int, int], Indices]:
    """Return the pairs of linked games of two catalogues: each game with the first such game of the other."""
    numbers = [number for number, each in enumerate(sets) if each.kind == "catalogue"]
    if len(numbers) < 2:
        return {}
    paths = [sets[number].path for number in numbers]
    bounds = np.cumsum([0, *(open_catalogue(path).rows for path in paths)])
    links = find_links(paths)
    pairs = {}
    for (a, first), (b, second) in combinations(enumerate(numbers), 2):
        ours, theirs = (links.first[bounds[k] : bounds[k + 1]] for k in (a, b))
        keys = [pair_key(*_first_partners(ours, theirs)), pair_key(*_first_partners(theirs, ours)[::-1])]
        at = np.searchsorted(bounds, links.short, side="right") - 1
        for x, y in ((0, 1), (1, 0)):  # the short game is in the first set, or in the second
            games = links.short[(at[:, x] == a) & (at[:, y] == b)]
            keys.append(pair_key(games[:, x] - bounds[a], games[:, y] - bounds[b]))
        pairs[first, second] = np.unique(np.concatenate(keys))
    return pairs


def _first_partners(ours: Indices, theirs: Indices) -> tuple[Indices, Indices]:
    """Return the rows of our games with a game of their cluster among theirs, and the first such rows of theirs."""
    clusters, row = np.unique(theirs, return_index=True)
    shared = np.flatnonzero(np.isin(ours, clusters))
    return shared, row[np.searchsorted(clusters, ours[shared])]


def _record_pairs(first: AuditSet, second: AuditSet) -> Indices:
    """Return the pairs of games that were taken from the same entry of the same archive."""
    theirs = second.records
    pairs = [_NO_PAIRS]
    for archive, (entry, game) in first.records.items():
        if archive in theirs:
            other_entry, other_game = theirs[archive]
            _, at, other_at = np.intersect1d(entry, other_entry, return_indices=True)
            pairs.append(pair_key(game[at], other_game[other_at]))
    return np.concatenate(pairs)


@dataclass(slots=True)
class Overlap:
    """The positions that two sets, A and B, share.

    Attributes:
        distinct: [6] by `BANDS`, distinct positions in both sets.
        rows: [2, 6], positions of A in B and of B in A, with repetitions.
        pairs: [K] in ascending order, pairs of games (`pair_key`) that share late positions. If several games of B
            have a position, only the first of them is paired with the game of A, and vice versa.
        shared: [2, K], late positions of the game of A in B, and vice versa.
    """

    distinct: Indices = field(default_factory=lambda: np.zeros(len(BANDS), np.int64))
    rows: Indices = field(default_factory=lambda: np.zeros((2, len(BANDS)), np.int64))
    pairs: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    shared: Indices = field(default_factory=lambda: np.empty((2, 0), np.int64))


def pair_key(a: Indices, b: Indices) -> Indices:
    """Pack two game numbers, -1 if unknown, into one integer."""
    return a + 1 << 32 | b + 1


def find_overlaps(
    sets: Sequence[AuditSet], executor: Executor, bar: Progress, rows: int = ROWS
) -> tuple[list[int], dict[tuple[int, int], Overlap]]:
    """Compare the positions of sets in bounded memory.

    Args:
        rows: The number of positions held in memory. If there are more, they are bucketed by hash in the temporary
            directory. A single position that occurs more often than `rows` still takes its memory.

    Returns:
        The number of positions of each set, and the overlap of each pair of sets, by their indices.

    Raises:
        OutputError: The temporary directory is full.
    """
    totals = [0] * len(sets)
    overlaps = {pair: Overlap() for pair in combinations(range(len(sets)), 2)}
    estimate = sum(each.estimated_positions for each in sets)
    with RangeSort(_HASHES, rows, Path(tempfile.gettempdir()), estimate) as buckets:
        for number, each in enumerate(sets):
            for block in each.positions(executor):
                buckets.add(_columns(block, number))
                totals[number] += len(block)
                bar.advance(len(block))
        for columns in buckets:
            _compare(_by_set(columns, len(sets)), overlaps)
    return totals, overlaps


def _columns(block: PositionHashes, number: int) -> Columns:
    """Return the columns to bucket by, mixed: `position@1` is a minimum of eight hashes and so mostly low."""
    band = np.searchsorted(BANDS[1:], block.stones, side="right").astype(np.uint8)
    set_index = np.full(len(block), number, np.int16)
    return {_HASHES: mix_words(block.hashes), "band": band, "game": block.game, "set": set_index}


def _by_set(columns: Columns, sets: int) -> list[Columns]:
    """Divide a bucket by set. Empties `columns`, so that each column is in memory once."""
    masks = [columns["set"] == number for number in range(sets)]
    parts: list[Columns] = [{} for _ in masks]
    for name in (_HASHES, "band", "game"):
        values = columns.pop(name)
        for part, mask in zip(parts, masks):
            part[name] = values[mask]
    return parts


def _compare(parts: list[Columns], overlaps: dict[tuple[int, int], Overlap]) -> None:
    merged = np.concatenate([_distinct(part[_HASHES].copy()) for part in parts])
    merged.sort()
    common = _distinct(merged[1:][merged[1:] == merged[:-1]])
    del merged
    shared_rows = [_SharedRows.select(part, common) for part in parts]
    for (a, b), overlap in overlaps.items():
        in_both = shared_rows[a].present & shared_rows[b].present
        overlap.distinct += _by_band(shared_rows[a].band_of[in_both])
        for side, (one, other) in enumerate(((shared_rows[a], shared_rows[b]), (shared_rows[b], shared_rows[a]))):
            shared = other.present[one.at]
            overlap.rows[side] += _by_band(one.band[shared])
            late = shared & (one.band >= LATE)
            games = one.game[late].astype(np.int64), other.first[one.at[late]].astype(np.int64)
            _add_pairs(overlap, side, pair_key(games[side], games[1 - side]))


@dataclass(frozen=True, slots=True)
class _SharedRows:
    """The N rows of one set whose hash is one of the C common hashes.

    Attributes:
        at: [N] int64, the index of the common hash of each.
        present: [C] bool, whether each common hash is in this set.
        band_of: [C] uint8, its band.
        first: [C] int32, the first game with it.
    """

    band: npt.NDArray[np.uint8]
    game: npt.NDArray[np.int32]
    at: Indices
    present: npt.NDArray[np.bool_]
    band_of: npt.NDArray[np.uint8]
    first: npt.NDArray[np.int32]

    @classmethod
    def select(cls, part: Columns, common: Hashes) -> _SharedRows:
        index, hit = _find(part[_HASHES], common)
        at, band, game = index[hit], part["band"][hit], part["game"][hit]
        present = np.zeros(len(common), np.bool_)
        band_of = np.zeros(len(common), np.uint8)
        first = np.full(len(common), -1, np.int32)
        present[at], band_of[at] = True, band
        first[at[::-1]] = game[::-1]  # of several values for one index, NumPy keeps the last
        return cls(band, game, at, present, band_of, first)


def _find(hashes: Hashes, common: Hashes) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Return the index of each hash among the sorted common ones, and whether it is one of them."""
    if not len(common):
        return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.bool_)
    order = np.argsort(hashes)  # with millions of common hashes, lookups in random order take six times as long
    index = np.empty(len(hashes), np.int64)
    index[order] = np.minimum(np.searchsorted(common, hashes[order]), len(common) - 1)
    return index, common[index] == hashes


def _distinct(hashes: Hashes) -> Hashes:
    """Return the distinct hashes in ascending order. Sorts its argument; np.unique takes eight times as long."""
    hashes.sort()
    distinct: Hashes = hashes[np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]]
    return distinct


def _by_band(band: npt.NDArray[np.uint8]) -> Indices:
    return np.bincount(band, minlength=len(BANDS))


def _add_pairs(overlap: Overlap, side: int, pairs: Indices) -> None:
    """Count pairs of games, one entry for each shared late position of that side's game."""
    keys, counts = np.unique(pairs, return_counts=True)
    before = overlap.pairs
    overlap.pairs = np.union1d(before, keys)
    shared = np.zeros((2, len(overlap.pairs)), np.int64)
    shared[:, np.searchsorted(overlap.pairs, before)] = overlap.shared
    shared[side, np.searchsorted(overlap.pairs, keys)] += counts
    overlap.shared = shared

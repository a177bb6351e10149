"""Annotation of catalogues: what nets think of each move, as rows of a Parquet file; see docs/annotation.md.

Rows come game by game in the order of the catalogues, then net by net, then move by move. `kifu.learn.scores`
computes them, as it does for `kifu evaluate`.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from kifu.arrays import Indices
from kifu.corpus.catalogue import RowShard, open_catalogue, read_shard
from kifu.corpus.hashes import lowest_of_each, mix_words
from kifu.corpus.parquet import annotation_writer, keep_table
from kifu.corpus.schema import ANNOTATION_SCHEMA, drop_codes, to_numpy
from kifu.corpus.sources import Source, find_sources, hash_sources, require_unchanged
from kifu.datasets.filter import PositionFilter
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Imitated
from kifu.datasets.mmap_games import COLUMNS
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.errors import DropReason, FormatError, RecipeError, first_line
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.io import locked_folder, open_regular, remove_file, work_dir, write_file
from kifu.learn import Precision
from kifu.learn.evaluation import Evaluation
from kifu.learn.inference import Net, common_board, replay_planes, set_server, unique_names
from kifu.learn.net import net_hash, open_net
from kifu.learn.positions import NetPositions
from kifu.learn.scores import MoveScores, score_moves
from kifu.point import WHITE_BIT
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list
from kifu.registry import check_choice
from kifu.text import Report, format_bytes

_COLOURS = ("black", "white")

_SHARD_GAMES = 256
"""Rows of the catalogue that are read together, and kept together if the run is interrupted."""

_ITEM_GAMES = 16
"""Rows of the catalogue that a thread processes at a time."""

_MAX_NETS = 100

AnnotatedGames = tuple[pa.RecordBatch, int, Counter[str]]
"""The rows of some games, their number, and the numbers of those without rows by reason."""

_Points = tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.int8]]
"""`Evaluation.score` of some positions, and 127 times their `Evaluation.ownership`."""


@dataclass(frozen=True, slots=True)
class AnnotateOptions:
    """Selection of games, and settings of the nets.

    Attributes:
        board: Board size of the games, such as "19x19"; None for the size that the first net was trained on.
        precision: "float32" or "bfloat16", see `kifu.learn.results.EvalOptions`.
        rating: Rating (`kifu.Rank.rating`) of the side to move in all positions; None for the player's own.
        opponent: Rating of its opponent in all positions; None for the opponent's own.
        server: See `kifu.learn.inference.Net`.
        per_game: Number of positions of each game, drawn by the hash of its id, to each of which the position after its
            move is added; None for all.
        points: Write lead and ownership, which requires nets that have points.
    """

    board: str | None = None
    symmetries: bool = False
    precision: Precision = "float32"
    rating: float | None = None
    opponent: float | None = None
    server: Imitated | None = None
    per_game: int | None = None
    points: bool = False

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, get_args(Precision))
        if self.per_game is not None and self.per_game < 1:
            raise RecipeError(f"per_game must be >= 1, got {self.per_game}")


@dataclass(slots=True)
class AnnotateReport(Report):
    """Counts of annotated games; `read` == `annotated` + the sum of `skipped`.

    Attributes:
        skipped: Number of games without a row: "dropped" ones, those on another "board", and those without "moves".
    """

    read: int = 0
    annotated: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    bytes: int = 0

    def add(self, rows: pa.RecordBatch, read: int, skipped: Counter[str]) -> None:
        """Count some games."""
        self.read += read
        self.skipped += skipped
        self.annotated += read - skipped.total()
        self.rows += len(rows)

    def __str__(self) -> str:
        names = {"dropped": "dropped by the catalogue", "board": "on other boards", "moves": "without moves"}
        skipped = "".join(f" + {n:,} {names[key]}" for key, n in self.skipped.most_common())
        games = f"{self.read:,} games = {self.annotated:,} annotated{skipped}"
        return f"{games}; {self.rows:,} rows, {format_bytes(self.bytes)}"


@dataclass(frozen=True)
class AnnotateJob:
    """Annotates ranges of rows of catalogues."""

    nets: tuple[str, ...]
    options: AnnotateOptions

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields only: each process opens the nets itself."""
        return AnnotateJob, (self.nets, self.options)

    def describe(self) -> dict[str, Any]:
        """Return nets, options and board as JSON values, for the metadata of the file."""
        nets = [
            {"name": name, "net": net.description, "blake3": net_hash(file)}
            for name, net, file in zip(self.names, self.opened, self.nets)
        ]
        return {"nets": nets, "options": asdict(self.options) | {"board": "{}x{}".format(*self.board)}}

    @cached_property
    def opened(self) -> list[Net]:
        """The nets."""
        options = self.options
        opened = [
            open_net(net, symmetries=options.symmetries, precision=options.precision, threads=1) for net in self.nets
        ]
        return set_server(opened, options.server)

    @cached_property
    def names(self) -> list[str]:
        """The values of column `net`."""
        return unique_names(self.opened)

    @cached_property
    def board(self) -> tuple[int, int]:
        """Width and height of the games."""
        return common_board(self.opened, self.options.board)

    @cached_property
    def _spec(self) -> ExampleSpec:
        """The positions of all moves that can be replayed."""
        return ExampleSpec(replay_planes(self.opened), self.board, labels=("move",), filter=PositionFilter(passes=True))

    def read(self, shard: RowShard) -> Iterator[pa.RecordBatch]:
        """Yield a few rows at a time."""
        for batch in read_shard(shard, tuple(dict.fromkeys((*COLUMNS, *CONDITION_COLUMNS)))):
            for first in range(0, len(batch), _ITEM_GAMES):
                yield batch.slice(first, _ITEM_GAMES)

    def process(self, item: pa.RecordBatch) -> AnnotatedGames:
        """Annotate some games, on one thread, so that figures do not depend on the number of threads."""
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        rows, skipped = self._select(item)
        positions = NetPositions.from_source(CatalogueSource(rows, self._spec), rows)
        skipped["moves"] = len(rows) - len(np.unique(positions.game))
        positions = positions.with_ranks(self.options.rating, self.options.opponent)
        if self.options.per_game is not None:
            positions = _draw(positions, self.options.per_game)
        points: list[_Points] = []

        def advance(found: Evaluation) -> None:
            if "closed" in self.__dict__:
                raise CancelledError
            if self.options.points and found.ownership is not None:
                points.append((found.score, np.rint(127 * found.ownership).astype(np.int8)))

        scores = [score_moves(net, positions, legal=True, jobs=1, advance=advance) for net in self.opened]
        return _to_rows(positions, scores, points, self.names), len(item), skipped

    def close(self) -> None:
        """Let threads that still annotate end after a batch: no further results are needed."""
        self.__dict__["closed"] = True

    def _select(self, item: pa.RecordBatch) -> tuple[pa.RecordBatch, Counter[str]]:
        kept = drop_codes(item) == DropReason.KEPT
        fits = (to_numpy(item["width"]) == self.board[0]) & (to_numpy(item["height"]) == self.board[1])
        return item.filter(pa.array(kept & fits)), Counter(dropped=int((~kept).sum()), board=int((kept & ~fits).sum()))


def _draw(positions: NetPositions, per_game: int) -> NetPositions:
    """Return the positions of each game with the smallest mix(id ^ mix(ply)), and those after their moves."""
    assert positions.rows is not None
    game, ids = positions.game, to_numpy(positions.rows["id"])
    keys = mix_words(ids[game] ^ mix_words(positions.ply.astype(np.uint64)))
    drawn = lowest_of_each(game, keys, per_game)
    drawn[1:] |= drawn[:-1] & (game[1:] == game[:-1])
    return positions.take(np.flatnonzero(drawn))


def _to_rows(
    positions: NetPositions, scores: Sequence[MoveScores], points: Sequence[_Points], names: Sequence[str]
) -> pa.RecordBatch:
    """Return the rows of some games, game by game and net by net; points: by net and batch, none for nulls."""
    count, rows = len(positions), positions.rows
    assert rows is not None
    order = np.argsort(np.tile(positions.game, len(scores)), kind="stable")

    def column(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        return pa.array(values[order], mask=None if missing is None else missing[order])

    def same(values: npt.NDArray[Any]) -> pa.Array:
        return column(np.tile(values, len(scores)))

    joined = MoveScores(*(np.concatenate([getattr(each, f.name) for each in scores]) for f in fields(MoveScores)))
    white = positions.words & WHITE_BIT
    unpredicted, undecided = np.isnan(joined.nll), joined.confidence == 0
    net = np.repeat(np.arange(len(scores), dtype=np.int8), count)
    columns = [
        same(to_numpy(rows["id"])[positions.game]),
        same(positions.ply.astype(np.int32)),
        same(positions.words),
        pa.DictionaryArray.from_arrays(same((white != 0).astype(np.int8)), pa.array(_COLOURS)),
        pa.DictionaryArray.from_arrays(column(net), pa.array(names)),
        column(np.exp(-joined.nll), unpredicted),
        column(-joined.nll, unpredicted),
        column(joined.preferred + np.uint16(1), unpredicted),
        column(joined.entropy, undecided),
        column(joined.best | np.tile(white, len(scores)), undecided),
        column(joined.confidence, undecided),
        column(joined.value, np.isnan(joined.value)),
        *_point_columns(points, order),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ANNOTATION_SCHEMA)


def _point_columns(points: Sequence[_Points], order: Indices) -> list[pa.Array]:
    if not points:
        return [pa.nulls(len(order), kind) for kind in ANNOTATION_SCHEMA.types[-3:]]
    score, ownership = (np.concatenate(each)[order] for each in zip(*points))
    return [*map(pa.array, score.T), pa.array(map(bytes, ownership), pa.binary())]


def annotate(
    nets: Paths,
    catalogues: Paths,
    output: str | os.PathLike[str],
    options: AnnotateOptions = AnnotateOptions(),
    *,
    overwrite: bool = False,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> AnnotateReport:
    """Write what nets think of each move of catalogues: probability, rank, entropy and value, and points if wanted.

    Probabilities are those of legal moves. The bytes do not depend on `jobs` and `engine`. An interrupted run leaves
    its results in a hidden folder beside the output, with which the same call resumes. Memory does not grow with the
    number of games.

    Args:
        overwrite: Replace annotations by other nets or options, or of other catalogues (`kifu.io.keep_output`).
        jobs: See `kifu.execution.executor.make_executor`, also for `engine`.

    Raises:
        RecipeError: An option does not fit the nets.
        SourceError: A catalogue changes meanwhile.
        FormatError: A catalogue or net is damaged, or a net returns NaN.
    """
    path = Path(output)
    job, opened = prepare(nets, catalogues, options)
    torch = sys.modules.get("torch")  # if a net requires it
    threads = torch and torch.get_num_threads()
    report, games = AnnotateReport(), sum(source.catalogue.rows for source in opened if source.catalogue)
    try:
        with make_executor(engine, jobs) as executor, closing(job):
            opened = hash_sources(opened, executor)
            made_from = job.describe() | {"sources": [source.info for source in opened]}
            if about := keep_table(path, overwrite, **made_from):
                skipped, size = Counter(about["skipped"]), path.stat().st_size
                return AnnotateReport(games, about["games"], skipped, about["rows"], size)
            with (
                annotation_writer(path) as writer,
                _part_files(path, made_from) as part,
                progress("annotating", games, "games") as bar,
            ):
                for rows, read, skipped in _annotate_shards(job, list(make_shards(opened)), executor, part):
                    writer.write(rows)
                    report.add(rows, read, skipped)
                    bar.advance(read)
                require_unchanged(opened)
                counts = {"games": report.annotated, "skipped": dict(report.skipped), "rows": report.rows}
                writer.commit({"kifu.about": made_from | counts})
    finally:
        if torch:
            torch.set_num_threads(threads)
    report.bytes = writer.size
    return report


@contextmanager
def _part_files(output: Path, made_from: dict[str, Any]) -> Iterator[Callable[[int], Path]]:
    """Yield a function from the number of a shard to the path of its part file, in a hidden folder beside the output.

    An error leaves the parts, with which the next run resumes. Those that were made from something else, or by another
    version, are removed. Raises OutputError if another process holds the folder.
    """
    folder = work_dir(output)
    key = blake3(json.dumps([version("kifu"), made_from], sort_keys=True).encode()).hexdigest(16)
    with locked_folder(folder, folder):
        for file in folder.glob("*.part"):
            if not file.name.startswith(key):
                remove_file(file)
        try:
            yield lambda number: folder / f"{key}-{number:06}.part"
            for file in folder.glob("*.part"):
                remove_file(file)
        finally:
            with suppress(OSError):  # it has parts, or files of others
                folder.rmdir()


def _annotate_shards(
    job: AnnotateJob, shards: Sequence[RowShard], executor: Executor, part: Callable[[int], Path]
) -> Generator[AnnotatedGames]:
    """Yield the rows of all shards, from their part files where there are any, and write part files of the others."""
    missing = {number: shard for number, shard in enumerate(shards) if not part(number).exists()}
    results = executor.run(job.process, missing.values(), job.read)
    for number, shard in enumerate(shards):
        if number not in missing:
            yield _read_part(part(number))
            continue
        items: list[AnnotatedGames] = []
        for item in results:
            items.append(item)
            if sum(read for _, read, _ in items) == shard.rows:
                _write_part(part(number), items)
                yield item
                break
            yield item


def _write_part(path: Path, items: list[AnnotatedGames]) -> None:
    """Write the rows of a shard as an Arrow stream, after its BLAKE3."""
    counts = sum(read for _, read, _ in items), sum((skipped for *_, skipped in items), Counter[str]())
    sink = pa.BufferOutputStream()
    schema = ANNOTATION_SCHEMA.with_metadata({"counts": json.dumps(counts)})
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(pa.concat_batches([rows for rows, *_ in items]).replace_schema_metadata(schema.metadata))
    data = sink.getvalue()
    write_file(path, blake3(data).digest() + data.to_pybytes())


def _read_part(path: Path) -> AnnotatedGames:
    """Read what `_write_part` wrote. Raises FormatError if it is damaged."""
    try:
        with open_regular(path) as file:
            digest, data = file.read(32), file.read()
        if blake3(data).digest() != digest:
            raise ValueError("its checksum is wrong")
        with pa.ipc.open_stream(data) as stream:
            rows = stream.read_next_batch()
        read, skipped = json.loads(rows.schema.metadata[b"counts"])
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        remove_file(path)
        reason = f"{first_line(error)}; it is removed, and the next run will make it again"
        raise FormatError(f"{path}: damaged: {reason}") from None
    return rows.replace_schema_metadata(None), read, Counter(skipped)


def prepare(nets: Paths, catalogues: Paths, options: AnnotateOptions) -> tuple[AnnotateJob, list[Source]]:
    """Open nets and catalogues, and check that they fit together; arguments and errors as for `annotate`."""
    texts = tuple(str(net) for net in as_list(nets))
    if not 0 < len(texts) <= _MAX_NETS:
        raise RecipeError(f"the number of nets must be within 1 to {_MAX_NETS}, got {len(texts)}")
    for path in as_list(catalogues):
        open_catalogue(path)
    job = AnnotateJob(texts, options)
    common_board(job.opened, options.board)
    for net in job.opened:
        net.check_ranks(options.rating, options.opponent)
        for part in net.parts:
            if (options.rating, options.opponent) != (None, None) and part.encoder.plane_set.needs_ranks:
                raise RecipeError(f"net {part.name} has planes of ranks, which are those recorded and not replaced")
        if options.points and not net.has_points:
            raise RecipeError(f"net {net.name} has no points, which --points requires; networks of KataGo have them")
    return job, find_sources(catalogues)


def make_shards(sources: Iterable[Source]) -> Iterator[RowShard]:
    """Yield all rows of catalogues, in order, a few hundred at a time."""
    for source in sources:
        assert source.catalogue is not None
        for path, rows in source.catalogue.partitions.items():
            for first in range(0, rows, _SHARD_GAMES):
                yield RowShard(str(path), first, min(_SHARD_GAMES, rows - first))

"""Split games into sets: by hash, player, date, archive or list, as the table `split` of a recipe configures.

    [split]
    kind = "hash"
    seed = 7
    sets = { train = 90, validation = 5, test = 5 }

All splits but `hash` look at one game at a time, so that a game's set does not depend on the other games.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from io import StringIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr, field_validator

from kifu.arrays import Hashes
from kifu.assets import config_names
from kifu.config import Line, NamedConfig, StrictModel, check_config, load_config
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.hashes import seeded_hashes, text_hashes
from kifu.corpus.links import Games, find_links, read_rows
from kifu.corpus.parquet import keep_table
from kifu.corpus.schema import drop_codes, map_distinct, to_numpy
from kifu.errors import DropReason, RecipeError, SourceError, join_lines
from kifu.io import read_small, remove_file, require_size
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list
from kifu.text import Report, counted

_FOLDER, _KIND = "splits", "split"

Codes = npt.NDArray[np.int64]
"""[G] int64: the index of each game's set in the order of the split, NO_SET if it is in none."""

NO_SET = -1

T = TypeVar("T")
Sets = Annotated[dict[Line, T], Field(min_length=1, max_length=1000)]
Share = Annotated[float, Field(gt=0, le=1e9)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Day = Annotated[date, Field(strict=False)]  # text in manifests


def split_keys(keys: Hashes, shares: Mapping[str, float], seed: int = 0) -> Codes:
    """Assign keys to sets, a pure function of each key, the seed and the shares in their order.

    With `mix` of `kifu.corpus.hashes`, a key goes to the first set k for which mix(key ^ mix(seed)) is below
    floor(2**64 * (share 0 + ... + share k) / all shares), where shares are exact decimals.

    Args:
        keys: [G] uint64; for games the hashes of their openings, so that equal games, and beginnings of at least
            OPENING_PLIES moves, share a set.
        shares: The size of each set, in any unit.
        seed: 0 to 2**63 - 1.

    Returns:
        [G] int64, the index of each key's set in `shares`.

    Raises:
        RecipeError: There are no shares, or one is not positive.
    """
    if not shares or not all(0 < share < float("inf") for share in shares.values()):
        raise RecipeError(f"shares must be numbers above 0, got {dict(shares)}")
    totals = list(accumulate(Fraction(str(share)) for share in shares.values()))
    bounds = np.array([int(2**64 * total / totals[-1]) for total in totals[:-1]], np.uint64)
    codes: Codes = np.searchsorted(bounds, seeded_hashes(keys, seed), side="right")
    return codes


class _Split(StrictModel):
    columns: ClassVar[tuple[str, ...]]
    """The columns of the catalogue that `codes` needs."""

    sets: Mapping[str, Any]

    @abstractmethod
    def codes(self, batch: pa.RecordBatch) -> Codes:
        """Return the set of each row. batch: rows with at least `columns`."""

    def fit(self, catalogues: Paths) -> Self:
        """Return a split whose sets depend on all games of some catalogues."""
        return self


class Ties(NamedTuple):
    """The games that are assigned by another game, so that clusters stay together.

    Attributes:
        openings: [K] uint64, ascending, the openings of such games.
        keys: [K] uint64, the opening that decides instead.
        unset: [K] bool, whether games with the opening are in no set.
        games: The number of games whose opening is one of these.
        largest: The number of games of the largest cluster.
    """

    openings: Hashes
    keys: Hashes
    unset: npt.NDArray[np.bool_]
    games: int
    largest: int

    @classmethod
    def of(cls, catalogues: Sequence[Games]) -> Ties:
        """Return the ties between the games of some catalogues. Raises OutputError, see `find_links`."""
        links = find_links(catalogues, split=True)
        batches = (batch for games in catalogues for batch in read_rows(games, ("opening",)))
        opening = np.concatenate([np.empty(0, np.uint64), *(to_numpy(batch["opening"]) for batch in batches)])
        first = opening[links.first]
        unset = np.zeros(len(opening), np.bool_)
        unset[links.short[:, 0]] = True
        tied = unset | (first != opening)
        openings, at = np.unique(opening[tied], return_index=True)
        unset_openings = np.isin(openings, opening[unset])
        largest = np.bincount(links.first).max(initial=0)
        return cls(openings, first[tied][at], unset_openings, int(np.count_nonzero(tied)), int(largest))

    def follow(self, opening: Hashes) -> tuple[Hashes, npt.NDArray[np.bool_]]:
        """Return the openings that decide for games with these openings, and which games are in no set: [G] each."""
        if not len(self.openings):
            return opening, np.zeros(len(opening), np.bool_)
        at = np.minimum(np.searchsorted(self.openings, opening), len(self.openings) - 1)
        tied = self.openings[at] == opening
        return np.where(tied, self.keys[at], opening), tied & self.unset[at]


class HashSplit(_Split):
    """A random split by the hash of the opening: a game and what is made from it are never in two sets.

    Once `fit` to catalogues, all games of a cluster are in the set of its first game, and short games that are the
    beginnings of several clusters in none, see `kifu.corpus.links`. Games that are added later, behind the others,
    move none of these, unless they tie two clusters.

    Attributes:
        sets: The size of each set, in any unit.
        seed: Selects one of many random splits.
    """

    columns = ("opening",)

    kind: Literal["hash"]
    sets: Sets[Share]
    seed: Seed = 0

    _ties: Ties | None = PrivateAttr(None)

    @property
    def ties(self) -> Ties | None:
        """The ties between the games of the catalogues that the split is fit to."""
        return self._ties

    def fit(self, catalogues: Paths) -> Self:
        """Return a split that assigns each cluster of games of these catalogues to one set. One set has all games."""
        if len(self.sets) == 1:
            return self
        fitted = self.model_copy()
        fitted._ties = Ties.of([Path(path) for path in as_list(catalogues)])
        return fitted

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """Return the set of each row, see `columns`."""
        opening = to_numpy(batch["opening"])
        if self._ties is None:
            return split_keys(opening, self.sets, self.seed)
        keys, unset = self._ties.follow(opening)
        return np.where(unset, NO_SET, split_keys(keys, self.sets, self.seed))


class PlayerSplit(_Split):
    """A random split by players' names, ignoring case: no player is in two sets.

    A game between players of different sets is in none, so that sets hold the squares of their shares of the games. A
    game with a missing name is in none. The same game recorded under other names may be in another set.

    Attributes:
        sets: The share of players of each set, in any unit.
        seed: Selects one of many random splits.
    """

    columns = ("black", "white")

    kind: Literal["player"]
    sets: Sets[Share]
    seed: Seed = 0

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """Return the set of each row, see `columns`."""
        black, white = (self._player_codes(batch[column]) for column in self.columns)
        return np.where(black == white, black, NO_SET)

    def _player_codes(self, names: pa.StringArray) -> Codes:
        codes = split_keys(text_hashes(pc.utf8_lower(pc.utf8_trim_whitespace(names))), self.sets, self.seed)
        codes[names.is_null().to_numpy(zero_copy_only=False)] = NO_SET
        return codes


class DateSplit(_Split):
    """A split by the first day of a game; if only its year is known, its set must contain the whole year.

    A game without a date is in no set. The same game recorded with another date may be in another set.

    Attributes:
        sets: The first and the last day of each set.
    """

    columns = ("date", "year")

    kind: Literal["date"]
    sets: Sets[Annotated[tuple[Day, Day], Field(strict=False)]]

    @field_validator("sets")
    @classmethod
    def _require_disjoint(cls, sets: dict[str, tuple[date, date]]) -> dict[str, tuple[date, date]]:
        in_order = sorted(sets, key=lambda name: sets[name])
        for name in in_order:
            if sets[name][0] > sets[name][1]:
                raise ValueError(f"set {name!r} ends before it begins")
        for before, after in pairwise(in_order):
            if sets[after][0] <= sets[before][1]:
                raise ValueError(f"sets {before!r} and {after!r} overlap")
        return sets

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """Return the set of each row, see `columns`."""
        dates = batch["date"]
        # Missing years become year 0, which no set contains: dates begin with year 1.
        year = (to_numpy(pc.fill_null(batch["year"], 0)).astype(np.int64) - 1970).astype("M8[Y]")
        year_days = (year.astype("M8[D]"), (year + 1).astype("M8[D]") - np.timedelta64(1, "D"))
        dated = dates.is_valid().to_numpy(zero_copy_only=False)
        day = pc.fill_null(dates, date(1970, 1, 1)).to_numpy(zero_copy_only=False).astype("M8[D]")
        first, last = (np.where(dated, day, limit) for limit in year_days)
        codes = np.full(len(batch), NO_SET)
        for code, (begin, end) in enumerate(self.sets.values()):
            codes[(first >= np.datetime64(begin)) & (last <= np.datetime64(end))] = code
        return codes


class ArchiveSplit(_Split):
    """A split by the name of a game's archive; the first set with a matching pattern counts.

    The same game in another archive may be in another set.

    Attributes:
        sets: The patterns of each set: * matches any letters, ? one, [...] one of several. Case matters.
    """

    columns = ("archive",)

    kind: Literal["archive"]
    sets: Sets[list[Line]]

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """Return the set of each row, see `columns`."""

        def code(archive: str | None) -> int:
            for code, patterns in enumerate(self.sets.values()):
                if any(fnmatchcase(archive or "", pattern) for pattern in patterns):
                    return code
            return NO_SET

        return map_distinct(batch["archive"], code, np.int64)


class ListSplit(_Split):
    """A split by lists of games; a game on no list is in no set. A duplicate of a game may be in another set.

    Attributes:
        sets: The path of each set's list, a text file with one game per line: its id in decimal digits, or
            archive/member for all games of that member. If a game is listed both ways, its id counts.
    """

    columns = ("id", "archive", "member")

    kind: Literal["list"]
    sets: Sets[Line]

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """Return the set of each row, see `columns`."""
        ids, id_codes, names, name_codes = self._lists
        name_index = pc.index_in(pc.binary_join_element_wise(batch["archive"], batch["member"], "/"), names)
        codes: Codes = name_codes[to_numpy(pc.fill_null(name_index, -1))]
        keys = to_numpy(batch["id"])
        at = np.minimum(np.searchsorted(ids, keys), len(ids) - 1)
        return np.where(ids[at] == keys, id_codes[at], codes) if len(ids) else codes

    @cached_property
    def _lists(self) -> tuple[Hashes, Codes, pa.StringArray, Codes]:
        """The ascending ids [I] uint64 and their sets [I]; the names [N] and their sets [N + 1], last that of no name.

        Raises SourceError for an invalid list, and RecipeError for a game on two of them.
        """
        found: dict[str, int] = {}
        for code, path in enumerate(self.sets.values()):
            for line in _read_list(path):
                if found.setdefault(line, code) != code:
                    other = list(self.sets)[found[line]]
                    raise RecipeError(f"{line} is on the lists of two sets, {other} and {list(self.sets)[code]}")
        named = {line: code for line, code in found.items() if "/" in line}
        by_id = sorted((int(line), code) for line, code in found.items() if line not in named)
        return (
            np.array([key for key, _ in by_id], np.uint64),
            np.array([code for _, code in by_id], np.int64),
            pa.array(list(named), pa.string()),
            np.array([*named.values(), NO_SET], np.int64),
        )


_LIST_BYTES = 256 << 20
"""Maximum size of a list of games; 12 million ids take as much."""


def _read_list(path: str) -> list[str]:
    """Return the games of a list, ids without leading zeros. Raises SourceError."""
    try:
        lines = StringIO(read_small(path, _LIST_BYTES).decode("utf-8-sig"), None).read().split("\n")
    except OSError as error:
        raise SourceError(f"cannot read the list {path}: {error.strerror}") from None
    except ValueError as error:
        raise SourceError(f"cannot read the list {path}: {error}") from None
    games = []
    for number, line in enumerate(lines, 1):
        if "/" in line:
            games.append(line)
        elif line.isascii() and line.isdigit() and len(line) <= 20 and int(line) < 2**64:
            games.append(str(int(line)))
        elif line:
            raise SourceError(f"{path}, line {number}: {line[:80]!r} is neither an id nor archive/member")
    return games


Split: TypeAlias = Annotated[
    HashSplit | PlayerSplit | DateSplit | ArchiveSplit | ListSplit, Field(discriminator="kind")
]
"""The table `split` of a recipe."""


class SplitConfig(NamedConfig):
    """A named split."""

    name: Line
    title: Line
    split: Split


def split_names() -> list[str]:
    """Return the names of the built-in splits."""
    return config_names(_FOLDER)


def load_split(name: str | os.PathLike[str], overrides: Iterable[str] = ()) -> SplitConfig:
    """Load a built-in split, or a TOML file.

    Raises RecipeError if the split does not exist or is invalid.

    Args:
        name: A built-in name, or a path that ends in .toml.
        overrides: See `kifu.config.load_config`.
    """
    return check_config(SplitConfig, load_config(_FOLDER, _KIND, name, overrides), _KIND, name)


def _named(by: str | os.PathLike[str] | SplitConfig | Split) -> SplitConfig:
    if isinstance(by, SplitConfig):
        return by
    if isinstance(by, _Split):
        return SplitConfig(name=by.kind, title=f"by {by.kind}", split=by)
    return load_split(by)


@dataclass(frozen=True, slots=True)
class SplitReport(Report):
    """Counts of split games; `read` == the sum of `sets` + `unset` + `dropped`.

    Attributes:
        sets: Number of games by the file of each set, in the order of the split.
        unset: Number of games that are in no set.
        dropped: Number of games that are dropped in the catalogues; they are in no set.
        tied: Number of games that a split by hash assigned by another game of their cluster.
        largest: Number of games of the largest cluster; 0 for other splits.
    """

    sets: dict[Path, int]
    unset: int
    dropped: int
    tied: int = 0
    largest: int = 0

    @property
    def read(self) -> int:
        """Number of games of the catalogues."""
        return sum(self.sets.values()) + self.unset + self.dropped

    def __str__(self) -> str:
        lines = [f"{path}: {games:,} games" for path, games in self.sets.items()]
        if self.unset or self.dropped:
            lines.append(f"in no set: {self.unset:,} games, and {self.dropped:,} dropped games")
        if self.tied:
            lines.append(f"clusters: {counted(self.tied, 'game')} beside the first of each; largest: {self.largest:,}")
        return join_lines(lines)


def set_files(config: SplitConfig, output: str | os.PathLike[str]) -> list[Path]:
    """Return the files that `split` writes. Raises RecipeError if a set's name is not a valid file name."""
    for name in config.split.sets:
        if name.startswith(".") or any(c in name for c in "/\\"):
            raise RecipeError(f"set {name!r} of split {config.name} is not a valid file name")
    return [Path(output, f"{name}.parquet") for name in config.split.sets]


def split(
    catalogues: Paths,
    output: str | os.PathLike[str],
    *,
    by: str | os.PathLike[str] | SplitConfig | Split = "hash",
    overwrite: bool = False,
    progress: ProgressFactory = silent,
) -> SplitReport:
    """Write a catalogue SET.parquet for each set, with its games in order.

    The files get their names once all are complete. Files of an earlier split stay until then, and are removed together
    before the first new one appears. Raises RecipeError if the split does not exist, a set's name is not a valid file
    name, or a game is on two lists.

    Args:
        output: The folder of the new files.
        overwrite: Replace files of another split or of other catalogues (`kifu.io.keep_output`).
        by: The name of a split, a TOML file, or a split such as `HashSplit(kind="hash", sets={"a": 9, "b": 1})`.
    """
    config = _named(by)
    names, files = list(config.split.sets), set_files(config, output)
    opened = [open_catalogue(path) for path in as_list(catalogues)]
    inputs = [{"blake3": c.digest(), "about": dict(c.metadata)} for c in opened]
    origin = {"split": config.model_dump(mode="json"), "of": inputs}
    made_from = origin | ({"lists": None} if isinstance(config.split, ListSplit) else {})  # which have no hash
    present = [keep_table(file, overwrite, set=name, **made_from) for name, file in zip(names, files)]
    if all(present):
        rows = {file: open_catalogue(file).rows for file in files}
        kept = sum(batch["drop"].null_count for c in opened for batch in c.batches(("drop",)))
        return SplitReport(rows, kept - sum(rows.values()), sum(c.rows for c in opened) - kept)
    fitted = config.split.fit(catalogues)
    counts, unset, dropped = np.zeros(len(names), np.int64), 0, 0
    with ExitStack() as stack, progress("splitting games", sum(c.rows for c in opened), "games") as bar:
        writers = [stack.enter_context(CatalogueWriter(file)) for file in files]
        for catalogue in opened:
            for batch in catalogue.batches():
                kept = drop_codes(batch) == DropReason.KEPT
                codes = np.where(kept, fitted.codes(batch), NO_SET)
                dropped += int(np.count_nonzero(~kept))
                unset += int(np.count_nonzero(kept & (codes == NO_SET)))
                counts += np.bincount(codes[codes != NO_SET], minlength=len(names))
                for code in np.unique(codes[codes != NO_SET]).tolist():
                    writers[code].write(batch.filter(pa.array(codes == code)))
                bar.advance(len(batch))
        for name, writer in zip(names, writers):
            writer.finish({"split": origin["split"], "set": name, "of": inputs})
        for file in files:  # remove all first, so that files of two splits never lie side by side
            remove_file(file)
        for writer in writers:
            writer.publish()
    for file, writer in zip(files, writers):
        require_size(file, writer.size)
    ties = fitted.ties if isinstance(fitted, HashSplit) else None
    tied, largest = (ties.games, ties.largest) if ties else (0, 0)
    return SplitReport(dict(zip(files, counts.tolist())), unset, dropped, tied, largest)

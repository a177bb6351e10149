"""Which games go to which set: by hash, player, date, archive or list, as a table of a recipe says it.

    [split]
    kind = "hash"
    seed = 7
    sets = { train = 90, validation = 5, test = 5 }

All of it looks at one game at a time, so that no game changes its set when others come or go.
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
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3
from pydantic import BaseModel, Field, field_validator

from kifu.atomic_io import remove_file
from kifu.config import STRICT, Line, check_config, config_names, load_config
from kifu.corpus._hashes import mix_words
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.hashes import Hashes, text_hashes
from kifu.corpus.schema import drop_code, map_distinct, to_numpy
from kifu.errors import DropReason, RecipeError, SourceError
from kifu.progress import ProgressFactory, silent

Codes = npt.NDArray[np.int64]
"""[G] int64: the ordinal of each game's set in the order in which the split names them; -1 if it is in none."""

NO_SET = -1

T = TypeVar("T")
Sets = Annotated[dict[Line, T], Field(min_length=1, max_length=1000)]
Share = Annotated[float, Field(gt=0, le=1e9)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


def split_keys(keys: Hashes, shares: Mapping[str, float], seed: int = 0) -> Codes:
    """Deals out keys to sets: a pure function of each key, the seed, and the shares in their order.

    keys: [G] uint64, for games the hash of their opening, so that equal games and beginnings of OPENING_PLIES moves
    and more stay together. shares: by name of the set, in any unit; seed: 0 to 2**63 - 1. Returns [G] int64, the
    ordinal of the set in `shares`. With `mix` of `kifu.corpus.hashes`, a key goes to the first set k for which
    mix(key ^ mix(seed)) is below floor(2**64 * (share 0 + ... + share k) / all shares), shares being exact decimals.
    Raises RecipeError for no share, or one that is not above 0.
    """
    if not shares or not all(0 < share < float("inf") for share in shares.values()):
        raise RecipeError(f"shares are numbers above 0, not {dict(shares)}")
    until = list(accumulate(Fraction(str(share)) for share in shares.values()))
    bounds = np.array([int(2**64 * part / until[-1]) for part in until[:-1]], np.uint64)
    drawn = mix_words(keys ^ mix_words(np.array([seed], np.uint64)))
    codes: Codes = np.searchsorted(bounds, drawn, side="right")
    return codes


class _Split(BaseModel):
    """What all splits have in common."""

    model_config = STRICT

    columns: ClassVar[tuple[str, ...]]
    """Which columns of the catalogue it looks at."""

    sets: Mapping[str, Any]

    @abstractmethod
    def codes(self, batch: pa.RecordBatch) -> Codes:
        """The set of each row; batch: with `columns` at least."""

    def told(self) -> Any:
        """All that the sets follow from, as JSON values."""
        return self.model_dump(mode="json")


class HashSplit(_Split):
    """By the hash of the opening: the same game, turned or cut off, is never in two sets."""

    columns = ("opening",)

    kind: Literal["hash"]
    sets: Sets[Share]
    """How large each set is, in any unit."""
    seed: Seed = 0

    def codes(self, batch: pa.RecordBatch) -> Codes:
        return split_keys(to_numpy(batch["opening"]), self.sets, self.seed)


class PlayerSplit(_Split):
    """By the players' names, but for case: nobody plays in two sets.

    A game between players of different sets is in none, so sets hold the squares of their shares of the games. Nor is
    one without both names. The same game under other names may be in another set.
    """

    columns = ("black", "white")

    kind: Literal["player"]
    sets: Sets[Share]
    """How large each set is, of the players, in any unit."""
    seed: Seed = 0

    def codes(self, batch: pa.RecordBatch) -> Codes:
        black, white = (self._players(batch[column]) for column in self.columns)
        return np.where(black == white, black, NO_SET)

    def _players(self, names: pa.StringArray) -> Codes:
        codes = split_keys(text_hashes(pc.utf8_lower(pc.utf8_trim_whitespace(names))), self.sets, self.seed)
        codes[names.is_null().to_numpy(zero_copy_only=False)] = NO_SET
        return codes


class DateSplit(_Split):
    """By the day a game was played, or began; one of which only the year is told is in a set that has all of it.

    A game without a date is in no set. The same game with another date may be in another set.
    """

    columns = ("date", "year")

    kind: Literal["date"]
    sets: Sets[Annotated[tuple[date, date], Field(strict=False)]]
    """The first day and the last."""

    @field_validator("sets")
    @classmethod
    def _apart(cls, sets: dict[str, tuple[date, date]]) -> dict[str, tuple[date, date]]:
        in_order = sorted(sets, key=lambda name: sets[name])
        for name in in_order:
            if sets[name][0] > sets[name][1]:
                raise ValueError(f"set {name!r} ends before it begins")
        for before, after in pairwise(in_order):
            if sets[after][0] <= sets[before][1]:
                raise ValueError(f"sets {before!r} and {after!r} have days in common")
        return sets

    def codes(self, batch: pa.RecordBatch) -> Codes:
        dates = batch["date"]
        # Year 0 for none: no set has it, since dates begin with year 1.
        year = (to_numpy(pc.fill_null(batch["year"], 0)).astype(np.int64) - 1970).astype("M8[Y]")
        of_year = (year.astype("M8[D]"), (year + 1).astype("M8[D]") - np.timedelta64(1, "D"))
        dated = dates.is_valid().to_numpy(zero_copy_only=False)
        day = pc.fill_null(dates, date(1970, 1, 1)).to_numpy(zero_copy_only=False).astype("M8[D]")
        first, last = (np.where(dated, day, limit) for limit in of_year)
        codes = np.full(len(batch), NO_SET)
        for code, (begin, end) in enumerate(self.sets.values()):
            codes[(first >= np.datetime64(begin)) & (last <= np.datetime64(end))] = code
        return codes


class ArchiveSplit(_Split):
    """By the name of the archive that a game lies in; the first set with a pattern that fits it. Case counts.

    The same game in another archive may be in another set.
    """

    columns = ("archive",)

    kind: Literal["archive"]
    sets: Sets[list[Line]]
    """Patterns in which * stands for any letters, ? for one, and [...] for one of some."""

    def codes(self, batch: pa.RecordBatch) -> Codes:
        def code(archive: str | None) -> int:
            for code, patterns in enumerate(self.sets.values()):
                if any(fnmatchcase(archive or "", pattern) for pattern in patterns):
                    return code
            return NO_SET

        return map_distinct(batch["archive"], code, np.int64)


class ListSplit(_Split):
    """By lists of games; a game on none is in no set. The same game once more may be in another set."""

    columns = ("id", "archive", "member")

    kind: Literal["list"]
    sets: Sets[Line]
    """A text file for each set: one game a line, by its id in decimal digits, or as archive/member, which means all
    games of that member. If a game is on lists in both ways, its id counts."""

    def codes(self, batch: pa.RecordBatch) -> Codes:
        ids, id_codes, names, name_codes = self._lists
        place = pc.index_in(pc.binary_join_element_wise(batch["archive"], batch["member"], "/"), names)
        codes: Codes = name_codes[to_numpy(pc.fill_null(place, -1))]
        keys = to_numpy(batch["id"])
        at = np.minimum(np.searchsorted(ids, keys), len(ids) - 1)
        return np.where(ids[at] == keys, id_codes[at], codes) if len(ids) else codes

    def told(self) -> Any:
        """With what the lists have in them. Raises as `codes` does."""
        ids, id_codes, names, name_codes = self._lists
        told = blake3(ids.tobytes() + id_codes.tobytes() + name_codes.tobytes())
        return [super().told(), told.update("\n".join(names.to_pylist()).encode()).hexdigest()]

    @cached_property
    def _lists(self) -> tuple[Hashes, Codes, pa.StringArray, Codes]:
        """ids: [I] uint64, rising; their sets: [I]; names: [N]; their sets: [N + 1], the last one for no name.

        Raises SourceError for a file that is no such list, and RecipeError for a game on two of them.
        """
        found: dict[str, int] = {}
        for code, path in enumerate(self.sets.values()):
            for line in _lines(path):
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


def _lines(path: str) -> list[str]:
    """The games of a list, ids without zeros before them. Raises SourceError."""
    try:
        lines = Path(path).read_text("utf-8-sig").split("\n")
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
"""What the table `split` of a recipe holds."""


def assign_sets(batch: pa.RecordBatch, split: Split) -> pa.StringArray:
    """The name of each row's set; null where it is in none.

    batch: rows of the catalogue, with `split.columns` at least. Raises as the kind of split says.
    """
    codes = split.codes(batch)
    return pa.array(list(split.sets), pa.string()).take(pa.array(codes, mask=codes == NO_SET))


_FOLDER, _KIND = "splits", "split"


class NamedSplit(BaseModel):
    """A split that has a name."""

    model_config = STRICT

    name: Line
    title: Line
    split: Split


def split_names() -> list[str]:
    """The splits that come with kifu."""
    return config_names(_FOLDER)


def load_split(name: str, overrides: Iterable[str] = ()) -> NamedSplit:
    """A split by its name, or from a TOML file if `name` ends in .toml.

    overrides: see `kifu.config.load_config`. Raises RecipeError.
    """
    return check_config(NamedSplit, load_config(_FOLDER, _KIND, name, overrides), _KIND, name)


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What became of the games; read == the sum of sets + unset + dropped."""

    sets: dict[Path, int]
    """By the file of each set, in the order of the split: how many games it has."""
    unset: int
    """Games that belong to no set."""
    dropped: int
    """Games that were set aside in the catalogues; no set has them."""

    @property
    def read(self) -> int:
        """All games of the catalogues."""
        return sum(self.sets.values()) + self.unset + self.dropped


def split(
    paths: Sequence[str | os.PathLike[str]],
    table: NamedSplit,
    into: str | os.PathLike[str],
    *,
    progress: ProgressFactory = silent,
) -> SplitReport:
    """Writes SET.parquet into the folder for each set of the split: a catalogue of its games, in their order.

    Files have their names once all are complete: until then those that they replace stay, afterwards none does.
    Raises FormatError, RecipeError, SourceError or OutputError.
    """
    names = list(table.split.sets)
    for name in names:
        if name.startswith(".") or any(c in name for c in "/\\"):
            raise RecipeError(f"set {name!r} of split {table.name} would make no plain file name")
    files = [Path(into, f"{name}.parquet") for name in names]
    catalogues = [open_catalogue(path) for path in paths]
    of = [{"name": c.path.name, "blake3": c.digest()} for c in catalogues]
    counts, unset, dropped = np.zeros(len(names), np.int64), 0, 0
    with ExitStack() as stack, progress("dividing games", sum(c.rows for c in catalogues), "games") as bar:
        writers = [stack.enter_context(CatalogueWriter(file)) for file in files]
        for catalogue in catalogues:
            for batch in catalogue.batches():
                kept = map_distinct(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
                codes = np.where(kept, table.split.codes(batch), NO_SET)
                dropped += int(np.count_nonzero(~kept))
                unset += int(np.count_nonzero(kept & (codes == NO_SET)))
                counts += np.bincount(codes[codes != NO_SET], minlength=len(names))
                for code in np.unique(codes[codes != NO_SET]).tolist():
                    writers[code].write(batch.filter(pa.array(codes == code)))
                bar.advance(len(batch))
        for name, writer in zip(names, writers):
            writer.finish({"split": table.model_dump(mode="json"), "set": name, "of": of})
        for file in files:  # all of them first: none of an earlier split lies beside one of this, whatever interrupts
            remove_file(file)
        for writer in writers:
            writer.publish()
    return SplitReport(dict(zip(files, counts.tolist())), unset, dropped)

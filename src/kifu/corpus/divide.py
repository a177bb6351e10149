"""Catalogues divided into sets, each a catalogue of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from kifu.atomic_io import remove_file
from kifu.config import STRICT, Line, check_config, config_names, load_config
from kifu.corpus.catalogue import CatalogueWriter, by_value, drop_code, open_catalogue
from kifu.corpus.splits import NO_SET, Split
from kifu.errors import DropReason, RecipeError
from kifu.progress import ProgressFactory, silent

_FOLDER, _KIND = "splits", "split"


class SplitTable(BaseModel):
    """A split that has a name."""

    model_config = STRICT

    name: Line
    title: Line
    split: Split


def split_names() -> list[str]:
    """The splits that come with kifu."""
    return config_names(_FOLDER)


def load_split(name: str, overrides: Iterable[str] = ()) -> SplitTable:
    """A split by its name, or from a TOML file if `name` ends in .toml.

    overrides: see `kifu.config.load_config`. Raises RecipeError.
    """
    return check_config(SplitTable, load_config(_FOLDER, _KIND, name, overrides), _KIND, name)


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
    table: SplitTable,
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
                kept = by_value(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
                codes = np.where(kept, table.split.codes(batch), NO_SET)
                dropped += int(np.count_nonzero(~kept))
                unset += int(np.count_nonzero(kept & (codes == NO_SET)))
                counts += np.bincount(codes[codes != NO_SET], minlength=len(names))
                for code in np.unique(codes[codes != NO_SET]).tolist():
                    writers[code].write(batch.filter(pa.array(codes == code)))
                bar.advance(len(batch))
        for name, writer in zip(names, writers):
            writer.end({"split": table.model_dump(mode="json"), "set": name, "of": of})
        for file in files:  # all of them first: none of an earlier split lies beside one of this, whatever interrupts
            remove_file(file)
        for writer in writers:
            writer.give_name()
    return SplitReport(dict(zip(files, counts.tolist())), unset, dropped)

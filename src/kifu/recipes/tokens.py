"""Data sets of games as tokens, for transformers: a tokens@1 directory for each set, in the order of the catalogue."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from kifu.config import BoardSize, Line, parse_board
from kifu.corpus.schema import drop_codes, to_numpy
from kifu.datasets.manifest import Manifest
from kifu.datasets.tokenizer import DEFAULT_METADATA, Tokenizer, Tokens
from kifu.datasets.tokens import FORMAT, TokenWriter
from kifu.errors import DropReason, GameError, RecipeError
from kifu.execution.executor import THREADS
from kifu.progress import ProgressFactory, silent
from kifu.recipes.pipeline import (
    BuildOptions,
    BuildReport,
    CatalogueRowsJob,
    ManifestCounts,
    RowSlice,
    SetPlan,
    build_sets,
)
from kifu.recipes.schema import SplitRecipe
from kifu.records.paths import Paths


class TokensRecipe(SplitRecipe):
    """Data sets of games as tokens."""

    kind: Literal["tokens"]
    board: BoardSize = "19x19"
    """Board size; other games are dropped."""
    pad: bool = False
    """Include smaller square boards, placed in the upper left corner."""
    metadata: Annotated[tuple[Line, ...], Field(strict=False)] = DEFAULT_METADATA
    """Fields of the tokens before the moves, see `kifu.datasets.tokenizer.METADATA`."""

    @model_validator(mode="after")
    def _valid_tokenizer(self) -> TokensRecipe:
        try:
            self.tokenizer()
        except (GameError, RecipeError) as error:
            raise ValueError(str(error)) from None
        return self

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer. Raises RecipeError, GameError."""
        return Tokenizer(*parse_board(self.board), self.pad, self.metadata)


def build_tokens(
    recipe: TokensRecipe,
    sources: Paths,
    output: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[Manifest]]:
    """Build a tokens@1 directory for each set, with its manifest, whose examples are games.

    Takes the arguments of `kifu.recipes.examples.build_examples`; existing directories from the same recipe and sources
    are kept, and the bytes depend on neither engine nor jobs.

    Returns:
        One report per set, in the order of `sets`.

    Raises:
        RecipeError, SourceError, FormatError, OutputError, ClusterError: As `build_examples` does.
    """

    def make(plan: SetPlan) -> Manifest:
        return _write_set(recipe, plan)

    return build_sets(recipe, "", make, sources, Path(output), sets, BuildOptions(jobs, engine, progress))


def _write_set(recipe: TokensRecipe, plan: SetPlan) -> Manifest:
    """Write a set and return its manifest."""
    job = WriteTokens(recipe, plan.set)
    with (
        ManifestCounts(plan.set, plan.path) as counts,
        TokenWriter(plan.path, recipe.tokenizer()) as writer,
        plan.progress(f"building {plan.path.name}", plan.games, "games") as bar,
    ):
        for catalogue in plan.catalogues:
            for chunk in plan.executor.run(job, catalogue.shards):
                writer.append(chunk.tokens, chunk.ends, chunk.games)
                counts.add_dropped(chunk.drops, chunk.elsewhere)
                ones = np.ones(len(chunk.member), np.int32)
                counts.add_games(chunk.member, ones, np.zeros(len(ones), np.uint16))
                bar.advance(chunk.read)
            counts.end_archive(catalogue.name, catalogue.digest)
        written = writer.commit({"recipe": recipe.name, "title": recipe.title, "set": plan.set})
        return counts.manifest(recipe, plan.games, plan.sources, written, FORMAT, "")


class TokenChunk(NamedTuple):
    """The tokens of a slice.

    Attributes:
        tokens: [T] uint16.
        ends: [K] int64, the end of each game in `tokens`.
        games: [K] uint64, ids.
        member: [K] int32, rows of the catalogue.
        elsewhere: Number of games of other sets, or of none.
        read: Number of games of the slice.
    """

    tokens: Tokens
    ends: npt.NDArray[np.int64]
    games: npt.NDArray[np.uint64]
    member: npt.NDArray[np.int32]
    drops: Counter[str]
    elsewhere: int
    read: int


@dataclass(frozen=True)
class WriteTokens(CatalogueRowsJob[TokenChunk]):
    """Converts the games of a set to tokens."""

    recipe: TokensRecipe
    slice_rows = 2048

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the recipe."""
        return self.recipe.tokenizer()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the job needs."""
        return (*self.tokenizer.columns, "id", "drop")

    def process(self, item: RowSlice) -> TokenChunk:
        """Return the tokens of a slice."""
        batch, in_set = item.batch, self.in_set(item.batch)
        drop = drop_codes(batch)
        for unfit, reason in (
            (~self.tokenizer.fits(batch), DropReason.WRONG_SIZE),
            (to_numpy(batch["n_legal"]) == 0, DropReason.NO_MOVES),
        ):
            drop[(drop == DropReason.KEPT) & in_set & unfit] = reason
        dropped = drop[drop != DropReason.KEPT]
        drops = Counter({DropReason(k).name: int(n) for k, n in zip(*np.unique(dropped, return_counts=True))})
        rows = np.flatnonzero((drop == DropReason.KEPT) & in_set)
        tokens, ends = self.tokenizer.encode(batch, rows)
        return TokenChunk(
            tokens, ends, to_numpy(batch["id"])[rows], (item.first + rows).astype(np.int32), drops,
            len(batch) - len(dropped) - len(rows), len(batch),
        )  # fmt: skip

"""The plan of an epoch: which examples a loader yields, in which order. It is made before anything is rendered.

An epoch is a sequence of positions: units (games, or runs of rows) in shuffled order, with the positions of each unit
together. The sequence is cut into blocks, and each block is shuffled as a whole. Everything follows from the source,
the options, the seed and the epoch number.

Each process takes an equal part of the sequence.

Orders and draws are pure functions of integers. `mix` is the hash of `kifu.corpus.hashes`; a key is
mix(... mix(mix(seed) ^ part) ^ part ...), where one of the parts is a purpose: UNIT_ORDER, SYMMETRY, BLOCK_ORDER,
WEIGHT, PER_GAME or SOURCE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from kifu.arrays import Bytes, Hashes, Indices, Ints
from kifu.corpus.hashes import mix, mix_words
from kifu.errors import RecipeError
from kifu.kernel import kernel
from kifu.registry import check_choice

UNIT_ORDER, SYMMETRY, BLOCK_ORDER, WEIGHT, PER_GAME, SOURCE = range(6)
"""Purposes of keys; the second part of a key, after the epoch, or for SOURCE after the number of the source."""


def hash_key(seed: int, *parts: int) -> Hashes:
    """Return the key of some integers from 0 to 2**64 - 1, as [1] uint64."""
    key: Hashes = mix_words(np.array([seed], np.uint64))
    for part in parts:
        key = mix_words(key ^ np.uint64(part))
    return key


def hash_numbers(numbers: Indices, key: Hashes) -> Hashes:
    """Return mix(number ^ key) of each number."""
    hashes: Hashes = mix_words(numbers.astype(np.uint64) ^ key)
    return hashes


@kernel
def _shuffle(key: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = i
    for i in range(out.shape[0] - 1, 0, -1):
        j = np.int64(mix(np.uint64(i) ^ key) % np.uint64(i + 1))
        out[i], out[j] = out[j], out[i]


def permutation(key: Hashes, count: int) -> Ints:
    """Return a permutation of 0 to count - 1, [count] int32, by a Fisher-Yates shuffle.

    From the last index down to 1, entry i is swapped with entry mix(key ^ i) mod (i + 1).
    """
    out = np.empty(count, np.int32)
    with np.errstate(over="ignore"):
        _shuffle(key[0], out)
    return out


@kernel
def _assign_slots(entries: Any, slot_of: Any, slots: Any) -> None:
    for q in range(slot_of.shape[0]):
        slot_of[q] = -1
    for j in range(entries.shape[0]):
        slot_of[entries[j]] = 0
    count = 0
    for q in range(slot_of.shape[0]):
        if slot_of[q] == 0:
            slot_of[q] = count
            count += 1
    for j in range(entries.shape[0]):
        slots[j] = slot_of[entries[j]]


def slots_of_entries(entries: Ints, size: int) -> tuple[Ints, ...]:
    """Number distinct entries of a block in ascending order.

    Returns:
        slot_of: [size of the block], the number of each position, or -1 if it is not an entry.
        slots: [len(entries)], the number of each entry, in the order of the entries.
    """
    slot_of, slots = np.empty(size, np.int32), np.empty(len(entries), np.int32)
    _assign_slots(entries, slot_of, slots)
    return slot_of, slots


Shuffle = Literal["window", "global"]
Output = Literal["packed", "uint8", "float32", "bfloat16"]

WINDOW = 131_072
"""Default number of positions of a shuffle window."""

MEMORY = 576 << 20
"""Default number of bytes of rendered examples in memory: two windows of 48 planes."""

_MAX_GLOBAL = 2**31 - 1
_MAX_WORLD_SIZE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderConfig:
    """Options of a loader; see `kifu.load`.

    Attributes:
        seed: Seed of the order, the symmetries, and the sampling of positions; 0 to 2**63 - 1.
        shuffle: "window" shuffles windows of positions, which come from games all over the source; "global" shuffles
            all positions at once, and is slow if `memory` holds few of them; None keeps the order of the source.
        window: Minimum size of a shuffle window, in positions.
        augment: Show each game under a random symmetry of the board: one of 8, or of 4 if the board is not square.
        drop_last: All processes deliver the same number of full batches; the rest, less than one batch each, is left
            out.
        process_index: Index of this process; it delivers one of `world_size` disjoint parts of each epoch.
        output: Form of the planes: "packed" (bits, [B, C, ceil(H * W / 8)] uint8, highest bit first) or, as
            [B, C, H, W], "uint8", "float32" or "bfloat16" (raw bits as uint16). Plane sets with real values require
            "float32".
        jobs: Number of threads; None for one per core. Batches do not depend on it.
        memory: Bytes of rendered examples to hold. Games are kept in unnamed temporary files instead.
    """

    seed: int = 0
    shuffle: Shuffle | None = "window"
    window: int = WINDOW
    augment: bool = True
    drop_last: bool = False
    process_index: int = 0
    world_size: int = 1
    output: Output = "packed"
    jobs: int | None = None
    memory: int = MEMORY

    def __post_init__(self) -> None:
        for name in ("window", "world_size"):
            if getattr(self, name) < 1:
                raise RecipeError(f"{name} must be >= 1, got {getattr(self, name)}")
        if self.world_size > _MAX_WORLD_SIZE:
            raise RecipeError(f"world_size must be <= {_MAX_WORLD_SIZE:,}, got {self.world_size:,}")
        if not 0 <= self.seed < 2**63:
            raise RecipeError(f"seed must be within 0 to 2**63 - 1, got {self.seed}")
        if self.shuffle is not None:
            check_choice("shuffle", self.shuffle, get_args(Shuffle))
        check_choice("output", self.output, get_args(Output))
        if not 0 <= self.process_index < self.world_size:
            most = self.world_size - 1
            raise RecipeError(f"process_index must be within 0 to world_size - 1 = {most}, got {self.process_index}")

    def fingerprint(self) -> dict[str, Any]:
        """Return the options on which the order of a whole epoch depends, as JSON values."""
        return {name: getattr(self, name) for name in ("seed", "shuffle", "window", "augment", "drop_last")}


DEFAULT_CONFIG = LoaderConfig()


@dataclass(frozen=True, slots=True)
class EpochSelection:
    """The positions that a source offers in one epoch.

    Attributes:
        counts: [U] int32 or int64, number of positions of each unit.
        selected: [ceil(M / 8)] uint8, a bit for each of the M moves of all games, lowest bit first: whether the
            position before it is selected. Empty for data sets, all of whose rows are.
        symmetry_key: [1] uint64, key of the symmetries; None without augmentation.
        ordered: The units are in the order of the epoch already.
    """

    counts: npt.NDArray[np.integer[Any]]
    selected: Bytes
    symmetry_key: Hashes | None
    ordered: bool = False

    def symmetries(self, indices: Indices, square: bool) -> Bytes:
        """Return the symmetry of each of some games or rows, [K] uint8. square: whether the board is."""
        if self.symmetry_key is None:
            return np.zeros(len(indices), np.uint8)
        bits = 3 if square else 2
        return (hash_numbers(indices, self.symmetry_key) >> np.uint64(64 - bits)).astype(np.uint8)


class LoaderPosition(NamedTuple):
    """A position in the sequence of batches. batch: number of the next batch of the epoch."""

    epoch: int
    batch: int = 0


class ShuffleBlock(NamedTuple):
    """Positions first to last - 1 of an epoch, shuffled as a whole; entries start to stop - 1 of them are delivered."""

    first: int
    last: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The plan of one epoch for one process.

    Attributes:
        ends: [U + 1] int64, where the positions of each unit begin in the sequence.
    """

    config: LoaderConfig
    batch_size: int
    number: int
    selection: EpochSelection
    units: Ints
    ends: Indices
    blocks: list[ShuffleBlock]

    @property
    def positions(self) -> int:
        """The number of positions that this process delivers."""
        return sum(block.stop - block.start for block in self.blocks)

    def divide(self, config: LoaderConfig, batch_size: int) -> EpochPlan:
        """Return the plan of the same epoch for another process, world size or batch size; see `make_plan`."""
        blocks = _plan_blocks(config, batch_size, int(self.ends[-1]))
        return replace(self, config=config, batch_size=batch_size, blocks=blocks)

    def order(self, block: ShuffleBlock) -> Ints:
        """Return the positions of a block in their shuffled order: [size] int32."""
        size = block.last - block.first
        if self.config.shuffle is None:
            return np.arange(size, dtype=np.int32)
        return permutation(hash_key(self.config.seed, self.number, BLOCK_ORDER, block.first), size)

    def chunks(self, first: int, stop: int, slots: int) -> Iterator[ShuffleBlock]:
        """Yield the entries of blocks for positions first to stop - 1 of this process, evenly, at most `slots` each."""
        at = 0
        for block in self.blocks:
            low, high = (min(max(k - at, 0) + block.start, block.stop) for k in (first, stop))
            count = -(-(high - low) // slots)
            bounds = [low + (high - low) * k // count for k in range(count + 1)] if count else []
            yield from (block._replace(start=start, stop=stop) for start, stop in pairwise(bounds))
            at += block.stop - block.start

    def block_units(self, block: ShuffleBlock) -> tuple[Indices, Indices]:
        """Return the units [K] with positions in a block, and the index in it of the first position of each: [K]."""
        u = int(np.searchsorted(self.ends, block.first, side="right")) - 1
        v = int(np.searchsorted(self.ends, block.last, side="left"))
        return self.units[u:v].astype(np.int64), self.ends[u:v] - block.first


def make_plan(selection: EpochSelection, config: LoaderConfig, batch_size: int, number: int) -> EpochPlan:
    """Plan one process's part of an epoch. Raises RecipeError if it has too many positions for a global shuffle."""
    count = len(selection.counts)
    if config.shuffle is None or selection.ordered:
        units = np.arange(count, dtype=np.int32)
    else:
        units = permutation(hash_key(config.seed, number, UNIT_ORDER), count)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(selection.counts[units], out=ends[1:])
    blocks = _plan_blocks(config, batch_size, int(ends[-1]))
    return EpochPlan(config, batch_size, number, selection, units, ends, blocks)


def _plan_blocks(config: LoaderConfig, batch_size: int, total: int) -> list[ShuffleBlock]:
    """Return `EpochPlan.blocks` for an epoch of `total` positions."""
    if config.shuffle == "global":
        if total > _MAX_GLOBAL:
            raise RecipeError(
                f"shuffle 'global' supports at most {_MAX_GLOBAL:,} positions, got {total:,}; use 'window'"
            )
        bounds = [0, total]
    low, high = (total * (config.process_index + k) // config.world_size for k in range(2))
    full = low + total // config.world_size // batch_size * batch_size  # all processes can deliver as many
    end = full if config.drop_last else high
    if config.shuffle != "global":  # no block spans the parts of two processes
        count = max((end - low) // config.window, 1)
        bounds = [low + (end - low) * k // count for k in range(count + 1)]
    return [
        ShuffleBlock(start, stop, max(low - start, 0), min(end, stop) - start)
        for start, stop in pairwise(bounds)
        if start < stop and low < end
    ]

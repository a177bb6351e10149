"""Feed damaged and generated lines and indexes to the TYGEM parsers: `python tests/fuzz_tygem.py --seconds 60`.

Every input must be read as by the naive parsers. The first input that fails is printed, and the exit code is 1. The
seed makes a run repeatable.
"""

from __future__ import annotations

import random

from fuzzing import damage, run, try_all
from naive_tygem import INDEX_PIECES, PIECES, ROW, compare_index_with_naive, compare_with_naive

LINE = b"885492098\t;B[pd];W[dp];B[pq];W[]\n"


def mutant(draw: random.Random, pieces: list[bytes], whole: bytes) -> bytes:
    """Return some whole lines, or a soup of pieces, with some bytes replaced by pieces or noise."""
    soup = draw.random() < 0.3
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60))) if soup else whole * draw.randint(0, 5))
    return damage(draw, data, pieces)


def check(inputs: tuple[bytes, bytes]) -> None:
    """Check lines and an index."""
    compare_with_naive([inputs[0]])
    compare_index_with_naive(inputs[1])


def fuzz(seconds: float, seed: int) -> int:
    """Return the number of inputs; see `fuzzing.try_all`."""

    def make(draw: random.Random) -> tuple[bytes, bytes]:
        return mutant(draw, PIECES, LINE), mutant(draw, INDEX_PIECES, ROW.encode() + b"\n")

    return try_all(make, check, seconds, seed)


if __name__ == "__main__":
    run("tygem", fuzz, __doc__)

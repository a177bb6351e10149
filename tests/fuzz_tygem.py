"""Damaged and made-up lines and indexes of TYGEM, until the time is up: `python tests/fuzz_tygem.py --seconds 60`.

Every input must be read as the slow twins read it. The first that is not so is printed, and the exit code is 1. The
seed makes a run repeatable.
"""

from __future__ import annotations

import random

from fuzzing import damage, run, try_all
from test_tygem import INDEX_PIECES, PIECES, ROW, compare_index_with_naive, compare_with_naive

LINE = b"885492098\t;B[pd];W[dp];B[pq];W[]\n"


def mutant(draw: random.Random, pieces: list[bytes], whole: bytes) -> bytes:
    """Some whole lines, or a soup of pieces; then some bytes of it replaced by pieces or noise."""
    soup = draw.random() < 0.3
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60))) if soup else whole * draw.randint(0, 5))
    return damage(draw, data, pieces)


def check(inputs: tuple[bytes, bytes]) -> None:
    """Lines, and an index."""
    compare_with_naive([inputs[0]])
    compare_index_with_naive(inputs[1])


def fuzz(seconds: float, seed: int) -> int:
    """How many inputs were tried; see `fuzzing.try_all`."""

    def make(draw: random.Random) -> tuple[bytes, bytes]:
        return mutant(draw, PIECES, LINE), mutant(draw, INDEX_PIECES, ROW.encode() + b"\n")

    return try_all(make, check, seconds, seed)


if __name__ == "__main__":
    run("tygem", fuzz, __doc__)

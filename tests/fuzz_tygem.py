"""Damaged and made-up lines and indexes of TYGEM, until the time is up: `python tests/fuzz_tygem.py --seconds 60`.

Every input must be read as the slow twins read it. The first that is not so is printed, and the exit code is 1. The
seed makes a run repeatable.
"""

from __future__ import annotations

import argparse
import random
import time

from test_tygem import INDEX_PIECES, PIECES, ROW, compare_index_with_naive, compare_with_naive

LINE = b"885492098\t;B[pd];W[dp];B[pq];W[]\n"


def mutant(draw: random.Random, pieces: list[bytes], whole: bytes) -> bytes:
    """Some whole lines, or a soup of pieces; then some bytes of it replaced by pieces or noise."""
    soup = draw.random() < 0.3
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60))) if soup else whole * draw.randint(0, 5))
    for _ in range(draw.randint(0, 8)):
        at = draw.randint(0, len(data))
        noise = draw.choice([b"", draw.randbytes(draw.randint(1, 4)), draw.choice(pieces)])
        data[at : at + draw.choice((0, 0, 1, 8))] = noise
    return bytes(data)


def fuzz(seconds: float, seed: int) -> int:
    """How many inputs were tried. The failing one is in the notes of what it raises."""
    draw = random.Random(seed)
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        lines, index = mutant(draw, PIECES, LINE), mutant(draw, INDEX_PIECES, ROW.encode() + b"\n")
        begin = time.monotonic()
        try:
            compare_with_naive([lines])
            compare_index_with_naive(index)
            assert time.monotonic() - begin < 30, "a time that is not linear"
        except BaseException as error:
            error.add_note(f"seed {seed}, input {tried}: {lines!r}, {index!r}")
            raise
        tried += 1
    return tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    print(f"tygem: {fuzz(arguments.seconds, arguments.seed):,} inputs, seed {arguments.seed}")

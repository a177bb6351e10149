"""Damaged and made-up lines for OLF, read and written, until the time is up: `python tests/fuzz_olf.py --seconds 60`.

Every input must be read as the slow twin reads it, and what was read and can be said must survive writing. The first
that is not so is printed, and the exit code is 1. The seed makes a run repeatable.
"""

from __future__ import annotations

import argparse
import random
import time

from test_olf import HEAD, LINE, PIECES, check

WHOLE = [LINE + b"\n", LINE + b" AAss\n", HEAD[:-2] + b"2 PDttDPdd\n", HEAD[:-2] + b"3 DDttPPttDPtttt\n"]


def mutant(draw: random.Random) -> bytes:
    """Some lines, or a soup of pieces of lines; then some bytes of it replaced by pieces or noise."""
    pieces = PIECES if draw.random() < 0.3 else WHOLE
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60 if pieces is PIECES else 5))))
    for _ in range(draw.randint(0, 8)):
        at = draw.randint(0, len(data))
        noise = draw.choice([b"", draw.randbytes(draw.randint(1, 4)), draw.choice(PIECES)])
        data[at : at + draw.choice((0, 0, 1, 8))] = noise
    return bytes(data)


def fuzz(seconds: float, seed: int) -> int:
    """How many inputs were tried. The failing one is in the notes of what it raises."""
    draw = random.Random(seed)
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = mutant(draw)
        begin = time.monotonic()
        try:
            check(data)
            assert time.monotonic() - begin < 30, "a time that is not linear"
        except BaseException as error:
            error.add_note(f"seed {seed}, input {tried}: {data!r}")
            raise
        tried += 1
    return tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    print(f"olf: {fuzz(arguments.seconds, arguments.seed):,} inputs, seed {arguments.seed}")

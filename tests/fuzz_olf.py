"""Feed damaged and generated lines to the OLF parser and writer: `python tests/fuzz_olf.py --seconds 60`.

Every input must be read as by the naive parser, and writable games must round-trip. The first input that fails is
printed, and the exit code is 1. The seed makes a run repeatable.
"""

from __future__ import annotations

import random

from fuzzing import damage, run, try_all
from naive_olf import HEAD, LINE, PIECES, check

WHOLE = [LINE + b"\n", LINE + b" AAss\n", HEAD[:-2] + b"2 PDttDPdd\n", HEAD[:-2] + b"3 DDttPPttDPtttt\n"]


def mutant(draw: random.Random) -> bytes:
    """Return some lines, or a soup of pieces of lines, with some bytes replaced by pieces or noise."""
    pieces = PIECES if draw.random() < 0.3 else WHOLE
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60 if pieces is PIECES else 5))))
    return damage(draw, data, PIECES)


def fuzz(seconds: float, seed: int) -> int:
    """Return the number of inputs; see `fuzzing.try_all`."""
    return try_all(mutant, check, seconds, seed)


if __name__ == "__main__":
    run("olf", fuzz, __doc__)

"""Damaged and generated lines for the OLF parser and writer, which must agree with the naive ones and round-trip."""

import random

from fuzzing import Fuzzer, damage
from naive_olf import HEAD, LINE, PIECES, check

WHOLE = [LINE + b"\n", LINE + b" AAss\n", HEAD[:-2] + b"2 PDttDPdd\n", HEAD[:-2] + b"3 DDttPPttDPtttt\n"]


def lines(draw: random.Random) -> bytes:
    pieces = PIECES if draw.random() < 0.3 else WHOLE
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60 if pieces is PIECES else 5))))
    return damage(draw, data, PIECES)


OLF = Fuzzer(lines, check)

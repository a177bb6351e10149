"""Damaged and generated lines and indexes for the TYGEM parsers, which must agree with the naive ones."""

import random

from fuzzing import Fuzzer, damage
from naive_tygem import INDEX_PIECES, PIECES, ROW, compare_index_with_naive, compare_with_naive

LINE = b"885492098\t;B[pd];W[dp];B[pq];W[]\n"


def _damaged(draw: random.Random, pieces: list[bytes], whole: bytes) -> bytes:
    soup = draw.random() < 0.3
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60))) if soup else whole * draw.randint(0, 5))
    return damage(draw, data, pieces)


def lines_and_index(draw: random.Random) -> tuple[bytes, bytes]:
    return _damaged(draw, PIECES, LINE), _damaged(draw, INDEX_PIECES, ROW.encode() + b"\n")


def check(inputs: tuple[bytes, bytes]) -> None:
    compare_with_naive([inputs[0]])
    compare_index_with_naive(inputs[1])


TYGEM = Fuzzer(lines_and_index, check)

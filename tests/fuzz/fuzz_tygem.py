"""Damaged and generated lines and indexes for the TYGEM parsers; lines must agree with the naive one."""

import random

from fuzzing import Fuzzer, damage
from naive_tygem import INDEX_PIECES, PIECES, ROW, compare_with_naive, index_words

LINE = b"885492098\t;B[pd];W[dp];B[pq];W[]\n"


def _damaged(draw: random.Random, pieces: list[bytes], whole: bytes) -> bytes:
    """Return some whole lines, or a soup of pieces, with some bytes replaced by pieces or noise."""
    soup = draw.random() < 0.3
    data = bytearray(b"".join(draw.choices(pieces, k=draw.randint(0, 60))) if soup else whole * draw.randint(0, 5))
    return damage(draw, data, pieces)


def lines_and_index(draw: random.Random) -> tuple[bytes, bytes]:
    """Return damaged lines and a damaged index."""
    return _damaged(draw, PIECES, LINE), _damaged(draw, INDEX_PIECES, ROW.encode() + b"\n")


def check(inputs: tuple[bytes, bytes]) -> None:
    """Compare the reading of lines with the naive one, and that of an index with those of its lines."""
    compare_with_naive([inputs[0]])
    words: dict[int, dict[str, str]] = {}
    for line in inputs[1].split(b"\n"):
        words = index_words(b"\n" + line) | words
    assert index_words(b"\n" + inputs[1]) == words


TYGEM = Fuzzer(lines_and_index, check)

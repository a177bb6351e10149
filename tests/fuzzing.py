"""Shared parts of the fuzzers: damaging inputs, trying them for some time, and the command line."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

LIMIT = 30.0  # seconds for one input, of a few KB


def damage(draw: random.Random, data: bytearray, pieces: Sequence[bytes]) -> bytes:
    """Return the data with some bytes replaced by pieces or noise."""
    for _ in range(draw.randint(0, 8)):
        at = draw.randint(0, len(data))
        noise = draw.choice([b"", draw.randbytes(draw.randint(1, 4)), draw.choice(pieces)])
        data[at : at + draw.choice((0, 0, 1, 8))] = noise
    return bytes(data)


def try_all(make: Callable[[random.Random], T], check: Callable[[T], object], seconds: float, seed: int) -> int:
    """Return the number of inputs checked. The failing input is in the notes of the exception."""
    draw = random.Random(seed)
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = make(draw)
        begin = time.monotonic()
        try:
            check(data)
            assert time.monotonic() - begin < LIMIT, "a time that is not linear"
        except BaseException as error:
            error.add_note(f"seed {seed}, input {tried}: {data!r}")
            raise
        tried += 1
    return tried


def run(name: str, fuzz: Callable[[float, int], int], about: str | None) -> None:
    """Run a fuzzer as a program."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    print(f"{name}: {fuzz(arguments.seconds, arguments.seed):,} inputs, seed {arguments.seed}")

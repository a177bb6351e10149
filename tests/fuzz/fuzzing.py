"""Shared parts of the fuzzers: damaging inputs, and trying them for some time."""

import faulthandler
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numba.core.event import TimingListener, register

from kifu.errors import KifuError

LIMIT = 20.0  # seconds of the processor for one input, of a few kB, without the compilation of kernels

TOKENS = (b"PK\3\4", b"PK\1\2", b"PK\5\6", b"\x1f\x8b\x08\0", b"BZh9", b"ustar", b"GO", b"END", b"mlv2-n=3-", b"PAR1")


@dataclass(frozen=True)
class Fuzzer:
    """Makes inputs of one format and reads them; any exception of `check` but KifuError is a finding."""

    make: Callable[[random.Random], Any]
    check: Callable[[Any], object]


class Tried(NamedTuple):
    """Number of inputs, and of those that were refused with a KifuError."""

    inputs: int
    refused: int


def damage(draw: random.Random, data: bytearray, pieces: Sequence[bytes]) -> bytes:
    for _ in range(draw.randint(0, 8)):
        at = draw.randint(0, len(data))
        noise = draw.choice([b"", draw.randbytes(draw.randint(1, 4)), draw.choice(pieces)])
        data[at : at + draw.choice((0, 0, 1, 8))] = noise
    return bytes(data)


def mutant(draw: random.Random, seed: bytes) -> bytes:
    """Return the seed, or seldom noise, with bytes changed, lost, doubled, cut or replaced; some keep their length."""
    data = bytearray(seed if draw.random() < 0.95 else draw.randbytes(draw.randint(0, 3000)))
    if data and draw.random() < 0.6:
        for at in draw.choices(range(len(data)), k=draw.randint(1, 6)):
            data[at] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        return bytes(data)
    for _ in range(draw.randint(0, 6)):
        at = draw.randint(0, len(data))
        length = draw.choice((0, 1, 2, 4, 8, 512, 365, 322))
        new = draw.choice((b"", draw.randbytes(draw.randint(1, 4)), draw.choice(TOKENS), bytes(data[at : at + length])))
        data[at : at + length] = new
    return bytes(data[: draw.randint(0, len(data))] if draw.random() < 0.1 else data)


def try_all(fuzzer: Fuzzer, seconds: float, seed: int, kept: Path) -> Tried:
    """Try inputs for some time. `kept` holds the current input, for a crash of the process, or once it hangs."""
    draw, tried, refused = random.Random(seed), 0, 0
    compiling = _compilation_time()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        made = fuzzer.make(draw)
        kept.write_text(f"seed {seed}, input {tried}: {made!r}\n")
        begin = time.process_time() - compiling()
        faulthandler.dump_traceback_later(60 * LIMIT, exit=True)  # it may compile kernels
        try:
            fuzzer.check(made)
        except KifuError as error:
            if not str(error).isprintable():
                raise AssertionError("a message with control characters") from error
            refused += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
        taken = time.process_time() - compiling() - begin
        assert taken < LIMIT, f"{taken:.0f} seconds of the processor for one input"
        tried += 1
    return Tried(tried, refused)


def _compilation_time() -> Callable[[], float]:
    """Return a function that returns the seconds spent on compiling kernels from now on."""
    listener = TimingListener()
    register("numba:compile", listener)
    return lambda: listener.duration if listener.done else 0.0

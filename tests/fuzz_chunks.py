"""Damaged training chunks: the compressed files, and the records in them, with right checksums."""

import gzip
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import kifu
from chunk_writers import field, lz_binary, lz_text, minigo_features, put, random_game, tfrecord
from fuzzing import Fuzzer, damage, mutant
from kifu.datasets.chunks import Chunks

PIECES = (
    b"0", b"1", b" ", b"\n", b"\r\n", b"nan", b"-", b"e", b".", b"1e999", b"\0", b"\xff", b"\x0a\x02pi", b"\x80" * 11,
    b"\x12\xff\xff\xff\xff\x0f", b"2\n",
)  # fmt: skip


def _records(name: str, draw: random.Random) -> list[list[bytes]]:
    """Return the records of some games. Those of minigo are without their heads and checksums."""
    if name == "minigo@1":
        games = [random_game(draw, size, plies) for size, plies in ((3, 6), (9, 12))]
        return [[field(1, b"".join(minigo_features(each).values())) for each in game] for game in games]
    game = random_game(draw, 19, 4)
    return [list(map(lz_text, game)), list(map(lz_binary, game))]


def chunk_files(name: str) -> Callable[[random.Random], bytes]:
    """Return a function that draws a damaged file."""
    games = _records(name, random.Random(1))
    minigo = name == "minigo@1"

    def make(draw: random.Random) -> bytes:
        records = list(draw.choice(games))
        way = draw.random()
        if way < 0.7:  # whole records, so that those after a damaged one are read, too
            for _ in range(draw.randint(1, 2)):
                at = draw.randrange(len(records))
                wrong = (
                    damage(draw, bytearray(records[at]), PIECES) if draw.random() < 0.5 else mutant(draw, records[at])
                )
                records[at : at + draw.randint(0, 1)] = [wrong]
        data = b"".join(map(tfrecord, records) if minigo else records)
        if way > 0.6:
            data = mutant(draw, data)
        packed = (zlib.compress if minigo else gzip.compress)(data, 1)
        return mutant(draw, packed) if way > 0.9 else packed

    return make


def use_chunk(path: Path) -> None:
    """Read a data set and its games."""
    with kifu.open(path) as data:
        assert isinstance(data, Chunks) or not len(data)  # without a whole chunk: an empty .dat
        for game in data.games():
            assert len(game) >= 1
            assert game.drop == 0
            kifu.write_sgf(game)


def chunk_fuzzer(name: str, folder: Path, use_dataset: Callable[[Path], None]) -> Fuzzer:
    """Return the fuzzer of a format of training chunks. use_dataset: also reads each file."""
    folder.mkdir(exist_ok=True)
    number = 0

    def check(data: bytes) -> None:
        nonlocal number
        number += 1  # the content of a file is remembered by its name, size and time
        path = put(folder / f"{number}.gz", data)
        try:
            use_dataset(path)
            use_chunk(path)
        finally:
            path.unlink()

    return Fuzzer(chunk_files(name), check)

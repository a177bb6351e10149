"""Feed arbitrary bytes to every reader for some time: `python tests/fuzz.py --seconds 600`.

Records (see also fuzz_sgf.py, fuzz_olf.py and fuzz_tygem.py, which compare with naive parsers), containers, catalogues
and data set files take turns. A reader must return a result or raise a KifuError within a time limit; the first input
for which it does not is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from catalogues import GAMES, table, write_catalogue
from example_sets import FORMATS, layout_for, random_batch
from fuzz_olf import fuzz as fuzz_olf
from fuzz_sgf import fuzz as fuzz_sgf
from fuzz_tygem import fuzz as fuzz_tygem
from kata_rows import as_arrays, random_rows
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import cleaning_rule_names, load_cleaning_rules
from kifu.corpus.export import rows_to_olf, rows_to_sgf
from kifu.corpus.rows import rows_from_catalogue
from kifu.datasets.formats import open as open_data_set
from kifu.datasets.formats import open_writer
from kifu.errors import KifuError
from kifu.katago.npz import KataWriter
from kifu.records.parse import summarize
from naive_dat import random_file
from naive_tygem import ROW
from record_samples import OLF_LINE, TYGEM_LINE, small_archives

TURN = 20.0  # seconds
LIMIT = 10.0  # seconds for one input, of a few KB

TOKENS = (b"PK\3\4", b"PK\1\2", b"PK\5\6", b"\x1f\x8b\x08\0", b"BZh9", b"ustar", b"GO", b"END", b"mlv2-n=3-", b"PAR1")

RULES = [load_cleaning_rules(name) for name in cleaning_rule_names()]

FILES_OF_LINES = (OLF_LINE * 5, TYGEM_LINE * 5, ROW.encode())


def mutant(draw: random.Random, seeds: list[bytes]) -> bytes:
    """Return a seed or noise, with some bytes changed, lost, doubled or replaced by tokens, or truncated.

    Some keep their length, as files with offsets would otherwise be rejected early.
    """
    data = bytearray(draw.choice(seeds) if draw.random() < 0.9 else draw.randbytes(draw.randint(0, 3000)))
    if draw.random() < 0.4:
        for at in draw.choices(range(len(data)), k=draw.randint(1, 6)) if data else ():
            data[at] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        return bytes(data)
    for _ in range(draw.randint(0, 6)):
        at = draw.randint(0, len(data))
        length = draw.choice((0, 1, 2, 4, 8, 512, 365, 322))
        new = draw.choice((b"", draw.randbytes(draw.randint(1, 4)), draw.choice(TOKENS), bytes(data[at : at + length])))
        data[at : at + length] = new
    return bytes(data[: draw.randint(0, len(data))] if draw.random() < 0.1 else data)


def read_container(path: Path) -> None:
    summarize(path)


def small_catalogues() -> list[bytes]:
    """Return seeds as we write them, and uncompressed ones, where changed bytes are changed values."""
    with tempfile.TemporaryDirectory() as folder:
        made = [write_catalogue(Path(folder, "a.parquet"), GAMES).read_bytes()]
    many = pa.concat_tables([table()] * 40).combine_chunks()  # most bytes are to be values, not the footer
    for options in ({}, {"use_dictionary": False}, {"use_dictionary": False, "data_page_version": "2.0"}):
        file = io.BytesIO()
        pq.write_table(many, file, compression="none", write_statistics=False, store_schema=False, **options)
        made.append(file.getvalue())
    return made


def small_data_sets() -> list[dict[str, bytes]]:
    """Return files by name, of each format of examples; the first ones are alone in their data set."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            with open_writer(name, Path(folder, name), layout_for(name)) as writer:
                writer.write(random_batch(writer.layout, 7))
                writer.commit({})
        with KataWriter(Path(folder, "kata"), rows_per_file=2, compression="fast", meta=True) as kata:
            kata.write(random_rows(3))
            kata.commit({})
        np.savez(Path(folder, "theirs.npz"), **as_arrays(random_rows(2)))
        return [
            {each.name: each.read_bytes() for each in (sorted(made.iterdir()) if made.is_dir() else [made])}
            for made in sorted(Path(folder).iterdir())
        ]


def fuzz_folders(seconds: float, seed: int, data_sets: list[dict[str, bytes]]) -> int:
    """Return a data set of which one file is a mutant."""
    others: dict[str, bytes] = {}

    def read(path: Path) -> None:
        for name, data in others.items():
            if name != path.name:
                path.with_name(name).write_bytes(data)
        read_data_set(path if len(others) == 1 else path.parent)

    draw, tried = random.Random(seed), 0
    for _ in range(len(data_sets)):
        others = draw.choice(data_sets)
        victim = draw.choice(list(others))
        tried += fuzz_files(seconds / len(data_sets), draw.randrange(2**32), [others[victim]], [victim], read)
    return tried


def read_data_set(path: Path) -> None:
    with open_data_set(path) as data:
        data.to_numpy()


def read_catalogue(path: Path) -> None:
    for batch in open_catalogue(path).batches():
        for rules in RULES:
            rows = rows_from_catalogue(batch, rules)
            rows.batch(rows.drop).validate(full=True)
        rows_to_olf(batch)
        rows_to_sgf(batch)


def fuzz_files(seconds: float, seed: int, seeds: list[bytes], names: list[str], read: Callable[[Path], None]) -> int:
    """Write mutants under one of the names, read them, and return their number."""
    draw, tried, end = random.Random(seed), 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            path, data = Path(folder, draw.choice(names)), mutant(draw, seeds)
            path.write_bytes(data)
            begin = time.monotonic()
            try:
                read(path)
            except KifuError as error:
                if "\n" in str(error):
                    raise AssertionError(f"two lines: {error}") from error
            except BaseException as error:
                error.add_note(f"seed {seed}, input {tried}, {path.name}: {data!r}")
                raise
            assert time.monotonic() - begin < LIMIT, f"too slow: seed {seed}, input {tried}, {path.name}: {data!r}"
            path.unlink()
            tried += 1
    return tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    archives = [*small_archives().values(), *FILES_OF_LINES]
    catalogues = small_catalogues()
    data_sets = [random_file(name, n) for name in ("dat1@1", "dat2@1") for n in (0, 1, 3)]
    examples = small_data_sets()
    names = ["a.sgf", "a.tar", "a.tar.gz", "a.zip", "a.gz", "a.bz2", "a.xz", "a.olf", "a.index", "a"]
    harnesses: dict[str, Callable[[float, int], int]] = {
        "records": fuzz_sgf,
        "lines of OLF": fuzz_olf,
        "lines of TYGEM": fuzz_tygem,
        "containers": lambda seconds, seed: fuzz_files(seconds, seed, archives, names, read_container),
        "catalogues": lambda seconds, seed: fuzz_files(seconds, seed, catalogues, ["a.parquet"], read_catalogue),
        "data sets of 2015": lambda seconds, seed: fuzz_files(seconds, seed, data_sets, ["a.dat"], read_data_set),
        "data sets": lambda seconds, seed: fuzz_folders(seconds, seed, examples),
    }
    counts = dict.fromkeys(harnesses, 0)
    end, seed = time.monotonic() + arguments.seconds, arguments.seed
    while time.monotonic() < end:
        for name, harness in harnesses.items():
            counts[name] += harness(min(TURN, max(end - time.monotonic(), 0.1)), seed)
        seed += 1
    summary = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    print(f"{summary}: every one a result or a KifuError; seeds {arguments.seed} to {seed - 1}")


if __name__ == "__main__":
    main()

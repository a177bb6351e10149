"""Sources with games of several years and duplicates, for catalogues of many partitions."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgs_archives import BROKEN, archive, record
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules


def rules(duplicates: str) -> CleaningRules:
    return load_cleaning_rules("legal", [f'duplicates="{duplicates}"'])


def dated(seed: str, date: str, name: str = "") -> bytes:
    """Return a game of 60 moves on a day; the seed determines the moves."""
    return record(seed).replace(b"PB[Black", f"DT[{date}]PB[{name}Black".encode())


def cut(game: bytes, plies: int) -> bytes:
    """Return the beginning of a game."""
    return b";".join(game[:-1].split(b";")[: 2 + plies]) + b")"


LONG = dated("long", "2004-02-03")


def make_sources(folder: Path) -> list[Path]:
    """Write three archives with duplicates.

    The first has a game twice, and the beginning of one of the second. The second repeats a game of the first. The
    third has a game of the first under another name, and the beginning of one of the second.
    """
    days = ["2003-05-06", "2004-01-01", "2004-12-31", "2005", "1846-09-11", "2345-01-01", ""]
    first = [dated(f"a{k}", days[k % len(days)]) for k in range(15)]
    second = [dated(f"b{k}", days[k % 4]) for k in range(12)]
    broken = [BROKEN[name] for name in ("OFF_BOARD", "OCCUPIED", "NO_RECORD", "NOT_GO")]
    third = [dated(f"c{k}", "2016-01-02") for k in range(6)]
    return [
        archive(folder, [*first, first[1], cut(LONG, 40)], year=2003, kind="zip"),
        archive(folder, [*second[:5], first[2], *second[5:], LONG], year=2004),
        archive(folder, [*third, dated("a0", "2017-01-01", "Other "), cut(second[3], 45), *broken], year=2016),
    ]


def bag(path: Path, *without: str) -> Counter[tuple[Any, ...]]:
    """Return all rows, without their order, as tuples of values as text."""
    return Counter(
        tuple(sorted((name, str(value)) for name, value in row.items() if name not in without))
        for batch in open_catalogue(path).batches()
        for row in batch.to_pylist()
    )


def table(path: Path) -> pa.Table:
    return pa.Table.from_batches(open_catalogue(path).batches(size=1 << 20)).combine_chunks()

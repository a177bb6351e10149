"""A small benchmark set in place of the packaged ones."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
from blake3 import blake3

import kifu.assets
import kifu.config
from kgs_archives import archive, record
from kifu.arrays import Hashes
from kifu.assets import asset
from kifu.datasets.mmap_games import read_games
from lazy import lazy_import

learn = lazy_import("kifu.learn")
make_benchmarks = lazy_import("make_benchmarks")

NAME = "tiny@1"
FIRST, LAST = date(2001, 1, 1), date(2001, 4, 30)


def games(folder: Path, count: int = 32, seed: int = 0) -> Path:
    """Return an archive of random games of four months, with ranks."""
    texts = []
    for k in range(count):
        root = f"(;DT[2001-0{1 + k % 4}-{1 + k % 28:02}]BR[{1 + k % 5}d]WR[{1 + k % 3}d]".encode()
        texts.append(root + record(f"{seed}-{k}", 80).removeprefix(b"(;"))
    return archive(folder, texts)


def draw(source: Path, count: int = 24) -> Hashes:
    """Return the keys of games drawn from a source."""
    rows = read_games([source], (19, 19), False, 1, make_benchmarks.DRAW_COLUMNS)
    keys: Hashes = make_benchmarks.draw_games(rows, FIRST, LAST, count)[0]
    return keys


def write_set(folder: Path, keys: Hashes, **changes: object) -> None:
    """Write the definition of the set NAME into folder/benchmarks."""
    listing = "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in keys.tolist())
    values = {
        "name": f'"{NAME}"', "title": '"Random games"', "first": FIRST, "last": LAST, "windows": '"month"',
        "archives": '["x.tar.gz"]', "games": len(keys), "digest": f'"{blake3(listing.encode()).hexdigest()}"',
        "hashes": f'"{base64.b64encode(keys.astype("<u8").tobytes()).decode()}"', **changes,
    }  # fmt: skip
    (folder / "benchmarks").mkdir(exist_ok=True)
    text = "".join(f"{key} = {value}\n" for key, value in values.items())
    (folder / "benchmarks" / f"{NAME}.toml").write_text(text)


@contextmanager
def only_sets_of(folder: Path) -> Iterator[None]:
    """Replace the packaged sets by those of folder/benchmarks."""
    sets = learn.benchmark

    def forget() -> None:
        sets.load_set.cache_clear()
        sets._reserved_openings.cache_clear()
        sets._reserved_accounts.cache_clear()

    def find(*parts: str) -> object:
        return folder.joinpath(*parts) if parts[0] == "benchmarks" else asset(*parts)

    forget()
    with pytest.MonkeyPatch.context() as patch:
        for module in (kifu.assets, kifu.config):
            patch.setattr(module, "asset", find)
        yield
    forget()

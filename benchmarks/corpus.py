"""What is measured on: real archives beside the checkout, or else the bundled sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kifu.demo import sample_path

_YEARS = ("2001", "2002", "2003", "2006")


@dataclass(frozen=True)
class Corpus:
    """archives: what speed is measured on. index: their index page. every: more archives, for the peak of memory.

    overrides: what the recipe needs to be built from `archives`; every_overrides: from `every`.
    judged: whether the figures asked for speak of these archives.
    """

    title: str
    archives: tuple[Path, ...]
    index: Path | None
    every: tuple[Path, ...]
    overrides: tuple[str, ...]
    every_overrides: tuple[str, ...]
    judged: bool


def find_corpus(shared: Path) -> Corpus:
    """The archives in the folder `shared`; if there are none, the sample."""
    every = tuple(sorted((shared / "data" / "kgs").glob("KGS-*.tar.gz")))
    archives = tuple(path for path in every if path.name.split("-")[1] in _YEARS)
    if len(archives) == len(_YEARS):
        index = shared / "reference" / "kgsgo" / "cached_indexpage.html"
        title = f"KGS {', '.join(_YEARS)}"
        return Corpus(title, archives, index, every, (), ("until=2018",), judged=True)
    sample = sample_path()
    overrides = ("until=2025", "sets.test.games=20")
    title = f"the bundled sample ({sample.name}), for want of the archives of {', '.join(_YEARS)} in {shared}"
    return Corpus(title, (sample,), None, (), overrides, (), judged=False)

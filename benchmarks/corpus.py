"""The data of the benchmarks: real archives next to the checkout, or else the bundled sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kifu.assets import sample_path

_YEARS = ("2001", "2002", "2003", "2006")


@dataclass(frozen=True)
class Corpus:
    """Archives to measure on.

    Attributes:
        title: for display.
        archives: archives for speed.
        index: their index page.
        every: more archives, for peak memory.
        overrides: overrides of the recipe to build it from `archives`.
        every_overrides: the same for `every`.
        patterns: searches in `every` with libkombilo's answers, if available.
        judged: True if the targets apply to these archives.
    """

    title: str
    archives: tuple[Path, ...]
    index: Path | None
    every: tuple[Path, ...]
    overrides: tuple[str, ...]
    every_overrides: tuple[str, ...]
    patterns: Path | None
    judged: bool


def find_corpus(shared: Path) -> Corpus:
    """Return the archives in the directory `shared`, or the bundled sample if there are none."""
    every = tuple(sorted((shared / "data" / "kgs").glob("KGS-*.tar.gz")))
    archives = tuple(path for path in every if path.name.split("-")[1] in _YEARS)
    if len(archives) == len(_YEARS):
        index = shared / "reference" / "kgsgo" / "cached_indexpage.html"
        title = f"KGS {', '.join(_YEARS)}"
        return Corpus(title, archives, index, every, (), ("until=2018",), find_patterns(shared), judged=True)
    sample = sample_path()
    overrides = ("until=2025", "sets.test.games=20")
    title = f"the bundled sample ({sample.name}), because the archives of {', '.join(_YEARS)} are not in {shared}"
    return Corpus(title, (sample,), None, (), overrides, (), None, judged=False)


def find_patterns(shared: Path) -> Path | None:
    """Return the searches with libkombilo's answers in the directory `shared`, or None."""
    path = shared / "reference" / "kombilo" / "reference-a.json.gz"
    return path if path.is_file() else None

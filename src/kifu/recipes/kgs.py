"""The archives of KGS: their names, the index page that lists them, and the 2015 program's draw of games from them.

An archive is named KGS-<year>[_<month>]-<board size>-<number of games>-, and the page links each as .zip, .tar.gz and
.tar.bz2. The program listed all games, pairs (name of the .zip file, index in the archive), in the order of that page,
drew from the list with `random.choice` until a set was large enough, and continued with `list(set)`. Then it processed
archive by archive, in the order of another set. Both orders are those of CPython 2.7 (64 bit, without hash
randomization), so its hashes of strings and tuples and its sets are reproduced here, after Objects/stringobject.c,
tupleobject.c and setobject.c of CPython 2.7.18. The random numbers need nothing: `random.Random(seed).random()` returns
the same ones in Python 3.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.corpus.sources import GameSources, Source
from kifu.errors import RecipeError, SourceError
from kifu.io import read_small
from kifu.records.containers import containers
from kifu.records.paths import AnyPath

if TYPE_CHECKING:
    from kifu.recipes.schema import KgsgoRecipe

PAGE_LIMIT = 4 << 20
"""Maximum size of an index page in bytes. The one of 2014, with 91 archives, has 53,898."""

_NAME = re.compile(
    r"(KGS-([0-9]{4})(?:_(0[1-9]|1[0-2]))?-([1-9][0-9]?)-([0-9]{1,7})-)\.(?:zip|tar\.gz|tar\.bz2|tgz|tbz2)"
)
# Python's HTMLParser takes quadratic time on some pages (see CPython issue 135462), and 30 us for an anchor.
_ANCHOR = re.compile(r"<a\s[^<>]{1,1000}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\s([^\s"'=<>/]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")

MAX_GAMES = 10_000_000
"""Maximum number of games in all archives together; KGS had 171,562 up to 2014."""

_WORD = 2**64
_MULTIPLIER = 1000003


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive of KGS, by its name."""

    name: str  # the name of the zip file, "KGS-2006-19-10388-.zip"
    year: int
    month: int | None  # 1 to 12; None if the archive holds a whole year
    size: int  # board size, always 19 so far
    games: int

    @property
    def stem(self) -> str:
        """The name without its extension, "KGS-2006-19-10388-"."""
        return self.name.removesuffix(".zip")


def parse_archive_name(name: str) -> Archive | None:
    """Parse a file name or path with the extension .zip, .tar.gz, .tar.bz2, .tgz or .tbz2; None for any other name."""
    match = _NAME.fullmatch(re.split(r"[/\\]", name)[-1])
    if not match:
        return None
    stem, year, month, size, games = match.groups()
    return Archive(f"{stem}.zip", int(year), int(month) if month else None, int(size), int(games))


def _without_comments(page: str) -> str:
    kept, at = [], 0
    while (begin := page.find("<!--", at)) >= 0:
        kept.append(page[at:begin])
        end = page.find("-->", begin + 2)  # <!--> is a whole comment
        if end < 0:
            return "".join(kept)
        at = end + 3
    return "".join([*kept, page[at:]])


def find_links(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the href of each anchor of an HTML page, and the texts between it and its neighbours."""
    page = _without_comments(page)
    href, before, end = "", "", 0
    for tag in _ANCHOR.finditer(page):
        between = page[end : tag.start()]
        if href:
            yield href, before, between
        href, before, end = _href(tag[0]), between, tag.end()
    if href:
        yield href, before, page[end:]


def _href(tag: str) -> str:
    """Return the first href of a tag that is not empty, or ""."""
    for name, *values in _ATTRIBUTE.findall(tag):
        if name.lower() == "href" and any(values):
            return unescape("".join(values)).strip()
    return ""


def parse_index(page: bytes) -> list[Archive]:
    """Return the archives of an index page (HTML), in the order of their first links.

    Other links are ignored. Raises SourceError if the page has no link to an archive, or is larger than `PAGE_LIMIT`.
    """
    if len(page) > PAGE_LIMIT:
        raise SourceError(f"the index page has more than {PAGE_LIMIT:,} bytes")
    named = (parse_archive_name(href) for href, _, _ in find_links(page.decode("utf-8", "replace")))
    archives = list(dict.fromkeys(archive for archive in named if archive))
    if not archives:
        raise SourceError("the index page has no link to an archive with a name like KGS-2006-19-10388-.zip")
    return archives


def order_as_page(archives: Iterable[Archive]) -> list[Archive]:
    """Return the archives newest first, as on the page; a whole year follows the months of that year."""
    return sorted(archives, key=lambda archive: (archive.year, archive.month or 0), reverse=True)


def find_archives(sources: GameSources) -> dict[Archive, AnyPath]:
    """Return the archives of KGS among the sources and in directories among them, with the first file of each.

    Raises SourceError if no archive is among them, or a source does not exist.
    """
    archives: dict[Archive, AnyPath] = {}
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    named = [(each.name, each.path) for each in given if isinstance(each, Source)]
    paths = [each for each in given if not isinstance(each, Source)]
    for name, path in named + [(path.name, path) for path in containers(paths)]:
        archive = parse_archive_name(name)
        if archive is not None:
            archives.setdefault(archive, path)
    if not archives:
        raise SourceError("no archive among the sources is named as KGS does, like KGS-2006-19-10388-.tar.gz")
    return archives


def list_archives(index: str | os.PathLike[str] | Sequence[str] | None, found: Iterable[Archive]) -> list[Archive]:
    """Return the archives of an index page (an HTML file), or of a list of names, by default those found, newest first.

    Raises SourceError if the page cannot be read, or has no link to an archive.
    """
    if index is None:
        return order_as_page(found)
    if not isinstance(index, str | os.PathLike):
        return [archive for archive in map(parse_archive_name, index) if archive]
    try:
        page = read_small(index, PAGE_LIMIT)
    except OSError as error:
        raise SourceError(f"cannot read the index page {index}: {error.strerror}") from None
    return parse_index(page)


def hash_text(text: str) -> int:
    """Return Python 2's hash of a str, or of a unicode with the same characters."""
    if not text:
        return 0
    x = ord(text[0]) << 7
    for character in text:
        x = (_MULTIPLIER * x ^ ord(character)) % _WORD
    x = (x ^ len(text)) % _WORD
    signed = x - _WORD if x >= _WORD // 2 else x
    return -2 if signed == -1 else signed


def hash_pairs(first: npt.ArrayLike, second: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return Python 2's hashes of tuples of two items, given the hashes of these: [N] int64, as all of them.

    The hash of a small int is the int itself, except for -1.
    """
    x = np.full(np.broadcast_shapes(np.shape(first), np.shape(second)), 0x345678, np.uint64)
    for item, multiplier in ((first, _MULTIPLIER), (second, _MULTIPLIER + 82522)):
        x = (x ^ np.asarray(item, np.int64).astype(np.uint64)) * np.uint64(multiplier)
    hashes = (x + np.uint64(97531)).astype(np.int64)
    hashes[hashes == -1] = -2
    return hashes


def set_order(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the order in which Python 2 iterates over a set of N different items: [N] int64, indices of the items.

    `hashes` are in the order in which the items are added. This is plain Python, because 170,000 items take less time
    than loading a compiled kernel.
    """
    codes = hashes.astype(np.uint64).tolist()

    def insert(items: Iterable[int], table: list[int]) -> None:
        mask = len(table) - 1
        for item in items:
            perturb = codes[item]
            slot = perturb & mask
            while table[slot] >= 0:
                slot = (slot * 5 + perturb + 1) & mask
                perturb >>= 5
            table[slot] = item

    table, used = [-1] * 8, 0
    while True:
        full = -(-2 * len(table) // 3)  # so many items make it grow
        insert(range(used, min(full, len(codes))), table)
        if len(codes) < full:
            return np.array([each for each in table if each >= 0], np.int64)
        used, size, smaller = full, len(table), table
        while size <= (used * 2 if used > 50_000 else used * 4):
            size *= 2
        table = [-1] * size
        insert((each for each in smaller if each >= 0), table)


def text_set_order(texts: Iterable[str]) -> list[str]:
    """Return `list(set(texts))` of Python 2. Texts may repeat."""
    distinct = list(dict.fromkeys(texts))
    order = set_order(np.array([hash_text(text) for text in distinct], np.int64))
    return [distinct[k] for k in order]


class Sampler:
    """Draws the sets of a recipe from the archives of an index."""

    def __init__(self, recipe: KgsgoRecipe, archives: list[Archive]) -> None:
        """Prepare draws from the archives up to the year `until` of the recipe, in the order of the index page.

        Raises RecipeError if they hold more than `MAX_GAMES` games.
        """
        self._recipe = recipe
        self._all = archives
        self._archives = [archive for archive in archives if archive.year <= recipe.until]
        counts = np.array([archive.games for archive in self._archives], np.int64)
        if counts.sum() > MAX_GAMES:
            raise RecipeError(f"the archives hold {counts.sum():,} games; the maximum is {MAX_GAMES:,}")
        self._archive_of = np.repeat(np.arange(len(counts)), counts)
        self._game_of = np.arange(len(self._archive_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        names = np.array([hash_text(archive.name) for archive in self._archives], np.int64)
        self._hashes = hash_pairs(names[self._archive_of], self._game_of)

    def select(self, name: str) -> dict[Archive, npt.NDArray[np.int64]]:
        """Return a set's games by archive, indices from 0, in the order of the file. Raises RecipeError for too few."""
        if self._recipe.sets[name].by_archive:
            return {archive: np.arange(archive.games) for archive in self._all}
        drawn = self._draw(name)
        archive_of = self._archive_of[drawn]
        archives, first = np.unique(archive_of, return_index=True)
        by_name = {self._archives[k].name: k for k in archives[np.argsort(first)]}
        order = (by_name[archive_name] for archive_name in text_set_order(by_name))
        return {self._archives[k]: self._game_of[drawn[archive_of == k]] for k in order}

    def _draw(self, name: str) -> npt.NDArray[np.int64]:
        """Return a set as indices into the list of all pairs, in Python 2's set order."""
        added = self._added(name)
        return added[set_order(self._hashes[added])]

    def _added(self, name: str) -> npt.NDArray[np.int64]:
        """Return a set as indices into the list of all pairs, in the order in which they were added."""
        game_set = self._recipe.sets[name]
        total = len(self._game_of)
        taken = np.zeros(total, bool)
        if game_set.without is not None:
            taken[self._added(game_set.without)] = True
        left = total - int(taken.sum())
        if left < (game_set.games or 1):
            raise RecipeError(
                f"set {name!r} takes {game_set.games or 1:,} games, but {left:,} are left "
                f"({total:,} up to {self._recipe.until} in {len(self._archives)} archives); "
                f"ask for fewer with --set sets.{name}.games=N"
            )
        if game_set.games is None:
            return np.flatnonzero(~taken)
        draw = random.Random(self._recipe.seed).random
        drawn: list[int] = []
        while len(drawn) < game_set.games:
            pair = int(draw() * total)  # Python 2's random.choice
            if not taken[pair]:
                taken[pair] = True
                drawn.append(pair)
        return np.array(drawn, np.int64)

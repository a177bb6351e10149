"""The KGS archives: what their names say, and the index page that lists them.

An archive is named KGS-<year>[_<month>]-<board size>-<number of games>-, and the page links each as .zip, .tar.gz and
.tar.bz2. The kgsgo recipes draw games by the order of that page and hash the names as it spells the .zip ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from kifu.errors import SourceError
from kifu.records.containers import containers
from kifu.records.paths import AnyPath

KINDS = ("zip", "tar.gz", "tar.bz2")
"""In the order in which the page lists them."""

PAGE_LIMIT = 4 << 20
"""An index page of more bytes is not read. The one of 2014, with 91 archives, has 53,898."""

_SHORT_KINDS = {"tgz": "tar.gz", "tbz2": "tar.bz2"}
_NAME = re.compile(
    r"(KGS-([0-9]{4})(?:_(0[1-9]|1[0-2]))?-([1-9][0-9]?)-([0-9]{1,7})-)\.(zip|tar\.gz|tar\.bz2|tgz|tbz2)"
)
# HTMLParser alone takes quadratic time on some pages (CPython issue 135462 tells of one), so it is only given one
# start tag of an anchor at a time, of limited length.
_ANCHOR = re.compile(r"<a\s[^<>]{1,1000}>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive of the KGS index."""

    name: str
    """As the page spells it for the zip file: "KGS-2006-19-10388-.zip"."""
    year: int
    month: int | None
    """1 to 12; None if the archive holds a whole year."""
    size: int
    """Of the board, as the name tells it: always 19 so far."""
    games: int
    """How many games it holds, as the name tells it."""
    links: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """href by kind, as the page has it; empty if the archive comes from no page."""

    @property
    def stem(self) -> str:
        """The name without its ending: "KGS-2006-19-10388-"."""
        return self.name.removesuffix(".zip")


def parse_archive_name(name: str) -> Archive | None:
    """Reads a file name or path that ends in .zip, .tar.gz, .tar.bz2, .tgz or .tbz2; None if it is no such name."""
    found = _match(name)
    return found and found[0]


def _match(path: str) -> tuple[Archive, str] | None:
    match = _NAME.fullmatch(re.split(r"[/\\]", path)[-1])
    if not match:
        return None
    stem, year, month, size, games, kind = match.groups()
    archive = Archive(f"{stem}.zip", int(year), int(month) if month else None, int(size), int(games))
    return archive, _SHORT_KINDS.get(kind, kind)


class _Hrefs(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name == "href" and value]


def _without_comments(page: str) -> str:
    kept, at = [], 0
    while (begin := page.find("<!--", at)) >= 0:
        kept.append(page[at:begin])
        end = page.find("-->", begin + 2)  # <!--> is a whole comment
        if end < 0:
            return "".join(kept)
        at = end + 3
    return "".join([*kept, page[at:]])


def _links(page: str) -> list[str]:
    parser = _Hrefs()
    for tag in _ANCHOR.findall(_without_comments(page)):
        parser.feed(tag)
        parser.reset()
    return parser.found


def parse_index(page: bytes) -> list[Archive]:
    """The archives of an index page, in its order, each at the place of its first link.

    Of several links of one kind to one archive the first counts. Links to anything else are passed over. Raises
    SourceError if the page names no archive, or is larger than `PAGE_LIMIT`.
    """
    if len(page) > PAGE_LIMIT:
        raise SourceError(f"the index page has more than {PAGE_LIMIT:,} bytes")
    links: dict[Archive, dict[str, str]] = {}
    for href in _links(page.decode("utf-8", "replace")):
        found = _match(href)
        if found:
            archive, kind = found
            links.setdefault(archive, {}).setdefault(kind, href)
    if not links:
        raise SourceError("the index page has no link to an archive with a name like KGS-2006-19-10388-.zip")
    return [Archive(a.name, a.year, a.month, a.size, a.games, kinds) for a, kinds in links.items()]


def order_as_page(archives: Iterable[Archive]) -> list[Archive]:
    """Newest first, by year and month, as the page has them; a whole year comes after the months of that year."""
    return sorted(archives, key=lambda archive: (archive.year, archive.month or 0), reverse=True)


def find_archives(sources: Iterable[str | os.PathLike[str]]) -> dict[Archive, AnyPath]:
    """The KGS archives among the sources, and in folders among them; of several files of one archive the first."""
    found: dict[Archive, AnyPath] = {}
    for path in containers(sources):
        archive = parse_archive_name(path.name)
        if archive is not None:
            found.setdefault(archive, path)
    if not found:
        raise SourceError("no archive among the sources is named as KGS does, like KGS-2006-19-10388-.tar.gz")
    return found


def read_index(index: str | os.PathLike[str] | None, found: Iterable[Archive]) -> list[Archive]:
    """The archives that an index page (a file) lists, in its order; without one those found, newest first."""
    if index is None:
        return order_as_page(found)
    try:
        with Path(index).open("rb") as file:
            return parse_index(file.read(PAGE_LIMIT + 1))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise SourceError(f"cannot read the index page {index}: {getattr(error, 'strerror', None) or error}") from None

"""The files of a collection, from the index page (HTML) or the tree of a GitHub repository (JSON) that lists them.

An index is not trusted: its size and the number of its files are bounded, and only links that lead below it and end in
a plain name of the collection's form are files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from kifu.errors import SourceError
from kifu.fetch._http import DownloadError, absolute_url
from kifu.fetch.collections import Collection
from kifu.recipes.kgs_index import find_links
from kifu.text import Report

LISTING_LIMIT = 8 << 20
"""Largest size of an index in bytes."""

FILE_LIMIT = 20_000
"""Largest number of files of a collection."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,150}")
_SUMS = re.compile(r"(?:SHA256SUMS?|sha256sums?)(?:\.txt)?")
_SUM_LINE = re.compile(r"^([0-9a-fA-F]{64}) [ *](?:\./)?([^\s/]{1,151})\r?$", re.MULTILINE)
_NUMBER = r"(\d{1,15}(?:\.\d{1,3})?)\s?([KMGT]?)(?:i?B)?"
# `tree -H` writes the size in brackets before a link, u-go.net in the cell before it; servers write it after the time,
# and people in parentheses.
_SIZE_BEFORE = re.compile(rf"\[\s*{_NUMBER}\s*\]\s*$")
_SIZE_CELL = re.compile(rf">\s*{_NUMBER}\s*</td>\s*<td[^<>]*>\s*$")
_SIZE_AFTER = re.compile(rf"(?:\d\d:\d\d(?::\d\d)?\s+|\(\s*){_NUMBER}(?=[\s)]|$)")
_TAG = re.compile(r"<[^<>]{0,200}>|&nbsp;|\xa0")
_NEAR = 300
"""Characters of a page beside a link that may hold its size."""

_API = re.compile(r"https://api\.github\.com/repos/([\w.-]+/[\w.-]+)/git/trees/([\w.-]+)(?:\?.*)?")
_GIT_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ListedFile(Report):
    """A file of a collection.

    Attributes:
        name: Its name, which is also the name of the downloaded file.
        size: Bytes, or None if the index does not list them.
        checksum: "sha256:..." or "git:..." if the publisher gives one.
        date: "2006", "2006-03" or "2006-03-25", or "" if its name has none.
    """

    name: str
    folder: str
    link: str
    size: int | None = None
    exact: bool = False
    checksum: str = ""
    date: str = ""


def parse_listing(
    page: bytes, base: str, collection: Collection, *, is_local: bool = False
) -> tuple[list[ListedFile], str]:
    """Return the files of a collection in the order of the index; of several with one name, the first.

    Args:
        collection: The names of the files, and further hosts.
        is_local: True for an index that the user gives as a file, whose links may lead anywhere.

    Returns:
        The files, and the address of a file with their SHA-256 sums, or "".

    Raises:
        SourceError: The index is too large, damaged, or lists no file of the collection.
    """
    if len(page) > LISTING_LIMIT:
        raise SourceError(f"the index has more than {LISTING_LIMIT:,} bytes")
    found: dict[str, ListedFile] = {}
    sums = ""
    is_json = page.lstrip()[:1] in (b"{", b"[")
    for file in _tree_files(page, base) if is_json else _page_files(page, base, collection, is_local):
        match = re.fullmatch(collection.pattern, file.name, re.ASCII)
        inside = not collection.folder or f"{file.folder}/".startswith(f"{collection.folder}/")
        if match and inside and file.name not in found:
            found[file.name] = replace(file, date=_date(match.groupdict()))
            if len(found) > FILE_LIMIT:
                raise SourceError(f"the index lists more than {FILE_LIMIT:,} files")
        elif not sums and _SUMS.fullmatch(file.name):
            sums = file.link
    if not found:
        raise SourceError(f"the index lists no file of {collection.name}")
    return list(found.values()), sums


def add_checksums(files: list[ListedFile], sums: bytes) -> list[ListedFile]:
    """Return the files with their checksums of a file of SHA-256 sums, as `sha256sum` writes it."""
    by_name = {name: digest.lower() for digest, name in _SUM_LINE.findall(sums.decode("utf-8", "replace"))}
    return [replace(f, checksum=f"sha256:{by_name[f.name]}") if f.name in by_name else f for f in files]


def _date(groups: dict[str, str | None]) -> str:
    parts = [groups.get("year"), groups.get("month"), groups.get("day")]
    return "-".join(part for part in parts if part)


def _page_files(page: bytes, base: str, collection: Collection, is_local: bool) -> Iterator[ListedFile]:
    """Yield the files that an HTML page links below its own address, or below the collection's further hosts."""
    roots = [_root(urljoin(base, ".")), *map(_root, collection.hosts)]
    names = re.compile(f"{collection.pattern}|{_SUMS.pattern}", re.ASCII)
    for href, before, after in find_links(page.decode("utf-8", "replace")):
        name = unquote(re.split("[?#]", href, maxsplit=1)[0].rpartition("/")[2])
        if not names.fullmatch(name):  # before the address is split, which takes longer
            continue
        with suppress(DownloadError, ValueError):
            link = absolute_url(base, href).partition("#")[0]
            path = _root(link)
            root = next((root for root in roots if path.startswith(root)), None)
            if root is None and is_local:
                root = _root(urljoin(link, "."))
            file = None if root is None else _file(unquote(path[len(root) :]), link)
            if file:
                size, exact = _size(before, after)
                yield replace(file, size=size, exact=exact)


def _root(url: str) -> str:
    """Return host, port and path of an address; an http link below https is refused later, with a reason."""
    address = urlsplit(url)
    return f"{address.hostname}:{address.port or ''}{address.path or '/'}"


def _file(path: str, link: str) -> ListedFile | None:
    """Return the file at a path below the index, or None unless all parts of the path are plain names."""
    *folders, name = path.split("/")
    if len(path) > 500 or not _NAME.fullmatch(name) or not all(map(_NAME.fullmatch, folders)):
        return None
    return ListedFile(name, "/".join(folders), link)


def _size(before: str, after: str) -> tuple[int | None, bool]:
    """Return the size beside a link in bytes, and whether it is exact."""
    before, after = before[-_NEAR:], after[:_NEAR]
    match = (
        _SIZE_CELL.search(before)
        or _SIZE_BEFORE.search(_TAG.sub(" ", before))
        or _SIZE_AFTER.search(_TAG.sub(" ", after))
    )
    if not match:
        return None, False
    number, unit = match.groups()
    return int(float(number) * 1024 ** " KMGT".index(unit or " ")), not unit and "." not in number


def _tree_files(page: bytes, base: str) -> Iterator[ListedFile]:
    """Yield the files of a GitHub tree: below the raw host if it comes from GitHub's API, else below its address."""
    try:
        tree = json.loads(page)
        entries = tree["tree"]
        is_truncated = tree.get("truncated", False)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise SourceError("the index is not the JSON of a GitHub tree") from None
    if not isinstance(entries, list) or is_truncated is not False:
        raise SourceError("the index is not the complete JSON of a GitHub tree")
    api = _API.fullmatch(base)
    root = f"https://raw.githubusercontent.com/{api[1]}/{api[2]}/" if api else base
    for entry in entries:
        file = _tree_file(entry, root)
        if file:
            yield file


def _tree_file(entry: Any, root: str) -> ListedFile | None:
    if not isinstance(entry, dict) or entry.get("type") != "blob" or entry.get("mode") == "120000":
        return None
    path, size, sha = (entry.get(key) for key in ("path", "size", "sha"))
    if not (isinstance(path, str) and isinstance(sha, str) and _GIT_SHA.fullmatch(sha)):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 50:
        return None
    file = _file(path, urljoin(root, quote(path)))
    return file and replace(file, size=size, exact=True, checksum=f"git:{sha}")

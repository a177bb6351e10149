"""Damaged indexes of collections, and damaged files, for what `kifu fetch` downloads."""

import bz2
import gzip
import json
import lzma
import random
from pathlib import Path

from collection_sites import FOX, TREE_H, YENW, seven_zip
from fuzzing import Fuzzer, damage, mutant
from http_server import tar_gz, zipped
from kifu.errors import SourceError
from kifu.fetch import collections as fc
from kifu.fetch.fetching import differs, find_damage, kind_of

BASE = "https://example.org/data/index.html"
NAMES = (
    "KGS-2006_01-19-88-.tar.gz", "sample-1k.json.gz", "2025/sgfs-by-date.tar.gz", "2025-07-01sgfs.tar.bz2",
    "2025-07-01rating.tar.bz2", "b6c96-s1-d2.zip", "all.sgf.xz", "SHA256SUMS", "pro2000%2B.zip",
)  # fmt: skip
LINES = "".join(TREE_H.format(name=name, kilo=38.5) for name in NAMES)
PAGES = [
    f"<html><!-- <a href='x.zip'> -->{LINES}</html>".encode(),
    b"".join(b'<a href="%s">x</a>  12-Jan-2025 10:11   4.2G\n' % name.encode() for name in NAMES),
    b"".join(b"%s *%s\n" % (b"0" * 64, name.encode()) for name in NAMES),
    *(
        json.dumps(
            {"tree": [{"path": path, "type": "blob", "mode": "100644", "sha": "0" * 40, "size": 9} for path in files]}
        ).encode()
        for files in (FOX, YENW)
    ),
]
PIECES = (
    b"<a href=", b"../", b"%2e%2e/", b"//", b"http://", b"https://dl.u-go.net/", b"\\", b"?", b"#", b"[", b"]",
    b"(9 GB)", b"[ 1T]", b"&nbsp;", b"<!--", b"-->", b"<", b">", b'"', b"'", b"{", b"}", b"null", b"true", b"-1",
    b"1e999", b'"size": ', b'"path": "', b'"truncated": true', b"\0", b"\xff", b"2025-13-99", b"&#x110000;",
)  # fmt: skip


def read_index(page: bytes) -> None:
    """Read an index for every collection. Raises SourceError if it lists no file of any."""
    found = 0
    for collection in fc.COLLECTIONS.values():
        for is_local in (False, True):
            try:
                files, _ = fc.parse_listing(page, BASE, collection, is_local=is_local)
            except SourceError as error:
                refused = error
                continue
            found += len(files)
            for file in fc.add_checksums(files, page):
                check_file(file, is_local)
            if any(file.date for file in files):
                fc.choose_files(collection.name, files, fc.FileChoice(dates=fc.parse_dates("0000-9999")))
    if not found:
        raise refused


def check_file(file: fc.ListedFile, is_local: bool) -> None:
    """Assert that a file has a plain name, and leads below the index or a further host."""
    assert file.name.isascii()
    assert file.name[0].isalnum()
    assert not set(file.name) & set('/\\ %"\0\n')
    assert is_local or file.link.startswith(
        ("https://example.org/data/", "https://dl.u-go.net/", "http://dl.u-go.net/")
    )
    assert file.size is None or 0 <= file.size < 1 << 110
    json.dumps(file.to_dict())


def listing_fuzzer(_: Path) -> Fuzzer:
    return Fuzzer(lambda draw: damage(draw, bytearray(draw.choice(PAGES)), PIECES), read_index)


FILES = {
    "a.tar.gz": tar_gz("a"),
    "a.tar.bz2": bz2.compress(gzip.decompress(tar_gz("a"))),
    "a.json.gz": gzip.compress(b"{}\n" * 999),
    "a.sgf.xz": lzma.compress(b"(;)\n" * 999),
    "a.zip": zipped(),
    "a.7z": seven_zip(),
    "a.7z.001": seven_zip()[:99],
}


def download_fuzzer(folder: Path) -> Fuzzer:
    def make(draw: random.Random) -> tuple[str, bytes]:
        name = draw.choice(list(FILES))
        return name, mutant(draw, FILES[name])

    def check(named: tuple[str, bytes]) -> None:
        name, body = named
        (folder / name).write_bytes(body)
        reason = find_damage(folder / name, kind_of(name), 1 << 20)
        assert "\n" not in reason
        differs(folder / name, f"git:{'0' * 40}")
        if reason:
            raise SourceError(reason)

    return Fuzzer(make, check)

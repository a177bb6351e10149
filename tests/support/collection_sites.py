"""The layouts of the collections that `kifu fetch` downloads, on a local server."""

import hashlib
import json
import random
import struct
import zlib

from http_server import Site, zipped

TREE = "/repos/x/y/git/trees/HEAD"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def seven_zip(packed: bytes = b"packed games" * 9, members: bytes = b"list of members" * 3) -> bytes:
    """Return a file with the header of a .7z; the check does not look into the list of members."""
    start = struct.pack("<QQI", len(packed), len(members), zlib.crc32(members))
    return b"7z\xbc\xaf\x27\x1c\0\4" + struct.pack("<I", zlib.crc32(start)) + start + packed + members


def volumes(name: str, count: int) -> dict[str, bytes]:
    whole = seven_zip(random.Random(name).randbytes(2000))
    size = len(whole) // count + 1
    return {f"{name}.{number + 1:03d}": whole[number * size :][:size] for number in range(count)}


FOX = {"LICENSE.txt": b"GPL", "9d/9d.7z": seven_zip(), "Pro/Pro.7z": seven_zip(b"pro"), **volumes("1d/1d.7z", 3)}
YENW = {
    "README.md": b"Contents", "AI/FineArt/a b.SGF": b"(;)", "Professional/pro1940-1999.zip": zipped(),
    "Professional/pro2000+.zip": zipped(), "TYGEM/Converter.py": b"import sys", "TYGEM/Kifu/2005-11.zip": zipped(),
    "TYGEM/Kifu/2006-01.zip": zipped(), "TYGEM/index/Kifu2005.zip": zipped(), "TYGEM/index/deepmind.index": b"1",
    "Tom/Kifu.index": b"1\t2003.09.25", "Tom/kifu/2003-09": b"1\t;B[pd];W[dp]", "Tom/kifu/2003-10": b"2\t;B[pd];W[dp]",
}  # fmt: skip


def publish_tree(site: Site, files: dict[str, bytes], pretended: dict[str, bytes] | None = None) -> str:
    """Serve files and the JSON of a GitHub tree that lists them; return its address."""
    entries: list[object] = [{"path": "9d", "mode": "040000", "type": "tree", "sha": "0" * 40}]
    for path, body in (files | (pretended or {})).items():
        sha = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
        entries.append({"path": path, "mode": "100644", "type": "blob", "sha": sha, "size": len(body), "url": "x"})
    for path, body in files.items():
        site.files["/repos/x/y/git/trees/" + path.replace("+", "%2B").replace(" ", "%20")] = body
    site.files[TREE] = json.dumps({"sha": "0" * 40, "url": "x", "tree": entries, "truncated": False}).encode()
    return site.url + TREE


def publish_page(site: Site, folder: str, files: dict[str, bytes], line: str) -> str:
    """Serve files and an index page with a line of this form for each; return its address."""
    for name, body in files.items():
        site.files[f"{folder}/{name}"] = body
    lines = (line.format(name=name, size=len(body), kilo=len(body) / 1024) for name, body in files.items())
    page = f"<html><body><a href='/'>up</a> <a href='http://elsewhere.invalid/x.zip'>x</a>\n{''.join(lines)}"
    site.files[f"{folder}/index.html"] = page.encode()
    return f"{site.url}{folder}/index.html"


TREE_H = '├── [{kilo:4.1f}K]&nbsp;&nbsp;<a href="./{name}">{name}</a><br>\n'
NGINX = '<a href="{name}">{name}</a>                  12-Jan-2025 10:11      {size}\n'
APACHE = (
    '<tr><td><a href="{name}">{name}</a></td><td align="right">2025-01-12 10:11  </td>'
    '<td align="right">{kilo:.1f}K</td></tr>\n'
)
CELL = '<tr><td>.tar.gz</td><td>{kilo:.1f} KB</td><td><a href="{name}">Download</a></td></tr>\n'
PROSE = '<li><a href="{name}">{name}</a> ({kilo:.1f} KB), games</li>\n'
PLAIN = '<li><a href="{name}">{name}</a></li>\n'

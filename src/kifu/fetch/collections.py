"""The table of collections that `kifu fetch` downloads. docs/collections.md describes them."""

from __future__ import annotations

from dataclasses import dataclass

from kifu.text import Report

_GIB = 1 << 30
_FOX = "https://api.github.com/repos/featurecat/go-dataset/git/trees/HEAD?recursive=1"
_YENW = "https://api.github.com/repos/yenw/computer-go-dataset/git/trees/HEAD?recursive=1"
_KATAGO = "https://katagoarchive.org"
_RUN_PATTERN = r"[\w.+-]+\.zip"
_DAY = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"


@dataclass(frozen=True, slots=True)
class Collection(Report):
    """A published set of game records.

    Attributes:
        name: The name on the command line.
        size: The number of games or bytes as far as it is known.
        terms: The terms of use as far as the publisher states them.
        index: Address of the page or of the GitHub tree that lists the files.
        pattern: Regular expression of the file names, with the groups year, month and day if they are dated.
        folder: Folder of the files below the index, "" for all.
        hosts: Beginnings of further addresses that links of the index may lead to.
        limit: Largest size of a file in bytes.
    """

    name: str
    title: str
    publisher: str
    format: str
    size: str
    terms: str
    index: str
    pattern: str
    folder: str = ""
    hosts: tuple[str, ...] = ()
    limit: int = 4 * _GIB


def _kgs(name: str, title: str, prefix: str) -> Collection:
    index = f"https://u-go.net/gamerecords{name.removeprefix('kgs')}/"
    pattern = rf"{prefix}(?P<year>\d{{4}})(?:_(?P<month>0[1-9]|1[0-2]))?-[1-9]\d?-\d{{1,7}}-\.tar\.gz"
    hosts = ("https://dl.u-go.net/", "http://dl.u-go.net/")
    terms = "with permission of KGS"
    return Collection(name, title, "u-go.net", "SGF in tar.gz", "not known", terms, index, pattern, hosts=hosts)


def _katago_run(run: str, title: str, terms: str) -> Collection:
    index = f"{_KATAGO}/{run}/selfplay/index.html"
    name = f"katago-{run}"
    return Collection(
        name, title, "KataGo", "SGF, npz in zip", "not known", terms, index, _RUN_PATTERN, limit=16 * _GIB
    )


_KATA1 = "DISCLAIMER.txt at katagoarchive.org/kata1"

COLLECTIONS = {
    each.name: each
    for each in (
        _kgs("kgs", "7 dan, or both 6 dan", "KGS-"),
        _kgs("kgs-4d", "4 dan and stronger", "KGS4d-"),
        Collection(
            "ogs", "all games, samples", "za3k.com", "JSON in gz", "56 M games",
            "redistributed with permission", "https://za3k.com/ogs/", r"[\w.-]+\.(?:json|jsonl|tar)\.gz",
            limit=128 * _GIB,
        ),
        Collection(
            "fox", "games by rank", "featurecat", "SGF in 7z", "21.1 M games", "GPL-3.0 (LICENSE.txt)", _FOX,
            r"[\w-]+\.7z(?:\.\d{3})?",
        ),
        Collection(
            "tygem", "9 dan games by month", "yenw", "TYGEM in zip", "1.5 M games", "not stated", _YENW,
            r"(?:Kifu)?(?P<year>\d{4})(?:-(?P<month>\d\d))?\.zip", folder="TYGEM",
        ),
        Collection(
            "tom", "9 dan games by month", "yenw", "TYGEM", "50,956 games", "not stated", _YENW,
            r"(?P<year>\d{4})-(?P<month>\d\d)|Kifu\.index", folder="Tom",
        ),
        Collection(
            "professional", "games of 1940-2017", "yenw", "SGF in zip", "73,522 games",
            "not stated", _YENW, r"[\w+-]+\.zip", folder="Professional",
        ),
        Collection(
            "leela-zero", "self-play, matches", "sjeng.org", "SGF in xz", "2.9 GB", "not stated",
            "https://sjeng.org/zero/", r"[\w.-]+\.sgf\.xz", limit=16 * _GIB,
        ),
        Collection(
            "katago-kata1", "self-play by day", "KataGo", "SGF in tar.bz2", "not known", _KATA1,
            f"{_KATAGO}/kata1/traininggames/index.html", rf"{_DAY}sgfs\.tar\.bz2", limit=16 * _GIB,
        ),
        Collection(
            "katago-ratings", "rating games by day", "KataGo", "SGF in tar.bz2", "not known", _KATA1,
            f"{_KATAGO}/kata1/ratinggames/index.html", rf"{_DAY}rating\.tar\.bz2", limit=16 * _GIB,
        ),
        _katago_run("g170", "self-play, to 2020", "not stated"),
        _katago_run("g104", "self-play, June 2019", "public domain (README.txt)"),
        _katago_run("g65", "self-play, Feb. 2019", "not stated"),
    )
}  # fmt: skip
"""All collections by name."""

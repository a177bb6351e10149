"""The names of the KGS archives and the page that lists them."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import SourceError
from kifu.recipes.kgs import PAGE_LIMIT, Archive, find_links, order_as_page, parse_archive_name, parse_index


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        ("KGS-2006-19-10388-.zip", Archive("KGS-2006-19-10388-.zip", 2006, None, 19, 10388)),
        ("KGS-2016_01-19-756-.tar.gz", Archive("KGS-2016_01-19-756-.zip", 2016, 1, 19, 756)),
        ("KGS-2016_12-19-1-.tar.bz2", Archive("KGS-2016_12-19-1-.zip", 2016, 12, 19, 1)),
        ("KGS-2016_12-9-1-.tgz", Archive("KGS-2016_12-9-1-.zip", 2016, 12, 9, 1)),
        ("a/b/KGS-2001-19-2298-.tbz2", Archive("KGS-2001-19-2298-.zip", 2001, None, 19, 2298)),
        ("C:\\kgs\\KGS-2001-19-2298-.zip", Archive("KGS-2001-19-2298-.zip", 2001, None, 19, 2298)),
        ("http://x/KGS-2001-19-2298-.zip", Archive("KGS-2001-19-2298-.zip", 2001, None, 19, 2298)),
    ],
)
def test_names(name: str, archive: Archive) -> None:
    assert parse_archive_name(name) == archive


@pytest.mark.parametrize(
    "name",
    [
        "",
        "KGS-2006-19-10388-",
        "KGS-2006-19-10388-.zip.part",
        "KGS-2006-19-10388-.tar",
        "KGS-2006-19-10388.zip",
        "KGS-2006-19-10388-.zip\n",
        "KGS-2006-19-10388-.zip/",
        "kgs-2006-19-10388-.zip",
        "KGS-2006_00-19-1-.zip",
        "KGS-2006_13-19-1-.zip",
        "KGS-2006_1-19-1-.zip",
        "KGS-\u0662\u0660\u0660\u0661-19-1-.zip",  # digits, but not ours
        "KGS-2006-019-1-.zip",
        "KGS-2006-19-12345678-.zip",
        "xKGS-2006-19-10388-.zip",
    ],
)
def test_no_names(name: str) -> None:
    assert parse_archive_name(name) is None


def test_the_stem_is_the_name_without_its_ending() -> None:
    archive = parse_archive_name("KGS-2006-19-10388-.tar.gz")
    assert archive is not None
    assert archive.stem == "KGS-2006-19-10388-"


def test_the_small_page_of_the_reference(shared: Path) -> None:
    archives = parse_index((shared / "reference/kgsgo/cached_indexpage.html").read_bytes())
    assert [archive.name for archive in archives] == [
        "KGS-2006-19-10388-.zip",
        "KGS-2003-19-7582-.zip",
        "KGS-2002-19-3646-.zip",
        "KGS-2001-19-2298-.zip",
    ]


def test_the_full_page_of_the_reference(shared: Path) -> None:
    archives = parse_index((shared / "reference/kgsgo/full_indexpage.html").read_bytes())
    assert (len(archives), sum(archive.games for archive in archives)) == (91, 171_562)  # facts/kgsgo.md
    assert all(archive.size == 19 for archive in archives)
    shuffled = random.Random(1).sample(archives, len(archives))
    assert shuffled != archives
    assert order_as_page(shuffled) == archives


def test_order_of_a_year_and_of_its_months() -> None:
    names = ["2008_02", "2008_01", "2008", "2007_12", "2007"]
    archives = [parse_archive_name(f"KGS-{when}-19-1-.zip") for when in names]
    assert order_as_page(archive for archive in reversed(archives) if archive) == archives


def test_links_of_every_form() -> None:
    page = b"""
        <A HREF='/x/KGS-2003-19-1-.tar.gz'>a</A> <a class=x\n href=KGS-2001-19-3-.zip>b</a>
        <a name="KGS-2009-19-3-.zip"> <address href="KGS-2000-19-1-.zip"> <a href="KGS-2008-19-1-.rar">
        <!-- <a href="KGS-2007-19-1-.zip"> <!-- --> <a href="http://y/?a&amp;b/KGS-2002-19-2-.tgz"> \xff <a href>
        <!--[if !IE]><!--><a href="other/KGS-2003-19-1-.tar.gz"><!--> <a href="z/KGS-2003-19-1-.zip">
        <!-- <a href="KGS-2010-19-1-.zip">
    """
    assert [href for href, _, _ in find_links(page.decode("latin-1"))] == [
        "/x/KGS-2003-19-1-.tar.gz",
        "KGS-2001-19-3-.zip",
        "KGS-2008-19-1-.rar",
        "http://y/?a&b/KGS-2002-19-2-.tgz",
        "other/KGS-2003-19-1-.tar.gz",
        "z/KGS-2003-19-1-.zip",
    ]
    names = ["KGS-2003-19-1-.zip", "KGS-2001-19-3-.zip", "KGS-2002-19-2-.zip"]
    assert [archive.name for archive in parse_index(page)] == names


def test_a_page_without_archives() -> None:
    with pytest.raises(SourceError, match=r"no link to an archive with a name like KGS-2006-19-10388-.zip$"):
        parse_index(b"<a href='KGS.zip'>")
    with pytest.raises(SourceError, match="more than 4,194,304 bytes"):
        parse_index(bytes(PAGE_LIMIT + 1))


LINK = b'<a href="KGS-2006-19-1-.zip">'


@given(
    st.lists(st.sampled_from([LINK, b"<a ", b"<!--", b"-->", b"&#", b"'", b"\xff", b"<a href=", b">"]) | st.binary())
)
def test_any_bytes_are_a_page_or_a_source_error(pieces: list[bytes]) -> None:
    try:
        archives = parse_index(b"".join(pieces))
    except SourceError:
        assert pieces != [LINK]
    else:
        assert archives
        assert all(parse_archive_name(archive.name) == archive for archive in archives)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [b"<", b"<a ", b"<!--", b"</a", b"<a href='", b"<a a", b"<![CDATA[", b"<a" + b" b" * 490 + b">"]
)
def test_the_worst_pages_take_seconds_at_most(text: bytes) -> None:
    page = text * ((PAGE_LIMIT - len(LINK) - 3) // len(text)) + b"-->" + LINK
    began = time.process_time()
    assert [archive.games for archive in parse_index(page)] == [1]
    assert time.process_time() - began < 20.0

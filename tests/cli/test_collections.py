"""The output of `kifu fetch` for collections, from a local server."""

import bz2
import gzip
import json
import signal
from pathlib import Path

import pytest

import http_server as web
from collection_sites import FOX, PLAIN, TREE_H, publish_page, publish_tree
from commands import finish, run, start, wait_until
from http_server import Site, tar_gz
from kifu.fetch.collections import COLLECTIONS

TAR_BZ2 = bz2.compress(gzip.decompress(tar_gz("day")))


def test_collections_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns nothing is cut off."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("fetch").out.splitlines()
    assert lines[0].split() == ["name", "contents", "size", "format", "publisher"]
    assert [line.split()[0] for line in lines[1 : lines.index("")]] == [*COLLECTIONS, "sample"]
    assert max(map(len, lines)) <= 80
    assert "\u2026" not in "".join(lines)
    for each, line in zip(COLLECTIONS.values(), lines[1:]):
        assert all(text in line for text in (each.name, each.title, each.size, each.format, each.publisher))
    listed = json.loads(run("fetch", "--json", "-").out)
    assert [each["name"] for each in listed] == list(COLLECTIONS)
    assert all(each["terms"] and each["index"].startswith("https://") for each in listed)


def test_files_are_listed(site: Site) -> None:
    index = publish_tree(site, FOX)
    done = run("fetch", "fox", "--list", "--index", index)
    assert [line.split() for line in done.out.splitlines()] == [
        ["name", "size", "folder"], ["9d.7z", "185", "bytes", "9d"], ["Pro.7z", "80", "bytes", "Pro"],
        ["1d.7z.001", "693", "bytes", "1d"], ["1d.7z.002", "693", "bytes", "1d"], ["1d.7z.003", "691", "bytes", "1d"],
        [], ["5", "files,", "2.3", "kB"],
        ["publisher:", "featurecat;", "terms", "of", "use:", "GPL-3.0", "(LICENSE.txt)"],
    ]  # fmt: skip
    listed = json.loads(run("fetch", "fox", "pro", "--list", "--index", index, "--json", "-").out)
    assert [(each["name"], each["size"], each["checksum"][:4]) for each in listed] == [("Pro.7z", 80, "git:")]


def test_files_of_unknown_size_and_with_dates_are_listed(site: Site) -> None:
    days = {f"2025-07-{day:02d}sgfs.tar.bz2": b"BZh" for day in (1, 2, 3)}
    index = publish_page(site, "/days", days, PLAIN)
    lines = run("fetch", "katago-kata1", "--dates", "2025-07-02..2026", "--list", "--index", index).out.splitlines()
    assert [line.split() for line in lines[:2]] == [["name", "size", "date"], ["2025-07-02sgfs.tar.bz2", "2025-07-02"]]
    assert lines[-2] == "2 files of unknown size"


def test_a_dry_run_gives_the_size(site: Site, tmp_path: Path) -> None:
    index = publish_tree(site, FOX)
    (tmp_path / "9d.7z").touch()
    done = run("fetch", "fox", "--all", "--dry-run", "-o", tmp_path, "--index", index)
    assert f"reads:\n  {index}\n" in done.out
    assert f"  {tmp_path}/1d.7z.003\n" in done.out
    assert done.out.endswith("to download: 2.2 kB; there already: 1 file\ndry run: nothing was written\n")
    planned = json.loads(run("fetch", "fox", "pro", "--dry-run", "-o", tmp_path, "--index", index, "--json", "-").out)
    assert planned["estimate"] == {"known": 80, "unknown": 0, "present": 0}
    assert planned["writes"] == [f"{tmp_path}/Pro.7z"]


def test_files_are_fetched_with_the_next_command(site: Site, tmp_path: Path) -> None:
    index, output = publish_tree(site, FOX), tmp_path / "my games"
    done = run("fetch", "fox", "Pro", "-o", output, "--index", index)
    assert (
        done.out
        == f"{output}: 1 file fetched (80 bytes), 0 there already\nnext: kifu ingest '{output}' -o games.parquet\n"
    )
    report = json.loads(run("fetch", "fox", "[Pp]ro", "-o", output, "--index", index, "--json", "-").out)
    assert (report["present"], report["fetched"], report["failed"]) == (["Pro.7z"], [], {})


def test_failures_are_one_line(site: Site, tmp_path: Path) -> None:
    index = publish_page(site, "/days", {"2025-07-01sgfs.tar.bz2": b"<html>"}, TREE_H)
    done = run("fetch", "katago-kata1", "--all", "-o", tmp_path, "--index", index)
    assert (done.code, done.out) == (2, "")
    assert done.err[-1] == (
        "kifu: 1 of 1 files were not fetched: 2025-07-01sgfs.tar.bz2: not a tar.bz2 archive: it begins with b'<html>'"
    )
    assert run("fetch", "fox", "10d", "--index", publish_tree(site, FOX)).err[-1] == (
        "kifu: fox has no file '10d'; see kifu fetch fox --list"
    )


def test_nothing_is_fetched_without_a_choice(site: Site, tmp_path: Path) -> None:
    done = run("fetch", "fox", "-o", tmp_path, "--index", publish_tree(site, FOX))
    assert done.err == ["kifu: no files of fox are chosen; give names, --dates or --all, see kifu fetch fox --list"]
    assert not site.requests
    assert run("fetch", "sample", "--list", "-o", tmp_path / "new").out.endswith("dry run: nothing was written\n")
    assert not (tmp_path / "new").exists()


@pytest.mark.subprocess
def test_an_interrupted_download_is_resumed(site: Site, tmp_path: Path) -> None:
    index = publish_page(site, "/days", {"2025-07-01sgfs.tar.bz2": TAR_BZ2}, TREE_H)
    site.misbehave("/days/2025-07-01sgfs.tar.bz2", web.half_then(web.stall))
    part = tmp_path / "2025-07-01sgfs.tar.bz2.part"
    process = start("fetch", "katago-kata1", "--all", "-o", tmp_path, "--index", index)
    wait_until(lambda: part.exists() and part.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out) == (130, "")
    assert done.err[-1] == "kifu: interrupted; the same command resumes"
    assert run("fetch", "katago-kata1", "--all", "-o", tmp_path, "--index", index).code == 0
    assert site.ranges("/days/2025-07-01sgfs.tar.bz2")[1] is not None

"""Real games of two servers in one partitioned catalogue: one query and one split over both."""

from pathlib import Path

import polars
import pytest

from commands import run
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.update import append
from kifu.report.describe import describe_catalogue
from partition_sources import bag, rules


@pytest.mark.slow
def test_tygem_and_kgs_in_one_folder(shared: Path, tmp_path: Path) -> None:
    kgs = sorted((shared / "data" / "kgs").glob("KGS-2016_0[12]*"))
    games, tygem = tmp_path / "games", [shared / "data" / "tygem" / name for name in ("2016-07.zip", "Kifu2016.zip")]
    for sources in (kgs, tygem):
        append(sources, games, clean=rules("games"))
    parts = {path.relative_to(games).as_posix(): rows for path, rows in open_catalogue(games).partitions.items()}
    assert parts == {
        "KGS-2016_01-19-756-/2016.parquet": 756,
        "KGS-2016_02-19-577-/2016.parquet": 577,
        "2016-07/2016.parquet": 11_365,
        "Kifu2016/unknown.parquet": 0,  # the index, which has no games
    }
    assert describe_catalogue(games).splitlines()[0].startswith(f"{games}: catalogue@2, 12,698 games = ")

    files = [tmp_path / "kgs.parquet", tmp_path / "tygem.parquet"]
    assert run("ingest", *kgs, "-o", files[0], "--set", 'duplicates="games"').code == 0
    assert run("ingest", *tygem, "-o", files[1], "--set", 'duplicates="games"').code == 0
    assert bag(games) == bag(files[0]) + bag(files[1])  # no game was played on both servers

    sql = "SELECT format, count(*), sum(n_moves)::BIGINT, min(date) FROM kept GROUP BY 1 ORDER BY 1"
    answers = [run("query", sql, *given).out for given in ([games], files)]
    assert answers[0] == answers[1]
    assert {"1333", "11362"} < {*answers[0].split()}
    for name, given in (("folder", [games]), ("files", files)):
        assert run("split", *given, "--output", tmp_path / name).code == 0
    for made in sorted((tmp_path / "folder").iterdir()):
        found, expected = (polars.read_parquet(tmp_path / name / made.name) for name in ("folder", "files"))
        assert found.equals(expected)
        assert {"sgf", "tygem"} == {*found["format"]}

    assert run("compact", games).code == 0
    assert [path.name for path in open_catalogue(games).partitions] == ["2016.parquet"]
    assert bag(games) == bag(files[0]) + bag(files[1])

"""Games generated from real ones: exactly the planted duplicates are found."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from kifu.assets import sample_path
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import made_games
import scale
import scale_step

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    maker = made_games.Maker([sample_path()], folder / "real.parquet")
    assert maker.most > 2 * made_games.GAMES
    for number in range(2):
        maker.write(number, folder / f"{number}.olf.gz")
    return sorted(folder.glob("*.olf.gz"))


def test_exactly_the_planted_duplicates_are_found(files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "games.parquet"
    report = ingest(files, path, clean=load_cleaning_rules("legal", ['duplicates="games"']))
    word, turned, half = made_games.COPIES.values()
    assert report.read == 2 * made_games.GAMES
    assert report.drops == {"DUPLICATE": 2 * word, "SAME_GAME": 2 * turned, "CUT_OFF": 2 * half}
    dropped = [batch["drop"].is_valid().to_numpy(zero_copy_only=False) for batch in open_catalogue(path).batches()]
    new = made_games.GAMES - sum(made_games.COPIES.values())
    place = np.arange(report.read) % made_games.GAMES
    # Of a game and a longer or earlier one that it equals, it is the copy that goes: those at the end of each file.
    assert np.array_equal(np.concatenate(dropped), place >= new)


def test_files_are_deterministic(files: list[Path], tmp_path: Path) -> None:
    again = tmp_path / "again.olf.gz"
    made_games.Maker([], files[0].parent / "real.parquet").write(1, again)
    assert gzip.decompress(again.read_bytes()) == gzip.decompress(files[1].read_bytes())


def test_script_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    kgs = tmp_path / "shared" / "data" / "kgs"
    kgs.mkdir(parents=True)
    kgs.joinpath("some.tar.gz").symlink_to(sample_path())
    command = ["scale.py", "--output", tmp_path / "into", "--shared", tmp_path / "shared", "--jobs", 2]
    steps = "make,read,duplicates,index,search"
    monkeypatch.setattr(sys, "argv", [*map(str, command), "--games", "20000", "--only", steps])
    scale.main()
    first = capsys.readouterr()
    assert "1,000 of 1,000 duplicates found" in first.out
    assert "WRONG" not in first.out
    assert "milliseconds: explorer" in first.out
    assert first.err.count("20,000 games:") == 5
    scale.main()
    assert capsys.readouterr() == (first.out, "")


def test_both_scripts_have_the_same_numbers() -> None:
    assert (made_games.GAMES, sum(made_games.COPIES.values())) == (scale._FILE_GAMES, scale._COPIES)
    assert tuple(scale_step.STEPS) == scale.STEPS

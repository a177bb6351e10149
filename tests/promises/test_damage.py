"""Damaged files of every format are read, or refused with one line. `make fuzz` tries many more."""

import random
from pathlib import Path

import pytest

from fuzz import MAKERS
from kifu.datasets.formats import FORMATS
from kifu.errors import KifuError
from kifu.records.detect import RECORD_FORMATS
from marks import slow

INPUTS = 30
SKIPPED = {"hdf5": "not promised: the HDF5 library may crash"}
SLOW = (
    "7z", "catalogue", "catalogue-folder", "compressed", "katago-npz", "net", "npy", "olf", "sgf", "tar", "zip",
    "whole-book-npy", "whole-catalogue", "whole-folder", "whole-hdf5", "whole-kata-net", "whole-katago", "whole-mix",
    "whole-net", "whole-npy", "whole-onnx", "whole-parquet",
)  # fmt: skip
NAMES = [*(name for name in MAKERS if name not in {*SLOW, *SKIPPED}), *slow(*SLOW)]


def test_every_format_has_a_row() -> None:
    assert {name.partition("@")[0] for name in (*FORMATS, *RECORD_FORMATS)} <= MAKERS.keys()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of sets that are smaller than a batch
@pytest.mark.parametrize("name", NAMES)
def test_damaged_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole files that kifu wrote have checksums: damage changes no answer."""
    monkeypatch.chdir(tmp_path)
    fuzzer, draw, refused = MAKERS[name](tmp_path), random.Random(name), 0
    for _ in range(INPUTS):
        try:
            fuzzer.check(fuzzer.make(draw))
        except KifuError as error:
            refused += 1
            said = str(error)
            assert said.isprintable()
            assert "weights_only" not in said
    assert refused > INPUTS // 3 if name.startswith("whole-") else refused < INPUTS or name == "search-index"

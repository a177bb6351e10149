"""The readers of records other than SGF on damaged ones, and what holds for the reader of any format."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuzz_gib
import fuzz_ngf
import fuzz_ugf
import naive_tygem
from fuzz_gib import GIB
from fuzz_ngf import NGF
from fuzz_ogs import OGS, OGS_LINES
from fuzz_olf import OLF
from fuzz_tygem import TYGEM
from fuzz_ugf import UGF
from fuzzing import Fuzzer
from kifu.errors import DropReason
from kifu.records.detect import RECORD_FORMATS
from kifu.records.sgf import as_block
from reference_games import compare_with_reference, reference_games

FUZZERS = {"gib": GIB, "ngf": NGF, "ugf": UGF, "ogs": OGS, "ogs-lines": OGS_LINES, "tygem": TYGEM, "olf": OLF}


@pytest.mark.nojit
@pytest.mark.parametrize("fuzzer", FUZZERS.values(), ids=FUZZERS)
@given(draw=st.randoms(use_true_random=False))
def test_damaged_records(fuzzer: Fuzzer, draw: random.Random) -> None:
    fuzzer.check(fuzzer.make(draw))


@pytest.mark.nojit
@pytest.mark.parametrize("module", [fuzz_gib, fuzz_ngf, fuzz_ugf, naive_tygem])
@given(data=st.data())
def test_any_bytes(module: ModuleType, data: st.DataObject) -> None:
    pieces = st.lists(st.sampled_from(module.PIECES), max_size=40).map(b"\n".join)
    check = naive_tygem.compare_with_naive if module is naive_tygem else FUZZERS[module.__name__[5:]].check
    check(data.draw(st.lists(pieces | st.binary(max_size=60), max_size=3)))


@pytest.mark.parametrize("name", RECORD_FORMATS)
def test_dropped_members_stay_dropped(name: str) -> None:
    block = as_block([b""])
    block.drop[0] = DropReason.TOO_LARGE
    assert RECORD_FORMATS[name].read(block).games.drop.tolist() == [DropReason.TOO_LARGE]


@pytest.mark.parametrize(("name", "count"), [("ngf", 4), ("ugf", 2)])
def test_samples_equal_their_reference(shared: Path, name: str, count: int) -> None:
    games = reference_games(shared, name)
    assert len(games) >= count
    for path, reference in games:
        compare_with_reference(path, reference)

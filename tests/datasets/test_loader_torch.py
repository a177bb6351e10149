"""The PyTorch adapter: tensors, worker processes, and unpacking."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import kifu
from kifu.datasets.examples import Batch
from lazy import lazy_import
from loader_games import load, make, row_ids

torch = lazy_import("torch")
torch_data = lazy_import("kifu.datasets.torch_data")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"))


def rows(batches) -> list[tuple[int, int]]:
    return [row for batch in batches for row in zip(batch["game"].tolist(), batch["ply"].tolist())]


def signed(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ids as int64."""
    return [(int(np.uint64(key).astype(np.int64)), ply) for key, ply in found]


def test_tensors_equal_the_batches(games):
    loader = load(games, "seven", batch_size=50, labels=("move", "next2", "to_play", "result", "komi"))
    for batch, reported in zip(
        loader.epoch(0), torch.utils.data.DataLoader(torch_data.dataset(loader), batch_size=None), strict=True
    ):
        assert reported["planes"].dtype == torch.uint8
        assert np.array_equal(reported["planes"], batch.planes)
        kinds = {"move": torch.int64, "next2": torch.int64, "komi": torch.float32}
        kinds |= {"to_play": torch.int8, "result": torch.int8}
        for name, kind in kinds.items():
            assert reported[name].dtype == kind
            assert np.array_equal(reported[name], batch.labels[name], equal_nan=True)
    assert loader.epoch_number == 1


@pytest.mark.parametrize(("planes", "height"), [("seven", 19), ("clark8", 21)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "uint8"])
def test_unpack_equals_uint8_output(games, planes, height, kind):
    kind = getattr(torch, kind)
    packed, ready = (next(iter(load(games, planes, output=output, batch_size=33))) for output in ("packed", "uint8"))
    written = torch_data.unpack(torch.from_numpy(packed.planes), height, height, kind)
    assert written.dtype == kind
    assert np.array_equal(written.to(torch.uint8), ready.planes)


def test_bfloat16_planes(games):
    packed, half = (next(iter(load(games, "seven", output=output))) for output in ("packed", "bfloat16"))
    planes = torch_data.tensors(half)["planes"]
    assert planes.dtype == torch.bfloat16
    assert torch.equal(planes, torch_data.unpack(torch.from_numpy(packed.planes), 19, 19, torch.bfloat16))


def test_tensors_share_memory_if_possible():
    batch = Batch(np.zeros((2, 1, 46), np.uint8), {}, np.array([1, 2**64 - 1], np.uint64), np.zeros(2, np.int32))
    reported = torch_data.tensors(batch)
    reported["planes"][0, 0, 0] = 7
    assert batch.planes[0, 0, 0] == 7
    assert reported["game"].tolist() == [1, -1]


@pytest.mark.subprocess
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_cover_an_epoch_without_overlap(games, method):
    loader = load(games, "own", batch_size=20, seed=2, jobs=1)
    wanted = signed(row_ids(loader.epoch(1)))
    data = torch_data.dataset(loader)
    data.set_epoch(1)
    reported = rows(torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=method))
    assert Counter(reported) == Counter(wanted)
    assert reported != wanted


def test_persistent_workers_continue_with_the_next_epoch(games):
    loader = load(games, "own", batch_size=20, jobs=1)
    batches = torch.utils.data.DataLoader(
        torch_data.dataset(loader),
        batch_size=None,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    first, second = rows(batches), rows(batches)
    assert first != second
    assert Counter(first) == Counter(second) == Counter(signed(row_ids(loader)))


def test_tokens_become_int64(games):
    loader = kifu.load_tokens(games, 32, batch_size=4)
    (batch, *_), names = loader, ("tokens", "positions", "segment_ids", "lengths")
    found = torch_data.token_tensors(batch)
    assert list(found) == list(names)
    for name in names:
        assert found[name].dtype == torch.int64
        assert np.array_equal(found[name], getattr(batch, name))


def test_guide_to_sequences(games, monkeypatch, tmp_path):
    """The examples of the guide run; the training loop for a few steps."""
    monkeypatch.chdir(tmp_path)
    recipe = kifu.load_recipe("tokens", ["clean=legal"])
    kifu.build(recipe, games, "data")
    text = (Path(__file__).parents[2] / "docs" / "sequences.md").read_text("utf-8")
    loading, training, plain = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(loading, {})
    found = {}
    exec(training.replace(", 128, 256", ", 8, 256").replace("4 * width", "width"), found)
    assert found["loss"].isfinite()
    exec(plain.replace("1024", "64"), found)
    assert found["x"].shape == (64, 64)

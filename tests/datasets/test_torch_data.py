"""The PyTorch adapter: tensors, worker processes, and unpacking."""

import pickle
import re
from itertools import chain, islice, zip_longest
from pathlib import Path

import numpy as np
import pytest

import kifu
from kifu.datasets.examples import Batch
from lazy import lazy_import
from loader_games import load, make, row_ids
from marks import slow

torch = lazy_import("torch")
torch_data = lazy_import("kifu.datasets.torch_data")

# Three workers are more than a small machine has cores; torchdata calls a deprecated function of torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"))


def rows(batches) -> list[tuple[int, int]]:
    return [row for batch in batches for row in zip(batch["game"].tolist(), batch["ply"].tolist())]


def signed(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
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


# Workers


def data_loader(data, workers: int, kind=None, persistent: bool = False, method: str = "fork"):
    kind = torch.utils.data.DataLoader if kind is None else kind
    options = {"multiprocessing_context": method, "persistent_workers": persistent} if workers else {}
    return kind(data, batch_size=None, num_workers=workers, **options)


def steps(batches) -> list[list[tuple[int, int]]]:
    return [rows([batch]) for batch in batches]


def epochs(loader, count: int, first: int = 0) -> list[list[list[tuple[int, int]]]]:
    """Return the batches of some epochs, as a loader without workers yields them."""
    loader = loader.epoch(first)
    return [
        [signed(list(zip(batch.game.tolist(), batch.ply.tolist()))) for batch in loader] for _ in range(count)
    ]  # fmt: skip


def split(loader, workers: int, epoch: int) -> list[list[tuple[int, int]]]:
    """Return the batches that workers deliver in turn, each those of a further process."""
    loaders = [loader.epoch(epoch).shard(k, workers) for k in range(workers)] if workers else [loader.epoch(epoch)]
    parts = [epochs(part.epoch(epoch), 1, epoch)[0] for part in loaders]
    return [batch for step in zip_longest(*parts) for batch in step if batch is not None]


@pytest.mark.subprocess
@pytest.mark.parametrize("method", ["fork", *slow("spawn")])
def test_workers_divide_the_part_of_a_process(games, method):
    """Each example is delivered once over all processes and workers, for any number of threads."""
    delivered = []
    for k in range(2):
        loader = load(games, "own", batch_size=21, seed=2, jobs=k + 1, process_index=k, world_size=2, window=100)
        data = torch_data.dataset(loader.epoch(0))
        data.set_epoch(1)
        found = steps(data_loader(data, 3, method=method))
        assert found == split(loader, 3, 1)
        delivered += chain(*found)
    assert len(delivered) == len(set(delivered))
    assert sorted(delivered) == sorted(signed(row_ids(load(games, "own"))))


def with_workers(*cases: tuple[int, bool], more: tuple[tuple[int, bool], ...]) -> pytest.MarkDecorator:
    """Parametrize a test by workers and persistent: (0, False), the cases, and by make test-all more."""
    marks = [pytest.mark.subprocess]
    cases = [pytest.param(*case, marks=[*marks, *[pytest.mark.slow] * (case in more)]) for case in (*cases, *more)]
    return pytest.mark.parametrize(("workers", "persistent"), [(0, False), *cases])


@pytest.mark.parametrize("kind", ["torch", "torchdata"])
@with_workers((1, True), (2, False), more=((1, False), (2, True), (3, False), (3, True)))
def test_each_loop_is_the_next_epoch(games, request, kind, workers, persistent):
    """As for the loader, also after a break, if torch is seeded before each loop, and in a new DataLoader."""
    loader = load(games, "own", batch_size=90, jobs=1)
    wanted = [split(loader, workers, epoch) for epoch in range(9)]
    data = torch_data.dataset(loader.epoch(0))
    wrapper = request.getfixturevalue("stateful") if kind == "torchdata" else None
    batches = data_loader(data, workers, wrapper, persistent)
    for epoch, stop in enumerate([None, 2, None, 1]):
        torch.manual_seed(7)
        assert steps(islice(batches, stop)) == wanted[epoch][:stop]
    data.set_epoch(6)
    assert steps(islice(batches, 1)) == wanted[6][:1]
    assert steps(batches) == wanted[7]
    if kind == "torchdata":
        other = data_loader(torch_data.dataset(loader.epoch(0)), workers, wrapper, persistent)
        other.load_state_dict(batches.state_dict())
        assert steps(other) == wanted[8]
    elif not persistent:
        data.set_epoch(2)
        for epoch, other in ((2, batches), (3, data_loader(data, 0)), (4, data_loader(data, workers))):
            assert steps(other) == split(loader, other.num_workers, epoch)


# torchdata


@pytest.fixture
def stateful():
    reason = "torchdata is not installed"
    return pytest.importorskip("torchdata.stateful_dataloader", reason=reason).StatefulDataLoader


@with_workers((1, True), more=((1, False), (2, False), (3, True)))
def test_stateful_data_loader_resumes_bit_exactly(games, stateful, workers, persistent):
    """From each state of two epochs, in another process or here, the rest is delivered, and then the next epoch."""
    loader = load(games, "own", batch_size=60, jobs=1, per_game=10, world_size=2)
    wanted = [split(loader, workers, epoch) for epoch in range(4)]
    batches = data_loader(torch_data.dataset(loader.epoch(0)), workers, stateful, persistent)
    states = [(0, 0, batches.state_dict())]
    for epoch in range(2):
        for k, batch in enumerate(batches):
            assert rows([batch]) == wanted[epoch][k]
            states.append((epoch, k + 1, batches.state_dict()))
        states.append((epoch + 1, 0, batches.state_dict()))
    for epoch, done, state in reversed(states):
        batches.load_state_dict(pickle.loads(pickle.dumps(state)))
        new = data_loader(torch_data.dataset(loader.epoch(0)), workers, stateful, persistent)
        new.load_state_dict(state)
        for each in (batches, new):
            assert steps(each) == wanted[epoch][done:]
            assert steps(islice(each, 1)) == wanted[epoch + 1][:1]


# Tokens


def test_guide_to_sequences(games, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    recipe = kifu.load_recipe("tokens", ["clean=legal"])
    kifu.build(recipe, games, "data")
    text = (Path(__file__).parents[2] / "docs" / "sequences.md").read_text("utf-8")
    packing, plain = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found = {}
    exec(packing.replace("1024", "256"), found)
    exec(plain, found)
    assert found["offsets"][-1] == len(found["tokens"])

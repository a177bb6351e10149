"""Batches for Keras, and the example that trains a net with it."""

from __future__ import annotations

import importlib.util
from collections import Counter
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import kifu
from kifu.errors import RecipeError
from lazy import lazy_import
from loader_games import load, make, one_batch

keras = lazy_import("keras")
keras_data = lazy_import("kifu.datasets.keras_data")


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> kifu.Loader:
    return load(make(tmp_path_factory.mktemp("games")), "seven", batch_size=64, output="float32")


def reported(pairs) -> Counter:
    return Counter((x.tobytes(), y.tobytes()) for planes, moves in pairs for x, y in zip(planes, moves))


def test_batches_in_any_order(loader):
    data = keras_data.dataset(loader)
    batches = list(loader.epoch(0))
    assert len(data) == len(batches)
    for k in (0, 1, 2, len(batches) - 1, 1, 0):
        planes, moves = data[k]
        assert planes.dtype == moves.dtype == np.float32
        assert np.array_equal(planes, batches[k].planes)
        assert np.array_equal(moves, np.eye(361)[batches[k].labels["move"]])
    with pytest.raises(IndexError):
        data[len(batches)]
    for epoch in range(2):  # each loop over it is an epoch
        next(iter(data))
        assert reported(data) == reported(keras_data.dataset(loader.epoch(2 * epoch + 1)))


@pytest.mark.slow
def test_training_uses_each_example_once_per_epoch(loader):
    """For any order of indices, all batches are rendered one after another."""
    data = keras_data.dataset(loader)
    seen = []

    class Seen(type(data)):
        def __getitem__(self, index):
            seen.append(super().__getitem__(index))
            return seen[-1]

    data.__class__ = Seen
    layers = [keras.layers.Input((7, 19, 19)), keras.layers.Flatten(), keras.layers.Dense(361, activation="softmax")]
    model = keras.Sequential(layers)
    model.compile("sgd", "categorical_crossentropy")
    model.fit(data, epochs=2, verbose=0)
    batches = len(data)
    # One look before training.
    assert len(seen) in (2 * batches, 2 * batches + 1)
    passes = seen[-2 * batches : -batches], seen[-batches:]
    for number, pairs in enumerate(passes):
        epoch = list(loader.epoch(number))
        assert all(np.array_equal(planes, batch.planes) for (planes, _), batch in zip(pairs, epoch, strict=True))
    assert model.evaluate(data, verbose=0) > 0


def test_an_index_means_one_batch_within_a_pass(loader):
    data = keras_data.dataset(loader)
    data.on_epoch_begin()
    first = data[5]
    second = data[2]
    for again, before in ((data[5], first), (data[2], second)):
        assert all(np.array_equal(a, b) for a, b in zip(again, before))
    batches = list(loader.epoch(0))
    assert np.array_equal(first[0], batches[0].planes)
    assert np.array_equal(second[0], batches[1].planes)
    data.on_epoch_end()
    assert np.array_equal(data[2][0], list(loader.epoch(1))[2].planes)
    for epoch in (1, 2):  # passes of one step
        data.on_epoch_begin()
        assert np.array_equal(data[3][0], next(iter(loader.epoch(epoch))).planes)
        data.on_epoch_end()


def test_workers_are_refused(loader):
    """Keras would request batches in no order, and some before an epoch begins."""
    data = keras_data.dataset(loader)
    data.workers, data.use_multiprocessing = 1, False
    with pytest.raises(RecipeError, match="workers must be <= 1, got 2"):
        data.workers = 2
    with pytest.raises(RecipeError, match="use_multiprocessing must be False, got True"):
        data.use_multiprocessing = True


@pytest.mark.slow
def test_the_books_generator_yields_consecutive_epochs(loader):
    data = keras_data.dataset(loader)
    samples = data.get_num_samples(batch_size=100, num_classes=361)
    assert samples == loader.positions
    batches = -(-samples // 100)
    pairs = [*islice(data.generate(100, 361), batches), *islice(data.generate(100, 361), batches)]
    assert {len(planes) for planes, _ in pairs} == {100, samples % 100}
    half = len(pairs) // 2
    assert sum(len(planes) for planes, _ in pairs[:half]) == samples
    planes = np.concatenate([planes for planes, _ in pairs[half:]])
    assert np.array_equal(planes, one_batch(loader.epoch(1)).planes)
    assert all(moves.shape == (len(planes), 361) and np.all(moves.sum(axis=1) == 1) for planes, moves in pairs)


def test_passes_need_a_class(tmp_path):
    loader = load(make(tmp_path), "seven", output="float32", passes=True)
    with pytest.raises(RecipeError, match="passes require one more class"):
        list(keras_data.dataset(loader))
    assert sum(moves[:, 361].sum() for _, moves in keras_data.dataset(loader, 362)) > 0


def test_unsupported_loaders_are_rejected(tmp_path):
    games = make(tmp_path)
    with pytest.raises(RecipeError, match="output 'float32', got 'packed'"):
        keras_data.dataset(load(games, "seven"))
    with pytest.raises(RecipeError, match="label 'move'"):
        keras_data.dataset(load(games, "seven", labels=("result",), output="float32"))


torch = lazy_import("torch")
registry = lazy_import("kifu.learn.registry")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "examples/keras_book_small.py"
    spec = importlib.util.spec_from_file_location("keras_book_small", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Keras 3.15 asks numpy 2.4 for torch's tensors as numpy 1 would have them.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_script_trains_from_a_catalogue(tmp_path, script, capsys):
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
    games, test = make(tmp_path / "train", 2, smalls=20), make(tmp_path / "test", 2, seed=1, smalls=5)
    script.main([str(games), str(test), "--output", str(tmp_path / "run"), "--board", "9x9", "--epochs", "2"])
    assert "accuracy on games that were not trained on: " in capsys.readouterr().out
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["small_model_epoch_1.keras", "small_model_epoch_2.keras"]
    first, second = (keras.saving.load_model(tmp_path / "run" / name) for name in files)
    assert second.output_shape == (None, 81)
    changed = [not np.array_equal(a, b) for a, b in zip(first.get_weights(), second.get_weights(), strict=True)]
    assert all(changed)


@pytest.mark.slow
@pytest.mark.parametrize(("planes", "width", "height"), [(1, 9, 9), (7, 5, 8)])
def test_network_equals_book_small(script, planes, width, height):
    torch.manual_seed(0)
    ours = registry.make_net("book-small", planes, width, height).eval()
    theirs = script.book_small(planes, width, height)
    weights = []
    for key, value in ours.state_dict().items():
        axes = (2, 3, 1, 0) if value.ndim == 4 else (1, 0)  # Keras: rows, columns, in, out
        weights.append(value.permute(axes) if key.endswith("weight") else value)
    theirs.set_weights([value.numpy() for value in weights])
    position = torch.randint(0, 2, (5, planes, height, width)).float()
    with torch.no_grad():
        assert torch.allclose(theirs(position), torch.softmax(ours(position).policy, 1), atol=1e-6)
    assert theirs.count_params() == sum(weight.numel() for weight in ours.parameters())

"""The script that trains the book's small network in Keras runs, and its network equals book-small."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lazy import lazy_import
from loader_games import make

keras = lazy_import("keras")
torch = lazy_import("torch")
registry = lazy_import("kifu.learn.registry")


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "examples/keras_book_small.py"
    spec = importlib.util.spec_from_file_location("keras_book_small", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Keras 3.15 asks numpy 2.4 for torch's tensors as numpy 1 would have them.
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

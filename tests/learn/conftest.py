"""Games for small runs, which end without an ONNX file and curves, because each takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loader_games import make


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kifu.learn.train.export_run", lambda directory: None)
        patch.setattr("kifu.learn.run_dir.draw_training_curves", lambda rows, title: b"curves")
        yield


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"))

"""Runs of these tests end without an ONNX file, whose export takes seconds; tests of the export call it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def without_export() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kifu.learn.train.export_run", lambda directory: None)
        yield

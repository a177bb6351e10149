"""Processors with and without instructions for bfloat16."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from lazy import lazy_import

predict = lazy_import("kifu.learn.predict")


@contextlib.contextmanager
def processor(**capabilities: Any) -> Iterator[None]:
    """Let torch report these capabilities of the processor instead of its own."""
    predict.has_bfloat16.cache_clear()
    try:
        with mock.patch("torch.cpu.get_capabilities", return_value=capabilities):
            yield
    finally:
        predict.has_bfloat16.cache_clear()

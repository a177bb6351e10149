"""Processors with and without instructions for bfloat16."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from lazy import lazy_import

torch_backend = lazy_import("kifu.learn.torch_backend")


@contextlib.contextmanager
def processor(**capabilities: Any) -> Iterator[None]:
    """Let torch report these capabilities of the processor instead of its own."""
    torch_backend.has_bfloat16.cache_clear()
    try:
        with mock.patch("torch.cpu.get_capabilities", return_value=capabilities):
            yield
    finally:
        torch_backend.has_bfloat16.cache_clear()

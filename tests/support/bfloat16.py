"""Processors with and without instructions for bfloat16."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from lazy import lazy_import

torch_net = lazy_import("kifu.learn.torch_net")


@contextlib.contextmanager
def processor(**capabilities: Any) -> Iterator[None]:
    """Let torch report these capabilities of the processor instead of its own."""
    torch_net.has_bfloat16.cache_clear()
    try:
        with mock.patch("torch.cpu.get_capabilities", return_value=capabilities):
            yield
    finally:
        torch_net.has_bfloat16.cache_clear()

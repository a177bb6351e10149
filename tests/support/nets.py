"""Small nets with random weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from kifu.planes.encoder import find_encoder
from lazy import lazy_import

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

NET_NAMES = ("book-small", "book-medium", "book-large", "blog", "clark-storkey", "maddison", "b3c8")
"""All named nets, and a residual one with a block that pools."""


def tiny_net(
    path: Path,
    net: str = "b1c8",
    planes: str = "seven",
    size: int = 9,
    *,
    passes: bool = False,
    heads: Sequence[learn.Heads] = (),
    inputs: Sequence[str] | None = None,
    games: Sequence[int] = (),
    seed: int = 0,
) -> Path:
    """Write a net of random weights. inputs: by default the global inputs that the architecture requires."""
    encoder = find_encoder(planes, size, size)
    inputs = learn.registry.find_net(net).inputs if inputs is None else inputs
    module = learn.registry.make_net(
        net, encoder.planes, size, size, rim=encoder.plane_set.padding, passes=passes, heads=heads,
        inputs=inputs,
    )  # fmt: skip
    chance = torch.Generator().manual_seed(seed)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            spread = torch.rand(value.shape, generator=chance)
            scale = 2.0 / max(value[0].numel(), 1) ** 0.5 if value.ndim > 1 else 1.0
            value.copy_(spread + 0.5 if "running_var" in name else (spread - 0.5) * 2 * scale)
    about = learn.net_format.NetMetadata(
        net=net, planes=encoder.plane_set.name, width=size, height=size, passes=passes, heads=tuple(heads),
        inputs=tuple(inputs),
    )  # fmt: skip
    learn.torch_net.save_net(path, module, about, np.array(games, np.uint64))
    return path


def global_values(net: learn.networks.Network, batch: int) -> torch.Tensor | None:
    """Return global inputs [B, G] for Black to move in the first position, White in the second, and so on."""
    size = net.config.global_size
    if not size:
        return None
    values = torch.arange(batch * size).sin().view(batch, size)
    values[:, 0] = 1 - 2 * (torch.arange(batch) % 2)  # the colour, if it is the first input
    return values


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

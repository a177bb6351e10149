"""Networks by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kifu.errors import RecipeError
from kifu.learn.nets.base import Heads, Network, Task
from kifu.learn.nets.residual import Residual

_RESIDUAL = re.compile(r"b([1-9]\d?)c([1-9]\d{0,3})")


def make_net(
    name: str,
    planes: int,
    width: int = 19,
    height: int = 19,
    *,
    rim: int = 0,
    passes: bool = False,
    heads: Sequence[Heads] = (),
) -> Network:
    """The network of that name (`kifu nets`), its weights drawn anew from torch's generator.

    planes, rim: of the plane set; width, height: of the board. Raises RecipeError for a name that there is not.
    """
    task = Task(planes, width, height, rim, passes, heads)
    found = _RESIDUAL.fullmatch(name)
    if found is None:
        raise RecipeError(f"no net {name!r}")
    return Residual(task, int(found[1]), int(found[2]))

"""Networks that predict the next move: training, which requires torch (kifu[learn]), evaluation and use.

File names are defined here so that they can be imported without loading torch.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Literal

_WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

# OpenMP's threads wait for each other in loops. On a busy machine these take the cores from the threads that they wait
# for. libgomp, which the wheels for Linux contain, reads the variable when torch is loaded. A third of its default
# doubles the speed beside other programs and costs 6 % on an idle machine; passive waiting costs 40 % there
# (docs/training.md).
if "torch" not in sys.modules and not any(name in os.environ for name in _WAIT_VARIABLES):
    os.environ["GOMP_SPINCOUNT"] = "100000"

# onnxruntime reads the variable when it is imported, which only this package does. Without it, a session that lives for
# some seconds writes an identifier of the device to ~/.cache/Microsoft and looks up a server of Microsoft.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

Precision = Literal["float32", "bfloat16"]
"""Precision in which networks compute."""

Heads = Literal["value", "ownership", "score", "next"]
"""Optional outputs of networks besides the policy; `next` in training only."""

SUFFIX, ONNX_SUFFIX = ".safetensors", ".onnx"
"""Suffixes of a net's files, for torch and for onnxruntime."""

MIX_SUFFIX = ".mix"
"""Suffix of a fitted mixture of nets."""

PACKAGED = ("human", "small")
"""Names of the nets that are packaged with kifu, the default first."""

_WITH_CLASS = re.compile(r"(.+)@([A-Za-z_][\w.]*:[A-Za-z_]\w*)", re.ASCII)


def split_class(text: str) -> tuple[str, str | None]:
    """Return the path and the class of "PATH@module:Class", a net of a class of one's own; the class may be missing."""
    match = None if os.path.exists(text) else _WITH_CLASS.fullmatch(text)  # noqa: PTH110 - false for impossible names
    return (text, None) if match is None else (match[1], match[2])


def split_mix(name: str | os.PathLike[str]) -> list[str]:
    """Return the names of the nets of a mixture, such as human+net.bin.gz; an existing path is one net."""
    text = os.fspath(name)
    return [text] if os.path.exists(text) else text.split("+")  # noqa: PTH110 - false for impossible names


BEST = "best" + SUFFIX
"""File name of the net that is loaded when a run directory is opened as a net."""

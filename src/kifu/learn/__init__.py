"""Networks that predict the next move: training, evaluation and use. Requires torch: kifu[learn].

The names and headers of nets' files are handled here, without loading torch.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from kifu.errors import FormatError, first_line
from kifu.io import open_regular

_WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

# OpenMP's threads wait for each other in loops. On a busy machine these take the cores from the threads that they wait
# for. libgomp, which the wheels for Linux contain, reads the variable when torch is loaded. A third of its default
# doubles the speed beside other programs and costs 6 % on an idle machine; passive waiting costs 40 % there
# (docs/training.md).
if "torch" not in sys.modules and not any(name in os.environ for name in _WAIT_VARIABLES):
    os.environ["GOMP_SPINCOUNT"] = "100000"

Precision = Literal["float32", "bfloat16"]
"""Precision in which networks compute."""

SUFFIX = ".safetensors"
"""Suffix of a net's file."""

PACKAGED = ("small", "human")
"""Names of the nets that are packaged with kifu, the default first."""

_WITH_CLASS = re.compile(r"(.+)@([A-Za-z_][\w.]*:[A-Za-z_]\w*)", re.ASCII)


def split_class(text: str) -> tuple[str, str | None]:
    """Return the path and the class of "PATH@module:Class", a net of a class of one's own; the class may be missing."""
    match = None if os.path.exists(text) else _WITH_CLASS.fullmatch(text)  # noqa: PTH110 - false for impossible names
    return (text, None) if match is None else (match[1], match[2])


def is_command(name: str) -> bool:
    """Return True for a text of several words that is not a path: the command line of an engine."""
    try:
        return len(name.split()) > 1 and not Path(split_class(name)[0]).exists()
    except (OSError, ValueError):  # for example, the text is too long for a path
        return True


BEST = "best" + SUFFIX
"""File name of the net that is loaded when a run directory is opened as a net."""

METADATA_KEY = "kifu-net"
"""Key of a net's metadata in the header of its file."""

_MAX_BYTES = 4 << 30
_MAX_HEADER_BYTES = 16 << 20


def check_net(name: str) -> None:
    """Raise FormatError if a name for `open_predictor` is that of a file without a net's header."""
    from kifu.katago.net_file import is_kata_net, read_kata_net

    importlib.import_module("safetensors")  # raises at once without kifu[learn]
    if is_command(name) or (name in PACKAGED and not Path(name).exists()):
        return
    if is_kata_net(name):
        read_kata_net(name)
        return
    path = Path(split_class(name)[0])
    with open_net_file(path / BEST if path.is_dir() else path, "numpy"):
        pass


@contextmanager
def open_net_file(path: Path, framework: str) -> Iterator[Any]:
    """Open a net's file in the safetensors format, for arrays of "pt" or "numpy". Raises FormatError."""
    from safetensors import SafetensorError, safe_open

    try:
        _check_size(path)
        with safe_open(path, framework=framework) as file:
            if METADATA_KEY not in (file.metadata() or {}):
                raise FormatError(f"{path} is not a net of kifu: its safetensors metadata has no {METADATA_KEY!r}")
            yield file
    except OSError as error:
        raise FormatError(f"cannot read the net {path}: {error.strerror or first_line(error)}") from None
    except SafetensorError as error:
        raise FormatError(f"{path} is not a net of kifu: {first_line(error)}") from None


def _check_size(path: Path) -> None:
    """Raise FormatError for a file, or a header, that is too large for a net. Raises OSError."""
    with open_regular(path) as file:
        size, header = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
    if size > _MAX_BYTES:
        raise FormatError(f"{path} has more than {_MAX_BYTES >> 30} GiB, too large for a net")
    if size > header > _MAX_HEADER_BYTES:
        raise FormatError(f"{path} is not a net of kifu: its header has more than {_MAX_HEADER_BYTES >> 20} MiB")

"""Checks of a net's file that need no torch, whose import takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from kifu.errors import FormatError, first_line
from kifu.io import open_regular
from kifu.katago.net_file import is_kata_net, read_kata_net
from kifu.learn import BEST, PACKAGED, is_command, split_class

METADATA_KEY = "kifu-net"
"""Key of a net's metadata in the header of its file."""

_MAX_BYTES = 4 << 30
_MAX_HEADER_BYTES = 16 << 20


def check_net(name: str) -> None:
    """Check the header of a net, or a network file of KataGo; packaged nets and engines are not checked.

    Args:
        name: A net or an engine, as for `kifu.learn.predictors.open_predictor`.

    Raises:
        FormatError: The file is missing or not a net.
    """
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
    """Open a net's file in the safetensors format.

    Args:
        framework: Of the arrays, "pt" or "numpy".

    Raises:
        FormatError: The file is missing, too large or not a net.
    """
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

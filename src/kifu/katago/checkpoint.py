"""Reading of KataGo's networks in any file that holds their weights."""

from __future__ import annotations

import os

from kifu.errors import FormatError
from kifu.katago.net_file import KataNetFile, read_kata_net


def read_network(path: str | os.PathLike[str]) -> KataNetFile:
    """Read a network file of KataGo. Raise FormatError if it is damaged or not one."""
    if os.fspath(path).endswith(".onnx"):
        raise FormatError(f"{path} is an ONNX file; this requires KataGo's own file")
    return read_kata_net(path)

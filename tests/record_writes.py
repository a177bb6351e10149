"""Run a kifu command and list, in a file, all paths that it opens for writing, creates or renames.

python record_writes.py LIST ARGUMENT ...

This takes a process of its own: an audit hook cannot be removed, and slows everything after it down.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from kifu.cli import main

_written: list[str] = []


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not flags & os.O_TMPFILE:
            _written.append(path)
    elif event in ("os.rename", "os.mkdir"):
        _written.extend(path for path in arguments if isinstance(path, str))


if __name__ == "__main__":
    output = Path(sys.argv.pop(1)).absolute()
    sys.addaudithook(_record)
    try:
        main()
    finally:
        output.write_text(json.dumps([path for path in _written if path != str(output)]))

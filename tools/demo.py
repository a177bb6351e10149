"""Run `kifu demo` while a command installs the packages of its last steps; the demo waits for it where it needs torch.

python tools/demo.py COMMAND...
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.abc import MetaPathFinder

from kifu.cli import main


class Installation(MetaPathFinder):
    """Makes the first import of torch wait until the command has ended. Exits if it fails."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Find nothing; wait if torch is looked for."""
        if fullname == "torch":
            if code := self._process.wait():
                sys.exit(code)
            importlib.invalidate_caches()


if __name__ == "__main__":
    sys.meta_path.insert(0, Installation(sys.argv[1:]))
    sys.argv = ["kifu", "demo", "--output", "demo"]
    main()

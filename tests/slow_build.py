"""Builds a recipe's sets in a process of its own, with a pause after each few games, for tests that interrupt it.

python slow_build.py INTO PAUSE JOBS SETS SOURCE...     exit code 2 and one line if it raises a KifuError
"""

import resource
import signal
import sys
import time
from contextlib import contextmanager

from kifu.errors import KifuError
from kifu.recipes import kgsgo
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe

SETTINGS = ("sets.test.games=40", "sets.train10k.games=20")
CHUNK = 100_000


class Slow:
    def __init__(self, pause):
        self.pause = pause

    def advance(self, n=1):
        time.sleep(self.pause)


def main(into, pause, jobs, sets, *sources):
    @contextmanager
    def slowly(label, total, unit):
        print(label, flush=True)
        yield Slow(float(pause))

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start us with it ignored
    kgsgo._CHUNK_BYTES = CHUNK
    recipe = load_recipe("kgsgo-v2", SETTINGS)
    try:
        build(recipe, sources, into, sets=sets.split(","), jobs=int(jobs), progress=slowly)
    except KifuError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    if sys.argv[1].startswith("limit="):
        limit = int(sys.argv.pop(1).removeprefix("limit="))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    main(*sys.argv[1:])

"""Ingest, or build a recipe's sets, in small steps with a pause after each, as a script for tests that interrupt it.

python slow_writer.py ingest OUT PAUSE JOBS RULES SOURCE...
python slow_writer.py build INTO PAUSE JOBS SETS SOURCE...     exit code 2 and one line on a KifuError
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from kifu.corpus import catalogue, parquet
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.errors import KifuError
from kifu.recipes import kgsgo
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe

STEP = 16
"""Rows per batch read and per row group written."""

SETTINGS = ("sets.test.games=40", "sets.train10k.games=20")
CHUNK = 100_000


@contextmanager
def small_steps() -> Iterator[None]:
    with (
        mock.patch.object(parquet.TableWriter.__init__, "__defaults__", (STEP,)),
        mock.patch.dict(catalogue.Catalogue.batches.__kwdefaults__, size=STEP),
    ):
        yield


def slow_ingest(out: str, pause: str, jobs: str, rules: str, *sources: str) -> None:
    write = catalogue.CatalogueWriter.write

    def slowly(self, batch):
        print("writing", flush=True)
        time.sleep(float(pause))
        write(self, batch)

    with small_steps(), mock.patch.object(catalogue.CatalogueWriter, "write", slowly):
        ingest(sources, out, clean=load_cleaning_rules(rules), overwrite=True, jobs=int(jobs))


def slow_build(into: str, pause: str, jobs: str, sets: str, *sources: str) -> None:
    @contextmanager
    def slowly(label, total, unit):
        print(label, flush=True)
        yield mock.Mock(advance=lambda n=1: time.sleep(float(pause)))

    kgsgo._CHUNK_BYTES = CHUNK
    build(load_recipe("kgsgo-v2", SETTINGS), sources, into, sets=sets.split(","), jobs=int(jobs), progress=slowly)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start the script with it ignored
    try:
        {"ingest": slow_ingest, "build": slow_build}[sys.argv[1]](*sys.argv[2:])
    except KifuError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)

"""Ingest in many small steps, with a pause before each, as a script for tests that interrupt it.

python slow_ingest.py OUT PAUSE JOBS RULES SOURCE...     exit code 2 and one line if it raises a KifuError
"""

import resource
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

STEP = 16
"""Rows per batch read and per row group written."""


@contextmanager
def small_steps() -> Iterator[None]:
    """Read and write catalogues in steps of a few rows."""
    with (
        mock.patch.object(parquet.TableWriter.__init__, "__defaults__", (STEP,)),
        mock.patch.dict(catalogue.Catalogue.batches.__kwdefaults__, size=STEP),
    ):
        yield


def main(out: str, pause: str, jobs: str, rules: str, *sources: str) -> None:
    write = catalogue.CatalogueWriter.write

    def slowly(self, batch):
        print("writing", flush=True)
        time.sleep(float(pause))
        write(self, batch)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start the script with it ignored
    with small_steps(), mock.patch.object(catalogue.CatalogueWriter, "write", slowly):
        try:
            ingest(sources, out, clean=load_cleaning_rules(rules), jobs=int(jobs))
        except KifuError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    if sys.argv[1].startswith("limit="):
        limit = int(sys.argv.pop(1).removeprefix("limit="))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    main(*sys.argv[1:])

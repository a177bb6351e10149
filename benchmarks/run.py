"""Run the benchmarks and print the results as a Markdown table.

    python benchmarks/run.py [--only NAME,...] [--rounds N] [--shared DIR] [--json FILE]

Each benchmark is compared with a floor, the time of the minimum of work on the same machine. Both take turns in the
same run, because on a shared machine only the ratio is meaningful. Temporary files need 8 GB in TMPDIR.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from corpus import find_corpus
from figures import Figure, table
from ingesting import catalogue, catalogue_memory, duplicates, ogs, olf, sevenzip, sgfs
from kata import katago
from learning import genmove, learning
from loader import loader
from processes import memory, start, starts
from searching import search
from sequences import tokens
from shuffling import shuffling
from throughput import kernels, threads, whole_way
from timing import machine
from webserver import web

from kifu.errors import KifuError

_BENCHMARKS = {
    "whole": whole_way,
    "threads": threads,
    "kernels": kernels,
    "memory": memory,
    "start": start,
    "starts": starts,
    "catalogue": catalogue,
    "duplicates": duplicates,
    "olf": olf,
    "ogs": ogs,
    "7z": sevenzip,
    "sgfs": sgfs,
    "catalogue-memory": catalogue_memory,
    "loader": loader,
    "shuffling": shuffling,
    "tokens": tokens,
    "katago": katago,
    "search": search,
    "web": web,
    "learning": learning,
    "genmove": genmove,
}


def main() -> None:
    """Run the selected benchmarks."""
    arguments = _arguments()
    corpus = find_corpus(arguments.shared)
    before = machine()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="kifu-bench-") as folder:
        for name in arguments.only:
            began = time.perf_counter()
            figures += _BENCHMARKS[name](corpus, Path(folder), arguments.rounds)
            print(f"{name}: measured in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(f"On {corpus.title}; best of {arguments.rounds}.\n\n{table(figures, judged=corpus.judged)}\n\n{before}")
    if arguments.json is not None:
        report = {
            "machine": before,
            "corpus": corpus.title,
            "rounds": arguments.rounds,
            "figures": [asdict(figure) for figure in figures],
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the benchmarks and print the results as a Markdown table.")
    names = ",".join(_BENCHMARKS)
    parser.add_argument("--only", type=_names, default=list(_BENCHMARKS), metavar="NAME,...", help=f"of {names}")
    parser.add_argument("--rounds", type=_positive, default=5, help="how often each is timed (default: 5)")
    parser.add_argument(
        "--shared",
        type=Path,
        default=Path(__file__).resolve().parents[2] / "shared",
        help="folder with data/kgs and reference/kgsgo (default: ../shared beside the checkout); "
        "without it, the bundled sample is measured",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _BENCHMARKS:
            raise argparse.ArgumentTypeError(f"no benchmark {name!r}; there are {', '.join(_BENCHMARKS)}")
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return int(text)


if __name__ == "__main__":
    try:
        main()
    except KifuError as error:
        sys.exit(f"benchmarks: {error}")

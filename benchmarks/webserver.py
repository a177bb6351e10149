"""The web application: time until it is ready, answers to one and to many clients, memory, size of the client.

`python benchmarks/webserver.py CATALOGUE SECONDS` lets the clients also send filters that take long or are refused, and
prints how long lists took and how memory grew.
"""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from corpus import Corpus
from figures import Figure, at_most
from processes import KIFU
from searching import load_searches

from kifu.corpus.ingest import ingest
from kifu.search.build import build_index
from kifu.search.notation import format_pattern

_CLIENTS = 50
_SECONDS, _SETTLING = 60, 20
"""Seconds that the clients ask, and those after which memory should not grow."""

_GAMES, _PLIES, _PATTERNS = 10, 31, 40
"""Number of games, of plies of each, and of patterns that are asked about."""

_PAGE = ("/", "/assets/app.js", "/assets/app.css", "/api/site", "/api/games")
"""All that a browser loads for the first page."""


class Ask(NamedTuple):
    """A request: GET, or POST with a JSON value."""

    target: str
    body: Any = None


_LISTS = [
    Ask("/api/games"),
    Ask("/api/games?q=lee"),
    Ask("/api/games?sort=moves&descending=true"),
    Ask("/api/games?first=300&year_from=2002"),
]
_FILTERS = [
    Ask(f"/api/{path}?{urlencode({'sql': sql})}")
    for path in ("games", "explore")
    for sql in (
        "length(repeat(black, 100000000)) > 0",
        "levenshtein(repeat(black, 10000), repeat(white, 10000)) > 0",
        " OR ".join(f"regexp_matches(black, '(.*b.*c){{50}}q{k}')" for k in range(40)),
        "black LIKE '%a%b%c%' AND n_legal > 100",
    )
]
"""Filters of strangers: refused ones, one that takes long, and a good one."""

_FIRST = Ask("/api/predict", {"line": {"moves": [60]}, "ply": 1}), Ask("/api/search", {"pattern": "X . X\n. O ."})
"""A prediction and a pattern search."""


class Answer(NamedTuple):
    """The status of an answer, and its seconds."""

    ask: Ask
    status: int
    seconds: float


class Asks(NamedTuple):
    """Requests by kind."""

    lists: list[Ask]
    explorer: list[Ask]
    predictions: list[Ask]
    patterns: list[Ask]


def web(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure a server over all games."""
    path = folder / "web.parquet"
    count = ingest(corpus.every or corpus.archives, path).read
    build_index(path)
    began = time.perf_counter()
    with _serving(path) as (process, port):
        ready = time.perf_counter() - began
        page = sum(_times(port, [Ask(target) for target in _PAGE]))
        _times(port, [Ask("/api/nets")])
        nets = time.perf_counter() - began
        first = _times(port, _FIRST)
        asks = _asks(port, corpus)
        times = [_times(port, each) for each in asks._replace(lists=asks.lists * 10 * rounds)]
        answers, memory = _many(port, process, asks, _SECONDS)
        asked, failed = len(answers), sum(status != 200 for _, status, _ in answers)
    size = sum(len(gzip.compress(each.read_bytes())) for each in files("kifu").joinpath("assets", "web").iterdir())
    lists, explorer, predictions, patterns = (float(np.percentile(each, 95)) * 1e3 for each in times)
    return [
        at_most(f"kifu serve of {count:,} games, until it is ready", ready, "s", 2),
        at_most("first page with all that it loads, right after that", page, "s", 1),
        Figure("from the start until the net is open", nets, "s"),
        Figure("first prediction, right after that", first[0] * 1e3, "ms"),
        Figure("first pattern search, right after that", first[1] * 1e3, "ms"),
        at_most("list of games, 95th percentile", lists, "ms", 100),
        at_most(f"explorer, plies 0 to {_PLIES - 1}, 95th percentile", explorer, "ms", 100),
        at_most("prediction, 95th percentile", predictions, "ms", 150),
        at_most(f"pattern search, {len(times[3])} patterns, 95th percentile", patterns, "ms", 1000),
        at_most("client, compressed", size / 1e3, "kB", 90),
        Figure(f"{_CLIENTS} clients for {_SECONDS} s", asked / _SECONDS, "answers/s"),
        at_most("errors among them", failed, "errors", 0),
        at_most(f"growth of memory after the first {_SETTLING} s", max(memory[-1] - memory[0], 0), "MB", 50),
    ]


def _asks(port: int, corpus: Corpus) -> Asks:
    """Return the requests to time: about games in even distances, and about patterns."""
    played = {"sql": "n_legal > 200 AND width = 19", "count": 1}
    total = _answer(port, Ask(f"/api/games?{urlencode(played)}"))["total"]
    rows, lines = [], []
    for k in range(_GAMES):
        (game,) = _answer(port, Ask(f"/api/games?{urlencode(played | {'first': k * total // _GAMES})}"))["games"]
        line = _answer(port, Ask(f"/api/games/0/{game['row']}"))["line"]
        rows.append(game["row"])
        lines.append({key: line[key] for key in ("width", "height", "setup", "setup_ply", "moves", "to_play")})
    searches = load_searches(corpus.patterns)
    step = max(len(searches) // _PATTERNS, 1)
    return Asks(
        _LISTS,
        [Ask(f"/api/explore?game={row}&ply={ply}") for row in rows for ply in range(_PLIES)],
        [Ask("/api/predict", {"line": line, "ply": ply}) for line in lines for ply in range(0, 200, 20)],
        [Ask("/api/search", {"pattern": format_pattern(each.pattern)}) for each in searches[::step]],
    )


def _times(port: int, asks: Sequence[Ask]) -> list[float]:
    """Return the seconds of the answer to each request."""
    times = []
    for ask in asks:
        began = time.perf_counter()
        status, data = _ask(port, ask)
        times.append(time.perf_counter() - began)
        assert status == 200, (ask, status, data)
    return times


def _answer(port: int, ask: Ask) -> Any:
    return json.loads(_ask(port, ask)[1])


def _ask(port: int, ask: Ask) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        if ask.body is None:
            connection.request("GET", ask.target)
        else:
            connection.request("POST", ask.target, json.dumps(ask.body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@contextmanager
def _serving(path: Path) -> Iterator[tuple[int, int]]:
    """Serve a catalogue; yield the id of the process and the port."""
    with subprocess.Popen([*KIFU, "serve", str(path), "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.match(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
            assert found is not None
            yield server.pid, int(found[1])
        finally:
            server.terminate()


def _many(port: int, process: int, asks: Sequence[list[Ask]], seconds: float) -> tuple[list[Answer], list[float]]:
    """Let many clients ask all kinds of requests in turn.

    Returns:
        The answers, and the server's memory in MB, after `_SETTLING` seconds and a dozen times until the end.
    """
    end = time.monotonic() + seconds
    answers: list[Answer] = []

    def client(number: int) -> None:
        kinds = [itertools.islice(itertools.cycle(each), number, None) for each in asks]
        for kind in itertools.cycle(kinds):
            if time.monotonic() > end:
                break
            began, ask = time.perf_counter(), next(kind)
            answers.append(Answer(ask, _ask(port, ask)[0], time.perf_counter() - began))

    threads = [threading.Thread(target=client, args=[number]) for number in range(_CLIENTS)]
    for each in threads:
        each.start()
    time.sleep(_SETTLING)
    memory = [_memory(process)]
    for each in threads:
        while each.is_alive():
            each.join(seconds / 12)
            memory.append(_memory(process))
    return answers, memory


def _memory(process: int) -> float:
    """Return the resident memory of a process in MB."""
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024 / 1e6


def main(catalogue: Path, seconds: float) -> None:
    """Serve a catalogue to clients, some of which send filters of strangers."""
    with _serving(catalogue) as (process, port):
        _times(port, [Ask("/api/nets"), *_FIRST])
        answers, memory = _many(port, process, [_LISTS, list(_FIRST), _FILTERS], seconds)
    lists = [each.seconds for each in answers if each.ask in _LISTS]
    kinds = {"lists": _LISTS, "predictions, patterns": _FIRST, "filters": _FILTERS}
    for name, asks in kinds.items():
        print(f"{name}: {dict(Counter(each.status for each in answers if each.ask in asks))}")
    slowest = f"95th percentile {np.percentile(lists, 95):.2f} s, slowest {max(lists):.2f} s"
    print(f"lists: {slowest}; memory from {_SETTLING} s on, in MB: {', '.join(f'{each:.0f}' for each in memory)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))

"""Random requests to all endpoints: each answer is a result or one line, and none is an unexpected exception."""

import inspect
import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from web_site import ServedSite

TEXTS = [
    "", "a", "0", "-1", "1e9", "nan", "inf", "true", "19x19", "0x0", "99x99", "black", "white", "none", "small",
    "<script>", "'", '"', "\\", "%", "_", "\0", "\u202e", "\ud7ff", "😀", "x" * 300, "../..", "9" * 30, "1=1", "seven",
    "year > 2000", "row", "q16", "japanese", "2010", "[]", "{}", "null", "kgs", "(;B[aa])", "pd", "pddpB--", "3d",
    "XO/OX", "anchor: corner/next: black/..X/...", "1,2", "alphago48@1",
]  # fmt: skip
VALUES = [None, True, -1, 0, 1, 361, 65535, 1e300, 2**70, [], {}, [[[]]]]
WRONG = [0, 0, 0.03, 0.3]
"""Shares of values that ignore the schema, one of which holds for a request."""

AGGREGATES = {"/api/clusters", "/api/dropped", "/api/facets"}
"""Endpoints that take ten times as long as others, asked a quarter as often."""

Json = Any
Endpoint = tuple[str, str, Json]
"""Path, method and JSON schema of the parameters; the schema is None for uploads."""


def endpoints(served: ServedSite) -> list[Endpoint]:
    found = []
    for route in served.routes:
        answer = inspect.getclosurevars(route.endpoint).nonlocals.get("answer")
        if answer is not None:
            model = inspect.getclosurevars(answer).nonlocals.get("params")
            method = "POST" if "POST" in route.methods else "GET"
            found.append((route.path, method, None if model is None else model.model_json_schema()))
    return found


class Values:
    """Random values of a JSON schema, a share of which ignores it."""

    def __init__(self, schema: Json, rng: random.Random) -> None:
        self._defs, self._rng, self._wrong = schema.get("$defs", {}), rng, rng.choice(WRONG)

    def draw(self, schema: Json, depth: int = 0) -> Json:
        rng = self._rng
        if depth and rng.random() < self._wrong:
            return rng.choice([*TEXTS, *VALUES])
        if schema.get("title") == "Line" and rng.random() < 0.5:
            points = rng.sample(range(19 * 19 + 1), rng.choice([0, 1, 2, 10]))
            return {"moves": [point | 0x8000 * (ply % 2) for ply, point in enumerate(points)]}
        if "$ref" in schema:
            return self.draw(self._defs[schema["$ref"].rpartition("/")[2]], depth + 1)
        if "anyOf" in schema:
            return self.draw(rng.choice(schema["anyOf"]), depth + 1)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        match schema.get("type"):
            case "integer" | "number" as kind:
                low = int(schema.get("minimum", -5))
                high = int(schema.get("maximum", 1000))
                number = rng.choice([low, low, high, rng.randint(low, high), rng.randint(low, min(high, low + 20))])
                return number if kind == "integer" else number / 2
            case "boolean":
                return rng.random() < 0.5
            case "array":
                return [self.draw(schema["items"], depth + 1) for _ in range(rng.choice([0, 1, 2, 5, 30]))]
            case "object":
                required = schema.get("required", ())
                names = [name for name in schema["properties"] if rng.random() < 0.3 or name in required]
                return {name: self.draw(schema["properties"][name], depth + 1) for name in names}
            case "null":
                return None
        return rng.choice(TEXTS)


def send(served: ServedSite, connection: HTTPConnection, endpoint: Endpoint, rng: random.Random) -> int:
    """Send one random request, check that its answer is JSON, a file or one line, and return the status."""
    path, method, schema = endpoint
    body, headers = None, {}
    if schema is None:
        record = bytearray(b"(;SZ[9]PB[a]KM[6.5];B[ee];W[cc])")
        record[rng.randrange(len(record))] = rng.randrange(256)
        body, headers = bytes(record), {"Content-Type": "application/octet-stream"}
    else:
        given = Values(schema, rng).draw(schema)
        for name in [name for name in schema["properties"] if "{" + name + "}" in path]:
            path = path.replace("{" + name + "}", quote(str(given.pop(name))[:100], safe="") or "0")
        if method == "POST":
            body, headers = json.dumps(given).encode(), {"Content-Type": "application/json"}
        else:
            path = f"{path}?{urlencode({k: v for k, v in given.items() if v is not None})}"
    answer = served.request(method, path, body, headers, connection)
    if answer.status != 200:
        assert answer.error, (path, answer)
    return answer.status


def send_all(served: ServedSite, count: int, seed: int) -> Counter[tuple[str, int]]:
    rng, found = random.Random(seed), endpoints(served)
    weights = [1 if path in AGGREGATES else 4 for path, _, _ in found]
    connection = HTTPConnection(*served.address, timeout=60)
    counts: Counter[tuple[str, int]] = Counter()
    try:
        for endpoint in rng.choices(found, weights, k=count):
            counts[endpoint[0], send(served, connection, endpoint, rng)] += 1
    finally:
        connection.close()
    return counts


@pytest.mark.slow
def test_some_random_requests(site_server: ServedSite) -> None:
    counts = send_all(site_server, 150, 1)
    assert site_server.failures == []
    assert sum(count for (_, status), count in counts.items() if status == 200) > 10, counts


@pytest.mark.slow
def test_ten_thousand_random_requests(site_server: ServedSite) -> None:
    with ThreadPoolExecutor(4) as pool:
        counts = sum(pool.map(lambda seed: send_all(site_server, 2500, seed), range(4)), Counter())
    assert site_server.failures == []
    answered = {path for path, status in counts if status == 200}
    never = {"/api/reports/{report}"}  # there is no report
    assert answered == {path for path, _, _ in endpoints(site_server)} - never

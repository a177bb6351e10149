"""A program that speaks the protocol of KataGo's analysis engine, well or badly: `engine("late")` is a command line.

Each word of the script is what is done to one response that a position is due, in turn; after the last one all goes
well. The words:

    ok                the response
    error             an error for the query            general    an error without an id
    warning           a warning before the response     settings   a warning that settings are unknown
    hold              the response comes once no query is waiting, in reverse order
    split             the response in two writes        during     a report during the search, and the response
    crash             exit code 3, with a complaint     segv       killed by its own fault
    hang              nothing, for ever                 flood      a line without an end
    nonsense          a line that is no JSON            list       JSON that is no object
    deep              deeply nested JSON                binary     bytes that are no text
    wrong-id, wrong-turn, twice                         answers to what was not asked
    nan, negative, unit, short, text                    policies that are none
    colour            the other side to move            value, owner    a winrate or an ownership out of range
    none              no results                        root       no rootInfo

Before the first response: `start="hang"`, "crash" or "noise" (of half a second, on standard error); `human="model"`
has a model of human play besides the main one, `human="main"` is one; `old="1"` is a version without query_models.

The policy of a position is `policy(...)`: a hash of everything that a query says about it.
"""

import json
import os
import select
import shlex
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

Query = dict[str, Any]


def engine(script: str = "", **options: str) -> str:
    """Return the command line of such a program."""
    words = [sys.executable, "-S", str(Path(__file__)), script]
    return shlex.join([*words, *(f"{name}={value}" for name, value in options.items())])


def policy(query: Query, turn: int, seed: str = "") -> list[float]:
    """Return the probabilities of a position: different for all points, boards and terms; occupied points are -1."""
    moves = query["moves"][:turn]
    said = [query.get("initialStones"), moves, query["rules"], query["komi"], _side(query, turn), seed]
    said.append(query["overrideSettings"].get("rootNumSymmetriesToSample"))
    start = zlib.crc32(json.dumps(said).encode())
    width, height = query["boardXSize"], query["boardYSize"]
    taken = {name for _, name in [*query.get("initialStones", []), *moves]}
    names = [f"{'ABCDEFGHJKLMNOPQRST'[x]}{height - y}" for y in range(height) for x in range(width)]
    weights = [0 if name in taken else 1 + (start * (k + 7) >> 7) % 1009 for k, name in enumerate(names)] + [1]
    return [weight / sum(weights) if weight else -1 for weight in weights]


def winrate(query: Query, turn: int) -> float:
    """Return the side to move's probability of winning."""
    return (turn + 1) / (7 + 2 * turn + (_side(query, turn) == "W"))


def _side(query: Query, turn: int) -> str:
    first = query.get("initialPlayer", query["moves"][0][0] if query["moves"] else "B")
    return "BW"[(first == "W") ^ turn & 1]


def _write(value: Any) -> None:
    _send(json.dumps(value) + "\n")


def _send(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _response(query: Query, turn: int, human: str) -> Query:
    values = policy(query, turn)
    settings = query["overrideSettings"]
    assert settings["reportAnalysisWinratesAs"] == "SIDETOMOVE"
    root = {"winrate": winrate(query, turn), "visits": 1, "currentPlayer": _side(query, turn)}
    response = {"id": query["id"], "turnNumber": turn, "isDuringSearch": False, "moveInfos": [], "rootInfo": root}
    if "humanSLProfile" in settings and human == "model":
        response["humanPolicy"] = policy(query, turn, settings["humanSLProfile"])
        root["humanWinrate"] = root["winrate"] / 2
    elif "humanSLProfile" in settings:
        values = policy(query, turn, settings["humanSLProfile"])
    response["policy"] = values
    if query["includeOwnership"]:
        response["ownership"] = [(k % 19) / 9 - 1 for k in range(len(values) - 1)]
    return response


def _crash() -> NoReturn:
    print("first line\nout of luck", file=sys.stderr, flush=True)
    sys.exit(3)


def _spoil(word: str, response: Query) -> Query:
    """Return the response as a word has it."""
    values, root = response["policy"], response["rootInfo"]
    spoiled: dict[str, Query] = {
        "wrong-id": {"id": "none"},
        "wrong-turn": {"turnNumber": 999},
        "nan": {"policy": [*values[:-1], float("nan")]},
        "negative": {"policy": [*values[:-1], -2]},
        "unit": {"policy": [0.5 * value for value in values]},
        "short": {"policy": values[1:]},
        "text": {"policy": "D4"},
        "colour": {"rootInfo": {**root, "currentPlayer": "W" if root["currentPlayer"] == "B" else "B"}},
        "value": {"rootInfo": {**root, "winrate": 1.5}},
        "owner": {"ownership": [7.0] * (len(values) - 1)},
        "root": {"rootInfo": None},
    }
    return {**response, **spoiled.get(word, {})}


def _misbehave(word: str) -> None:
    """Do what needs no response."""
    if word == "crash":
        _crash()
    elif word == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif word == "hang":
        time.sleep(100)
    elif word == "flood":
        while True:
            _send("[" * 100_000)
    elif word == "deep":
        _send("[" * 100_000 + "\n")
    elif word == "binary":
        sys.stdout.buffer.write(b"\xff\xfe\x00\x9f\n")
        sys.stdout.flush()
    elif word in ("nonsense", "list"):
        _send({"nonsense": "hello\n", "list": "[1]\n"}[word])


def _answer(word: str, response: Query) -> None:
    """Do what a word says."""
    _misbehave(word)
    about = {"id": response["id"], "field": "rules"}
    if word == "error":
        return _write({**about, "error": "Could not parse rules: silly"})
    if word == "general":
        return _write({"error": "something is wrong"})
    if word == "none":
        return _write({"id": response["id"], "turnNumber": response["turnNumber"], "noResults": True})
    if word == "warning":
        _write({**about, "warning": "Rules are not supported"})
    if word == "settings":
        _write({**about, "field": "overrideSettings", "warning": "Unknown config params: humanSLProfile"})
    if word == "during":
        _write({**response, "isDuringSearch": True, "policy": []})
    text = json.dumps(_spoil(word, response)) + "\n"
    if word == "split":
        _send(text[:1000])
        time.sleep(0.1)
        text = text[1000:]
    _send(text * 2 if word == "twice" else text)
    return None


def _greeting(query: Query, human: str, old: str) -> None:
    models = [{"internalName": "b1c1", "usesHumanSLProfile": human == "main"}]
    models += [{"internalName": "human", "usesHumanSLProfile": True}] if human == "model" else []
    if query["action"] == "query_version":
        _write({**query, "version": "1.12.4" if old else "1.18.1", "git_hash": "?"})
    elif query["action"] == "query_models" and not old:
        _write({**query, "models": models})
    elif query["action"] == "terminate":
        _write(query)
    else:
        _write({"error": "'action' field must be 'query_version' or 'terminate'"})


def _main(script: str, *options: str) -> None:
    words, said = script.split(), dict(option.split("=", 1) for option in options)
    start, held = said.get("start", ""), list[Query]()
    if start == "noise":
        for _ in range(5):
            time.sleep(0.1)
            print("Tuning", file=sys.stderr, flush=True)
    _misbehave(start)

    def release() -> None:
        while held:
            _answer("ok", held.pop())

    for line in _lines(release):
        query = json.loads(line)
        if "action" in query:
            _greeting(query, said.get("human", ""), said.get("old", ""))
            continue
        for turn in query["analyzeTurns"]:
            word, response = words.pop(0) if words else "ok", _response(query, turn, said.get("human", ""))
            if word == "hold":
                held.append(response)
            else:
                _answer(word, response)


def _lines(idle: Callable[[], None]) -> Iterator[bytes]:
    """Yield lines of standard input; `idle` is called whenever none comes for a while."""
    read = bytearray()
    while True:
        while (end := read.find(b"\n")) >= 0:
            yield bytes(read[:end])
            del read[: end + 1]
        if not select.select([0], [], [], 0.05)[0]:
            idle()
        data = os.read(0, 1 << 16)
        if not data:
            return
        read += data


if __name__ == "__main__":
    _main(*sys.argv[1:])

"""Client for KataGo's analysis engine, which is not trusted.

    with AnalysisEngine("katago analysis -config analysis.cfg -model net.bin.gz") as engine:
        for turn in engine.analyze([query]):
            turn.policy

The engine reads queries and writes responses, both as lines of JSON (docs/Analysis_Engine.md of KataGo). A query asks
for several turns of a game, each of which has a response; responses arrive in any order.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from kifu.point import BLACK, WHITE_BIT, to_gtp
from kifu.process import POLL_S, Fault, PipedProcess, ProcessError, excerpt, split_command

Words = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]

LINE_LIMIT = 1 << 20
"""Maximum bytes of a response."""

MAX_IN_FLIGHT = 256
"""Number of turns without a response above which no query is sent."""

_START_SILENCE_S = 300.0
"""Time without any output, also on standard error, after which an engine that loads its net has failed."""

_START_TIMEOUT_S = 3 * 3600.0
"""Time to load a net; OpenCL builds measure kernels first, which takes long on CPUs."""

_RESPONSE_TIMEOUT_S = 300.0
"""Time between two responses."""

_LARGEST = 1.001
"""Largest magnitude of a probability, winrate or ownership, with its rounding."""

_SUM_TOLERANCE = 1e-3
"""Difference of a policy's sum from 1 beyond which it is not one."""


@dataclass(frozen=True, slots=True)
class AnalysisQuery:
    """Turns of one game.

    Attributes:
        stones: uint16, point | WHITE_BIT of the stones before the first move.
        moves: [T] uint16, point | WHITE_BIT; the colours alternate.
        turns: Numbers of moves, 0 to T, after which the position is evaluated; ascending.
        symmetries: Average over the 8 symmetries of the board.
    """

    title: str
    width: int
    height: int
    stones: Words
    moves: Words
    to_play: int
    turns: list[int]
    rules: str
    komi: float
    profile: str | None = None
    symmetries: bool = False
    ownership: bool = False

    def to_json(self, name: str) -> str:
        """Return the query as KataGo reads it, with an id."""
        settings: dict[str, Any] = {"reportAnalysisWinratesAs": "SIDETOMOVE", "ignorePreRootHistory": False}
        settings |= {"rootNumSymmetriesToSample": 8} if self.symmetries else {}
        settings |= {} if self.profile is None else {"humanSLProfile": self.profile}
        query = {
            "id": name,
            "boardXSize": self.width,
            "boardYSize": self.height,
            "initialStones": self._vertices(self.stones),
            "initialPlayer": "B" if self.to_play == BLACK else "W",
            "moves": self._vertices(self.moves),
            "analyzeTurns": self.turns,
            "rules": self.rules,
            "komi": self.komi,
            "maxVisits": 1,
            "includePolicy": True,
            "includeOwnership": self.ownership,
            "overrideSettings": settings,
        }
        return json.dumps(query, separators=(",", ":"))

    def _vertices(self, words: Words) -> list[tuple[str, str]]:
        colours = np.where(words & WHITE_BIT, "W", "B").tolist()
        points = (words & ~np.uint16(WHITE_BIT)).tolist()
        return [(colour, to_gtp(point, self.width, self.height)) for colour, point in zip(colours, points)]


class AnalyzedTurn(NamedTuple):
    """The evaluation of a position.

    Attributes:
        policy: [points + 1] float32, probabilities that sum to 1, pass last; 0 for moves that the engine excludes.
        value: From -1 (the side to move loses) to 1.
        ownership: [points] float32 from -1 (the opponent's) to 1, or None.
    """

    query: int
    turn: int
    policy: Floats
    value: float
    ownership: Floats | None


class AnalysisEngine(PipedProcess):
    """A running analysis engine.

    Attributes:
        models: Names of the nets that it has loaded; empty if it is older than version 1.14.
        main_is_human: True if its main net imitates players of a rank.
    """

    def __init__(
        self, command: str, *, start_silence: float = _START_SILENCE_S, timeout: float = _RESPONSE_TIMEOUT_S
    ) -> None:
        """Start an engine and wait until it has loaded its net.

        Raises RecipeError if the text is not a command line, or the program was not found.

        Args:
            command: Command line, such as "katago analysis -config analysis.cfg -model net.bin.gz".
            start_silence: Seconds without any output after which an engine that has not started has failed.
            timeout: Seconds between two responses after which it has failed.
        """
        words = split_command(command, "a command such as 'katago analysis -config analysis.cfg -model net.bin.gz'")
        self._program, self._timeout = Path(words[0]).name, timeout
        self._sent = 0
        self._open_queries: dict[str, tuple[int, AnalysisQuery, set[int]]] = {}
        self._abandoned: set[str] = set()
        try:
            super().__init__(words)
        except ProcessError as error:
            raise ProcessError(error.fault, f"engine {self._program}: {error.reason}") from None
        try:
            self._greet(start_silence)
        except BaseException:
            self.failed = True
            self.close()
            raise

    def fail(self, fault: Fault, reason: str) -> NoReturn:
        """Mark the engine as failed and raise ProcessError, which names the program."""
        super().fail(fault, f"engine {self._program}: {reason}")

    def analyze(self, queries: Iterable[AnalysisQuery]) -> Iterator[AnalyzedTurn]:
        """Evaluate positions; queries are sent ahead of their responses.

        Args:
            queries: The queries; an iterator is advanced as responses arrive.

        Returns:
            An iterator over the turns of all queries, in the order of the responses. An iterator that is not exhausted
            terminates its queries when it is closed.
        """
        numbered, in_flight, exhausted = enumerate(queries), 0, False
        try:
            while True:
                while not exhausted and in_flight < MAX_IN_FLIGHT:
                    index, query = next(numbered, (-1, None))
                    exhausted = query is None
                    if query is not None:
                        self._submit(index, query)
                        in_flight += len(query.turns)
                if not self._open_queries:
                    return
                yield self._next_turn()
                in_flight -= 1
        finally:
            self._abandon()

    def _submit(self, index: int, query: AnalysisQuery) -> None:
        self._sent += 1
        self._open_queries[str(self._sent)] = index, query, set(query.turns)
        self._write(query.to_json(str(self._sent)))

    def _abandon(self) -> None:
        """Terminate the open queries; responses to them are ignored from now on."""
        if self._open_queries and not self.failed:
            self._abandoned |= self._open_queries.keys()
            for name in self._open_queries:
                self._write(json.dumps({"id": "terminate", "action": "terminate", "terminateId": name}))
        self._open_queries.clear()

    def _write(self, line: str) -> None:
        self.send(line.encode() + b"\n")

    def _greet(self, silence: float) -> None:
        """Ask for the version and the nets, which the engine answers once it has loaded them."""
        for action in ("query_version", "query_models"):
            self._write(json.dumps({"id": action, "action": action}))
        deadline, self.version, self.models = time.monotonic() + _START_TIMEOUT_S, "", list[str]()
        self.main_is_human = self.has_human = False
        for _ in range(2):
            response = self._next_response(deadline, silence)
            if "error" in response and self.version:
                return  # an older version, without query_models
            if "error" in response:
                self._refuse("a query of its version", response)
            self.version = str(response.get("version", self.version))
            models = response.get("models", [])
            if not (isinstance(models, list) and all(isinstance(each, dict) for each in models)):
                self.fail("nonsense", f"it wrote {excerpt(repr(models))}, which is not a list of nets")
            human = [each.get("usesHumanSLProfile") is True for each in models]
            self.main_is_human, self.has_human = human[:1] == [True], any(human)
            self.models = [excerpt(str(each.get("internalName", "?")), quote=False) for each in models]

    def _next_turn(self) -> AnalyzedTurn:
        """Return the turn of the next response that has one."""
        deadline = time.monotonic() + self._timeout
        while True:
            response = self._next_response(deadline)
            name, turn = str(response.get("id")), response.get("turnNumber")
            if name in self._abandoned or "action" in response or response.get("isDuringSearch"):
                continue
            if "error" in response or "warning" in response:
                self._check_report(response)
                continue
            index, query, turns = self._open_queries.get(name, (-1, None, set[int]()))
            if query is None or not isinstance(turn, int) or turn not in turns:
                self.fail("nonsense", f"it answered {_turn_of(response)}, which was not asked")
            turns.remove(turn)
            if not turns:
                del self._open_queries[name]
            return self._read_turn(index, query, turn, response)

    def _check_report(self, response: dict[str, Any]) -> None:
        """Raise for an error, and for settings that the engine does not have; ignore other warnings."""
        if "error" not in response and response.get("field") != "overrideSettings":
            return
        _, query, _ = self._open_queries.get(str(response.get("id")), (0, None, None))
        self._refuse("a query" if query is None else query.title, response)

    def _refuse(self, what: str, response: dict[str, Any]) -> None:
        report = excerpt(str(response.get("error", response.get("warning"))), quote=False)
        field = f" ({excerpt(str(response['field']), quote=False)})" if "field" in response else ""
        raise ProcessError("refusal", f"engine {self._program} refused {what}: {report}{field}")

    def _read_turn(self, index: int, query: AnalysisQuery, turn: int, response: dict[str, Any]) -> AnalyzedTurn:
        points, root = query.width * query.height, response.get("rootInfo")
        what = f"turn {turn} of {query.title}"
        if response.get("noResults") or not isinstance(root, dict):
            self.fail("nonsense", f"it returned no result for {what}")
        side = "BW"[(query.to_play != BLACK) ^ (turn & 1)]
        if root.get("currentPlayer", side) != side:
            self.fail("nonsense", f"it evaluated {what} for {root['currentPlayer']!r} to play instead of {side!r}")
        human = "humanPolicy" in response
        if query.profile is not None and not (human or self.main_is_human):
            self.fail("nonsense", f"it ignored the humanSLProfile {query.profile!r} in {what}")
        policy = self._numbers(response.get("humanPolicy" if human else "policy"), points + 1, f"policy of {what}")
        policy = np.maximum(policy, 0)
        if not abs(policy.sum() - 1) <= _SUM_TOLERANCE:
            self.fail("nonsense", f"the policy of {what} sums to {policy.sum():g} instead of 1")
        (winrate,) = self._numbers([root.get("humanWinrate" if human else "winrate")], 1, f"winrate of {what}")
        ownership = None
        if query.ownership:
            ownership = self._numbers(response.get("ownership"), points, f"ownership of {what}").astype(np.float32)
        return AnalyzedTurn(
            index, turn, (policy / policy.sum()).astype(np.float32), float(np.clip(2 * winrate - 1, -1, 1)), ownership
        )

    def _numbers(self, values: Any, count: int, what: str) -> npt.NDArray[np.float64]:
        """Return a JSON list of `count` numbers from -1 to 1 as float64; fail if it is anything else."""
        try:
            array = np.array(values)
        except (ValueError, OverflowError):  # nested lists
            array = np.array(None)
        if array.dtype.kind not in "if" or array.shape != (count,):
            found = f"{len(values)} values" if isinstance(values, list) else type(values).__name__
            self.fail("nonsense", f"the {what} is not a list of {count} numbers, but {found}")
        if not (np.abs(array) <= _LARGEST).all():
            worst = array[~(np.abs(array) <= _LARGEST)][0]
            self.fail("nonsense", f"the {what} contains {worst}, which is not within -1 to 1")
        return array.astype(np.float64)

    def _next_response(self, deadline: float, silence: float = math.inf) -> dict[str, Any]:
        """Wait for the next response."""
        began = last = time.monotonic()
        while (end := self.received.find(b"\n")) < 0:
            if len(self.received) > LINE_LIMIT:
                self.fail("nonsense", f"it wrote a line of more than {LINE_LIMIT:,} bytes")
            if not self.output_open:
                self.fail_exited()
            now = time.monotonic()
            if now >= min(deadline, last + silence):
                self.fail("time", f"it wrote no response for {now - min(began, last):.0f} s")
            if self.wait(min(POLL_S, deadline - now)):
                last = time.monotonic()
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        try:
            response = json.loads(line)
        except (ValueError, RecursionError):
            response = None
        if not isinstance(response, dict):
            self.fail("nonsense", f"it wrote {excerpt(line)}, which is not a JSON object")
        return response


def _turn_of(response: dict[str, Any]) -> str:
    turn, query = (excerpt(repr(response.get(name)), quote=False) for name in ("turnNumber", "id"))
    return f"turn {turn} of query {query}"

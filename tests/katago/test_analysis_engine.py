"""The client of KataGo's analysis engine: responses in any order, faults in time, and no process that stays."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis_engines import engine, policy, winrate
from kifu.errors import KifuError, RecipeError
from kifu.katago import analysis_engine
from kifu.katago.analysis_engine import LINE_LIMIT, AnalysisEngine, AnalysisQuery, AnalyzedTurn
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.process import Fault, ProcessError

LIMIT = 1.0


def query(turns: list[int], seed: int = 0, *, stones: bool = False, ownership: bool = False) -> AnalysisQuery:
    """Return a query about random moves on a board of 5 x 4, White first if there are stones."""
    points = np.random.default_rng(seed).permutation(20)[:8].astype(np.uint16)
    points[1::2] |= WHITE_BIT
    setup, moves = (points[:1], points[1:]) if stones else (points[:0], points)
    first = WHITE if stones else BLACK
    return AnalysisQuery("game 7", 5, 4, setup, moves, first, turns, "chinese", 6.5, ownership=ownership)


def expected(asked: AnalysisQuery, turn: int) -> np.ndarray:
    """Return the policy that the scripted engine gives, 0 for occupied points."""
    return np.maximum(policy(json.loads(asked.to_json("1")), turn), 0).astype(np.float32)


def check(asked: list[AnalysisQuery], found: list[AnalyzedTurn]) -> None:
    """Check that each turn is answered once, with its own evaluation."""
    turns = [(k, turn) for k, each in enumerate(asked) for turn in each.turns]
    assert sorted((each.query, each.turn) for each in found) == turns
    for each in found:
        of = asked[each.query]
        np.testing.assert_allclose(each.policy, expected(of, each.turn), rtol=1e-5)
        assert each.value == pytest.approx(2 * winrate(json.loads(of.to_json("1")), each.turn) - 1)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def running() -> Iterator[AnalysisEngine]:
    with AnalysisEngine(engine()) as program:
        yield program


def test_turns_of_several_games(running: AnalysisEngine) -> None:
    assert (running.version, running.models, running.has_human) == ("1.18.1", ["b1c1"], False)
    asked = [query([0, 3, 8]), query([2], 1), query([0, 1, 2, 7], 2, stones=True)]
    check(asked, list(running.analyze(asked)))
    assert list(running.analyze([])) == []


def test_query_fields() -> None:
    said = json.loads(query([0, 2], stones=True).to_json("12"))
    assert said["id"] == "12"
    assert (said["boardXSize"], said["boardYSize"], said["initialPlayer"]) == (5, 4, "W")
    assert said["initialStones"][0][0] == "B"
    assert [colour for colour, _ in said["moves"]] == [*"WBWBWBW"]
    assert said["overrideSettings"] == {"reportAnalysisWinratesAs": "SIDETOMOVE", "ignorePreRootHistory": False}
    corners = AnalysisQuery("", 19, 19, np.array([0], np.uint16), np.array([360, 361 | WHITE_BIT], np.uint16), BLACK,
                            [0], "japanese", 0.5, "rank_3d", symmetries=True)  # fmt: skip
    said = json.loads(corners.to_json("1"))
    assert (said["initialStones"], said["moves"]) == ([["B", "A19"]], [["B", "T1"], ["W", "pass"]])
    assert said["overrideSettings"]["rootNumSymmetriesToSample"] == 8
    assert said["overrideSettings"]["humanSLProfile"] == "rank_3d"


def test_ownership(running: AnalysisEngine) -> None:
    (turn,) = running.analyze([query([1], ownership=True)])
    assert turn.ownership is not None
    np.testing.assert_allclose(turn.ownership, [(k % 19) / 9 - 1 for k in range(20)], atol=1e-6)
    (turn,) = running.analyze([query([1])])
    assert turn.ownership is None


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(["ok", "hold", "hold", "split", "warning", "during"]), max_size=12))
def test_the_order_of_responses_does_not_matter(words: list[str]) -> None:
    asked = [query([0, 3, 8]), query([2, 4], 1), query([0, 1, 2, 7], 2, stones=True)]
    with AnalysisEngine(engine(" ".join(words))) as program:
        check(asked, list(program.analyze(asked)))


def test_queries_in_flight_are_limited(running: AnalysisEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis_engine, "MAX_IN_FLIGHT", 4)
    drawn = 0

    def queries() -> Iterator[AnalysisQuery]:
        nonlocal drawn
        for k in range(50):
            drawn += 3
            yield query([0, 1, 2], k)

    for done, _ in enumerate(running.analyze(queries())):
        assert drawn <= done + 4 + 3
    assert drawn == 150


def test_an_abandoned_iterator_leaves_the_engine_usable() -> None:
    with AnalysisEngine(engine("ok hold hold hold")) as program:
        for _ in program.analyze([query([0, 1, 2, 3, 4]), query([5], 1)]):
            break
        asked = [query([0, 1, 2], 3)]
        check(asked, list(program.analyze(asked)))


@pytest.mark.parametrize(
    ("word", "fault", "reason"),
    [
        ("crash", "crash", "it exited with code 3: out of luck"),
        ("segv", "crash", "it was killed: Segmentation fault"),
        ("hang", "time", "it wrote no response for 1 s"),
        ("flood", "nonsense", f"it wrote a line of more than {LINE_LIMIT:,} bytes"),
        ("nonsense", "nonsense", "it wrote 'hello', which is not a JSON object"),
        ("list", "nonsense", "it wrote '[1]', which is not a JSON object"),
        ("deep", "nonsense", f"it wrote '{'[' * 97}...', which is not a JSON object"),
        ("binary", "nonsense", "it wrote '\ufffd\ufffd\\x00\ufffd', which is not a JSON object"),
        ("wrong-id", "nonsense", "it answered turn 0 of query 'none', which was not asked"),
        ("wrong-turn", "nonsense", "it answered turn 999 of query '1', which was not asked"),
        ("twice", "nonsense", "it answered turn 0 of query '1', which was not asked"),
        ("nan", "nonsense", "the policy of turn 0 of game 7 contains nan, which is not within -1 to 1"),
        ("negative", "nonsense", "the policy of turn 0 of game 7 contains -2.0, which is not within -1 to 1"),
        ("short", "nonsense", "the policy of turn 0 of game 7 is not a list of 21 numbers, but 20 values"),
        ("text", "nonsense", "the policy of turn 0 of game 7 is not a list of 21 numbers, but str"),
        ("colour", "nonsense", "it evaluated turn 0 of game 7 for 'W' to play instead of 'B'"),
        ("value", "nonsense", "the winrate of turn 0 of game 7 contains 1.5, which is not within -1 to 1"),
        ("owner", "nonsense", "the ownership of turn 0 of game 7 contains 7.0, which is not within -1 to 1"),
        ("none", "nonsense", "it returned no result for turn 0 of game 7"),
        ("root", "nonsense", "it returned no result for turn 0 of game 7"),
    ],
)
def test_faults(word: str, fault: Fault, reason: str) -> None:
    with AnalysisEngine(engine(word), timeout=LIMIT) as program:
        process, began = program._process.pid, time.monotonic()
        with pytest.raises(ProcessError) as failed:
            list(program.analyze([query([0, 1], ownership=True)]))
        message = str(failed.value)
        assert failed.value.fault == fault
        assert message.split(": ", 1)[1] == reason
        assert message.startswith("engine python")
        assert time.monotonic() - began < LIMIT + 5
    assert not is_alive(process)


def test_a_policy_that_does_not_sum_to_one() -> None:
    with AnalysisEngine(engine("unit")) as program, pytest.raises(ProcessError, match=r"sums to 0\.5 instead of 1$"):
        list(program.analyze([query([0])]))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("error", "refused game 7: Could not parse rules: silly (rules)"),
        ("general", "refused a query: something is wrong"),
        ("settings", "refused game 7: Unknown config params: humanSLProfile (overrideSettings)"),
    ],
)
def test_a_refused_query_leaves_the_engine_usable(word: str, reason: str) -> None:
    with AnalysisEngine(engine(f"ok ok {word}")) as program:
        with pytest.raises(KifuError) as failed:
            list(program.analyze([query([0, 1, 2, 3, 4]), query([5], 1)]))
        assert str(failed.value).partition(" ")[0] == "engine"
        assert str(failed.value).endswith(reason)
        asked = [query([0, 1, 2], 3)]
        check(asked, list(program.analyze(asked)))


def test_faults_in_the_middle() -> None:
    with AnalysisEngine(engine("ok ok ok crash")) as program:
        turns = program.analyze([query([0, 1, 2, 3, 4])])
        assert [next(turns).turn for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ProcessError, match="it exited with code 3"):
            next(turns)


@pytest.mark.parametrize(
    ("start", "fault", "reason"),
    [
        ("crash", "crash", "it exited with code 3: out of luck"),
        ("hang", "time", "it wrote no response for 1 s"),
        ("nonsense", "nonsense", "it wrote 'hello', which is not a JSON object"),
    ],
)
def test_an_engine_that_does_not_start(start: str, fault: Fault, reason: str) -> None:
    with pytest.raises(ProcessError) as failed:
        AnalysisEngine(engine(start=start), start_silence=LIMIT)
    assert (failed.value.fault, str(failed.value).split(": ", 1)[1]) == (fault, reason)


def test_standard_error_is_a_sign_of_life_while_an_engine_starts() -> None:
    with AnalysisEngine(engine(start="noise"), start_silence=0.4) as program:
        assert program.log.count(b"Tuning") == 5


def test_versions_without_the_query_of_nets() -> None:
    with AnalysisEngine(engine(old="1")) as program:
        assert (program.version, program.models, program.has_human) == ("1.12.4", [], False)
        check([query([0])], list(program.analyze([query([0])])))


def test_nets_that_imitate_players() -> None:
    with AnalysisEngine(engine(human="model")) as program:
        assert (program.main_is_human, program.has_human, program.models) == (False, True, ["b1c1", "human"])
    with AnalysisEngine(engine(human="main")) as program:
        assert (program.main_is_human, program.has_human) == (True, True)


def test_invalid_commands(tmp_path: Path) -> None:
    for text, message in [
        ("", "^the command line is empty; expected a command such as 'katago analysis "),
        ("no-such-katago analysis", "^program not found: 'no-such-katago'"),
        ("katago 'x", "^not a command line: "),
    ]:
        with pytest.raises(RecipeError, match=message):
            AnalysisEngine(text)
    file = tmp_path / "engine"
    file.write_bytes(b"\x7fELF")
    file.chmod(0o755)
    with pytest.raises(ProcessError, match=r"^engine engine: it could not be started: Exec format error$"):
        AnalysisEngine(str(file))

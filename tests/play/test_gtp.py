"""The GTP engine as a controller sees it: transcripts, whatever may be sent, files, streams, the command itself."""

import errno
import os
import queue
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import KIFU, limited, run
from evaluators import Scripted, reported, scripted_engine
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.learn.evaluation import Evaluation
from kifu.learn.positions import NetPositions
from kifu.play.player import GameSession
from kifu.play.referee import GtpProcess
from kifu.point import BLACK, WHITE, parse_gtp, pass_move
from kifu.process import find_program
from kifu.records.game import read_sgf, write_sgf
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")
play = lazy_import("kifu.play")


TRANSCRIPTS = sorted(Path(__file__).with_name("gtp").glob("*.txt"))
ANSWER = re.compile(r"[=?]\d*(?: [^\n]+)?(?:\n[^\n]+)*\n\n")
"""GTP's form: no empty line within, and one at the end."""


def sent_and_told(transcript: str) -> tuple[bytes, str]:
    """Split a transcript into its input (lines with >) and the expected output."""
    sent = [line[2:] for line in transcript.split("\n") if line.startswith(">")]
    out = [line for line in transcript.split("\n") if not line.startswith(">")]
    return "".join(f"{line}\n" for line in sent).encode(), "\n".join(out)


def answers(text: str) -> list[str]:
    """The answers in what an engine wrote, which must be nothing but well-formed ones."""
    found = ANSWER.findall(text)
    assert "".join(found) == text
    return found


@pytest.fixture(scope="session")
def gnugo() -> list[str]:
    found = find_program("gnugo")
    if found is None:
        pytest.skip("needs gnugo")
    return [found]


# what is asked and answered


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcripts(path: Path) -> None:
    sent, wanted = sent_and_told(path.read_text())
    evaluator = Scripted(lead=0.5, has_points=True) if path.stem in ("analysis", "rules") else Scripted()
    assert reported(scripted_engine(evaluator), sent) == wanted
    answers(wanted)


@pytest.mark.parametrize("cut", [1, 7, 4096])
def test_line_endings_and_stream_chunks_do_not_matter(cut: int) -> None:
    sent, wanted = sent_and_told((TRANSCRIPTS[0].parent / "game.txt").read_text())
    messy = sent.replace(b"\n", b"\r\n").replace(b" ", b"\t ").replace(b"play", b"\x07pl\x00ay\x7f")
    assert reported(scripted_engine(), messy, cut=cut) == wanted
    assert reported(scripted_engine(), sent.rstrip(b"\n"), cut=cut) == wanted


def test_transcripts_cover_all_reproducible_commands() -> None:
    asked = " ".join(path.read_text() for path in TRANSCRIPTS)
    assert [name for name in play.engine.COMMANDS if not re.search(rf"> (\d+ )?{name}\b", asked)] == [
        "version",
        "cputime",
        "loadsgf",
    ]


BOARD = ["boardsize 9", "clear_board", "komi 6.5"]
SESSIONS = {
    "sabaki": [
        "name", "version", "protocol_version", "list_commands", *BOARD, "set_free_handicap C3 G7", "play W E5",
        "kata-analyze B 50 ownership true", "genmove B", "undo", "undo", *BOARD, "loadsgf FILE", "lz-analyze W 50",
        "kata-genmove_analyze W 50", "final_score", "quit",
    ],
    "gogui-twogtp": [
        "protocol_version", "list_commands", "name", "version", "known_command cputime", *BOARD,
        "time_settings 600 0 0", "time_left b 600 0", "genmove b", "play b C7", "cputime", "genmove w", "play b pass",
        "play w pass", "final_score", "final_status_list dead", "kgs-game_over", "quit",
    ],
    "lizzie": [
        "name", "version", "list_commands", "boardsize 9", "komi 7.5", "kata-get-rules", "kata-set-rules chinese",
        "kata-analyze 10 ownership true", "play B C3", "kata-analyze 10 ownership true", "undo", "kata-raw-nn 0",
        "clear_cache", "get_komi", "genmove W", "printsgf", "lz-analyze 50", "clear_board", "quit",
    ],
}  # fmt: skip
REFUSED = {"final_score", "undo"}
"""Before the end of a game; beyond its start."""


@pytest.mark.parametrize("program", SESSIONS)
def test_programs_start_and_play(program: str, tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    path.write_bytes(RECORD)
    sent = [line.replace("FILE", str(path)) for line in SESSIONS[program]]
    engine = scripted_engine(Scripted(lead=0.5, has_points=True), size=9)
    for line, answer in zip(sent, answers(reported(engine, "\n".join(sent).encode())), strict=True):
        name, *words = line.split()
        assert answer[0] == "=" or name in REFUSED, (line, answer)
        if "analyze" in name:
            ownership = "( ownership( -?1.0000){81})?" if "ownership" in words else ""
            assert re.search(rf"\ninfo move [A-J]\d visits \d+ winrate .* pv [A-J]\d{ownership}\n", answer)
        elif name == "list_commands":
            assert {each.split()[0] for each in sent} <= set(answer[2:].split())


def test_each_candidate_has_the_values_of_the_position_after_it() -> None:
    class Counting(Scripted):
        """Black leads by the number of the point of the last move."""

        def evaluate(self, game: GameSession, colour: int) -> Evaluation:
            lead = (game.moves[-1] & 0x3FFF if game.moves else 3) * (1 if colour == BLACK else -1)
            return replace(super().evaluate(game, colour), value=lead / 10, score=(lead, 0))

    engine = scripted_engine(Counting(lead=0), size=2)
    for colour, sign in (("b", 1), ("w", -1)):
        before = engine.run("showboard", [])
        line = reported(engine, f"kata-analyze {colour}\n".encode())
        found = re.findall(r"winrate (\S+) utility (\S+) scoreMean (\S+) scoreLead (\S+)", line)
        assert np.array(found, float).T.tolist() == [
            [0.5 + sign * k / 20 for k in range(4)], [sign * k / 10 for k in range(4)],
            *[[sign * float(k) for k in range(4)]] * 2,
        ]  # fmt: skip
        assert engine.run("showboard", []) == before
    engine.patience = -1  # one more candidate with each line
    lines = engine.run("kata-analyze", ["b", "100"]).lines
    assert [next(lines).count("scoreLead 3.0") for _ in range(6)] == [3, 2, 1, 1, 1, 1]
    assert "whiteLead -3.000" in str(engine.run("kata-raw-nn", ["all"]))


def test_printsgf_writes_a_file(tmp_path: Path) -> None:
    path, engine = tmp_path / "game.sgf", scripted_engine(size=9)
    for name, words in (("komi", ["5.5"]), ("fixed_handicap", ["2"]), ("play", ["w", "e5"]), ("play", ["b", "pass"])):
        engine.run(name, words)
    assert engine.run("printsgf", [str(path)]) == ""
    game = read_sgf(path.read_bytes())
    assert (game.komi, game.handicap, len(game), game.board().stones.tolist()) == (
        5.5, 2, 2, engine.game.board.stones.tolist(),
    )  # fmt: skip
    assert reported(engine, f"printsgf {tmp_path}\n".encode()) == "? cannot write file\n\n"


OTHER_WORDS = ["b", "w", "white", "c3", "A1", "pass", "resign", "0", "1", "5", "12", "-1", "6.5", "true", "alive"]
words = st.deferred(
    lambda: (
        st.sampled_from([*play.engine.COMMANDS, *OTHER_WORDS])
        | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9)
    )
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(words, max_size=4).map(" ".join) | st.binary(max_size=30), min_size=25, max_size=25))
def test_each_line_gets_one_response(sent: list[str | bytes]) -> None:
    asked = [line.encode() if isinstance(line, str) else line for line in sent]
    flat = [part for line in asked for part in line.split(b"\n") if not re.match(rb"[\d\s\0-\x1f]*quit", part)]
    out = answers(reported(scripted_engine(), b"\n".join(flat) + b"\n"))
    visible = [re.sub(rb"[\0-\x1f\x7f]", b"", line.replace(b"\t", b" ").split(b"#")[0]) for line in flat]
    assert len(out) == sum(1 for line in visible if line.strip(b" "))
    assert not any("internal" in answer for answer in out)


def test_random_moves_and_undo_match_a_replay() -> None:
    rng = random.Random(5)
    engine, done = scripted_engine(size=4, rules="tromp-taylor"), []
    for _ in range(400):
        if done and rng.random() < 0.3:
            engine.run("undo", [])
            done.pop()
        else:
            move = [rng.choice("bw"), rng.choice([f"{x}{y}" for x in "abcd" for y in "1234"])]
            if engine.game.board.is_legal(move[1], "bw".index(move[0]) + 1):
                engine.run("play", move)
                done.append(move)
        anew = scripted_engine(size=4, rules="tromp-taylor")
        for move in done:
            anew.run("play", move)
        assert engine.run("showboard", []) == anew.run("showboard", [])
        assert engine.game.board.legal().tolist() == anew.game.board.legal().tolist()


@pytest.mark.subprocess
def test_handicap_points_match_gnu_go(gnugo: list[str]) -> None:
    asked = [
        f"{command}\n"
        for size in range(7, 20)
        if size != 12  # where GNU Go goes up to the fourth line, and the specification stays on the third
        for stones in range(2, 11)
        for command in (f"boardsize {size}", "clear_board", f"fixed_handicap {stones}")
    ]
    script = "".join(asked).encode()
    theirs = subprocess.run([*gnugo, "--mode", "gtp"], input=script, capture_output=True, check=True, timeout=60)
    ours = reported(scripted_engine(), script)

    def stones(text: str) -> list[set[str] | str]:
        return [set(line[2:].split()) if line[0] == "=" else "?" for line in text.split("\n\n")[:-1]][2::3]

    assert stones(ours) == stones(theirs.stdout.decode())
    assert len(stones(ours)) == 12 * 9


# files


RECORD = b"(;GM[1]SZ[9]KM[5.5]AB[cc][gg]PL[W];W[ee];B[ec];AW[aa]AE[cc];W[];B[ei])"


def test_loadsgf_up_to_a_move(tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    path.write_bytes(RECORD)
    game = read_sgf(RECORD)
    engine = scripted_engine()
    for before, plies in ((None, 4), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (99, 4)):
        engine.run("loadsgf", [str(path)] + ([] if before is None else [str(before)]))
        assert engine.game.board.stones.tolist() == game.board(plies).stones.tolist()
        assert (engine.game.board.to_play, engine.game.komi) == (WHITE if plies in (0, 2, 4) else BLACK, 5.5)
        for back in range(plies - 1, -1, -1):
            engine.run("undo", [])
            assert engine.game.board.stones.tolist() == game.board(back).stones.tolist()


PLACED = [
    "play b A1|play b C1", "genmove b|genmove b", "play b pass|play b A1|play w pass|play b C1",
    "play b A1|play b C1|play b B1|kgs-rules aga|undo", "play b A1|play b C1|play w B1|undo|undo|play b C1",
    "set_position b A1 b C1", "set_position b A1|play b C1", "loadsgf AB[aI][cI]", "loadsgf AB[aI];B[cI]",
    "loadsgf ;B[aI];B[cI]", "loadsgf HA[0];B[aI];W[];B[cI]", "loadsgf HA[2];B[aI];B[cI]",
]  # fmt: skip


@pytest.mark.parametrize("size", [9, 13])
@pytest.mark.parametrize("placed", PLACED)
def test_stones_before_whites_first_are_handicap(placed: str, size: int, tmp_path: Path) -> None:
    """KataGo's `computeNumHandicapStones`; value, score and record are as after set_free_handicap."""

    def corner_first(game: GameSession, colour: int) -> np.ndarray:
        return np.isin(np.arange(size * size + 1), [size * size - size, size * size - size + 2]).astype(float)

    root = placed.removeprefix("loadsgf ").replace("I", "abcdefghijklm"[size - 1])
    (path := tmp_path / "game.sgf").write_text(f"(;GM[1]SZ[{size}]{root})")
    rest = "kgs-rules chinese|play w E5|play b E4|play w pass|play b pass|final_score|kgs-rules aga|final_score|"
    reports = []
    for words in ("set_free_handicap A1 C1", placed if "sgf" not in placed else f"loadsgf {path}"):
        engine = scripted_engine(Scripted(corner_first), size=size)
        assert "?" not in reported(engine, words.replace("|", "\n").encode() + b"\n")
        reports.append(reported(engine, (rest + "printsgf").replace("|", "\n").encode()))
    assert reports[0] == reports[1]
    assert "HA[2]PL[W]AB[" in reports[0]


COUNTED = {
    "set_position b A1 b C1 w E1|play b E5|play b E4": 0, "play b A1": 0, "set_position b A1": 0,
    "play w A1|play b C1|play b E1": 0, "play b A1|play b C1|play w E1|play w E5": 0,
    "play b A1|play w pass|play b C1|play w pass|play w E1": 0,
    "set_position b A1 b C1|play b E1|play w G1|play w E5": 2,
    "play b A1|play b C1|play b pass|play w E1|play b E5|play b E4": 2,
}  # fmt: skip


@pytest.mark.parametrize("placed", COUNTED)
def test_other_stones_are_no_handicap(placed: str) -> None:
    engine = scripted_engine(size=9)
    reported(engine, placed.replace("|", "\n").encode())
    game = engine.game.to_game()
    assert (engine.game.handicap, game.handicap or 0) == (COUNTED[placed], COUNTED[placed])
    assert game.board().stones.tolist() == engine.game.board.stones.tolist()
    assert read_sgf(write_sgf(game)) == game


def test_failed_loadsgf_changes_nothing(tmp_path: Path) -> None:
    bad = {
        "nothing": b"",
        "no record": b"neither this nor that",
        "dropped": b"(;GM[1]SZ[99];B[aa])",
        "occupied": b"(;GM[1]SZ[9];B[aa];W[aa])",
        "a superko": b"(;GM[1]SZ[3];B[bc];W[bb];B[ab];W[cb];B[cc];W[ac];B[bc])",
        "of a size that the evaluator does not take": b"(;GM[1]SZ[21];B[aa])",
    }
    engine = scripted_engine()
    engine.run("play", ["b", "c3"])
    before = engine.run("showboard", [])
    for name, record in bad.items():
        path = tmp_path / name.replace(" ", "-")
        path.write_bytes(record)
        answer = reported(engine, f"loadsgf {path}\n".encode())
        assert answer == ("? unacceptable size\n\n" if "size" in name else "? cannot load file\n\n"), name
    for path in (tmp_path / "missing", tmp_path, Path("/dev/zero"), Path("a" * 5000)):
        assert reported(engine, f"loadsgf {path}\n".encode()) == "? cannot load file\n\n"
    assert reported(engine, b"loadsgf\nloadsgf x 0\nloadsgf x 1 2\n") == "? syntax error\n\n" * 3
    assert engine.run("showboard", []) == before


# the stream


def test_analysis_repeats_until_the_next_command() -> None:
    ours, theirs = os.pipe()
    written: queue.Queue[str] = queue.Queue()
    inbox = play.gtp.LineReader(lambda size: os.read(ours, size))

    def ask(text: bytes, lines: int) -> list[str]:
        os.write(theirs, text)
        return [written.get(timeout=60) for _ in range(lines)]

    thread = Thread(target=play.gtp.serve, args=(scripted_engine(), inbox, written.put), daemon=True)
    thread.start()
    first, *more = ask(b"1 lz-analyze b 1 maxmoves 1\n", 5)
    assert first == "=1\ninfo move A5 visits 262 winrate 5000 prior 2621 lcb 5000 order 0 pv A5\n"
    assert set(more) == {first[3:]}
    os.write(theirs, b"\n")  # an empty line ends it
    while (end := written.get(timeout=60)) != "\n":
        assert end == first[3:]
    first, once = ask(b"kata-analyze w\nprotocol_version\n", 2)
    assert (first[:12], once) == ("=\ninfo move ", "\n")
    assert written.get(timeout=60) == "= 2\n\n"
    ask(b"lz-analyze b 100\n", 1)
    os.close(theirs)  # and so does the end
    assert written.get(timeout=60) == "\n"
    thread.join(60)
    assert not thread.is_alive()
    assert written.empty()
    os.close(ours)


def test_a_colour_without_legal_points_passes() -> None:
    engine = scripted_engine(size=2)
    moves = b"play w a1\nplay w b2\n"
    assert reported(engine, moves + b"kifu-policy b\n") == "=\n\n" * 2 + "= TEXT best 0.0%, pass 0.0%\n\n"
    line = "info move pass visits 0 winrate 5000 prior 0 lcb 5000 order 0 pv pass\n"
    assert reported(engine, b"lz-analyze b\n") == f"=\n{line}\n"
    assert reported(engine, b"lz-genmove_analyze b\n") == f"=\n{line}play pass\n\n"


@pytest.mark.parametrize("number", [errno.EBADF, errno.EISDIR, errno.EIO])
def test_a_failing_input_ends_the_session(number: int) -> None:
    def read(size: int) -> bytes:
        if sent:
            return sent.pop()
        raise OSError(number, "gone")

    sent, answers = [b"name\n"], []
    play.gtp.serve(scripted_engine(), play.gtp.LineReader(read), answers.append)
    assert answers == ["= kifu\n\n"]


def test_an_endless_line_is_truncated() -> None:
    pieces = iter([b"play b " + b"x" * 60_000] + [b"y" * 60_000] * 50 + [b"\nname\n"])
    found = list(play.gtp.read_lines(lambda size: next(pieces, b"")))
    assert [len(line) for line in found] == [1 << 16, 4]
    pieces = iter([b"#" * 70_000, b" name\nname\n"])
    assert [len(line) for line in play.gtp.read_lines(lambda size: next(pieces, b""))] == [1 << 16, 4]


def test_an_unexpected_exception_is_a_response() -> None:
    def broken(game: GameSession, colour: int) -> np.ndarray:
        raise MemoryError("not enough\nfor that")

    engine = scripted_engine(Scripted(broken))
    assert reported(engine, b"3 genmove b\nname\n") == "?3 internal error: MemoryError: not enough\n\n= kifu\n\n"


def test_nets_without_heads() -> None:
    answer = reported(scripted_engine(Scripted()), b"kifu-value b\nkifu-ownership b\n")
    assert answer == "? this net has no value head\n\n? net scripted gives no points\n\n"


# nets


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_net(tmp_path_factory.mktemp("nets") / "nine.safetensors", heads=("value", "ownership"))


def net_engine(path: Path) -> play.engine.Engine:
    predictor = learn.net.open_net(path, rules=Rules.named("chinese"))
    return play.engine.Engine(play.player.Player(play.player.NetEvaluator(predictor)), width=9, height=9)


def test_new_rules_are_the_nets_rules(net: Path) -> None:
    """The last move repeats a position, which simple ko allows; then the net evaluates the position after it."""
    engine = net_engine(net)
    moves = ["b", "b1", "w", "b2", "b", "a2", "w", "c2", "b", "c1", "w", "a1"]
    engine.run("boardsize", ["3"])
    for colour, vertex in zip(moves[::2], moves[1::2]):
        engine.run("play", [colour, vertex])
    rows = str(engine.run("kata-raw-nn", ["0"])).partition("policyPass")[0].split("\n")
    assert rows[-2].split()[1] == "NAN"
    assert reported(engine, b"play b b1\n") == "? illegal move\n\n"
    assert reported(engine, b"kata-set-rules japanese\nplay b b1\nreg_genmove w\n").startswith("=\n\n=\n\n= ")
    refused = reported(engine, b"kgs-rules chinese\nkata-get-rules\n")
    assert refused.startswith("? the game has moves that these rules forbid")
    assert '"SIMPLE"' in refused


def test_the_net_evaluates_the_current_position(net: Path, tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    path.write_bytes(RECORD)
    engine, game, predictor = (net_engine(net), read_sgf(RECORD), learn.net.open_net(net, rules=Rules.named("chinese")))
    for plies in range(5):
        engine.run("loadsgf", [str(path), str(plies + 1)])
        for colour in (BLACK, WHITE):
            evaluation = engine.player.evaluator.evaluate(engine.game, colour)
            positions = NetPositions.from_games([game], [plies], to_play=[colour])
            wanted = predictor.evaluate(positions, unverified=True)
            np.testing.assert_array_equal(evaluation.policy[:-1], wanted.policy[0])
            assert evaluation.policy[-1] == 0
            assert wanted.value is not None
            assert evaluation.value == pytest.approx(wanted.value[0])
            assert wanted.ownership is not None
            assert (evaluation.ownership, evaluation.score) == (None, None)
            assert "hiteOwnership" not in str(engine.run("kata-raw-nn", ["0"]))
            if colour == engine.game.board.to_play:
                owners = wanted.ownership[0] * (1 if colour == BLACK else -1)
                dead = play.player.dead_stones(engine.game.board, owners)
                np.testing.assert_array_equal(engine.player.evaluator.judge_dead(engine.game), dead)


@pytest.mark.slow
def test_nets_accept_supported_board_sizes(net: Path, tmp_path: Path) -> None:
    engine = net_engine(net)
    for size in (2, 13, 25):
        engine.run("boardsize", [str(size)])
        vertex = str(engine.run("genmove", ["b"]))
        assert 0 <= parse_gtp(vertex, size) <= pass_move(size)
    assert reported(engine, b"rectangular_boardsize 7 4\ngenmove w\n").startswith("=\n\n= ")
    only = tiny_net(tmp_path / "book.safetensors", net="book-small", size=9)
    assert reported(net_engine(only), b"boardsize 9\nboardsize 19\nrectangular_boardsize 9 8\n") == (
        "=\n\n" + "? unacceptable size\n\n" * 2
    )


def test_a_net_with_outputs_for_each_colour_plays_both(tmp_path: Path) -> None:
    path = tiny_net(tmp_path / "both.safetensors", net="maddison", planes="black+white+empty")
    engine, board = net_engine(path), Board(9, 9, rules=Rules.named("chinese"))
    for colour in (BLACK, WHITE, BLACK, BLACK, WHITE, WHITE) * 3:
        black, white = (engine.player.evaluator.evaluate(engine.game, each).policy for each in (BLACK, WHITE))
        board.to_play = colour
        move = parse_gtp(str(engine.run("genmove", ["bw"[colour == WHITE]])), 9)
        assert board.legal()[move]
        board.play(move)
        assert np.abs(black - white).max() > 1e-4


# the command


@pytest.mark.subprocess
def test_the_command_plays(net: Path) -> None:
    script = b"boardsize 9\nkomi 7\ngenmove b\n\nplay w pass\n2 lz-analyze b 10\nversion\nquit\nname\n"
    command = [KIFU, "gtp", "--net", net, "--seed", "1"]
    done = subprocess.run(command, input=script, capture_output=True, timeout=100, check=True)
    boardsize, komi, move, passed, analysis, version, quit_ = answers(done.stdout.decode())
    assert (boardsize, komi, passed, quit_) == ("=\n\n",) * 4
    assert re.fullmatch(r"= [A-HJ][1-9]\n\n", move)
    assert analysis.startswith("=2\ninfo move ")
    assert re.fullmatch(r"= \d+\.\d+\.\d+ nine\n\n", version)
    assert b"Traceback" not in done.stderr


@pytest.fixture
def analysing(net: Path) -> Iterator[subprocess.Popen[bytes]]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with limited(subprocess.Popen([KIFU, "gtp", "--net", net], **pipes)) as process:
        process.stdin.write(b"lz-analyze b 1\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"=\n"
        yield process
        process.kill()


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_closed_output_is_not_an_error(analysing: subprocess.Popen[bytes]) -> None:
    analysing.stdout.close()
    assert analysing.wait(60) == 0
    assert b"kifu: " not in analysing.stderr.read().replace(b"kifu: compiling", b"")


@pytest.mark.subprocess
@pytest.mark.slow
def test_an_interrupt_ends_the_engine_quietly(analysing: subprocess.Popen[bytes]) -> None:
    analysing.send_signal(signal.SIGINT)
    assert analysing.wait(60) == 0
    assert b"interrupt" not in analysing.stderr.read()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("MISSING", ["MISSING", "No such file"]),
        ("NET --rules ing", ["'ing'", "chinese"]),
        ("POLICY --resign 0.1", ["policy", "value head"]),
        ("NET --resign 2", ["resign", "0 to 1, got 2"]),
        ("NET --temperature -1", ["temperature", "0 to 100, got -1"]),
        ("NET --temperature nan", ["temperature", "got nan"]),
    ],
)
def test_errors_are_one_line(net: Path, tmp_path: Path, options: str, words: list[str]) -> None:
    places = {"NET": net, "MISSING": tmp_path / "MISSING"}
    if "POLICY" in options:
        places["POLICY"] = tiny_net(tmp_path / "policy.safetensors")
    done = run("gtp", "--net", *(places.get(word, word) for word in options.split()))
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert done.err[0].startswith("kifu: ")
    assert all(word in done.err[0] for word in words)


# GNU Go


@pytest.mark.subprocess
@pytest.mark.slow
def test_games_with_gnu_go(gnugo: list[str], net: Path) -> None:
    """Some moves each, as a referee has them played; then both have the same stones on the board."""

    options = ["--net", str(net), "--seed", "3", "--temperature", "1"]
    with GtpProcess([str(KIFU), "gtp", *options]) as kifu, GtpProcess([*gnugo, "--mode", "gtp", "--level", "1"]) as gnu:
        for size, handicap in ((9, 3), (13, 0)):
            for each in (kifu, gnu):
                for line in (f"boardsize {size}", "clear_board", "komi 0.5"):
                    each.ask(line, 60)
            if handicap:
                gnu.ask("set_free_handicap " + kifu.ask(f"fixed_handicap {handicap}", 9), 9)
            for k in range(24):
                mover, other = (gnu, kifu) if k % 2 else (kifu, gnu)
                colour = "bw"[(k + bool(handicap)) % 2]
                other.ask(f"play {colour} {mover.ask(f'genmove {colour}', 60)}", 9)
            rows = [line for line in kifu.ask("showboard", 9).splitlines() if re.match(r" *\d+[ (]", line)]
            stones = Board.parse("\n".join(rows)).stones.ravel()
            for name, colour in (("black", BLACK), ("white", WHITE)):
                theirs = [parse_gtp(vertex, size) for vertex in gnu.ask(f"list_stones {name}", 9).split()]
                assert sorted(theirs) == np.flatnonzero(stones == colour).tolist() != []
        for each in (kifu, gnu):
            each.ask("quit", 9)


@pytest.mark.slow
def test_response_time(tmp_path: Path) -> None:
    """Far below what it takes if something is compiled or made for each move; `make bench` has the true figure."""
    path = tiny_net(tmp_path / "b6c64.safetensors", net="b6c64", size=19)
    predictor = learn.net.open_net(path, rules=Rules.named("chinese"))
    engine = play.engine.Engine(play.player.Player(play.player.NetEvaluator(predictor)))
    engine.run("genmove", ["b"])
    took = []
    for k in range(10):
        start = time.process_time()
        engine.run("genmove", ["wb"[k % 2]])
        took.append(time.process_time() - start)
    assert np.median(took) < 0.2

"""Make the bundled sample: GNU Go plays against itself, and the games are packed as an archive like those of KGS.

    python tools/make_sample.py --games 320 --jobs 2 --seed 1 --out src/kifu/assets/sample --work build/sample

Needs the package itself installed, and GNU Go (Debian: apt-get install gnugo); version 3.8 made the sample of the
repository. Game k depends on (seed, k) alone: levels, handicap, rules, the drawn opening and GNU Go's own seed all
follow from them. Each finished game is written whole into WORK, so that a second run plays only what is missing.
A game that takes GNU Go 15 minutes stops the run with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import random
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from types import TracebackType

from kifu.point import parse_gtp, pass_move, to_gtp, to_sgf

SIZE = 19
PASS = pass_move(SIZE)
YEAR = 2025
FOLDER = f"kgs-{SIZE}-{YEAR}"
MEMBER_TIME = 1767225600  # 2026-01-01 UTC, when the year of these games is over

MOVE_CAP = 400
GAME_SECONDS = 900
RESIGN_FROM = 60  # plies: earlier estimates are too unreliable to resign
RESIGN_EVERY = 10  # plies between two estimates of the score
HANDICAP_WORTH = 10  # points a stone, so that White does not resign handicap games at once

# A move at level 8 takes several times as long as one at level 1.
LEVELS = {1: 80, 2: 8, 3: 6, 5: 4, 8: 2}
RESIGN_MARGINS = (15, 20, 25, 30, 40, None)

# Common first stones and approaches, as (column, row) counted from 1 from the two edges of a corner.
CORNER_STONES = ((4, 4), (4, 4), (4, 4), (3, 4), (4, 3), (3, 4), (4, 3), (3, 3), (3, 5), (5, 3), (4, 5), (5, 4))
APPROACHES = ((3, 6), (6, 3), (4, 6), (6, 4))


class SampleError(Exception):
    """GNU Go is missing, or a command failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is fixed before the first move of a game.

    Attributes:
        levels: Black's and White's level.
        opening: points that are played first, with alternating colours.
        resign_margin: a side resigns when it is this many points behind; None for never.
        pass_value: spelling of a pass in the record.
    """

    name: str
    day: date
    levels: tuple[int, int]
    gnugo_seed: int
    handicap: int
    komi: float
    rules: str
    opening: tuple[int, ...]
    resign_margin: int | None
    pass_value: str

    def is_white(self, ply: int) -> bool:
        """Return the colour to move after `ply` moves; White begins handicap games."""
        return (ply % 2 == 1) != (self.handicap > 0)


@dataclass(frozen=True, slots=True)
class Played:
    """A played game; result: the RE value, or None if the game was stopped at `MOVE_CAP`."""

    handicap_stones: tuple[int, ...]
    moves: tuple[int, ...]
    result: str | None


def make_plan(seed: int, k: int) -> Plan:
    """Return the plan of game k, a pure function of the arguments."""
    draw = random.Random(f"kifu sample {seed} {k}")
    # Four games every fourth day; 4 and 365 have no common factor, so 1,460 games meet no name twice.
    day = date(YEAR, 1, 1) + timedelta(days=k // 4 * 4 % 365)
    serial = k % 4 + 1 + k // 1460 * 4
    level, other = draw.choices(list(LEVELS), list(LEVELS.values()), k=2)
    handicap = draw.randint(2, 9) if draw.random() < 0.2 else 0
    return Plan(
        name=f"{day}-{serial}.sgf",
        day=day,
        levels=(level, other if draw.random() < 0.3 else level),
        gnugo_seed=draw.randint(1, 2**30),
        handicap=handicap,
        komi=0.5 if handicap or draw.random() < 0.1 else 6.5,
        rules="Chinese" if draw.random() < 0.3 else "Japanese",
        opening=_draw_opening(draw, handicap),
        resign_margin=draw.choice(RESIGN_MARGINS),
        pass_value="tt" if draw.random() < 0.15 else "",
    )


def _draw_opening(draw: random.Random, handicap: int) -> tuple[int, ...]:
    """Return two to four points in different corners, or an approach to handicap stones. All are free."""
    corners = draw.sample(range(4), 1 if handicap else draw.randint(2, 4))
    points = []
    for corner in corners:
        column, row = draw.choice(APPROACHES if handicap else CORNER_STONES)
        x = SIZE - column if corner & 1 else column - 1
        y = SIZE - row if corner & 2 else row - 1
        points.append(y * SIZE + x)
    return tuple(points)


def find_gnugo() -> str:
    """Return the path of the program. Raises SampleError if it is not installed."""
    found = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")  # Debian's place, not on every PATH
    if found is None:
        raise SampleError("gnugo is neither on the PATH nor in /usr/games (Debian: apt-get install gnugo)")
    return found


class GnuGo:
    """A GNU Go process with GTP, killed at the end of the context or after `GAME_SECONDS`."""

    def __init__(self, program: str, plan: Plan) -> None:
        options = f"--mode gtp --quiet --level {plan.levels[0]} --seed {plan.gnugo_seed} --{plan.rules.lower()}-rules"
        self._process = subprocess.Popen(
            [program, *options.split()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._limit = threading.Timer(GAME_SECONDS, self._process.kill)

    def __enter__(self) -> GnuGo:
        self._limit.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.cancel()
        self._process.kill()
        self._process.communicate()

    def ask(self, command: str) -> str:
        """Send a command and return the answer without "=". Raises SampleError if it fails or times out."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines: list[str] = []
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
            while (line := self._process.stdout.readline()) not in ("\n", ""):  # an empty line ends an answer
                lines.append(line.strip())
        answer = " ".join(lines)
        if not answer.startswith("="):
            why = "" if answer else f" (it ended, or was stopped after {GAME_SECONDS} s)"
            raise SampleError(f"gnugo answered {answer!r} to {command!r}, expected '= ...'{why}")
        return answer[1:].strip()


def play(program: str, plan: Plan) -> Played:
    """Play a game until two passes, a resignation or `MOVE_CAP`. Raises SampleError if GNU Go fails."""
    with GnuGo(program, plan) as gnugo:
        gnugo.ask(f"boardsize {SIZE}")
        gnugo.ask(f"komi {plan.komi}")
        stones: list[int] = []
        if plan.handicap:
            stones = [parse_gtp(vertex, SIZE) for vertex in gnugo.ask(f"fixed_handicap {plan.handicap}").split()]
        moves: list[int] = []
        result, leader = None, ""
        while result is None and len(moves) < MOVE_CAP:
            move = _next_move(gnugo, plan, len(moves))
            if move is None:
                result = f"{'WB'[plan.is_white(len(moves))]}+Resign"
                break
            moves.append(move)
            if moves[-2:] == [PASS, PASS]:
                result = _final_result(gnugo.ask("final_score"))
            elif plan.resign_margin is not None and len(moves) >= RESIGN_FROM and len(moves) % RESIGN_EVERY == 0:
                before, leader = leader, _clear_leader(gnugo.ask("estimate_score"), plan.resign_margin, plan.handicap)
                if leader and leader == before:
                    result = f"{leader}+Resign"
        return Played(tuple(stones), tuple(moves), result)


def _next_move(gnugo: GnuGo, plan: Plan, ply: int) -> int | None:
    """Play the next move, of the opening or of GNU Go, and return it; None if GNU Go resigns."""
    white = plan.is_white(ply)
    colour = "white" if white else "black"
    if ply < len(plan.opening):
        gnugo.ask(f"play {colour} {to_gtp(plan.opening[ply], SIZE)}")
        return plan.opening[ply]
    gnugo.ask(f"level {plan.levels[white]}")
    answer = gnugo.ask(f"genmove {colour}")
    return None if answer.lower() == "resign" else parse_gtp(answer, SIZE)


def _final_result(score: str) -> str:
    """Return RE with two decimals, as on KGS: "W+3.5" becomes "W+3.50"."""
    if not re.fullmatch(r"[BW]\+\d+\.\d", score):
        raise SampleError(f"gnugo gave the final score {score!r}, expected the like of 'W+3.5'")
    return score + "0"


def _clear_leader(estimate: str, margin: int, handicap: int) -> str:
    """Return the side, "B" or "W", that is ahead by the margin, or ""; estimate: such as "W+3.1 (..."."""
    match = re.match(r"([BW])\+(\d+\.\d+)", estimate)
    if match is None:
        return ""  # "0": even
    lead = float(match[2]) - (HANDICAP_WORTH * handicap if match[1] == "B" else 0)
    return match[1] if lead > margin else ""


def sgf(plan: Plan, played: Played) -> str:
    """Return the record, with properties in the order and on the lines of KGS's records."""
    black, white = plan.levels
    lines = [
        "(;GM[1]",
        "FF[4]",
        f"SZ[{SIZE}]",
        f"PW[gnugo{white}]",
        f"WR[{_rank(white)}]",
        f"PB[gnugo{black}]",
        f"BR[{_rank(black)}]",
        f"DT[{plan.day}]",
        "PC[GNU Go against itself, no server]",
        f"KM[{plan.komi:.2f}]",
    ]
    if played.result is not None:  # KGS leaves RE out of a game that was broken off
        lines.append(f"RE[{played.result}]")
    lines += [f"RU[{plan.rules}]", "CA[UTF-8]"]
    if plan.handicap:
        lines.append(f"HA[{plan.handicap}]")
        lines.append("AB" + "".join(f"[{to_sgf(point, SIZE)}]" for point in played.handicap_stones))
    for ply, move in enumerate(played.moves):
        colour = "BW"[plan.is_white(ply)]
        lines.append(f";{colour}[{plan.pass_value if move == PASS else to_sgf(move, SIZE)}]")
    return "\n".join([*lines, ")", ""])


def _rank(level: int) -> str:
    """Return an invented rank for BR and WR: 12k for level 1 to 8k for level 8."""
    return f"{12 - level // 2}k"


def play_into(program: str, plan: Plan, target: Path) -> None:
    """Play a game and write its record atomically."""
    record = sgf(plan, play(program, plan))
    partial = target.with_suffix(".partial")
    partial.write_text(record, encoding="utf-8", newline="\n")
    partial.replace(target)


def play_missing(plans: list[Plan], folder: Path, jobs: int) -> None:
    """Play the games that are missing in the directory, `jobs` at a time. Raises SampleError if GNU Go fails."""
    missing = [plan for plan in plans if not (folder / plan.name).exists()]
    if not missing:
        return
    program = find_gnugo()
    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(play_into, program, plan, folder / plan.name) for plan in missing]
        try:
            for done, task in enumerate(as_completed(tasks), 1):
                task.result()
                left = (time.monotonic() - began) / done * (len(tasks) - done)
                end = "\r" if sys.stdout.isatty() and done < len(tasks) else "\n"
                print(f"played {done} of {len(tasks)} games, about {left / 60:.0f} min left ", end=end, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)


def pack(plans: list[Plan], folder: Path, out: Path) -> Path:
    """Pack the games, sorted by name, after an entry for their directory; the same games give the same bytes.

    Another build of zlib may compress the same archive to different bytes.
    """
    target = out / f"KGS-{YEAR}-{SIZE}-{len(plans)}-.tar.gz"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        top = tarfile.TarInfo(FOLDER)
        top.type, top.mode, top.mtime = tarfile.DIRTYPE, 0o755, MEMBER_TIME
        archive.addfile(top)
        for name in sorted(plan.name for plan in plans):
            record = (folder / name).read_bytes()
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.mode, member.mtime, member.size = 0o644, MEMBER_TIME, len(record)
            archive.addfile(member, io.BytesIO(record))
    partial = target.with_suffix(".partial")
    partial.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))
    partial.replace(target)
    return target


def main() -> int:
    """Run the command line and return the exit code: 0, or 2 after a one-line error."""
    parser = argparse.ArgumentParser(description="Plays GNU Go against itself and packs the games in the style of KGS.")
    parser.add_argument("--games", type=int, default=320, help="how many (default 320)")
    parser.add_argument("--jobs", type=int, default=2, help="games played at the same time (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other games (default 1)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the archive")
    parser.add_argument("--work", type=Path, required=True, help="folder for the finished games")
    args = parser.parse_args()
    if args.games < 1 or args.jobs < 1:
        parser.error(f"--games {args.games} and --jobs {args.jobs} must be at least 1")
    folder: Path = args.work / f"seed-{args.seed}"
    plans = [make_plan(args.seed, k) for k in range(args.games)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        args.out.mkdir(parents=True, exist_ok=True)
        play_missing(plans, folder, args.jobs)
        target = pack(plans, folder, args.out)
    except (SampleError, OSError) as error:
        print(f"make_sample: {error}", file=sys.stderr)
        return 2
    print(f"{target}: {len(plans)} games, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

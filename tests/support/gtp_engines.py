"""Programs that speak GTP, well or badly, for tests of who speaks to them: `engine("D4 pass")` is a command line.

The words of the script are what is answered to genmove, one after the other, and "pass" from then on (the seed is that
of moves by chance, and what is answered to version):

    D4, resign ...     a move
    =Z99               these words, as an answer
    random             legal moves by chance, until there are none
    hang               nothing, for ever                    unended    an answer without its empty line
    crash              exit code 3, with a complaint        segv       killed by its own fault
    flood              an answer without an end             stuck      closes its output, and stays
    nonsense           words that are no answer             twice      two answers at once
    binary             bytes that are no text               refuse     "?"
    noisy              a megabyte on standard error, then "pass"
    child              the number of a process that it starts and never ends

`final_score="W+1.5"` answers that command so; `name="hang"` does with it what the word above says.
"""

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path


def engine(script: str = "", seed: int = 1, **answers: str) -> str:
    words = [sys.executable, "-S", str(Path(__file__)), script, str(seed)]  # -S: a third of the time to start
    return shlex.join([*words, *(f"{command}={word}" for command, word in answers.items())])


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(process: int) -> bool:
    """Return True if the process ends soon; a grandchild cannot be waited for."""
    deadline = time.monotonic() + 5
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(process)


def _send(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _answer(word: str) -> None:
    if word == "hang":
        time.sleep(100)
    elif word == "crash":
        print("first line\nout of luck", file=sys.stderr, flush=True)
        sys.exit(3)
    elif word == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif word == "flood":
        _send("= ")
        while True:
            _send("stones " * 1000)
    elif word == "stuck":
        os.close(1)
        time.sleep(100)
    elif word == "child":  # it has all pipes open, too
        child = subprocess.Popen(["sleep", "100"])
        _send(f"= {child.pid}\n\n")
    elif word == "binary":
        sys.stdout.buffer.write(b"\xff\xfe\x00\x9f\n\n")
        sys.stdout.flush()
    elif word == "noisy":
        print("x" * 1_000_000 + "\nthe end", file=sys.stderr, flush=True)
        _send("= pass\n\n")
    else:
        said = {"unended": "= D4\n", "nonsense": "hello\n\n", "twice": "= D4\n\n= E5\n\n", "refuse": "? no\n\n"}
        _send(said.get(word, f"= {word.removeprefix('=')}\n\n"))


class _Chance:
    """Moves by chance, legal without a board: a point that no stone was on before, beside another such point."""

    def __init__(self, seed: int) -> None:
        self._dice, self._size, self._used = random.Random(seed), 19, set[str]()

    def reported(self, command: str, arguments: list[str]) -> None:
        if command == "boardsize":
            self._size = int(arguments[0])
        elif command == "play":
            self._used.add(arguments[1])

    def move(self) -> str:
        free = {
            (x, y): name
            for x in range(self._size)
            for y in range(self._size)
            if (name := f"{'ABCDEFGHJKLMNOPQRSTUVWXYZ'[x]}{y + 1}") not in self._used
        }
        names = [free[x, y] for x, y in free if {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)} & {*free}]
        move = self._dice.choice(names) if names else "pass"
        self._used.add(move)
        return move


def _main(script: str, seed: str, *answers: str) -> None:
    words = script.split()
    said = dict(answer.split("=", 1) for answer in answers)
    chance = _Chance(int(seed)) if script == "random" else None
    for line in sys.stdin:
        command, *arguments = line.split()
        if chance:
            chance.reported(command, arguments)
        if command in said:
            _answer(said[command])
        elif command == "quit":
            _answer("")
            break
        elif command == "genmove":
            _answer(chance.move() if chance else words.pop(0) if words else "pass")
        elif command == "name":
            _answer("Test")
        elif command == "version":
            _answer(seed)
        elif command in ("boardsize", "clear_board", "komi", "play"):
            _answer("")
        else:
            _send("? unknown command\n\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])

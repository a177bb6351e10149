"""The examples in the help of every command run, one after another, in one folder."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import typer

from commands import KIFU, finish, first_line, run
from kata_nets import small_net
from kifu.cli import app
from kifu.katago.net_file import write_kata_net

EXAMPLES = [line for command in typer.main.get_command(app).commands.values() for line in command.examples]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.subprocess
def test_all_examples_run_in_the_order_of_the_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, except for what reads standard input, is a line for a shell, or runs until a signal ends it."""
    monkeypatch.chdir(tmp_path)
    write_kata_net(tmp_path / "net.bin.gz", small_net(["residual"]))
    environment = os.environ | {"PATH": f"{KIFU.parent}:{os.environ['PATH']}"}
    for line in EXAMPLES:
        if line.startswith("kifu serve "):  # runs until a signal ends it
            arguments = [*shlex.split(line)[1:], "--port", "0"]
            with subprocess.Popen(
                [KIFU, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as server:
                assert "Ctrl-C ends it" in first_line(server), line
                server.terminate()
                finish(server, 60)
            continue
        program, name, *arguments = shlex.split(line, comments=True)
        if name in ("train", "demo") and "--dry-run" not in arguments:
            arguments += ["--time", "5s"]
        if program == "kifu" and name != "gtp" and not set("|<>&;$*").intersection(line):
            done = run(name, *arguments)
            assert done.code == 0, (line, done.err)
            continue
        by_shell = subprocess.run(
            line, shell=True, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
        )
        assert by_shell.returncode == 0, (line, by_shell.stderr)


@pytest.mark.slow
def test_quick_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick = {
        "fetch",
        "show",
        "convert",
        "ingest",
        "query",
        "split",
        "audit",
        "compact",
        "index",
        "search",
        "explore",
        "build",
        "publish",
        "inspect",
        "recipes",
    }
    for line in EXAMPLES:
        _, name, *arguments = shlex.split(line)
        if name in quick and "--dry-run" not in arguments:
            done = run(name, *arguments)
            assert done.code == 0, (line, done.err)

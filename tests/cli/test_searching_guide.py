"""The commands of docs/searching.md: their options exist, and the answers shown are theirs."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer

from commands import KIFU
from kifu.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "searching.md").read_text("utf-8")
SCRIPTS = re.findall(r"```sh\n(.*?)```\n(?:\n```\n(.*?)```\n)?", PAGE, re.DOTALL)
"""Commands, and the output that the page shows."""

FILES = dict(re.findall(r"In\s`([a-z.]+)`:\n\n```text\n(.*?)```\n", PAGE, re.DOTALL))


def commands() -> list[list[str]]:
    """Return the words of each command of kifu."""
    found = []
    for script, _ in SCRIPTS:
        lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";|\n")
        lexer.whitespace, lexer.whitespace_split = " \t", True
        words: list[str] = []
        for word in [*lexer, "\n"]:
            if set(word) <= set(";|\n"):
                found += [words[1:]] if words[:1] == ["kifu"] else []
                words = []
            else:
                words.append(word)
    return found


def test_commands_parse() -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    parsed = [known[name].make_context(name, arguments) for name, *arguments in commands()]
    assert len(parsed) >= 11
    assert {context.info_name for context in parsed} >= {"index", "search", "explore"}
    assert FILES.keys() == {"china.txt", "ladder.txt"}


@pytest.mark.slow
@pytest.mark.subprocess
def test_answers(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "tygem").mkdir()
    for name in ("kgs", "wild", "tygem/2016-07.zip", "tygem/Kifu2016.zip"):
        (tmp_path / name).symlink_to(shared / "data" / name)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    environment = os.environ | {"PATH": f"{KIFU.parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    for script, shown in SCRIPTS:
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (script, done.stderr)
        expected = ".*".join(map(re.escape, shown.split("...\n")))
        assert re.match(expected, done.stdout, re.DOTALL), f"{script}\n{done.stdout}"

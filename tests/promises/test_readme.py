"""The README: its Python lines and the commands of its console block run, with the output that it shows."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from commands import run

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def transcript() -> list[tuple[str, list[str]]]:
    pairs: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                pairs.append((line[2:], []))
            else:
                pairs[-1][1].append(line)
    return pairs


@pytest.mark.usefixtures("workspace")
def test_python_lines() -> None:
    result = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted >= 5


@pytest.mark.slow
def test_commands(workspace: Path) -> None:
    pairs = transcript()
    assert len(pairs) >= 5
    for command, expected in pairs:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "kifu"
        done = run(*arguments)
        assert done.code == 0, (command, done.err)
        pattern = ".*".join(map(re.escape, "".join(f"{line}\n" for line in expected).split("...\n")))
        assert re.fullmatch(pattern, done.out, re.DOTALL), f"{command}\n{done.out}"
    assert {path.name for path in workspace.iterdir()} >= {"sample", "games.parquet", "sets", "data", "heat.png"}


def test_first_screen_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150

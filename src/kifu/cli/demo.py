"""The command `demo`: other commands on the bundled sample, one after another, with a page of their output."""

from __future__ import annotations

import io
import shlex
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from kifu.cli import options as opts
from kifu.cli.app import INTERRUPTED, app, command, echo
from kifu.errors import OutputError, printable

# The sample is younger and smaller than what the recipe is made for.
_KGSGO = "--set until=2025 --set sets.test.games=20 --set sets.train10k.games=200"
_NET = "--set net=b2c32 --set name=demo --set validation_positions=500 --set validate_minutes=0.2"

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>kifu demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #2b2622; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100%; max-height: 44rem; border: 1px solid #d8d0c2 }}
pre {{ background: #f7f4ee; padding: 1em; overflow-x: auto }} figure {{ margin: 1rem 0 }}
</style>
<h1>kifu demo</h1>
{sections}</html>
"""


class Step(NamedTuple):
    """A command of the demo. made: the file or folder that it writes, by which a second run skips it."""

    why: str
    line: str
    made: str = ""
    picture: str = ""


STEPS = (
    Step(
        "A catalogue: one row for each game, kept or dropped with a reason, for SQL, polars and pandas.",
        "ingest sample -o {}/games.parquet --clean schraudolph",
        "games.parquet",
    ),
    Step("What is in it.", "stats {}/games.parquet -o {}/games.png --overwrite", picture="games.png"),
    Step(
        "Sets. Equal, mirrored, rotated and truncated games share one, so no net is tested on a game that it has seen.",
        "split {}/games.parquet -o {}/sets",
        "sets",
    ),
    Step("The proof, which works for any data set.", "audit {}/sets/train.parquet {}/sets/test.parquet"),
    Step(
        "What is played against a stone on 4-4, and how it goes.",
        "search {}/games.parquet '+----/|..../|..../|...X' -o {}/pattern.png --overwrite",
        picture="pattern.png",
    ),
    Step(
        "Data sets for networks: positions as planes of bits, with the move played, in the bytes of a program of 2015.",
        "build kgsgo-v2 sample -o {}/data " + _KGSGO,
        "data",
    ),
    Step(
        "One example. The manifest beside each file lists the game and move of each row.",
        "show {}/data/kgsgo-test-v2.dat --row 57 -o {}/example.png --overwrite",
        picture="example.png",
    ),
    Step(
        "A net that predicts the next move.",
        "train quick-cpu {}/sets/train.parquet -o {}/run --validate {}/sets/validation.parquet --time TIME " + _NET,
        "run",
        "run/curves.png",
    ),
    Step(
        "Your net beside the packaged one, which learned from people for longer, on games that neither has seen.",
        "evaluate {}/sets/test.parquet --net {}/run --net small --positions 500",
    ),
    Step(
        "What the packaged net expects in one of these games.",
        "predict {}/sets/test.parquet --game 5 --move 60 -o {}/predicted.png --overwrite",
        picture="predicted.png",
    ),
)
_SHOWN = 20
"""Lines of the output of a command that are printed; the page has all."""

_NEEDING_TORCH = ("train", "evaluate")


@command("kifu demo", "kifu demo -o demo --time 20s", has_result=False)
@opts.output("Folder for the results.", default=Path("kifu-demo"))
@opts.option("--time", "DURATION", "Training time.", default=30.0, shown="30s", type=opts.DURATION)
@opts.jobs
def demo(output: Path, time: float, jobs: int | None) -> None:
    """Run the whole pipeline on the bundled sample.

    It runs other commands one after another, and puts their output and pictures on a page. A second run keeps data
    sets and net.
    """
    from html import escape  # slow to load

    from kifu.assets import sample_path
    from kifu.io import write_file

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder {output}: {error.strerror}") from None
    sections = []
    for why, template, made, picture in STEPS:
        name, *words = shlex.split(template.replace("{}", shlex.quote(str(output))))
        if name in _NEEDING_TORCH and find_spec("torch") is None:
            echo(f"{why}\n  skipped, torch is required: pip install 'kifu[learn]'\n")
            continue
        values = {"sample": str(sample_path()), "TIME": f"{time}s"}
        words = [values.get(word, word) for word in words]
        if jobs is not None and name not in ("show", "predict", "split", "search"):
            words += ["--jobs", str(jobs)]
        line = printable(shlex.join(["kifu", name, *words]))
        echo(f"{why}\n$ {line}")
        if made and (output / made).exists():
            text = "(there already)\n"
        else:
            with redirect_stdout(io.StringIO()) as printed:
                if app([name, *words], prog_name="kifu", standalone_mode=False) == INTERRUPTED:
                    raise KeyboardInterrupt
            text = printed.getvalue()
        first, rest = text.splitlines()[:_SHOWN], text.splitlines()[_SHOWN:]
        echo("\n".join([*first, "... (all of it is on the page)\n" if rest else ""]))
        shown = f'<figure><img src="{escape(picture)}" alt="{escape(why)}"></figure>' if picture else ""
        sections.append(f"<h2>{escape(why)}</h2><pre>$ {escape(line)}\n{escape(text)}</pre>{shown}\n")
    write_file(output / "index.html", _PAGE.format(sections="".join(sections)).encode())
    echo(f"All of this on one page: {printable(output / 'index.html')}")
    nets = f" --net {output / 'run'} --net small" if find_spec("torch") is not None else ""
    echo(f"Next: kifu serve {printable(output / 'games.parquet')}{nets} --open")

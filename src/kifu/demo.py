"""The whole pipeline on the bundled sample: ingest, index, split, build, read back and compare, train a net, draw."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kifu.assets import sample_path
from kifu.atomic_io import write_file
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import read
from kifu.corpus.splits import split
from kifu.corpus.stats import draw_charts, stats
from kifu.datasets.dat import Dat
from kifu.datasets.manifest import Manifest
from kifu.datasets.row_origins import find_origin
from kifu.errors import DropReason, FormatError, printable
from kifu.files import hash_file
from kifu.planes.encoder import encode
from kifu.planes.registry import find_plane_set
from kifu.point import POINT_MASK, WHITE
from kifu.progress import ProgressFactory, silent
from kifu.recipes.pipeline import BuildReport, build
from kifu.recipes.schema import load_recipe, load_training
from kifu.records.game import Game
from kifu.records.games import TO_PLAY_UNSET, ParseWarning
from kifu.records.parse import summarize
from kifu.report.describe import SelectedGame, draw_row
from kifu.search.build import build_index
from kifu.text import format_bytes, format_seconds
from kifu.viz.boards import draw_planes, save

if TYPE_CHECKING:
    from kifu.learn.predict import Predictor
    from kifu.report.predictions import MovePrediction

# The sample is younger and smaller than what the recipes are made for.
_OVERRIDES = ("until=2025", "sets.test.games=20", "sets.train10k.games=200")
_TRAINING = ("net=b2c32", "name=demo", "title=the net of kifu demo", "validation_positions=500", "validate_minutes=0.2")
_PLANES = "alphago48"  # of the trained and the packaged net
_MIDDLE_GAME = range(40, 160, 5)  # numbers of moves before the positions on which the nets are compared
_NEAR, _FAR = 2, 5  # lines from the last move
_UNLIKELY = 0.05  # probability of a move that a net does not expect
_WIDTH = 78  # columns of the terminal

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>kifu demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #2b2622; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100%; max-height: 44rem; border: 1px solid #d8d0c2 }}
code {{ background: #f7f4ee; padding: 0 .3em }} pre {{ background: #f7f4ee; padding: 1em; overflow-x: auto }}
figure {{ margin: 1rem 0 }}
</style>
<h1>kifu demo</h1>
{sections}
<h2>Next</h2>
<pre>{commands}</pre>
</html>
"""


@dataclass
class _DemoReport:
    """Prints the results line by line, and collects them for a page."""

    folder: Path
    say: Callable[[str], object]
    progress: ProgressFactory
    sections: list[str] = field(default_factory=list)

    def step(self, title: str, made: str, why: str, *pictures: str, lines: Sequence[str] = ()) -> None:
        """Report a step."""
        files = [printable(self.folder / picture) for picture in pictures]
        wrapped = textwrap.wrap(f"{title}: {made}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        self.say("\n".join([*wrapped, *textwrap.wrap(why, _WIDTH, initial_indent="  ", subsequent_indent="  ")]))
        self.say("".join(f"    {line}\n" for line in [*lines, *files]))
        details = f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""
        shown = "".join(f'<figure><img src="{escape(each)}" alt="{escape(made)}"></figure>' for each in pictures)
        self.sections.append(f"<h2>{escape(title)}</h2><p><b>{escape(made)}</b><br>{escape(why)}</p>{details}{shown}\n")

    def end(self, commands: Sequence[str]) -> None:
        """Write the page, and print the next commands to try."""
        page = self.folder / "index.html"
        lines = list(map(printable, commands))
        text = _PAGE.format(sections="".join(self.sections), commands=escape("\n".join(lines)))
        write_file(page, text.encode())
        self.say(
            "\n".join([f"All results on one page: {printable(page)}\n", "Next:", *(f"  {line}" for line in lines)])
        )


def run_demo(
    into: Path, jobs: int | None, seconds: float, say: Callable[[str], object], progress: ProgressFactory = silent
) -> None:
    """Build, check, train and draw, and report the results line by line.

    Args:
        jobs: Number of threads, by default one per core.
        progress: Reports how far the current work is.

    Raises:
        FormatError: A file is not what it should be.
    """
    say(f"From Go records to a net, into {printable(into)}. The first run compiles kifu's kernels.\n")
    learn = find_spec("torch") is not None
    with _compiling_encoder(learn, progress) as wait:
        report = _DemoReport(into, say, progress)
        test = _prepare(report, jobs)
        data_set, row = _build_and_check(report, jobs)
        catalogue = into / "games.parquet"
        nets = f" --net {into / 'run'} --net small" if learn else ""
        commands = [
            f"kifu inspect {data_set} --row {row}",
            f"kifu audit {into / 'sets/train.parquet'} {into / 'sets/test.parquet'}",
            f"kifu serve {catalogue}{nets} --open",
        ]
        if learn:
            wait()
            commands.insert(0, _learn(report, test, jobs, seconds))
        else:
            say("Net: skipped, torch is required: pip install 'kifu[learn]'\n")
            commands.insert(0, f"kifu stats {catalogue}")
    report.end(commands)


@contextmanager
def _compiling_encoder(needed: bool, progress: ProgressFactory) -> Iterator[Callable[[], None]]:
    """Compile the nets' encoder, which takes longer than all other kernels, in a second process."""
    if not needed:
        yield lambda: None
        return
    program = "from kifu.demo import compile_encoder\ncompile_encoder()"
    process = subprocess.Popen([sys.executable, "-P", "-c", program])

    def wait() -> None:
        with progress("a second process compiles the encoder", None, "s") as bar:
            while process.poll() is None:
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    bar.advance()

    try:
        yield wait
    finally:
        process.kill()
        process.wait()


def compile_encoder() -> None:
    """Compile the encoder of the nets' planes, or load it from the cache."""
    encode(_two_moves(), _PLANES)


def _prepare(report: _DemoReport, jobs: int | None) -> Path:
    """Catalogue the sample and divide it. Return the catalogue of the games for the comparison of nets."""
    sample, into = sample_path(), report.folder
    found = summarize(sample)
    report.step(
        "Records",
        f"{found.read:,} games with {found.moves:,} moves in an archive of {format_bytes(sample.stat().st_size)}",
        "GNU Go played them against itself. kifu reads archives of any server and age without unpacking them.",
    )
    catalogue = into / "games.parquet"
    ingested = ingest(sample, catalogue, clean=load_cleaning_rules("schraudolph"), jobs=jobs, progress=report.progress)
    save(draw_charts(stats([catalogue], jobs=jobs)), into / "games.png")
    report.step(
        "Catalogue",
        f"{catalogue.name}, {ingested}",
        "A table with one row for each game, kept or dropped with a reason: for SQL, polars and pandas.",
        "games.png",
    )
    report.step(
        "Index",
        str(build_index(catalogue, jobs=jobs, progress=report.progress)),
        "Positions and shapes are found without reading every game.",
    )
    divided = split(catalogue, into / "sets", progress=report.progress)
    report.step(
        "Sets",
        ", ".join(f"{path.stem} {count:,}" for path, count in divided.sets.items()) + " games",
        "Equal, mirrored, rotated and truncated games share a set, so no net is tested on a game that it has seen.",
    )
    return into / "sets" / "test.parquet"


def _build_and_check(report: _DemoReport, jobs: int | None) -> tuple[Path, int]:
    """Build the data sets of both formats and compare them. Return a data set and a row with a ko."""
    sample, into = sample_path(), report.folder
    began = time.perf_counter()
    v1, v2 = (
        build(load_recipe(name, _OVERRIDES), [sample], into, jobs=jobs, progress=report.progress)
        for name in ("kgsgo-v1", "kgsgo-v2")
    )
    seconds = time.perf_counter() - began
    lines = [_describe(built) for built in [*v1, *v2]]
    for one, two in zip(v1, v2):
        _check(one, two)
    data_set = v2[0].path
    row = _row_with_ko(data_set)
    origin = _check_origin(v2[0], row, sample)
    examples = sum(built.manifest.examples for built in [*v1, *v2])
    fresh = all(built.fresh for built in [*v1, *v2])
    report.step(
        "Data sets",
        f"{len(v1)} sets in two formats, {examples:,} examples" + (f" in {seconds:.1f} s" if fresh else ""),
        "Positions as planes of bits, with the move played: what networks learn from. The bytes are those of the "
        "program of 2015 that defined the formats.",
        lines=lines,
    )
    _draw(data_set, row, into)
    report.step(
        "Checks",
        f"both formats hold equal planes and match their hashes; row {row:,} of {data_set.name} is move {origin}",
        "The manifest beside each file lists the game and move of each row, so that results can be traced. The "
        "pictures show this row as a board and as planes; the ring is the move played.",
        "example.png",
        "planes.png",
    )
    return data_set, row


def _describe(built: BuildReport[Manifest]) -> str:
    m = built.manifest
    size = format_bytes(m.bytes)
    text = f"{built.path.name:<22} {m.kept:>4} games {m.examples:>7,} examples {size:>8}"
    return text + ("" if built.fresh else "  (was there)")


def _check(v1: BuildReport[Manifest], v2: BuildReport[Manifest]) -> None:
    """Compare both formats of a set with each other and with their manifests. Raises FormatError."""
    with Dat(v1.path) as one, Dat(v2.path) as two:
        if not (len(one) == len(two) == v1.manifest.examples == v2.manifest.examples):
            raise FormatError(f"{v1.path} has {len(one)} examples, {v2.path} {len(two)}; their manifests differ")
        for at in range(0, len(one), 1024):
            (planes1, labels1), (planes2, labels2) = one[at : at + 1024], two[at : at + 1024]
            if not (np.array_equal(planes1[:, :7], planes2) and np.array_equal(labels1, labels2)):
                raise FormatError(f"{v1.path} and {v2.path} differ in rows {at} to {at + len(labels1) - 1}")
    for built in (v1, v2):
        if hash_file(built.path) != built.manifest.blake3:
            raise FormatError(f"{built.path} does not match the hash in its manifest")


def _check_origin(built: BuildReport[Manifest], row: int, sample: Path) -> str:
    """Find the game of a row by the manifest, encode it again and compare. Raises FormatError if they differ."""
    origin = find_origin(built.manifest, built.path, row)
    assert origin is not None
    game = list(read(sample))[origin.member - 1]
    planes, labels = encode(game, built.manifest.plane_set)
    with Dat(built.path) as data:
        expected, label = data[row]
    if not any(np.array_equal(p, expected) and at == label for p, at in zip(planes, labels)):
        raise FormatError(f"row {row} of {built.path} is not a position of {game.name}, which its manifest lists")
    return f"{origin.ply + 1} of {Path(game.name).name}"


def _row_with_ko(path: Path) -> int:
    """Return the first example with a ko after the opening; without any, the first one after the opening."""
    with Dat(path) as data:
        planes, _ = data[_MIDDLE_GAME.start : 2000]
    return _MIDDLE_GAME.start + int(np.argmax(planes[:, 6].any((1, 2))))


def _draw(path: Path, row: int, into: Path) -> None:
    """Draw an example of a data set as a board, and its planes side by side."""
    draw_row(path, row, into / "example.png")
    with Dat(path) as data:
        planes, label = data[row]
        plane_set = find_plane_set(data.format.plane_set)
    picture = draw_planes(planes, list(plane_set.plane_names), label=label, origin=plane_set.first_row)
    save(picture, into / "planes.png")


def _learn(report: _DemoReport, test: Path, jobs: int | None, seconds: float) -> str:
    """Train a net, and compare it with the packaged one. Return a command that shows the last position."""
    from kifu.learn.net import open_net
    from kifu.learn.predict import Predictor
    from kifu.learn.run_dir import CURVES, read_run
    from kifu.learn.train import TrainOptions, train
    from kifu.report.predictions import draw, predict_move

    folder, into = report.folder / "run", report.folder
    recipe = load_training("quick-cpu", [*_TRAINING, f"max_minutes={seconds / 60}"])
    earlier = read_run(folder)
    run = train(
        recipe, [test.with_name("train.parquet")], folder, validate=[test.with_name("validation.parquet")],
        resume=earlier is not None, options=TrainOptions(jobs=jobs), progress=report.progress,
    )  # fmt: skip
    games = [game for game in open_catalogue(test).games() if not game.drop]
    yours, packaged = _Compared(Predictor(open_net(folder)), games), _Compared(Predictor(open_net(None)), games)
    report.step(
        "Net",
        f"run/, trained on {run.positions:,} positions for {format_seconds(seconds)}"
        + ("  (was there)" if earlier == run else ""),
        f"In {len(yours.plies):,} positions of {len(games)} other games it expects {yours.top1:.0%} of the moves; a "
        f"random legal move is right in {yours.random:.1%}. The packaged net, which learned from people for longer, "
        f"expects {packaged.top1:.0%}.",
        f"run/{CURVES}",
    )
    picked = [("A good prediction", packaged.best_hit(), "hit"), ("A wrong prediction", packaged.worst_miss(), "miss")]
    for title, k, name in picked:
        if k is None:
            continue
        game, ply = packaged.games[k], packaged.plies[k]
        selected = SelectedGame(game, len(game), ())
        prediction = predict_move(packaged.predictor, selected, ply)
        draw(prediction, into / f"{name}.png")
        mine = predict_move(yours.predictor, selected, ply)
        report.step(title, f"move {ply + 1} of a test game", _explain(prediction, mine), f"{name}.png")
    number, ply = (games.index(packaged.games[k]) + 1, packaged.plies[k]) if k is not None else (1, 40)
    return f"kifu predict {folder} {test} --game {number} --move {ply}"


class _Compared:
    """The predictions of a net for positions of games.

    Attributes:
        games: [B] the game of each position.
        plies: [B] the number of moves before each position.
        policy: [B, moves] float32, probabilities.
        top1: Share of the positions in which the most likely move was played.
    """

    def __init__(self, predictor: Predictor, games: Sequence[Game]) -> None:
        from kifu.learn.positions import PredictPositions

        self.predictor = predictor
        pairs = [(game, ply) for game in games for ply in _MIDDLE_GAME if ply < len(game) and _on_board(game, ply)]
        self.games, self.plies = [game for game, _ in pairs], [ply for _, ply in pairs]
        predictions = predictor.predict(PredictPositions.from_games(self.games, self.plies))
        self.policy = predictions.policy
        self._best = self.policy.argmax(1)
        self._played = np.array([int(game.moves[ply] & POINT_MASK) for game, ply in pairs])
        self.top1 = float((self._best == self._played).mean())
        self.random = float((1 / predictions.legal.sum(1)).mean())

    def best_hit(self) -> int | None:
        """Return the position whose next move is most likely among those that do not answer the last move nearby."""
        far = [_distance(game, ply, move) > _NEAR for game, ply, move in zip(self.games, self.plies, self._played)]
        return self._most_likely((self._best == self._played) & far)

    def worst_miss(self) -> int | None:
        """Return the position whose most likely move is most likely among those where an unlikely move was played."""
        played = self.policy[np.arange(len(self.policy)), self._played]
        return self._most_likely((self._best != self._played) & (played < _UNLIKELY))

    def _most_likely(self, among: npt.NDArray[np.bool_]) -> int | None:
        return int(np.where(among, self.policy.max(1), 0).argmax()) if among.any() else None


def _on_board(game: Game, ply: int) -> bool:
    """Return True if the moves before and after a position are points."""
    points = game.width * game.height
    return all(int(move & POINT_MASK) < points for move in game.moves[ply - 1 : ply + 1])


def _distance(game: Game, ply: int, move: int) -> int:
    """Return how many lines a move is away from the last move."""
    last = int(game.moves[ply - 1] & POINT_MASK)
    return max(abs(a - b) for a, b in zip(divmod(last, game.width), divmod(move, game.width)))


def _explain(prediction: MovePrediction, mine: MovePrediction) -> str:
    """Return sentences that compare the most likely move with the move played."""
    game, ply, played, best = prediction.game, prediction.plies, prediction.played, prediction.best[0]
    assert played is not None
    side = "White" if prediction.board.to_play == WHITE else "Black"
    yours = f"Your net gives {prediction.name(played)} {mine.policy[played]:.1%}."
    here, there = _distance(game, ply, best), _distance(game, ply, played)
    if best == played:
        return (
            f"The packaged net gives {_move(prediction, best)} {prediction.policy[best]:.0%}, and {side} played it. "
            f"{yours}"
        )
    sentence = (
        f"The packaged net gives {_move(prediction, best)} {prediction.policy[best]:.0%}; {side} played "
        f"{_move(prediction, played)}, its choice {prediction.rank(played)} with {prediction.policy[played]:.1%}. "
    )
    if here < _FAR <= there:
        sentence += "The net answers the last move; the game goes on elsewhere. "
    elif there < _FAR <= here:
        sentence += "The net plays elsewhere; the game answers the last move. "
    return sentence + yours


def _move(prediction: MovePrediction, move: int) -> str:
    """Return the name of a move with what it does: captures, escapes, threats, and its distance from the last move."""
    game, board = prediction.game, prediction.board
    stones, liberties = board.stones.ravel(), board.liberties.ravel()
    x, y = move % game.width, move // game.width
    beside = [
        point
        for point, inside in (
            (move - 1, x > 0), (move + 1, x < game.width - 1), (move - game.width, y > 0),
            (move + game.width, y < game.height - 1),
        )
        if inside and stones[point]
    ]  # fmt: skip
    chains = [chain for chain in board.chains() if not set(beside).isdisjoint(chain)]

    def count(own: bool, left: int) -> int:
        return sum(
            len(chain) for chain in chains if (stones[chain[0]] == board.to_play) == own and liberties[chain[0]] == left
        )

    effects = [("captures", count(False, 1)), ("atari on", count(False, 2))]
    effects += [("defends from capture", count(True, 1))]
    does = [f"{verb} {n} stone{'s' * (n != 1)}" for verb, n in effects if n]
    away = _distance(game, prediction.plies, move)
    does.append(f"{away} line{'s' * (away != 1)} from the last move")
    return f"{prediction.name(move)} ({', '.join(does)})"


def _two_moves() -> Game:
    """Return a game for `compile_encoder`, without the kernels that read records."""
    none = np.empty(0, np.uint16)
    return Game(
        19, 19, np.array([72, 288], np.uint16), none, none, 0, TO_PLAY_UNSET, None, b"", ParseWarning(0),
        DropReason.KEPT, "", "",
    )  # fmt: skip

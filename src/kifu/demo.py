"""The whole pipeline on the bundled sample: ingest, build, read back and compare, train a network, draw pictures."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kifu.assets import sample_path
from kifu.atomic_io import hash_file
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import read
from kifu.corpus.stats import stats
from kifu.datasets.dat import Dat
from kifu.datasets.manifest import Manifest
from kifu.describe import SelectedGame, describe_row, draw_position, draw_row
from kifu.errors import FormatError
from kifu.planes.encode import encode
from kifu.planes.registry import find_plane_set
from kifu.progress import format_bytes, progress
from kifu.recipes.pipeline import BuildReport, build
from kifu.recipes.schema import load_recipe, load_training
from kifu.records.game import Game
from kifu.records.parse import summarize
from kifu.viz.boards import draw_planes, save
from kifu.viz.charts import draw_charts

# The sample is younger and smaller than what the recipes are made for.
_OVERRIDES = ("until=2025", "sets.test.games=20", "sets.train10k.games=200")
_MOVE = 120  # into a game, for the picture of a position
_TRAINING = ("validation=0.1", "validation_positions=2000", "validate_minutes=0.2")


def run_demo(into: Path, jobs: int | None, minutes: float, say: Callable[[str], object]) -> None:
    """Build, check, train and draw, and report the results line by line.

    Args:
        into: the directory to write to.
        jobs: number of threads, by default one per core.
        minutes: duration of the training, in minutes.
        say: called with each line.

    Raises:
        FormatError: a file is not what it should be.
    """
    sample = sample_path()
    found = summarize(sample)
    say(f"The sample: {found.read:,} games, {found.moves:,} moves, {sample.stat().st_size:,} bytes ({sample.name})")
    catalogue = into / "games.parquet"
    report = ingest(sample, catalogue, clean=load_cleaning_rules("schraudolph"), jobs=jobs, progress=progress)
    say(f"\nThe catalogue:\n  {catalogue.name:<24} {report}")
    files = {v: _build_all(v, sample, into, jobs, say) for v in ("kgsgo-v1", "kgsgo-v2")}
    say("\nRead back:")
    for v1, v2 in zip(files["kgsgo-v1"], files["kgsgo-v2"]):
        say(f"  {_check(v1, v2)}")
        say(f"    {_check_origin(v2, sample)}")
    game = next(game for game in read(sample) if len(game) > _MOVE)
    heat = _learn(catalogue, game, into, jobs, minutes, say)
    say("\nPictures:")
    data_set = files["kgsgo-v2"][0].path
    row = _row_with_ko(data_set)
    save(draw_charts(stats([catalogue], jobs=jobs)), into / "games.png")
    drawn = _draw(data_set, row, game, into)
    for path in [into / "games.png", *drawn, *heat]:
        say(f"  {path}")
    say(f"\n{describe_row(data_set, row)}\n\nNext: kifu inspect {data_set} --row {row + 1}")


def _build_all(
    name: str, sample: Path, into: Path, jobs: int | None, say: Callable[[str], object]
) -> list[BuildReport[Manifest]]:
    recipe = load_recipe(name, _OVERRIDES)
    began = time.perf_counter()
    files = build(recipe, [sample], into, jobs=jobs, progress=progress)
    seconds = time.perf_counter() - began
    say(f"\n{name}: {recipe.title}")
    for built in files:
        m = built.manifest
        say(
            f"  {built.path.name:<24} {m.kept:>4} games {m.examples:>7,} examples {format_bytes(m.bytes):>9}"
            + ("" if built.fresh else "  (was there)")
        )
    examples = sum(built.manifest.examples for built in files if built.fresh)
    if examples:
        say(f"  {examples / seconds:,.0f} examples per second in total")
    return files


def _check(v1: BuildReport[Manifest], v2: BuildReport[Manifest]) -> str:
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
    return f"{v1.path.name} and {v2.path.name}: {v1.manifest.examples:,} examples, equal planes"


def _check_origin(built: BuildReport[Manifest], sample: Path) -> str:
    """Find the game of one row by the manifest, encode it again and compare. Raises FormatError if they differ."""
    row = built.manifest.examples // 2
    origin = built.manifest.origin(row)
    game = list(read(sample))[origin.member - 1]
    planes, labels = encode(game, built.manifest.plane_set)
    with Dat(built.path) as data:
        expected, label = data[row]
    if not any(np.array_equal(p, expected) and at == label for p, at in zip(planes, labels)):
        raise FormatError(f"row {row} of {built.path} is not a position of {game.name}, which its manifest lists")
    return f"row {row:,} is move {origin.ply + 1} of {game.name}, as the manifest lists"


def _row_with_ko(path: Path) -> int:
    """Return the first example with a ko after the opening; without any, the first one after the opening."""
    with Dat(path) as data:
        planes, _ = data[_MOVE : _MOVE + 2000]
    return _MOVE + int(np.argmax(planes[:, 6].any((1, 2))))


def _draw(path: Path, row: int, game: Game, into: Path) -> list[Path]:
    """Draw a position of a game, an example of a data set as a board, and its planes side by side."""
    position, example, side_by_side = into / "position.png", into / "example.png", into / "planes.png"
    draw_position(game, _MOVE, position)
    draw_row(path, row, example)
    with Dat(path) as data:
        planes, label = data[row]
        plane_set = find_plane_set(data.format.plane_set)
    save(draw_planes(planes, list(plane_set.plane_names), label=label, origin=plane_set.first_row), side_by_side)
    return [position, example, side_by_side]


def _learn(
    catalogue: Path, game: Game, into: Path, jobs: int | None, minutes: float, say: Callable[[str], object]
) -> list[Path]:
    """Train a network, draw its and the bundled network's predictions for a position, and return the pictures."""
    say(f"\nTraining a net ({minutes:g} minute{'s' * (minutes != 1)}):")
    if find_spec("torch") is None:
        say("  skipped, torch is required: pip install 'kifu[learn]'")
        return []
    from kifu.learn.heatmap import draw, predict_move
    from kifu.learn.net import open_net
    from kifu.learn.predict import Predictor
    from kifu.learn.run_dir import CURVES, read_run
    from kifu.learn.train import TrainOptions, train

    folder = into / "run"
    recipe = load_training("quick-cpu", [*_TRAINING, f"max_minutes={minutes}"])
    earlier = read_run(folder)
    run = train(
        recipe, [catalogue], folder, resume=earlier is not None, options=TrainOptions(jobs=jobs), progress=progress
    )
    was_there = "  (was there)" if earlier == run else ""
    say(
        f"  {run.positions:,} positions of {run.counts['train_games']} games; of the next moves in "
        f"{run.counts['validation_games']} other games it expects {run.best['validation_top1']:.1%}{was_there}"
    )
    pictures = [folder / CURVES]
    for checkpoint, name in ((folder, "heat.png"), (None, "heat-small.png")):
        prediction = predict_move(Predictor(open_net(checkpoint)), SelectedGame(game, len(game), ()), _MOVE)
        draw(prediction, into / name)
        pictures.append(into / name)
        played = prediction.played
        assert played is not None
        say(f"  {prediction.net} on move {_MOVE + 1} of {game.name}: {_expected(prediction.policy, played)}")
    return pictures


def _expected(policy: npt.NDArray[np.float32], played: int) -> str:
    return f"what was played is its choice {1 + int((policy > policy[played]).sum())}, with {policy[played]:.1%}"

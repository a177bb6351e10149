"""Training speed, compared with a bare loop of the same network on fixed tensors, and time per move."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from corpus import Corpus
from figures import Figure, at_least, at_most
from timing import one_core

from kifu.corpus.ingest import ingest
from kifu.learn.net import open_net
from kifu.learn.networks import Network
from kifu.learn.optim import make_optimizer
from kifu.learn.registry import make_net
from kifu.learn.run_dir import METRICS, read_metrics
from kifu.learn.torch_backend import supported_precision
from kifu.learn.train import train
from kifu.planes.encoder import find_encoder
from kifu.play.engine import Engine
from kifu.play.player import NetEvaluator, Player
from kifu.recipes.training import AdamWConfig, SgdConfig, TrainingRecipe

_STEPS = 100
"""Steps of a run. Only the second half is measured, when the loader's head start no longer matters."""

_BATCH = 64

_RUNS: tuple[tuple[str, str, Literal["float32", "bfloat16"], AdamWConfig | SgdConfig], ...] = (
    ("b6c64", "alphago48", "bfloat16", AdamWConfig(kind="adamw")),
    ("book-small", "seven", "float32", SgdConfig(kind="sgd")),
)

_MOVES = 60
"""Moves of the game of the network against itself."""


def learning(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure positions per second, in turns with the bare loop; the best of both."""
    catalogue = folder / "learning.parquet"
    ingest(corpus.archives[-1], catalogue)
    figures = []
    for net, planes, wanted, optimizer in _RUNS:
        precision = supported_precision(wanted, torch.device("cpu"))
        recipe = TrainingRecipe(
            kind="training", name=net, title=net, net=net, planes=planes, precision=precision, optimizer=optimizer,
            batch_size=_BATCH, steps=_STEPS, validation=0.0,
        )  # fmt: skip
        bare, whole = [], []
        step = _bare_step(recipe)
        for k in range(min(rounds, 3)):
            bare.append(_bare_rate(step))
            run = folder / f"{net}-{k}"
            train(recipe, [catalogue], run)
            whole.append(read_metrics(run / METRICS)[-1]["rate"])
        share = f"{net}, {planes}, {precision}: kifu train beside the bare loop"
        figures += [
            Figure(f"{net}, {planes}, {precision}: bare loop", max(bare), "positions/s"),
            Figure(f"{net}, {planes}, {precision}: kifu train", max(whole), "positions/s"),
            at_least(share, 100 * max(whole) / max(bare), "%", 90),
        ]
    return figures


def genmove(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure a move of the bundled network on one core, with planes and rules."""
    with one_core():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            took = _move_times()
        finally:
            torch.set_num_threads(threads)
    return [
        at_most("genmove of the small net, one core, the middle one", 1000 * float(np.median(took)), "ms", 50),
        at_most("the longest of them", 1000 * max(took), "ms", 50),
    ]


def _bare_step(recipe: TrainingRecipe) -> Callable[[], None]:
    """Return a bare training step of the same network on fixed random planes and moves."""
    encoder = find_encoder(recipe.planes)
    network: Network = make_net(recipe.net, encoder.planes).to(memory_format=torch.channels_last)
    optimizer = make_optimizer(network, recipe.optimizer)
    kind = torch.bfloat16 if recipe.precision == "bfloat16" else torch.float32
    planes = torch.rand(_BATCH, *encoder.shape).round().to(kind, memory_format=torch.channels_last)
    moves = torch.randint(0, encoder.points, (_BATCH,))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == torch.bfloat16):
            policy = network(planes).policy
        torch.nn.functional.cross_entropy(policy.float(), moves).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _bare_rate(step: Callable[[], None]) -> float:
    for _ in range(3):
        step()
    began = time.perf_counter()
    for _ in range(_STEPS // 2):
        step()
    return _STEPS // 2 * _BATCH / (time.perf_counter() - began)


def _move_times() -> list[float]:
    """Return the seconds of each move of a game of the network against itself, without the first two, which compile."""
    engine = Engine(Player(NetEvaluator(open_net())))
    took = []
    for k in range(_MOVES + 2):
        began = time.perf_counter()
        engine.run("genmove", ["white" if k % 2 else "black"])
        took.append(time.perf_counter() - began)
    return took[2:]

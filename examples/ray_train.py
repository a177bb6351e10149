"""Trains a small net on several workers of Ray Train, each of which draws its own share of the positions.

    pip install 'kifu[learn,cluster]'
    kifu ingest archives/ -o games.parquet
    python examples/ray_train.py games.parquet --output run --workers 2

Begun again with the same folder, and any number of workers, it goes on from its last checkpoint, which may stand in the
middle of an epoch: what is left of that is divided among the workers there are now, and no position comes twice. On
a cluster (--address) games and folder have to be where all machines see them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model

import kifu
from kifu.datasets.torch_data import tensors
from kifu.learn.nets import make_net

PLANES = "seven"
BATCH = 240
"""Of all workers together: 1, 2, 3, 4, 5, 6 or 8 of them divide it."""


def train_share(told: dict[str, Any]) -> None:
    """What each worker does. All of them go through as many batches, and report as often."""
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    saved = load(ray.train.get_checkpoint())
    config = kifu.LoaderConfig(output="float32", rank=rank, world_size=workers, drop_last=True, jobs=1)
    loader = kifu.load(told["games"], PLANES, board=told["board"], batch_size=BATCH // workers, config=config)
    if "loader" in saved:
        loader.resume(saved["loader"])
    torch.manual_seed(0)
    width, height = map(int, told["board"].split("x"))
    net = make_net("b2c16", loader.layout.planes, width, height)
    net.load_state_dict(saved.get("net", net.state_dict()))
    net = prepare_model(net)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.003)
    optimiser.load_state_dict(saved.get("optimiser", optimiser.state_dict()))
    steps, seen = saved.get("steps", 0), saved.get("seen", 0)

    def report(loss: float) -> None:
        """The first worker's checkpoint: its loader's state is that of all."""
        with tempfile.TemporaryDirectory() as folder:
            kept = {
                "net": getattr(net, "module", net).state_dict(), "optimiser": optimiser.state_dict(),
                "loader": loader.state(), "steps": steps, "seen": seen,
            }  # fmt: skip
            if rank == 0:
                torch.save(kept, Path(folder, "state.pt"))
            told = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"steps": steps, "positions": seen, "loss": loss}, checkpoint=told)

    loss = torch.zeros(())
    while loader.epoch_number < told["epochs"]:
        for batch in loader:
            given = tensors(batch)
            loss = torch.nn.functional.cross_entropy(net(given["planes"]).policy, given["move"])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            steps, seen = steps + 1, seen + len(batch) * workers
            if steps == told["steps"]:
                report(float(loss.detach()))
                return
            if steps % told["every"] == 0:
                report(float(loss.detach()))
        report(float(loss.detach()))


def load(checkpoint: ray.train.Checkpoint | None) -> dict[str, Any]:
    """What a checkpoint says; nothing if there is none."""
    if checkpoint is None:
        return {}
    with checkpoint.as_directory() as folder:
        return dict(torch.load(Path(folder, "state.pt"), weights_only=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Trains a small net on several workers of Ray Train.")
    parser.add_argument("games", type=Path, help="a catalogue, or archives, to learn from")
    parser.add_argument("--output", type=Path, default=Path("run"), help="folder for the checkpoints")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--address", help="HOST:PORT of a cluster's head; without it Ray begins on this machine")
    parser.add_argument("--board", default="19x19")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop after so many")
    parser.add_argument("--every", type=int, default=100, help="steps from one checkpoint to the next")
    told = vars(parser.parse_args(arguments))
    into, workers, address = told.pop("output").resolve(), told.pop("workers"), told.pop("address")
    if address is None:
        ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    else:
        ray.init(address)
    trainer = TorchTrainer(
        train_share,
        train_loop_config=told | {"games": str(told["games"].resolve())},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),  # (2, 4): as many as there are, 2 to 4
        run_config=ray.train.RunConfig(name=into.name, storage_path=str(into.parent)),
    )
    figures = trainer.fit().metrics
    print("{steps:,} steps, {positions:,} positions, loss {loss:.3f}".format(**figures))


if __name__ == "__main__":
    main()

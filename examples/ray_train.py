"""Train a small network on several workers of Ray Train, each of which loads its own part of the positions.

    pip install 'kifu[learn,cluster]'
    kifu ingest archives/ -o games.parquet
    python examples/ray_train.py games.parquet --output run --workers 2

Started again with the same folder and number of workers, it resumes from its last checkpoint. On a cluster (--address)
all machines must see the games and the folder.
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
from kifu.learn.registry import make_net

PLANES = "seven"
BATCH = 240
"""Total batch size; divisible by 1, 2, 3, 4, 5, 6 and 8 workers."""


def train_worker(options: dict[str, Any]) -> None:
    """Train on one worker. All workers read the same number of batches and report equally often."""
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    saved = load(ray.train.get_checkpoint())
    config = kifu.LoaderConfig(output="float32", process_index=rank, world_size=workers, drop_last=True, jobs=1)
    loader = kifu.load(options["games"], PLANES, board=options["board"], batch_size=BATCH // workers, config=config)
    if "loader" in saved:
        loader.load_state_dict(saved["loader"])
    torch.manual_seed(0)
    width, height = map(int, options["board"].split("x"))
    net = make_net("b2c16", loader.layout.planes, width, height)
    net.load_state_dict(saved.get("net", net.state_dict()))
    net = prepare_model(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.003)
    optimizer.load_state_dict(saved.get("optimizer", optimizer.state_dict()))
    steps, seen = saved.get("steps", 0), saved.get("seen", 0)

    def report(loss: float) -> None:
        """Save a checkpoint on the first worker; the loaders of all workers have the same state."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint_data = {
                "net": getattr(net, "module", net).state_dict(), "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(), "steps": steps, "seen": seen,
            }  # fmt: skip
            if rank == 0:
                torch.save(checkpoint_data, Path(folder, "state.pt"))
            saved_state = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"steps": steps, "positions": seen, "loss": loss}, checkpoint=saved_state)

    loss = torch.zeros(())
    while loader.epoch_number < options["epochs"]:
        for batch in loader:
            data = tensors(batch)
            loss = torch.nn.functional.cross_entropy(net(data["planes"]).policy, data["move"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps, seen = steps + 1, seen + len(batch) * workers
            if steps == options["steps"]:
                report(float(loss.detach()))
                return
            if steps % options["every"] == 0:
                report(float(loss.detach()))
        report(float(loss.detach()))


def load(checkpoint: ray.train.Checkpoint | None) -> dict[str, Any]:
    """Return the content of a checkpoint, or an empty dictionary."""
    if checkpoint is None:
        return {}
    with checkpoint.as_directory() as folder:
        return dict(torch.load(Path(folder, "state.pt"), weights_only=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a small network on several workers of Ray Train.")
    parser.add_argument("games", type=Path, help="catalogue or archives to train on")
    parser.add_argument("--output", type=Path, default=Path("run"), help="folder for the checkpoints")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--address", help="HOST:PORT of a cluster's head; by default Ray is started locally")
    parser.add_argument("--board", default="19x19")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop after this number of steps")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    options = vars(parser.parse_args(arguments))
    into, workers, address = options.pop("output").resolve(), options.pop("workers"), options.pop("address")
    if address is None:
        ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    else:
        ray.init(address)
    trainer = TorchTrainer(
        train_worker,
        train_loop_config=options | {"games": str(options["games"].resolve())},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),  # (2, 4): as many as are available, 2 to 4
        run_config=ray.train.RunConfig(name=into.name, storage_path=str(into.parent)),
    )
    figures = trainer.fit().metrics
    print("{steps:,} steps, {positions:,} positions, loss {loss:.3f}".format(**figures))


if __name__ == "__main__":
    main()

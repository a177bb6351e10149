"""A run that notes what each of its processes learns from; test_ddp.py starts it, and Lightning starts it once more.

    python ddp_run.py GAMES RUN NOTES DEVICES NODES STOP

trains, or goes on, on the CPU; asked to stop in step STOP. Process R appends to the file NOTES/R a line for each
position, "EPOCH BATCH GAME PLY", and to NOTES/files the name of each file that it writes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kifu.atomic_io import write_file
from kifu.learn import checkpoint, folder, net
from kifu.learn import run as around
from kifu.learn.data import DataModule, TrainingBatch
from kifu.learn.run import Conductor
from kifu.learn.train import train
from runs import tiny

RECIPE = {"batch_size": 16, "window": 200, "steps": None, "epochs": 2, "validate_steps": 20, "average": 0.9}


def main() -> None:
    games, into, notes, devices, nodes, stop = sys.argv[1:]
    torch.set_num_threads(1)
    drawn: dict[tuple[int, int], list[tuple[int, int]]] = {}
    ready, after_step = DataModule._ready, Conductor.on_train_batch_end

    def note(self: DataModule, told: dict[str, Tensor], place: tuple[int, int]) -> TrainingBatch:
        drawn[place] = list(zip(told["game"].tolist(), told["ply"].tolist()))
        return ready(self, told, place)

    def learned(self: Conductor, *arguments: Any) -> None:
        batch = arguments[3]
        with Path(notes, str(self.trainer.global_rank)).open("a") as file:
            file.writelines(f"{self.feed.place[0]} {self.steps} {game} {ply}\n" for game, ply in drawn[batch.place])
        if self.steps + 1 == int(stop) and self.first:
            signal.raise_signal(signal.SIGINT)
        after_step(self, *arguments)

    def written(path: Path, data: Any) -> None:
        with Path(notes, "files").open("a") as file:
            file.write(f"{path.name}\n")
        write_file(path, data)

    DataModule._ready, Conductor.on_train_batch_end = note, learned
    checkpoint.write_file = folder.write_file = net.write_file = written
    around.draw_curves = lambda rows, title: b"curves"
    resume = Path(into, "run.json").exists()
    train(
        tiny(**RECIPE), [games], into, resume=resume, devices=int(devices), nodes=int(nodes), accelerator="cpu", jobs=1
    )


if __name__ == "__main__":
    main()

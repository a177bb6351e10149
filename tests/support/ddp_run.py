"""A training run that records what each of its processes trains on; test_train_runs.py starts it as a script.

    python ddp_run.py GAMES RUN LOG DEVICES STOP

starts or resumes a run on the CPU and interrupts it in step STOP, or kills its second process in step -STOP. Process R
appends to the file LOG/R a line for each position, "EPOCH STEP GAME PLY", and to LOG/files the name of each file that
it writes.
"""

import signal
import sys
from pathlib import Path
from typing import Any

from kifu.io import write_file
from lazy import lazy_import
from runs import tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


RECIPE = {"batch_size": 16, "window": 200, "steps": None, "epochs": 2, "validate_steps": 20, "average": 0.9}


def record(log: str, stop: str) -> None:
    torch.set_num_threads(1)
    rows_of: dict[tuple[int, int], list[tuple[int, int]]] = {}
    make_batch, after_step = learn.data.TrainingData._make_batch, learn.loop.TrainingLoop._after_step

    def recording_batch(
        self: learn.data.TrainingData, values: dict[str, torch.Tensor], next_position: tuple[int, int], *teachers: Any
    ) -> learn.data.TrainingBatch:
        rows_of[next_position] = list(zip(values["game"].tolist(), values["ply"].tolist()))
        return make_batch(self, values, next_position, *teachers)

    def recording_step(self: learn.loop.TrainingLoop, batch: learn.data.TrainingBatch) -> learn.loop.RunEnd | None:
        epoch, step = self.data.position[0], self.state.steps
        with Path(log, str(self.data.process_index)).open("a") as file:
            file.writelines(f"{epoch} {step} {game} {ply}\n" for game, ply in rows_of[batch.next_position])
        if step + 1 == int(stop) and self.is_first:
            signal.raise_signal(signal.SIGINT)
        if step + 1 == -int(stop) and not self.is_first:
            signal.raise_signal(signal.SIGKILL)
        return after_step(self, batch)

    def recording_write(path: Path, data: Any) -> None:
        with Path(log, "files").open("a") as file:
            file.write(f"{path.name}\n")
        write_file(path, data)

    learn.data.TrainingData._make_batch, learn.loop.TrainingLoop._after_step = recording_batch, recording_step
    learn.run_dir.write_file = learn.torch_net.write_file = recording_write
    learn.run_dir.draw_training_curves = lambda rows, title: b"curves"


if __name__ in ("__main__", "__mp_main__"):  # also in a spawned process
    games, run, log, devices, stop = sys.argv[1:]
    record(log, stop)
if __name__ == "__main__":
    options = learn.train.TrainOptions(devices=int(devices), accelerator="cpu", jobs=1)
    learn.train.train(tiny(**RECIPE), [games], run, resume=Path(run, "run.json").exists(), options=options)

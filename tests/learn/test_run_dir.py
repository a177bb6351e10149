"""Damaged and forged files of a run directory: refused in one line, within bounds of time and memory."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kifu.errors import FormatError, KifuError, SourceError
from kifu.play.results import resume_results
from lazy import lazy_import
from runs import checkpoint, interrupted, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

READERS: dict[str, Callable[[Path], object]] = {
    "run.json": lambda path: learn.run_dir.read_run(path.parent),
    "metrics.csv": lambda path: learn.run_dir.read_metrics(path),
    "last.ckpt": lambda path: learn.run_dir.read_checkpoint(path),
    "best.safetensors": lambda path: learn.net.open_net(path.parent),
    "match.json": lambda path: resume_results(path.parent, None),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def stopped(games: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    with interrupted(2):
        learn.train.train(tiny(average=0.9), [games], folder)
    return folder


def refused(path: Path) -> str:
    with pytest.raises(SourceError if path.name == "match.json" else FormatError) as caught:
        READERS[path.name](path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_fifos_are_refused_without_waiting(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert refused(tmp_path / name).endswith("not a regular file")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", [b"", b"[" * 50_000, b"\xff" * 50_000, b"\x08" + bytes(50_000)])
def test_large_files_are_refused_without_reading_them(name: str, content: bytes, tmp_path: Path) -> None:
    """Each has 5 GB, most of which are a hole."""
    path = tmp_path / name
    path.write_bytes(content)
    os.truncate(path, 5 << 30)
    refused(path)  # once, so that modules are loaded
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_large_header_of_a_net_is_not_parsed(tmp_path: Path) -> None:
    """safetensors itself accepts headers up to 100 MB."""
    path = tmp_path / "best.safetensors"
    path.write_bytes((64 << 20).to_bytes(8, "little") + b'{"' + b"a" * 100)
    os.truncate(path, 100 << 20)
    assert refused(path).endswith("is not a net of kifu: its header has more than 16 MiB")


def test_a_field_of_metrics_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n1," + "2" * 200_000 + "\n")
    assert "field larger than field limit" in refused(path)


def test_too_many_rows_of_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn.run_dir, "_MAX_ROWS", 10)
    path = tmp_path / "metrics.csv"
    path.write_text("step\n" + "1\n" * 11)
    assert refused(path).endswith("metrics.csv has more than 10 rows")


# Checkpoints


def rewritten(path: Path, **options: Any) -> bytes:
    """Return a checkpoint with the same entries, written otherwise."""
    result = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(result, "w", **options) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return result.getvalue()


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("trapped",)


def test_no_message_recommends_to_execute_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "last.ckpt"
    for content in (Trap(), {"kifu": Trap()}, torch.nn.Linear(1, 1)):
        torch.save(content, path)
        assert refused(path) == f"cannot resume from {path}: not a checkpoint of kifu, or a damaged one"
    assert not Path("trapped").exists()


def test_a_checkpoint_cannot_demand_more_memory_than_it_has(stopped: Path, tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes(rewritten(stopped / path.name))
    assert learn.run_dir.read_checkpoint(path)["kifu"]["steps"] == 2
    path.write_bytes(rewritten(stopped / path.name, compression=zipfile.ZIP_DEFLATED))
    assert "not a checkpoint of kifu" in refused(path)


def test_a_changed_weight_of_a_checkpoint_is_detected(stopped: Path, tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    data = bytearray((stopped / path.name).read_bytes())
    with zipfile.ZipFile(stopped / path.name) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size * ("/data/" in entry.filename))
    data[largest.header_offset + 200] ^= 1
    path.write_bytes(data)
    assert "not a checkpoint of kifu" in refused(path)


def _changed(path: tuple[Any, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(contents: dict[str, Any]) -> None:
        inner: Any = contents
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("kifu", "steps"), -1),
        (("kifu", "steps"), "2"),
        (("kifu", "seconds"), float("nan")),
        (("kifu", "loader"), {}),
        (("kifu", "loader"), {"epoch": []}),
        (("kifu", "sums"), [1.0]),
        (("kifu", "average"), [0.5]),
        (("kifu", "average"), None),
        (("kifu", "average"), []),
        (("state_dict",), {}),
        (("state_dict",), {"network.x": "text"}),
        (("optimizer_states",), []),
        (("optimizer_states", 0), {}),
        (("optimizer_states", 0), {"state": {}, "param_groups": []}),
        (("optimizer_states", 0, "state", 0), 7),
    ],
)
def test_contents_that_do_not_fit_are_refused(stopped: Path, games: Path, path: tuple[Any, ...], value: Any) -> None:
    original = (stopped / "last.ckpt").read_bytes()
    contents = checkpoint(stopped)
    _changed(path, value)(contents)
    try:
        torch.save(contents, stopped / "last.ckpt")
        with pytest.raises(KifuError, match=r"^cannot resume from .*last.ckpt: |^not a state of a loader"):
            learn.train.train(tiny(average=0.9), [games], stopped, resume=True)
    finally:
        (stopped / "last.ckpt").write_bytes(original)


def test_the_state_of_an_optimizer_takes_the_layout_of_its_parameters(stopped: Path, games: Path) -> None:
    """A fused kernel that met another layout would read and write beyond the array."""
    recipe = tiny()
    network = learn.loss.make_policy_module(recipe).network
    optimizer = learn.optim.make_optimizer(network, recipe.optimizer)
    saved = checkpoint(stopped)["optimizer_states"][0]
    saved["param_groups"][0]["betas"] = "text"
    for values in saved["state"].values():
        values["exp_avg"] = values["exp_avg"].flatten()[:1].expand(values["exp_avg"].numel()).view_as(values["exp_avg"])
    learn.optim.restore_optimizer(optimizer, saved)
    assert optimizer.param_groups[0]["betas"] == recipe.optimizer.betas
    for parameter, values in optimizer.state.items():
        assert values["exp_avg"].stride() == parameter.stride()
    for values in saved["state"].values():
        values["exp_avg"] = torch.zeros(3)
    with pytest.raises(ValueError, match="exp_avg must have shape"):
        learn.optim.restore_optimizer(optimizer, saved)

"""`kifu show` of a net."""

from pathlib import Path

import numpy as np
import pytest

from commands import Done, run
from kifu.learn import BEST
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")


TRAINED = {
    "positions": 4096, "steps": 64, "seconds": 75.2, "figures": {"validation_top1": 0.25, "validation_loss": 3.0}
}  # fmt: skip


def saved(path: Path, recipe: dict, trained: dict) -> Path:
    about = learn.net_format.NetMetadata(
        net="blog", planes="one-plane@1", width=5, height=5, recipe=recipe, trained=trained
    )
    learn.torch_net.save_net(path, learn.registry.make_net("blog", 1, 5, 5), about, np.array([7, 3], np.uint64))
    return path


def test_metadata_and_training(tmp_path):
    done = run("show", saved(tmp_path / "a.safetensors", {"name": "quick"}, TRAINED))
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"{tmp_path}/a.safetensors: kifu-net@1, blog on one-plane@1, 5 x 5 only"
    assert lines[1] == "  outputs     policy without passes"
    assert lines[3].startswith("  recipe      quick, by kifu ")
    assert lines[4] == "  training    2 known games: 4,096 positions in 64 steps, 75 s"
    assert lines[5] == "  validation  top-1 25.00%, loss 3.0000 nats"
    assert lines[6] == f"  bytes       {(tmp_path / 'a.safetensors').stat().st_size:,}"


def test_packaged_nets_have_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("show", "human")
    assert "human.safetensors: kifu-net@1, b10c80 on alphago48@1, any board" in done.out
    Path("human").mkdir()
    assert run("show", "human") == done
    assert run("show", "./human").code == 2


def test_a_run_directory_shows_its_best_net(tmp_path):
    tiny_net(tmp_path / BEST, passes=True, heads=("value",))
    done = run("show", tmp_path)
    assert done.out.splitlines()[:2] == [
        f"{tmp_path}/{BEST}: kifu-net@1, b1c8 on seven@1, any board",
        "  outputs     policy with passes, value",
    ]


@pytest.mark.parametrize(
    "trained",
    [{}, {**TRAINED, "steps": "\x1b[2J"}, {**TRAINED, "seconds": None}, {**TRAINED, "figures": [1]}, {"positions": {}}],
)
def test_invalid_training_metadata_is_omitted(tmp_path, trained):
    done = run("show", saved(tmp_path / "a.safetensors", {"name": "\x1b[31m"}, trained))
    assert done.code == 0
    assert "  recipe      \\x1b[31m, by kifu" in done.out
    assert "  training    2 known games\n" in done.out
    assert "\x1b" not in done.out
    assert "validation" not in done.out


def test_nets_and_missing_files_have_no_rows(tmp_path):
    net, missing = tiny_net(tmp_path / "a.safetensors"), tmp_path / "b.npy"
    assert run("show", net, "--row", 3).err == [f"kifu: {net} is not a data set and has no rows, got --row 3"]
    assert run("show", missing, "--row", 3) == Done(2, "", [f"kifu: {missing}: No such file or directory"])


def test_a_file_that_is_not_a_net(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"(;GM[1])")
    done = run("show", tmp_path / "a.safetensors")
    assert (done.code, len(done.err)) == (2, 1)
    assert done.err[0].startswith(f"kifu: {tmp_path}/a.safetensors is not a net of kifu")

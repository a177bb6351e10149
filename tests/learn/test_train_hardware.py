"""bfloat16 is used where the hardware has instructions for it, and nowhere else."""

from __future__ import annotations

import logging
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from bfloat16 import processor
from lazy import lazy_import
from loader_games import make
from nets import tiny_net
from runs import assert_same_weights, figures_of, tiny

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")

AVX2 = {"architecture": "x86_64", "avx2": True, "avx512_bf16": False, "amx_bf16": False}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (AVX2, False),
        ({**AVX2, "avx512_f": True}, False),
        ({**AVX2, "avx512_bf16": True}, True),
        ({**AVX2, "amx_bf16": True}, True),
        ({"architecture": "aarch64", "neon": True, "bf16": False}, False),
        ({"architecture": "aarch64", "neon": True, "bf16": True}, True),
        ({"architecture": "riscv64"}, False),
    ],
)
def test_processors(capabilities: dict[str, object], expected: bool) -> None:
    with processor(**capabilities):
        assert learn.torch_backend.has_bfloat16("cpu") == expected
    with processor(**capabilities), mock.patch("torch.backends.mkldnn.is_available", return_value=False):
        assert not learn.torch_backend.has_bfloat16("cpu")


def test_the_capabilities_of_this_processor_are_known() -> None:
    """The names are those of torch: one of them is reported, whatever its value."""
    assert set(learn.torch_backend._CPU_CAPABILITIES) & set(torch.cpu.get_capabilities())


@pytest.mark.parametrize("native", [False, True])
def test_gpus_that_emulate_bfloat16_do_not_have_it(native: bool) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return including_emulation or native

    with processor(), mock.patch("torch.cuda.is_bf16_supported", supported):
        assert learn.torch_backend.has_bfloat16("cuda") == native


@pytest.mark.parametrize("avx512_bf16", [False, True])
def test_nets_compute_in_bfloat16_where_it_is_fast(avx512_bf16: bool, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "a.safetensors"))
    planes = torch.rand(5, 7, 9, 9)
    with processor(avx512_bf16=avx512_bf16):
        exact, near = (
            learn.backends.evaluate_batch(net.using(precision=precision)._backend(large=True), planes, None, (9, 9))[0]
            for precision in ("float32", "bfloat16")
        )
    assert torch.equal(exact, near) != avx512_bf16
    assert torch.allclose(exact, near, atol=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("avx512_bf16", [False, True])
def test_training_in_bfloat16_where_it_is_fast(avx512_bf16: bool, tmp_path: Path) -> None:
    games = make(tmp_path)
    changes = {"optimiser": {"kind": "muon"}, "steps": 4, "planes": "own+opp"}
    with processor(avx512_bf16=avx512_bf16):
        exact, near = (
            learn.train.train(tiny(precision=precision, **changes), [games], tmp_path / precision)
            for precision in ("float32", "bfloat16")
        )
    assert exact.machine["precision"] == "float32"
    assert near.machine["precision"] == ("bfloat16" if avx512_bf16 else "float32")
    if avx512_bf16:
        losses = [run.best["validation_loss"] for run in (exact, near)]
        assert losses[0] != losses[1]
        assert losses[0] == pytest.approx(losses[1], rel=0.05)
    else:
        assert figures_of(tmp_path / "float32") == figures_of(tmp_path / "bfloat16")
        assert_same_weights(tmp_path / "float32" / "final.safetensors", tmp_path / "bfloat16" / "final.safetensors")


def test_muon_does_not_emulate_bfloat16() -> None:
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 8, 12)).astype(np.float32))
    with processor(avx512_bf16=False):
        exact = learn.optim.orthogonalize(matrix)
    with processor(avx512_bf16=True):
        near = learn.optim.orthogonalize(matrix)
    assert torch.equal(near, near.bfloat16().float())
    assert not torch.equal(exact, exact.bfloat16().float())
    assert torch.allclose(exact, near, atol=0.05)


def test_the_user_is_told(caplog: pytest.LogCaptureFixture) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    with caplog.at_level(logging.INFO, "kifu"), processor(avx512_bf16=False):
        assert learn.torch_backend.supported_precision("float32", cpu) == "float32"
        assert not caplog.records
        assert learn.torch_backend.supported_precision("bfloat16", cpu) == "float32"
        with mock.patch("torch.cuda.is_bf16_supported", return_value=False):
            assert learn.torch_backend.supported_precision("bfloat16", gpu) == "float32"
    assert [record.getMessage() for record in caplog.records] == [
        f"this {name} has no instructions for bfloat16; networks compute in float32" for name in ("processor", "GPU")
    ]


def test_denormal_weights_are_zero_where_a_net_is_evaluated_but_not_in_the_net() -> None:
    """Products with them take many times as long on some processors, so networks of KataGo did."""
    least = np.finfo(np.float32).tiny
    weights = np.array([[1e-40, -least / 2, least, -least, 1e-20, 0, 1]], np.float32)
    layer = torch.nn.Linear(7, 1, bias=False)
    layer.weight.data = torch.from_numpy(weights.copy())
    evaluated = learn.torch_backend.TorchBackend(layer, learn.torch_backend.CPU)._module.weight.detach().numpy()
    np.testing.assert_array_equal(evaluated, [[0, 0, *weights[0, 2:]]])
    np.testing.assert_array_equal(layer.weight.detach().numpy(), weights)

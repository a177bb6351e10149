"""KataGo's blocks in torch: boards within larger arrays, and slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kata_nets import BLOCKS, Maker, small_net
from kifu.katago.net_file import kata_net_bytes
from lazy import lazy_import

kata = lazy_import("kifu.katago.net")
torch = lazy_import("torch")


def _inputs(width: int, height: int, count: int = 2) -> tuple:
    random = torch.Generator().manual_seed(3)
    planes = torch.randint(0, 2, (count, 22, height, width), generator=random).float()
    planes[:, 0] = 1
    return planes, torch.randn(count, 19, generator=random), torch.randn(count, 192, generator=random)


@pytest.mark.parametrize(
    ("kinds", "options"),
    [*(([kind], {}) for kind in BLOCKS), (BLOCKS, {"rms": True}), (BLOCKS[:2], {"version": 8}), ([], {"human": True})],
)
def test_boards_within_larger_arrays(kinds, options):
    """The mask makes a board in the upper left corner of an array equal to the board by itself."""
    file = small_net(kinds or ["residual"], **options)
    net, (planes, globals, metadata) = kata.KataNet(file).eval(), _inputs(5, 4)
    metadata = metadata if file.is_human else None
    padded = torch.nn.functional.pad(planes, (0, 2, 0, 3))
    with torch.inference_mode():
        alone, within = net(planes, globals, metadata), net(padded, globals, metadata)
    points = torch.arange(49).view(7, 7)[:4, :5].flatten()
    for name in ("result", "score", "score_stdev", "lead"):
        torch.testing.assert_close(getattr(alone, name), getattr(within, name))
    torch.testing.assert_close(alone.ownership, within.ownership[:, points])
    torch.testing.assert_close(alone.policy, within.policy[:, :, [*points, 49]])
    assert torch.isneginf(within.policy[:, :, :-1]).sum() == 2 * file.policy.policies * (49 - 20)
    assert alone.policy.shape == (2, file.policy.policies, 21)
    assert all(torch.isfinite(each).all() for each in alone)


def test_norms_of_points_in_bfloat16():
    """Features in bfloat16 are normed in float32, without the warning of torch's own norm."""
    norm = kata._point_norm(Maker(np.random.default_rng(1)).point_norm(6))
    rows = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(2)).bfloat16()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        found = norm(rows)
    assert found.dtype == torch.bfloat16
    expected = torch.nn.functional.rms_norm(rows.float(), (6,), norm.weight, norm.eps)
    torch.testing.assert_close(found, expected.bfloat16(), rtol=2**-7, atol=0)


@pytest.mark.parametrize(("rotary", "learned"), [(False, False), (True, False), (True, True)])
def test_attention_equals_a_slow_twin(rotary, learned):
    """Grouped heads, scaled softmax and rotations of pairs, one number at a time."""
    block = Maker(np.random.default_rng(1)).attention(6, rotary, learned)
    features = np.random.default_rng(2).normal(size=(6, 3, 4)).astype(np.float32)
    out = kata.KataAttention(block)(torch.from_numpy(features)[None], None, torch.tensor([12.0]))[0].detach().numpy()
    rows = features.reshape(6, 12).T.astype(np.float64)
    rows = rows / np.sqrt((rows**2).mean(1, keepdims=True) + 1e-6) * block.norm.scale
    query, key, value = (rows @ part.array for part in (block.query, block.key, block.value))
    mixed = np.zeros((12, 12))
    for head in range(4):
        shared = head // 2
        q, k = query[:, head * 4 : head * 4 + 4].copy(), key[:, shared * 4 : shared * 4 + 4].copy()
        for at in range(12):
            for pair in range(2):
                angle = _angle(block, shared, pair, at % 4, at // 4)
                turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
                for part in (q, k):
                    part[at, 2 * pair : 2 * pair + 2] = turn @ part[at, 2 * pair : 2 * pair + 2]
        weights = np.exp(q @ k.T / 2)
        weights /= weights.sum(1, keepdims=True)
        mixed[:, head * 3 : head * 3 + 3] = weights @ value[:, shared * 3 : shared * 3 + 3]
    expected = (mixed @ block.output.array).T.reshape(6, 3, 4)
    np.testing.assert_allclose(out, expected, atol=1e-5)


def _angle(block, head: int, pair: int, x: int, y: int) -> float:
    if block.frequencies is not None:
        return x * block.frequencies.array[head, pair, 0] + y * block.frequencies.array[head, pair, 1]
    return 0.0 if block.theta is None else float(y if pair == 0 else x)


def test_net_file_of():
    """A module gives its file to the byte, keeps the file's arrays, and stores what training changes."""
    for file in (small_net(), small_net(rms=True), small_net(["residual"], 8), small_net(["pooling"], human=True)):
        before = kata_net_bytes(file)
        net = kata.KataNet(file)
        assert kata_net_bytes(kata.net_file_of(net)) == before == kata_net_bytes(file)
        planes, globals, metadata = _inputs(5, 4)
        with torch.no_grad():
            for index, parameter in enumerate(net.parameters()):
                parameter.mul_(1 + index % 7 / 8)
            args = (planes, globals, metadata if file.is_human else None)
            again = kata.KataNet(kata.net_file_of(net))
            for ours, theirs in zip(net(*args), again(*args), strict=True):
                assert torch.equal(ours, theirs)
        assert all(map(torch.equal, net.state_dict().values(), again.state_dict().values()))
        assert kata_net_bytes(kata.net_file_of(again)) == kata_net_bytes(kata.net_file_of(net)) != before


def test_no_result():
    """Games have a result with area scoring and superko; without one the score is 0."""
    net, (planes, globals, _) = kata.KataNet(small_net(["residual"])).eval(), _inputs(5, 5, 3)
    globals[:, 6], globals[:, 9] = torch.tensor([1.0, 0, 1]), torch.tensor([0.0, 0, 1])
    with torch.inference_mode():
        output = net(planes, globals)
    assert (output.result[:, 2] == 0).tolist() == [True, False, False]
    torch.testing.assert_close(output.result.sum(1), torch.ones(3))

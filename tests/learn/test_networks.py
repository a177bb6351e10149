"""Networks: shapes, sizes, symmetries, gradients and initialization."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from commands import run
from kifu.datasets.global_inputs import INPUTS, Conditions, encode_inputs, input_parts
from kifu.errors import GameError, RecipeError
from kifu.planes.encoder import find_encoder
from kifu.planes.registry import PLANE_SETS, find_plane_set
from kifu.point import symmetries
from lazy import lazy_import
from nets import NET_NAMES, global_values

functional = lazy_import("torch.nn.functional")
learn = lazy_import("kifu.learn")
nn = lazy_import("torch.nn")
torch = lazy_import("torch")


PLANES = [*(name for name, each in PLANE_SETS.items() if each.features), "own+opp+last2"]  # not kgsgo's, made in files
CARD = Path(__file__).parents[2] / "docs/nets.md"


def net_for(
    name: str, planes: str = "seven", width: int = 5, height: int = 5, seed: int = 0, **more: object
) -> learn.networks.Network:
    torch.manual_seed(seed)
    encoder = find_encoder(planes, width, height)
    rim = encoder.plane_set.padding
    more = {"inputs": learn.registry.find_net(name).inputs} | more
    return learn.registry.make_net(name, encoder.planes, width, height, rim=rim, **more).eval()  # type: ignore[arg-type]


def random_planes(net: learn.networks.Network, batch: int = 2, seed: int = 0) -> torch.Tensor:
    config, draw = net.config, torch.Generator().manual_seed(seed)
    shape = (batch, config.planes, config.height + 2 * config.rim, config.width + 2 * config.rim)
    return torch.randint(0, 2, shape, generator=draw).float()


def ask(net: learn.networks.Network, planes: torch.Tensor) -> learn.networks.NetworkOutput:
    """Return the outputs for Black to move in the first position, White in the second, and so on."""
    return net(planes, global_values(net, len(planes)))


# shapes


def has_its_shapes(name: str, planes: str, width: int, height: int, **more: object) -> None:
    with torch.device("meta"):
        net = net_for(name, planes, width, height, **more)
        output = ask(net, torch.empty(3, *find_encoder(planes, width, height).shape))
    config = net.config
    assert output.policy.shape == (3, width * height + config.passes)
    assert (output.value is None) == ("value" not in config.heads)
    assert output.value is None or output.value.shape == (3,)
    assert (output.ownership is None) == ("ownership" not in config.heads)
    assert output.ownership is None or output.ownership.shape == (3, width * height)


def test_the_names_are_those_of_the_registry():
    assert (*learn.registry.NETS, "b3c8") == NET_NAMES


@pytest.mark.parametrize("name", NET_NAMES)
def test_every_net_accepts_every_plane_set(name):
    for planes in PLANES:
        has_its_shapes(name, planes, 9, 9, heads=("ownership",))


@pytest.mark.slow
@pytest.mark.parametrize("name", NET_NAMES)
def test_every_net_accepts_every_board(name):
    for planes in ("seven", "clark8"):
        for width, height in [(1, 1), (1, 5), (7, 4), (19, 19)]:
            for passes, heads in ((False, ()), (True, ("value",)), (True, ("ownership", "value"))):
                has_its_shapes(name, planes, width, height, passes=passes, heads=heads)
    if net_for(name).takes_inputs:
        has_its_shapes(name, "seven", 9, 9, heads=("value",), inputs=tuple(INPUTS))


@pytest.mark.parametrize("name", NET_NAMES)
def test_values_are_within_their_range(name):
    net = net_for(name, "clark8", passes=True, heads=("value", "ownership"))
    output = ask(net, random_planes(net, 50))
    assert torch.isfinite(output.policy).all()
    assert output.value.abs().max() <= 1
    assert output.ownership.abs().max() <= 1
    assert output.value.std() > 0
    assert output.ownership.std() > 0


@pytest.mark.parametrize("name", NET_NAMES)
def test_only_nets_of_any_size_accept_other_boards(name):
    net = net_for(name, passes=True, heads=("value", "ownership"))
    planes = torch.zeros(2, 7, 6, 8)
    if net.any_size:
        output = ask(net, planes)
        assert (output.policy.shape, output.value.shape, output.ownership.shape) == ((2, 49), (2,), (2, 48))
    else:
        with pytest.raises(RuntimeError, match=r"size|shape"):
            ask(net, planes)
    assert net.any_size == (name == "b3c8")


# the colour to move


@pytest.mark.parametrize("name", NET_NAMES)
def test_only_maddison_has_outputs_for_each_colour(name):
    net = net_for(name, passes=True, heads=("value", "ownership"))
    assert net.by_colour == (name == "maddison")
    if not net.by_colour:
        return
    planes = random_planes(net, 4)
    black, white = (net(planes, torch.full((4, 1), colour)) for colour in (1, -1))
    mixed = net(planes, torch.tensor([[-1], [1], [1], [-1]]))
    for head in ("policy", "value", "ownership"):
        first, second, chosen = (getattr(each, head) for each in (black, white, mixed))
        assert torch.equal(chosen, torch.stack([second[0], first[1], first[2], second[3]]))
        assert not torch.equal(first, second)
    with pytest.raises(ValueError, match="Maddison requires global inputs: colour"):
        net(planes)


def test_maddisons_output_filters_are_for_black_and_white():
    """The policy of each colour depends on the filter and the biases of that colour alone."""
    net = net_for("maddison", "maddison36", passes=True, seed=3)
    planes = random_planes(net, 3)
    before = [net(planes, torch.full((3, 1), colour)).policy for colour in (1, -1)]
    with torch.no_grad():
        net.points.weight[1] += 1
        net.points_bias.bias[1] += 1
        net.pass_.weight[1] += 1
    after = [net(planes, torch.full((3, 1), colour)).policy for colour in (1, -1)]
    assert torch.equal(before[0], after[0])
    assert (before[1] != after[1]).all()
    features = net.features(planes, None)
    by_hand = functional.conv2d(features, net.points.weight[:1], padding=1)[:, 0] + net.points_bias.bias[0]
    assert torch.allclose(after[0][:, :-1], by_hand.flatten(1), atol=1e-6)
    assert torch.allclose(after[0][:, -1], net.pass_(features.mean((2, 3)))[:, 0], atol=1e-6)


# where a point is


def test_a_point_is_row_times_width_plus_column():
    """Checked with a net that copies its only plane."""
    copy = learn.networks.PointsConv(1)
    with torch.no_grad():
        copy.weight.fill_(1)
        copy.bias.zero_()
    planes = torch.zeros(1, 1, 4, 7)  # 7 wide, 4 high
    planes[0, 0, 2, 5] = 1
    assert copy(planes).argmax() == 2 * 7 + 5
    assert torch.equal(copy(planes), planes.reshape(1, 28))


@pytest.mark.parametrize("planes", ["seven", "clark8"])
@pytest.mark.parametrize("name", ["maddison", "b3c8"])
def test_a_net_of_pointwise_filters_answers_at_the_point(name, planes):
    """Keep only the centre of each filter, and no pooling; also with a rim."""
    net = net_for(name, planes, 9, 7)
    rim = net.config.rim
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d):
                middle = layer.kernel_size[0] // 2
                centre = layer.weight[:, :, middle, middle].abs() + 0.1
                layer.weight.zero_()
                layer.weight[:, :, middle, middle] = centre
            if isinstance(layer, nn.Linear):
                layer.weight.zero_()
    empty = torch.zeros(1, net.config.planes, 7 + 2 * rim, 9 + 2 * rim)
    stone = empty.clone()
    stone[0, 0, 4 + rim, 6 + rim] = 1
    change = (ask(net, stone).policy - ask(net, empty).policy).abs()
    assert change.nonzero().tolist() == [[0, 4 * 9 + 6]]


@pytest.mark.parametrize("name", ["b2c8", "b3c8"])
def test_nets_of_any_size_are_translation_invariant(name):
    """Away from the edges and without pooling."""
    net = net_for(name, "seven", 9, 9, passes=True)
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.zero_()
    reach = 2 + 2 * int(name[1])
    shape = random_planes(net, 1)[..., :4, :4]

    def output(size: int, y: int, x: int) -> torch.Tensor:
        planes = torch.zeros(1, 7, size, size)
        planes[..., y : y + 4, x : x + 4] = shape
        return net(planes).policy[0, :-1].reshape(size, size)[y : y + 4, x : x + 4]

    first = output(4 + 2 * reach + 4, reach, reach)
    for size, y, x in ((4 + 2 * reach + 4, reach + 4, reach + 1), (4 + 2 * reach, reach, reach)):
        assert torch.allclose(output(size, y, x), first, atol=1e-5)
    assert first.std() > 1e-4


# symmetries


def turned(x: torch.Tensor, k: int) -> torch.Tensor:
    x = x.flip(-1) if k & 1 else x
    x = x.flip(-2) if k & 2 else x
    return x.transpose(-1, -2) if k & 4 else x


def policy_turned(net: learn.networks.Network, planes: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the policy of transformed planes, and the transformed policy."""
    config = net.config
    table = torch.from_numpy(symmetries(config.width, config.height)[k].astype(np.int64))
    policy = ask(net, planes).policy
    expected = torch.empty_like(policy)
    expected[:, table[: policy.shape[1]]] = policy
    return ask(net, turned(planes, k)).policy, expected


@pytest.mark.parametrize("planes", ["seven", "clark8"])
@pytest.mark.parametrize(("width", "height", "count"), [(5, 5, 8), (7, 4, 4), (4, 4, 8)])
def test_clark_storkey_is_equivariant(planes, width, height, count):
    net = net_for("clark-storkey", planes, width, height, passes=True)
    position = random_planes(net, 3)
    for k in range(count):
        output, expected = policy_turned(net, position, k)
        assert torch.allclose(output, expected, atol=1e-6)
    assert net(position).policy[:, :-1].std() > 1e-3  # which a constant would satisfy, too


@pytest.mark.parametrize("name", [name for name in NET_NAMES if name != "clark-storkey"])
def test_other_nets_are_not_equivariant(name):
    net = net_for(name)
    assert not torch.allclose(*policy_turned(net, random_planes(net), 1), atol=1e-6)


@pytest.mark.parametrize(("size", "classes"), [(1, 1), (3, 3), (5, 6), (7, 10)])
def test_symmetric_filters_equal_their_images(size, classes):
    layer = learn.networks.SymmetricConv(2, 3, size, size // 2)
    assert layer.weight.shape == (3, 2, classes)
    impulse = torch.zeros(1, 2, 2 * size + 1, 2 * size + 1)
    impulse[0, 1, size, size] = 1
    answer = layer(impulse)
    for k in range(8):
        assert torch.equal(turned(answer, k), answer)
    assert len(answer[0, 0].unique()) == classes + 1  # and the bias alone


def test_tied_linear_layers_match_burnsides_lemma():
    """The number of orbits of pairs of points is the mean number of pairs that each symmetry fixes."""
    for width, height in ((5, 5), (6, 6), (7, 4), (19, 19)):
        turns = symmetries(width, height)[: 8 if width == height else 4, :-1]
        stay = (turns == np.arange(width * height)).sum(1)
        layer = learn.networks.SymmetricLinear(3, width, height)
        assert layer.weight.shape == (3, (stay**2).sum() // len(turns))
        assert layer.bias.shape == (stay.sum() // len(turns),)


# sizes


def conv(channels: int, filters: int, size: int) -> int:
    return channels * filters * size**2 + filters


def dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


BY_HAND: list[tuple[str, str, Callable[[int], int]]] = [
    (
        "book-small",
        "one-plane",
        lambda n: conv(1, 48, 7) + conv(48, 32, 5) + 2 * conv(32, 32, 5) + dense(32 * n, 512) + dense(512, n),
    ),
    (
        "book-medium",
        "seven",
        lambda n: conv(7, 64, 5) + conv(64, 64, 5) + 3 * conv(64, 64, 3) + dense(64 * n, 512) + dense(512, n),
    ),
    (
        "book-large",
        "seven",
        lambda n: (
            conv(7, 64, 7) + 2 * conv(64, 64, 5) + conv(64, 48, 5) + conv(48, 48, 5) + conv(48, 32, 5)
            + conv(32, 32, 5) + dense(32 * n, 1024) + dense(1024, n)
        ),
    ),
    (
        "blog",
        "one-plane",
        lambda n: conv(1, 32, 9) + conv(32, 32, 7) + conv(32, 32, 5) + dense(32 * n, n) + dense(n, n),
    ),
    (
        "maddison",
        "maddison36",
        lambda n: 36 * 128 * 25 + 11 * 128 * 128 * 9 + 12 * 128 * n + 2 * (128 * 9 + n),
    ),
    (
        "clark-storkey",
        "clark8",
        lambda n: (
            (8 * 64 * 10 + 64) + 2 * (64 * 64 * 6 + 64) + (64 * 48 * 6 + 48) + (48 * 48 * 6 + 48)
            + (48 * 32 * 6 + 32) + (32 * 32 * 6 + 32) + {25: (32 * 91 + 6), 361: (32 * 16471 + 55)}[n]
        ),
    ),
    (
        "b2c8",  # no block that pools
        "seven",
        lambda n: (
            7 * 8 * 9 + 4 * (8 * 8 * 9 + 16) + 16 + 2 * 8 * 32 + 2 * 64 + dense(64, 32) + dense(32, 1)
        ),
    ),
    (
        "b3c8",
        "seven",
        lambda n: (
            7 * 8 * 9 + 6 * (8 * 8 * 9 + 16) + 16 + 2 * 8 * 32 + 2 * 64 + dense(64, 32) + dense(32, 1)
            + 8 * 4 + 8 + dense(8, 8)
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize("size", [5, 19])
@pytest.mark.parametrize(("name", "planes", "expected"), BY_HAND, ids=[row[0] for row in BY_HAND])
def test_parameters_are_those_counted_by_hand(name, planes, expected, size):
    net = net_for(name, planes, size, size)
    assert sum(weight.numel() for weight in net.parameters()) == expected(size**2)
    assert learn.registry.count_net(name, planes, size, size).parameters == expected(size**2)


def test_flops_are_those_counted_by_hand():
    blog = learn.registry.count_net("blog", "one-plane")
    convolutions = 361 * (81 * 32 + 49 * 32 * 32 + 25 * 32 * 32)
    assert blog.flops == 2 * (convolutions + 32 * 361 * 361 + 361 * 361)
    assert learn.registry.count_net("maddison", "maddison36").flops == 2 * 361 * (
        36 * 25 * 128 + 11 * 9 * 128 * 128 + 2 * 9 * 128
    )
    # A layer whose weights are tied multiplies as often as one whose are not.
    clark, book = (learn.registry.count_net("clark-storkey", "seven"), learn.registry.count_net("book-large", "seven"))
    assert clark.flops - 2 * 32 * 361**2 == book.flops - 2 * (1024 * 32 * 361 + 1024 * 361)


@pytest.mark.parametrize("name", NET_NAMES)
def test_layers_add_up(name):
    count = learn.registry.count_net(name, "clark8", 9, 7)
    assert sum(parameters for *_, parameters, _ in count.layers) == count.parameters
    assert sum(flops for *_, flops in count.layers) == count.flops
    assert count.layers[0][2][1:] == (7, 9)
    assert len({name for name, *_ in count.layers}) == len(count.layers)


def test_the_documented_sizes_are_right():
    rows = re.findall(r"^\| `(\S+)` \| .* \| `(\S+)` \| ([\d,]+) \| ([\d,]+) \|$", CARD.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == [*learn.registry.NETS, learn.registry.RESIDUAL, learn.registry.KATA]
    for name, planes, parameters, flops in rows:
        assert learn.registry.find_net(name).planes == find_plane_set(planes).name
        count = learn.registry.count_net(name, planes)
        assert (parameters, flops) == (f"{count.parameters:,}", f"{count.flops:,}")


# names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("book-smal", "did you mean 'book-small'"), ("Maddison", "did you mean 'maddison'"),
        ("b6x64", "did you mean 'b6c64'"), ("b06c64", "unknown net"), ("b6c64 ", "unknown net"), ("", "unknown net ''"),
        ("b0c8", "unknown net"), ("b100c8", "too large or too small"), ("b1c1", "too large or too small"),
        ("b1c1025", "too large or too small"), ("b99c1024", "too large or too small"),
        ("b" + "9" * 50 + "c8", "unknown net"),
    ],
)  # fmt: skip
def test_unknown_names(name, words):
    with pytest.raises(RecipeError, match=words) as output:
        learn.registry.make_net(name, 7)
    assert str(output.value).isprintable()


def test_the_largest_and_the_smallest_nets():
    with torch.device("meta"):
        for name in ("b1c2", "b3c2", "b14c1024"):
            assert learn.registry.make_net(name, 7)(torch.empty(2, 7, 19, 19)).policy.shape == (2, 361)


# training


def one_step(net: learn.networks.Network, optimizer: torch.optim.Optimizer) -> None:
    net.train()
    output = ask(net, random_planes(net, 4))
    moves = torch.arange(4) % net.config.moves
    loss = functional.cross_entropy(output.policy, moves)
    if output.value is not None and output.ownership is not None:
        loss = loss + (output.value - 0.5).square().mean() + (output.ownership - 0.5).square().mean()
    loss.backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert torch.isfinite(weight.grad).all(), name
    assert sum(bool((weight.grad != 0).any()) for weight in net.parameters()) > 0.7 * len(list(net.parameters()))
    before = [weight.clone() for weight in net.parameters()]
    optimizer.step()
    assert all(torch.isfinite(weight).all() for weight in net.parameters())
    assert not all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


@pytest.mark.parametrize("name", NET_NAMES)
def test_gradients_are_finite(name):
    net = net_for(name, passes=True, heads=("value", "ownership"))
    one_step(net, torch.optim.AdamW(net.parameters()))
    for bfloat16 in (False, True):
        net = net_for(name, "clark8")
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            one_step(net, torch.optim.SGD(net.parameters(), 0.01))


@pytest.mark.parametrize("name", NET_NAMES)
def test_only_the_blog_net_has_dropout(name):
    net = net_for(name)
    planes = random_planes(net, 20)
    assert torch.equal(ask(net, planes).policy, ask(net, planes).policy)
    net.train()
    assert torch.equal(ask(net, planes).policy, ask(net, planes).policy) == (name != "blog")


def test_the_blog_net_drops_half_of_its_logits():
    net = net_for("blog", "one-plane", 9, 9).train()
    dropped = (net(random_planes(net, 100)).policy == 0).float().mean()
    assert 0.45 < dropped < 0.55


# how weights begin


@pytest.mark.parametrize("name", NET_NAMES)
def test_weights_depend_on_torchs_seed(name):
    one, same, other = (net_for(name, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("how", ["torch", "glorot-uniform", "he-normal"])
@pytest.mark.parametrize("name", NET_NAMES)
def test_initializations(name, how):
    net, before = net_for(name, heads=("value", "ownership")), net_for(name, heads=("value", "ownership"))
    torch.manual_seed(4)
    learn.registry.initialize(net, how)
    state = torch.get_rng_state()
    again = net_for(name, heads=("value", "ownership"), seed=9)
    torch.manual_seed(4)
    learn.registry.initialize(again, how)
    assert torch.equal(torch.get_rng_state(), state)
    for (key, value), old, same in zip(
        net.state_dict().items(), before.state_dict().values(), again.state_dict().values(), strict=True
    ):
        if how == "torch":
            assert torch.equal(value, old)
            continue
        assert torch.equal(value, same)
        if "norm" in key or key.endswith("points_bias.bias"):
            assert torch.equal(value, old)
        elif key.endswith("bias"):
            assert not value.any()
        else:
            assert not torch.equal(value, old)


def test_initializations_have_the_right_spread():
    for layer, inputs, outputs in (
        (nn.Conv2d(16, 32, 5), 16 * 25, 32 * 25),
        (nn.Linear(200, 100), 200, 100),
        (learn.networks.SymmetricConv(64, 32, 5, 2), 64 * 25, 32 * 25),
        (learn.networks.SymmetricLinear(16, 9, 9), 16 * 81, 81),
    ):
        torch.manual_seed(0)
        learn.registry.initialize(layer, "glorot-uniform")
        bound = (6 / (inputs + outputs)) ** 0.5
        assert 0.99 * bound < layer.weight.max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        learn.registry.initialize(layer, "he-normal")
        assert layer.weight.std().item() == pytest.approx((2 / inputs) ** 0.5, rel=0.05)
        assert not layer.bias.any()


def test_tied_layers_are_initialized_as_torchs_own():
    """The fan-in of a filter does not depend on how many of its weights are tied."""
    torch.manual_seed(0)
    for tied, free in (
        (learn.networks.SymmetricConv(8, 64, 7, 3), nn.Conv2d(8, 64, 7)),
        (learn.networks.SymmetricLinear(8, 9, 9), nn.Linear(8 * 81, 81)),
    ):
        assert tied.weight.std().item() == pytest.approx(free.weight.std().item(), rel=0.05)


def test_an_unknown_initialization():
    with pytest.raises(RecipeError, match="unknown init 'glorot'; did you mean 'glorot-uniform'"):
        learn.registry.initialize(nn.Linear(1, 1), "glorot")


# heads


def test_heads_match_a_naive_computation():
    torch.manual_seed(0)
    value, ownership = learn.networks.ValueHead(3, 5).eval(), learn.networks.PointsConv(3)
    x = torch.randn(2, 3, 4, 6)
    for b in range(2):
        pooled = [x[b, c].mean() for c in range(3)] + [x[b, c].max() for c in range(3)]
        hidden = value.norm((value.first.weight @ torch.stack(pooled))[None])[0].clamp(min=0)
        assert torch.allclose(value(x)[b], value.second.weight @ hidden + value.second.bias, atol=1e-6)
        for y, x_ in product(range(4), range(6)):
            output = torch.tanh(ownership.weight[0, :, 0, 0] @ x[b, :, y, x_] + ownership.bias[0])
            assert torch.allclose(torch.tanh(ownership(x))[b, y * 6 + x_], output, atol=1e-6)


def test_global_inputs_of_a_value_head_begin_without_effect_and_reach_the_output_linearly():
    torch.manual_seed(0)
    head = learn.networks.ValueHead(3, 5, inputs=4).eval()
    x, inputs = torch.randn(2, 3, 4, 6), torch.randn(2, 4)
    before = head(x, inputs)
    assert torch.equal(before, head(x, torch.zeros(2, 4)))
    torch.nn.init.normal_(head.skip.weight)
    direct = (inputs @ head.skip.weight[0]).detach()
    assert torch.allclose(head(x, inputs), before + direct, atol=1e-5)
    torch.nn.init.normal_(head.globals.weight)
    assert not torch.allclose(head(x, inputs), before + direct, atol=1e-2)


def test_global_inputs_scale_and_shift_the_channels_of_each_block():
    torch.manual_seed(0)
    block = learn.networks.ResidualBlock(4, pools=False, inputs=2).eval()
    x, inputs = torch.randn(2, 4, 5, 5), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert torch.equal(block(x, inputs), learn.networks.ResidualBlock.forward(block, x, torch.zeros(2, 2)))
    torch.nn.init.normal_(block.globals.weight)  # [scales and shifts of 4 channels, inputs]
    between = block.norm2(block.conv1(torch.relu(block.norm1(x))))
    for k in range(2):
        scale, shift = block.globals.weight[:, k].split(4)
        changed = between[k] * (1 + scale)[:, None, None] + shift[:, None, None]
        expected = x[k] + block.conv2(torch.relu(changed)[None])[0]
        assert torch.allclose(block(x, inputs)[k], expected, atol=1e-5)


POINTS = ("colour", "komi", "handicap", "rules", "ranks", "year")


def random_positions(inputs=POINTS):
    """A network with points and random weights, planes, and plausible global inputs of four positions."""
    torch.manual_seed(0)
    network = learn.registry.make_net("b3c8p", 5, 9, 9, heads=("value", "ownership", "score"), inputs=inputs).eval()
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.2)
    known = Conditions.unknown(4)
    known.komi[:] = 0.5, 6.5, -3, 7
    known.rating[:] = [33, 36], [20, 25], [40, 32], [30, 30]
    white = np.array([False, True, False, True])
    globals_ = torch.from_numpy(encode_inputs(inputs, known, np.arange(4), white))
    return network, (torch.rand(4, 5, 9, 9) < 0.3).float(), globals_


def test_points_depend_on_the_position_and_komi_alone():
    network, planes, globals_ = random_positions()
    before = network(planes, globals_)
    for name, part, _ in input_parts(POINTS):
        changed = globals_.clone()
        changed[:, part] = torch.rand_like(changed[:, part])
        after = network(planes, changed)
        assert torch.equal(before.ownership, after.ownership) == (name in ("komi", "ranks", "year"))
        assert torch.equal(before.score, after.score) == (name in ("ranks", "year"))
        assert not torch.equal(before.policy, after.policy)
    komi = globals_.clone()
    komi[:, 2] += 0.1  # a point
    assert torch.allclose(network(planes, komi).score, before.score + torch.tensor([1, 0]), atol=1e-5)
    komi[:, 1:3] = torch.stack([torch.ones(4), -0.7 * komi[:, 0]], 1)
    unknown = komi.clone()
    unknown[:, 1:3] = 0
    assert torch.allclose(network(planes, komi).score, network(planes, unknown).score, atol=1e-5)


def test_win_rates_rise_with_the_lead_and_the_rank():
    network, planes, globals_ = random_positions()
    (_, mover, _), (_, opponent, _) = (each for each in input_parts(POINTS) if each[0] == "ranks")
    equal = globals_.clone()
    equal[:, opponent] = equal[:, mover]
    for unknown in ((), (mover,), (mover, opponent)):  # of an unknown rank nothing is said
        for part in unknown:
            equal[:, part] = 0
        found = network(planes, equal)
        assert torch.equal(found.value.sign(), found.score[:, 0].sign())
    torch.nn.init.zeros_(network.value.slope.weight)
    values = []
    for knot in range(14):
        stronger = equal.clone()
        stronger[:, mover], stronger[:, opponent] = torch.eye(14)[knot], torch.eye(14)[13 - knot]
        values.append(network(planes, stronger).value)
    assert (torch.stack(values).diff(dim=0) > 0).all()
    point = torch.eye(globals_.shape[1])[2] / 10
    values = [network(planes, globals_ + points * point).value for points in range(-2, 3)]
    assert (torch.stack(values).diff(dim=0) > 0).all()


def test_a_net_with_points_without_ranks_and_its_refusals():
    network, planes, globals_ = random_positions(("colour", "komi"))
    found = network(planes, globals_)
    assert torch.equal(found.value.sign(), found.score[:, 0].sign())
    assert (found.score[:, 1] > 0).all()
    for heads, inputs in ((("ownership", "score"), ("colour", "komi")), (("value", "ownership", "score"), ("komi",))):
        with pytest.raises(
            RecipeError, match="requires the heads value, ownership and score and the inputs colour and komi"
        ):
            learn.registry.make_net("b1c8p", 5, 5, 5, heads=heads, inputs=inputs)


# the command


def test_the_command_lists_nets():
    done = run("list", "nets")
    assert (done.code, done.err) == (0, [])
    names = [*learn.registry.NETS, learn.registry.RESIDUAL, learn.registry.KATA]
    assert [line.split()[0] for line in done.out.splitlines()] == names
    assert "4.4 M parameters, 65.2 M FLOPs" in done.out
    small = run("list", "nets", "--board", "9x9", "--planes", "seven").out
    assert all(line.split()[0] in names for line in small.splitlines())
    assert small != done.out


@pytest.mark.parametrize("name", [*NET_NAMES, "b6c64"])
def test_the_command_shows_layers(name):
    done = run("list", "nets", name, "--planes", "eleven", "--board", "9x7")
    assert (done.code, done.err) == (0, [])
    assert done.out.startswith(f"# {name}\n")
    assert f"| total | | | {learn.registry.count_net(name, 'eleven', 9, 7).parameters:,} |" in done.out
    assert max(map(len, done.out.splitlines())) < 250


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("blogg",), "unknown net 'blogg'; did you mean 'blog'"),
        (("blog", "--board", "19"), "board must be like 19x19, got '19'"),
        (("blog", "--board", "30x30"), "30 x 30 is not within 1 to 25"),
        (("--planes", "sevn"), "unknown plane set or feature 'sevn'"),
        (("b99c999",), "too large or too small"),
    ],
)
def test_errors_of_the_command(arguments, words):
    done = run("list", "nets", *arguments)
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert words in done.err[0]


@pytest.mark.subprocess
def test_help_does_not_load_torch():
    code = (
        "import sys\nfrom kifu.cli import app\n"
        "try: app(['list', '--help'])\nexcept SystemExit: print([m for m in ('torch', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_board_that_the_planes_do_not_support():
    with pytest.raises(GameError, match="within 1 to"):
        learn.registry.count_net("blog", "clark8", 25, 25)

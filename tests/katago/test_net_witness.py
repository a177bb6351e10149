"""KataGo's nets in torch against KataGo's own engine, position by position."""

from __future__ import annotations

import gzip
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import kifu
from kata_engine import Gtp, katrain_net
from kata_nets import BLOCKS, small_net
from kifu.datasets.global_inputs import Conditions
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.katago.inputs import encode_katago
from kifu.katago.metadata import profile_rows
from kifu.katago.net_file import kata_net_bytes, read_kata_net, write_kata_net
from kifu.katago.rules import KataRules
from kifu.point import BLACK, WHITE, parse_gtp, to_gtp, to_sgf
from lazy import lazy_import
from runs import SAMPLE, tiny

learn = lazy_import("kifu.learn")
kata = lazy_import("kifu.katago.net")
torch = lazy_import("torch")

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]

RULES = ("tromp-taylor", "japanese", "chinese", "aga", "new-zealand", "ancient-area", "ancient-territory", "aga-button")
SIZES = ((7, 11), (9, 9), (13, 9), (13, 13), (19, 19))
PER_GAME = 8


def _moves(width: int, height: int, stones: list[int], random: Random) -> list[int]:
    """Return random moves that are legal under all rule sets, with some passes, `width * height`."""
    board = Board(width, height, rules=Rules(ko="positional", suicide=False))
    board.setup(black=stones)
    colour, moves = WHITE if stones else BLACK, []
    for k in range(random.randrange(2, width * height // 2)):
        legal = np.flatnonzero(board.legal(colour)[:-1])
        # Captures and contact make kos and ladders.
        near = [int(point) for point in legal if not moves or abs(int(point) - moves[-1]) <= 2 * width]
        move = (
            width * height
            if k and random.random() < 0.03 and moves[-1] < width * height
            else random.choice(near or legal.tolist())
        )
        board.play(int(move), colour)
        moves.append(int(move))
        colour = BLACK + WHITE - colour
    return moves


@pytest.mark.subprocess
@pytest.mark.timeout(7200)
def test_equals_the_engine(tmp_path):
    """Policy within 1e-3, win rate 1e-3, lead 0.02, ownership 5e-3, over sizes, handicap, ko, passes and rules."""
    file = read_kata_net(katrain_net())
    net, random = kata.KataNet(file).eval(), Random(7)
    worst, positions = np.zeros(5), 0
    with Gtp(katrain_net(), tmp_path) as engine:
        for number in range(40):
            width, height = SIZES[number // len(RULES)]
            rules, komi = RULES[number % len(RULES)], random.choice([0.5, 6.5, 7, 7.5, -3.5])
            stones = random.sample(range(width * height), 2 + number % 3) if random.random() < 0.3 else []
            moves = _moves(width, height, stones, random)
            colours = (WHITE, BLACK) if stones else (BLACK, WHITE)
            text = f"(;SZ[{width}:{height}]RU[{rules}]KM[{komi}]" + (f"HA[{len(stones)}]AB" if stones else "")
            text += "".join(f"[{to_sgf(point, width, height)}]" for point in stones)
            words = ["" if move == width * height else to_sgf(move, width, height) for move in moves]
            text += "".join(f";{'BW'[colours[k % 2] == WHITE]}[{word}]" for k, word in enumerate(words)) + ")"
            planes, inputs, _ = encode_katago(kifu.read_sgf(text.encode()))
            plies = [k for k, move in enumerate(moves) if move != width * height]  # passes give no example
            chosen = sorted(random.sample(range(len(plies)), min(PER_GAME, len(plies))))
            with torch.inference_mode():
                ours = net(torch.from_numpy(planes[chosen].astype(np.float32)), torch.from_numpy(inputs[chosen]))
            examples = {plies[k]: row for row, k in enumerate(chosen)}
            if number % len(RULES) == 0:  # a new size takes seconds
                engine(f"rectangular_boardsize {width} {height}")
            # The names of rules would also set friendlyPassOk, which hides some passes from the net.
            engine(f"kata-set-rules {KataRules.parse(rules)}")
            engine(f"komi {komi}")
            engine("clear_board")
            if stones:
                engine("set_free_handicap " + " ".join(to_gtp(point, width, height) for point in stones))
            for ply, move in enumerate(moves):
                if ply in examples:
                    white = colours[ply % 2] == WHITE
                    worst = np.maximum(worst, _differences(ours, examples[ply], engine.raw_output(), white))
                    positions += 1
                vertex = "pass" if move == width * height else to_gtp(move, width, height)
                engine(f"play {'BW'[colours[ply % 2] == WHITE]} {vertex}")
    print(f"{positions} positions: policy, win rate, lead, score, ownership differ by at most {worst}")
    assert positions >= 200
    assert (worst < [1e-3, 1e-3, 0.02, 0.02, 5e-3]).all()


def _differences(ours, k, engine, white):
    """Return the largest differences in policy, win rate, lead, score and ownership."""
    legal = ~np.isnan(engine.policy)
    logits = ours.policy[k, 0].double().numpy()
    policy = np.where(legal, np.exp(logits - logits[legal].max()), 0)
    sign = 1 if white else -1
    win, loss, none = ours.result[k].tolist()
    result = np.array([win, loss, none] if white else [loss, win, none])
    return np.array([
        np.abs(policy / policy.sum() - np.nan_to_num(engine.policy)).max(),
        np.abs(result - engine.result).max(),
        abs(sign * float(ours.lead[k]) - engine.lead),
        abs(sign * float(ours.score[k]) - engine.score),
        np.abs(sign * ours.ownership[k].numpy() - engine.ownership).max(),
    ])  # fmt: skip


SMALL = [
    *((["residual", "pooling"], {"version": version}) for version in range(8, 18)),
    *(([kind], {}) for kind in BLOCKS if kind != "feed-forward"),  # KataGo runs gated ones only
    (["pooling"], {"rms": True}),
    (["residual"], {"human": True}),
]


@pytest.mark.subprocess
@pytest.mark.parametrize(("kinds", "options"), SMALL)
def test_small_nets_equal_the_engine(tmp_path, kinds, options):
    """Every block, version of the format and kind of norm, and the ranks of a human-style net."""
    file = small_net(kinds, **options)
    write_kata_net(tmp_path / "net.bin.gz", file)
    assert (_compare(kata.KataNet(file).eval(), tmp_path) < [1e-5, 1e-5, 2e-3, 2e-3, 1e-5]).all()


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["kata-b3c12", "kata-b3c12nbt", "kata-b2c32tf"])
def test_trained_nets_equal_the_engine(tmp_path, name):
    katrain_net()
    heads = {"value": 0.5, "ownership": 0.5, "score": 0.1}
    recipe = tiny(
        net=name, planes="katago22", inputs=["profile"], heads=heads, positions={"passes": True}, batch_size=16,
        validation_positions=64,
    )  # fmt: skip
    learn.train.train(recipe, [SAMPLE], tmp_path / "run")
    net = learn.net.open_net(tmp_path / "run")
    learn.export.export_net(tmp_path / "run", tmp_path / "net.bin.gz")
    differences = _compare(net.module.net, tmp_path)
    assert (differences[[0, 1, 2, 4]] < [1e-5, 1e-5, 2e-3, 1e-5]).all()
    ours = kata.KataNet(read_kata_net(tmp_path / "net.bin.gz")).eval()
    assert (_compare(ours, tmp_path, plays=7) < [1e-5, 1e-5, 2e-3, 2e-3, 1e-5]).all()


def _compare(net, folder, plays=0):
    """Return the largest differences between a net and the engine with net.bin.gz on 9x9, after it has played."""
    known = replace(Conditions.unknown(1), rating=np.array([[27, 34]], np.float32), year=np.full(1, 2016, np.float32))
    profile = {"humanSLProfile": "preaz_5k_3d"} if net.is_human else {}
    moves = ["E5", "C7", "G3"]
    with Gtp(folder / "net.bin.gz", folder, **profile) as engine:
        for command in ("boardsize 9", "kata-set-rules japanese", "komi 6.5"):
            engine(command)
        for k, move in enumerate(moves):
            engine(f"play {'BW'[k % 2]} {move}")
        for k in range(plays):
            moves.append(engine(f"genmove {'WB'[k % 2]}").strip())
        found = engine.raw_output()
    assert set(moves).isdisjoint({"pass", "resign"})
    white, free = len(moves) % 2 == 1, next(vertex for vertex in ("J1", "A1", "A9") if vertex not in moves)
    points = [to_sgf(parse_gtp(move, 9), 9) for move in [*moves, free]]
    text = "".join(f";{'BW'[k % 2]}[{point}]" for k, point in enumerate(points))
    planes, inputs, _ = encode_katago(kifu.read_sgf(f"(;SZ[9]RU[Japanese]KM[6.5]{text})".encode()))
    metadata = torch.from_numpy(profile_rows(known, 81)[:, int(white)]) if net.is_human else None
    with torch.inference_mode():
        ours = net(torch.from_numpy(planes[-1:].astype(np.float32)), torch.from_numpy(inputs[-1:]), metadata)
    return _differences(ours, 0, found, white)


@pytest.mark.subprocess
def test_the_file_survives_to_the_byte():
    assert kata_net_bytes(read_kata_net(katrain_net())) == gzip.decompress(katrain_net().read_bytes())

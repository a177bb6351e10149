"""KataGo's nets in torch against KataGo's own engine, position by position."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch

import kifu
from kata_engine import Gtp, katrain_net
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.katago.encoder import encode_katago
from kifu.katago.net import KataNet
from kifu.katago.net_file import kata_net_bytes, read_kata_net
from kifu.point import BLACK, WHITE, to_gtp, to_sgf

pytestmark = pytest.mark.slow

RULES = ("tromp-taylor", "japanese", "chinese", "aga", "new-zealand", "ancient-area", "ancient-territory", "aga-button")
SIZES = ((19, 19), (13, 13), (9, 9), (13, 9), (7, 11))
PER_GAME = 7


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


def test_equals_the_engine(tmp_path):
    """Policy within 1e-3, win rate 1e-3, lead 0.02, ownership 5e-3, over sizes, handicap, ko, passes and rules."""
    file = read_kata_net(katrain_net())
    net, random = KataNet(file).eval(), Random(7)
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
            chosen = set(random.sample(plies, min(PER_GAME, len(plies))))
            with torch.inference_mode():
                ours = net(torch.from_numpy(planes.astype(np.float32)), torch.from_numpy(inputs))
            if number % len(RULES) == 0:  # a new size takes seconds
                engine(f"rectangular_boardsize {width} {height}")
            engine(f"kata-set-rules {rules}")
            engine(f"komi {komi}")
            engine("clear_board")
            if stones:
                engine("set_free_handicap " + " ".join(to_gtp(point, width, height) for point in stones))
            for ply, move in enumerate(moves):
                if ply in chosen:
                    white = colours[ply % 2] == WHITE
                    worst = np.maximum(worst, _differences(ours, plies.index(ply), engine.raw_output(), white))
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


def test_the_file_survives_to_the_byte():
    """Reading and writing the wheel's file gives the same bytes."""
    import gzip

    assert kata_net_bytes(read_kata_net(katrain_net())) == gzip.decompress(katrain_net().read_bytes())

"""Exhaustive counts, compiled: every legal position of a board, and every sequence of moves from the empty one."""

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kifu.go import rules as rl
from kifu.go import state
from kifu.go.board import Board
from kifu.kernel import inline_kernel, kernel

# Indices of the totals of `_closure`
POSITIONS, PLAYS, SUICIDES, CAPTURED, KOS, DISAGREEMENTS, N_TOTALS = range(7)


@inline_kernel
def _put(s, code, powers):
    """Sets the board to the position of that code: digit p in base 3 is the colour of point p."""
    for p in range(powers.shape[0]):
        s.colour[p] = code // powers[p] % 3
    state.rebuild_chains(s)


@kernel
def _closure(s, history, powers, seen, queue, totals, by_liberties):
    """Plays every move of both colours, suicides too, from every position that this reaches from the empty board.

    seen: [3**n / 8] uint8, one bit a code.  queue: the codes, first come first served, as many as there is room for.
    by_liberties: [n + 1], how many stones have so many liberties.  Returns 0, or -1 if the queue is full.
    """
    n = powers.shape[0]
    seen[0] |= 1
    queue[0] = 0
    tail = 1
    at = 0
    while at < tail:
        code = np.int64(queue[at])
        at += 1
        _put(s, code, powers)
        for p in range(n):
            if s.colour[p] != state.EMPTY:
                by_liberties[s.n_liberties[s.chain_id[p]]] += 1
        for c in range(1, 3):
            for p in range(n):
                allowed = rl.illegal_reason(s, history, p, c, rl.KO_NONE, state.SUICIDE_REMOVED) == 0
                tame = rl.illegal_reason(s, history, p, c, rl.KO_NONE, state.SUICIDE_FORBIDDEN) == 0
                expected = rl.hash_after(s, p, c) if allowed else s.hash[0]
                played = state.play(s, p, np.uint8(c), state.SUICIDE_REMOVED) == 0
                if played != allowed or s.hash[0] != expected:
                    totals[DISAGREEMENTS] += 1
                if not played:
                    continue
                if tame == (s.scalars[state.LAST_POINT] < 0):
                    totals[DISAGREEMENTS] += 1
                totals[PLAYS] += 1
                totals[SUICIDES] += s.scalars[state.LAST_POINT] < 0
                totals[CAPTURED] += s.scalars[state.LAST_CAPTURED]
                totals[KOS] += s.scalars[state.KO_POINT] >= 0
                after = 0
                for q in range(n):
                    after += s.colour[q] * powers[q]
                if not seen[after >> 3] & (1 << (after & 7)):
                    seen[after >> 3] |= 1 << (after & 7)
                    if tail == queue.shape[0]:
                        return -1
                    queue[tail] = after
                    tail += 1
                _put(s, code, powers)
    totals[POSITIONS] = tail
    return 0


class Closure(NamedTuple):
    codes: np.ndarray  # [positions] uint32
    totals: dict[int, int]
    by_liberties: list[int]  # [most liberties that a stone has]: stones with 1, 2, ... liberties

    def colours(self, n):
        """[positions, n]: the colour of each point."""
        return self.codes[:, None] // 3 ** np.arange(n) % 3


def closure(width, height, room=1 << 20):
    """All positions, in room for so many."""
    n = width * height
    totals, by_liberties = np.zeros(N_TOTALS, np.int64), np.zeros(n + 1, np.int64)
    queue, seen = np.zeros(room, np.uint32), np.zeros(3**n // 8 + 1, np.uint8)
    status = _closure(
        state.new_state(width, height), rl.new_history(0), 3 ** np.arange(n), seen, queue, totals,
        by_liberties,
    )  # fmt: skip
    assert status == 0
    assert by_liberties[0] == 0
    assert np.bitwise_count(seen).sum() == totals[POSITIONS]
    return Closure(queue[: totals[POSITIONS]], dict(enumerate(totals.tolist())), np.trim_zeros(by_liberties).tolist())


@inline_kernel
def _unremember(history, situation):
    """Undoes the last `remember`, which found the situation new: no later one can have been put past its slot."""
    history.stamps[rl._slot(history, situation)] = 0
    history.scalars[rl.COUNT] -= 1


@kernel
def _perft(s, history, ko, suicide, either, root, depth, colours, numbers, hashes, tried, counts):
    """Counts the sequences of moves from the board as it is, Black first, without passes: counts[d] of length d.

    either: whether both colours may move in every position, as passes would let them.  root: the one first move to
    follow, or -1.  The last move of the longest sequences is not played, only counted.
    By depth: colours [depth, n + 1], numbers and hashes, to go back to; tried [depth], the last move tried there.
    """
    n = s.neighbours.shape[0]
    d = 0
    tried[0] = -1 if root < 0 else root - 1
    for p in range(n):
        colours[0, p] = s.colour[p]
    for i in range(state.N_SCALARS):
        numbers[0, i] = s.scalars[i]
    while True:
        first, last = (0, 2 * n) if either else (n * (d & 1), n * (d & 1) + n)
        here = max(tried[d] + 1, first)
        if d == 0 and root >= 0:
            last = root + 1
        while here < last and rl.illegal_reason(s, history, here % n, 1 + here // n, ko, suicide) != 0:
            here += 1
        tried[d] = here
        if here < last and d == depth - 1:
            counts[depth] += 1
        elif here < last:
            hashes[d] = s.hash[0]
            rl.make_move(s, history, here % n, np.uint8(1 + here // n), ko, suicide)
            d += 1
            counts[d] += 1
            tried[d] = -1
            for p in range(n):
                colours[d, p] = s.colour[p]
            for i in range(state.N_SCALARS):
                numbers[d, i] = s.scalars[i]
        elif d == 0:
            return
        else:
            d -= 1
            for p in range(n):
                s.colour[p] = colours[d, p]
            state.rebuild_chains(s)
            for i in range(state.N_SCALARS):
                s.scalars[i] = numbers[d, i]
            if ko >= rl.KO_POSITIONAL:
                _unremember(history, rl.situation_hash(hashes[d], 1 + tried[d] // n, ko))


def perft(width, height, rules, depth, either=False, root=-1):
    """[depth + 1]: how many sequences of each length there are; one of length 0."""
    counts = np.zeros(depth + 1, np.int64)
    counts[0] = 1
    _perft(
        state.new_state(width, height), rl.new_history(depth), *rules.codes, either, root, depth,
        np.zeros((depth, width * height + 1), np.uint8), np.zeros((depth, state.N_SCALARS), np.int64),
        np.zeros(depth, np.uint64), np.zeros(depth, np.int64), counts,
    )  # fmt: skip
    return counts.tolist()


class PerftCase(NamedTuple):
    """An entry of a .perft file: `id`, `board`, `rules`, and how many sequences of each length there are."""

    id: str
    width: int
    height: int
    rules: rl.Rules
    counts: dict[int, int]


def read_perft(path: Path):
    """The entries of a file, each begun by its `id`. # begins a comment."""
    cases = []
    for line in path.read_text().splitlines():
        match line.partition("#")[0].split():
            case []:
                pass
            case ["id", name]:
                entry = {"id": name, "counts": {}}
                cases.append(entry)
            case ["board", size]:
                entry["width"], entry["height"] = map(int, size.split("x"))
            case ["rules", ko, suicide]:
                ko, suicide = ko.removeprefix("ko="), suicide.removeprefix("suicide=")
                entry["rules"] = rl.Rules(ko, {"yes": True, "no": False}[suicide])
            case ["perft", depth, count]:
                entry["counts"][int(depth)] = int(count)
            case _:
                raise ValueError(f"{path.name}: {line!r}")
    return [PerftCase(**entry) for entry in cases]


def check_perft(case: PerftCase, limit: int):
    """Compares the counts up to `limit`; prints the speed, and on failure the count below every first move."""
    wanted = {depth: count for depth, count in case.counts.items() if count <= limit}
    deepest = max(wanted)
    start = time.perf_counter()
    got = perft(case.width, case.height, case.rules, deepest)
    seconds = time.perf_counter() - start
    print(f"{case.id}: depth {deepest}, {sum(got):,} nodes, {sum(got) / seconds / 1e6:.1f} million a second")
    if wrong := [depth for depth, count in wanted.items() if got[depth] != count]:
        depth = wrong[0]
        lines = [f"{case.id}: depth {depth}: {got[depth]:,} sequences, not {wanted[depth]:,}"]
        board = Board(case.width, case.height, rules=case.rules)
        for p in np.flatnonzero(board.legal()[:-1]).tolist():
            after = board.copy()
            after.play(p)
            below = perft(case.width, case.height, case.rules, depth, root=p)[depth]
            lines += [str(after), f"point {p}: {below:,} below"]
        raise AssertionError("\n".join(lines))

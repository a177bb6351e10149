"""KataGo's network inputs, version 7, of positions: the kernels that follow games and fill them, and the encoder.

Planes and scalar inputs are those of `fillRowV7` in KataGo v1.17.2, called as its training writer calls it: a draw
counts as half a win, playouts are not doubled, no history is hidden. docs/planes/katago22.md describes each input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import Array, Floats, Hashes, Indices
from kifu.errors import DropReason, GameError
from kifu.go.area import AreaWorkspace, find_areas, new_area_workspace
from kifu.go.ladder import LadderSearch, ladder_moves, laddered_stones
from kifu.go.replay import GameMoves, ReplayArrays, colour_of, game_moves, replay_arrays, set_up
from kifu.go.rules import contains, hash_after, situation_hash
from kifu.go.state import (
    EMPTY,
    KO_POINT,
    ONE,
    SUICIDE_REMOVED,
    ZERO,
    add_point,
    bit,
    clear,
    copy_bits,
    has_chain_without_liberties,
    has_own_neighbour,
    last_point,
    would_have_liberty,
)
from kifu.katago import history as kata
from kifu.katago.rules import (
    KO_SIMPLE,
    KO_SITUATIONAL,
    RULES_COLUMNS,
    TAX_ALL,
    TAX_NONE,
    recorded_komi,
    resolve_rules_or_default,
)
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.planes.context import HEIGHT, WIDTH, new_context
from kifu.planes.encoder import (
    BoardEmbedding,
    EncodeTask,
    FrameEncoder,
    GameContext,
    check_kept,
    check_played,
    map_game,
)
from kifu.planes.packing import Labels, Planes, pack_planes
from kifu.planes.registry import KATAGO22
from kifu.point import POINT_MASK, WHITE, WHITE_BIT
from kifu.records.game import Game
from kifu.records.games import GameArrays

_KEPT = int(DropReason.KEPT)
_OFF_BOARD = int(DropReason.OFF_BOARD)
_SETUP_TWICE = int(DropReason.SETUP_TWICE)
_SETUP_LATER = int(DropReason.SETUP_LATER)
_SETUP_DEAD = int(DropReason.SETUP_DEAD)
_AFTER_END = int(DropReason.AFTER_END)

_ALL_PLIES = 1 << 16

PLANES, INPUTS = 22, 19

# Indices of planes and scalar inputs that the code below uses more than once
_KO_PLANE, _LAST_MOVE_PLANE, _LADDER_PLANE, _LADDER_MOVE_PLANE, _AREA_PLANE = 6, 9, 14, 17, 18
_KO_INPUT, _WAVE_INPUT = 6, 18

N_LAST_MOVES = 5


class KataGames(NamedTuple):
    """Games for kernels: arrays of many games, R of them chosen. rules: [R, 8] int64, rows of `rule_codes`."""

    arrays: ReplayArrays
    root_setup: npt.NDArray[np.uint16]
    game_index: Indices
    rules: Indices


def kernel_games(games: GameArrays, game_index: Indices, rules: npt.NDArray[np.void]) -> KataGames:
    """Return the chosen games, [R], under their rules, [R] of `GAME_RULES`, as kernels take them."""
    return KataGames(replay_arrays(games), writable_view(games.root_setup), game_index, kata.rule_codes(rules))


class KataWorkspace(NamedTuple):
    """Scratch memory of one thread, for boards of one size embedded in a frame of n points.

    Attributes:
        on_board: [W] uint64 bit set of the frame's points that are on the board.
        laddered: [3, W], the stones caught in ladders before move t at laddered[t % 3].
        ladder_moves: [2, W] bit sets: moves that capture in a ladder, moves that escape.
        area: [2, W], Black's and White's area.
    """

    history: kata.BoardHistory
    on_board: Hashes
    geometry: Indices
    ladders: LadderSearch
    laddered: Hashes
    ladder_moves: Hashes
    area_workspace: AreaWorkspace
    area: Hashes
    planes: Hashes


def new_workspace(width: int, height: int, frame_width: int, frame_height: int, plies: int) -> KataWorkspace:
    """Return a workspace for games of one size, in a frame of another, of at most `plies` moves each."""
    context = new_context(width, height, frame_width, frame_height, 0)
    words = len(context.s.words)
    return KataWorkspace(
        history=kata.new_board_history(context.s, plies), on_board=context.board, geometry=context.geometry,
        ladders=context.ladders, laddered=np.zeros((3, words), np.uint64),
        ladder_moves=np.zeros((2, words), np.uint64), area_workspace=new_area_workspace(frame_width, frame_height),
        area=np.zeros((2, words), np.uint64), planes=np.zeros((PLANES, words), np.uint64),
    )  # fmt: skip


@inline_kernel
def _may_repeat(h: kata.BoardHistory, p: Any, c: Any) -> Any:
    """Return whether a stone c on the empty point p is no forbidden ko or suicide and could repeat a position."""
    s = h.s
    if p == s.scalars[KO_POINT]:
        return False
    if would_have_liberty(s, p, c):
        return h.ever_occupied[p >> 6] & bit(p) != ZERO
    return h.rules[kata.SUICIDE] == SUICIDE_REMOVED and has_own_neighbour(s, p, c)


@inline_kernel
def add_superko_bans(h: kata.BoardHistory, on_board: Any, out: Any) -> None:
    """Add points that superko, but not simple ko, forbids the next player to out [W]. on_board: [W], all points."""
    s, c = h.s, h.scalars[kata.NEXT_PLAYER]
    if h.rules[kata.KO] == KO_SIMPLE or h.scalars[kata.TURNS] == 0:
        return
    ko = kata.board_ko_rule(h)
    for i in range(len(s.words)):
        word = on_board[i]
        if h.rules[kata.SUICIDE] != SUICIDE_REMOVED:
            word &= h.ever_occupied[i]
        while word != ZERO:
            p = last_point(i, word)
            word &= word - ONE
            if (
                s.colour[p] == EMPTY
                and _may_repeat(h, p, c)
                and contains(h.seen, situation_hash(hash_after(s, p, c), 3 - c, ko))
            ):
                out[i] |= bit(p)


@inline_kernel
def _fill_stones(w: KataWorkspace, own: Any) -> None:
    """Fill the planes of the board, both sides, and 1, 2 and 3 liberties. own: the mover's index by colour."""
    s, planes = w.history.s, w.planes
    stones = s.stones_by_liberties
    for i in range(len(s.words)):
        planes[0, i] = w.on_board[i]
        planes[1, i] = stones[own, 0, i] | stones[own, 1, i] | stones[own, 2, i]
        planes[2, i] = stones[1 - own, 0, i] | stones[1 - own, 1, i] | stones[1 - own, 2, i]
        for k in range(3):
            planes[3 + k, i] = stones[0, k, i] | stones[1, k, i]
    for i in range(len(s.words)):  # plane 5 still includes chains of more than 3 liberties
        word = planes[5, i]
        while word != ZERO:
            chain = s.chain_id[last_point(i, word)]
            word &= ~s.stones[chain, i]
            if s.n_liberties[chain] > 3:
                for j in range(i, len(s.words)):
                    planes[5, j] &= ~s.stones[chain, j]


@inline_kernel
def _fill_bans(w: KataWorkspace) -> None:
    ko = w.history.s.scalars[KO_POINT]
    if ko >= 0:
        add_point(w.planes[_KO_PLANE], ko)
    add_superko_bans(w.history, w.on_board, w.planes[_KO_PLANE])


@inline_kernel
def _fill_last_moves(w: KataWorkspace, moves: Any, t: Any, c: Any, inputs: Any) -> Any:
    """Fill the last moves, as long as the players alternate. Returns their number."""
    n = w.history.s.neighbours.shape[0]
    for k in range(min(N_LAST_MOVES, t)):
        move = moves[t - 1 - k]
        if (move & WHITE_BIT != 0) == ((c == WHITE) == (k % 2 == 0)):
            return k
        p = np.int64(move & POINT_MASK)
        if p == n:
            inputs[k] = 1
        else:
            add_point(w.planes[_LAST_MOVE_PLANE + k], p)
    return min(N_LAST_MOVES, t)


@inline_kernel
def _fill_ladders(w: KataWorkspace, t: Any, c: Any, turns: Any) -> None:
    """Fill the laddered stones now and before each of the last two of `turns` moves, and the capturing moves."""
    s, planes = w.history.s, w.planes
    ladder_moves(s, w.ladders, c, w.ladder_moves[0], w.ladder_moves[1])
    for ago in range(3):
        copy_bits(w.laddered[(t - min(ago, turns)) % 3], planes[_LADDER_PLANE + ago])
    copy_bits(w.ladder_moves[0], planes[_LADDER_MOVE_PLANE])


@inline_kernel
def _fill_areas(w: KataWorkspace, own: Any) -> None:
    h = w.history
    if h.rules[kata.TERRITORY] != 0:
        return
    find_areas(
        h.s,
        w.area_workspace,
        w.on_board,
        h.rules[kata.SUICIDE] == SUICIDE_REMOVED,
        h.rules[kata.TAX] != TAX_NONE,
        w.area,
    )
    copy_bits(w.area[own], w.planes[_AREA_PLANE])
    copy_bits(w.area[1 - own], w.planes[_AREA_PLANE + 1])


@inline_kernel
def own_komi(h: kata.BoardHistory, c: Any) -> Any:
    """Return player c's float32 points besides the board: komi, handicap, moves, button; -0 for Black as in KataGo."""
    white = np.float32(0.5 * (h.rules[kata.KOMI] + kata.white_bonus(h)))
    return white if c == WHITE else -white


@inline_kernel
def _komi_wave(komi: Any, even: Any) -> Any:
    """Return a triangle wave of period 2 that rises through 0 where a draw is possible. even: the board's parity."""
    floor = 2 * math.floor(komi / 2) if even else 2 * math.floor((komi - 1) / 2) + 1
    above = abs(komi - floor)  # never -0
    if above < 0.5:
        return above
    return 1 - above if above < 1.5 else above - 2


@inline_kernel
def _fill_inputs(w: KataWorkspace, c: Any, inputs: Any) -> None:
    """Fill the scalar inputs, except for those of passes among the last moves."""
    h = w.history
    rules = h.rules
    points = w.geometry[WIDTH] * w.geometry[HEIGHT]
    komi = min(max(own_komi(h, c), np.float32(-points - 20)), np.float32(points + 20))
    inputs[5] = komi / np.float32(20)
    if rules[kata.KO] != KO_SIMPLE:
        inputs[_KO_INPUT] = 1
        inputs[_KO_INPUT + 1] = -0.5 if rules[kata.KO] == KO_SITUATIONAL else 0.5
    inputs[8] = 1 if rules[kata.SUICIDE] == SUICIDE_REMOVED else 0
    inputs[9] = rules[kata.TERRITORY]
    inputs[10] = 1 if rules[kata.TAX] != TAX_NONE else 0
    inputs[11] = 1 if rules[kata.TAX] == TAX_ALL else 0
    inputs[14] = 1 if kata.pass_would_end_phase(h, c) else 0
    inputs[17] = h.scalars[kata.HAS_BUTTON]
    if rules[kata.TERRITORY] == 0:
        inputs[_WAVE_INPUT] = _komi_wave(komi, points % 2 == 0)


@inline_kernel
def _fill_position(w: KataWorkspace, moves: Any, t: Any, c: Any, out: Any, inputs: Any) -> None:
    """Fill out [PLANES, bytes] and inputs [INPUTS] for the position before move t, made by c."""
    own = np.int64(c) - 1
    for k in range(_KO_PLANE, PLANES):
        for i in range(len(w.history.s.words)):
            w.planes[k, i] = ZERO
    for k in range(INPUTS):
        inputs[k] = 0
    _fill_stones(w, own)
    _fill_bans(w)
    turns = _fill_last_moves(w, moves, t, c, inputs)
    _fill_ladders(w, t, c, turns)
    _fill_areas(w, own)
    _fill_inputs(w, c, inputs)
    pack_planes(w.history.s.words, w.planes, out)


@inline_kernel
def _place_root_setup(h: kata.BoardHistory, game: GameMoves, n_root: Any) -> Any:
    """Place a game's first n_root setup stones on the empty board. Returns 0, or why KataGo rejects them."""
    s = h.s
    for i in range(len(s.words)):
        h.ever_occupied[i] = ZERO
    for k in range(n_root):
        p = np.int64(game.setup[k] & POINT_MASK)
        if p >= s.neighbours.shape[0]:
            return _OFF_BOARD
        if h.ever_occupied[p >> 6] & bit(p) != ZERO:
            return _SETUP_TWICE
        h.ever_occupied[p >> 6] |= bit(p)
    if n_root > 0:
        set_up(s, game, 0, n_root, _ALL_PLIES)
        if has_chain_without_liberties(s):
            return _SETUP_DEAD
    return _KEPT


@inline_kernel
def load_game(h: kata.BoardHistory, games: KataGames, r: Any, table: Any, buffers: Any) -> Any:
    """Place the setup of a game's root node on the board and start the game, if it has moves.

    table: where each point of the game's board is in the frame, see `kifu.planes.encoder.BoardEmbedding`.
    buffers: two of uint16 that receive the game's moves and setup in points of the frame.
    Returns 0, or the reason why KataGo rejects the setup.
    """
    g = games.game_index[r]
    game = map_game(game_moves(games.arrays, g), table, buffers[0], buffers[1])
    clear(h.s)
    reason = _place_root_setup(h, game, np.int64(games.root_setup[g]))
    if reason == _KEPT and game.moves.shape[0] > 0:
        kata.start_game(h, games.rules[r], colour_of(game.moves[0]))
    return reason


@inline_kernel
def _later_setup(games: KataGames, r: Any) -> Any:
    """Return the ply of the first setup after the root node, or the number of moves."""
    g, arrays = games.game_index[r], games.arrays
    k = arrays.setup_offset[g] + np.int64(games.root_setup[g])
    if k < arrays.setup_offset[g + 1]:
        return np.int64(arrays.setup_ply[k])
    return arrays.move_offset[g + 1] - arrays.move_offset[g]


@inline_kernel
def _needs_ladders(slot_of_move: Any, at: Any, left: Any) -> Any:
    """Return whether this position or one of the two after it, of `left` in the game, is to be filled."""
    wanted = False
    for k in range(min(left, 3)):
        wanted |= slot_of_move[at + k] >= 0
    return wanted


@kernel
def encode_games(
    w: KataWorkspace, games: KataGames, task: EncodeTask, embedding: BoardEmbedding, subset: Any, inputs: Any
) -> None:
    """Encode the positions of some games that have a slot; see `KataEncoder`.

    Rules, setup and the end of a game are KataGo's, hence a loop other than `kifu.go.replay.replay_game`.

    Args:
        task: Of the same R games, with the output arrays.
        subset: [K] int64, indices from 0 to R - 1.
    """
    h = w.history
    s = h.s
    n = s.neighbours.shape[0]
    buffers = task.moves, task.setup
    moves = task.moves
    for j in range(subset.shape[0]):
        r = subset[j]
        first = task.slot_offset[r]
        plies = task.slot_offset[r + 1] - first
        later_setup = _later_setup(games, r)
        reason = load_game(h, games, r, embedding.table[task.symmetry[r]], buffers)
        t = np.int64(0)
        while t < plies and reason == _KEPT:
            if later_setup <= t:
                reason = _SETUP_LATER
                break
            if kata.is_over(h):
                reason = _AFTER_END
                break
            p = np.int64(moves[t] & POINT_MASK)
            c = colour_of(moves[t])
            at = first + t
            if _needs_ladders(task.slot_of_move, at, plies - t):
                laddered_stones(s, w.ladders, w.laddered[t % 3])
            slot = task.slot_of_move[at]
            if slot >= 0 and p <= n:
                _fill_position(w, moves, t, c, task.out[slot], inputs[slot])
                task.label[slot] = embedding.label_of[p]
            reason = kata.play_move(h, p, c)
            if reason == _KEPT:
                t += 1
        task.drop[r] = reason
        task.ply[r] = t


MIN_SIZE, MAX_SIZE = 2, 19
"""The sizes of boards that KataGo plays on."""

_MIN_PLIES = 512

ILLEGAL_MOVES = (DropReason.OCCUPIED, DropReason.SUICIDE, DropReason.KO, DropReason.SUPERKO)


@dataclass(frozen=True, slots=True)
class KataEncoder(FrameEncoder):
    """The encoder of `katago22@1` for boards of one size. KataGo's files have 19 x 19, with smaller boards embedded.

    It has no state and serves any number of threads. Raises GameError for a size that is not within 2 to 19.
    """

    MIN_SIDE: ClassVar[int] = MIN_SIZE
    RECORD_RULES: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (MIN_SIZE <= self.width <= MAX_SIZE and MIN_SIZE <= self.height <= MAX_SIZE):
            raise GameError(
                f"{self.plane_set.name} is for boards from {MIN_SIZE} x {MIN_SIZE} to {MAX_SIZE} x {MAX_SIZE}, "
                f"got {self.width} x {self.height}"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the catalogue that `context` reads."""
        return RULES_COLUMNS

    def context(self, batch: pa.RecordBatch) -> GameContext:
        """Return the rules of each game, see `resolve_rules_or_default`."""
        return GameContext(*resolve_rules_or_default(batch["rules"], recorded_komi(batch), batch["handicap"]))

    def _new_scratch(self) -> dict[tuple[int, int, int], KataWorkspace]:
        return {}

    def _fill(
        self,
        scratch: dict[tuple[int, int, int], KataWorkspace],
        games: Any,
        task: EncodeTask,
        parts: Sequence[tuple[BoardEmbedding, Indices]],
        labels: Mapping[str, Array],
        context: Array,
    ) -> None:
        """Encode positions. context: [R] of `GAME_RULES`.

        A game is followed under its own rules as far as KataGo follows it. Moves out of turn end nothing, but earlier
        moves are then left out of the history planes. Reasons to end early, besides moves that the rules forbid:
        SETUP_LATER, setup after the root; AFTER_END, moves after the end of the game or, with territory scoring, of its
        normal phase; SETUP_TWICE and SETUP_DEAD, setup that KataGo rejects; WRONG_SIZE, a board that does not fit or
        has a side below 2.
        """
        inputs, slots, count = labels["globals"], len(task.out), len(task.game_index)
        if inputs.shape != (slots, INPUTS) or inputs.dtype != np.float32:
            raise ValueError(f"globals must be float32 [{slots}, {INPUTS}], got {inputs.dtype} {inputs.shape}")
        if len(context) != count:
            raise ValueError(f"context must have the rules of {count} games, got {len(context)}")
        plies = _MIN_PLIES
        while plies < len(task.moves):
            plies *= 2
        arrays = kernel_games(games, task.game_index, context)
        for embedding, subset in parts:
            key = embedding.width, embedding.height, plies
            if key not in scratch:
                scratch[key] = new_workspace(*key[:2], self.width, self.height, plies)
            encode_games(scratch[key], arrays, task, embedding, subset, inputs)

    def encode_game(self, game: Game) -> tuple[Planes, Labels]:
        """Return the planes and next moves of one game, see `encode_katago`."""
        planes, _, labels = encode_katago(game)
        return planes, labels


def encode_katago(game: Game) -> tuple[Planes, Floats, Labels]:
    """Encode one game as KataGo's planes and scalar inputs.

    Rules and komi are those of the record, by default KataGo's (`resolve_rules_or_default`). Passes give no example.
    See `kifu.encode` for the rest.

    Returns:
        planes: [T, 22, H, W] uint8 of 0 and 1.
        globals: [T, 19] float32, in the order of `kifu.planes.registry.KATAGO22.inputs`.
        labels: [T] int32, the next move as row * width + column.

    Raises:
        GameError: For a dropped game, a board, setup, rules or komi that KataGo rejects, moves after the end of the
            game, or setup after the root.
        IllegalMove: At the first move that the rules forbid.

    Examples:
        >>> import kifu
        >>> from kifu.katago.inputs import encode_katago
        >>> planes, inputs, labels = encode_katago(kifu.read_sgf(b"(;SZ[9]RU[Chinese]KM[7];B[cc];W[gg])"))
        >>> planes.shape, labels.tolist(), inputs[:, 5].tolist()  # komi of the side to move / 20
        ((2, 22, 9, 9), [20, 60], [-0.3499999940395355, 0.3499999940395355])
    """
    check_kept(game)
    encoder = KataEncoder(KATAGO22, game.width, game.height, False)
    planes, labels, drop, ply = encoder.encode_moves(game, _game_rules(game))
    if drop not in (DropReason.KEPT, *ILLEGAL_MOVES):
        raise GameError(f"KataGo follows {ply} of the game's {len(game)} moves: {drop.reason}")
    check_played(game, drop, ply)
    return planes, labels["globals"], labels["move"].astype(np.int32)


def _game_rules(game: Game) -> Array:
    """Return [1] of `GAME_RULES`. Raises GameError."""
    komi = game.komi if game.komi is not None or not game.text("KM") else np.nan
    rules, drop = resolve_rules_or_default(
        pa.array([game.rules or None], pa.string()),
        pa.array([komi], pa.float32()),
        pa.array([game.handicap], pa.int16()),
    )
    if drop[0]:
        text = game.rules if drop[0] == DropReason.RULES_UNKNOWN else game.text("KM")
        raise GameError(
            f"KataGo's planes need rules and komi that it knows: {DropReason(drop[0]).reason}: {text[:80]!r}"
        )
    return rules

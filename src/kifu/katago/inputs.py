"""The kernel of KataGo's inputs: follows games by a `BoardHistory` and draws the wanted positions as its version 7 has them.

Planes and numbers are those of `fillRowV7` in KataGo v1.17.2, called as its training writer calls it: a draw counts as
half a win, playouts are doubled for nobody, no history is hidden. docs/planes/katago22.md says what each holds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.go.area import AreaWorkspace, find_areas, new_area_workspace
from kifu.go.ladder import LadderSearch, ladder_moves, laddered_stones
from kifu.go.replay import GameMoves, set_up
from kifu.go.rules import contains, hash_after, situation_hash
from kifu.go.state import (
    EMPTY,
    KO_POINT,
    ONE,
    SUICIDE_REMOVED,
    ZERO,
    bit,
    clear,
    has_own_neighbour,
    would_have_liberty,
)
from kifu.katago.history import (
    BUTTON,
    KO,
    KOMI,
    NEXT,
    SUICIDE_CODE,
    TAX,
    TERRITORY,
    TURNS,
    BoardHistory,
    advance,
    begin,
    bonus,
    go_ko,
    is_over,
    new_board_history,
    pass_would_end,
)
from kifu.katago.rules import KO_SIMPLE, KO_SITUATIONAL, TAX_ALL, TAX_NONE
from kifu.kernel import inline_kernel, kernel
from kifu.planes.board_embedding import place
from kifu.planes.codegen import finish
from kifu.planes.context import HEIGHT, WIDTH, add_point, has_chain_without_liberties, new_context, some_point
from kifu.planes.features import copy_set
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT

_KEPT = int(DropReason.KEPT)
_OFF_BOARD = int(DropReason.OFF_BOARD)
_SETUP_TWICE = int(DropReason.SETUP_TWICE)
_SETUP_LATER = int(DropReason.SETUP_LATER)
_SETUP_DEAD = int(DropReason.SETUP_DEAD)
_AFTER_END = int(DropReason.AFTER_END)

_ALL = 1 << 16
"""More moves than come before any setup."""

PLANES, INPUTS = 22, 19

# Planes, and numbers beside them, that more than one line below speaks of
_KO_BAN, _LAST, _CAUGHT, _WORKS, _AREA = 6, 9, 14, 17, 18
_KO_RULE, _WAVE = 6, 18

LAST_MOVES = 5


class KataWorkspace(NamedTuple):
    """What one thread draws rows with, for boards of one size in a frame of n points.

    board: [W] uint64 bit set, the points that games have.  place: see `kifu.planes.context.View`.
    ladders: what is known of them.  caught: [3, W]: the stones caught in ladders before move t at caught[t % 3].
    moves: [2, W] bit sets: those that catch in a ladder, those that escape.
    areas: scratch.  area: [2, W], Black's and White's.  bits: [PLANES, W], the planes.
    """

    course: BoardHistory
    board: npt.NDArray[np.uint64]
    place: npt.NDArray[np.int64]
    ladders: LadderSearch
    caught: npt.NDArray[np.uint64]
    moves: npt.NDArray[np.uint64]
    areas: AreaWorkspace
    area: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint64]


def new_sheet(width: int, height: int, frame_width: int, frame_height: int, plies: int) -> KataWorkspace:
    """A sheet for games of that size in a frame of that size, of at most `plies` moves each."""
    view = new_context(width, height, frame_width, frame_height, 0)
    words = len(view.s.words)
    return KataWorkspace(
        course=new_board_history(view.s, plies),
        board=view.board,
        place=view.place,
        ladders=view.ladders,
        caught=np.zeros((3, words), np.uint64),
        moves=np.zeros((2, words), np.uint64),
        areas=new_area_workspace(frame_width, frame_height),
        area=np.zeros((2, words), np.uint64),
        bits=np.zeros((PLANES, words), np.uint64),
    )


@inline_kernel
def _may_repeat(course: BoardHistory, p: Any, c: Any) -> Any:
    """Whether the stone c on the empty point p is no ko or suicide that is forbidden, and could repeat a position."""
    s = course.s
    if p == s.scalars[KO_POINT]:
        return False
    if would_have_liberty(s, p, c):
        return course.ever[p >> 6] & bit(p) != ZERO
    return course.codes[SUICIDE_CODE] == SUICIDE_REMOVED and has_own_neighbour(s, p, c)


@inline_kernel
def superko_bans(course: BoardHistory, board: Any, out: Any) -> None:
    """Adds to the bit set out [W] what superko forbids the player who did not move last, but for what simple ko does.

    board: [W], the points there are.
    """
    s, c = course.s, course.scalars[NEXT]
    if course.codes[KO] == KO_SIMPLE or course.scalars[TURNS] == 0:
        return
    ko = go_ko(course)
    for i in range(len(s.words)):
        word = board[i]
        if course.codes[SUICIDE_CODE] != SUICIDE_REMOVED:
            word &= course.ever[i]
        while word != ZERO:
            p = 64 * i + some_point(word)
            word &= word - ONE
            if (
                s.colour[p] == EMPTY
                and _may_repeat(course, p, c)
                and contains(course.seen, situation_hash(hash_after(s, p, c), 3 - c, ko))
            ):
                out[i] |= bit(p)


@inline_kernel
def _draw_stones(sheet: KataWorkspace, own: Any) -> None:
    """The board, the stones of both sides, and those with 1, 2 and 3 liberties. own: the mover's index by colour."""
    s, bits = sheet.course.s, sheet.bits
    for i in range(len(s.words)):
        bits[0, i] = sheet.board[i]
        bits[1, i] = (
            s.stones_by_liberties[own, 0, i] | s.stones_by_liberties[own, 1, i] | s.stones_by_liberties[own, 2, i]
        )
        bits[2, i] = (
            s.stones_by_liberties[1 - own, 0, i]
            | s.stones_by_liberties[1 - own, 1, i]
            | s.stones_by_liberties[1 - own, 2, i]
        )
        for k in range(3):
            bits[3 + k, i] = s.stones_by_liberties[0, k, i] | s.stones_by_liberties[1, k, i]
    for i in range(len(s.words)):  # so far the last one has those with more than 3, too
        word = bits[5, i]
        while word != ZERO:
            h = s.chain_id[64 * i + some_point(word)]
            word &= ~s.stones[h, i]
            if s.n_liberties[h] > 3:
                for j in range(i, len(s.words)):
                    bits[5, j] &= ~s.stones[h, j]


@inline_kernel
def _draw_bans(sheet: KataWorkspace) -> None:
    ko = sheet.course.s.scalars[KO_POINT]
    if ko >= 0:
        add_point(sheet.bits[_KO_BAN], ko)
    superko_bans(sheet.course, sheet.board, sheet.bits[_KO_BAN])


@inline_kernel
def _draw_history(sheet: KataWorkspace, words: Any, t: Any, c: Any, inputs: Any) -> Any:
    """The last moves, as far back as the sides take turns. Returns how many there are."""
    n = sheet.course.s.neighbours.shape[0]
    for k in range(min(LAST_MOVES, t)):
        word = words[t - 1 - k]
        if (word & WHITE_BIT != 0) == ((c == WHITE) == (k % 2 == 0)):
            return k
        p = np.int64(word & POINT_MASK)
        if p == n:
            inputs[k] = 1
        else:
            add_point(sheet.bits[_LAST + k], p)
    return min(LAST_MOVES, t)


@inline_kernel
def _draw_ladders(sheet: KataWorkspace, t: Any, c: Any, turns: Any) -> None:
    """What is caught in a ladder now and was before each of the last two of `turns` moves, and the moves that catch."""
    s, bits = sheet.course.s, sheet.bits
    ladder_moves(s, sheet.ladders, c, sheet.moves[0], sheet.moves[1])
    for ago in range(3):
        copy_set(sheet.caught[(t - min(ago, turns)) % 3], bits[_CAUGHT + ago])
    copy_set(sheet.moves[0], bits[_WORKS])


@inline_kernel
def _draw_areas(sheet: KataWorkspace, own: Any) -> None:
    """Whose each point is, if area is counted."""
    course = sheet.course
    if course.codes[TERRITORY] != 0:
        return
    find_areas(
        course.s, sheet.areas, sheet.board, course.codes[SUICIDE_CODE] == SUICIDE_REMOVED,
        course.codes[TAX] != TAX_NONE, sheet.area,
    )  # fmt: skip
    copy_set(sheet.area[own], sheet.bits[_AREA])
    copy_set(sheet.area[1 - own], sheet.bits[_AREA + 1])


@inline_kernel
def own_komi(course: BoardHistory, c: Any) -> Any:
    """float32: the points that player c has beside the board: komi, handicap, moves made, the button.

    For Black 0 is -0, as KataGo has it.
    """
    white = np.float32(0.5 * (course.codes[KOMI] + bonus(course)))
    return white if c == WHITE else -white


@inline_kernel
def _wave(komi: Any, even: Any) -> Any:
    """The height at `komi` of a wave of period 2 that rises through 0 where a draw is possible. even: the board is."""
    floor = 2 * math.floor(komi / 2) if even else 2 * math.floor((komi - 1) / 2) + 1
    above = abs(komi - floor)  # never -0
    if above < 0.5:
        return above
    return 1 - above if above < 1.5 else above - 2


@inline_kernel
def _draw_numbers(sheet: KataWorkspace, c: Any, inputs: Any) -> None:
    """The numbers beside the planes, but for those that say which of the last moves were passes."""
    course = sheet.course
    codes = course.codes
    points = sheet.place[WIDTH] * sheet.place[HEIGHT]
    komi = min(max(own_komi(course, c), np.float32(-points - 20)), np.float32(points + 20))
    inputs[5] = komi / np.float32(20)
    if codes[KO] != KO_SIMPLE:
        inputs[_KO_RULE] = 1
        inputs[_KO_RULE + 1] = -0.5 if codes[KO] == KO_SITUATIONAL else 0.5
    inputs[8] = 1 if codes[SUICIDE_CODE] == SUICIDE_REMOVED else 0
    inputs[9] = codes[TERRITORY]
    inputs[10] = 1 if codes[TAX] != TAX_NONE else 0
    inputs[11] = 1 if codes[TAX] == TAX_ALL else 0
    inputs[14] = 1 if pass_would_end(course, c) else 0
    inputs[17] = course.scalars[BUTTON]
    if codes[TERRITORY] == 0:
        inputs[_WAVE] = _wave(komi, points % 2 == 0)


@inline_kernel
def _draw(sheet: KataWorkspace, words: Any, t: Any, c: Any, out: Any, inputs: Any) -> None:
    """Draws the position before move t of the game `words`, which c makes: out [PLANES, bytes], inputs [INPUTS]."""
    own = np.int64(c) - 1
    for k in range(_KO_BAN, PLANES):
        for i in range(len(sheet.course.s.words)):
            sheet.bits[k, i] = ZERO
    for k in range(INPUTS):
        inputs[k] = 0
    _draw_stones(sheet, own)
    _draw_bans(sheet)
    turns = _draw_history(sheet, words, t, c, inputs)
    _draw_ladders(sheet, t, c, turns)
    _draw_areas(sheet, own)
    _draw_numbers(sheet, c, inputs)
    finish(sheet.course.s.words, sheet.bits, out)


@inline_kernel
def set_up_root(course: BoardHistory, stones: Any, due: Any, n_root: Any) -> Any:
    """Puts the setup of a game's root node on the empty board. Returns 0, or a reason why KataGo refuses it.

    stones, due: the game's setup and setup_ply (`kifu.records.games.Games`), of which n_root entries are the root's.
    """
    s = course.s
    for i in range(len(s.words)):
        course.ever[i] = ZERO
    for k in range(n_root):
        p = np.int64(stones[k] & POINT_MASK)
        if p >= s.neighbours.shape[0]:
            return _OFF_BOARD
        if course.ever[p >> 6] & bit(p) != ZERO:
            return _SETUP_TWICE
        course.ever[p >> 6] |= bit(p)
    if n_root > 0:
        set_up(s, GameMoves(stones, stones, due), 0, n_root, _ALL)
        if has_chain_without_liberties(s):
            return _SETUP_DEAD
    return _KEPT


@inline_kernel
def _is_near(take: Any, at: Any, left: Any) -> Any:
    """Whether this position, of `left` that the game has from it on, or one of the two after it is wanted."""
    wanted = False
    for k in range(min(left, 3)):
        wanted |= take[at + k] >= 0
    return wanted


@kernel
def encode_rows(
    sheet: KataWorkspace, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any, root_setup: Any,
    rows: Any, which: Any, symmetry: Any, codes: Any, table: Any, label_of: Any, placed: Any, take: Any,
    take_offset: Any, out: Any, label: Any, inputs: Any, drop: Any, ply: Any,
) -> None:  # fmt: skip
    """Follows the games rows[which] and fills out, label, inputs [slots] for the plies that `take` wants.

    See `kifu.katago.encoder.KataEncoder.encode`. All arrays by row are for all R rows, `which` says which of
    them fit the sheet.  codes: [R, 8] int64, of `codes_of`.  table, label_of: see `kifu.planes.board_embedding.Placing`.
    placed: two buffers of uint16 for one game's moves and setup.
    """
    course = sheet.course
    s = course.s
    n = s.neighbours.shape[0]
    words, stones = placed
    for j in range(which.shape[0]):
        r = which[j]
        g = rows[r]
        plies = move_offset[g + 1] - move_offset[g]
        place(moves, move_offset[g], move_offset[g + 1], table[symmetry[r]], words)
        place(setup, setup_offset[g], setup_offset[g + 1], table[symmetry[r]], stones)
        due = setup_ply[setup_offset[g] : setup_offset[g + 1]]
        n_root = np.int64(root_setup[g])
        later = np.int64(due[n_root]) if n_root < due.shape[0] else plies
        clear(s)
        why = set_up_root(course, stones, due, n_root)
        t = np.int64(0)
        if why == _KEPT and plies > 0:
            begin(course, codes[r], WHITE if words[0] & WHITE_BIT else BLACK)
        while t < plies and why == _KEPT:
            if later <= t:
                why = _SETUP_LATER
                break
            if is_over(course):
                why = _AFTER_END
                break
            p = np.int64(words[t] & POINT_MASK)
            c = np.uint8(WHITE if words[t] & WHITE_BIT else BLACK)
            at = take_offset[r] + t
            if _is_near(take, at, plies - t):
                laddered_stones(s, sheet.ladders, sheet.caught[t % 3])
            slot = take[at]
            if slot >= 0 and p <= n:
                _draw(sheet, words, t, c, out[slot], inputs[slot])
                label[slot] = label_of[p]
            why = advance(course, p, c)
            if why == _KEPT:
                t += 1
        drop[r] = why
        ply[r] = t

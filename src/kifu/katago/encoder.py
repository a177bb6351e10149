"""Positions of many games as KataGo's inputs: planes, and the numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.errors import DropReason, GameError
from kifu.go.replay import GamesLike
from kifu.katago.history import codes_of
from kifu.katago.inputs import INPUTS, KataWorkspace, encode_rows, new_sheet
from kifu.katago.rules import RULES_COLUMNS, recorded_komi, usual_terms
from kifu.kernel import writable_view
from kifu.planes.board_embedding import FrameEncoder, GameContext, Rows
from kifu.planes.encoder import IDENTITY, ONE_ROW, check_kept, check_played, single_game
from kifu.planes.packed import Labels, Planes
from kifu.planes.registry import KATAGO22
from kifu.planes.unpack import unpack
from kifu.records.game import Game

LEAST, MOST = 2, 19
"""Sizes of boards that KataGo plays on."""

_PLIES = 512

_OF_MOVES = (DropReason.OCCUPIED, DropReason.SUICIDE, DropReason.KO, DropReason.SUPERKO)


class RootedGames(GamesLike, Protocol):
    """Games that tell how many of their setup entries stand in the root node; `kifu.records.games.Games` is one."""

    @property
    def root_setup(self) -> npt.NDArray[np.uint16]: ...


@dataclass(frozen=True, slots=True)
class KataScratch:
    """What one thread needs to encode, by the size of games and how long they are. An encoder makes it (`new_desk`)."""

    sheets: dict[tuple[int, int, int], KataWorkspace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KataEncoder(FrameEncoder):
    """`katago22@1` for boards of one size, in KataGo's own files 19 x 19, with smaller ones laid in.

    It holds no state and serves any number of threads. Raises GameError for a size that is not within 2 to 19.

    >>> from kifu.katago.encoder import KataEncoder
    >>> from kifu.planes.registry import KATAGO22
    >>> encoder = KataEncoder(KATAGO22, 19, 19, pad=True)
    >>> encoder.planes, encoder.shape, encoder.bytes
    (22, (22, 19, 19), 46)
    """

    LEAST: ClassVar[int] = LEAST
    RECORD_RULES: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (LEAST <= self.width <= MOST and LEAST <= self.height <= MOST):
            raise GameError(
                f"{self.plane_set.name} draws boards from {LEAST} to {MOST}, not {self.width} x {self.height}"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return RULES_COLUMNS

    def context(self, batch: pa.RecordBatch) -> GameContext:
        """Return the rules of each game (`usual_terms`)."""
        return GameContext(*usual_terms(batch["rules"], recorded_komi(batch), batch["handicap"]))

    def new_desk(self) -> KataScratch:
        """Room for one thread to work in."""
        return KataScratch()

    def new_inputs(self, slots: int) -> npt.NDArray[np.float32]:
        """An array for `encode` to fill, not initialised: [slots, 19] float32."""
        return np.empty((slots, INPUTS), np.float32)

    def encode(
        self,
        desk: KataScratch,
        games: RootedGames,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        out: npt.NDArray[np.uint8],
        label: npt.NDArray[np.int16],
        terms: npt.NDArray[np.void],
        inputs: npt.NDArray[np.float32],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Draws positions of some games, each game as it looks under a symmetry of the board (`kifu.point.symmetries`).

        desk, rows, symmetry, take, out, label: as for `kifu.planes.encoder.Encoder.encode`; out is [slots, 22, bytes].
        terms: [R] `kifu.katago.rules.TERMS`, what each of these games is played for.
        inputs: [slots, 19] float32, the numbers beside the planes, as `PlaneSet.inputs` names them.

        Each game is followed under its own terms, up to where KataGo would follow it. Returns ply [R] int32, before how
        many of its moves there is a position, and drop [R] uint8 of `Drop`, what ends it there: a move that its rules
        do not allow; setup after the root (SETUP_LATER); the end of the game, or of the normal phase where territory is
        counted, though moves follow (AFTER_END). Setup that KataGo refuses (SETUP_TWICE, SETUP_DEAD) gives no position,
        nor does a board that does not fit or has sides below 2 (WRONG_SIZE). Moves out of turn end nothing; they cut
        the history that planes show. What is wanted from that ply on is not drawn, or is the position before a move
        that cannot be played.
        Raises ValueError if the arrays do not fit each other. That each slot is wanted only once is not checked.
        """
        plan = self._plan(games, rows, symmetry, take, out, label)
        if inputs.shape != (len(out), INPUTS) or inputs.dtype != np.float32:
            raise ValueError(f"inputs is {inputs.dtype} {inputs.shape}, not float32 [{len(out)}, {INPUTS}]")
        if len(terms) != len(rows):
            raise ValueError(f"there are {len(rows)} games, and terms of {len(terms)}")
        longest = _PLIES
        while longest < len(plan.placed[0]):
            longest *= 2
        codes = codes_of(terms)
        for placing, which in plan.parts:
            size = placing.width, placing.height, longest
            if size not in desk.sheets:
                desk.sheets[size] = new_sheet(placing.width, placing.height, self.width, self.height, longest)
            encode_rows(
                desk.sheets[size], writable_view(games.moves), writable_view(games.move_offset), writable_view(games.setup),
                writable_view(games.setup_ply), writable_view(games.setup_offset), writable_view(games.root_setup), rows, which,
                symmetry, codes, placing.table, placing.label_of, plan.placed, take, plan.take_offset, out, label,
                inputs, plan.drop, plan.ply,
            )  # fmt: skip
        return plan.drop, plan.ply

    def draw(
        self,
        desk: KataScratch,
        games: RootedGames,
        rows: Rows,
        symmetry: npt.NDArray[np.uint8],
        take: Rows,
        out: npt.NDArray[np.uint8],
        labels: Mapping[str, npt.NDArray[Any]],
        context: npt.NDArray[np.void],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        return self.encode(desk, games, rows, symmetry, take, out, labels["move"], context, labels["globals"])

    def encode_game(self, game: Game) -> tuple[Planes, Labels]:
        planes, _, labels = encode_katago(game)
        return planes, labels


def encode_katago(game: Game) -> tuple[Planes, npt.NDArray[np.float32], Labels]:
    """The examples of a game in KataGo's planes, with the numbers that its nets are given beside them.

    Returns planes: [T, 22, H, W] uint8 of 0 and 1, globals: [T, 19] float32 (`KATAGO22.inputs` of
    `kifu.planes.registry`), and labels: [T] int32, the next move as row * width + column. Passes give no example. Rules
    and komi are those of the record, or else the usual ones (`kifu.katago.rules.usual_terms`); see `kifu.encode` for
    the rest.

    Raises GameError for a game that was set aside, whose board, setup, rules or komi KataGo would not take, that goes
    on after its end, or has setup after the root; and IllegalMove at the first move that its rules do not allow.

    >>> import kifu
    >>> from kifu.katago.encoder import encode_katago
    >>> planes, told, labels = encode_katago(kifu.read_sgf(b"(;SZ[9]RU[Chinese]KM[7];B[cc];W[gg])"))
    >>> planes.shape, labels.tolist(), told[:, 5].tolist()  # komi of the side to move / 20
    ((2, 22, 9, 9), [20, 60], [-0.3499999940395355, 0.3499999940395355])
    """
    check_kept(game)
    encoder = KataEncoder(KATAGO22, game.width, game.height, False)
    alone, take = single_game(game)
    examples = take.max(initial=-1) + 1
    drawn, label = encoder.new_out(examples), np.empty(examples, np.int16)
    told = encoder.new_inputs(examples)
    drop, ply = encoder.encode(encoder.new_desk(), alone, ONE_ROW, IDENTITY, take, drawn, label, _terms(game), told)
    if DropReason(drop[0]) not in (DropReason.KEPT, *_OF_MOVES):
        raise GameError(f"KataGo follows the game for {ply[0]} of {len(game)} moves: {DropReason(drop[0]).reason}")
    check_played(game, drop, ply)
    out = np.empty((examples, *encoder.shape), np.uint8)
    unpack(drawn, out)
    return out, told, label.astype(np.int32)


def _terms(game: Game) -> npt.NDArray[Any]:
    """[1] of `TERMS`. Raises GameError."""
    komi = game.komi if game.komi is not None or not game.text("KM") else np.nan
    terms, drop = usual_terms(
        pa.array([game.rules or None], pa.string()),
        pa.array([komi], pa.float32()),
        pa.array([game.handicap], pa.int16()),
    )
    if drop[0]:
        told = game.rules if drop[0] == DropReason.RULES_UNKNOWN else game.text("KM")
        raise GameError(
            f"KataGo's planes need terms that it understands, not {told[:80]!r}: {DropReason(drop[0]).reason}"
        )
    return terms

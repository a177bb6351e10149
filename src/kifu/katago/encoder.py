"""Positions of many games, or of one, as KataGo's network inputs: planes, and the scalar inputs beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.errors import DropReason, GameError
from kifu.katago.inputs import INPUTS, KataWorkspace, encode_games, kernel_games, new_workspace
from kifu.katago.rules import RULES_COLUMNS, recorded_komi, resolve_rules_or_default
from kifu.planes.encoder import FrameEncoder, GameContext, PositionRequest, check_kept, check_played, single_game
from kifu.planes.packing import Labels, Planes, unpack
from kifu.planes.registry import KATAGO22
from kifu.records.game import Game

MIN_SIZE, MAX_SIZE = 2, 19
"""The sizes of boards that KataGo plays on."""

_MIN_PLIES = 512

ILLEGAL_MOVES = (DropReason.OCCUPIED, DropReason.SUICIDE, DropReason.KO, DropReason.SUPERKO)


KataScratch: TypeAlias = dict[tuple[int, int, int], KataWorkspace]
"""Scratch memory of one thread, by (width, height, plies)."""


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

    def new_scratch(self) -> KataScratch:
        """Return scratch memory for one thread."""
        return {}

    def new_labels(self, slots: int) -> dict[str, npt.NDArray[Any]]:
        """Return uninitialized arrays for `draw` to fill: "move" [slots] int16 and "globals" [slots, 19] float32."""
        return {"move": np.empty(slots, np.int16), "globals": np.empty((slots, INPUTS), np.float32)}

    def draw(
        self,
        scratch: KataScratch,
        request: PositionRequest,
        out: npt.NDArray[np.uint8],
        labels: Mapping[str, npt.NDArray[Any]],
        context: npt.NDArray[np.void],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Encode positions of some games, each under a symmetry of the board (`kifu.point.symmetries`).

        A game is followed under its own rules as far as KataGo follows it. Moves out of turn end nothing, but earlier
        moves are then left out of the history planes. Positions from the returned ply on are not filled, or are those
        before a move that cannot be played.

        Args:
            out: [slots, 22, bytes] uint8, receives the planes as bits.
            labels: "move", [slots] int16, receives the moves played; "globals", [slots, 19] float32, the scalar inputs
                in the order of `PlaneSet.inputs`.

        Returns:
            drop [R] uint8 and ply [R] int32: why and at which move each game ends early. Reasons besides moves that the
            rules forbid: SETUP_LATER, setup after the root; AFTER_END, moves after the end of the game or, with
            territory scoring, of its normal phase; SETUP_TWICE and SETUP_DEAD, setup that KataGo rejects; WRONG_SIZE, a
            board that does not fit or has a side below 2.

        Raises ValueError if the arrays do not fit each other.
        """
        label, inputs = labels["move"], labels["globals"]
        task, parts = self._plan(request, out, label)
        if inputs.shape != (len(out), INPUTS) or inputs.dtype != np.float32:
            raise ValueError(f"globals must be float32 [{len(out)}, {INPUTS}], got {inputs.dtype} {inputs.shape}")
        if len(context) != len(request.game_index):
            raise ValueError(f"context must have the rules of {len(request.game_index)} games, got {len(context)}")
        plies = _MIN_PLIES
        while plies < len(task.moves):
            plies *= 2
        games = kernel_games(request.games, request.game_index, context)
        for embedding, subset in parts:
            key = embedding.width, embedding.height, plies
            if key not in scratch:
                scratch[key] = new_workspace(*key[:2], self.width, self.height, plies)
            encode_games(scratch[key], games, task, embedding, subset, inputs)
        return task.drop, task.ply

    def encode_game(self, game: Game) -> tuple[Planes, Labels]:
        """Return the planes and next moves of one game, see `encode_katago`."""
        planes, _, labels = encode_katago(game)
        return planes, labels


def encode_katago(game: Game) -> tuple[Planes, npt.NDArray[np.float32], Labels]:
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
        >>> from kifu.katago.encoder import encode_katago
        >>> planes, inputs, labels = encode_katago(kifu.read_sgf(b"(;SZ[9]RU[Chinese]KM[7];B[cc];W[gg])"))
        >>> planes.shape, labels.tolist(), inputs[:, 5].tolist()  # komi of the side to move / 20
        ((2, 22, 9, 9), [20, 60], [-0.3499999940395355, 0.3499999940395355])
    """
    check_kept(game)
    encoder = KataEncoder(KATAGO22, game.width, game.height, False)
    request, n = single_game(game)
    packed, labels, rules = encoder.new_out(n), encoder.new_labels(n), _game_rules(game)
    drop, ply = encoder.draw(encoder.new_scratch(), request, packed, labels, rules)
    if DropReason(drop[0]) not in (DropReason.KEPT, *ILLEGAL_MOVES):
        raise GameError(f"KataGo follows {ply[0]} of the game's {len(game)} moves: {DropReason(drop[0]).reason}")
    check_played(game, drop, ply)
    planes = np.empty((n, *encoder.shape), np.uint8)
    unpack(packed, planes)
    return planes, labels["globals"], labels["move"].astype(np.int32)


def _game_rules(game: Game) -> npt.NDArray[Any]:
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

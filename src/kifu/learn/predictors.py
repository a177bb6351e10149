"""Nets of kifu and KataGo, and mixtures of them, as predictors; scores of moves."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.datasets.global_inputs import SERVERS, Imitated, InputPositions, encode_inputs
from kifu.errors import DropReason, FormatError, RecipeError, missing_extras
from kifu.go.board import EMPTY, Board
from kifu.go.positions import Positions
from kifu.go.replay import GameMoves, GamesLike
from kifu.go.rules import RECORD_RULES, Rules
from kifu.katago.checkpoint import read_network
from kifu.katago.inputs import ILLEGAL_MOVES, MAX_SIZE, MIN_SIZE, KataEncoder
from kifu.katago.metadata import BOARD_INPUT
from kifu.katago.net_file import is_kata_net
from kifu.katago.rules import GAME_RULES, UNKNOWN_HANDICAP, KataRules, resolve_rules_or_default
from kifu.learn import MIX_SUFFIX, ONNX_SUFFIX, PACKAGED, Precision, split_mix
from kifu.learn.evaluator import BatchEvaluator, BatchOutput, make_backend
from kifu.learn.mix import MixedPredictor, join_outputs
from kifu.learn.net import AnyNet, as_net, read_mix
from kifu.learn.net_format import Net, OnnxSession, kata_metadata
from kifu.learn.positions import EvalPositions, PredictPositions, Words, assign_slots, legal_masks
from kifu.learn.predict import MovePredictor, Predictions, Predictor
from kifu.learn.scores import MoveScores
from kifu.planes import packing
from kifu.planes.encoder import GameContext
from kifu.planes.registry import KATAGO22
from kifu.point import WHITE, WHITE_BIT, parse_board
from kifu.registry import check_choice

if TYPE_CHECKING:
    from kifu.learn.nets import Network

_NET_BATCH_SIZE = 64
"""Number of positions that a network file is evaluated on at once."""

_MAX_KOMI = 150


def check_kata_board(width: int, height: int) -> None:
    """Raise RecipeError for a board size that KataGo does not support unless it is compiled for larger ones."""
    if not MIN_SIZE <= min(width, height) <= max(width, height) <= MAX_SIZE:
        raise RecipeError(f"KataGo supports boards of {MIN_SIZE} to {MAX_SIZE} lines, got {width} x {height}")


class KataPredictor:
    """Predicts moves with a network of KataGo, without KataGo. The attributes are those of `MovePredictor`.

    Attributes:
        server: The server whose players a human-style net imitates, "profile" for the ranks and years alone, as in
            KataGo's profiles; None for what the records state.
    """

    passes = True
    server: Imitated | None = None

    def __init__(
        self,
        net: AnyNet,
        *,
        rules: Rules = RECORD_RULES,
        symmetries: bool = False,
        precision: Precision = "float32",
        threads: int | None = None,
    ) -> None:
        """Open a network file, or use a net that was trained here; arguments as for `Predictor`. Raises FormatError."""
        self.net = net = net if isinstance(net, Net) else _open_kata_net(Path(net), threads)
        self.name, self.takes_ranks, self.rules = net.name, bool(net.about.inputs), rules
        self.description = f"KataGo's net {net.name}" + (" with ranks" if self.takes_ranks else "")
        self.games, self.board = net.games, (net.about.width, net.about.height)
        self.has_value, self.has_points = "value" in net.about.heads, net.has_points
        backend = make_backend(net, precision=precision, on_gpu=net.session is None)
        self._evaluator = BatchEvaluator(net, backend, symmetries=symmetries)

    def __repr__(self) -> str:
        return f"<KataPredictor {self.name}>"

    def check_board(self, width: int, height: int) -> None:
        """Raise RecipeError for a board size that KataGo does not support."""
        check_kata_board(width, height)

    def predict(self, positions: PredictPositions, legal: bool = True, *, unverified: bool = False) -> Predictions:
        """Evaluate positions, see `Predictor.predict`."""
        if not len(positions):
            none = np.empty((0, 1), np.float32)
            return Predictions(none, none.astype(np.bool_), none[:, 0], *[none if self.has_points else None] * 2)
        outputs, masks = zip(*self._outputs(positions, self.rules, legal))
        log_probs, value, *points = join_outputs(outputs)
        points = points if self.has_points or unverified else [None, None]
        return Predictions(np.exp(log_probs), np.concatenate(masks), value, *points)

    @contextmanager
    def stream(self, positions: EvalPositions, *, legal: bool, jobs: int) -> Generator[Iterator[BatchOutput]]:
        """Evaluate many positions of catalogue games, see `Predictor.stream`. `jobs` has no effect."""
        self.check_board(positions.width, positions.height)
        yield (output for output, _ in self._outputs(positions, RECORD_RULES, legal))

    def _outputs(
        self, positions: PredictPositions | EvalPositions, rules: Rules, legal: bool
    ) -> Iterator[tuple[BatchOutput, npt.NDArray[np.bool_]]]:
        """Yield the outputs of consecutive positions, and their legal moves [B, points + 1]."""
        game = positions.game[0]
        width, height = int(positions.games.width[game]), int(positions.games.height[game])
        self.check_board(width, height)
        encoder = KataEncoder(KATAGO22, width, height, False)
        for start in range(0, len(positions), _NET_BATCH_SIZE):
            part = positions.slice(start, start + _NET_BATCH_SIZE)
            allowed = np.ones((len(part), width * height + 1), np.bool_)
            if legal:
                allowed = legal_masks(part.games, assign_slots(part.games, part.game, part.ply), width * height, rules)
            planes, inputs = _encode(encoder, part, rules)
            if names := self.net.about.inputs:
                at = part.input_positions
                if self.server is not None:
                    server = None if self.server == "profile" else self.server
                    at = at._replace(conditions=at.conditions.at_server(server))
                profile = encode_inputs(names, at)
                profile[:, BOARD_INPUT] = 0.5 * np.log(width * height / 361)
                inputs = np.concatenate([inputs, profile], 1)
            mask = allowed if legal else None
            yield self._evaluator.evaluate_arrays(planes, inputs, width, height, mask), allowed


def _open_kata_net(path: Path, threads: int | None) -> Net:
    """Return a network of KataGo. ONNX files require no torch."""
    if path.suffix == ONNX_SUFFIX:
        session = OnnxSession(path, threads)
        if session.kata is None:
            raise FormatError(f"{path} is not a network of KataGo")

        def load() -> Network:
            raise FormatError(f"{path} is an ONNX file, which torch cannot read; this requires KataGo's own file")

        games, kata = np.empty(0, np.uint64), session.kata
        return Net(kata_metadata(kata.is_human), games, kata.name, True, 0, load, session, has_points=True)
    with missing_extras():
        from kifu.learn.torch_net import kata_net
    return kata_net(read_network(path))


def _encode(
    encoder: KataEncoder, positions: PredictPositions | EvalPositions, rules: Rules
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return planes [B, 22, H, W] and numbers [B, 19] of positions.

    KataGo does not follow games beyond their end, or beyond moves that its rules forbid, or setup after the root. Later
    positions begin anew from the stones on the board.
    """
    games = positions.games
    at = Positions.of(games, positions.game, positions.ply)
    known = np.zeros(len(games.width), np.uint8)
    encoded = encoder.encode(at, lambda rows: GameContext(_game_rules(positions, rows, rules), known[rows]))
    planes, inputs = np.empty((len(at), *encoder.shape), np.float32), encoded.labels["globals"]
    packing.unpack(encoded.planes, planes)
    last = encoded.ply - ~np.isin(encoded.drop, ILLEGAL_MOVES)  # before an illegal move, a position is still encoded
    lost = np.flatnonzero((encoded.drop != DropReason.KEPT) & (positions.ply > last))
    if isinstance(positions, PredictPositions) and len(games.moves) == len(games.width):
        at.check_playable(encoded.drop, encoded.ply)  # positions without a move cannot begin anew
        return planes, inputs
    for k in lost.tolist():
        game, size = game_at(games, int(positions.game[k]))
        anew = PredictPositions.from_moves(
            [np.empty(0, np.uint16)], *size, setup=stones_before(game, *size, int(positions.ply[k]), rules),
            to_play=[int(positions.to_play[k])], conditions=positions.conditions.take(positions.game[k : k + 1]),
        )  # fmt: skip
        planes[k : k + 1], inputs[k : k + 1] = _encode(encoder, anew, rules)
    return planes, inputs


def _game_rules(
    positions: PredictPositions | EvalPositions, games: npt.NDArray[np.int64], rules: Rules
) -> npt.NDArray[np.void]:
    """Return [G] of `GAME_RULES`: those of the record where it names rules and komi, or else by `rules_and_komi`."""
    inputs, values = InputPositions(positions.conditions, games, np.zeros(len(games), np.bool_)), []
    for k, handicap in enumerate(positions.conditions.handicap[games].tolist()):
        kata_rules, komi = rules_and_komi(inputs, k, rules)
        if rules == RECORD_RULES:  # which allow suicide because some records have it
            kata_rules = replace(kata_rules, suicide=False)
        known = handicap > 0  # otherwise KataGo counts the stones on the board
        values.append((*kata_rules.codes, komi, int(handicap) if known else UNKNOWN_HANDICAP))
    resolved = np.array(values, GAME_RULES)
    if isinstance(positions, EvalPositions):
        rows = positions.rows.take(games)
        recorded, drop = resolve_rules_or_default(rows["rules"], rows["komi"], rows["handicap"])
        stated = (drop == DropReason.KEPT) & rows["rules"].is_valid().to_numpy(zero_copy_only=False)
        resolved[stated] = recorded[stated]
    return resolved


def rules_and_komi(positions: InputPositions, k: int, rules: Rules) -> tuple[KataRules, float]:
    """Return rules and komi of a position; unknown rules are area rules, an unknown komi is the usual one."""
    conditions, game = positions.conditions, positions.game[k]
    territory, komi = bool(conditions.area[game] == 0), float(conditions.komi[game])
    ko = "simple" if rules.ko == "none" else rules.ko
    if territory:
        kata_rules, usual = KataRules(ko, "territory", "seki", rules.suicide), 6.5
    else:
        kata_rules, usual = KataRules(ko, "area", suicide=rules.suicide, handicap_bonus="n"), 7.5
    return kata_rules, float(np.clip(round(2 * (usual if np.isnan(komi) else komi)) / 2, -_MAX_KOMI, _MAX_KOMI))


def game_at(games: GamesLike, g: int) -> tuple[GameMoves, tuple[int, int]]:
    """Return the moves and setup of a game, and the size of its board."""
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]]
    setup = slice(int(games.setup_offset[g]), int(games.setup_offset[g + 1]))
    return GameMoves(moves, games.setup[setup], games.setup_ply[setup]), (int(games.width[g]), int(games.height[g]))


def stones_before(game: GameMoves, width: int, height: int, ply: int, rules: Rules) -> Words:
    """Return the stones on the board before a move, as point | WHITE_BIT."""
    if not (ply or len(game.setup)):
        return np.empty(0, np.uint16)
    stones = Board.after(width, height, *game, ply, rules=rules).stones.ravel()
    points = np.flatnonzero(stones != EMPTY).astype(np.uint16)
    return np.where(stones[points] == WHITE, points | WHITE_BIT, points).astype(np.uint16)


def open_predictor(
    name: str | os.PathLike[str] | None = None,
    *,
    rules: Rules = RECORD_RULES,
    symmetries: bool = False,
    precision: Precision = "float32",
    threads: int | None = None,
) -> MovePredictor:
    """Open a net.

    Args:
        name: A net's file, a run directory or the name of a packaged net, as for `open_net`; a network of KataGo
            (.bin.gz, .txt.gz, .ckpt, .onnx); or a mixture, which is a file of `kifu mix` or such names joined by "+".
        precision: Precision of `MovePredictor.stream`.
    """

    def open_members(names: Sequence[str | os.PathLike[str]]) -> list[MovePredictor]:
        return [
            open_predictor(each, rules=rules, symmetries=symmetries, precision=precision, threads=threads)
            for each in names
        ]

    names = [] if name is None else split_mix(name)
    if len(names) > 1:
        return MixedPredictor(open_members(names))
    if name is not None and os.fspath(name).endswith(MIX_SUFFIX):
        mix, files = read_mix(name)
        return MixedPredictor(open_members(files), mix, Path(name).stem)
    if name is not None and is_kata_net(name):
        return KataPredictor(name, rules=rules, symmetries=symmetries, precision=precision, threads=threads)
    return _net_predictor(as_net(name, threads), rules=rules, symmetries=symmetries, precision=precision)


def _net_predictor(net: Net, **options: Any) -> MovePredictor:
    return (KataPredictor if net.about.planes == KATAGO22.name else Predictor)(net, **options)


AnyPredictor: TypeAlias = MovePredictor | AnyNet
"""A predictor, a net, or the name of one as for `open_predictor`."""


def as_predictor(
    predictor: AnyPredictor, *, symmetries: bool = False, precision: Precision = "float32"
) -> MovePredictor:
    """Return an open predictor as it is, or open a net; arguments and errors as for `open_predictor`."""
    if isinstance(predictor, str | os.PathLike):
        return open_predictor(predictor, symmetries=symmetries, precision=precision)
    if isinstance(predictor, Net):
        return _net_predictor(predictor, symmetries=symmetries, precision=precision)
    return predictor


def check_ranks(predictor: MovePredictor, *ranks: float | None) -> None:
    """Raise RecipeError if a rank is given to a net that does not take ranks."""
    if predictor.takes_ranks or all(rank is None for rank in ranks):
        return
    raise RecipeError(
        f"net {predictor.name} does not take ranks: it is {predictor.description}. The net {PACKAGED[0]} takes them"
    )


def single_predictors(predictors: Sequence[MovePredictor]) -> list[MovePredictor]:
    """Return predictors, and those that mixtures consist of instead of them."""
    parts = (single_predictors(each.members) if isinstance(each, MixedPredictor) else [each] for each in predictors)
    return list(chain.from_iterable(parts))


def count_known_games(predictor: MovePredictor) -> int:
    """Return how many games a net was trained on or validated with; 0 if unknown, also for one net of a mixture."""
    known = all(len(each.games) for each in single_predictors([predictor]))
    return len(predictor.games) if known else 0


def set_server(predictors: Sequence[MovePredictor], server: Imitated | None) -> None:
    """Set `KataPredictor.server` of human-style nets, if it is given. Raise RecipeError if there is no such net."""
    if server is None:
        return
    check_choice("server", server, (*SERVERS, "profile"))
    nets = [each for each in single_predictors(predictors) if isinstance(each, KataPredictor) and each.takes_ranks]
    if not nets:
        names = " or ".join(each.name for each in predictors)
        raise RecipeError(f"server {server} requires a human-style net of KataGo, which {names} is not")
    for net in nets:
        net.server = server


def replay_planes(predictors: Sequence[MovePredictor]) -> str:
    """Return the plane set that determines how far games can be replayed: that of the first net."""
    nets = [predictor.net for predictor in single_predictors(predictors) if isinstance(predictor, Predictor)]
    return nets[0].about.planes if nets else "black+white"


def unique_names(predictors: Sequence[MovePredictor]) -> list[str]:
    """Return the names of predictors; a name that occurred before gets a number."""
    names: list[str] = []
    for predictor in predictors:
        name, number = predictor.name, 1
        while name in names:
            number += 1
            name = f"{predictor.name} ({number})"
        names.append(name)
    return names


def common_board(predictors: Sequence[MovePredictor], board: str | None) -> tuple[int, int]:
    """Return width and height of the boards that predictors are asked about.

    Args:
        board: The size, such as "19x19"; None for the size that the first net was trained on.
    """
    size = predictors[0].board if board is None else parse_board(board)
    for predictor in predictors:
        predictor.check_board(*size)
    return size


def score_moves(
    predictor: MovePredictor, positions: EvalPositions, *, legal: bool, jobs: int, advance: Callable[[int], object]
) -> MoveScores:
    """Return the scores of the moves played; `advance` is called with the number of each batch.

    Raises:
        FormatError: A net returns NaN, or a game differs from its row.
    """
    scores, start = MoveScores.empty(len(positions)), 0
    with predictor.stream(positions, legal=legal, jobs=jobs) as outputs:
        for output in outputs:
            part = slice(start, start + len(output.log_probs))
            move = positions.slice(part.start, part.stop).move
            _store_scores(scores, part, output, move, predictor.name)
            start = part.stop
            advance(len(move))
    return scores


def _store_scores(out: MoveScores, part: slice, output: BatchOutput, move: npt.NDArray[np.int64], name: str) -> None:
    """Store the scores of moves [B]."""
    log_probs, moves = output.log_probs, output.log_probs.shape[1]
    predicted, move = move < moves, np.minimum(move, moves - 1)[:, None]
    played = np.take_along_axis(log_probs, move, 1)
    preferred = log_probs > played
    preferred |= (log_probs == played) & (np.arange(moves) < move)
    nll = -played[:, 0]
    finite = np.isfinite(nll) | ~predicted
    if output.value is not None:
        finite &= np.isfinite(output.value)
    if not finite.all():
        raise FormatError(f"net {name} returns values that are NaN or too large")
    probabilities = np.exp(log_probs)
    with np.errstate(invalid="ignore"):
        terms = np.where(probabilities > 0, probabilities * log_probs, 0)
    out.preferred[part] = preferred.sum(1)
    out.nll[part] = np.where(predicted, nll, np.nan)
    out.confidence[part] = probabilities.max(1)
    out.entropy[part] = -terms.sum(1)
    out.best[part] = log_probs.argmax(1)
    out.value[part] = np.nan if output.value is None else output.value

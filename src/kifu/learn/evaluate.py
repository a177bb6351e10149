"""Evaluation of nets on the moves of games that they have not seen; see docs/evaluation.md."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Indices
from kifu.checksums import add_checksum
from kifu.corpus.schema import to_numpy
from kifu.corpus.stats import BANDS, rank_bands
from kifu.datasets.examples import UNKNOWN
from kifu.datasets.filter import PositionFilter
from kifu.datasets.global_inputs import CONDITION_COLUMNS
from kifu.datasets.labels import find_label, label_values
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.sources import CatalogueSource, ExampleSpec, require_games
from kifu.errors import RecipeError, SourceError
from kifu.execution.executor import count_jobs
from kifu.go.board import Board
from kifu.go.replay import captured_stones
from kifu.io import utf8_name, write_output
from kifu.learn import MIX_SUFFIX
from kifu.learn.evaluation import Evaluation, join
from kifu.learn.inference import Net, common_board, replay_planes, set_server, unique_names
from kifu.learn.mix import design, fit_pools
from kifu.learn.net import mix_members, open_net
from kifu.learn.net_format import MixFile
from kifu.learn.positions import NetPositions
from kifu.learn.results import (
    EvalOptions,
    EvalResults,
    Example,
    ExampleAnswer,
    ExampleBoard,
    ExampleKind,
    LikelyMove,
    NetResult,
    OnOverlap,
    unknown_games,
)
from kifu.learn.scores import (
    MoveScores,
    Score,
    calibrate,
    differences,
    mean_entropy,
    score,
    score_groups,
    score_moves,
    value_error,
)
from kifu.point import POINT_MASK, WHITE, WHITE_BIT, to_gtp
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list, as_path
from kifu.text import counted, json_text

RANK_COLUMNS = ("black_rating", "white_rating", "black_pro", "white_pro", "black_program", "white_program")
"""Catalogue columns that the breakdowns need besides the games."""

_MOVE_STEP, _LATE_MOVE = 20, 300
_MAX_HANDICAP = 9


Groups = tuple[Sequence[str], Indices]
"""A partition of N positions: the names of the groups, and [N] indices of names."""


def _rows(positions: NetPositions) -> pa.RecordBatch:
    assert positions.rows is not None
    return positions.rows


def _by_move_number(positions: NetPositions) -> Groups:
    last = _LATE_MOVE // _MOVE_STEP
    names = [f"{k * _MOVE_STEP + 1}-{(k + 1) * _MOVE_STEP}" for k in range(last)]
    return [*names, f"{_LATE_MOVE + 1} and later"], np.minimum(positions.ply // _MOVE_STEP, last)


def _by_rank(positions: NetPositions) -> Groups:
    rows = _rows(positions)
    bands = np.stack([rank_bands(rows[f"{side}_rating"], rows[f"{side}_pro"]) for side in ("black", "white")])
    return BANDS, bands[((positions.words & WHITE_BIT) != 0).astype(np.int64), positions.game]


def _by_player(positions: NetPositions) -> Groups:
    programs = np.stack([to_numpy(_rows(positions)[f"{side}_program"]) for side in ("black", "white")])
    return ("people", "programs"), programs[(positions.words & WHITE_BIT != 0).astype(int), positions.game].astype(int)


def _by_handicap(positions: NetPositions) -> Groups:
    handicap = to_numpy(pc.fill_null(_rows(positions)["handicap"], 0)).astype(np.int64)
    names = ["none", *map(str, range(1, _MAX_HANDICAP + 1)), f"{_MAX_HANDICAP + 1} or more"]
    return names, np.clip(handicap, 0, _MAX_HANDICAP + 1)[positions.game]


def _edge_lines(positions: NetPositions) -> tuple[Indices, Indices]:
    """Return [N] the lines of the moves, counted from 1 at the nearest vertical and the nearest horizontal edge."""
    y, x = np.divmod(positions.move, positions.width)
    return np.minimum(x, positions.width - 1 - x) + 1, np.minimum(y, positions.height - 1 - y) + 1


def _by_region(positions: NetPositions) -> Groups:
    """Corners and sides have 5 lines on 19 x 19, 4 on 13 x 13, 3 on 9 x 9."""
    x, y = _edge_lines(positions)
    near_edges = (x <= positions.width // 4 + 1).astype(np.int64) + (y <= positions.height // 4 + 1)
    is_pass = positions.move == positions.points
    return ("corner", "side", "centre", "pass"), np.where(is_pass, 3, 2 - near_edges)


def _by_line(positions: NetPositions) -> Groups:
    lines = (min(positions.width, positions.height) + 1) // 2
    is_pass = positions.move == positions.points
    line = np.minimum(*_edge_lines(positions)) - 1
    return [*map(str, range(1, lines + 1)), "pass"], np.where(is_pass, lines, line)


def _by_capture(positions: NetPositions) -> Groups:
    games = positions.games
    captured = captured_stones(games, np.unique(positions.game))[games.move_offset[positions.game] + positions.ply]
    return ("none", "1", "2 or more"), np.minimum(captured, 2).astype(np.int64)


BREAKDOWNS: dict[str, tuple[str, Callable[[NetPositions], Groups]]] = {
    "move": ("move number", _by_move_number),
    "rank": ("rank of the player", _by_rank),
    "player": ("player", _by_player),
    "handicap": ("handicap", _by_handicap),
    "region": ("region of the move", _by_region),
    "line": ("line of the move, from the nearest edge", _by_line),
    "capture": ("stones captured by the move", _by_capture),
}
"""Titles and grouping functions by name."""


def score_breakdowns(
    positions: NetPositions, scores: Sequence[MoveScores], account: Indices, seed: int
) -> list[dict[str, dict[str, Score]]]:
    """Return, for each net, its scores by breakdown and group; arguments as for `score_groups`."""
    by: list[dict[str, dict[str, Score]]] = [{} for _ in scores]
    for name, (_, group_positions) in BREAKDOWNS.items():
        names, index = group_positions(positions)
        for moves, groups in zip(scores, by):
            groups[name] = score_groups(moves, account, index, names, seed)
    return by


NAME_COLUMNS = ("black", "white", "black_rank", "white_rank", "date_text", "archive", "member", "index")
"""Catalogue columns that examples need besides the games."""

_COUNTS: dict[ExampleKind, int] = {"missed": 9, "undecided": 6, "correct": 3}

_CONFIDENT = 0.7
"""Probability of the most likely move from which on a net is called confident."""

_BEST_MOVES = 3
"""Number of moves that are listed."""


def select_examples(
    nets: Sequence[Net], positions: NetPositions, scores: MoveScores, *, legal: bool, seed: int
) -> tuple[Example, ...]:
    """Select at most one example per game and kind by the first net's scores; predict them in float32 with all nets."""
    kinds = get_args(ExampleKind)
    selected = {kind: _most_suitable(_suitability(kind, scores, seed), positions.game, _COUNTS[kind]) for kind in kinds}
    which = np.concatenate(list(selected.values()))
    kind_of = [kind for kind, indices in selected.items() for _ in indices]
    batch, names = positions.take(which), unique_names(nets)
    found = zip(*(net.evaluate(batch, legal=legal) for net in nets))
    return tuple(
        _make_example(kind, positions, int(k), dict(zip(names, answers)))
        for kind, k, answers in zip(kind_of, which, found)
    )


def _suitability(kind: ExampleKind, scores: MoveScores, seed: int) -> npt.NDArray[np.float32]:
    """Return [N] float32, the suitability of each position as an example; NaN for positions of another kind."""
    preferred, confidence = scores.preferred, scores.confidence
    match kind:
        case "missed":
            return np.where(preferred > 0, confidence, np.nan)
        case "undecided":
            return np.where(preferred == 1, np.exp(-scores.nll), np.nan)
        case "correct":
            # The most confident hits are obvious captures, so confident hits are drawn at random.
            noise = np.random.default_rng(seed).random(len(confidence), np.float32)
            return np.where(preferred == 0, np.where(confidence >= _CONFIDENT, 1 + noise, confidence), np.nan)


def _most_suitable(suitability: npt.NDArray[np.float32], game: Indices, count: int) -> Indices:
    """Return the indices of the most suitable positions of different games, in descending order."""
    candidates = np.flatnonzero(~np.isnan(suitability))
    order = candidates[np.lexsort((candidates, -suitability[candidates]))]
    first = np.unique(game[order], return_index=True)[1]  # the best of each game
    return order[np.sort(first)[:count]]


def _make_example(kind: ExampleKind, positions: NetPositions, k: int, answers: dict[str, Evaluation]) -> Example:
    row, ply = int(positions.game[k]), int(positions.ply[k])
    names = _rows(positions).slice(row, 1).select(NAME_COLUMNS).to_pylist()[0]
    games = positions.games
    first = int(games.move_offset[row])
    words = games.moves[first : first + ply + 1]
    setup = slice(int(games.setup_offset[row]), int(games.setup_offset[row + 1]))
    board = Board.after(positions.width, positions.height, words, games.setup[setup], games.setup_ply[setup], ply)
    last = int(words[-2] & POINT_MASK) if ply else None
    played = int(words[-1] & POINT_MASK)
    width, height = positions.width, positions.height
    return Example(
        kind=kind, players=(names["black"] or "", names["white"] or ""),
        ranks=(names["black_rank"] or "", names["white_rank"] or ""), date=names["date_text"] or "",
        location=f"{names['archive']}: {names['member']}" + (f", game {names['index'] + 1}" if names["index"] else ""),
        number=ply + 1, to_play="white" if words[-1] & WHITE_BIT else "black", played=to_gtp(played, width, height),
        answers=tuple(
            ExampleAnswer(
                net=name,
                probability=float(found.policy[played]),
                choice=found.choice(played),
                best=tuple(
                    LikelyMove(move=to_gtp(move, width, height), probability=chance)
                    for move, chance in zip(*(column.tolist() for column in found.top(_BEST_MOVES)))
                    if chance
                ),
            )
            for name, found in answers.items()
        ),
        board=ExampleBoard(
            board.stones, None if last == positions.points else last, played, next(iter(answers.values())).policy
        ),
    )  # fmt: skip


_COLUMNS = (*RANK_COLUMNS, *NAME_COLUMNS, *CONDITION_COLUMNS, "canonical", "winner")


def evaluate(
    nets: Net | str | os.PathLike[str] | Sequence[Net | str | os.PathLike[str]],
    sources: Paths,
    options: EvalOptions = EvalOptions(),
    *,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> EvalResults:
    """Measure how well nets predict the moves of games: top-1, 3 and 5, likelihood, calibration, and examples.

    Args:
        nets: One net, or several to compare on the same positions: opened, or named as for `kifu.open_net`.
        sources: Catalogues, whose kept games are used, and archives, folders and records, which are cleaned by the
            rules "legal".
        jobs: Threads that encode planes; None for one per core.

    Raises:
        RecipeError: An option does not fit the nets, a net has seen one of the games, or a source is a data set.
        SourceError: There are no such games.
        FormatError: A catalogue or net is damaged, or a net returns NaN.
    """
    if options.precision == "bfloat16":
        from kifu.learn.torch_backend import default_device, supported_precision

        options = replace(options, precision=supported_precision("bfloat16", default_device()))
    opened = _open([nets] if isinstance(nets, str | os.PathLike | Net) else nets, options)
    board = common_board(opened, options.board)
    for net in opened:
        if options.passes and not net.passes:
            raise RecipeError(f"net {net.name} does not predict passes; positions before a pass cannot be included")
    source, positions, trained_on = _select_positions(opened, sources, board, options, jobs)
    threads = count_jobs(jobs)
    with progress("evaluating", len(positions) * len(opened), "positions") as bar:
        scores = [
            score_moves(
                net, positions, legal=options.legal, jobs=threads, advance=lambda found: bar.advance(len(found))
            )
            for net in opened
        ]
    learned = int(np.any(trained_on, axis=0).sum())
    results = _summarize(opened, trained_on, positions, scores, options.seed)
    return EvalResults(
        kifu=version("kifu"), board="{}x{}".format(*board),
        sources=tuple(utf8_name(as_path(path).name) for path in as_list(sources)),
        games_hash=str(source.fingerprint()["source"]), games=len(np.unique(positions.game)), positions=len(positions),
        learned=learned, options=options,
        remarks=(*_overlap_remarks(learned, options.overlap), *unknown_games(results)), nets=results,
        examples=select_examples(opened, positions, scores[0], legal=options.legal, seed=options.seed),
    )  # fmt: skip


def _open(nets: Sequence[Net | str | os.PathLike[str]], options: EvalOptions) -> list[Net]:
    opened = [net if isinstance(net, Net) else open_net(net) for net in nets]
    opened = [net.using(symmetries=options.symmetries, precision=options.precision) for net in opened]
    return set_server(opened, options.server)


def _select_positions(
    nets: Sequence[Net], sources: Paths, board: tuple[int, int], options: EvalOptions, jobs: int | None
) -> tuple[CatalogueSource, NetPositions, list[npt.NDArray[np.bool_]]]:
    """Return the positions to evaluate, their source, and [G] bool for each net: the games that it was trained on."""
    paths = as_list(sources)
    require_games(paths, "an evaluation")
    rows = read_games(paths, board, False, jobs, (*COLUMNS, *_COLUMNS))
    trained_on = [np.isin(to_numpy(rows["canonical"]), net.games) for net in nets]
    rows = _handle_overlap(rows, nets, trained_on, options.overlap)
    position_filter = PositionFilter(passes=options.passes, per_game=options.per_game)
    source = CatalogueSource(rows, ExampleSpec(replay_planes(nets), board, labels=("move",), filter=position_filter))
    return source, _sample_positions(NetPositions.from_source(source, rows, options.seed), options), trained_on


def fit_mix(
    nets: Sequence[str | os.PathLike[str]],
    sources: Paths,
    output: Path,
    options: EvalOptions = EvalOptions(legal=True, positions=20_000),
    *,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> MixFile:
    """Fit the weights of a mixture of nets by the likelihood of moves and results, and write it.

    Memory grows with the number of positions: 1.4 kB for each net and position on 19 x 19.

    Args:
        nets: Two or more names as for `kifu.open_net`, but no mixtures.
        output: The file, in the folder of all nets that are not packaged.

    Raises:
        RecipeError: A net is not in the folder of the output, or as for `evaluate`.
        SourceError: There are no such games.
        FormatError: A catalogue or net is damaged, or a net returns NaN.
    """
    members = mix_members(nets, output)
    if output.suffix != MIX_SUFFIX:
        raise RecipeError(f"the file of a mixture must end in {MIX_SUFFIX}, got {output}")
    opened = _open(nets, options)
    _, positions, _ = _select_positions(opened, sources, common_board(opened, options.board), options, jobs)
    outputs: list[Evaluation] = []
    with progress("evaluating", len(positions) * len(nets), "positions") as bar:
        for net in opened:
            parts = []
            for found in net.stream(positions, legal=options.legal, jobs=count_jobs(jobs)):
                bar.advance(len(found))
                parts.append(replace(found, ownership=None, score=None))
            outputs.append(join(parts))
    policy, value, figures = fit_pools(
        outputs, unique_names(opened), positions.move, _results(positions)[0], design(positions)
    )
    games = np.unique(to_numpy(_rows(positions)["canonical"])[positions.game])
    mix = MixFile(
        members=members, policy=policy, value=value, positions=len(positions),
        accounts=len(np.unique(positions.accounts(positions.to_play == WHITE))), figures=figures,
        games=base64.b64encode(games.astype("<u8").tobytes()).decode(),
    )  # fmt: skip
    write_output(output, add_checksum(json_text(mix.model_dump(mode="json"))))
    return mix


def _results(positions: NetPositions) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return [N] results from the view of the side to move, and where White is to move."""
    board = positions.width, positions.height
    labels = label_values([find_label("result", *board)], board, _rows(positions), positions)
    return labels["result"], positions.to_play == WHITE


def _overlap_remarks(learned: int, overlap: OnOverlap) -> list[str]:
    if not learned:
        return []
    seen = counted(learned, "game")
    if overlap == "keep":
        return [
            f"NOT A TEST: a net was trained on or validated with {seen} of these (rotated, mirrored or not). The"
            " figures are too good."
        ]
    return [f"Left out: {seen} that a net was trained on or validated with (rotated, mirrored or not)."]


def _summarize(
    nets: Sequence[Net],
    trained_on: Sequence[npt.NDArray[np.bool_]],
    positions: NetPositions,
    scores: Sequence[MoveScores],
    seed: int,
) -> tuple[NetResult, ...]:
    result, white = _results(positions)
    account = positions.accounts(white)
    black = positions.accounts(np.zeros_like(white))  # both players share the result
    by = score_breakdowns(positions, scores, account, seed)
    has_result = bool((result != UNKNOWN).any())
    return tuple(
        NetResult(
            name=name,
            description=net.description,
            known_games=net.known_games,
            learned=int(known.sum()),
            score=score(moves, account, seed),
            calibration=calibrate(moves, account, seed),
            entropy=mean_entropy(moves, account, seed),
            value=value_error(moves.value, result, white, black, seed) if has_result and net.has_value else None,
            by=groups,
            to_first=None if moves is scores[0] else differences(moves, scores[0], account, seed),
        )
        for name, net, known, moves, groups in zip(unique_names(nets), nets, trained_on, scores, by)
    )


def _handle_overlap(
    rows: pa.RecordBatch, nets: Sequence[Net], trained_on: Sequence[npt.NDArray[np.bool_]], overlap: OnOverlap
) -> pa.RecordBatch:
    """Return the games to evaluate, given [G] bool for each net: the games that it was trained on."""
    for net, known in zip(nets, trained_on):
        if known.any() and overlap == "refuse":
            raise RecipeError(
                f"{net.name} was trained on or validated with {known.sum():,} of {counted(len(known), 'game')}"
                " (rotated, mirrored or not); --overlap drop leaves them out, --overlap keep keeps them and says so"
            )
    if overlap == "drop":
        rows = rows.filter(pa.array(~np.any(trained_on, axis=0)))
    if not len(rows):
        raise SourceError(f"no game is left: the nets have seen all of {counted(len(trained_on[0]), 'game')}")
    return rows


def _sample_positions(positions: NetPositions, options: EvalOptions) -> NetPositions:
    """Return the positions to evaluate. Raise SourceError if there are none."""
    if not len(positions):
        raise SourceError(
            f"the games have no positions to evaluate: {counted(len(positions.games.width), 'game')} of passes only"
        )
    if options.positions is None or options.positions >= len(positions):
        return positions
    rng = np.random.default_rng(options.seed)
    return positions.take(np.sort(rng.choice(len(positions), options.positions, replace=False, shuffle=False)))

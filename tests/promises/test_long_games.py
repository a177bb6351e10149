"""Games of 65,535 moves, the most that readers take, in every command, endpoint and public function."""

import re
import shlex
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kifu
from commands import COMMANDS, KIFU, passed, run
from kata_nets import small_net
from kifu.errors import DropReason, GameError
from kifu.katago.net_file import write_kata_net
from kifu.point import to_sgf
from kifu.records.games import MAX_MOVES


def stones(count: int, seed: int) -> list[int | None]:
    """Return random legal moves, None for a pass where no point is legal: boards fill up and are captured."""
    board, rng, moves = kifu.Board(19, rules=kifu.Rules.named("japanese")), np.random.default_rng(seed), []
    for _ in range(count):
        legal = np.flatnonzero(board.legal()[:-1])
        moves.append(int(rng.choice(legal)) if len(legal) else None)
        board.play(board.pass_move if moves[-1] is None else moves[-1])
    return moves


def record(moves: list[int | None]) -> str:
    nodes = (f";{'BW'[k % 2]}[{'' if p is None else to_sgf(p, 19, 19)}]" for k, p in enumerate(moves))
    return f"(;SZ[19]PB[Ann]PW[Bob]BR[3d]WR[5k]KM[6.5]RU[Japanese]DT[2016-01-02]RE[B+3.5]{''.join(nodes)})"


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the records big/: stones and passes, and shorter ones, to train and validate with."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "big").mkdir()
    for seed, count in enumerate([MAX_MOVES, 49_151, 49_152, 49_153, *[150] * 12]):
        (folder / "big" / f"{seed:02}.sgf").write_text(record(stones(count, seed)))
    (folder / "big" / "passes.sgf").write_text(record([None] * MAX_MOVES))
    kifu.ingest(folder / "big", folder / "games.parquet")
    write_kata_net(folder / "net.bin.gz", small_net(["residual"]))
    with tarfile.open(folder / "KGS-2016_01-19-17-.tar.gz", "w:gz") as archive:
        archive.add(folder / "big", "big")
    return folder


NO_GAMES = {"demo", "fetch", "list", "serve"}
"""Commands that take no games of a user, or are tested below."""

LINES = """
ingest big -o folder
ingest --compact -o folder
show big/00.sgf --move 65535 -o board.svg
show big/passes.sgf
convert big -o games.olf
convert games.olf -o games.zip
stats games.parquet -o stats.png
query "from games where n_legal > 65000" games.parquet -o long.parquet
split games.parquet -o sets
audit games.parquet long.parquet
search games.parquet .XO/XO. --next black -o pattern.svg --no-index
search games.parquet XOX/OXO/XOX --no-index
explore games.parquet R16 --no-index
search games.parquet .XO/XO.
explore games.parquet R16
show games.parquet
publish games.parquet -o published --license cc0-1.0
build agz17 games.parquet -o agz17 --set clean=legal --set planes=own+opp+last3
show agz17/train.parquet --row 200000
build tokens games.parquet -o tokens --set clean=legal
build olf-archive games.parquet -o olf --set clean=legal
build katago games.parquet -o katago
build kgsgo-v2 KGS-2016_01-19-17-.tar.gz -o kgsgo --sets archives --set until=2016
train quick-cpu games.parquet -o run --set net=b1c8 --set planes=own+opp --set validation=0.3 --time 2s
evaluate games.parquet --net run --overlap keep --positions 20000
annotate long.parquet -o moves.parquet --net run
export run -o net.onnx
mix games.parquet --net run --net small -o some.mix --positions 99 --overlap keep
predict big/00.sgf --net run --move 65535 -o heat.png
predict big/passes.sgf --net run --move 65535
problems games.parquet --net net.bin.gz --count 1
gtp --net run --rules japanese
match run run -o match --openings games.parquet --opening-moves 100 --dry-run
"""
GTP = "loadsgf big/00.sgf\ngenmove white\nundo\nfinal_score\nloadsgf big/passes.sgf\ngenmove black\nfinal_score\nquit\n"


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_commands(games: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(games)
    lines = [shlex.split(line) for line in LINES.strip().splitlines()]
    assert {line[0] for line in lines} | NO_GAMES == COMMANDS.keys()
    for name, *arguments in lines:
        if name == "gtp":
            done = subprocess.run([KIFU, name, *arguments], input=GTP, capture_output=True, text=True, timeout=300)
            answers = re.findall("^([=?])", done.stdout, re.MULTILINE)
            assert (done.returncode, answers[:1], len(answers), done.stderr) == (0, ["="], 8, ""), done
            continue
        shown = run(name, *arguments)
        assert shown.code == int(name == "audit"), (name, arguments, shown.err)  # the files share games
        assert not any("unexpected" in line for line in shown.err)
    assert "unexpected" not in run("evaluate", "games.parquet", "--set", "all").err[-1]


AT = {"line": None}
ENDPOINTS: dict[str, dict[str, Any] | None] = {
    "/api/site": {}, "/api/nets": {}, "/api/games": {"position": "0-2000.."}, "/api/facets": {}, "/api/stats": {},
    "/api/games/positions": {"rows": "0,16"}, "/api/games/{corpus}/{row}": {}, "/api/games/{corpus}/{row}/sgf": {},
    "/api/games/{corpus}/{row}/record": {}, "/api/upload": None, "/api/line": AT, "/api/predict": AT | {"ply": 2000},
    "/api/analyse": AT, "/api/candidates": AT, "/api/problems": {}, "/api/start": {}, "/api/play": AT,
    "/api/score": AT, "/api/record": AT, "/api/plane-sets": {}, "/api/planes": AT | {"planes": "seven@1"},
    "/api/explore": {"game": 0, "ply": 2000}, "/api/explore/games": {"rows": "0,16"}, "/api/pattern": {"game": 0},
    "/api/search": {"pattern": "XOX/OXO/XOX", "every": True}, "/api/splits": {}, "/api/dropped": {},
    "/api/clusters": {}, "/api/reports": {},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_endpoints(games: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs kifu[web]")
    from kifu.web.site import Site
    from web_site import serving

    with serving(Site([games / "games.parquet"], [str(games / "net.bin.gz")])) as served:
        routes = {route.path: route for route in served.routes}
        assert ENDPOINTS.keys() | {"/api/reports/{report}", "/assets/{name}", "/{path:path}"} == routes.keys()
        for row, (path, given) in product((0, 16), ENDPOINTS.items()):
            line = served.get(f"/api/games/0/{row}").json["line"]
            line = {name: line[name] for name in ("width", "height", "setup", "setup_ply", "moves", "to_play")}
            assert len(line["moves"]) == 2000
            at = path.format(corpus=0, row=row)
            if given is None:
                answer = served.post(at, (games / "big" / ("passes.sgf" if row else "00.sgf")).read_bytes())
            else:
                given = given | ({"line": line} if "line" in given else {})
                answer = served.post(at, given) if "POST" in routes[path].methods else served.get(at, **given)
            assert answer.status == 200, (path, answer.body[:300])


ELSEWHERE = {
    "annotate", "audit", "build", "build_index", "compact", "evaluate", "ingest", "open", "open_net", "parse_pattern",
    "parse_position", "publish", "query", "reproduce", "split", "stats", "train", "Pattern", "Position", "Searcher",
    "feature", "load_cleaning_rules", "load_recipe", "sample_path", "write_sgf", "Board", "Catalogue",
    "CleaningRules", "Evaluation", "LoaderConfig", "PositionFilter", "Rank", "Result", "Rules",
}  # fmt: skip
"""Public names that the commands or FUNCTIONS use, and those that take no games."""


def loaded(path: Path, **options: Any) -> int:
    return sum(len(batch) for batch in kifu.load(path / "games.parquet", "own+opp+last3", **options))


FUNCTIONS: dict[str, Callable[[kifu.Game, Path], object]] = {
    "append": lambda game, path: kifu.append(path / "big" / "00.sgf", path / "appended"),
    "encode": lambda game, path: kifu.encode(game, "own+opp+last3"),
    "load": lambda game, path: loaded(path, filter=kifu.PositionFilter(min_ply=60_000, merge_plies=50)),
    "open_catalogue": lambda game, path: list(kifu.open_catalogue(path / "games.parquet").games()),
    "read": lambda game, path: [each.errors for each in kifu.read(path / "big")],
    "read_games": lambda game, path: kifu.read_games(game.record),
    "read_sgf": lambda game, path: kifu.read_sgf(kifu.write_sgf(game)),
    "Game": lambda game, path: (hash(game), str(game), game.board(49_152), game.arrays()),
    "Loader": lambda game, path: kifu.load(path / "games.parquet", "own+opp+last3").draws(0),
    "Mixture": lambda game, path: kifu.load(kifu.Mixture({path / "games.parquet": 1, path / "big": 2}, 99), "own+opp"),
    "open_net": lambda game, path: kifu.open_net("small").evaluate(game, [MAX_MOVES, 49_152]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["00.sgf", "passes.sgf"])
def test_functions(games: Path, name: str) -> None:
    public = {*kifu.__all__, "open"}  # a star import would hide the built-in function
    others = {each for each in public if each.isupper() or hasattr(kifu.errors, each)}
    assert public - others == FUNCTIONS.keys() | ELSEWHERE
    game = kifu.read_sgf((games / "big" / name).read_bytes())
    assert len(game) == MAX_MOVES
    for function in FUNCTIONS.values():
        function(game, games)


@pytest.mark.parametrize("count", [49_151, 49_152, 65_535])
def test_search_has_room_for_all_moves(tmp_path: Path, count: int) -> None:
    (tmp_path / "a.sgf").write_text(record([None] * (count - 2) + [0, 1]))
    kifu.ingest(tmp_path / "a.sgf", tmp_path / "a.parquet")
    hits = kifu.Searcher(tmp_path / "a.parquet").find(kifu.parse_pattern("+--/|XO"), jobs=1)
    assert hits.table["ply"].to_pylist() == [count]


def test_more_moves_are_refused() -> None:
    game = kifu.read_sgf(record([None] * MAX_MOVES).encode())
    with pytest.raises(GameError, match="a game must have at most 65,535 moves, got 65,536"):
        replace(game, moves=np.append(game.moves, game.moves[:1]))
    assert kifu.read_games(record([None] * (MAX_MOVES + 1)).encode())[0].drop == DropReason.TOO_LARGE
    arrays = game.arrays()
    with pytest.raises(GameError, match="a game must have at most 65,535 moves, got 131,070"):
        replace(arrays, moves=np.tile(game.moves, 2), move_offset=2 * arrays.move_offset)


@pytest.mark.thorough
@pytest.mark.subprocess
@pytest.mark.timeout(7200)
def test_with_bounds_checks(tmp_path: Path) -> None:
    environment = {
        "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "error::RuntimeWarning",
    }  # fmt: skip
    assert passed(["-m", "slow", __file__], 7200, **environment) == 4

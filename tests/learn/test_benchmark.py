"""Benchmarks: named sets of games, fixed positions, excluded games, drift, and pages of results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from blake3 import blake3

import evaluated
import kifu
from commands import is_error, run
from kata_nets import small_net
from kgs_archives import archive, members, record
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.schema import to_numpy
from kifu.datasets.mmap_games import read_games
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.katago.net_file import write_kata_net
from kifu.point import WHITE_BIT
from kifu.recipes.schema import load_training
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")
report = lazy_import("kifu.report")
make_benchmarks = lazy_import("make_benchmarks")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated.games(tmp_path_factory.mktemp("source"))


@pytest.fixture
def tiny_set(source: Path, tmp_path: Path) -> Iterator[learn.benchmark.BenchmarkSet]:
    evaluated.write_set(tmp_path, evaluated.draw(source))
    with evaluated.only_sets_of(tmp_path):
        yield learn.benchmark.load_set("tiny")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_net(tmp_path_factory.mktemp("net") / "tiny.safetensors", size=19, games=[1])


def only(results: learn.results.BenchmarkResults) -> learn.results.SetResults:
    (found,) = results.sets
    return found


# Packaged sets


WINDOWS = {
    "kgs-2018q4@1": "kgs/KGS-2018_1*",
    "people-kgs-2018q4@1": "kgs/KGS-2018_*",
    "fox-2018to19@1": "wild/fox-pro-680.tar.gz",
    "people-fox@1": "fox/*.7z",
    "people-tygem@1": "tygem/*2016*.zip",
    "tygem-2016-07@1": "tygem/*.zip",
    "kgs-2003@1": "kgs/KGS-2003-*",
    "kgs-2016@1": "kgs/KGS-2016_*",
}


def test_packaged_sets_share_no_game_and_are_small() -> None:
    sets = [learn.benchmark.load_set(name) for name in learn.benchmark.set_names()]
    assert {each.name for each in sets} == set(WINDOWS)
    assert sum(len(each.hashes + each.accounts) for each in sets) < 140_000
    for people in (False, True):
        chosen = [each for each in sets if each.name.startswith("people") == people]
        assert all((len(each.movers()) > 100) == people for each in chosen)
        for column in (0, 1):
            keys = np.concatenate([each.keys()[:, column] for each in chosen])
            assert len(np.unique(keys)) == len(keys) == sum(each.games for each in chosen)


@pytest.mark.parametrize(
    "name", [*list(WINDOWS)[:3], *(pytest.param(each, marks=pytest.mark.slow) for each in list(WINDOWS)[3:])]
)
def test_packaged_sets_are_drawn_by_their_rule(name: str, shared: Path) -> None:
    each = learn.benchmark.load_set(name)
    archives = sorted((shared / "data").glob(WINDOWS[name]))
    archives = [path for path in archives if path.name in each.archives]
    assert tuple(path.name for path in archives) == each.archives
    rows = read_games(archives, (19, 19), False, None, make_benchmarks.DRAW_COLUMNS)
    for name in ("black_program", "white_program"):  # some are recognized only since sets were drawn
        people = pc.and_not(rows[name], pc.is_in(rows["canonical"], pa.array(each.keys()[:, 0])))
        rows = rows.set_column(rows.schema.get_field_index(name), name, people)
    share = next(window.share for window in make_benchmarks.WINDOWS if window.name == each.name)
    keys, movers = make_benchmarks.draw_games(rows, each.first, each.last, each.games, share)
    assert np.array_equal(keys, each.keys())
    assert np.array_equal(movers, each.movers())
    listing = "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in keys.tolist())
    listing += "".join(f"{account:016x}\n" for account in movers.tolist())
    assert blake3(listing.encode()).hexdigest() == each.digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digest": f'"{"0" * 64}"'}, "hashes: 24 games with the digest"),
        ({"games": 23}, "hashes: 24 games with the digest"),
        ({"hashes": '"?"'}, "hashes: "),
        ({"windows": '"decade"'}, "windows must be 'day', 'week' or 'month'"),
    ],
)
def test_damaged_definitions(changes: dict[str, object], message: str, source: Path, tmp_path: Path) -> None:
    evaluated.write_set(tmp_path, evaluated.draw(source), **changes)
    with evaluated.only_sets_of(tmp_path), pytest.raises(RecipeError, match=message):
        learn.benchmark.load_set(evaluated.NAME)


def test_the_draw_depends_on_the_games_alone(source: Path, tmp_path: Path) -> None:
    backwards = archive(tmp_path / "backwards", members(source)[::-1])
    assert np.array_equal(evaluated.draw(source), evaluated.draw(backwards))
    fewer, more = (set(evaluated.draw(source, count)[:, 0].tolist()) for count in (5, 24))
    assert (len(fewer), len(more)) == (5, 24)
    assert fewer < more
    rows = read_games([source], (19, 19), False, 1, make_benchmarks.DRAW_COLUMNS)
    with pytest.raises(RecipeError, match="no game from 2005-01-01"):
        make_benchmarks.draw_games(rows, date(2005, 1, 1), date(2005, 1, 2), 5)


def test_games_that_share_an_opening_are_not_drawn(source: Path, tmp_path: Path) -> None:
    texts = members(source)
    cut = texts[0][: texts[0].rindex(b";")] + b")"  # the same game without its last move
    doubled = archive(tmp_path / "doubled", [*texts, cut])
    drawn, before = (set(evaluated.draw(path, 99)[:, 0].tolist()) for path in (doubled, source))
    assert len(before - drawn) == 1
    assert drawn < before


def test_accounts_of_sets_are_not_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are programs, unless the recipe wants them; a set predicts the moves of its accounts only."""
    players = (("Alice", "Bob"), ("alice ", "Zen19"), ("Bob", "Zen19"))
    texts = [f"(;PB[{b}]PW[{w}]".encode() + record(b + w, 80)[2:] for b, w in players]
    source = archive(tmp_path / "names", texts)
    rows = read_games([source], (19, 19), False, 1, learn.benchmark._COLUMNS)
    alice = learn.benchmark.hash_accounts(pa.array(["ALICE"]))
    chosen = learn.benchmark.fixed_positions(rows, alice)
    assert set(rows["black"].take(pa.array(chosen.game)).to_pylist()) == {"Alice", "alice "}
    assert not (chosen.words & WHITE_BIT).any()
    monkeypatch.setattr(learn.benchmark, "_reserved_accounts", lambda: alice)
    for programs, reserved, expected in (
        (False, True, [0, 40, 40]),
        (True, True, [40, 40, 80]),
        (True, False, [80] * 3),
    ):
        switches = f"positions={{passes=True,programs={programs}}}", f"exclude_benchmarks={reserved}"
        recipe = load_training("quick-cpu", ["validation=0.0", *map(str.lower, switches)])
        counts = learn.data.read_training_games(recipe, [source], (), 1).train.select(0, 0, False).counts
        assert sorted(counts.tolist()) == expected


# Runs


def test_fixed_positions_of_all_games(
    source: Path, tiny_set: learn.benchmark.BenchmarkSet, net: Path, tmp_path: Path
) -> None:
    found = learn.benchmark.benchmark([net], source)
    result = only(found)
    assert (result.name, result.games, result.present, result.used) == (evaluated.NAME, 24, 24, 24)
    assert result.positions == 24 * learn.benchmark.PER_GAME
    assert result.remarks() == []
    (scores,) = result.nets
    assert (scores.name, scores.known_games, scores.seen, scores.to_first) == ("tiny", 1, 0, None)
    assert list(scores.by["window"]) == ["2001-01", "2001-02", "2001-03", "2001-04"]
    assert set(scores.by["rank"]) == {f"{k}d" for k in range(1, 6)}
    assert sum(score.positions for score in scores.by["window"].values()) == result.positions
    assert set(scores.drift) == {"top1", "top3", "top5", "nll"}
    # Copies, another order of the sources, a catalogue of them and a folder give the same figures.
    folder = tmp_path / "sources"
    backwards = archive(folder, members(source)[::-1], year=2002)
    kifu.ingest(source, tmp_path / "games.parquet")
    for sources in ([backwards, source], [tmp_path / "games.parquet", folder], folder):
        assert learn.benchmark.benchmark([net], sources) == found


def test_positions_do_not_depend_on_other_games(source: Path, tmp_path: Path) -> None:
    rows = read_games([source], (19, 19), False, 1, learn.benchmark._COLUMNS)
    everything = learn.benchmark.fixed_positions(rows)
    some = learn.benchmark.fixed_positions(rows.slice(5, 3))
    of_some = (everything.game >= 5) & (everything.game < 8)
    assert some.ply.tolist() == everything.ply[of_some].tolist()
    assert (everything.move < 361).all()
    assert np.bincount(everything.game).tolist() == [learn.benchmark.PER_GAME] * len(rows)
    assert len(np.unique(np.stack([everything.game, everything.ply]), axis=1).T) == len(everything)


@pytest.mark.slow
def test_missing_and_seen_games(
    source: Path, tiny_set: learn.benchmark.BenchmarkSet, net: Path, tmp_path: Path
) -> None:
    some = archive(tmp_path / "some", members(source)[:20])
    kifu.ingest(some, tmp_path / "some.parquet")
    canonical = {key for batch in open_catalogue(tmp_path / "some.parquet").batches(["canonical"])
                 for key in to_numpy(batch["canonical"]).tolist()}  # fmt: skip
    present = sorted(canonical & set(tiny_set.keys()[:, 0].tolist()))
    other = tiny_net(tmp_path / "other.safetensors", size=19, games=present[:3], seed=1)
    unknown = tiny_net(tmp_path / "unknown.safetensors", size=19, seed=2)
    result = only(learn.benchmark.benchmark([net, other, unknown], some, symmetries=True))
    assert (result.present, result.used) == (len(present), len(present) - 3)
    assert 3 < len(present) < 20
    assert [(each.name, each.symmetries, each.seen) for each in result.nets] == [
        (name, symmetries, seen)
        for name, seen in (("tiny", 0), ("other", 3), ("unknown", 0))
        for symmetries in (False, True)
    ]
    assert all(each.score and result.used <= each.score.accounts <= 2 * result.used for each in result.nets)
    page = report.evaluation.compare([learn.benchmark.benchmark([net, other], some)])
    assert page.count(f"| INCOMPLETE: {result.used} of 24 |") == 2
    first, second = result.nets[0], result.nets[2]
    assert second.to_first is not None
    difference = second.score.top1.value - first.score.top1.value
    assert second.to_first["top1"].value == pytest.approx(difference)
    incomplete, of_unknown = result.remarks()
    assert f"{result.used} of 24 games; {24 - len(present)} are not in the sources" in incomplete
    assert of_unknown.startswith("The training games of unknown are unknown")


def test_a_net_of_katago(source: Path, tiny_set: learn.benchmark.BenchmarkSet, tmp_path: Path) -> None:
    write_kata_net(tmp_path / "net.bin.gz", small_net(["residual"]))
    found = only(learn.benchmark.benchmark([tmp_path / "net.bin.gz"], source))
    assert [each.description for each in found.nets] == ["KataGo's net small"]


def test_nothing_is_left(source: Path, tiny_set: learn.benchmark.BenchmarkSet, tmp_path: Path) -> None:
    games = sorted(tiny_set.keys()[:, 0].tolist())
    learned = tiny_net(tmp_path / "all.safetensors", size=19, games=games)
    found = learn.benchmark.benchmark([learned], source)
    result = only(found)
    assert (result.present, result.used, result.positions, result.nets[0].seen) == (24, 0, 0, 24)
    assert result.nets[0].score is None
    assert "| all | none left |" in report.evaluation.compare([found])
    with pytest.raises(SourceError, match=r"holds no game of tiny@1"):
        learn.benchmark.benchmark([learned], evaluated.games(tmp_path / "others", seed=1))


@pytest.mark.slow
def test_training_leaves_the_games_out(source: Path, tiny_set: learn.benchmark.BenchmarkSet, tmp_path: Path) -> None:
    cut = [text[: text.rindex(b";")] + b")" for text in members(source)]  # canonical hashes differ, openings do not
    settings = ["net=b1c8", "planes=seven", "validation=0.2"]
    kept = len(read_games([source], (19, 19), False, 1, ("id",)))
    for path in (source, archive(tmp_path / "cut", cut)):
        games = learn.data.read_training_games(load_training("quick-cpu", settings), [path], [], 1)
        assert games.counts()["benchmark_games_excluded"] == 24
        assert games.counts()["train_games"] + games.counts()["validation_games"] == kept - 24 > 0
        assert not np.isin(games.canonical, tiny_set.keys()[:, 0]).any()
        recipe = load_training("quick-cpu", [*settings, "exclude_benchmarks=false"])
        games = learn.data.read_training_games(recipe, [path], [], 1)
        assert games.counts()["benchmark_games_excluded"] == 0
        assert games.counts()["train_games"] + games.counts()["validation_games"] == kept
    recipe = load_training("quick-cpu", [*settings, "exclude_benchmarks=false"])
    with_them = learn.data.read_training_games(recipe, [source], [], 1)
    assert np.isin(tiny_set.keys()[:, 0], with_them.canonical).all()
    held_out = learn.data.read_training_games(
        load_training("quick-cpu", settings), [evaluated.games(tmp_path / "others", seed=1)], [source], 1
    )
    assert (held_out.counts()["validation_games"], held_out.counts()["benchmark_games_excluded"]) == (kept - 24, 24)


# Drift


def scored(hits: np.ndarray, positions: int, seed: int) -> tuple[learn.scores.MoveScores, np.ndarray]:
    """Return moves of games, and the game of each, that are predicted with the probability of each game."""
    rng = np.random.default_rng(seed)
    game = np.repeat(np.arange(len(hits)), positions)
    rank = np.where(rng.random(len(game)) < hits[game], 0, 9).astype(np.uint16)
    moves = learn.scores.MoveScores.empty(len(game))
    moves.preferred[:], moves.nll[:], moves.confidence[:] = rank, np.where(rank == 0, 0.5, 3.0), 0.5
    return moves, game


def drift_of(hits: np.ndarray, window: np.ndarray, seed: int = 0) -> tuple[learn.scores.Drift, learn.scores.Interval]:
    moves, game = scored(hits, 15, seed)
    score = learn.scores.score(moves, game, 0)
    return learn.scores.measure_drift(moves, game, window[game], score)["top1"], score.top1


def test_without_drift_the_interval_is_that_of_the_bootstrap() -> None:
    window = np.arange(960) % 12
    found = [drift_of(np.full(960, 0.45), window, seed) for seed in range(20)]
    # The estimate of the variance between windows is unbiased before it is cut at 0: about half are 0.
    assert 5 <= sum(drift.interval == interval for drift, interval in found) <= 16
    assert np.mean([drift.spread for drift, _ in found]) < 0.01


def test_constructed_drift_is_found() -> None:
    window = np.repeat(np.arange(12), 80)
    true = np.random.default_rng(3).normal(0.45, 0.05, 12)
    drift, interval = drift_of(true[window], window)
    assert drift.spread == pytest.approx(true.std(ddof=1), rel=0.3)
    assert drift.interval.value == interval.value
    assert drift.interval.low < interval.low - 0.03
    assert drift.interval.high > interval.high + 0.03
    # It contains a new window's share 19 times in 20; the bootstrap's interval is too narrow.
    new = np.random.default_rng(4).normal(0.45, 0.05, 1000)
    assert np.mean((new > drift.interval.low) & (new < drift.interval.high)) > 0.85
    assert np.mean((new > interval.low) & (new < interval.high)) < 0.5


def test_drift_needs_windows_with_games() -> None:
    moves, game = scored(np.full(40, 0.5), 15, 0)
    score = learn.scores.score(moves, game, 0)
    halves, unknown = np.arange(40) % 2, np.full(40, -1)
    sparse = np.where(np.arange(40) < 36, halves, np.arange(40))  # windows of one game do not count
    for window in (halves, unknown, sparse):
        assert learn.scores.measure_drift(moves, game, window[game], score) == {}
    shifted = np.where(np.arange(40) < 4, -1, np.arange(40) % 3)
    assert learn.scores.measure_drift(moves, game, shifted[game], score)


def test_means_over_sets() -> None:
    def sample(p: float, seed: int) -> learn.scores.Score:
        moves, game = scored(np.full(300, p), 15, seed)
        return learn.scores.score(moves, game, 0)

    assert learn.scores.pool_sets([sample(0.5, 0), sample(0.4, 1)]) == {}
    true = [0.42, 0.45, 0.47, 0.44, 0.5]
    pooled = learn.scores.pool_sets([sample(p, k) for k, p in enumerate(true)])["top1"]
    assert pooled.spread == pytest.approx(np.std(true, ddof=1), rel=0.4)
    assert pooled.interval.value == pytest.approx(np.mean(true), abs=0.01)
    arm = 2.78 * np.std(true, ddof=1) * (6 / 5) ** 0.5  # Student's distribution with 4 degrees of freedom
    assert pooled.interval.high - pooled.interval.value == pytest.approx(arm, rel=0.4)
    same = [learn.scores.pool_sets([sample(0.45, 10 * run + k) for k in range(5)])["top1"] for run in range(10)]
    assert np.mean([each.spread for each in same]) < 0.01
    assert sum(each.interval.low < 0.45 < each.interval.high for each in same) >= 9


# Commands and files


def test_results_are_compared(source: Path, tiny_set: learn.benchmark.BenchmarkSet, net: Path, tmp_path: Path) -> None:
    hostile = tiny_net(tmp_path / "a|b<i>.safetensors", size=19, games=[2], seed=3)
    for path, name in ((net, "a"), (hostile, "b")):
        result = run(
            "evaluate",
            "--set",
            "all",
            "--net",
            path,
            source,
            "--json",
            tmp_path / f"{name}.json",
            "-o",
            tmp_path / f"{name}.md",
        )
        assert result.code == 0, result.err
        assert "360 positions of 24 of 24 games" in result.out
        assert max(map(len, result.out.splitlines())) <= 80
    read = [learn.results.read_results(tmp_path / f"{name}.json") for name in "ab"]
    assert read == [learn.benchmark.benchmark([path], source) for path in (net, hostile)]
    result = run("evaluate", "--compare", tmp_path / "a.json", tmp_path / "b.json", "-o", tmp_path / "page.md")
    assert result.code == 0, result.err
    page = (tmp_path / "page.md").read_text()
    assert result.out.rstrip() == page.rstrip()
    rows = [line for line in page.splitlines() if line.startswith(("| tiny", "| a"))]
    assert sorted(row.split(" | ")[0] for row in rows) == ["| a\\|b\\<i\\>", "| tiny"]
    assert (tmp_path / "a.md").read_text().splitlines()[-1] in rows


def test_sets_are_listed() -> None:
    name = "kgs-2018q4@1"
    each = learn.benchmark.load_set(name)
    listing = run("list", "sets", "kgs-2018q4").out
    assert blake3(listing.encode()).hexdigest() == each.digest
    lines = [line.split() for line in run("list", "sets").out.splitlines()]
    assert [name, "800", "KGS,", "October", "and", "November", "2018", each.digest[:12]] in lines
    assert [line[0] for line in lines[1:]] == learn.benchmark.set_names()


def test_an_unknown_set_is_not_listed() -> None:
    is_error(run("list", "sets", "2018q4"), "unknown benchmark set '2018q4'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{source}", "--set", "kgs"], "unknown benchmark set 'kgs'"),
        (["{source}", "--set", "kgs-2003"], "holds no game of kgs-2003@1"),
        (["--net", "{net9}", "{source}", "--set", "all"], "9 x 9"),
        (["nothing.parquet", "--set", "all"], "nothing.parquet"),
        (["{source}", "--set", "all", "--legal"], "--legal cannot be combined with --set"),
        (["{source}", "-o", "page.md"], "-o page.md needs --set or --compare"),
        (["--compare", "nothing.json"], "cannot read nothing.json"),
        (["--compare", "{source}"], "does not hold results of kifu evaluate --set"),
    ],
)
def test_bad_input(arguments: list[str], message: str, source: Path, tmp_path: Path) -> None:
    places = {"source": str(source), "net9": str(tiny_net(tmp_path / "nine.safetensors", "blog", "one-plane"))}
    result = run("evaluate", *(each.format(**places) for each in arguments))
    *begun, line = result.err
    assert (result.code, result.out) == (2, "")
    assert all(each.startswith("reading games") for each in begun)
    assert line.startswith("kifu: ")
    assert message in line


def test_results_of_other_lists_are_not_compared(
    source: Path, tiny_set: learn.benchmark.BenchmarkSet, net: Path
) -> None:
    found = learn.benchmark.benchmark([net], source)
    other = only(found).model_copy(update={"digest": "0" * 64})
    with pytest.raises(FormatError, match="different lists of games"):
        report.evaluation.compare([found, found.model_copy(update={"sets": (other,)})])

"""Annotation of moves: agreement with single predictions and with `evaluate`, resuming, and errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evaluated
from commands import run
from evaluated import games_in
from kata_nets import small_net
from kifu.corpus.catalogue import open_catalogue
from kifu.datasets.global_inputs import encode_inputs
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.io import hash_file
from kifu.katago.net_file import write_kata_net
from kifu.point import POINT_MASK, WHITE_BIT
from lazy import lazy_import
from naive_hashes import mix
from nets import tiny_net

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated.make(tmp_path_factory.mktemp("games"))


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("nets")
    return [
        tiny_net(folder / "run.safetensors", passes=True, heads=("value",)),
        tiny_net(folder / "small.safetensors", planes="one-plane", seed=1),
    ]


@pytest.fixture(scope="module")
def rows(games: Path, nets: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("rows") / "moves.parquet"
    report = learn.annotate.annotate(nets, games, path, jobs=2)
    assert (report.read, report.annotated, dict(report.skipped)) == (9, 8, {"board": 1})
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    assert report.rows == len(found) == 2 * 8 * 36
    return found


def single_predictions(games: Path, nets: list[Path]) -> Iterator[dict[str, Any]]:
    predictors = [learn.net.open_net(net) for net in nets]
    (ids,) = (batch["id"].to_pylist() for batch in open_catalogue(games).batches(["id"]))
    for game_id, game in zip(ids, games_in(games)):
        for predictor in predictors:
            for ply, word in enumerate(game.moves.tolist()):
                found = predictor.evaluate(learn.positions.NetPositions.from_games([game], [ply]))
                policy, move = found.policy[0].astype(np.float64), word & POINT_MASK
                order = np.argsort(-policy, kind="stable").tolist()
                known = move < len(policy)
                yield {
                    "game": game_id,
                    "ply": ply,
                    "move": word,
                    "colour": "white" if word & WHITE_BIT else "black",
                    "net": predictor.name,
                    "probability": policy[move] if known else None,
                    "log_probability": math.log(policy[move]) if known else None,
                    "rank": order.index(move) + 1 if known else None,
                    "entropy": -sum(p * math.log(p) for p in policy.tolist() if p),
                    "top_move": order[0] | (word & WHITE_BIT),
                    "top_probability": max(policy),
                    "value": None if found.value is None else float(found.value[0]),
                }


@pytest.mark.slow
def test_rows_equal_single_predictions(games: Path, nets: list[Path], rows: list[dict[str, Any]]) -> None:
    for found, expected in zip(rows, single_predictions(games, nets), strict=True):
        exact = [name for name, value in expected.items() if not isinstance(value, float)]
        assert [found[name] for name in exact] == [expected[name] for name in exact]
        for name in expected.keys() - exact:
            assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    assert {row["probability"] is None for row in rows if row["move"] & POINT_MASK == 81} == {True, False}


def test_columns_agree_with_each_other(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert 0 <= row["entropy"] <= math.log(82)
        assert (row["rank"] == 1) == (row["move"] == row["top_move"])
        if row["rank"] is not None:
            assert row["probability"] == pytest.approx(math.exp(row["log_probability"]))
            assert row["probability"] <= row["top_probability"] <= 1
            assert row["rank"] > 1 or row["probability"] == row["top_probability"]


def test_evaluate_summarizes_the_rows(games: Path, nets: list[Path], rows: list[dict[str, Any]]) -> None:
    found = learn.evaluate.evaluate(nets, games, learn.results.EvalOptions(legal=True))
    for net in found.nets:
        moves = [row for row in rows if row["net"] == net.name and row["move"] & POINT_MASK < 81]
        assert net.score.positions == len(moves)
        assert net.score.nll.value == pytest.approx(-np.mean([row["log_probability"] for row in moves]), rel=1e-5)
        for top in (1, 3, 5):
            share = np.mean([row["rank"] <= top for row in moves])
            assert net.score.measure(f"top{top}").value == pytest.approx(share)


def near(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: pytest.approx(value, rel=1e-4, abs=1e-6) if isinstance(value, float) else value
        for name, value in row.items()
    }


def test_rows_do_not_depend_on_shards(
    games: Path, nets: list[Path], rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learn.annotate, "_SHARD_GAMES", 3)
    monkeypatch.setattr(learn.annotate, "_ITEM_GAMES", 2)
    learn.annotate.annotate(nets, games, tmp_path / "moves.parquet")
    for found, expected in zip(pq.read_table(tmp_path / "moves.parquet").to_pylist(), rows, strict=True):
        assert found == near(expected)


@pytest.fixture(scope="module")
def kata_net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kata") / "points.bin.gz"
    write_kata_net(path, small_net(["residual", "learned"]))
    return path


def test_points_equal_evaluations(games: Path, kata_net: Path, tmp_path: Path) -> None:
    options = learn.annotate.AnnotateOptions("9x9", points=True)
    learn.annotate.annotate(kata_net, games, tmp_path / "all.parquet", options)
    found, net = pq.read_table(tmp_path / "all.parquet"), learn.net.open_net(kata_net)
    expected = learn.evaluation.join([net.evaluate(game, range(len(game))) for game in games_in(games)[:8]])
    np.testing.assert_allclose(found["lead"].to_numpy(), expected.score[:, 0], atol=1e-4)
    np.testing.assert_allclose(found["lead_stdev"].to_numpy(), expected.score[:, 1], atol=1e-4)
    owner = np.stack([np.frombuffer(each, np.int8) for each in found["ownership"].to_pylist()])
    assert owner.min() < -1
    assert owner.max() > 1
    sql = "SELECT min(lead), max(octet_length(ownership)) FROM moves"
    (first,) = json.loads(run("query", sql, tmp_path / "all.parquet", "--json", "-").out)["rows"]
    assert (float(first[0]), first[1]) == (pytest.approx(found["lead"].to_numpy().min()), "81")
    # Bytes are rounded; figures of other batches differ in the last digits.
    assert np.abs(owner - 127 * expected.ownership).max() < 0.501


def drawn_plies(game: int, plies: int, count: int) -> set[int]:
    lowest = sorted(range(plies), key=lambda ply: mix(game ^ mix(ply)))[:count]
    return {k for ply in lowest for k in (ply, ply + 1) if k < plies}


def test_drawn_positions(
    games: Path, nets: list[Path], rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, whole = learn.annotate.AnnotateOptions(per_game=3), tmp_path / "drawn.parquet"
    learn.annotate.annotate(nets, games, whole, options, jobs=2)
    expected = [row for row in rows if row["ply"] in drawn_plies(row["game"], 36, 3)]
    assert 35 in {row["ply"] for row in expected}
    for found, row in zip(pq.read_table(whole).to_pylist(), expected, strict=True):
        assert found == near(row)
    monkeypatch.setattr(learn.annotate, "_ITEM_GAMES", 2)
    learn.annotate.annotate(nets, games, tmp_path / "small.parquet", options, jobs=1)
    places = [pq.read_table(path, columns=["game", "net", "ply"]) for path in (whole, tmp_path / "small.parquet")]
    assert places[0].equals(places[1])


@pytest.mark.parametrize("points", [False, True])
def test_an_interrupted_run_resumes(
    games: Path, nets: list[Path], kata_net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, points: bool
) -> None:
    monkeypatch.setattr(learn.annotate, "_SHARD_GAMES", 3)
    whole, path = tmp_path / "whole.parquet", tmp_path / "moves.parquet"
    nets = [kata_net] if points else nets
    options = learn.annotate.AnnotateOptions("9x9", per_game=2 if points else None, points=points)
    learn.annotate.annotate(nets, games, whole, options)
    process, done = learn.annotate.AnnotateJob.process, []

    def limited(job: Any, item: pa.RecordBatch) -> Any:
        if len(done) == limit:
            raise KeyboardInterrupt
        done.append(item)
        return process(job, item)

    monkeypatch.setattr(learn.annotate.AnnotateJob, "process", limited)
    limit = 2
    with pytest.raises(KeyboardInterrupt):
        learn.annotate.annotate(nets, games, path, options, jobs=1)
    assert [each.name for each in tmp_path.iterdir() if each != whole] == [".moves.parquet.work"]
    limit = 3  # two of three shards are complete
    learn.annotate.annotate(nets, games, path, options, jobs=1)
    assert sorted(tmp_path.iterdir()) == [path, whole]
    assert path.read_bytes() == whole.read_bytes()


def test_threads_end_after_a_batch_if_no_results_are_needed(games: Path, nets: list[Path]) -> None:
    (batch,) = open_catalogue(games).batches()
    job, _ = learn.annotate.prepare(nets, games, learn.annotate.AnnotateOptions())
    job.close()
    with pytest.raises(CancelledError):
        job.process(batch)


def test_other_nets_or_options_do_not_resume(
    games: Path, nets: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for names, options in ((nets, {}), (nets[:1], {}), (nets, {"symmetries": True}), (nets, {"board": "11x11"})):
        job, _ = learn.annotate.prepare(names, games, learn.annotate.AnnotateOptions(**options))
        with (
            suppress(KeyboardInterrupt),
            learn.annotate._part_files(tmp_path / "moves.parquet", job.describe()) as part,
        ):
            part(0).touch()
            raise KeyboardInterrupt
        paths.append(part(0))
        assert list(tmp_path.rglob("*.part")) == [part(0)]
    assert len(set(paths)) == 4


def test_a_damaged_part_is_reported_and_made_again(tmp_path: Path, games: Path, nets: list[Path]) -> None:
    (batch,) = open_catalogue(games).batches()
    job, _ = learn.annotate.prepare(nets, games, learn.annotate.AnnotateOptions())
    item, path = job.process(batch), tmp_path / "0.part"
    learn.annotate._write_part(path, [item, item])
    rows, read, skipped = learn.annotate._read_part(path)
    assert rows.equals(pa.concat_batches([item[0]] * 2))
    assert (read, skipped) == (2 * item[1], item[2] + item[2])
    whole = path.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole[:-1] + b"?"):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"damaged: its checksum is wrong; it is removed"):
            learn.annotate._read_part(path)
        assert not path.exists()


def test_threads_of_torch_are_restored(games: Path, nets: list[Path], tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        learn.annotate.annotate(nets[1], games, tmp_path / "moves.parquet", jobs=1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_ranks_of_all_positions_can_be_replaced(games: Path) -> None:
    (batch,) = open_catalogue(games).batches()
    batch = batch.slice(0, 8)
    source = CatalogueSource(batch, ExampleSpec("black+white", (9, 9), labels=("move",)))
    positions = learn.positions.NetPositions.from_source(source, batch)
    forced = positions.with_ranks(34.0, 40.0)
    rating = np.tile(np.float32([34, 40]), (len(positions), 1))
    rating[positions.to_play == 2] = 40, 34
    conditions = replace(positions.conditions.take(positions.game), rating=rating)
    expected = encode_inputs(["komi", "ranks"], conditions, np.arange(len(positions)), positions.to_play == 2)
    assert np.array_equal(encode_inputs(["komi", "ranks"], *forced.inputs), expected)
    half = positions.with_ranks(None, 40.0).take(slice(3, 50))
    kept = half.inputs[0].rating
    side = (half.to_play == 2).astype(int)
    at = np.arange(len(half))
    assert np.array_equal(kept[at, side], positions.conditions.rating[half.game, side], equal_nan=True)
    assert set(kept[at, 1 - side].tolist()) == {40.0}


def test_the_file_describes_its_origin(games: Path, nets: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "moves.parquet"
    learn.annotate.annotate(nets, games, path, learn.annotate.AnnotateOptions(symmetries=True))
    metadata = pq.read_metadata(path).metadata
    about = json.loads(metadata[b"kifu.about"])
    assert metadata[b"kifu.moves"] == b"2"
    assert [net["name"] for net in about["nets"]] == ["run", "small"]
    assert about["nets"][0]["net"].startswith("b1c8 on seven")
    assert len(about["nets"][0]["blake3"]) == 64
    assert about["options"]["symmetries"]
    assert about["options"]["board"] == "9x9"
    assert about["sources"][0]["blake3"] == open_catalogue(games).digest()


def test_polars_and_duckdb_read_the_file(games: Path, nets: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "moves.parquet"
    learn.annotate.annotate(nets, games, path)
    frame = pl.read_parquet(path)
    counted = duckdb.sql(f"SELECT net, count(*), avg(entropy) FROM '{path}' GROUP BY net ORDER BY net").fetchall()
    assert [each[:2] for each in counted] == [("run", 288), ("small", 288)]
    assert frame["net"].cast(pl.String).unique().sort().to_list() == ["run", "small"]
    assert counted[0][2] == pytest.approx(frame.filter(pl.col("net") == "run")["entropy"].mean())


GUIDE = (Path(__file__).parents[2] / "docs/annotation.md").read_text("utf-8")

QUESTIONS = re.findall(r'^kifu query "(.*?)" games\.parquet moves', GUIDE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def annotated(games: Path, nets: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("annotated") / "moves.parquet"
    learn.annotate.annotate(nets, games, path)
    return path


@pytest.mark.parametrize("sql", QUESTIONS)
def test_questions_of_the_guide(sql: str, games: Path, annotated: Path) -> None:
    result = run("query", sql, games, annotated, "--json", "-")
    assert result.code == 0, result.err
    assert json.loads(result.out)["rows"]


def test_the_guide_asks_questions() -> None:
    assert len(QUESTIONS) == 2


def test_queries_read_annotations_alone(annotated: Path, tmp_path: Path) -> None:
    out = tmp_path / "hard.parquet"
    assert run("query", "SELECT * FROM moves WHERE rank > 5", annotated, "-o", out).code == 0
    found = pq.read_table(out)
    assert found["rank"].to_numpy().min() == 6
    assert found["colour"].type == pa.string()
    (origin,) = json.loads(pq.read_metadata(out).metadata[b"kifu.of"])
    assert origin == {"blake3": hash_file(annotated)}
    assert "kept does not exist" in run("query", "SELECT * FROM kept", annotated).err[0]


def test_annotations_of_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "moves.parquet"
    for metadata, message in (
        ({"kifu.moves": "1"}, "annotation of version '1'; this kifu reads version 2"),
        ({"kifu.moves": "2"}, "is not an annotation: it lacks the columns game, ply, move"),
    ):
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(metadata), path)
        result = run("query", "SELECT 1", path)
        assert (result.code, len(result.err)) == (2, 1)
        assert message in result.err[0]


def test_the_command(games: Path, nets: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "moves.parquet"
    arguments = ["annotate", games, "-o", out, "--net", nets[0], "--net", nets[1]]
    assert "dry run" in run(*arguments, "--dry-run").out
    assert not out.exists()
    result = run(*arguments, "--json", tmp_path / "report.json")
    assert "9 games = 8 annotated + 1 on other boards; 576 rows" in result.out
    assert json.loads((tmp_path / "report.json").read_text())["rows"] == 576


WRONG = [
    (["--rank", "40d"], "--rank must be a rank, 30k to 1k, 1d to 9d or 1p to 9p, got '40d'"),
    (["--rank", "3d"], "does not take ranks"),
    (["--board", "big"], "board must be like 19x19, got 'big'"),
    (["--precision", "float16"], "unknown precision 'float16'"),
    (["--net", "no-such-net"], "no-such-net"),
    (["--engine", "spark"], "unknown engine 'spark'"),
    (["--jobs", "0"], "--jobs"),
    (["--per-game", "0"], "--per-game"),
    (["--points"], "net run has no points, which --points requires"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_invalid_options(arguments: list[str], message: str, games: Path, nets: list[Path], tmp_path: Path) -> None:
    result = run("annotate", games, "-o", tmp_path / "moves.parquet", "--net", nets[0], *arguments)
    assert (result.code, len(result.err)) == (2, 1)
    assert message in result.err[0]
    assert not [*tmp_path.iterdir()]


def test_boards_that_a_net_does_not_support(games: Path, tmp_path: Path) -> None:
    fixed = tiny_net(tmp_path / "fixed.safetensors", "blog", "one-plane")
    options = learn.annotate.AnnotateOptions(board="11x11")
    with pytest.raises(RecipeError, match="supports 9 x 9 boards only, got 11 x 11"):
        learn.annotate.annotate(fixed, games, tmp_path / "moves.parquet", options)


def test_planes_of_ranks_are_not_replaced(games: Path, tmp_path: Path) -> None:
    net = tiny_net(tmp_path / "ranked.safetensors", planes="maddison36@2")
    options = learn.annotate.AnnotateOptions(rating=34.0)
    with pytest.raises(RecipeError, match="net ranked has planes of ranks"):
        learn.annotate.prepare(net, games, options)


def test_sources_that_are_no_catalogues(nets: list[Path], tmp_path: Path) -> None:
    record = tmp_path / "game.sgf"
    record.write_bytes(evaluated.text(0))
    with pytest.raises(FormatError, match=r"game.sgf is not a catalogue"):
        learn.annotate.annotate(nets, record, tmp_path / "moves.parquet")
    with pytest.raises((FormatError, SourceError)):
        learn.annotate.annotate(nets, tmp_path / "none.parquet", tmp_path / "moves.parquet")


def test_a_net_that_returns_nan(games: Path, tmp_path: Path) -> None:
    net = learn.net.open_net(tiny_net(tmp_path / "net.safetensors"))
    next(net.module.parameters()).data.fill_(1e38)
    learn.torch_net.save_net(tmp_path / "bad.safetensors", net.module, net.about, net.games)
    with pytest.raises(FormatError, match="net bad returns values that are NaN"):
        learn.annotate.annotate(tmp_path / "bad.safetensors", games, tmp_path / "moves.parquet")
    assert not (tmp_path / "moves.parquet").exists()

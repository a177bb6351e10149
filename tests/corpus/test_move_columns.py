"""Times and evaluations of moves as columns of the catalogue."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from catalogues import rows, write_catalogue
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.export import rows_to_sgf
from kifu.corpus.rows import Rows, recorded_rows, rows_from_catalogue, rows_from_parsed
from kifu.corpus.schema import SCHEMA
from kifu.records.games import ParsedBlock
from kifu.records.sgf import as_block, read_block
from kifu.records.text import known_programs

LEGAL, CUT = load_cleaning_rules("legal"), load_cleaning_rules("legal", ["illegal=cut"])

RECORDS = [b"(;SZ[9];B[aa];W[ba];B[bb])", b"(;SZ[9];B[aa])", b"(;SZ[9])", b"(;SZ[9];B[cc];W[cc];B[dd])"]
"""The third move of the first game is legal; the second move of the last is not."""

NAN = np.nan


def parsed(seconds: list[float] | None, evaluations: list[list[float]] | None) -> ParsedBlock:
    return replace(
        read_block(as_block(RECORDS)),
        seconds=None if seconds is None else np.array(seconds, np.float32),
        evaluations=None if evaluations is None else np.array(evaluations, np.float32),
    )


FIGURES = parsed(
    [1.5, NAN, 0, NAN, 2, np.inf, -1],
    [[NAN] * 4, [0.25, 0.75, -3.5, 600], [0.5, 0.5, 0, 1], [0.5, NAN, 0, 1], [NAN] * 4, [NAN] * 4, [1, 0, 9, 2]],
)


def columns(made: Rows) -> tuple[list[list[float | None] | None], list[list[dict[str, float] | None] | None]]:
    batch = made.batch(made.drop)
    batch.validate(full=True)
    return batch["move_seconds"].to_pylist(), batch["evaluations"].to_pylist()


FIRST, LAST = (
    {"win": 0.25, "loss": 0.75, "score": -3.5, "visits": 600},
    {"win": 1.0, "loss": 0.0, "score": 9.0, "visits": 2},
)
EVEN = {"win": 0.5, "loss": 0.5, "score": 0.0, "visits": 1}


def test_unknown_elements_are_null_and_games_without_any_are_null() -> None:
    seconds, evaluations = columns(rows_from_parsed(FIGURES, "a.zip", LEGAL, known_programs()))
    assert seconds == [[1.5, None, 0.0], None, None, [2.0, None, None]]
    assert evaluations == [[None, FIRST, EVEN], None, None, [None, None, LAST]]
    for column in columns(rows_from_parsed(parsed(None, None), "a.zip", LEGAL, known_programs())):
        assert column == [None] * 4


def test_cut_games_are_cut_in_these_columns_too(tmp_path: Path) -> None:
    whole, cut = (rows_from_parsed(FIGURES, "a.zip", rules, known_programs()) for rules in (LEGAL, CUT))
    expected = ([[1.5, None, 0.0], None, None, [2.0]], [[None, FIRST, EVEN], None, None, None])
    assert columns(cut) == expected
    path = write_catalogue(tmp_path / "games.parquet", whole.batch(whole.drop))
    (batch,) = open_catalogue(path).batches()
    again = rows_from_catalogue(batch, CUT)
    assert columns(again) == expected
    assert again.batch(again.drop).equals(cut.batch(cut.drop))


def test_ids_do_not_depend_on_them() -> None:
    with_figures, without = (
        rows_from_parsed(each, "a.zip", LEGAL, known_programs()) for each in (FIGURES, parsed(None, None))
    )
    for name in ("id", "canonical"):
        assert with_figures.columns[name].equals(without.columns[name])


def test_recorded_rows_have_them() -> None:
    batch = recorded_rows(FIGURES, "a.zip", known_programs())
    assert batch["move_seconds"].to_pylist()[3] == [2.0, None, None]


def test_rows_without_them_take_no_space(tmp_path: Path) -> None:
    made = rows_from_parsed(parsed(None, None), "a.zip", LEGAL, known_programs())
    path = write_catalogue(tmp_path / "games.parquet", *[made.batch(made.drop)] * 500)
    group = pq.read_metadata(path).row_group(0)
    sizes = {group.column(k).path_in_schema: group.column(k).total_compressed_size for k in range(group.num_columns)}
    assert group.num_columns == len(SCHEMA) + 3  # four fields of evaluations
    assert all(size < 100 for name, size in sizes.items() if name.startswith(("move_seconds", "evaluations")))


def test_written_evaluations_have_the_same_values() -> None:
    """Values with more decimals than KataGo writes, and visits that float32 cannot represent."""
    draw = np.random.default_rng(5)
    elements = [
        None if draw.random() < 0.2
        else {"win": float(np.float32(draw.random())), "loss": draw.integers(0, 101) / 100,
              "score": float(np.float32(draw.normal(0, 30))), "visits": int(draw.integers(0, 10**9))}
        for _ in range(60)
    ]  # fmt: skip
    made = rows(
        moves=[[0, 1 | 0x8000, 361] * 20, [72], [72]], evaluations=[elements, None, None],
        game_type=["fork", "normal", None], setup=[[], [5], []], setup_ply=[[], [1], []],
    )  # fmt: skip
    records, failure = rows_to_sgf(made)
    assert not failure.any()
    assert b"C[startTurnIdx=1,gtype=normal]" in records[1]
    assert b"C[" not in records[2]
    again = recorded_rows(read_block(as_block(records)), "a.zip", known_programs())
    for name in ("moves", "game_type"):
        assert again[name].equals(made[name])
    found = again["evaluations"].to_pylist()
    assert found[1:] == [None, None]
    np.testing.assert_array_equal(*(
        [[np.nan] * 4 if each is None else [np.float32(value) for value in each.values()] for each in figures]
        for figures in (found[0], elements)
    ))  # fmt: skip

"""Catalogue files: round trips, other readers and writers, and one-line errors for anything else."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogues import GAMES, rows, table, write_catalogue
from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.rows import rows_from_catalogue
from kifu.corpus.schema import EVALUATIONS, SCHEMA, SECONDS, game_arrays, list_to_numpy
from kifu.errors import DropReason, FormatError
from kifu.records.games import NO_HANDICAP, ParseWarning

REPOSITORY = Path(__file__).parents[2]


def saved(path: Path, table: pa.Table) -> Path:
    pq.write_table(table, path)
    return path


def read(path: Path) -> list[pa.RecordBatch]:
    return list(open_catalogue(path).batches())


def test_written_rows_are_read_back(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "a.parquet", GAMES, GAMES.slice(1), about={"clean": {"name": "x"}})
    catalogue = open_catalogue(path)
    assert (catalogue.rows, catalogue.metadata) == (5, {"clean": {"name": "x"}})
    (batch,) = catalogue.batches()
    assert batch.to_pylist() == GAMES.to_pylist() + GAMES.slice(1).to_pylist()
    assert batch.schema == SCHEMA
    assert [len(part) for part in catalogue.batches(("id",), size=2)] == [2, 2, 1]


def test_rows_are_converted_to_games(tmp_path: Path) -> None:
    catalogue = open_catalogue(write_catalogue(tmp_path / "a.parquet", GAMES))
    assert len(catalogue) == 3
    first, second, third = catalogue
    assert [catalogue[0], catalogue[1], catalogue[-1]] == [first, second, third]
    with pytest.raises(IndexError, match="row must be within -3 to 2, got 3"):
        catalogue[3]
    assert (first.players, first.moves.tolist(), first.komi) == (("柯洁", ""), [0, 0x8001, 361], 6.5)
    assert (second.handicap, second.setup.tolist(), second.drop) == (2, [3, 0x8004, 0x4005], DropReason.KEPT)
    assert (third.komi, third.name, third.source) == (-100.0, "2.sgf", "games.zip")


def test_game_arrays_have_the_dtypes_of_kernels() -> None:
    games = game_arrays(GAMES)
    assert games.moves.tolist() == [0, 0x8001, 361, 72 | 0x8000]
    assert games.move_offset.tolist() == [0, 3, 3, 4]
    assert games.setup_offset.tolist() == [0, 0, 3, 3]
    assert games.handicap.tolist() == [NO_HANDICAP, 2, 0]
    assert games.warnings.tolist() == [0, int(ParseWarning.TRUNCATED | ParseWarning.CUT), int(ParseWarning.PASS_AS_TT)]
    assert games.drop.tolist() == [DropReason.KEPT, DropReason.KO, DropReason.KEPT]
    later = game_arrays(GAMES.slice(2))
    assert (later.moves.tolist(), later.move_offset.tolist()) == ([72 | 0x8000], [0, 1])
    none = game_arrays(GAMES.slice(0, 0))
    assert (len(none), none.move_offset.tolist(), none.moves.tolist()) == (0, [0], [])


def test_moves_share_memory_with_arrow_and_have_one_numba_type(tmp_path: Path) -> None:
    (batch,) = read(write_catalogue(tmp_path / "a.parquet", GAMES))
    values, _ = list_to_numpy(batch["moves"])
    buffer = batch["moves"].values.buffers()[1]
    assert values.ctypes.data == buffer.address
    assert values.flags.writeable
    assert values.flags.c_contiguous


def test_empty_catalogue(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "a.parquet")
    assert is_catalogue(path)
    assert [len(batch) for batch in read(path)] in ([], [0])


def test_column_order_extra_columns_and_compatible_types_are_accepted(tmp_path: Path) -> None:
    plain = {
        name: column.cast(pa.int64()) if pa.types.is_uint16(column.type) or pa.types.is_uint8(column.type) else column
        for name, column in ((name, GAMES.column(name)) for name in reversed(SCHEMA.names))
    }
    plain["moves"] = plain["moves"].cast(pa.list_(pa.int32()))
    plain["black"] = plain["black"].dictionary_encode()
    other = saved(tmp_path / "a.parquet", pa.table({"mine": [1, 2, 3], **plain}))
    (batch,) = read(other)
    assert batch.to_pylist() == GAMES.to_pylist()
    assert batch.schema == SCHEMA


def nulls(name: str) -> pa.Array:
    return pa.nulls(3, SCHEMA.field(name).type)


BAD_TABLES: dict[str, tuple[pa.Table, str]] = {
    "a column missing": (table().drop_columns(["moves", "id"]), "2 columns are missing, id, moves"),
    "another type": (table(moves=pa.array(["x", "y", "z"])), "column moves: Unsupported cast"),
    "too large for its type": (table(width=pa.array([19, 300, 19])), "column width: Integer value 300 not in range"),
    "null id": (table(id=nulls("id")), "column id must not contain nulls"),
    "null moves": (table(moves=nulls("moves")), "column moves must not contain nulls"),
    "null move": (
        table(moves=pa.array([[1], [None], []], pa.list_(pa.uint16()))),
        "column moves must not contain nulls",
    ),
    "older": (
        table().replace_schema_metadata({"kifu.catalogue": "2"}),
        "version 2; this kifu reads version 3: ingest its sources again",
    ),
    "about": (table().replace_schema_metadata({"kifu.about": "["}), "is not a JSON object"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_other_parquet_files_raise_one_line_errors(tmp_path: Path, name: str) -> None:
    bad, message = BAD_TABLES[name]
    path = saved(tmp_path / "a.parquet", bad)
    with pytest.raises(FormatError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "setup without plies": ({"setup": [[1], [], []], "setup_ply": [[]] * 3, "root_setup": [0] * 3}, "have inconsistent lengths"),  # noqa: E501 - one case per line
    "more in the root than there is": ({"root_setup": [0, 4, 0]}, "have inconsistent lengths"),
    "setup in no order": ({"setup_ply": [[], [1, 0, 0], []]}, "is not ascending"),
    "unknown repair": ({"repairs": [None, "mended", None]}, "unknown repair 'mended'"),
    "unknown reason": ({"drop": [None, "dull", None]}, "unknown drop reason 'dull'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_inconsistent_rows_are_rejected(tmp_path: Path, name: str) -> None:
    changed, message = BAD_ROWS[name]
    arrays = {key: pa.array(value, SCHEMA.field(key).type) for key, value in changed.items()}
    (batch,) = read(saved(tmp_path / "a.parquet", table(**arrays)))
    with pytest.raises(FormatError, match=message):
        game_arrays(batch)


@pytest.mark.parametrize("cut", [0, 3, 4, 100, -1, -8, -200])
def test_truncated_files_are_rejected(tmp_path: Path, cut: int) -> None:
    path = write_catalogue(tmp_path / "a.parquet", GAMES)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))} is not a catalogue: "):
        read(path)


def test_other_paths_are_rejected(tmp_path: Path) -> None:
    (record := tmp_path / "game.sgf").write_bytes(b"(;SZ[9];B[aa])")
    for path in (tmp_path, record, tmp_path / "nix"):
        assert not is_catalogue(path)
        hint = "No such file" if path.name == "nix" else f".*; ingest game records first: kifu ingest {path} -o"
        with pytest.raises(FormatError, match=f"is not a catalogue: {hint}"):
            open_catalogue(path)


words = st.integers(0, 0xFFFF)
wild_game = st.fixed_dictionaries(
    {
        "width": st.integers(0, 25),
        "height": st.integers(0, 25),
        "moves": st.lists(words | st.integers(0, 30), max_size=30),
        "stones": st.lists(st.tuples(words | st.integers(0, 30), words | st.integers(0, 5)), max_size=6),
        "to_play": st.integers(0, 255),
        "handicap": st.none() | st.integers(-32768, 32767),
        "drop": st.sampled_from([None, "ko", "no_record", "cut_off"]),
        "root": st.integers(0, 6),
    }
)


@pytest.mark.slow
@given(st.lists(wild_game, min_size=1, max_size=4), st.sampled_from(["legal", "schraudolph", "training"]))
def test_rules_apply_to_rows_of_any_values(games: list[dict[str, Any]], rules: str) -> None:
    """Kernels stay within their arrays for invalid points and board sizes."""
    batch = rows(
        **{
            name: [game[name] for game in games] for name in ("width", "height", "moves", "to_play", "handicap", "drop")
        },
        setup=[[stone for stone, _ in game["stones"]] for game in games],
        setup_ply=[sorted(ply for _, ply in game["stones"]) for game in games],
        root_setup=[min(game["root"], len(game["stones"])) for game in games],
    )
    cleaned = rows_from_catalogue(batch, load_cleaning_rules(rules))
    again = rows_from_catalogue(cleaned.batch(cleaned.drop), load_cleaning_rules(rules))
    assert again.batch(again.drop).equals(cleaned.batch(cleaned.drop)), "judging twice changes nothing"


def test_card_documents_each_column_and_its_type() -> None:
    card = (REPOSITORY / "docs" / "formats" / "catalogue.md").read_text("utf-8").partition("## Columns")[2]
    documented: dict[str, str] = {}
    for names, kind in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", card.partition("\n## ")[0], re.MULTILINE):
        documented |= dict.fromkeys(re.findall(r"\w+", names), kind.strip().replace("\\", ""))
    short = {"list<element: uint16 not null>": "list<uint16>", "date32[day]": "date32", "float": "float32"}
    short |= {str(SECONDS): "list<float32>", str(EVALUATIONS): "list<struct>"}

    def kind_of(field: pa.Field) -> str:
        return short.get(str(field.type), str(field.type)) + ("?" if field.nullable else "")

    assert documented == {field.name: kind_of(field) for field in SCHEMA}
    reasons = card + (REPOSITORY / "docs" / "cleaning.md").read_text("utf-8")
    for why in (
        drop
        for drop in DropReason
        if drop
        and drop not in (DropReason.TRUNCATED, DropReason.BAD_HANDICAP, DropReason.BAD_CHARSET, DropReason.SETUP_TWICE)
        and drop < DropReason.RULES_UNKNOWN
    ):
        assert f"`{why.name.lower()}`" in reasons  # the others occur in data sets only


def test_metadata_is_json(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "a.parquet", GAMES, about={"title": "碁"})
    metadata = pq.read_metadata(path).metadata
    assert json.loads(metadata[b"kifu.about"]) == {"title": "碁"}
    assert metadata[b"kifu.catalogue"] == b"3"
    assert np.all([pq.read_metadata(path).row_group(0).column(k).compression == "ZSTD" for k in range(len(SCHEMA))])

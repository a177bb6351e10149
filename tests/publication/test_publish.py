"""Published folders: their files, what other libraries make of them, versions, errors, and kills."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kifu
from catalogues import GAMES, rows, table, write_catalogue
from commands import run, tree
from example_sets import layout_for, random_batch, write
from kgs_archives import archive, records
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import SCHEMA
from kifu.corpus.splits import split
from kifu.corpus.update import append
from kifu.errors import FormatError, OutputError, RecipeError, SourceError
from kifu.io import AtomicFile, read_small
from kifu.progress import silent
from kifu.publication.card import _latex, _text
from kifu.publication.manifest import CATALOGUE, EXAMPLES, Changes, next_version, parse_version, read_publication
from kifu.publication.publish import publish, write_changes
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from marks import slow, thorough

HERE = Path(__file__).parents[1]
SHARES = ["split.sets.train=2.0", "split.sets.validation=1.0", "split.sets.test=1.0"]


def make_sets(folder: Path, archives: int = 2) -> Path:
    for k in range(archives):
        archive(folder / "kgs", records(30, k), year=2001 + k)
    ingest(folder / "kgs", folder / "games.parquet")
    split(folder / "games.parquet", folder / "sets", by=kifu.corpus.splits.load_split("hash", SHARES))
    return folder / "sets"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sets(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def published(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "out"
    named = {"author": "A. U. Thor", "url": "https://example.org/games", "doi": "10.5281/zenodo.1234"}
    kifu.publish(sets, folder, title='Games: "1 * 2"', license="cc-by-4.0", date="2026-01-31", **named)
    return folder


def test_the_files_are_copies_with_checksums(sets: Path, published: Path) -> None:
    files = tree(published)
    names = [f"data/{name}.parquet" for name in ("train", "validation", "test")]
    assert files.keys() == {*names, "README.md", "croissant.json", "SHA256SUMS", "kifu.json"}
    for name in names:
        assert files[name] == (sets / Path(name).name).read_bytes()
    sums = dict(line.split("  ")[::-1] for line in files.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_the_manifest_counts_games_and_names_sources(published: Path) -> None:
    data = read_publication(published)
    assert (data.version, data.license, data.kind) == ("1.0.0", "cc-by-4.0", "catalogue@3")
    assert [each.name for each in data.splits] == ["train", "validation", "test"]
    assert sum(each.games or 0 for each in data.splits) == data.counts["kept"] == data.rows == data.origin["read"] == 60
    assert [source["games"] for source in data.sources] == [30, 30]
    assert all(len(source["blake3"]) == 64 for source in data.sources)
    assert sum(data.counts["servers"].values()) == sum(data.counts["programs"].values()) == 60
    assert len(data.audit) == 3
    assert not data.leaks
    for each in data.splits:
        frame = polars.read_parquet(published / each.files[0].path)
        assert (len(frame), frame["n_legal"].sum()) == (each.rows, each.positions)


def test_the_header_is_yaml_of_the_hub(published: Path) -> None:
    yaml = pytest.importorskip("yaml")
    header, text = (published / "README.md").read_text().removeprefix("---\n").split("\n---\n", 1)
    values = yaml.safe_load(header)
    assert (values["pretty_name"], values["license"]) == ('Games: "1 * 2"', "cc-by-4.0")
    assert values["size_categories"] == ["n<1K"]
    expected = [{"split": name, "path": f"data/{name}.parquet"} for name in ("train", "validation", "test")]
    assert values["configs"] == [{"config_name": "default", "data_files": expected}]
    assert text.startswith('\n# Games: "1 \\* 2"\n')
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Splits", "Loading", "Columns", "Sources", "Reproduce", "Known biases", "Duplicates", "Audit", "Changes",
        "License", "Citation",
    ]  # fmt: skip
    assert "(../" not in text, "no link leaves the folder"


def test_author_address_and_date_are_cited(published: Path) -> None:
    text, table = (published / "README.md").read_text(), json.loads((published / "croissant.json").read_text())
    for line in (
        "author = {A. U. Thor}",
        "year = {2026}",
        "url = {https://example.org/games}",
        "doi = {10.5281/zenodo",
    ):
        assert line in text
        assert line in table["citeAs"]
    assert (table["datePublished"], table["creator"]["name"]) == ("2026-01-31", "A. U. Thor")
    assert (table["url"], table["identifier"]) == ("https://example.org/games", "https://doi.org/10.5281/zenodo.1234")


@pytest.mark.parametrize("license", ["cc-by-4.0", "odbl", "gpl-3.0", "other"])
def test_licenses_of_spdx_and_the_hub(sets: Path, tmp_path: Path, license: str) -> None:
    assert publish(sets / "test.parquet", tmp_path / "out", license=license).license == license


@pytest.mark.parametrize("license", ["CC-BY-4.0", "mit or isc", "gpl-9", "CC BY", ""])
def test_other_licenses_are_refused(sets: Path, tmp_path: Path, license: str) -> None:
    refused(RecipeError, f"such as cc-by-4.0, got {license!r}", sets, tmp_path / "out", license=license)


def test_latex() -> None:
    assert _latex("A_1 & B^2 {50 %} \\#~$") == r"A\_1 \& B\^{}2 50 \% \#\~{}\$"


def test_polars_reads_the_files(published: Path) -> None:
    assert polars.read_parquet(published / "data" / "t*.parquet").columns == kifu.corpus.schema.SCHEMA.names
    assert polars.scan_parquet(published / "data" / "*.parquet").select(polars.len()).collect().item() == 60


@pytest.mark.slow
def test_hugging_face_datasets_loads_the_splits(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(published), cache_dir=str(tmp_path / "cache"))
    data = read_publication(published)
    assert {name: len(each) for name, each in loaded.items()} == {each.name: each.rows for each in data.splits}
    frame = polars.read_parquet(published / "data" / "test.parquet")
    assert loaded["test"][0]["moves"] == frame["moves"][0].to_list()
    row = loaded["test"].with_format("torch")[0]
    assert row["moves"].tolist() == frame["moves"][0].to_list()
    assert [str(each) for each in loaded["test"]["date"]] == [str(each) for each in frame["date"]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlcroissant_validates_and_reads_the_records(published: Path, tmp_path: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    evaluation = {"win": 0.25, "loss": 0.75, "score": -3.5, "visits": 600}
    games = rows(moves=[[0, 1]] * 5, evaluations=[[evaluation, None]] * 5, move_seconds=[[1.5, None]] * 5)
    publish(write_catalogue(tmp_path / "x.parquet", games), tmp_path / "out", license="cc0-1.0")
    for folder, name, count in ((published, "test", None), (tmp_path / "out", "train", 5)):
        dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
        assert dataset.metadata.ctx.issues.errors == set()
        warned = dataset.metadata.ctx.issues.warnings
        assert warned == set()
        found = list(dataset.records(name))
        frame = polars.read_parquet(folder / "data" / f"{name}.parquet")
        assert len(found) == (count or len(frame))
        assert [int(each[f"{name}/id"]) for each in found] == frame["id"].to_list()
        assert [list(map(int, each[f"{name}/moves"])) for each in found] == frame["moves"].to_list()
    first = found[0]["train/evaluations"][0]
    assert first == {f"train/evaluations/{key}": value for key, value in evaluation.items()}


def test_the_same_sets_give_the_same_bytes_and_replace_the_folder(sets: Path, tmp_path: Path) -> None:
    publish(sets, tmp_path / "out", jobs=1)
    first = tree(tmp_path / "out")
    publish([sets / f"{name}.parquet" for name in ("test", "train", "validation")], tmp_path / "out", jobs=3)
    assert tree(tmp_path / "out") == first
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "out" / "data" / "mine").write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"out contains data/mine, which its index does not list; remove it$"):
        publish(sets, tmp_path / "out", title="other", overwrite=True)


@pytest.mark.slow
def test_versions_follow_from_the_changes(sets: Path, published: Path, tmp_path: Path) -> None:
    more = make_sets(tmp_path, 3)
    second = publish(more, tmp_path / "second", previous=published)
    assert second.version == "1.1.0"
    changes = second.changes
    assert changes == Changes("1.0.0", added=30, removed=0, changed=0, moved=0, same=60)
    third = publish(sets, tmp_path / "third", previous=tmp_path / "second")
    assert third.version == "2.0.0"
    assert third.changes is not None
    assert third.changes.removed == 30
    fourth = publish(sets, tmp_path / "fourth", previous=tmp_path / "third", title="other", version="3.1.0")
    assert fourth.version == "3.1.0"
    assert publish(sets, tmp_path / "fifth", previous=tmp_path / "fourth").version == "3.1.1"
    table = pq.read_table(tmp_path / "second" / "changes.parquet")
    assert table["change"].to_pylist() == ["added"] * 30
    assert "| added | 30 |" in (tmp_path / "second" / "README.md").read_text()
    with pytest.raises(RecipeError, match=r"^version must be larger than the previous one, 3\.1\.0, got 3\.1\.0$"):
        publish(sets, tmp_path / "sixth", previous=tmp_path / "fourth", version="3.1.0")
    assert not (tmp_path / "sixth").exists()


def test_a_partitioned_catalogue_becomes_numbered_files(tmp_path: Path) -> None:
    archive(tmp_path / "kgs", records(12, 1), year=2001)
    archive(tmp_path / "kgs", records(12, 2), year=2002)
    append(tmp_path / "kgs", tmp_path / "games")
    data = publish(tmp_path / "games", tmp_path / "out")
    (only,) = data.splits
    assert (only.name, only.rows) == ("train", 24)
    assert [file.path for file in only.files] == [f"data/train-0000{k}-of-00002.parquet" for k in (0, 1)]
    assert "path: data/train-*.parquet" in (tmp_path / "out" / "README.md").read_text()
    assert len(polars.read_parquet(tmp_path / "out" / "data" / "train-*.parquet")) == 24
    entries = {each["@id"] for each in json.loads((tmp_path / "out" / "croissant.json").read_text())["distribution"]}
    assert entries == {"train-files", *(file.path for file in only.files)}
    assert publish(tmp_path / "games", tmp_path / "next", previous=tmp_path / "out").version == "1.0.1"


def test_leaks_and_duplicates_are_reported(sets: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.parquet").write_bytes((sets / "test.parquet").read_bytes())
    data = publish([tmp_path / "train.parquet", tmp_path / "test.parquet"], tmp_path / "out")
    assert data.leaks
    assert "splits share games; README.md lists how many" in str(data).splitlines()
    games = data.splits[1].games
    assert [(pair.first_games, pair.second_games) for pair in data.audit] == [(games, games)]
    assert [(each.split, each.other, each.same_game) for each in data.duplicates] == [("test", "train", games)]
    assert "**Splits share games.**" in (tmp_path / "out" / "README.md").read_text()


def test_data_sets_in_parquet_are_published(tmp_path: Path) -> None:
    layout = layout_for("parquet@1", 9, 9, 2)
    for seed, name in enumerate(("train", "test")):
        write("parquet@1", tmp_path / "sets" / f"{name}.parquet", layout, random_batch(layout, 50, seed))
    data = publish(tmp_path / "sets", tmp_path / "out")
    assert [(each.name, each.rows, each.games) for each in data.splits] == [("train", 50, None), ("test", 50, None)]
    assert data.columns["ranks"] == ("list<float32>[2]", "ratings")
    assert data.columns["planes"][0] == "binary[22]"
    assert data.audit_note == "The planes of made up do not show the stones of each side, which an audit needs."
    assert np.array_equal(
        kifu.open(tmp_path / "out" / "data" / "test.parquet").read(0, 50).game, random_batch(layout, 50, 1).game
    )
    write("parquet@1", tmp_path / "sets" / "test.parquet", layout, random_batch(layout, 60, 1))
    later = publish(tmp_path / "sets", tmp_path / "next", previous=tmp_path / "out")
    assert later.changes is not None
    assert later.changes.added >= 2


def test_a_build_is_published_with_its_recipe_and_counts(tmp_path: Path) -> None:
    archive(tmp_path / "kgs", records(30, 1), year=2001)
    recipe = load_recipe("agz17", ["clean=legal"])
    build(recipe, tmp_path / "kgs", tmp_path / "sets", jobs=1)
    data = publish(tmp_path / "sets", tmp_path / "out", jobs=1)
    assert [each.name for each in data.splits] == ["train", "validation", "test"], "not games.parquet"
    assert sum(each.games or 0 for each in data.splits) == 30
    assert data.rows > 1000
    assert data.origin["recipe"]["name"] == "agz17"
    assert [len(source["blake3"]) for source in data.sources] == [64]
    assert (data.audit_note, len(data.audit)) == ("", 3)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "the 17 x 19 x 19 planes (planes, rows, columns) of agz17@1" in text
    frame, names = polars.read_parquet(tmp_path / "out/data/train.parquet"), {}
    exec(text[text.index("import numpy") : text.index("\n```", text.index("import numpy"))], {"frame": frame}, names)
    wanted = kifu.open(tmp_path / "out/data/train.parquet").read(0, len(frame))
    assert np.array_equal(names["planes"], wanted.unpack_planes(kifu.open(tmp_path / "out/data/train.parquet").layout))


def test_origins_are_kept_through_catalogues_splits_and_builds(tmp_path: Path) -> None:
    for k in range(2):
        archive(tmp_path / "kgs", records(20, k), year=2001 + k)
    direct, first, second = (tmp_path / f"{name}.parquet" for name in ("direct", "first", "second"))
    ingest(tmp_path / "kgs", direct)
    ingest(tmp_path / "kgs", first)
    ingest(first, second)
    recipe = load_recipe("agz17", ["clean=legal"])
    split(second, tmp_path / "sets", by=kifu.corpus.splits.load_split("hash", SHARES))
    for path, name in ((direct, "a"), (second, "b")):
        build(recipe, path, tmp_path / name, jobs=1)
    published = [publish(tmp_path / name, tmp_path / f"{name}-out", jobs=1) for name in ("a", "b", "sets")]
    published.append(publish(second, tmp_path / "c-out", jobs=1))
    for data in published:
        assert [source["name"] for source in data.sources] == [f"KGS-200{k}-19-20-.tar.gz" for k in (1, 2)]
        assert [source["games"] for source in data.sources] == [20, 20]
        assert [len(source["blake3"]) for source in data.sources] == [64, 64]
    text = (tmp_path / "b-out/README.md").read_text()
    assert "| 2 | kgs | with permission of KGS | u-go.net, <https://u-go.net/gamerecords/>; KGS Go Server |" in text
    assert f"pip install kifu=={kifu.__version__}\nkifu fetch kgs --all -o sources\nkifu build FOLDER" in text


def refused(error: type[Exception], message: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(error) as raised:
        publish(*arguments, **options)
    assert message in str(raised.value)


def test_errors_are_one_clear_line(sets: Path, published: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    layout = layout_for("npy@1", 9, 9, 2)
    write("npy@1", tmp_path / "npy", layout, random_batch(layout, 5))
    write("parquet@1", tmp_path / "planes.parquet", layout, random_batch(layout, 5))
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    refused(FormatError, "npy is npy@1; only catalogues and data sets of the format parquet@1", tmp_path / "npy", out)
    refused(FormatError, "is no data set", tmp_path / "empty", out)
    refused(FormatError, "broken.parquet is not a catalogue", tmp_path / "broken.parquet", out)
    refused(RecipeError, "publish one kind at a time", [sets, tmp_path / "planes.parquet"], out)
    refused(RecipeError, "two of the inputs are named 'train'", [sets, sets / "train.parquet"], out)
    refused(RecipeError, "SPDX or the Hub, such as cc-by-4.0, got 'gpl-9'", sets, out, license="gpl-9")
    refused(RecipeError, "url must begin with http:// or https:// and have no spaces, got 'x'", sets, out, url="x")
    refused(RecipeError, "doi must be like 10.5281/zenodo.1234, got 'x'", sets, out, doi="x")
    refused(RecipeError, "date must be like 2026-01-31, got '2026-02-30'", sets, out, date="2026-02-30")
    refused(RecipeError, "a version has three numbers, such as 1.0.0, got '1.0'", sets, out, version="1.0")
    refused(FormatError, "is not a published data set", sets, out, previous=sets)
    refused(RecipeError, "is catalogue@3, but", tmp_path / "planes.parquet", out, previous=published)
    refused(SourceError, "only local files and folders can be published", "https://example.org/a.parquet", out)
    (tmp_path / "é.parquet").write_bytes((sets / "test.parquet").read_bytes())
    refused(RecipeError, "a split's name has letters, digits and _", [sets, tmp_path / "é.parquet"], out)
    assert not out.exists()
    broken = tmp_path / "kifu.json"
    broken.write_text(read_small(published / "kifu.json").decode().replace("data/test.parquet", "../test.parquet"))
    refused(FormatError, "kifu.json is not a manifest: splits.2.files.0.path", sets, out, previous=tmp_path)


def test_foreign_text_is_shown_literally() -> None:
    assert _text("a|b\n<script>*_`[x](y)\x1b") == "a\\|b\\\\n&lt;script&gt;\\*\\_\\`\\[x\\](y)\\\\x1b"


def test_command_prints_what_is_missing(sets: Path, tmp_path: Path) -> None:
    done = run("publish", sets, "-o", tmp_path / "out", "--json", "-")
    assert done.code == 0
    assert json.loads(done.out)["version"] == "1.0.0"
    options = ["--license", "cc0-1.0", "--author", "me", "--date", "2026-01-31"]
    done = run("publish", sets, "-o", tmp_path / "out", "--json", "-", "--overwrite", *options)
    assert [json.loads(done.out)[name] for name in ("license", "author", "date")] == ["cc0-1.0", "me", "2026-01-31"]
    done = run("publish", sets, "-o", tmp_path / "out", "--overwrite")
    assert done.out.splitlines()[-1] == "fill in the license: publish again with --license, such as cc-by-4.0"
    assert run("publish", sets, "-o", tmp_path / "out", "--version", "1").code == 2


@pytest.mark.subprocess
@pytest.mark.parametrize("step", [*slow(6), *thorough(1)])
def test_kills_leave_the_old_folder_the_new_one_or_none(sets: Path, tmp_path: Path, step: int) -> None:
    """At every change to the file system, and at random moments; the next run ends with the same bytes."""
    more = make_sets(tmp_path / "more", 3)
    (tmp_path / "work").mkdir()
    command = [sys.executable, HERE / "support" / "killed_publish.py", tmp_path / "work", str(step), sets, more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 18 / step


def compare(folder: Path, old: dict[str, list[Path]], new: dict[str, list[Path]], examples: bool = False):
    kind = EXAMPLES if examples else CATALOGUE
    with silent("", None, "") as bar, AtomicFile(folder / "changes.parquet") as output:
        found = write_changes("1.0.0", old, new, kind, output, bar)
    return found, pq.read_table(folder / "changes.parquet").to_pylist()


def naive(old: list[tuple], new: list[tuple]) -> dict[str, int]:
    """Compare games (split, canonical, id, komi) one by one: equal ones first, then by fewer and fewer values."""
    counts = dict.fromkeys(("added", "removed", "changed", "moved", "same"), 0)
    keys = [("same", lambda g: g), ("moved", lambda g: g[1:]), ("changed", lambda g: g[2]), ("changed", lambda g: g[1])]
    for change, key in keys:
        for game in old[:]:
            match = next((each for each in new if key(each) == key(game)), None)
            if match is not None:
                old.remove(game)
                new.remove(match)
                counts[change] += 1
    return counts | {"removed": len(old), "added": len(new)}


def written(folder: Path, name: str, games: list[tuple]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for part in sorted({game[0] for game in games}):
        chosen = [game[1:] for game in games if game[0] == part]
        for k in (0, 1):
            columns = dict(zip(("canonical", "id", "komi"), zip(*chosen[k::2])))
            same = {"opening": [0], "entry": [0], "member": ["a"]}
            batches = [rows(**columns, **{name: v * len(chosen[k::2]) for name, v in same.items()})] if columns else []
            files.setdefault(part, []).append(write_catalogue(folder / f"{name}-{part}-{k}.parquet", *batches))
    return files


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_a_naive_comparison(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def draw() -> list[tuple]:
        numbers = rng.integers(0, 40, 150)  # with repetitions
        canonical = [int(n) // 2 for n in numbers]
        return [("ab"[rng.integers(2)], c, int(n), 0.5 * rng.integers(2)) for c, n in zip(canonical, numbers)]

    old, new = draw(), draw()
    found, listed = compare(tmp_path, written(tmp_path, "old", old), written(tmp_path, "new", new))
    expected = naive(old[:], new[:])
    assert {name: n for name, n in asdict(found).items() if name != "previous"} == expected
    assert Counter(row["change"] for row in listed) == +Counter({k: n for k, n in expected.items() if k != "same"})
    for row in listed:
        assert (row["id"] is None, row["split"] is None) == (row["change"] == "removed",) * 2
        assert (row["previous_id"] is None, row["previous_split"] is None) == (row["change"] == "added",) * 2
        assert (row["previous_split"], row["previous_id"]) in {(g[0], g[2]) for g in old} | {(None, None)}
        assert (row["split"], row["id"]) in {(g[0], g[2]) for g in new} | {(None, None)}


@pytest.mark.slow
def test_every_column_counts(tmp_path: Path) -> None:
    old = {"train": [write_catalogue(tmp_path / "old.parquet", GAMES)]}
    assert compare(tmp_path, old, old)[0].same == 3
    changed = {
        name: pa.array([other[1], other[0], other[2]], SCHEMA.field(name).type)
        for name in SCHEMA.names
        if (other := GAMES[name].to_pylist()) and other[0] != other[1]
    }
    assert len(changed) > 10
    for name, column in changed.items():
        pq.write_table(table(**{name: column}), tmp_path / "new.parquet")
        assert compare(tmp_path, old, {"train": [tmp_path / "new.parquet"]})[0].same == 1, name


def test_nulls_empty_lists_and_zeros_differ(tmp_path: Path) -> None:
    values = [None, [], [0], [0, 0], [0, 1]]
    games = [{"canonical": [k], "id": [k], "opening": [0], "entry": [0], "member": ["a"]} for k in range(5)]

    def write_lists(name: str, lists: list[list[int] | None]) -> dict[str, list[Path]]:
        batch = pa.Table.from_batches([rows(**game) for game in games]).combine_chunks()
        k = batch.schema.get_field_index("moves")
        column = pa.array(lists, batch.schema.field(k).type)
        pq.write_table(batch.set_column(k, pa.field("moves", column.type), column), tmp_path / name)
        return {"train": [tmp_path / name]}

    found, _ = compare(
        tmp_path, write_lists("old.parquet", values), write_lists("new.parquet", values[1:] + values[:1])
    )
    assert (found.changed, found.same) == (5, 0)


def test_rows_of_data_sets_count_as_games_in_any_order(tmp_path: Path) -> None:
    layout = layout_for("parquet@1")
    batch = random_batch(layout, 50)  # ten games
    write("parquet@1", tmp_path / "old.parquet", layout, batch)
    order = np.random.default_rng(1).permutation(50)
    write("parquet@1", tmp_path / "mixed.parquet", layout, batch.take(order))
    write("parquet@1", tmp_path / "fewer.parquet", layout, batch.slice(0, 42))
    old = {"train": [tmp_path / "old.parquet"]}
    found, _ = compare(tmp_path, old, {"train": [tmp_path / "mixed.parquet"]}, True)
    assert found == Changes("1.0.0", 0, 0, 0, 0, same=10)
    found, listed = compare(tmp_path, old, {"train": [tmp_path / "fewer.parquet"]}, True)
    assert found == Changes("1.0.0", added=0, removed=1, changed=1, moved=0, same=8)
    assert listed[0]["previous_id"] == listed[0]["id"] == batch.game[40]


@pytest.mark.parametrize(
    ("counts", "version"),
    [
        ({"added": 1, "removed": 1}, "2.0.0"),
        ({"changed": 1}, "2.0.0"),
        ({"moved": 1, "added": 4}, "2.0.0"),
        ({"added": 1}, "1.3.0"),
        ({"same": 9}, "1.2.10"),
    ],
)
def test_next_version(counts: dict[str, int], version: str) -> None:
    zero = dict.fromkeys(("added", "removed", "changed", "moved", "same"), 0)
    assert next_version(Changes("1.2.9", **(zero | counts))) == version


@pytest.mark.parametrize(
    "text", ["1", "1.0", "1.0.0.0", "01.0.0", "1.0.-1", "1.0.0-rc1", "v1.0.0", "", "1.0.1234567890"]
)
def test_invalid_versions(text: str) -> None:
    with pytest.raises(RecipeError, match=r"^a version has three numbers"):
        parse_version(text)
    assert parse_version("10.0.1") > parse_version("9.99.99")

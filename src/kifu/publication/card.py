"""The pages of a published data set, and the counts in them.

README.md is the data card, with the YAML header that the Hugging Face Hub reads. croissant.json describes files and
columns for programs, in the vocabulary of http://mlcommons.org/croissant/1.1.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from jinja2 import ChainableUndefined, Environment

from kifu.assets import asset
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.ingest import IngestReport
from kifu.corpus.parquet import parquet_metadata
from kifu.corpus.sources import source_infos
from kifu.corpus.stats import BANDS, OTHERS, PEOPLE, UNKNOWN, stats
from kifu.errors import DropReason, printable
from kifu.execution.executor import Executor
from kifu.fetch.collections import COLLECTIONS, Collection, find_collection
from kifu.leaks.audit import audit
from kifu.leaks.report import LATE
from kifu.progress import ProgressFactory
from kifu.publication.manifest import (
    CATALOGUE,
    CHANGES_FILE,
    MAX_DEPTH,
    AuditedPair,
    Duplicates,
    InputSet,
    Publication,
    PublishedSplit,
)
from kifu.text import format_bytes

_MAX_DISTINCT = 20_000
"""Number of distinct servers and archives that are counted one by one."""

_SERVERS = 12
_LISTED = 10
"""Number of shared games that are listed for each pair of splits."""

TO_FILL = "TO BE FILLED IN"

_STRONG = BANDS.index("7d")
"""The first of the strongest rank bands: 7 dan to professional."""

_SIZES = {10**3: "1K", 10**4: "10K", 10**5: "100K", 10**6: "1M", 10**7: "10M", 10**8: "100M", 10**9: "1B"}

_MAX_LINES = 60
"""Maximum number of rows of a table of foreign values; kifu.json has all of them."""

_TYPES = {
    "bool": "sc:Boolean", "date32": "sc:Date", "float32": "cr:Float32", "float64": "cr:Float64",
    **{f"{sign}int{bits}": f"cr:{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip

_FORMAT = "application/x-parquet"
_LIST = re.compile(r"list<(.*)>(?:\[(\d+)\])?")
_PACKED = re.compile(r"^the (\d+) x (\d+) x (\d+) planes .* as bits")
_STRUCT_FIELD = re.compile(r"\b(\w++): (\w+)")


class _Markdown(str):
    """Text of the card that is Markdown already. All other values are escaped."""


class SetCounts:
    """Counts of sets: the games of each split, and over all splits those of servers and archives."""

    def __init__(self, sets: Sequence[InputSet], jobs: int | None, progress: ProgressFactory) -> None:
        """Read all catalogues; the counts of data sets come from their manifests."""
        self.splits: list[tuple[int | None, int, dict[str, int]]] = []
        self.archives: Counter[str] = Counter()
        self._servers: Counter[str] = Counter()
        for each in sets:
            if each.layout is not None:
                games, drops = (None, {}) if each.manifest is None else (each.manifest.kept, each.manifest.drops)
                self.splits.append((games, sum(each.files.values()), drops))
                continue
            report = IngestReport()
            columns = ("drop", "n_legal", "repairs", "place", "archive")
            for batch in open_catalogue(each.path).batches(columns, size=1 << 16):
                report.add(batch)
                self._add(batch.filter(batch["drop"].is_null()))
            drops = {name.lower(): count for name, count in sorted(report.drops.items())}
            self.splits.append((report.kept, report.moves, drops))
        self.counts: dict[str, Any] = {}
        if sets[0].layout is None:
            counted = json.loads(stats([each.path for each in sets], jobs=jobs, progress=progress).to_json())
            listed = "kept ranks years results lengths handicaps komi boards formats programs"
            self.counts = {name: counted[name] for name in listed.split()}
            self.counts["servers"] = _most_common(self._servers)

    def _add(self, kept: pa.RecordBatch) -> None:
        _count(self.archives, kept["archive"])
        _count(self._servers, kept["place"].fill_null(UNKNOWN))


def _count(counter: Counter[str], column: pa.Array) -> None:
    for each in column.value_counts().to_pylist():
        value = each["values"]
        counter[value if value in counter or len(counter) < _MAX_DISTINCT else OTHERS] += each["counts"]


def _most_common(counter: Counter[str]) -> dict[str, int]:
    """Return the most frequent values, most frequent first, then by name; the others as one."""
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[_SERVERS:])
    return dict(ordered[:_SERVERS]) | ({OTHERS: rest} if rest else {})


def find_origin(sets: Sequence[InputSet], archives: Mapping[str, int]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how the sets were made, and their sources, as far as their metadata list them.

    Args:
        archives: Number of kept games by archive. Those of data sets are unknown; the games that were read count.
    """
    origin: dict[str, Any] = {}
    sources: dict[str, dict[str, Any]] = {}
    for each in sets:
        if each.manifest is not None:
            origin |= {"kifu": each.manifest.kifu, "recipe": each.manifest.recipe}
            about: Mapping[str, Any] = {"sources": each.manifest.sources}
        else:
            about = each.about
            version = parquet_metadata(next(iter(each.files))).get(b"kifu.version", b"").decode("utf-8", "replace")
            origin |= {"kifu": version} if version and each.layout is None else {}
            origin |= {name: about[name] for name in ("recipe", "split", "query") if name in about}
            parents = [_about(parent) for parent in source_infos(about)] if "of" in about else [about]
            if len(parents) == 1:
                origin |= {name: parents[0][name] for name in ("clean", "read", "kept", "drops") if name in parents[0]}
        for source in _sources_of(about):
            if source:
                sources.setdefault(json.dumps(source, sort_keys=True), source)
    if len(sets) > 1 and "split" not in origin:  # the counts of a catalogue, not of several
        origin = {name: value for name, value in origin.items() if name not in ("read", "kept", "drops")}
    for source in sources.values():
        if source.get("name") in archives:
            source["games"] = archives[source["name"]]
    return origin, list(sources.values())


def _about(parent: Mapping[str, Any]) -> Mapping[str, Any]:
    about = parent.get("about", parent)
    return about if isinstance(about, dict) else {}


def _sources_of(about: Mapping[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """Return the sources of a catalogue, in place of catalogues among them theirs."""
    found, archives = [], about.get("archives")
    for parent in source_infos(about):
        nested = _sources_of(_about(parent), depth + 1) if depth < MAX_DEPTH else []
        source = {name: value for name, value in parent.items() if name != "about"}
        games = archives.get(parent.get("name")) if isinstance(archives, dict) else None
        found += nested or [source | ({"games": games} if isinstance(games, int) else {})]
    return found


def find_duplicates(sets: Sequence[InputSet], jobs: int | None) -> list[Duplicates]:
    """Return the duplicates among the kept games of catalogues, by pairs of splits that have some."""
    if sets[0].layout is not None:
        return []
    with Executor(jobs) as executor:
        clusters = find_clusters([each.path for each in sets], executor)
    duplicate = clusters.relation != DropReason.KEPT
    counts = np.zeros((len(sets), len(sets), 2), np.int64)
    other = clusters.source[clusters.representative]
    cut_off = clusters.relation == DropReason.CUT_OFF
    np.add.at(counts, (clusters.source[duplicate], other[duplicate], cut_off[duplicate].astype(np.int64)), 1)
    return [
        Duplicates(sets[a].name, sets[b].name, *map(int, counts[a, b]))
        for a in range(len(sets))
        for b in range(len(sets))
        if counts[a, b].any()
    ]


def audit_splits(
    sets: Sequence[InputSet], jobs: int | None, progress: ProgressFactory
) -> tuple[list[AuditedPair], str]:
    """Return what every two of the splits share, or nothing and the reason."""
    if len(sets) < 2:
        return [], "There is only one split."
    layout = sets[0].layout
    if layout is not None and not {"own", "opp"} <= {side for _, side in layout.stone_planes()}:
        return [], f"The planes of {layout.plane_set} do not show the stones of each side, which an audit needs."
    report = audit([each.path for each in sets], jobs=jobs, progress=progress)
    return [
        AuditedPair(
            first.name,
            second.name,
            pair.first_games,
            pair.second_games,
            sum(pair.first_rows),
            sum(pair.second_rows),
            sum(pair.distinct[LATE:]),
            [str(game) for game in pair.games[:_LISTED]],
        )
        for pair, (first, second) in zip(report.pairs, combinations(sets, 2))
    ], ""


def render_card(data: Publication) -> str:
    """Return README.md."""
    environment = Environment(  # `finalize` escapes all values that no filter marks as Markdown
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, _Markdown) else _text(value),
    )
    environment.filters |= {
        "code": _code,
        "drops": _drops,
        "json": lambda value: _Markdown(json.dumps(value, ensure_ascii=False)),
        "json_block": lambda value: _code(json.dumps(value, ensure_ascii=False, indent=1), "json"),
        "n": lambda value: f"{value:,}",
        "pattern": _pattern,
        "safe": _Markdown,
        "share": _share,
        "without": lambda values, *names: {name: value for name, value in values.items() if name not in names},
    }
    packed = _PACKED.search(data.columns.get("planes", ("", ""))[1])
    dates = any(kind == "date32" for kind, _ in data.columns.values())
    is_catalogue = data.kind == CATALOGUE
    return environment.from_string(asset("card.md").read_text("utf-8")).render(
        _biases(data.counts) if is_catalogue else {},
        data=data,
        catalogue=is_catalogue,
        origin=data.origin,
        first=data.splits[0],
        games=sum(split.games or 0 for split in data.splits),
        positions=sum(split.positions for split in data.splits),
        size=format_bytes(sum(file.bytes for split in data.splits for file in split.files)),
        size_category=_size_category(data.rows),
        features=[line for name, (kind, _) in data.columns.items() for line in _feature(name, kind)] if dates else [],
        packed=packed.groups() if packed else None,
        deduplicated=any(split.drops.keys() & {"duplicate", "same_game", "cut_off"} for split in data.splits),
        citation=citation(data),
        collections=_collections(data.sources),
        reproducible=data.sources
        and {"recipe", "clean", "split"} & {*data.origin}
        and all(len(split.files) == 1 for split in data.splits),
        changes_file=CHANGES_FILE,
        max_lines=_MAX_LINES,
    )


def _collections(sources: Sequence[Mapping[str, Any]]) -> list[tuple[Collection, int]]:
    """Return the collections that sources belong to by their names, each with the number of these."""
    found = Counter(each.name for source in sources if (each := find_collection(str(source.get("name", "")))))
    return [(COLLECTIONS[name], count) for name, count in sorted(found.items())]


def _feature(name: str, kind: str, indent: str = "  ") -> list[str]:
    """Return lines about a column for `datasets`, which reads dates as text: torch has no dates."""
    lines, found = [f"{indent}- name: {name}"], _LIST.fullmatch(kind)
    inner = found[1] if found else kind
    if inner.startswith("struct<"):
        parts = _STRUCT_FIELD.findall(inner.removeprefix("struct<"))
        lines.append(f"{indent}  {'list' if found else 'struct'}:")
        return lines + [line for part, part_kind in parts for line in _feature(part, part_kind, f"{indent}  ")]
    return [*lines, f"{indent}  {'list' if found else 'dtype'}: {'string' if inner == 'date32' else inner}"]


def _size_category(rows: int) -> str:
    below = [name for bound, name in _SIZES.items() if rows >= bound]
    above = [name for bound, name in _SIZES.items() if rows < bound]
    if not below:
        return f"n<{above[0]}"
    return f"{below[-1]}<n<{above[0]}" if above else f"n>{below[-1]}"


def _pattern(split: PublishedSplit) -> _Markdown:
    return _Markdown(split.files[0].path if len(split.files) == 1 else f"data/{split.name}-*.parquet")


def _biases(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lines of the list of biases, and the values, unit and total of each table."""
    kept = max(counts["kept"], 1)
    bands = [sum(row) + sum(column) for row, column in zip(counts["ranks"]["games"], zip(*counts["ranks"]["games"]))]
    winners = {winner: sum(endings.values()) for winner, endings in counts["results"].items()}
    endings: Counter[str] = Counter()
    for by_ending in counts["results"].values():
        endings.update(by_ending)
    tables = {
        "Ranks of the players": dict(zip(BANDS, bands)),
        "Years": counts["years"],
        "Servers and places, as written": counts["servers"],
        "Winners": winners,
        "Endings": endings,
        "Handicap": counts["handicaps"],
        "Komi": counts["komi"],
        "Boards": counts["boards"],
        "Moves": {name: sum(each.values()) for name, each in counts["lengths"].items()},
    }
    units = {"Ranks of the players": ("players", 2 * kept)}
    strong = sum(bands[_STRONG : BANDS.index(UNKNOWN)])
    handicap = sum(n for name, n in counts["handicaps"].items() if name not in ("0", "1", OTHERS, UNKNOWN))
    programs = kept - counts["programs"].get(PEOPLE, 0)
    years = [year for year in counts["years"] if year not in (OTHERS, UNKNOWN)]
    biases = [
        f"Ranks: {_share(strong, 2 * kept)} of the players are 7 dan or stronger; of "
        f"{_share(bands[BANDS.index(UNKNOWN)], 2 * kept)} the rank is unknown.",
        f"Years: {f'{years[0]} to {years[-1]}' if years else UNKNOWN}; the most frequent is "
        f"{_largest(counts['years'], kept)}.",
        f"Servers: the most frequent place is {_largest(counts['servers'], kept)}.",
        f"Results: Black wins {_share(winners.get('black', 0), kept)}, White {_share(winners.get('white', 0), kept)}; "
        f"of {_share(winners.get(UNKNOWN, 0), kept)} the winner is unknown.",
        f"Handicap: {_share(handicap, kept)} of the games have a recorded handicap of 2 stones or more.",
        f"Programs: {_share(programs, kept)} of the games have a player who is a program (column `program`).",
        f"Boards: the most frequent is {_largest(counts['boards'], kept)}.",
    ]
    rows = {
        title: ([(name, n) for name, n in values.items() if n], *units.get(title, ("games", kept)))
        for title, values in tables.items()
    }
    return {"biases": biases, "tables": rows}


def _largest(counts: Mapping[str, int], total: int) -> str:
    known = {name: n for name, n in counts.items() if name != OTHERS} or {"none": 0}
    name = max(known, key=lambda each: known[each])
    return f"{_text(name)} ({_share(known[name], total)})"


def citation(data: Publication) -> str:
    """Return a BibTeX entry."""
    fields = {
        "title": _latex(data.title),
        "author": _latex(data.author or TO_FILL),
        "year": data.date[:4],
        "version": data.version,
        **{name: re.sub(r"[{}\\]", "", value) for name, value in (("url", data.url), ("doi", data.doi)) if value},
        "note": f"made with kifu {data.kifu}",
    }
    return "@misc{dataset,\n" + ",\n".join(f"  {name} = {{{text}}}" for name, text in fields.items()) + "\n}"


def _latex(text: str) -> str:
    return re.sub(r"[$&%#_]|([~^])", lambda c: f"\\{c[0]}" + "{}" * bool(c[1]), re.sub(r"[{}\\]", "", printable(text)))


def _drops(drops: object) -> str:
    counts = drops.items() if isinstance(drops, dict) else ()
    return " + ".join(f"{n:,} {name.lower()}" for name, n in counts if isinstance(n, int))


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(total, 1):.1f} %"


def _text(value: object) -> str:
    """Return foreign text as one line of Markdown that shows it literally."""
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", html.escape(printable(value), quote=False))


def _code(text: str, language: str) -> _Markdown:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text) or [""]))
    return _Markdown(f"{fence}{language}\n{text}\n{fence}")


def render_croissant(data: Publication) -> str:
    """Return croissant.json."""
    table: dict[str, Any] = {
        "@context": json.loads(asset("croissant.json").read_text("utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": data.title,
        "description": f"Games of Go in Parquet, {data.kind} of kifu {data.kifu}. README.md has counts and biases.",
        "version": data.version,
        "datePublished": data.date,
        **({"creator": {"@type": "sc:Person", "name": data.author}} if data.author else {}),
        **({"url": data.url} if data.url else {}),
        **({"identifier": f"https://doi.org/{data.doi}"} if data.doi else {}),
        "citeAs": citation(data),
        "keywords": ["go", "baduk", "weiqi", "game records"],
        **({"license": data.license} if data.license else {}),
        "distribution": [entry for split in data.splits for entry in _files(split)],
        "recordSet": [_record_set(split, data.columns) for split in data.splits],
    }
    return json.dumps(table, ensure_ascii=False, indent=1) + "\n"


def _files(split: PublishedSplit) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": file.path,
            "name": file.path,
            "contentUrl": file.path,
            "contentSize": f"{file.bytes} B",
            "encodingFormat": _FORMAT,
            "sha256": file.sha256,
        }
        for file in split.files
    ]
    if len(files) > 1:
        name = f"{split.name}-files"
        files.append(
            {"@type": "cr:FileSet", "@id": name, "name": name, "encodingFormat": _FORMAT, "includes": _pattern(split)}
        )
    return files


def _record_set(split: PublishedSplit, columns: dict[str, tuple[str, str]]) -> dict[str, Any]:
    single = len(split.files) == 1
    files = {"fileObject": {"@id": split.files[0].path}} if single else {"fileSet": {"@id": f"{split.name}-files"}}
    return {
        "@type": "cr:RecordSet",
        "@id": split.name,
        "name": split.name,
        "description": f"The {split.rows} rows of the split {split.name}.",
        "field": [_field(f"{split.name}/{name}", name, *column, files) for name, column in columns.items()],
    }


def _field(identifier: str, column: str, kind: str, meaning: str, files: dict[str, Any]) -> dict[str, Any]:
    text = re.sub(r"\\(?=\W)|`", "", meaning) or column  # without Markdown
    field: dict[str, Any] = {"@type": "cr:Field", "@id": identifier, "name": column, "description": text}
    found = _LIST.fullmatch(kind)
    if found is not None:
        field |= {"isArray": True, "arrayShape": found[2] or "-1"}
        kind = found[1]
    source = files | {"extract": {"column": column}}
    if kind.startswith("struct<"):
        field["subField"] = [
            {
                "@type": "cr:Field",
                "@id": f"{identifier}/{part}",
                "name": part,
                "dataType": _TYPES[part_kind],
                "source": source | {"transform": {"jsonPath": part}},
                "isArray": True,
                "arrayShape": "-1",
            }
            for part, part_kind in _STRUCT_FIELD.findall(kind.removeprefix("struct<"))
        ]
        return field
    return field | {"dataType": _TYPES.get(kind, "sc:Text"), "source": source}

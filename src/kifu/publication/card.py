"""The pages of a published data set, and the counts in them.

README.md is the data card, with the YAML header that the Hugging Face Hub reads. croissant.json describes files and
columns for programs, in the vocabulary of http://mlcommons.org/croissant/1.1.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.ingest import IngestReport
from kifu.corpus.stats import BANDS, OTHERS, PEOPLE, UNKNOWN, stats
from kifu.errors import DropReason, printable
from kifu.execution.executor import THREADS, make_executor
from kifu.leaks.audit import LATE, audit
from kifu.progress import ProgressFactory
from kifu.publication.manifest import (
    CATALOGUE,
    CHANGES_FILE,
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

_MAX_DEPTH = 16
"""Maximum number of catalogues, each made of the next, through which sources are followed."""

TO_FILL = "TO BE FILLED IN"

_STRONG = BANDS.index("7d")
"""The first of the strongest rank bands: 7 dan to professional."""

_SIZES = {10**3: "1K", 10**4: "10K", 10**5: "100K", 10**6: "1M", 10**7: "10M", 10**8: "100M", 10**9: "1B"}

_MAX_LINES = 60
"""Maximum number of rows of a table of foreign values; kifu.json has all of them."""

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject",
            "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5",
            "parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate",
            "separator", "source", "subField", "transform",
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}  # fmt: skip

_TYPES = {
    "bool": "sc:Boolean", "date32": "sc:Date", "float32": "cr:Float32", "float64": "cr:Float64",
    **{f"{sign}int{bits}": f"cr:{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip

_FORMAT = "application/x-parquet"
_LIST = re.compile(r"list<(.*)>(?:\[(\d+)\])?")
_STRUCT_FIELD = re.compile(r"\b(\w++): (\w+)")


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
            columns = ("drop", "n_legal", "place", "archive")
            for batch in open_catalogue(each.path).batches(columns, size=1 << 16):
                report.add(batch)
                self._add(batch.filter(batch["drop"].is_null()))
            drops = {name.lower(): count for name, count in sorted(report.drops.items())}
            self.splits.append((report.kept, report.moves, drops))
        self.counts: dict[str, Any] = {}
        if sets[0].layout is None:
            counted = json.loads(stats([each.path for each in sets], jobs=jobs, progress=progress).to_json())
            listed = (
                "kept",
                "ranks",
                "years",
                "results",
                "lengths",
                "handicaps",
                "komi",
                "boards",
                "formats",
                "programs",
            )
            self.counts = {name: counted[name] for name in listed}
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
            origin |= {"recipe": each.manifest.recipe}
            about: Mapping[str, Any] = {"sources": each.manifest.sources}
        else:
            about = each.about
            origin |= {name: about[name] for name in ("recipe", "split", "query") if name in about}
            parents = [_about(parent) for parent in _dicts(about.get("of"))] or [about]
            if len(parents) == 1:
                origin |= {name: parents[0][name] for name in ("clean", "read", "kept", "drops") if name in parents[0]}
        for source in _sources_of(about):
            if "name" in source:
                sources.setdefault(json.dumps(source, sort_keys=True), source)
    if len(sets) > 1 and "split" not in origin:  # the counts of a catalogue, not of several
        origin = {name: value for name, value in origin.items() if name not in ("read", "kept", "drops")}
    for source in sources.values():
        if source["name"] in archives:
            source["games"] = archives[source["name"]]
    return origin, list(sources.values())


def _about(parent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a catalogue that others list."""
    about = parent.get("about", parent)
    return about if isinstance(about, dict) else {}


def _sources_of(about: Mapping[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """Return the sources of a catalogue, in place of catalogues among them theirs."""
    found, archives = [], about.get("archives")
    for parent in _dicts(about.get("of")) or _dicts(about.get("sources")):
        nested = _sources_of(_about(parent), depth + 1) if depth < _MAX_DEPTH else []
        source = {name: value for name, value in parent.items() if name != "about"}
        games = archives.get(parent.get("name")) if isinstance(archives, dict) else None
        found += nested or [source | ({"games": games} if isinstance(games, int) else {})]
    return found


def _dicts(values: Any) -> list[dict[str, Any]]:
    """Return the objects in a list of JSON values; metadata may be of any writer."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def find_duplicates(sets: Sequence[InputSet], jobs: int | None) -> list[Duplicates]:
    """Return the duplicates among the kept games of catalogues, by pairs of splits that have some."""
    if sets[0].layout is not None:
        return []
    with make_executor(THREADS, jobs) as executor:
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
    games = _bias_sections(data) if data.kind == CATALOGUE else _recipe_section(data)
    sections = [
        _header(data),
        f"# {_text(data.title)}",
        _summary(data),
        *_section("Splits", _split_table(data)),
        *_section("Loading", _loading(data)),
        *_section("Columns", _columns(data)),
        *_section("Sources", _sources(data)),
        *games,
        *_section("Duplicates", _duplicates(data)),
        *_section("Audit", _audit(data)),
        *_section("Changes", _changes(data)),
        *_section("Licence", _licence(data)),
        *_section("Citation", _code(citation(data), "bibtex")),
    ]
    return "\n\n".join(sections) + "\n"


def _section(title: str, *parts: str) -> list[str]:
    return [f"## {title}", *parts]


def _header(data: Publication) -> str:
    """Return the YAML header. Values are JSON strings, which YAML contains."""
    lines = ["---", f"pretty_name: {json.dumps(data.title, ensure_ascii=False)}"]
    lines.append(f"license: {json.dumps(data.licence)}" if data.licence else f"license: unknown # {TO_FILL}")
    lines += ["size_categories:", f"- {_size_category(data.rows)}"]
    lines += ["tags:", *(f"- {tag}" for tag in ("go", "baduk", "weiqi", "board-games", "game-records", "kifu"))]
    lines += ["configs:", "- config_name: default", "  data_files:"]
    for split in data.splits:
        lines += [f"  - split: {split.name}", f"    path: {_pattern(split)}"]
    if any(kind == "date32" for kind, _ in data.columns.values()):
        lines += ["dataset_info:", "- config_name: default", "  features:"]
        for name, (kind, _) in data.columns.items():
            lines += _feature(name, kind, "  ")
    return "\n".join([*lines, "---"])


def _feature(name: str, kind: str, indent: str) -> list[str]:
    """Return a column for `datasets`, which reads dates as text: torch has no dates."""
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


def _pattern(split: PublishedSplit) -> str:
    return split.files[0].path if len(split.files) == 1 else f"data/{split.name}-*.parquet"


def _summary(data: Publication) -> str:
    size = format_bytes(sum(file.bytes for split in data.splits for file in split.files))
    positions = sum(split.positions for split in data.splits)
    if data.kind == CATALOGUE:
        games = sum(split.games or 0 for split in data.splits)
        what = f"{games:,} games of Go with {positions:,} moves, one row per game"
        hint = ""
        if games != data.rows:
            hint = (
                f"\n\nThe other {data.rows - games:,} rows are games that were dropped, each with its reason in the "
                "column `drop`, which is null for all others."
            )
    else:
        what = f"{positions:,} positions from games of Go, one row per position"
        hint = ""
    return (
        f"{what}, in Parquet (format {data.kind} of kifu {data.kifu}, {size}). Version {data.version}.{hint}\n\n"
        "`kifu.json` has all counts and hashes of this page, `croissant.json` the description for programs, and "
        "`sha256sum -c SHA256SUMS` verifies the files."
    )


def _split_table(data: Publication) -> str:
    catalogue = data.kind == CATALOGUE
    rows = []
    for split in data.splits:
        games = "unknown" if split.games is None else f"{split.games:,}"
        dropped = _drops(split.drops) if split.drops else "0"
        moves = [f"{split.positions:,}"] if catalogue else []
        rows.append([split.name, f"`{_pattern(split)}`", f"{split.rows:,}", games, dropped, *moves])
    head = ["split", "files", "rows", "games", "dropped", *(["moves"] if catalogue else [])]
    text = _table(head, rows, "llrrl" + ("r" if catalogue else ""))
    return f"{text}\n\n{_origin(data)}".rstrip()


def _origin(data: Publication) -> str:
    origin, lines = data.origin, []
    split = origin.get("split")
    if isinstance(split, dict):
        lines.append(f"The splits were made by `kifu split`: {_text(split.get('title', ''))}.")
        lines.append(_json(split.get("split", split)))
        if isinstance(split.get("split"), dict) and split["split"].get("kind") == "hash":
            lines.append(
                "The split of a game depends on the hash of the opening of the first game of its cluster. A game, its "
                "rotations and mirror images, its beginnings and slightly changed copies are in one split, and games "
                "that are added behind the others move none of them, unless they tie two clusters."
            )
    if "query" in origin:
        lines.append(f"The games were selected by `kifu query`:\n\n{_code(str(origin['query']), 'sql')}")
    return "\n\n".join(lines)


_PACKED = re.compile(r"^the (\d+) x (\d+) x (\d+) planes .* as bits")


def _loading(data: Publication) -> str:
    first = data.splits[0]
    path, file = f"FOLDER/{_pattern(first)}", f"FOLDER/{first.files[0].path}"
    if data.kind == CATALOGUE:
        usage = f'games = kifu.open_catalogue("{file}")\nbatches = kifu.load("{file}", "seven")'
    else:
        usage = f'data = kifu.open("{file}")\nbatches = kifu.load("{file}")'
    packed = _PACKED.search(data.columns.get("planes", ("", ""))[1])
    if packed is not None:
        planes, height, width = packed.groups()
        usage += (
            "\n\nimport numpy as np\n"
            f'rows = np.frombuffer(b"".join(frame["planes"]), np.uint8).reshape(len(frame), {planes}, -1)\n'
            f"planes = np.unpackbits(rows, axis=2, count={height} * {width})\n"
            f"planes = planes.reshape(-1, {planes}, {height}, {width})  # 0 and 1, without kifu"
        )
    code = (
        f'import datasets\ndata = datasets.load_dataset("FOLDER", split="{first.name}")\n\n'
        f'import polars\nframe = polars.read_parquet("{path}")\n\nimport kifu\n{usage}'
    )
    return _code(code, "python")


def _columns(data: Publication) -> str:
    rows = [[f"`{name}`", f"`{kind}`", meaning] for name, (kind, meaning) in data.columns.items()]
    return _table(["column", "type", "meaning"], rows, "lll")


def _sources(data: Publication) -> str:
    origin, lines = data.origin, []
    if isinstance(origin.get("read"), int) and isinstance(origin.get("kept"), int):
        drops = origin["drops"] if isinstance(origin.get("drops"), dict) else {}
        dropped = _drops({name: n for name, n in drops.items() if isinstance(n, int)}) or "0 dropped"
        lines.append(f"{origin['read']:,} games were read from the sources = {origin['kept']:,} kept + {dropped}.")
    if not data.sources:
        return "\n\n".join([*lines, "The sources are unknown: the metadata of the data do not list them."])
    hashed = [
        [
            _text(source.get("name", "")),
            f"{source['games']:,}" if isinstance(source.get("games"), int) else "",
            f"{source['bytes']:,}" if isinstance(source.get("bytes"), int) else "",
            f"`{_text(source['blake3'])}`" if "blake3" in source else "",
        ]
        for source in data.sources
    ]
    lines.append(_table(["source", "kept games", "bytes", "BLAKE3"], _shortened(hashed), "lrrl"))
    if isinstance(origin.get("clean"), dict):
        clean = origin["clean"]
        lines.append(f"Cleaning rules `{_text(clean.get('name', ''))}`: {_text(clean.get('title', ''))}.")
        lines.append(_json({name: value for name, value in clean.items() if name not in ("name", "title")}))
    return "\n\n".join(lines)


def _recipe_section(data: Publication) -> list[str]:
    recipe = data.origin.get("recipe")
    text = (
        "The recipe is unknown." if recipe is None else f"`kifu build` made the rows by this recipe:\n\n{_json(recipe)}"
    )
    biases = "The biases are those of the games that the recipe selects; `kifu publish` reports them for a catalogue."
    return [*_section("Recipe", text), *_section("Known biases", biases)]


def _bias_sections(data: Publication) -> list[str]:
    counts = data.counts
    kept = max(counts["kept"], 1)
    bands = [sum(row) + sum(column) for row, column in zip(counts["ranks"]["games"], zip(*counts["ranks"]["games"]))]
    winners = {winner: sum(endings.values()) for winner, endings in counts["results"].items()}
    endings: Counter[str] = Counter()
    for by_ending in counts["results"].values():
        endings.update(by_ending)
    lengths = {name: sum(each.values()) for name, each in counts["lengths"].items() if each}
    tables = {
        "Ranks of the players": (dict(zip(BANDS, bands)), 2 * kept, "players"),
        "Years": (counts["years"], kept, "games"),
        "Servers and places, as written": (counts["servers"], kept, "games"),
        "Winners": (winners, kept, "games"),
        "Endings": (endings, kept, "games"),
        "Handicap": (counts["handicaps"], kept, "games"),
        "Komi": (counts["komi"], kept, "games"),
        "Boards": (counts["boards"], kept, "games"),
        "Moves": (lengths, kept, "games"),
    }
    parts = [_bias_list(counts, bands, winners, kept)]
    for title, (values, total, unit) in tables.items():
        rows = [[_text(name), f"{n:,}", _share(n, total)] for name, n in values.items() if n]
        parts += [f"### {title}", _table(["value", unit, "share"], _shortened(rows), "lrr")]
    return _section("Known biases", *parts)


def _bias_list(counts: Mapping[str, Any], bands: Sequence[int], winners: Mapping[str, int], kept: int) -> str:
    strong = sum(bands[_STRONG : BANDS.index(UNKNOWN)])
    handicap = sum(n for name, n in counts["handicaps"].items() if name not in ("0", "1", OTHERS, UNKNOWN))
    programs = kept - counts["programs"].get(PEOPLE, 0)
    years = [year for year in counts["years"] if year not in (OTHERS, UNKNOWN)]
    lines = [
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
    note = "Players' names and ranks are those of the sources. A net that learns from these games learns their habits."
    return "\n".join(f"- {line}" for line in lines) + f"\n\n{note}"


def _largest(counts: Mapping[str, int], total: int) -> str:
    """Return the most frequent value and its share."""
    known = {name: n for name, n in counts.items() if name != OTHERS} or {"none": 0}
    name = max(known, key=lambda each: known[each])
    return f"{_text(name)} ({_share(known[name], total)})"


def _duplicates(data: Publication) -> str:
    if data.kind != CATALOGUE:
        return "Equal positions are not counted. The audit below compares the splits."
    rows = [[each.split, each.other, f"{each.same_game:,}", f"{each.cut_off:,}"] for each in data.duplicates]
    dropped = {name: n for split in data.splits for name, n in split.drops.items()}
    text = (
        "Kept games that equal another kept game up to symmetry, colours and final passes (from 20 moves on), or are "
        "the beginning of one (from 30 moves on)"
    )
    if any(name in dropped for name in ("duplicate", "same_game", "cut_off")):
        text = f"Duplicates were looked for when the games were read, and dropped. {text}"
    if not rows:
        return f"{text}: none, neither within a split nor across two."
    return f"{text}:\n\n" + _table(["game in", "represented in", "equal", "beginning"], rows, "llrr")


def _audit(data: Publication) -> str:
    if data.audit_note:
        return data.audit_note
    rows = [
        [
            f"{pair.first}, {pair.second}",
            f"{pair.first_games:,} / {pair.second_games:,}",
            f"{pair.late:,}",
            f"{pair.first_positions:,} / {pair.second_positions:,}",
        ]
        for pair in data.audit
    ]
    head = ["splits", "shared games (of each)", "shared late positions", "shared positions (rows of each)"]
    verdict = "**Splits share games.**" if data.leaks else "No game is in two splits."
    return (
        f"{verdict} `kifu audit` compared all positions of every two splits, under all symmetries and with exchanged "
        "colours. Late positions have 50 stones or more and identify a game; earlier ones are common openings.\n\n"
        + _table(head, rows, "lrrr")
        + _shared_games(data.audit)
    )


def _shared_games(pairs: Sequence[AuditedPair]) -> str:
    lines = [f"- {pair.first}, {pair.second}: {_text(game)}" for pair in pairs for game in pair.games]
    return "\n\n" + "\n".join(lines) if lines else ""


def _changes(data: Publication) -> str:
    known = data.changes
    if known is None:
        return f"Version {data.version} is not compared with an earlier one."
    rows = [[name, f"{getattr(known, name):,}"] for name in ("added", "removed", "changed", "moved", "same")]
    return (
        f"Version {data.version} compared with {known.previous}; `{CHANGES_FILE}` lists the games. Changed games have "
        "the same moves and differ in another value; moved ones are equal, but in another split.\n\n"
        + _table(["change", "games"], rows, "lr")
    )


def _licence(data: Publication) -> str:
    if data.licence:
        return f"`{data.licence}`"
    return f"**{TO_FILL}**: the terms of the sources decide. Set `license` in the header, and this section."


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


def _drops(drops: Mapping[str, int]) -> str:
    return " + ".join(f"{n:,} {_text(name.lower())}" for name, n in drops.items())


def _share(count: int, total: int) -> str:
    return f"{100 * count / max(total, 1):.1f} %"


def _shortened(rows: Sequence[list[str]]) -> list[list[str]]:
    """Return the first rows, and one that counts the others."""
    if len(rows) <= _MAX_LINES:
        return list(rows)
    return [*rows[:_MAX_LINES], [f"and {len(rows) - _MAX_LINES:,} more", *[""] * (len(rows[0]) - 1)]]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """Return a Markdown table. align: l or r of each column."""
    rule = [{"l": "---", "r": "---:"}[each] for each in align]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def _text(value: object) -> str:
    """Return foreign text as one line of Markdown that shows it literally."""
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", html.escape(printable(value), quote=False))


def _code(text: str, language: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text) or [""]))
    return f"{fence}{language}\n{text}\n{fence}"


def _json(value: Any) -> str:
    return _code(json.dumps(value, ensure_ascii=False, indent=1), "json")


def render_croissant(data: Publication) -> str:
    """Return croissant.json."""
    table: dict[str, Any] = {
        "@context": _CONTEXT,
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
        **({"license": data.licence} if data.licence else {}),
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

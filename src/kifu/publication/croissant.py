"""Croissant metadata (version 1.1), which describe files and columns for programs.

The vocabulary is that of http://mlcommons.org/croissant/1.1.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kifu.publication.card import citation
from kifu.publication.manifest import Publication, PublishedSplit

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
_STRUCT_FIELD = re.compile(r"(\w+): (\w+)")


def render_croissant(data: Publication) -> str:
    """Return croissant.json."""
    table: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": data.title,
        "description": f"Games of Go in Parquet, {data.kind} of kifu {data.kifu}. README.md has counts and biases.",
        "version": data.version,
        "citeAs": citation(data),
        "keywords": ["go", "baduk", "weiqi", "game records"],
        **({"license": data.licence} if data.licence else {}),
        "distribution": [entry for split in data.splits for entry in _files(split)],
        "recordSet": [_record_set(split, data.columns) for split in data.splits],
    }
    return json.dumps(table, ensure_ascii=False, indent=1) + "\n"


def _files(split: PublishedSplit) -> list[dict[str, Any]]:
    """Return the file objects of a split, and the set of several."""
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
        pattern = f"data/{split.name}-*.parquet"
        files.append(
            {
                "@type": "cr:FileSet",
                "@id": f"{split.name}-files",
                "name": f"{split.name}-files",
                "encodingFormat": _FORMAT,
                "includes": pattern,
            }
        )
    return files


def _record_set(split: PublishedSplit, columns: dict[str, tuple[str, str]]) -> dict[str, Any]:
    key = "fileObject" if len(split.files) == 1 else "fileSet"
    files = {key: {"@id": split.files[0].path if len(split.files) == 1 else f"{split.name}-files"}}
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

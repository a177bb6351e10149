"""Reports of operations as JSON."""

from __future__ import annotations

import json
import re
from typing import Any


class Report:
    """Base of the reports of operations: dataclasses, which convert to JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; paths are strings, and numbers that are not finite are null."""
        from pydantic_core import to_jsonable_python

        values: dict[str, Any] = to_jsonable_python(self, inf_nan_mode="null")
        return values

    def to_json(self) -> str:
        """Return the fields as one JSON object."""
        return json_text(self.to_dict())


def json_text(values: Any) -> str:
    """Return JSON values, and objects with a method `to_dict`, as readable JSON without unprintable characters."""
    text = json.dumps(values, ensure_ascii=False, indent=1, default=lambda each: each.to_dict())
    return re.sub(r"[^\n -~]", lambda c: c[0] if c[0].isprintable() else json.dumps(c[0])[1:-1], text) + "\n"

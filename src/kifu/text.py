"""Numbers, counts and foreign text as parts of messages, 95 % intervals of shares, and reports as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

from kifu.errors import printable

Z95 = 1.959963984540054
"""Half-width of a 95 % interval in standard deviations."""


class _LazyPattern:
    """A regular expression that is compiled at its first use; most are not used, and compiling them takes long."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, method)
        return method


def lazy_pattern(pattern: str, flags: int = re.NOFLAG) -> re.Pattern[str]:
    """Return a regular expression that is compiled at its first use."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


_WEB = lazy_pattern(r"https?://", re.IGNORECASE)
_LOGIN = lazy_pattern(r"(://)[^/]*@")


def hide_credentials(url: str) -> str:
    """Return a URL without user and password, and for HTTP without the query, which may hold a signature."""
    return _LOGIN.sub(r"\1", re.split(r"[?#]", url)[0] if _WEB.match(url) else url)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 game", "2,000 games"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def short_count(count: int) -> str:
    """Return a count in at most four characters: "812", "9.3k", "12k", "1.4M"."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{unit}" if count < 9.95 * size else f"{count / size:.0f}{unit}"
    return str(count)


def format_share(count: int, total: int) -> str:
    """Return a share as text: "12.3%", "<0.1%"."""
    return f"{count / total:.1%}" if count * 1000 >= total or count == 0 else "<0.1%"


def format_bytes(n: int) -> str:
    """Format a number of bytes: 3900000 -> "3.9 MB"."""
    if n < 1000:
        return f"{n} bytes"
    size, units = n / 1000, iter(("kB", "MB", "GB"))
    unit = next(units)
    while size >= 999.95 and unit != "GB":
        size, unit = size / 1000, next(units)
    return f"{size:,.1f} {unit}"


def format_seconds(seconds: float) -> str:
    """Format a duration: 2.345 -> "2.3 s", 75.2 -> "75 s", 200 -> "3 min 20 s"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if round(seconds) < 120:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s"


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts by name: "9x9: 2, 19x19: 1,000"; "none" without any."""
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items()) or "none"


def format_drops(drops: Mapping[str, int]) -> str:
    """Return counts of dropped games by reason for a sum: {"TOO_SHORT": 3} -> " + 3 too short"."""
    return "".join(f" + {count:,} {reason.lower().replace('_', ' ')}" for reason, count in drops.items())


def format_games(read: int, kept: int, drops: Mapping[str, int], elsewhere: int = 0) -> str:
    """Return counts of games: "10 games = 6 kept + 1 elsewhere + 3 too short"."""
    others = f" + {elsewhere:,} elsewhere" if elsewhere else ""
    return f"{read:,} games = {kept:,} kept{others}{format_drops(drops)}"


def shorten(text: str, length: int = 80) -> str:
    """Return the text as one printable line of at most that length."""
    line = printable(text)
    return line if len(line) <= length else line[: length - 4] + " ..."


def wilson(points: float, games: int, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of a success probability; that of 0 trials is (0, 1).

    Draws count as half a point, which makes the interval slightly too wide.

    Examples:
        >>> [round(bound, 4) for bound in wilson(10, 20)]
        [0.2993, 0.7007]
    """
    if games == 0:
        return 0.0, 1.0
    share = points / games
    middle = share + z * z / (2 * games)
    spread = z * math.sqrt(share * (1 - share) / games + z * z / (4 * games * games))
    lower, upper = ((middle + sign * spread) / (1 + z * z / games) for sign in (-1, 1))
    # Without rounding errors, the bounds of 0 % and 100 % are exact.
    return (0.0 if points == 0 else lower), (1.0 if points == games else upper)


class Report:
    """Base of the reports of operations: dataclasses, which convert to JSON."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Show a report's text in one line as its repr, unless it has a repr of its own."""
        if "__str__" in vars(cls) and "__repr__" not in vars(cls):
            cls.__repr__ = Report.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {shorten('; '.join(map(str.strip, str(self).splitlines())), 200)}>"

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

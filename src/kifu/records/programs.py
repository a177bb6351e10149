"""Recognize Go programs by player name: the patterns in assets/programs.txt and those that users add."""

from __future__ import annotations

import fnmatch
import functools
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from kifu.assets import asset
from kifu.errors import RecipeError, SourceError
from kifu.files import read_small
from kifu.records.text import MAX_TEXT

_LARGEST_FILE = 1 << 20
_MOST_NAMES = 1 << 16


def _bare(name: str) -> str:
    """Remove what does not distinguish names: case, spaces, _ and -. A set such as [0-9] keeps its -."""
    name = unicodedata.normalize("NFKC", name[:MAX_TEXT]).casefold()
    return re.sub(r"(\[[^]]*])|[\s_-]", r"\1", name)


class Programs:
    """Name patterns of Go programs: * matches any characters, ? one, [0-9] one of a set.

    A pattern matches whole names, ignoring case, spaces, _ and -.

    Raises:
        RecipeError: If a pattern has fewer than two letters or digits, as it would match nearly every name.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        for pattern in self.patterns:
            if len(re.findall(r"\w", re.sub(r"\[[^]]*]", "", pattern))) < 2:
                raise RecipeError(
                    f"a program name needs at least two letters or digits besides *, ? and [...], got {pattern!r}"
                )
        either = "|".join(fnmatch.translate(_bare(pattern)) for pattern in self.patterns)
        match = re.compile(either or "(?!)").match
        self._is = functools.lru_cache(_MOST_NAMES)(lambda name: match(_bare(name)) is not None)

    def is_program(self, name: str) -> bool:
        """Return whether a player's name matches a pattern. The last 65,536 names are cached."""
        return self._is(name)

    def __reduce__(self) -> tuple[type[Programs], tuple[tuple[str, ...]]]:
        return Programs, (self.patterns,)

    def __len__(self) -> int:
        return len(self.patterns)


def _patterns(text: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def known_programs(*more: str, file: Path | None = None) -> Programs:
    """Return the patterns that kifu ships, with more patterns and those of a file.

    Args:
        file: A UTF-8 file with one pattern per line and # comments.

    Raises:
        SourceError: If the file cannot be read, is not UTF-8, or is larger than 1 MiB.
        RecipeError: As `Programs` does.
    """
    patterns = _patterns(asset("programs.txt").read_text("utf-8"))
    if file is not None:
        try:
            patterns += _patterns(read_small(file, _LARGEST_FILE).decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SourceError(f"{file}: cannot read the list of programs: {reason}") from None
    return Programs([*patterns, *more])

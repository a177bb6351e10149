"""Counts of the files and members that are not read, by source, so that missing games are noticed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from kifu.errors import printable

_log = logging.getLogger(__name__)

_SHOWN_KINDS = 5
_MAX_KINDS = 100
"""Distinct kinds that are counted for a container: a hostile archive may have a million."""

_OTHER_KINDS = "other kinds"
_ARCHIVES = (".zip", ".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".7z", ".rar", ".lzh", ".gz", ".bz2", ".xz")


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """Return one line, such as "left out: 4 files (3 .pdf, 1 with a broken link)".

    It names the most frequent kinds and, since they may contain records, all kinds of archives.
    """
    ranked = Counter(left_out).most_common()
    shown = ranked[:_SHOWN_KINDS] + [each for each in ranked[_SHOWN_KINDS:] if each[0].endswith(_ARCHIVES)]
    kinds = [f"{count:,} {kind}" for kind, count in shown] + ["..."] * (len(shown) < len(ranked))
    files = sum(left_out.values())
    return f"left out: {files:,} file{'s' * (files != 1)} ({', '.join(kinds)})"


class LeftOut:
    """Counts of the files and members that are not read, by container."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._sources: dict[str, str] = {}
        self._with_games = set[str]()

    def expect(self, container: str, source: str, left_out: Mapping[str, int]) -> None:
        """Announce a container.

        Args:
            container: Its path, as in `RecordBlock.source`.
            source: The path of the source that it is, or lies in.
            left_out: What is left out before the container is read.
        """
        self._sources[container] = source
        self.add(container, 0, left_out)

    def add(self, container: str, games: int, left_out: Mapping[str, int]) -> None:
        """Count what is left out of a container, and note whether it has games; beyond 100 kinds as "other kinds"."""
        if games:
            self._with_games.add(container)
        counts = self._counts.setdefault(container, Counter())
        for kind, count in left_out.items():
            counts[kind if kind in counts or len(counts) < _MAX_KINDS else _OTHER_KINDS] += count

    def of_container(self, container: str) -> dict[str, int]:
        """Return the counts of a container by kind, in alphabetical order."""
        return dict(sorted(self._counts.get(container, {}).items()))

    def total(self) -> Counter[str]:
        """Return the counts of all containers by kind."""
        return sum(self._counts.values(), Counter())

    def log_listed(self) -> None:
        """Log what is left out of folders, before anything is read."""
        self._with_games.update(self._counts)
        self.log()

    def log(self) -> None:
        """Log one line for each source of which something is left out, and for each container without any game."""
        by_source: dict[str, Counter[str]] = {}
        for container, counts in self._counts.items():
            if not counts:
                continue
            source = self._sources.get(container, container)
            by_source.setdefault(source, Counter()).update(counts)
            if container not in self._with_games and container != source:
                _log.warning("%s: no game records; %s", printable(container), printable(describe_left_out(counts)))
        with_games = {self._sources.get(container, container) for container in self._with_games}
        for source, counts in by_source.items():
            note = describe_left_out(counts)
            if source in with_games:
                _log.info("%s: %s", printable(source), printable(note))
            else:
                _log.warning("%s: no game records; %s", printable(source), printable(note))

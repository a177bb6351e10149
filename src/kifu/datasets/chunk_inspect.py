"""Readable descriptions of training chunks of other programs."""

from __future__ import annotations

import pkgutil

import numpy as np

from kifu.datasets.chunks import Chunks
from kifu.datasets.formats import FORMATS
from kifu.datasets.labels import NO_MOVE


def inspect_chunks(data: Chunks) -> list[str]:
    """Read all rows, and return counts as lines of text.

    Raises:
        FormatError: A file has changed.
    """
    one_hot = linked = best = 0
    results = np.zeros(3, np.int64)
    for rows, moves in data.linked():
        one_hot += int(np.count_nonzero(np.count_nonzero(rows.policy, axis=1) == 1))
        known = moves != NO_MOVE
        linked += int(np.count_nonzero(known))
        best += int(np.count_nonzero(rows.policy[known].argmax(1) == moves[known]))
        results += np.bincount(rows.result() + 1, minlength=3)
    layout, games = data.layout, data.game_rows
    format = next(each for each in FORMATS.values() if isinstance(data, pkgutil.resolve_name(each.reader)))
    files = "1 file" if len(data.files) == 1 else f"{len(data.files):,} files"
    winners = np.bincount(np.concatenate([scan.winner for scan in data.scans]) + 1, minlength=3)
    lines = [
        f"{data.path}: {format.name}, {format.title}",
        f"  examples    {len(data):,} in {files}",
        f"  variants    {', '.join(f'{name}: {n:,}' for name, n in data.variants().items())}",
        f"  planes      {layout.plane_set}: {layout.planes} of {layout.width} x {layout.height}, row 0 is the top",
        f"  labels      {', '.join(label.name for label in layout.labels)}",
        f"  policy      {one_hot / max(len(data), 1):.2%} of the examples with one move only",
        f"  results     {results[2]:,} won by the mover, {results[0]:,} lost, {results[1]:,} drawn",
        f"  games       {len(games):,} deduced, of {int((games[:, 1] - games[:, 0]).sum()):,} examples; "
        f"{winners[2]:,} won by Black, {winners[0]:,} by White, {winners[1]:,} drawn",
    ]
    if linked:
        lines.append(f"  moves       {linked:,} deduced; {linked - best:,} are not the best one of the policy")
    if data.skipped:
        lines.append(f"  skipped     {data.skipped:,} records whose policy has NaN, negative or only zero values")
    return [*lines, "  unknown     komi, names, dates, margins, and the last move of each game"]

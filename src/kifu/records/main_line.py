"""The nodes of a record's main line and their properties, for what game arrays leave out, such as markup."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kifu.kernel import kernel, writable_view
from kifu.records._scan import find_game
from kifu.records._tokens import CLOSE, LEFT, SEMICOLON, Int, end_of_value, find_charset
from kifu.records.games import Bytes
from kifu.records.sgf import root_properties
from kifu.records.text import SINGLE, Charsets, charsets


@kernel
def _find_nodes(data: Bytes, ca: Bytes, charsets: Charsets, starts: npt.NDArray[np.int64]) -> Int:
    """Fill the positions of the ; of the main line's nodes, and of its end. Return the number of nodes."""
    stop = len(data)
    _at, i, _junk = find_game(data, 0, stop)
    charset = find_charset(ca, 0, len(ca), charsets) if len(ca) > 0 else SINGLE
    count = 0
    while i < stop and data[i] != CLOSE:
        if data[i] == SEMICOLON:
            starts[count] = i
            count += 1
        elif data[i] == LEFT:
            i = end_of_value(data, i + 1, stop, charset)
        i += 1
    starts[count] = min(i, stop)
    return count


def split_nodes(record: bytes) -> list[bytes]:
    """Return the text of each node of the main line of the first game, from its ; up to the next one."""
    ca = root_properties(record).get("CA", (b"",))[0]
    starts = np.empty(record.count(b";") + 1, np.int64)
    data, ca_bytes = (writable_view(np.frombuffer(text, np.uint8)) for text in (record, ca))
    count = _find_nodes(data, ca_bytes, charsets(), starts)
    cuts = starts[: count + 1].tolist()
    return [record[start:stop] for start, stop in pairwise(cuts)]

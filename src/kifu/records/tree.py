"""The tree of one SGF record, with comments and marks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.kernel import kernel
from kifu.point import NO_POINT, POINT_MASK
from kifu.records import _sgf as scanner
from kifu.records._bytes import CLOSE, COLON, DROP, HEIGHT, WIDTH, Int
from kifu.records._sgf_tokens import (
    NAME_C,
    find_game,
    name_key,
    next_node,
    next_value,
    node_style,
    read_rectangle,
    semicolon,
    style_of,
)
from kifu.records.games import Bytes
from kifu.records.sgf import as_array, as_block, charset_of, new_output

Spans = npt.NDArray[np.int64]

MAX_NODES, MAX_TREE_BYTES, _MAX_TREE_SETUP, _MAX_TREE_VALUES = 20_000, 1 << 20, 1 << 16, 1 << 17
"""Limits of a `Tree`: nodes, bytes of the record, setup stones with rectangles expanded, comments and marks."""

NAME_LB, NAME_L = name_key("LB"), name_key("L")
MARKS = (name_key("TR"), name_key("SQ"), name_key("CR"), name_key("MA"), NAME_LB, NAME_L)


class Tree(NamedTuple):
    """The nodes of a record with all variations, each after its parent; first children are the main line of `scan`.

    Attributes:
        nodes: [N, 4] int64. Index of the parent, -1 for the root; point | WHITE_BIT, a pass as width * height, or -1;
            ends of the node's part of `setup` and of `values`.
        values: [V, 7] int64. Key of C, TR, SQ, CR, MA, LB or L, start and end of the value in the record; for all but
            C, the rectangle: left, top, right, bottom, borders included.
        is_whole: False if a limit was exceeded: what follows is left out.
    """

    nodes: Spans
    setup: npt.NDArray[np.uint16]
    values: Spans
    is_whole: bool


@kernel
def _find_tree(
    data: Bytes, row: Spans, out: scanner.NodesOut, opened: Spans, nodes: Spans, values: Spans
) -> tuple[Int, Int]:
    """Fill `nodes` and `values` of a `Tree` as far as they have space. Return (number of nodes, where this ended).

    Args:
        row: [COLUMNS] int64, the row of `scan` with the board's size and the charset.
        opened: Scratch space of an entry per open parenthesis: the node before it.
    """
    stop = len(data)
    at, i, _junk = find_game(data, 0, stop)
    last, count, filled, depth = -1, 0, 0, 1 if at < stop else 0
    row[scanner.STYLE] = style_of(data, i, stop)
    while depth > 0 and count < len(nodes):
        moves, begin, out.state[scanner.PROPERTIES] = out.state[scanner.MOVES], i, 0
        i = scanner.list_node(data, begin, stop, row, out)
        scanner.read_node(data, stop, 0, row, out)
        for k in range(out.state[scanner.PROPERTIES]):
            key = out.properties[k, scanner.KEY]
            j, end = np.int64(out.properties[k, scanner.VALUE]), np.int64(out.properties[k, scanner.VALUE_END])
            while end < stop and (key == NAME_C or key in MARKS):
                where = j
                while where < end and (key != NAME_LB or data[where] != COLON):
                    where += 1
                status, left, top, right, bottom = read_rectangle(data, j, where, row[WIDTH], row[HEIGHT])
                if filled == len(values):
                    return count, begin
                if status > 0 or (key == NAME_C and j < end):
                    each = values[filled]
                    each[0], each[1], each[2] = key, j, end
                    each[3], each[4], each[5], each[6] = left, top, right, bottom
                    filled += 1
                j, end = next_value(data, end, stop, row[scanner.CHARSET])
        if row[DROP] != 0:
            return count, begin
        node = nodes[count]
        node[0], node[1], node[2], node[3] = last, -1, out.state[scanner.SETUP], filled
        if out.state[scanner.MOVES] > moves and out.moves[moves] & POINT_MASK != NO_POINT:
            node[1] = out.moves[moves]
        last, found = count, False
        count += 1
        while depth > 0 and not found:
            i, found, inner, _warnings = next_node(data, i, stop, row[scanner.CHARSET], depth)
            if found:
                opened[depth + 1 : inner + 1] = last
                depth = inner
                row[scanner.STYLE] = node_style(row[scanner.STYLE], depth)
                i += semicolon(data, i, stop)
            elif i < stop and data[i] == CLOSE:
                last = opened[depth]
                depth -= 1
                i += 1
            else:
                depth, i = 0, stop
    return count, i if depth > 0 else stop


def read_tree(record: bytes, width: int, height: int) -> Tree:
    """Return the tree of the first game in a record, whose size of the board is known."""
    data = as_array(record[:MAX_TREE_BYTES])
    out = new_output(as_block([]), 1, MAX_NODES, _MAX_TREE_SETUP, len(data) // scanner.PROPERTY_BYTES)
    out.state[scanner.BUDGET], out.state[scanner.IN_ROOT] = _MAX_TREE_SETUP, 1
    out.rows[0] = 0
    out.rows[0, [WIDTH, HEIGHT, scanner.CHARSET]] = width, height, charset_of(data.tobytes())
    nodes, values = np.empty((MAX_NODES, 4), np.int64), np.empty((_MAX_TREE_VALUES, 7), np.int64)
    opened = np.full(record.count(b"(", 0, len(data)) + 2, -1, np.int64)
    count, end = _find_tree(data, out.rows[0], out, opened, nodes, values)
    filled = int(nodes[count - 1, 3]) if count else 0
    return Tree(nodes[:count], out.setup[: out.state[scanner.SETUP]], values[:filled], end == len(record))

"""Tests of the nodes of a record's main line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.records.sgf import split_nodes

TOKEN = re.compile(rb"\[(?:\\.|[^\]\\])*(?:\]|\\?\Z)|[A-Za-z]+|.", re.DOTALL)


def naive_nodes(record: bytes) -> list[bytes]:
    """Return the nodes of a record that begins with "(;"."""
    nodes: list[bytes] = []
    opened, in_node = 0, True
    tokens = TOKEN.findall(record[1:])
    for token, after in zip(tokens, [*tokens[1:], b""]):
        if token == b")":
            if in_node or not opened:
                break
            opened -= 1
        if token == b";" or (token.isalpha() and opened and not in_node and after[:1] == b"["):
            nodes.append(b"")
            opened, in_node = 0, True
        if token == b"(":
            opened, in_node = opened + 1, False
        nodes[-1] += token
    return nodes


@pytest.mark.nojit
@given(st.lists(st.sampled_from([b"(", b")", b";", b"B[aa]", b"C[\\];)]", b"[", b"]", b"\\", b" "]), max_size=12))
def test_nodes_are_those_of_a_naive_reader(tokens: list[bytes]) -> None:
    record = b"(;" + b"".join(tokens)
    assert split_nodes(record) == naive_nodes(record)


@pytest.mark.parametrize(
    ("record", "nodes"),
    [
        (b"", []),
        (b"no game", []),
        (b"(SZ[9]HA[0](()B[aa]))", [b"SZ[9]HA[0](()", b"B[aa]"]),
        (b"junk (;SZ[9];B[aa](;W[bb])(;W[cc]))", [b";SZ[9]", b";B[aa](", b";W[bb]"]),
        ("(;CA[Shift_JIS]C[\u8868];B[aa])".encode("shift_jis"), [b";CA[Shift_JIS]C[\x95\\]", b";B[aa]"]),
    ],
)
def test_nodes(record: bytes, nodes: list[bytes]) -> None:
    assert split_nodes(record) == nodes

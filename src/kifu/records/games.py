"""Flat arrays of many records and games: the data types that containers, parsers and kernels exchange.

A container yields `RecordBlock`s: the bytes of several members in one buffer. A parser turns a block into a
`ParsedBlock`: `GameArrays` and `TextFields`. No Python object is created per game. Files and members that are not read
are counted by source, so that missing games are noticed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntFlag
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import PLAYED, MoveArrays
from kifu.errors import DropReason, SourceError, printable
from kifu.io import utf8_name

Bytes = npt.NDArray[np.uint8]

NO_HANDICAP = -32768
"""`GameArrays.handicap` of a game without HA, or with one that is not a number (`ParseWarning.HANDICAP_TEXT`)."""

TO_PLAY_UNSET = 0

MAX_MOVES = 65_535
"""A record with more moves is `DropReason.TOO_LARGE` (`GameArrays.setup_ply` is uint16)."""

MEMBER_LIMIT = 256 << 20
"""Bytes. Larger members are not read: they become empty rows with `DropReason.TOO_LARGE`."""

FIELD_LIMIT = 64 << 10
"""Bytes. A larger text field of SGF counts as missing."""

FIELDS = (
    "black", "white", "black_rank", "white_rank", "result", "komi", "date", "time", "overtime", "rules", "event",
    "round", "place", "title", "charset", "periods", "period_seconds", "server", "game_type", "programs",
)  # fmt: skip
"""Text fields of a game: PB, PW, BR, WR, RE, KM, DT, TM, OT, RU, EV, RO, PC, GN and CA of SGF, in this order, TC and
TT, in which Fox writes its overtime, AP if it is Fox's, gtype of KataGo's comment on the root, and the players that the
server marks as programs, as in the catalogue's column `program`.
"""


class MemberPiece(NamedTuple):
    """A part of an SGF member that is too large for one block: where the scanner continues, see `kifu.records.sgf`."""

    first_game: int  # number of games of the member in earlier pieces
    setup_budget: int  # number of setup stones that the rest of the member may have
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Consecutive members of one container, complete and in its order.

    `left_out` counts the entries of the container, among those since the block before, that are not read, by kind, see
    `kifu.records.detect.left_out_kind`. A block that counts some may have no members.
    """

    source: str  # the container's path, as given by the user
    data: Bytes  # [N], read-only by convention; may hold other bytes between the members
    start: npt.NDArray[np.int64]  # [K]; member k is data[start[k] : stop[k]]
    stop: npt.NDArray[np.int64]  # [K]
    member: npt.NDArray[np.int32]  # [K], ordinal in the container, from 0, directories included
    names: Bytes  # raw, side by side; that of member k is names[name_offset[k] : name_offset[k + 1]]
    name_offset: npt.NDArray[np.int64]  # [K + 1]
    drop: npt.NDArray[np.uint8]  # [K], the `DropReason` of a member that could not be read, which is then empty
    first_line: int = 0  # lines of the first member in earlier blocks, if it is a file of lines
    kind: int | None = None  # of all members, a constant of `kifu.records.detect`; None if not detected yet
    piece: MemberPiece | None = None  # which one, if the only member is a piece of an SGF member
    left_out: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.start)

    def name(self, k: int) -> str:
        """Return the name of member k for display: UTF-8, with other bytes escaped."""
        return utf8_name(self.names[self.name_offset[k] : self.name_offset[k + 1]].tobytes())

    def part(self, first: int, last: int) -> RecordBlock:
        """Return a block of members `first` to `last` - 1, without `left_out`. Nothing but offsets is copied."""
        offsets = self.name_offset[first : last + 1]
        return replace(
            self, start=self.start[first:last], stop=self.stop[first:last], member=self.member[first:last],
            names=self.names[offsets[0] : offsets[-1]], name_offset=offsets - offsets[0], drop=self.drop[first:last],
            first_line=self.first_line if first == 0 else 0, left_out=Counter(),
        )  # fmt: skip


def make_block(
    source: str, data: Bytes, stop: list[int], members: list[int], names: list[bytes], drops: list[int]
) -> RecordBlock:
    """Return a block of members that lie one after the other in `data`; stop: [K], the end of each member there."""
    ends: npt.NDArray[np.int64] = np.array([0, *stop], np.int64)
    return RecordBlock(
        source=source, data=data, start=ends[:-1].copy(), stop=ends[1:].copy(), member=np.array(members, np.int32),
        names=np.frombuffer(bytearray(b"".join(names)), np.uint8),
        name_offset=np.cumsum([0, *map(len, names)], dtype=np.int64), drop=np.array(drops, np.uint8),
    )  # fmt: skip


def groups(counts: npt.NDArray[np.int64], limits: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose sums are within the limits, or of one row. counts: [K, C]; limits: [C]."""
    ends = np.concatenate([np.zeros((1, counts.shape[1]), np.int64), np.cumsum(counts, axis=0)])
    first = 0
    while first < len(counts):
        fits = (int(np.searchsorted(ends[:, c], ends[first, c] + limits[c], "right")) - 1 for c in range(len(limits)))
        last = max(first + 1, min(fits))
        yield first, last
        first = last


class ParseWarning(IntFlag):
    """Something the parser tolerated or skipped. docs/leniency.md describes each."""

    TRUNCATED = 1 << 0  # the record ends before its last )
    JUNK_BEFORE = 1 << 1  # bytes other than white space before (;
    VARIATIONS = 1 << 2  # variations were skipped
    SIZE_MISSING = 1 << 3  # no SZ: 19 x 19
    SIZE_PAIR = 1 << 4  # SZ[19:19]: a square board written as a pair, which FF[4] forbids
    HANDICAP_TEXT = 1 << 5  # HA is not a whole number: treated as missing
    TWO_MOVES_IN_NODE = 1 << 6  # B and W in one node: read as two nodes
    MANY_MOVE_VALUES = 1 << 7  # B[dd][pp]: the first value is used
    SETUP_AFTER_ROOT = 1 << 8  # AB, AW or AE after the root
    SETUP_TWICE = 1 << 9  # one point in two of the root's AB, AW and AE
    PASS_AS_TT = 1 << 10  # tt for a pass on a board up to 19 x 19
    LOWER_CASE_NAME = 1 << 11  # lower-case letters in a property name (as FF[1] to FF[3] write them)
    BAD_SETUP_POINT = 1 << 12  # a setup value that is not a point or rectangle of the board: skipped
    HANDICAP_ONE = 1 << 13  # HA[1]
    BAD_CHARSET = 1 << 14  # CA names an unknown character set
    MOVE_IN_ROOT = 1 << 15  # B or W in the first node
    LATER_GAME = 1 << 16  # not the first game of its member
    OPENING_MISSING = 1 << 17  # the record begins with the ; of its root: the ( is missing
    PASS_AS_WORD = 1 << 18  # "pass", "--" or "``" as a move value, as early servers wrote it
    CUT = 1 << 19  # the moves from the first illegal one on were removed by cleaning rules, not by the parser
    SEMICOLON_MISSING = 1 << 20  # a ( is followed by a property: the ; between them is missing
    EMPTY_VARIATION = 1 << 21  # () on the main line: ignored
    TEXT_SKIPPED = 1 << 22  # text within the game that is neither a node nor a property
    OTHER_CHARSET = 1 << 23  # values end by another character set than CA names, or than the ASCII of a record without
    INFO_AFTER_ROOT = 1 << 24  # players, result and the like in a later node: used if the root lacks them
    CLOSED_EARLY = 1 << 25  # nodes follow the ) that should be the last of the game: used
    UNESCAPED_BRACKET = 1 << 26  # a value has a [ without a \]: it may end at a later ] than its first
    MOVE_SKIPPED = 1 << 27  # a node has a further move of the same colour, or after text: the first is used


ARRAYS: Mapping[str, type] = PLAYED | {
    "to_play": np.uint8, "handicap": np.int16, "warnings": np.uint32, "drop": np.uint8, "member": np.int32,
    "block_index": np.int32, "start": np.int64, "stop": np.int64,
}  # fmt: skip
"""The arrays of `GameArrays` and their types."""


@dataclass(frozen=True, slots=True)
class GameArrays(MoveArrays):
    """G games read from one block (or several, see `concat`), in order. Every member gives at least one row.

    Attributes:
        width, height: [G] uint8. 0 if unreadable.
        moves: [M] uint16. point | WHITE_BIT; a pass is width * height; NO_POINT for a value that is not a point of the
            board. Such a game keeps drop == 0: the replay decides what a bad move means.
        move_offset: [G + 1] int64. The moves of game g are moves[move_offset[g]:move_offset[g + 1]].
        setup: [S] uint16. point | WHITE_BIT or ERASE_BIT, one entry per stone (rectangles are expanded), in the
            record's order. A point repeated within AB, AW or AE of one node has one entry.
        setup_ply: [S] uint16. Number of moves before the stone is placed; not decreasing within a game.
        setup_offset: [G + 1] int64. The setup of game g is setup[setup_offset[g]:setup_offset[g + 1]].
        root_setup: [G] uint16. Number of the game's setup entries in its root node.
        to_play: [G] uint8. PL of the root as BLACK or WHITE, else TO_PLAY_UNSET.
        handicap: [G] int16. HA, or NO_HANDICAP.
        warnings: [G] uint32 of `ParseWarning`.
        drop: [G] uint8 of `DropReason`, the parser's reasons only. A dropped game has neither moves nor setup.
        member: [G] int32. Ordinal of the member in its container.
        block_index: [G] int32. Row of the member in its block.
        start, stop: [G] int64. The game's text in the block's data, from its "(" to after its ")"; empty if none.
    """

    to_play: npt.NDArray[np.uint8]
    handicap: npt.NDArray[np.int16]
    warnings: npt.NDArray[np.uint32]
    drop: npt.NDArray[np.uint8]
    member: npt.NDArray[np.int32]
    block_index: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.width)


@dataclass(frozen=True, slots=True)
class TextFields:
    """The text fields of G games as found: escapes, spelling and charset are those of the record's format.

    With F = len(FIELDS), field f of game g is data[start[f, g]:stop[f, g]], empty if missing.
    """

    data: Bytes  # [N], read-only by convention
    start: npt.NDArray[np.int64]  # [F, G]
    stop: npt.NDArray[np.int64]  # [F, G]


class Properties(NamedTuple):
    """The properties with a value on the main lines of G games of SGF, but for nodes of a move only.

    Attributes:
        rows: [P, PROPERTY_COLUMNS] int32: key, node, number of moves before it, and first value, see
            `kifu.records._sgf.KEY`.
        offset: [G + 1] int64. Those of game g are rows[offset[g] : offset[g + 1]].
        root: [G] int64. The end of the rows of each game's root.
        start, stop: [G] int64. The games' texts.
        charset: [G] int64. The charset by which their values end.
    """

    rows: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    root: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    charset: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """G games of one block, all in one record format.

    Evaluations are White's share of wins and losses, White's lead in points, and the number of visits of a search
    before each move.
    """

    format: str  # one of `kifu.records.detect.RECORD_FORMATS`
    block: RecordBlock
    games: GameArrays
    text_fields: TextFields  # not decoded yet, see `kifu.records.decode`
    index: npt.NDArray[np.int32]  # [G], ordinal in its member, from 0; in formats of lines, its line number
    territory: npt.NDArray[np.uint16]  # [T], point | WHITE_BIT, ascending by point, if the record lists it
    territory_offset: npt.NDArray[np.int64]  # [G + 1]
    codecs: Sequence[str] | None = None  # by which the reader decoded; None if text is still as found
    seconds: npt.NDArray[np.float32] | None = None  # [M], used for each move; NaN if unknown
    evaluations: npt.NDArray[np.float32] | None = None  # [M, 4]; NaN if unknown
    properties: Properties | None = None  # of SGF


PROPERTIES = {
    "PB": "black", "BR": "black_rank", "PW": "white", "WR": "white_rank", "RE": "result", "KM": "komi", "DT": "date",
    "TM": "time", "OT": "overtime", "RU": "rules", "EV": "event", "RO": "round", "PC": "place", "GN": "title",
}  # fmt: skip
"""The root's text properties in the order in which they are written, and their `FIELDS`."""


def name_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return text fields that are in SGF's spelling as root properties."""
    return {name: texts[field] or None for name, field in PROPERTIES.items()}


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of game records.

    `to_sgf_properties` converts the decoded text fields of a game, by name, to root properties in SGF's spelling, which
    most readers use.
    """

    kinds: tuple[int, ...]  # its constants in `kifu.records.detect`
    read: Callable[[RecordBlock], ParsedBlock]
    to_sgf_properties: Callable[[Mapping[str, str]], Mapping[str, str | None]] = name_properties


def concat(parts: Sequence[GameArrays]) -> GameArrays:
    """Return the rows of all parts, in order.

    `start`, `stop` and `block_index` still refer to the block of each part.
    """
    columns = {
        column.name: np.concatenate([getattr(_NO_GAMES, column.name)] + [getattr(part, column.name) for part in parts])
        for column in fields(GameArrays)
        if column.name not in ("move_offset", "setup_offset")
    }
    return GameArrays(
        **columns,
        move_offset=_concat_offsets([part.move_offset for part in parts]),
        setup_offset=_concat_offsets([part.setup_offset for part in parts]),
    )


def _concat_offsets(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.cumsum(np.concatenate([np.zeros(1, np.int64)] + [np.diff(part) for part in parts]))


_NO_GAMES = GameArrays(**{name: np.zeros(int(name.endswith("offset")), dtype) for name, dtype in ARRAYS.items()})

_log = logging.getLogger(__name__)

_SHOWN_KINDS = 5
_MAX_KINDS = 100
"""Distinct kinds that are counted for a container: a hostile archive may have a million."""

_OTHER_KINDS = "other kinds"
UNREADABLE = "unreadable: "
"""Begins the kind of a container that is damaged or cannot be opened; the reason follows."""

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

    def __init__(self, strict: bool = False) -> None:
        """Count nothing yet. strict: `add` raises SourceError for an unreadable container."""
        self._strict = strict
        self._unreadable: dict[str, str] = {}  # the kind, by container
        self._counts: dict[str, Counter[str]] = {}
        self._sources: dict[str, str] = {}
        self._with_games = set[str]()

    def expect(self, container: str, source: str, left_out: Mapping[str, int]) -> None:
        """Announce a container, of the source that it is, or lies in, with what is left out before it is read.

        `container` is a path as in `RecordBlock.source`.
        """
        self._sources[container] = source
        self.add(container, 0, left_out)

    def add(self, container: str, games: int, left_out: Mapping[str, int]) -> None:
        """Count what is left out of a container, and note whether it has games; beyond 100 kinds as "other kinds"."""
        if games:
            self._with_games.add(container)
        counts = self._counts.setdefault(container, Counter())
        for kind, count in left_out.items():
            if kind.startswith(UNREADABLE):
                self._unreadable[container] = kind  # several shards of the container have the same
                if self._strict:
                    self.require_games(0)
            else:
                counts[kind if kind in counts or len(counts) < _MAX_KINDS else _OTHER_KINDS] += count

    def count(self, blocks: Iterable[RecordBlock]) -> Iterator[RecordBlock]:
        """Yield blocks, and count what is left out of them. Raises SourceError as `require_games`."""
        read = 0
        for block in blocks:
            self.add(block.source, len(block), block.left_out)
            read += len(block)
            yield block
        self.require_games(read)

    def require_games(self, read: int) -> None:
        """Raise SourceError if no game was read, since a container is unreadable."""
        for container, kind in () if read else self._unreadable.items():
            raise SourceError(f"{container}: {kind.removeprefix(UNREADABLE)}")

    def of_container(self, container: str) -> dict[str, int]:
        """Return the counts of a container by kind, in alphabetical order."""
        unreadable = {self._unreadable[container]: 1} if container in self._unreadable else {}
        return dict(sorted(self._counts.get(container, {}).items())) | unreadable

    def total(self) -> Counter[str]:
        """Return the counts of all containers by kind; unreadable containers are kinds of their own."""
        return sum(self._counts.values(), Counter({f"{path}: {kind}": 1 for path, kind in self._unreadable.items()}))

    def log_listed(self) -> None:
        """Log what is left out of folders, before anything is read."""
        self._with_games.update(self._counts)
        self.log()

    def log(self) -> None:
        """Log one line for each source of which something is left out, and for each container without any game."""
        for container, kind in self._unreadable.items():
            _log.warning("%s: %s", printable(container), printable(kind))
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


Points = npt.NDArray[np.uint16]

_NO_POINTS: Points = np.empty(0, np.uint16)


@dataclass(frozen=True, slots=True)
class SingleGame:
    """A game of a record block. A dropped one has no board, moves and setup."""

    member: int
    start: int  # where its text begins in the block's data
    stop: int
    index: int = 0  # ordinal in its member; in formats of lines, its line number
    width: int = 0
    height: int = 0
    moves: Points = field(default_factory=lambda: _NO_POINTS)  # [M], see `GameArrays`
    setup: Points = field(default_factory=lambda: _NO_POINTS)  # [S], the stones of the root
    to_play: int = TO_PLAY_UNSET
    handicap: int = NO_HANDICAP
    fields: Mapping[str, str] = field(default_factory=dict)  # texts by name, in SGF's spelling
    codec: str = "utf_8"  # Python's name of the codec that decoded them
    seconds: npt.NDArray[np.float32] | None = None  # [M], see `ParsedBlock`
    warnings: int = 0  # bits of `ParseWarning`
    drop: DropReason = DropReason.KEPT


_OF_SINGLE = ("width", "height", "to_play", "handicap", "warnings", "drop", "start", "stop")


def assemble(record_format: str, block: RecordBlock, games: Sequence[SingleGame]) -> ParsedBlock:
    """Return games, at least one for each member, in the block's order, as a parsed block of a record format."""
    members = np.array([game.member for game in games], np.int32)
    setup = [game.setup for game in games]
    arrays = GameArrays(
        moves=np.concatenate([_NO_POINTS, *(game.moves for game in games)]),
        move_offset=_offsets([len(game.moves) for game in games]),
        setup=np.concatenate([_NO_POINTS, *setup]),
        setup_ply=np.zeros(sum(map(len, setup)), np.uint16),
        setup_offset=_offsets([len(stones) for stones in setup]),
        root_setup=np.array([len(stones) for stones in setup], np.uint16),
        member=block.member[members],
        block_index=members,
        **{name: np.array([getattr(game, name) for game in games], ARRAYS[name]) for name in _OF_SINGLE},
    )
    return ParsedBlock(
        format=record_format, block=block, games=arrays, text_fields=text_fields([game.fields for game in games]),
        index=np.array([game.index for game in games], np.int32), territory=_NO_POINTS,
        territory_offset=np.zeros(len(games) + 1, np.int64), codecs=[game.codec for game in games],
        seconds=_seconds(games),
    )  # fmt: skip


_GAMES_ALWAYS, _BYTES_PER_GAME = 64, 1024
"""A member may have this many games plus one for each kibibyte; the rest is one more row, `TOO_LARGE`."""

_NOT_JUNK = bytes(range(33)) + b"\xef\xbb\xbf"


def read_members(
    record_format: str,
    block: RecordBlock,
    find_games: Callable[[bytes], Iterable[Any]],
    read_game: Callable[[bytes, Any, ParseWarning], SingleGame],
) -> ParsedBlock:
    """Read every game of a block in a format whose files may be joined.

    The functions yield the spans of a member's games, each with its `start`, and return the game of a span, whose
    `start` and `stop` are places in the member.
    """
    games = []
    for k in range(len(block)):
        start, stop, drop = int(block.start[k]), int(block.stop[k]), DropReason(block.drop[k])
        text = block.data[start:stop].tobytes() if drop == DropReason.KEPT else b""
        most = _GAMES_ALWAYS + len(text) // _BYTES_PER_GAME
        spans = list(islice(find_games(text), most + 1)) if text else []
        if not spans:
            games.append(SingleGame(k, start, stop, drop=drop or DropReason.NO_RECORD))
            continue
        is_junk = text[: spans[0].start].strip(_NOT_JUNK)
        warnings = [ParseWarning.JUNK_BEFORE if is_junk else ParseWarning(0)] + [ParseWarning.LATER_GAME] * most
        found = [read_game(text, span, warning) for span, warning in zip(spans[:most], warnings)]
        if len(spans) > most:
            found.append(SingleGame(k, spans[most].start, len(text), drop=DropReason.TOO_LARGE))
        games += [
            replace(game, member=k, index=index, start=start + game.start, stop=start + game.stop)
            for index, game in enumerate(found)
        ]
    return assemble(record_format, block, games)


def _offsets(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def text_fields(games: Sequence[Mapping[str, str]]) -> TextFields:
    """Return the text fields of games, given their texts by name."""
    texts = [game.get(name, "").encode("utf-8", "replace") for name in FIELDS for game in games]
    ends = _offsets([len(text) for text in texts])
    data = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    return TextFields(data, ends[:-1].reshape(len(FIELDS), -1).copy(), ends[1:].reshape(len(FIELDS), -1).copy())


def _seconds(games: Sequence[SingleGame]) -> npt.NDArray[np.float32] | None:
    if all(game.seconds is None for game in games):
        return None
    unknown = (np.full(len(game.moves), np.nan, np.float32) for game in games)
    return np.concatenate([fill if game.seconds is None else game.seconds for game, fill in zip(games, unknown)])

"""One game, friendly: `read` from any source, `read_sgf` and `read_games` from bytes.

For many games at once use `kifu.records.sgf.scan`, which gives flat arrays; a `Game` is one row of them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, GameError, IllegalMove, RecordError
from kifu.go.board import Board
from kifu.point import BLACK, NO_POINT, POINT_MASK, SGF_LETTERS, WHITE_BIT, to_sgf
from kifu.records import olf, tygem
from kifu.records.containers import containers, read_blocks
from kifu.records.games import FIELDS, NO_HANDICAP, ParsedBlock, ParseWarning
from kifu.records.meta import Rank, Result, parse_komi
from kifu.records.parse import parse_block
from kifu.records.sgf import (
    as_block,
    final_setup,
    format_root,
    make_record,
    plain_properties,
    read_block,
    root_codec,
    root_properties,
)
from kifu.records.text import detect_codec, unescape
from kifu.records.tygem import load_index

_LETTERS = np.frombuffer(SGF_LETTERS.encode(), np.uint8)


@dataclass(frozen=True, eq=False, repr=False)
class Game:
    """One game record: the board, setup, the main line, and what the root node says in words.

    Two games are equal if they have the same board, setup and moves, and say the same in their roots; how and where
    they were written (charset, order and spelling of properties, source, name) makes no difference.
    """

    width: int
    height: int
    moves: npt.NDArray[np.uint16]
    """[M] uint16, read-only: point | WHITE_BIT; a pass is width * height; NO_POINT is no point of the board."""
    setup: npt.NDArray[np.uint16]
    """[S] uint16, read-only: point | WHITE_BIT or ERASE_BIT, in the record's order."""
    setup_ply: npt.NDArray[np.uint16]
    """[S] uint16, read-only: how many moves come before each setup stone."""
    root_setup: int
    """How many of the setup stones stand in the root node."""
    to_play: int
    """BLACK or WHITE as the root's PL says, else TO_PLAY_UNSET."""
    handicap: int | None
    """HA; None if missing or no number."""
    record: bytes
    """The SGF text that the game was read from, from "(" to ")"; properties are read from it when asked for.

    For a game of another format a root that says the same in SGF; b"" if it is set aside."""
    warnings: ParseWarning
    """What the reader forgave or passed over."""
    drop: DropReason
    """Why the reader sets the game aside; KEPT if it does not. A game set aside has neither moves nor setup."""
    source: str
    """The path of the container that it came from; "" if from memory."""
    name: str
    """The member's name in the container."""

    def __len__(self) -> int:
        """The number of plies: moves and passes."""
        return len(self.moves)

    @property
    def size(self) -> int:
        """The side of a square board. Raises GameError for a rectangular one, which has width and height only."""
        if self.width != self.height:
            raise GameError(f"a board of {self.width} x {self.height} has no one size; ask for width and height")
        return self.width

    @functools.cached_property
    def properties(self) -> Mapping[str, tuple[bytes, ...]]:
        """The root's properties: name -> values, see `kifu.records.sgf.root_properties`."""
        return root_properties(self.record)

    @functools.cached_property
    def codec(self) -> str:
        """Python's name of the charset that the root's text is in: by CA if it can be believed, else detected."""
        return root_codec(self.properties)

    def raw(self, name: str) -> bytes:
        """The first value of a root property as found, undecoded and with its escapes; b"" if it is not there."""
        return self.properties.get(name, (b"",))[0]

    def text(self, name: str) -> str:
        """The first value of a root property, decoded and unescaped; "" if it is not there.

        Bytes that are not of the record's charset become U+FFFD.
        """
        return unescape(self.raw(name).decode(self.codec, "replace"))

    @property
    def players(self) -> tuple[str, str]:
        """The names of Black (PB) and White (PW); "" if not told."""
        return self.text("PB"), self.text("PW")

    @property
    def ranks(self) -> tuple[Rank | None, Rank | None]:
        """The ranks of Black (BR) and White (WR)."""
        return Rank.parse(self.text("BR")), Rank.parse(self.text("WR"))

    @property
    def result(self) -> Result:
        """RE."""
        return Result.parse(self.text("RE"))

    @property
    def komi(self) -> float | None:
        """KM in points, see `kifu.records.meta.parse_komi`; `text("KM")` is what the record says."""
        return parse_komi(self.text("KM"))

    @property
    def date(self) -> str:
        """DT as written: mostly year-month-day, from some servers with the time."""
        return self.text("DT")

    @property
    def event(self) -> str:
        """EV."""
        return self.text("EV")

    @property
    def rules(self) -> str:
        """RU as written."""
        return self.text("RU")

    @functools.cached_property
    def errors(self) -> tuple[GameError, ...]:
        """What is wrong with the game: why it is set aside; moves that are no point; the first move that is illegal.

        Moves are replayed under `kifu.go.rules.RECORD_RULES`, which forbids the least.
        """
        if self.drop:
            return (GameError(self.drop.reason),)
        off = np.flatnonzero(self.moves & POINT_MASK == NO_POINT).tolist()
        errors = [IllegalMove(ply, NO_POINT, DropReason.OFF_BOARD) for ply in off]
        try:
            self.board()
        except IllegalMove as illegal:
            if illegal.ply not in off:
                errors.append(illegal)
        return tuple(sorted(errors, key=lambda error: error.ply))

    def board(self, ply: int | None = None) -> Board:
        """The position before move `ply` (from 0 to the number of moves; None: the final one).

        Raises IllegalMove if the moves up to there cannot all be played, GameError for a game that is set aside.
        """
        if self.drop:
            raise GameError(f"a game that was set aside has no position: {self.drop.reason}")
        plies = len(self) if ply is None else ply
        return Board.after(self.width, self.height, self.moves, self.setup, self.setup_ply, plies)

    def _repr_svg_(self) -> str | None:
        """The final position as a picture, for notebooks; None where there is none."""
        from kifu.viz.boards import draw_board, to_svg  # a room below this one, asked for by notebooks only

        if self.errors:
            return None
        last = int(self.moves[-1] & POINT_MASK) if len(self) else None
        return to_svg(draw_board(self.board().stones, title=str(self), last=last))

    @functools.cached_property
    def _content(self) -> tuple[object, ...]:
        setup = []
        for in_root, part in ((True, slice(0, self.root_setup)), (False, slice(self.root_setup, None))):
            stones, plies = self.setup[part], self.setup_ply[part]
            setup += [(in_root, ply, final_setup(stones[plies == ply])) for ply in np.unique(plies).tolist()]
        words = plain_properties(self.properties, self.codec)
        return self.width, self.height, self.moves.tobytes(), setup, self.to_play, self.drop, words

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, Game) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.width, self.height, self.moves.tobytes()))

    def __str__(self) -> str:
        """One line: who, how it ended, and on what board."""
        sides = []
        for name, rank in zip(self.players, self.ranks):
            sides.append((name or "?") + (f" [{rank}]" if rank else ""))
        result, plies = self.result, len(self)
        facts = [" - ".join(sides)]
        facts += [str(result)] if result != Result() else []
        facts += [f"{plies} move" if plies == 1 else f"{plies} moves", f"{self.width} x {self.height}"]
        if self.handicap:
            facts.append(f"handicap {self.handicap}")
        if self.komi is not None:
            facts.append(f"komi {self.komi:g}")
        facts += [self.date] if self.date else []
        facts += [f"set aside: {self.drop.reason}"] if self.drop else []
        return " ".join(", ".join(facts).split())

    def __repr__(self) -> str:
        return f"<Game: {self}>"


def game_at(reading: ParsedBlock, g: int) -> Game:
    """Game g of a reading. Copies its parts of the arrays."""
    block, games = reading.block, reading.games
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]].copy()
    stones = slice(games.setup_offset[g], games.setup_offset[g + 1])
    setup, setup_ply = games.setup[stones].copy(), games.setup_ply[stones].copy()
    for array in (moves, setup, setup_ply):
        array.setflags(write=False)
    handicap = int(games.handicap[g])
    return Game(
        width=int(games.width[g]),
        height=int(games.height[g]),
        moves=moves,
        setup=setup,
        setup_ply=setup_ply,
        root_setup=int(games.root_setup[g]),
        to_play=int(games.to_play[g]),
        handicap=None if handicap == NO_HANDICAP else handicap,
        record=_record(reading, g),
        warnings=ParseWarning(int(games.warnings[g])),
        drop=DropReason(int(games.drop[g])),
        source=block.source,
        name=block.name(int(games.block_index[g])),
    )


def _record(reading: ParsedBlock, g: int) -> bytes:
    """A game's text; or if it is not SGF, the root that says in SGF what the game does in words."""
    games, words = reading.games, reading.text_fields
    if reading.format == "sgf":
        return reading.block.data[games.start[g] : games.stop[g]].tobytes()
    if games.drop[g]:
        return b""
    spans = zip(words.start[:, g].tolist(), words.stop[:, g].tolist())
    values = [words.data[start:stop].tobytes() for start, stop in spans]
    codec = detect_codec(b"\n".join(values))
    texts = {name: value.decode(codec, "replace") for name, value in zip(FIELDS, values)}
    properties = olf.to_sgf_properties(texts) if reading.format == "olf" else tygem.to_sgf_properties(texts)
    handicap = int(games.handicap[g])
    return make_record(
        int(games.width[g]), int(games.height[g]), None if handicap == NO_HANDICAP else handicap, properties
    )


def _games_of(reading: ParsedBlock) -> Iterator[Game]:
    return (game_at(reading, g) for g in range(len(reading.games)))


def read(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Iterator[Game]:
    """The games of archives, directories and single files, one after the other, read as they are asked for.

    Every member gives a game: also one that cannot be read, which has a `drop`. So does every line of OLF and TYGEM;
    what the latter lack in words comes from the index files among the sources. Raises SourceError as
    `kifu.records.containers.blocks` and `kifu.records.tygem.load_index` do.
    """
    found = containers(source)
    index = load_index(found)
    for block in read_blocks(found):
        for reading in parse_block(block, index):
            yield from _games_of(reading)


def read_games(data: bytes) -> list[Game]:
    """All games in the text of a record, or of a collection of them. Raises RecordError if there is none."""
    games = list(_games_of(read_block(as_block([data]))))
    if games[0].drop == DropReason.NO_RECORD:
        raise RecordError(f'no game record in {len(data):,} bytes: it would begin with "(;"')
    return games


def read_sgf(data: bytes, *, strict: bool = False) -> Game:
    """The first game in the text of a record.

    Raises RecordError if there is none. A game with faults comes with its `errors`; strict raises the first of them.
    """
    game = read_games(data)[0]
    if strict and game.errors:
        raise game.errors[0]
    return game


def write_sgf(game: Game) -> bytes:
    """The game as FF[4] in UTF-8: the root, then one node a line. Reading it gives an equal game.

    All properties of the root are kept; those of later nodes, but for moves and setup, are not in a `Game` and so are
    lost, as are variations. Setup that the record spreads over nodes without a move between them becomes one node. A
    move that is no point of the board becomes "zz", which is none of any board. Raises GameError for a game that was
    set aside by the reader: there is no board to write it for.
    """
    if game.drop:
        raise GameError(f"a game that was set aside cannot be written: {game.drop.reason}")
    return write_record(game, plain_properties(game.properties, game.codec))


def write_record(game: Game, properties: Mapping[str, Sequence[str]]) -> bytes:
    """What `write_sgf` writes, with these properties of the root in place of the game's own.

    properties: name -> values in normal form, as `plain_properties` and `root_texts` give them.
    """
    parts = [format_root(game.width, game.height, properties)]
    if game.to_play:
        parts.append(b"PL[B]" if game.to_play == BLACK else b"PL[W]")
    parts.append(_stones(game.setup[: game.root_setup], game) + b"\n")
    done = 0
    later, later_ply = game.setup[game.root_setup :], game.setup_ply[game.root_setup :]
    for ply in np.unique(later_ply).tolist():
        parts.append(_move_nodes(game.moves[done:ply], game))
        parts.append(b";" + _stones(later[later_ply == ply], game) + b"\n")
        done = ply
    parts.append(_move_nodes(game.moves[done:], game) + b")\n")
    return b"".join(parts)


def _stones(setup: npt.NDArray[np.uint16], game: Game) -> bytes:
    """AB, AW and AE of one node."""
    final = final_setup(setup)
    text = ""
    for kind, name in ((0, "AB"), (2, "AW"), (1, "AE")):
        points = [to_sgf(point, game.width, game.height) for point, k in final.items() if k == kind]
        text += name + "".join(f"[{point}]" for point in points) if points else ""
    return text.encode()


def _move_nodes(moves: npt.NDArray[np.uint16], game: Game) -> bytes:
    r""";B[xy]\n for each move."""
    points = (moves & POINT_MASK).astype(np.int64)
    y, x = np.divmod(points, game.width)
    off = points == NO_POINT
    x[off] = y[off] = SGF_LETTERS.index("z")
    text = np.tile(np.frombuffer(b";B[xy]\n", np.uint8), (len(moves), 1))
    text[moves & WHITE_BIT != 0, 1] = ord("W")
    text[:, 3] = _LETTERS[x]
    text[:, 4] = _LETTERS[y]
    kept = np.ones(text.shape, bool)
    kept[points == game.width * game.height, 3:5] = False
    return text[kept].tobytes()

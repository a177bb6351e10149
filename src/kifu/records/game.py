"""A single game as a convenient object: `read` from any source, `read_sgf` and `read_games` from bytes, `write_sgf`.

For many games at once use `kifu.records.sgf.scan`, which gives flat arrays; a `Game` is one row of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kifu.arrays import MoveArrays
from kifu.errors import DropReason, GameError, IllegalMove, RecordError, printable
from kifu.go.board import Board
from kifu.point import BLACK, NO_POINT, POINT_MASK, SGF_LETTERS, WHITE, WHITE_BIT, check_size, to_sgf
from kifu.records.containers import memory_blocks, read_blocks
from kifu.records.decode import record_codec
from kifu.records.detect import RECORD_FORMATS
from kifu.records.games import FIELDS, NO_HANDICAP, TO_PLAY_UNSET, GameArrays, LeftOut, ParsedBlock, ParseWarning
from kifu.records.meta import FOX_KOMI, Result, parse_komi
from kifu.records.parse import parse_block
from kifu.records.paths import AnyPath
from kifu.records.ranks import Rank
from kifu.records.sgf import (
    as_block,
    decode_value,
    final_setup,
    format_root,
    is_simple_text,
    make_record,
    plain_properties,
    read_block,
    root_properties,
)
from kifu.records.text import detect_codec, simple_text, unescape
from kifu.records.tygem import load_index
from kifu.viz.boards import draw_board, notebook_svg

_UINT16 = np.dtype(np.uint16)
_MAX_HANDICAP, _MAX_COUNT = 0x7FFF, 0xFFFF
_LETTERS = np.frombuffer(SGF_LETTERS.encode(), np.uint8)


@dataclass(frozen=True, eq=False, repr=False)
class Game:
    """A game record: board size, setup, the main line, and the properties of the root node.

    Two games are equal if they have the same board, setup, moves and root properties; charset, order and spelling of
    properties, source and name do not matter.

    Attributes:
        moves: [M] uint16, read-only. point | WHITE_BIT; a pass is width * height; NO_POINT is not a point of the board.
        setup: [S] uint16, read-only. point | WHITE_BIT or ERASE_BIT, in the record's order.
        setup_ply: [S] uint16, read-only. Number of moves before each setup stone.
        root_setup: Number of setup stones in the root node.
        to_play: BLACK or WHITE by the root's PL, else TO_PLAY_UNSET.
        handicap: HA; None if missing or not a number.
        record: The SGF text of the game, from "(" to ")"; properties are parsed from it on demand. For a game of
            another format an equivalent root in SGF; b"" if the game is dropped.
        drop: Why the parser drops the game; KEPT if it does not. A dropped game has neither moves nor setup.
    """

    width: int
    height: int
    moves: npt.NDArray[np.uint16]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    root_setup: int
    to_play: int
    handicap: int | None
    record: bytes
    warnings: ParseWarning
    drop: DropReason
    source: str
    name: str

    def __post_init__(self) -> None:
        """Raise GameError if the game is not dropped and its handicap or arrays are not as described.

        This takes 2 microseconds for each game that is read; `arrays` checks the size and that setup_ply ascends.
        """
        if self.drop:
            return
        for name in ("moves", "setup", "setup_ply"):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != _UINT16 or array.ndim != 1:
                raise GameError(f"{name} must be an array [n] of uint16, got {type(array).__name__} {array!r:.80}")
        if len(self.setup_ply) != len(self.setup):
            raise GameError(f"setup_ply must have {len(self.setup)} entries like setup, got {len(self.setup_ply)}")
        if len(self.moves) > _MAX_COUNT:
            raise GameError(f"a game must have at most {_MAX_COUNT:,} moves, got {len(self.moves):,}")
        if self.handicap is not None and abs(self.handicap) > _MAX_HANDICAP:
            raise GameError(f"handicap must be within -{_MAX_HANDICAP} to {_MAX_HANDICAP}, got {self.handicap}")
        if not 0 <= self.root_setup <= min(len(self.setup), _MAX_COUNT):
            raise GameError(f"root_setup must be within 0 to {len(self.setup)}, got {self.root_setup}")

    def arrays(self) -> MoveArrays:
        """Return the game as arrays of one game, for bulk functions.

        Raises:
            GameError: The board's size is not within 1 to 25, or the setup is not in the order of the moves.
        """
        check_size(self.width, self.height)
        move_offset, setup_offset = np.array([[0, len(self.moves)], [0, len(self.setup)]], np.int64)
        width, height = np.array([[self.width], [self.height]], np.uint8)
        root_setup = np.array([self.root_setup], np.uint16)
        return MoveArrays(width, height, self.moves, move_offset, self.setup, self.setup_ply, setup_offset, root_setup)

    def __len__(self) -> int:
        """Return the number of plies: moves and passes."""
        return len(self.moves)

    def plays(self) -> Iterator[tuple[int, int]]:
        """Iterate over the colour, BLACK or WHITE, and the point of each move; a pass is width * height.

        Examples:
            >>> game = read_sgf("(;GM[1]SZ[5];B[cc];W[bc];B[])")
            >>> board = Board(game.width, game.height)
            >>> for colour, point in game.plays():
            ...     board.play(point, colour)
        """
        return zip(np.where(self.moves & WHITE_BIT, WHITE, BLACK).tolist(), (self.moves & POINT_MASK).tolist())

    @property
    def size(self) -> int:
        """The side of a square board. Raises GameError for rectangular ones, which only have width and height."""
        if self.width != self.height:
            raise GameError(f"a board of {self.width} x {self.height} has no single size; use width and height")
        return self.width

    @functools.cached_property
    def properties(self) -> Mapping[str, tuple[bytes, ...]]:
        """The root's properties: name -> values, see `kifu.records.sgf.root_properties`."""
        return root_properties(self.record)

    @functools.cached_property
    def codec(self) -> str:
        """Python's codec for the record's text: by CA if it can be trusted, else detected."""
        return record_codec(self.record, self.properties)

    def raw(self, name: str) -> bytes:
        """Return the first value of a root property as found, undecoded and with its escapes; b"" if it is missing."""
        return self.properties.get(name, (b"",))[0]

    def text(self, name: str) -> str:
        """Return the first value of a root property, decoded and unescaped; "" if it is missing.

        Bytes outside the record's charset become U+FFFD. Line breaks and tabs of one-line texts become spaces.
        """
        value = decode_value(name, self.raw(name), self.codec)
        return simple_text(value) if is_simple_text(name) else unescape(value)

    @property
    def players(self) -> tuple[str, str]:
        """The names of Black (PB) and White (PW); "" if missing."""
        return self.text("PB"), self.text("PW")

    @property
    def ranks(self) -> tuple[Rank | None, Rank | None]:
        """The ranks of Black (BR) and White (WR)."""
        return Rank.parse(self.text("BR")), Rank.parse(self.text("WR"))

    @property
    def result(self) -> Result:
        """The result (RE)."""
        return Result.parse(self.text("RE"))

    @property
    def komi(self) -> float | None:
        """KM in points, see `kifu.records.meta.parse_komi`; `text("KM")` is the text in the record."""
        is_fox = any(value.startswith(b"foxwq") for value in self.properties.get("AP", ()))
        return parse_komi(FOX_KOMI.get(self.text("KM"), self.text("KM")) if is_fox else self.text("KM"))

    @property
    def date(self) -> str:
        """DT as written: mostly year-month-day, on some servers with the time."""
        return self.text("DT")

    @property
    def event(self) -> str:
        """The event (EV)."""
        return self.text("EV")

    @property
    def rules(self) -> str:
        """RU as written."""
        return self.text("RU")

    @functools.cached_property
    def errors(self) -> tuple[GameError, ...]:
        """The errors of the game: its drop reason, or moves that are not points and the first illegal move.

        Moves are replayed under `kifu.go.rules.RECORD_RULES`, the most permissive rules.
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
        """Return the position before a move.

        Args:
            ply: Number of moves to play, from 0 to the number of moves; None: all.

        Raises:
            IllegalMove: The moves cannot all be played.
            GameError: The game is dropped.
        """
        if self.drop:
            raise GameError(f"a dropped game has no position: {self.drop.reason}")
        plies = len(self) if ply is None else ply
        return Board.after(self.width, self.height, self.moves, self.setup, self.setup_ply, plies)

    def _repr_svg_(self) -> str | None:
        if self.errors:
            return None
        last = int(self.moves[-1] & POINT_MASK) if len(self) else None
        return notebook_svg(lambda: draw_board(self.board().stones, title=str(self), last=last))

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
        """Return one line with players, result and board size."""
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
        facts += [f"dropped: {self.drop.reason}"] if self.drop else []
        return printable(" ".join(", ".join(facts).split()))

    def __repr__(self) -> str:
        return f"<Game: {self}>"


def game_at(parsed: ParsedBlock, g: int) -> Game:
    """Return game g of a parsed block. Its parts of the arrays are copied."""
    block = parsed.block
    return game_from_arrays(
        parsed.games, g, _record_of(parsed, g), block.source, block.name(int(parsed.games.block_index[g]))
    )


def game_from_arrays(games: GameArrays, g: int, record: bytes, source: str, name: str) -> Game:
    """Return game g of arrays, whose parts are copied."""
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]].copy()
    stones = slice(games.setup_offset[g], games.setup_offset[g + 1])
    setup, setup_ply = games.setup[stones].copy(), games.setup_ply[stones].copy()
    for array in (moves, setup, setup_ply):
        array.setflags(write=False)
    handicap = int(games.handicap[g])
    return Game(
        width=int(games.width[g]), height=int(games.height[g]), moves=moves, setup=setup, setup_ply=setup_ply,
        root_setup=int(games.root_setup[g]), to_play=int(games.to_play[g]),
        handicap=None if handicap == NO_HANDICAP else handicap, record=record,
        warnings=ParseWarning(int(games.warnings[g])), drop=DropReason(int(games.drop[g])), source=source, name=name,
    )  # fmt: skip


def _record_of(parsed: ParsedBlock, g: int) -> bytes:
    """Return a game's text; for a game of another format, an equivalent root in SGF."""
    games, fields = parsed.games, parsed.text_fields
    if parsed.format == "sgf":
        return parsed.block.data[games.start[g] : games.stop[g]].tobytes()
    if games.drop[g]:
        return b""
    spans = zip(fields.start[:, g].tolist(), fields.stop[:, g].tolist())
    values = [fields.data[start:stop].tobytes() for start, stop in spans]
    codec = "utf-8" if parsed.codecs is not None else detect_codec(b"\n".join(values))
    texts = {name: value.decode(codec, "replace") for name, value in zip(FIELDS, values)}
    handicap = int(games.handicap[g])
    return make_record(
        int(games.width[g]),
        int(games.height[g]),
        None if handicap == NO_HANDICAP else handicap,
        RECORD_FORMATS[parsed.format].to_sgf_properties(texts),
    )


def _games_of(parsed: ParsedBlock) -> Iterator[Game]:
    return (game_at(parsed, g) for g in range(len(parsed.games)))


def games_in(containers: Sequence[AnyPath], left_out: LeftOut) -> Iterator[Game]:
    """Yield the games of containers, in order, read on demand, and count what is left out of them.

    Every member gives a game, also an unreadable one, which has a `drop`. So does every line of OLF and TYGEM. The
    metadata of TYGEM games comes from the index files among the containers.
    """
    index = load_index(containers)
    for block in left_out.count(read_blocks(containers)):
        for parsed in parse_block(block, index):
            yield from _games_of(parsed)


def read_games(data: bytes | str) -> list[Game]:
    """Return all games of a file in memory: a record, a collection or an archive, in any format that `kifu.read` knows.

    Games of TYGEM have no metadata, as that is in files of their own. The CA of a str does not matter.

    Raises:
        RecordError: There is no game.
        SourceError: An archive is damaged.
    """
    data = _encoded(data)
    return _require_games(data, list(iter_games(data, ".sgf")))


def _encoded(data: bytes | str) -> bytes:
    if isinstance(data, str):
        return data.encode("utf-8", "replace")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise RecordError(f"a record must be bytes or str, got {type(data).__name__} {data!r:.80}")
    return data


def iter_games(data: bytes, name: str) -> Iterator[Game]:
    """Yield the games of a file in memory, read on demand; its name matters where its content is no format's own."""
    for block in memory_blocks(data, name):
        for parsed in parse_block(block, None):
            yield from _games_of(parsed)


def _require_games(data: bytes, games: list[Game]) -> list[Game]:
    if not games or games[0].drop == DropReason.NO_RECORD:
        raise RecordError(f'no game record in {len(data):,} bytes: a record of SGF begins with "(;"')
    return games


def read_sgf(data: bytes | str, *, strict: bool = False) -> Game:
    """Return the first game in the text of a record.

    Args:
        data: The record; of a str its CA does not matter.
        strict: Raise the first of the game's errors instead of returning it with its `errors`.

    Raises:
        RecordError: There is no game.
    """
    data = _encoded(data)
    game = _require_games(data, list(_games_of(read_block(as_block([data])))))[0]
    if strict and game.errors:
        raise game.errors[0]
    return game


def make_game(
    width: int,
    height: int,
    moves: npt.NDArray[np.uint16],
    setup: npt.NDArray[np.uint16],
    setup_ply: npt.NDArray[np.uint16],
    *,
    to_play: int = TO_PLAY_UNSET,
    handicap: int | None = None,
    **properties: str | None,
) -> Game:
    """Return a game that was not read from a record. properties: root properties, such as KM; None for unknown ones."""
    return Game(
        width=width, height=height, moves=moves, setup=setup, setup_ply=setup_ply, to_play=to_play, handicap=handicap,
        root_setup=int((setup_ply == 0).sum()), record=make_record(width, height, handicap, properties),
        warnings=ParseWarning(0), drop=DropReason.KEPT, source="", name="",
    )  # fmt: skip


def count_handicap(
    points: int, moves: npt.NDArray[np.uint16], setup: npt.NDArray[np.uint16], setup_ply: npt.NDArray[np.uint16]
) -> tuple[int, npt.NDArray[np.intp]]:
    """Return the number of handicap stones of a game without HA, as KataGo counts them, and the plies of those moved.

    They are Black's stones before White's first one, in the setup and as moves, at least two. White may pass between
    them, but no move counts if White then moves twice in a row, or if a later node sets up stones among them.
    points: of the board.
    """
    white, point = moves & WHITE_BIT != 0, moves & POINT_MASK
    in_a_row = white & np.append(white[1:], False)
    stop = int(np.append(white & (point != points) | in_a_row, True).argmax())
    plies = np.flatnonzero(~white[:stop] & (point[:stop] < points))
    placed = list(final_setup(setup[setup_ply == 0]).values())
    interrupted = in_a_row[stop : stop + 1].any() or ((setup_ply > 0) & (setup_ply < stop)).any()
    if interrupted or len(placed) + len(plies) >= points:
        plies = plies[:0]
    stones = placed.count(0) + len(plies)
    return (stones, plies) if stones > 1 and 2 not in placed else (0, plies[:0])


def write_sgf(game: Game) -> bytes:
    """Return the game as FF[4] in UTF-8: the root, then one node per line. Reading it gives an equal game.

    All properties of the root are kept. A `Game` does not contain variations and properties of later nodes other than
    moves and setup, so these are lost. Setup in consecutive nodes without moves becomes one node. A move that is not a
    point of the board becomes "zz", which is outside every board.

    Raises:
        GameError: The parser dropped the game, which then has no board, or the board's size is not within 1 to 25.
    """
    if game.drop:
        raise GameError(f"a dropped game cannot be written: {game.drop.reason}")
    check_size(game.width, game.height)
    return write_record(game, plain_properties(game.properties, game.codec))


def write_record(game: Game, properties: Mapping[str, Sequence[str]], comments: Sequence[bytes] = ()) -> bytes:
    """Return the record that `write_sgf` writes, with other root properties.

    Args:
        properties: Name -> values in canonical form, as from `plain_properties` and `text_properties`.
        comments: For each move, further properties of its node; empty if no move has any.
    """
    parts = [format_root(game.width, game.height, properties)]
    if game.to_play:
        parts.append(b"PL[B]" if game.to_play == BLACK else b"PL[W]")
    parts.append(_stones(game.setup[: game.root_setup], game) + b"\n")
    done = 0
    later, later_ply = game.setup[game.root_setup :], game.setup_ply[game.root_setup :]
    for ply in np.unique(later_ply).tolist():
        parts.append(_move_nodes(game.moves[done:ply], game, comments[done:ply]))
        parts.append(b";" + _stones(later[later_ply == ply], game) + b"\n")
        done = ply
    parts.append(_move_nodes(game.moves[done:], game, comments[done:]) + b")\n")
    return b"".join(parts)


def _stones(setup: npt.NDArray[np.uint16], game: Game) -> bytes:
    """Return AB, AW and AE of one node."""
    final = final_setup(setup)
    text = ""
    for kind, name in ((0, "AB"), (2, "AW"), (1, "AE")):
        points = [to_sgf(point, game.width, game.height) for point, k in final.items() if k == kind]
        text += name + "".join(f"[{point}]" for point in points) if points else ""
    return text.encode()


def _move_nodes(moves: npt.NDArray[np.uint16], game: Game, comments: Sequence[bytes]) -> bytes:
    r"""Return ;B[xy]\n for each move, with its comment before the \n."""
    points = (moves & POINT_MASK).astype(np.int64)
    y, x = np.divmod(points, game.width)
    off = points > game.width * game.height
    x[off] = y[off] = SGF_LETTERS.index("z")
    text = np.tile(np.frombuffer(b";B[xy]\n", np.uint8), (len(moves), 1))
    text[moves & WHITE_BIT != 0, 1] = ord("W")
    text[:, 3] = _LETTERS[x]
    text[:, 4] = _LETTERS[y]
    kept = np.ones(text.shape, bool)
    kept[points == game.width * game.height, 3:5] = False
    nodes = text[kept].tobytes()
    return b"".join(map(b"%b%b\n".__mod__, zip(nodes.splitlines(), comments))) if comments else nodes

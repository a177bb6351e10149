"""A naive OLF parser and writer, written from the format description: the reference for `kifu.records.olf`."""

import datetime
import re
from dataclasses import dataclass, field

import pyarrow as pa

from kifu.errors import DropReason
from kifu.point import BLACK, NO_POINT, WHITE, WHITE_BIT
from kifu.records import olf
from kifu.records._bytes import LINE_LIMIT
from kifu.records.games import FIELDS, NO_HANDICAP, ParsedBlock, ParseWarning
from kifu.records.meta import Result
from kifu.records.olf import read_olf
from kifu.records.olf_writer import OlfFields, OlfLines, write_olf
from kifu.records.sgf import as_block

LETTERS = "abcdefghijklmnopqrs"
NAMES = ("date", "black", "black_rank", "white", "white_rank", "size", "time", "result", "komi", "handicap")


@dataclass
class NaiveGame:
    index: int = 0
    start: int = 0
    stop: int = 0
    width: int = 0
    height: int = 0
    moves: list[int] = field(default_factory=list)
    setup: list[int] = field(default_factory=list)
    territory: list[int] = field(default_factory=list)
    handicap: int | None = None
    warnings: ParseWarning = field(default_factory=lambda: ParseWarning(0))
    drop: DropReason = DropReason.KEPT
    words: dict[str, bytes] = field(default_factory=dict)


def read_member(data: bytes) -> list[NaiveGame]:
    games: list[NaiveGame] = []
    at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    for number, line in enumerate(data[at:].split(b"\n")):
        words = [(match.start() + at, match.end() + at, match[0]) for match in re.finditer(rb"[^\0-\x20]+", line)]
        if words and not words[0][2].startswith(b"#"):
            game = NaiveGame(number, words[0][0], words[-1][1])
            game.drop = DropReason.TOO_LARGE
            if game.stop - game.start <= LINE_LIMIT:
                game.drop = read_fields(game, [word for _, _, word in words])
            if game.drop:
                game.moves, game.setup, game.territory = [], [], []
            games.append(game)
        at += len(line) + 1
    return games or [NaiveGame(start=len(data), stop=len(data), drop=DropReason.NO_RECORD)]


def read_fields(game: NaiveGame, fields: list[bytes]) -> DropReason:
    if len(fields) not in (11, 12):
        return DropReason.UNREADABLE
    for name, value in zip(NAMES, fields):
        nothing = {"date": rb"[0-]+|\?", "black_rank": rb"[0?]", "white_rank": rb"[0?]"}.get(name, rb"\?")
        if name not in ("size", "handicap") and not re.fullmatch(nothing, value):
            game.words[name] = value
    size = re.fullmatch(rb"[+]?(\d{1,4}):[+]?(\d{1,4})", fields[5])
    if size and 1 <= int(size[1]) <= 19 and 1 <= int(size[2]) <= 19:
        game.width, game.height = int(size[1]), int(size[2])
    handicap = re.fullmatch(rb"h-([+]?\d{1,4}|-0{1,4})", fields[9])
    if handicap:
        game.handicap = int(handicap[1]) or None
        if game.handicap == 1:
            game.warnings |= ParseWarning.HANDICAP_ONE
    else:
        game.warnings |= ParseWarning.HANDICAP_TEXT
    if not game.width:
        return DropReason.BAD_SIZE
    if len(fields[10]) // 2 > 65_535:
        return DropReason.TOO_LARGE
    area = fields[11] if len(fields) == 12 else b""
    for text in (fields[10].replace(b"-", b"", len(fields[10]) == 1), area):
        if not re.fullmatch(rb"([A-Za-z]{2})*", text):
            return DropReason.UNREADABLE
    game.moves = [] if fields[10] == b"-" else read_points(game, fields[10])
    colours = {entry & ~WHITE_BIT: entry for entry in read_points(game, area)}
    if any(point >= game.width * game.height for point in colours):
        return DropReason.OFF_BOARD
    game.territory = [colours[point] for point in sorted(colours)]
    take_handicap(game)
    return DropReason.KEPT


def read_points(game: NaiveGame, text: bytes) -> list[int]:
    points = []
    for first, second in zip(text[::2].decode(), text[1::2].decode()):
        x, y = LETTERS.find(first.lower()), LETTERS.find(second.lower())
        if first + second in ("TT", "tt"):
            point = game.width * game.height
        elif first.isupper() == second.isupper() and 0 <= x < game.width and 0 <= y < game.height:
            point = y * game.width + x
        else:
            point = NO_POINT
        points.append(point | (0 if first.isupper() else WHITE_BIT))
    return points


def take_handicap(game: NaiveGame) -> None:
    """Turn leading black stones, separated by white passes, into setup, with a last pass that White follows."""
    points, count = game.width * game.height, game.handicap or 0
    stones, passes = game.moves[0 : 2 * count - 1 : 2], game.moves[1 : 2 * count - 2 : 2]
    if count < 2 or len(stones) != count or len(set(stones)) != count or max(stones) >= points:
        return
    if set(passes) != {points | WHITE_BIT}:
        return
    game.setup, game.moves = stones, game.moves[2 * count - 1 :]
    if game.moves[:1] == [points | WHITE_BIT] and len(game.moves) > 1 and game.moves[1] & WHITE_BIT:
        del game.moves[0]


def write_line(words: list[str], game: NaiveGame) -> bytes:
    """Return a line. words: the first ten fields. Whether the line represents the game is not checked."""
    points = game.width * game.height
    play = [entry for stone in game.setup for entry in (stone, points | WHITE_BIT)]
    play = (play if game.moves and game.moves[0] & WHITE_BIT else play[:-1]) + game.moves
    parts = [*words, write_points(game, play) or "-"]
    if game.territory:
        parts.append(write_points(game, game.territory))
    return (" ".join(parts) + "\n").encode()


def write_points(game: NaiveGame, entries: list[int]) -> str:
    text = ""
    for entry in entries:
        y, x = divmod(entry & ~WHITE_BIT, game.width)
        pair = LETTERS[x] + LETTERS[y] if y < game.height else "tt"
        text += pair if entry & WHITE_BIT else pair.upper()
    return text


HEAD = b"1996-03-12 Ann 35.0 Bob_B 34 19:19 30 -3.5 5.5 h-0 "


PLAY = b"PDdpTTtt"


LINE = HEAD + PLAY


def naive_of(parsed: ParsedBlock) -> list[NaiveGame]:
    games, words = parsed.games, parsed.text_fields
    return [
        NaiveGame(
            index=parsed.index[g],
            start=games.start[g],
            stop=games.stop[g],
            width=games.width[g],
            height=games.height[g],
            moves=games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist(),
            setup=games.setup[games.setup_offset[g] : games.setup_offset[g + 1]].tolist(),
            territory=parsed.territory[parsed.territory_offset[g] : parsed.territory_offset[g + 1]].tolist(),
            handicap=None if games.handicap[g] == NO_HANDICAP else games.handicap[g],
            warnings=ParseWarning(int(games.warnings[g])),
            drop=DropReason(games.drop[g]),
            words={
                name: words.data[words.start[f, g] : words.stop[f, g]].tobytes()
                for f, name in enumerate(FIELDS)
                if words.start[f, g] < words.stop[f, g]
            },
        )
        for g in range(len(games))
    ]


def fields_of(parsed: ParsedBlock) -> OlfFields:
    words = [{name: value.decode() for name, value in game.words.items()} for game in naive_of(parsed)]
    dates = [olf.parse_date(word.get("date", "")) or "" for word in words]
    results = [olf.parse_result(word.get("result", "?")) for word in words]
    ratings = {
        colour: [olf.parse_rating(word.get(f"{colour}_rank", "")) for word in words] for colour in ("black", "white")
    }
    name = lambda word: olf.parse_name(word) if word else None  # noqa: E731
    return OlfFields(
        date=pa.array([day_of(text) for text in dates], pa.date32()),
        year=pa.array([int(text) if re.fullmatch("[0-9]{4}", text) else None for text in dates], pa.int16()),
        black=pa.array([name(word.get("black")) for word in words], pa.string()),
        black_rating=pa.array([rating for rating, _ in ratings["black"]], pa.float32()),
        black_confirmed=pa.array([confirmed for _, confirmed in ratings["black"]], pa.bool_()),
        white=pa.array([name(word.get("white")) for word in words], pa.string()),
        white_rating=pa.array([rating for rating, _ in ratings["white"]], pa.float32()),
        white_confirmed=pa.array([confirmed for _, confirmed in ratings["white"]], pa.bool_()),
        main_minutes=pa.array([olf.parse_time(word.get("time", "")) for word in words], pa.float32()),
        winner=pa.array([winner_of(result) for result in results], pa.string()),
        ending=pa.array(["score" if winner_of(result) == "draw" else result.how for result in results]),
        margin=pa.array([result.margin or None for result in results], pa.float32()),
        komi=pa.array([olf.parse_komi(word.get("komi", "")) for word in words], pa.float32()),
    )


def day_of(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def winner_of(result: Result) -> str | None:
    return {BLACK: "black", WHITE: "white"}.get(result.winner or 0, "draw" if result == Result.parse("0") else None)


def write_back(parsed: ParsedBlock) -> OlfLines:
    return write_olf(parsed.games, fields_of(parsed), parsed.territory, parsed.territory_offset)


PIECES = [
    *(b"\n", b"\r\n", b" ", b"  ", b"\t", b"#", b"\xef\xbb\xbf", b"\0", b"\xff", b"-", b"?", b"0", b"x"),
    *(LINE, HEAD, HEAD[:-4], b"h-0 ", b"h-2 ", b"h-3 ", b"h-1 ", b"hx ", b"h--0 ", b"h-+2 "),
    *(b"PD", b"ttDP", b"tt", b"TT", b"dd", b"zz", b"aB", b"PDttDP", b" AAss", b" AAaaAA", b" TT"),
    *(
        b"1996-03-12 ", b"0000-00-00 ", b"Ann 35.0 Bob 0 ", b"? 0 ? 0 ", b"9:9 ", b"19:19 ", b"2:1 ", b"20:20 ",
        b"0 0 0 ",
    ),
]  # fmt: skip


def compare_with_naive(data: bytes) -> None:
    found = read_lines(data)
    if any(game.drop == DropReason.TOO_LARGE for game in found):  # the naive parser has no limit
        return
    assert found == read_member(data)


def check(data: bytes) -> None:
    """Check that the naive parser agrees, and that parsed, writing and parsed again gives the same."""
    compare_with_naive(data)
    parsed = read_olf(as_block([data.decode("utf-8", "replace").encode()]))
    lines = write_back(parsed)
    again = read_olf(as_block([lines.data.tobytes()]))
    if len(lines.data):
        kept = [game for game, why in zip(naive_of(parsed), lines.failure) if not why]
        for game, other in zip(kept, naive_of(again), strict=True):
            for name in ("width", "height", "moves", "setup", "territory"):
                assert getattr(game, name) == getattr(other, name)
            assert game.handicap in (other.handicap, 1)  # the format has no h-1
        assert write_back(again).data.tobytes() == lines.data.tobytes()


def read_lines(data: bytes) -> list[NaiveGame]:
    return naive_of(read_olf(as_block([data])))

"""Naive functions that read the figures of a game's moves, one node at a time, from its text alone."""

import math
import re
from dataclasses import dataclass

from kifu.records.meta import Overtime, parse_minutes, parse_overtime

Node = list[tuple[bytes, list[bytes]]]

NUMBER = re.compile(rb"[\0-\x20]*(-?(?=\.?[0-9])[0-9]*\.?[0-9]*)[\0-\x20]*")

FIGURE_PIECES = [
    *(b"TM[600]", b"TM[0]", b"TM[]", b"OT[5x30 byo-yomi]", b"OT[25/300 Canadian]", b"OT[10 fischer]", b"OT[?]"),
    *(b"TC[3]", b"TT[60]", b"BL[590.5]", b"WL[599]", b"BL[30]", b"WL[30]OW[5]", b"BL[12.5]OB[5]", b"BL[30]OB[4]"),
    *(b"WL[300]OW[24]", b"WL[250]OW[23]", b"BL[7]OB[1]", b"BL[3]OB[0]", b"BL[300]OB[25]", b"OB[-1]", b"WL[-3]"),
    *(b"C[startTurnIdx=0,gtype=fork,x=1]", b"C[startTurnIdx=1]", b"C[0.44 0.26 0.30 1.4 v=2 weight=1.00]"),
    *(b";B[aa]C[0.5 0.5 0.00 -1.0 v=20 weight=1.00]", b";W[]C[0.4 0.6 0.00 2.5 v=3];W[bb]", b";B[ab]"),
    *(b"C[Pass for ko 0.37 0.29 0.34 -0.8 v=20]", b"C[0.5 0.5 0 v=1]", b"C[1.5 0.5 0 0 v=1]", b"v=", b" v=7]"),
]


def decimal(text: bytes) -> float:
    match = NUMBER.fullmatch(text)
    return float(match[1]) if match and sum(map(text.count, map(bytes, zip(b"0123456789")))) <= 15 else math.nan


def first(node: Node, name: bytes) -> bytes | None:
    return next((values[0] for each, values in node if each == name and values), None)


def colour_of(node: Node) -> str | None:
    """Return the colour of a node's move; several values of B or W beside setup are setup, too."""
    has_setup = any(name in (b"AB", b"AW", b"AE") and values for name, values in node)
    for colour in "BW":
        given = [values for name, values in node if name == colour.encode() and values]
        if given and not (has_setup and any(len(values) > 1 for values in given)):
            return colour
    return None


def game_type(root: Node) -> bytes | None:
    """Return gtype of KataGo's comment, b"" without one; None if the root has no such comment."""
    for name, values in root:
        for value in values:
            if name == b"C" and b"startTurnIdx=" in value:
                match = re.search(rb"gtype=([^\0-\x20,]*)", value)
                return match[1] if match else b""
    return None


def evaluation(node: Node) -> list[float]:
    text = first(node, b"C") or b""
    match = re.search(rb"[\0-\x20]v=([0-9]*)", text)
    tokens = re.findall(rb"[^\0-\x20]+", text[: match.start()])[-4:] if match else []
    if match and len(tokens) == 4:
        win, loss, no_result, score = map(decimal, tokens)
        visits = decimal(match[1])
        if 0 <= win <= 1 and 0 <= loss <= 1 and visits <= 1e9 and not math.isnan(no_result + score):
            return [win, loss, score, visits]
    return [math.nan] * 4


def evaluations(nodes: list[Node]) -> list[list[float]]:
    return [evaluation(node) for node in nodes if colour_of(node)]


@dataclass
class Clock:
    """The clock of the last move with one. phase: "main", "counted" (main time with a count), "overtime" or "lost"."""

    left: float
    phase: str = "main"
    count: int = 0
    waiting: int | None = None

    def lose(self) -> float:
        self.phase = "lost"
        return math.nan

    def show(self, left: float, count: int | None, overtime: Overtime | None, known: bool) -> float:
        """Return the seconds used for a move after which the clock shows these values."""
        before, phase = self.left, self.phase
        if not known:
            return self.lose()
        if overtime is None:
            self.left = left
            return before - left if left <= before else math.nan
        in_main = phase in ("main", "counted")
        if count is None:
            if not in_main or left > before:
                return self.lose()
            self.left, self.phase = left, "main"
            return before - left
        if left > overtime.seconds:
            if count != overtime.count:
                return self.lose()
            self.left, self.phase = left, "counted"
            return before - left if in_main and left <= before else math.nan
        if count > overtime.count:
            return self.lose()
        show = self._show_byo_yomi if overtime.kind == "byo-yomi" else self._show_canadian
        return show(left, count, overtime)

    def _show_byo_yomi(self, left: float, count: int, overtime: Overtime) -> float:
        phase, periods = self.phase, self.count - count
        if phase == "counted" and count == overtime.count:
            self.left = math.nan
            return math.nan
        spent = overtime.seconds - left
        before = self.left
        self.left, self.phase, self.count = overtime.seconds, "overtime", count
        if spent == 0:
            return math.nan
        if phase == "main" and count == overtime.count:
            return before + spent
        return periods * overtime.seconds + spent if phase == "overtime" and periods >= 0 else math.nan

    def _show_canadian(self, left: float, count: int, overtime: Overtime) -> float:
        before, phase, moves = self.left, self.phase, self.count - count
        self.left, self.phase, self.count = left, "overtime", count
        if count == 0:
            self.left, self.count = overtime.seconds, overtime.count
        if phase == "main" and (count == overtime.count - 1 or (count == overtime.count and left < overtime.seconds)):
            return before + overtime.seconds - left
        return before - left if phase == "overtime" and moves == 1 and left <= before else math.nan


def seconds(nodes: list[Node], fields: dict[str, bytes]) -> list[float]:
    """Return the seconds used for each move, given the main line and the game's text fields."""
    names = ("time", "overtime", "periods", "period_seconds")
    time, limit, periods, period = (fields.get(name, b"").decode("utf-8", "replace") for name in names)
    limit = limit.strip() or (f"{periods}x{period}" if periods.strip("0 ") else "")
    overtime, minutes = parse_overtime(limit), parse_minutes(time)
    known = not limit if overtime is None else overtime.kind in ("byo-yomi", "canadian")
    main = math.nan if minutes is None or (minutes == 0 and not limit) else 60 * minutes
    clocks = {"B": Clock(main), "W": Clock(main)}
    used: list[float] = []
    for node in nodes:
        mover = colour_of(node)
        if mover:
            if clocks[mover].waiting is not None:
                clocks[mover].left = math.nan
            clocks[mover].waiting = len(used)
            used.append(math.nan)
        for side, clock in clocks.items():
            left = decimal(first(node, b"%sL" % side.encode()) or b"")
            count = decimal(first(node, b"O%s" % side.encode()) or b"")
            if clock.waiting is not None and left >= 0:
                used[clock.waiting] = clock.show(left, int(count) if count >= 0 else None, overtime, known)
                clock.waiting = None
    return used

"""Life and areas as their definitions say, over sets of points of a plain board; and life by trying all attacks."""

from kifu.point import BLACK, WHITE


def chains_of(board, colour):
    return [frozenset(stones) for c, stones, _ in board.chains() if c == colour]


def regions_of(board, colour):
    """The largest connected sets of points without a stone of that colour; all hold an empty point."""
    regions, left = [], {p for p in board.points() if board.stones.get(p) != colour}
    while left:
        region, fringe = set(), [left.pop()]
        while fringe:
            point = fringe.pop()
            region.add(point)
            fringe += {near for near in board.beside(point) if near in left}
            left -= set(fringe)
        if any(point not in board.stones for point in region):
            regions.append(frozenset(region))
    return regions


def touch(board, some, others):
    return any(near in others for point in some for near in board.beside(point))


def is_vital(board, region, chain, suicide):
    return all(touch(board, {p}, chain) for p in region if suicide or p not in board.stones)


def alive(board, colour, suicide):
    """(chains, regions): the pass-alive chains of a colour, and its regions that touch no other chains of it."""
    chains, regions = set(chains_of(board, colour)), set(regions_of(board, colour))
    while True:
        live = {c for c in chains if sum(is_vital(board, r, c, suicide) for r in regions) >= 2}
        kept = {r for r in regions if not any(touch(board, r, c) for c in set(chains_of(board, colour)) - live)}
        if (live, kept) == (chains, regions):
            return live, kept
        chains, regions = live, kept


def sure_and_loose(board, colour, suicide):
    """(what is certainly of that colour, empty regions that only it touches but not only with pass-alive chains)."""
    chains, kept = alive(board, colour, suicide)
    sure, loose = set().union(*chains), set()
    for region in regions_of(board, colour) if chains_of(board, colour) else []:
        own = {p for p, c in board.stones.items() if c == colour}
        inner = [p for p in region if not touch(board, {p}, own)]
        empty = not any(p in board.stones for p in region)
        if region in kept and (empty or len(inner) <= 1):
            sure |= region
        elif empty:
            loose |= region
    return sure, loose


def areas(board, suicide, taxed):
    owner = {}
    for colour in (BLACK, WHITE):
        owner |= dict.fromkeys(sure_and_loose(board, colour, suicide)[0], colour)
    for colour in (BLACK, WHITE):
        owner = dict.fromkeys(sure_and_loose(board, colour, suicide)[1], colour) | owner
    owner = board.stones | owner
    return untaxed(board, owner) if taxed else owner


def untaxed(board, owner):
    """Return the areas after tax: all of a connected part, or only the owner's stones if it is in seki."""
    kept, left = {}, set(owner)
    while left:
        part, fringe = set(), [left.pop()]
        while fringe:
            point = fringe.pop()
            part.add(point)
            fringe += {near for near in board.beside(point) if near in left and owner[near] == owner[point]}
            left -= set(fringe)
        neutral = any(near not in owner for point in part for near in board.beside(point))
        own = {p for p in part if board.stones.get(p) == owner[p]}
        atari = any(len(board.chain(p, board.stones)[1]) == 1 for p in own)
        kept |= {p: owner[p] for p in (own if neutral or atari else part)}
    return kept


def uncapturable(board, colour, suicide):
    """Stones that no attack takes while their colour passes. suicide: of two or more attacking stones."""
    attacker = 3 - colour
    seen, fringe, safe = set(), [board.stones], {p for p, c in board.stones.items() if c == colour}
    while fringe:
        board.stones = fringe.pop()
        for point in board.points():
            if point in board.stones:
                continue
            stones, captured, lost = board.result(point, attacker)
            safe -= captured
            key = frozenset(stones.items())
            if key not in seen and (not lost or (suicide and len(lost) > 1)):
                seen.add(key)
                fringe.append(stones)
    return safe

"""CPython 2.7's hashes and sets as its C sources read: the slow twin of `kifu.recipes.kgs`.

Whole numbers of any size stand for its 64-bit words, and are cut where C would cut them.
"""

WORD = 2**64


def signed(word):
    word %= WORD
    return word - WORD if word >= WORD // 2 else word


def hash_of(value):
    """hash() of an int, a text, or a tuple of these."""
    if isinstance(value, str):
        return hash_text(value)
    if isinstance(value, tuple):
        return hash_tuple(value)
    return -2 if value == -1 else value  # ints beyond a word are never hashed here


def hash_text(text):
    """string_hash and unicode_hash, without the secrets of -R."""
    if text == "":
        return 0
    word = (ord(text[0]) << 7) % WORD
    for character in text:
        word = (1000003 * word) % WORD ^ ord(character)
    word ^= len(text)
    return -2 if word == WORD - 1 else signed(word)


def hash_tuple(items):
    word, multiplier, left = 0x345678, 1000003, len(items)
    for item in items:
        left -= 1
        word = (word ^ hash_of(item) % WORD) * multiplier % WORD
        multiplier += 82520 + left + left
    word = (word + 97531) % WORD
    return -2 if word == WORD - 1 else signed(word)


class Set:
    """A set that only grows; the hash of each item is given with it."""

    def __init__(self):
        self.table = [None] * 8  # (hash, item)
        self.used = 0

    def _slot(self, entry):
        mask = len(self.table) - 1
        word = perturb = entry[0] % WORD
        while self.table[word & mask] not in (None, entry):
            word = 5 * word + perturb + 1
            perturb >>= 5
        return word & mask

    def add(self, hashed, item):
        slot = self._slot((hashed, item))
        if self.table[slot] is not None:
            return
        self.table[slot] = (hashed, item)
        self.used += 1
        if self.used * 3 >= len(self.table) * 2:
            self._resize(self.used * 2 if self.used > 50000 else self.used * 4)

    def _resize(self, least):
        size = 8
        while size <= least:
            size *= 2
        before, self.table = self.table, [None] * size
        for entry in before:
            if entry is not None:
                self.table[self._slot(entry)] = entry

    def __iter__(self):
        return (entry[1] for entry in self.table if entry is not None)


def set_order(hashes):
    """The numbers of items with these hashes, added in turn, in the set's order."""
    grown = Set()
    for item, hashed in enumerate(hashes):
        grown.add(hashed, item)
    return list(grown)

"""The dat1 and dat2 formats written bit by bit, as their cards in docs/formats describe them."""

import numpy as np

from kifu.datasets.dat import DAT_LAYOUTS


def write_naive(name, planes, labels):
    """Return the bytes of a dat1 or dat2 file with these examples (dat1: plane 7 is written as it is)."""
    out = bytearray()
    if name == "dat2@1":
        line = f"mlv2-n={len(labels)}-numplanes=7-imagewidth=19-imageheight=19-datatype=int-bpp=1\0\n"
        out += line.encode() + bytes(1024 - len(line))
    for example, label in zip(planes, labels):
        out += b"GO"
        if name == "dat1@1":
            out += bytes([label // 19, label % 19])
            for row in range(19):
                for col in range(19):
                    out.append(sum(int(example[plane][row][col]) << plane for plane in range(8)))
        else:
            out += int(label).to_bytes(4, "little")
            bits = "".join(str(int(bit)) for plane in example for row in plane for bit in row) + "0"
            out += bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
    return bytes(out + b"END")


def random_examples(name, n, seed=0):
    rng = np.random.default_rng(seed)
    planes = (rng.random((n, DAT_LAYOUTS[name].planes, 19, 19)) < 0.3).astype(np.uint8)
    planes[:, 7:] = 1
    return planes, rng.integers(0, 361, n).astype(np.int32)


def random_file(name, n, seed=0):
    return write_naive(name, *random_examples(name, n, seed))

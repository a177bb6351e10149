"""The networks of "Deep Learning and the Game of Go" (Pumperla and Ferguson 2019), chapter 7."""

from __future__ import annotations

from kifu.learn.nets.base import NetworkConfig
from kifu.learn.nets.plain import Dense


class BookSmall(Dense):
    """Four convolutions, 48 of 7 x 7 and 3 times 32 of 5 x 5, and a hidden layer of 512.

    As 7.3 prints it; the hidden layer, from the file `dlgo/networks/small.py` of the book's repository. ReLU after each
    layer. Neither has dropout, which the chapter only recommends.
    """

    def __init__(self, task: NetworkConfig) -> None:
        super().__init__(task, ((48, 7), (32, 5), (32, 5), (32, 5)), 512)


class BookMedium(Dense):
    """Five convolutions, 64 of 5 x 5 twice and 64 of 3 x 3 thrice, and a hidden layer of 512.

    The chapter names it without printing it: from the file `dlgo/networks/medium.py`. ReLU after each layer, no
    dropout.
    """

    def __init__(self, task: NetworkConfig) -> None:
        super().__init__(task, ((64, 5), (64, 5), (64, 3), (64, 3), (64, 3)), 512)


class BookLarge(Dense):
    """Seven convolutions, 64 of 7 x 7, then of 5 x 5 twice 64, 48 and 32, and a hidden layer of 1024.

    The chapter names it without printing it: from the file `dlgo/networks/large.py`. ReLU after each layer, no
    dropout. Its convolutions are those of Clark and Storkey's best network, without its symmetries.
    """

    def __init__(self, task: NetworkConfig) -> None:
        super().__init__(task, ((64, 7), (64, 5), (64, 5), (48, 5), (48, 5), (32, 5), (32, 5)), 1024)

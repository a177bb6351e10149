"""The network of "Playing Go with supervised learning in Pytorch" (Trencseni 2019, on his blog, bytepawn.com)."""

from __future__ import annotations

from kifu.learn.nets.base import NetworkConfig
from kifu.learn.nets.plain import Dense


class Blog(Dense):
    """Three convolutions of 32 filters, 9 x 9, 7 x 7 and 5 x 5, and a hidden layer as large as the board.

    As the post prints it, with half of the hidden layer dropped in training, and half of the logits too, whose moves
    then have the logit 0. The post's own `log_softmax` belongs to the loss here. The post tells of "1M+ parameters";
    there are 4.4 million.
    """

    def __init__(self, task: NetworkConfig) -> None:
        super().__init__(task, ((32, 9), (32, 7), (32, 5)), task.points, dropout=0.5)

"""A recipe of one training run: the net, the games and positions it learns from, how, and for how long."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, field_serializer, model_validator

from kifu.config import STRICT, BoardSize, Line, parse_board
from kifu.datasets.epoch_plan import WINDOW
from kifu.datasets.position_filter import DEFAULT_FILTER, PositionFilter, Positions
from kifu.errors import KifuError
from kifu.planes.encoder import Encoder, find_encoder

Positive = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
Below1 = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=10**9)]

SHOWN = 0.01
"""The least part of the rate that a warm-up begins with."""


class SgdConfig(BaseModel):
    """Stochastic gradient descent."""

    model_config = STRICT

    kind: Literal["sgd"]
    lr: Positive = 0.01
    """Keras' default."""
    momentum: Below1 = 0.0
    nesterov: bool = False
    decay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The rate of step s is divided by 1 + decay * s, as in Keras 2."""
    weight_decay: Share = 0.0

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> SgdConfig:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self


class AdagradConfig(BaseModel):
    """Duchi, Hazan and Singer 2011. Defaults of Keras 2."""

    model_config = STRICT

    kind: Literal["adagrad"]
    lr: Positive = 0.01
    epsilon: Positive = 1e-7


class AdadeltaConfig(BaseModel):
    """Zeiler 2012 (arXiv:1212.5701). Defaults of Keras 2."""

    model_config = STRICT

    kind: Literal["adadelta"]
    lr: Positive = 1.0
    rho: Below1 = 0.95
    epsilon: Positive = 1e-7


class AdamWConfig(BaseModel):
    """Loshchilov and Hutter 2019 (arXiv:1711.05101)."""

    model_config = STRICT

    kind: Literal["adamw"]
    lr: Positive = 0.001
    betas: Annotated[tuple[Below1, Below1], Field(strict=False)] = (0.9, 0.999)
    epsilon: Positive = 1e-8
    weight_decay: Share = 0.01
    """Of matrices and convolutions; biases and norms have none."""


class MuonConfig(BaseModel):
    """Jordan et al. 2024, with AdamW for biases and norms: see `kifu.learn.muon`."""

    model_config = STRICT

    kind: Literal["muon"]
    lr: Positive = 0.005
    momentum: Below1 = 0.95
    betas: Annotated[tuple[Below1, Below1], Field(strict=False)] = (0.9, 0.99)
    """Of AdamW."""
    weight_decay: Share = 0.01
    """Of matrices and convolutions."""


Optimiser: TypeAlias = Annotated[
    SgdConfig | AdagradConfig | AdadeltaConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")
]


class _Schedule(BaseModel):
    """What part of the optimiser's rate holds when so much of the run is done."""

    model_config = STRICT

    warm_up: Share = 0.0
    """The share of the run in which the rate rises from next to nothing."""
    warm_up_steps: Annotated[int, Field(ge=0, le=10**9)] = 0
    """The same in steps; if both are given, the lower rate holds."""

    def part(self, done: float, step: int) -> float:
        """done: what share of the run is over, 0 to 1; step: how many steps are."""
        rising = min(1.0, done / self.warm_up) if self.warm_up else 1.0
        if self.warm_up_steps:
            rising = min(rising, (step + 1) / self.warm_up_steps)
        after = (done - self.warm_up) / (1 - self.warm_up) if self.warm_up < 1 else 0.0
        return max(rising, SHOWN) * self.shape(min(max(after, 0.0), 1.0))

    @abstractmethod
    def shape(self, done: float) -> float:
        """Without the warm-up; done: what share of the rest is over."""


class ConstantSchedule(_Schedule):
    """Always the same."""

    kind: Literal["constant"]

    def shape(self, done: float) -> float:
        return 1.0


class StepSchedule(_Schedule):
    """Falls by a factor now and then."""

    kind: Literal["step"]
    at: Annotated[tuple[Share, ...], Field(strict=False, min_length=1, max_length=100)]
    """After which shares of the run."""
    factor: Share = 0.1

    def shape(self, done: float) -> float:
        return float(self.factor ** sum(done >= place for place in self.at))


class CosineSchedule(_Schedule):
    """Half a wave from 1 to `end`. Loshchilov and Hutter 2017 (arXiv:1608.03983), without restarts."""

    kind: Literal["cosine"]
    end: Share = 0.0

    def shape(self, done: float) -> float:
        return _half_wave(1.0, self.end, done)


class OneCycleSchedule(_Schedule):
    """Half a wave up from `begin`, and another down to `end`. Smith 2018 (arXiv:1803.09820)."""

    kind: Literal["one-cycle"]
    begin: Share = 0.04
    end: Share = 0.0
    peak: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """After which share of the run it is highest."""

    def shape(self, done: float) -> float:
        if done < self.peak:
            return _half_wave(self.begin, 1.0, done / self.peak)
        return _half_wave(1.0, self.end, (done - self.peak) / (1 - self.peak))


def _half_wave(begin: float, end: float, done: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * done)) / 2


Schedule: TypeAlias = Annotated[
    ConstantSchedule | StepSchedule | CosineSchedule | OneCycleSchedule, Field(discriminator="kind")
]


class TrainingRecipe(BaseModel):
    """All that a training run follows from, beside the games."""

    model_config = STRICT

    kind: Literal["training"]
    name: Line
    title: Line
    """For people."""

    net: Line
    """An architecture (`kifu nets`)."""
    planes: Line
    """A plane set (`kifu planes`), or features joined by +."""
    board: BoardSize = "19x19"
    """Games on another board are passed over."""
    heads: dict[Literal["value", "ownership"], Positive] = {}
    """What the net tells besides the policy, and how much the error of each counts beside the policy's."""
    init: Line = "torch"
    """How weights are drawn before the first step."""

    games: Count | None = None
    """How many games are learned from, drawn by hash; left out: all that are not held out."""
    validation: Below1 = 0.05
    """The share of the games that is held out to validate with, unless others are named for that."""
    validation_positions: Count = 20_000
    """At most so many positions of them are validated with, always the same."""
    positions: Positions = DEFAULT_FILTER

    batch_size: Annotated[int, Field(ge=1, le=10**6)] = 128
    """Of all processes together."""
    augment: bool = True
    """Whether each game comes under one of the symmetries of the board."""
    window: Count = WINDOW
    """Positions that are shuffled among each other."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    optimiser: Optimiser
    schedule: Schedule = ConstantSchedule(kind="constant")
    steps: Count | None = None
    epochs: Annotated[int, Field(ge=1, le=10**6)] | None = None
    max_minutes: Positive | None = None
    """The run ends after so many steps or epochs, or when the time is over, whichever is first."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What products are computed in; weights are float32 always."""
    clip: Positive | None = None
    """The longest gradient that is followed; a longer one is shortened to that."""
    average: Below1 = 0.0
    """How much of the averaged weights a step keeps, say 0.999; they are validated and saved. 0: no average."""

    validate_steps: Count | None = None
    validate_minutes: Positive | None = None
    """How often the net is validated; if both are left out, after each epoch. At the end it always is."""
    patience: Count | None = None
    """The run ends after so many validations without a lower loss."""
    checkpoint_minutes: Positive = 5.0
    """How often what a run resumes from is written, besides after each epoch and at the end."""

    @field_serializer("positions")
    def _dump_positions(self, positions: PositionFilter) -> dict[str, Any]:
        limits = {name: getattr(positions, name) for name in ("min_ply", "max_ply") if getattr(positions, name)}
        return {
            "passes": positions.passes,
            "ply_weights": positions.ply_weights,
            "rank_weights": positions.rank_weights,
            "per_game": positions.per_game,
            **limits,
        }

    @model_validator(mode="after")
    def _fits(self) -> TrainingRecipe:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("a run is steps or epochs long, not both")
        if self.steps is None and self.epochs is None and self.max_minutes is None:
            raise ValueError("how long the run is, steps, epochs or max_minutes say, and none of them is there")
        try:
            self.encoder()
        except KifuError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the board."""
        return parse_board(self.board)

    def encoder(self) -> Encoder:
        """What draws the planes. Raises RecipeError, GameError."""
        return find_encoder(self.planes, *self.size)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the net is told of each position."""
        return ("move", *(_LABELS[head] for head in self.heads))

    def rate(self, done: float, step: int) -> float:
        """The learning rate when so much of the run is over (0 to 1), after so many steps."""
        rate = self.optimiser.lr * self.schedule.part(done, step)
        return rate / (1 + self.optimiser.decay * step) if isinstance(self.optimiser, SgdConfig) else rate

    def told(self) -> dict[str, Any]:
        """The whole recipe as JSON values."""
        return self.model_dump(mode="json")


_LABELS: Mapping[str, str] = {"value": "result", "ownership": "ownership"}

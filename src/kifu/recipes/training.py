"""Recipes of training runs: network, games and positions, optimizer, schedule and length."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_serializer, field_validator, model_validator

from kifu.config import BoardSize, Count, Line, NamedConfig, StrictModel
from kifu.datasets.epoch_plan import WINDOW
from kifu.datasets.filter import PositionFilter
from kifu.datasets.global_inputs import check_inputs
from kifu.datasets.labels import inputs_label
from kifu.planes.encoder import FrameEncoder, find_encoder
from kifu.point import parse_board

Positive = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
Below1 = Annotated[float, Field(ge=0, lt=1)]

MIN_SCALE = 0.01
"""Minimum factor of the learning rate during a warm-up."""


class SgdConfig(StrictModel):
    """Stochastic gradient descent."""

    kind: Literal["sgd"]
    lr: Positive = 0.01
    """Learning rate; the default is that of Keras."""
    momentum: Below1 = 0.0
    nesterov: bool = False
    decay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The learning rate of step s is divided by 1 + decay * s, as in Keras 2."""
    weight_decay: Share = 0.0

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> SgdConfig:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs momentum > 0")
        return self


class AdagradConfig(StrictModel):
    """Adagrad (Duchi, Hazan and Singer 2011), with the defaults of Keras 2."""

    kind: Literal["adagrad"]
    lr: Positive = 0.01
    epsilon: Positive = 1e-7


class AdadeltaConfig(StrictModel):
    """Adadelta (Zeiler 2012, arXiv:1212.5701), with the defaults of Keras 2."""

    kind: Literal["adadelta"]
    lr: Positive = 1.0
    rho: Below1 = 0.95
    epsilon: Positive = 1e-7


class AdamWConfig(StrictModel):
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

    kind: Literal["adamw"]
    lr: Positive = 0.001
    betas: Annotated[tuple[Below1, Below1], Field(strict=False)] = (0.9, 0.999)
    epsilon: Positive = 1e-8
    weight_decay: Share = 0.01
    """Applied to matrices and convolutions, not to biases and norms."""


class MuonConfig(StrictModel):
    """Muon (Jordan et al. 2024), with AdamW for biases and norms, see `kifu.learn.optim.Muon`."""

    kind: Literal["muon"]
    lr: Positive = 0.005
    momentum: Below1 = 0.95
    betas: Annotated[tuple[Below1, Below1], Field(strict=False)] = (0.9, 0.99)
    """Betas of AdamW."""
    weight_decay: Share = 0.01
    """Applied to matrices and convolutions."""


Optimizer: TypeAlias = Annotated[
    SgdConfig | AdagradConfig | AdadeltaConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")
]


class _Schedule(StrictModel):
    """Base of schedules: the factor of the optimizer's learning rate, by the progress of the run."""

    warm_up: Share = 0.0
    """Share of the run in which the learning rate rises linearly."""
    warm_up_steps: Annotated[int, Field(ge=0, le=10**9)] = 0
    """The same in steps; if both are given, the lower learning rate applies."""

    def scale(self, done: float, step: int) -> float:
        """Return the factor, 0 to 1, after a share `done` of the run, 0 to 1, and after `step` steps."""
        rising = min(1.0, done / self.warm_up) if self.warm_up else 1.0
        if self.warm_up_steps:
            rising = min(rising, (step + 1) / self.warm_up_steps)
        after = (done - self.warm_up) / (1 - self.warm_up) if self.warm_up < 1 else 0.0
        return max(rising, MIN_SCALE) * self._shape(min(max(after, 0.0), 1.0))

    @abstractmethod
    def _shape(self, done: float) -> float:
        """Return the factor without the warm-up, after a share `done` of the rest of the run."""


class ConstantSchedule(_Schedule):
    """A constant learning rate."""

    kind: Literal["constant"]

    def _shape(self, done: float) -> float:
        return 1.0


class StepSchedule(_Schedule):
    """Multiplies the learning rate by `factor` at given points."""

    kind: Literal["step"]
    at: Annotated[tuple[Share, ...], Field(strict=False, min_length=1, max_length=100)]
    """The points, as shares of the run."""
    factor: Share = 0.1

    def _shape(self, done: float) -> float:
        return float(self.factor ** sum(done >= point for point in self.at))


class CosineSchedule(_Schedule):
    """Half a cosine wave from 1 to `end` (Loshchilov and Hutter 2017, arXiv:1608.03983), without restarts."""

    kind: Literal["cosine"]
    end: Share = 0.0

    def _shape(self, done: float) -> float:
        return _half_wave(1.0, self.end, done)


class OneCycleSchedule(_Schedule):
    """Half a cosine wave up from `begin` to 1, another down to `end` (Smith 2018, arXiv:1803.09820)."""

    kind: Literal["one-cycle"]
    begin: Share = 0.04
    end: Share = 0.0
    peak: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """The point of the highest learning rate, as a share of the run."""

    def _shape(self, done: float) -> float:
        if done < self.peak:
            return _half_wave(self.begin, 1.0, done / self.peak)
        return _half_wave(1.0, self.end, (done - self.peak) / (1 - self.peak))


def _half_wave(begin: float, end: float, done: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * done)) / 2


Schedule: TypeAlias = Annotated[
    ConstantSchedule | StepSchedule | CosineSchedule | OneCycleSchedule, Field(discriminator="kind")
]


class TeacherConfig(StrictModel):
    """Nets whose probabilities are learned together with the moves, see `kifu.learn.loss`."""

    nets: Annotated[tuple[Line, ...], Field(strict=False, min_length=1, max_length=16)]
    """Files (also KataGo's) or run directories; their probabilities are averaged."""
    weight: Share = 0.5
    """Weight of the teachers in the loss; that of the moves and results is 1 - weight."""
    temperature: Positive = 1.0
    """Probabilities of teachers and student are raised to the power 1 / temperature."""
    symmetries: bool = False
    """Average the teachers over the symmetries of the board, at 8 times the cost."""


class TrainingRecipe(NamedConfig):
    """Everything that a training run depends on, besides the games."""

    kind: Literal["training"]
    name: Line
    title: Line

    net: Line
    """An architecture (`kifu list nets`)."""
    planes: Line
    """A plane set (`kifu list planes`), or features joined by +."""
    board: BoardSize = "19x19"
    """Board size; other games are ignored."""
    heads: dict[Literal["value", "ownership", "score", "next"], Positive] = Field(default={})
    """Outputs besides the policy, and the weight of the loss of each relative to that of the policy."""
    inputs: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Global inputs besides the planes (`kifu.datasets.global_inputs.INPUTS`)."""
    input_dropout: Below1 = 0.1
    """Probability with which each input is made unknown in a training position, so that the net can do without it."""
    random_komi: Annotated[int, Field(ge=0, le=100)] = 0
    """Largest number of points by which the komi of training positions is shifted, see `kifu.learn.data`."""
    targets: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Annotations with points of the games to train on (`kifu annotate --per-game --points`), from which lead and
    ownership are learned, and only their positions are trained on. Paths are relative as those of `init_from`."""
    init: Line = "torch"
    """Initialization of the weights."""
    init_from: Line | None = None
    """A net's file or run directory, whose weights replace the initial ones. Paths are relative to the recipe file or
    the working directory."""
    new_heads: bool = False
    """Take the trunk of a network file of KataGo only, and initialize the heads anew."""
    teacher: TeacherConfig | None = None
    """Nets to learn from besides the moves."""

    games: Count | None = None
    """Maximum number of games to train on, chosen by hash, by default all that are not held out."""
    exclude_benchmarks: bool = True
    """Neither train on nor validate with games that share the opening of a game of `kifu evaluate --set`."""
    validation: Below1 = 0.05
    """Share of the games that is held out for validation, unless validation games are given."""
    validation_positions: Count = 20_000
    """Maximum number of positions to validate on, always the same ones."""
    positions: PositionFilter = PositionFilter(programs=False)

    batch_size: Annotated[int, Field(ge=1, le=10**6)] = 128
    """Positions per step, of all processes together."""
    augment: bool = True
    """Apply a random symmetry of the board to each game."""
    window: Count = WINDOW
    """Size of the shuffle window, in positions."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    optimizer: Optimizer
    schedule: Schedule = ConstantSchedule(kind="constant")
    steps: Count | None = None
    epochs: Annotated[int, Field(ge=1, le=10**6)] | None = None
    max_minutes: Positive | None = None
    """The length of the run: steps or epochs, and a time limit, whichever ends it first."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Data type of matrix products; weights are always float32."""
    clip: Positive | None = None
    """Maximum norm of the gradient; longer ones are scaled down."""
    average: Below1 = 0.0
    """Decay of the moving average of the weights (EMA), say 0.999, which is validated and saved. 0: no average."""

    validate_steps: Count | None = None
    validate_minutes: Positive | None = None
    """Interval of validations, by default each epoch. The last one is at the end of the run."""
    patience: Count | None = None
    """The run ends after this number of validations without a lower loss."""
    checkpoint_minutes: Positive = 5.0
    """Interval of checkpoints, besides those after each epoch and at the end."""

    @field_validator("positions", mode="before")
    @classmethod
    def _leave_out_programs(cls, positions: Any) -> Any:
        return {"programs": False, **positions} if isinstance(positions, dict) else positions

    @field_serializer("positions")
    def _dump_positions(self, positions: PositionFilter) -> dict[str, Any]:
        optional = ("min_ply", "max_ply", "where", "weight")
        limits = {name: getattr(positions, name) for name in optional if getattr(positions, name)}
        return {
            "passes": positions.passes,
            "programs": positions.programs,
            "ply_weights": positions.ply_weights,
            "rank_weights": positions.rank_weights,
            "per_game": positions.per_game,
            **limits,
        }

    @model_validator(mode="after")
    def _fits(self) -> TrainingRecipe:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs exclude each other")
        if self.steps is None and self.epochs is None and self.max_minutes is None:
            raise ValueError("one of steps, epochs and max_minutes is required")
        if self.positions.merge_plies:
            raise ValueError("positions.merge_plies is supported by loaders only")
        if self.new_heads and self.net != "katago":
            raise ValueError("new_heads requires net = 'katago'")
        check_inputs(self.inputs)
        if self.random_komi and not ("komi" in self.inputs and "value" in self.heads):
            raise ValueError("random_komi requires the input komi and the head value")
        if bool(self.targets) != ("score" in self.heads) or bool(self.targets) != ("ownership" in self.heads):
            raise ValueError("the heads ownership and score require targets, and these require both heads")
        if self.targets and not self.positions.passes:
            raise ValueError("targets require positions.passes = true")
        if self.targets and self.batch_size % 2:
            raise ValueError(f"targets require an even batch_size, got {self.batch_size}")
        self.encoder()  # raises RecipeError or GameError, which pydantic reports as it does a ValueError
        return self

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the board."""
        return parse_board(self.board)

    @property
    def nets(self) -> tuple[str, ...]:
        """Paths of the nets that the run depends on: the one of `init_from` and the teachers."""
        return (*([self.init_from] if self.init_from else []), *(self.teacher.nets if self.teacher else ()))

    def with_nets_in(self, folder: Path) -> TrainingRecipe:
        """Return the recipe with paths of nets and targets in a folder, not the working directory, where they exist."""

        def locate(path: str) -> str:
            return str(folder / path) if (folder / path).exists() else path

        teacher = self.teacher and self.teacher.model_copy(update={"nets": tuple(map(locate, self.teacher.nets))})
        targets = tuple(map(locate, self.targets))
        return self.model_copy(
            update={"init_from": self.init_from and locate(self.init_from), "teacher": teacher, "targets": targets}
        )

    def encoder(self) -> FrameEncoder:
        """Return the encoder of the planes. Raises RecipeError, GameError."""
        return find_encoder(self.planes, *self.size)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels that the network is trained on, and of those with margins and global inputs."""
        inputs = (inputs_label(self.inputs),) if self.inputs else ()
        margin = ("margin",) if self.random_komi else ()
        sides = ("to_play",) if self.targets else ()
        numbers = ("globals",) if self.encoder().plane_set.inputs else ()
        return ("move", *(_LABELS[head] for head in self.heads), *margin, *sides, *inputs, *numbers)

    def learning_rate(self, done: float, step: int) -> float:
        """Return the learning rate after a share `done` of the run, 0 to 1, and after `step` steps."""
        rate = self.optimizer.lr * self.schedule.scale(done, step)
        return rate / (1 + self.optimizer.decay * step) if isinstance(self.optimizer, SgdConfig) else rate

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON values."""
        return self.model_dump(mode="json")


_LABELS: Mapping[str, str] = {"value": "result", "ownership": "owner", "score": "lead", "next": "next3"}

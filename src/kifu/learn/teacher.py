"""Teachers: nets and engines whose probabilities are learned together with the moves that were played (distillation).

G. Hinton, O. Vinyals and J. Dean 2015, "Distilling the Knowledge in a Neural Network" (arXiv:1503.02531).
"""

from __future__ import annotations

import numpy as np
import torch

from kifu.datasets.torch_data import unpack
from kifu.learn.batch import SoftTargets, TeacherInputs, TeacherPositions, TrainingBatch
from kifu.learn.batch_evaluator import BatchEvaluator, BatchOutput
from kifu.learn.engine_predictor import EnginePredictor
from kifu.learn.net import Net
from kifu.learn.training_games import TrainingGames, open_teachers
from kifu.recipes.training import TrainingRecipe


class Teachers:
    """The teachers of a recipe on one device."""

    def __init__(self, recipe: TrainingRecipe, games: TrainingGames, device: torch.device) -> None:
        """Open the nets and start the engines.

        Raises:
            RecipeError: A net does not fit the recipe, or KataGo does not support the board.
            FormatError: A file is not a net.
            ProcessError: An engine failed.
        """
        assert recipe.teacher is not None
        self._config, self._size, self._passes = recipe.teacher, recipe.size, recipe.positions.passes
        self._teach_value = not recipe.random_komi
        self._games, self._device = games, device
        self._symmetries, self._precision = self._config.symmetries, recipe.precision
        self._evaluators = [self._open(net) for net in open_teachers(recipe)]

    def _open(self, net: Net | str) -> BatchEvaluator | EnginePredictor:
        if isinstance(net, str):
            engine = EnginePredictor(net, symmetries=self._symmetries)
            engine.check_board(*self._size)
            return engine
        return BatchEvaluator(net, device=self._device, symmetries=self._symmetries, precision=self._precision)

    def close(self) -> None:
        """End the engines."""
        for evaluator in self._evaluators:
            if isinstance(evaluator, EnginePredictor):
                evaluator.close()

    def label(self, batch: TrainingBatch) -> TrainingBatch:
        """Return a batch with the soft targets instead of the teachers' inputs.

        The policy is the mean of the teachers' probabilities, raised to the power 1 / temperature and normalized. The
        value is the mean of those teachers that have one. With random komi it is None, because teachers are given the
        komi of the record.
        """
        points = self._size[0] * self._size[1]
        policies, values = [], []
        for teacher, seen in zip(self._evaluators, batch.teachers, strict=True):
            output = self._evaluate(teacher, seen)
            policies.append(output.log_probs[:, : points + self._passes])
            values += [] if output.value is None or not self._teach_value else [output.value]
        log_probs = torch.stack(policies).logsumexp(0)
        value = torch.stack(values).mean(0) if values else None
        soft = SoftTargets((log_probs / self._config.temperature).softmax(1), value)
        return batch._replace(soft=soft, teachers=())

    def _evaluate(
        self, teacher: BatchEvaluator | EnginePredictor, seen: TeacherInputs | TeacherPositions
    ) -> BatchOutput:
        if isinstance(teacher, EnginePredictor):
            assert isinstance(seen, TeacherPositions)
            ids, ply = seen.game.cpu().numpy().view(np.uint64), seen.ply.cpu().numpy()
            found = teacher.predict(self._games.positions(ids, ply), ownership=False)
            policy, value = (torch.from_numpy(each).to(self._device) for each in (found.policy, found.value))
            return BatchOutput(policy.log(), value, None)
        assert isinstance(seen, TeacherInputs)
        planes = seen.planes
        if planes.ndim == 3:
            planes = unpack(planes, *teacher.net.encoder_for(*self._size).shape[1:])
        return teacher.evaluate(planes, seen.globals, *self._size)

"""Teachers: nets whose probabilities are learned together with the moves that were played (distillation).

G. Hinton, O. Vinyals and J. Dean 2015, "Distilling the Knowledge in a Neural Network" (arXiv:1503.02531).
"""

from __future__ import annotations

import torch

from kifu.datasets.torch_data import unpack
from kifu.learn.batch import SoftTargets, TrainingBatch
from kifu.learn.batch_evaluator import BatchEvaluator
from kifu.learn.data import open_teachers
from kifu.recipes.training import TrainingRecipe


class Teachers:
    """The teachers of a recipe on one device."""

    def __init__(self, recipe: TrainingRecipe, device: torch.device) -> None:
        """Open the nets.

        Args:
            recipe: A recipe with teachers.
            device: Device of the networks.

        Raises:
            RecipeError: A net does not fit the recipe.
            FormatError: A file is not a net.
        """
        assert recipe.teacher is not None
        self._config, self._size, self._passes = recipe.teacher, recipe.size, recipe.positions.passes
        self._teach_value = not recipe.random_komi
        self._evaluators = [
            BatchEvaluator(net, device=device, symmetries=self._config.symmetries, precision=recipe.precision)
            for net in open_teachers(recipe)
        ]

    def label(self, batch: TrainingBatch) -> TrainingBatch:
        """Return a batch with the soft targets instead of the teachers' inputs.

        The policy is the mean of the teachers' probabilities, raised to the power 1 / temperature and normalized. The
        value is the mean of those teachers that have one; there is none if komi is random, because teachers are
        given that of the record.
        """
        width, height = self._size
        policies, values = [], []
        for evaluator, (planes, globals_) in zip(self._evaluators, batch.teachers, strict=True):
            if planes.ndim == 3:
                planes = unpack(planes, *evaluator.net.encoder_for(width, height).shape[1:])
            output = evaluator.evaluate(planes, globals_, width, height)
            policies.append(output.log_probs[:, : width * height + self._passes])
            values += [] if output.value is None or not self._teach_value else [output.value]
        log_probs = torch.stack(policies).logsumexp(0)
        value = torch.stack(values).mean(0) if values else None
        soft = SoftTargets((log_probs / self._config.temperature).softmax(1), value)
        return batch._replace(soft=soft, teachers=())

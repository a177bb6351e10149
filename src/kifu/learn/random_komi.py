"""Random komi for training positions, from which the value learns what points are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kifu.corpus._hashes import mix_words
from kifu.datasets.examples import Batch
from kifu.datasets.global_inputs import shift_komi
from kifu.datasets.labels import inputs_label
from kifu.recipes.training import TrainingRecipe


def randomize_komi(batch: Batch, recipe: TrainingRecipe, epoch: int) -> Batch:
    """Return the batch with the komi of each position shifted at random, and the results that follow.

    In records, komi tells who is stronger: with 0.5 points, Black usually is the weaker player, and a net that learns
    from records takes a small komi for an advantage of White. A random komi tells nothing of the players. The result
    of a counted game follows from its margin. The others keep theirs, as if players who resign were too far behind for
    any komi of this range.

    Args:
        batch: Examples with the labels of the recipe.
        recipe: Names the inputs, and the largest shift in points, `random_komi`. Shifts are whole numbers, from
            -random_komi to random_komi with equal probability.
        epoch: Number of the epoch. The seed of the recipe, epoch, game and ply determine the shift of a position.
    """
    inputs, most = inputs_label(recipe.inputs), recipe.random_komi
    start = mix_words(mix_words(np.array([recipe.seed], np.uint64)) + np.uint64(epoch))
    words = mix_words(mix_words(batch.game ^ start) + batch.ply.astype(np.uint64))
    points = (words % np.uint64(2 * most + 1)).astype(np.float32) - np.float32(most)
    values, given = shift_komi(recipe.inputs, batch.labels[inputs], points)
    margin = batch.labels["margin"] + given
    result = np.where(np.isnan(margin), batch.labels["result"], np.sign(np.nan_to_num(margin))).astype(np.int8)
    return replace(batch, labels={**batch.labels, "result": result, inputs: values})

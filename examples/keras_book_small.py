"""Train the small network of "Deep Learning and the Game of Go", chapter 7, in Keras 3, straight from game records.

    pip install 'kifu[learn,keras]'
    kifu ingest archives/ -o games.parquet
    kifu split games.parquet --output sets
    python examples/keras_book_small.py sets/train.parquet sets/test.parquet --output run

As in section 7.3: one plane, softmax and categorical cross-entropy, SGD, batches of 128, five epochs, a checkpoint
after each. Unlike in the book, the test games are not among the training games, so the test accuracy is meaningful.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")  # before Keras is imported; "jax" and "tensorflow" do, too

import keras

import kifu
from kifu.datasets.keras_data import dataset

BATCH = 128


def book_small(planes: int, width: int = 19, height: int = 19) -> keras.Model:
    """Return the network: planes [B, C, H, W] to probabilities [B, H * W] of the next move."""
    layers = [keras.layers.Input((planes, height, width))]
    for filters, size in ((48, 7), (32, 5), (32, 5), (32, 5)):
        # "same" pads with zeros, as the ZeroPadding2D layers of the book do.
        layers.append(
            keras.layers.Conv2D(filters, size, padding="same", activation="relu", data_format="channels_first")
        )
    layers += [
        keras.layers.Flatten(data_format="channels_last"),  # row by row, filter by filter, as the planes are
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(width * height, activation="softmax"),
    ]
    return keras.Sequential(layers)


def train(games: Path, test: Path, into: Path, board: str, epochs: int) -> keras.callbacks.History:
    """Train on `games`, validate on `test` (sources of `kifu.load`), and save the network after each epoch."""
    config = kifu.LoaderConfig(output="float32", augment=False)
    sets = [
        dataset(kifu.load(source, "one-plane", board=board, batch_size=BATCH, config=config))
        for source in (games, test)
    ]
    width, height = map(int, board.split("x"))
    classes = width * height
    model = book_small(1, width, height)
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    # The book's generator. `model.fit(dataset, ...)` needs no number of steps.
    steps = [-(-each.get_num_samples(BATCH, classes) // BATCH) for each in sets]
    into.mkdir(parents=True, exist_ok=True)
    return model.fit(
        sets[0].generate(BATCH, classes), steps_per_epoch=steps[0], epochs=epochs, shuffle=False,  # the loader shuffles
        validation_data=sets[1].generate(BATCH, classes), validation_steps=steps[1],
        callbacks=[keras.callbacks.ModelCheckpoint(into / "small_model_epoch_{epoch}.keras")],
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train the book's small network in Keras.")
    parser.add_argument("games", type=Path, help="games to train on")
    parser.add_argument("test", type=Path, help="games to test with")
    parser.add_argument("--output", type=Path, default=Path("run"), help="folder for the checkpoints")
    parser.add_argument("--board", default="19x19")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args(arguments)
    history = train(options.games, options.test, options.output, options.board, options.epochs).history
    print(f"accuracy on games that were not trained on: {history['val_accuracy'][-1]:.1%}")


if __name__ == "__main__":
    main()

"""Networks that predict the next move: training, evaluation and use. Requires torch: kifu[learn].

File names are defined here so that they can be imported without loading torch.
"""

SUFFIX = ".safetensors"
"""Suffix of a net's file."""

PACKAGED = "small"
"""Name of the net that is packaged with kifu."""

BEST = "best" + SUFFIX
"""File name of the net that is loaded when a run directory is opened as a net."""

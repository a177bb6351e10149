"""Networks that predict the next move: their training, evaluation and use. Needs torch: kifu[learn].

Here stand the names of files, for those who ask before they load torch.
"""

SUFFIX = ".safetensors"
"""Of a net's file."""

BEST = "best" + SUFFIX
"""The net of a run folder that is taken if the folder is named."""

"""What a process of the cluster is asked to do.

These functions are shipped whole, so that a node without kifu, or with another one, can say so itself: nothing of
kifu's is imported before that is known, and what is pickled by its names comes as bytes, to be read only then.
"""

from __future__ import annotations

from typing import Any


def worker_error(version: str, mark: str | None) -> str | None:
    """Why this process cannot work for the caller, if it cannot; as what is said of its node.

    version: the caller's kifu. mark: a file in the folder where results wait, if there is one.
    """
    from pathlib import Path

    try:
        import kifu
        import kifu.execution.ray_worker  # as good a part as any to tell whether it can run here
    except Exception as error:  # whatever is wrong with what is installed there
        reason = str(error).partition("\n")[0]
        return f"cannot load kifu: {type(error).__name__}: {reason}"
    if kifu.__version__ != version:
        return f"has kifu {kifu.__version__}, and the caller {version}"
    if mark is not None and not Path(mark).exists():
        return f"does not see the folder {Path(mark).parent}, which all nodes have to share"
    return None


def make_unit(version: str, mark: str | None, job: bytes, call: bytes) -> tuple[str, Any, str]:
    """Makes a unit. Returns how it ended, what came of it, and the address of the node.

    job, call: as `kifu.execution.ray_worker.make` takes them, whose answers ("made" and "failed") are given on. Another one is
    "unable", with the reason (see `fault`).
    """
    from ray.util import get_node_ip_address

    node = get_node_ip_address()
    reason = worker_error(version, mark)
    if reason is not None:
        return "unable", reason, node
    from kifu.execution.ray_worker import make

    return (*make(job, call), node)

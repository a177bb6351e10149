"""The functions that run on the nodes of a cluster.

They are pickled by value, and import kifu only once it is known to be there in the caller's version, so a node without
it can say so itself. For the same reason, jobs and shards arrive as bytes.
"""

from __future__ import annotations

from typing import Any


def worker_error(version: str, lease: str | None) -> str | None:
    """Return why this process cannot work for the caller, as a statement about its node, or None if it can."""
    from pathlib import Path

    try:
        import kifu

        if kifu.__version__ != version:
            return f"has kifu {kifu.__version__}, and the caller {version}"
        import kifu.execution.ray_worker
    except Exception as error:  # whatever is wrong with the installation there
        reason = str(error).partition("\n")[0]
        return f"cannot load kifu: {type(error).__name__}: {reason}"
    if lease is not None and not Path(lease).exists():
        return f"does not see the folder {Path(lease).parent}, which all nodes have to share"
    return None


def run_shard(version: str, lease: str | None, job: bytes, call: bytes) -> tuple[str, Any, str]:
    """Process a shard.

    Returns:
        ("done", result bytes), ("failed", (error class, message)) as from `kifu.execution.ray_worker.run`, or
        ("unable", reason); in each case followed by the address of the node.
    """
    from ray.util import get_node_ip_address

    node = get_node_ip_address()
    reason = worker_error(version, lease)
    if reason is not None:
        return "unable", reason, node
    from kifu.execution.ray_worker import run

    return (*run(job, call), node)

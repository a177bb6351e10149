"""The same work on many machines: a crew whose units are tasks of Ray."""

import os

# Ray ends a process at once and without a word if its node has died and its parent is init, as a service's is: it takes
# the parent for the node, unless it has read of another by the time it is loaded (2.60.0). This one lives long enough.
os.environ.setdefault("RAY_RAYLET_PID", str(os.getpid()))

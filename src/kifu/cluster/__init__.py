"""The same work on many machines: a crew whose units are tasks of Ray."""

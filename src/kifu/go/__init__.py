"""The rules of Go, boards, and replaying games, compiled with Numba."""

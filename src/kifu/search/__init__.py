"""Search positions, patterns and sequences of moves in catalogues."""

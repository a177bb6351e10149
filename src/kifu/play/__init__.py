"""GTP engine for networks, and matches between GTP programs."""

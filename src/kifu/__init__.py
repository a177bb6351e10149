"""kifu turns Go game records into clean, reproducible training sets."""

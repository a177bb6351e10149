"""Networks that predict the next move: their training, evaluation and use. Needs torch: kifu[learn]."""

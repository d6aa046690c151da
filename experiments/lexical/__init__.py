"""Word similarity before and after training on a lexicon."""

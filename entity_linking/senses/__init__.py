"""Word senses over WordNet: candidates, walks, glosses, and the corpora that test them."""

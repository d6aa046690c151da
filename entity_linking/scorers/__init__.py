"""How well candidates fit: one file a scorer, their mix, and the trained re-ranker."""

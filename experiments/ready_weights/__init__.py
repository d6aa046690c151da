"""Ready weights: how they are trained, from which licensed data, and what they are worth."""

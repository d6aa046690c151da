"""Tasks: their data, heads' inputs, scores."""

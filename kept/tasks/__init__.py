"""Tasks: their kinds, readers of data sets, scores."""

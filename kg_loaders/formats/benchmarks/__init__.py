"""Benchmark folders as they were released: their splits, and the texts beside them."""

"""Metrics as pure functions, each result with its conditions."""

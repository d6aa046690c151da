"""Metrics as pure functions."""

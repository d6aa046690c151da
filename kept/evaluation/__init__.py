"""Evaluation: pure metric functions that carry their conditions with them."""

"""Heads and inputs of downstream tasks."""

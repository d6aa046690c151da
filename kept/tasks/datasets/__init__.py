"""Readers of task files and public collections."""

"""Graphs that grow: what is added to one, and which of its entities are the same."""

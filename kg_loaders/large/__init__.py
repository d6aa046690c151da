"""Graphs that are large: what building them will take, and building them beyond memory."""

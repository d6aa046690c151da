"""Completion of knowledge graphs: triple scorers, networks and texts."""

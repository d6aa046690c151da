"""Completion of knowledge graphs: what answers queries with scorers, paths, networks and texts."""

"""Scorers without a row per entity: what they learn on one graph, they answer on any other."""

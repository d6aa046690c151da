"""Cloze probing: the facts that a model recalls from its weights, or reads from a graph."""

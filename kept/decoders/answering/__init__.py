"""Answers to questions from a graph: which relation is asked about, and the values it has."""

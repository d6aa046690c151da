"""Scorers whose entity vectors a graph network makes."""

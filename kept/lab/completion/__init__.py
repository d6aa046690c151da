"""Completion of word-knowledge graphs and of graphs with new entities."""

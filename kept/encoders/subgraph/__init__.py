"""Encoders that read a text together with a subgraph, by a graph network."""

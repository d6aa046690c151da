"""Encoders: one file a paper. Each takes a `KnowledgeBatch` and returns a `KnowledgeOutput`."""

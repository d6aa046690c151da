"""Completion by two text encoders, one for questions and one for entities: SimKGC."""

"""Dense retrieval: entity cards as vectors, found and scored by a mention's context."""

"""A word-knowledge graph as a picture or a page: where things stand, and how they are drawn."""

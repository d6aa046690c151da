"""Mentions, candidates, links: from text to entities of a knowledge graph."""

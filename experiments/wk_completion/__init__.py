"""Word-knowledge graph completion on LAMA T-REx sentences over a T-REx and CoDEx graph."""

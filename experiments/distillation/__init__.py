"""What is left of an enriched model in a plain host that learned from it."""

"""Training objectives: what a model is asked while it learns."""

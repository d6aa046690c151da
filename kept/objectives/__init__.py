"""Training objectives: what is hidden, and what is asked for."""

"""Completion of unseen entities by text and graph together, over graphs, splits and seeds."""

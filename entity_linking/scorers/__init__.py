"""Scores of candidates: one file per scorer, their mix, and the trained re-ranker."""

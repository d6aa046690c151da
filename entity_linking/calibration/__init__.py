"""Decisions fitted on annotated text, and how far confidence keeps its promise."""

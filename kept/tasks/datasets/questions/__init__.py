"""Readers of files of questions."""

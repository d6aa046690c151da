"""Trainings of scorers that are cut anywhere and go on to the same end."""

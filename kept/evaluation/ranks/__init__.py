"""Places of answers among all candidates."""

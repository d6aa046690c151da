"""Words: which pieces begin one, and words that a generator replaced."""

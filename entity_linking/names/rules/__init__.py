"""Rules about names that need no training data: case, capitals, variants, short forms, words."""

"""Names that are spelled alike, by character n-grams."""

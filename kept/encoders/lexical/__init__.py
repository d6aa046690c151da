"""Encoders of lexical knowledge: joined terms, supersenses, word polarity."""

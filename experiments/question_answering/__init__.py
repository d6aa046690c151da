"""Question answering over a private world: ways of giving a decoder facts, with controls."""

"""Word-knowledge completion and inductive completion."""

"""What is asked: items, where they come from and how their sentences are made."""

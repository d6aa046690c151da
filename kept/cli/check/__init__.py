"""kept check: whether an instrument works before it is read."""

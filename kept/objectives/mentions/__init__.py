"""True and replaced mentions: texts in which some are replaced, and the objective."""

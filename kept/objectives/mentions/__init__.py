"""Whether mentions are the true ones: texts in which some are replaced, and who tells."""

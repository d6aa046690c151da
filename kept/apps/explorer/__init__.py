"""`kept explore`: a page on which a text is linked, read, explained and its facts are changed."""

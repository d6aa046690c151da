"""One table of all scorers of `kept kgc`, over nine graphs, cell by cell."""

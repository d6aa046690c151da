"""The steps from texts and a graph to word-knowledge graphs, each over all texts at once."""

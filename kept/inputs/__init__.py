"""What a model reads: texts, links, graphs, views and batches, and the controls over them."""

"""Speed beside named peers: a script a topic, run one by one by `python -m benchmarks`."""

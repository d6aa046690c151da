"""What the linking experiment stands on: its graph, annotated texts and benchmarks."""

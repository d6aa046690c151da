"""The parts of `python -m benchmarks.gpu`, one file each."""

"""The answers of a run, scored by kept's metrics and by the official ones."""

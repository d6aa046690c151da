"""Studies: what knowledge changes, with controls, seeds and intervals."""

"""From settings to a linker; its index, streams, spaCy, KnowBERT's linker."""

"""One module per format: its records, and the ids it gives."""

"""One module a format: what it yields as records, and the ids it gives."""

"""Joint spaces as ERNIE's vectors."""

"""Models to probe: enriched and plain ones behind one protocol."""

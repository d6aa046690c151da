"""Who is asked: enriched and plain models behind one protocol."""

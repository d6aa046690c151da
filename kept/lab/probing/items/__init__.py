"""Items of probes: their sources and templates."""

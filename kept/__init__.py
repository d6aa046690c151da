"""Knowledge-Enriched Pre-Trained language models."""

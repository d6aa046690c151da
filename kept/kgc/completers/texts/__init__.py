"""Completers that read texts: SimKGC, DKRL, KEPLER and CoLAKE."""

"""KBLaM (Wang et al. 2025): a frozen decoder that reads facts as keys and values beside text."""

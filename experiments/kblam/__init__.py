"""KBLaM on SmolLM2 over a private world: attention, answers and refusals against graph size."""

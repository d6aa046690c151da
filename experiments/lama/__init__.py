"""LAMA: what the host recalls with a trained head, with more text, and with each method."""

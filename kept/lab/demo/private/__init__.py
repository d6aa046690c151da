"""The demo's first chapter: a company that no model has met, whose graph alone knows the answer."""

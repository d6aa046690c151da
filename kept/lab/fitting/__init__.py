"""`kept fit`: from a graph and labelled texts to a model, by the way that works, and a verdict."""

"""Few-shot relation classification, published numbers beside."""

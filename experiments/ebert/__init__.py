"""E-BERT's entity linking on T-REx sentences."""

"""What is read while pre-training."""

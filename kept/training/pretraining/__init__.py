"""Data and configuration of pre-training."""

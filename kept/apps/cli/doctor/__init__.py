"""kept doctor: what is installed, and what a task would need."""

"""What all readers share: lines, their numbers, limits of size and keys."""

"""What a comparison on questions shows: its tables, and the page they stand on."""

"""What a comparison shows: a summary, tables, pictures and the page they stand on."""

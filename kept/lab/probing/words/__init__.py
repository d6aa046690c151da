"""What the places of words in a space hold: analogies, and relations of pairs."""

"""Joint spaces: vectors of words and entities, learned from linked text and a graph together."""

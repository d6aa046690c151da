"""Entity linking on five benchmarks over a graph of shared Wikidata labels and facts."""

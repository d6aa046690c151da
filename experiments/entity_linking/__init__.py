"""Entity linking on five benchmarks over a graph of Wikidata's labels and facts."""

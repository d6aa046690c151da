"""Word sense disambiguation on SemEval-2013 and -2015: first sense, PageRank, glosses, a mix."""

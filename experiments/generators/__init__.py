"""LRLM, KGLM and Guan et al. in small: perplexity with facts, with others' facts, and without."""

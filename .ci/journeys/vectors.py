"""Vectors of kept in a scikit-learn pipeline, and entities of a graph in spaCy."""

from __future__ import annotations

import sys

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from kept.apps.integrations.sklearn_vectors import KnowledgeVectors

TEXTS = ["a good film", "a fine film", "a bad film", "a poor film"]
pipeline = make_pipeline(KnowledgeVectors("minilm"), LogisticRegression())
print("scikit-learn:", pipeline.fit(TEXTS, [1, 1, 0, 0]).predict(["a fine day"]).tolist())

try:
    import spacy
except ImportError:
    print("spaCy: skipped, pip install 'kept[spacy]'")
else:
    from kg_loaders import KnowledgeGraph

    name = KnowledgeGraph.open(sys.argv[1]).label(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("kept_linker", config={"kg": sys.argv[1], "typed": True})
    print("spaCy:", [(ent.text, ent.kb_id_) for ent in nlp(f"We met {name} today.").ents])

"""`atlas_stream.py WORKERS` prints a hash of real batches: linked, joined, masked, sampled."""

from __future__ import annotations

import sys

from stream_toy import stream_hash

from entity_linking import DictionaryLinker
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import CoLAKEView
from kept.hosts import load_tokenizer
from kept.pretraining.data import WordGraphData
from kg_loaders import atlas


def atlas_data() -> WordGraphData:
    graph, tokenizer = atlas.graph(), load_tokenizer("minilm")
    texts = DictionaryLinker(graph).link([s.text for s in atlas.sentences("valid")])
    builder = BuilderConfig(max_neighbours=4, max_words=48)
    return WordGraphData(
        texts, graph, tokenizer, builder=builder, view=CoLAKEView(), objectives={"masked_nodes": {}}
    )


if __name__ == "__main__":
    print(stream_hash(int(sys.argv[1]), atlas_data()))  # noqa: T201  # the test reads it

"""Real batches: linked, joined, masked, sampled.

As a script: prints the hash of the toy's stream with two workers, then of this one with one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kept.training.stream_toy import stream_hash

if TYPE_CHECKING:
    from kept.training.pretraining.data import WordGraphData


def atlas_data() -> WordGraphData:
    """Its imports stand here: spawned workers import this file, those of the toy need none."""
    from entity_linking import DictionaryLinker
    from kept.graphs.builder import BuilderConfig
    from kept.graphs.views import CoLAKEView
    from kept.hosts import load_tokenizer
    from kept.training.pretraining.data import WordGraphData
    from kg_loaders import atlas

    graph, tokenizer = atlas.graph(), load_tokenizer("minilm")
    texts = DictionaryLinker(graph).link([s.text for s in atlas.sentences("valid")])
    builder = BuilderConfig(max_neighbours=4, max_words=48)
    return WordGraphData(
        texts, graph, tokenizer, builder=builder, view=CoLAKEView(), objectives={"masked_nodes": {}}
    )


if __name__ == "__main__":
    print(stream_hash(2), stream_hash(1, atlas_data()))  # noqa: T201  # the test reads it

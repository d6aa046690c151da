"""`atlas_stream.py WORKERS` prints a hash of real batches: linked, joined, masked, sampled."""

from __future__ import annotations

import sys

from stream_toy import stream_hash

from entity_linking import DictionaryLinker
from kept.batches import N_SPECIAL_ROWS
from kept.graphs.builder import BuilderConfig
from kept.hosts import load_tokenizer
from kept.objectives.masking import MaskingConfig
from kept.training.wordgraphs import WordGraphData
from kg_loaders import atlas


def atlas_data() -> WordGraphData:
    graph, tokenizer = atlas.graph(), load_tokenizer("minilm")
    texts = DictionaryLinker(graph).link([s.text for s in atlas.sentences("valid")])
    masking = MaskingConfig(
        word_mask_id=tokenizer.mask_token_id,
        n_words=len(tokenizer),
        n_entities=graph.n_entities + N_SPECIAL_ROWS,
        n_relations=graph.n_relations + N_SPECIAL_ROWS,
        special_word_ids=tuple(sorted(tokenizer.all_special_ids)),
    )
    builder = BuilderConfig(max_neighbours=4, max_words=48)
    return WordGraphData(texts, graph, tokenizer, builder=builder, masking=masking)


if __name__ == "__main__":
    print(stream_hash(int(sys.argv[1]), atlas_data()))  # noqa: T201  # the test reads it

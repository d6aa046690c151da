"""The shipped world as a word-knowledge completion task."""

from __future__ import annotations

from collections.abc import Iterable

from entity_linking import RelationExample
from kept.completion.compare import CompletionConfig
from kept.completion.split import CompletionSplit, split_examples
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, atlas


def atlas_split(
    graph: KnowledgeGraph, examples: Iterable[RelationExample], config: CompletionConfig
) -> CompletionSplit:
    """The split of `config`; unseen heads are those that the atlas reserves."""
    return split_examples(
        list(examples),
        graph,
        n_valid=config.n_valid,
        n_transductive=config.n_transductive,
        n_inductive=config.n_inductive,
        inductive_heads=atlas.splits().inductive_entities,
        generator=generator(config.seed, "split"),
        max_sentences_per_fact=config.max_sentences_per_fact,
    )

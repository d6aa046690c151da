"""The shipped world as a word-knowledge completion task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from entity_linking import LinkedText, Mention, RelationExample, gold_link
from kept.completion.compare import CompletionConfig
from kept.completion.split import CompletionSplit, split_examples
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, atlas


def linked_texts(sentences: Iterable[atlas.AtlasSentence]) -> list[LinkedText]:
    """Sentences with their gold links."""
    return [
        LinkedText(s.text, tuple(gold_link(*mention) for mention in sorted(s.mentions)), s.id)
        for s in sentences
    ]


def atlas_examples(sentences: Iterable[atlas.AtlasSentence]) -> Iterator[RelationExample]:
    """One example for each fact that a sentence states and whose ends it mentions once each."""
    sentences = list(sentences)
    for sentence, linked in zip(sentences, linked_texts(sentences), strict=True):
        places: dict[str, list[Mention]] = {}
        for start, end, entity in sentence.mentions:
            places.setdefault(entity, []).append(Mention(start, end))
        for head, relation, tail in sentence.facts:
            ends = (places.get(head, []), places.get(tail, []))
            if head != tail and all(len(found) == 1 for found in ends):
                yield RelationExample(linked, head, relation, tail, ends[0][0], ends[1][0])


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

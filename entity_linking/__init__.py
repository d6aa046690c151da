"""Mentions, candidates, links: from text to entities of a knowledge graph."""

from typing import TYPE_CHECKING, Any

from entity_linking.alignment import AlignedText, LostLink, align, align_batch, pieces_of
from entity_linking.annotations import (
    TypedText,
    TypingExample,
    gold_link,
    read_elevant,
    read_elevant_typed,
    read_jsonl,
    read_tagme,
    write_jsonl,
)
from entity_linking.annotations.relations import (
    RelationExample,
    read_fewrel,
    read_trex,
    read_wiki80,
)
from entity_linking.errors import AlignmentError, LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText, Linker, Mention
from entity_linking.scoring import LinkScore, SpanScore, score_links, score_spans

if TYPE_CHECKING:
    from entity_linking.dictionary import DictionaryLinker

__all__ = [
    "AlignedText",
    "AlignmentError",
    "Candidate",
    "DictionaryLinker",
    "Link",
    "LinkScore",
    "LinkedText",
    "Linker",
    "LinkingError",
    "LostLink",
    "Mention",
    "RelationExample",
    "SpanScore",
    "TypedText",
    "TypingExample",
    "align",
    "align_batch",
    "gold_link",
    "pieces_of",
    "read_elevant",
    "read_elevant_typed",
    "read_fewrel",
    "read_jsonl",
    "read_tagme",
    "read_trex",
    "read_wiki80",
    "score_links",
    "score_spans",
    "write_jsonl",
]


def __getattr__(name: str) -> Any:
    if name == "DictionaryLinker":  # its parts read this package
        from entity_linking.dictionary import DictionaryLinker

        return DictionaryLinker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

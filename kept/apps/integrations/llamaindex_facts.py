"""`KeptNodeRetriever`: facts of the entities that a question names, as LlamaIndex's nodes."""

from __future__ import annotations

from typing import Any

from kept.apps.integrations.linked_facts import LinkedFact, LinkedFacts
from kept.errors import MissingExtraError

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingExtraError(
        "a retriever of LlamaIndex needs its core: pip install 'kept[llama-index]'"
    ) from error


class KeptNodeRetriever(BaseRetriever):  # type: ignore[misc]
    """A `BaseRetriever` over `facts`: `retrieve`, `aretrieve`, and a part of any query engine.

    A node's text is the fact in words, its id the triple by identifiers, and its metadata those of
    `LinkedFact`, which are not part of what a model reads.

    >>> from kept import atlas
    >>> retriever = KeptNodeRetriever(LinkedFacts(atlas.graph(), most=1))
    >>> [node.text for node in retriever.retrieve("Where does the Seine flow?")]
    ['The country of Seine is France.']
    """

    def __init__(self, facts: LinkedFacts, **options: Any) -> None:
        super().__init__(**options)
        self._facts = facts

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        (facts,) = self._facts.of([query_bundle.query_str])
        return [NodeWithScore(node=_node(fact), score=fact.score) for fact in facts]


def _node(fact: LinkedFact) -> Any:
    keys = list(fact.metadata)
    return TextNode(
        text=fact.text,
        id_=fact.id,
        metadata=fact.metadata,
        excluded_llm_metadata_keys=keys,
        excluded_embed_metadata_keys=keys,
    )

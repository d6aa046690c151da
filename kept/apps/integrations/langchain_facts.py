"""`KeptRetriever`: facts of the entities that a question names, as LangChain's documents."""

from __future__ import annotations

from typing import Any

from kept.apps.integrations.linked_facts import LinkedFact, LinkedFacts
from kept.errors import MissingExtraError

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError as error:
    raise MissingExtraError(
        "a retriever of LangChain needs its core: pip install 'kept[langchain]'"
    ) from error


class KeptRetriever(BaseRetriever):  # type: ignore[misc]
    """A `BaseRetriever` over `facts`: `invoke`, `batch`, `ainvoke`, and a step of any chain.

    A document's text is the fact in words, its id the triple by identifiers, and its metadata
    those of `LinkedFact` with `score`.

    >>> from kept import atlas
    >>> retriever = KeptRetriever(facts=LinkedFacts(atlas.graph(), most=1))
    >>> [document.page_content for document in retriever.invoke("Where does the Seine flow?")]
    ['The country of Seine is France.']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    facts: LinkedFacts

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        del run_manager
        (facts,) = self.facts.of([query])
        return [_document(fact) for fact in facts]


def _document(fact: LinkedFact) -> Any:
    metadata = {**fact.metadata, "score": fact.score}
    return Document(page_content=fact.text, id=fact.id, metadata=metadata)

"""Facts of linked entities, alone and as retrievers of LangChain and LlamaIndex."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import sys
from typing import Any

import numpy as np
import pytest
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from numpy.typing import NDArray

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.apps.integrations.langchain_facts import KeptRetriever
from kept.apps.integrations.linked_facts import LinkedFacts
from kept.apps.integrations.llamaindex_facts import KeptNodeRetriever
from kept.errors import ConfigError, MissingExtraError
from kg_loaders import KnowledgeGraph

ROWS = [
    ("Q90", "P17", "Q142"), ("Q1471", "P17", "Q142"), ("Q1471", "P206", "Q90"),
    ("Q64", "P17", "Q183"),
]  # fmt: skip
LABELS = {
    "Q90": "Paris", "Q142": "France", "Q1471": "Seine", "Q64": "Berlin", "Q183": "Germany",
    "P17": "country", "P206": "river of",
}  # fmt: skip
QUESTION = "Does the Seine reach Paris?"
SEINE = [
    "The country of Seine is France.", "Seine river of Paris.",
    "The country of Paris is France.",
]  # fmt: skip


class Words:
    """A `SentenceEncoder` of words: texts that share them are alike."""

    name, width = "words", 64

    def encode(self, texts: Any) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.width), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().strip("?.").split():
                row[sum(map(ord, word)) % self.width] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Half:
    """A `Linker` that is half as sure of Paris."""

    def link(self, texts: Any) -> list[LinkedText]:
        return [self._linked(text) for text in texts]

    def _linked(self, text: str) -> LinkedText:
        links = [
            Link(Mention(at, at + len(name)), (Candidate(entity, 1.0, 1.0),), entity, sure)
            for name, entity, sure in (
                ("Seine", "Q1471", 0.8), ("Paris", "Q90", 0.4), ("Oz", "Q0", 1.0),
                ("nobody", None, 1.0),
            )
            if (at := text.find(name)) >= 0
        ]  # fmt: skip
        return LinkedText(text, tuple(sorted(links, key=lambda link: link.start)))


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(ROWS, LABELS)


# ---- facts ---------------------------------------------------------------------------------------
def test_facts_of_the_entities_that_a_text_names(graph: KnowledgeGraph) -> None:
    facts = LinkedFacts(graph, linker=Half())
    first, second, third = facts.of([QUESTION, "nobody in Oz", "Paris"])
    assert [(fact.text, fact.score) for fact in first] == [
        (SEINE[0], 0.8), (SEINE[1], 0.8), (SEINE[2], 0.4)
    ]  # fmt: skip
    assert second == []
    assert [fact.text for fact in third] == [SEINE[2], SEINE[1]]
    assert first[1].metadata == {
        "id": "Q1471\tP206\tQ90", "head": "Q1471", "relation": "P206", "tail": "Q90",
        "head_label": "Seine", "relation_label": "river of", "tail_label": "Paris",
        "entity": "Q1471", "mention": "Seine", "start": 9, "end": 14, "confidence": 0.8,
    }  # fmt: skip
    assert len({fact.id for fact in first}) == 3


def test_an_encoder_orders_them(graph: KnowledgeGraph) -> None:
    facts = LinkedFacts(graph, linker=Half(), encoder=Words(), most=2)
    (facts_of_text,) = facts.of(["Is France the country of Paris ?"])
    assert [fact.text for fact in facts_of_text] == [SEINE[2], SEINE[1]]
    vectors = Words().encode(["Is France the country of Paris ?", SEINE[2]])
    assert facts_of_text[0].score == pytest.approx(0.4 * (1 + vectors[0] @ vectors[1]) / 2)
    assert facts_of_text[0].score > facts_of_text[1].score


def test_most_and_directions(graph: KnowledgeGraph) -> None:
    out = LinkedFacts(graph, linker=Half(), directions="out", most=1)
    assert [fact.text for fact in out.of(["Paris"])[0]] == [SEINE[2]]
    for options in ({"most": 0}, {"directions": "in"}):
        with pytest.raises(ConfigError, match=r"most is 0|directions 'in'"):
            LinkedFacts(graph, **options)


def test_names_are_linked_without_a_linker(graph: KnowledgeGraph) -> None:
    (facts_of_text,) = LinkedFacts(graph).of(["Berlin"])
    assert [fact.text for fact in facts_of_text] == ["The country of Berlin is Germany."]


# ---- LangChain -----------------------------------------------------------------------------------
def test_langchain(graph: KnowledgeGraph) -> None:
    retriever = KeptRetriever(facts=LinkedFacts(graph, linker=Half()))
    documents = retriever.invoke(QUESTION)
    assert [document.page_content for document in documents] == SEINE
    assert [document.metadata["score"] for document in documents] == [0.8, 0.8, 0.4]
    assert documents[0].id == "Q1471\tP17\tQ142"
    assert [len(each) for each in retriever.batch([QUESTION, "Oz"])] == [3, 0]
    assert asyncio.run(retriever.ainvoke(QUESTION)) == documents
    assert asyncio.run(retriever.abatch([QUESTION, "Oz"])) == [documents, []]
    chain = retriever | RunnableLambda(
        lambda documents: " ".join(d.page_content for d in documents)
    )
    assert chain.invoke(QUESTION) == " ".join(SEINE)


# ---- LlamaIndex ----------------------------------------------------------------------------------
def test_llamaindex(graph: KnowledgeGraph) -> None:
    retriever = KeptNodeRetriever(LinkedFacts(graph, linker=Half()))
    nodes = retriever.retrieve(QUESTION)
    assert [node.text for node in nodes] == SEINE
    assert [node.score for node in nodes] == [0.8, 0.8, 0.4]
    assert nodes[1].node_id == "Q1471\tP206\tQ90"
    assert nodes[1].metadata["relation_label"] == "river of"
    assert nodes[1].get_content("llm") == nodes[1].get_content("embed") == SEINE[1]
    again = asyncio.run(retriever.aretrieve(QUESTION))
    assert [node.text for node in again] == SEINE
    synthesizer = get_response_synthesizer(llm=MockLLM())  # which answers with its prompt
    answer = RetrieverQueryEngine(retriever, response_synthesizer=synthesizer).query(QUESTION)
    assert [node.text for node in answer.source_nodes] == SEINE
    assert all(fact in str(answer) for fact in SEINE)
    assert "confidence" not in str(answer)


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("langchain_facts", "langchain_core", "langchain"),
        ("llamaindex_facts", "llama_index", "llama-index"),
        ("sentence_module", "sentence_transformers", "sentence-transformers"),
    ],
)
def test_without_the_library_the_error_names_the_extra(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"kept.apps.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == library:
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=rf"pip install 'kept\[{extra}\]'"):
        importlib.import_module(name)

"""A retriever of LangChain: the facts of the entities that a question names."""

from kept import atlas
from kept.apps.integrations.langchain_facts import KeptRetriever
from kept.apps.integrations.linked_facts import LinkedFacts
from kept.linking.index import load_encoder

facts = LinkedFacts(atlas.graph(), encoder=load_encoder("minilm"), most=3)
retriever = KeptRetriever(facts=facts)
for document in retriever.invoke("Which country is Lyon in?"):
    print(f"{document.metadata['score']:.2f}", document.page_content)

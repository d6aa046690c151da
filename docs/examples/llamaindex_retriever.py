"""A retriever of LlamaIndex: the facts of the entities that a question names."""

from kept import atlas
from kept.apps.integrations.linked_facts import LinkedFacts
from kept.apps.integrations.llamaindex_facts import KeptNodeRetriever
from kept.linking.index import load_encoder

facts = LinkedFacts(atlas.graph(), encoder=load_encoder("minilm"), most=3)
for node in KeptNodeRetriever(facts).retrieve("Which country is Lyon in?"):
    print(f"{node.score:.2f}", node.text)

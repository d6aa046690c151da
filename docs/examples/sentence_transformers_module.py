"""sentence-transformers encodes linked texts with the facts of their entities."""

from sentence_transformers import SentenceTransformer

from kept import AutoEncoder, atlas
from kept.apps.integrations.sentence_module import KnowledgeSentences

kg = atlas.graph()
encoder = AutoEncoder.from_host("kbert", "minilm", kg)
model = SentenceTransformer(modules=[KnowledgeSentences(encoder, kg)])
model.save("model")
again = SentenceTransformer("model", trust_remote_code=True)
vectors = again.encode(["The Seine flows through Paris.", "Berlin lies on the Spree."])
print(again.similarity(vectors, vectors).shape, "similarities of vectors", vectors.shape)

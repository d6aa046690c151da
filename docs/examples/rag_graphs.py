"""A graph of kept for LightRAG and for GraphRAG, and back: the same graph."""

from kept import atlas
from kg_loaders import load
from kg_loaders.export import export

graph = atlas.graph()
export(graph, "graph_chunk_entity_relation.graphml", to="lightrag")
export(graph, "output", to="graphrag")
for path in ("graph_chunk_entity_relation.graphml", "output"):
    again, _ = load([path])
    print(path, again.content_hash == graph.content_hash)

"""Knowledge-Enriched Pre-Trained: your knowledge graph in your language model.

The everyday names; each is imported when it is first used, so `import kept` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entity_linking import DictionaryLinker, LinkedText
    from kept.auto import AutoEncoder
    from kept.batches import KnowledgeBatch
    from kept.datasets.example import question
    from kept.encoders.colake import CoLAKE
    from kept.finetuning.predictor import Predictor
    from kept.fitting.python import fit
    from kept.graphs.builder import BuilderConfig, build
    from kept.graphs.drawing.draw import draw_html
    from kept.graphs.exchange import kg_to_dgl, kg_to_networkx, kg_to_pandas, kg_to_pyg
    from kept.graphs.views import colake_view
    from kept.hosts import load_host, load_tokenizer
    from kept.objectives.model import KnowledgeForPreTraining
    from kept.outputs import KnowledgeOutput
    from kept.randomness import generator
    from kg_loaders import KnowledgeGraph, atlas

_PLACES = {
    "AutoEncoder": "kept.auto",
    "BuilderConfig": "kept.graphs.builder",
    "CoLAKE": "kept.encoders.colake",
    "DictionaryLinker": "entity_linking",
    "KnowledgeBatch": "kept.batches",
    "KnowledgeForPreTraining": "kept.objectives.model",
    "KnowledgeGraph": "kg_loaders",
    "KnowledgeOutput": "kept.outputs",
    "LinkedText": "entity_linking",
    "Predictor": "kept.finetuning.predictor",
    "atlas": "kg_loaders",
    "build": "kept.graphs.builder",
    "colake_view": "kept.graphs.views",
    "draw_html": "kept.graphs.drawing.draw",
    "fit": "kept.fitting.python",
    "generator": "kept.randomness",
    "kg_to_dgl": "kept.graphs.exchange",
    "kg_to_networkx": "kept.graphs.exchange",
    "kg_to_pandas": "kept.graphs.exchange",
    "kg_to_pyg": "kept.graphs.exchange",
    "load_host": "kept.hosts",
    "load_tokenizer": "kept.hosts",
    "question": "kept.datasets.example",
}

__all__ = [
    "AutoEncoder",
    "BuilderConfig",
    "CoLAKE",
    "DictionaryLinker",
    "KnowledgeBatch",
    "KnowledgeForPreTraining",
    "KnowledgeGraph",
    "KnowledgeOutput",
    "LinkedText",
    "Predictor",
    "atlas",
    "build",
    "colake_view",
    "draw_html",
    "fit",
    "generator",
    "kg_to_dgl",
    "kg_to_networkx",
    "kg_to_pandas",
    "kg_to_pyg",
    "load_host",
    "load_tokenizer",
    "question",
]


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("kept")
    if name not in _PLACES:
        raise AttributeError(f"module 'kept' has no attribute {name!r}")
    place = import_module(_PLACES[name])
    return import_module("kg_loaders.atlas") if name == "atlas" else getattr(place, name)

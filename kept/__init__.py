"""Knowledge-Enriched Pre-Trained: your knowledge graph in your language model.

The everyday names; each is imported when it is first used, so `import kept` is quick. Commands of
`kept` are functions here with the same options: `kept.finetune`, `kept.compare` and so on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entity_linking import DictionaryLinker, LinkedText
    from kept.apps.commands import ask, compare, complete, finetune, fit, predict, pretrain, probe
    from kept.apps.explorer.live import explore
    from kept.apps.texts import build, link, show
    from kept.auto import AutoEncoder
    from kept.batches import KnowledgeBatch
    from kept.encoders.colake import CoLAKE
    from kept.graphs.builder import BuilderConfig
    from kept.graphs.drawing.draw import draw_html
    from kept.graphs.exchange import kg_to_dgl, kg_to_networkx, kg_to_pandas, kg_to_pyg
    from kept.graphs.views import colake_view
    from kept.hosts import load_host, load_tokenizer
    from kept.objectives.model import KnowledgeForPreTraining
    from kept.outputs import KnowledgeOutput
    from kept.randomness import generator
    from kept.results import Result
    from kept.tasks.datasets.example import question
    from kept.training.finetuning.predictor import Predictor
    from kg_loaders import Entity, KnowledgeGraph, atlas
    from kg_loaders import open_graph as open

_PLACES = {
    "AutoEncoder": "kept.auto",
    "BuilderConfig": "kept.graphs.builder",
    "CoLAKE": "kept.encoders.colake",
    "DictionaryLinker": "entity_linking",
    "Entity": "kg_loaders",
    "KnowledgeBatch": "kept.batches",
    "KnowledgeForPreTraining": "kept.objectives.model",
    "KnowledgeGraph": "kg_loaders",
    "KnowledgeOutput": "kept.outputs",
    "LinkedText": "entity_linking",
    "Predictor": "kept.training.finetuning.predictor",
    "Result": "kept.results",
    "ask": "kept.apps.commands",
    "atlas": "kg_loaders.atlas",
    "build": "kept.apps.texts",
    "colake_view": "kept.graphs.views",
    "compare": "kept.apps.commands",
    "complete": "kept.apps.commands",
    "draw_html": "kept.graphs.drawing.draw",
    "explore": "kept.apps.explorer.live",
    "finetune": "kept.apps.commands",
    "fit": "kept.apps.commands",
    "generator": "kept.randomness",
    "kg_to_dgl": "kept.graphs.exchange",
    "kg_to_networkx": "kept.graphs.exchange",
    "kg_to_pandas": "kept.graphs.exchange",
    "kg_to_pyg": "kept.graphs.exchange",
    "link": "kept.apps.texts",
    "load_host": "kept.hosts",
    "load_tokenizer": "kept.hosts",
    "open": "kg_loaders",
    "predict": "kept.apps.commands",
    "pretrain": "kept.apps.commands",
    "probe": "kept.apps.commands",
    "question": "kept.tasks.datasets.example",
    "show": "kept.apps.texts",
}
_OTHER_NAMES = {"open": "open_graph"}
"""Names here that the module has under another one."""

_OTHER_LIBRARIES = {
    "load": "open", "read": "open", "graph": "KnowledgeGraph", "kg": "KnowledgeGraph",
    "train": "fit", "answer": "ask", "draw": "show", "plot": "show", "model": "AutoEncoder",
    "automodel": "AutoEncoder", "linker": "DictionaryLinker",
}  # fmt: skip
"""What other libraries call it, in lower case."""

__all__ = [
    "AutoEncoder",
    "BuilderConfig",
    "CoLAKE",
    "DictionaryLinker",
    "Entity",
    "KnowledgeBatch",
    "KnowledgeForPreTraining",
    "KnowledgeGraph",
    "KnowledgeOutput",
    "LinkedText",
    "Predictor",
    "Result",
    "ask",
    "atlas",
    "build",
    "colake_view",
    "compare",
    "complete",
    "draw_html",
    "explore",
    "finetune",
    "fit",
    "generator",
    "kg_to_dgl",
    "kg_to_networkx",
    "kg_to_pandas",
    "kg_to_pyg",
    "link",
    "load_host",
    "load_tokenizer",
    "open",
    "predict",
    "pretrain",
    "probe",
    "question",
    "show",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("kept")
    if name not in _PLACES:
        from kg_loaders.spelling import did_you_mean

        other = _OTHER_LIBRARIES.get(name.lower())
        hint = f"; did you mean {other}?" if other else did_you_mean(name, __all__)
        raise AttributeError(f"module 'kept' has no attribute {name!r}{hint}")
    module = import_module(_PLACES[name])
    value = module if name == "atlas" else getattr(module, _OTHER_NAMES.get(name, name))
    globals()[name] = value  # a submodule of this name, imported later, would hide the function
    return value

"""Released checkpoints of all originals, written here with made-up weights in their layouts."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LukeConfig, LukeForMaskedLM, RobertaConfig, RobertaModel

from kept.convert import (
    colake,
    ernie,
    greaselm,
    kadapter,
    kbert,
    kepler,
    knowbert,
    luke,
    qagnn,
)
from kept.convert.tables import to_original
from kept.encoders.base import KnowledgeModel
from kept.encoders.kepler import KEPLERConfig
from kept.encoders.knowbert import KnowBERTConfig
from kept.encoders.subgraph.greaselm import GreaseLMConfig
from kept.encoders.subgraph.qagnn import QAGNNConfig
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import CHOICE
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

GOLDEN = Path(__file__).parents[2] / "golden"
"""The committed weights; the conftest of this folder sets the folder that --golden names."""
SIZES = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 34,
}  # fmt: skip
SPECIAL = {"<unk>": 0, "<pad>": 1, "<mask>": 2}
ERNIE_SETTINGS = SIZES | {
    "num_hidden_layers": 3, "type_vocab_size": 2, "hidden_act": "gelu",
    "layer_types": ["mix", "norm"],
}  # fmt: skip
ERNIE_VECTORS = torch.arange(300, dtype=torch.float32).view(3, 100) / 7
KEPLER_HEADS = ("wiki", "a second")
KEPLER_ARGS = {
    "encoder_attention_heads": 2, "activation_fn": "gelu", "dropout": 0.2, "gamma": 9.0,
    "tokens_per_sample": 32, "negative_sample_size": 3, "ke_head_name": KEPLER_HEADS[0],
    "relation_desc": True, "arch": "roberta_base", "data": ["a", "b"],
}  # fmt: skip
KNOWBERT_NAMES = {
    "wiki": ["@@UNKNOWN@@", "Paris", "Q64", "Elsewhere", "@@MASK@@", "@@NULL@@"],
    "wordnet": ["@@UNKNOWN@@", "cat.n.01", "@@MASK@@", "@@NULL@@", "dog.n.01"],
}
_KAR = {
    "width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6, "n_layers": 2,
    "projection": "original",
}  # fmt: skip


@dataclass(frozen=True)
class Release:
    """`path` goes to the converter; `state` are the original's weights.

    `options` are those without which a file so small cannot be read; `for_graph` bring the rows of
    `kg` (of methods whose rows follow a graph). `back` is the way to the original's names and
    `poison` writes other bytes in the place of the weights. `view`: options that encoding needs.
    """

    path: Path
    state: Mapping[str, Tensor]
    model: type[KnowledgeModel]
    back: Callable[[KnowledgeModel], dict[str, Tensor]]
    poison: Callable[[bytes], object]
    options: Mapping[str, Any] = field(default_factory=dict)
    for_graph: Mapping[str, Any] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)


def seeded(make: Callable[[], Any]) -> Any:
    """What `make` returns, always the same, without moving the random state of the suite."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


def pickled(value: Any) -> bytes:
    """As torch saves it."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


# ---- CoLAKE ---------------------------------------------------------------------------------
def colake_release(folder: Path, graph: KnowledgeGraph) -> dict[str, Tensor]:
    """A release whose vocabularies list the graph's names backwards, and one more."""
    names = [*list(graph.entities)[::-1], "Q-other"]
    relations = list(graph.relations)[::-1]
    config = colake.original_config(
        host=SIZES | {"type_vocab_size": 3}, n_entities=len(names), n_relations=len(relations)
    )

    def make() -> KnowledgeForPreTraining:
        model = KnowledgeForPreTraining(config)
        torch.nn.init.normal_(model.objectives["masked_nodes"].relation_bias)
        return model

    state = colake_back(seeded(make))
    table = state.pop("entity_embeddings")
    folder.mkdir(exist_ok=True)
    torch.save(state, folder / "model.bin")
    np.save(folder / "entities.npy", table.numpy())
    vocabularies = ((colake.ENTITY_VOCABULARY, names), (colake.RELATION_VOCABULARY, relations))
    for file, listed in vocabularies:
        ids = SPECIAL | {name: i + 3 for i, name in enumerate(listed)}
        (folder / file).write_bytes(pickle.dumps(ids, protocol=3))
    return state | {"entity_embeddings": table}


def colake_back(model: KnowledgeModel) -> dict[str, Tensor]:
    return copied(to_original(model.state_dict(), colake.PRETRAINING, colake.PRETRAINING_TIED))


# ---- ERNIE ----------------------------------------------------------------------------------
def ernie_release(folder: Path) -> dict[str, Tensor]:
    """A folder as the original ships it, with the old names of LayerNorm."""
    config = ernie.original_config(ERNIE_SETTINGS, n_entities=3)
    state = ernie_back(seeded(lambda: KnowledgeForPreTraining(config)))
    parts = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
    old = {}
    for name, value in state.items():
        for new, former in parts:
            name = name.replace(new, former)
        old[name] = value
    assert len(old) == len(state)
    torch.save(old, folder / ernie.WEIGHTS)
    (folder / ernie.CONFIG).write_text(json.dumps(ERNIE_SETTINGS))
    (folder / ernie.NAMES).write_text("3\nQ64\t2\nQ-other\t1\nQ90\t0\n")
    lines = ["\t".join(map(repr, row)) + "\t\n" for row in ERNIE_VECTORS.tolist()]
    (folder / ernie.NUMBERS).write_text("".join(lines))
    return state


def ernie_back(model: KnowledgeModel) -> dict[str, Tensor]:
    """Entity vectors are a file of numbers beside the weights."""
    state = {k: v for k, v in model.state_dict().items() if k != ernie.VECTORS}
    return copied(to_original(state, ernie.pretraining_rules(model.config.layer_types), ernie.TIED))


# ---- K-Adapter ------------------------------------------------------------------------------
def kadapter_host(folder: Path) -> str:
    """A RoBERTa with the golden sizes and weights of its own."""
    config = RobertaConfig(
        vocab_size=110, hidden_size=48, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=40, type_vocab_size=1, layer_norm_eps=1e-5,
    )  # fmt: skip
    seeded(lambda: RobertaModel(config)).save_pretrained(folder)
    return str(folder)


def kadapter_state(prefix: str = "fac.") -> dict[str, Tensor]:
    """One adapter of the golden weights, named as in a released file."""
    state = load_file(GOLDEN / "kadapter/state_dict.safetensors")
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def kadapter_back(model: KnowledgeModel) -> dict[str, Tensor]:
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("encoder.host.")}
    return copied(to_original(state, kadapter.pretraining_rules("factual", 2)))


# ---- K-BERT ---------------------------------------------------------------------------------
def kbert_back(model: KnowledgeModel) -> dict[str, Tensor]:
    n_layers = model.config.host.num_hidden_layers
    return copied(to_original(model.state_dict(), kbert.task_rules(n_layers, kbert.CLASSIFIER)))


# ---- KEPLER ---------------------------------------------------------------------------------
def kepler_state(n_relations: int = 7) -> dict[str, Tensor]:
    """A state dict as fairseq names it."""
    host = SIZES | {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1}
    task = {"n_relations": n_relations, "gamma": 3.75, "relation_range": 0.1}
    config = KEPLERConfig(host=host, objectives={"mlm": {}, "ke": task, "ke2": task})

    def make() -> KnowledgeForPreTraining:
        model = KnowledgeForPreTraining(config)
        with torch.no_grad():
            model.state_dict()[kepler.SEGMENTS].zero_()
            for value in model.parameters():
                value.add_(torch.randn_like(value) * (value.shape != (1, 8)))
        return model

    return copied(kepler.to_original(seeded(make), KEPLER_HEADS))


def kepler_file(path: Path, state: dict[str, Tensor], args: Any) -> Path:
    """As fairseq's trainer saves it."""
    entries = {
        "args": args,
        "model": state,
        "optimizer_history": [{"optimizer_name": "FairseqAdam", "num_updates": 3}],
        "extra_state": {"epoch": 2, "train_iterator": {"epoch": 2}},
        "last_optimizer_state": {"state": {0: {"step": 3, "exp_avg": torch.ones(2)}}},
    }
    torch.save(entries, path)
    return path


# ---- KnowBERT -------------------------------------------------------------------------------
def knowbert_settings() -> dict[str, Any]:
    """`model` of its configuration: one linker by margin, one by softmax."""

    def kg(namespace: str, **linker: Any) -> dict[str, Any]:
        layer = {"num_attention_heads": 2, "hidden_size": 8}
        return {
            "entity_linker": {"namespace": namespace, "span_encoder_config": layer, **linker},
            "span_attention_config": layer,
        }

    return {
        "type": "knowbert",
        "soldered_layers": {"wordnet": 1, "wiki": 0},
        "soldered_kgs": {
            "wordnet": kg("entity_wordnet", loss_type="softmax"),
            "wiki": kg("entity_wiki", margin=0.3),
        },
    }


def knowbert_state() -> dict[str, Tensor]:
    parts = {"vectors": "parts", "vector_width": 5, "part_width": 3, "n_parts": 8}
    config = KnowBERTConfig(
        host=SIZES | {"model_type": "bert", "type_vocab_size": 2, "pad_token_id": 0},
        n_entities=4,
        kars=[
            {**_KAR, "name": "wiki", "layer": 0, "margin": 0.3, "n_entities": 4},
            {**_KAR, **parts, "name": "wordnet", "layer": 1, "loss": "softmax", "n_entities": 3},
        ],
        objectives={"mlm": {}, "nsp": {}, "el": {"missing_gold": "first"}},
    )

    def make() -> KnowledgeForPreTraining:
        model = KnowledgeForPreTraining(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter))
        return model

    return copied(knowbert.back_to_original(seeded(make), KNOWBERT_NAMES))


def knowbert_members(state: dict[str, Tensor]) -> dict[str, bytes]:
    """What AllenNLP puts into an archive."""
    vocabularies = {
        f"vocabulary/entity_{kg}.txt": "\n".join(names).encode()
        for kg, names in KNOWBERT_NAMES.items()
    }
    return {
        "config.json": json.dumps({"model": knowbert_settings()}).encode(),
        "weights.th": pickled(state),
        "vocabulary/non_padded_namespaces.txt": b"*tags\n",
        **vocabularies,
    }


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    """A `.tar.gz` of files with these contents."""
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


# ---- QA-GNN and GreaseLM --------------------------------------------------------------------
GRAPH_SIZES = {"graph_width": 8, "entity_width": 6, "with_padding": True}


def graph_host(folder: Path) -> str:
    """A tiny RoBERTa; the originals keep no configuration of theirs."""
    config = RobertaConfig(**SIZES, type_vocab_size=1, pad_token_id=1)
    seeded(lambda: RobertaModel(config)).save_pretrained(folder)
    return str(folder)


def choice_model(config: Any) -> KnowledgeForTask:
    """Random weights under the head of both papers."""
    config.head = {"name": "graph", "layers": 1, "width": 5, "dropout": 0.2}
    config.problem_type, config.num_labels = CHOICE, 1
    return seeded(lambda: KnowledgeForTask(config))


def graph_config(kind: Any, graph: KnowledgeGraph, **options: Any) -> Any:
    host = SIZES | {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1}
    sizes = {"n_entities": graph.n_entities, "n_relations": graph.n_relations}
    return kind(host=host, **sizes, **GRAPH_SIZES, **options)


# ---- all of them -----------------------------------------------------------------------------
def _colake(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    state, path = colake_release(folder, graph), folder / "model.bin"
    model = KnowledgeForPreTraining
    return Release(
        folder, state, model, colake_back, path.write_bytes, {"heads": 2}, {"kg": kg}
    )  # fmt: skip


def _ernie(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    state, path = ernie_release(folder), folder / ernie.WEIGHTS
    return Release(
        folder, state, KnowledgeForPreTraining, ernie_back, path.write_bytes, {}, {"kg": kg}
    )


def _kadapter(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    state, path = kadapter_state(), folder / "pytorch_model.bin"
    torch.save(state, path)
    host = kadapter_host(folder.parent / "host")
    options = {"adapter": "factual", "host": host, "layers": "0,2", "n_heads": 3}
    return Release(folder, state, KnowledgeForPreTraining, kadapter_back, path.write_bytes, options)


def _kbert(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    state, path = load_file(GOLDEN / "kbert/state_dict.safetensors"), folder / "model.bin"
    torch.save(state, path)
    options = {"n_heads": 4, "labels": "bad, fair, good", "pooling": "mean"}
    return Release(path, state, KnowledgeForTask, kbert_back, path.write_bytes, options, {"kg": kg})


def _kepler(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    state, path = kepler_state(graph.n_relations), folder / "kepler.pt"
    kepler_file(path, state, Namespace(**KEPLER_ARGS))
    listed = folder.parent / "relations.txt"
    listed.write_text("\n".join([*graph.relations][::-1]) + "\n")
    back = partial(kepler.to_original, heads=KEPLER_HEADS)
    for_graph = {"kg": kg, "relations": str(listed)}
    return Release(path, state, KnowledgeForPreTraining, back, path.write_bytes, {}, for_graph)


def _knowbert(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    state, path = knowbert_state(), folder / "model.tar.gz"
    members = knowbert_members(state)
    archive(path, members)

    def poison(data: bytes) -> None:
        archive(path, members | {"weights.th": data})

    back = partial(knowbert.back_to_original, vocabularies=KNOWBERT_NAMES)
    senses = [Text(f"{name}.n.01", TextKind.LABEL, name, "en") for name in ("city", "river")]
    second = folder.parent / "senses"
    graph_from_records([Triple("city.n.01", "part", "river.n.01"), *senses]).save(second)
    return Release(
        path,
        state,
        KnowledgeForPreTraining,
        back,
        poison,
        {"n_attention_heads": 2},
        {"kg": kg},
        {"further": [{"kg": str(second)}]},
    )


def _qagnn(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    model = choice_model(graph_config(QAGNNConfig, graph, n_layers=2))
    state, path = copied(qagnn.back_to_original(model)), folder / "csqa_model.pt"
    torch.save([state, Namespace(k=2, dataset="csqa")], path)
    concepts = folder / "concept.txt"
    concepts.write_text("\n".join(graph.entities) + "\n")
    options = {
        "kg": kg, "concepts": str(concepts), "host": graph_host(folder.parent / "host"),
    }  # fmt: skip
    return Release(
        path, state, KnowledgeForTask, qagnn.back_to_original, path.write_bytes, options,
        {"kg": kg},
    )  # fmt: skip


def _greaselm(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    config = graph_config(GreaseLMConfig, graph, n_fused=1, mixing_width=7, mixing_layers=2)
    state = copied(greaselm.back_to_original(choice_model(config)))
    path = folder / "csqa_model.pt"
    torch.save({"model": state, "epoch": 3, "config": Namespace(k=1)}, path)
    options = {"kg": kg, "host": graph_host(folder.parent / "host")}
    return Release(
        path, state, KnowledgeForTask, greaselm.back_to_original, path.write_bytes, options,
        {"kg": kg},
    )  # fmt: skip


# ---- LUKE -----------------------------------------------------------------------------------
def luke_release(folder: Path, titles: Mapping[str, int]) -> dict[str, Tensor]:
    """A pre-training model as transformers saves it, its word decoder tied as in the releases."""
    config = LukeConfig(
        **SIZES, entity_vocab_size=max(titles.values()) + 1, entity_emb_size=6,
        layer_norm_eps=1e-5, type_vocab_size=1,
    )  # fmt: skip

    def make() -> LukeForMaskedLM:
        model = LukeForMaskedLM(config)
        model.lm_head.decoder.weight.data.copy_(model.luke.embeddings.word_embeddings.weight)
        torch.nn.init.normal_(model.entity_predictions.bias)
        return model

    model = seeded(make)
    model.save_pretrained(folder)
    (folder / luke.VOCABULARY).write_text(json.dumps(titles), encoding="utf-8")
    return copied(model.state_dict())


def _luke(folder: Path, graph: KnowledgeGraph, kg: str) -> Release:
    names = [*luke.USUAL, luke.SECOND_TITLE, *graph.entities]
    state = luke_release(folder, {name: row for row, name in enumerate(names)})
    path = folder / luke.WEIGHTS[0]
    return Release(
        folder, state, KnowledgeForPreTraining, luke.back_to_original,
        lambda data: (path.unlink(), (folder / luke.WEIGHTS[1]).write_bytes(data)), {}, {"kg": kg},
    )  # fmt: skip


RELEASES: dict[str, Callable[[Path, KnowledgeGraph, str], Release]] = {
    "ernie": _ernie,
    "knowbert": _knowbert,
    "kbert": _kbert,
    "kepler": _kepler,
    "colake": _colake,
    "kadapter": _kadapter,
    "qagnn": _qagnn,
    "greaselm": _greaselm,
    "luke": _luke,
}
"""By method: writes a release into a folder; the graph is saved at the path that is given."""

"""KEPLER runs of knowledge embedding alone, and the vectors that they make of texts.

Wang et al. 2021 (KEPLER, TACL): an entity's vector is what the encoder makes of its description, so
an entity that no training saw has one, too. `kept.kgc.completers.texts.kepler` ranks by
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import normalize

from entity_linking.annotations import gold_link, write_jsonl
from entity_linking.mentions import LinkedText
from kept import hosts
from kept.auto import saved_encoder, saved_tokenizer
from kept.errors import ConfigError
from kept.hosts import load_tokenizer
from kept.kgc.description_links import encode_sequences
from kept.model_files import seal_model
from kept.model_settings import settings_text
from kept.objectives.described_triples import Sequences, entity_text
from kept.objectives.knowledge_embedding import word_pieces
from kept.training.config import TrainConfig, binding
from kept.training.log import Reporter
from kept.training.loop import Resume, TrainResult, train
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import whole_files, write_json

SETTINGS_FILE = "kepler.json"


def train_kepler(
    graph: KnowledgeGraph,
    folder: Path,
    *,
    host: str,
    options: Mapping[str, Any],
    training: TrainConfig,
    reporter: Reporter | None = None,
) -> TrainResult:
    """Train KEPLER's `ke` alone on `graph`, in `folder`; an interrupted run resumes.

    The graph goes to `folder/kg`, the state of the training to `folder/kepler.json`. The loop reads
    texts beside the triples; they are the entities' own descriptions, and no loss asks about them.
    ConfigError: the folder's run was trained on other triples.
    """
    kg, texts = folder / "kg", folder / "texts.jsonl"
    if not kg.is_dir():
        graph.save(kg)
    elif KnowledgeGraph.open(kg).content_hash != graph.content_hash:
        raise ConfigError(f"{kg} holds another graph; train in another folder, or remove this one")
    named = [(entity_text(graph, i, "both"), i) for i in range(graph.n_entities)]
    write_jsonl(
        (
            LinkedText(text, (gold_link(0, len(graph.label(i)), graph.entities.name(i)),))
            for text, i in named
        ),
        texts,
        force=True,
    )
    config = PretrainConfig(
        host=host,
        method="kepler",
        text=(texts,),
        treebank=(),
        kg=kg,
        objectives={"ke": dict(options)},
        training=training,
    )
    model, data = assemble(config)
    result = train(model, data, training, folder, reporter=reporter, resume=Resume.IF_ANY)
    with whole_files(folder) as part:
        load_tokenizer(host).save_pretrained(part)
    seal_model(folder)
    plan = kepler_plan(graph, host=host, options=options, training=training)
    plan |= {"step": result.step, "n_steps": result.n_steps, "weights": _weights_hash(folder)}
    write_json(folder / SETTINGS_FILE, plan, force=True)
    return result


def kepler_plan(
    graph: KnowledgeGraph, *, host: str, options: Mapping[str, Any], training: TrainConfig
) -> dict[str, Any]:
    """The settings that decide the weights of `train_kepler`, as JSON values, without budgets."""
    length = {"steps": training.steps, "epochs": training.epochs}
    return {
        "host": host,
        "options": dict(options),
        "training": binding(training) | length,
        "triples": graph.content_hash,
    }


def read_kepler_state(folder: Path) -> dict[str, Any] | None:
    """`kepler_plan` of the run in `folder`, its `step` of `n_steps`, and a hash of its `weights`.

    None: no `train_kepler` ended there, or one was cut after it had begun to write its weights.
    """
    if not (folder / SETTINGS_FILE).is_file():
        return None
    state: dict[str, Any] = json.loads(settings_text(folder / SETTINGS_FILE))
    return state if state["weights"] == _weights_hash(folder) else None


def _weights_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def encoded_texts(folder: str | Path, graph: KnowledgeGraph, *, n_tokens: int = 64) -> Tensor:
    """First states of every entity's "label: description" `[entity width]`, rows of length 1.

    `folder` holds any encoder of ours that reads words (KEPLER, K-Adapter), with its tokenizer.
    """
    tokenizer = saved_tokenizer(folder)
    rules = Sequences.of(tokenizer, n_tokens=n_tokens, n_relation_tokens=3, cut="text")
    texts = [entity_text(graph, entity, "both") for entity in range(graph.n_entities)]
    rows = [rules.entity(pieces) for pieces in word_pieces(texts, tokenizer, n_tokens)]
    states = encode_sequences(saved_encoder(folder), rows, pad_id=hosts.padding_id(tokenizer))
    return normalize(states, dim=1)

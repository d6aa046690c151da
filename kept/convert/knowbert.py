"""KnowBERT's released checkpoints (allenai/kb) into ours and back.

The layout: a `.tar.gz` of AllenNLP with `config.json`, `weights.th` and, for the entities, one name
per line in `vocabulary/NAMESPACE.txt`. Row 0 of an entity table is padding there, line n row n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW
from kept.convert.allennlp import CONFIG, VOCABULARY, read_archive
from kept.convert.tables import Rules, n_numbered, to_original, to_ours
from kept.encoders.base import graph_fields
from kept.encoders.knowbert import KnowBERTConfig
from kept.encoders.loading import load_strictly
from kept.errors import CheckpointError
from kept.layers.kar import KAR
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

PAD, UNKNOWN, MASK, NULL = "@@PADDING@@", "@@UNKNOWN@@", "@@MASK@@", "@@NULL@@"
BERT_HEAD_WIDTH = 64

HOST: Rules = (
    ("pretrained_bert.bert.", "encoder.host."),
    ("pretrained_bert.cls.predictions.transform.dense.", "objectives.mlm.transform.dense."),
    (
        "pretrained_bert.cls.predictions.transform.LayerNorm.",
        "objectives.mlm.transform.layer_norm.",
    ),
    ("pretrained_bert.cls.predictions.bias", "objectives.mlm.bias"),
    ("pretrained_bert.cls.seq_relationship.", "objectives.nsp.classes."),
)
_WORDS = "pretrained_bert.bert.embeddings.word_embeddings.weight"
TIED: Rules = (
    (_WORDS, "pretrained_bert.cls.predictions.decoder.weight"),
    (_WORDS, "pretraining_heads.predictions.decoder.weight"),
    *(
        (f"pretrained_bert.cls.{name}", f"pretraining_heads.{name}")
        for name in (
            "predictions.bias",
            *(f"predictions.transform.{n}" for n in ("dense.weight", "dense.bias")),
            *(f"predictions.transform.LayerNorm.{n}" for n in ("weight", "bias")),
            *(f"seq_relationship.{n}" for n in ("weight", "bias")),
        )
    ),
    *((f"pretrained_bert.bert.pooler.dense.{n}", f"pooler.dense.{n}") for n in ("weight", "bias")),
)


def _span_layer(theirs: str, ours: str, attention: str) -> Rules:
    return (
        *(
            (f"{theirs}attention.{attention}.{n}.", f"{ours}{n}.")
            for n in ("query", "key", "value")
        ),
        (f"{theirs}attention.output.dense.", f"{ours}attention_output."),
        (f"{theirs}attention.output.LayerNorm.", f"{ours}attention_norm."),
        (f"{theirs}intermediate.dense.", f"{ours}intermediate."),
        (f"{theirs}output.dense.", f"{ours}output."),
        (f"{theirs}output.LayerNorm.", f"{ours}output_norm."),
    )


def kar_rules(spec: KAR) -> Rules:
    """One KAR's linker and recontextualisation."""
    theirs = f"{spec.name}_soldered_kg."
    inner = f"{theirs}entity_linker.disambiguator."
    linker, recontext = (
        f"encoder.linkers.{spec.name}.",
        f"encoder.recontextualisations.{spec.name}.",
    )
    entities: Rules = ((f"{inner}entity_embeddings.weight", f"{linker}entities.vectors.weight"),)
    if spec.vectors == "parts":
        embedder = f"{inner}entity_embeddings."
        entities = (
            (f"{embedder}entity_embeddings.", f"{linker}entities.vectors."),
            (f"{embedder}pos_embeddings.", f"{linker}entities.part_vectors."),
            (f"{embedder}proj_feed_forward.", f"{linker}entities.projection."),
            (f"{embedder}entity_id_to_pos_index", f"{linker}entities.parts"),
            (f"{embedder}null_embedding", f"{linker}entities.null"),
        )
    layers = (
        rule
        for i in range(spec.n_layers)
        for rule in _span_layer(f"{inner}span_encoder.layer.{i}.", f"{linker}layers.{i}.", "self")
    )
    return (
        (f"{inner}bert_to_kg_projector.", f"{linker}projection."),
        (f"{inner}span_extractor._global_attention._module.", f"{linker}pooling.score."),
        (f"{inner}projected_span_layer_norm.", f"{linker}mention_norm."),
        *layers,
        *entities,
        (f"{inner}kg_layer_norm.", f"{linker}entity_norm."),
        (f"{inner}dot_attention_with_prior.out_layer_1.", f"{linker}scorer.inner."),
        (f"{inner}dot_attention_with_prior.out_layer_2.", f"{linker}scorer.outer."),
        (f"{theirs}weighted_entity_layer_norm.", f"{recontext}mention_norm."),
        *_span_layer(f"{theirs}span_attention_layer.", f"{recontext}attention.", "attention"),
        (f"{theirs}kg_to_bert_projection.", f"{recontext}projection."),
        (f"{theirs}output_layer_norm.", f"{recontext}output_norm."),
    )


def rules(config: KnowBERTConfig) -> Rules:
    """The whole pre-training model."""
    return (*HOST, *(rule for spec in config.specs for rule in kar_rules(spec)))


def convert(
    path: Path, *, n_attention_heads: int | None = None, kg: Path | None = None
) -> KnowledgeForPreTraining:
    """The released pre-training model with its objectives (mlm, nsp, el).

    `path`: the archive, of which nothing is unpacked but the weights, under a name of our own. The
    host's sizes are read off them; `n_attention_heads` defaults to BERT's, one for 64 dimensions.
    Without `kg` the entity rows follow the archive's vocabularies (special rows first, see
    `rows_of`) and belong to no graph. With it the first KAR's (in order of names) are those of the
    graph in that folder: an entity goes by its identifier, else by its label as a title
    ("New_York"), and one that the original lacks has the vector of its unknown entity. Raises
    `CheckpointError` for files that are missing, damaged or do not fit.
    """
    state, settings, vocabularies = read_archive(path)
    config = original_config(settings, state, n_attention_heads=n_attention_heads)
    names = {
        spec.name: vocabularies.get(namespace)
        for spec, namespace in zip(config.specs, _namespaces(settings), strict=True)
    }
    lacking = [name for name, vocabulary in names.items() if vocabulary is None]
    if lacking:
        raise CheckpointError(
            f"{path} holds no vocabulary of the entities of {lacking[0]!r}; it has "
            f"{sorted(vocabularies)}; add {VOCABULARY}NAMESPACE.txt to the archive"
        )
    found_names = {name: vocabulary for name, vocabulary in names.items() if vocabulary is not None}
    graph = None if kg is None else KnowledgeGraph.open(kg)
    return from_original(state, config, found_names, graph=graph)


def from_original(
    state: Mapping[str, Tensor],
    config: KnowBERTConfig,
    vocabularies: Mapping[str, Sequence[str]],
    *,
    graph: KnowledgeGraph | None = None,
) -> KnowledgeForPreTraining:
    """The pre-training model with an original's weights.

    `vocabularies`: the entities' names by KAR, as the archive lists them. With `graph` the first
    KAR's rows are that graph's.
    """
    state = dict(state)
    kars = []
    for index, spec in enumerate(config.specs):
        names = vocabularies[spec.name]
        order = rows_of(names)
        if len(order) != spec.n_rows:
            raise CheckpointError(
                f"the vocabulary of {spec.name!r} has {len(order)} entities, its table "
                f"{spec.n_rows} rows"
            )
        fields = dict(config.kars[index])
        _drop_null(state, spec, order)
        if graph is not None and index == 0:
            order = _rows_for(graph, names, order)
            graph_settings = graph_fields(graph)
            fields |= {
                name: graph_settings[name] for name in graph_settings if name != "n_relations"
            }
        for key in _by_row(spec):
            state[key] = state[key][order]
        kars.append(fields)
    ours = KnowBERTConfig(**{**_settings(config, graph), "kars": kars})
    model = KnowledgeForPreTraining(ours)
    load_strictly(model, to_ours(state, rules(ours), TIED))
    return model


def back_to_original(
    model: KnowledgeForPreTraining, vocabularies: Mapping[str, Sequence[str]]
) -> dict[str, Tensor]:
    """The inverse of `from_original` without a graph."""
    config = model.config
    state = to_original(model.state_dict(), rules(config), TIED)
    for spec in config.specs:
        order = rows_of(vocabularies[spec.name])
        inverse = torch.argsort(order)
        for key in _by_row(spec):
            state[key] = state[key][inverse]
        if spec.loss == "margin":
            state[_null_key(spec)] = _null_vector(state, spec, order).clone()
    return state


def rows_of(names: Sequence[str]) -> Tensor:
    """The original's row of each of ours: NULL, padding, MASK, then all others in their order.

    `names`: the entities as a vocabulary lists them, from row 1 on. The original's unknown entity
    is an ordinary one here. Raises `CheckpointError` where a special name is missing.
    """
    lacking = [name for name in (MASK, NULL) if name not in names]
    if lacking:
        raise CheckpointError(f"the vocabulary of entities lacks {lacking[0]}")
    special = {UNKNOWN_ROW: names.index(NULL) + 1, PAD_ROW: 0, MASK_ROW: names.index(MASK) + 1}
    first = [special[row] for row in range(N_SPECIAL_ROWS)]
    others = [row for row in range(len(names) + 1) if row not in first]
    return torch.tensor([*first, *others])


def _rows_for(graph: KnowledgeGraph, names: Sequence[str], order: Tensor) -> Tensor:
    """The original's row of each of `graph`'s rows."""
    row_by_name = {name: row for row, name in enumerate(names, start=1)}
    unknown = row_by_name.get(UNKNOWN, row_by_name[NULL])
    rows = []
    for entity in range(graph.n_entities):
        title = graph.label(entity).replace(" ", "_")
        rows.append(row_by_name.get(graph.entities.name(entity), row_by_name.get(title, unknown)))
    return torch.cat([order[:N_SPECIAL_ROWS], torch.tensor(rows, dtype=torch.int64)])


def original_config(
    settings: Mapping[str, Any],
    state: Mapping[str, Tensor],
    *,
    n_attention_heads: int | None = None,
) -> KnowBERTConfig:
    """The configuration under which our model computes what the original does.

    `settings`: `model` of its `config.json`; sizes come from the weights. Raises `CheckpointError`
    naming a field or weight that is missing.
    """
    try:
        return _config(settings, state, n_attention_heads)
    except KeyError as error:
        raise CheckpointError(f"the checkpoint or its {CONFIG} lacks {error}") from error


def _config(
    settings: Mapping[str, Any], state: Mapping[str, Tensor], n_attention_heads: int | None
) -> KnowBERTConfig:
    kgs, layer_numbers = settings["soldered_kgs"], settings["soldered_layers"]
    kars = [_kar(name, kgs[name], int(layer_numbers[name]), state) for name in sorted(kgs)]
    words = state[_WORDS]
    layers = "pretrained_bert.bert.encoder.layer."
    hidden = words.shape[1]
    host = {
        "model_type": "bert",
        "vocab_size": words.shape[0],
        "hidden_size": hidden,
        "num_hidden_layers": n_numbered(state, layers),
        "num_attention_heads": n_attention_heads or max(hidden // BERT_HEAD_WIDTH, 1),
        "intermediate_size": state[f"{layers}0.intermediate.dense.weight"].shape[0],
        "max_position_embeddings": _rows(state, "position_embeddings"),
        "type_vocab_size": _rows(state, "token_type_embeddings"),
        "pad_token_id": 0,
    }
    return KnowBERTConfig(
        host=host,
        n_entities=kars[0]["n_entities"],
        kars=kars,
        objectives={"mlm": {}, "nsp": {}, "el": {"missing_gold": "first"}},
    )


def _kar(
    name: str, settings: Mapping[str, Any], layer: int, state: Mapping[str, Tensor]
) -> dict[str, Any]:
    linker = settings["entity_linker"]
    encoder, attention = linker["span_encoder_config"], settings.get("span_attention_config", {})
    heads = int(encoder["num_attention_heads"])
    if attention.get("num_attention_heads", heads) != heads:
        raise CheckpointError(f"the span layers of {name!r} have different numbers of heads")
    inner = f"{name}_soldered_kg.entity_linker.disambiguator."
    table = f"{inner}entity_embeddings."
    parts = f"{table}pos_embeddings.weight" in state
    vectors = state[f"{table}entity_embeddings.weight" if parts else f"{table}weight"]
    fields: dict[str, Any] = {
        "name": name,
        "layer": layer,
        "loss": linker.get("loss_type", "margin"),
        "margin": float(linker.get("margin", 0.2)),
        "threshold": float(linker.get("decode_threshold", 0.0)),
        "width": state[f"{inner}bert_to_kg_projector.weight"].shape[0],
        "n_heads": heads,
        "n_layers": n_numbered(state, f"{inner}span_encoder.layer."),
        "feed_forward": state[f"{inner}span_encoder.layer.0.intermediate.dense.weight"].shape[0],
        "scorer_width": state[f"{inner}dot_attention_with_prior.out_layer_1.weight"].shape[0],
        "vectors": "parts" if parts else "table",
        "n_entities": vectors.shape[0] - N_SPECIAL_ROWS,
        "projection": "original",
    }
    if parts:
        n_parts, part_width = state[f"{table}pos_embeddings.weight"].shape
        fields |= {
            "vector_width": vectors.shape[1],
            "n_parts": n_parts,
            "part_width": part_width,
            "learned_null": f"{table}null_embedding" in state,
        }
    return fields


def _namespaces(settings: Mapping[str, Any]) -> list[str]:
    kgs = settings["soldered_kgs"]
    return [str(kgs[name]["entity_linker"].get("namespace", "entity")) for name in sorted(kgs)]


def _settings(config: KnowBERTConfig, graph: KnowledgeGraph | None) -> dict[str, Any]:
    fields = {
        "host": config.host.to_dict(),
        "objectives": config.objectives,
        "n_entities": config.n_entities,
        "n_relations": config.n_relations,
    }
    if graph is None:
        return fields
    return fields | graph_fields(graph)


def _by_row(spec: KAR) -> tuple[str, ...]:
    """The original's tensors with one row per entity."""
    table = f"{spec.name}_soldered_kg.entity_linker.disambiguator.entity_embeddings."
    if spec.vectors == "table":
        return (f"{table}weight",)
    return (f"{table}entity_embeddings.weight", f"{table}entity_id_to_pos_index")


def _null_key(spec: KAR) -> str:
    linker = f"{spec.name}_soldered_kg.entity_linker.disambiguator."
    return f"{linker}dot_attention_with_prior.null_embedding"


def _null_vector(state: Mapping[str, Tensor], spec: KAR, order: Tensor) -> Tensor:
    """The NULL entity's vector in the original's own rows."""
    table = f"{spec.name}_soldered_kg.entity_linker.disambiguator.entity_embeddings."
    if spec.vectors == "parts":
        if not spec.learned_null:
            raise CheckpointError(f"{spec.name!r}: margin loss over parts needs a learned NULL")
        return state[f"{table}null_embedding"]
    return state[f"{table}weight"][order[UNKNOWN_ROW]]


def _drop_null(state: dict[str, Tensor], spec: KAR, order: Tensor) -> None:
    """Remove the second copy of the NULL vector that models with the margin loss store."""
    if spec.loss != "margin":
        return
    copy = state.pop(_null_key(spec), None)
    if copy is not None and not torch.equal(copy, _null_vector(state, spec, order)):
        raise CheckpointError(f"{_null_key(spec)} should equal row {NULL} of the entity table")


def _rows(state: Mapping[str, Tensor], table: str) -> int:
    return int(state[f"pretrained_bert.bert.embeddings.{table}.weight"].shape[0])

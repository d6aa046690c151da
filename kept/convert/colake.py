"""CoLAKE's released checkpoints (txsun1997/CoLAKE) into ours and back.

The entity table, which the original keeps in a separate file, goes by the name `entity_embeddings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS
from kept.convert.tables import Rules, n_numbered, read_state, to_ours
from kept.convert.vocabularies import read_vocabulary
from kept.encoders.base import graph_fields
from kept.encoders.colake import CoLAKEConfig
from kept.encoders.loading import load_strictly
from kept.errors import CheckpointError, ConfigError
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

ENCODER: Rules = (("roberta.", "encoder.host."),)
PRETRAINING: Rules = (
    *ENCODER,
    ("entity_embeddings", "encoder.entity_embeddings.weight"),
    ("rel_embeddings.weight", "encoder.relation_embeddings.weight"),
    ("lm_head.dense.", "objectives.masked_nodes.word_transform.dense."),
    ("lm_head.layer_norm.", "objectives.masked_nodes.word_transform.layer_norm."),
    ("lm_head.bias", "objectives.masked_nodes.word_bias"),
    ("ent_lm_head.dense.", "objectives.masked_nodes.entity_transform.dense."),
    ("ent_lm_head.layer_norm.", "objectives.masked_nodes.entity_transform.layer_norm."),
    ("rel_lm_head.dense.", "objectives.masked_nodes.relation_transform.dense."),
    ("rel_lm_head.layer_norm.", "objectives.masked_nodes.relation_transform.layer_norm."),
    ("rel_lm_head.bias", "objectives.masked_nodes.relation_bias"),
)
PRETRAINING_TIED: Rules = (
    ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    ("lm_head.bias", "lm_head.decoder.bias"),
    ("rel_embeddings.weight", "rel_lm_head.decoder.weight"),
    ("rel_lm_head.bias", "rel_lm_head.decoder.bias"),
)


def _classification(head: str) -> Rules:
    return (
        *ENCODER,
        ("ent_embeddings_n.weight", "encoder.entity_embeddings.weight"),
        (f"{head}.dense.", "head.transform.dense."),
        (f"{head}.layer_norm.", "head.transform.layer_norm."),
        (f"{head}.decoder.weight", "head.classes.weight"),
        (f"{head}.bias", "head.classes.bias"),
    )


RELATION, RELATION_TIED = _classification("rel_head"), (("rel_head.bias", "rel_head.decoder.bias"),)
TYPING, TYPING_TIED = _classification("cls_head"), (("cls_head.bias", "cls_head.decoder.bias"),)


def from_original(state: Mapping[str, Tensor], config: CoLAKEConfig) -> KnowledgeForPreTraining:
    """The pre-training model with an original's weights."""
    model = KnowledgeForPreTraining(config)
    load_strictly(model, to_ours(state, PRETRAINING, PRETRAINING_TIED))
    return model


def original_config(
    *, host: Mapping[str, object], n_entities: int, n_relations: int, **options: Any
) -> CoLAKEConfig:
    """The configuration under which our model computes what the original does.

    `host`: sizes of its RoBERTa; `n_entities`, `n_relations`: special rows not counted.
    """
    return CoLAKEConfig(
        host={"model_type": "roberta", **host},
        n_entities=n_entities,
        n_relations=n_relations,
        position_offset=0,
        kind_table="host",
        objectives={"masked_nodes": {"empty_loss": "nan"}},
        **options,
    )


SPECIAL_NAMES = ("<unk>", "<pad>", "<mask>")
ENTITY_VOCABULARY, RELATION_VOCABULARY = "read_ent_vocab.bin", "read_rel_vocab.bin"
_ENTITY_ROWS = ("encoder.entity_embeddings.weight",)
_RELATION_ROWS = (
    "encoder.relation_embeddings.weight",
    "objectives.masked_nodes.relation_bias",
)


def convert(
    path: Path,
    *,
    entities: Path | None = None,
    kg: Path | None = None,
    entity_vocabulary: Path | None = None,
    relation_vocabulary: Path | None = None,
    absent: str = "refuse",
    heads: int = 0,
) -> KnowledgeForPreTraining:
    """The release (`model.bin`, `entities.npy`, two vocabularies) as a pre-trained model.

    `entities` and the vocabularies are looked for beside `path`. With `kg`, rows follow that
    graph's ids: each of its entities and relations takes its row by name; `absent`: "refuse" those
    without a row, or start them from the row of "unknown". Without `kg`, rows stay in the release's
    order and the model belongs to no graph. `heads`: attention heads, 0 = one for every 64 of the
    width, as RoBERTa. Words are pieces of RoBERTa's tokenizer.
    """
    if absent not in ("refuse", "unknown"):
        raise ConfigError(f"absent is {absent!r}; use 'refuse' or 'unknown'")
    file = path / "model.bin" if path.is_dir() else path
    state = to_ours(read_state(file), PRETRAINING, PRETRAINING_TIED)
    table = _entity_table(entities or file.with_name("entities.npy"))
    host = _host_sizes(state, heads)
    graph = None if kg is None else KnowledgeGraph.open(kg)
    if graph is not None:
        vocabulary = read_vocabulary(entity_vocabulary or file.with_name(ENTITY_VOCABULARY))
        table = table[_rows(list(graph.entities), vocabulary, len(table), absent, "entity")]
        vocabulary = read_vocabulary(relation_vocabulary or file.with_name(RELATION_VOCABULARY))
        count = len(state[_RELATION_ROWS[0]])
        rows = torch.from_numpy(_rows(list(graph.relations), vocabulary, count, absent, "relation"))
        state |= {name: state[name][rows] for name in _RELATION_ROWS}
    state[_ENTITY_ROWS[0]] = torch.from_numpy(np.array(table, np.float32))
    config = original_config(
        host=host,
        n_entities=len(table) - N_SPECIAL_ROWS,
        n_relations=len(state[_RELATION_ROWS[0]]) - N_SPECIAL_ROWS,
    )
    if graph is not None:
        config.update(graph_fields(graph))
    model = KnowledgeForPreTraining(config)
    load_strictly(model, state)
    return model


def _entity_table(file: Path) -> NDArray[np.floating[Any]]:
    """Rows `[entity row, embedding]`, mapped from disk; nothing in the file is unpickled."""
    try:
        table = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(
            f"{file} cannot be read as a table of entities ({error}); "
            "say where it is with entities=FILE"
        ) from error
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind != "f":
        raise CheckpointError(f"{file} is not a table of entities [row, embedding]")
    return table


def _host_sizes(state: Mapping[str, Tensor], heads: int) -> dict[str, Any]:
    """The sizes of the RoBERTa inside, read off its weights."""
    prefix = "encoder.host."

    def shape(name: str) -> torch.Size:
        if prefix + name not in state:
            raise CheckpointError(f"the checkpoint has no weight roberta.{name}")
        return state[prefix + name].shape

    n_words, width = shape("embeddings.word_embeddings.weight")
    heads = heads or width // 64
    if heads < 1 or width % heads:
        raise ConfigError(f"a width of {width} does not divide into {heads} heads; give heads")
    return {
        "vocab_size": n_words,
        "hidden_size": width,
        "num_hidden_layers": n_numbered(state, f"{prefix}encoder.layer."),
        "num_attention_heads": heads,
        "intermediate_size": shape("encoder.layer.0.intermediate.dense.weight")[0],
        "max_position_embeddings": shape("embeddings.position_embeddings.weight")[0],
        "type_vocab_size": shape("embeddings.token_type_embeddings.weight")[0],
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }


def _rows(
    names: Sequence[str], vocabulary: Mapping[str, int], n_rows: int, absent: str, kind: str
) -> NDArray[np.int64]:
    """The release's row of each of our rows: special ones, then `names` in order."""
    if [vocabulary.get(name) for name in SPECIAL_NAMES] != list(range(N_SPECIAL_ROWS)):
        raise CheckpointError(f"the {kind} vocabulary does not begin with {SPECIAL_NAMES}")
    if max(vocabulary.values()) >= n_rows:
        raise CheckpointError(
            f"the {kind} vocabulary has id {max(vocabulary.values())}, its table {n_rows} rows"
        )
    without = [name for name in names if name not in vocabulary]
    if without and (absent == "refuse" or len(without) == len(names)):
        raise CheckpointError(
            f"{len(without)} of {len(names)} {kind} names of the graph are not in the release, "
            f"{without[0]!r} first; absent=unknown lets them start from the row of unknown ones"
        )
    return np.array([0, 1, 2, *(vocabulary.get(name, 0) for name in names)], np.int64)

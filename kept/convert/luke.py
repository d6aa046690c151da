"""LUKE's and mLUKE's checkpoints, as transformers saves them, into ours and back.

A folder has `config.json`, `model.safetensors` (or `pytorch_model.bin`) and `entity_vocab.json`, a
mapping of titles to rows of the entity table; in mLUKE's a title is `en:Tokyo`, and the titles of
one entity in several languages have one row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW
from kept.convert.tables import Rules, read_state, rename, to_original, to_ours
from kept.encoders.base import KnowledgeModel, graph_fields
from kept.encoders.loading import load_strictly
from kept.encoders.luke import LUKE, LUKEConfig
from kept.errors import CheckpointError, ConfigError
from kept.heads.entities import EntitiesOptions
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import MULTI, SINGLE
from kg_loaders import KnowledgeGraph
from kg_loaders.reading.digits import whole_number

CONFIG, VOCABULARY = "config.json", "entity_vocab.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
TABLE, SECOND = "encoder.entity_vectors.weight", "encoder.second_mask"
MASKED = "objectives.masked_entities."
BIAS, SECOND_BIAS = f"{MASKED}bias", f"{MASKED}second_bias"
BODY = "luke."
HEADS: Mapping[str, dict[str, Any]] = {
    "LukeForEntityClassification": {},
    "LukeForEntityPairClassification": {"n_targets": 2, "bias": False},
    "LukeForEntitySpanClassification": {"read": "span", "each": True},
}
"""Classes of transformers with a classifier to the options of the head `entities`."""
SECOND_TITLE = "[MASK2]"


def layer_rules(n_layers: int) -> Rules:
    """The query maps of entities."""
    names = (
        ("w2e_query.", "word_to_entity."),
        ("e2w_query.", "entity_to_word."),
        ("e2e_query.", "entity_to_entity."),
    )
    return tuple(
        (f"{BODY}encoder.layer.{i}.attention.self.{theirs}", f"encoder.queries.{i}.{ours}")
        for i in range(n_layers)
        for theirs, ours in names
    )


def rules(n_layers: int) -> Rules:
    """All of them; what is left of the body is the host's."""
    theirs, ours = f"{BODY}entity_embeddings.", "encoder.entity_inputs."
    return (
        *layer_rules(n_layers),
        (f"{theirs}entity_embeddings.weight", TABLE),
        (f"{theirs}entity_embedding_dense.", f"{ours}dense."),
        (f"{theirs}position_embeddings.", f"{ours}positions."),
        (f"{theirs}token_type_embeddings.", f"{ours}types."),
        (f"{theirs}LayerNorm.", f"{ours}layer_norm."),
        (BODY, "encoder.host."),
        ("lm_head.dense.", "objectives.mlm.transform.dense."),
        ("lm_head.layer_norm.", "objectives.mlm.transform.layer_norm."),
        ("lm_head.bias", "objectives.mlm.bias"),
        ("entity_predictions.transform.dense.", f"{MASKED}transform.dense."),
        ("entity_predictions.transform.LayerNorm.", f"{MASKED}transform.layer_norm."),
        ("entity_predictions.bias", BIAS),
        ("classifier.", "head.classes."),
    )


TIED: Rules = (
    (f"{BODY}embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    ("lm_head.bias", "lm_head.decoder.bias"),
    (f"{BODY}entity_embeddings.entity_embeddings.weight", "entity_predictions.decoder.weight"),
)


@dataclass(frozen=True)
class Rows:
    """Rows of the original's entity table: the special ones, and those of our entities in order."""

    unknown: int
    pad: int
    mask: int
    second_mask: int | None
    entities: tuple[int, ...]

    @property
    def ours(self) -> list[int]:
        """The original's row of each of ours."""
        special = {UNKNOWN_ROW: self.unknown, PAD_ROW: self.pad, MASK_ROW: self.mask}
        return [*(special[row] for row in range(N_SPECIAL_ROWS)), *self.entities]

    @classmethod
    def of(cls, vocabulary: Mapping[str, int], n_rows: int, source: str) -> Rows:
        """All rows of a vocabulary, in its order.

        Raises `CheckpointError` without the special titles, or for a row that the table lacks.
        """
        missing = [title for title in ("[UNK]", "[PAD]", "[MASK]") if title not in vocabulary]
        if missing or max(vocabulary.values()) >= n_rows:
            raise CheckpointError(
                f"{source} lacks {missing} or names row {max(vocabulary.values(), default=0)} of "
                f"{n_rows}; give the entity_vocab.json that belongs to these weights"
            )
        unknown, pad, mask = (vocabulary[title] for title in ("[UNK]", "[PAD]", "[MASK]"))
        second = vocabulary.get(SECOND_TITLE)
        special = {unknown, pad, mask, *([] if second in (None, mask) else [second])}
        others = tuple(row for row in range(n_rows) if row not in special)
        return cls(unknown, pad, mask, None if second == mask else second, others)


USUAL = {"[PAD]": 0, "[UNK]": 1, "[MASK]": 2}
"""Special rows of a folder without a vocabulary: the model's own padding row is 0."""


def convert(
    path: Path,
    *,
    kg: Path | None = None,
    language: str = "en",
    absent: str = "refuse",
    multi_label: bool = False,
) -> KnowledgeModel:
    """A folder that transformers saved: a model with both pre-training heads, one with a
    classifier of entities, or the encoder alone.

    With `kg`, rows follow that graph's ids: each entity takes the row whose title is its
    identifier, label or another of its names, of mLUKE the title in `language` (all languages of
    an entity share its row); `absent`: "refuse" those without a row, or start them from the row of
    "unknown". Without `kg`, rows stay in the release's order and the model belongs to no graph.
    `multi_label`: the classifier gives several classes. Query maps that are missing are copies of
    the words' (the pre-training has none). Words are pieces of the folder's tokenizer.
    """
    if absent not in ("refuse", "unknown"):
        raise ConfigError(f"absent is {absent!r}; use 'refuse' or 'unknown'")
    settings = read_settings(path)
    state = with_body(read_weights(path))
    table = state.get(f"{BODY}entity_embeddings.entity_embeddings.weight")
    if table is None:
        raise CheckpointError(f"{path} has no entity_embeddings.weight: this is not LUKE")
    vocabulary = read_vocabulary(path / VOCABULARY)
    rows = Rows.of(vocabulary, len(table), str(path / VOCABULARY))
    graph = None if kg is None else KnowledgeGraph.open(kg)
    if graph is not None:
        entities = entity_rows(graph, vocabulary, language, rows.unknown, absent)
        rows = Rows(rows.unknown, rows.pad, rows.mask, rows.second_mask, entities)
    fields = {} if graph is None else graph_fields(graph)
    return from_original(
        with_queries(state, settings), settings, rows, fields=fields,
        problem_type=MULTI if multi_label else SINGLE,
    )  # fmt: skip


def from_original(
    state: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    rows: Rows,
    *,
    fields: Mapping[str, Any] | None = None,
    problem_type: str = SINGLE,
) -> KnowledgeModel:
    """The model with an original's weights; `settings` is its config.json, `fields` the graph's.

    Raises `CheckpointError` naming every missing or unexpected weight.
    """
    config = original_config(settings, rows, **(fields or {}))
    renamed = renamed_state(state, rows, config.host.num_hidden_layers)
    model = _model_for(config, renamed, settings, problem_type)
    if isinstance(model, LUKE):
        renamed = rename(renamed, (("encoder.", ""),))
    load_strictly(model, renamed)
    model.eval()
    return model


def renamed_state(state: Mapping[str, Tensor], rows: Rows, n_layers: int) -> dict[str, Tensor]:
    """An original's state dict under our names, its rows of entities in our order."""
    renamed = to_ours(state, rules(n_layers), TIED)
    table = renamed[TABLE]
    if rows.second_mask is not None:
        renamed[SECOND] = table[rows.second_mask]
    renamed[TABLE] = table[rows.ours]
    if BIAS in renamed:
        bias = renamed[BIAS]
        renamed[BIAS] = bias[rows.ours]
        if rows.second_mask is not None:
            renamed[SECOND_BIAS] = bias[rows.second_mask : rows.second_mask + 1]
    return renamed


def _model_for(
    config: LUKEConfig, state: Mapping[str, Tensor], settings: Mapping[str, Any], problem_type: str
) -> KnowledgeModel:
    """The class that has these weights."""
    if BIAS in state:
        config.objectives = {"mlm": {}, "masked_entities": {}}
        return KnowledgeForPreTraining(config)
    if "head.classes.weight" not in state:
        return LUKE(config)
    names = [*(settings.get("architectures") or [])]
    name = next((name for name in names if name in HEADS), None)
    if name is None:
        raise CheckpointError(
            f"a classifier of {names or 'no class that config.json names'}; this reads those of "
            f"{', '.join(HEADS)}"
        )
    labels = {int(i): label for i, label in settings["id2label"].items()}
    config.id2label, config.label2id = labels, {label: i for i, label in labels.items()}
    dropout = settings.get("classifier_dropout")
    head = EntitiesOptions(
        dropout=settings["hidden_dropout_prob"] if dropout is None else dropout, **HEADS[name]
    )
    config.head = {"name": "entities", **asdict(head)}
    config.problem_type = problem_type
    return KnowledgeForTask(config)


def back_to_original(model: KnowledgeModel) -> dict[str, Tensor]:
    """The original's state dict. Rows: [PAD], [UNK], [MASK], a second [MASK] if there is one, then
    our entities in our order."""
    state = dict(model.state_dict())
    if isinstance(model, LUKE):
        state = {f"encoder.{name}": value for name, value in state.items()}
    second, second_bias = state.pop(SECOND, None), state.pop(SECOND_BIAS, None)
    extras = {TABLE: None if second is None else second[None], BIAS: second_bias}
    special = [PAD_ROW, UNKNOWN_ROW, MASK_ROW]
    for name, extra in extras.items():
        if name in state:
            value = state[name]
            parts = [value[special], extra, value[N_SPECIAL_ROWS:]]
            state[name] = torch.cat([part for part in parts if part is not None])
    encoder = model if isinstance(model, LUKE) else model.encoder
    table = rules(encoder.host.config.num_hidden_layers)
    tied = TIED if BIAS in state else ()
    return to_original(state, table, tied)


def original_config(settings: Mapping[str, Any], rows: Rows, **fields: Any) -> LUKEConfig:
    """The configuration under which our model computes what the original does.

    Raises `CheckpointError` for another activation than gelu, which the heads have.
    """
    if settings.get("hidden_act", "gelu") != "gelu":
        raise CheckpointError(f"hidden_act is {settings['hidden_act']!r}; LUKE's is 'gelu'")
    host = {name: settings[name] for name in HOST_FIELDS if name in settings}
    return LUKEConfig(
        host={"model_type": "roberta", **host},
        entity_width=int(settings["entity_emb_size"]),
        entity_aware=bool(settings["use_entity_aware_attention"]),
        n_masks=1 if rows.second_mask is None else 2,
        **{"n_entities": len(rows.entities), **fields},
    )


HOST_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings",
    "type_vocab_size", "initializer_range", "layer_norm_eps", "pad_token_id", "bos_token_id",
    "eos_token_id",
)  # fmt: skip


# ---- files ---------------------------------------------------------------------------------------
def read_settings(folder: Path) -> dict[str, Any]:
    """Its config.json; raises `CheckpointError` for one that is not LUKE's."""
    settings = _read_json(folder / CONFIG)
    needed = ("model_type", "entity_emb_size", "use_entity_aware_attention", "num_hidden_layers")
    missing = [name for name in needed if name not in settings]
    if missing or settings["model_type"] not in ("luke", "mluke"):
        raise CheckpointError(
            f"{folder / CONFIG} is of model_type {settings.get('model_type')!r} and lacks "
            f"{missing}; give the folder of a LUKE that transformers saved"
        )
    return settings


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The state dict in a folder; nothing is unpickled but tensors."""
    safe, pickled = (folder / name for name in WEIGHTS)
    if not safe.is_file():
        return read_state(pickled)
    try:
        return dict(load_file(safe))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{safe} cannot be read: {error}") from error


def with_body(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The names of a bare LukeModel as those of one under a head; no position numbers.

    Of tied weights a file may have either one, as transformers' version chose.
    """
    is_bare = not any(name.startswith(BODY) for name in state)
    named = {
        f"{BODY}{name}" if is_bare else name: value
        for name, value in state.items()
        if not name.endswith("embeddings.position_ids")
    }
    return {first: named[second] for first, second in TIED if second in named} | named


def with_queries(state: Mapping[str, Tensor], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """With query maps of entities where the settings want them and the file has none."""
    if not settings["use_entity_aware_attention"]:
        return dict(state)
    added = {}
    for i in range(int(settings["num_hidden_layers"])):
        prefix = f"{BODY}encoder.layer.{i}.attention.self."
        for kind in ("w2e_query", "e2w_query", "e2e_query"):
            for part in ("weight", "bias"):
                query_name = f"{prefix}query.{part}"
                if f"{prefix}{kind}.{part}" not in state and query_name in state:
                    added[f"{prefix}{kind}.{part}"] = state[query_name].clone()
    return {**state, **added}


def read_vocabulary(file: Path) -> dict[str, int]:
    """Titles to rows; without the file only the special ones.

    Raises `CheckpointError` for a file that is no such mapping.
    """
    if not file.exists():
        return dict(USUAL)
    rows: dict[str, int] = {}
    for title, row in _read_json(file).items():
        try:
            rows[title] = row if type(row) is int else whole_number(str(row))
        except ValueError as error:
            raise CheckpointError(f"{file}: the row of {title!r} is {row!r}, no number") from error
        if rows[title] < 0:
            raise CheckpointError(f"{file}: the row of {title!r} is {row!r}, below 0")
    return rows


def entity_rows(
    graph: KnowledgeGraph, vocabulary: Mapping[str, int], language: str, unknown: int, absent: str
) -> tuple[int, ...]:
    """The row of each entity of a graph; raises `CheckpointError` for those without one."""
    rows, without = [], []
    for entity, name in enumerate(graph.entities):
        aliases = (alias for alias, _ in graph.aliases(entity))
        row = _row_of([name, graph.label(entity), *aliases], vocabulary, language)
        if row is None:
            without.append(name)
        rows.append(unknown if row is None else row)
    if without and (absent == "refuse" or len(without) == len(rows)):
        raise CheckpointError(
            f"{len(without)} of {len(rows)} entities of the graph have no title in the entity "
            f"vocabulary, {without[0]!r} first; absent=unknown starts them from the row of unknown "
            "ones"
        )
    return tuple(rows)


def _row_of(names: Sequence[str], vocabulary: Mapping[str, int], language: str) -> int | None:
    """The row of the first name that is a title; blanks and underscores are the same."""
    for name in names:
        for title in (name, name.replace("_", " ")):
            for key in (title, f"{language}:{title}"):
                if key in vocabulary:
                    return vocabulary[key]
    return None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} holds a {type(value).__name__}, not a mapping")
    return value

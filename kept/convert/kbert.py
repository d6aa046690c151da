"""K-BERT's and UER's checkpoints (autoliuweijie/K-BERT, dbiir/UER-py) into ours and back.

A file holds one state dict: `embedding.*` and `encoder.*`, after pre-training also `target.*` (the
heads of masked words and next sentence), after fine-tuning `output_layer_1.*`, `output_layer_2.*`
(classifier) or `output_layer.*` (tagger, which keeps `target.*`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor
from transformers import BertTokenizerFast

from kept.convert.tables import Rules, n_numbered, read_state, to_ours
from kept.encoders.base import KnowledgeModel, graph_fields
from kept.encoders.kbert import KBERT, KBERTConfig
from kept.encoders.loading import load_strictly
from kept.errors import CheckpointError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.tasks.kinds import SINGLE, TAGGING
from kg_loaders import KnowledgeGraph

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

PRETRAINING_HEADS = tuple(
    f"target.{name}"
    for part, ends in (
        ("mlm_linear_1", ("weight", "bias")),
        ("layer_norm", ("gamma", "beta")),
        ("mlm_linear_2", ("weight", "bias")),
        ("nsp_linear_2", ("weight", "bias")),
    )
    for name in (f"{part}.{end}" for end in ends)
)
"""Weights that pre-training alone reads; they have no place in K-BERT and are left behind."""

_EMBEDDING: Rules = (
    ("embedding.word_embedding.", "host.embeddings.word_embeddings."),
    ("embedding.position_embedding.", "host.embeddings.position_embeddings."),
    ("embedding.segment_embedding.", "host.embeddings.token_type_embeddings."),
    ("embedding.layer_norm.gamma", "host.embeddings.LayerNorm.weight"),
    ("embedding.layer_norm.beta", "host.embeddings.LayerNorm.bias"),
    ("target.nsp_linear_1.", "host.pooler.dense."),
)
_LAYER: Rules = (
    ("self_attn.linear_layers.0.", "attention.self.query."),
    ("self_attn.linear_layers.1.", "attention.self.key."),
    ("self_attn.linear_layers.2.", "attention.self.value."),
    ("self_attn.final_linear.", "attention.output.dense."),
    ("layer_norm_1.gamma", "attention.output.LayerNorm.weight"),
    ("layer_norm_1.beta", "attention.output.LayerNorm.bias"),
    ("feed_forward.linear_1.", "intermediate.dense."),
    ("feed_forward.linear_2.", "output.dense."),
    ("layer_norm_2.gamma", "output.LayerNorm.weight"),
    ("layer_norm_2.beta", "output.LayerNorm.bias"),
)
CLASSIFIER: Rules = (("output_layer_1.", "head.dense."), ("output_layer_2.", "head.classes."))
TAGGER: Rules = (("output_layer.", "head.classes."),)


def encoder_rules(n_layers: int) -> Rules:
    """The table of an encoder with so many layers."""
    layers = tuple(
        (f"encoder.transformer.{i}.{theirs}", f"host.encoder.layer.{i}.{ours}")
        for i in range(n_layers)
        for theirs, ours in _LAYER
    )
    return (*_EMBEDDING, *layers)


def task_rules(n_layers: int, head: Rules) -> Rules:
    """The table of a fine-tuned model; `head` is `CLASSIFIER` or `TAGGER`."""
    below = tuple((theirs, f"encoder.{ours}") for theirs, ours in encoder_rules(n_layers))
    return (*below, *head)


def original_config(state: Mapping[str, Tensor], *, n_heads: int, dropout: float) -> KBERTConfig:
    """The configuration under which our model computes what the original does.

    Sizes are read off the weights; raises `CheckpointError` where there is none to read.
    """
    try:
        n_words, width = state["embedding.word_embedding.weight"].shape
        n_positions = len(state["embedding.position_embedding.weight"])
        n_segments = len(state["embedding.segment_embedding.weight"])
        inner = len(state["encoder.transformer.0.feed_forward.linear_1.weight"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(
            f"this is not a UER encoder: {error} is missing or misshapen"
        ) from error
    if width % n_heads:
        raise ConfigError(f"n_heads is {n_heads}, which does not divide the width {width}")
    return KBERTConfig(
        host={
            "model_type": "bert",
            "vocab_size": n_words,
            "hidden_size": width,
            "num_hidden_layers": n_numbered(state, "encoder.transformer."),
            "num_attention_heads": n_heads,
            "intermediate_size": inner,
            "max_position_embeddings": n_positions,
            "type_vocab_size": n_segments,
            "hidden_act": "gelu",
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
            "pad_token_id": 0,
        },
        layer_norm="uer",
        mask="uer",
        segment_offset=1,
        pooler="target.nsp_linear_1.weight" in state,
    )


def from_original(
    state: Mapping[str, Tensor],
    config: KBERTConfig,
    *,
    labels: tuple[str, ...] = (),
    pooling: str = "first",
) -> KnowledgeModel:
    """The encoder, or with an original head the whole model, with the original's weights.

    `labels` name the classes of a head (numbers by default); `pooling` is the classifier's. Raises
    `CheckpointError` naming every missing or unexpected weight.
    """
    n_layers = config.host.num_hidden_layers
    kept = {name: value for name, value in state.items() if name not in PRETRAINING_HEADS}
    classes = next((n for n in ("output_layer_2.bias", "output_layer.bias") if n in state), None)
    model: KnowledgeModel
    if classes is None:
        model, rules = KBERT(config), encoder_rules(n_layers)
    else:
        n_classes = len(state[classes])
        names = labels or tuple(map(str, range(n_classes)))
        if len(names) != n_classes:
            raise ConfigError(f"{len(names)} labels for a head of {n_classes} classes: {names}")
        is_tagger = classes == "output_layer.bias"
        options = {"dropout": 0.0} if is_tagger else {"pooling": pooling, "over": "all"}
        model = KnowledgeForTask.of(
            KBERT(config),
            "tagging" if is_tagger else "uer",
            names,
            problem_type=TAGGING if is_tagger else SINGLE,
            **options,
        )
        rules = task_rules(n_layers, TAGGER if is_tagger else CLASSIFIER)
    load_strictly(model, to_ours(kept, rules))
    model.eval()
    return model


def convert(
    path: Path,
    *,
    n_heads: int = 12,
    dropout: float = 0.1,
    labels: str = "",
    pooling: str = "first",
    vocabulary: Path | None = None,
    lower_case: bool = False,
    kg: Path | None = None,
) -> KnowledgeModel:
    """A `.bin` file of K-BERT or UER as a model of ours, ready for `save_pretrained`.

    `n_heads`, `dropout`: from the original's configuration file, since weights do not determine
    them. `labels`: names of the classes, comma-separated, in the original's order. `pooling`: the
    one the classifier was trained with. Pre-training heads (`target.*`) stay behind, but for the
    pooler. `vocabulary`: the original's list of tokens, whose tokenizer is then saved with the
    model. `kg`: the graph that the model will be used with; without it the model belongs to none,
    and loading it with a graph is refused.
    """
    state = read_state(path)
    config = original_config(state, n_heads=n_heads, dropout=dropout)
    if kg is not None:
        config.update(graph_fields(KnowledgeGraph.open(kg)))
    names = tuple(name.strip() for name in labels.split(",")) if labels else ()
    model = from_original(state, config, labels=names, pooling=pooling)
    if vocabulary is not None:
        model.tokenizer = read_vocabulary(vocabulary, lower_case=lower_case)
        if len(model.tokenizer) != config.host.vocab_size:
            raise CheckpointError(
                f"{vocabulary} lists {len(model.tokenizer)} tokens, {path} has rows for "
                f"{config.host.vocab_size}"
            )
    return model


def read_vocabulary(path: Path, *, lower_case: bool) -> BertTokenizerFast:
    """The tokenizer of a UER vocabulary file, one token per line.

    The original splits everything into characters; this tokenizer does so with Chinese, and splits
    other scripts into word pieces, as in the vocabulary's pre-training. It keeps case as the
    original does, unless `lower_case`.
    """
    try:
        tokens = [line.rstrip("\r") for line in path.read_text("utf-8").rstrip("\n").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read as a list of tokens: {error}") from error
    missing = [token for token in SPECIAL_TOKENS if token not in tokens]
    if missing or len(set(tokens)) < len(tokens):
        raise CheckpointError(f"{path} lists a token twice, or lacks {missing}")
    return BertTokenizerFast(
        vocab={token: i for i, token in enumerate(tokens)}, do_lower_case=lower_case
    )
